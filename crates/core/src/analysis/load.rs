//! A18's ground: throughput, latency, concurrency and busy time of each device in windows of 100 ms or more.

use serde::Serialize;

use super::last_slot::LastSlot;
use super::order::{Span, Sweep};
use super::window::Window;
use crate::model::Class;

/// One window of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sums {
    ios: u64,
    bytes: u64,
    total_ns: i128,
    area_ns: i128,
    busy_ns: i64,
}

/// One window as rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LoadPoint {
    /// Beginning, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Length.
    pub len_ns: i64,
    /// I/Os completed per second (X).
    pub ios_per_s: f64,
    /// Bytes completed per second.
    pub bytes_per_s: f64,
    /// Mean latency of those that completed, in microseconds (R); `None` if none did.
    pub mean_us: Option<f64>,
    /// Mean number in flight (L).
    pub in_flight: f64,
    /// Percent of time with anything in flight (U).
    pub busy_percent: f64,
}

/// Accumulates [`LoadPoint`]s of one device, swept in the order of time. When windows become too many, pairs are joined.
#[derive(Debug, Clone)]
pub struct LoadWindows {
    window: Window,
    len_ns: i64,
    level: i64,
    since_ns: i64,
    sums: Vec<Sums>,
    /// Where the sweep is, and where completions are.
    swept: LastSlot,
    completed: LastSlot,
}

impl LoadWindows {
    /// Shortest window: 100 ms.
    pub const SHORTEST_NS: i64 = 100_000_000;

    /// Most windows: two to four hours at 100 ms.
    pub const MOST: usize = 1 << 17;

    /// Over `window`.
    pub fn new(window: Window) -> LoadWindows {
        LoadWindows {
            window,
            len_ns: Self::SHORTEST_NS,
            level: 0,
            since_ns: window.from_ns,
            sums: Vec::new(),
            swept: LastSlot::new(),
            completed: LastSlot::new(),
        }
    }

    /// Makes room for window `i`, joining pairs when they become too many; its number then.
    fn room(&mut self, mut i: usize) -> usize {
        while i >= Self::MOST {
            self.sums = self.sums.chunks(2).map(|pair| pair.iter().fold(Sums::default(), joined)).collect();
            self.len_ns *= 2;
            i /= 2;
            (self.swept, self.completed) = (LastSlot::new(), LastSlot::new());
        }
        if i >= self.sums.len() {
            self.sums.resize(i + 1, Sums::default());
        }
        i
    }

    fn advance(&mut self, to_ns: i64) {
        let to_ns = to_ns.min(self.window.to_ns);
        if self.level <= 0 {
            self.since_ns = self.since_ns.max(to_ns);
            return;
        }
        while self.since_ns < to_ns {
            let i = self.swept.index(self.since_ns, self.window.from_ns, self.len_ns) as usize;
            if i >= self.sums.len() {
                self.room(i);
                continue;
            }
            let until = to_ns.min(self.swept.end_ns());
            let sums = &mut self.sums[i];
            sums.area_ns += i128::from(self.level) * i128::from(until - self.since_ns);
            sums.busy_ns += until - self.since_ns;
            self.since_ns = until;
        }
    }

    /// An I/O completes: it counts in the window of its completion.
    pub fn complete(&mut self, done_ns: i64, bytes: i64, total_ns: i64) {
        if self.window.contains(done_ns) {
            let mut i = self.completed.index(done_ns, self.window.from_ns, self.len_ns) as usize;
            if i >= self.sums.len() {
                i = self.room(i);
            }
            let sums = &mut self.sums[i];
            sums.ios += 1;
            sums.bytes += bytes.max(0) as u64;
            sums.total_ns += i128::from(total_ns);
        }
    }

    /// The whole windows.
    pub fn finish(mut self, window: Window) -> Vec<LoadPoint> {
        self.window = window;
        self.advance(window.to_ns);
        let whole = (window.len_ns() / self.len_ns) as usize;
        self.sums.resize(whole, Sums::default());
        let (from_ns, len_ns) = (window.from_ns, self.len_ns);
        let s = len_ns as f64 / 1e9;
        let point = |(i, w): (usize, &Sums)| LoadPoint {
            from_ns: from_ns + i as i64 * len_ns,
            len_ns,
            ios_per_s: w.ios as f64 / s,
            bytes_per_s: w.bytes as f64 / s,
            mean_us: (w.ios > 0).then(|| w.total_ns as f64 / w.ios as f64 / 1e3),
            in_flight: w.area_ns as f64 / len_ns as f64,
            busy_percent: 100.0 * w.busy_ns as f64 / len_ns as f64,
        };
        self.sums.iter().enumerate().map(point).collect()
    }
}

fn joined(a: Sums, b: &Sums) -> Sums {
    Sums {
        ios: a.ios + b.ios,
        bytes: a.bytes + b.bytes,
        total_ns: a.total_ns + b.total_ns,
        area_ns: a.area_ns + b.area_ns,
        busy_ns: a.busy_ns + b.busy_ns,
    }
}

impl Sweep for LoadWindows {
    fn start(&mut self, span: &Span) {
        self.advance(span.start_ns);
        self.level += 1;
    }

    fn done(&mut self, at_ns: i64, _: u32, _: Class) {
        self.advance(at_ns);
        self.level -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_rates_and_littles_law() {
        let mut w = LoadWindows::new(Window::OPEN);
        // 10 ms of service each 20 ms: X = 50/s, R = 10 ms, L = 0.5, U = 50 %.
        for i in 0..50 {
            let start_ns = i * 20_000_000;
            let span =
                Span { start_ns, done_ns: start_ns + 10_000_000, sector: -1, sectors: 8, key: 0, class: Class::Read };
            w.start(&span);
            w.done(span.done_ns, 0, Class::Read);
            w.complete(span.done_ns, 4096, 10_000_000);
        }
        let points = w.finish(Window::new(0, 1_050_000_000));
        assert_eq!(points.len(), 10, "half a window is none");
        for p in points {
            assert_eq!((p.ios_per_s, p.mean_us, p.in_flight, p.busy_percent), (50.0, Some(10_000.0), 0.5, 50.0));
        }
    }

    #[test]
    fn a_long_recording_has_longer_windows() {
        let mut w = LoadWindows::new(Window::OPEN);
        for i in 0..20 {
            w.complete(i * 1000 * 1_000_000_000, 512, 1000);
        }
        let points = w.finish(Window::new(0, 20_000_000_000_000));
        assert_eq!(points[0].len_ns, 200_000_000);
        assert_eq!(points.iter().map(|p| p.ios_per_s * 0.2).sum::<f64>().round() as u64, 20);
    }
}
