//! What `throttle` says: the status line, the summary, the log.

use std::fmt::Write;
use std::time::Duration;

use iolens_core::analysis::device::utilisation::Method;
use iolens_core::model::Histogram;
use serde_json::json;

use super::layout::{self, size};

/// One decision and what led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct ThrottleStep {
    /// Wall clock, seconds since the Unix epoch.
    pub unix_s: f64,
    /// Utilisation of the busiest disk in percent.
    pub busy_percent: Option<f64>,
    /// How it is known.
    pub method: Option<Method>,
    /// The same without the command's own I/O.
    pub foreground_percent: Option<f64>,
    /// 99th percentile of the latencies of other I/Os in nanoseconds, and their number.
    pub foreground_p99_ns: Option<(i64, u64)>,
    /// Bytes that the command's own I/Os moved on the disks.
    pub own_bytes: Option<u64>,
    /// `off`, `hold`, `throttle`, `emergency`, `blind`.
    pub mode: &'static str,
    /// Share of the time that the command gets until the next step, 0 to 1.
    pub duty: f64,
    /// Time that it has been held so far.
    pub held: Duration,
}

fn percent(v: Option<f64>) -> String {
    layout::percent(v, 0, "-")
}

/// The status line, without control characters.
pub fn status(s: &ThrottleStep) -> String {
    let others = s
        .foreground_percent
        .map_or(String::new(), |f| format!(" (others {f:.0} %)"));
    let p99 = s.foreground_p99_ns.map_or(String::new(), |(ns, _)| {
        format!(", their p99 {:.1} ms", ns as f64 / 1e6)
    });
    format!(
        "disks {}{others}{p99}; {}: the command runs {:.0} % of the time, held for {:.1} s",
        percent(s.busy_percent),
        s.mode,
        100.0 * s.duty,
        s.held.as_secs_f64()
    )
}

/// A line of the log.
pub fn log_line(s: &ThrottleStep) -> String {
    let document = json!({
        "time_unix_s": s.unix_s,
        "busy_percent": s.busy_percent,
        "method": s.method.map(Method::name),
        "foreground_percent": s.foreground_percent,
        "foreground_p99_us": s.foreground_p99_ns.map(|(ns, _)| ns as f64 / 1e3),
        "foreground_ios": s.foreground_p99_ns.map(|(_, n)| n),
        "own_bytes": s.own_bytes,
        "mode": s.mode,
        "duty_percent": 100.0 * s.duty,
        "held_s": s.held.as_secs_f64(),
    });
    format!("{document}\n")
}

/// What it was like while the command was held, or while it was not.
#[derive(Debug, Clone, Default)]
pub struct Share {
    /// Intervals.
    pub n: u64,
    /// Sum of utilisation in percent, over intervals in which it was known.
    pub busy: (f64, u64),
    /// The same without the command's own I/O.
    pub foreground: (f64, u64),
    /// Latencies of other I/Os in nanoseconds.
    pub latency: Histogram,
}

/// How it went.
#[derive(Debug, Clone)]
pub struct Summary {
    /// From the command's start to its end.
    pub took: Duration,
    /// Of that, held.
    pub held: Duration,
    /// Bytes that the command read from and wrote to disks, as the kernel counts them for processes.
    pub moved_bytes: Option<(u64, u64)>,
    /// With what it was held.
    pub actuator: &'static str,
    /// `ebpf` or `counters`.
    pub source: &'static str,
    /// Whether its own I/O was separated from others'.
    pub attributed: bool,
    /// Intervals in which it was held.
    pub holding: Share,
    /// Intervals in which it ran freely.
    pub free: Share,
}

/// The summary, several lines.
pub fn summary(s: &Summary) -> String {
    let mut out = String::new();
    let share = 100.0 * s.held.as_secs_f64() / s.took.as_secs_f64().max(1e-9);
    let _ = writeln!(
        out,
        "throttled {:.1} s of {:.1} s ({share:.0} %) via {}; source {}{}",
        s.held.as_secs_f64(),
        s.took.as_secs_f64(),
        s.actuator,
        s.source,
        if s.attributed {
            ""
        } else {
            "; could not separate CMD's own I/O"
        }
    );
    if let Some((read, written)) = s.moved_bytes {
        let _ = writeln!(
            out,
            "CMD read {} and wrote {}",
            size(read as f64),
            size(written as f64)
        );
    }
    for (name, share) in [("while throttled", &s.holding), ("running freely", &s.free)] {
        if share.n > 0 {
            out.push_str(&share_line(name, share, s.attributed));
        }
    }
    out
}

fn share_line(name: &str, s: &Share, attributed: bool) -> String {
    let busy = mean_percent(s.busy);
    let intervals = layout::count_of(s.n, "interval");
    let mut out = format!("{name} ({intervals}): disks {busy} busy");
    if attributed {
        let _ = write!(
            out,
            ", others {}, their I/Os: median {}, p99 {} (n = {})",
            mean_percent(s.foreground),
            milliseconds(s.latency.quantile(0.5)),
            milliseconds(s.latency.quantile(0.99)),
            s.latency.n()
        );
    }
    out.push('\n');
    out
}

/// The mean of so many percentages, of which the sum is known.
fn mean_percent((sum, n): (f64, u64)) -> String {
    percent((n > 0).then(|| sum / n as f64))
}

fn milliseconds(ns: Option<i64>) -> String {
    match ns {
        Some(ns) => format!("{:.2} ms", ns as f64 / 1e6),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> ThrottleStep {
        ThrottleStep {
            unix_s: 1.5,
            busy_percent: None,
            method: None,
            foreground_percent: None,
            foreground_p99_ns: Some((12_345_678, 40)),
            own_bytes: None,
            mode: "blind",
            duty: 0.02,
            held: Duration::from_millis(1500),
        }
    }

    #[test]
    fn what_is_not_known_is_null_in_the_log_and_a_dash_on_the_screen() {
        let line: serde_json::Value = serde_json::from_str(&log_line(&step())).expect("JSON");
        assert!(line["busy_percent"].is_null() && line["own_bytes"].is_null());
        assert_eq!(
            (&line["foreground_ios"], &line["mode"]),
            (&json!(40), &json!("blind"))
        );
        assert_eq!(
            status(&step()),
            "disks -, their p99 12.3 ms; blind: the command runs 2 % of the time, held for 1.5 s"
        );
    }

    #[test]
    fn the_summary_tells_holding_from_running_freely() {
        let mut holding = Share {
            n: 2,
            busy: (140.0, 2),
            foreground: (60.0, 2),
            ..Share::default()
        };
        holding.latency.add(2_000_000);
        let s = Summary {
            took: Duration::from_secs(10),
            held: Duration::from_secs(4),
            moved_bytes: Some((1 << 20, 3 << 20)),
            actuator: "cgroup v2 freezer",
            source: "ebpf",
            attributed: true,
            holding,
            free: Share::default(),
        };
        let text = summary(&s);
        assert!(
            text.contains("throttled 4.0 s of 10.0 s (40 %) via cgroup v2 freezer; source ebpf\n"),
            "{text}"
        );
        assert!(text.contains("read 1.05 MB and wrote 3.15 MB"), "{text}");
        assert!(
            text.contains("while throttled (2 intervals): disks 70 % busy, others 30 %"),
            "{text}"
        );
        assert!(!text.contains("freely"), "{text}");
    }
}
