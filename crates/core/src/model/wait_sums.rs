//! Sums of waits by victim and cause in steps of 10 s and 600 s. They outlive the single I/Os.

use super::{Class, Comm, DevId, Origin};

/// The owner of a part of an I/O's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeOwner {
    /// Time that the I/O takes undisturbed.
    Undisturbed,
    /// Waits behind I/Os of the same group (one process, class and origin).
    Own,
    /// Waits behind I/Os of other groups.
    Others,
    /// Waits in a queue above the driver while the device had room.
    Held,
    /// Delays caused by the device itself.
    Device,
    /// Unknown, because I/Os are missing.
    Unknown,
}

impl TimeOwner {
    /// All of them.
    pub const ALL: [TimeOwner; 6] = [
        TimeOwner::Undisturbed,
        TimeOwner::Own,
        TimeOwner::Others,
        TimeOwner::Held,
        TimeOwner::Device,
        TimeOwner::Unknown,
    ];

    /// Its name, for documents, labels and recordings.
    pub fn name(self) -> &'static str {
        match self {
            TimeOwner::Undisturbed => "undisturbed",
            TimeOwner::Own => "own",
            TimeOwner::Others => "others",
            TimeOwner::Held => "held",
            TimeOwner::Device => "device",
            TimeOwner::Unknown => "unknown",
        }
    }

    /// Whether time of this owner counts as lost: it is neither undisturbed nor of unknown cause.
    pub fn is_loss(self) -> bool {
        !matches!(self, TimeOwner::Undisturbed | TimeOwner::Unknown)
    }

    /// The cause of this name.
    pub fn from_name(name: &[u8]) -> Option<TimeOwner> {
        TimeOwner::ALL
            .into_iter()
            .find(|cause| cause.name().as_bytes() == name)
    }
}

/// I/O time by the owner of each part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnedTime {
    /// Time that the I/Os take undisturbed.
    pub undisturbed_ns: i64,
    /// Time spent behind I/Os of the same group.
    pub own_ns: i64,
    /// Time spent behind I/Os of other groups.
    pub others_ns: i64,
    /// Time held above the driver while the device had room: by a scheduler, by a limit of a control group, or because
    /// tags ran out.
    pub held_ns: i64,
    /// Time caused by the device itself: a pause, garbage collection, firmware, or a hypervisor.
    pub device_ns: i64,
    /// Time without a known cause: I/Os are missing, or the wait began before the oldest remembered work.
    pub unknown_ns: i64,
}

impl OwnedTime {
    /// Nanoseconds of `owner`.
    pub fn ns(&self, owner: TimeOwner) -> i64 {
        match owner {
            TimeOwner::Undisturbed => self.undisturbed_ns,
            TimeOwner::Own => self.own_ns,
            TimeOwner::Others => self.others_ns,
            TimeOwner::Held => self.held_ns,
            TimeOwner::Device => self.device_ns,
            TimeOwner::Unknown => self.unknown_ns,
        }
    }

    /// The sum of all owners, which equals the sum of the latencies.
    pub fn total_ns(&self) -> i64 {
        self.undisturbed_ns + self.excess_ns()
    }

    /// All time that is not undisturbed.
    pub fn excess_ns(&self) -> i64 {
        self.own_ns + self.others_ns + self.held_ns + self.device_ns + self.unknown_ns
    }

    /// Lost time in nanoseconds, by [`TimeOwner::is_loss`].
    pub fn lost_ns(&self) -> i64 {
        let lost = TimeOwner::ALL.into_iter().filter(|owner| owner.is_loss());
        lost.map(|owner| self.ns(owner)).sum()
    }

    /// This time, with `own_ns` of the waits behind I/Os attributed to own I/Os and the rest to others.
    #[must_use]
    pub fn with_own(self, own_ns: i64) -> OwnedTime {
        OwnedTime {
            own_ns,
            others_ns: self.own_ns + self.others_ns - own_ns,
            ..self
        }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &OwnedTime) {
        self.undisturbed_ns += other.undisturbed_ns;
        self.own_ns += other.own_ns;
        self.others_ns += other.others_ns;
        self.held_ns += other.held_ns;
        self.device_ns += other.device_ns;
        self.unknown_ns += other.unknown_ns;
    }
}

/// A group of I/Os that waited, or that others waited for. An inner `None` means that the source does not know it or,
/// for the process id, that there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitParty {
    /// Stands for all parties without a row of their own; only the class is known then.
    pub is_others: bool,
    /// Number of the process.
    pub tgid: Option<i32>,
    /// Its name.
    pub comm: Option<Comm>,
    /// Its control group.
    pub cgroup: Option<i64>,
    /// Class of the I/Os.
    pub class: Class,
    /// How they came to be.
    pub origin: Origin,
}

impl WaitParty {
    /// The party that stands for all further ones of a class.
    pub fn others(class: Class) -> WaitParty {
        WaitParty {
            is_others: true,
            tgid: None,
            comm: None,
            cgroup: None,
            class,
            origin: Origin::Unknown,
        }
    }
}

/// I/O time of one group of I/Os on one device that is attributed to one owner, over the I/Os that completed in one
/// slot. A key may have several rows; readers add them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitSums {
    /// Length of the slot in seconds.
    pub step_s: i32,
    /// Start of the slot, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// The device.
    pub dev: DevId,
    /// The group whose I/O time this is.
    pub victim: WaitParty,
    /// What this time is attributed to.
    pub cause: TimeOwner,
    /// The group waited for; only for [`TimeOwner::Others`].
    pub culprit: Option<WaitParty>,
    /// The time.
    pub ns: i64,
    /// For [`TimeOwner::Undisturbed`] the number of all I/Os of the victim, for [`TimeOwner::Others`] of those that
    /// waited; else `None`.
    pub ios: Option<i64>,
    /// I/Os that took more than twice their undisturbed latency; only in the victim's row of
    /// [`TimeOwner::Undisturbed`].
    pub delayed_ios: Option<i64>,
    /// The longest wait; only in the same row.
    pub worst: Option<WorstWait>,
}

/// The longest wait beyond the undisturbed latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorstWait {
    /// When that I/O completed, in nanoseconds since the recording's start.
    pub done_ns: i64,
    /// Its latency.
    pub latency_ns: i64,
    /// Time that it takes undisturbed.
    pub undisturbed_ns: i64,
}

impl WorstWait {
    /// Time in excess of the undisturbed time, in nanoseconds.
    pub fn excess_ns(&self) -> i64 {
        self.latency_ns - self.undisturbed_ns
    }

    /// Replaces this wait by `other` if that is longer.
    pub fn keep_worse(&mut self, other: &WorstWait) {
        if other.excess_ns() > self.excess_ns() {
            *self = *other;
        }
    }
}
