//! Where the time of the I/Os of one group went.

use super::device::Wait;
use super::groups::Group;
use crate::model::{OwnedTime, WorstWait};

/// Time that I/Os of one group waited behind those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The group that they waited behind.
    pub group: Group,
    /// Waiting time, summed over the I/Os.
    pub ns: i64,
    /// Number of I/Os that waited.
    pub ios: u64,
}

/// The I/O time of one group by owner. The parts add up to the latencies exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The group.
    pub group: Group,
    /// Number of completed I/Os.
    pub ios: u64,
    /// Number of I/Os that took longer than twice their undisturbed latency.
    pub delayed_ios: u64,
    /// The latencies divided by owner.
    pub time: OwnedTime,
    /// Waits behind other groups, most time first.
    pub behind: Vec<Behind>,
    /// The worst wait of a single I/O.
    pub worst: WorstWait,
}

impl Victim {
    /// Removes the names of programs. Groups that were formed by name stay as they are.
    pub fn hide_names(&mut self) {
        self.group.hide_name();
        for behind in &mut self.behind {
            behind.group.hide_name();
        }
    }
}

/// Sums over the I/Os of one group.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub ios: u64,
    delayed_ios: u64,
    time: OwnedTime,
    /// By group number. There are few entries, so a linear search is faster than a map.
    behind: Vec<(u32, i64, u64)>,
    worst: WorstWait,
}

impl Sums {
    pub fn count(&mut self, wait: &Wait) {
        self.ios += 1;
        self.delayed_ios += u64::from(wait.is_delayed());
        self.time.add(&wait.time);
        for (group, ns) in wait.behind {
            self.add_behind(*group, *ns, 1);
        }
        self.worst.keep_worse(&wait.as_worst());
    }

    /// Visits every group number stored here, so that groups can be renumbered.
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
    /// Sorts victims by excess, and the groups that each waited behind by time.
    pub(super) fn ordered(mut victims: Vec<Victim>) -> Vec<Victim> {
        for victim in &mut victims {
            victim
                .behind
                .sort_by_key(|b| (std::cmp::Reverse(b.ns), b.group));
        }
        victims.sort_by_key(|v| (std::cmp::Reverse(v.time.excess_ns()), v.group));
        victims
    }

    pub(super) fn none(group: Group) -> Victim {
        Victim {
            group,
            ios: 0,
            delayed_ios: 0,
            time: OwnedTime::default(),
            behind: Vec::new(),
            worst: WorstWait::default(),
        }
    }

    pub(super) fn add(&mut self, sums: &Sums, shown: &[Group]) {
        self.ios += sums.ios;
        self.delayed_ios += sums.delayed_ios;
        let mut own_ns = 0;
        for (number, ns, ios) in &sums.behind {
            let group = shown[*number as usize];
            if group == self.group {
                own_ns += ns;
                continue;
            }
            self.add_behind(Behind {
                group,
                ns: *ns,
                ios: *ios,
            });
        }
        self.time.add(&sums.time.with_own(own_ns));
        self.worst.keep_worse(&sums.worst);
    }

    /// Adds time that was waited behind a group.
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
