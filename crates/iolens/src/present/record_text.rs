//! What `iolens record` says: its first lines, its progress line, its summary.

use std::fmt::Write as _;
use std::path::Path;

use indicatif::HumanCount;
use iolens_core::model::{RecorderCost, Source};
use iolens_recorder::RecordSummary;

use super::escape;
use super::layout::{count_of, size};

/// The lines before recording begins; `limits` says what this source cannot show and why.
pub fn started(source: &Source, limits: &[String], path: &Path) -> String {
    let mut out = String::new();
    for limit in limits {
        let _ = writeln!(out, "iolens: {limit}");
    }
    let what = match source {
        Source::Ebpf => "every block I/O",
        _ => "counters",
    };
    let _ = writeln!(
        out,
        "iolens: recording {what} (source: {source}) into {}; Ctrl-C ends it",
        path.display()
    );
    out
}

/// The progress line: time, I/Os per second, I/Os, losses, bytes on disk.
pub fn progress(
    at_ns: i64,
    ios_per_s: f64,
    ios: i64,
    lost: i64,
    disk_bytes: u64,
    disk_full: bool,
) -> String {
    let full = if disk_full {
        "  DISK FULL: counting only"
    } else {
        ""
    };
    format!(
        "{:>7.1} s  {:>9} IOPS  {}  {} lost  {} on disk{full}",
        at_ns as f64 / 1e9,
        HumanCount(ios_per_s.max(0.0) as u64).to_string(),
        count_of(ios.max(0) as u64, "I/O"),
        HumanCount(lost.max(0) as u64),
        size(disk_bytes as f64),
    )
}

/// The lines after it.
pub fn summary(s: &RecordSummary) -> String {
    let seconds = s.duration_ns as f64 / 1e9;
    let mut out = format!("{seconds:.1} s recorded from {}: {}", s.source, counts(s));
    out.push('\n');
    let _ = write!(out, "{} on disk", size(s.disk_bytes as f64));
    if s.ios > 0 {
        let _ = write!(
            out,
            " ({:.1} bytes per I/O)",
            s.disk_bytes as f64 / s.ios as f64
        );
    }
    out.push('\n');
    out.push_str(&overhead(&s.cost, seconds));
    out
}

/// The line of a quiet recording that the disk had no room for.
pub fn incomplete(s: &RecordSummary, path: &Path) -> String {
    format!("iolens: {}: {}\n", path.display(), counts(s))
}

/// The line about a command that the recording ended before.
pub fn still_runs(name: &str, pid: u32) -> String {
    format!(
        "iolens: {name} (process {pid}) still runs; the recording does not wait for it any longer\n"
    )
}

/// I/Os that were recorded, lost, and in flight at the start.
fn counts(s: &RecordSummary) -> String {
    if s.source == Source::Counters {
        return "counters only, no single I/O".to_owned();
    }
    let recorded = count_of(s.ios.max(0) as u64, "I/O");
    let mut out = format!("{recorded}, {} lost", HumanCount(s.lost.max(0) as u64));
    if s.unwritten > 0 {
        let unwritten = HumanCount(s.unwritten as u64);
        let _ = write!(out, " ({unwritten} because the disk was full)");
    }
    if s.censored > 0 {
        let censored = HumanCount(s.censored as u64);
        let _ = write!(out, ", {censored} already in flight at the start");
    }
    out
}

/// What recording for `seconds` cost: the recorder and the probes apart, and what it took to start apart from both.
fn overhead(cost: &RecorderCost, seconds: f64) -> String {
    let Some(cpu_s) = cost.cpu_s.filter(|_| seconds > 0.0) else {
        return String::new();
    };
    let recorder = of_cpu(cpu_s, seconds);
    let mut out = format!("recorder overhead: {recorder} in user space");
    match cost.probe_cpu_s {
        Some(s) => {
            let probes = of_cpu(s, seconds);
            let _ = write!(out, ", {probes} in BPF probes");
        }
        None => out.push_str(", BPF probes not measured"),
    }
    if let Some(s) = cost.startup_cpu_s {
        let _ = write!(out, "; start-up {s:.2} s CPU");
    }
    if let Some(rss) = cost.max_rss_bytes {
        let _ = write!(out, "; peak RSS {}", size(rss as f64));
    }
    out + "\n"
}

/// CPU time, and which part of a CPU it was for `seconds`.
fn of_cpu(cpu_s: f64, seconds: f64) -> String {
    let percent = 100.0 * cpu_s / seconds;
    format!("{cpu_s:.2} s CPU ({percent:.2} % of one CPU)")
}

/// The line about file-level requests.
pub fn requests(n: i64, lost: i64, path: &Path) -> String {
    let n = count_of(n.max(0) as u64, "file-level request");
    let lost = HumanCount(lost.max(0) as u64);
    format!("{n}, {lost} lost: iolens files {}\n", shell_word(path))
}

/// What to do with a recording.
pub fn hints(path: &Path) -> String {
    format!(
        "  iolens report {0}\n  iolens zoom {0} --step 10ms -x\n",
        shell_word(path)
    )
}

/// `path` as a shell would need it typed.
pub fn shell_word(path: &Path) -> String {
    escape::shell(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_was_recorded_lost_and_what_it_cost() {
        let s = RecordSummary {
            source: Source::Ebpf,
            duration_ns: 10_000_000_000,
            ios: 12_345,
            lost: 4384,
            censored: 1,
            unwritten: 4382,
            disk_bytes: 123_450,
            cost: RecorderCost {
                cpu_s: Some(0.05),
                startup_cpu_s: Some(0.31),
                probe_cpu_s: None,
                max_rss_bytes: Some(20 << 20),
            },
        };
        assert_eq!(
            summary(&s),
            "10.0 s recorded from ebpf: 12,345 I/Os, 4,384 lost (4,382 because the disk was full), 1 already in flight at \
             the start\n\
             123 kB on disk (10.0 bytes per I/O)\n\
             recorder overhead: 0.05 s CPU (0.50 % of one CPU) in user space, BPF probes not measured; start-up 0.31 s CPU; \
             peak RSS 21.0 MB\n"
        );
        assert_eq!(
            incomplete(&s, Path::new("db.iolens")),
            "iolens: db.iolens: 12,345 I/Os, 4,384 lost (4,382 because the disk was full), 1 already in flight at the start\n"
        );
        let measured = RecorderCost {
            probe_cpu_s: Some(0.01),
            ..s.cost
        };
        assert!(overhead(&measured, 2.0).contains(
            "(2.50 % of one CPU) in user space, 0.01 s CPU (0.50 % of one CPU) in BPF probes;"
        ));
        assert!(hints(Path::new("a b.iolens")).contains("iolens report 'a b.iolens'\n"));
        let none = RecordSummary {
            ios: 0,
            lost: 0,
            censored: 0,
            unwritten: 0,
            source: Source::Counters,
            cost: RecorderCost::default(),
            ..s
        };
        assert!(
            summary(&none)
                .starts_with("10.0 s recorded from counters: counters only, no single I/O\n")
        );
    }

    #[test]
    fn progress_tells_of_a_full_disk() {
        let line = progress(61_500_000_000, 234_000.4, 1_000_000, 3, 10 << 20, true);
        assert_eq!(
            line,
            "   61.5 s    234,000 IOPS  1,000,000 I/Os  3 lost  10.5 MB on disk  DISK FULL: counting only"
        );
    }
}
