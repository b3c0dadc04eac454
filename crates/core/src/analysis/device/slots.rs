//! Concurrency in slots of a few milliseconds (A3, A4), by each of the four definitions that tools use.
//!
//! For a slot of width w: *touched* is the number of requests whose `[start, done)` intersects it (requests of zero
//! length inside it count, too), *sampled* the number in flight at its start, *mean* the time-weighted mean, and
//! *max* the most in flight at once. They are reported side by side and never mixed. For a Poisson stream of rate λ
//! and load ρ in an infinite server, sampled is Poisson(ρ) and touched is Poisson(ρ + λw).
//!
//! Slots are not stored: a finished slot is added to the tallies of its group. At 2 ms a day has 43 million slots. A
//! slot that lies entirely in time without a recorder is left out, since it is not known to be idle.

use std::sync::Arc;

use serde::Serialize;

use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{Class, bucket_at, rank};

/// Default width of a slot: 2 ms.
pub const SLOT_NS: i64 = 2_000_000;

/// Default length of a group of slots: 20 minutes.
pub const GROUP_NS: i64 = 20 * 60 * 1_000_000_000;

/// Maximum number of groups: a day of them.
const MAX_GROUPS: i64 = 72;

/// Length of a group over `window`, in nanoseconds: [`GROUP_NS`], or a multiple of it in recordings of more than a
/// day, so that the number of groups stays that of a day. An open window has groups of [`GROUP_NS`].
pub fn group_ns(window: Window) -> i64 {
    if window.to_ns == i64::MAX {
        GROUP_NS
    } else {
        GROUP_NS * ((window.len_ns() - 1).max(0) / GROUP_NS / MAX_GROUPS + 1)
    }
}

/// Median, 75th percentile (nearest rank), mean and maximum over the slots of a group.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlotQuantiles {
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
}

/// One group of slots, by the four definitions of the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SlotGroup {
    /// Beginning of the group, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// Recorded slots in it: n of every quantile.
    pub slots: u64,
    /// Requests that touch a slot.
    pub touched: SlotQuantiles,
    /// I/Os in flight at the start of a slot.
    pub sampled: SlotQuantiles,
    /// Time-weighted mean in a slot (quantiles in steps of 1/128).
    pub mean: SlotQuantiles,
    /// Most at once in a slot.
    pub max: SlotQuantiles,
    /// Percent of slots that a request touches (A4, slot semantics).
    pub touched_percent: f64,
}

/// Counts of small numbers.
#[derive(Debug, Clone, Default)]
struct SlotTally {
    counts: Vec<u64>,
    n: u64,
    sum: u128,
}

impl SlotTally {
    fn add(&mut self, value: u64, times: u64) {
        let at = value as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += times;
        self.n += times;
        self.sum += u128::from(value) * u128::from(times);
    }

    fn quantile(&self, q: f64) -> usize {
        bucket_at(self.counts.iter().copied(), rank(q, self.n)).unwrap_or(0)
    }

    fn quantiles(&self, unit: f64) -> SlotQuantiles {
        SlotQuantiles {
            p50: self.quantile(0.5) as f64 * unit,
            p75: self.quantile(0.75) as f64 * unit,
            mean: if self.n > 0 {
                self.sum as f64 / self.n as f64 * unit
            } else {
                0.0
            },
            max: self.counts.iter().rposition(|c| *c > 0).unwrap_or(0) as f64 * unit,
        }
    }
}

/// Means are tallied in units of 1/128.
const MEAN_UNITS: f64 = 128.0;

/// The slots of one stream of requests (a device, one of its classes, or a set of devices), swept in order of time.
///
/// Memory: one tally per definition for the group in progress, and a [`SlotGroup`] for each finished one.
#[derive(Debug, Clone)]
pub struct SlotStream {
    window: Window,
    width_ns: i64,
    slots_per_group: i64,
    slot: i64,
    slot_end_ns: i64,
    /// The first slot of the next group.
    group_end: i64,
    level: i64,
    touched: u64,
    sampled: u64,
    /// Number in flight integrated over the slot in progress up to its end, assuming that it no longer changes.
    area_ns: i64,
    max: u64,
    tallies: [SlotTally; 4],
    groups: Vec<SlotGroup>,
    /// Intervals in which nothing was recorded, sorted, neither overlapping nor touching.
    unrecorded: Arc<[(i64, i64)]>,
}

impl SlotStream {
    /// Slots of `width_ns` in groups of `group_ns`, counted from the window's beginning.
    pub fn new(window: Window, width_ns: i64, group_ns: i64) -> SlotStream {
        let width_ns = width_ns.max(1);
        let slots_per_group = (group_ns / width_ns).max(1);
        SlotStream {
            window,
            width_ns,
            slots_per_group,
            slot: 0,
            slot_end_ns: window.from_ns + width_ns,
            group_end: slots_per_group,
            level: 0,
            touched: 0,
            sampled: 0,
            area_ns: 0,
            max: 0,
            tallies: Default::default(),
            groups: Vec::new(),
            unrecorded: Arc::default(),
        }
    }

    fn slot_from(&self, slot: i64) -> i64 {
        self.window.from_ns + slot * self.width_ns
    }

    /// Goes to `at_ns`, closing the slots before it.
    #[inline]
    fn advance(&mut self, at_ns: i64) {
        if at_ns >= self.slot_end_ns {
            self.close_slots(at_ns);
        }
    }

    fn close_slots(&mut self, to_ns: i64) {
        self.close_slot();
        if to_ns >= self.slot_end_ns {
            let whole = (to_ns - self.slot_from(self.slot)) / self.width_ns;
            self.close_steady(whole);
        }
    }

    /// Changes the level by `by`: for the rest of the slot, or for all of it if the change is at its start.
    #[inline]
    fn change(&mut self, at_ns: i64, by: i64) {
        let at_ns = at_ns.min(self.window.to_ns);
        self.advance(at_ns);
        self.level += by;
        let left_ns = self.slot_end_ns - at_ns;
        if left_ns < self.width_ns {
            self.area_ns += by * left_ns;
            self.max = self.max.max(self.level.max(0) as u64);
        } else {
            self.begin_with_level();
            // A request that ends at the start of a slot does not touch that slot.
            if by < 0 {
                self.touched = self.touched.saturating_sub(1);
            }
        }
    }

    fn begin_with_level(&mut self) {
        let level = self.level.max(0);
        self.area_ns = level * self.width_ns;
        self.sampled = level as u64;
        self.max = level as u64;
    }

    fn close_slot(&mut self) {
        let mean = self.area_ns as f64 / self.width_ns as f64;
        let mean = (mean * MEAN_UNITS).round() as u64;
        self.tally([self.touched, self.sampled, mean, self.max], 1);
        self.begin_slot();
    }

    fn begin_slot(&mut self) {
        self.slot_end_ns = self.slot_from(self.slot + 1);
        self.touched = self.level.max(0) as u64;
        self.begin_with_level();
    }

    /// Closes `slots` slots during which nothing changes.
    fn close_steady(&mut self, slots: i64) {
        let level = self.level.max(0) as u64;
        let mean = (level as f64 * MEAN_UNITS) as u64;
        let mut left = slots;
        while left > 0 {
            let now = left.min(self.group_end - self.slot);
            self.tally([level, level, mean, level], now);
            left -= now;
        }
        self.begin_slot();
    }

    /// Adds `slots` slots of one group, all with these values, and moves past them.
    fn tally(&mut self, values: [u64; 4], slots: i64) {
        let end = self.slot + slots;
        let recorded = slots - self.unrecorded_slots(self.slot, end);
        for (tally, value) in self.tallies.iter_mut().zip(values) {
            tally.add(value, recorded as u64);
        }
        self.slot = end;
        if self.slot == self.group_end {
            self.close_group(self.slot);
            self.group_end += self.slots_per_group;
        }
    }

    /// Number of slots in `first..end` that lie entirely in time without a recorder.
    fn unrecorded_slots(&self, first: i64, end: i64) -> i64 {
        let begin_ns = self.slot_from(first);
        let end_ns = self.slot_from(end);
        let at = self.unrecorded.partition_point(|gap| gap.1 <= begin_ns);
        let mut slots = 0;
        for (from_ns, to_ns) in &self.unrecorded[at..] {
            if *from_ns >= end_ns {
                break;
            }
            // The part of the gap in these slots, counted from the window's beginning.
            let from_ns = (*from_ns).max(begin_ns) - self.window.from_ns;
            let to_ns = (*to_ns).min(end_ns) - self.window.from_ns;
            let whole_from = (from_ns as u64).div_ceil(self.width_ns as u64) as i64;
            let whole_to = to_ns / self.width_ns;
            slots += (whole_to - whole_from).max(0);
        }
        slots
    }

    fn close_group(&mut self, end_slot: i64) {
        let [touched, sampled, mean, max] = std::mem::take(&mut self.tallies);
        let slots = touched.n;
        if slots == 0 {
            return;
        }
        let idle = touched.counts.first().copied().unwrap_or(0);
        self.groups.push(SlotGroup {
            from_ns: self.slot_from(self.group_end - self.slots_per_group),
            to_ns: self.slot_from(end_slot),
            slots,
            touched: touched.quantiles(1.0),
            sampled: sampled.quantiles(1.0),
            mean: mean.quantiles(1.0 / MEAN_UNITS),
            max: max.quantiles(1.0),
            touched_percent: 100.0 * (slots - idle) as f64 / slots as f64,
        });
    }

    /// A request begins.
    #[inline]
    pub fn begin(&mut self, at_ns: i64) {
        self.change(at_ns, 1);
        self.touched += 1;
    }

    /// A request ends.
    #[inline]
    pub fn end(&mut self, at_ns: i64) {
        self.change(at_ns, -1);
    }

    /// A request of zero length.
    pub fn touch(&mut self, at_ns: i64) {
        if self.window.contains(at_ns) {
            self.advance(at_ns);
            self.touched += 1;
        }
    }

    /// The groups in order of time; the last one may be shorter. A slot that the window's end cuts off is not counted.
    pub fn finish(mut self, window: Window) -> Vec<SlotGroup> {
        self.window = window;
        self.advance(window.to_ns);
        let end = self.slot;
        self.close_group(end);
        self.groups
    }
}

/// The slots of one device or set: all requests, reads, writes.
#[derive(Debug, Clone)]
pub struct SlotSweep {
    streams: [SlotStream; 3],
}

/// Summary of [`SlotSweep`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlotSummary {
    /// All classes.
    pub all: Vec<SlotGroup>,
    /// Reads only.
    pub read: Vec<SlotGroup>,
    /// Writes only.
    pub write: Vec<SlotGroup>,
}

impl SlotSweep {
    /// Slots of `width_ns` in groups of `group_ns`.
    pub fn new(window: Window, width_ns: i64, group_ns: i64) -> SlotSweep {
        SlotSweep {
            streams: std::array::from_fn(|_| SlotStream::new(window, width_ns, group_ns)),
        }
    }

    /// Leaves out slots that lie entirely in `unrecorded`, the intervals in which nothing was recorded (sorted,
    /// neither overlapping nor touching). Must be called before the first request.
    #[must_use]
    pub fn leaving_out(mut self, unrecorded: &Arc<[(i64, i64)]>) -> SlotSweep {
        for stream in &mut self.streams {
            stream.unrecorded = Arc::clone(unrecorded);
        }
        self
    }

    #[inline]
    fn each(&mut self, class: Class, mut act: impl FnMut(&mut SlotStream)) {
        act(&mut self.streams[0]);
        match class {
            Class::Read => act(&mut self.streams[1]),
            Class::Write => act(&mut self.streams[2]),
            Class::Discard | Class::Flush => {}
        }
    }

    /// The groups.
    pub fn finish(self, window: Window) -> SlotSummary {
        let [all, read, write] = self.streams.map(|s| s.finish(window));
        SlotSummary { all, read, write }
    }
}

impl Sweep for SlotSweep {
    fn start(&mut self, span: &Span) {
        self.each(span.class, |s| s.begin(span.start_ns));
    }

    fn done(&mut self, end: &End) {
        self.each(end.class, |s| s.end(end.at_ns));
    }

    fn instant(&mut self, span: &Span) {
        self.each(span.class, |s| s.touch(span.start_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stream::order::{Hold, StartOrder};
    use proptest::prelude::*;

    fn swept(spans: &[(i64, i64)], window: Window, width: i64, group: i64) -> Vec<SlotGroup> {
        swept_without(&[], spans, window, width, group)
    }

    /// The same where nothing was recorded in `unrecorded`.
    fn swept_without(
        unrecorded: &[(i64, i64)],
        spans: &[(i64, i64)],
        window: Window,
        width: i64,
        group: i64,
    ) -> Vec<SlotGroup> {
        let mut spans = spans.to_vec();
        spans.sort_by_key(|s| s.1);
        let mut order = StartOrder::new(Hold::RECORDING);
        let mut sweep = SlotSweep::new(window, width, group).leaving_out(&Arc::from(unrecorded));
        for (start_ns, done_ns) in spans {
            order.push(
                Span {
                    start_ns,
                    done_ns,
                    sector: -1,
                    sectors: 0,
                    key: 0,
                    class: Class::Read,
                    waited_us: 0,
                },
                &mut sweep,
            );
        }
        order.finish(&mut sweep);
        sweep.finish(window).read
    }

    #[test]
    fn the_boundary_rules() {
        // [0,10) ends where slot 1 begins and does not touch it; [20,20) touches slot 2; slot 3 is empty.
        let g = swept(&[(0, 10), (20, 20)], Window::new(0, 40), 10, 40);
        assert_eq!((g.len(), g[0].slots, g[0].touched_percent), (1, 4, 50.0));
        assert_eq!(
            (
                g[0].touched.mean,
                g[0].sampled.mean,
                g[0].mean.mean,
                g[0].max.mean
            ),
            (0.5, 0.25, 0.25, 0.25)
        );
    }

    #[test]
    fn slots_without_a_recorder_are_left_out() {
        // Of ten slots in two groups those from 20 to 60 were not recorded; of two more a part was.
        let spans = [(0, 5), (70, 80)];
        let window = Window::new(0, 100);
        let groups = swept_without(&[(15, 65)], &spans, window, 10, 50);
        let mut shown = Vec::new();
        for g in &groups {
            shown.push((g.from_ns, g.to_ns, g.slots, g.touched_percent));
        }
        assert_eq!(shown, [(0, 50, 2, 50.0), (50, 100, 4, 25.0)]);
        let [first, second] = [&groups[0], &groups[1]];
        assert_eq!((first.touched.mean, second.touched.mean), (0.5, 0.25));
        assert_eq!((first.mean.mean, second.sampled.mean), (0.25, 0.25));
        // The upper quartile of one slot of two is that slot, of one slot of four it is not.
        assert_eq!((first.touched.p75, second.touched.p75), (1.0, 0.0));
    }

    #[test]
    fn a_group_without_a_recorder_is_not_there() {
        let spans = [(0, 5), (120, 130)];
        let window = Window::new(0, 150);
        let groups = swept_without(&[(-30, -5), (50, 70), (75, 100)], &spans, window, 10, 50);
        let starts: Vec<(i64, u64)> = groups.iter().map(|g| (g.from_ns, g.slots)).collect();
        assert_eq!(starts, [(0, 5), (50, 1), (100, 5)], "a part of one slot");
        let groups = swept_without(&[(50, 100)], &spans, window, 10, 50);
        let starts: Vec<(i64, u64)> = groups.iter().map(|g| (g.from_ns, g.slots)).collect();
        assert_eq!(starts, [(0, 5), (100, 5)]);
        // From before the window to after it.
        assert!(swept_without(&[(-20, 170)], &[], window, 10, 50).is_empty());
    }

    proptest! {
        #[test]
        fn all_four_meanings_equal_brute_force(
            spans in prop::collection::vec((-20i64..300, prop_oneof![0i64..3, 0i64..30, 0i64..200]), 0..60),
            from in 0i64..20, slots in 1i64..20, width in 1i64..20, per_group in 1i64..8,
        ) {
            let spans: Vec<_> = spans.into_iter().map(|(s, d)| (s, s + d)).collect();
            let window = Window::new(from, from + slots * width);
            let groups = swept(&spans, window, width, per_group * width);
            prop_assert_eq!(groups.iter().map(|g| g.slots).sum::<u64>(), slots as u64);
            let mut slot = 0;
            for g in &groups {
                let mut brute: [Vec<f64>; 4] = Default::default();
                for _ in 0..g.slots {
                    let a = from + slot * width;
                    let b = from + (slot + 1) * width;
                    let touches = |s: &&(i64, i64)| if s.0 == s.1 { a <= s.0 && s.0 < b } else { s.0 < b && s.1 > a };
                    let level = |t: i64| spans.iter().filter(|s| s.0 <= t && t < s.1).count();
                    brute[0].push(spans.iter().filter(touches).count() as f64);
                    brute[1].push(level(a) as f64);
                    brute[2].push((a..b).map(level).sum::<usize>() as f64 / width as f64);
                    brute[3].push((a..b).map(level).max().unwrap_or(0) as f64);
                    slot += 1;
                }
                for (got, mut values) in [g.touched, g.sampled, g.mean, g.max].into_iter().zip(brute) {
                    values.sort_by(f64::total_cmp);
                    let rank = |q: f64| values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
                    let near = |a: f64, b: f64| (a - b).abs() <= 1.0 / MEAN_UNITS;
                    prop_assert!(near(got.p50, rank(0.5)) && near(got.p75, rank(0.75)) && near(got.max, rank(1.0)), "{got:?} {values:?}");
                    prop_assert!(near(got.mean, values.iter().sum::<f64>() / values.len() as f64));
                }
            }
        }
    }
}
