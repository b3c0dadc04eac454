//! Divides the time of each slot by the number of I/Os in flight.

use serde::Serialize;

use super::{PlannedStretch, Window};
use crate::analysis::device::level::LevelTime;
use crate::model::Class;

/// All classes, reads, writes: the order of [`SlotTime::busy_ns`] and of concurrency distributions.
const KINDS: usize = 3;

/// How the time of one slot was spent (A2, A3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SlotTime {
    /// Nanoseconds with at least one I/O in flight: of any class, a read, a write.
    pub busy_ns: [i64; KINDS],
    /// `∫N dt`, that is I/Os in flight times nanoseconds. Divided by the slot's length it is the mean number in flight.
    pub area_ns: i64,
    /// Largest number in flight at once.
    pub max: u32,
}

impl SlotTime {
    fn add(&mut self, other: &SlotTime) {
        for (a, b) in self.busy_ns.iter_mut().zip(other.busy_ns) {
            *a += b;
        }
        self.area_ns = self.area_ns.saturating_add(other.area_ns);
        self.max = self.max.max(other.max);
    }
}

/// The slots of a time range, filled in time order.
#[derive(Debug, Clone)]
pub(super) struct StretchTime {
    window: Window,
    step_ns: i64,
    slots: Vec<SlotTime>,
}

impl StretchTime {
    /// Time outside of `study` is not counted, because the last slot may be only partly inside.
    pub(super) fn new(stretch: &PlannedStretch, study: Window) -> StretchTime {
        StretchTime {
            window: Window::new(
                stretch.window.from_ns,
                stretch.window.to_ns.min(study.to_ns),
            ),
            step_ns: stretch.step_ns,
            slots: vec![SlotTime::default(); stretch.slots()],
        }
    }

    /// Adds the time from `from_ns` to `to_ns`, during which `levels` I/Os were in flight.
    fn pass(&mut self, from_ns: i64, to_ns: i64, levels: [i64; KINDS]) {
        let to_ns = to_ns.min(self.window.to_ns);
        let mut at = from_ns.max(self.window.from_ns);
        while at < to_ns {
            let slot = (at - self.window.from_ns) / self.step_ns;
            let end = (self.window.from_ns + (slot + 1) * self.step_ns).min(to_ns);
            let s = &mut self.slots[slot as usize];
            for (busy, level) in s.busy_ns.iter_mut().zip(levels) {
                *busy += if level > 0 { end - at } else { 0 };
            }
            s.area_ns = s
                .area_ns
                .saturating_add((end - at).saturating_mul(levels[0]));
            s.max = s.max.max(u32::try_from(levels[0]).unwrap_or(u32::MAX));
            at = end;
        }
    }

    /// Merges every `merge` slots to one; the last may hold fewer.
    pub(super) fn merged(&self, merge: usize) -> Vec<SlotTime> {
        self.slots
            .chunks(merge.max(1))
            .map(|chunk| {
                let mut sum = SlotTime::default();
                chunk.iter().for_each(|s| sum.add(s));
                sum
            })
            .collect()
    }
}

/// Numbers of I/Os in flight in one scope: any, reads, writes.
#[derive(Debug)]
pub(super) struct Depth {
    since_ns: i64,
    levels: [i64; KINDS],
    /// Time at each level over the window, if distributions are requested.
    spent: Option<[LevelTime; KINDS]>,
}

impl Depth {
    pub(super) fn new(window: Window, distributions: bool) -> Depth {
        Depth {
            since_ns: i64::MIN,
            levels: [0; KINDS],
            spent: distributions.then(|| std::array::from_fn(|_| LevelTime::new(window))),
        }
    }

    /// Changes the number of I/Os of `class` in flight by `by` (1 or -1) at `at_ns`.
    pub(super) fn change(
        &mut self,
        at_ns: i64,
        class: Class,
        by: i64,
        stretches: &mut [StretchTime],
    ) {
        self.pass(at_ns, stretches);
        let kind = match class {
            Class::Read => Some(1),
            Class::Write => Some(2),
            Class::Discard | Class::Flush => None,
        };
        for k in [Some(0), kind].into_iter().flatten() {
            self.levels[k] += by;
            if let Some(spent) = &mut self.spent {
                spent[k].change(at_ns, by);
            }
        }
    }

    fn pass(&mut self, to_ns: i64, stretches: &mut [StretchTime]) {
        if to_ns <= self.since_ns {
            return;
        }
        if self.levels[0] > 0 {
            stretches
                .iter_mut()
                .for_each(|s| s.pass(self.since_ns, to_ns, self.levels));
        }
        self.since_ns = to_ns;
    }

    /// Finishes the sweep. Returns the nanoseconds at each level, indexed from 0, without the `unrecorded_ns` of the
    /// window.
    pub(super) fn finish(
        &mut self,
        window: Window,
        unrecorded_ns: i64,
        stretches: &mut [StretchTime],
    ) -> [Vec<i64>; KINDS] {
        self.pass(window.to_ns, stretches);
        match &mut self.spent {
            None => Default::default(),
            Some(spent) => std::array::from_fn(|k| {
                spent[k].finish(window, unrecorded_ns);
                spent[k].ns_at().to_vec()
            }),
        }
    }
}
