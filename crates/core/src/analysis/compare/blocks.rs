//! Divides a stretch of time into blocks and computes the measures of any selection of them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Measure;
use crate::analysis::Window;
use crate::analysis::math::intervals::within_ns;
use crate::analysis::math::stats::Shuffler;
use crate::model::{Histogram, Io};

/// Maximum number of blocks of a time range.
const MAX_BLOCKS: i64 = 40;

/// Minimum length of a block, so that one fsync or one scheduling period is usually not split.
const MIN_BLOCK_NS: i64 = 250_000_000;

/// Minimum number of blocks on each side for a significance test.
pub const MIN_BLOCKS: usize = 8;

/// I/Os of one class in the blocks of a stretch of time.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    from_ns: i64,
    block_ns: i64,
    blocks: Vec<TimeBlock>,
    /// Range of buckets of [`Histogram`] that have I/Os.
    buckets: Range<usize>,
}

#[derive(Debug, Clone, Default)]
struct TimeBlock {
    seconds: f64,
    ios: u64,
    bytes: u64,
    latency_sum_ns: i128,
    /// Number of I/Os by bucket of [`Histogram`].
    latencies: BTreeMap<usize, u64>,
}

/// The measures of a selection of blocks.
#[derive(Debug, Clone)]
pub(super) struct MeasureValues([Option<f64>; Measure::ALL.len()]);

impl MeasureValues {
    pub(super) fn get(&self, measure: Measure) -> Option<f64> {
        self.0[measure as usize]
    }
}

impl Blocks {
    /// Creates empty blocks of equal length that cover `window`. Time in `unrecorded` does not count as theirs.
    pub(super) fn new(window: Window, unrecorded: &[(i64, i64)]) -> Blocks {
        let count = (window.len_ns() / MIN_BLOCK_NS).clamp(1, MAX_BLOCKS);
        // Rounded up, so the last block may be slightly shorter.
        let block_ns = ((window.len_ns() + count - 1) / count).max(1);
        let seconds = window.len_s() / count as f64;
        let mut blocks = Vec::new();
        for index in 0..count {
            let from_ns = window.from_ns + index * block_ns;
            let unrecorded_ns = within_ns(unrecorded, from_ns, from_ns + block_ns);
            blocks.push(TimeBlock {
                seconds: (seconds - unrecorded_ns as f64 / 1e9).max(0.0),
                ..TimeBlock::default()
            });
        }
        Blocks {
            from_ns: window.from_ns,
            block_ns,
            blocks,
            buckets: 0..0,
        }
    }

    /// Adds an I/O that completed in the window.
    pub(super) fn add(&mut self, io: &Io) {
        let index = (io.done_ns - self.from_ns) / self.block_ns;
        let Some(block) = self.blocks.get_mut(index.max(0) as usize) else {
            return;
        };
        let latency_ns = io.total_ns().max(0);
        block.ios += 1;
        block.bytes += io.bytes.max(0) as u64;
        block.latency_sum_ns += i128::from(latency_ns);
        let bucket = Histogram::index(latency_ns);
        *block.latencies.entry(bucket).or_default() += 1;
        self.buckets = joined(&self.buckets, &(bucket..bucket + 1));
    }

    /// All I/Os.
    pub(super) fn ios(&self) -> u64 {
        self.blocks.iter().map(|block| block.ios).sum()
    }

    /// Number of blocks.
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Number of blocks with recorded time.
    pub(super) fn recorded(&self) -> usize {
        let recorded = self.blocks.iter().filter(|block| block.seconds > 0.0);
        recorded.count()
    }

    /// The selection that has each block once.
    pub(super) fn each_once(&self) -> Vec<u32> {
        vec![1; self.blocks.len()]
    }

    /// Draws as many blocks as there are, with replacement. Returns how often each was drawn.
    pub(super) fn draw(&self, random: &mut Shuffler) -> Vec<u32> {
        let mut times = vec![0; self.blocks.len()];
        for _ in 0..self.blocks.len() {
            times[random.below(self.blocks.len() as u64) as usize] += 1;
        }
        times
    }

    /// The blocks of both, as if they belonged to one time range.
    pub(super) fn joined(&self, other: &Blocks) -> Blocks {
        let mut all = self.clone();
        all.blocks.extend(other.blocks.iter().cloned());
        all.buckets = joined(&self.buckets, &other.buckets);
        all
    }

    /// The measures of a selection in which block `i` counts `times[i]` times.
    pub(super) fn values(&self, times: &[u32]) -> MeasureValues {
        let mut total = TimeBlock::default();
        let mut latencies = vec![0; self.buckets.len()];
        for (block, times) in self.blocks.iter().zip(times) {
            let times = u64::from(*times);
            if times == 0 {
                continue;
            }
            total.seconds += block.seconds * times as f64;
            total.ios += block.ios * times;
            total.bytes += block.bytes * times;
            total.latency_sum_ns += block.latency_sum_ns * i128::from(times);
            for (bucket, count) in &block.latencies {
                latencies[bucket - self.buckets.start] += count * times;
            }
        }
        let mut values = [None; Measure::ALL.len()];
        if total.seconds > 0.0 {
            values[Measure::IosPerS as usize] = Some(total.ios as f64 / total.seconds);
            values[Measure::BytesPerS as usize] = Some(total.bytes as f64 / total.seconds);
        }
        if total.ios > 0 {
            let mean_ns = total.latency_sum_ns as f64 / total.ios as f64;
            values[Measure::MeanUs as usize] = Some(mean_ns / 1e3);
        }
        self.add_quantiles(&mut values, &latencies, total.ios);
        MeasureValues(values)
    }

    /// Adds the quantiles that have enough I/Os: the value of rank `q n`, interpolated as if the values within a bucket
    /// were spread evenly.
    fn add_quantiles(&self, values: &mut [Option<f64>], latencies: &[u64], ios: u64) {
        let mut wanted = Measure::ALL
            .into_iter()
            .filter_map(|measure| Some((measure, measure.quantile()?)))
            .filter(|(measure, _)| ios >= measure.min_ios())
            .peekable();
        let mut below = 0.0;
        for (index, count) in latencies.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            let count = *count as f64;
            // Several quantiles can fall into one bucket; they are ordered.
            while let Some((measure, q)) = wanted.peek() {
                let rank = q * ios as f64;
                if below + count < rank {
                    break;
                }
                let (low_ns, high_ns) = Histogram::bounds(self.buckets.start + index);
                let share = (rank - below) / count;
                let value_ns = low_ns as f64 + (high_ns - low_ns) as f64 * share;
                values[*measure as usize] = Some(value_ns / 1e3);
                wanted.next();
            }
            below += count;
        }
    }
}

/// The range from the beginning of the first to the end of the last.
fn joined(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    if one.is_empty() {
        return other.clone();
    }
    if other.is_empty() {
        return one.clone();
    }
    one.start.min(other.start)..one.end.max(other.end)
}
