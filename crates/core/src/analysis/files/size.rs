//! Response time versus request size, and its steps at multiples of the size of one I/O (A7).

use serde::Serialize;

use super::median;
use crate::analysis::math::stats::nearest_rank;

const KIB: i64 = 1024;
/// Bins are 1 KiB wide up to this size; beyond it their width doubles.
const FINE: i64 = 16 * KIB;
/// Minimum number of entries of a wide bin; with fewer it is joined with the next.
const MIN_ENTRIES: usize = 30;

/// Size and response times of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizePoint {
    /// Bytes it moved.
    pub bytes: i64,
    /// Open to the last data I/O's exit, in nanoseconds.
    pub total_ns: i64,
    /// Open to the first data I/O's exit, in nanoseconds.
    pub first_ns: i64,
}

/// Requests in a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeBin {
    /// Lower bound of the request size, exclusive.
    pub over_bytes: i64,
    /// Upper bound of the request size, inclusive.
    pub to_bytes: i64,
    /// Number of requests.
    pub n: usize,
    /// Fewer than 30, too few for a stable median.
    pub low_n: bool,
    /// Median of open to last exit, in microseconds.
    pub total_p50_us: f64,
    /// Lower end of the 95 % confidence interval of the median response time, from order statistics.
    pub total_low_us: f64,
    /// Upper end of the 95 % confidence interval of the median response time, from order statistics.
    pub total_high_us: f64,
    /// Median of open to first exit, in microseconds.
    pub first_p50_us: f64,
}

/// Bins of 1 KiB up to 16 KiB, then powers of two, joined until each has 30 entries. Empty bins are left out.
pub fn bins(points: &[SizePoint]) -> Vec<SizeBin> {
    let mut sorted: Vec<SizePoint> = points.iter().filter(|p| p.bytes > 0).copied().collect();
    sorted.sort_by_key(|p| p.bytes);
    let mut out = Vec::new();
    let mut from = 0;
    let mut over = 0;
    let mut to = KIB;
    while from < sorted.len() {
        let end = from + sorted[from..].partition_point(|p| p.bytes <= to);
        let last = end == sorted.len();
        if to <= FINE || end - from >= MIN_ENTRIES || last {
            if end > from {
                out.push(bin(&sorted[from..end], over, to));
            }
            from = end;
            over = to;
        }
        to = if to < FINE {
            to + KIB
        } else {
            to.saturating_mul(2)
        };
    }
    out
}

fn bin(points: &[SizePoint], over_bytes: i64, to_bytes: i64) -> SizeBin {
    let n = points.len();
    let mut total: Vec<f64> = points.iter().map(|p| p.total_ns as f64 / 1e3).collect();
    let mut first: Vec<f64> = points.iter().map(|p| p.first_ns as f64 / 1e3).collect();
    total.sort_by(f64::total_cmp);
    // Ranks np ± 1.96 sqrt(np(1-p)) with p = 1/2.
    let reach = 0.98 * (n as f64).sqrt();
    SizeBin {
        over_bytes,
        to_bytes,
        n,
        low_n: n < MIN_ENTRIES,
        total_low_us: at_rank(&total, n as f64 / 2.0 - reach - 1.0),
        total_high_us: at_rank(&total, n as f64 / 2.0 + reach),
        total_p50_us: median(&mut total).unwrap_or(0.0),
        first_p50_us: median(&mut first).unwrap_or(0.0),
    }
}

/// The element of `sorted` (not empty) whose rank, from 0, is nearest to `rank`.
pub(super) fn at_rank(sorted: &[f64], rank: f64) -> f64 {
    sorted[(rank.round() as isize).clamp(0, sorted.len() as isize - 1) as usize]
}

/// Response time as a step function of size: `overhead + ceil(size / block) * io`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steps {
    /// Size of one I/O in the estimate.
    pub block_bytes: i64,
    /// Cost of each I/O (height of a step), in microseconds.
    pub io_us: f64,
    /// Cost that is paid once, in microseconds; negative if the first I/O costs less than those after it.
    pub overhead_us: f64,
    /// How much the Bayesian information criterion (BIC) prefers steps to a straight line; more than 10 is decisive.
    pub bic_gain: f64,
}

/// Candidates for the size of an I/O.
const BLOCKS: [i64; 6] = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB];
/// Minimum number of entries in a bin of 1 KiB.
const MIN_IN_BIN: usize = 3;

/// Median of a bin of 1 KiB.
struct SizeLevel {
    kib: i64,
    weight: f64,
    us: f64,
}

/// Searches for steps: compares medians of 1 KiB bins with functions that are constant over each period, with steps
/// of any height or all of one height, selected by BIC. `None` if a straight line explains the data as well, or if
/// there are too few data.
pub fn steps(points: &[SizePoint]) -> Option<Steps> {
    let mut sorted: Vec<SizePoint> = points.iter().filter(|p| p.bytes > 0).copied().collect();
    sorted.sort_by_key(|p| p.bytes);
    let mut levels = Vec::new();
    for chunk in sorted.chunk_by(|a, b| (a.bytes - 1) / KIB == (b.bytes - 1) / KIB) {
        if chunk.len() >= MIN_IN_BIN {
            let mut totals: Vec<f64> = chunk.iter().map(|p| p.total_ns as f64 / 1e3).collect();
            let us = median(&mut totals)?;
            levels.push(SizeLevel {
                kib: (chunk[0].bytes - 1) / KIB + 1,
                weight: chunk.len() as f64,
                us,
            });
        }
    }
    if levels.len() < 8 {
        return None;
    }
    let line = bic(&levels, 2.0, straight_line(&levels, |kib| kib as f64));
    let candidates = BLOCKS.into_iter().filter_map(|block| {
        let (rss, groups) = piecewise(&levels, block / KIB);
        let stairs = straight_line(&levels, |kib| ((kib - 1) / (block / KIB) + 1) as f64);
        // The period is a parameter of equal steps; periods with heights of their own have one parameter each.
        let best = bic(&levels, groups, rss).min(bic(&levels, 3.0, stairs));
        (groups >= 2.0).then_some((best, block))
    });
    let (best, block_bytes) = candidates.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (overhead_us, io_us) = costs(&sorted, block_bytes)?;
    // A negative cost per I/O means that something else was fitted. A negative overhead does not: each I/O but the
    // first may come after a wait of the program itself, as for a slow client.
    (best < line && io_us > 0.0).then_some(Steps {
        block_bytes,
        io_us,
        overhead_us,
        bic_gain: line - best,
    })
}

fn bic(levels: &[SizeLevel], parameters: f64, rss: f64) -> f64 {
    let n = levels.len() as f64;
    let weight: f64 = levels.iter().map(|l| l.weight).sum();
    let mean = levels.iter().map(|l| l.weight * l.us).sum::<f64>() / weight;
    let all = levels
        .iter()
        .map(|l| l.weight * (l.us - mean).powi(2))
        .sum::<f64>();
    // Limits how good a perfect fit can be; otherwise the number of parameters would not count.
    n * (rss.max(1e-9 * all).max(f64::MIN_POSITIVE) / weight).ln() + parameters * n.ln()
}

/// Residual sum of squares around a straight line in `x`.
fn straight_line(levels: &[SizeLevel], x: impl Fn(i64) -> f64) -> f64 {
    let w: f64 = levels.iter().map(|l| l.weight).sum();
    let (mx, my) = levels.iter().fold((0.0, 0.0), |(mx, my), l| {
        (mx + l.weight * x(l.kib) / w, my + l.weight * l.us / w)
    });
    let (sxx, sxy) = levels.iter().fold((0.0, 0.0), |(xx, xy), l| {
        let dx = x(l.kib) - mx;
        (xx + l.weight * dx * dx, xy + l.weight * dx * (l.us - my))
    });
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    levels
        .iter()
        .map(|l| l.weight * (l.us - my - slope * (x(l.kib) - mx)).powi(2))
        .sum()
}

/// Residual sum of squares around the mean of each period, and the number of periods.
fn piecewise(levels: &[SizeLevel], period_kib: i64) -> (f64, f64) {
    let mut rss = 0.0;
    let mut groups = 0.0;
    for group in levels.chunk_by(|a, b| (a.kib - 1) / period_kib == (b.kib - 1) / period_kib) {
        let w: f64 = group.iter().map(|l| l.weight).sum();
        let mean = group.iter().map(|l| l.weight * l.us).sum::<f64>() / w;
        rss += group
            .iter()
            .map(|l| l.weight * (l.us - mean).powi(2))
            .sum::<f64>();
        groups += 1.0;
    }
    (rss, groups)
}

/// Overhead and cost of an I/O: the line through the medians of 1, 2, ... blocks, weighted by their counts.
fn costs(sorted: &[SizePoint], block: i64) -> Option<(f64, f64)> {
    let mut levels = Vec::new();
    for group in sorted.chunk_by(|a, b| (a.bytes - 1) / block == (b.bytes - 1) / block) {
        let mut totals: Vec<f64> = group.iter().map(|p| p.total_ns as f64 / 1e3).collect();
        levels.push((
            (group[0].bytes - 1) / block + 1,
            group.len() as f64,
            nearest_rank(&mut totals, 0.5)?,
        ));
    }
    let w: f64 = levels.iter().map(|l| l.1).sum();
    let (mx, my) = levels.iter().fold((0.0, 0.0), |(x, y), (n, c, us)| {
        (x + c * *n as f64 / w, y + c * us / w)
    });
    let (sxx, sxy) = levels.iter().fold((0.0, 0.0), |(xx, xy), (n, c, us)| {
        let dx = *n as f64 - mx;
        (xx + c * dx * dx, xy + c * dx * (us - my))
    });
    (sxx > 0.0).then(|| (my - sxy / sxx * mx, sxy / sxx))
}

#[cfg(test)]
mod tests {
    use super::super::tests::simulated;
    use super::*;

    #[test]
    fn the_block_is_found_exactly_and_its_costs_within_two_percent() {
        for (seed, block) in BLOCKS.into_iter().enumerate() {
            let points = simulated(seed as u64, 6000, block, 58_000.0, 12_000.0, 5 * block);
            let s = steps(&points).expect("steps");
            assert_eq!(s.block_bytes, block);
            assert!(
                (s.io_us / 12.0 - 1.0).abs() < 0.02 && (s.overhead_us / 58.0 - 1.0).abs() < 0.02,
                "{s:?}"
            );
        }
    }

    #[test]
    fn few_large_files_do_not_hide_the_steps_of_many_small_ones() {
        // As a web server reads: sizes fall off, I/Os of 8 KiB, and a wait for the client before each but the first.
        let mut random = super::super::tests::Rng::new(4);
        let points: Vec<SizePoint> = (0..20_000)
            .map(|_| {
                let bytes = 1 + (-12_000.0 * random.uniform().ln()) as i64;
                let total = 8_000.0 + 20_000.0 * ((bytes - 1) / 8192) as f64;
                SizePoint {
                    bytes,
                    total_ns: (total * (0.5 - random.uniform().ln())) as i64,
                    first_ns: 8_000,
                }
            })
            .collect();
        let s = steps(&points).expect("steps");
        assert!(s.block_bytes == 8192 && s.overhead_us < 0.0, "{s:?}");
    }

    #[test]
    fn a_straight_line_has_no_steps() {
        let points: Vec<SizePoint> = (1..4000)
            .map(|i| SizePoint {
                bytes: i * 16,
                total_ns: 10_000 + i * 16 + (i * 7919 % 97) * 10,
                first_ns: 5,
            })
            .collect();
        assert_eq!(steps(&points), None);
        assert_eq!(steps(&points[..5]), None);
    }

    #[test]
    fn bins_are_narrow_then_wide_and_every_request_is_in_one() {
        let points = simulated(3, 3000, 8192, 1000.0, 500.0, 1 << 20);
        let bins = bins(&points);
        assert_eq!(bins.iter().map(|b| b.n).sum::<usize>(), 3000);
        assert!(
            bins.iter()
                .filter(|b| b.to_bytes > FINE)
                .rev()
                .skip(1)
                .all(|b| b.n >= MIN_ENTRIES)
        );
        assert!(bins.windows(2).all(|w| w[0].to_bytes <= w[1].over_bytes));
        assert!(
            bins.iter()
                .all(|b| b.total_low_us <= b.total_p50_us && b.total_p50_us <= b.total_high_us)
        );
    }
}
