//! Classifies starts without a completion when tracing ends: still in flight, or lost.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use iolens_core::model::{Class, DevId, LossReason, Lost};

use super::{loss::OutstandingCount, slots::OutstandingSlot};

/// I/Os of one device and class whose completion was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unseen {
    /// None of them had completed before this time, in nanoseconds of the kernel's monotonic clock.
    from_ns: u64,
    dev: DevId,
    class: Option<Class>,
    ios: usize,
    /// Bytes and merges; `None` if not known.
    bytes_and_merges: Option<(i64, i64)>,
}

impl Unseen {
    /// The loss, detected at `end` of the kernel's clock in a recording that began at `start_monotonic_ns`.
    pub fn until(&self, end: u64, start_monotonic_ns: i64) -> Lost {
        Lost {
            from_ns: self.from_ns as i64 - start_monotonic_ns,
            to_ns: end as i64 - start_monotonic_ns,
            dev: Some(self.dev),
            class: self.class,
            reason: LossReason::Unseen,
            ios: Some(self.ios as i64),
            bytes: self.bytes_and_merges.map(|(bytes, _)| bytes),
            merges: self.bytes_and_merges.map(|(_, merges)| merges),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unmatched {
    pub unseen: Vec<Unseen>,
    pub in_flight: u64,
}

/// Numbers in flight as counted by the kernel before the completion probes were detached.
#[derive(Debug, Default)]
pub(super) struct InFlightBefore {
    /// Time of that count, in nanoseconds of the kernel's monotonic clock.
    pub at_ns: u64,
    /// Number in flight of each device that has I/Os without a completion; `None` if the kernel does not report it.
    pub counts: HashMap<DevId, Option<usize>>,
}

impl InFlightBefore {
    /// Reads the numbers in flight on `devices`.
    pub fn count(at_ns: u64, devices: impl Iterator<Item = DevId>) -> InFlightBefore {
        let mut counts = HashMap::new();
        for dev in devices {
            counts.entry(dev).or_insert_with(|| in_flight_of(dev));
        }
        InFlightBefore { at_ns, counts }
    }

    /// Upper bound of the I/Os started by then that are in flight, or completed while the probes were detached.
    fn most(&self, dev: DevId) -> usize {
        self.counts
            .get(&dev)
            .copied()
            .flatten()
            .unwrap_or(usize::MAX)
    }
}

/// An I/O that was not issued for this long is not assumed to wait above the driver: its issue and completion were
/// missed.
const MAX_UNISSUED_NS: u64 = 5_000_000_000;

/// An I/O issued this shortly before the probes are detached counts as in flight. The kernel stops counting it as soon
/// as the driver is done with it, but on a busy machine it takes milliseconds until the completion is accounted.
const YOUNG_NS: u64 = 5_000_000;

/// Classifies the starts without a completion. As many are in flight as the kernel counted before the completion probes
/// were detached (all, if it reported no count), the youngest with a slot first. The others completed unseen. I/Os that
/// started after that count are in flight too, because nothing recorded their completion. All given I/Os must have
/// started when all probes were attached; otherwise their completion may have been missed.
pub(super) fn unmatched(
    slots: impl Iterator<Item = OutstandingSlot>,
    without_slot: impl Iterator<Item = OutstandingCount>,
    before: &InFlightBefore,
) -> Unmatched {
    let mut left = Unmatched::default();

    // Some I/Os are certainly in flight. Those of them that the kernel counted are subtracted from its count below.
    let mut by_device: HashMap<DevId, Vec<OutstandingSlot>> = HashMap::new();
    let mut young: HashMap<DevId, usize> = HashMap::new();
    for io in slots {
        if !is_surely_in_flight(&io, before) {
            by_device.entry(io.dev).or_default().push(io);
            continue;
        }
        left.in_flight += 1;
        if io.is_issued && !io.replaced && io.start_ns < before.at_ns {
            *young.entry(io.dev).or_default() += 1;
        }
    }

    // Of a device's other I/Os, as many are in flight as the kernel counted. The rest of its count has no slot.
    let mut without_slot_in_flight: HashMap<DevId, usize> = HashMap::new();
    for (dev, mut ios) in by_device {
        let counted = counted_beside(&young, before, dev);
        let able = ios.iter().filter(|io| !io.replaced).count();
        let flying = counted.min(able);
        without_slot_in_flight.insert(dev, counted - flying);
        left.in_flight += flying as u64;

        // The youngest I/Os are the ones in flight; a replaced one is not.
        ios.sort_by_key(|io| (!io.replaced, io.from_ns));
        ios.truncate(ios.len() - flying);
        left.unseen.extend(ios.iter().map(unseen_with_slot));
    }

    // Of I/Os without a slot only the number is known. They are in flight as far as the kernel's count has not been
    // used up.
    for started in without_slot {
        if started.first_ns >= before.at_ns {
            left.in_flight += started.ios as u64;
            continue;
        }
        let counted = without_slot_in_flight
            .entry(started.dev)
            .or_insert_with(|| counted_beside(&young, before, started.dev));
        let flying = started.ios.min(*counted);
        *counted -= flying;
        left.in_flight += flying as u64;
        if flying < started.ios {
            left.unseen.push(unseen_without_slot(&started, flying));
        }
    }
    left
}

/// Whether an I/O is in flight even if the kernel does not count it.
fn is_surely_in_flight(io: &OutstandingSlot, before: &InFlightBefore) -> bool {
    // The kernel counts the I/Os that the driver has. Those that wait above it, for a scheduler or a worker without a
    // CPU, are in flight in addition.
    let waits_above = !io.is_issued && before.at_ns.saturating_sub(io.start_ns) < MAX_UNISSUED_NS;
    // A young replaced I/O completed while the probes were detached.
    let is_young = before.at_ns.saturating_sub(io.from_ns) < YOUNG_NS;
    is_young || waits_above && !io.replaced
}

/// Number of I/Os of a device that the kernel counted besides the `young` ones; [`usize::MAX`] if it reported no count.
fn counted_beside(young: &HashMap<DevId, usize>, before: &InFlightBefore, dev: DevId) -> usize {
    match before.most(dev) {
        usize::MAX => usize::MAX,
        most => most.saturating_sub(young.get(&dev).copied().unwrap_or(0)),
    }
}

fn unseen_with_slot(io: &OutstandingSlot) -> Unseen {
    Unseen {
        from_ns: io.from_ns,
        dev: io.dev,
        class: Some(io.class),
        ios: 1,
        bytes_and_merges: Some((io.bytes, io.merges)),
    }
}

/// The I/Os of `started` that are not in flight. Their bytes are known only if none of them is.
fn unseen_without_slot(started: &OutstandingCount, flying: usize) -> Unseen {
    let bytes = started.bytes.filter(|_| flying == 0);
    Unseen {
        from_ns: started.first_ns,
        dev: started.dev,
        class: started.class,
        ios: started.ios - flying,
        bytes_and_merges: bytes.map(|bytes| (bytes, 0)),
    }
}

/// Major number shared by disks that have none of their driver's (NVMe, disks with many partitions). A hidden path has
/// such a number, which sysfs does not list.
const BLOCK_EXT_MAJOR: u32 = 259;

/// I/Os in flight on a disk, as counted by the kernel; `None` if it reports none. A removed disk has 0.
fn in_flight_of(dev: DevId) -> Option<usize> {
    in_flight_below("/sys/dev/block".as_ref(), dev)
}

fn in_flight_below(numbers: &Path, dev: DevId) -> Option<usize> {
    match std::fs::read_to_string(numbers.join(dev.to_string()).join("inflight")) {
        Ok(text) => text
            .split_whitespace()
            .map(|n| n.parse::<usize>().ok())
            .sum(),
        Err(e) => {
            (e.kind() == ErrorKind::NotFound && numbers.is_dir() && dev.major() != BLOCK_EXT_MAJOR)
                .then_some(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: DevId = DevId(7);
    /// Later than the I/Os of the tests by enough for none to be young.
    const AT_NS: u64 = YOUNG_NS + 100;

    fn io(from_ns: u64, replaced: bool) -> OutstandingSlot {
        let class = Class::Read;
        OutstandingSlot {
            from_ns,
            start_ns: from_ns,
            is_issued: true,
            dev: DEV,
            class,
            bytes: 4096,
            merges: 1,
            replaced,
        }
    }

    fn started(ios: usize, bytes: Option<i64>) -> OutstandingCount {
        OutstandingCount {
            dev: DEV,
            class: Some(Class::Write),
            first_ns: 5,
            ios,
            bytes,
        }
    }

    fn before(at_ns: u64, in_flight: Option<usize>) -> InFlightBefore {
        InFlightBefore {
            at_ns,
            counts: HashMap::from([(DEV, in_flight)]),
        }
    }

    fn seen(
        slots: &[OutstandingSlot],
        without_slot: &[OutstandingCount],
        in_flight: Option<usize>,
    ) -> (Vec<(u64, usize)>, u64) {
        let left = unmatched(
            slots.iter().copied(),
            without_slot.iter().copied(),
            &before(AT_NS, in_flight),
        );
        (
            left.unseen.iter().map(|u| (u.from_ns, u.ios)).collect(),
            left.in_flight,
        )
    }

    #[test]
    fn unmatched_ios_beyond_the_kernels_in_flight_count_have_ended() {
        let slots = [io(30, false), io(10, false), io(20, false)];
        assert_eq!(
            seen(&slots, &[], Some(0)),
            (vec![(10, 1), (20, 1), (30, 1)], 0)
        );
        assert_eq!(seen(&slots, &[], Some(1)), (vec![(10, 1), (20, 1)], 1));
        assert_eq!(seen(&slots, &[], Some(9)), (vec![], 3));
        assert_eq!(
            seen(&slots, &[], None),
            (vec![], 3),
            "without a count none has ended"
        );
        assert_eq!(
            seen(&[io(40, true), io(10, false)], &[], Some(2)),
            (vec![(40, 1)], 1),
            "it was replaced"
        );
    }

    #[test]
    fn ios_that_wait_above_the_driver_are_in_flight_beside_what_it_has() {
        let waiting = OutstandingSlot {
            is_issued: false,
            ..io(50, false)
        };
        let slots = [io(10, false), io(20, false), waiting];
        assert_eq!(seen(&slots, &[], Some(1)), (vec![(10, 1)], 2));
        // Long ago its issue was missed as well.
        let left = unmatched(
            [waiting].into_iter(),
            [].into_iter(),
            &before(50 + MAX_UNISSUED_NS, Some(0)),
        );
        assert_eq!((left.unseen.len(), left.in_flight), (1, 0));
    }

    #[test]
    fn ios_whose_completion_is_on_its_way_are_in_flight() {
        // The kernel counts two of the three young ones, the driver is done with the third. The old one is none of the two.
        let young = AT_NS - 1000;
        let slots = [
            io(10, false),
            io(young, false),
            io(young + 1, false),
            io(young + 2, false),
        ];
        assert_eq!(seen(&slots, &[], Some(2)), (vec![(10, 1)], 3));
        assert_eq!(seen(&slots, &[], Some(4)), (vec![], 4));
        assert_eq!(seen(&[io(young, true)], &[], Some(0)), (vec![], 1));
    }

    #[test]
    fn ios_that_start_while_the_probes_go_are_in_flight() {
        let slots = [io(10, false), io(AT_NS + 20, false), io(AT_NS + 50, false)];
        assert_eq!(seen(&slots, &[], Some(0)), (vec![(10, 1)], 2));
        let late = OutstandingCount {
            first_ns: AT_NS + 30,
            ..started(4, None)
        };
        assert_eq!(seen(&slots, &[late], Some(1)), (vec![], 7));
    }

    #[test]
    fn a_removed_disk_has_nothing_in_flight() {
        let numbers = tempfile::tempdir().expect("temporary directory");
        let of = |major| in_flight_below(numbers.path(), DevId::new(major, 0));
        std::fs::create_dir(numbers.path().join("8:0")).expect("mkdir");
        std::fs::write(numbers.path().join("8:0/inflight"), "       2        3\n").expect("write");
        assert_eq!((of(8), of(251)), (Some(5), Some(0)));
        assert_eq!(of(BLOCK_EXT_MAJOR), None, "it may be a hidden path");
        assert_eq!(
            in_flight_below(&numbers.path().join("none"), DEV),
            None,
            "no sysfs"
        );
    }

    #[test]
    fn ios_without_a_slot_count_by_the_kernels_in_flight() {
        let slots = [io(10, false)];
        assert_eq!(
            seen(&slots, &[started(4, None)], Some(0)),
            (vec![(10, 1), (5, 4)], 0)
        );
        assert_eq!(
            seen(&slots, &[started(4, None)], Some(3)),
            (vec![(5, 2)], 3)
        );
        assert_eq!(seen(&slots, &[started(4, None)], None), (vec![], 5));
        let bytes = |in_flight| {
            unmatched(
                [].into_iter(),
                [started(2, Some(8192))].into_iter(),
                &before(100, Some(in_flight)),
            )
        };
        assert_eq!(bytes(0).unseen[0].until(20, 3).bytes, Some(8192));
        assert_eq!(
            bytes(1).unseen[0].until(20, 3).bytes,
            None,
            "which of the two is in flight?"
        );
        assert_eq!(
            bytes(2),
            Unmatched {
                unseen: vec![],
                in_flight: 2
            }
        );
    }
}
