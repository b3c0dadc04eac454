//! The overview of a recording that has only counters.

use super::losses::Losses;
use super::{
    Detail, Level, OverviewData, OverviewPlan, PlannedStretch, SlotCounts, SlotLatency, SlotTime,
};
use crate::analysis::stream::order::Clipped;
use crate::analysis::timeline::CounterRates;
use crate::model::{Lost, SECTOR_BYTES};

/// Sums of one slot; latencies are summed until the end.
#[derive(Debug, Clone, Default)]
struct CounterSums {
    counts: SlotCounts,
    total_ns: [i64; 2],
    time: SlotTime,
}

/// Accumulates [`OverviewData`] from differences of kernel counters: counts, bytes, mean latencies (A1), and the
/// kernel's estimates of busy time and concurrency. A difference belongs to the slot of its later sample.
#[derive(Debug)]
pub struct CounterOverview {
    plan: OverviewPlan,
    slots: Vec<Vec<CounterSums>>,
    losses: Losses,
    /// Whether the source has busy time or concurrency; imported tables may not.
    timed: bool,
}

impl CounterOverview {
    /// For a plan made by [`OverviewPlan::whole_of_counters`].
    pub fn new(plan: OverviewPlan) -> CounterOverview {
        let slots = plan
            .stretches
            .iter()
            .map(|s| vec![CounterSums::default(); s.slots()])
            .collect();
        CounterOverview {
            losses: Losses::new(plan.window),
            slots,
            plan,
            timed: false,
        }
    }

    /// Takes the next difference.
    pub fn push(&mut self, d: &CounterRates) {
        // A sample taken exactly on a boundary belongs to the slot before it.
        let at_ns = d.to_ns - 1;
        if !self.plan.window.contains(at_ns) {
            return;
        }
        self.timed |= d.busy_ns.is_some() || d.area_ns.is_some();
        let scopes = self.plan.scopes_with(d.dev);
        for (stretch, slots) in self.plan.stretches.iter().zip(&mut self.slots) {
            if scopes.contains(&stretch.scope) {
                let slot = (at_ns - stretch.window.from_ns) / stretch.step_ns;
                slots[slot as usize].add(d);
            }
        }
    }

    /// Takes a loss.
    pub fn lost(&mut self, lost: &Lost) {
        self.losses.add(lost);
    }

    /// Returns the result.
    pub fn finish(self) -> OverviewData {
        let mut levels = Vec::new();
        for (stretch, slots) in self.plan.stretches.iter().zip(&self.slots) {
            let alone = self.plan.scopes[stretch.scope].devices.len() == 1;
            let detail = if alone && self.timed {
                Detail::Counters
            } else {
                Detail::SummedCounters
            };
            levels.extend(
                stretch
                    .merges
                    .iter()
                    .map(|merge| level(stretch, slots, *merge as usize, detail)),
            );
        }
        OverviewData {
            levels,
            distributions: Vec::new(),
            actors: Vec::new(),
            losses: self.losses.finish(),
            clipped: Clipped::default(),
            plan: self.plan,
        }
    }
}

impl CounterSums {
    fn add(&mut self, d: &CounterRates) {
        for (k, flow) in d.flows.iter().enumerate() {
            let Some(flow) = flow else { continue };
            self.counts.ios[k] += flow.ios;
            self.counts.sectors[k] += flow.bytes / SECTOR_BYTES as u64;
            if let Some(sum) = self.total_ns.get_mut(k) {
                *sum = sum.saturating_add(flow.total_ns);
            }
        }
        self.time.busy_ns[0] += d.busy_ns.unwrap_or(0);
        self.time.area_ns += d.area_ns.unwrap_or(0);
    }

    fn merge(&mut self, other: &CounterSums) {
        for k in 0..4 {
            self.counts.ios[k] += other.counts.ios[k];
            self.counts.sectors[k] += other.counts.sectors[k];
        }
        for (a, b) in self.total_ns.iter_mut().zip(other.total_ns) {
            *a = a.saturating_add(b);
        }
        self.time.busy_ns[0] += other.time.busy_ns[0];
        self.time.area_ns += other.time.area_ns;
    }

    fn finish(mut self) -> (SlotCounts, SlotTime) {
        for (class, sum) in self.total_ns.into_iter().enumerate() {
            let n = self.counts.ios[class];
            // A sum of 0 is below the resolution of counters, or not known.
            self.counts.latency[class] = (n > 0 && sum > 0).then(|| SlotLatency {
                mean_ns: (sum as f64 / n as f64).round() as i64,
                quantiles: None,
            });
        }
        (self.counts, self.time)
    }
}

fn level(stretch: &PlannedStretch, slots: &[CounterSums], merge: usize, detail: Detail) -> Level {
    let merged = slots.chunks(merge).map(|chunk| {
        let mut sum = CounterSums::default();
        chunk.iter().for_each(|s| sum.merge(s));
        sum.finish()
    });
    let (counts, time) = merged.unzip();
    let step_ns = stretch.step_ns * merge as i64;
    Level {
        scope: stretch.scope,
        from_ns: stretch.window.from_ns,
        step_ns,
        counts,
        time,
        detail,
    }
}
