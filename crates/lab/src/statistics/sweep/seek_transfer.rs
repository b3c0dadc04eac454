//! Models the time of an I/O as a seek plus its transfer: t(x) = a + x / B.

use serde::Serialize;

/// A measured point of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Bytes per I/O of the application.
    pub block_bytes: f64,
    /// Device requests completed per second.
    pub device_ios_per_s: f64,
}

/// A value with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Best estimate.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// A point and its prediction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FitPoint {
    /// Measured point of the sweep.
    pub point: SweepPoint,
    /// Requests per second that the model predicts.
    pub predicted_ios_per_s: f64,
    /// Predicted time per I/O minus the measured one, in percent of it.
    pub error_percent: f64,
}

/// Fit of t(x) = a + x/B.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeekTransfer {
    /// Cost of each I/O independent of its size, in seconds (95 % by jackknife).
    pub a_s: Interval,
    /// Transfer rate in bytes per second (95 % by jackknife).
    pub rate_bytes_per_s: Interval,
    /// Every point beside its prediction.
    pub points: Vec<FitPoint>,
}

impl SeekTransfer {
    /// Device requests per second at block size `x` when requests are at most `max_request` bytes.
    pub fn device_ios_per_s(&self, x: f64, max_request: f64) -> f64 {
        (x / max_request).ceil().max(1.0) / (self.a_s.value + x / self.rate_bytes_per_s.value)
    }

    /// Coefficients of the kernel's linear cost model (blk-iocost): bytes/s, sequential and random 4 KiB I/O/s.
    pub fn iocost(&self) -> (f64, f64, f64) {
        let rate = self.rate_bytes_per_s.value;
        (rate, rate / 4096.0, 1.0 / (self.a_s.value + 4096.0 / rate))
    }
}

/// Seconds per I/O of the application, calculated from a point.
fn seconds(p: &SweepPoint, max_request: f64) -> f64 {
    pieces(p, max_request) / p.device_ios_per_s
}

fn pieces(p: &SweepPoint, max_request: f64) -> f64 {
    (p.block_bytes / max_request).ceil().max(1.0)
}

/// Which errors have equal weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// Relative ones (weights 1/t²): for measurements over many octaves.
    Relative,
    /// Absolute ones: for values that were calculated from a straight line.
    Absolute,
}

/// Least squares of t = a + b x.
fn least_squares(points: &[(f64, f64)], weighting: Weighting) -> Option<(f64, f64)> {
    let mut w = 0.0;
    let mut wx = 0.0;
    let mut wt = 0.0;
    let mut wxx = 0.0;
    let mut wxt = 0.0;
    for (x, t) in points {
        let weight = if weighting == Weighting::Relative {
            1.0 / (t * t)
        } else {
            1.0
        };
        w += weight;
        wx += weight * x;
        wt += weight * t;
        wxx += weight * x * x;
        wxt += weight * x * t;
    }
    let determinant = w * wxx - wx * wx;
    // Two different sizes are needed; the threshold is relative to the products that cancel.
    if determinant <= 1e-12 * w * wxx {
        return None;
    }
    Some((
        (wt * wxx - wx * wxt) / determinant,
        (w * wxt - wx * wt) / determinant,
    ))
}

/// Fits the model to a sweep with one I/O at a time, whose requests are at most `max_request` bytes.
///
/// `None` with fewer than three usable points or if the data contradict the model (larger I/Os that are faster).
pub fn fit_seek_transfer(
    points: &[SweepPoint],
    max_request: f64,
    weighting: Weighting,
) -> Option<SeekTransfer> {
    let usable: Vec<SweepPoint> = points
        .iter()
        .filter(|p| p.block_bytes > 0.0 && p.device_ios_per_s > 0.0)
        .copied()
        .collect();
    let xt: Vec<(f64, f64)> = usable
        .iter()
        .map(|p| (p.block_bytes, seconds(p, max_request)))
        .collect();
    if xt.len() < 3 {
        return None;
    }
    let (a, b) = least_squares(&xt, weighting).filter(|(_, b)| *b > 0.0)?;
    let left_out: Vec<(f64, f64)> = (0..xt.len())
        .filter_map(|i| least_squares(&[&xt[..i], &xt[i + 1..]].concat(), weighting))
        .collect();
    let a_s = jackknife(a, left_out.iter().map(|f| f.0));
    let slope = jackknife(b, left_out.iter().map(|f| f.1));
    // The slope is seconds per byte, so the upper bound of its interval gives the lower bound of the rate.
    let rate_bytes_per_s = Interval {
        value: rate_of(b),
        low: rate_of(slope.high),
        high: rate_of(slope.low),
    };
    let mut fit = SeekTransfer {
        a_s,
        rate_bytes_per_s,
        points: Vec::new(),
    };
    fit.points = usable
        .into_iter()
        .map(|point| {
            let predicted_ios_per_s = fit.device_ios_per_s(point.block_bytes, max_request);
            let error_percent = 100.0 * (point.device_ios_per_s / predicted_ios_per_s - 1.0);
            FitPoint {
                point,
                predicted_ios_per_s,
                error_percent,
            }
        })
        .collect();
    Some(fit)
}

/// Bytes per second from seconds per byte; infinite if the estimate is zero or negative.
pub(super) fn rate_of(s_per_byte: f64) -> f64 {
    if s_per_byte > 0.0 {
        1.0 / s_per_byte
    } else {
        f64::INFINITY
    }
}

/// 95 % interval from the estimates with one point left out in turn.
pub(super) fn jackknife(value: f64, left_out: impl Iterator<Item = f64>) -> Interval {
    let v: Vec<f64> = left_out.collect();
    let n = v.len() as f64;
    if v.len() < 2 {
        return Interval {
            value,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        };
    }
    let mean = v.iter().sum::<f64>() / n;
    let error = ((n - 1.0) / n * v.iter().map(|x| (x - mean).powi(2)).sum::<f64>()).sqrt();
    let half = iolens_core::analysis::math::distributions::t_critical(0.05, n - 1.0) * error;
    Interval {
        value,
        low: value - half,
        high: value + half,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const M: f64 = 524_288.0;
    const PUBLISHED: &str =
        include_str!("../../../../../fixtures/golden/seed1_seek_transfer_extrapolated.csv");
    const MEASURED: &str =
        include_str!("../../../../../fixtures/golden/measured_fuse_disk_sweep.csv");

    fn published() -> Vec<SweepPoint> {
        let rows = PUBLISHED
            .lines()
            .skip(1)
            .map(|l| l.split(',').collect::<Vec<_>>());
        rows.map(|c| SweepPoint {
            block_bytes: c[2].parse().expect("bytes"),
            device_ios_per_s: c[3].parse().expect("rate"),
        })
        .collect()
    }

    fn shown(x: f64, decimals: i32) -> f64 {
        (x * 10f64.powi(decimals)).round() / 10f64.powi(decimals)
    }

    #[test]
    fn the_four_published_extrapolations() {
        let fit = fit_seek_transfer(&published(), M, Weighting::Absolute).expect("fits");
        assert_eq!(shown(fit.a_s.value * 1e3, 3), 4.864);
        assert_eq!(shown(M / fit.rate_bytes_per_s.value * 1e3, 3), 6.912);
        assert_eq!(shown(fit.rate_bytes_per_s.value / 1_048_576.0, 1), 72.3);
        assert_eq!(shown(fit.rate_bytes_per_s.value / 1e6, 1), 75.9);
        let predicted: Vec<f64> = fit
            .points
            .iter()
            .map(|p| shown(p.predicted_ios_per_s, 2))
            .collect();
        assert_eq!(predicted, [84.93, 107.03, 123.04, 132.99]);
        assert_eq!(
            shown(fit.device_ios_per_s(M / 4.0, M), 1),
            151.7,
            "the input that the author must have had at 2^17"
        );
        assert_eq!(
            shown(fit.device_ios_per_s(M / 2.0, M), 1),
            120.2,
            "and at 2^18"
        );
        assert!(fit.a_s.low < 4.864e-3 && fit.a_s.high > 4.864e-3);
    }

    /// The set of (a, b = seconds per `max_request`) that is compatible with values rounded to whole requests per
    /// second.
    #[derive(Debug, PartialEq)]
    struct FeasibleRegion {
        /// Minimum and maximum seek time in seconds.
        a_s: (f64, f64),
        /// Minimum and maximum time per full request in seconds.
        request_s: (f64, f64),
        /// Minimum and maximum requests per second at half of a full request.
        half: (f64, f64),
        /// The same at a quarter.
        quarter: (f64, f64),
    }

    /// The region in which every point rounds to its printed value; `None` if no straight line does.
    fn feasible_region(
        points: &[SweepPoint],
        max_request: f64,
        rounding: f64,
    ) -> Option<FeasibleRegion> {
        // Each point is a strip low <= a + k b <= high. The region is a polygon whose corners are on two edges.
        let strips: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|p| {
                let k = p.block_bytes / max_request;
                let n = pieces(p, max_request);
                (
                    k,
                    n / (p.device_ios_per_s + rounding),
                    n / (p.device_ios_per_s - rounding),
                )
            })
            .collect();
        let edges: Vec<(f64, f64)> = strips
            .iter()
            .flat_map(|(k, low, high)| [(*k, *low), (*k, *high)])
            .collect();
        let mut corners = Vec::new();
        for (i, (k1, t1)) in edges.iter().enumerate() {
            for (k2, t2) in &edges[i + 1..] {
                if k1 == k2 {
                    continue;
                }
                let b = (t2 - t1) / (k2 - k1);
                let a = t1 - k1 * b;
                let inside = |(k, low, high): &(f64, f64, f64)| {
                    let t = a + k * b;
                    t >= low * (1.0 - 1e-12) && t <= high * (1.0 + 1e-12)
                };
                if strips.iter().all(inside) {
                    corners.push((a, b));
                }
            }
        }
        let extent = |f: &dyn Fn(f64, f64) -> f64| {
            let values = corners.iter().map(|(a, b)| f(*a, *b));
            (
                values.clone().fold(f64::INFINITY, f64::min),
                values.fold(f64::NEG_INFINITY, f64::max),
            )
        };
        (!corners.is_empty()).then(|| FeasibleRegion {
            a_s: extent(&|a, _| a),
            request_s: extent(&|_, b| b),
            half: extent(&|a, b| 1.0 / (a + b / 2.0)),
            quarter: extent(&|a, b| 1.0 / (a + b / 4.0)),
        })
    }

    #[test]
    fn rounding_leaves_a_tolerance() {
        let r = feasible_region(&published(), M, 0.5).expect("a line fits");
        // The corners are exact; a search on a grid finds a slightly smaller region: 4.745..4.960 and 6.872..6.954 ms.
        assert_eq!(
            (shown(r.a_s.0 * 1e3, 3), shown(r.a_s.1 * 1e3, 3)),
            (4.741, 4.964)
        );
        assert_eq!(
            (shown(r.request_s.0 * 1e3, 3), shown(r.request_s.1 * 1e3, 3)),
            (6.870, 6.954)
        );
        assert_eq!(
            (shown(r.quarter.0, 1), shown(r.quarter.1, 1)),
            (149.7, 154.3)
        );
        assert_eq!((shown(r.half.0, 1), shown(r.half.1, 1)), (119.1, 121.7));
        let mut bent = published();
        bent[1].device_ios_per_s = 60.0;
        assert_eq!(feasible_region(&bent, M, 0.5), None);
    }

    /// A loop device over a file that answers after 4.86 ms + bytes / 75.86 MB/s, on a busy machine.
    #[test]
    fn a_measured_sweep_of_a_programmed_disk() {
        let rows = MEASURED.lines().skip(1).map(|l| {
            l.split(',')
                .map(|c| c.parse::<f64>().expect("number"))
                .collect::<Vec<_>>()
        });
        let points: Vec<SweepPoint> = rows
            .map(|c| SweepPoint {
                block_bytes: c[0],
                device_ios_per_s: c[1] * (c[0] / M).ceil().max(1.0),
            })
            .collect();
        let fit = fit_seek_transfer(&points, M, Weighting::Relative).expect("fits");
        assert_eq!(shown(fit.a_s.value * 1e3, 2), 5.12);
        assert_eq!(shown(fit.rate_bytes_per_s.value / 1e6, 1), 65.6);
        assert!(
            (fit.a_s.value / 4.86e-3 - 1.0).abs() < 0.08
                && (fit.rate_bytes_per_s.value / 75.86e6 - 1.0).abs() < 0.15
        );
        let worst = fit
            .points
            .iter()
            .map(|p| p.error_percent.abs())
            .fold(0.0, f64::max);
        assert_eq!(shown(worst, 1), 4.0);
    }

    proptest! {
        #[test]
        fn an_exact_disk_is_recovered(a in 1e-5f64..2e-2, rate in 1e6f64..5e9) {
            let points: Vec<SweepPoint> = (12..23)
                .map(|i| {
                    let x = 2f64.powi(i);
                    SweepPoint { block_bytes: x, device_ios_per_s: (x / M).ceil().max(1.0) / (a + x / rate) }
                })
                .collect();
            let fit = fit_seek_transfer(&points, M, Weighting::Relative).expect("fits");
            prop_assert!((fit.a_s.value / a - 1.0).abs() < 1e-6);
            prop_assert!((fit.rate_bytes_per_s.value / rate - 1.0).abs() < 1e-6);
        }
    }
}
