//! Evidence of how programs use a device: syncs, small requests, the page cache.

use serde::Serialize;

use super::Cause;
use crate::model::Class;

/// A writer that waits for its syncs most of the time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FsyncBoundEvidence {
    /// The writer.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
    /// Its process id.
    pub pid: Option<i32>,
    /// Data that this evidence is based on: the sync calls of the writer, or its I/Os.
    pub sync_source: SyncSource,
    /// Number of syncs, each at the end of a cycle of writing and waiting.
    pub syncs: u64,
    /// Syncs per second of writing time.
    pub syncs_per_s: f64,
    /// Median duration of a sync.
    pub sync_p50_us: f64,
    /// Total time in syncs.
    pub sync_wait_s: f64,
    /// Writing time: from the end of each sync to the end of the next, excluding pauses of more than a second.
    pub writing_s: f64,
    /// Share of the writing time spent in syncs.
    pub sync_wait_percent: f64,
    /// Writes that it submitted; from calls: data I/Os of its files.
    pub writes: Option<u64>,
    /// Writes per sync.
    pub writes_per_sync: Option<f64>,
    /// Bytes that it wrote.
    pub bytes: Option<u64>,
    /// How many times as fast the writer could be without waiting for syncs (upper bound).
    pub times_faster_at_most: f64,
    /// Number of syncs during which the writer submitted something.
    pub syncs_not_waited_for: u64,
    /// Upper bound of the probability that a writer that does not wait submits in so few syncs (Chernoff); `null` from calls.
    pub p_value: Option<f64>,
}

/// Data that shows that a writer waits for syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SyncSource {
    /// Sync calls of the process.
    Calls,
    /// Flushes and forced writes on the device.
    Ios,
}

/// A sequential stream cut into small requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SmallSequentialEvidence {
    /// Reads or writes.
    pub class: Class,
    /// The process.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
    /// Its process id.
    pub pid: Option<i32>,
    /// Size of the stream's requests.
    pub request_bytes: i64,
    /// Number of requests.
    pub ios: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Number of runs of adjacent sectors.
    pub runs: u64,
    /// Number of requests in the longest run.
    pub longest_run_ios: u64,
    /// Share of these requests in the device's reads and writes.
    pub percent_of_ios: f64,
    /// Total time of the runs, at most the time that their requests were in flight.
    pub busy_s: f64,
    /// Possible request size: 128 KiB, or the maximum of the device if that is less.
    pub large_request_bytes: u64,
    /// Number of requests of `large_request_bytes` that would move the same bytes.
    pub ios_if_large: u64,
}

/// Programs read more through files than devices gave them (A16).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CachedReadsEvidence {
    /// Bytes that programs read through files, excluding `O_DIRECT` and device nodes.
    pub program_read_bytes: u64,
    /// Bytes read from devices.
    pub device_read_bytes: u64,
    /// Share of the bytes read by programs that came from the page cache: 1 − device ÷ programs.
    pub hit_percent: f64,
    /// Number of reads recorded individually, so that it is known whether they waited.
    pub reads_looked_at: u64,
    /// Share of the individually recorded reads that found all data in memory.
    pub reads_without_wait_percent: Option<f64>,
}

/// The kernel writes later what programs wrote into the page cache (A16).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenBackEvidence {
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Written bytes that come from the kernel's write-back.
    pub written_back_bytes: u64,
    /// Written bytes whose origin is known.
    pub origin_known_bytes: u64,
    /// Share of the written bytes that come from the kernel's write-back.
    pub written_back_percent: f64,
}
