//! Rows from counters alone: rates and mean latencies, no single I/O.

use std::collections::BTreeMap;

use super::{Extended, Flow, GroupBy, GroupKey, MAX_ROWS, PlanError, Row, SlotTime, TimelinePlan};
use crate::analysis::math::intervals::within_ns;
use crate::analysis::stream::window::Window;
use crate::model::DevId;

/// A last slot shorter than this share of the step exists only because the recording ended late. It is dropped if no
/// difference belongs to it.
const LATE_END: f64 = 0.1;

/// Resolution of the kernel's sums of latencies.
const RESOLUTION_NS: i64 = 1_000_000;

/// The difference between two samples of one device's counters. `None` if the kernel does not provide the counter or it
/// cannot be trusted (it went backwards).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterRates {
    /// The device.
    pub dev: DevId,
    /// Time of the earlier sample, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Time of the later sample.
    pub to_ns: i64,
    /// By class, indexed by `Class as usize`; latency sums have the kernel's resolution of 1 ms.
    pub flows: [Option<Flow>; 4],
    /// The kernel's busy time (`io_ticks`), in nanoseconds.
    pub busy_ns: Option<i64>,
    /// Time in flight summed over I/Os (`time_in_queue`), in nanoseconds.
    pub area_ns: Option<i64>,
}

impl CounterRates {
    /// Whether no counter changed, so that the device is known to have been idle at every moment between the samples.
    fn is_standstill(&self) -> bool {
        self.flows.iter().flatten().all(|f| *f == Flow::default())
            && self.busy_ns.unwrap_or(0) == 0
            && self.area_ns.unwrap_or(0) == 0
    }
}

/// Computes rows from counter differences, as [`super::Timeline`] does from I/Os. Percentiles, maxima and the largest
/// number in flight are `None`. Busy time and mean in flight are the kernel's own estimates.
///
/// A difference belongs to the slot that contains most of it, because samples are taken a little after their deadline.
/// A difference longer than a step belongs to the slot of its last step. The slots before that are unknown, unless the
/// counters did not change.
#[derive(Debug)]
pub struct CounterTimeline {
    plan: TimelinePlan,
    slots: BTreeMap<i64, BTreeMap<GroupKey, IntervalSums>>,
    covered: BTreeMap<DevId, Covered>,
    latest_ns: Option<i64>,
    made: u64,
}

#[derive(Debug, Default, Clone)]
struct IntervalSums {
    flows: [Flow; 4],
    /// Number of differences with I/Os. Each may hide almost a millisecond that the kernel's sums do not show yet.
    differences: [u32; 4],
    busy_ns: i64,
    area_ns: i64,
    unknown: bool,
    booked: bool,
}

/// The times that a device's differences cover, in order.
#[derive(Debug, Default)]
struct Covered {
    /// Ranges between samples without a gap, in nanoseconds.
    spans: Vec<(i64, i64)>,
    /// Those ranges in which the counters did not change.
    still: Vec<(i64, i64)>,
    /// First and last slot of ranges that are only covered by a difference over several slots.
    mixed: Vec<(i64, i64)>,
}

/// `ns` as a share of `whole_ns`; `None` if `whole_ns` is 0.
fn share(ns: i64, whole_ns: i64) -> Option<f64> {
    (whole_ns > 0).then(|| ns as f64 / whole_ns as f64)
}

impl Covered {
    /// Whether the counters did not change during some of `from_ns..to_ns`.
    fn stood_still_in(&self, from_ns: i64, to_ns: i64) -> bool {
        within_ns(&self.still, from_ns, to_ns) > 0
    }
    fn is_mixed(&self, slot: i64) -> bool {
        let at = self.mixed.partition_point(|m| m.1 < slot);
        self.mixed.get(at).is_some_and(|m| m.0 <= slot)
    }
}

/// Appends a range, or extends the last one if it is adjacent.
fn append(spans: &mut Vec<(i64, i64)>, from_ns: i64, to_ns: i64) {
    match spans.last_mut() {
        Some(last) if last.1 == from_ns => last.1 = to_ns,
        _ => spans.push((from_ns, to_ns)),
    }
}

impl CounterTimeline {
    /// Rows by `plan`; only all devices together or each by itself are possible.
    ///
    /// # Errors
    /// [`PlanError`] if the plan makes no sense or asks for too many rows.
    pub fn new(plan: TimelinePlan) -> Result<CounterTimeline, PlanError> {
        plan.check()?;
        Ok(CounterTimeline {
            plan,
            slots: BTreeMap::new(),
            covered: BTreeMap::new(),
            latest_ns: None,
            made: 0,
        })
    }

    /// Takes the next difference, in the order of `to_ns` for each device.
    pub fn push(&mut self, d: &CounterRates) {
        let covered = self.covered.entry(d.dev).or_default();
        append(&mut covered.spans, d.from_ns, d.to_ns);
        if d.is_standstill() {
            append(&mut covered.still, d.from_ns, d.to_ns);
            return;
        }
        let half_ns = ((d.to_ns - d.from_ns).min(self.plan.step_ns) / 2).max(1);
        let at_ns = d.to_ns.saturating_sub(half_ns);
        let slot = self.plan.slot_of(at_ns);
        // Slot to which the previous difference belongs.
        let before = self.plan.slot_of(d.from_ns.saturating_sub(half_ns));
        if before + 1 < slot {
            covered.mixed.push((before + 1, slot - 1));
        }
        if !self.plan.window.contains(at_ns) {
            return;
        }
        self.latest_ns = self.latest_ns.max(Some(at_ns));
        let key = if self.plan.by == GroupBy::All {
            GroupKey::All
        } else {
            GroupKey::Device(d.dev)
        };
        let sums = self.slots.entry(slot).or_default().entry(key).or_default();
        for ((sum, n), flow) in sums
            .flows
            .iter_mut()
            .zip(&mut sums.differences)
            .zip(&d.flows)
        {
            flow.iter().for_each(|f| sum.add(f));
            *n += u32::from(flow.is_some_and(|f| f.ios > 0));
        }
        sums.booked = true;
        sums.unknown |= d.flows[..2].iter().any(Option::is_none);
        sums.busy_ns += d.busy_ns.unwrap_or(0);
        sums.area_ns += d.area_ns.unwrap_or(0);
    }

    /// All rows. `end_ns` is the recording's end, which closes an open window.
    ///
    /// # Errors
    /// [`PlanError::TooManyRows`] once there are.
    pub fn finish(mut self, end_ns: i64) -> Result<Vec<Row>, PlanError> {
        let window = self.plan.window.closed_at(end_ns, self.latest_ns);
        let mut rows = Vec::new();
        if window.len_ns() == 0 {
            return Ok(rows);
        }
        let always = self.plan.always_keys();
        for slot in 0..=self.last_slot(&window) {
            let mut groups = self.slots.remove(&slot).unwrap_or_default();
            for key in &always {
                groups.entry(*key).or_default();
            }
            self.made += groups.len() as u64;
            if self.made > MAX_ROWS {
                return Err(PlanError::TooManyRows);
            }
            let (from_ns, to_ns) = self.plan.bounds(slot, window.to_ns);
            rows.extend(
                groups
                    .into_iter()
                    .map(|(key, sums)| self.row(slot, (from_ns, to_ns), key, &sums)),
            );
        }
        Ok(rows)
    }

    fn last_slot(&self, window: &Window) -> i64 {
        let last = self.plan.slot_of(window.to_ns - 1);
        let has_ns = window.to_ns - self.plan.slot_end(last - 1);
        let late_end = (has_ns as f64) < self.plan.step_ns as f64 * LATE_END
            && !self.slots.contains_key(&last);
        if late_end && last > 0 { last - 1 } else { last }
    }

    fn row(
        &self,
        slot: i64,
        (from_ns, to_ns): (i64, i64),
        key: GroupKey,
        sums: &IntervalSums,
    ) -> Row {
        // The kernel's busy times of several devices cannot be added, because they may overlap.
        let one_device = match key {
            GroupKey::Device(dev) => self.covered.get(&dev),
            _ => None,
        };
        // Shares are of the time that samples cover, which may be less than the slot.
        let covered_ns = one_device.map_or(0, |c| within_ns(&c.spans, from_ns, to_ns));
        let known = match key {
            GroupKey::Device(_) => one_device.is_some_and(|c| {
                (sums.booked || c.stood_still_in(from_ns, to_ns)) && !c.is_mixed(slot)
            }),
            _ => {
                let mut devices = self.covered.values();
                (sums.booked || devices.any(|c| c.stood_still_in(from_ns, to_ns)))
                    && !self.covered.values().any(|c| c.is_mixed(slot))
            }
        };
        let known_ns = if known { covered_ns } else { 0 };
        Row {
            flows: sums.flows,
            unresolved_ns: sums.differences.map(|n| i64::from(n) * RESOLUTION_NS),
            lossy: sums.unknown,
            known,
            extended: self.plan.extended.then(|| Extended {
                in_flight: share(sums.area_ns, known_ns).map(SlotTime::Quotient),
                busy: share(sums.busy_ns, known_ns).map(|u| SlotTime::Quotient(100.0 * u)),
                ..Extended::default()
            }),
            ..Row::empty(from_ns, to_ns, key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Class;

    const MS: i64 = 1_000_000;

    fn between(from_ms: f64, to_ms: f64, ios: u64, busy_ms: i64) -> CounterRates {
        let flow = Some(Flow {
            ios,
            bytes: 4096 * ios,
            total_ns: 2 * MS * ios as i64,
        });
        CounterRates {
            dev: DevId(1),
            from_ns: (from_ms * 1e6) as i64,
            to_ns: (to_ms * 1e6) as i64,
            flows: [flow, Some(Flow::default()), None, None],
            busy_ns: Some(busy_ms * MS),
            area_ns: Some(busy_ms * MS),
        }
    }

    fn rows(step_ms: i64, end_ms: f64, by: GroupBy, differences: &[CounterRates]) -> Vec<Row> {
        let plan = TimelinePlan {
            by,
            always: vec![GroupKey::Device(DevId(1))],
            extended: true,
            ..TimelinePlan::new(Window::OPEN, step_ms * MS)
        };
        let mut t = CounterTimeline::new(plan).expect("a good plan");
        differences.iter().for_each(|d| t.push(d));
        t.finish((end_ms * 1e6) as i64).expect("few rows")
    }

    #[test]
    fn a_mean_below_the_resolution_is_a_bound_and_not_zero() {
        let quick = |from_ms: f64, to_ms: f64, total_ms: i64| {
            let mut d = between(from_ms, to_ms, 10, 0);
            d.flows[0] = Some(Flow {
                ios: 10,
                bytes: 40960,
                total_ns: total_ms * MS,
            });
            d
        };
        let one = rows(100, 100.0, GroupBy::Device, &[quick(0.0, 100.0, 0)]);
        assert_eq!(
            (
                one[0].mean_us(Class::Read),
                one[0].mean_below_us(Class::Read)
            ),
            (None, Some(100.0))
        );
        assert_eq!(one[0].mean_below_us(Class::Write), None, "no writes");
        let two = [quick(0.0, 50.0, 0), quick(50.0, 100.0, 0)];
        assert_eq!(
            rows(100, 100.0, GroupBy::Device, &two)[0].mean_below_us(Class::Read),
            Some(100.0)
        );
        let known = rows(
            100,
            100.0,
            GroupBy::Device,
            &[two[0], quick(50.0, 100.0, 1)],
        );
        assert_eq!(
            (
                known[0].mean_us(Class::Read),
                known[0].mean_below_us(Class::Read)
            ),
            (Some(50.0), None)
        );
    }

    /// Reads per slot; `None` where nothing is known.
    fn reads(rows: &[Row]) -> Vec<Option<u64>> {
        rows.iter()
            .map(|r| r.known.then_some(r.flows[0].ios))
            .collect()
    }

    #[test]
    fn differences_are_booked_where_most_of_them_lies() {
        let late = [
            between(0.1, 10.2, 5, 10),
            between(10.2, 20.3, 5, 0),
            between(20.3, 60.0, 0, 0),
        ];
        let found = rows(
            20,
            80.0,
            GroupBy::Device,
            &[&late[..], &[between(60.0, 70.0, 1, 2)]].concat(),
        );
        assert_eq!(reads(&found), [Some(10), Some(0), Some(0), Some(1)]);
        let x = found[0].extended.expect("planned");
        let busy = x.busy_percent().expect("known");
        assert!((busy - 100.0 * 10.0 / 19.9).abs() < 1e-9, "{busy}");
        assert_eq!((x.r_p99_us, x.inflight_max), (None, None));
        assert_eq!(
            found[1].extended.expect("planned").busy_percent(),
            Some(0.0),
            "counters that stand still tell"
        );
        assert_eq!(found[0].flows[0].mean_us(), Some(2000.0));
    }

    #[test]
    fn between_two_samples_nothing_is_known_but_a_standstill() {
        let found = rows(
            2,
            14.0,
            GroupBy::Device,
            &[
                between(0.0, 6.1, 3, 1),
                between(6.1, 10.0, 0, 0),
                between(10.0, 12.0, 1, 1),
            ],
        );
        assert_eq!(
            reads(&found),
            [None, None, Some(3), Some(0), Some(0), Some(1), None]
        );
        let x = found[0].extended.expect("planned");
        assert_eq!((x.busy_percent(), x.inflight_mean()), (None, None));
    }

    #[test]
    fn all_devices_are_known_where_none_is_in_doubt() {
        let other = |d: CounterRates| CounterRates { dev: DevId(2), ..d };
        let differences = [
            between(0.0, 6.0, 3, 1),
            other(between(0.0, 6.0, 0, 0)),
            between(6.0, 8.0, 0, 0),
        ];
        assert_eq!(
            reads(&rows(2, 10.0, GroupBy::All, &differences)),
            [None, None, Some(3), Some(0), None]
        );
        assert_eq!(
            reads(&rows(
                2,
                6.0,
                GroupBy::All,
                &[other(between(0.0, 6.0, 0, 0))]
            )),
            [Some(0); 3]
        );
    }

    #[test]
    fn an_end_that_came_late_makes_no_slot() {
        let readings = [between(0.0, 10.0, 1, 0), between(10.0, 20.1, 7, 0)];
        assert_eq!(
            reads(&rows(10, 20.1, GroupBy::All, &readings)),
            [Some(1), Some(7)]
        );
        let readings = [between(0.0, 10.0, 1, 0), between(10.0, 24.0, 7, 0)];
        assert_eq!(
            reads(&rows(10, 24.0, GroupBy::All, &readings)),
            [Some(1), Some(7), None]
        );
    }
}
