//! The share of requests that consist of a single I/O, which pipelining cannot make faster (A10).

use serde::Serialize;

/// A share with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AtomicShare {
    /// Requests with at least one data I/O.
    pub n: u64,
    /// Fewer than 30 requests.
    pub low_n: bool,
    /// Percent of them with exactly one data I/O.
    pub atomic_percent: f64,
    /// Lower end of Wilson's 95 % confidence interval of the share.
    pub low_percent: f64,
    /// Upper end of Wilson's 95 % confidence interval of the share.
    pub high_percent: f64,
    /// Percent of the response time spent in requests with several data I/Os: upper bound of what pipelining could hide.
    pub pipelining_bound_percent: Option<f64>,
}

/// Share of `atomic` among `n` requests; `None` if `n` is 0. `atomic_ns` and `all_ns` are sums of response times.
pub fn atomic_share(atomic: u64, n: u64, atomic_ns: i128, all_ns: i128) -> Option<AtomicShare> {
    if n == 0 {
        return None;
    }
    let (low, high) = wilson(atomic, n);
    Some(AtomicShare {
        n,
        low_n: n < 30,
        atomic_percent: 100.0 * atomic as f64 / n as f64,
        low_percent: 100.0 * low,
        high_percent: 100.0 * high,
        pipelining_bound_percent: (all_ns > 0)
            .then(|| 100.0 * (all_ns - atomic_ns) as f64 / all_ns as f64),
    })
}

/// Wilson's score interval at 95 % for `k` of `n` (n > 0), E. B. Wilson 1927.
fn wilson(k: u64, n: u64) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    let p = k as f64 / n as f64;
    let n = n as f64;
    let middle = p + Z * Z / (2.0 * n);
    let reach = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (
        ((middle - reach) / scale).max(0.0),
        ((middle + reach) / scale).min(1.0),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rng;
    use super::*;

    #[test]
    fn intervals_equal_the_textbooks() {
        // Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0 to 0.1611.
        let (low, high) = wilson(81, 263);
        assert!(
            (low - 0.2553).abs() < 1e-4 && (high - 0.3662).abs() < 1e-4,
            "{low} {high}"
        );
        let (low, high) = wilson(0, 20);
        assert!(low == 0.0 && (high - 0.1611).abs() < 1e-4);
        assert_eq!(atomic_share(0, 0, 0, 0), None);
    }

    #[test]
    fn a_known_size_law_lies_inside_its_interval_nineteen_times_out_of_twenty() {
        // Sizes exponential with mean 4 KiB, I/Os of 8 KiB: P(one I/O) = 1 - e^-2.
        let truth = 100.0 * (1.0 - (-2.0f64).exp());
        let mut inside = 0;
        for seed in 0..200 {
            let mut random = Rng::new(seed);
            let one = (0..500)
                .filter(|_| -4096.0 * random.uniform().ln() <= 8192.0)
                .count() as u64;
            let a = atomic_share(one, 500, 1, 2).expect("some");
            inside += i32::from((a.low_percent..=a.high_percent).contains(&truth));
        }
        assert!((180..=200).contains(&inside), "{inside} of 200");
    }
}
