//! A sum that grows with time, remembered well enough to ask what it was a while ago.

use std::collections::VecDeque;

/// Knots kept before every second one of the older half goes.
const MAX_KNOTS: usize = 1 << 12;

/// A non-decreasing, piecewise linear function of time. Between two knots it is a straight line; before the first knot
/// it is flat, and after the last one too.
///
/// Memory: at most [`MAX_KNOTS`] knots of 16 bytes. Beyond that the older half is thinned, so that the recent past stays
/// exact and the distant past becomes coarse.
#[derive(Debug, Default)]
pub(super) struct Curve {
    knots: VecDeque<(i64, f64)>,
}

impl Curve {
    /// The value at the last knot.
    pub fn last(&self) -> f64 {
        self.knots.back().map_or(0.0, |(_, value)| *value)
    }

    /// Adds a knot. Times must not decrease, nor values.
    pub fn push(&mut self, at_ns: i64, value: f64) {
        if let Some(last) = self.knots.back_mut()
            && last.0 == at_ns
        {
            last.1 = value;
            return;
        }
        self.knots.push_back((at_ns, value));
        if self.knots.len() > MAX_KNOTS {
            self.thin();
        }
    }

    /// Adds `amount` evenly over `[from_ns, to_ns]`, or over what of it lies after the last knot.
    pub fn add_between(&mut self, from_ns: i64, to_ns: i64, amount: f64) {
        let before = self.last();
        let known_to_ns = self.knots.back().map_or(i64::MIN, |last| last.0);
        if known_to_ns < from_ns {
            self.push(from_ns, before);
        }
        self.push(to_ns.max(known_to_ns), before + amount);
    }

    /// Forgets what no question about `oldest_ns` or later needs.
    pub fn forget_before(&mut self, oldest_ns: i64) {
        // The knot before `oldest_ns` is the left end of the line that crosses it.
        while self.knots.len() >= 2 && self.knots[1].0 <= oldest_ns {
            self.knots.pop_front();
        }
    }

    /// How much was added between two times.
    pub fn between(&self, from_ns: i64, to_ns: i64) -> f64 {
        (self.at(to_ns) - self.at(from_ns)).max(0.0)
    }

    /// The value at a time.
    pub fn at(&self, at_ns: i64) -> f64 {
        let after = self.knots_before(at_ns);
        let Some(left) = after.checked_sub(1).map(|i| self.knots[i]) else {
            return self.knots.front().map_or(0.0, |(_, value)| *value);
        };
        let Some(right) = self.knots.get(after) else {
            return left.1;
        };
        let passed = (at_ns - left.0) as f64 / (right.0 - left.0) as f64;
        left.1 + passed * (right.1 - left.1)
    }

    /// How many knots lie at or before `at_ns`. Questions are mostly about the last few knots, so the search gallops back
    /// from the end.
    fn knots_before(&self, at_ns: i64) -> usize {
        let n = self.knots.len();
        let mut high = n;
        let mut step = 1;
        while let Some(low) = n.checked_sub(step) {
            if self.knots[low].0 <= at_ns {
                // The first knot later than `at_ns` lies in (low, high].
                return self.first_later(at_ns, low + 1, high);
            }
            high = low;
            step *= 2;
        }
        self.first_later(at_ns, 0, high)
    }

    /// Binary search for the first knot later than `at_ns` among `[low, high)`.
    fn first_later(&self, at_ns: i64, mut low: usize, mut high: usize) -> usize {
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.knots[middle].0 <= at_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Every second knot of the older half goes: what was added between those that stay does not change.
    fn thin(&mut self) {
        let half = self.knots.len() / 2;
        let newer = self.knots.split_off(half);
        let mut kept: VecDeque<(i64, f64)> = self.knots.iter().copied().step_by(2).collect();
        kept.extend(newer);
        self.knots = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_between_knots_are_straight_and_ends_are_flat() {
        let mut curve = Curve::default();
        assert_eq!(curve.at(5), 0.0);
        curve.add_between(10, 20, 100.0);
        curve.add_between(40, 50, 10.0);
        let values = [0, 10, 15, 20, 30, 45, 50, 99].map(|t| curve.at(t));
        assert_eq!(values, [0.0, 0.0, 50.0, 100.0, 100.0, 105.0, 110.0, 110.0]);
        assert_eq!(curve.between(15, 45), 55.0);
    }

    #[test]
    fn what_is_forgotten_does_not_change_later_answers() {
        let mut curve = Curve::default();
        for i in 0..100 {
            curve.add_between(10 * i, 10 * i + 5, 1.0);
        }
        let before = curve.between(503, 804);
        curve.forget_before(503);
        assert_eq!(curve.between(503, 804), before);
        assert!(curve.knots.len() < 110);
    }

    #[test]
    fn a_long_past_becomes_coarse_and_the_recent_past_stays_exact() {
        let mut curve = Curve::default();
        let last = 10 * MAX_KNOTS as i64;
        for i in 0..last {
            curve.add_between(10 * i, 10 * i + 5, 1.0);
        }
        assert!(curve.knots.len() <= MAX_KNOTS + 1);
        let end = 10 * last;
        assert_eq!(curve.between(end - 1000, end), 100.0);
        let half = curve.between(end / 2, end);
        assert!((half / (last / 2) as f64 - 1.0).abs() < 0.01, "{half}");
    }

    proptest! {
        #[test]
        fn the_galloping_search_finds_what_a_scan_finds(
            steps in prop::collection::vec((0i64..5, 0u32..4), 0..60),
            at in -5i64..300,
        ) {
            let mut curve = Curve::default();
            let mut now = 0;
            let mut sum = 0.0;
            for (step, amount) in steps {
                now += step;
                sum += f64::from(amount);
                curve.push(now, sum);
            }
            let scanned = curve.knots.iter().filter(|k| k.0 <= at).count();
            prop_assert_eq!(curve.knots_before(at), scanned);
        }
    }
}
