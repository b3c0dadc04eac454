//! Waits without names: by device, class and cause, summed since the beginning.

use std::collections::BTreeMap;

use super::bins::WaitBin;
use super::device::Wait;
use super::victims::Victim;
use crate::model::{Class, DevId, TimeOwner};

/// I/O time by the owner of each part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnedTime([i64; TimeOwner::ALL.len()]);

impl OwnedTime {
    /// Of one I/O.
    pub(super) fn of(wait: &Wait) -> OwnedTime {
        let mut time = OwnedTime::default();
        time.0[TimeOwner::Undisturbed as usize] = wait.undisturbed_ns;
        time.0[TimeOwner::Held as usize] = wait.held_ns;
        time.0[TimeOwner::Device as usize] = wait.device_ns;
        time.0[TimeOwner::Unknown as usize] = wait.unknown_ns;
        for (group, ns) in wait.behind {
            let is_own = *group == wait.io.group;
            let cause = if is_own {
                TimeOwner::Own
            } else {
                TimeOwner::Others
            };
            time.0[cause as usize] += ns;
        }
        time
    }

    fn of_victim(victim: &Victim) -> OwnedTime {
        OwnedTime(TimeOwner::ALL.map(|cause| victim.ns_of(cause)))
    }

    /// What `cause` owns, in nanoseconds.
    pub fn ns(&self, cause: TimeOwner) -> i64 {
        self.0[cause as usize]
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &OwnedTime) {
        for (sum, ns) in self.0.iter_mut().zip(other.0) {
            *sum += ns;
        }
    }
}

/// I/O time by device, class and cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitTotals(BTreeMap<DevId, [OwnedTime; Class::ALL.len()]>);

impl WaitTotals {
    /// Adds an interval of a device.
    pub fn add(&mut self, bin: &WaitBin) {
        let classes = self.0.entry(bin.dev).or_default();
        for victim in &bin.victims {
            classes[victim.group.class as usize].add(&OwnedTime::of_victim(victim));
        }
    }

    /// The sum of one cause; 0 of a device without I/Os.
    pub fn ns(&self, dev: DevId, class: Class, cause: TimeOwner) -> i64 {
        let classes = self.0.get(&dev);
        classes.map_or(0, |classes| classes[class as usize].ns(cause))
    }
}
