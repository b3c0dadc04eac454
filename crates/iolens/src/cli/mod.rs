//! argv -> typed plans; nothing else. No other module uses clap.

mod diff;
mod generate;
mod import;
pub mod iostat;
mod lab;
mod lab_fio;
mod nearest;
mod query;
mod recordings;
mod serve;
mod share;
mod signal;
mod source;

mod window;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use iolens_core::model::Class;
use iolens_recorder::SourceChoice;

pub use crate::units::{Instant, parse_duration_ns, parse_instant, parse_size};
pub use diff::DiffPlan;
pub use generate::{GeneratePlan, generate};
pub use import::ImportPlan;
pub use lab::{LabCopies, LabExperiment, LabPlan, LabPoll};
pub use lab_fio::{FioSweep, LabFio};
pub use query::QueryPlan;
pub use recordings::{CutPlan, InfoPlan, LsPlan, MergePlan, RepairPlan, VerifyPlan};
pub use serve::{Compat, DEFAULT_FREEZE_KEEP, DEFAULT_KEEP, LogChoice, ServePlan};
pub use share::ShareArgs;
pub use signal::{ActuatorChoice, EnterPlan, GuardPlan, ThrottlePlan, UtilPlan};
use source::source_choice;
pub use window::{ClockArgs, WindowArgs, typed_window};

/// The parsed command line, validated as far as argv alone allows.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // a comment on a variant would become its help instead of that of the arguments
pub enum Plan {
    Record(RecordPlan),
    Report(ReportPlan),
    Zoom(ZoomPlan),
    Live(LivePlan),
    Serve(ServePlan),
    Import(ImportPlan),
    Lab(LabPlan),
    Doctor(DoctorPlan),
    Demo(DemoPlan),
    Files(FilesPlan),
    Diff(DiffPlan),
    Query(QueryPlan),
    Info(InfoPlan),
    Ls(LsPlan),
    Verify(VerifyPlan),
    Cut(CutPlan),
    Merge(MergePlan),
    Repair(RepairPlan),
    Iostat(IostatPlan),
    Util(UtilPlan),
    Throttle(ThrottlePlan),
    Generate(GeneratePlan),
    #[command(hide = true)]
    Guard(GuardPlan),
    #[command(hide = true)]
    Enter(EnterPlan),
}

#[derive(Debug, Parser)]
#[command(
    name = "iolens",
    version,
    about = "See what your disks really did",
    long_about = "See what your disks really did: every block I/O recorded at low overhead, and explained.\n\n\
                  Start with `iolens demo`, then `iolens record`, `iolens report`, `iolens zoom`.",
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    plan: Plan,
}

/// Record every block I/O (and the counters) into a directory
///
/// Recording begins when all probes are attached; CMD is started then. It ends after --for, when CMD exits, or on Ctrl-C or
/// another signal (a signal that is ignored from the start, as by nohup, stays ignored). iolens then waits for CMD; 5 s
/// after --for or SIGTERM, or at a second Ctrl-C, the recording ends without it. Without the privileges for eBPF, the
/// kernel's counters are recorded every 10 ms instead, and the recording says so. If no I/O could be stored, as on a full
/// disk, the exit code is 2.
///
/// Examples:
///   iolens record --for 1m                 one minute of everything
///   iolens record -o db.iolens -d nvme0n1  one disk, until Ctrl-C
///   iolens record -- make -j8              a command; passes its exit code on
///   iolens record --keep 10G               a flight recorder: the newest 10 GiB
///   iolens record --files -- ./server      use of files, too: `iolens files`
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct RecordPlan {
    /// Directory to write; must not exist yet [default: iolens-DATE-TIME.iolens]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Record this disk only (name, /dev/NAME or MAJ:MIN); may be repeated [default: all disks, including new ones]
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// Stop after this time (10ms, 2s, 5m, 1h); if CMD is still running, it gets SIGTERM and 5 s to exit
    #[arg(long = "for", value_name = "DUR", value_parser = parse_duration_ns)]
    pub for_ns: Option<i64>,
    /// Never take more room on disk than this (64M, 10G), at least 4M; the oldest I/Os go first
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub keep: Option<u64>,
    /// Do not look up process, cgroup and file of each I/O (saves some 35 ns per I/O)
    #[arg(long)]
    pub no_attribution: bool,
    /// Where the I/Os come from
    #[arg(long, value_parser = source_choice(), default_value = "auto")]
    pub source: SourceChoice,
    /// Total memory of the kernel's event rings, one per CPU (rounded up to a power of two, at least 64K per CPU) [default:
    /// 8M, or 256K per CPU if that is more]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub ring: Option<u64>,
    /// Maximum time between two reads of the event rings
    #[arg(long, value_name = "DUR", value_parser = parse_duration_ns, default_value = "10ms", hide = true)]
    pub poll: i64,
    /// Interval between samples if counters are the source, at least 1ms [default: 10ms]
    #[arg(long, value_name = "DUR", value_parser = parse_duration_ns, hide_short_help = true)]
    pub counters_step: Option<i64>,
    /// Instead of a recording, save samples of the counters in this directory, for `iolens iostat --replay`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "keep", "command", "counters_step"])]
    pub counters_raw: Option<PathBuf>,
    /// Time between the samples of --counters-raw
    #[arg(
        long,
        value_name = "DUR",
        value_parser = parse_duration_ns,
        default_value = "1s",
        requires = "counters_raw",
        hide_short_help = true
    )]
    pub raw_step: i64,
    /// Also record file-level requests: every file from open to close, and every fsync (see `iolens files`). With CMD: only
    /// those of CMD and its children
    #[arg(long)]
    pub files: bool,
    /// File-level requests of this running process only; may be repeated. Implies --files, as do --comm and --cgroup; if
    /// several of them are given, all must match
    #[arg(long, value_name = "PID")]
    pub pid: Vec<i32>,
    /// Only tasks of this name (as in /proc/PID/comm, at most 15 bytes)
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,
    /// Only tasks in this control group or below it (a directory of cgroup v2)
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// File-level requests of all processes, even with CMD; implies --files
    #[arg(long, conflicts_with_all = ["pid", "comm", "cgroup"])]
    pub all_files: bool,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub share: ShareArgs,
    /// Print no progress and no summary; I/Os that did not fit on the disk are still reported
    #[arg(short, long)]
    pub quiet: bool,
    /// Run this command and record while it runs
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl RecordPlan {
    /// Whether file-level requests are recorded.
    pub fn wants_files(&self) -> bool {
        self.files
            || self.all_files
            || !self.pid.is_empty()
            || self.comm.is_some()
            || self.cgroup.is_some()
    }
}

/// File-level requests of a recording made with --files: where an application's I/O time goes
///
/// Examples:
///   iolens files web.iolens
///   iolens files db.iolens --by process
///   iolens files db.iolens --json | jq .files.classes
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct FilesPlan {
    /// The recording, or a recording root (recordings by host and start), from which the time selects
    pub recording: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Subject of a table row
    #[arg(long, value_enum, default_value_t = FilesBy::Class)]
    pub by: FilesBy,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub window: WindowArgs,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub clock: ClockArgs,
}

/// Subject of a row of `files`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FilesBy {
    /// In, out, mixed, none, sync
    Class,
    /// Each process
    Process,
    /// Each file
    Path,
    /// Each control group
    Cgroup,
}

/// All analyses of a recording: text, or one JSON document
///
/// The text is one screen: the stories that cost most time, who waited for whom, the busiest devices and processes.
///
/// Examples:
///   iolens report db.iolens
///   iolens report db.iolens --full               everything
///   iolens report db.iolens --device sda         everything about one device
///   iolens report db.iolens -o db.html           charts to look at, in one file
///   iolens report db.iolens --json | jq .devices
///   iolens report db.iolens --json --device sda
///   iolens report db.iolens --from 153 --to 155
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct ReportPlan {
    /// The recording, or a recording root (recordings by host and start), from which the time selects
    pub recording: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Also write a self-contained HTML report; an existing report is replaced, any other file is not
    #[arg(short, long, value_name = "FILE.html")]
    pub output: Option<PathBuf>,
    /// Compare bursts with the maximum throughput per second of a device (sda=500M), or of a link that several devices
    /// share (sda+sdb=2400M)
    #[arg(long = "limit", value_name = "DEV[+DEV...]=SIZE", value_parser = parse_limit)]
    pub limits: Vec<CarryLimit>,
    /// Print all findings, devices and details, not one screen
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Show stories of this program first; if there are none, whether it waited for the disk [default: the program with
    /// most I/Os]
    #[arg(long, value_name = "NAME")]
    pub victim: Option<String>,
    /// Hide a story, by its ID in JSON; may be repeated
    #[arg(long = "mute", value_name = "ID", value_parser = serve::parse_story_id)]
    pub muted: Vec<String>,
    /// Print everything about this device only; in JSON its details, and a summary of the others. May be repeated [default
    /// in JSON: all if there are up to 8 devices, otherwise the 4 with most I/Os]
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub share: ShareArgs,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub window: WindowArgs,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub clock: ClockArgs,
}

/// What devices carry together, in bytes per second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarryLimit {
    /// Names of the devices: one, or all behind one link.
    pub devices: Vec<String>,
    /// In each direction.
    pub bytes_per_s: u64,
}

fn parse_limit(text: &str) -> Result<CarryLimit, String> {
    let usage =
        "give devices and bytes per second: sda=500M, or sda+sdb=2400M for devices behind one link";
    let (devices, size) = text.rsplit_once('=').ok_or(usage)?;
    let devices: Vec<String> = devices
        .split('+')
        .map(|name| name.strip_prefix("/dev/").unwrap_or(name).to_owned())
        .collect();
    if devices.iter().any(String::is_empty) {
        return Err(usage.to_owned());
    }
    if let Some((_, name)) = devices
        .iter()
        .enumerate()
        .find(|(i, d)| devices[..*i].contains(d))
    {
        return Err(format!("{name:?} is in it twice"));
    }
    match parse_size(size)? {
        0 => Err("the limit must be above 0".to_owned()),
        bytes_per_s => Ok(CarryLimit {
            devices,
            bytes_per_s,
        }),
    }
}

/// Time series of a recording at any step down to 1 ms
///
/// Examples:
///   iolens zoom db.iolens                       one row a second
///   iolens zoom db.iolens --step 10ms --from 153 --to 155
///   iolens zoom db.iolens --by device --format csv -x
///   iolens zoom db.iolens --by process --top 5 --device nvme0n1
///   iolens zoom db.iolens --by file --process postgres --totals
///   iolens zoom db.iolens --by process --waits  where the I/O time went
///   iolens zoom /var/lib/iolens --at "yesterday 03:12"
///   iolens zoom iostat.iolens                   an imported table: its rows
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct ZoomPlan {
    /// The recording, or a recording root (recordings by host and start), from which the time selects
    pub recording: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub rows: RowArgs,
    /// Show the causes of I/O time: undisturbed, behind others, behind its own process, held above the driver, the device
    #[arg(long)]
    pub waits: bool,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub subjects: SubjectArgs,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub window: WindowArgs,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub clock: ClockArgs,
}

/// Which I/Os `zoom` shows, and which subjects of rows.
#[derive(Debug, Clone, Default, Args)]
pub struct SubjectArgs {
    /// This device only (name, /dev/NAME or MAJ:MIN), idle or not; may be repeated [default: all except idle ones]
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// I/Os of this process only: its name, its PID, or both as in `--by process` (`fio[1234]`) or in stories (`fio
    /// (1234)`)
    #[arg(long, value_name = "P")]
    pub process: Option<String>,
    /// I/Os of this control group and those below it: its path, or the last part of it
    #[arg(long, value_name = "C")]
    pub cgroup: Option<String>,
    /// I/Os of this file, or of the files below this directory: its path, or the last part of it
    #[arg(long, value_name = "F")]
    pub file: Option<String>,
    /// I/Os of this class only; discards and flushes then have columns of their own
    #[arg(long, value_name = "CLASS", value_enum)]
    pub class: Option<ClassArg>,
    /// Only the N subjects with most I/O time, or with the largest values in the column of --sort
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Order of the subjects in each interval and in the totals, largest first: a column by its name in CSV or its title in
    /// the table (including those of --waits), or io_time
    #[arg(long, value_name = "COL")]
    pub sort: Option<String>,
    /// One row for each subject, over the whole time
    #[arg(long, conflicts_with = "step")]
    pub totals: bool,
}

/// A class of I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClassArg {
    /// Reads
    Read,
    /// Writes
    Write,
    /// Discards
    Discard,
    /// Flushes
    Flush,
}

impl From<ClassArg> for Class {
    fn from(class: ClassArg) -> Class {
        match class {
            ClassArg::Read => Class::Read,
            ClassArg::Write => Class::Write,
            ClassArg::Discard => Class::Discard,
            ClassArg::Flush => Class::Flush,
        }
    }
}

/// The rows of `zoom` and `live`.
#[derive(Debug, Clone, Args)]
pub struct RowArgs {
    /// Length of a row's interval, at least 1ms [default: 1s]
    #[arg(long, value_name = "DUR", value_parser = parse_duration_ns)]
    pub step: Option<i64>,
    /// Subject of a row
    #[arg(long, value_enum, default_value_t = By::All)]
    pub by: By,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// More columns: percentiles, in-flight, busy time
    #[arg(short = 'x', long)]
    pub extended: bool,
}

impl RowArgs {
    /// The step in nanoseconds, a second unless set otherwise.
    pub fn step_ns(&self) -> i64 {
        self.step.unwrap_or(1_000_000_000)
    }
}

/// Subject of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// All devices together, each I/O once: in a stack (dm, md) only the lowest recorded layer counts
    All,
    /// Each device
    Device,
    /// Each process; for buffered writes, the process that wrote the data
    Process,
    /// Each control group
    Cgroup,
    /// Each file
    File,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// Comma-separated values with a heading
    Csv,
    /// One JSON document; with `live` one per line
    Json,
}

/// What happens now, or what a recording holds: on a terminal a screen, else the rows of `zoom`
///
/// The screen has a heat map of every I/O, who waits for whom, and what happened; `?` explains its keys. Rows are printed
/// with --plain, --json or an option for rows, and if the output is not a terminal. If eBPF is not allowed, the kernel's
/// counters are shown every 10 ms, with a note of what is missing. Recordings are shown on the screen only; `zoom` prints
/// their rows. If `serve` records this machine, the screen gets its data from that service, which needs no privileges.
///
/// Examples:
///   iolens live                         the screen; q ends it
///   iolens live db.iolens               of a recording, from its end on back
///   iolens live --at "yesterday 03:12"  of the recordings of `serve`
///   iolens live --plain                 one row a second
///   iolens live --plain --step 10ms -d nvme0n1 -x
///   iolens live --json | jq .w_us       one JSON document per line
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LivePlan {
    /// Show this recording, or the recordings of this root [default with --at: the root of the running `serve`, otherwise
    /// the default root]
    #[arg(value_name = "REC|ROOT", conflicts_with_all = ["source", "replay"])]
    pub place: Option<PathBuf>,
    /// Show the recorded time around this moment: seconds since the recording's start, or a wall-clock time
    /// (2026-11-21T05:48:00Z, 08:42:26, "yesterday 03:12", -5m, "10 min ago")
    #[arg(long, value_name = "T", value_parser = parse_instant, allow_hyphen_values = true, conflicts_with_all = ["source", "replay"])]
    pub at: Option<Instant>,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub rows: RowArgs,
    /// Trace this machine directly, even if `serve` records it
    #[arg(long)]
    pub no_serve: bool,
    /// Print rows even on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Print one JSON document per row and line (NDJSON), as --format json does
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Show this disk only; may be repeated
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// Stop after this time
    #[arg(long = "for", value_name = "DUR", value_parser = parse_duration_ns)]
    pub for_ns: Option<i64>,
    /// Where the numbers come from
    #[arg(long, value_parser = source_choice(), default_value = "auto")]
    pub source: SourceChoice,
    /// Show recorded samples of counters (see `iolens record --counters-raw`), a row per sample, without waiting
    #[arg(long, value_name = "DIR")]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub clock: ClockArgs,
}

impl LivePlan {
    /// Whether what is recorded is to be shown.
    pub fn is_of_recording(&self) -> bool {
        self.place.is_some() || self.at.is_some()
    }

    /// Whether there is a terminal for the screen.
    pub fn has_terminal() -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Whether rows are asked for, or something that only rows have.
    pub fn asks_for_rows(&self) -> bool {
        let rows = &self.rows;
        let has_row_options = rows.step.is_some()
            || rows.by != By::All
            || rows.format != Format::Table
            || rows.extended
            || self.for_ns.is_some();
        has_row_options || self.plain || self.json
    }

    /// Whether the screen is meant: both ends are a terminal, and no rows are asked for.
    pub fn has_screen(&self) -> bool {
        LivePlan::has_terminal() && !self.asks_for_rows()
    }
}

/// Which sources this machine allows, and how to enable the others
#[derive(Debug, Args)]
pub struct DoctorPlan {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Run and explain a demo workload: steady reads beside bursts of writes
///
/// Writes a scratch file of under 1 GiB to the working directory for about 15 seconds and removes it again. Only the disks
/// under that directory are recorded.
#[derive(Debug, Args)]
pub struct DemoPlan {
    /// Directory of the recording; must not exist yet [default: iolens-demo.iolens; an earlier demo's is replaced]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Where the scratch file goes
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

/// Drop-in for sysstat's iostat: same options, same output (see docs/iostat.md)
///
/// Its arguments follow iostat's own grammar, not that of the other commands. In addition to sysstat's options: --true
/// (exact busy time, in-flight) and --hist (percentiles of latency) from eBPF, -o NDJSON, -o CSV, intervals such as 100ms,
/// patterns of devices, --replay DIR, --root DIR.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct IostatPlan {
    /// Options, devices, interval and count as for iostat
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "WORDS"
    )]
    pub words: Vec<OsString>,
}

/// Parses a whole command line, the program's name first.
///
/// # Errors
/// clap's error, which knows its own exit code and how to print itself (help and version are errors too).
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Plan, clap::Error> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    match plan(&argv) {
        Ok(plan) => Ok(plan),
        Err(e) => Err(with_nearest_command(without_hidden_commands(e), &argv)),
    }
}

fn plan(argv: &[OsString]) -> Result<Plan, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(argv)?;
    match Cli::from_arg_matches_mut(&mut matches) {
        Ok(cli) => Ok(cli.plan),
        Err(e) => Err(e.format(&mut command)),
    }
}

/// The commands and their options. Descriptions break where the terminal ends.
pub(crate) fn command() -> clap::Command {
    with_flowing_text(Cli::command())
}

fn with_flowing_text(command: clap::Command) -> clap::Command {
    let about = command
        .get_long_about()
        .map(|about| flowing(&about.to_string()));
    let command = command.mut_subcommands(with_flowing_text);
    match about {
        Some(about) => command.long_about(about),
        None => command,
    }
}

/// `text` with the lines of each paragraph as one. Examples, which are indented, keep their lines.
fn flowing(text: &str) -> String {
    let mut flowing = String::new();
    let mut is_in_paragraph = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if is_in_paragraph && is_prose {
            flowing.push(' ');
        } else if !flowing.is_empty() {
            flowing.push('\n');
        }
        flowing.push_str(line);
        is_in_paragraph = is_prose;
    }
    flowing
}

/// A mistyped command is said with the one that was probably meant, where clap knows none: two letters in the wrong order are
/// far apart for it.
fn with_nearest_command(mut error: clap::Error, argv: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(mistyped)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    // The words before the mistyped one are commands above it, as `lab` is above `fio`.
    let mut command = Cli::command();
    for word in argv.iter().skip(1).filter_map(|w| w.to_str()) {
        match command.find_subcommand(word) {
            Some(below) => command = below.clone(),
            None => break,
        }
    }
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    if let Some(name) = nearest::nearest(mistyped, &names) {
        let suggested = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, suggested);
    }
    error
}

/// Commands that are hidden from the help are not suggested for a mistyped one either.
fn without_hidden_commands(mut error: clap::Error) -> clap::Error {
    let mut suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => return error,
    };
    let command = Cli::command();
    suggested.retain(|name| {
        let found = command.find_subcommand(name);
        !found.is_some_and(clap::Command::is_hide_set)
    });
    // An empty list would be printed as a suggestion of nothing.
    error.remove(ContextKind::SuggestedSubcommand);
    if !suggested.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(suggested),
        );
    }
    error
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn paragraphs_flow_and_examples_keep_their_lines() {
        let text = "First line\nand second.\n\nNext\none.\n\nExamples:\n  iolens a\n  iolens b";
        let shown = "First line and second.\n\nNext one.\n\nExamples:\n  iolens a\n  iolens b";
        assert_eq!(flowing(text), shown);
    }

    #[test]
    fn examples_fit_into_80_columns() {
        fn check(command: &clap::Command) {
            let about = command.get_long_about().map(ToString::to_string);
            for line in about.unwrap_or_default().lines() {
                let is_example = line.starts_with(' ');
                assert!(!is_example || line.chars().count() <= 78, "{line}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }

    #[test]
    fn a_command_after_two_dashes_is_kept_verbatim() {
        let Plan::Record(p) =
            parse(words("iolens record -d sda --for 2s -- fio --name=x -d")).unwrap()
        else {
            panic!()
        };
        assert_eq!(p.for_ns, Some(2_000_000_000));
        assert_eq!(p.devices, ["sda"]);
        assert_eq!(p.command, ["fio", "--name=x", "-d"]);
    }

    #[test]
    fn hidden_commands_are_not_suggested() {
        let said = |line: &str| parse(words(line)).unwrap_err().to_string();
        for line in ["iolens entre", "iolens guar"] {
            let text = said(line);
            assert!(
                !text.contains("enter") && !text.contains("'guard'"),
                "{text}"
            );
        }
        assert!(said("iolens reprot").contains("'report'"));
        assert!(said("iolens lab foi -o x").contains("'fio'"));
        assert!(said("iolens zomo db.iolens").contains("'zoom'"));
        assert!(!said("iolens photosynthesis").contains("tip:"));
    }

    #[test]
    fn help_names_the_limits_of_values() {
        fn help(line: &str) -> String {
            let text = parse(words(line)).unwrap_err().to_string();
            // Lines are wrapped anywhere.
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        }
        let record = help("iolens record -h");
        assert!(record.contains("at least 4M;"), "{record}");
        let throttle = help("iolens throttle -h");
        assert!(throttle.contains("at least 10 below --high"), "{throttle}");
        assert!(throttle.contains("above --high"), "{throttle}");
    }

    #[test]
    fn help_is_a_command_and_shows_no_hidden_ones() {
        let text = parse(words("iolens help")).unwrap_err().to_string();
        assert!(
            text.contains("throttle") && !text.contains("guard") && !text.contains("enter"),
            "{text}"
        );
        let text = parse(words("iolens help iostat")).unwrap_err().to_string();
        assert!(text.contains("--true") && text.contains("--hist"), "{text}");
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in [
            "iolens",
            "iolens record --for x",
            "iolens zoom",
            "iolens zoom r --by moon",
            "iolens record --keep -1",
            "iolens record --counters-raw d --counters-step 1s",
            "iolens live r --source counters",
            "iolens live r --replay d",
            "iolens serve --no-record -d sda",
            "iolens serve --no-record --source ebpf",
            "iolens serve --no-record --keep 1G",
            "iolens serve --no-record --on-story true",
            "iolens serve --no-record --ship /lake",
        ] {
            assert!(parse(words(line)).is_err(), "{line}");
        }
    }
}
