//! How long how many were in flight: the time-weighted distribution of N(t).

use super::window::Window;

/// Time spent at each level of concurrency inside a window, exact to the nanosecond (A2, A3): feed it the changes of
/// N(t) in the order of time.
#[derive(Debug, Clone)]
pub struct LevelTime {
    window: Window,
    level: i64,
    since_ns: i64,
    ns_at: Vec<i64>,
}

impl LevelTime {
    /// Nothing in flight at the start of `window`.
    pub fn new(window: Window) -> LevelTime {
        LevelTime { window, level: 0, since_ns: window.from_ns, ns_at: Vec::new() }
    }

    /// N changes by `by` at `at_ns`.
    pub fn change(&mut self, at_ns: i64, by: i64) {
        self.advance(at_ns);
        self.level += by;
    }

    fn advance(&mut self, to_ns: i64) {
        let to_ns = to_ns.min(self.window.to_ns);
        if to_ns > self.since_ns {
            let level = self.level.max(0) as usize;
            if level >= self.ns_at.len() {
                self.ns_at.resize(level + 1, 0);
            }
            self.ns_at[level] += to_ns - self.since_ns;
            self.since_ns = to_ns;
        }
    }

    /// How many are in flight now.
    pub fn level(&self) -> i64 {
        self.level
    }

    /// Settles the window's end; from here on only questions.
    pub fn finish(&mut self, window: Window) {
        self.window = window;
        self.advance(window.to_ns);
    }

    /// Nanoseconds at each level, from 0 on.
    pub fn ns_at(&self) -> &[i64] {
        &self.ns_at
    }

    /// Nanoseconds with at least one in flight: the measure of the union of all `[start, done)` (A2).
    pub fn busy_ns(&self) -> i64 {
        self.ns_at.iter().skip(1).sum()
    }

    /// Percent of the window with at least one in flight; `None` for an empty window.
    pub fn busy_percent(&self) -> Option<f64> {
        let t = self.total_ns();
        (t > 0).then(|| 100.0 * self.busy_ns() as f64 / t as f64)
    }

    /// Time-weighted mean of N; `None` for an empty window (A3: `∫N/T`).
    pub fn mean(&self) -> Option<f64> {
        let t = self.total_ns();
        let area: i128 = self.ns_at.iter().enumerate().map(|(k, ns)| k as i128 * i128::from(*ns)).sum();
        (t > 0).then(|| area as f64 / t as f64)
    }

    /// Time-weighted quantile: the smallest k whose levels up to k hold at least `q` of the time (A3).
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let t = self.total_ns();
        if t == 0 {
            return None;
        }
        let mut seen = 0;
        for (k, ns) in self.ns_at.iter().enumerate() {
            seen += ns;
            if *ns > 0 && seen as f64 >= q * t as f64 {
                return Some(k as u64);
            }
        }
        self.max()
    }

    /// The highest level that lasted.
    pub fn max(&self) -> Option<u64> {
        self.ns_at.iter().rposition(|ns| *ns > 0).map(|k| k as u64)
    }

    fn total_ns(&self) -> i64 {
        self.ns_at.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_textbook_case() {
        // Two overlapping I/Os in 10 ns: N = 1 for 4 ns, 2 for 2 ns, 0 for 4 ns.
        let mut l = LevelTime::new(Window::new(0, 10));
        for (t, by) in [(1, 1), (3, 1), (5, -1), (7, -1)] {
            l.change(t, by);
        }
        l.finish(Window::new(0, 10));
        assert_eq!(l.ns_at(), [4, 4, 2]);
        assert_eq!(l.busy_percent(), Some(60.0));
        assert_eq!(l.mean(), Some(0.8));
        assert_eq!(
            (l.quantile(0.4), l.quantile(0.41), l.quantile(0.99), l.max()),
            (Some(0), Some(1), Some(2), Some(2))
        );
    }

    proptest! {
        #[test]
        fn every_nanosecond_is_counted_once(spans in prop::collection::vec((0i64..200, 0i64..60), 0..30), from in 0i64..100, len in 1i64..150) {
            let window = Window::new(from, from + len);
            let mut edges: Vec<(i64, i64)> = spans.iter().flat_map(|(s, d)| [(*s, 1), (s + d, -1)]).collect();
            edges.sort_unstable();
            let mut l = LevelTime::new(window);
            edges.iter().for_each(|(t, by)| l.change(*t, *by));
            l.finish(window);
            let at = |t: i64| spans.iter().filter(|(s, d)| *s <= t && t < s + d).count();
            let each: Vec<usize> = (from..from + len).map(at).collect();
            for (k, ns) in l.ns_at().iter().enumerate() {
                prop_assert_eq!(*ns, each.iter().filter(|n| **n == k).count() as i64);
            }
            prop_assert_eq!(l.max(), each.iter().max().map(|m| *m as u64));
        }
    }
}
