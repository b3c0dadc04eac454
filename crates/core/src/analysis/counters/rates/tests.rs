#![allow(clippy::unwrap_used)]
use super::*;
use crate::model::{DevId, DiskCounters};
use proptest::prelude::*;

fn at(at_ns: i64, counters: DiskCounters) -> CounterSample {
    CounterSample {
        at_ns,
        dev: DevId::new(8, 0),
        counters,
    }
}

fn one_class(ios: u64, merges: u64, sectors: u64, ticks_ms: u64) -> ClassCounters {
    ClassCounters {
        ios,
        merges,
        sectors,
        ticks_ms,
    }
}

fn reads(ios: u64, merges: u64, sectors: u64, ticks_ms: u64) -> DiskCounters {
    DiskCounters {
        read: one_class(ios, merges, sectors, ticks_ms),
        ..DiskCounters::default()
    }
}

#[test]
fn the_formulas_by_hand() {
    let after = DiskCounters {
        io_ticks_ms: 250,
        time_in_queue_ms: 600,
        ..reads(100, 25, 1600, 500)
    };
    let r = Delta::between(&at(0, reads(0, 0, 0, 0)), &at(2_000_000_000, after), None).rates();
    assert_eq!(
        (r.read.n, r.read.per_s, r.read.kib_per_s),
        (Some(100), Some(50.0), Some(400.0))
    );
    assert_eq!(
        (r.read.merges_per_s, r.read.merged_percent),
        (Some(12.5), Some(20.0))
    );
    assert_eq!(
        (r.read.await_ms, r.read.request_kib),
        (Some(5.0), Some(8.0))
    );
    assert_eq!(
        (r.queue_size, r.util_percent, r.service_ms),
        (Some(0.3), Some(12.5), Some(2.5))
    );
    assert_eq!(
        (r.await_ms, r.request_kib),
        (Some(5.0), Some(8.0)),
        "no discards on this kernel: reads and writes"
    );
    assert_eq!(r.write.per_s, Some(0.0));
    assert_eq!(r.write.await_ms, None, "a mean over no write is not zero");
    assert_eq!(r.discard.per_s, None, "this kernel counts no discards");
}

#[test]
fn what_cannot_be_known_is_none() {
    let second = 1_000_000_000;
    let d = Delta::between(
        &at(0, reads(10, 9, 80, 5)),
        &at(second, reads(12, 8, 96, 6)),
        None,
    );
    assert_eq!(
        (d.state, d.read.ios, d.read.merges),
        (State::Known, Some(2), None),
        "merges fell alone"
    );
    let d = Delta::between(
        &at(0, reads(10, 0, 80, 5)),
        &at(second, reads(2, 0, 16, 1)),
        None,
    );
    assert_eq!(d, Delta::unknown(State::Restarted, second));
    let d = Delta::between(
        &at(0, reads(0, 0, 0, 0)),
        &at(second, reads(0, 0, 0, 0)),
        Some(false),
    );
    assert_eq!(
        (d.state, d.rates().read.per_s),
        (State::NotAccounted, None),
        "not accounted is not idle"
    );
    let d = Delta::between(&at(5, reads(1, 0, 8, 1)), &at(5, reads(2, 0, 16, 3)), None);
    assert_eq!(
        (d.rates().read.per_s, d.rates().read.await_ms),
        (None, Some(2.0)),
        "no time passed"
    );
}

#[test]
fn milliseconds_wrap_after_seven_weeks() {
    assert_eq!(milliseconds(u64::from(u32::MAX) - 9, 20), Some(30));
    assert_eq!(
        milliseconds(1000, 990),
        None,
        "a small step back is a race in the kernel"
    );
    assert_eq!(milliseconds(0, 3_000_000_000), Some(3_000_000_000));
    assert_eq!(
        milliseconds(1 << 40, (1 << 40) + 7),
        Some(7),
        "an importer's 64 bits"
    );
    assert_eq!(milliseconds(1 << 40, 7), None);
}

/// Steps that no kernel exceeds within one interval, so that three of them stay below a wrap.
fn step() -> impl Strategy<Value = [u64; 17]> {
    prop::array::uniform17(0u64..1_000_000_000)
}

fn counters(f: &[u64; 17]) -> DiskCounters {
    let wrapped = |v: u64| v & 0xffff_ffff;
    DiskCounters {
        read: one_class(f[0], f[1], f[2], wrapped(f[3])),
        write: one_class(f[4], f[5], f[6], wrapped(f[7])),
        in_flight: f[8],
        io_ticks_ms: wrapped(f[9]),
        time_in_queue_ms: wrapped(f[10]),
        discard: Some(one_class(f[11], f[12], f[13], wrapped(f[14]))),
        flush: Some(FlushCounters {
            ios: f[15],
            ticks_ms: wrapped(f[16]),
        }),
    }
}

fn plus(f: &[u64; 17], by: &[u64; 17]) -> [u64; 17] {
    std::array::from_fn(|i| f[i] + by[i])
}

proptest! {
    #[test]
    fn two_halves_make_the_whole(start in prop::array::uniform17(0u64..1 << 40), one in step(), two in step(), t1 in 1i64..1 << 40, t2 in 1i64..1 << 40) {
        let mid = plus(&start, &one);
        let end = plus(&mid, &two);
        let a = at(0, counters(&start));
        let b = at(t1, counters(&mid));
        let c = at(t1 + t2, counters(&end));
        let merged = Delta::between(&a, &b, None).merge(&Delta::between(&b, &c, None));
        let whole = Delta::between(&a, &c, None);
        prop_assert_eq!(merged, whole);
        prop_assert_eq!(merged.rates(), whole.rates());
        prop_assert_eq!(whole.read.ios, Some(one[0] + two[0]));
        prop_assert_eq!(whole.io_ticks_ms, Some(one[9] + two[9]), "also across a wrap");
    }

    #[test]
    fn large_counters_are_as_exact_as_small_ones(start in prop::array::uniform17(0u64..1 << 40), one in step(), t in 1i64..1 << 40) {
        let high = plus(&start, &[1 << 31; 17]);
        let low = Delta::between(&at(0, counters(&start)), &at(t, counters(&plus(&start, &one))), None);
        let shifted = Delta::between(&at(0, counters(&high)), &at(t, counters(&plus(&high, &one))), None);
        prop_assert_eq!(low, shifted);
        prop_assert_eq!(low.rates(), shifted.rates());
    }

    #[test]
    fn no_counters_make_it_panic(a in prop::array::uniform17(any::<u64>()), b in prop::array::uniform17(any::<u64>()), t in -(1i64 << 40)..1 << 40) {
        let a = at(0, counters(&a));
        let b = at(t, counters(&b));
        let d = Delta::between(&a, &b, None);
        let _ = d.merge(&d).rates();
        let _ = iostat::values(&a.counters, &b.counters, t as f64);
    }
}
