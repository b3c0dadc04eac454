//! The results of the analysis of file-level requests: the tables of `iolens files`, as in its JSON document.

use std::collections::BTreeMap;

use serde::Serialize;

use super::atomic::AtomicShare;
use super::calls::FileCalls;
use super::gap::Gap;
use super::load::DurationByLoad;
use super::overhead::{Classical, Direct, OverheadVerdict};
use super::size::{SizeBin, Steps};
use super::syncs::{Meanwhile, SyncGroup, SyncSummary};
use super::timeline::FilesOverTime;
use crate::model::{DataIo, Request};

/// By what requests are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// In, out, mixed, none, sync.
    Class,
    /// Process name and number.
    Process,
    /// File.
    Path,
    /// Control group.
    Cgroup,
}

/// A group of requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// Its name. Untrusted: escape it where it is shown.
    pub name: String,
    /// What it asked for and what it cost.
    #[serde(flatten)]
    pub gap: Gap,
    /// Median response time of its requests of data, in microseconds.
    pub total_p50_us: Option<f64>,
    /// Its syncs.
    pub sync: Option<SyncSummary>,
}

/// One request among the slowest, with what is needed to draw it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowRequest {
    /// Its opening, in seconds since the recording's start.
    pub start_s: f64,
    /// Class.
    pub class: &'static str,
    /// Open to the last data I/O's exit (of a sync: its duration), in microseconds.
    pub total_us: f64,
    /// The part of it inside calls (open and data I/Os), by which they are ranked.
    pub call_us: f64,
    /// File. Untrusted.
    pub file: Option<String>,
    /// Process name. Untrusted.
    pub process: Option<String>,
    /// Its process id.
    pub pid: Option<i32>,
    /// Data I/Os.
    pub data_ios: i64,
    /// Bytes.
    pub bytes: i64,
    /// The open call, in microseconds.
    pub open_us: Option<f64>,
    /// The first data I/Os: begin after the opening, duration (microseconds), bytes, whether from memory.
    pub first_ios: Vec<SlowIo>,
    /// The slowest data I/O.
    pub slowest_io: Option<SlowIo>,
    /// The program's own time between calls, in microseconds.
    pub gaps_us: Option<f64>,
    /// The close call, in microseconds.
    pub close_us: Option<f64>,
    /// From the opening to the end of the close, in microseconds.
    pub end_us: f64,
    /// What is special about it.
    pub flags: Vec<&'static str>,
}

/// One data I/O of a slow request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowIo {
    /// Begin, in microseconds after the opening.
    pub after_us: f64,
    /// Duration, in microseconds.
    pub us: f64,
    /// Bytes.
    pub bytes: i64,
    /// From memory; `None` where that is not known.
    pub cache_hit: Option<bool>,
}

impl From<&DataIo> for SlowIo {
    fn from(io: &DataIo) -> SlowIo {
        SlowIo {
            after_us: us(io.after_ns),
            us: us(io.duration_ns),
            bytes: io.bytes,
            cache_hit: io.how.cache_hit(),
        }
    }
}

/// The table of one class over all of the recording, or over its peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassTable {
    /// Requests.
    pub requests: u64,
    /// Per second.
    pub per_s: f64,
    /// Median response time (open to the last data I/O's exit), in microseconds.
    pub total_p50_us: Option<f64>,
    /// 95th percentile.
    pub total_p95_us: Option<f64>,
    /// Median first delay, in microseconds.
    pub first_p50_us: Option<f64>,
    /// A9 as it was done by hand; `None` where it does not apply.
    pub classical: Option<Classical>,
    /// Why it applies or does not; `None` without requests of one block, or of two.
    pub classical_verdict: Option<OverheadVerdict>,
    /// A9 as measured.
    pub direct: Direct,
    /// A10.
    pub atomic: Option<AtomicShare>,
}

/// Everything about one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassReport {
    /// Its name.
    pub class: &'static str,
    /// Over all.
    pub all: ClassTable,
    /// Over the peak; `None` without a peak.
    pub peak: Option<ClassTable>,
    /// A7: by size.
    pub by_size: Vec<SizeBin>,
    /// A7: steps, if there are.
    pub steps: Option<Steps>,
    /// A11: second I/O of two-block requests against load.
    pub by_load: Option<DurationByLoad>,
}

/// The busiest stretch (A12, by completed requests).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakWindow {
    /// Begin, in seconds since the recording's start.
    pub start_s: f64,
    /// Length, in seconds.
    pub duration_s: f64,
    /// Requests per second in it.
    pub per_s: f64,
    /// Over the rate of the whole.
    pub peak_to_mean: f64,
}

/// The answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilesReport {
    /// Requests of data (and of none).
    pub requests: u64,
    /// Syncs.
    pub syncs: u64,
    /// Requests that are missing.
    pub lost_requests: u64,
    /// Requests whose opening was not seen: in sums, not in response times.
    pub unknown_start: u64,
    /// How many requests each flag is on.
    pub requests_by_flag: BTreeMap<&'static str, u64>,
    /// One of so many requests was kept for medians.
    pub one_in: u64,
    /// Length of the groups whose loads are compared, in seconds.
    pub group_s: f64,
    /// The busiest stretch.
    pub peak_window: Option<PeakWindow>,
    /// In, out, mixed; those that occurred.
    pub classes: Vec<ClassReport>,
    /// By what `groups` are.
    pub by: By,
    /// All groups, by time in calls.
    pub groups: Vec<Group>,
    /// The files with most time in calls.
    pub files: Vec<Group>,
    /// Requests over time.
    pub over_time: FilesOverTime,
    /// The requests of data that spent most time inside calls.
    pub slowest: Vec<SlowRequest>,
    /// The syncs that took longest.
    pub slowest_syncs: Vec<SlowRequest>,
    /// The processes that waited longest for syncs.
    pub syncs_by_process: Vec<SyncGroup>,
    /// The files whose syncs took longest.
    pub syncs_by_path: Vec<SyncGroup>,
    /// Latency of reads, writes and syncs, call by call, of the files whose calls took longest.
    pub calls: Vec<FileCalls>,
    /// What the devices under synced files did while syncs waited; empty without syncs or block I/Os.
    pub while_syncing: Vec<Meanwhile>,
    /// Percent of the bytes of block I/O that cannot be laid to a request.
    pub unattributed_percent: Option<f64>,
}

/// Nanoseconds from the opening to the last data I/O's exit without the gaps: inside open and data I/Os, or inside the
/// sync. `None` where the response time is not known.
pub(super) fn call_ns(r: &Request) -> Option<i64> {
    let total = r.total_ns()?;
    Some(if r.sync.is_some() {
        total
    } else {
        total.min(r.active_ns + r.open_ns.unwrap_or(0))
    })
}

/// The result for one of the slowest requests.
pub(super) fn slow(r: &Request) -> SlowRequest {
    SlowRequest {
        start_s: r.start_ns as f64 / 1e9,
        class: r.class().name(),
        total_us: us(r.total_ns().unwrap_or(0)),
        call_us: us(call_ns(r).unwrap_or(0)),
        file: r.path.as_deref().map(str::to_owned),
        process: r.comm.map(|c| c.to_text().into_owned()),
        pid: r.tgid,
        data_ios: r.ios(),
        bytes: r.bytes(),
        open_us: r.open_ns.map(us),
        first_ios: r.first.iter().map(SlowIo::from).collect(),
        slowest_io: r.slowest.as_ref().map(SlowIo::from),
        gaps_us: r.gaps_ns().map(us),
        close_us: r.close_ns.map(us),
        end_us: us(r.end_ns - r.start_ns),
        flags: r.flags.names().collect(),
    }
}

/// Microseconds.
fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}
