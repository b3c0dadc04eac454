//! A20: the accuracy and the cost of measuring utilisation by polling the kernel's counters.

use serde::Serialize;

/// Tolerance between two readings of the same counter, and between a reading and the exact value, in percentage points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ErrorBudget {
    /// One tick of the kernel's clock over the interval: the counter advances in ticks.
    pub tick_pp: f64,
    /// `iostat` measures its interval only to a hundredth of a second.
    pub interval_pp: f64,
}

impl ErrorBudget {
    /// The tolerances at `hz` ticks per second, over `interval_s`, at `util_percent`.
    pub fn new(hz: u32, interval_s: f64, util_percent: f64) -> ErrorBudget {
        ErrorBudget {
            tick_pp: 100.0 / f64::from(hz.max(1)) / interval_s,
            interval_pp: util_percent * 0.01 / interval_s,
        }
    }

    /// The sum of both: the tolerance between `iostat` and a poller that measures its interval.
    pub fn against_iostat_pp(&self) -> f64 {
        self.tick_pp + self.interval_pp
    }
}

/// The values of a box plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoxStats {
    /// Number of values.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Smallest value within 1.5 box heights of the box.
    pub whisker_low: f64,
    /// First quartile (nearest rank, as all quantiles here).
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// Largest value within 1.5 box heights of the box.
    pub whisker_high: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
    /// Values outside the whiskers.
    pub outliers: Vec<f64>,
}

/// The box plot of `values`; `None` if there are none. NaN values are excluded.
pub fn box_stats(values: &[f64]) -> Option<BoxStats> {
    let mut v: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    v.sort_by(f64::total_cmp);
    let n = v.len();
    if n == 0 {
        return None;
    }
    let q1 = quantile(&v, 0.25);
    let q3 = quantile(&v, 0.75);
    // Whiskers end at the last values within 1.5 box heights of the box. Values outside are drawn individually.
    let low = q1 - 1.5 * (q3 - q1);
    let high = q3 + 1.5 * (q3 - q1);
    let (inside, outliers): (Vec<f64>, Vec<f64>) =
        v.iter().copied().partition(|x| (low..=high).contains(x));
    Some(BoxStats {
        n,
        mean: v.iter().sum::<f64>() / n as f64,
        whisker_low: inside.iter().copied().fold(q1, f64::min),
        q1,
        median: quantile(&v, 0.5),
        q3,
        whisker_high: inside.iter().copied().fold(q3, f64::max),
        p99: quantile(&v, 0.99),
        max: v[n - 1],
        outliers,
    })
}

/// The smallest of the sorted values that at least a share `q` of them do not exceed.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let n = sorted.len();
    sorted[((q * n as f64).ceil() as usize).clamp(1, n) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OUTLIERS: &str =
        include_str!("../../../../fixtures/golden/seed0_charts_outliers_digitised.csv");

    #[test]
    fn the_budget_explains_the_published_outliers() {
        let b = ErrorBudget::new(250, 1.0, 100.0);
        assert_eq!((b.tick_pp, b.interval_pp), (0.4, 1.0));
        let rows = OUTLIERS
            .lines()
            .skip(1)
            .map(|l| l.split(',').collect::<Vec<_>>());
        let difference = rows
            .filter(|c| c[2].contains("util"))
            .map(|c| c[3].parse::<f64>().expect("number"));
        let values: Vec<f64> = difference.collect();
        let near = |center: f64, half: f64| {
            values
                .iter()
                .filter(|v| (**v - center).abs() <= half)
                .count()
        };
        assert_eq!(values.len(), 118);
        assert_eq!(near(b.tick_pp, 0.06), 41, "one tick");
        assert_eq!(
            values.iter().filter(|v| (0.90..=1.01).contains(*v)).count(),
            14,
            "one hundredth of a second"
        );
    }

    #[test]
    fn a_box_of_known_values() {
        let b = box_stats(&[1.0, 2.0, 3.0, 4.0, 100.0]).expect("values");
        assert_eq!(
            (b.q1, b.median, b.q3, b.whisker_high, b.max),
            (2.0, 3.0, 4.0, 4.0, 100.0)
        );
        assert_eq!(b.outliers, [100.0]);
        assert_eq!(box_stats(&[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn boxes_are_ordered(values in proptest::collection::vec(-1e6f64..1e6, 1..200)) {
            let b = box_stats(&values).expect("values");
            let order = [b.whisker_low, b.q1, b.median, b.q3, b.whisker_high, b.max];
            prop_assert!(order.is_sorted());
            let beyond = b.outliers.len();
            prop_assert!(beyond < b.n);
        }
    }
}
