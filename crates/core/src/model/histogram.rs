//! A latency histogram whose buckets are about 0.4 % wide.

/// Log-linear counts of non-negative `i64` values with 2^7 buckets per octave: the reported value of a bucket is off by
/// at most 1/256. Values below 256 are exact. Merging adds counts, so parts and whole agree exactly.
///
/// Minimum, maximum and sum are kept exactly beside the buckets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    n: u64,
    sum: i128,
    min: i64,
    max: i64,
}

const SUB_BITS: u32 = 7;

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// The bucket that holds `value`.
    pub fn index(value: i64) -> usize {
        let v = value.max(0) as u64;
        if v < 1 << (SUB_BITS + 1) {
            return v as usize;
        }
        let shift = 63 - v.leading_zeros() - SUB_BITS;
        ((shift as usize) << SUB_BITS) + (v >> shift) as usize
    }

    /// First value of bucket `index` and first value after it.
    pub fn bounds(index: usize) -> (i64, i64) {
        if index < 1 << (SUB_BITS + 1) {
            return (index as i64, index as i64 + 1);
        }
        let shift = (index >> SUB_BITS) - 1;
        let low = ((index - (shift << SUB_BITS)) as i64) << shift;
        (low, low.saturating_add(1 << shift))
    }

    /// Counts `value`; negative values count as 0.
    #[inline]
    pub fn add(&mut self, value: i64) {
        let value = value.max(0);
        let i = Self::index(value);
        match self.counts.get_mut(i) {
            Some(count) => *count += 1,
            None => self.add_beyond(i),
        }
        if self.n == 0 {
            self.min = value;
            self.max = value;
        } else {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
        self.n += 1;
        self.sum += i128::from(value);
    }

    /// Counts in a bucket beyond those that there are.
    #[cold]
    fn add_beyond(&mut self, index: usize) {
        self.counts.resize(index + 1, 0);
        self.counts[index] += 1;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.n == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
        self.min = if self.n == 0 { other.min } else { self.min.min(other.min) };
        self.max = if self.n == 0 { other.max } else { self.max.max(other.max) };
        self.n += other.n;
        self.sum += other.sum;
    }

    /// How many values.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their exact sum.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// Exact mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }

    /// Smallest value.
    pub fn min(&self) -> Option<i64> {
        (self.n > 0).then_some(self.min)
    }

    /// Largest value.
    pub fn max(&self) -> Option<i64> {
        (self.n > 0).then_some(self.max)
    }

    /// Nearest-rank quantile (inverse of the empirical distribution, type 1) for `q` in 0..=1: the middle of the bucket
    /// of rank `ceil(q n)`, held inside `[min, max]`. `None` of nothing.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        if self.n == 0 {
            return None;
        }
        let rank = ((q * self.n as f64).ceil() as u64).clamp(1, self.n);
        let mut seen = 0;
        for (i, c) in self.counts.iter().enumerate() {
            seen += c;
            if seen >= rank {
                let (low, high) = Self::bounds(i);
                return Some((low + (high - 1 - low) / 2).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// Non-empty buckets as (first value, first value after, count), in order.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, i64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, c)| **c > 0).map(|(i, c)| {
            let (low, high) = Self::bounds(i);
            (low, high, *c)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_and_buckets_are_narrow(v in 0i64..i64::MAX / 2) {
            let (low, high) = Histogram::bounds(Histogram::index(v));
            prop_assert!(low <= v && v < high);
            prop_assert!((high - low - 1) as f64 <= v as f64 / 128.0);
        }

        #[test]
        fn quantiles_are_within_the_promised_error_of_the_sorted_list(mut vs in prop::collection::vec(0i64..10_000_000_000, 1..200), q in 0.0f64..=1.0) {
            let mut h = Histogram::new();
            vs.iter().for_each(|v| h.add(*v));
            vs.sort_unstable();
            let exact = vs[((q * vs.len() as f64).ceil() as usize).clamp(1, vs.len()) - 1];
            let got = h.quantile(q).expect("not empty");
            prop_assert!((got - exact).abs() as f64 <= exact as f64 / 256.0 + 1e-9, "{got} {exact}");
        }

        #[test]
        fn merging_parts_gives_the_whole(a in prop::collection::vec(0i64..1_000_000, 0..50), b in prop::collection::vec(0i64..1_000_000_000, 0..50)) {
            let of = |vs: &[i64]| { let mut h = Histogram::new(); vs.iter().for_each(|v| h.add(*v)); h };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let whole = of(&[a, b].concat());
            prop_assert_eq!(merged.buckets().collect::<Vec<_>>(), whole.buckets().collect::<Vec<_>>());
            prop_assert_eq!((merged.n(), merged.sum(), merged.min(), merged.max()), (whole.n(), whole.sum(), whole.min(), whole.max()));
        }
    }
}
