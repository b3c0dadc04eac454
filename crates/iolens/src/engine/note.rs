//! Notes beside an answer: what it leaves out and what it is based on. The caller formats them
//! (`present::query_text`).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iolens_core::model::Source;

use super::error::QueryError;

/// A note beside an answer.
#[derive(Debug, Clone)]
pub enum Note {
    /// Stored data is damaged.
    Damaged {
        /// The recording.
        recording: PathBuf,
        /// What is damaged, in the store's words.
        what: String,
    },
    /// A recording that cannot be read is left out.
    LeftOut {
        /// The recording.
        recording: PathBuf,
        /// Why.
        why: Arc<QueryError>,
    },
    /// Something could not be read, which does not mean damage: it may just have been removed, or is still growing.
    /// The text is in the store's words.
    Unread(String),
    /// No time was given and there are several recordings, so the newest is shown.
    NewestOf {
        /// How many.
        recordings: usize,
        /// The one that is shown.
        path: PathBuf,
    },
    /// A preserved copy replaces the I/Os that the size limit removed from the recording.
    OfCopy {
        /// Unix time in nanoseconds.
        from_unix_ns: i64,
        /// Its end.
        to_unix_ns: i64,
        /// The copy.
        path: PathBuf,
    },
    /// The size limit removed the I/Os before this time, in nanoseconds since the recording's start.
    RemovedBefore(i64),
    /// The I/Os come from this source; they were not traced by iolens.
    Source(Source),
    /// A limitation of the source, in the recorder's words.
    Limit(String),
    /// Rows are shorter than the averaging interval of the tables, which is given in nanoseconds.
    FinerThanTables(i64),
    /// Rows are shorter than the sampling interval of the counters, which is given in nanoseconds.
    FinerThanCounters(i64),
    /// Sums count each I/O once, so these devices are left out. Each entry names the devices under it.
    Layers(Vec<String>),
    /// Rows are sums over this many seconds: the single I/Os were removed.
    RowsOfSums(i32),
    /// Actors are from sums over this many seconds: the single I/Os were removed.
    ActorsOfSums(i32),
    /// Actors are from sums over this many seconds: there are too many single I/Os for one answer.
    ActorsOfMany(i32),
    /// Waits are from sums over this many seconds: single I/Os were removed, or are too many for one answer.
    WaitsOfSums(i32),
    /// There are no single I/Os, so waits are not known.
    NoWaits,
    /// The I/Os were removed: findings are those reported during recording.
    FindingsOfThen,
    /// There are too many I/Os to analyse: findings are those reported during recording.
    FindingsOfMany,
    /// There are too many I/Os to analyse: stories are of this stretch only, in Unix time in nanoseconds.
    StoriesOf(Range<i64>),
    /// The requested time is short: this many nanoseconds around it were analysed, and the stories that overlap it
    /// are shown.
    StoriesAround(i64),
    /// The time spans this many recordings; the longest part is shown.
    LongestPartOf(usize),
}

impl Note {
    /// The recording that this note says is damaged or unreadable, if it does.
    pub fn damaged_recording(&self) -> Option<&Path> {
        match self {
            Note::Damaged { recording, .. } | Note::LeftOut { recording, .. } => Some(recording),
            _ => None,
        }
    }
}
