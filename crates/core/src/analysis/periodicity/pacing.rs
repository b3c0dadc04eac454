//! Recognises pacing: equal intervals because a program waits between requests, not because of a clock (A15).

use crate::analysis::math::stats::{mad, median};
use crate::analysis::periodicity::Clock;
use crate::analysis::stream::requests::Request;

/// Maximum period of pacing, in seconds; longer periods are schedules, whatever causes them.
const LONGEST_S: f64 = 1.0;

/// Single requests, or small groups of them, are evenly spaced if the longest gap is at most this many times the mean.
const EVEN: f64 = 1.5;

/// A closed loop waits for the same time after the last completion, however long that took: waits vary by less than
/// this share of what the intervals vary.
const STEADIER: f64 = 0.7;

/// Whether requests are evenly spaced one at a time, or beats begin a steady time after the completion before them.
/// `arrivals` are sorted by start; times are known to `resolution_ns`.
pub(in crate::analysis::periodicity) fn is_pacing(
    clock: &Clock,
    arrivals: &[&Request],
    origin_ns: i64,
    resolution_ns: i64,
) -> bool {
    if clock.period_s >= LONGEST_S {
        return false;
    }
    let period_ns = clock.period_s * 1e9;
    let mut unevenness: Vec<f64> = Vec::new();
    let mut waits: Vec<f64> = Vec::new();
    let mut intervals: Vec<f64> = Vec::new();
    for pair in clock.beats_s.windows(2) {
        let [before_ns, beat_ns] = [pair[0], pair[1]].map(|s| origin_ns + (s * 1e9).round() as i64);
        // A step over missing beats is not a single wait.
        if (beat_ns - before_ns) as f64 > 1.5 * period_ns {
            continue;
        }
        let [first, end] =
            [before_ns, beat_ns].map(|ns| arrivals.partition_point(|r| r.start_ns < ns));
        let between = &arrivals[first..end];
        let Some(done_ns) = between.iter().map(|r| r.done_ns).max() else {
            continue;
        };
        let requests: f64 = between.iter().map(|r| f64::from(r.ios)).sum();
        unevenness.push(longest_gap(between, beat_ns) * requests / period_ns);
        waits.push((beat_ns - done_ns) as f64);
        intervals.push((beat_ns - before_ns) as f64);
    }
    let is_even = median(&mut unevenness).is_some_and(|u| u <= EVEN);
    let interval_spread_ns = spread(&mut intervals);
    // Intervals that vary no more than the resolution do not show a loop.
    let is_known = interval_spread_ns > resolution_ns as f64;
    is_even || is_known && spread(&mut waits) < STEADIER * interval_spread_ns
}

/// Longest gap between two of the requests, or from the last one to the next beat, in nanoseconds.
fn longest_gap(requests: &[&Request], next_ns: i64) -> f64 {
    let ends = requests.iter().skip(1).map(|r| r.start_ns).chain([next_ns]);
    let gaps = requests
        .iter()
        .zip(ends)
        .map(|(r, end_ns)| end_ns - r.start_ns);
    gaps.max().unwrap_or(0) as f64
}

fn spread(values: &mut [f64]) -> f64 {
    let middle = median(values).unwrap_or(0.0);
    mad(values, middle)
}
