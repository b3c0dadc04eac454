//! The time-weighted distribution of the number of I/Os in flight, N(t).

use crate::analysis::stream::window::Window;

/// Changes after which a stretch is closed, and the maximum number of closed stretches.
const CHANGES: u32 = 4096;
const PAST: usize = 256;

/// Time spent at each level of concurrency inside a window, exact to the nanosecond (A2, A3): feed it the changes of
/// N(t) in the order of time.
#[derive(Debug, Clone)]
pub struct LevelTime {
    window: Window,
    level: i64,
    since_ns: i64,
    /// Nanoseconds at each level, over all stretches.
    ns_at: Vec<i64>,
    /// The closed stretches in order of time; `ns_cut` is the sum of their times at each level.
    past: Vec<LevelStretch>,
    ns_cut: Vec<i64>,
    changes: u32,
}

/// A part of the window, kept so that a late I/O can still be added to it.
#[derive(Debug, Clone)]
struct LevelStretch {
    from_ns: i64,
    to_ns: i64,
    ns_at: Vec<i64>,
}

impl LevelStretch {
    fn share_of(&self, from_ns: i64, to_ns: i64) -> f64 {
        (to_ns.min(self.to_ns) - from_ns.max(self.from_ns)).max(0) as f64
            / (self.to_ns - self.from_ns) as f64
    }

    /// Moves a share of the time at each level to the next higher level.
    fn raise(&mut self, share: impl Fn(usize) -> f64) {
        let moved: Vec<i64> = self
            .ns_at
            .iter()
            .enumerate()
            .map(|(k, ns)| (*ns as f64 * share(k)).round() as i64)
            .collect();
        self.ns_at.push(0);
        for (k, ns) in moved.into_iter().enumerate() {
            self.ns_at[k] -= ns;
            self.ns_at[k + 1] += ns;
        }
    }
}

/// Adds the time at each level to `sum`, which is extended if it is shorter.
fn add_levels(sum: &mut Vec<i64>, ns_at: &[i64]) {
    sum.resize(sum.len().max(ns_at.len()), 0);
    for (sum, ns) in sum.iter_mut().zip(ns_at) {
        *sum += ns;
    }
}

impl LevelTime {
    /// Nothing in flight at the start of `window`.
    pub fn new(window: Window) -> LevelTime {
        LevelTime {
            window,
            level: 0,
            since_ns: window.from_ns,
            ns_at: Vec::new(),
            past: Vec::new(),
            ns_cut: Vec::new(),
            changes: 0,
        }
    }

    /// N changes by `by` at `at_ns`.
    #[inline]
    pub fn change(&mut self, at_ns: i64, by: i64) {
        self.advance(at_ns);
        self.level += by;
        self.changes += 1;
        if self.changes == CHANGES {
            self.cut();
        }
    }

    /// Adds an I/O of `[from_ns, to_ns)` that became known after the sweep had passed `to_ns`. Exact for whole
    /// stretches, in proportion for parts of them.
    pub fn add_late(&mut self, from_ns: i64, to_ns: i64) {
        self.advance(to_ns);
        self.cut();
        for s in &mut self.past {
            let share = s.share_of(from_ns, to_ns);
            if share > 0.0 {
                s.raise(|_| share);
            }
        }
        self.sum_up();
    }

    /// Counts `ns` of the idle time in `[from_ns, to_ns)` as time with one I/O in flight.
    pub fn fill_late(&mut self, from_ns: i64, to_ns: i64, ns: f64) {
        self.advance(to_ns);
        self.cut();
        let idle = (to_ns - from_ns) as f64 - self.busy_in(from_ns, to_ns);
        for s in &mut self.past {
            let share = s.share_of(from_ns, to_ns) * (ns / idle.max(1.0)).clamp(0.0, 1.0);
            if share > 0.0 {
                s.raise(|level| if level == 0 { share } else { 0.0 });
            }
        }
        self.sum_up();
    }

    /// Nanoseconds of `[from_ns, to_ns)` with at least one I/O in flight, up to the current position of the sweep.
    pub fn busy_in(&mut self, from_ns: i64, to_ns: i64) -> f64 {
        self.advance(to_ns);
        self.cut();
        self.past
            .iter()
            .map(|s| s.share_of(from_ns, to_ns) * s.ns_at.iter().skip(1).sum::<i64>() as f64)
            .sum()
    }

    fn sum_up(&mut self) {
        self.ns_at.clear();
        for s in &self.past {
            add_levels(&mut self.ns_at, &s.ns_at);
        }
        self.ns_cut.clone_from(&self.ns_at);
    }

    /// Closes the open stretch. If there are too many, neighbours are joined.
    #[cold]
    fn cut(&mut self) {
        self.changes = 0;
        let from_ns = self.past.last().map_or(self.window.from_ns, |s| s.to_ns);
        if self.since_ns <= from_ns {
            return;
        }
        let mut ns_at = self.ns_at.clone();
        for (ns, before) in ns_at.iter_mut().zip(&self.ns_cut) {
            *ns -= before;
        }
        self.ns_cut.clone_from(&self.ns_at);
        self.past.push(LevelStretch {
            from_ns,
            to_ns: self.since_ns,
            ns_at,
        });
        if self.past.len() > PAST {
            self.join_past();
        }
    }

    /// Joins a closed stretch with the one before it if that is short relative to the time since the window began.
    fn join_past(&mut self) {
        let mut kept: Vec<LevelStretch> = Vec::with_capacity(PAST);
        for s in self.past.drain(..) {
            let least_ns = (s.to_ns - self.window.from_ns) / (PAST as i64 / 2);
            match kept.last_mut() {
                Some(last) if last.to_ns - last.from_ns < least_ns => {
                    last.to_ns = s.to_ns;
                    add_levels(&mut last.ns_at, &s.ns_at);
                }
                _ => kept.push(s),
            }
        }
        self.past = kept;
    }

    #[inline]
    fn advance(&mut self, to_ns: i64) {
        let to_ns = to_ns.min(self.window.to_ns);
        if to_ns > self.since_ns {
            let ns = to_ns - self.since_ns;
            self.since_ns = to_ns;
            let level = self.level.max(0) as usize;
            match self.ns_at.get_mut(level) {
                Some(sum) => *sum += ns,
                None => self.reach(level, ns),
            }
        }
    }

    /// Adds the first `ns` nanoseconds at a level higher than any before.
    #[cold]
    fn reach(&mut self, level: usize, ns: i64) {
        self.ns_at.resize(level, 0);
        self.ns_at.push(ns);
    }

    /// Number in flight at the current position.
    #[inline]
    pub fn level(&self) -> i64 {
        self.level
    }

    /// Closes the window; after this, only queries. Nothing was recorded in `unrecorded_ns` of the window, which is
    /// subtracted from the idle time.
    pub fn finish(&mut self, window: Window, unrecorded_ns: i64) {
        self.window = window;
        self.advance(window.to_ns);
        if let Some(idle) = self.ns_at.first_mut() {
            *idle = (*idle - unrecorded_ns).max(0);
        }
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
        let area: i128 = self
            .ns_at
            .iter()
            .enumerate()
            .map(|(k, ns)| k as i128 * i128::from(*ns))
            .sum();
        (t > 0).then(|| area as f64 / t as f64)
    }

    /// Time-weighted quantile: the smallest k such that the levels up to k take at least `q` of the time (A3).
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

    /// The highest level with a nonzero time.
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
        l.finish(Window::new(0, 10), 0);
        assert_eq!(l.ns_at(), [4, 4, 2]);
        assert_eq!(l.busy_percent(), Some(60.0));
        assert_eq!(l.mean(), Some(0.8));
        assert_eq!(
            (l.quantile(0.4), l.quantile(0.41), l.quantile(0.99), l.max()),
            (Some(0), Some(1), Some(2), Some(2))
        );
    }

    #[test]
    fn time_that_was_not_recorded_is_no_idle_time() {
        // One in flight for 3 of 10 ns, of which 4 were not recorded.
        let mut l = LevelTime::new(Window::new(0, 10));
        l.change(1, 1);
        l.change(4, -1);
        l.finish(Window::new(0, 10), 4);
        assert_eq!(l.ns_at(), [3, 3]);
        assert_eq!((l.busy_percent(), l.mean()), (Some(50.0), Some(0.5)));
    }

    #[test]
    fn what_turns_up_late_is_added_where_it_was() {
        // Busy 1 of every 2 us for 100 ms; then an I/O of 10 to 90 ms turns up.
        let mut l = LevelTime::new(Window::new(0, 100_000_000));
        for i in 0..50_000 {
            l.change(i * 2000, 1);
            l.change(i * 2000 + 1000, -1);
        }
        l.add_late(10_000_000, 90_000_000);
        l.finish(Window::new(0, 100_000_000), 0);
        let percent = |ns: i64| ns as f64 / 1e6;
        assert!(
            (l.busy_percent().expect("a window") - 90.0).abs() < 0.5,
            "{:?}",
            l.busy_percent()
        );
        assert!(
            (percent(l.ns_at()[2]) - 40.0).abs() < 0.5
                && l.ns_at().iter().sum::<i64>() == 100_000_000,
            "{:?}",
            l.ns_at()
        );
        assert!(l.past.len() <= PAST + 1);
        let mut both = LevelTime::new(Window::new(0, 100));
        both.change(20, 1);
        both.change(60, -1);
        both.fill_late(0, 100, 30.0);
        both.finish(Window::new(0, 100), 0);
        assert!(
            (both.busy_percent().expect("a window") - 70.0).abs() <= 1.0,
            "{:?}",
            both.ns_at()
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
            l.finish(window, 0);
            let at = |t: i64| spans.iter().filter(|(s, d)| *s <= t && t < s + d).count();
            let each: Vec<usize> = (from..from + len).map(at).collect();
            for (k, ns) in l.ns_at().iter().enumerate() {
                prop_assert_eq!(*ns, each.iter().filter(|n| **n == k).count() as i64);
            }
            prop_assert_eq!(l.max(), each.iter().max().map(|m| *m as u64));
        }
    }
}
