//! File-level requests over time (A3, A4, A5, A6, A10 of requests): rates, response times and atomic shares by class,
//! and the number of requests under way, in slots of 2 ms and exactly.
//!
//! A request is under way from the open call to the end of its last data I/O. If the open was not seen, it begins with
//! the first data I/O. A file that a program keeps open and uses again counts as one request all that time.
//!
//! The width of groups follows from the length of the window. So there are few of them, and the self-widening bins of
//! `stream/kept_slots.rs` are not needed.

use std::collections::HashMap;

use serde::Serialize;

use crate::analysis::device::slots::{SLOT_NS, SlotGroup, SlotStream};
use crate::analysis::stream::latencies::Latencies;
use crate::analysis::stream::window::Window;
use crate::model::{MS_NS, Request, RequestClass, TimeGrid};

/// Maximum number of requests whose intervals are kept, 24 bytes each.
const MAX_REQUESTS: usize = 4_000_000;
/// Approximate number of groups. None is shorter than 50 slots, none longer than 20 minutes.
const GROUPS: i64 = 120;
/// Lengths of a group, in milliseconds.
const STEPS_MS: [i64; 13] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 300_000, 600_000, 1_200_000,
];

/// One class over time; the vectors have one item per group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassOverTime {
    /// Its name.
    pub class: &'static str,
    /// Number of requests that ended.
    pub n: Vec<u64>,
    /// Requests that ended, per second.
    pub per_s: Vec<f64>,
    /// Median response time in microseconds; `None` without a request of known start.
    pub p50_us: Vec<Option<f64>>,
    /// Percent of requests with exactly one data I/O, among those with any.
    pub atomic_percent: Vec<Option<f64>>,
}

/// Requests under way over time; the vectors have one item per group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnderWay {
    /// Set of requests: `all` (with data), `in` or `out`.
    pub set: &'static str,
    /// Median, over the group's 2 ms slots, of the number of requests that touch a slot.
    pub p50: Vec<f64>,
    /// 75th percentile.
    pub p75: Vec<f64>,
    /// Percent of the time with at least one request in progress, measured exactly.
    pub under_way_percent: Vec<f64>,
    /// Percent of 2 ms slots that at least one request touches.
    pub touched_percent: Vec<f64>,
    /// `under_way_percent` over the whole recording.
    pub whole_under_way_percent: f64,
    /// `touched_percent` over the whole recording.
    pub whole_touched_percent: f64,
}

/// Requests over time, in groups of `step_s` from `start_s` on; the last group may be shorter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilesOverTime {
    /// Start of the first group, in seconds since the recording's start.
    pub start_s: f64,
    /// End of the last interval.
    pub end_s: f64,
    /// Length of a group, in seconds.
    pub step_s: f64,
    /// Width of a slot, in seconds.
    pub slot_s: f64,
    /// The classes that occurred.
    pub classes: Vec<ClassOverTime>,
    /// Number of requests in progress over time; `null` if there are more requests than are kept.
    pub under_way: Option<Vec<UnderWay>>,
}

#[derive(Debug, Clone, Default)]
struct TimelineCell {
    n: u64,
    totals: Latencies,
    with_data: u64,
    atomic: u64,
}

/// Takes requests in the order of their ends.
#[derive(Debug)]
pub struct FilesTimeline {
    window: Window,
    grid: TimeGrid,
    cells: HashMap<(RequestClass, i64), TimelineCell>,
    spans: Vec<(i64, i64, RequestClass)>,
    too_many: bool,
}

impl FilesTimeline {
    /// Over `window`, which must have an end.
    pub fn new(window: Window) -> FilesTimeline {
        let wanted = window.len_ns() / GROUPS / 1_000_000;
        let step_ms = STEPS_MS
            .into_iter()
            .find(|s| *s >= wanted)
            .unwrap_or(1_200_000);
        FilesTimeline {
            window,
            grid: TimeGrid::new(window.from_ns, step_ms * MS_NS),
            cells: HashMap::new(),
            spans: Vec::new(),
            too_many: false,
        }
    }

    /// Takes a request that ended in the window.
    pub fn push(&mut self, r: &Request) {
        let class = r.class();
        let cell = self
            .cells
            .entry((class, self.grid.slot(r.end_ns)))
            .or_default();
        cell.n += 1;
        if let Some(total) = r.total_ns() {
            cell.totals.add(total);
        }
        if let Some(atomic) = r.atomic().filter(|_| r.start_known() && r.sync.is_none()) {
            cell.with_data += 1;
            cell.atomic += u64::from(atomic);
        }
        let Some(last) = r.last_after_ns.filter(|_| r.sync.is_none()) else {
            return;
        };
        if self.spans.len() == MAX_REQUESTS {
            self.too_many = true;
        } else {
            self.spans
                .push((r.start_ns, r.start_ns.saturating_add(last), class));
        }
    }

    /// Number of groups; the last one may be shorter.
    fn groups(&self) -> usize {
        (self.window.len_ns() as u64).div_ceil(self.grid.step_ns as u64) as usize
    }

    /// The series.
    pub fn finish(mut self) -> FilesOverTime {
        let classes = RequestClass::ALL
            .into_iter()
            .filter_map(|c| self.class(c))
            .collect();
        self.spans.sort_unstable_by_key(|s| s.0);
        let sets = [
            ("all", None),
            ("in", Some(RequestClass::In)),
            ("out", Some(RequestClass::Out)),
        ];
        let under_way = (!self.too_many).then(|| {
            sets.into_iter()
                .map(|(name, only)| self.under_way(name, only))
                .collect()
        });
        FilesOverTime {
            start_s: self.window.from_ns as f64 / 1e9,
            end_s: self.window.to_ns as f64 / 1e9,
            step_s: self.grid.step_ns as f64 / 1e9,
            slot_s: SLOT_NS as f64 / 1e9,
            classes,
            under_way,
        }
    }

    /// Length of a group in seconds.
    fn seconds(&self, group: usize) -> f64 {
        let from_ns = self.grid.start_ns(group as i64);
        (self.window.to_ns - from_ns).clamp(1, self.grid.step_ns) as f64 / 1e9
    }

    fn class(&mut self, class: RequestClass) -> Option<ClassOverTime> {
        let groups = self.groups();
        let mut cells: Vec<TimelineCell> = (0..groups as i64)
            .map(|g| self.cells.remove(&(class, g)).unwrap_or_default())
            .collect();
        cells.iter().any(|c| c.n > 0).then(|| ClassOverTime {
            class: class.name(),
            n: cells.iter().map(|c| c.n).collect(),
            per_s: cells
                .iter()
                .enumerate()
                .map(|(g, c)| c.n as f64 / self.seconds(g))
                .collect(),
            atomic_percent: cells
                .iter()
                .map(|c| (c.with_data > 0).then(|| 100.0 * c.atomic as f64 / c.with_data as f64))
                .collect(),
            p50_us: cells
                .iter_mut()
                .map(|c| c.totals.quantile_us(0.5))
                .collect(),
        })
    }

    /// Start and end of the requests of one class, or of all.
    fn spans_of(&self, only: Option<RequestClass>) -> impl Iterator<Item = (i64, i64)> {
        self.spans
            .iter()
            .filter(move |s| only.is_none_or(|c| s.2 == c))
            .map(|s| (s.0, s.1))
    }

    /// Requests of one class, or of all, under way. `spans` must be sorted by start.
    fn under_way(&self, set: &'static str, only: Option<RequestClass>) -> UnderWay {
        let slots = self.slots(self.spans_of(only));
        let busy = self.busy(self.spans_of(only));
        let groups = self.groups();
        let touched: f64 = slots
            .iter()
            .map(|s| s.touched_percent * s.slots as f64)
            .sum();
        let all: f64 = slots.iter().map(|s| s.slots as f64).sum();
        UnderWay {
            set,
            p50: by_group(&slots, groups, |s| s.touched.p50),
            p75: by_group(&slots, groups, |s| s.touched.p75),
            touched_percent: by_group(&slots, groups, |s| s.touched_percent),
            under_way_percent: busy
                .iter()
                .enumerate()
                .map(|(g, ns)| *ns as f64 / self.seconds(g) / 1e7)
                .collect(),
            whole_under_way_percent: 100.0 * busy.iter().sum::<i64>() as f64
                / self.window.len_ns().max(1) as f64,
            whole_touched_percent: if all > 0.0 { touched / all } else { 0.0 },
        }
    }

    fn slots(&self, spans: impl Iterator<Item = (i64, i64)>) -> Vec<SlotGroup> {
        let mut stream = SlotStream::new(self.window, SLOT_NS, self.grid.step_ns);
        let mut starts = Vec::new();
        let mut ends = Vec::new();
        for (from, to) in spans.filter(|s| s.1 >= self.window.from_ns && s.0 < self.window.to_ns) {
            starts.push((from.max(self.window.from_ns), from == to));
            ends.extend((from < to).then_some(to));
        }
        ends.sort_unstable();
        let mut ends = ends.into_iter().peekable();
        for (at, instant) in starts {
            while let Some(end) = ends.next_if(|e| *e <= at) {
                stream.end(end);
            }
            if instant {
                stream.touch(at)
            } else {
                stream.begin(at)
            }
        }
        ends.for_each(|end| stream.end(end));
        stream.finish(self.window)
    }

    /// Nanoseconds of each group with at least one request under way: length of the union.
    fn busy(&self, spans: impl Iterator<Item = (i64, i64)>) -> Vec<i64> {
        let mut busy = vec![0; self.groups()];
        let mut done_to = self.window.from_ns;
        for (from, to) in spans {
            let to = to.min(self.window.to_ns);
            for part in self.grid.parts(from.max(done_to), to) {
                if let Some(b) = busy.get_mut(part.slot as usize) {
                    *b += part.len_ns();
                }
            }
            done_to = done_to.max(to);
        }
        busy
    }
}

/// A value of each group; 0 for a group without slots, as in a window shorter than a slot.
fn by_group(slots: &[SlotGroup], groups: usize, value: fn(&SlotGroup) -> f64) -> Vec<f64> {
    (0..groups)
        .map(|g| slots.get(g).map_or(0.0, value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rng;
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn read(from: i64, to: i64, ios: i64) -> Request {
        Request {
            ios_in: ios,
            last_after_ns: Some(to - from),
            ..Request::new(from, to + 10)
        }
    }

    fn write(from: i64, to: i64) -> Request {
        Request {
            ios_out: 1,
            last_after_ns: Some(to - from),
            ..Request::new(from, to + 10)
        }
    }

    fn timeline(ms: i64, requests: &[Request]) -> FilesOverTime {
        let mut t = FilesTimeline::new(Window::new(0, ms * MS));
        requests.iter().for_each(|r| t.push(r));
        t.finish()
    }

    #[test]
    fn a_hand_made_tenth_of_a_second() {
        // Slots 0 and 1 have one reader, 1 to 3 a writer; a request of no length touches slot 10.
        let t = timeline(
            200,
            &[
                read(0, 3 * MS, 2),
                write(2 * MS, 8 * MS),
                read(20 * MS, 20 * MS, 1),
            ],
        );
        assert_eq!((t.step_s, t.classes.len()), (0.1, 2));
        assert_eq!(
            (&t.classes[0].n, &t.classes[0].per_s),
            (&vec![2, 0], &vec![20.0, 0.0])
        );
        assert_eq!(t.classes[0].atomic_percent, [Some(50.0), None]);
        assert_eq!(t.classes[1].p50_us, [Some(6_000.0), None]);
        let sets = t.under_way.expect("few");
        let all = &sets[0];
        assert_eq!(
            (
                all.under_way_percent.as_slice(),
                all.touched_percent.as_slice()
            ),
            ([8.0, 0.0].as_slice(), [10.0, 0.0].as_slice())
        );
        assert!(
            (all.whole_under_way_percent - 4.0).abs() < 1e-9
                && (all.whole_touched_percent - 5.0).abs() < 1e-9
        );
        assert_eq!(
            (sets[1].under_way_percent[0], sets[2].under_way_percent[0]),
            (3.0, 6.0)
        );
        assert_eq!((all.p50[0], all.p75[0]), (0.0, 0.0));
    }

    #[test]
    fn poisson_requests_touch_slots_as_often_as_they_must() {
        // M/G/inf: rate 100/s, 10 ms each: slots are touched by Poisson(rho + lambda w) of them, A3.
        let mut random = Rng::new(3);
        let mut at = 0.0;
        let mut requests = Vec::new();
        while at < 600e9 {
            at -= random.uniform().ln() * 1e7;
            requests.push(read(at as i64, at as i64 + 10 * MS, 1));
        }
        let sets = timeline(600_000, &requests).under_way.expect("few");
        assert!(
            (sets[1].whole_touched_percent - 100.0 * (1.0 - (-1.2f64).exp())).abs() < 0.7,
            "{sets:?}"
        );
        assert!(
            (sets[1].whole_under_way_percent - 100.0 * (1.0 - (-1.0f64).exp())).abs() < 0.7,
            "{sets:?}"
        );
        assert!(
            sets[0].p50.iter().all(|p| *p == 1.0),
            "median of Poisson(1.2)"
        );
    }

    proptest! {
        /// A4's identities: the larger of the classes at most all, all at most their sum; exact at most by slots.
        #[test]
        fn classes_bound_the_whole(spans in prop::collection::vec((0i64..900, 0i64..120, any::<bool>()), 0..60)) {
            let requests: Vec<Request> = spans
                .iter()
                .map(|(from, length, reads)| {
                    let to = (from + length) * MS;
                    let from = from * MS;
                    if *reads { read(from, to, 1) } else { write(from, to) }
                })
                .collect();
            let sets = timeline(1000, &requests).under_way.expect("few");
            for g in 0..sets[0].p50.len() {
                let [all, inn, out] = [0, 1, 2].map(|s: usize| sets[s].under_way_percent[g]);
                prop_assert!(inn.max(out) <= all + 1e-9 && all <= inn + out + 1e-9 && all <= 100.0 + 1e-9);
                prop_assert!(all <= sets[0].touched_percent[g] + 1e-9);
            }
        }
    }
}
