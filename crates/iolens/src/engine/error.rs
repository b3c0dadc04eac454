//! Why a question has no answer. The edges word it for the command line or for HTTP (`present::query_text`).

use std::fmt;
use std::io;
use std::path::PathBuf;

use iolens_core::analysis::timeline::PlanError;
use iolens_core::store::StoreError;
use jiff::civil::Time;

use super::deadline::TooSlow;

/// What an engine answers.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

/// One of the times of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowBound {
    /// The moment around which it is.
    At,
    /// Its beginning.
    From,
    /// Its end.
    To,
}

/// A stretch of Unix time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning.
    pub from_unix_ns: i64,
    /// Its end.
    pub to_unix_ns: i64,
}

/// What rows were asked for that a source does not tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distinction {
    /// Rows by process, control group or file.
    Grouping,
    /// Only the I/Os of a process, control group, file or class.
    Selection,
}

/// Why a source knows devices only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DevicesOnly {
    /// It is made of counters.
    Counters,
    /// It was imported from tables.
    Tables,
    /// The size limit left sums.
    Sums,
}

/// Why a question has no answer.
#[derive(Debug)]
pub enum QueryError {
    /// Of the store.
    Store(StoreError),
    /// No I/O of a recording can be read.
    NothingReadable {
        /// What is damaged, in the store's words.
        damage: String,
        /// The recording, if a repair saves I/Os of it: those of which only optional columns are damaged.
        repairable: Option<PathBuf>,
    },
    /// The time that the caller gave is over.
    TooSlow(TooSlow),
    /// The rows that are asked for make no sense.
    Plan(PlanError),
    /// A thread could not be had, or the rows could not be handed on.
    Io(io::Error),
    /// Several recordings hold the time; of some only sums are left, which belong to one recording.
    SeveralWithSums {
        /// How many.
        recordings: usize,
        /// The longest part that one recording holds.
        longest: Stretch,
    },
    /// Several recordings of different sources hold the time.
    SeveralSources {
        /// How many.
        recordings: usize,
        /// The longest part that one recording holds.
        longest: Stretch,
    },
    /// Nothing was recorded then.
    NothingThen {
        /// Where.
        place: PathBuf,
        /// What is nearest.
        nearest: Option<Stretch>,
    },
    /// A time is not in the recording; in nanoseconds since its start.
    Outside {
        /// Which time.
        bound: WindowBound,
        /// It.
        at_ns: i64,
        /// The recording's end.
        end_ns: i64,
    },
    /// A time of the wall clock is not in the recording.
    NotRecordedAt {
        /// Which time.
        bound: WindowBound,
        /// It, in Unix time.
        unix_ns: i64,
        /// What the recording has.
        recorded: Stretch,
    },
    /// A time counts from the start of one recording, and the place is a root.
    NeedsWallClock {
        /// Which time.
        bound: WindowBound,
        /// The root.
        place: PathBuf,
    },
    /// The end is not after the beginning, in Unix time.
    EndsBefore(Stretch),
    /// The same in nanoseconds since the recording's start.
    EndsBeforeSinceStart {
        /// The beginning.
        from_ns: i64,
        /// The end.
        to_ns: i64,
    },
    /// A root without a recording.
    Empty(PathBuf),
    /// A root of which no recording can be read.
    Unreadable(PathBuf),
    /// A root of several hosts.
    ManyHosts {
        /// The root.
        place: PathBuf,
        /// All their names.
        hosts: Vec<String>,
        /// The directory of the first.
        directory: String,
    },
    /// Nothing was recorded at this time of day.
    NoSuchTimeOfDay {
        /// It.
        time: Time,
        /// From the beginning of the first recording to the end of the last.
        recorded: Stretch,
    },
    /// A time that no calendar has.
    NoSuchTime,
    /// A stretch of so many days is too long for the analyses.
    TooManyDays(i64),
    /// The size limit removed what came before; in nanoseconds since the recording's start.
    Removed {
        /// What is left begins here.
        before_ns: i64,
    },
    /// There is no such device; some that there are.
    NoSuchDevice {
        /// As it was called.
        name: String,
        /// Names of others.
        known: Vec<String>,
    },
    /// The source knows devices only.
    OnlyDevices {
        /// What was asked for.
        wanted: Distinction,
        /// Why.
        because: DevicesOnly,
    },
    /// Sums do not say who caused I/O.
    SumsWithoutActors,
    /// Sums of so many seconds make up rows of their multiples only.
    SumsOfStep(i32),
    /// Sums know no queue time.
    SumsWithoutQueueTime,
    /// There are no single I/Os, but sums.
    SumsOnly,
    /// Nearly all rows would be empty.
    MostlyEmpty {
        /// Rows.
        intervals: i64,
        /// Length of each.
        step_ns: i64,
        /// As many have data at most.
        filled: u64,
    },
    /// More rows than an answer may have, which is this many.
    TooManyRows(usize),
    /// I/Os are chosen by a name that the caller may not see; how to see it.
    NamesLeftOut(String),
    /// One recording, and no root of hosts.
    NoFleet(PathBuf),
    /// No recording has sums of this time.
    NoSumsThen,
    /// The recording there holds no single I/Os of this time, which could be compared.
    NothingToCompare(PathBuf),
}

impl fmt::Display for QueryError {
    /// For developers: people read what the edges make of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            QueryError::Store(e) => Some(e),
            QueryError::TooSlow(e) => Some(e),
            QueryError::Plan(e) => Some(e),
            QueryError::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl From<StoreError> for QueryError {
    fn from(e: StoreError) -> QueryError {
        QueryError::Store(e)
    }
}

impl From<TooSlow> for QueryError {
    fn from(e: TooSlow) -> QueryError {
        QueryError::TooSlow(e)
    }
}

impl From<PlanError> for QueryError {
    fn from(e: PlanError) -> QueryError {
        QueryError::Plan(e)
    }
}

impl From<io::Error> for QueryError {
    fn from(e: io::Error) -> QueryError {
        QueryError::Io(e)
    }
}
