//! The time range under study.

use std::ops::Range;

use serde::Serialize;

/// Half-open `[from_ns, to_ns)`, in nanoseconds since the recording's start.
///
/// In a running stream the end may be unknown: `to_ns` is `i64::MAX` until [`Window::closed_at`] sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    /// First instant inside the window.
    pub from_ns: i64,
    /// First instant after the window.
    pub to_ns: i64,
}

impl Window {
    /// From the recording's start to an end not known yet.
    pub const OPEN: Window = Window {
        from_ns: 0,
        to_ns: i64::MAX,
    };

    /// Time after a window, in nanoseconds. I/Os that start in it still serve to learn baselines: undisturbed latency,
    /// service times, usual pauses of a device.
    pub const LEARN_AFTER_NS: i64 = 1_000_000_000;

    /// `[from_ns, to_ns)`.
    pub fn new(from_ns: i64, to_ns: i64) -> Window {
        Window { from_ns, to_ns }
    }

    /// Whether the window contains `at_ns`.
    #[inline]
    pub fn contains(&self, at_ns: i64) -> bool {
        self.from_ns <= at_ns && at_ns < self.to_ns
    }

    /// I/Os that start at this time or later are ignored, so that results do not depend on how much is read beyond the
    /// window.
    pub fn learned_until_ns(&self) -> i64 {
        self.to_ns.saturating_add(Window::LEARN_AFTER_NS)
    }

    /// Length in nanoseconds; 0 for a window that ends before it begins.
    pub fn len_ns(&self) -> i64 {
        self.to_ns.saturating_sub(self.from_ns).max(0)
    }

    /// Length in seconds.
    pub fn len_s(&self) -> f64 {
        self.len_ns() as f64 / 1e9
    }

    /// This window with a known end: `end_ns` (the recording's end) if it was open, but never before the I/O that
    /// completed at `last_done_ns`.
    pub fn closed_at(&self, end_ns: i64, last_done_ns: Option<i64>) -> Window {
        if self.to_ns != i64::MAX {
            return *self;
        }
        let after_last = last_done_ns.map_or(i64::MIN, |t| t.saturating_add(1));
        Window {
            from_ns: self.from_ns,
            to_ns: end_ns.max(after_last).max(self.from_ns),
        }
    }
}

impl From<&Range<i64>> for Window {
    fn from(range: &Range<i64>) -> Window {
        Window::new(range.start, range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_window_closes_after_the_last_completion() {
        assert_eq!(Window::OPEN.closed_at(100, Some(100)), Window::new(0, 101));
        assert_eq!(Window::OPEN.closed_at(100, Some(7)), Window::new(0, 100));
        assert_eq!(Window::OPEN.closed_at(0, None), Window::new(0, 0));
        assert_eq!(
            Window::new(5, 10).closed_at(100, Some(100)),
            Window::new(5, 10)
        );
    }
}
