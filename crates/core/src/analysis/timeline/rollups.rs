//! Rows from rollups (sums per second or minute), for times whose single I/Os have been removed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Extended, GroupBy, GroupKey, MAX_ROWS, PlanError, Row, SlotTime, TimelinePlan};
use crate::analysis::math::intervals::{union, within_ns};
use crate::model::{CallHistogram, Class, DevId, Flight, LossReason, Lost, Rollup, add_each};

/// Computes rows from rollups. Slots should be multiples of the rollups' step and aligned to it: a rollup counts in the
/// slot in which it starts.
#[derive(Debug)]
pub struct RollupTimeline {
    plan: TimelinePlan,
    slots: BTreeMap<(i64, GroupKey), RollupSlot>,
    /// I/Os missing on unknown devices, by slot.
    lost_anywhere: BTreeMap<i64, f64>,
    /// Time without a recorder.
    unrecorded: Vec<(i64, i64)>,
}

#[derive(Debug, Default)]
struct RollupSlot {
    row: Option<Row>,
    totals: [CallHistogram; Class::ALL.len()],
    flights: BTreeMap<DevId, DeviceFlight>,
    lost: f64,
}

impl RollupSlot {
    /// Adds one device's time in flight, and its busy time for any class and for each class.
    fn add_flight(
        &mut self,
        dev: DevId,
        flight: Flight,
        busy_of_class_ns: Option<[i64; Class::ALL.len()]>,
    ) {
        match self.flights.entry(dev) {
            Entry::Vacant(first) => {
                first.insert(DeviceFlight {
                    flight,
                    busy_of_class_ns,
                });
            }
            Entry::Occupied(mut sum) => {
                let sum = sum.get_mut();
                sum.flight.add(&flight);
                sum.busy_of_class_ns = add_each(sum.busy_of_class_ns, busy_of_class_ns);
            }
        }
    }
}

/// Quantile of latencies in microseconds. The maximum (quantile 1) is as accurate as the others: its bucket is as
/// narrow.
fn quantile_us(counts: &CallHistogram, share: f64) -> Option<f64> {
    let ns = counts.quantile(share)?;
    Some(ns as f64 / 1e3)
}

/// Time in flight of one device.
#[derive(Debug)]
struct DeviceFlight {
    flight: Flight,
    busy_of_class_ns: Option<[i64; Class::ALL.len()]>,
}

impl RollupTimeline {
    /// Rows by `plan`; only all devices together or each by itself are possible.
    ///
    /// # Errors
    /// [`PlanError`] if the plan makes no sense or asks for too many rows.
    pub fn new(plan: TimelinePlan) -> Result<RollupTimeline, PlanError> {
        plan.check()?;
        Ok(RollupTimeline {
            plan,
            slots: BTreeMap::new(),
            lost_anywhere: BTreeMap::new(),
            unrecorded: Vec::new(),
        })
    }

    /// Takes a rollup, in any order. Those outside the window are ignored.
    pub fn push(&mut self, r: &Rollup) {
        if !(self.plan.window.from_ns..self.plan.window.to_ns).contains(&r.at_ns) {
            return;
        }
        let key = match (self.plan.by, r.dev) {
            (GroupBy::Device, Some(dev)) => GroupKey::Device(dev),
            (GroupBy::Device, None) => {
                // The device is not known, so the losses may be on any device.
                let lost = r.lost_ios.map_or(f64::INFINITY, |n| n as f64);
                *self
                    .lost_anywhere
                    .entry(self.plan.slot_of(r.at_ns))
                    .or_default() += lost;
                return;
            }
            _ => GroupKey::All,
        };
        let slot = self.plan.slot_of(r.at_ns);
        let empty = self.plan.empty_row(slot, key);
        let slot = self.slots.entry((slot, key)).or_default();
        let row = slot.row.get_or_insert(empty);
        let Some(class) = r.class else {
            // Counted from rows of all classes; rows of one class hold part of the same losses.
            slot.lost += r.lost_ios.map_or(f64::INFINITY, |n| n as f64);
            if let (Some(dev), Some(flight)) = (r.dev, r.flight) {
                slot.add_flight(dev, flight, r.busy_of_class_ns);
            }
            return;
        };
        let flow = &mut row.flows[class as usize];
        flow.ios += u64::try_from(r.ios).unwrap_or(0);
        flow.bytes += u64::try_from(r.bytes).unwrap_or(0);
        flow.total_ns = flow
            .total_ns
            .saturating_add(r.queue_sum_ns.unwrap_or(0))
            .saturating_add(r.device_sum_ns);
        slot.totals[class as usize].merge(&r.total);
    }

    /// Takes a loss of the recording. Rollups already count missing I/Os, in the second in which the loss ends. Only
    /// time without a recorder is marked here, for its whole length.
    pub fn lost(&mut self, lost: &Lost) {
        // For data removed by the size limit the rollups still exist.
        if lost.reason == LossReason::NotRecorded && lost.is_unrecorded_time() {
            self.unrecorded.push((lost.from_ns, lost.to_ns));
        }
    }

    /// All rows, one after the other, to the recording's end.
    ///
    /// # Errors
    /// [`PlanError::TooManyRows`].
    pub fn finish(mut self, end_ns: i64) -> Result<Vec<Row>, PlanError> {
        let latest = self
            .slots
            .keys()
            .next_back()
            .map(|(slot, _)| self.plan.slot_end(*slot) - 1);
        let window = self.plan.window.closed_at(end_ns, latest);
        if window.len_ns() == 0 {
            return Ok(Vec::new());
        }
        self.unrecorded = union(std::mem::take(&mut self.unrecorded));
        let always = self.plan.always_keys();
        let mut rows = Vec::new();
        for slot in 0..=self.plan.slot_of(window.to_ns - 1) {
            let seen: Vec<GroupKey> = self
                .slots
                .range((slot, GroupKey::All)..)
                .map_while(|((s, k), _)| (*s == slot).then_some(*k))
                .collect();
            let mut keys: Vec<GroupKey> = always.iter().copied().chain(seen).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let slot_of = self.slots.remove(&(slot, key)).unwrap_or_default();
                rows.push(self.row(slot, key, slot_of, window.to_ns));
            }
            if rows.len() as u64 > MAX_ROWS {
                return Err(PlanError::TooManyRows);
            }
        }
        Ok(rows)
    }

    fn row(&self, slot: i64, key: GroupKey, of: RollupSlot, end_ns: i64) -> Row {
        let row = of.row.unwrap_or_else(|| self.plan.empty_row(slot, key));
        // The window may end inside the slot; shares are of the part inside.
        let row = Row {
            to_ns: row.to_ns.min(end_ns),
            ..row
        };
        let seen: u64 = row.flows.iter().map(|f| f.ios).sum();
        let len_ns = row.to_ns - row.from_ns;
        let unrecorded_ns = within_ns(&self.unrecorded, row.from_ns, row.to_ns);
        if unrecorded_ns == len_ns && seen == 0 {
            return Row {
                lossy: true,
                known: false,
                extended: self.plan.extended.then(Extended::default),
                ..row
            };
        }
        // Busy times of several devices cannot be added, because they may overlap.
        let one = of.flights.values().next().filter(|_| of.flights.len() == 1);
        let reads = &of.totals[Class::Read as usize];
        let writes = &of.totals[Class::Write as usize];
        let extended = self.plan.extended.then(|| Extended {
            r_p50_us: quantile_us(reads, 0.5),
            w_p50_us: quantile_us(writes, 0.5),
            r_p90_us: quantile_us(reads, 0.9),
            w_p90_us: quantile_us(writes, 0.9),
            r_p99_us: quantile_us(reads, 0.99),
            w_p99_us: quantile_us(writes, 0.99),
            r_max_us: quantile_us(reads, 1.0),
            w_max_us: quantile_us(writes, 1.0),
            in_flight: {
                let in_flight_ns = of.flights.values().map(|f| f.flight.in_flight_ns).sum();
                Some(SlotTime::of(in_flight_ns, len_ns))
            },
            inflight_max: one.and_then(|f| u64::try_from(f.flight.in_flight_max).ok()),
            busy: match of.flights.len() {
                0 => Some(SlotTime::of(0, len_ns)),
                _ => one.map(|f| SlotTime::of(f.flight.busy_ns, len_ns)),
            },
            busy_of_class: match of.flights.len() {
                0 => [Some(SlotTime::of(0, len_ns)); Class::ALL.len()],
                _ => Class::ALL.map(|class| {
                    let busy_ns = one?.busy_of_class_ns?[class as usize];
                    Some(SlotTime::of(busy_ns, len_ns))
                }),
            },
        });
        let lost = of.lost + self.lost_anywhere.get(&slot).copied().unwrap_or(0.0);
        Row {
            lossy: unrecorded_ns > 0 || Lost::marks(lost, seen),
            extended,
            ..row
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Timeline;
    use super::*;
    use crate::analysis::stream::window::Window;
    use crate::model::{Io, Op};
    use crate::rollup::RollupBuilder;

    const S: i64 = 1_000_000_000;

    fn ios() -> Vec<Io> {
        (0..400)
            .map(|i| {
                let op = if i % 3 == 0 { Op::WRITE } else { Op::READ };
                Io::new(
                    i * S / 20 + 7_000_000,
                    DevId(8 + (i % 2) as i32),
                    op,
                    4096,
                    Some(i * 100),
                    900_000 + i * 1000,
                )
            })
            .collect()
    }

    fn rollups(ios: &[Io]) -> Vec<Rollup> {
        let mut builder = RollupBuilder::default();
        builder.push_ios(ios);
        builder.finish()
    }

    fn plan(step_ns: i64, by: GroupBy) -> TimelinePlan {
        TimelinePlan {
            by,
            extended: true,
            ..TimelinePlan::new(Window::new(2 * S, 18 * S), step_ns)
        }
    }

    #[test]
    fn rows_are_those_of_the_single_ios() {
        let ios = ios();
        for (step, by) in [
            (S, GroupBy::Device),
            (3 * S, GroupBy::Device),
            (S, GroupBy::All),
        ] {
            let mut exact = Timeline::new(plan(step, by)).expect("a plan");
            ios.iter().for_each(|io| exact.push(io).expect("in order"));
            exact.finish(20 * S).expect("finishes");
            let exact: Vec<Row> = std::iter::from_fn(|| exact.next_row()).collect();
            let mut timeline = RollupTimeline::new(plan(step, by)).expect("a plan");
            rollups(&ios).iter().for_each(|r| timeline.push(r));
            let rows = timeline.finish(20 * S).expect("finishes");
            assert_eq!(rows.len(), exact.len());
            for (got, want) in rows.iter().zip(&exact) {
                assert_eq!(
                    (got.from_ns, got.to_ns, got.key, got.flows),
                    (want.from_ns, want.to_ns, want.key, want.flows)
                );
                let got = got.extended.expect("asked for");
                let want = want.extended.expect("asked for");
                let near = |a: Option<f64>, b: Option<f64>, error: f64| match (a, b) {
                    (Some(a), Some(b)) => (a - b).abs() <= error * b + 1e-9,
                    (a, b) => a == b,
                };
                let of_latencies = |x: &Extended| {
                    [
                        [x.r_p50_us, x.r_p90_us, x.r_p99_us, x.r_max_us],
                        [x.w_p50_us, x.w_p90_us, x.w_p99_us, x.w_max_us],
                    ]
                    .concat()
                };
                for (got, want) in of_latencies(&got).into_iter().zip(of_latencies(&want)) {
                    assert!(near(got, want, 0.04), "{got:?} {want:?}");
                }
                assert!(
                    near(got.inflight_mean(), want.inflight_mean(), 1e-9),
                    "{got:?} {want:?}"
                );
                let joined = by == GroupBy::All;
                assert!(
                    joined
                        || (near(got.busy_percent(), want.busy_percent(), 1e-9)
                            && got.inflight_max == want.inflight_max)
                );
                for class in Class::ALL {
                    let [got, want] = [&got, &want].map(|x| x.busy_percent_of(class));
                    assert!(joined || near(got, want, 1e-9), "{got:?} {want:?}");
                }
            }
        }
    }

    #[test]
    fn idle_slots_are_there_and_losses_mark_theirs() {
        let mut builder = RollupBuilder::default();
        builder.push_ios(&ios()[..100]);
        builder.lost(&Lost {
            ios: Some(50),
            ..Lost::somewhere(0, 3 * S + 5, LossReason::RingFull)
        });
        let mut timeline =
            RollupTimeline::new(TimelinePlan::new(Window::new(0, 10 * S), S)).expect("a plan");
        let sums = builder.finish();
        sums.iter().for_each(|r| timeline.push(r));
        let rows = timeline.finish(10 * S).expect("finishes");
        let lossy: Vec<i64> = rows
            .iter()
            .filter(|r| r.lossy)
            .map(|r| r.from_ns / S)
            .collect();
        assert_eq!((rows.len(), lossy), (10, vec![3]));
        let by_device = TimelinePlan {
            by: GroupBy::Device,
            ..TimelinePlan::new(Window::new(0, 10 * S), S)
        };
        let mut timeline = RollupTimeline::new(by_device).expect("a plan");
        sums.iter().for_each(|r| timeline.push(r));
        let marked = timeline
            .finish(10 * S)
            .expect("finishes")
            .into_iter()
            .filter(|r| r.lossy)
            .count();
        assert_eq!(marked, 2, "either device");
        assert!(rows[8].flows.iter().all(|f| f.ios == 0) && rows[8].known);
    }

    #[test]
    fn rows_without_a_recorder_are_not_known_and_those_of_removed_ios_are() {
        let mut timeline = RollupTimeline::new(TimelinePlan {
            extended: true,
            ..TimelinePlan::new(Window::new(0, 10 * S), S)
        })
        .expect("a plan");
        // One I/O completes every 50 ms up to 5 s.
        rollups(&ios()[..100]).iter().for_each(|r| timeline.push(r));
        timeline.lost(&Lost::somewhere(0, 10 * S, LossReason::Retention));
        timeline.lost(&Lost::somewhere(
            5 * S + S / 2,
            8 * S,
            LossReason::NotRecorded,
        ));
        let rows = timeline.finish(10 * S).expect("finishes");
        let mut shown = Vec::new();
        for row in &rows {
            let busy = row.extended.and_then(|x| x.busy_percent());
            let is_idle = row.ios_per_s(Class::Read) == Some(0.0);
            shown.push((row.known, row.lossy, busy.is_some(), is_idle));
        }
        let idle = (true, false, true, true);
        let part = (true, true, true, true);
        let unrecorded = (false, true, false, false);
        assert_eq!(shown[5..], [part, unrecorded, unrecorded, idle, idle]);
        assert!(rows[..5].iter().all(|row| row.known && !row.lossy));
    }
}
