//! Latencies, sizes and concurrency over the whole window.

use super::completions::log_row;
use crate::model::{Class, Histogram, Io, SECTOR_BYTES};

/// A part of an I/O's time.
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
    /// Latencies in nanoseconds by class and stage; of `Queue` only I/Os whose start is known.
    pub latency: [[Histogram; 3]; 4],
    /// Sizes by class: bucket `k` holds `[2^k, 2^(k+1))` bytes. I/Os without data are not in it.
    pub size: [Vec<SizeBucket>; 4],
    /// Nanoseconds with exactly `k` I/Os in flight, by k: of any class, of reads, of writes (A3).
    pub concurrency: [Vec<i64>; 3],
}

impl Distributions {
    pub(super) fn add(&mut self, io: &Io) {
        let class = io.class();
        let latency = &mut self.latency[class as usize];
        latency[Stage::Total as usize].add(io.total_ns());
        latency[Stage::Device as usize].add(io.device_ns);
        if let Some(queue_ns) = io.queue_ns {
            latency[Stage::Queue as usize].add(queue_ns);
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

    /// Counts of one class and stage by buckets of 1/8 octave: bucket `k` holds `[2^(k/8), 2^((k+1)/8))` ns; ascending,
    /// filled ones only.
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
