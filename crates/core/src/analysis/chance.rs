//! A13: whether a burst needs an explanation. Requests that come independently of each other cluster too; a cluster that
//! such a stream would show anyway is no finding.

use super::bursts::Burst;
use super::cells::{Series, Sizes};

/// A stream of independent requests of the same rate and sizes may show this many such bursts, and no more: a burst's edges
/// are chosen after the fact, so that chance finds longer ones than this expects.
pub const MOST_BY_CHANCE: f64 = 1e-6;

/// How many bursts like `burst` a Poisson stream of the rate and sizes of `series` would show in the same time, at most.
///
/// In units of the [typical request](Sizes::typical_bytes) a stretch as long as the burst holds `n` where `mu` are
/// expected: by Chernoff's bound that happens with a probability of at most `exp(-(n ln(n / mu) - n + mu))`, and there are
/// as many such stretches as fit into the series.
pub fn expected_by_chance(series: &Series, sizes: Sizes, burst: &Burst) -> f64 {
    let stretches = series.bytes.len() as f64 / (burst.end - burst.first).max(1) as f64;
    let total: u64 = series.bytes.iter().sum();
    let Some(unit) = sizes.typical_bytes().filter(|unit| *unit > 0.0 && total > 0) else { return stretches };
    let (n, mu) = (burst.bytes as f64 / unit, total as f64 / stretches / unit);
    let exponent = if n > mu { n * (n / mu).ln() - n + mu } else { 0.0 };
    stretches * (-exponent).exp()
}

#[cfg(test)]
mod tests {
    use super::super::bursts::{BurstRule, Limit, LimitSource, find};
    use super::*;

    /// `total` requests of `bytes` of which `within` fall into the 10 slots from 300 on, the rest evenly over 1000.
    fn chance(total: u64, within: u64, bytes: u64) -> f64 {
        let mut ios = vec![0u64; 1000];
        (0..total - within).for_each(|i| ios[(i * 1000 / (total - within)) as usize] += 1);
        (0..within).for_each(|i| ios[300 + (i % 10) as usize] += 1);
        let mut sizes = Sizes::default();
        (0..total).for_each(|_| sizes.add(bytes as f64));
        let series = Series { from_ns: 0, dt_ns: 10_000_000, bytes: ios.iter().map(|n| n * bytes).collect(), ios };
        let limit = Limit { bytes_per_s: 1.0, source: LimitSource::User };
        let mut burst = find(&series, &limit, &BurstRule::default()).remove(0);
        (burst.first, burst.end) = (300, 310);
        burst.bytes = series.bytes[300..310].iter().sum();
        expected_by_chance(&series, sizes, &burst)
    }

    #[test]
    fn what_chance_gathers_and_what_not() {
        // 10 expected, 10 there; 24 there is the most of a hundred stretches one time in a thousand or so; 60 never.
        assert!(chance(1000, 0, 4096) >= 99.0);
        assert!((1e-4..1.0).contains(&chance(1000, 14, 4096)), "{}", chance(1000, 14, 4096));
        assert!(chance(1000, 50, 4096) < MOST_BY_CHANCE);
        // The same number of bytes in few requests says less than in many.
        assert!(chance(100, 3, 40_960) > chance(1000, 30, 4096));
        assert!(chance(8, 7, 1 << 20) < MOST_BY_CHANCE, "almost all there is, at once");
    }

    #[test]
    fn large_requests_among_small_ones_are_what_counts() {
        let mut mixed = Sizes::default();
        (0..1000).for_each(|_| mixed.add(4096.0));
        (0..10).for_each(|_| mixed.add(f64::from(1 << 20)));
        assert!(mixed.typical_bytes().is_some_and(|b| b > 700_000.0));
        let mut both = Sizes::default();
        both.merge(mixed);
        assert_eq!((both, Sizes::default().typical_bytes()), (mixed, None));
    }
}
