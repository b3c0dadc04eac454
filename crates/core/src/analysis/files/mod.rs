//! File-level requests: where a program's I/O time goes (A3 to A12 of requests, A23). One module per question.

pub mod page_cache;

pub mod answers;
pub mod atomic;
pub mod calls;
pub mod gap;
pub mod load;
pub mod overhead;
pub mod report;
pub mod size;
pub mod syncs;
pub mod timeline;

pub use answers::{By, ClassReport, FilesReport, Group, SlowRequest};
pub use report::FilesReportBuilder;

use crate::analysis::math::stats::nearest_rank;

/// The median of all tables of requests: nearest rank, as for their other quantiles. Then a part of each request
/// never has a larger median than the whole.
fn median(values: &mut [f64]) -> Option<f64> {
    nearest_rank(values, 0.5)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::size::SizePoint;

    /// A small seeded generator.
    pub struct Rng(crate::analysis::math::stats::Shuffler);

    impl Rng {
        pub fn new(seed: u64) -> Rng {
            Rng(crate::analysis::math::stats::Shuffler::new(
                seed.wrapping_mul(0x9e37_79b9) ^ 0x5eed,
            ))
        }

        /// In (0, 1).
        pub fn uniform(&mut self) -> f64 {
            ((self.0.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }
    }

    /// `n` requests of sizes uniform in 1..=`most`, each taking `overhead_ns` and `io_ns` for every `block` bytes, all
    /// times with noise of 10 %, and one in a hundred ten times as long.
    pub fn simulated(
        seed: u64,
        n: usize,
        block: i64,
        overhead_ns: f64,
        io_ns: f64,
        most: i64,
    ) -> Vec<SizePoint> {
        let mut random = Rng::new(seed);
        (0..n)
            .map(|_| {
                let bytes = 1 + (random.uniform() * most as f64) as i64;
                let slow = if random.uniform() < 0.01 { 10.0 } else { 1.0 };
                let mut noisy = |ns: f64| slow * ns * (0.9 + 0.2 * random.uniform());
                let first = noisy(overhead_ns + io_ns);
                let later: f64 = (1..(bytes + block - 1) / block).map(|_| noisy(io_ns)).sum();
                SizePoint {
                    bytes,
                    total_ns: (first + later) as i64,
                    first_ns: first as i64,
                }
            })
            .collect()
    }
}
