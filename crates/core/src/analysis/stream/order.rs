//! Reorders I/Os from the order of completion to starts and ends in the order of time.
//!
//! A recording is ordered by completion, so the start of an I/O becomes known only when it is over. Concurrency needs
//! starts and ends in the order of time. [`StartOrder`] holds spans back until no later completion can have started
//! before them: small chunks are sorted and merged into the tail of what is held, those that lie far back wait in a side
//! list, and a two-way merge of starts and ends gives the edges.
//!
//! Invariant: edges leave in non-decreasing time, ends before starts at the same instant (spans are `[start, done)`);
//! spans of no length leave as one.
//! Memory: at most [`Hold::spans`] spans are held. Assumption: no I/O outlives so many completions or [`Hold::ns`]. If
//! one does, its start is moved to where the sweep already is, and [`Clipped`] says how often and by how much: the
//! error is counted, never silent.

use std::collections::VecDeque;

use crate::model::{Class, Io, SECTOR_BYTES};
use serde::Serialize;

/// One I/O as an interval of time, with the values that sweeps need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start, in nanoseconds since the recording's start.
    pub start_ns: i64,
    /// Completion.
    pub done_ns: i64,
    /// First sector, -1 if not known.
    pub sector: i64,
    /// Sectors moved.
    pub sectors: u32,
    /// Its owner: an index chosen by the caller (of a device, of a group).
    pub key: u32,
    /// Its class.
    pub class: Class,
    /// How long it waited for its issue, in whole microseconds; 0 if that is not known.
    pub waited_us: u32,
}

impl Span {
    /// The span of `io` under `key`.
    pub fn of(io: &Io, key: u32) -> Span {
        Span {
            start_ns: io.start_ns().min(io.done_ns),
            done_ns: io.done_ns,
            sector: io.sector.unwrap_or(-1),
            sectors: u32::try_from(io.bytes / SECTOR_BYTES).unwrap_or(u32::MAX),
            key,
            class: io.class(),
            waited_us: u32::try_from(io.queue_ns.unwrap_or(0).max(0) / 1000).unwrap_or(u32::MAX),
        }
    }

    /// The span from issue to completion.
    pub fn issued(io: &Io, key: u32) -> Span {
        Span {
            start_ns: io.issue_ns().min(io.done_ns),
            ..Span::of(io, key)
        }
    }
}

/// The end of an I/O, with the values that sweeps need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Completion, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// Sectors moved.
    pub sectors: u32,
    /// Its span's key.
    pub key: u32,
    /// Its class.
    pub class: Class,
}

impl End {
    /// The end of `span`.
    pub fn of(span: &Span) -> End {
        End {
            at_ns: span.done_ns,
            sectors: span.sectors,
            key: span.key,
            class: span.class,
        }
    }
}

/// A consumer of starts and ends in the order of time.
pub trait Sweep {
    /// An I/O begins.
    fn start(&mut self, span: &Span);
    /// An I/O that started ends.
    fn done(&mut self, end: &End);
    /// An I/O begins and ends at the same instant: it takes no time, but it was there.
    fn instant(&mut self, span: &Span) {
        self.start(span);
        self.done(&End::of(span));
    }
    /// What of `span` lies before `to_ns`, up to which all edges have left: it turned up too late for its own.
    fn late(&mut self, _span: &Span, _to_ns: i64) {}
}

/// How long spans are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Maximum number of spans held.
    pub spans: usize,
    /// Maximum time for which spans are held, in nanoseconds (they are held between once and twice as long).
    pub ns: i64,
}

impl Hold {
    /// For recordings: a million spans (64 MiB with their ends), any time.
    pub const RECORDING: Hold = Hold {
        spans: 1 << 20,
        ns: i64::MAX,
    };
    /// For rows that should come out while the stream runs: 30 s, the usual time-out of a block device.
    pub const ROWS: Hold = Hold {
        spans: 1 << 20,
        ns: 30_000_000_000,
    };
}

/// I/Os that started before the position of the sweep when they completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Clipped {
    /// How many.
    pub ios: u64,
    /// By how many nanoseconds together.
    pub ns: i64,
}

/// So many spans are sorted at once: small enough for the cache.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 11;

/// Sorting moves a span past so many others at most, on average.
const MOVES_EACH: usize = 16;

/// At least so many spans are held before those leave that are certain: what sweeps remember of each then fits the cache.
const MIN_HELD: usize = CHUNK;

/// Farther back than so many spans a start is not merged, but put aside.
const REACH: usize = 1 << 15;

/// Turns spans in the order of completion into edges in the order of time. See the [module](self).
#[derive(Debug)]
pub struct StartOrder {
    hold: Hold,
    /// The latest, as they came.
    chunk: Vec<Span>,
    /// For sorting them.
    places: Vec<u64>,
    sorted: Vec<Span>,
    /// Sorted by start.
    starts: Vec<Span>,
    /// Those that were too far out of order.
    late: Vec<Span>,
    /// Sorted by completion.
    ends: VecDeque<End>,
    swept_to_ns: i64,
    next_drain: usize,
    next_release: usize,
    clipped: Clipped,
}

impl StartOrder {
    /// With a given timeout.
    pub fn new(hold: Hold) -> StartOrder {
        StartOrder {
            hold,
            chunk: Vec::with_capacity(CHUNK),
            places: Vec::with_capacity(CHUNK),
            sorted: Vec::with_capacity(CHUNK),
            starts: Vec::new(),
            late: Vec::new(),
            ends: VecDeque::new(),
            swept_to_ns: i64::MIN,
            next_drain: hold.spans.max(2),
            next_release: MIN_HELD,
            clipped: Clipped::default(),
        }
    }

    /// Takes the next completed span; may hand edges that have become certain to `sweep`.
    #[inline]
    pub fn push(&mut self, mut span: Span, sweep: &mut impl Sweep) {
        if span.start_ns < self.swept_to_ns {
            sweep.late(&span, self.swept_to_ns.min(span.done_ns));
            span = self.clip(span);
        }
        if span.start_ns < span.done_ns {
            self.insert_end(End::of(&span));
        }
        self.chunk.push(span);
        if self.chunk.len() == CHUNK {
            self.merge_chunk();
        }
        if self.held() >= self.next_drain {
            self.drain_older_half(span.done_ns, sweep);
        }
        if self.hold.ns < i64::MAX {
            self.drain_overdue(span.done_ns, sweep);
        }
    }

    /// Too many spans are held: hands out the edges of the older half.
    #[cold]
    fn drain_older_half(&mut self, now_ns: i64, sweep: &mut impl Sweep) {
        let middle = self.ends.get(self.ends.len() / 2);
        let middle_ns = middle.map_or(now_ns, |end| end.at_ns);
        self.drain_to(middle_ns, sweep);
        self.next_drain = self.hold.spans.max(2 * self.starts.len()).max(2);
    }

    /// Hands out what has been held for longer than [`Hold::ns`], once something has been held for twice as long.
    fn drain_overdue(&mut self, now_ns: i64, sweep: &mut impl Sweep) {
        let oldest = self.ends.front().map_or(now_ns, |end| end.at_ns);
        let oldest_ns = oldest.max(self.swept_to_ns);
        if now_ns.saturating_sub(oldest_ns) > self.hold.ns.saturating_mul(2) {
            self.drain_to(now_ns - self.hold.ns, sweep);
        }
    }

    /// No later span begins before `later_start_ns`, so edges before it may be emitted at any time. Few spans are held
    /// then, and they fit the cache.
    pub fn expect_from(&mut self, later_start_ns: i64, sweep: &mut impl Sweep) {
        let is_end = later_start_ns == i64::MAX;
        if is_end || later_start_ns <= self.swept_to_ns || self.held() < self.next_release {
            return;
        }
        self.drain_to(later_start_ns, sweep);
        self.next_release = MIN_HELD.max(2 * self.held());
    }

    fn held(&self) -> usize {
        self.starts.len() + self.late.len() + self.chunk.len()
    }

    /// Hands out all edges before `to_ns`; later spans that began earlier will be clipped to it.
    pub fn drain_to(&mut self, to_ns: i64, sweep: &mut impl Sweep) {
        self.merge_chunk();
        self.merge_late();
        let first_kept = self.starts.partition_point(|s| s.start_ns < to_ns);
        for span in &self.starts[..first_kept] {
            while let Some(end) = self.ends.front().filter(|e| e.at_ns <= span.start_ns) {
                sweep.done(end);
                self.ends.pop_front();
            }
            if span.start_ns < span.done_ns {
                sweep.start(span);
            } else {
                sweep.instant(span);
            }
        }
        while let Some(end) = self.ends.front().filter(|e| e.at_ns < to_ns) {
            sweep.done(end);
            self.ends.pop_front();
        }
        self.starts.drain(..first_kept);
        self.swept_to_ns = self.swept_to_ns.max(to_ns);
    }

    /// Hands out everything that is left.
    pub fn finish(&mut self, sweep: &mut impl Sweep) -> Clipped {
        self.drain_to(i64::MAX, sweep);
        self.clipped
    }

    /// Up to here all edges have been handed out.
    pub fn swept_to_ns(&self) -> i64 {
        self.swept_to_ns
    }

    /// What of a span lies after the edges that have left; counts what does not.
    #[cold]
    fn clip(&mut self, span: Span) -> Span {
        self.clipped.ios += 1;
        let missing = self.swept_to_ns.min(span.done_ns) - span.start_ns;
        self.clipped.ns = self.clipped.ns.saturating_add(missing.max(0));
        Span {
            start_ns: self.swept_to_ns,
            done_ns: span.done_ns.max(self.swept_to_ns),
            ..span
        }
    }

    /// Completions should come in order; one that does not is put where it belongs.
    fn insert_end(&mut self, end: End) {
        if self.ends.back().is_none_or(|last| last.at_ns <= end.at_ns) {
            self.ends.push_back(end);
        } else {
            let at = self.ends.partition_point(|e| e.at_ns <= end.at_ns);
            self.ends.insert(at, end);
        }
    }

    /// Sorts the chunk by start. Sorting its places under their times, packed into one word, moves less memory.
    fn sort_chunk(&mut self) {
        let mut base = i64::MAX;
        let mut last = i64::MIN;
        for span in &self.chunk {
            base = base.min(span.start_ns);
            last = last.max(span.start_ns);
        }
        if last.abs_diff(base) >= 1 << (64 - CHUNK_BITS) {
            self.chunk.sort_by_key(|s| s.start_ns);
            return;
        }
        self.places.clear();
        self.places.extend(
            self.chunk
                .iter()
                .enumerate()
                .map(|(i, span)| span.start_ns.abs_diff(base) << CHUNK_BITS | i as u64),
        );
        if !sort_near(&mut self.places) {
            self.places.sort_unstable();
        }
        self.sorted.clear();
        self.sorted.extend(
            self.places
                .iter()
                .map(|p| self.chunk[(p & (CHUNK as u64 - 1)) as usize]),
        );
        std::mem::swap(&mut self.chunk, &mut self.sorted);
    }

    /// Merges the chunk from behind: only spans that began after the chunk's first one move.
    fn merge_chunk(&mut self) {
        self.sort_chunk();
        let floor = self
            .starts
            .len()
            .checked_sub(REACH)
            .map_or(i64::MIN, |at| self.starts[at].start_ns);
        let too_early = self.chunk.partition_point(|s| s.start_ns < floor);
        self.late.extend(self.chunk.drain(..too_early));
        // What begins no earlier than all that is there stays where it is appended.
        let latest = self.starts.last().map_or(i64::MIN, |s| s.start_ns);
        let mut old = self.starts.len();
        let mut new = self.chunk.partition_point(|s| s.start_ns < latest);
        self.starts.extend_from_slice(&self.chunk);
        while old > 0 && new > 0 {
            let to = old + new - 1;
            if self.starts[old - 1].start_ns > self.chunk[new - 1].start_ns {
                self.starts[to] = self.starts[old - 1];
                old -= 1;
            } else {
                self.starts[to] = self.chunk[new - 1];
                new -= 1;
            }
        }
        self.starts[..new].copy_from_slice(&self.chunk[..new]);
        self.chunk.clear();
    }

    fn merge_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        self.late.sort_by_key(|s| s.start_ns);
        let mut merged = Vec::with_capacity(self.starts.len() + self.late.len());
        let mut late = self.late.drain(..).peekable();
        for span in self.starts.drain(..) {
            while let Some(earlier) = late.next_if(|l| l.start_ns < span.start_ns) {
                merged.push(earlier);
            }
            merged.push(span);
        }
        merged.extend(late);
        self.starts = merged;
    }
}

/// Moves each value to its place, as long as that is near: I/Os complete nearly in the order of their starts, and those that did not
/// passed few others. `false`: some of them are farther away than sorting pays that way, and `values` are in any order.
fn sort_near(values: &mut [u64]) -> bool {
    let mut left = MOVES_EACH * values.len();
    for at in 1..values.len() {
        let value = values[at];
        let mut to = at;
        while to > 0 && values[to - 1] > value {
            values[to] = values[to - 1];
            to -= 1;
        }
        values[to] = value;
        left = left.saturating_sub(at - to);
        if left == 0 {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// (time, -1: ends, 0: begins and ends, 1: begins, key), as handed out.
    #[derive(Default)]
    struct Edges(Vec<(i64, i64, u32)>);

    impl Sweep for Edges {
        fn start(&mut self, s: &Span) {
            self.0.push((s.start_ns, 1, s.key));
        }
        fn done(&mut self, end: &End) {
            self.0.push((end.at_ns, -1, end.key));
        }
        fn instant(&mut self, s: &Span) {
            self.0.push((s.start_ns, 0, s.key));
        }
    }

    /// Ends come before whatever begins at the same instant.
    fn in_order(a: &(i64, i64, u32), b: &(i64, i64, u32)) -> bool {
        (a.0, a.1 >= 0) <= (b.0, b.1 >= 0)
    }

    fn span(start_ns: i64, done_ns: i64, key: u32) -> Span {
        Span {
            start_ns,
            done_ns,
            sector: -1,
            sectors: 0,
            key,
            class: Class::Read,
            waited_us: 0,
        }
    }

    fn swept(spans: &[(i64, i64)], hold: Hold) -> (Vec<(i64, i64, u32)>, Clipped) {
        let mut order = StartOrder::new(hold);
        let mut edges = Edges::default();
        for (i, (s, d)) in spans.iter().enumerate() {
            order.push(span(*s, *d, i as u32), &mut edges);
        }
        let clipped = order.finish(&mut edges);
        (edges.0, clipped)
    }

    /// Spans with lengths of very different scale, in the order of completion.
    fn spans() -> impl Strategy<Value = Vec<(i64, i64)>> {
        prop::collection::vec(
            (0i64..5000, prop_oneof![0i64..5, 0i64..100, 0i64..5000]),
            0..300,
        )
        .prop_map(|v| {
            let mut v: Vec<_> = v
                .into_iter()
                .map(|(done, len)| (done - len, done))
                .collect();
            v.sort_by_key(|s| s.1);
            v
        })
    }

    #[test]
    fn chunks_and_far_stragglers_come_out_in_order() {
        // 100k short spans; every 1000th began 50k spans ago, farther than a merge reaches.
        let spans: Vec<_> = (0..100_000i64)
            .map(|i| {
                (
                    if i % 1000 == 999 {
                        (i - 50_000) * 10
                    } else {
                        i * 10 - (i * 7919) % 3000
                    },
                    i * 10 + 1,
                )
            })
            .collect();
        let (edges, clipped) = swept(&spans, Hold::RECORDING);
        assert_eq!((edges.len(), clipped), (200_000, Clipped::default()));
        assert!(edges.windows(2).all(|w| in_order(&w[0], &w[1])));
        let mut starts: Vec<_> = edges
            .iter()
            .filter(|e| e.1 == 1)
            .map(|e| (e.2, e.0))
            .collect();
        starts.sort_unstable();
        assert!(starts.iter().zip(&spans).all(|(got, s)| got.1 == s.0));
    }

    #[test]
    fn what_is_certain_leaves_early_and_nothing_changes() {
        let spans: Vec<_> = (0..100_000i64)
            .map(|i| (i * 10 - (i * 7919) % 3000, i * 10 + 1))
            .collect();
        let (expected, _) = swept(&spans, Hold::RECORDING);
        let mut order = StartOrder::new(Hold::RECORDING);
        let mut edges = Edges::default();
        let mut most = 0;
        for (i, (s, d)) in spans.iter().enumerate() {
            order.push(span(*s, *d, i as u32), &mut edges);
            order.expect_from(d - 3000, &mut edges);
            most = most.max(order.held());
        }
        assert_eq!(order.finish(&mut edges), Clipped::default());
        assert_eq!(edges.0, expected);
        assert!(most <= MIN_HELD, "{most}");
    }

    proptest! {
        #[test]
        fn what_is_nearly_in_order_is_sorted_by_moving_it(
            far in prop::collection::vec(0u64..60, 0..400),
        ) {
            let values: Vec<u64> = far.iter().zip(0..).map(|(far, i)| 10 * i + 10 * far).collect();
            let mut expected = values.clone();
            expected.sort_unstable();
            let mut moved = values.clone();
            let is_sorted = sort_near(&mut moved);
            prop_assert!(!is_sorted || moved == expected);
            let is_near = far.iter().all(|far| *far < MOVES_EACH as u64);
            prop_assert!(is_sorted || !is_near);
            moved.sort_unstable();
            prop_assert_eq!(moved, expected, "none is lost");
        }

        #[test]
        fn with_enough_patience_every_edge_comes_once_and_in_order(spans in spans()) {
            let (edges, clipped) = swept(&spans, Hold::RECORDING);
            prop_assert_eq!(clipped, Clipped::default());
            prop_assert!(edges.windows(2).all(|w| in_order(&w[0], &w[1])));
            let mut got = edges.clone();
            let mut expected: Vec<_> = spans.iter().enumerate()
                .flat_map(|(i, (s, d))| if s == d { vec![(*s, 0, i as u32)] } else { vec![(*s, 1, i as u32), (*d, -1, i as u32)] }).collect();
            got.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn without_patience_order_still_holds_and_the_error_is_counted(spans in spans(), keep in 2usize..20, ns in 1i64..1000) {
            let (edges, clipped) = swept(&spans, Hold { spans: keep, ns });
            prop_assert!(edges.windows(2).all(|w| w[0].0 <= w[1].0));
            prop_assert_eq!(edges.iter().filter(|e| e.1 >= 0).count(), spans.len());
            prop_assert_eq!(edges.iter().map(|e| e.1).sum::<i64>(), 0);
            let area: i64 = edges.iter().map(|(t, d, _)| -t * d).sum();
            let true_area: i64 = spans.iter().map(|(s, d)| d - s).sum();
            prop_assert_eq!(area + clipped.ns, true_area, "what is missing is what was clipped");
        }
    }
}
