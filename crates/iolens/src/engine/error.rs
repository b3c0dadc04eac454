//! Errors of queries. The command line and the HTTP server format them (`present::query_text`).

use std::fmt;
use std::io;
use std::path::PathBuf;

use iolens_core::analysis::timeline::PlanError;
use iolens_core::store::StoreError;
use jiff::civil::Time;

use super::deadline::TooSlow;

/// The result of an engine.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

/// A bound of the time window of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowBound {
    /// The moment around which the window is centred.
    At,
    /// Its beginning.
    From,
    /// Its end.
    To,
}

/// A stretch of Unix time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning.
    pub from_unix_ns: i64,
    /// Its end.
    pub to_unix_ns: i64,
}

/// What a query distinguishes that a source may not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distinction {
    /// Rows by process, control group or file.
    Grouping,
    /// Only the I/Os of a process, control group, file or class.
    Selection,
}

/// Why a source knows I/O per device only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DevicesOnly {
    /// It is computed from counters.
    Counters,
    /// It was imported from tables.
    Tables,
    /// The size limit removed the single I/Os, and only sums are left.
    Sums,
}

/// Why a query has no answer.
#[derive(Debug)]
pub enum QueryError {
    /// An error of the store.
    Store(StoreError),
    /// No I/O of a recording can be read.
    NothingReadable {
        /// What is damaged, in the store's words.
        damage: String,
        /// The recording, if a repair can save some of its I/Os: those with damage in optional columns only.
        repairable: Option<PathBuf>,
    },
    /// The deadline has passed.
    TooSlow(TooSlow),
    /// The requested rows are inconsistent.
    Plan(PlanError),
    /// A thread could not be started, or the rows could not be passed on.
    Io(io::Error),
    /// Several recordings cover the time, but some have only sums left, which cannot be joined.
    SeveralWithSums {
        /// How many.
        recordings: usize,
        /// The longest part that a single recording covers.
        longest: Stretch,
    },
    /// Several recordings of different sources cover the time.
    SeveralSources {
        /// How many.
        recordings: usize,
        /// The longest part that a single recording covers.
        longest: Stretch,
    },
    /// Nothing was recorded in the window.
    NothingThen {
        /// The recording or root.
        place: PathBuf,
        /// The nearest recorded stretch.
        nearest: Option<Stretch>,
    },
    /// A bound is not in the recording.
    Outside {
        /// Which bound.
        bound: WindowBound,
        /// The bound, in nanoseconds since the recording's start.
        at_ns: i64,
        /// The recording's end, in nanoseconds since its start.
        end_ns: i64,
    },
    /// A wall-clock bound is not in the recording.
    NotRecordedAt {
        /// Which bound.
        bound: WindowBound,
        /// The bound, in Unix time in nanoseconds.
        unix_ns: i64,
        /// The recorded stretch.
        recorded: Stretch,
    },
    /// A bound counts from the start of a recording, but the place is a root.
    NeedsWallClock {
        /// Which bound.
        bound: WindowBound,
        /// The root.
        place: PathBuf,
    },
    /// The end is not after the start, in Unix time.
    EndsBefore(Stretch),
    /// The end is not after the start, in nanoseconds since the recording's start.
    EndsBeforeSinceStart {
        /// The beginning.
        from_ns: i64,
        /// The end.
        to_ns: i64,
    },
    /// The root contains no recording.
    Empty(PathBuf),
    /// No recording of the root can be read.
    Unreadable(PathBuf),
    /// The root contains several hosts.
    ManyHosts {
        /// The root.
        place: PathBuf,
        /// Names of all hosts.
        hosts: Vec<String>,
        /// Directory of the first host.
        directory: String,
    },
    /// Nothing was recorded at this time of day.
    NoSuchTimeOfDay {
        /// The time of day.
        time: Time,
        /// From the start of the first recording to the end of the last.
        recorded: Stretch,
    },
    /// The time does not exist in the calendar.
    NoSuchTime,
    /// A stretch of this many days is too long for the analyses.
    TooManyDays(i64),
    /// The size limit removed the I/Os of this time.
    Removed {
        /// What is left begins here, in nanoseconds since the recording's start.
        before_ns: i64,
    },
    /// There is no such device.
    NoSuchDevice {
        /// The name that was asked for.
        name: String,
        /// Names of some devices that exist.
        known: Vec<String>,
    },
    /// The source knows I/O per device only.
    OnlyDevices {
        /// What was asked for.
        wanted: Distinction,
        /// Why.
        because: DevicesOnly,
    },
    /// Sums do not say who caused I/O.
    SumsWithoutActors,
    /// Sums over this many seconds can only make up rows of a multiple of it.
    SumsOfStep(i32),
    /// Sums do not include queue times.
    SumsWithoutQueueTime,
    /// Only sums are left, no single I/Os.
    SumsOnly,
    /// Nearly all rows would be empty.
    MostlyEmpty {
        /// Number of rows.
        intervals: i64,
        /// Length of each row in nanoseconds.
        step_ns: i64,
        /// Upper bound of the number of rows with data.
        filled: u64,
    },
    /// More rows than the maximum of an answer, which is given.
    TooManyRows(usize),
    /// The query selects I/Os by a name that is hidden from the caller; the text says how to see names.
    NamesLeftOut(String),
    /// The path is a single recording, not a root of hosts.
    NoFleet(PathBuf),
    /// No recording has sums for this time.
    NoSumsThen,
    /// The recording holds no single I/Os of this time to compare.
    NothingToCompare(PathBuf),
}

impl fmt::Display for QueryError {
    /// For developers only: users see the text that `present::query_text` makes of it.
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
