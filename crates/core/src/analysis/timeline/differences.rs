//! Converts counter samples of many devices, in time order, to differences per device.

use std::collections::HashMap;

use super::{CounterRates, Flow};
use crate::analysis::counters::rates::{ClassDelta, Delta, State};
use crate::model::{CounterSample, DevId, Device, MS_NS, SECTOR_BYTES};

/// Remembers each device's last sample; see [`Differences::push`].
#[derive(Debug, Clone, Default)]
pub struct Differences {
    last: HashMap<DevId, CounterSample>,
    not_accounted: Vec<DevId>,
}

impl Differences {
    /// `devices` shows which devices the kernel does not account (`queue/iostats` is 0); their rates are unknown.
    pub fn new(devices: &[Device]) -> Differences {
        Differences {
            last: HashMap::new(),
            not_accounted: not_accounted(devices),
        }
    }

    /// Replaces the list of devices for the samples that follow.
    pub fn devices_changed(&mut self, devices: &[Device]) {
        self.not_accounted = not_accounted(devices);
    }

    /// Takes the next sample. Returns the difference to the device's previous one, if there is one and the two are
    /// comparable.
    pub fn push(&mut self, sample: &CounterSample) -> Option<CounterRates> {
        let before = self.last.insert(sample.dev, *sample)?;
        let accounted = !self.not_accounted.contains(&sample.dev);
        let delta = Delta::between(&before, sample, Some(accounted));
        if delta.state != State::Known {
            return None;
        }
        Some(CounterRates {
            dev: sample.dev,
            from_ns: before.at_ns,
            to_ns: sample.at_ns,
            flows: [
                flow(&delta.read),
                flow(&delta.write),
                flow(&delta.discard),
                flush_flow(&delta.flush),
            ],
            busy_ns: nanoseconds(delta.io_ticks_ms),
            area_ns: nanoseconds(delta.time_in_queue_ms),
        })
    }
}

fn not_accounted(devices: &[Device]) -> Vec<DevId> {
    devices
        .iter()
        .filter(|d| d.iostats == Some(false))
        .map(|d| d.id)
        .collect()
}

fn nanoseconds(ms: Option<u64>) -> Option<i64> {
    i64::try_from(ms?).ok()?.checked_mul(MS_NS)
}

fn flow(d: &ClassDelta) -> Option<Flow> {
    let bytes = d.sectors?.checked_mul(SECTOR_BYTES as u64)?;
    Some(Flow {
        ios: d.ios?,
        bytes,
        total_ns: nanoseconds(d.ticks_ms)?,
    })
}

/// Flushes transfer no sectors.
fn flush_flow(d: &ClassDelta) -> Option<Flow> {
    Some(Flow {
        ios: d.ios?,
        bytes: 0,
        total_ns: nanoseconds(d.ticks_ms)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClassCounters, DiskCounters};

    fn sample(at_ns: i64, ios: u64, io_ticks_ms: u64) -> CounterSample {
        let read = ClassCounters {
            ios,
            merges: 0,
            sectors: ios * 8,
            ticks_ms: ios * 2,
        };
        let counters = DiskCounters {
            read,
            io_ticks_ms,
            ..DiskCounters::default()
        };
        CounterSample {
            at_ns,
            dev: DevId::new(8, 0),
            counters,
        }
    }

    #[test]
    fn the_first_sample_says_nothing_and_a_replugged_device_begins_anew() {
        let mut d = Differences::default();
        assert_eq!(d.push(&sample(0, 100, 5)), None);
        let r = d.push(&sample(10, 103, 9)).expect("two samples");
        let read = r.flows[0].expect("known");
        assert_eq!(
            (read.ios, read.bytes, read.total_ns),
            (3, 3 * 4096, 6 * MS_NS)
        );
        assert_eq!((r.from_ns, r.to_ns, r.busy_ns), (0, 10, Some(4 * MS_NS)));
        assert_eq!(r.flows[2], None, "this kernel knows no discards");
        assert_eq!(d.push(&sample(20, 1, 0)), None, "plugged again");
        assert!(d.push(&sample(30, 2, 1)).is_some());
    }

    #[test]
    fn a_device_that_is_not_accounted_is_not_idle() {
        let mut device = Device::named("sda", DevId::new(8, 0));
        device.iostats = Some(false);
        let mut d = Differences::new(&[device]);
        d.push(&sample(0, 100, 5));
        assert_eq!(d.push(&sample(10, 100, 5)), None);
    }
}
