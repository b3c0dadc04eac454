//! Latency over time, with each I/O counted at its completion and at its arrival (A6).
//!
//! Counted at completion, as `iostat` and the zoom do, the latencies of a burst appear late. Counted at arrival they
//! appear where the burst began. Both are kept, and a report says where they differ much.

use serde::Serialize;

use crate::analysis::stream::kept_slots::{KeptSlots, SlotCursor, SlotMeasure};
use crate::analysis::stream::window::Window;
use crate::analysis::timeline::Flow;
use crate::model::{Io, SECOND_NS};

/// One bin, counted both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Bin {
    /// I/Os that completed in it.
    pub completed: Flow,
    /// I/Os that started in it (and completed inside the window).
    pub arrived: Flow,
}

impl SlotMeasure for Bin {
    fn add(&mut self, other: &Bin) {
        self.completed.add(&other.completed);
        self.arrived.add(&other.arrived);
    }
}

impl Bin {
    /// Whether rate or mean latency differ by more than 10 % between the two.
    pub fn differs(&self) -> bool {
        let means = self.completed.mean_us().zip(self.arrived.mean_us());
        are_apart(self.completed.ios as f64, self.arrived.ios as f64)
            || means.is_none_or(|(a, b)| are_apart(a, b))
    }
}

fn are_apart(a: f64, b: f64) -> bool {
    (a - b).abs() > 0.1 * a.max(b)
}

/// Summary of [`Attribution`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttributionSummary {
    /// Width of a bin in nanoseconds.
    pub bin_ns: i64,
    /// Number of bins, including those without I/O.
    pub all: usize,
    /// Bins with I/O, each with its index from the window's start.
    pub bins: Vec<(u32, Bin)>,
    /// Percent of the bins with I/O in which the two differ by more than 10 %; `None` without I/O.
    pub differ_percent: Option<f64>,
}

impl AttributionSummary {
    /// All bins, including those without I/O.
    pub fn dense(&self) -> Vec<Bin> {
        let mut dense = vec![Bin::default(); self.all];
        self.bins
            .iter()
            .for_each(|(i, bin)| dense[*i as usize] = *bin);
        dense
    }
}

/// Accumulates both attributions in bins of one second. When there are too many bins, their width doubles.
#[derive(Debug, Clone)]
pub struct Attribution {
    window: Window,
    bins: KeptSlots<Bin>,
    completed: SlotCursor,
    arrived: SlotCursor,
}

impl Attribution {
    const MAX_BINS: i64 = 1 << 15;

    /// Over `window`.
    pub fn new(window: Window) -> Attribution {
        Attribution {
            window,
            bins: KeptSlots::new(window.from_ns, SECOND_NS, Self::MAX_BINS),
            completed: SlotCursor::new(),
            arrived: SlotCursor::new(),
        }
    }

    /// An I/O completes inside the window.
    pub fn push(&mut self, io: &Io) {
        let flow = Flow::of(io);
        let bin = self.bins.at(io.done_ns, &mut self.completed);
        bin.completed.add(&flow);
        let start_ns = io.start_ns();
        if start_ns >= self.window.from_ns {
            let bin = self.bins.at(start_ns, &mut self.arrived);
            bin.arrived.add(&flow);
        }
    }

    /// Number of bins kept.
    pub fn kept(&self) -> usize {
        self.bins.len()
    }

    /// Doubles the width of bins.
    pub fn halve(&mut self) {
        self.bins.halve();
    }

    /// The bins up to the end of `window`.
    pub fn finish(self, window: Window) -> AttributionSummary {
        let bin_ns = self.bins.width_ns();
        let all = (window.len_ns() as u64).div_ceil(bin_ns as u64) as usize;
        let bins = self.bins.before(all as u32);
        let differ = bins.iter().filter(|(_, b)| b.differs()).count();
        let n = bins.len();
        AttributionSummary {
            bin_ns,
            differ_percent: (n > 0).then(|| 100.0 * differ as f64 / n as f64),
            all,
            bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Op};

    const S: i64 = 1_000_000_000;

    #[test]
    fn a_stall_belongs_to_two_times() {
        let mut a = Attribution::new(Window::OPEN);
        // One at once, one that hangs from second 1 to second 3.
        a.push(&Io::new(S / 2, DevId(1), Op::READ, 512, Some(0), S / 10));
        a.push(&Io::new(3 * S + 1, DevId(1), Op::READ, 512, Some(0), 2 * S));
        let s = a.finish(Window::new(0, 4 * S));
        let ios: Vec<_> = s
            .dense()
            .iter()
            .map(|b| (b.completed.ios, b.arrived.ios))
            .collect();
        assert_eq!(ios, [(1, 1), (0, 1), (0, 0), (1, 0)]);
        assert_eq!(s.differ_percent.map(f64::round), Some(67.0));
    }

    #[test]
    fn many_seconds_make_wider_bins() {
        let mut a = Attribution::new(Window::OPEN);
        (0..100_000).for_each(|i| a.push(&Io::new(i * S + 7, DevId(1), Op::READ, 512, Some(0), 5)));
        let s = a.finish(Window::new(0, 100_000 * S));
        assert_eq!(
            (s.bin_ns, s.all, s.differ_percent),
            (4 * S, 25_000, Some(0.0))
        );
        assert_eq!(
            s.bins.iter().map(|b| b.1.completed.ios).sum::<u64>(),
            100_000
        );
    }
}
