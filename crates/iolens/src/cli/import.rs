//! `iolens import`.

use std::path::PathBuf;

use clap::Args;
use iolens_core::model::RecordingMeta;

use super::share::ShareArgs;
use crate::units::{Instant, parse_duration_ns, parse_instant};

/// Convert other tools' logs to a recording
///
/// Supported formats: iostat (text of any version and options, JSON; Solaris, illumos and FreeBSD), sar -d and sadf (text,
/// CSV, JSON), copies of /proc/diskstats, fio (JSON, JSON+, bandwidth, latency and IOPS logs), blktrace, biosnoop (bcc and
/// libbpf-tools), perf script with block events, and tables of "time r/s Kr/s us/r w/s Kw/s us/w". The format is recognised
/// by the content. Several files become one recording; the files of blktrace are read together. Values that a log does not
/// contain stay unknown, and the recording lists them.
///
/// Examples:
///   iolens import iostat.log -o iostat.iolens
///   iolens import sda.blktrace.* -o sda.iolens
///   sadf -d /var/log/sysstat/sa24 -- -d -u | iolens import - -o day.iolens
///   iolens import --interval 15s solaris.txt -o old.iolens  without time stamps
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct ImportPlan {
    /// The logs; - is standard input; gzip is decompressed
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Directory to write; must not exist yet
    #[arg(short, long, value_name = "REC")]
    pub output: PathBuf,
    /// Treat a damaged line as an error instead of skipping it
    #[arg(long)]
    pub strict: bool,
    /// Length of an interval, for tables that have no time stamps
    #[arg(long, value_name = "DUR", value_parser = parse_duration_ns)]
    pub interval: Option<i64>,
    /// Wall clock of the first instant, for logs that have no date or only a day (2026-11-21T05:48:00Z)
    #[arg(long, value_name = "T", value_parser = parse_wall)]
    pub start: Option<i64>,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub share: ShareArgs,
}

/// A wall-clock time at which a recording can begin, as nanoseconds since the Unix epoch.
fn parse_wall(s: &str) -> Result<i64, String> {
    let Ok(Instant::Wall(at)) = parse_instant(s).map(Instant::until_now) else {
        return Err("expected a wall-clock time, such as 2026-11-21T05:48:00Z".to_owned());
    };
    i64::try_from(at.as_nanosecond())
        .ok()
        .filter(|ns| RecordingMeta::STARTS_UNIX_NS.contains(ns))
        .ok_or_else(|| RecordingMeta::STARTS.to_owned())
}
