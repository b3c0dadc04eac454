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

/// The key by which requests are grouped.
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
    /// Its bytes, times and cache hits.
    #[serde(flatten)]
    pub gap: Gap,
    /// Median response time of its requests of data, in microseconds.
    pub total_p50_us: Option<f64>,
    /// Its syncs.
    pub sync: Option<SyncSummary>,
}

/// One of the slowest requests, with the values needed to draw it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowRequest {
    /// Start of the open call, in seconds since the recording's start.
    pub start_s: f64,
    /// Class.
    pub class: &'static str,
    /// From the open call to the end of the last data I/O (for a sync, its duration), in microseconds.
    pub total_us: f64,
    /// Part of the response time inside calls (open and data I/Os). Requests are ranked by it.
    pub call_us: f64,
    /// File. Untrusted.
    pub file: Option<String>,
    /// Process name. Untrusted.
    pub process: Option<String>,
    /// Its process id.
    pub pid: Option<i32>,
    /// Number of data I/Os (calls that read or write data).
    pub data_ios: i64,
    /// Bytes moved.
    pub bytes: i64,
    /// Duration of the open call, in microseconds.
    pub open_us: Option<f64>,
    /// The first data I/Os of the request.
    pub first_ios: Vec<SlowIo>,
    /// The slowest data I/O of the request.
    pub slowest_io: Option<SlowIo>,
    /// Time between calls, spent in the program itself, in microseconds.
    pub gaps_us: Option<f64>,
    /// Duration of the close call, in microseconds.
    pub close_us: Option<f64>,
    /// From the open call to the end of the close call, in microseconds.
    pub end_us: f64,
    /// Flags of the request, by name.
    pub flags: Vec<&'static str>,
}

/// One data I/O of a slow request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowIo {
    /// Start, in microseconds after the open call.
    pub after_us: f64,
    /// Duration, in microseconds.
    pub us: f64,
    /// Bytes.
    pub bytes: i64,
    /// Whether it was served from memory; `null` if that is not known.
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

/// The table of one class over the whole recording, or over its peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassTable {
    /// Number of requests.
    pub requests: u64,
    /// Requests per second.
    pub per_s: f64,
    /// Median response time (open to the end of the last data I/O), in microseconds.
    pub total_p50_us: Option<f64>,
    /// 95th percentile of the response time.
    pub total_p95_us: Option<f64>,
    /// Median first delay (open to the end of the first data I/O), in microseconds.
    pub first_p50_us: Option<f64>,
    /// Costs estimated from response time by size (A9); `null` if the estimate is not valid.
    pub classical: Option<Classical>,
    /// Whether the estimate in `classical` is valid, and why; `null` without requests of one block, or of two.
    pub classical_verdict: Option<OverheadVerdict>,
    /// Costs measured directly (A9).
    pub direct: Direct,
    /// Share of requests served by a single data I/O (A10).
    pub atomic: Option<AtomicShare>,
}

/// Everything about one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassReport {
    /// Its name.
    pub class: &'static str,
    /// Over the whole recording.
    pub all: ClassTable,
    /// Values of the busiest interval; `null` without one.
    pub peak: Option<ClassTable>,
    /// Response time by size (A7).
    pub by_size: Vec<SizeBin>,
    /// Steps of the response time by size (A7), if there are any.
    pub steps: Option<Steps>,
    /// Duration of the second data I/O of two-block requests by load (A11).
    pub by_load: Option<DurationByLoad>,
}

/// The busiest interval (A12, by completed requests).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakWindow {
    /// Start, in seconds since the recording's start.
    pub start_s: f64,
    /// Length, in seconds.
    pub duration_s: f64,
    /// Requests per second in it.
    pub per_s: f64,
    /// Rate relative to that of the whole recording.
    pub peak_to_mean: f64,
}

/// The result of the analysis of file-level requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilesReport {
    /// Requests with data, or without; syncs are counted separately.
    pub requests: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Number of lost requests.
    pub lost_requests: u64,
    /// Requests whose open call was not seen. They count in sums, but have no response time.
    pub unknown_start: u64,
    /// Number of requests by flag.
    pub requests_by_flag: BTreeMap<&'static str, u64>,
    /// Sampling interval: one in this many requests was kept for medians.
    pub one_in: u64,
    /// Length of the groups whose loads are compared, in seconds.
    pub group_s: f64,
    /// The busiest interval.
    pub peak_window: Option<PeakWindow>,
    /// Classes in, out and mixed, if they occurred.
    pub classes: Vec<ClassReport>,
    /// The key of `groups`.
    pub by: By,
    /// All groups, most time in calls first.
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
    /// Latency of reads, writes and syncs, call by call, of the files with most time in calls.
    pub calls: Vec<FileCalls>,
    /// I/O of the devices under synced files while syncs waited; empty without syncs or block I/Os.
    pub while_syncing: Vec<Meanwhile>,
    /// Percent of the bytes of block I/O that cannot be attributed to a request.
    pub unattributed_percent: Option<f64>,
}

/// Nanoseconds of the response time that are inside calls (open and data I/Os, or the sync), without the gaps between
/// them. `None` if the response time is not known.
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
