//! The load of a mix of I/Os of different sizes and classes, as a share of what the device can serve (A18).
//!
//! An I/O of class i and size s costs `a_i + b_i s` of server time. The coefficients are estimated from the
//! recording: least squares over the I/Os that were issued while no other was in flight, so that their device time is
//! only their own service time (the model of the kernel's `io.cost`, per class).

use serde::Serialize;

use crate::analysis::stream::order::Span;
use crate::analysis::stream::window::Window;
use crate::model::{Class, SECTOR_BYTES};

/// Minimum number of I/Os alone on the device from which their cost is estimated.
const MIN_ALONE: u64 = 30;

/// Cost of one I/O of a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Server time per I/O, in microseconds.
    pub per_io_us: f64,
    /// Server time per KiB, in microseconds; 0 if all sizes were the same.
    pub per_kib_us: f64,
    /// Number of I/Os alone on the device from which this is estimated.
    pub n: u64,
}

impl Cost {
    /// Server time of `ios` I/Os of `bytes` in total, in microseconds.
    pub fn time_us(&self, ios: f64, bytes: f64) -> f64 {
        ios * self.per_io_us + bytes / 1024.0 * self.per_kib_us
    }
}

/// `ρ_mix = Σ (X_i a_i + B_i b_i) / c`: the share of `servers` that the rates of all classes take, given as (I/Os,
/// bytes) per second. `None` if a class with I/O has no known cost.
pub fn load(rates: &[(f64, f64)], costs: &[Option<Cost>], servers: f64) -> Option<f64> {
    let mut sum_us = 0.0;
    for ((ios, bytes), cost) in rates.iter().zip(costs).filter(|((ios, _), _)| *ios > 0.0) {
        sum_us += (*cost)?.time_us(*ios, *bytes);
    }
    (servers > 0.0).then(|| sum_us / 1e6 / servers)
}

/// Sums of least squares of one class.
#[derive(Debug, Clone, Copy, Default)]
struct MixSums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl MixSums {
    fn cost(&self) -> Option<Cost> {
        if self.n < MIN_ALONE as f64 {
            return None;
        }
        let spread = self.xx - self.x * self.x / self.n;
        let varies = spread > 1e-6 * self.xx;
        let slope = if varies {
            (self.xy - self.x * self.y / self.n) / spread
        } else {
            0.0
        };
        let base = (self.y - slope * self.x) / self.n;
        // Costs are not negative. If one of the two would be, the other one explains everything.
        let (per_io_us, per_kib_us) = match (base, slope) {
            (_, s) if s < 0.0 || !varies => (self.y / self.n, 0.0),
            (b, _) if b < 0.0 => (0.0, self.y / self.x),
            both => both,
        };
        Some(Cost {
            per_io_us,
            per_kib_us,
            n: self.n as u64,
        })
    }
}

/// Measures the cost of I/Os that were alone on the device. Takes I/Os in the order of issue.
#[derive(Debug, Clone, Default)]
pub struct Alone {
    sums: [MixSums; 2],
}

impl Alone {
    /// An I/O is issued while `others` are in flight on the device. `span` is from issue to completion.
    pub fn issue(&mut self, span: &Span, others: i64, window: Window) {
        if others > 0 || !window.contains(span.done_ns) {
            return;
        }
        let Some(sums) = self.sums.get_mut(span.class as usize) else {
            return;
        };
        let kib = f64::from(span.sectors) * SECTOR_BYTES as f64 / 1024.0;
        let us = (span.done_ns - span.start_ns) as f64 / 1e3;
        sums.n += 1.0;
        sums.x += kib;
        sums.y += us;
        sums.xx += kib * kib;
        sums.xy += kib * us;
    }

    /// Costs of reads and of writes.
    pub fn finish(&self) -> [Option<Cost>; 2] {
        [Class::Read, Class::Write].map(|class| self.sums[class as usize].cost())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(at: i64, sectors: u32, class: Class, us: i64) -> Span {
        Span {
            start_ns: at,
            done_ns: at + us * 1000,
            sector: -1,
            sectors,
            key: 0,
            class,
            waited_us: 0,
        }
    }

    #[test]
    fn coefficients_of_a_known_device_are_recovered() {
        let mut alone = Alone::default();
        for i in 0..200i64 {
            // 100 us and 2 us per KiB to read, 50 us whatever the size (all are equal) to write; queued ones say nothing.
            let kib = 4 << (i % 5);
            alone.issue(
                &span(i, kib as u32 * 2, Class::Read, 100 + 2 * kib),
                0,
                Window::OPEN,
            );
            alone.issue(&span(i, 8, Class::Write, 50), 0, Window::OPEN);
            alone.issue(&span(i, 8, Class::Read, 90_000), 1, Window::OPEN);
        }
        let [read, write] = alone.finish().map(|c| c.expect("enough"));
        assert!(
            (read.per_io_us - 100.0).abs() < 1e-6 && (read.per_kib_us - 2.0).abs() < 1e-9,
            "{read:?}"
        );
        assert_eq!(
            (write.per_io_us, write.per_kib_us, write.n),
            (50.0, 0.0, 200)
        );
        // 1000 reads of 4 KiB and 2000 writes a second: 0.108 + 0.1 of one server.
        let rho = load(
            &[(1000.0, 4096e3), (2000.0, 1.0)],
            &[Some(read), Some(write)],
            1.0,
        )
        .expect("known");
        assert!((rho - 0.208).abs() < 1e-6, "{rho}");
        assert_eq!(load(&[(1.0, 1.0), (0.0, 0.0)], &[None, None], 1.0), None);
        assert!(load(&[(1.0, 1.0), (0.0, 0.0)], &[Some(read), None], 2.0).is_some());
    }

    #[test]
    fn few_are_not_enough() {
        let mut alone = Alone::default();
        (0..29).for_each(|i| alone.issue(&span(i, 8, Class::Read, 5), 0, Window::OPEN));
        assert_eq!(alone.finish(), [None, None]);
    }
}
