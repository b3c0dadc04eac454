//! The intervals of the overview in which I/Os are missing.

use serde::Serialize;

use super::{Level, Window};
use crate::analysis::math::intervals::{total_ns, union};
use crate::model::{DevId, LossReason, Lost};

/// More intervals than this are merged with their neighbours: a chart cannot show them separately.
const MAX_INTERVALS: usize = 2000;

/// A stretch of time in which I/Os are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LossInterval {
    /// From here, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// To here.
    pub to_ns: i64,
    /// On this device; `None`: not known, or on several.
    pub dev: Option<DevId>,
    /// Why.
    pub reason: LossReason,
    /// How many; `None`: not known.
    pub ios: Option<i64>,
    /// They can change a slot that the overview shows by more than 1 %: then the interval is hatched.
    pub marks: bool,
}

/// Intervals in the order in which they were reported, neighbours merged.
#[derive(Debug)]
pub(super) struct Losses {
    window: Window,
    list: Vec<LossInterval>,
    /// Intervals of the same reason and device closer than this become one.
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
        // Missing requests leave no gap in what is drawn here: their block I/Os are there.
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

    /// Adds `l` to a neighbour, or as one of its own. Once neighbours may be as far apart as the window is long, devices
    /// are merged too: then one interval for each reason is left, so that merging always gets the list below its limit.
    fn put(&mut self, l: LossInterval) {
        let gap_ns = self.gap_ns;
        let any_device = gap_ns >= self.window.len_ns();
        // The latest come last: with those a new one most likely belongs.
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

    /// Nanoseconds of the window in which nothing was recorded.
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

    /// As [`Losses::finish`], with what each can change in `level_of` its device.
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
