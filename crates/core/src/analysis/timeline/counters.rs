//! Rows from counters alone: rates and mean latencies, no single I/O.

use std::collections::BTreeMap;

use super::{Extended, Flow, GroupBy, GroupKey, MAX_ROWS, PlanError, Row, TimelinePlan};
use crate::model::DevId;

/// The difference between two samples of one device's counters. `None` where the kernel does not say or where the
/// counter cannot be trusted (it went backwards).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterRates {
    /// The device.
    pub dev: DevId,
    /// Time of the earlier sample, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Time of the later sample; everything counted between them is booked here.
    pub to_ns: i64,
    /// By class, indexed by `Class as usize`; latency sums have the kernel's resolution of 1 ms.
    pub flows: [Option<Flow>; 4],
    /// The kernel's busy time (`io_ticks`), in nanoseconds.
    pub busy_ns: Option<i64>,
    /// In flight summed over time (`time_in_queue`), in nanoseconds.
    pub area_ns: Option<i64>,
}

/// Makes rows from counter differences, as [`super::Timeline`] does from I/Os. Percentiles, maxima and the most in
/// flight are `None`; busy time and mean in flight are the kernel's own estimates.
///
/// A difference belongs to the slot of its later sample, as completions do: steps below the sampling period leave empty
/// slots between full ones.
#[derive(Debug)]
pub struct CounterTimeline {
    plan: TimelinePlan,
    slots: BTreeMap<i64, BTreeMap<GroupKey, Sums>>,
    latest_ns: Option<i64>,
    made: u64,
}

#[derive(Debug, Default, Clone)]
struct Sums {
    flows: [Flow; 4],
    busy_ns: i64,
    area_ns: i64,
    unknown: bool,
    covered_ns: i64,
}

impl CounterTimeline {
    /// Rows by `plan`; only all devices together or each by itself are possible.
    ///
    /// # Errors
    /// [`PlanError`] if the plan makes no sense or asks for too many rows.
    pub fn new(plan: TimelinePlan) -> Result<CounterTimeline, PlanError> {
        plan.check()?;
        Ok(CounterTimeline { plan, slots: BTreeMap::new(), latest_ns: None, made: 0 })
    }

    /// Takes the next difference, in the order of `to_ns`.
    pub fn push(&mut self, d: &CounterRates) {
        // The later sample ends its slot: one taken exactly on a boundary belongs to the slot before it.
        let at_ns = d.to_ns.saturating_sub(1);
        if !self.plan.window.contains(at_ns) {
            return;
        }
        self.latest_ns = self.latest_ns.max(Some(at_ns));
        let key = if self.plan.by == GroupBy::All { GroupKey::All } else { GroupKey::Device(d.dev) };
        let sums = self.slots.entry(self.plan.slot_of(at_ns)).or_default().entry(key).or_default();
        for (sum, flow) in sums.flows.iter_mut().zip(&d.flows) {
            flow.iter().for_each(|f| sum.add(f));
        }
        sums.unknown |= d.flows[..2].iter().any(Option::is_none);
        sums.busy_ns += d.busy_ns.unwrap_or(0);
        sums.area_ns += d.area_ns.unwrap_or(0);
        sums.covered_ns += if d.busy_ns.is_some() { d.to_ns - d.from_ns } else { 0 };
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
        for slot in 0..=self.plan.slot_of(window.to_ns - 1) {
            let mut groups = self.slots.remove(&slot).unwrap_or_default();
            for key in &always {
                groups.entry(*key).or_default();
            }
            self.made += groups.len() as u64;
            if self.made > MAX_ROWS {
                return Err(PlanError::TooManyRows);
            }
            let (from_ns, to_ns) = (self.plan.slot_end(slot - 1), self.plan.slot_end(slot).min(window.to_ns));
            rows.extend(groups.into_iter().map(|(key, sums)| self.row(from_ns, to_ns, key, &sums)));
        }
        Ok(rows)
    }

    fn row(&self, from_ns: i64, to_ns: i64, key: GroupKey, sums: &Sums) -> Row {
        // Percent of the time that samples cover, which need not be the slot's own.
        let share = |ns: i64| (sums.covered_ns > 0).then(|| ns as f64 / sums.covered_ns as f64);
        // Over several devices the kernel's busy times cannot be joined: they may overlap.
        let one_device = matches!(key, GroupKey::Device(_));
        Row {
            from_ns,
            to_ns,
            key,
            flows: sums.flows,
            averages: None,
            lossy: sums.unknown,
            extended: self.plan.extended.then(|| Extended {
                inflight_mean: one_device.then(|| share(sums.area_ns)).flatten(),
                busy_percent: one_device.then(|| share(sums.busy_ns)).flatten().map(|u| 100.0 * u),
                ..Extended::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::window::Window;

    const MS: i64 = 1_000_000;

    fn delta(to_ms: i64, ios: u64, busy_ms: i64) -> CounterRates {
        let flow = Some(Flow { ios, bytes: 4096 * ios, total_ns: 2 * MS * ios as i64 });
        CounterRates {
            dev: DevId(1),
            from_ns: (to_ms - 10) * MS,
            to_ns: to_ms * MS,
            flows: [flow, Some(Flow::default()), None, None],
            busy_ns: Some(busy_ms * MS),
            area_ns: Some(busy_ms * MS),
        }
    }

    #[test]
    fn differences_are_booked_where_they_end() {
        let plan = TimelinePlan {
            by: GroupBy::Device,
            always: vec![GroupKey::Device(DevId(1))],
            extended: true,
            ..TimelinePlan::new(Window::OPEN, 20 * MS)
        };
        let mut t = CounterTimeline::new(plan).expect("a good plan");
        [delta(10, 5, 10), delta(20, 5, 0), delta(70, 1, 2)].iter().for_each(|d| t.push(d));
        let rows = t.finish(80 * MS).expect("few rows");
        assert_eq!(rows.iter().map(|r| r.flows[0].ios).collect::<Vec<_>>(), [10, 0, 0, 1]);
        let x = rows[0].extended.expect("planned");
        assert_eq!((x.busy_percent, x.inflight_mean, x.r_p99_us, x.inflight_max), (Some(50.0), Some(0.5), None, None));
        assert_eq!(rows[1].extended.expect("planned").busy_percent, None, "no sample, no answer");
        assert_eq!(rows[0].flows[0].mean_us(), Some(2000.0));
    }
}
