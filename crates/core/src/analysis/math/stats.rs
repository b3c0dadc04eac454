//! Order statistics, means, and a seeded random generator.

/// Nearest-rank quantile (rank `ceil(q n)`) of `values`, which are partly sorted; `None` if there are none.
pub fn nearest_rank(values: &mut [f64], q: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
    Some(*values.select_nth_unstable_by(rank - 1, f64::total_cmp).1)
}

/// The median: the middle value, or the mean of the two middle ones. `values` are partly sorted.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let (below, &mut high, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return Some(high);
    }
    below
        .iter()
        .copied()
        .max_by(f64::total_cmp)
        .map(|low| f64::midpoint(low, high))
}

/// Median absolute deviation from `middle`.
pub fn mad(values: &[f64], middle: f64) -> f64 {
    let mut deviations: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    median(&mut deviations).unwrap_or(0.0)
}

/// Mean and standard deviation (n - 1); `None` with fewer than two values.
pub fn mean_sd(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    Some((
        mean,
        (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt(),
    ))
}

/// Weighted mean of (value, weight); `None` if the weights sum to 0.
pub fn weighted_mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weights) = values.fold((0.0, 0.0), |(s, w), (v, n)| (s + v * n, w + n));
    (weights > 0.0).then(|| sum / weights)
}

/// A seeded generator (SplitMix64) for permutations, so that results are reproducible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffler(u64);

impl Shuffler {
    /// Creates a generator; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Shuffler {
        Shuffler(seed)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`; 0 for `n = 0`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// `k` of the numbers `0..n`, each choice equally likely, in order (Floyd's algorithm); all of them if `k > n`.
    pub fn choose(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut chosen = std::collections::BTreeSet::new();
        for top in n.saturating_sub(k)..n {
            let one = self.below(top as u64 + 1) as usize;
            if !chosen.insert(one) {
                chosen.insert(top);
            }
        }
        chosen.into_iter().collect()
    }

    /// Fisher-Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_odd_and_even() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((median(&mut []), nearest_rank(&mut [], 0.5)), (None, None));
        assert_eq!(mad(&[1.0, 2.0, 3.0, 4.0, 100.0], 3.0), 1.0);
        assert_eq!(mean_sd(&[1.0, 3.0]), Some((2.0, 2.0_f64.sqrt())));
    }

    proptest! {
        #[test]
        fn ranks_equal_the_sorted_list(mut v in prop::collection::vec(-1e9f64..1e9, 1..60), q in 0.0f64..=1.0) {
            let got = nearest_rank(&mut v, q).expect("not empty");
            v.sort_by(f64::total_cmp);
            prop_assert_eq!(got, v[((q * v.len() as f64).ceil() as usize).max(1) - 1]);
        }
    }

    #[test]
    fn every_choice_is_as_likely() {
        let mut random = Shuffler::new(2);
        let mut seen = std::collections::BTreeMap::<Vec<usize>, u32>::new();
        (0..10_000).for_each(|_| *seen.entry(random.choose(5, 2)).or_default() += 1);
        assert_eq!(seen.len(), 10, "all pairs of five");
        assert!(
            seen.iter()
                .all(|(pair, n)| pair[0] < pair[1] && (850..1150).contains(n)),
            "{seen:?}"
        );
        assert_eq!(
            (random.choose(3, 9), random.choose(4, 0)),
            (vec![0, 1, 2], vec![])
        );
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut v: Vec<u32> = (0..100).collect();
        Shuffler::new(1).shuffle(&mut v);
        assert_ne!(v, (0..100).collect::<Vec<_>>());
        v.sort_unstable();
        assert_eq!(v, (0..100).collect::<Vec<_>>());
    }
}
