//! Throughput with the bytes of each I/O spread evenly over its device time (issue to completion).
//!
//! A device that completes 134 MB in one interrupt did not move them at that instant; bins of completions would show
//! rates that no device reaches. Each I/O changes the rate twice, so its cost does not depend on the number of bins
//! that it spans. Rates are integers (2^-20 bytes per nanosecond), so sums are exact.

use crate::analysis::stream::window::Window;
use crate::model::Io;

/// Fractional bits of bytes and rates.
const PLACES: u32 = 20;

/// How the bytes of an I/O are spread over time.
#[derive(Debug, Clone, Copy)]
pub(in crate::analysis) struct Flow {
    /// Issue.
    pub from_ns: i64,
    /// Completion.
    pub to_ns: i64,
    /// Rate between them, and the remainder at the end that integer rates leave.
    per_ns: i64,
    rest: i64,
}

impl Flow {
    /// The flow of `io`; all bytes at once if its device time is not known.
    #[inline]
    pub fn of(io: &Io) -> Flow {
        let to_ns = io.done_ns;
        let bytes = io.bytes.max(0) << PLACES;
        let from_ns = io.issue_ns().min(to_ns);
        let per_ns = if from_ns < to_ns {
            bytes / (to_ns - from_ns)
        } else {
            0
        };
        Flow {
            from_ns,
            to_ns,
            per_ns,
            rest: bytes - per_ns * (to_ns - from_ns),
        }
    }

    /// Its share of the bin that contains the issue and ends at `bin_end_ns`.
    pub fn begin(&self, bin_end_ns: i64) -> Edge {
        Edge {
            here: self
                .per_ns
                .wrapping_mul(bin_end_ns.wrapping_sub(self.from_ns)),
            slope: self.per_ns,
        }
    }

    /// Its share of the bin that contains the completion and ends at `bin_end_ns`.
    pub fn end(&self, bin_end_ns: i64) -> Edge {
        let after = self
            .per_ns
            .wrapping_mul(bin_end_ns.wrapping_sub(self.to_ns));
        Edge {
            here: self.rest.wrapping_sub(after),
            slope: -self.per_ns,
        }
    }

    /// The part inside `window`; `None` if there is none.
    pub fn within(mut self, window: Window) -> Option<Flow> {
        if self.to_ns < window.from_ns || self.from_ns >= window.to_ns {
            return None;
        }
        self.from_ns = self.from_ns.max(window.from_ns);
        if self.to_ns >= window.to_ns {
            self.to_ns = window.to_ns;
            self.rest = 0;
        }
        Some(self)
    }
}

/// Changes caused by the I/Os that begin or end in a bin: bytes in the bin itself, and the rate from its end on.
/// Intermediate sums may wrap; the bytes of a bin do not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::analysis) struct Edge {
    here: i64,
    slope: i64,
}

impl Edge {
    pub fn add(&mut self, other: Edge) {
        self.here = self.here.wrapping_add(other.here);
        self.slope = self.slope.wrapping_add(other.slope);
    }

    /// Extends the bin by `later_ns`.
    pub fn extend(&mut self, later_ns: i64) {
        self.here = self.here.wrapping_add(self.slope.wrapping_mul(later_ns));
    }
}

/// Computes the bytes of each bin from edges in time order.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::analysis) struct FlowLevel {
    rate: i64,
    sum: i64,
}

impl FlowLevel {
    /// Bytes of the next `ns` nanoseconds, a bin with this edge. Whole bytes; remainders carry over to the next bin.
    pub fn next(&mut self, edge: Edge, ns: i64) -> u64 {
        let sum = self
            .sum
            .wrapping_add(self.rate.wrapping_mul(ns))
            .wrapping_add(edge.here);
        self.rate = self.rate.wrapping_add(edge.slope);
        self.sum = sum & ((1 << PLACES) - 1);
        (sum >> PLACES).max(0) as u64
    }

    /// Whether nothing moves until the next edge.
    pub fn is_idle(&self) -> bool {
        self.rate == 0
    }

    /// Skips a bin before the first one of interest.
    pub fn start(&mut self, edge: Edge) {
        self.rate = self.rate.wrapping_add(edge.slope);
    }
}

/// A dense series of bins over a window.
#[derive(Debug, Clone)]
pub(in crate::analysis) struct Spread {
    window: Window,
    step_ns: i64,
    bins: Vec<Edge>,
}

impl Spread {
    pub fn new(window: Window, step_ns: i64) -> Spread {
        let bins = (window.len_ns() as u64).div_ceil(step_ns.max(1) as u64) as usize;
        Spread {
            window,
            step_ns,
            bins: vec![Edge::default(); bins],
        }
    }

    /// Adds an I/O. Its part outside of the window is left out.
    pub fn add(&mut self, io: &Io) {
        let Some(flow) = Flow::of(io).within(self.window) else {
            return;
        };
        let first = self.bin_at(flow.from_ns);
        let last = self.bin_at(flow.to_ns);
        for (i, edge) in [
            (first, flow.begin(self.end_ns(first))),
            (last, flow.end(self.end_ns(last))),
        ] {
            if let Some(bin) = self.bins.get_mut(i as usize) {
                bin.add(edge);
            }
        }
    }

    /// The bin that contains `ns`.
    fn bin_at(&self, ns: i64) -> i64 {
        (ns - self.window.from_ns) / self.step_ns
    }

    /// End of bin `i`.
    fn end_ns(&self, i: i64) -> i64 {
        self.window.from_ns + (i + 1) * self.step_ns
    }

    /// Bytes of each bin.
    pub fn bytes(&self) -> impl Iterator<Item = u64> {
        let mut level = FlowLevel::default();
        self.bins
            .iter()
            .map(move |edge| level.next(*edge, self.step_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Op};
    use proptest::prelude::*;

    fn io(done_ns: i64, device_ns: i64, bytes: i64) -> Io {
        Io::new(done_ns, DevId(1), Op::WRITE, bytes, None, device_ns)
    }

    #[test]
    fn one_batch_of_completions_is_no_rate() {
        // 512 writes of 256 KiB, 48 ms in the device, completed in one batch: 2.8 GB/s, not 134 MB in one millisecond.
        let mut spread = Spread::new(Window::new(0, 100_000_000), 1_000_000);
        (0..512).for_each(|_| spread.add(&io(48_000_000, 48_000_000, 256 << 10)));
        let bytes: Vec<u64> = spread.bytes().collect();
        assert_eq!(bytes.iter().sum::<u64>(), 512 * (256 << 10));
        assert!(
            bytes[..48]
                .iter()
                .all(|b| b.abs_diff((512 * (256 << 10)) / 48) <= 512),
            "{bytes:?}"
        );
        assert!(bytes[49..].iter().all(|b| *b == 0));
    }

    proptest! {
        #[test]
        fn bins_hold_their_share_and_all_together_everything(
            ios in prop::collection::vec((0i64..400, 0i64..300, 0i64..1_000_000), 1..40),
            step in 1i64..60,
        ) {
            let window = Window::new(100, 300);
            let mut spread = Spread::new(window, step);
            ios.iter().for_each(|(done, device, bytes)| spread.add(&io(*done, *device, *bytes)));
            for (i, got) in spread.bytes().enumerate() {
                let from = 100 + i as i64 * step;
                let to = (100 + (i as i64 + 1) * step).min(300);
                let share = |(done, device, bytes): &(i64, i64, i64)| match *device {
                    0 => if from <= *done && *done < to { *bytes as f64 } else { 0.0 },
                    _ => {
                        let inside = (done.min(&to) - (done - device).max(from)).max(0);
                        *bytes as f64 * inside as f64 / *device as f64
                    }
                };
                let expected: f64 = ios.iter().map(share).sum();
                prop_assert!((got as f64 - expected).abs() <= 1.0 + ios.len() as f64 * 0.01, "{} for {}", got, expected);
            }
        }
    }
}
