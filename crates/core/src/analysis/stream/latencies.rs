//! A set of durations with quantiles: exact while it is small, a histogram when it is large.

use crate::model::{Histogram, rank};

/// Means and quantiles of fewer values than this are marked as unreliable.
pub const LOW_N: u64 = 30;

/// Durations in nanoseconds. Up to [`Latencies::EXACT`] values are kept as they are and quantiles are exact; beyond,
/// a [`Histogram`] takes over and quantiles are off by at most 1/256. Sum, minimum and maximum are always exact.
#[derive(Debug, Clone)]
pub struct Latencies {
    exact: Vec<i64>,
    sorted: bool,
    /// Sum of `exact`; the histogram has its own.
    sum: i128,
    max: i64,
    histogram: Option<Histogram>,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            exact: Vec::new(),
            sorted: true,
            sum: 0,
            max: 0,
            histogram: None,
        }
    }
}

impl Latencies {
    /// Number of values up to which the set is exact.
    pub const EXACT: usize = 1 << 16;

    /// An empty set.
    pub fn new() -> Latencies {
        Latencies::default()
    }

    /// Adds one duration; negative ones count as 0.
    #[inline]
    pub fn add(&mut self, ns: i64) {
        let ns = ns.max(0);
        match &mut self.histogram {
            Some(h) => h.add(ns),
            None => self.add_exact(ns),
        }
    }

    fn add_exact(&mut self, ns: i64) {
        self.sum += i128::from(ns);
        self.max = self.max.max(ns);
        self.exact.push(ns);
        self.sorted = false;
        if self.exact.len() > Self::EXACT {
            self.spill();
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        if self.histogram.is_none() && self.exact.len() + other.exact.len() > Self::EXACT
            || other.histogram.is_some()
        {
            self.spill();
        }
        match &mut self.histogram {
            Some(mine) => {
                other.exact.iter().for_each(|v| mine.add(*v));
                if let Some(theirs) = &other.histogram {
                    mine.merge(theirs);
                }
            }
            None => {
                self.sum += other.sum;
                self.max = self.max.max(other.max);
                self.exact.extend_from_slice(&other.exact);
                self.sorted = false;
            }
        }
    }

    fn spill(&mut self) {
        let h = self.histogram.get_or_insert_with(Histogram::new);
        self.exact.drain(..).for_each(|v| h.add(v));
        self.exact = Vec::new();
        self.sum = 0;
        self.max = 0;
    }

    /// Removes all values and keeps the memory.
    pub fn clear(&mut self) {
        self.exact.clear();
        self.histogram = None;
        self.sorted = true;
        self.sum = 0;
        self.max = 0;
    }

    /// Number of values.
    pub fn n(&self) -> u64 {
        self.histogram
            .as_ref()
            .map_or(self.exact.len() as u64, Histogram::n)
    }

    /// Largest error of a quantile in percent; 0 while all values are kept.
    pub fn error_percent(&self) -> f64 {
        if self.histogram.is_some() {
            100.0 / 256.0
        } else {
            0.0
        }
    }

    /// All values with their counts, rounded to buckets if the histogram is in use.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let counted = self
            .histogram
            .iter()
            .flat_map(Histogram::buckets)
            .map(|(low, _, n)| (low, n));
        self.exact.iter().map(|ns| (*ns, 1)).chain(counted)
    }

    /// Whether there are too few for a quantile to mean much (n < [`LOW_N`]).
    pub fn low_n(&self) -> bool {
        self.n() < LOW_N
    }

    /// Exact sum in nanoseconds.
    pub fn sum_ns(&self) -> i128 {
        self.histogram.as_ref().map_or(self.sum, Histogram::sum)
    }

    fn max_ns(&self) -> i64 {
        self.histogram
            .as_ref()
            .map_or(self.max, |h| h.max().unwrap_or(0))
    }

    /// Exact mean in microseconds; `None` if empty.
    pub fn mean_us(&self) -> Option<f64> {
        (self.n() > 0).then(|| self.sum_ns() as f64 / self.n() as f64 / 1e3)
    }

    /// Largest value in microseconds; `None` if empty.
    pub fn max_us(&self) -> Option<f64> {
        (self.n() > 0).then(|| self.max_ns() as f64 / 1e3)
    }

    /// Nearest-rank quantile (inverse of the empirical distribution, rank `ceil(q n)`) in microseconds; `None` if
    /// empty.
    pub fn quantile_us(&mut self, q: f64) -> Option<f64> {
        self.quantile_ns(q).map(|ns| ns as f64 / 1e3)
    }

    /// 95 % confidence interval of that quantile in microseconds, from order statistics: the values of ranks `n q ±
    /// 1.96 sqrt(n q (1 - q))` (binomial, normal approximation). `None` if a rank lies outside of the sample, which
    /// then is too small to bound the quantile.
    pub fn quantile_ci_us(&mut self, q: f64) -> Option<(f64, f64)> {
        let n = self.n() as f64;
        let half = 1.96 * (n * q * (1.0 - q)).sqrt();
        let low = (n * q - half).floor();
        let high = (n * q + half).ceil();
        if self.n() == 0 || low < 1.0 || high > n {
            return None;
        }
        Some((self.quantile_us(low / n)?, self.quantile_us(high / n)?))
    }

    /// As [`Latencies::quantile_us`], in nanoseconds.
    pub fn quantile_ns(&mut self, q: f64) -> Option<i64> {
        if let Some(h) = &self.histogram {
            return h.quantile(q);
        }
        if !self.sorted {
            self.exact.sort_unstable();
            self.sorted = true;
        }
        let rank = rank(q, self.exact.len() as u64) as usize;
        self.exact.get(rank - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_mean_and_no_quantile() {
        let mut l = Latencies::new();
        assert_eq!(
            (l.n(), l.mean_us(), l.max_us(), l.quantile_us(0.5)),
            (0, None, None, None)
        );
    }

    #[test]
    fn few_values_give_exact_quantiles() {
        let mut l = Latencies::new();
        (1..=100).rev().for_each(|v| l.add(v * 1000));
        assert_eq!(l.quantile_us(0.5), Some(50.0));
        assert_eq!(l.quantile_us(0.99), Some(99.0));
        assert_eq!(l.quantile_us(1.0), Some(100.0));
        assert_eq!(l.mean_us(), Some(50.5));
    }

    #[test]
    fn intervals_are_order_statistics() {
        let mut l = Latencies::new();
        (1..=100).for_each(|v| l.add(v * 1000));
        // 50 ± 9.8: ranks 40 and 60.
        assert_eq!(l.quantile_ci_us(0.5), Some((40.0, 60.0)));
        assert_eq!(
            l.quantile_ci_us(0.99),
            None,
            "a hundred values do not bound their 99th percentile"
        );
        assert_eq!(Latencies::new().quantile_ci_us(0.5), None);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut random = crate::analysis::math::stats::Shuffler::new(6);
        let held = (0..1000).filter(|_| {
            let mut l = Latencies::new();
            (0..400).for_each(|_| l.add(random.below(1_000_000_000) as i64));
            l.quantile_ci_us(0.9)
                .is_some_and(|(low, high)| low <= 900_000.0 && 900_000.0 <= high)
        });
        let held = held.count();
        assert!((930..=985).contains(&held), "{held} of 1000");
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(a in prop::collection::vec(0i64..1_000_000_000, 0..40), b in prop::collection::vec(0i64..1_000_000, 0..40), spill_a: bool, spill_b: bool, q in 0.0f64..=1.0) {
            let of = |vs: &[i64], spill: bool| {
                let mut l = Latencies::new();
                vs.iter().for_each(|v| l.add(*v));
                if spill { l.spill(); }
                l
            };
            let mut merged = of(&a, spill_a);
            merged.merge(&of(&b, spill_b));
            let mut whole = of(&[a, b].concat(), false);
            prop_assert_eq!((merged.n(), merged.sum_ns(), merged.max_ns()), (whole.n(), whole.sum_ns(), whole.max_ns()));
            match (merged.quantile_ns(q), whole.quantile_ns(q)) {
                (Some(m), Some(w)) => prop_assert!((m - w).abs() as f64 <= w as f64 / 256.0 + 1.0),
                (m, w) => prop_assert_eq!(m, w),
            }
        }
    }
}
