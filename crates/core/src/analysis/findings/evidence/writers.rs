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
    /// What says so: its sync calls, or its I/Os alone.
    pub sync_source: SyncSource,
    /// Syncs, each at the end of a cycle of writing and waiting.
    pub syncs: u64,
    /// Syncs per second of its writing time.
    pub syncs_per_s: f64,
    /// Median sync.
    pub sync_p50_us: f64,
    /// Time in syncs.
    pub sync_wait_s: f64,
    /// Its writing time: from the end of each sync to the end of the next, without pauses of more than a second.
    pub writing_s: f64,
    /// Share of its writing time in syncs.
    pub sync_wait_percent: f64,
    /// Writes that it submitted; from calls: data I/O of its files.
    pub writes: Option<u64>,
    /// Those per sync.
    pub writes_per_sync: Option<f64>,
    /// Bytes that it wrote.
    pub bytes: Option<u64>,
    /// How many times as fast it could write without these waits, at most.
    pub times_faster_at_most: f64,
    /// Syncs during which it submitted something.
    pub syncs_not_waited_for: u64,
    /// Upper bound of the probability that a writer that does not wait submits in so few syncs (Chernoff); `null` from calls.
    pub p_value: Option<f64>,
}

/// What shows that a writer waits for syncs.
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
    /// What it does: reads or writes.
    pub class: Class,
    /// Who.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
    /// Its process id.
    pub pid: Option<i32>,
    /// Size of its requests.
    pub request_bytes: i64,
    /// Requests.
    pub ios: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Runs of adjacent sectors.
    pub runs: u64,
    /// Requests of the longest run.
    pub longest_run_ios: u64,
    /// Share of the device's reads and writes.
    pub percent_of_ios: f64,
    /// Time of the runs, at most as long as their requests were in flight.
    pub busy_s: f64,
    /// What one request could be as large as: 128 KiB, or what the device takes.
    pub large_request_bytes: u64,
    /// Requests of that size that would move the same bytes.
    pub ios_if_large: u64,
}

/// Programs read more through files than devices gave them (A16).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CachedReadsEvidence {
    /// Bytes that programs read through files, without `O_DIRECT` and without block devices' nodes.
    pub program_read_bytes: u64,
    /// Bytes read from devices.
    pub device_read_bytes: u64,
    /// Share of the programs' bytes that came from the page cache: 1 − device ÷ programs.
    pub hit_percent: f64,
    /// Reads that were looked at one by one.
    pub reads_looked_at: u64,
    /// Share of those that found all in memory.
    pub reads_without_wait_percent: Option<f64>,
}

/// The kernel writes later what programs wrote into the page cache (A16).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenBackEvidence {
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Those of them that the kernel wrote back.
    pub written_back_bytes: u64,
    /// Those of them of which it is known.
    pub origin_known_bytes: u64,
    /// Share that the kernel wrote back.
    pub written_back_percent: f64,
}
