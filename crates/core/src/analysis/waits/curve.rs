//! A sum that grows with time, remembered well enough to ask what it was a while ago.

/// Knots kept before every second one of the older half goes.
const MAX_KNOTS: usize = 1 << 12;

/// A non-decreasing, piecewise linear function of time. Between two knots it is a straight line; before the first knot
/// it is flat, and after the last one too.
///
/// Memory: at most [`MAX_KNOTS`] knots of 16 bytes. Beyond that the older half is thinned, so that the recent past stays
/// exact and the distant past becomes coarse.
#[derive(Debug, Default)]
pub(super) struct Curve {
    /// Knots, and before them those that are forgotten: questions are many, and one array answers them fastest.
    all: Vec<(i64, f64)>,
    forgotten: usize,
}

impl Curve {
    fn knots(&self) -> &[(i64, f64)] {
        &self.all[self.forgotten..]
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.all.clear();
        self.forgotten = 0;
    }

    /// The value at the last knot.
    pub fn last(&self) -> f64 {
        self.knots().last().map_or(0.0, |(_, value)| *value)
    }

    /// Adds a knot. Times must not decrease, nor values.
    pub fn push(&mut self, at_ns: i64, value: f64) {
        if let Some(last) = self.all[self.forgotten..].last_mut()
            && last.0 == at_ns
        {
            last.1 = value;
            return;
        }
        self.all.push((at_ns, value));
        if self.knots().len() > MAX_KNOTS {
            self.thin();
        }
    }

    /// Adds `amount` evenly over `[from_ns, to_ns]`, or over what of it lies after the last knot.
    pub fn add_between(&mut self, from_ns: i64, to_ns: i64, amount: f64) {
        let before = self.last();
        let known_to_ns = self.knots().last().map_or(i64::MIN, |last| last.0);
        if known_to_ns < from_ns {
            self.push(from_ns, before);
        }
        self.push(to_ns.max(known_to_ns), before + amount);
    }

    /// Forgets what no question about `oldest_ns` or later needs.
    pub fn forget_before(&mut self, oldest_ns: i64) {
        // The knot before `oldest_ns` is the left end of the line that crosses it.
        let needless = self.knots().partition_point(|knot| knot.0 <= oldest_ns);
        self.forgotten += needless.saturating_sub(1);
        if self.forgotten > self.all.len() / 2 {
            self.all.drain(..self.forgotten);
            self.forgotten = 0;
        }
    }

    /// How much was added between two times.
    pub fn between(&self, from_ns: i64, to_ns: i64) -> f64 {
        (self.at(to_ns) - self.at(from_ns)).max(0.0)
    }

    /// The value at a time.
    pub fn at(&self, at_ns: i64) -> f64 {
        let knots = self.knots();
        // One question in two is about now.
        if let Some(last) = knots.last().filter(|last| last.0 <= at_ns) {
            return last.1;
        }
        let after = knots_before(knots, at_ns);
        let Some(left) = after.checked_sub(1).map(|i| knots[i]) else {
            return knots.first().map_or(0.0, |(_, value)| *value);
        };
        let Some(right) = knots.get(after) else {
            return left.1;
        };
        let passed = (at_ns - left.0) as f64 / (right.0 - left.0) as f64;
        left.1 + passed * (right.1 - left.1)
    }

    /// Every second knot of the older half goes: what was added between those that stay does not change.
    fn thin(&mut self) {
        let (older, newer) = self.knots().split_at(self.knots().len() / 2);
        self.all = older.iter().step_by(2).chain(newer).copied().collect();
        self.forgotten = 0;
    }
}

/// How many knots lie at or before `at_ns`. Questions are mostly about the last few knots, so the search gallops back
/// from the end.
fn knots_before(knots: &[(i64, f64)], at_ns: i64) -> usize {
    let mut high = knots.len();
    let mut step = 1;
    while let Some(low) = knots.len().checked_sub(step) {
        if knots[low].0 <= at_ns {
            // The first knot later than `at_ns` lies in (low, high].
            return low + 1 + knots[low + 1..high].partition_point(|knot| knot.0 <= at_ns);
        }
        high = low;
        step *= 2;
    }
    knots[..high].partition_point(|knot| knot.0 <= at_ns)
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
        assert!(curve.knots().len() < 110);
    }

    #[test]
    fn a_long_past_becomes_coarse_and_the_recent_past_stays_exact() {
        let mut curve = Curve::default();
        let last = 10 * MAX_KNOTS as i64;
        for i in 0..last {
            curve.add_between(10 * i, 10 * i + 5, 1.0);
        }
        assert!(curve.knots().len() <= MAX_KNOTS + 1);
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
            let scanned = curve.knots().iter().filter(|k| k.0 <= at).count();
            prop_assert_eq!(knots_before(curve.knots(), at), scanned);
        }
    }
}
