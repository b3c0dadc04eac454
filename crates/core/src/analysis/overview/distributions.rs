//! Distributions of latency, size and concurrency over the whole window.

use super::completions::log_row;
use crate::analysis::stream::latencies::Latencies;
use crate::model::{Class, Histogram, Io, SECTOR_BYTES};

/// A stage of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Start to done (S2C).
    Total,
    /// Start to issue: the kernel's queues.
    Queue,
    /// Issue to done (D2C): driver and device.
    Device,
}

impl Stage {
    /// All stages; `stage as usize` indexes [`Distributions::latency`].
    pub const ALL: [Stage; 3] = [Stage::Total, Stage::Queue, Stage::Device];
}

/// I/Os of one size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeBucket {
    /// How many.
    pub ios: u64,
    /// Sectors of 512 bytes that they moved.
    pub sectors: u64,
}

/// Distributions of one scope over the whole window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Distributions {
    /// Latencies in nanoseconds by class and stage. `Queue` covers only I/Os with a known start.
    pub latency: [[Histogram; 3]; 4],
    /// 50th, 90th and 99th percentile (nearest rank) in microseconds by class and stage, as shown in tables. Exact for
    /// up to [`Latencies::EXACT`] I/Os, otherwise within 1/256.
    pub percentiles_us: [[Option<[f64; 3]>; 3]; 4],
    /// Sizes by class: bucket `k` holds `[2^k, 2^(k+1))` bytes. I/Os without data are not in it.
    pub size: [Vec<SizeBucket>; 4],
    /// Nanoseconds with exactly `k` I/Os in flight, indexed by k: of any class, of reads, of writes (A3).
    pub concurrency: [Vec<i64>; 3],
}

/// The individual latencies of a scope, as long as they are few enough for exact percentiles; by class and stage.
pub(super) type ExactLatencies = [[Latencies; 3]; 4];

impl Distributions {
    pub(super) fn add(&mut self, io: &Io, exact: &mut ExactLatencies) {
        let class = io.class();
        let stages = [Some(io.total_ns()), io.queue_ns, Some(io.device_ns)];
        let exact = exact[class as usize].iter_mut();
        for ((latency, exact), ns) in self.latency[class as usize]
            .iter_mut()
            .zip(exact)
            .zip(stages)
        {
            let Some(ns) = ns else { continue };
            latency.add(ns);
            if latency.n() <= Latencies::EXACT as u64 {
                exact.add(ns);
            }
        }
        if io.bytes > 0 {
            let size = &mut self.size[class as usize];
            let bucket = io.bytes.ilog2() as usize;
            if bucket >= size.len() {
                size.resize(bucket + 1, SizeBucket::default());
            }
            size[bucket].ios += 1;
            size[bucket].sectors += (io.bytes / SECTOR_BYTES) as u64;
        }
    }

    /// Computes the percentiles, from `exact` if it still has all values.
    pub(super) fn settle(&mut self, exact: &mut ExactLatencies) {
        for (class, exact) in exact.iter_mut().enumerate() {
            for (stage, exact) in exact.iter_mut().enumerate() {
                let all = &self.latency[class][stage];
                let is_exact = all.n() == exact.n();
                let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|q| match is_exact {
                    true => exact.quantile_us(q),
                    false => all.quantile(q).map(|ns| ns as f64 / 1e3),
                });
                self.percentiles_us[class][stage] = p50
                    .zip(p90)
                    .zip(p99)
                    .map(|((p50, p90), p99)| [p50, p90, p99]);
            }
        }
    }

    /// Non-empty buckets of 1/8 octave with their counts, for one class and stage, in ascending order. Bucket `k` holds
    /// `[2^(k/8), 2^((k+1)/8))` ns.
    pub fn latency_buckets(&self, class: Class, stage: Stage) -> Vec<(u32, u64)> {
        let mut out: Vec<(u32, u64)> = Vec::new();
        for (low, _, count) in self.latency[class as usize][stage as usize].buckets() {
            let bucket = log_row(low, 8);
            match out.last_mut() {
                Some((last, sum)) if *last == bucket => *sum += count,
                _ => out.push((bucket, count)),
            }
        }
        out
    }
}
