//! Sums of waits by victim and cause in 10 s and 600 s steps; they remain when single I/Os are removed.

use super::{Class, Comm, DevId, Origin};

/// The owner of a part of an I/O's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeOwner {
    /// The I/O itself: it takes so long undisturbed.
    Undisturbed,
    /// I/Os of the same group, which is a process with one class and one origin.
    Own,
    /// I/Os of other groups.
    Others,
    /// A queue above the driver while the device had room.
    Held,
    /// The device itself.
    Device,
    /// Not known: I/Os are missing.
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

    /// Whether its time is lost: neither undisturbed, nor of unknown cause.
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
    /// Behind I/Os of their own.
    pub own_ns: i64,
    /// Behind those of others.
    pub others_ns: i64,
    /// Above the driver while the device had room: by a scheduler, a limit of a control group, or for want of tags.
    pub held_ns: i64,
    /// By the device itself: a pause, garbage collection, firmware, a hypervisor.
    pub device_ns: i64,
    /// Of no known cause: I/Os are missing, or the wait began longer ago than work is remembered.
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

    /// All of it: the sum of the latencies.
    pub fn total_ns(&self) -> i64 {
        self.undisturbed_ns + self.excess_ns()
    }

    /// All that is not undisturbed.
    pub fn excess_ns(&self) -> i64 {
        self.own_ns + self.others_ns + self.held_ns + self.device_ns + self.unknown_ns
    }

    /// Lost time in nanoseconds, by [`TimeOwner::is_loss`].
    pub fn lost_ns(&self) -> i64 {
        let lost = TimeOwner::ALL.into_iter().filter(|owner| owner.is_loss());
        lost.map(|owner| self.ns(owner)).sum()
    }

    /// This time with `own_ns` of the waits behind I/Os counted as behind own I/Os.
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

/// The owner of I/Os that waited, or that others waited for. `None` inside: not known to the source, or (the number)
/// several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitParty {
    /// All that have no row of their own, together; then all else but the class is not known.
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
    /// All further ones of a class.
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

/// I/O time of one group of I/Os on one device that has one owner, over the I/Os that completed in one slot. Rows of one key
/// may be several: they add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitSums {
    /// Length of the slot in seconds.
    pub step_s: i32,
    /// Its beginning, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// The device.
    pub dev: DevId,
    /// The owner of the I/O time.
    pub victim: WaitParty,
    /// The owner of the lost time.
    pub cause: TimeOwner,
    /// Of [`TimeOwner::Others`]: who.
    pub culprit: Option<WaitParty>,
    /// The time.
    pub ns: i64,
    /// Of [`TimeOwner::Undisturbed`] all I/Os of the victim, of [`TimeOwner::Others`] those that waited; else not counted.
    pub ios: Option<i64>,
    /// Of all of the victim, in its row of [`TimeOwner::Undisturbed`]: I/Os that took more than twice their undisturbed latency.
    pub delayed_ios: Option<i64>,
    /// There, too: the longest wait.
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

    /// Becomes `other` if that is longer.
    pub fn keep_worse(&mut self, other: &WorstWait) {
        if other.excess_ns() > self.excess_ns() {
            *self = *other;
        }
    }
}
