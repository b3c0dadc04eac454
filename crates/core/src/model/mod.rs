//! The data types of observations, used by all other modules. No input or output.
//!
//! Time is `i64` nanoseconds of `CLOCK_MONOTONIC` counted from the recording's start; the wall clock of that
//! instant is once in [`RecordingMeta`]. Sizes are bytes; a kernel sector is always 512 bytes.

mod actor;
mod below;
mod bio;
mod container;
mod counters;
mod data_table;
mod device;
mod grid;
mod histogram;
mod io;
mod kernel_thread;
mod loss;
mod name;
mod pressure;
mod rate_rows;
mod rates;
mod recording;
mod request;
mod rollup;
mod settings;
mod stored_finding;
mod wait_sums;

pub use actor::{Actor, ActorKind, ActorSums, IoSums};
pub(crate) use below::Below;
pub use bio::BioStages;
pub use container::{Container, Qos};
pub use counters::{ClassCounters, CounterSample, CpuCounters, DiskCounters, FlushCounters};
pub use data_table::{ColumnValues, DataColumn, DataTable};
pub use device::{DevId, Device, DeviceKind, NoDevId, Raid, layers_above};
pub use grid::{SlotPart, TimeGrid, ceil_to, floor_to};
pub use histogram::{CallHistogram, Histogram, bucket_at, rank};
pub use io::{Class, Comm, Io, Op, Origin};
pub use kernel_thread::KernelThread;
pub use loss::{LossReason, Lost};
pub use name::{Inode, Name, Named, Names, PathOf};
pub use pressure::PressureSample;
pub use rate_rows::RateRows;
pub use rates::{ClassRates, CpuShares, IntervalRates};
pub use recording::{
    RecorderCost, RecordingMeta, SCHEMA_VERSION, Source, TableManifest, find_device,
};
pub use request::{DataIo, FIRST_IOS, How, Request, RequestClass, RequestFlags, SyncKind};
pub use rollup::{Flight, Rollup, add_each, known_sum};
pub use settings::{
    BtrfsSettings, CgroupSample, MountSettings, QueueSettings, Settings, WritebackSettings,
};
pub use stored_finding::{KindName, Severity, StoredFinding};
pub use wait_sums::{OwnedTime, TimeOwner, WaitParty, WaitSums, WorstWait};

/// Bytes of a kernel sector: always 512, whatever the device's block size.
pub const SECTOR_BYTES: i64 = 512;

/// A millisecond in nanoseconds.
pub const MS_NS: i64 = 1_000_000;
/// A second in nanoseconds.
pub const SECOND_NS: i64 = 1000 * MS_NS;
/// A minute in nanoseconds.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;
/// An hour in nanoseconds.
pub const HOUR_NS: i64 = 60 * MINUTE_NS;
/// A day in nanoseconds, without leap seconds.
pub const DAY_NS: i64 = 24 * HOUR_NS;

/// A remark on the time line: a phase of an experiment, a clock step, the start and end of recording.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    /// When, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// Kind of the mark, e.g. `start`, `end`, `clock-step`, `suspend`, `device-added`, `phase`.
    pub kind: String,
    /// Human-readable text.
    pub text: String,
}

impl Mark {
    /// Kind of marks with the number of open file-level requests, which are not in the recording yet. In a recording
    /// that was not finished readers count them as lost.
    pub const OPEN_REQUESTS: &str = "open-requests";
    /// Kind of marks for I/O that the kernel throttled before the block layer accounted it.
    pub const THROTTLED_ABOVE: &str = "throttled-above";
    /// Kind of marks with the number of earlier samples and marks that were not stored because the writer was busy.
    pub const NOT_STORED: &str = "not-stored";
    /// Kind of marks with remarks of users and of findings.
    pub const REMARK: &str = "remark";
}

/// The one stream that every source produces and every consumer reads.
///
/// Items come ordered by [`Observation::at_ns`]. Every analysis must decide what it does with [`Observation::Lost`].
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// A snapshot of one device's kernel counters.
    Counters(CounterSample),
    /// One completed block I/O.
    Io(Io),
    /// One file-level request that is over.
    Request(Box<Request>),
    /// I/Os that happened and could not be recorded, or only in part.
    Lost(Lost),
    /// A remark on the time line.
    Mark(Mark),
    /// The name of a file or of a control group.
    Name(Name),
    /// How scarce the host's CPUs and I/O were.
    Pressure(PressureSample),
    /// The limits of a control group.
    Cgroup(Box<CgroupSample>),
}

impl Observation {
    /// The instant by which the stream is ordered: completion of an I/O, end of a loss interval, the time of a sample.
    pub fn at_ns(&self) -> i64 {
        match self {
            Self::Counters(c) => c.at_ns,
            Self::Io(io) => io.done_ns,
            Self::Request(r) => r.end_ns,
            Self::Lost(l) => l.to_ns,
            Self::Mark(m) => m.at_ns,
            Self::Name(n) => n.at_ns,
            Self::Pressure(p) => p.to_ns,
            Self::Cgroup(c) => c.at_ns,
        }
    }
}
