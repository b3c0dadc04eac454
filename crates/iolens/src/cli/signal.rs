//! Plans of `util` and `throttle`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use iolens_recorder::SourceChoice;

use super::parse_duration_ns;
use super::source::source_choice;

/// Utilisation of the disks under a path: path, file system, devices, disks
///
/// Resolves LVM, crypt, RAID, partitions, loop devices, btrfs, overlay and bind mounts down to the disks, and shows which
/// disks two paths share. Busy time is exact if eBPF is allowed, otherwise from the kernel's counters, corrected for the
/// known bias of this kernel. A path without a disk (tmpfs, a network file system) is reported as such, and is null in
/// JSON.
///
/// Examples:
///   iolens util                                every mounted local file system
///   iolens util --path /data --path /logs      two paths
///   iolens util --path /data --json --watch 1s | jq '.paths[].max_percent'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct UtilPlan {
    /// A file, directory or block device; may be repeated [default: every mounted local file system]
    #[arg(short, long = "path", value_name = "P")]
    pub paths: Vec<PathBuf>,
    /// Print JSON: one document, or one per line with --watch
    #[arg(long)]
    pub json: bool,
    /// Print a result every DUR until interrupted
    #[arg(short, long = "watch", value_name = "DUR", value_parser = parse_duration_ns)]
    pub watch_ns: Option<i64>,
    /// How long to measure without --watch
    #[arg(
        long = "interval",
        value_name = "DUR",
        value_parser = parse_duration_ns,
        default_value = "1s",
        conflicts_with = "watch_ns"
    )]
    pub interval_ns: i64,
    /// Where busy time comes from
    #[arg(long, value_parser = source_choice(), default_value = "auto")]
    pub source: SourceChoice,
}

/// Throttle CMD while the disks under PATH are busy with other work
///
/// CMD and its children run for a share of the time that depends on the disks' utilisation: all of it while the disks are
/// idle, less as they get busier, and never less than the floor. If eBPF is allowed, CMD's own I/O is separated from that
/// of other work, and without other work CMD runs freely. CMD is never left stopped, not even if iolens is killed. Its exit
/// code is passed through (126: cannot be run, 127: not found), signals are passed on, Ctrl-Z stops both.
///
/// While CMD is held, files that it writes on these disks are written back at its pace; otherwise the kernel would write
/// them all at once later and delay other I/O.
///
/// Examples:
///   iolens throttle --path /data -- rsync -a /data/ /backup/
///   iolens throttle --path /data --latency-slo 10ms -- tar cf /b/data.tar /data
///   iolens throttle --path /data --low 20 --high 40 --log t.ndjson -- ./scrub.sh
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct ThrottlePlan {
    /// Protect the disks under this file, directory or block device; may be repeated
    #[arg(short, long = "path", value_name = "P", required = true)]
    pub paths: Vec<PathBuf>,
    /// Below this utilisation CMD runs freely, in percent; at least 10 below --high
    #[arg(long, value_name = "PERCENT", default_value_t = 60.0)]
    pub low: f64,
    /// Above this utilisation CMD yields, in percent; the target is the middle of low and high
    #[arg(long, value_name = "PERCENT", default_value_t = 80.0)]
    pub high: f64,
    /// From this utilisation on CMD yields at once, in percent; above --high
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    pub max: f64,
    /// Limit of other work's p99 latency while CMD runs; needs eBPF
    #[arg(long = "latency-slo", value_name = "DUR", value_parser = parse_duration_ns)]
    pub latency_slo_ns: Option<i64>,
    /// Minimum share of the time for CMD, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub floor: f64,
    /// Time between decisions
    #[arg(long = "interval", value_name = "DUR", value_parser = parse_duration_ns, default_value = "1s")]
    pub interval_ns: i64,
    /// Where utilisation comes from
    #[arg(long, value_parser = source_choice(), default_value = "auto")]
    pub source: SourceChoice,
    /// How CMD is held; auto uses the first of freezer, io-max and signals that this machine allows
    #[arg(long, value_enum, default_value_t = ActuatorChoice::Auto)]
    pub actuator: ActuatorChoice,
    /// Write every decision to this file, one JSON document per line
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// If iolens is killed, end CMD too (SIGTERM, after 10 s SIGKILL), instead of letting it run without a throttle
    #[arg(long)]
    pub kill_with: bool,
    /// Print no status line and no summary
    #[arg(short, long)]
    pub quiet: bool,
    /// The command
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<OsString>,
}

/// How a command is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ActuatorChoice {
    /// The first that this machine allows: freezer, io-max, signals
    Auto,
    /// The freezer of a control group (version 2, else 1)
    Freezer,
    /// A limit of bytes per second on the protected disks (io.max of version 2, else blkio.throttle of version 1)
    IoMax,
    /// SIGSTOP and SIGCONT to the command's process group; it gets no controlling terminal
    Signals,
}

/// Resume a command when iolens is gone: how `throttle` keeps its promise
#[derive(Debug, Args)]
pub struct GuardPlan {
    /// Start another, which is no child of the caller, and end
    #[arg(long)]
    pub detach: bool,
    /// Make a session of its own
    #[arg(long)]
    pub session: bool,
}

/// Become a command inside control groups: how `throttle` starts its command
#[derive(Debug, Args)]
pub struct EnterPlan {
    /// Make a session of its own
    #[arg(long)]
    pub session: bool,
    /// Directory of a control group
    #[arg(long = "group", value_name = "DIR")]
    pub groups: Vec<PathBuf>,
    /// Where to write a byte if there is no becoming it
    #[arg(long, value_name = "FILE")]
    pub tell: Option<PathBuf>,
    /// The command
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<OsString>,
}
