//! What an answer leaves out or rests on, for people beside it. The edges word it (`present::query_text`).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iolens_core::model::Source;

use super::error::QueryError;

/// A remark beside an answer.
#[derive(Debug, Clone)]
pub enum Note {
    /// Something that is stored is damaged.
    Damaged {
        /// The recording.
        recording: PathBuf,
        /// What of it, in the store's words.
        what: String,
    },
    /// A recording that cannot be read is left out.
    LeftOut {
        /// The recording.
        recording: PathBuf,
        /// Why.
        why: Arc<QueryError>,
    },
    /// Something could not be read, which says nothing of what is stored: it may be removed, or grow; in the store's words.
    Unread(String),
    /// No time was named, and there are several recordings.
    NewestOf {
        /// How many.
        recordings: usize,
        /// The one that is shown.
        path: PathBuf,
    },
    /// The size limit removed the I/Os of this time from the recording, and a copy stands in.
    OfCopy {
        /// Unix time in nanoseconds.
        from_unix_ns: i64,
        /// Its end.
        to_unix_ns: i64,
        /// The copy.
        path: PathBuf,
    },
    /// The size limit removed what came before; in nanoseconds since the recording's start.
    RemovedBefore(i64),
    /// The I/Os were not traced by this program.
    Source(Source),
    /// What a source cannot show, in the recorder's words.
    Limit(String),
    /// Rows are finer than the averages of the tables, which are over so many nanoseconds.
    FinerThanTables(i64),
    /// Rows are finer than the readings of the counters, which are so many nanoseconds apart.
    FinerThanCounters(i64),
    /// Sums count an I/O once; these devices, with what each lies on, are left out.
    Layers(Vec<String>),
    /// Rows are sums of so many seconds: the single I/Os are removed.
    RowsOfSums(i32),
    /// The same of who caused I/O.
    ActorsOfSums(i32),
    /// The same, because single I/Os are too many for one answer.
    ActorsOfMany(i32),
    /// The same of who waited for whom, in sums of so many seconds, or single I/Os are too many for one answer.
    WaitsOfSums(i32),
    /// There are no single I/Os, of which it could be said what they waited for.
    NoWaits,
    /// The I/Os are removed: findings are those of then.
    FindingsOfThen,
    /// Too many I/Os to analyse for one answer: findings are those of then.
    FindingsOfMany,
    /// Stories are of this stretch, in Unix time in nanoseconds: there are too many I/Os for one answer.
    StoriesOf(Range<i64>),
    /// A short time was asked for: stories are those of so many nanoseconds around it that meet it.
    StoriesAround(i64),
    /// The stretch spans so many recordings, of which the longest part is shown.
    LongestPartOf(usize),
}

impl Note {
    /// The recording of which something cannot be read, if that is what it says.
    pub fn damaged_recording(&self) -> Option<&Path> {
        match self {
            Note::Damaged { recording, .. } | Note::LeftOut { recording, .. } => Some(recording),
            _ => None,
        }
    }
}
