//! The intervals in which I/Os are missing, for the overview.

use serde::Serialize;

use super::{Level, Window};
use crate::analysis::math::intervals::{total_ns, union};
use crate::model::{DevId, LossReason, Lost};

/// Maximum number of intervals. Beyond it neighbours are merged, because a chart cannot show them separately.
const MAX_INTERVALS: usize = 2000;

/// An interval in which I/Os are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LossInterval {
    /// Start, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// The device; `None` if it is not known, or if there are several.
    pub dev: Option<DevId>,
    /// Reason of the loss.
    pub reason: LossReason,
    /// Number of missing I/Os; `None` if not known.
    pub ios: Option<i64>,
    /// Whether the missing I/Os can change a slot of the overview by more than 1 %. Charts hatch such intervals.
    pub marks: bool,
}

/// Intervals in the order in which they were reported, neighbours merged.
#[derive(Debug)]
pub(super) struct Losses {
    window: Window,
    list: Vec<LossInterval>,
    /// Intervals of the same reason and device that are closer than this are merged.
    gap_ns: i64,
}

impl Losses {
    pub(super) fn new(window: Window) -> Losses {
        Losses {
            window,
            list: Vec::new(),
            gap_ns: 1_000_000,
        }
    }

    pub(super) fn add(&mut self, lost: &Lost) {
        // Missing file-level requests leave no gap here, because their block I/Os are recorded.
        let elsewhere = lost.reason.is_of_requests();
        if elsewhere || lost.to_ns < self.window.from_ns || lost.from_ns >= self.window.to_ns {
            return;
        }
        let from_ns = lost.from_ns.max(self.window.from_ns);
        let to_ns = lost.to_ns.min(self.window.to_ns);
        self.put(LossInterval {
            from_ns,
            to_ns,
            dev: lost.dev,
            reason: lost.reason,
            ios: lost.ios,
            marks: true,
        });
        while self.list.len() > MAX_INTERVALS {
            self.gap_ns = self.gap_ns.saturating_mul(4);
            for l in std::mem::take(&mut self.list) {
                self.put(l);
            }
        }
    }

    /// Merges `l` into a neighbour, or adds it. Once the merge distance is as long as the window, devices are merged
    /// too. Then one interval per reason is left, so merging always gets the list below its limit.
    fn put(&mut self, l: LossInterval) {
        let gap_ns = self.gap_ns;
        let any_device = gap_ns >= self.window.len_ns();
        // Search from the end: the latest intervals are the most likely neighbours.
        let neighbour = self.list.iter_mut().rev().find(|o| {
            let is_near = l.from_ns <= o.to_ns.saturating_add(gap_ns) && o.from_ns <= l.to_ns;
            o.reason == l.reason && (any_device || (o.dev == l.dev && is_near))
        });
        match neighbour {
            Some(o) => {
                o.from_ns = o.from_ns.min(l.from_ns);
                o.to_ns = o.to_ns.max(l.to_ns);
                o.ios = o.ios.zip(l.ios).map(|(a, b)| a + b);
                o.dev = o.dev.filter(|dev| l.dev == Some(*dev));
            }
            None => self.list.push(l),
        }
    }

    /// Nanoseconds of the window during which nothing was recorded.
    pub(super) fn unrecorded_ns(&self) -> i64 {
        let mut intervals = Vec::new();
        for l in &self.list {
            let lost = Lost {
                dev: l.dev,
                ..Lost::somewhere(l.from_ns, l.to_ns, l.reason)
            };
            if lost.is_unrecorded_time() {
                intervals.push((l.from_ns, l.to_ns));
            }
        }
        total_ns(&union(intervals))
    }

    /// Like [`Losses::finish`]; `level_of` returns the level in which a loss is judged by how much it can change.
    pub(super) fn finish_beside<'a>(
        self,
        level_of: impl Fn(Option<DevId>) -> Option<&'a Level>,
    ) -> Vec<LossInterval> {
        let mut list = self.finish();
        for l in &mut list {
            if let Some(level) = level_of(l.dev) {
                l.marks = can_change(l, level);
            }
        }
        list
    }

    pub(super) fn finish(mut self) -> Vec<LossInterval> {
        self.list.sort_by_key(|l| (l.from_ns, l.to_ns));
        self.list
    }
}

fn can_change(l: &LossInterval, level: &Level) -> bool {
    let lost = Lost {
        ios: l.ios,
        ..Lost::somewhere(l.from_ns, l.to_ns, l.reason)
    };
    let [first, end] = [l.from_ns, l.to_ns]
        .map(|at_ns| ((at_ns - level.from_ns).max(0) / level.step_ns.max(1)) as usize);
    let last = end.min(level.counts.len().saturating_sub(1));
    (first..=last).any(|slot| {
        let from_ns = level.from_ns + slot as i64 * level.step_ns;
        let seen = level.counts.get(slot).map_or(0, |c| c.ios.iter().sum());
        Lost::marks(lost.expected_in(from_ns, from_ns + level.step_ns), seen)
    })
}
