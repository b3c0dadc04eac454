//! Rollups of a stream of I/Os per second, computed while it is recorded.
//!
//! I/Os arrive in the order of completion, so an I/O that is in flight for a minute becomes known only when it
//! completes. A second is therefore complete one minute later, and only the last minute of a longer I/O counts as in
//! flight. Busy time is exact for I/Os of up to two seconds. The second in which a longer one begins may be reported as
//! less busy than it was: time after that start without any other I/O in flight may be missing.

mod actors;

use std::collections::{BTreeMap, VecDeque};

use crate::model::{
    CallHistogram, Class, DevId, Flight, Io, LossReason, Lost, Rollup, SECOND_NS, TimeGrid,
    floor_to,
};

pub use actors::{ACTOR_STEPS_S, ActorsBuilder, MAX_ACTORS, coarser_actors};

/// Delay after which a second is complete, and the longest time that an I/O counts as in flight.
const REACH_NS: i64 = 60 * SECOND_NS;
/// Starts and ends are buffered this long to be sorted: about 200,000 of them at 100k IOPS.
const SWEEP_NS: i64 = 2 * SECOND_NS;
/// They are sorted in batches of this length.
const PORTION_NS: i64 = SECOND_NS / 4;

/// Computes one-second rows from I/Os in the order of completion, and from losses.
#[derive(Debug, Default)]
pub struct RollupBuilder {
    devices: BTreeMap<DevId, DeviceSums>,
    done: Vec<Rollup>,
    /// All I/Os that completed before this have been seen.
    seen_ns: i64,
    /// Seconds that end before this time are complete.
    complete_ns: i64,
}

#[derive(Debug, Default)]
struct DeviceSums {
    /// Open seconds, by number.
    seconds: BTreeMap<i64, SecondSums>,
    sweep: Sweep,
}

#[derive(Debug, Default)]
struct SecondSums {
    classes: [Option<Box<Rollup>>; Class::ALL.len()],
    flight: Flight,
    busy_of_class_ns: [i64; Class::ALL.len()],
}

impl RollupBuilder {
    /// Takes I/Os in the order of completion.
    pub fn push_ios(&mut self, ios: &[Io]) {
        for io in ios {
            let done_ns = io.done_ns.max(0);
            let device = self.devices.entry(io.dev).or_default();
            if done_ns < self.complete_ns {
                // The row of this second has already been returned: a late I/O makes another row, which readers add.
                let mut row = Rollup::empty(1, at(done_ns), Some(io.dev), Some(io.class()));
                row.count(io);
                let mut all = Rollup {
                    class: None,
                    ..row.clone()
                };
                all.total = CallHistogram::default();
                all.device = CallHistogram::default();
                self.done.extend([row, all]);
                continue;
            }
            let second = device.seconds.entry(done_ns / SECOND_NS).or_default();
            let class = io.class();
            let row = second.classes[class as usize].get_or_insert_with(|| {
                Box::new(Rollup::empty(1, at(done_ns), Some(io.dev), Some(class)))
            });
            row.count(io);
            // The I/O counts as in flight for its last minute only, and in no second that has already been returned.
            let start_ns = io.start_ns().max(done_ns - REACH_NS).max(self.complete_ns);
            device.in_flight(class, start_ns, done_ns);
            self.seen_ns = self.seen_ns.max(done_ns);
        }
        self.advance();
    }

    /// Takes a loss; it counts in the second in which its interval ends.
    pub fn lost(&mut self, lost: &Lost) {
        if !lost.reason.is_loss() || lost.reason == LossReason::Retention {
            return;
        }
        let all = Rollup {
            lost_ios: lost.ios,
            ..Rollup::empty(1, at(lost.to_ns.max(0)), lost.dev, None)
        };
        if lost.class.is_some() {
            self.done.push(Rollup {
                class: lost.class,
                ..all.clone()
            });
        }
        self.done.push(all);
    }

    /// Declares that every I/O completed before `now_ns` has been pushed.
    pub fn seen_until(&mut self, now_ns: i64) {
        self.seen_ns = self.seen_ns.max(now_ns);
        self.advance();
    }

    fn advance(&mut self) {
        for device in self.devices.values_mut() {
            if self.seen_ns - SWEEP_NS - device.sweep.swept_ns >= PORTION_NS {
                device.sweep(self.seen_ns - SWEEP_NS);
            }
        }
        if self.seen_ns - REACH_NS >= self.complete_ns + SECOND_NS {
            self.complete((self.seen_ns - REACH_NS) / SECOND_NS * SECOND_NS);
        }
    }

    fn complete(&mut self, until_ns: i64) {
        self.complete_ns = until_ns;
        for (dev, device) in &mut self.devices {
            let rest = device.seconds.split_off(&(until_ns / SECOND_NS));
            for (number, second) in std::mem::replace(&mut device.seconds, rest) {
                self.done.extend(second.rows(number * SECOND_NS, *dev));
            }
        }
    }

    /// Returns the rows of complete seconds, ordered by time.
    pub fn take(&mut self) -> Vec<Rollup> {
        let mut rows = std::mem::take(&mut self.done);
        rows.sort_by_key(|r| (r.at_ns, r.dev, r.class.map_or(-1, |c| c as i32)));
        rows
    }

    /// Returns the rows of all seconds, complete or not.
    pub fn finish(mut self) -> Vec<Rollup> {
        for device in self.devices.values_mut() {
            device.sweep(i64::MAX);
        }
        self.complete(i64::MAX / SECOND_NS * SECOND_NS);
        self.take()
    }
}

/// Start of the second that contains `ns`.
fn at(ns: i64) -> i64 {
    ns / SECOND_NS * SECOND_NS
}

impl SecondSums {
    fn rows(self, at_ns: i64, dev: DevId) -> Vec<Rollup> {
        let mut all = Rollup {
            flight: Some(self.flight),
            busy_of_class_ns: Some(self.busy_of_class_ns),
            ..Rollup::empty(1, at_ns, Some(dev), None)
        };
        let mut rows: Vec<Rollup> = self.classes.into_iter().flatten().map(|r| *r).collect();
        for r in &rows {
            all.add(r);
        }
        // The histograms of all classes together are not stored; they are the sum of those of the classes.
        all.total = CallHistogram::default();
        all.device = CallHistogram::default();
        if !all.is_empty() {
            rows.push(all);
        }
        rows
    }
}

impl DeviceSums {
    /// Counts an I/O of `class` that was in flight from `start_ns` to `done_ns`.
    fn in_flight(&mut self, class: Class, start_ns: i64, done_ns: i64) {
        for part in TimeGrid::SECONDS.parts(start_ns, done_ns) {
            let second = self.seconds.entry(part.slot).or_default();
            second.flight.in_flight_ns += part.len_ns();
        }
        let swept_ns = self.sweep.swept_ns;
        for part in TimeGrid::SECONDS.parts(start_ns, done_ns.min(swept_ns)) {
            // This part was swept already: the I/O took more than two seconds, or arrived late.
            let second = self.seconds.entry(part.slot).or_default();
            second.flight.busy_ns = second.flight.busy_ns.max(part.len_ns());
            second.flight.in_flight_max += 1;
            let busy_ns = &mut second.busy_of_class_ns[class as usize];
            *busy_ns = (*busy_ns).max(part.len_ns());
        }
        if done_ns > swept_ns && done_ns > start_ns {
            let at_ns = start_ns.max(swept_ns);
            self.sweep.starts.push(FlightEdge { at_ns, class });
            let ends = &mut self.sweep.ends;
            let at = ends
                .iter()
                .rposition(|e| e.at_ns <= done_ns)
                .map_or(0, |i| i + 1);
            let at_ns = done_ns;
            ends.insert(at, FlightEdge { at_ns, class });
        }
    }

    /// Processes, in order of time, the starts and ends before `until_ns`.
    fn sweep(&mut self, until_ns: i64) {
        self.sweep.starts.sort_unstable_by_key(|s| s.at_ns);
        let starts = self.sweep.starts.partition_point(|s| s.at_ns < until_ns);
        let mut starts = self.sweep.starts.drain(..starts).peekable();
        loop {
            let end = self.sweep.ends.front().copied();
            let end = end.filter(|e| e.at_ns < until_ns);
            // At the same instant ends come before starts, because intervals are half-open.
            let (edge, step) = match (starts.peek().copied(), end) {
                (Some(start), Some(end)) if start.at_ns < end.at_ns => (start, 1),
                (Some(start), None) => (start, 1),
                (_, Some(end)) => (end, -1),
                (None, None) => break,
            };
            if step > 0 {
                starts.next();
            } else {
                self.sweep.ends.pop_front();
            }
            self.sweep
                .depth
                .pass(&mut self.seconds, self.sweep.swept_ns, edge.at_ns);
            self.sweep.swept_ns = edge.at_ns;
            self.sweep.depth.all += step;
            self.sweep.depth.classes[edge.class as usize] += step;
        }
        if until_ns < i64::MAX {
            self.sweep
                .depth
                .pass(&mut self.seconds, self.sweep.swept_ns, until_ns);
            self.sweep.swept_ns = until_ns;
        }
    }
}

/// Starts and ends that have not been swept yet, and the numbers of I/Os in flight at the sweep position.
#[derive(Debug, Default)]
struct Sweep {
    starts: Vec<FlightEdge>,
    ends: VecDeque<FlightEdge>,
    swept_ns: i64,
    depth: DepthByClass,
}

/// The start or the end of an I/O.
#[derive(Debug, Clone, Copy)]
struct FlightEdge {
    at_ns: i64,
    class: Class,
}

/// Numbers of I/Os in flight.
#[derive(Debug, Default)]
struct DepthByClass {
    all: i64,
    classes: [i64; Class::ALL.len()],
}

impl DepthByClass {
    /// Adds the busy time from `from_ns` to `to_ns`, during which these numbers were in flight. Time in flight is
    /// summed elsewhere, when the I/O arrives.
    fn pass(&self, seconds: &mut BTreeMap<i64, SecondSums>, from_ns: i64, to_ns: i64) {
        if self.all == 0 {
            return;
        }
        for part in TimeGrid::SECONDS.parts(from_ns, to_ns) {
            let second = seconds.entry(part.slot).or_default();
            second.flight.busy_ns += part.len_ns();
            second.flight.in_flight_max = second.flight.in_flight_max.max(self.all);
            for (busy_ns, depth) in second.busy_of_class_ns.iter_mut().zip(self.classes) {
                *busy_ns += if depth > 0 { part.len_ns() } else { 0 };
            }
        }
    }
}

/// Slot lengths in seconds. When space is short, files of the first are removed before the others; rows of the last are
/// written when a recording ends.
pub const ROLLUP_STEPS_S: [i32; 3] = [1, 60, 3600];

/// The same rollups per minute. Rows of one minute that are passed in two calls make two rows, which readers add.
pub fn minutes(seconds: &[Rollup]) -> Vec<Rollup> {
    let mut minutes = CoarserRollups::new(ROLLUP_STEPS_S[1]);
    minutes.add(seconds);
    minutes.finish()
}

/// Aggregates rollups to a longer step, which must be a multiple of the shorter one.
#[derive(Debug)]
pub struct CoarserRollups {
    step_s: i32,
    rows: BTreeMap<(i64, Option<DevId>, i32), Rollup>,
}

impl CoarserRollups {
    /// Creates an empty aggregate with slots of `step_s` seconds.
    pub fn new(step_s: i32) -> CoarserRollups {
        CoarserRollups {
            step_s,
            rows: BTreeMap::new(),
        }
    }

    /// Adds rows of shorter slots.
    pub fn add(&mut self, finer: &[Rollup]) {
        let step_ns = i64::from(self.step_s) * SECOND_NS;
        for r in finer {
            let at_ns = floor_to(r.at_ns, step_ns);
            self.rows
                .entry((at_ns, r.dev, r.class.map_or(-1, |c| c as i32)))
                .or_insert_with(|| Rollup::empty(self.step_s, at_ns, r.dev, r.class))
                .add(r);
        }
    }

    /// Returns all rows, ordered by time.
    pub fn finish(self) -> Vec<Rollup> {
        self.rows.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;
    use proptest::prelude::*;

    type Key = (i64, Option<DevId>, Option<Class>);

    fn io(done_ns: i64, total_ns: i64, dev: i32, op: Op) -> Io {
        let queue_ns = total_ns / 3;
        let io = Io::new(
            done_ns,
            DevId(dev),
            op,
            512 * (1 + done_ns % 7),
            Some(queue_ns),
            total_ns - queue_ns,
        );
        Io {
            merges: Some((done_ns % 3) as i32),
            error: Some((done_ns % 11 == 0).into()),
            ..io
        }
    }

    /// Rows of one key added up, in any order.
    fn by_key(rows: &[Rollup]) -> std::collections::HashMap<Key, Rollup> {
        let mut sums = std::collections::HashMap::new();
        for r in rows {
            let empty = Rollup::empty(r.step_s, r.at_ns, r.dev, r.class);
            sums.entry((r.at_ns, r.dev, r.class))
                .or_insert(empty)
                .add(r);
        }
        sums
    }

    /// The definition: every I/O in the second of its end; busy and in flight moment by moment.
    fn brute_force(ios: &[Io], step_s: i64) -> std::collections::HashMap<Key, Rollup> {
        let step_ns = step_s * SECOND_NS;
        let mut rows = Vec::new();
        let devices: std::collections::BTreeSet<DevId> = ios.iter().map(|io| io.dev).collect();
        let last = ios.iter().map(|io| io.done_ns).max().unwrap_or(0) / step_ns;
        for dev in devices {
            for slot in 0..=last {
                let from = slot * step_ns;
                let to = (slot + 1) * step_ns;
                let mut all = Rollup::empty(step_s as i32, from, Some(dev), None);
                for class in Class::ALL {
                    let mut row = Rollup::empty(step_s as i32, from, Some(dev), Some(class));
                    ios.iter()
                        .filter(|io| {
                            io.dev == dev && io.class() == class && (from..to).contains(&io.done_ns)
                        })
                        .for_each(|io| row.count(io));
                    all.add(&row);
                    rows.push(row);
                }
                all.total = CallHistogram::default();
                all.device = CallHistogram::default();
                let spans: Vec<(i64, i64)> = (ios.iter().filter(|io| io.dev == dev))
                    .map(|io| (io.start_ns().max(0).max(from), io.done_ns.min(to)))
                    .filter(|(a, b)| a < b)
                    .collect();
                let mut edges: Vec<i64> = spans.iter().flat_map(|(a, b)| [*a, *b]).collect();
                edges.sort_unstable();
                edges.dedup();
                let mut flight = Flight::default();
                let mut busy_of_class_ns = [0; Class::ALL.len()];
                for pair in edges.windows(2) {
                    for class in Class::ALL {
                        let covers = |io: &&Io| {
                            io.dev == dev
                                && io.class() == class
                                && io.start_ns() <= pair[0]
                                && io.done_ns >= pair[1]
                        };
                        if ios.iter().any(|io| covers(&io)) {
                            busy_of_class_ns[class as usize] += pair[1] - pair[0];
                        }
                    }
                    let depth = spans
                        .iter()
                        .filter(|(a, b)| *a <= pair[0] && *b >= pair[1])
                        .count() as i64;
                    flight.busy_ns += if depth > 0 { pair[1] - pair[0] } else { 0 };
                    flight.in_flight_ns += depth * (pair[1] - pair[0]);
                    flight.in_flight_max = flight.in_flight_max.max(depth);
                }
                rows.push(Rollup {
                    flight: Some(flight),
                    busy_of_class_ns: Some(busy_of_class_ns),
                    ..all
                });
            }
        }
        rows.retain(|r| !r.is_empty());
        by_key(&rows)
    }

    /// In batches, taken as they come complete.
    fn built(ios: &[Io], batch: usize) -> Vec<Rollup> {
        let mut builder = RollupBuilder::default();
        let mut rows = Vec::new();
        for some in ios.chunks(batch.max(1)) {
            builder.push_ios(some);
            rows.extend(builder.take());
        }
        rows.extend(builder.finish());
        rows
    }

    fn ios(max_total_ns: i64) -> impl Strategy<Value = Vec<Io>> {
        let one = (0..150 * SECOND_NS, 0..max_total_ns, 0..2, 0..4);
        prop::collection::vec(one, 1..60).prop_map(|list| {
            let op = |n: i32| [Op::READ, Op::WRITE, Op::FLUSH, Op::DISCARD][n as usize];
            let mut ios: Vec<Io> = list
                .into_iter()
                .map(|(done, total, dev, n)| io(done, total, dev, op(n)))
                .collect();
            ios.sort_by_key(|io| io.done_ns);
            ios
        })
    }

    proptest! {
        #[test]
        fn rollups_are_the_sums_over_their_ios(ios in ios(SWEEP_NS), batch in 1usize..20) {
            let rows = built(&ios, batch);
            prop_assert!(rows.iter().all(|r| r.at_ns % SECOND_NS == 0));
            prop_assert_eq!(by_key(&rows), brute_force(&ios, 1));
        }

        #[test]
        fn minutes_are_the_sums_of_their_seconds(ios in ios(SWEEP_NS), batch in 1usize..20) {
            prop_assert_eq!(by_key(&minutes(&built(&ios, batch))), brute_force(&ios, 60));
        }

        #[test]
        fn long_ios_are_in_flight_all_the_time_and_busy_within_bounds(ios in ios(REACH_NS), batch in 1usize..20) {
            let got = by_key(&built(&ios, batch));
            let exact = brute_force(&ios, 1);
            prop_assert_eq!(got.len(), exact.len());
            for (key, want) in exact {
                let mut got = got[&key].clone();
                if let (Some(g), Some(w)) = (got.flight, want.flight) {
                    prop_assert_eq!(g.in_flight_ns, w.in_flight_ns);
                    prop_assert!(g.busy_ns <= w.busy_ns && g.in_flight_max >= w.in_flight_max, "{:?} {:?}", g, w);
                    let whole = ios.iter().any(|io| io.start_ns() <= key.0 && io.done_ns >= key.0 + SECOND_NS && Some(io.dev) == key.1);
                    prop_assert!(!whole || g.busy_ns == SECOND_NS);
                }
                if let (Some(g), Some(w)) = (got.busy_of_class_ns, want.busy_of_class_ns) {
                    prop_assert!(g.iter().zip(w).all(|(g, w)| *g <= w), "{:?} {:?}", g, w);
                }
                got.busy_of_class_ns = want.busy_of_class_ns;
                got.flight = want.flight;
                prop_assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn of_an_io_of_hours_the_last_minute_counts() {
        let hours = io(7200 * SECOND_NS, 7100 * SECOND_NS, 1, Op::READ);
        let before = io(7190 * SECOND_NS, 1000, 1, Op::READ);
        let rows = built(&[before, hours], 1);
        let flight = rows
            .iter()
            .filter_map(|r| r.flight)
            .map(|f| f.in_flight_ns)
            .sum::<i64>();
        assert_eq!(flight, REACH_NS + 1000);
    }

    #[test]
    fn idle_seconds_have_no_row_and_memory_does_not_grow() {
        let mut builder = RollupBuilder::default();
        for s in 0..1000 {
            builder.push_ios(&[io(s * SECOND_NS, 1000, 1, Op::WRITE)]);
            builder.take();
            assert!(builder.devices[&DevId(1)].seconds.len() < 64);
            assert!(builder.devices[&DevId(1)].sweep.starts.len() < 8);
        }
        builder.seen_until(5000 * SECOND_NS);
        assert!(!builder.take().is_empty());
        builder.seen_until(9000 * SECOND_NS);
        assert!(builder.take().is_empty() && builder.devices[&DevId(1)].seconds.is_empty());
    }

    #[test]
    fn losses_and_latecomers_add_to_their_second() {
        let mut builder = RollupBuilder::default();
        builder.push_ios(&[io(500, 100, 1, Op::READ)]);
        builder.seen_until(100 * SECOND_NS);
        let dev = Some(DevId(1));
        let lost = Lost {
            ios: Some(7),
            dev,
            ..Lost::somewhere(0, 1000, LossReason::RingFull)
        };
        builder.lost(&Lost {
            class: Some(Class::Write),
            ..lost
        });
        builder.lost(&Lost {
            ios: None,
            dev: None,
            ..lost
        });
        builder.lost(&Lost {
            reason: LossReason::Censored,
            ..lost
        });
        builder.push_ios(&[io(900, 100, 1, Op::READ)]);
        let rows = by_key(&builder.finish());
        assert_eq!(rows[&(0, dev, Some(Class::Read))].ios, 2);
        assert_eq!(
            (rows[&(0, dev, None)].ios, rows[&(0, dev, None)].lost_ios),
            (2, Some(7))
        );
        assert_eq!(
            (
                rows[&(0, dev, Some(Class::Write))].lost_ios,
                rows[&(0, None, None)].lost_ios
            ),
            (Some(7), None)
        );
    }

    #[test]
    fn what_is_not_known_of_one_is_not_known_of_the_sum() {
        let unknown = Io {
            queue_ns: None,
            ..io(600, 90, 1, Op::READ)
        };
        let rows = by_key(&built(&[io(500, 100, 1, Op::READ), unknown], 1));
        let row = &rows[&(0, Some(DevId(1)), Some(Class::Read))];
        assert_eq!(
            (row.ios, row.queue_sum_ns, row.merges.is_some()),
            (2, None, true)
        );
    }
}
