//! The duration of an I/O as a function of load (A11).

use serde::Serialize;

use super::size::at_rank;
use crate::analysis::math::stats::{Shuffler, median, nearest_rank};

/// One I/O and the load under which it ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadedIo {
    /// Requests per second in its group.
    pub per_s: f64,
    /// Its duration, in microseconds.
    pub us: f64,
}

/// I/Os of one tenth of the loads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Decile {
    /// Mean load, in requests per second.
    pub per_s: f64,
    /// Number of I/Os.
    pub n: usize,
    /// Median duration, in microseconds.
    pub p50_us: f64,
}

/// Duration of I/Os by load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationByLoad {
    /// Number of I/Os.
    pub n: usize,
    /// Durations by deciles of the load. Fewer than ten if loads repeat.
    pub deciles: Vec<Decile>,
    /// Change of the duration in microseconds per (request per second): the Theil-Sen median of slopes. `null` if the load did
    /// not vary.
    pub slope: Option<f64>,
    /// Lower end of the slope's 95 % confidence interval (Sen 1968, by Kendall's variance).
    pub slope_low: Option<f64>,
    /// Upper end of the slope's 95 % confidence interval.
    pub slope_high: Option<f64>,
    /// Spearman's rank correlation of duration and load.
    pub spearman: Option<f64>,
}

/// The number of pairs grows with the square, so at most this many I/Os are used; of more, a random sample.
const MAX_SAMPLE: usize = 500;

/// Relates durations to loads; `None` with fewer than three I/Os.
pub fn duration_by_load(ios: &[LoadedIo]) -> Option<DurationByLoad> {
    if ios.len() < 3 {
        return None;
    }
    let mut sorted = ios.to_vec();
    sorted.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
    let tenth = sorted.len().div_ceil(10);
    let deciles = sorted.chunks(tenth).filter_map(|c| {
        let mut us: Vec<f64> = c.iter().map(|io| io.us).collect();
        let per_s = c.iter().map(|io| io.per_s).sum::<f64>() / c.len() as f64;
        Some(Decile {
            per_s,
            n: c.len(),
            p50_us: nearest_rank(&mut us, 0.5)?,
        })
    });
    let deciles = deciles.collect();
    let mut sample = sorted;
    if sample.len() > MAX_SAMPLE {
        Shuffler::new(11).shuffle(&mut sample);
        sample.truncate(MAX_SAMPLE);
    }
    let theil_sen = theil_sen(&sample);
    Some(DurationByLoad {
        n: ios.len(),
        deciles,
        slope: theil_sen.map(|s| s.0),
        slope_low: theil_sen.map(|s| s.1),
        slope_high: theil_sen.map(|s| s.2),
        spearman: theil_sen.and_then(|_| spearman(&sample)),
    })
}

fn theil_sen(points: &[LoadedIo]) -> Option<(f64, f64, f64)> {
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        for b in &points[i + 1..] {
            if a.per_s != b.per_s {
                slopes.push((b.us - a.us) / (b.per_s - a.per_s));
            }
        }
    }
    if slopes.is_empty() {
        return None;
    }
    slopes.sort_by(f64::total_cmp);
    let n = points.len() as f64;
    let pairs = slopes.len() as f64;
    let reach = 1.96 * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let low = at_rank(&slopes, (pairs - reach) / 2.0 - 1.0);
    let high = at_rank(&slopes, (pairs + reach) / 2.0);
    Some((median(&mut slopes.clone())?, low, high))
}

fn spearman(points: &[LoadedIo]) -> Option<f64> {
    let x = ranks(points.iter().map(|p| p.per_s).collect());
    let y = ranks(points.iter().map(|p| p.us).collect());
    let mean = (points.len() as f64 + 1.0) / 2.0;
    let mut xy = 0.0;
    let mut xx = 0.0;
    let mut yy = 0.0;
    for (x, y) in x.iter().zip(&y) {
        xy += (x - mean) * (y - mean);
        xx += (x - mean).powi(2);
        yy += (y - mean).powi(2);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// Ranks from 1 on; equal values share the mean of their ranks.
fn ranks(values: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut out = vec![0.0; values.len()];
    let mut at = 0;
    for run in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = at as f64 + (run.len() as f64 + 1.0) / 2.0;
        run.iter().for_each(|i| out[*i] = rank);
        at += run.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rng;
    use super::*;

    #[test]
    fn a_queues_medians_are_its_closed_form_and_the_slope_covers_the_truth() {
        // M/M/1 with service S = 1 ms: response is exponential, its median ln 2 S / (1 - rho).
        let mut random = Rng::new(5);
        for rho in [0.1, 0.3, 0.5, 0.7, 0.8] {
            let response = 1000.0 / (1.0 - rho);
            let ios: Vec<LoadedIo> = (0..20_000)
                .map(|_| LoadedIo {
                    per_s: rho * 1000.0,
                    us: -response * random.uniform().ln(),
                })
                .collect();
            let d = duration_by_load(&ios).expect("enough");
            let all = d.deciles.iter().map(|d| d.p50_us).sum::<f64>() / d.deciles.len() as f64;
            assert!(
                (all / (response * std::f64::consts::LN_2) - 1.0).abs() < 0.05,
                "{rho}: {all}"
            );
            assert_eq!(d.slope, None, "the load did not vary");
        }
        let mut covered = 0;
        for seed in 0..100 {
            let mut random = Rng::new(seed);
            let line = |random: &mut Rng, i: usize| {
                let per_s = (i % 60) as f64;
                LoadedIo {
                    per_s,
                    us: 100.0 + 3.0 * per_s + 200.0 * (random.uniform() - 0.5),
                }
            };
            let ios: Vec<LoadedIo> = (0..120).map(|i| line(&mut random, i)).collect();
            let d = duration_by_load(&ios).expect("enough");
            covered +=
                i32::from((d.slope_low.expect("low")..=d.slope_high.expect("high")).contains(&3.0));
            assert!(d.slope.expect("slope") > 0.0 && d.spearman.expect("rank correlation") > 0.4);
        }
        assert!(covered >= 93, "{covered} of 100");
    }

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(vec![5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(duration_by_load(&[]), None);
    }
}
