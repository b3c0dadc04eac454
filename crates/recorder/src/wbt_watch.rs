//! Adds marks for write-back that the kernel throttles above the block layer (wbt).

use std::collections::HashMap;

use iolens_core::model::{DevId, Device, Mark, Observation, find_device};
use iolens_observe::trace::WbtThrottled;

/// Minimum interval between two remarks about a device.
const REMARK_AGAIN_NS: i64 = 10_000_000_000;

/// The last remark about a device.
#[derive(Debug, Clone, Copy)]
struct LastRemark {
    at_ns: i64,
    windows: u64,
}

/// Compares the kernel's counts with those already reported.
#[derive(Debug, Default)]
pub struct WbtWatch {
    last_remarks: HashMap<DevId, LastRemark>,
}

impl WbtWatch {
    /// Takes the counts since the probes were attached, and returns marks for new ones.
    pub fn look(
        &mut self,
        now_ns: i64,
        counts: &[(DevId, WbtThrottled)],
        devices: &[Device],
    ) -> Vec<Observation> {
        let mut marks = Vec::new();
        for (dev, throttled) in counts {
            let before = self.last_remarks.get(dev).copied();
            let new_windows = throttled.windows - before.map_or(0, |s| s.windows);
            let is_due = before.is_none_or(|s| now_ns - s.at_ns >= REMARK_AGAIN_NS);
            if new_windows == 0 || !is_due {
                continue;
            }
            let remark = LastRemark {
                at_ns: now_ns,
                windows: throttled.windows,
            };
            self.last_remarks.insert(*dev, remark);
            let name =
                find_device(devices, *dev).map_or_else(|| dev.to_string(), |d| d.name.clone());
            marks.push(Observation::Mark(Mark {
                at_ns: now_ns,
                kind: Mark::THROTTLED_ABOVE.to_owned(),
                text: format!(
                    "{name}: wbt throttled write-back above the block layer ({new_windows} windows, step {} at most)",
                    throttled.max_step
                ),
            }));
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn new_windows_are_said_once_in_ten_seconds() {
        let dev = DevId::new(8, 0);
        let devices = [Device::named("sda", dev)];
        let counts = |windows| {
            [(
                dev,
                WbtThrottled {
                    windows,
                    max_step: 2,
                },
            )]
        };
        let mut watch = WbtWatch::default();
        let mut said = Vec::new();
        for (second, windows) in [(0, 0), (1, 3), (2, 5), (11, 5), (12, 5), (40, 6)] {
            for mark in watch.look(second * S, &counts(windows), &devices) {
                let Observation::Mark(mark) = mark else {
                    panic!("{mark:?} is no mark");
                };
                assert!(mark.text.starts_with("sda: wbt"), "{mark:?}");
                said.push((mark.at_ns / S, mark.text.contains("(2 windows")));
            }
        }
        assert_eq!(said, [(1, false), (11, true), (40, false)]);
        assert!(watch.look(0, &[], &devices).is_empty());
    }
}
