//! Exact measures of an interval from single I/Os, beside the counters: latency percentiles, busy time, number in
//! flight (A2, A3).
//!
//! One interval is open at a time, and the caller ends it. Intervals may differ in length.

use std::collections::BTreeMap;

use crate::analysis::stream::order::{End, Hold, Span, StartOrder, Sweep};
use crate::model::{Class, DevId, Histogram, Io, Lost};

/// Sums of one device over one interval. Sums of several devices can be added.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceExact {
    /// Latencies (start to done) of the reads that completed, in nanoseconds.
    pub read: Histogram,
    /// Latencies of writes.
    pub write: Histogram,
    /// Nanoseconds with at least one I/O in flight.
    pub busy_ns: i64,
    /// Integral of the number in flight over time, in nanoseconds.
    pub area_ns: i128,
    /// Most in flight at once; `None` for a sum of devices, whose peaks need not coincide.
    pub inflight_max: Option<u64>,
    /// Length of the interval in nanoseconds.
    pub span_ns: i64,
    /// Number of devices in this sum.
    pub devices: u64,
    /// I/Os known to be lost. Those of an unknown device count for every device.
    pub lost_ios: u64,
}

impl DeviceExact {
    /// A device that did nothing for `span_ns`.
    pub fn idle(span_ns: i64) -> DeviceExact {
        let read = Histogram::new();
        let write = Histogram::new();
        DeviceExact {
            read,
            write,
            busy_ns: 0,
            area_ns: 0,
            inflight_max: Some(0),
            span_ns,
            devices: 1,
            lost_ios: 0,
        }
    }

    /// Percent of the interval with at least one I/O in flight (A2); for a sum, the mean over its devices. `None` if
    /// the interval is empty.
    pub fn busy_percent(&self) -> Option<f64> {
        let ns = self.span_ns as f64 * self.devices as f64;
        (ns > 0.0).then(|| 100.0 * self.busy_ns as f64 / ns)
    }

    /// Time-weighted mean number in flight (A3: `∫N/T`). `None` if the interval is empty.
    pub fn inflight_mean(&self) -> Option<f64> {
        (self.span_ns > 0).then(|| self.area_ns as f64 / self.span_ns as f64)
    }

    /// Adds the sums of another device over the same interval.
    pub fn add(&mut self, other: &DeviceExact) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.busy_ns += other.busy_ns;
        self.area_ns += other.area_ns;
        self.inflight_max = None;
        self.devices += other.devices;
        self.lost_ios += other.lost_ios;
    }
}

/// An interval that has been closed.
#[derive(Debug, Clone)]
pub struct Closed {
    /// The devices with any I/O since the first interval began.
    pub devices: BTreeMap<DevId, DeviceExact>,
    /// Every other device.
    pub idle: DeviceExact,
    /// Lost I/Os of all devices.
    pub lost_ios: u64,
}

/// Takes completed I/Os in order, and returns one [`DeviceExact`] per device when an interval is closed.
///
/// The latency of an I/O counts in the interval in which it completes, its time in flight in every interval that it
/// overlaps. I/Os in flight at the end of an interval become known only when they complete: [`Intervals::straddling`]
/// says how many have completed since. One that completes after the close counts as in flight only from the close on.
#[derive(Debug)]
pub struct Intervals {
    from_ns: i64,
    order: StartOrder,
    devices: Devices,
    /// I/Os that completed at or after the announced end.
    later: Vec<Io>,
    /// I/Os whose time in flight is counted already. Their latency counts in the interval in which they complete.
    uncounted: Vec<Io>,
    end_ns: i64,
    /// Lost I/Os by device; `None` is an unknown device.
    lost: BTreeMap<Option<DevId>, u64>,
}

#[derive(Debug, Default)]
struct Devices {
    numbers: BTreeMap<DevId, u32>,
    states: Vec<ExactState>,
}

#[derive(Debug)]
struct ExactState {
    level: i64,
    since_ns: i64,
    now: DeviceExact,
}

impl Devices {
    /// The index of a device; a new one has been idle since `from_ns`.
    fn key(&mut self, dev: DevId, from_ns: i64) -> u32 {
        *self.numbers.entry(dev).or_insert_with(|| {
            self.states.push(ExactState {
                level: 0,
                since_ns: from_ns,
                now: DeviceExact::idle(0),
            });
            (self.states.len() - 1) as u32
        })
    }
}

impl ExactState {
    fn advance(&mut self, to_ns: i64) {
        let ns = (to_ns - self.since_ns).max(0);
        if self.level > 0 {
            self.now.busy_ns += ns;
            self.now.area_ns += i128::from(self.level) * i128::from(ns);
        }
        self.since_ns = self.since_ns.max(to_ns);
    }
}

impl Sweep for Devices {
    fn start(&mut self, span: &Span) {
        let s = &mut self.states[span.key as usize];
        s.advance(span.start_ns);
        s.level += 1;
        s.now.inflight_max = s.now.inflight_max.max(Some(s.level.max(0) as u64));
    }

    fn done(&mut self, end: &End) {
        let s = &mut self.states[end.key as usize];
        s.advance(end.at_ns);
        s.level -= 1;
    }
}

impl Intervals {
    /// The first interval begins at `from_ns`; I/Os that completed before are ignored.
    pub fn new(from_ns: i64) -> Intervals {
        Intervals {
            from_ns,
            order: StartOrder::new(Hold::RECORDING),
            devices: Devices::default(),
            later: Vec::new(),
            uncounted: Vec::new(),
            end_ns: i64::MAX,
            lost: BTreeMap::new(),
        }
    }

    /// Takes the next completed I/O.
    pub fn push(&mut self, io: &Io) {
        if io.done_ns >= self.end_ns {
            self.later.push(*io);
        } else if io.done_ns >= self.from_ns {
            self.take(io);
        }
    }

    fn take(&mut self, io: &Io) {
        self.latency(io);
        self.in_flight(io, self.from_ns);
    }

    fn latency(&mut self, io: &Io) {
        let key = self.devices.key(io.dev, self.from_ns);
        let now = &mut self.devices.states[key as usize].now;
        match io.class() {
            Class::Read => now.read.add(io.total_ns()),
            Class::Write => now.write.add(io.total_ns()),
            _ => {}
        }
    }

    /// Adds the time in flight of `io` after `from_ns`.
    fn in_flight(&mut self, io: &Io, from_ns: i64) {
        let mut span = Span::of(io, self.devices.key(io.dev, from_ns));
        span.start_ns = span.start_ns.max(from_ns).min(span.done_ns);
        self.order.push(span, &mut self.devices);
    }

    /// Takes a loss. I/Os in flight before the recording began are not counted as lost.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.reason.is_loss() {
            *self.lost.entry(lost.dev).or_default() += lost.ios.map_or(1, |n| n.max(0) as u64);
        }
    }

    /// Sets the end of the open interval; I/Os that complete at `end_ns` or later belong to the next.
    pub fn end_at(&mut self, end_ns: i64) {
        self.end_ns = end_ns;
        for io in std::mem::take(&mut self.uncounted) {
            if io.done_ns < end_ns {
                self.latency(&io);
            } else {
                self.uncounted.push(io);
            }
        }
    }

    /// How many I/Os of `dev` that were in flight at the announced end have completed since.
    pub fn straddling(&self, dev: DevId) -> u64 {
        let known = self.later.iter().chain(&self.uncounted);
        known
            .filter(|io| io.dev == dev && io.start_ns() < self.end_ns && io.done_ns >= self.end_ns)
            .count() as u64
    }

    /// Ends the interval at the announced instant; the next begins there.
    pub fn close(&mut self) -> Closed {
        let from_ns = self.from_ns;
        let to_ns = self.end_ns;
        let later = std::mem::take(&mut self.later);
        // I/Os in flight at the end have started in this interval; they end in a later one.
        self.from_ns = to_ns;
        self.end_ns = i64::MAX;
        for io in &later {
            self.in_flight(io, from_ns);
        }
        self.order.drain_to(to_ns, &mut self.devices);
        let span_ns = (to_ns - from_ns).max(0);
        let lost = std::mem::take(&mut self.lost);
        let anywhere = lost.get(&None).copied().unwrap_or(0);
        let mut found = BTreeMap::new();
        for (dev, key) in &self.devices.numbers {
            let s = &mut self.devices.states[*key as usize];
            s.advance(to_ns);
            let mut next = DeviceExact::idle(0);
            next.inflight_max = Some(s.level.max(0) as u64);
            let mut done = std::mem::replace(&mut s.now, next);
            done.span_ns = span_ns;
            done.lost_ios = lost.get(&Some(*dev)).copied().unwrap_or(0) + anywhere;
            found.insert(*dev, done);
        }
        self.uncounted.extend(later);
        Closed {
            devices: found,
            idle: DeviceExact {
                lost_ios: anywhere,
                ..DeviceExact::idle(span_ns)
            },
            lost_ios: lost.values().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LossReason, Op};
    use proptest::prelude::*;

    const A: DevId = DevId(8 << 20);
    const B: DevId = DevId(9 << 20);

    fn io(dev: DevId, op: Op, start: i64, done: i64) -> Io {
        Io::new(done, dev, op, 512, None, done - start)
    }

    #[test]
    fn an_io_over_the_end_is_in_both_intervals_but_completes_in_one() {
        let mut i = Intervals::new(100);
        i.push(&io(A, Op::READ, 90, 99));
        i.push(&io(A, Op::READ, 110, 130));
        i.end_at(200);
        i.push(&io(A, Op::READ, 180, 260));
        assert_eq!((i.straddling(A), i.straddling(B)), (1, 0));
        let first = i.close().devices;
        let a = &first[&A];
        assert_eq!(
            (a.read.n(), a.read.max(), a.busy_ns, a.inflight_max),
            (1, Some(20), 40, Some(1))
        );
        assert_eq!(
            (a.busy_percent(), a.inflight_mean()),
            (Some(40.0), Some(0.4))
        );
        i.end_at(300);
        let second = i.close().devices;
        let a = &second[&A];
        assert_eq!(
            (a.read.n(), a.read.max(), a.busy_ns, a.inflight_max),
            (1, Some(80), 60, Some(1))
        );
        i.end_at(400);
        let third = i.close().devices;
        assert_eq!(
            (
                third[&A].read.n(),
                third[&A].busy_ns,
                third[&A].inflight_max
            ),
            (0, 0, Some(0))
        );
    }

    #[test]
    fn what_comes_after_the_close_counts_from_the_close_on() {
        let mut i = Intervals::new(0);
        i.end_at(100);
        assert!(i.close().devices.is_empty());
        i.push(&io(A, Op::WRITE, 50, 150));
        i.end_at(200);
        let a = i.close().devices.remove(&A).expect("seen");
        assert_eq!((a.write.max(), a.busy_ns), (Some(100), 50));
    }

    #[test]
    fn losses_spoil_their_interval_only() {
        let lost = |reason, ios| Lost {
            from_ns: 1,
            to_ns: 2,
            dev: None,
            class: None,
            reason,
            ios,
            bytes: None,
            merges: None,
        };
        let mut i = Intervals::new(0);
        i.lost(&lost(LossReason::Censored, Some(9)));
        i.lost(&lost(LossReason::RingFull, Some(3)));
        i.end_at(10);
        let spoilt = i.close();
        assert_eq!(
            (spoilt.lost_ios, spoilt.idle.lost_ios),
            (3, 3),
            "whose they were is not known"
        );
        i.end_at(20);
        assert_eq!(i.close().lost_ios, 0);
    }

    #[test]
    fn a_sum_of_devices() {
        let mut sum = DeviceExact {
            busy_ns: 50,
            area_ns: 80,
            ..DeviceExact::idle(100)
        };
        sum.add(&DeviceExact {
            busy_ns: 100,
            area_ns: 300,
            ..DeviceExact::idle(100)
        });
        assert_eq!(
            (sum.busy_percent(), sum.inflight_mean(), sum.inflight_max),
            (Some(75.0), Some(3.8), None)
        );
    }

    proptest! {
        #[test]
        fn intervals_agree_with_counting_every_nanosecond(
            spans in prop::collection::vec((0i64..300, 0i64..60), 0..40),
            ends in prop::collection::btree_set(1i64..400, 1..5),
        ) {
            let mut ios: Vec<Io> = spans.iter().map(|(s, d)| io(A, Op::WRITE, *s, s + d)).collect();
            ios.sort_by_key(|io| io.done_ns);
            let mut i = Intervals::new(0);
            let mut from = 0;
            let mut next = 0;
            for to in ends {
                // All that straddle the end are known by then.
                while next < ios.len() && ios[next].done_ns < to {
                    i.push(&ios[next]);
                    next += 1;
                }
                i.end_at(to);
                // And no more: those after the next end would be taken for its own.
                while next < ios.len() && ios[next..].iter().any(|io| io.start_ns() < to) {
                    i.push(&ios[next]);
                    next += 1;
                }
                let got = i.close().devices.remove(&A).unwrap_or_else(|| DeviceExact::idle(to - from));
                let at = |t: i64| spans.iter().filter(|(s, d)| *s <= t && t < s + d).count() as i128;
                let each: Vec<i128> = (from..to).map(at).collect();
                prop_assert_eq!(i128::from(got.busy_ns), each.iter().filter(|n| **n > 0).count() as i128);
                prop_assert_eq!(got.area_ns, each.iter().sum::<i128>());
                let done = spans.iter().filter(|(s, d)| (from..to).contains(&(s + d))).count() as u64;
                prop_assert_eq!(got.write.n(), done);
                from = to;
            }
        }
    }
}
