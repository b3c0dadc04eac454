//! Which came first: does the latency of one class follow the rate of another, or the rate the latency?

use serde::Serialize;

use crate::analysis::stream::requests::Request;

/// What the lag of highest correlation says of cause and effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Latency follows the bursts, by no more than victims take.
    BurstFirst,
    /// Latency rises before the bursts: they are not its cause, or not alone.
    LatencyFirst,
    /// Neither, or nothing varies.
    Unclear,
}

/// Width of the bins that direction is judged on, how many of them, and how far apart rate and latency may be.
const BIN_NS: i64 = 10_000_000;
const BINS: usize = 20_000;
const REACH: usize = 25;

/// Which comes first, what the `aggressors` submit or the latency of `victims` (by their submission): cross-correlation in
/// bins of 10 ms, of which `BINS` from the first of `episodes` on. An effect shows `within_ns` of its cause: the longest that
/// a victim takes, give or take a bin.
pub fn direction(
    victims: &[Request],
    aggressors: &[Request],
    episodes: &[(i64, i64)],
    within_ns: i64,
) -> (Option<i64>, Direction) {
    let (Some((first_ns, _)), Some((_, last_ns))) = (episodes.first(), episodes.last()) else {
        return (None, Direction::Unclear);
    };
    let from_ns = first_ns - 2 * REACH as i64 * BIN_NS;
    let bins = (((last_ns - from_ns) / BIN_NS) as usize + 2 * REACH).min(BINS);
    let bin = |ns: i64| {
        usize::try_from((ns - from_ns).div_euclid(BIN_NS))
            .ok()
            .filter(|i| *i < bins)
    };
    let (mut rates, mut sums) = (vec![0.0; bins], vec![(0u64, 0i128); bins]);
    for (i, r) in aggressors
        .iter()
        .filter_map(|r| Some((bin(r.start_ns)?, r)))
    {
        rates[i] += f64::from(r.bytes.max(1));
    }
    for (i, r) in victims.iter().filter_map(|r| Some((bin(r.start_ns)?, r))) {
        sums[i] = (sums[i].0 + 1, sums[i].1 + i128::from(r.total_ns()));
    }
    let latency: Vec<Option<f64>> = sums
        .iter()
        .map(|(n, sum)| (*n > 0).then(|| *sum as f64 / *n as f64))
        .collect();
    let Some(bins) = follows_by(&rates, &latency, REACH) else {
        return (None, Direction::Unclear);
    };
    let direction = match bins * BIN_NS {
        ns if ns < -BIN_NS => Direction::LatencyFirst,
        ns if ns <= within_ns.saturating_add(BIN_NS) => Direction::BurstFirst,
        _ => Direction::Unclear,
    };
    (Some(bins * BIN_NS), direction)
}

/// By how many bins the victims' mean latency follows the burst rate, at the highest correlation among
/// `-reach..=reach` bins. Positive: the rate comes first. `None` without variation.
pub fn follows_by(rate: &[f64], latency: &[Option<f64>], reach: usize) -> Option<i64> {
    let reach = reach as i64;
    (-reach..=reach)
        .filter_map(|lag| {
            let pairs: Vec<(f64, f64)> = latency
                .iter()
                .enumerate()
                .filter_map(|(i, l)| {
                    Some((*rate.get(usize::try_from(i as i64 - lag).ok()?)?, (*l)?))
                })
                .collect();
            Some((correlation(&pairs)?, lag))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.abs().cmp(&a.1.abs())))
        .map(|(_, lag)| lag)
}

fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (mx, my) = pairs
        .iter()
        .fold((0.0, 0.0), |m, p| (m.0 + p.0 / n, m.1 + p.1 / n));
    let (xx, yy, xy) = pairs.iter().fold((0.0, 0.0, 0.0), |s, p| {
        let (x, y) = (p.0 - mx, p.1 - my);
        (s.0 + x * x, s.1 + y * y, s.2 + x * y)
    });
    let varies = |ss: f64, mean: f64| ss > 1e-12 * n * (mean * mean).max(f64::MIN_POSITIVE);
    (pairs.len() > 2 && varies(xx, mx) && varies(yy, my)).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn latency_follows_the_rate() {
        let rate: Vec<f64> = (0..200).map(|i| f64::from(u8::from(i % 37 < 4))).collect();
        let latency: Vec<Option<f64>> = (0..200)
            .map(|i| (i >= 3).then(|| rate[i - 3] * 5.0 + 1.0))
            .collect();
        assert_eq!(follows_by(&rate, &latency, 10), Some(3));
        assert_eq!(follows_by(&[1.0; 200], &latency, 10), None);
    }

    #[test]
    fn what_comes_first_is_reported() {
        let bursts: Vec<(i64, i64)> = (0..9)
            .map(|i| i * 2000 * MS + i * i * 13 * MS + 500 * MS)
            .map(|a| (a, a + 300 * MS))
            .collect();
        let inside = |at: i64| bursts.iter().any(|(a, b)| *a <= at && at < *b);
        let request = |i: i64| {
            let start_ns = i * 10 * MS;
            let done_ns = start_ns
                + if inside(start_ns) {
                    5 * MS
                } else {
                    MS + i % 7 * 1000
                };
            Request {
                start_ns,
                issue_ns: start_ns,
                done_ns,
                bytes: 4096,
                tgid: 0,
            }
        };
        let all: Vec<Request> = (0..2000).map(request).collect();
        let writes_shifted = |by_ns: i64| -> Vec<Request> {
            let at = |i: i64| Request {
                start_ns: i * 10 * MS,
                issue_ns: i * 10 * MS,
                done_ns: i * 10 * MS + MS,
                bytes: 1 << 20,
                tgid: 0,
            };
            (0..2000)
                .filter(|i| inside(i * 10 * MS - by_ns))
                .map(at)
                .collect()
        };
        let of = |by_ns| direction(&all, &writes_shifted(by_ns), &bursts, 5 * MS);
        assert_eq!(of(0), (Some(0), Direction::BurstFirst));
        assert_eq!(of(80 * MS), (Some(-80 * MS), Direction::LatencyFirst));
        assert_eq!(
            of(-80 * MS),
            (Some(80 * MS), Direction::Unclear),
            "farther than the lag explains"
        );
        assert_eq!(direction(&all, &all, &[], MS), (None, Direction::Unclear));
    }
}
