//! What `iolens record` says: its first lines, its progress line, its summary.

use std::fmt::Write as _;
use std::path::Path;

use indicatif::{BinaryBytes, HumanCount};
use iolens_core::model::{RecorderCost, Source};

/// What a finished recording amounts to.
#[derive(Debug, Clone)]
pub struct RecordSummary {
    /// Where the observations came from.
    pub source: Source,
    /// Length in nanoseconds.
    pub duration_ns: i64,
    /// I/Os stored.
    pub ios: i64,
    /// I/Os lost.
    pub lost: i64,
    /// I/Os whose start was before the recording.
    pub censored: i64,
    /// Those of the lost for which there was no room on the disk.
    pub unwritten: i64,
    /// Size of the directory.
    pub disk_bytes: u64,
    /// What the recorder cost.
    pub cost: RecorderCost,
}

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
    let _ = writeln!(out, "iolens: recording {what} (source: {source}) into {}; Ctrl-C ends it", path.display());
    out
}

/// The progress line: time, I/Os per second, I/Os, losses, bytes on disk.
pub fn progress(at_ns: i64, ios_per_s: f64, ios: i64, lost: i64, disk_bytes: u64, disk_full: bool) -> String {
    let full = if disk_full { "  DISK FULL: counting only" } else { "" };
    format!(
        "{:>7.1} s  {:>9} I/O/s  {} I/Os  {} lost  {} on disk{full}",
        at_ns as f64 / 1e9,
        HumanCount(ios_per_s.max(0.0) as u64).to_string(),
        HumanCount(ios.max(0) as u64),
        HumanCount(lost.max(0) as u64),
        BinaryBytes(disk_bytes),
    )
}

/// The lines after it.
pub fn summary(s: &RecordSummary) -> String {
    let mut out = String::new();
    let seconds = s.duration_ns as f64 / 1e9;
    let _ = write!(out, "{:.1} s recorded from {}: ", seconds, s.source);
    match s.source {
        Source::Counters => out.push_str("counters only, no single I/O"),
        _ => {
            let _ = write!(out, "{} I/Os, {} lost", HumanCount(s.ios.max(0) as u64), HumanCount(s.lost.max(0) as u64));
            if s.unwritten > 0 {
                let _ = write!(out, " ({} because the disk was full)", HumanCount(s.unwritten as u64));
            }
            if s.censored > 0 {
                let _ = write!(out, ", {} already in flight at the start", HumanCount(s.censored as u64));
            }
        }
    }
    out.push('\n');
    let _ = write!(out, "{} on disk", BinaryBytes(s.disk_bytes));
    if s.ios > 0 {
        let _ = write!(out, " ({:.1} bytes per I/O)", s.disk_bytes as f64 / s.ios as f64);
    }
    if let Some(cpu_s) = s.cost.cpu_s.filter(|_| seconds > 0.0) {
        let _ = write!(out, "; the recorder used {:.2} % of one CPU", cpu_s / seconds * 100.0);
    }
    if let Some(rss) = s.cost.max_rss_bytes {
        let _ = write!(out, " and {} of memory at most", BinaryBytes(rss));
    }
    out.push('\n');
    out
}

/// The line about file-level requests.
pub fn requests(n: i64, lost: i64, path: &Path) -> String {
    let (n, lost) = (HumanCount(n.max(0) as u64), HumanCount(lost.max(0) as u64));
    format!("{n} file-level requests, {lost} lost: iolens files {}\n", shell_word(path))
}

/// What to do with a recording.
pub fn hints(path: &Path) -> String {
    format!("  iolens report {0}\n  iolens zoom {0} --step 10ms -x\n", shell_word(path))
}

/// `path` as a shell would need it typed.
pub fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./+,=:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
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
            cost: RecorderCost { cpu_s: Some(0.05), probe_cpu_s: None, max_rss_bytes: Some(20 << 20) },
        };
        assert_eq!(
            summary(&s),
            "10.0 s recorded from ebpf: 12,345 I/Os, 4,384 lost (4,382 because the disk was full), 1 already in flight at \
             the start\n\
             120.56 KiB on disk (10.0 bytes per I/O); the recorder used 0.50 % of one CPU and 20.00 MiB of memory at most\n"
        );
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
        assert!(summary(&none).starts_with("10.0 s recorded from counters: counters only, no single I/O\n"));
    }

    #[test]
    fn progress_tells_of_a_full_disk() {
        let line = progress(61_500_000_000, 234_000.4, 1_000_000, 3, 10 << 20, true);
        assert_eq!(
            line,
            "   61.5 s    234,000 I/O/s  1,000,000 I/Os  3 lost  10.00 MiB on disk  DISK FULL: counting only"
        );
    }
}
