//! Latency histograms: one with buckets of about 0.8 % width, and the BPF programs' one with 16 buckets per power of
//! two.

/// Log-linear histogram of non-negative `i64` values with 2^7 buckets per octave. A reported value is off by at most
/// 1/256; values below 256 are exact. Merging adds bucket counts, so the result does not depend on how the values were
/// divided.
///
/// Minimum, maximum and sum are kept exactly beside the buckets. Memory is 1 KiB per octave, and only the octaves
/// between the smallest and the largest value are allocated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// Counts of whole octaves, starting with bucket `first`.
    counts: Vec<u64>,
    first: usize,
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
    #[inline]
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
        match self.counts.get_mut(i.wrapping_sub(self.first)) {
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

    /// Counts in a bucket outside the allocated range.
    #[cold]
    fn add_beyond(&mut self, index: usize) {
        self.cover(index, index + 1);
        self.counts[index - self.first] += 1;
    }

    /// Extends the allocated range, in whole octaves, to include the buckets `from..to`.
    fn cover(&mut self, from: usize, to: usize) {
        const OCTAVE: usize = 1 << SUB_BITS;
        let from = from / OCTAVE * OCTAVE;
        let to = to.next_multiple_of(OCTAVE);
        if self.counts.is_empty() {
            self.first = from;
        }
        let before = self.first.saturating_sub(from);
        let after = to.saturating_sub(self.first + self.counts.len());
        // Reserve exactly: there are many histograms, and each grows by few octaves.
        self.counts.reserve_exact(before + after);
        self.counts.splice(0..0, std::iter::repeat_n(0, before));
        self.first -= before;
        self.counts.resize(self.counts.len() + after, 0);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.n == 0 {
            return;
        }
        self.cover(other.first, other.first + other.counts.len());
        for (a, b) in self.counts[other.first - self.first..]
            .iter_mut()
            .zip(&other.counts)
        {
            *a += b;
        }
        self.min = if self.n == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = if self.n == 0 {
            other.max
        } else {
            self.max.max(other.max)
        };
        self.n += other.n;
        self.sum += other.sum;
    }

    /// Number of values.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Exact sum of the values.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// Exact mean; `None` if the histogram is empty.
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
    /// of rank `ceil(q n)`, clamped to `[min, max]`. `None` if the histogram is empty.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        if self.n == 0 {
            return None;
        }
        let Some(bucket) = bucket_at(self.counts.iter().copied(), rank(q, self.n)) else {
            return Some(self.max);
        };
        let (low, high) = Self::bounds(self.first + bucket);
        Some((low + (high - 1 - low) / 2).clamp(self.min, self.max))
    }

    /// Non-empty buckets as (first value, first value after, count), in order.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, i64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, c)| **c > 0)
            .map(|(i, c)| {
                let (low, high) = Self::bounds(self.first + i);
                (low, high, *c)
            })
    }
}

/// Histogram of durations as the BPF programs count them (`bpf/files_event.h`): the calls of one class on one open
/// file, or the I/Os of a [`Rollup`](super::Rollup). Buckets are 8 ns wide up to 256 ns, then 16 per power of two, up
/// to 137 s. Only non-empty buckets are stored.
///
/// Recordings store it as text: `LOW:CALLS` for each bucket, separated by spaces, where `LOW` is the bucket's first
/// nanosecond.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallHistogram {
    /// Bucket numbers and their counts (never 0), in order.
    counts: Vec<(u16, u64)>,
}

impl CallHistogram {
    /// How many buckets there are.
    pub const BUCKETS: usize = 496;
    /// The count at which the BPF programs stop counting in a bucket. A histogram with such a count is not a valid
    /// distribution.
    pub const FULL: u32 = 0xf000_0000;
    /// Largest error of quantiles in percent (half a bucket, 1/32). Below 256 ns it is 4 ns.
    pub const ERROR_PERCENT: f64 = 3.2;
    const UNIT_SHIFT: u32 = 3;
    const SUB_BITS: u32 = 4;

    /// The bucket of `ns`.
    pub fn index(ns: i64) -> usize {
        let v = (ns.max(0) as u64) >> Self::UNIT_SHIFT;
        if v >> (Self::SUB_BITS + 1) == 0 {
            return v as usize;
        }
        let shift = 63 - v.leading_zeros() - Self::SUB_BITS;
        (((shift as usize) << Self::SUB_BITS) + (v >> shift) as usize).min(Self::BUCKETS - 1)
    }

    /// First nanosecond of `bucket` and first one after it; the last bucket has no end.
    pub fn bounds(bucket: usize) -> (i64, i64) {
        let shift = (bucket >> Self::SUB_BITS).saturating_sub(1);
        let low = (bucket - (shift << Self::SUB_BITS)) << shift << Self::UNIT_SHIFT;
        let high = if bucket + 1 < Self::BUCKETS {
            low + (1 << shift << Self::UNIT_SHIFT)
        } else {
            i64::MAX as usize
        };
        (low as i64, high as i64)
    }

    /// The histogram of one count per bucket; `None` if any count has reached [`CallHistogram::FULL`].
    pub fn of_counts(counts: impl IntoIterator<Item = u32>) -> Option<CallHistogram> {
        let mut h = CallHistogram::default();
        for (bucket, calls) in counts
            .into_iter()
            .enumerate()
            .filter(|(_, calls)| *calls > 0)
        {
            if calls >= Self::FULL {
                return None;
            }
            h.counts.push((bucket as u16, calls.into()));
        }
        Some(h)
    }

    /// Counts `calls` that took `ns`.
    pub fn add(&mut self, ns: i64, calls: u64) {
        self.count(Self::index(ns) as u16, calls);
    }

    fn count(&mut self, bucket: u16, calls: u64) {
        if self.counts.last().is_none_or(|last| last.0 < bucket) {
            self.counts.push((bucket, calls));
            return;
        }
        match self.counts.binary_search_by_key(&bucket, |c| c.0) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(calls),
            Err(at) => self.counts.insert(at, (bucket, calls)),
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &CallHistogram) {
        let mut at = 0;
        for (bucket, calls) in &other.counts {
            at += self.counts[at..]
                .iter()
                .take_while(|c| c.0 < *bucket)
                .count();
            match self.counts.get_mut(at) {
                Some(c) if c.0 == *bucket => c.1 = c.1.saturating_add(*calls),
                _ => self.counts.insert(at, (*bucket, *calls)),
            }
        }
    }

    /// The numbers of the non-empty buckets and how many each holds, in order.
    pub fn counts(&self) -> &[(u16, u64)] {
        &self.counts
    }

    /// Adds `n` to the bucket of this number. Numbers beyond the last bucket are ignored.
    pub fn add_to_bucket(&mut self, bucket: u16, n: u64) {
        if n > 0 {
            self.count(bucket.min(Self::BUCKETS as u16 - 1), n);
        }
    }

    /// Number of calls.
    pub fn n(&self) -> u64 {
        self.counts.iter().fold(0, |n, c| n.saturating_add(c.1))
    }

    /// Non-empty buckets as (first nanosecond, first one after it, calls), in order.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, i64, u64)> + '_ {
        self.counts.iter().map(|(bucket, calls)| {
            let (low, high) = Self::bounds((*bucket).into());
            (low, high, *calls)
        })
    }

    /// Nearest-rank quantile for `q` in 0..=1: the middle of the bucket of rank `ceil(q n)` in nanoseconds; `None` if
    /// empty.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let calls = self.counts.iter().map(|c| c.1);
        let at = bucket_at(calls, rank(q, self.n()))?;
        Some(Self::middle(self.counts[at].0.into()))
    }

    /// Mean in nanoseconds, each value taken as the middle of its bucket; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self
            .counts
            .iter()
            .map(|c| Self::middle(c.0.into()) as f64 * c.1 as f64)
            .sum();
        (!self.counts.is_empty()).then(|| sum / self.n() as f64)
    }

    fn middle(bucket: usize) -> i64 {
        match Self::bounds(bucket) {
            (low, i64::MAX) => low,
            (low, high) => low + (high - low) / 2,
        }
    }

    /// Parses [`CallHistogram`]'s text; `None` if it is invalid.
    pub fn parse(text: &[u8]) -> Option<CallHistogram> {
        let mut h = CallHistogram::default();
        for word in std::str::from_utf8(text).ok()?.split(' ') {
            let (low, calls) = word.split_once(':')?;
            let low = low.parse::<u64>().ok()?;
            let calls = calls.parse::<u64>().ok()?;
            if calls > 0 {
                h.add(i64::try_from(low).ok()?, calls);
            }
        }
        Some(h)
    }
}

impl std::fmt::Display for CallHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (low, _, calls)) in self.buckets().enumerate() {
            write!(f, "{}{low}:{calls}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// The nearest rank of the quantile `q` in 0..=1 among `n` values: `ceil(q n)`, clamped to `1..=n`; 1 if `n` is 0.
pub fn rank(q: f64, n: u64) -> u64 {
    ((q * n as f64).ceil() as u64).clamp(1, n.max(1))
}

/// The first bucket whose cumulative count reaches `rank`. `counts` are the counts of the buckets in order; `None` if
/// their sum is smaller.
pub fn bucket_at(counts: impl IntoIterator<Item = u64>, rank: u64) -> Option<usize> {
    let mut seen = 0u64;
    for (bucket, n) in counts.into_iter().enumerate() {
        seen = seen.saturating_add(n);
        if seen >= rank {
            return Some(bucket);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_those_of_values_that_there_are() {
        assert_eq!(
            [0.0, 0.25, 0.26, 0.5, 1.0].map(|q| rank(q, 4)),
            [1, 1, 2, 2, 4]
        );
        assert_eq!([0.0, 0.5, 1.0].map(|q| rank(q, 0)), [1, 1, 1]);
        assert_eq!([0.0, 0.99].map(|q| rank(q, 1)), [1, 1]);
    }

    #[test]
    fn the_bucket_of_a_rank_is_never_an_empty_one() {
        let counts = [0, 2, 0, 3];
        assert_eq!(
            [1, 2, 3, 5, 6].map(|rank| bucket_at(counts, rank)),
            [Some(1), Some(1), Some(3), Some(3), None]
        );
        assert_eq!(bucket_at([0; 0], 1), None);
        assert_eq!(bucket_at([0, 0], 1), None);
        assert_eq!(bucket_at([u64::MAX, 1], u64::MAX), Some(0));
    }

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

    #[test]
    fn only_octaves_in_use_take_memory() {
        let mut h = Histogram::new();
        [5_000_000_000, 4_000_000_000, 70_000]
            .iter()
            .for_each(|v| h.add(*v));
        assert!(
            h.counts.len() <= 18 << SUB_BITS,
            "{} buckets, not those of a nanosecond and of hours",
            h.counts.len()
        );
        let mut late = Histogram::new();
        (0..1000).for_each(|i| late.add(100_000_000 + i));
        assert_eq!(late.counts.len(), 1 << SUB_BITS);
    }

    fn counted(calls: &[i64]) -> CallHistogram {
        let mut h = CallHistogram::default();
        calls.iter().for_each(|ns| h.add(*ns, 1));
        h
    }

    proptest! {
        #[test]
        fn bucket_midpoints_are_within_the_documented_error(ns in 0i64..137_000_000_000) {
            let bucket = CallHistogram::index(ns);
            let (low, high) = CallHistogram::bounds(bucket);
            prop_assert!(low <= ns && ns < high);
            let off = (CallHistogram::middle(bucket) - ns).abs() as f64;
            prop_assert!(off <= (ns as f64 * CallHistogram::ERROR_PERCENT / 100.0).max(4.0), "{off} of {ns}");
        }

        #[test]
        fn quantiles_of_calls_lie_in_the_bucket_of_the_exact_ones(mut calls in prop::collection::vec(0i64..10_000_000_000, 1..300), q in 0.0f64..=1.0) {
            let got = counted(&calls).quantile(q).expect("calls");
            calls.sort_unstable();
            let exact = calls[((q * calls.len() as f64).ceil() as usize).clamp(1, calls.len()) - 1];
            prop_assert_eq!(CallHistogram::index(got), CallHistogram::index(exact), "{} {}", got, exact);
        }

        #[test]
        fn calls_merge_by_sums_and_come_back_from_text(a in prop::collection::vec(0i64..1_000_000, 1..50), b in prop::collection::vec(0i64..i64::MAX, 0..50)) {
            let mut merged = counted(&a);
            merged.merge(&counted(&b));
            prop_assert_eq!(&merged, &counted(&[a, b].concat()));
            prop_assert_eq!(CallHistogram::parse(merged.to_string().as_bytes()), Some(merged));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[0-9: x-]{0,60}") {
            if let Some(h) = CallHistogram::parse(text.as_bytes()) {
                let _ = (h.n(), h.quantile(0.5), h.mean());
            }
        }
    }

    #[test]
    fn every_bucket_begins_where_the_one_before_it_ends() {
        let ends = (0..CallHistogram::BUCKETS).map(CallHistogram::bounds);
        let last = ends.fold(0, |end, (low, high)| {
            assert_eq!(
                (low, CallHistogram::index(low)),
                (
                    end,
                    CallHistogram::index(high - 1).min(CallHistogram::index(low))
                )
            );
            high
        });
        assert_eq!(
            (last, CallHistogram::index(i64::MAX)),
            (i64::MAX, CallHistogram::BUCKETS - 1)
        );
        assert_eq!(
            CallHistogram::bounds(CallHistogram::BUCKETS - 1).0,
            31 << 32,
            "133 s"
        );
    }

    #[test]
    fn saturated_counts_and_invalid_text_are_rejected() {
        assert_eq!(
            CallHistogram::of_counts([0, 3, 0, 2]).map(|h| h.to_string()),
            Some("8:3 24:2".to_owned())
        );
        assert_eq!(CallHistogram::of_counts([1, CallHistogram::FULL]), None);
        for broken in [
            "",
            "8",
            "8:",
            ":3",
            "-8:3",
            "8:3 ",
            "8:3,24:2",
            "99999999999999999999:1",
        ] {
            assert_eq!(CallHistogram::parse(broken.as_bytes()), None, "{broken:?}");
        }
    }
}
