//! A6: to which time does an I/O belong, that of its completion or that of its arrival?
//!
//! By completion (as `iostat` and the zoom do) a burst's latencies appear late; by arrival they appear where the burst
//! hit. Both are kept; where they differ much, a report should say so.

use serde::Serialize;

use super::last_slot::LastSlot;
use super::timeline::Flow;
use super::window::Window;
use crate::model::Io;

/// One bin in both attributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Bin {
    /// I/Os that completed in it.
    pub completed: Flow,
    /// I/Os that began in it (and completed inside the window).
    pub arrived: Flow,
}

impl Bin {
    /// Whether rate or mean latency differ by more than 10 % between the two.
    pub fn differs(&self) -> bool {
        let apart = |a: f64, b: f64| (a - b).abs() > 0.1 * a.max(b);
        let means = self.completed.mean_us().zip(self.arrived.mean_us());
        apart(self.completed.ios as f64, self.arrived.ios as f64) || means.is_none_or(|(a, b)| apart(a, b))
    }
}

/// What [`Attribution`] says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttributionSummary {
    /// Width of a bin in nanoseconds.
    pub bin_ns: i64,
    /// The bins, from the window's beginning.
    pub bins: Vec<Bin>,
    /// Percent of the bins with I/O in which the two differ by more than 10 %; `None` without I/O.
    pub differ_percent: Option<f64>,
}

/// Accumulates both attributions in bins of a second, which double when they become too many.
#[derive(Debug, Clone)]
pub struct Attribution {
    window: Window,
    bin_ns: i64,
    bins: Vec<Bin>,
    completed: LastSlot,
    arrived: LastSlot,
}

impl Attribution {
    const MOST: usize = 1 << 15;

    /// Over `window`.
    pub fn new(window: Window) -> Attribution {
        let (completed, arrived) = (LastSlot::new(), LastSlot::new());
        Attribution { window, bin_ns: 1_000_000_000, bins: Vec::new(), completed, arrived }
    }

    /// An I/O completes inside the window.
    pub fn push(&mut self, io: &Io) {
        let flow = Flow { ios: 1, bytes: io.bytes.max(0) as u64, total_ns: io.total_ns() };
        let i = self.completed.index(io.done_ns, self.window.from_ns, self.bin_ns);
        self.at(i).completed.add(&flow);
        let start_ns = io.start_ns();
        if start_ns >= self.window.from_ns {
            let i = self.arrived.index(start_ns, self.window.from_ns, self.bin_ns);
            self.at(i).arrived.add(&flow);
        }
    }

    /// The bin that is number `i` now.
    fn at(&mut self, i: i64) -> &mut Bin {
        let mut i = i.max(0) as usize;
        if i >= self.bins.len() {
            i = self.room(i);
        }
        &mut self.bins[i]
    }

    /// Makes room for bin `i`, joining pairs when they become too many; its number then.
    fn room(&mut self, mut i: usize) -> usize {
        while i >= Self::MOST {
            let join = |pair: &[Bin]| {
                pair.iter().fold(Bin::default(), |mut sum, b| {
                    sum.completed.add(&b.completed);
                    sum.arrived.add(&b.arrived);
                    sum
                })
            };
            self.bins = self.bins.chunks(2).map(join).collect();
            self.bin_ns *= 2;
            i /= 2;
            (self.completed, self.arrived) = (LastSlot::new(), LastSlot::new());
        }
        if i >= self.bins.len() {
            self.bins.resize(i + 1, Bin::default());
        }
        i
    }

    /// The bins up to the end of `window`.
    pub fn finish(mut self, window: Window) -> AttributionSummary {
        let bins = (window.len_ns() as u64).div_ceil(self.bin_ns as u64) as usize;
        self.bins.resize(bins, Bin::default());
        let busy = self.bins.iter().filter(|b| b.completed.ios + b.arrived.ios > 0);
        let differ = busy.clone().filter(|b| b.differs()).count();
        let n = busy.count();
        AttributionSummary {
            bin_ns: self.bin_ns,
            differ_percent: (n > 0).then(|| 100.0 * differ as f64 / n as f64),
            bins: self.bins,
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
        let ios: Vec<_> = s.bins.iter().map(|b| (b.completed.ios, b.arrived.ios)).collect();
        assert_eq!(ios, [(1, 1), (0, 1), (0, 0), (1, 0)]);
        assert_eq!(s.differ_percent.map(f64::round), Some(67.0));
    }

    #[test]
    fn many_seconds_make_wider_bins() {
        let mut a = Attribution::new(Window::OPEN);
        (0..100_000).for_each(|i| a.push(&Io::new(i * S + 7, DevId(1), Op::READ, 512, Some(0), 5)));
        let s = a.finish(Window::new(0, 100_000 * S));
        assert_eq!((s.bin_ns, s.bins.len(), s.differ_percent), (4 * S, 25_000, Some(0.0)));
        assert_eq!(s.bins.iter().map(|b| b.completed.ios).sum::<u64>(), 100_000);
    }
}
