//! Options and status reports of the writer of recordings.

use crate::private::Access;

/// How a recording is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// Hard limit of the recording's size in bytes, including log and active segment; at least
    /// [`WriterOptions::MIN_KEEP`]. The oldest segments are removed to stay below it. `None`: the recording grows until
    /// the disk is full.
    pub keep_bytes: Option<u64>,
    /// Interval of syncs in nanoseconds: data older than this survives a power loss.
    pub sync_interval_ns: i64,
    /// I/Os per Parquet file; at most [`WriterOptions::MAX_SEGMENT_ROWS`].
    pub segment_rows: usize,
    /// Age in nanoseconds at which a segment with at least [`WriterOptions::segment_min_rows`] rows is closed.
    pub segment_age_ns: i64,
    /// Minimum rows for closing a segment by age.
    pub segment_min_rows: usize,
    /// Age in nanoseconds at which a segment is closed regardless of its rows.
    pub segment_max_age_ns: i64,
    /// Access of other users.
    pub access: Access,
    /// Whether the devices are written as a table, too, for joins in SQL.
    pub devices_table: bool,
}

impl WriterOptions {
    /// Smallest [`WriterOptions::keep_bytes`]: the log, a segment and the description of the devices side by side.
    pub const MIN_KEEP: u64 = 4 << 20;
    /// Largest [`WriterOptions::segment_rows`]; larger ones are taken as this.
    pub const MAX_SEGMENT_ROWS: usize = 1 << 20;
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            keep_bytes: None,
            sync_interval_ns: 5_000_000_000,
            segment_rows: 256 << 10,
            segment_age_ns: 60_000_000_000,
            segment_min_rows: 4096,
            segment_max_age_ns: 3_600_000_000_000,
            access: Access::OWNER,
            devices_table: false,
        }
    }
}

/// Status of a recording that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterStatus {
    /// Disk space of the recording in bytes, rounded up to whole blocks.
    pub disk_bytes: u64,
    /// I/Os handed to the log.
    pub ios_written: u64,
    /// I/Os known to be missing: those that could not be stored, and those of every
    /// [`Observation::Lost`](crate::model::Observation::Lost) that was pushed.
    pub ios_lost: u64,
    /// Those for which the disk had no space.
    pub ios_unwritten: u64,
    /// File-level requests that could not be stored.
    pub requests_unwritten: u64,
    /// I/Os that the size limit removed again.
    pub ios_removed: u64,
    /// The disk is full now: I/Os are counted, not written.
    pub full: bool,
}

/// Summary of a finished recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingSummary {
    /// I/Os in the recording.
    pub ios: u64,
    /// I/Os known to be missing.
    pub ios_lost: u64,
    /// Those for which the disk had no space.
    pub ios_unwritten: u64,
    /// File-level requests that could not be stored.
    pub requests_unwritten: u64,
    /// I/Os that the size limit removed.
    pub ios_removed: u64,
    /// Bytes of all its files.
    pub disk_bytes: u64,
    /// The disk was full at the end. The last rows are in the log (readable, but not as Parquet) or counted as lost.
    pub full: bool,
}
