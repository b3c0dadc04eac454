//! I/O sums per actor (process, control group, file) in steps of 10 s and 600 s. They outlive the single I/Os.

use super::{Class, DevId, Inode, Io};

/// The kinds of actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActorKind {
    /// A process (thread group).
    Process,
    /// A control group.
    Cgroup,
    /// A file.
    File,
}

impl ActorKind {
    /// All kinds.
    pub const ALL: [ActorKind; 3] = [ActorKind::Process, ActorKind::Cgroup, ActorKind::File];

    /// Lower-case name, as in recordings and parameters.
    pub fn name(self) -> &'static str {
        match self {
            ActorKind::Process => "process",
            ActorKind::Cgroup => "cgroup",
            ActorKind::File => "file",
        }
    }
}

/// An actor, by its numbers. An inner `None` means that the source does not know the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    /// A process, as in [`Io::tgid`].
    Process(Option<i32>),
    /// A control group, as in [`Io::cgroup`].
    Cgroup(Option<i64>),
    /// A file, as in [`Io::inode`].
    File(Option<Inode>),
    /// All actors of a kind that have no row of their own in this slot.
    Others(ActorKind),
}

impl Actor {
    /// Its kind.
    pub fn kind(self) -> ActorKind {
        match self {
            Actor::Process(_) => ActorKind::Process,
            Actor::Cgroup(_) => ActorKind::Cgroup,
            Actor::File(_) => ActorKind::File,
            Actor::Others(kind) => kind,
        }
    }
}

/// Sums over the I/Os of one actor, device and class that completed in one slot. A key may have several rows; readers
/// add them up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorSums {
    /// Length of the slot in seconds.
    pub step_s: i32,
    /// Start of the slot, in nanoseconds since the recording's start; a multiple of the step.
    pub at_ns: i64,
    /// The device.
    pub dev: DevId,
    /// The class.
    pub class: Class,
    /// The cause.
    pub actor: Actor,
    /// Name of the process, or path of the control group or file. Untrusted, not escaped.
    pub name: Option<String>,
    /// The sums.
    pub sums: IoSums,
}

/// Sums over I/Os of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoSums {
    /// I/Os completed.
    pub ios: i64,
    /// Bytes that they moved.
    pub bytes: i64,
    /// Time from start to issue, summed over the I/Os; `None` unless it is known for every one of them.
    pub queue_sum_ns: Option<i64>,
    /// Time from issue to completion, summed over the I/Os.
    pub device_sum_ns: i64,
}

impl IoSums {
    /// No I/Os.
    pub const ZERO: IoSums = IoSums {
        ios: 0,
        bytes: 0,
        queue_sum_ns: Some(0),
        device_sum_ns: 0,
    };

    /// Counts an I/O.
    pub fn count(&mut self, io: &Io) {
        self.add(&IoSums {
            ios: 1,
            bytes: io.bytes,
            queue_sum_ns: io.queue_ns,
            device_sum_ns: io.device_ns,
        });
    }

    /// Adds the sums of other I/Os.
    pub fn add(&mut self, other: &IoSums) {
        self.ios += other.ios;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.queue_sum_ns = self
            .queue_sum_ns
            .zip(other.queue_sum_ns)
            .map(|(a, b)| a.saturating_add(b));
        self.device_sum_ns = self.device_sum_ns.saturating_add(other.device_sum_ns);
    }

    /// Sum of the latencies (start to completion) in nanoseconds. Where the start is not known, device time alone.
    pub fn time_ns(&self) -> i64 {
        self.device_sum_ns
            .saturating_add(self.queue_sum_ns.unwrap_or(0))
    }
}
