//! Reads the BPF programs' counts of lost I/Os.

use std::collections::HashMap;

use aya::maps::{Array, MapData, PerCpuHashMap};
use iolens_core::model::{Class, DevId, Lost};

use super::{
    error::{TraceError, refused},
    event::{LossKey, LossValue},
};

/// Counts of one key, summed over all CPUs, at the last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    ios: u64,
    bytes: u64,
    merges: u64,
}

/// Converts the BPF programs' growing counts to [`Lost`] intervals.
pub(super) struct LossReader {
    total: Array<MapData, u64>,
    epoch: Array<MapData, u64>,
    losses: PerCpuHashMap<MapData, LossKey, LossValue>,
    last_total: u64,
    last_epoch: u64,
    seen: HashMap<LossKey, Seen>,
    /// Start of the first I/O of each key of I/Os without a slot, in nanoseconds of the kernel's monotonic clock.
    first_without_slot_ns: HashMap<LossKey, u64>,
}

/// I/Os of one device and class that began without a slot and have no completion: in flight, or their completion was
/// missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutstandingCount {
    pub dev: DevId,
    pub class: Option<Class>,
    /// Start of the first I/O without a slot, in nanoseconds of the kernel's monotonic clock. It may be one of these.
    pub first_ns: u64,
    pub ios: usize,
    pub bytes: Option<i64>,
}

impl LossReader {
    pub fn new(
        total: Array<MapData, u64>,
        epoch: Array<MapData, u64>,
        losses: PerCpuHashMap<MapData, LossKey, LossValue>,
    ) -> LossReader {
        LossReader {
            total,
            epoch,
            losses,
            last_total: 0,
            last_epoch: 1,
            seen: HashMap::new(),
            first_without_slot_ns: HashMap::new(),
        }
    }

    /// Appends the losses since the last call, one interval per device, class and reason. If there were none, this
    /// costs one system call.
    pub fn read(&mut self, start_monotonic_ns: i64, out: &mut Vec<Lost>) -> Result<(), TraceError> {
        let total = self
            .total
            .get(&0, 0)
            .map_err(|e| refused("read its losses", &e))?;
        if total == self.last_total {
            return Ok(());
        }
        self.last_total = total;
        // Raise the epoch first. A loss during the reading may then be counted now and dated again later, but never
        // counted undated.
        let epoch = self.last_epoch;
        self.last_epoch += 1;
        self.epoch
            .set(0, self.last_epoch, 0)
            .map_err(|e| refused("date its losses", &e))?;
        for item in self.losses.iter() {
            let (key, cpus) = item.map_err(|e| refused("read its losses", &e))?;
            let (now, interval) = summed(cpus.iter(), epoch);
            let before = self.seen.insert(key, now).unwrap_or_default();
            let Some((first_ns, last_ns)) = interval.filter(|_| now != before) else {
                continue;
            };
            let Some(reason) = key.reason() else {
                self.first_without_slot_ns.entry(key).or_insert(first_ns);
                continue;
            };
            out.push(Lost {
                from_ns: first_ns as i64 - start_monotonic_ns,
                to_ns: last_ns as i64 - start_monotonic_ns,
                dev: Some(DevId(key.dev as i32)).filter(|d| d.0 != 0),
                class: key.class(),
                reason,
                ios: Some((now.ios - before.ios) as i64),
                bytes: Some((now.bytes - before.bytes) as i64),
                merges: Some((now.merges - before.merges) as i64),
            });
        }
        Ok(())
    }

    /// The I/Os that started without a slot and have no completion, as of the last reading.
    pub fn outstanding(&self) -> Vec<OutstandingCount> {
        let of = |(key, first_ns): (&LossKey, &u64)| {
            outstanding_of(
                *self.seen.get(key)?,
                self.seen.get(&key.ends()?).copied().unwrap_or_default(),
            )
            .map(|(ios, bytes)| OutstandingCount {
                dev: DevId(key.dev as i32),
                class: key.class(),
                first_ns: *first_ns,
                ios,
                bytes,
            })
        };
        self.first_without_slot_ns.iter().filter_map(of).collect()
    }
}

/// Number of started I/Os that have not ended, and their bytes. The bytes are `None` once one of the I/Os was merged
/// with another.
fn outstanding_of(started: Seen, ended: Seen) -> Option<(usize, Option<i64>)> {
    let ios = started.ios.wrapping_sub(ended.ios) as i64;
    let bytes = started.bytes.wrapping_sub(ended.bytes) as i64;
    (ios > 0).then_some((
        ios as usize,
        (started.merges == 0 && ended.merges == 0 && bytes >= 0).then_some(bytes),
    ))
}

/// Sum of all CPUs' counts, and the interval of those counted since `epoch`.
fn summed<'a>(cpus: impl Iterator<Item = &'a LossValue>, epoch: u64) -> (Seen, Option<(u64, u64)>) {
    let mut sum = Seen::default();
    let mut interval: Option<(u64, u64)> = None;
    for cpu in cpus {
        // An I/O that began on one CPU may end on another.
        sum.ios = sum.ios.wrapping_add(cpu.ios);
        sum.bytes += cpu.bytes;
        sum.merges += cpu.merges;
        if cpu.first_ns > 0 && cpu.epoch >= epoch {
            let (first, last) = interval.unwrap_or((cpu.first_ns, cpu.last_ns));
            interval = Some((first.min(cpu.first_ns), last.max(cpu.last_ns)));
        }
    }
    (sum, interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_added_and_old_ones_do_not_stretch_the_interval() {
        let cpu = |ios, first_ns, last_ns, epoch| LossValue {
            ios,
            bytes: ios * 512,
            merges: 0,
            first_ns,
            last_ns,
            epoch,
        };
        let (sum, interval) = summed(
            [
                cpu(3, 10, 20, 1),
                cpu(2, 50, 60, 2),
                cpu(1, 40, 55, 2),
                cpu(0, 0, 0, 0),
            ]
            .iter(),
            2,
        );
        assert_eq!(
            sum,
            Seen {
                ios: 6,
                bytes: 3072,
                merges: 0
            }
        );
        assert_eq!(interval, Some((40, 60)));
    }

    #[test]
    fn ios_without_slot_and_end_are_lost() {
        let seen = |ios: i64, bytes, merges| Seen {
            ios: ios as u64,
            bytes,
            merges,
        };
        assert_eq!(
            outstanding_of(seen(5, 5 << 12, 0), seen(3, 3 << 12, 0)),
            Some((2, Some(2 << 12)))
        );
        assert_eq!(
            outstanding_of(seen(5, 5 << 12, 0), seen(5, 5 << 12, 0)),
            None
        );
        assert_eq!(
            outstanding_of(seen(5, 5 << 12, 0), seen(4, 9 << 12, 2)),
            Some((1, None)),
            "merged with who knows what"
        );
        assert_eq!(
            outstanding_of(seen(5, 6 << 12, 1), seen(3, 3 << 12, 0)),
            Some((2, None)),
            "one was absorbed"
        );
        let cpu = |ios: i64| LossValue {
            ios: ios as u64,
            first_ns: 1,
            last_ns: 1,
            epoch: 1,
            ..LossValue::default()
        };
        assert_eq!(summed([cpu(-2), cpu(3)].iter(), 1).0.ios, 1);
    }
}
