//! Waits without names: by device, class and cause, summed since the beginning.

use std::collections::BTreeMap;

use super::bins::WaitBin;
use crate::model::{Class, DevId};

/// Who owns a part of an I/O's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitCause {
    /// Nobody: it takes so long undisturbed.
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

impl WaitCause {
    /// All of them.
    pub const ALL: [WaitCause; 6] = [
        WaitCause::Undisturbed,
        WaitCause::Own,
        WaitCause::Others,
        WaitCause::Held,
        WaitCause::Device,
        WaitCause::Unknown,
    ];

    /// Its name, for documents and labels.
    pub fn name(self) -> &'static str {
        match self {
            WaitCause::Undisturbed => "undisturbed",
            WaitCause::Own => "own",
            WaitCause::Others => "others",
            WaitCause::Held => "held",
            WaitCause::Device => "device",
            WaitCause::Unknown => "unknown",
        }
    }
}

/// By cause, in the order of [`WaitCause::ALL`].
type Causes = [i64; WaitCause::ALL.len()];

/// Nanoseconds by device, class and cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitTotals(BTreeMap<DevId, [Causes; Class::ALL.len()]>);

impl WaitTotals {
    /// Adds an interval of a device.
    pub fn add(&mut self, bin: &WaitBin) {
        let classes = self.0.entry(bin.dev).or_default();
        for victim in &bin.victims {
            let causes = &mut classes[victim.group.class as usize];
            for cause in WaitCause::ALL {
                causes[cause as usize] += victim.ns_of(cause);
            }
        }
    }

    /// The sum of one cause; 0 of a device without I/Os.
    pub fn ns(&self, dev: DevId, class: Class, cause: WaitCause) -> i64 {
        let classes = self.0.get(&dev);
        classes.map_or(0, |classes| classes[class as usize][cause as usize])
    }
}
