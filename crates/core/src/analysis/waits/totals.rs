//! Waits without names: by device, class and cause, summed since the beginning.

use std::collections::BTreeMap;

use super::bins::WaitBin;
use crate::model::{Class, DevId, OwnedTime, TimeOwner};

/// I/O time by device, class and cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitTotals(BTreeMap<DevId, [OwnedTime; Class::ALL.len()]>);

impl WaitTotals {
    /// Adds one interval of a device.
    pub fn add(&mut self, bin: &WaitBin) {
        let classes = self.0.entry(bin.dev).or_default();
        for victim in &bin.victims {
            classes[victim.group.class as usize].add(&victim.time);
        }
    }

    /// Total nanoseconds of one cause; 0 for a device without I/Os.
    pub fn ns(&self, dev: DevId, class: Class, cause: TimeOwner) -> i64 {
        let classes = self.0.get(&dev);
        classes.map_or(0, |classes| classes[class as usize].ns(cause))
    }
}
