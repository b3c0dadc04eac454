//! The details of one device as lines of the text report. Periods and the dependence on the binning are only in the
//! document (`--json`), because they are misleading without their intervals and p-values.

use std::fmt::Write;

use iolens_core::analysis::capacity::{Room, State};
use iolens_core::analysis::counters::io_ticks::{UtilCheck, Verdict as Util};
use iolens_core::analysis::device::detail::DeviceDetail;
use iolens_core::analysis::device::slots::{SLOT_NS, SlotGroup, SlotQuantiles, SlotSummary};
use iolens_core::analysis::device::stages::{Stage, StagesSummary};
use iolens_core::analysis::latency::stalls::Stalls;

use super::html::capacity::summary;
use super::layout::{Layout, size};
use super::times::Times;

/// Maximum number of groups of slots printed; `--json` has all.
const MAX_GROUPS: usize = 12;

/// The lines under a device.
pub fn detail(out: &mut String, d: &DeviceDetail, times: &Times, layout: Layout) {
    let mut text = String::new();
    lines(&mut text, d, times);
    out.push_str(&layout.sentences(&text));
    slots(out, &d.slots, times, layout);
}

fn lines(out: &mut String, d: &DeviceDetail, times: &Times) {
    if let Some(u) = &d.util {
        util(out, u);
    }
    stages(out, &d.stages);
    gaps_of_the_host(out, &d.stalls);
    capacity(out, d, times);
    if let Some(p) = d.peak_hour {
        let _ = writeln!(
            out,
            "  busiest hour: from {}, {:.1} I/Os/s, {:.2} times the mean",
            times.instant_to(p.from_ns, 0),
            p.ios_per_s,
            p.ratio
        );
    }
}

fn util(out: &mut String, u: &UtilCheck) {
    let _ = writeln!(out, "  %util: {}", util_sentence(u));
}

/// The sentence about the kernel's %util, the exact value, and the reason for the difference. The bias of this
/// kernel's estimator is a reason only if there is a difference and the kernel counted the value.
pub(super) fn util_sentence(u: &UtilCheck) -> String {
    let kernel = u.util_io_ticks_percent;
    let exact = u.busy_percent;
    let verdict = match u.verdict {
        Util::Ok => {
            let sigma = u.sigma_pp.map(|s| format!(" (1 sigma {s:.2} pp)"));
            return format!(
                "{kernel:.2} %, right within its resolution{}: exactly {exact:.2} %",
                sigma.unwrap_or_default()
            );
        }
        Util::BiasedHigh => "too high",
        Util::BiasedLow => "too low",
        Util::Impossible => "impossible",
    };
    let why = match (u.expected_percent, u.estimator_agrees) {
        (Some(expected), Some(true)) => {
            format!("; this kernel's estimator counts {expected:.2} % for these I/Os")
        }
        (Some(expected), _) => {
            format!("; this kernel's estimator does not explain it: it would count {expected:.2} %")
        }
        (None, _) => String::new(),
    };
    format!("{kernel:.2} % is {verdict}: exactly {exact:.2} %{why}")
}

/// Adds the gaps without a completion that are not stalls of the device.
fn gaps_of_the_host(out: &mut String, stalls: &Stalls) {
    let explained = stalls.stalls.iter().filter(|s| s.cpu_shortage.is_some());
    let lengths_ns: Vec<i64> = explained.map(|s| s.to_ns - s.from_ns).collect();
    let Some(longest_ns) = lengths_ns.iter().max() else {
        return;
    };
    let _ = writeln!(
        out,
        "  stalls: {} gaps without a completion, up to {:.1} ms, are the host's CPUs (late timer, steal or pressure), not the \
         device",
        lengths_ns.len(),
        *longest_ns as f64 / 1e6
    );
}

fn stages(out: &mut String, s: &StagesSummary) {
    let parts = [
        stage("queue", &s.s2d),
        stage("device", &s.d2c).map(|text| format!("{text}, n {}", s.d2c.n)),
        s.depth_at_issue
            .map(|n| format!("mean queue depth at issue {n:.2}")),
        s.seek_p50_sectors
            .map(|n| format!("median seek {}", size(n as f64 * 512.0))),
        s.turn_percent
            .map(|p| format!("read/write switches {p:.1} % of requests")),
    ];
    let _ = writeln!(out, "  stages: {}", known(parts));
    // Few sources report single bios. With requests only, the time before the request was allocated is not known.
    if let Some(b) = &s.bios {
        let named = [
            ("Q2G", &b.q2g),
            ("G2I", &b.g2i),
            ("Q2M", &b.q2m),
            ("I2D", &b.i2d),
            ("M2D", &b.m2d),
            ("D2C", &b.d2c),
        ];
        let parts = named.map(|(name, s)| stage(name, s).map(|text| format!("{text}, n {}", s.n)));
        let whole = stage("Q2C", &b.q2c).unwrap_or_default();
        let _ = writeln!(out, "  bios: {}; {whole}, n {}", known(parts), b.q2c.n);
    }
}

/// The mean time of a stage with its share, if it was observed.
fn stage(name: &str, stage: &Stage) -> Option<String> {
    let mean_us = stage.mean_us?;
    let share = match stage.share_percent {
        Some(percent) => format!(" ({percent:.1} % of the time)"),
        None => String::new(),
    };
    Some(format!("{name} mean {mean_us:.1} us{share}"))
}

/// The known ones of `parts`.
fn known<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Queue depth in short intervals, in groups (A3, A4).
pub fn slots(out: &mut String, s: &SlotSummary, times: &Times, layout: Layout) {
    if s.all.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "  queue depth per {} ms interval (p50/p75):",
        SLOT_NS as f64 / 1e6
    );
    let columns = [
        "  time",
        "class",
        "any overlap",
        "sampled",
        "mean",
        "max",
        "intervals active",
    ]
    .map(str::to_owned);
    let mut rows = Vec::new();
    for (i, all) in s.all.iter().take(MAX_GROUPS).enumerate() {
        let when = format!("  {}", times.span_to(all.from_ns, all.to_ns, 0));
        let classes = [
            ("all", Some(all)),
            ("reads", s.read.get(i)),
            ("writes", s.write.get(i)),
        ];
        let shown = classes.into_iter().filter_map(|(name, g)| Some((name, g?)));
        for (name, g) in shown.filter(|(name, g)| *name == "all" || g.touched_percent > 0.0) {
            rows.push(group(if name == "all" { &when } else { "" }, name, g));
        }
    }
    out.push_str(&layout.table(&columns, &rows, 2, |i| i < 2));
    if s.all.len() > MAX_GROUPS {
        let _ = writeln!(
            out,
            "    and {} more groups: --json",
            s.all.len() - MAX_GROUPS
        );
    }
}

fn group(when: &str, class: &str, g: &SlotGroup) -> Vec<String> {
    let active = format!("{:.2} % of {}", g.touched_percent, g.slots);
    vec![
        when.to_owned(),
        class.to_owned(),
        p50_and_p75(g.touched),
        p50_and_p75(g.sampled),
        p50_and_p75(g.mean),
        p50_and_p75(g.max),
        active,
    ]
}

fn p50_and_p75(q: SlotQuantiles) -> String {
    format!("{}/{}", short(q.p50), short(q.p75))
}

/// A number, without decimals if it is whole.
fn short(v: f64) -> String {
    if v.fract() == 0.0 {
        format!("{v:.0}")
    } else {
        format!("{v:.2}")
    }
}

fn capacity(out: &mut String, d: &DeviceDetail, times: &Times) {
    let c = &d.capacity;
    let state = serde_json::to_value(c.state).ok();
    let state = state
        .as_ref()
        .and_then(|s| s.as_str())
        .unwrap_or("unknown")
        .replace('-', " ");
    let of_device = !matches!(c.state, State::Idle | State::Inconsistent);
    let room = c.room.as_ref().filter(|_| of_device).map(room);
    let parts = [
        room,
        c.max_ios_per_s
            .filter(|_| of_device)
            .map(|x| format!("most seen {x:.0} I/Os/s")),
        c.min_us.map(|us| lightest(us, c.min_us_in_flight)),
        c.knee_in_flight
            .filter(|_| of_device)
            .map(|n| format!("knee at {n:.2} in flight, mean {:.2}", c.mean_in_flight)),
        c.headroom
            .filter(|_| of_device)
            .map(|h| format!("headroom {:.1} %", 100.0 * h)),
    ];
    let _ = writeln!(
        out,
        "  capacity: {state}: {} {}",
        summary(d, times),
        known(parts)
    );
}

/// With at least this many I/Os in flight, a device is not called unloaded.
const UNLOADED_IN_FLIGHT: f64 = 1.0;

/// The latency under the lightest observed load, which need not be light.
fn lightest(us: f64, in_flight: f64) -> String {
    if in_flight < UNLOADED_IN_FLIGHT {
        return format!("{us:.1} us when unloaded");
    }
    format!("{us:.1} us with {in_flight:.1} in flight, the lightest load seen")
}

/// The minimum headroom, if the device's limit was not observed.
fn room(room: &Room) -> String {
    let interval = room
        .interval
        .map(|(low, high)| format!(" (95 %: {low:.0} to {high:.0})"))
        .unwrap_or_default();
    format!(
        "room for at least {:.0} I/Os/s more{interval}, as {:.2} in flight took {:.1} us",
        room.ios_per_s, room.in_flight, room.mean_us
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_was_never_idle_is_not_called_unloaded() {
        assert_eq!(lightest(81.25, 0.1), "81.2 us when unloaded");
        assert_eq!(
            lightest(50_094.0, 64.0),
            "50094.0 us with 64.0 in flight, the lightest load seen"
        );
    }
}
