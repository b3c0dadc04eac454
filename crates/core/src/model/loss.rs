//! Losses. Loss is data: it is counted, dated, stored and shown.

use super::{Class, DevId};

/// Why I/Os are missing from the stream of [`super::Io`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LossReason {
    /// The kernel's event ring was full.
    RingFull,
    /// Two requests in flight hashed to the same entry of the tracer's table.
    SlotClash,
    /// The writer's queue was full: the disk that holds the recording was too slow.
    //
    // That is what it means in a recording. While a recorder runs, two more losses are counted under this reason, without
    // a row in any recording: I/Os seen after the writer ended with an error (in the session's totals), and I/Os that the
    // view of a running recording did not take in time (in what that view receives; the recording has them). The name is
    // part of the format and of the metrics, so these two have no reason of their own: see `WRITER_ENDED` and `VIEW_BUSY`
    // in the recorder.
    WriterBusy,
    /// The disk that holds the recording was full.
    DiskFull,
    /// A block of the recording is damaged.
    Corrupt,
    /// Removed by the retention limit (`--keep`). Totals of the remaining data do not count it as lost.
    Retention,
    /// In flight when the probes were attached, so its start is not known: censored, not lost.
    Censored,
    /// Another tool's log was cut or damaged.
    Import,
    /// The tracer did not see the completion. Noticed when another request reused the entry.
    Unseen,
    /// The ring of file-level requests was full: [`Lost::ios`] counts requests.
    RequestRingFull,
    /// Too many files were open for the tracer's tables: [`Lost::ios`] counts requests.
    RequestTableFull,
    /// The writer's queue or its disk was full: [`Lost::ios`] counts requests.
    RequestUnwritten,
    /// The kernel's own counters hold more I/Os than were recorded or counted as lost for another reason.
    Unaccounted,
    /// No recorder was running, between two recordings that are read as one.
    NotRecorded,
}

impl LossReason {
    /// All reasons; the position is the number stored in recordings.
    pub const ALL: [LossReason; 14] = [
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
        LossReason::Unaccounted,
        LossReason::NotRecorded,
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
            LossReason::Unaccounted => "unaccounted",
            LossReason::NotRecorded => "not-recorded",
        }
    }

    /// The reason called `name`.
    pub fn from_name(name: &str) -> Option<LossReason> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    /// Whether this reason means that block I/Os are missing that the recording should contain.
    pub fn is_loss(self) -> bool {
        !matches!(self, LossReason::Censored | LossReason::Retention) && !self.is_of_requests()
    }

    /// Whether it is file-level requests that are missing, not block I/Os.
    pub fn is_of_requests(self) -> bool {
        matches!(
            self,
            LossReason::RequestRingFull
                | LossReason::RequestTableFull
                | LossReason::RequestUnwritten
        )
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
    /// Reason of the loss.
    pub reason: LossReason,
    /// How many I/Os (requests, if [`LossReason::is_of_requests`]); `None` if not even that is known (a damaged block).
    pub ios: Option<i64>,
    /// How many bytes they moved, if known.
    pub bytes: Option<i64>,
    /// How many merges went into them, if known.
    pub merges: Option<i64>,
}

/// The sum of two counts. Those of a damaged recording may be any numbers.
fn sum(count: Option<i64>, more: Option<i64>) -> Option<i64> {
    Some(count?.saturating_add(more?))
}

/// A bin is marked as incomplete if the missing I/Os may be more than this share of its I/Os.
pub const MARKING_SHARE: f64 = 0.01;

impl Lost {
    /// Adds `more`, a loss of the same device, class and reason. A count unknown in either is unknown in the sum.
    pub fn add(&mut self, more: &Lost) {
        self.from_ns = self.from_ns.min(more.from_ns);
        self.to_ns = self.to_ns.max(more.to_ns);
        self.ios = sum(self.ios, more.ios);
        self.bytes = sum(self.bytes, more.bytes);
        self.merges = sum(self.merges, more.merges);
    }

    /// Expected number of its I/Os in `[from_ns, to_ns)`, if they are spread evenly over the loss's interval. Infinite
    /// if the intervals overlap and the number is not known, as after retention.
    pub fn expected_in(&self, from_ns: i64, to_ns: i64) -> f64 {
        // Half-open, as in `meets`; an interval of length 0 counts as one nanosecond.
        let own_end = self.to_ns.max(self.from_ns.saturating_add(1));
        let begin = from_ns.max(self.from_ns);
        let end = to_ns.min(own_end);
        if begin >= end {
            return 0.0;
        }
        let whole = own_end.saturating_sub(self.from_ns) as f64;
        match self.ios {
            Some(ios) if self.reason != LossReason::Retention => {
                ios.max(0) as f64 * (end - begin) as f64 / whole
            }
            _ => f64::INFINITY,
        }
    }

    /// Whether nothing was recorded in the interval, or everything recorded there was removed.
    pub fn is_unrecorded_time(&self) -> bool {
        let is_gap = matches!(self.reason, LossReason::NotRecorded | LossReason::Retention);
        is_gap && self.dev.is_none()
    }

    /// Whether `expected` missing I/Os can change a bin with `seen` recorded I/Os by more than `MARKING_SHARE`. An
    /// empty bin counts as one with a single I/O.
    pub fn marks(expected: f64, seen: u64) -> bool {
        expected > MARKING_SHARE * (seen as f64).max(1.0)
    }

    /// An unknown number of I/Os of any class, on any device.
    pub fn somewhere(from_ns: i64, to_ns: i64, reason: LossReason) -> Lost {
        Lost {
            from_ns,
            to_ns,
            dev: None,
            class: None,
            reason,
            ios: None,
            bytes: None,
            merges: None,
        }
    }

    /// Whether the loss affects `[from_ns, to_ns)`. Both intervals are half-open; one of length 0 affects its instant.
    pub fn meets(&self, from_ns: i64, to_ns: i64) -> bool {
        self.from_ns < to_ns
            && (self.to_ns > from_ns || (self.from_ns == self.to_ns && self.to_ns == from_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ios_are_spread_over_the_time_in_which_they_may_have_completed() {
        let lost = Lost {
            ios: Some(10),
            ..Lost::somewhere(100, 300, LossReason::Unseen)
        };
        assert_eq!(
            (
                lost.expected_in(0, 100),
                lost.expected_in(100, 200),
                lost.expected_in(0, 300)
            ),
            (0.0, 5.0, 10.0)
        );
        let at_once = Lost {
            ios: Some(3),
            ..Lost::somewhere(100, 100, LossReason::RingFull)
        };
        assert_eq!(
            (at_once.expected_in(0, 100), at_once.expected_in(100, 101)),
            (0.0, 3.0),
            "on an edge it counts once"
        );
        for unknown in [LossReason::Corrupt, LossReason::Retention] {
            let lost = Lost {
                ios: Some(1).filter(|_| unknown == LossReason::Retention),
                ..Lost::somewhere(0, 10, unknown)
            };
            assert_eq!(
                (lost.expected_in(5, 6), lost.expected_in(10, 20)),
                (f64::INFINITY, 0.0)
            );
        }
    }

    #[test]
    fn one_in_a_hundred_does_not_mark_a_bin_and_more_does() {
        assert!(!Lost::marks(5.0, 500) && Lost::marks(5.1, 500));
        assert!(
            !Lost::marks(0.01, 0) && Lost::marks(0.02, 0),
            "a bin without I/O"
        );
    }
}
