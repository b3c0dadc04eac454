//! Fits the two-phase model of a sweep: parameters from runs on a cached file and from the device, then a prediction
//! for each cold run beside the measurement.

use serde::Serialize;

use super::seek_transfer::{jackknife, rate_of};
use super::{Interval, PageCacheModel, Regime, error_percent};
use crate::statistics::anova::mean_interval;

/// A run that started with an empty page cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColdRun {
    /// Bytes per call.
    pub block_bytes: f64,
    /// Calls per second over the whole run.
    pub ios_per_s: f64,
    /// Length of the run in seconds.
    pub run_s: f64,
    /// Bytes that its reads transferred from the device, and the seconds from the first of them to the last.
    pub disk_phase: Option<(f64, f64)>,
}

/// A block size: measured, and predicted without being used in the fit (except for the disk's rate).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CachePoint {
    /// Bytes per call.
    pub block_bytes: f64,
    /// Calls per second, mean over replicates.
    pub measured_ios_per_s: f64,
    /// Calls per second predicted by the model.
    pub predicted_ios_per_s: f64,
    /// The bottleneck according to the model.
    pub regime: Regime,
    /// Predicted minus measured, in percent of the measured value.
    pub error_percent: f64,
}

/// The fitted model. Intervals are at 95 %; their bounds are infinite if one replicate cannot determine them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageCacheFit {
    /// Time of one call without data, in seconds (jackknife over the cached runs).
    pub call_s: Interval,
    /// Rate of copying from the cache, in bytes per second (the same).
    pub copy_bytes_per_s: Interval,
    /// Rate of the disk while the file was being cached, in bytes per second (Student's t over the cold runs that the
    /// disk limited).
    pub disk_bytes_per_s: Interval,
    /// Bytes of the file.
    pub file_bytes: f64,
    /// One point per block size.
    pub points: Vec<CachePoint>,
    /// Mean of the errors' absolute values, in percent.
    pub mean_abs_error_percent: f64,
    /// Largest absolute error, in percent.
    pub max_abs_error_percent: f64,
}

/// Fits the model to runs that repeatedly read `file_bytes` on a cached file (bytes per call, calls per second) with at
/// least two sizes, and predicts the `cold` runs. `None` if the runs do not determine it.
pub fn fit_page_cache(
    cached: &[(f64, f64)],
    cold: &[ColdRun],
    file_bytes: f64,
) -> Option<PageCacheFit> {
    let (call_s, per_byte) = calls(cached)?;
    let left_out = calls_without_each(cached);
    let copy = jackknife(per_byte, left_out.iter().map(|c| c.1));
    // The interval of the time per byte is inverted to one of the rate: its upper bound gives the lower one.
    let low = if copy.high.is_finite() {
        rate_of(copy.high)
    } else {
        f64::NEG_INFINITY
    };
    let disk = disk_rate(cold, |bs| bs / (call_s + bs * per_byte))?;
    let mut fit = PageCacheFit {
        call_s: jackknife(call_s, left_out.iter().map(|c| c.0)),
        copy_bytes_per_s: Interval {
            value: 1.0 / per_byte,
            low,
            high: rate_of(copy.low),
        },
        disk_bytes_per_s: disk,
        file_bytes,
        points: Vec::new(),
        mean_abs_error_percent: 0.0,
        max_abs_error_percent: 0.0,
    };
    // The points are predicted with the parameters found so far; their errors measure how good the model is.
    let mut sizes: Vec<f64> = cold.iter().map(|r| r.block_bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    fit.points = sizes.into_iter().map(|bs| point(&fit, bs, cold)).collect();
    let mut sum = 0.0;
    for point in &fit.points {
        let error = point.error_percent.abs();
        sum += error;
        fit.max_abs_error_percent = fit.max_abs_error_percent.max(error);
    }
    fit.mean_abs_error_percent = sum / fit.points.len() as f64;
    Some(fit)
}

/// [`calls`] with each run left out in turn. Empty if a size has only one run, because it cannot be left out; then the
/// error is unknown.
fn calls_without_each(cached: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let fits = (0..cached.len()).map(|i| calls(&[&cached[..i], &cached[i + 1..]].concat()));
    fits.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Seconds per call and per byte from the means of the smallest and the largest size.
fn calls(cached: &[(f64, f64)]) -> Option<(f64, f64)> {
    let small = cached.iter().map(|c| c.0).fold(f64::INFINITY, f64::min);
    let large = cached.iter().map(|c| c.0).fold(0.0, f64::max);
    if small >= large {
        return None;
    }
    let small = (small, mean_rate(cached, small));
    let large = (large, mean_rate(cached, large));
    let m = PageCacheModel::from_cached_runs(small, large, 1.0, 1.0, 1.0)?;
    Some((m.call_s, 1.0 / m.copy_bytes_per_s))
}

/// Calls per second for each size in bytes.
fn mean_rate(cached: &[(f64, f64)], block_bytes: f64) -> f64 {
    let of_size = cached.iter().filter(|c| c.0 == block_bytes);
    let rates: Vec<f64> = of_size.map(|c| c.1).collect();
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// The disk's rate from the runs that it limited: those whose calls could have been 20 % faster than the fastest run.
/// Without such a run, the fastest run is a lower bound.
fn disk_rate(cold: &[ColdRun], from_memory: impl Fn(f64) -> f64) -> Option<Interval> {
    let rates: Vec<(f64, f64)> = cold
        .iter()
        .filter_map(|r| {
            r.disk_phase
                .filter(|(b, s)| *b > 0.0 && *s > 0.0)
                .map(|(b, s)| (r.block_bytes, b / s))
        })
        .collect();
    let best = rates.iter().map(|r| r.1).reduce(f64::max)?;
    let limited: Vec<f64> = rates
        .iter()
        .filter(|(bs, _)| from_memory(*bs) > 1.2 * best)
        .map(|r| r.1)
        .collect();
    let m = mean_interval(
        if limited.is_empty() {
            std::slice::from_ref(&best)
        } else {
            &limited
        },
        0.05,
    )?;
    let half = m.half_width.unwrap_or(f64::INFINITY);
    Some(Interval {
        value: m.mean,
        low: m.mean - half,
        high: m.mean + half,
    })
}

fn point(fit: &PageCacheFit, bs: f64, cold: &[ColdRun]) -> CachePoint {
    let of: Vec<&ColdRun> = cold.iter().filter(|r| r.block_bytes == bs).collect();
    let n = of.len() as f64;
    let model = PageCacheModel {
        call_s: fit.call_s.value,
        copy_bytes_per_s: fit.copy_bytes_per_s.value,
        disk_bytes_per_s: fit.disk_bytes_per_s.value,
        file_bytes: fit.file_bytes,
        run_s: of.iter().map(|r| r.run_s).sum::<f64>() / n,
    };
    let measured_ios_per_s = of.iter().map(|r| r.ios_per_s).sum::<f64>() / n;
    let p = model.predict(bs);
    CachePoint {
        block_bytes: bs,
        measured_ios_per_s,
        predicted_ios_per_s: p.ios_per_s,
        regime: p.regime,
        error_percent: error_percent(p.ios_per_s, measured_ios_per_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cold(model: &PageCacheModel, bs: f64) -> ColdRun {
        let p = model.predict(bs);
        // A CPU-bound run gets all it requests from the disk.
        let rate = if p.regime == Regime::Cpu {
            bs / p.call_s
        } else {
            model.disk_bytes_per_s
        };
        let bytes = model.file_bytes.min(rate * model.run_s);
        ColdRun {
            block_bytes: bs,
            ios_per_s: p.ios_per_s,
            run_s: model.run_s,
            disk_phase: Some((bytes, bytes / rate)),
        }
    }

    proptest! {
        #[test]
        fn parameters_of_a_simulated_machine_are_recovered(
            call_s in 2e-7f64..5e-6, copy in 1e9f64..2e10, disk in 2e7f64..5e8, run_s in 3.0f64..60.0,
        ) {
            let model = PageCacheModel { call_s, copy_bytes_per_s: copy, disk_bytes_per_s: disk, file_bytes: 1e9, run_s };
            let cached: Vec<(f64, f64)> = [512.0, 512.0, 1_048_576.0, 1_048_576.0]
                .map(|bs| (bs, 1.0 / (call_s + bs / copy))).to_vec();
            let runs: Vec<ColdRun> = (7..21).map(|i| cold(&model, 2f64.powi(i))).collect();
            let fit = fit_page_cache(&cached, &runs, 1e9).expect("determined");
            prop_assert!((fit.call_s.value / call_s - 1.0).abs() < 1e-6);
            prop_assert!((fit.copy_bytes_per_s.value / copy - 1.0).abs() < 1e-6);
            prop_assert!((fit.disk_bytes_per_s.value / disk - 1.0).abs() < 1e-6);
            prop_assert!(fit.max_abs_error_percent < 1e-3, "{:?}", fit.points);
            prop_assert!(fit.call_s.low <= call_s * (1.0 + 1e-9) && fit.call_s.high >= call_s * (1.0 - 1e-9));
        }
    }

    #[test]
    fn one_replicate_has_no_interval_and_one_size_no_model() {
        let run = ColdRun {
            block_bytes: 65536.0,
            ios_per_s: 1000.0,
            run_s: 5.0,
            disk_phase: Some((1e8, 1.0)),
        };
        let fit = fit_page_cache(&[(512.0, 5e5), (65536.0, 5e4)], &[run], 1e8).expect("determined");
        assert!(fit.call_s.low.is_infinite() && fit.disk_bytes_per_s.high.is_infinite());
        assert!(fit_page_cache(&[(512.0, 5e5), (512.0, 6e5)], &[run], 1e8).is_none());
        assert!(
            fit_page_cache(
                &[(512.0, 5e5), (65536.0, 5e4)],
                &[ColdRun {
                    disk_phase: None,
                    ..run
                }],
                1e8
            )
            .is_none()
        );
    }
}
