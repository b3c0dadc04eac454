//! Which stretches are looked at, how finely.

use super::{Detail, OverviewData, Window};
use crate::analysis::stream::steps::READABLE_STEPS_NS;
use crate::model::{DevId, MS_NS, SECOND_NS};

/// Slots of the whole window in its finest step, for the first scope and for the others.
const MAX_SLOTS: i64 = 3600;
const MAX_SLOTS_OTHERS: i64 = 1200;

/// A heat map has at most so many columns.
const MAX_COLUMNS: i64 = 900;

/// Fewer slots than this are no picture.
const MIN_SLOTS: i64 = 30;

/// Devices that are drawn together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Which; never two layers of one stack.
    pub devices: Vec<DevId>,
}

/// A stretch of time of one scope, and the steps in which it is cut into slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Index into the plan's scopes.
    pub scope: usize,
    /// From the first slot's beginning to the last slot's end.
    pub window: Window,
    /// The finest step.
    pub step_ns: i64,
    /// Finest slots in a slot of each rung: 1 first, each a multiple of the one before.
    pub merges: Vec<i64>,
    /// The rung that has a heat map.
    pub heat: usize,
}

impl Stretch {
    fn new(scope: usize, window: Window, step_ns: i64, rungs: &[i64]) -> Stretch {
        let slots = window.len_ns().div_euclid(step_ns)
            + i64::from(window.len_ns().rem_euclid(step_ns) > 0);
        let mut merges = vec![1];
        merges.extend(rungs.iter().copied().filter(|m| slots / m >= MIN_SLOTS));
        let heat = merges
            .iter()
            .position(|m| slots / m <= MAX_COLUMNS)
            .unwrap_or(merges.len() - 1);
        let window = Window::new(window.from_ns, window.from_ns + slots * step_ns);
        Stretch {
            scope,
            window,
            step_ns,
            merges,
            heat,
        }
    }

    /// Slots in the finest step.
    pub fn slots(&self) -> usize {
        (self.window.len_ns() / self.step_ns).max(0) as usize
    }
}

/// Something worth a closer look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub window: Window,
    /// On which device; `None`: on all.
    pub dev: Option<DevId>,
}

/// What an [`super::Overview`] is to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverviewPlan {
    /// The window under study; closed.
    pub window: Window,
    /// The sets of devices.
    pub scopes: Vec<Scope>,
    /// The stretches.
    pub stretches: Vec<Stretch>,
    /// Whether distributions over the window, and who did it, are wanted.
    pub distributions: bool,
}

impl OverviewPlan {
    /// The whole of `window` for each scope, in up to 3600 slots (others than the first scope: 1200), and the same
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
                Stretch::new(scope, window, step_for(window.len_ns(), most), &[5, 20])
            })
            .collect();
        OverviewPlan {
            window,
            scopes,
            stretches,
            distributions: true,
        }
    }

    /// As [`OverviewPlan::whole`], but for counters sampled every `period_ns`: slots hold at least ten samples, so that one
    /// taken a little late shifts little, and there are no distributions.
    pub fn whole_of_counters(window: Window, scopes: Vec<Scope>, period_ns: i64) -> OverviewPlan {
        let mut plan = OverviewPlan::whole(window, scopes);
        let least = period_ns.saturating_mul(10);
        for s in plan.stretches.iter_mut().filter(|s| s.step_ns < least) {
            let step_ns = READABLE_STEPS_NS
                .into_iter()
                .find(|step| *step >= least)
                .unwrap_or(least);
            *s = Stretch::new(s.scope, window, step_ns, &[5, 20]);
        }
        plan.distributions = false;
        plan
    }

    /// As [`OverviewPlan::whole`], but for tables whose finest rows cover `row_ns`: nothing is finer than they are, each row
    /// has a slot of its own where there is room, and there are no distributions.
    pub fn whole_of_tables(window: Window, scopes: Vec<Scope>, row_ns: i64) -> OverviewPlan {
        let mut plan = OverviewPlan::whole(window, scopes);
        for s in &mut plan.stretches {
            let rows = (s.step_ns + row_ns - 1) / row_ns.max(1);
            *s = Stretch::new(
                s.scope,
                window,
                row_ns.max(1).saturating_mul(rows),
                &[5, 20],
            );
        }
        plan.distributions = false;
        plan
    }

    /// Closer looks at `moments`, the most important first: 1 ms slots from half a second before to half a second after
    /// (at most 3 s in all: of longer ones the beginning), and 20 ms slots for a minute around. Moments that the whole
    /// overview already shows as finely are passed over. At most `most` moments are looked at.
    pub fn details(base: &OverviewData, moments: &[Moment], most: usize) -> OverviewPlan {
        let plan = &base.plan;
        // Counters have no finer truth than their samples.
        let moments = if base.levels.iter().all(|l| l.detail == Detail::Events) {
            moments
        } else {
            &[]
        };
        let mut fine: Vec<Stretch> = Vec::new();
        let mut wide: Vec<Stretch> = Vec::new();
        let mut taken = 0;
        for m in moments {
            let scope = plan.scope_for(m.dev);
            let Some(whole) = plan.stretches.iter().find(|s| s.scope == scope) else {
                continue;
            };
            let near = clip(around(m.window, SECOND_NS / 2, 3 * SECOND_NS), plan.window);
            let far = clip(
                around(m.window, 30 * SECOND_NS, 60 * SECOND_NS),
                plan.window,
            );
            let known = fine
                .iter()
                .any(|s| s.scope == scope && covers(s.window, m.window));
            if near.len_ns() == 0 || whole.step_ns <= MS_NS || known || taken == most {
                continue;
            }
            taken += 1;
            fine.push(Stretch::new(scope, near, MS_NS, &[5]));
            let seen = wide.iter().any(|s| {
                s.scope == scope
                    && covers(
                        s.window,
                        clip(around(m.window, 5 * SECOND_NS, 10 * SECOND_NS), plan.window),
                    )
            });
            if whole.step_ns >= 100 * MS_NS && !seen {
                wide.push(Stretch::new(scope, far, 20 * MS_NS, &[5]));
            }
        }
        fine.extend(wide);
        OverviewPlan {
            window: plan.window,
            scopes: plan.scopes.clone(),
            stretches: fine,
            distributions: false,
        }
    }

    /// The times of completion that have to be read for this plan, in order and apart from each other: its stretches,
    /// and after each as long as the longest I/O took (`longest_ns`), because an I/O that completes there may have been
    /// in flight inside.
    pub fn reads(&self, longest_ns: i64) -> Vec<Window> {
        let mut wanted: Vec<Window> = self
            .stretches
            .iter()
            .map(|s| {
                Window::new(
                    s.window.from_ns,
                    s.window.to_ns.saturating_add(longest_ns).saturating_add(1),
                )
            })
            .collect();
        wanted.sort_by_key(|w| w.from_ns);
        let mut out: Vec<Window> = Vec::new();
        for w in wanted {
            match out.last_mut() {
                Some(last) if w.from_ns <= last.to_ns => last.to_ns = last.to_ns.max(w.to_ns),
                _ => out.push(w),
            }
        }
        out
    }

    /// Scopes that hold `dev`.
    pub(super) fn scopes_with(&self, dev: DevId) -> Vec<usize> {
        (0..self.scopes.len())
            .filter(|i| self.scopes[*i].devices.contains(&dev))
            .collect()
    }

    /// The scope in which something on `dev` is seen best: its own, else the first.
    pub(super) fn scope_for(&self, dev: Option<DevId>) -> usize {
        dev.and_then(|dev| self.scopes.iter().position(|s| s.devices == [dev]))
            .unwrap_or(0)
    }
}

/// The finest readable step that cuts `len_ns` into at most `most` slots.
fn step_for(len_ns: i64, most: i64) -> i64 {
    let least = len_ns.div_euclid(most) + i64::from(len_ns.rem_euclid(most) > 0);
    let longest = READABLE_STEPS_NS[READABLE_STEPS_NS.len() - 1];
    READABLE_STEPS_NS
        .into_iter()
        .find(|s| *s >= least)
        .unwrap_or_else(|| least.div_euclid(longest).saturating_add(1) * longest)
}

/// `window` with `margin_ns` on both sides, cut at `most_ns` after its beginning, on whole milliseconds.
fn around(window: Window, margin_ns: i64, most_ns: i64) -> Window {
    let from = (window.from_ns - margin_ns).div_euclid(MS_NS) * MS_NS;
    let to = window
        .to_ns
        .saturating_add(margin_ns)
        .min(from.saturating_add(most_ns));
    Window::new(from, to.saturating_add(MS_NS - 1).div_euclid(MS_NS) * MS_NS)
}

fn clip(window: Window, to: Window) -> Window {
    Window::new(window.from_ns.max(to.from_ns), window.to_ns.min(to.to_ns))
}

fn covers(outer: Window, inner: Window) -> bool {
    outer.from_ns <= inner.from_ns && inner.to_ns <= outer.to_ns
}
