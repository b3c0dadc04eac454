//! Throughput, latency, concurrency and busy time of each device in windows of 100 ms or more (input of A18).
//!
//! Windows are bins of `stream/kept_slots.rs`, as those of `device/attribution.rs` are.

use serde::Serialize;

use crate::analysis::stream::kept_slots::{KeptSlots, SlotCursor, SlotMeasure};
use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::window::Window;

/// Sums of one window of one device. Sums of times are whole numbers, exact below 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LoadSums {
    ios: u32,
    bytes: u64,
    total_ns: f64,
    area_ns: f64,
    busy_ns: i64,
}

/// One window of one device, as rates.
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
    /// Percent of time with at least one I/O in flight (U).
    pub busy_percent: f64,
}

/// The windows of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Beginning of the first window.
    pub from_ns: i64,
    /// Length of each.
    pub len_ns: i64,
    /// Number of windows, with I/O or without.
    pub windows: usize,
    /// The windows with anything in flight or completed, in order of time.
    pub points: Vec<LoadPoint>,
}

impl Load {
    /// Index of `point` among all windows.
    pub fn index(&self, point: &LoadPoint) -> usize {
        ((point.from_ns - self.from_ns) / self.len_ns.max(1)).max(0) as usize
    }
}

/// Accumulates [`LoadPoint`]s of one device, swept in the order of time. When windows become too many, pairs are joined.
#[derive(Debug, Clone)]
pub struct LoadWindows {
    window: Window,
    level: i64,
    since_ns: i64,
    sums: KeptSlots<LoadSums>,
    /// Position of the sweep, and of completions.
    swept: SlotCursor,
    completed: SlotCursor,
}

impl LoadWindows {
    /// Shortest window: 100 ms.
    pub const MIN_NS: i64 = 100_000_000;

    /// Maximum number of windows: 3.6 hours at 100 ms. Beyond it their length doubles.
    pub const MAX_WINDOWS: i64 = 1 << 17;

    /// Over `window`.
    pub fn new(window: Window) -> LoadWindows {
        LoadWindows {
            window,
            level: 0,
            since_ns: window.from_ns,
            sums: KeptSlots::new(window.from_ns, Self::MIN_NS, Self::MAX_WINDOWS),
            swept: SlotCursor::new(),
            completed: SlotCursor::new(),
        }
    }

    /// Number of windows kept.
    pub fn kept(&self) -> usize {
        self.sums.len()
    }

    /// Doubles the length of windows.
    pub fn halve(&mut self) {
        self.sums.halve();
    }

    fn advance(&mut self, to_ns: i64) {
        let to_ns = to_ns.min(self.window.to_ns);
        if self.level <= 0 {
            self.since_ns = self.since_ns.max(to_ns);
            return;
        }
        while self.since_ns < to_ns {
            let sums = self.sums.at(self.since_ns, &mut self.swept);
            let until = to_ns.min(self.swept.end_ns());
            sums.area_ns += self.level as f64 * (until - self.since_ns) as f64;
            sums.busy_ns += until - self.since_ns;
            self.since_ns = until;
        }
    }

    /// Adds a completed I/O to the window of its completion.
    pub fn complete(&mut self, done_ns: i64, bytes: i64, total_ns: i64) {
        if self.window.contains(done_ns) {
            let sums = self.sums.at(done_ns, &mut self.completed);
            sums.ios += 1;
            sums.bytes += bytes.max(0) as u64;
            sums.total_ns += total_ns as f64;
        }
    }

    /// The complete windows.
    pub fn finish(mut self, window: Window) -> Load {
        self.window = window;
        self.advance(window.to_ns);
        let len_ns = self.sums.width_ns();
        let windows = (window.len_ns() / len_ns) as usize;
        let from_ns = window.from_ns;
        let s = len_ns as f64 / 1e9;
        let mut points = Vec::new();
        for (number, w) in self.sums.before(windows as u32) {
            points.push(LoadPoint {
                from_ns: from_ns + i64::from(number) * len_ns,
                len_ns,
                ios_per_s: f64::from(w.ios) / s,
                bytes_per_s: w.bytes as f64 / s,
                mean_us: (w.ios > 0).then(|| w.total_ns / f64::from(w.ios) / 1e3),
                in_flight: w.area_ns / len_ns as f64,
                busy_percent: 100.0 * w.busy_ns as f64 / len_ns as f64,
            });
        }
        Load {
            from_ns,
            len_ns,
            windows,
            points,
        }
    }
}

impl SlotMeasure for LoadSums {
    fn add(&mut self, other: &LoadSums) {
        self.ios = self.ios.saturating_add(other.ios);
        self.bytes += other.bytes;
        self.total_ns += other.total_ns;
        self.area_ns += other.area_ns;
        self.busy_ns += other.busy_ns;
    }
}

impl Sweep for LoadWindows {
    fn start(&mut self, span: &Span) {
        self.advance(span.start_ns);
        self.level += 1;
    }

    fn done(&mut self, end: &End) {
        self.advance(end.at_ns);
        self.level -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Class;

    #[test]
    fn windows_hold_rates_and_littles_law() {
        let mut w = LoadWindows::new(Window::OPEN);
        // 10 ms of service each 20 ms: X = 50/s, R = 10 ms, L = 0.5, U = 50 %.
        for i in 0..50 {
            let start_ns = i * 20_000_000;
            let span = Span {
                start_ns,
                done_ns: start_ns + 10_000_000,
                sector: -1,
                sectors: 8,
                key: 0,
                class: Class::Read,
                waited_us: 0,
            };
            w.start(&span);
            w.done(&End::of(&span));
            w.complete(span.done_ns, 4096, 10_000_000);
        }
        let load = w.finish(Window::new(0, 1_050_000_000));
        assert_eq!(
            (load.windows, load.points.len()),
            (10, 10),
            "half a window is none"
        );
        for p in load.points {
            assert_eq!(
                (p.ios_per_s, p.mean_us, p.in_flight, p.busy_percent),
                (50.0, Some(10_000.0), 0.5, 50.0)
            );
        }
    }

    #[test]
    fn a_long_recording_has_longer_windows() {
        let mut w = LoadWindows::new(Window::OPEN);
        for i in 0..20 {
            w.complete(i * 1000 * 1_000_000_000, 512, 1000);
        }
        let load = w.finish(Window::new(0, 20_000_000_000_000));
        assert_eq!(
            (load.windows, load.points.len()),
            (100_000, 20),
            "windows without I/O take no room"
        );
        assert_eq!(load.index(&load.points[1]), 5000);
        let points = load.points;
        assert_eq!(points[0].len_ns, 200_000_000);
        assert_eq!(
            points
                .iter()
                .map(|p| p.ios_per_s * 0.2)
                .sum::<f64>()
                .round() as u64,
            20
        );
    }
}
