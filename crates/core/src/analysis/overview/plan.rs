//! The time ranges of an overview and their resolutions.

use super::Window;
use crate::analysis::stream::steps::{LONGEST_STEP_NS, readable_step, steps_in};
use crate::model::DevId;

/// Maximum number of finest slots over the whole window, for the first scope and for the others.
const MAX_SLOTS: i64 = 3600;
const MAX_SLOTS_OTHERS: i64 = 1200;

/// Minimum number of slots for a chart.
const MIN_SLOTS: i64 = 30;

/// Devices that are drawn together, in one chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The devices; never two layers of one stack.
    pub devices: Vec<DevId>,
}

/// A time range of one scope, and the steps of its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStretch {
    /// Index into the plan's scopes.
    pub scope: usize,
    /// From the start of the first slot to the end of the last.
    pub window: Window,
    /// The finest step.
    pub step_ns: i64,
    /// Number of finest slots per slot of each resolution: 1 first, each a multiple of the previous one.
    pub merges: Vec<i64>,
}

impl PlannedStretch {
    fn new(scope: usize, window: Window, step_ns: i64, rungs: &[i64]) -> PlannedStretch {
        let slots = window.len_ns().div_euclid(step_ns)
            + i64::from(window.len_ns().rem_euclid(step_ns) > 0);
        let mut merges = vec![1];
        merges.extend(rungs.iter().copied().filter(|m| slots / m >= MIN_SLOTS));
        let window = Window::new(window.from_ns, window.from_ns + slots * step_ns);
        PlannedStretch {
            scope,
            window,
            step_ns,
            merges,
        }
    }

    /// Number of finest slots.
    pub fn slots(&self) -> usize {
        (self.window.len_ns() / self.step_ns).max(0) as usize
    }
}

/// The plan of an [`super::Overview`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverviewPlan {
    /// The window under study; closed.
    pub window: Window,
    /// The sets of devices.
    pub scopes: Vec<Scope>,
    /// The stretches.
    pub stretches: Vec<PlannedStretch>,
    /// Whether to compute distributions over the window and actors.
    pub distributions: bool,
}

impl OverviewPlan {
    /// The whole of `window` for each scope, in up to 3600 slots (1200 for scopes other than the first), and the same
    /// merged by 5 and by 20.
    pub fn whole(window: Window, scopes: Vec<Scope>) -> OverviewPlan {
        let stretches = (0..scopes.len())
            .filter(|_| window.len_ns() > 0)
            .map(|scope| {
                let most = if scope == 0 {
                    MAX_SLOTS
                } else {
                    MAX_SLOTS_OTHERS
                };
                PlannedStretch::new(scope, window, step_for(window.len_ns(), most), &[5, 20])
            })
            .collect();
        OverviewPlan {
            window,
            scopes,
            stretches,
            distributions: true,
        }
    }

    /// Like [`OverviewPlan::whole`], for counters sampled every `period_ns`. A slot holds at least ten samples, so that
    /// a late sample shifts little between slots. There are no distributions.
    pub fn whole_of_counters(window: Window, scopes: Vec<Scope>, period_ns: i64) -> OverviewPlan {
        let mut plan = OverviewPlan::whole(window, scopes);
        let least = period_ns.saturating_mul(10);
        for s in plan.stretches.iter_mut().filter(|s| s.step_ns < least) {
            let step_ns = readable_step(window.len_ns(), least, i64::MAX).unwrap_or(least);
            *s = PlannedStretch::new(s.scope, window, step_ns, &[5, 20]);
        }
        plan.distributions = false;
        plan
    }

    /// Like [`OverviewPlan::whole`], for tables whose finest rows cover `row_ns`. No slot is finer than a row; each row
    /// has its own slot if there are enough slots. There are no distributions.
    pub fn whole_of_tables(window: Window, scopes: Vec<Scope>, row_ns: i64) -> OverviewPlan {
        let mut plan = OverviewPlan::whole(window, scopes);
        for s in &mut plan.stretches {
            let rows = (s.step_ns + row_ns - 1) / row_ns.max(1);
            *s = PlannedStretch::new(
                s.scope,
                window,
                row_ns.max(1).saturating_mul(rows),
                &[5, 20],
            );
        }
        plan.distributions = false;
        plan
    }

    /// Scopes that contain `dev`.
    pub(super) fn scopes_with(&self, dev: DevId) -> Vec<usize> {
        (0..self.scopes.len())
            .filter(|i| self.scopes[*i].devices.contains(&dev))
            .collect()
    }

    /// The scope that shows `dev` best: its own, or else the first.
    pub(super) fn scope_for(&self, dev: Option<DevId>) -> usize {
        dev.and_then(|dev| self.scopes.iter().position(|s| s.devices == [dev]))
            .unwrap_or(0)
    }
}

/// The finest readable step that divides `len_ns` into at most `most` slots.
fn step_for(len_ns: i64, most: i64) -> i64 {
    if let Some(step_ns) = readable_step(len_ns, 0, most) {
        return step_ns;
    }
    // Beyond the longest readable step, use whole days.
    let least = steps_in(len_ns, most);
    least.div_euclid(LONGEST_STEP_NS).saturating_add(1) * LONGEST_STEP_NS
}
