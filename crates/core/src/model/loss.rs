//! What could not be recorded. Loss is data: it is counted, dated, stored and shown.

use super::{Class, DevId};

/// Why I/Os are missing from the stream of [`super::Io`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReason {
    /// The kernel's event ring was full.
    RingFull,
    /// Two requests in flight wanted the same slot of the tracer's table.
    SlotClash,
    /// The writer's queue was full: the disk that holds the recording was too slow.
    WriterBusy,
    /// No room on the disk that holds the recording.
    DiskFull,
    /// A damaged block of the recording.
    Corrupt,
    /// The retention limit (`--keep`) removed it; not counted as lost in totals of what was kept.
    Retention,
    /// In flight when the probes were attached: its start is not known. Censored, not lost.
    Censored,
    /// Another tool's log was cut or damaged.
    Import,
    /// The kernel did not show its completion to the tracer; noticed when its place was used again.
    Unseen,
    /// The ring of file-level requests was full: [`Lost::ios`] counts requests.
    RequestRingFull,
    /// Too many files were open for the tracer's tables: [`Lost::ios`] counts requests.
    RequestTableFull,
    /// The writer's queue or its disk was full: [`Lost::ios`] counts requests.
    RequestUnwritten,
}

impl LossReason {
    /// All reasons; the position is the number stored in recordings.
    pub const ALL: [LossReason; 12] = [
        LossReason::RingFull,
        LossReason::SlotClash,
        LossReason::WriterBusy,
        LossReason::DiskFull,
        LossReason::Corrupt,
        LossReason::Retention,
        LossReason::Censored,
        LossReason::Import,
        LossReason::Unseen,
        LossReason::RequestRingFull,
        LossReason::RequestTableFull,
        LossReason::RequestUnwritten,
    ];

    /// Name, as in JSON and in recordings.
    pub fn name(self) -> &'static str {
        match self {
            LossReason::RingFull => "ring-full",
            LossReason::SlotClash => "slot-clash",
            LossReason::WriterBusy => "writer-busy",
            LossReason::DiskFull => "disk-full",
            LossReason::Corrupt => "corrupt",
            LossReason::Retention => "retention",
            LossReason::Censored => "censored",
            LossReason::Import => "import",
            LossReason::Unseen => "unseen",
            LossReason::RequestRingFull => "request-ring-full",
            LossReason::RequestTableFull => "request-table-full",
            LossReason::RequestUnwritten => "request-unwritten",
        }
    }

    /// The reason called `name`.
    pub fn from_name(name: &str) -> Option<LossReason> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    /// Whether block I/Os that belong to what the recording claims to hold are missing from it.
    pub fn is_loss(self) -> bool {
        !matches!(self, LossReason::Censored | LossReason::Retention) && !self.is_of_requests()
    }

    /// Whether it is file-level requests that are missing, not block I/Os.
    pub fn is_of_requests(self) -> bool {
        matches!(self, LossReason::RequestRingFull | LossReason::RequestTableFull | LossReason::RequestUnwritten)
    }
}

/// I/Os that completed within `[from_ns, to_ns]` and are not in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Lost {
    /// Start of the interval, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End of the interval.
    pub to_ns: i64,
    /// The device, if known.
    pub dev: Option<DevId>,
    /// The class, if known.
    pub class: Option<Class>,
    /// Why.
    pub reason: LossReason,
    /// How many I/Os (requests, if [`LossReason::is_of_requests`]); `None` if not even that is known (a damaged block).
    pub ios: Option<i64>,
    /// How many bytes they moved, if known.
    pub bytes: Option<i64>,
    /// How many merges went into them, if known.
    pub merges: Option<i64>,
}

impl Lost {
    /// An unknown number of I/Os of any class, on any device.
    pub fn somewhere(from_ns: i64, to_ns: i64, reason: LossReason) -> Lost {
        Lost { from_ns, to_ns, dev: None, class: None, reason, ios: None, bytes: None, merges: None }
    }
}
