//! Completions and throughput per slot, for all resolutions of a time range at once.

use serde::Serialize;

use super::{PlannedStretch, Window};
use crate::analysis::stream::spread::Spread;
use crate::model::{Class, Histogram, Io, SECTOR_BYTES, rank};

/// Latencies of one class in one slot, start to done (S2C). Their number is in [`SlotCounts::ios`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlotLatency {
    /// Sum divided by count in nanoseconds, rounded.
    pub mean_ns: i64,
    /// `None` if only sums are known.
    pub quantiles: Option<SlotQuantiles>,
}

/// Nearest-rank quantiles in nanoseconds, within 1/256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlotQuantiles {
    /// Median.
    pub p50_ns: i64,
    /// 90th percentile.
    pub p90_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Longest, exact.
    pub max_ns: i64,
}

/// Completions and throughput of one slot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SlotCounts {
    /// I/Os by class.
    pub ios: [u64; 4],
    /// Sectors of 512 bytes moved, by class. Those of an I/O are spread evenly between issue and completion. For
    /// counters, the sectors of completed I/Os.
    pub sectors: [u64; 4],
    /// Latencies of reads and of writes; `None` if there were none.
    pub latency: [Option<SlotLatency>; 2],
    /// Longest flush in nanoseconds.
    pub flush_max_ns: Option<i64>,
}

/// The slots of one resolution.
#[derive(Debug, Default)]
pub(super) struct Rung {
    pub(super) counts: Vec<SlotCounts>,
}

/// A histogram that is cleared and reused for every slot.
#[derive(Debug, Default)]
struct SlotHistogram {
    counts: Vec<u64>,
    /// First and last bucket in use; the histogram is empty if the first is greater.
    used: (usize, usize),
    n: u64,
    sum: i128,
    max: i64,
}

impl SlotHistogram {
    fn new() -> SlotHistogram {
        SlotHistogram {
            used: (usize::MAX, 0),
            ..SlotHistogram::default()
        }
    }

    fn add(&mut self, ns: i64) {
        let bucket = Histogram::index(ns);
        self.grow(bucket, bucket);
        self.counts[bucket] += 1;
        self.n += 1;
        self.sum += i128::from(ns.max(0));
        self.max = self.max.max(ns);
    }

    fn grow(&mut self, first: usize, last: usize) {
        if last >= self.counts.len() {
            self.counts.resize(last + 1, 0);
        }
        self.used = (self.used.0.min(first), self.used.1.max(last));
    }

    fn merge(&mut self, other: &SlotHistogram) {
        if other.n == 0 {
            return;
        }
        self.grow(other.used.0, other.used.1);
        let used = other.used.0..=other.used.1;
        for (a, b) in self.counts[used.clone()]
            .iter_mut()
            .zip(&other.counts[used])
        {
            *a += b;
        }
        self.n += other.n;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    fn clear(&mut self) {
        if self.n > 0 {
            self.counts[self.used.0..=self.used.1].fill(0);
        }
        self.used = (usize::MAX, 0);
        self.n = 0;
        self.sum = 0;
        self.max = 0;
    }

    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        let used = if self.n > 0 {
            self.used.0..self.used.1 + 1
        } else {
            0..0
        };
        used.map(|i| (i, self.counts[i])).filter(|(_, c)| *c > 0)
    }

    /// All nearest-rank quantiles in one pass: the middle of the bucket of rank `ceil(q n)`, never above the maximum.
    fn summary(&self) -> Option<SlotLatency> {
        if self.n == 0 {
            return None;
        }
        let ranks = [0.5, 0.9, 0.99].map(|q| rank(q, self.n));
        let mut found = [self.max; 3];
        let mut seen = 0;
        let mut next = 0;
        for (bucket, count) in self.buckets() {
            seen += count;
            while next < ranks.len() && seen >= ranks[next] {
                let (low, high) = Histogram::bounds(bucket);
                found[next] = (low + (high - 1 - low) / 2).min(self.max);
                next += 1;
            }
        }
        let mean_ns = (self.sum as f64 / self.n as f64).round() as i64;
        let quantiles = SlotQuantiles {
            p50_ns: found[0],
            p90_ns: found[1],
            p99_ns: found[2],
            max_ns: self.max,
        };
        Some(SlotLatency {
            mean_ns,
            quantiles: Some(quantiles),
        })
    }
}

/// Number of the bucket that holds `ns`, with `per_octave` buckets per factor of two; 0 for anything below 2 ns.
pub(super) fn log_row(ns: i64, per_octave: u32) -> u32 {
    // Add a little, so that rounding does not move a power of two to the bucket below.
    (f64::from(per_octave) * (ns.max(1) as f64).log2() + 1e-9).floor() as u32
}

/// The open slot of one resolution.
#[derive(Debug)]
struct Open {
    merge: i64,
    slot: usize,
    counts: SlotCounts,
    latency: [SlotHistogram; 2],
    done: Rung,
}

impl Open {
    /// Stores the slot and starts the next one.
    fn close(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.latency = [self.latency[0].summary(), self.latency[1].summary()];
        self.done.counts[self.slot] = counts;
        self.latency.iter_mut().for_each(SlotHistogram::clear);
    }

    fn is_empty(&self) -> bool {
        self.counts.ios == [0; 4]
    }

    /// Merges `finer` into this slot.
    fn absorb(&mut self, finer: &Open) {
        for k in 0..4 {
            self.counts.ios[k] += finer.counts.ios[k];
        }
        self.counts.flush_max_ns = self.counts.flush_max_ns.max(finer.counts.flush_max_ns);
        for (a, b) in self.latency.iter_mut().zip(&finer.latency) {
            a.merge(b);
        }
    }
}

/// All resolutions of one time range, filled in the order of completion.
#[derive(Debug)]
pub(super) struct Completions {
    from_ns: i64,
    step_ns: i64,
    /// The finest slot that holds the last I/O, and its end.
    end_ns: i64,
    rungs: Vec<Open>,
    /// Throughput by class in the finest slots.
    moved: [Spread; 4],
}

impl Completions {
    /// Time outside of `study` is not counted, because the last slot may be only partly inside.
    pub(super) fn new(stretch: &PlannedStretch, study: Window) -> Completions {
        let rungs = stretch.merges.iter().map(|merge| Open {
            merge: *merge,
            slot: 0,
            counts: SlotCounts::default(),
            latency: [SlotHistogram::new(), SlotHistogram::new()],
            done: Rung {
                counts: vec![SlotCounts::default(); stretch.slots().div_ceil(*merge as usize)],
            },
        });
        let from_ns = stretch.window.from_ns;
        let step_ns = stretch.step_ns;
        let inside = Window::new(from_ns, stretch.window.to_ns.min(study.to_ns));
        let moved = std::array::from_fn(|_| Spread::new(inside, step_ns));
        Completions {
            from_ns,
            step_ns,
            end_ns: from_ns + step_ns,
            rungs: rungs.collect(),
            moved,
        }
    }

    /// Adds the throughput of an I/O, if the device may have worked on it inside the time range.
    pub(super) fn moves(&mut self, io: &Io) {
        if io.bytes > 0 {
            self.moved[io.class() as usize].add(io);
        }
    }

    /// Counts an I/O that completed inside the time range. A late one is counted in the open slot.
    pub(super) fn add(&mut self, io: &Io) {
        if io.done_ns >= self.end_ns {
            let slot = (io.done_ns - self.from_ns) / self.step_ns;
            self.go_to(slot);
            self.end_ns = self.from_ns + (slot + 1) * self.step_ns;
        }
        let Some(open) = self.rungs.first_mut() else {
            return;
        };
        let class = io.class();
        open.counts.ios[class as usize] += 1;
        match class {
            Class::Read => open.latency[0].add(io.total_ns()),
            Class::Write => open.latency[1].add(io.total_ns()),
            Class::Flush => {
                open.counts.flush_max_ns = open.counts.flush_max_ns.max(Some(io.total_ns()))
            }
            Class::Discard => {}
        }
    }

    /// Closes the slots that end before the finest slot number `slot` begins.
    fn go_to(&mut self, slot: i64) {
        for i in 0..self.rungs.len() {
            let next = (slot / self.rungs[i].merge) as usize;
            if self.rungs[i].slot == next {
                break;
            }
            let (finer, coarser) = self.rungs.split_at_mut(i + 1);
            let open = &mut finer[i];
            if !open.is_empty() {
                if let Some(above) = coarser.first_mut() {
                    above.absorb(open);
                }
                open.close();
            }
            open.slot = next;
        }
    }

    /// Returns all resolutions, the finest first.
    pub(super) fn finish(mut self) -> Vec<Rung> {
        for i in 0..self.rungs.len() {
            let (finer, coarser) = self.rungs.split_at_mut(i + 1);
            if let Some(above) = coarser.first_mut() {
                above.absorb(&finer[i]);
            }
            finer[i].close();
        }
        for (class, moved) in self.moved.iter().enumerate() {
            let mut bytes = 0;
            for (slot, moved) in moved.bytes().enumerate() {
                let before = bytes / SECTOR_BYTES as u64;
                bytes += moved;
                for rung in &mut self.rungs {
                    let counts = &mut rung.done.counts[slot / rung.merge as usize];
                    counts.sectors[class] += bytes / SECTOR_BYTES as u64 - before;
                }
            }
        }
        self.rungs.into_iter().map(|open| open.done).collect()
    }
}
