//! The recording at several resolutions at once, for charts: rates (A5), latency percentiles (A6), busy time (A2) and
//! concurrency (A3) per slot, distributions over the whole window, and the actors.
//!
//! [`OverviewPlan::whole`] divides the window into at most a few thousand slots. Coarser steps are merged exactly, from
//! counts, sums and histograms; means and percentiles are never merged.
//!
//! Memory: one row for each slot of each time range, and one histogram for each open slot.
//!
//! The bins of `stream/kept_slots.rs` are not used here, because charts need dense columns, including empty ones, and a
//! scope may hold several devices.

mod actors;
mod completions;
mod counters;
mod distributions;
mod losses;
mod plan;
mod time;

use serde::Serialize;

use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::order::{Clipped, End, Hold, Span, StartOrder, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId, Io, Lost};

pub use actors::{ActorFlow, ActorKey, ActorSummary};
pub use completions::{SlotCounts, SlotLatency, SlotQuantiles};
pub use counters::CounterOverview;
pub use distributions::{Distributions, SizeBucket, Stage};
pub use losses::LossInterval;
pub use plan::{OverviewPlan, PlannedStretch, Scope};
pub use time::SlotTime;

use actors::SlotActors;
use completions::Completions;
use distributions::ExactLatencies;
use losses::Losses;
use time::{Depth, StretchTime};

/// One time range of one scope at one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// Index of its scope in the plan.
    pub scope: usize,
    /// Start of the first slot, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Length of a slot.
    pub step_ns: i64,
    /// Completions in each slot.
    pub counts: Vec<SlotCounts>,
    /// How the time of each slot was spent; same length as `counts`. The last slot may extend beyond the window under
    /// study.
    pub time: Vec<SlotTime>,
    /// The data the level was computed from.
    pub detail: Detail,
}

/// The data that a [`Level`] was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Detail {
    /// Single I/Os: everything is known and exact.
    Events,
    /// Kernel counters of one device: counts, mean latencies, busy time of any I/O and mean in flight, the last two as
    /// the kernel estimates them. The other fields of [`SlotTime`] are not known.
    Counters,
    /// Kernel counters of several devices: the same without busy time, because these estimates cannot be added.
    SummedCounters,
}

/// The result of [`Overview`].
#[derive(Debug, Clone, PartialEq)]
pub struct OverviewData {
    /// The plan it followed.
    pub plan: OverviewPlan,
    /// All levels, range by range, each starting with the finest step.
    pub levels: Vec<Level>,
    /// Distributions by scope; only for a plan of the whole window.
    pub distributions: Vec<Distributions>,
    /// Actors (processes, control groups, files), those with most I/O time first; only for a plan of the whole window.
    pub actors: Vec<ActorSummary>,
    /// Intervals with missing I/Os; neighbours are merged.
    pub losses: Vec<LossInterval>,
    /// I/Os that took longer than the sweep could hold back.
    pub clipped: Clipped,
}

/// Accumulates [`OverviewData`] from I/Os in the order of completion.
#[derive(Debug)]
pub struct Overview {
    plan: OverviewPlan,
    index: DeviceIndex,
    order: StartOrder,
    sweeps: ScopeSweeps,
    completions: Vec<Completions>,
    distributions: Vec<Distributions>,
    exact: Vec<ExactLatencies>,
    actors: SlotActors,
    losses: Losses,
}

/// Sweeps the concurrency of each scope and passes it to the time ranges of that scope.
#[derive(Debug, Default)]
struct ScopeSweeps {
    /// Scopes of each device, by its index.
    scopes_of: Vec<Vec<usize>>,
    depths: Vec<Depth>,
    /// Time ranges of each scope.
    stretches: Vec<Vec<StretchTime>>,
}

impl ScopeSweeps {
    fn change(&mut self, at_ns: i64, key: u32, class: Class, by: i64) {
        for scope in &self.scopes_of[key as usize] {
            self.depths[*scope].change(at_ns, class, by, &mut self.stretches[*scope]);
        }
    }
}

impl Sweep for ScopeSweeps {
    fn start(&mut self, span: &Span) {
        self.change(span.start_ns, span.key, span.class, 1);
    }

    fn done(&mut self, end: &End) {
        self.change(end.at_ns, end.key, end.class, -1);
    }
}

impl Overview {
    /// For `plan`.
    pub fn new(plan: OverviewPlan) -> Overview {
        let scopes = plan.scopes.len();
        let mut sweeps = ScopeSweeps {
            depths: (0..scopes)
                .map(|_| Depth::new(plan.window, plan.distributions))
                .collect(),
            stretches: vec![Vec::new(); scopes],
            ..ScopeSweeps::default()
        };
        for s in &plan.stretches {
            sweeps.stretches[s.scope].push(StretchTime::new(s, plan.window));
        }
        Overview {
            completions: plan
                .stretches
                .iter()
                .map(|s| Completions::new(s, plan.window))
                .collect(),
            distributions: if plan.distributions {
                vec![Distributions::default(); scopes]
            } else {
                Vec::new()
            },
            exact: if plan.distributions {
                vec![ExactLatencies::default(); scopes]
            } else {
                Vec::new()
            },
            actors: SlotActors::default(),
            losses: Losses::new(plan.window),
            index: DeviceIndex::default(),
            order: StartOrder::new(Hold::RECORDING),
            sweeps,
            plan,
        }
    }

    /// Takes the next completed I/O. I/Os of devices outside all scopes are ignored.
    pub fn push(&mut self, io: &Io) {
        let number = self.index.number(io.dev);
        if number as usize == self.sweeps.scopes_of.len() {
            self.sweeps.scopes_of.push(self.plan.scopes_with(io.dev));
        }
        let scopes = &self.sweeps.scopes_of[number as usize];
        if scopes.is_empty()
            || io.start_ns() >= self.plan.window.to_ns
            || io.done_ns < self.plan.window.from_ns
        {
            return;
        }
        for (stretch, completions) in self.plan.stretches.iter().zip(&mut self.completions) {
            if scopes.contains(&stretch.scope) {
                completions.moves(io);
            }
        }
        if self.plan.window.contains(io.done_ns) {
            for (stretch, completions) in self.plan.stretches.iter().zip(&mut self.completions) {
                if stretch.window.contains(io.done_ns) && scopes.contains(&stretch.scope) {
                    completions.add(io);
                }
            }
            if self.plan.distributions {
                scopes
                    .iter()
                    .for_each(|s| self.distributions[*s].add(io, &mut self.exact[*s]));
                self.actors.add(io);
            }
        }
        self.order.push(Span::of(io, number), &mut self.sweeps);
    }

    /// Takes a loss.
    pub fn lost(&mut self, lost: &Lost) {
        self.losses.add(lost);
    }

    /// Returns the result.
    pub fn finish(mut self) -> OverviewData {
        let clipped = self.order.finish(&mut self.sweeps);
        let window = self.plan.window;
        let unrecorded_ns = self.losses.unrecorded_ns();
        let mut times: Vec<_> = Vec::with_capacity(self.plan.stretches.len());
        for (scope, mut stretches) in self.sweeps.stretches.into_iter().enumerate() {
            let levels = self.sweeps.depths[scope].finish(window, unrecorded_ns, &mut stretches);
            if let Some(d) = self.distributions.get_mut(scope) {
                d.concurrency = levels;
            }
            times.push(stretches.into_iter());
        }
        // All I/Os have arrived, so it is known which sets of exact latencies are complete.
        for (d, exact) in self.distributions.iter_mut().zip(&mut self.exact) {
            d.settle(exact);
        }
        let mut levels = Vec::new();
        for (stretch, completions) in self.plan.stretches.iter().zip(self.completions) {
            if let Some(time) = times[stretch.scope].next() {
                levels.extend(assemble(stretch, completions, &time));
            }
        }
        // A loss is marked by how much it can change the curve of its device, or of all devices if its device is not
        // known.
        let losses = self.losses.finish_beside(|dev| {
            let scope = self.plan.scope_for(dev);
            levels.iter().find(|level| level.scope == scope)
        });
        OverviewData {
            levels,
            distributions: self.distributions,
            actors: self.actors.finish(),
            losses,
            clipped,
            plan: self.plan,
        }
    }
}

/// The levels of one time range: its finest slots, and those merged from them.
fn assemble(stretch: &PlannedStretch, completions: Completions, time: &StretchTime) -> Vec<Level> {
    completions
        .finish()
        .into_iter()
        .zip(&stretch.merges)
        .map(|(rung, merge)| Level {
            scope: stretch.scope,
            from_ns: stretch.window.from_ns,
            step_ns: stretch.step_ns * *merge,
            time: time.merged(*merge as usize),
            counts: rung.counts,
            detail: Detail::Events,
        })
        .collect()
}

/// Scopes for a set of devices: one per device, and one of all bottom layers together if there are several devices.
///
/// `under` returns whether a device has devices below it (in a stack). Such a layer is left out of the sum, because an
/// I/O through a stack counts once per layer. At most `most` devices get their own scope, those with the most I/Os
/// first. `devices` are (device, number of I/Os).
pub fn scopes(devices: &[(DevId, u64)], under: impl Fn(DevId) -> bool, most: usize) -> Vec<Scope> {
    let mut active: Vec<_> = devices
        .iter()
        .filter(|(_, ios)| *ios > 0)
        .copied()
        .collect();
    active.sort_by_key(|(dev, ios)| (std::cmp::Reverse(*ios), *dev));
    let bottom: Vec<DevId> = active
        .iter()
        .map(|(dev, _)| *dev)
        .filter(|dev| !under(*dev))
        .collect();
    let mut out = Vec::new();
    if bottom.len() > 1 {
        out.push(Scope { devices: bottom });
    }
    out.extend(active.iter().take(most).map(|(dev, _)| Scope {
        devices: vec![*dev],
    }));
    out
}

#[cfg(test)]
mod tests;
