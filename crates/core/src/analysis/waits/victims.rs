//! Where the time of the I/Os of one group went.

use super::device::Wait;
use super::groups::Group;
use crate::model::TimeOwner;

/// Time that I/Os of one group waited behind those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Behind whom.
    pub group: Group,
    /// How long, summed.
    pub ns: i64,
    /// How many I/Os did.
    pub ios: u64,
}

/// The longest wait beyond the undisturbed latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worst {
    /// When that I/O completed, in nanoseconds since the recording's start.
    pub done_ns: i64,
    /// Its latency.
    pub latency_ns: i64,
    /// What it takes undisturbed.
    pub undisturbed_ns: i64,
}

/// Where the time of one group's I/Os went. The parts add up to `io_time_ns`, exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Whose I/Os.
    pub group: Group,
    /// How many.
    pub ios: u64,
    /// How many of them took longer than twice their undisturbed latency.
    pub delayed_ios: u64,
    /// Sum of their latencies.
    pub io_time_ns: i64,
    /// What they would have taken undisturbed.
    pub undisturbed_ns: i64,
    /// Behind I/Os of their own group.
    pub own_ns: i64,
    /// Above the driver while the device had room: by a scheduler, a limit of a control group, or for want of tags.
    pub held_ns: i64,
    /// By the device itself: a pause, garbage collection, firmware, a hypervisor.
    pub device_ns: i64,
    /// Of no known cause: I/Os are missing, or the wait began longer ago than work is remembered.
    pub unknown_ns: i64,
    /// Behind others, the most time first.
    pub behind: Vec<Behind>,
    /// The worst of them.
    pub worst: Worst,
}

impl Worst {
    fn excess_ns(&self) -> i64 {
        self.latency_ns - self.undisturbed_ns
    }

    pub(super) fn keep_worse(&mut self, other: &Worst) {
        if other.excess_ns() > self.excess_ns() {
            *self = *other;
        }
    }
}

impl Victim {
    /// Leaves out names of programs: what was taken together by them stays together.
    pub fn hide_names(&mut self) {
        self.group.hide_name();
        for behind in &mut self.behind {
            behind.group.hide_name();
        }
    }

    /// What they lost: all that is not undisturbed.
    pub fn excess_ns(&self) -> i64 {
        self.io_time_ns - self.undisturbed_ns
    }

    /// The part of their I/O time that `cause` owns.
    pub fn ns_of(&self, cause: TimeOwner) -> i64 {
        match cause {
            TimeOwner::Undisturbed => self.undisturbed_ns,
            TimeOwner::Own => self.own_ns,
            TimeOwner::Others => self.behind.iter().map(|b| b.ns).sum(),
            TimeOwner::Held => self.held_ns,
            TimeOwner::Device => self.device_ns,
            TimeOwner::Unknown => self.unknown_ns,
        }
    }
}

/// Sums over the I/Os of one group.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub ios: u64,
    delayed_ios: u64,
    io_time_ns: i64,
    undisturbed_ns: i64,
    held_ns: i64,
    device_ns: i64,
    unknown_ns: i64,
    /// By the group's number. Few: a linear search is faster than a map.
    behind: Vec<(u32, i64, u64)>,
    worst: Worst,
}

impl Sums {
    pub fn count(&mut self, wait: &Wait) {
        let latency_ns = wait.io.done_ns - wait.io.start_ns;
        self.ios += 1;
        self.io_time_ns += latency_ns;
        self.undisturbed_ns += wait.undisturbed_ns;
        self.held_ns += wait.held_ns;
        self.device_ns += wait.device_ns;
        self.unknown_ns += wait.unknown_ns;
        for (group, ns) in wait.behind {
            self.add_behind(*group, *ns, 1);
        }
        let excess_ns = latency_ns - wait.undisturbed_ns;
        if excess_ns > wait.undisturbed_ns {
            self.delayed_ios += 1;
        }
        self.worst.keep_worse(&Worst {
            done_ns: wait.io.done_ns,
            latency_ns,
            undisturbed_ns: wait.undisturbed_ns,
        });
    }

    /// Visits every number of a group that it keeps.
    pub fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        for (group, _, _) in &mut self.behind {
            visit(group);
        }
    }

    fn add_behind(&mut self, group: u32, ns: i64, ios: u64) {
        match self.behind.iter_mut().find(|b| b.0 == group) {
            Some(behind) => {
                behind.1 += ns;
                behind.2 += ios;
            }
            None => self.behind.push((group, ns, ios)),
        }
    }
}

impl Victim {
    /// The most excess first, and of each those first behind which it waited longest.
    pub(super) fn ordered(mut victims: Vec<Victim>) -> Vec<Victim> {
        for victim in &mut victims {
            victim
                .behind
                .sort_by_key(|b| (std::cmp::Reverse(b.ns), b.group));
        }
        victims.sort_by_key(|v| (std::cmp::Reverse(v.excess_ns()), v.group));
        victims
    }

    pub(super) fn none(group: Group) -> Victim {
        Victim {
            group,
            ios: 0,
            delayed_ios: 0,
            io_time_ns: 0,
            undisturbed_ns: 0,
            own_ns: 0,
            held_ns: 0,
            device_ns: 0,
            unknown_ns: 0,
            behind: Vec::new(),
            worst: Worst::default(),
        }
    }

    pub(super) fn add(&mut self, sums: &Sums, shown: &[Group]) {
        self.ios += sums.ios;
        self.delayed_ios += sums.delayed_ios;
        self.io_time_ns += sums.io_time_ns;
        self.undisturbed_ns += sums.undisturbed_ns;
        self.held_ns += sums.held_ns;
        self.device_ns += sums.device_ns;
        self.unknown_ns += sums.unknown_ns;
        for (number, ns, ios) in &sums.behind {
            let group = shown[*number as usize];
            if group == self.group {
                self.own_ns += ns;
                continue;
            }
            self.add_behind(Behind {
                group,
                ns: *ns,
                ios: *ios,
            });
        }
        self.worst.keep_worse(&sums.worst);
    }

    pub(super) fn add_behind(&mut self, more: Behind) {
        match self.behind.iter_mut().find(|b| b.group == more.group) {
            Some(behind) => {
                behind.ns += more.ns;
                behind.ios += more.ios;
            }
            None => self.behind.push(more),
        }
    }
}
