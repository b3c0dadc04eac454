//! Finds a device's bandwidth limit: a throughput that more I/Os in flight do not raise.
//!
//! The recording's windows are joined to half a second each. The *limit* is the rate around which most of the fully
//! busy ones are (5 % either way). It is a limit of the device, not of the load, if hardly any window is faster, if
//! far more I/Os are in flight there than the unloaded device needs for that rate, and if the rate is hardly ever
//! reached with fewer: a load that arrives at a limited rate has the same rate with a short queue.

use serde::Serialize;

use crate::analysis::capacity::load::{Load, LoadPoint};
use crate::analysis::findings::evidence::{BandwidthSaturationEvidence, Evidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::math::stats::{median, nearest_rank};
use crate::analysis::stream::losses::Losses;
use crate::model::DevId;

/// Windows are joined to at least this length: 0.5 s.
const JOINED_NS: i64 = 500_000_000;
/// Half the width of a plateau, relative to its rate.
const WIDTH: f64 = 0.05;
/// Minimum number of windows at the limit, their minimum share of all windows and of the fully busy ones, and minimum
/// length of a run of them.
const MIN_WINDOWS: usize = 6;
const MIN_SHARE: f64 = 0.05;
const MIN_OF_BUSY: f64 = 0.5;
const MIN_RUN: usize = 2;
/// Busy percentage from which on a window is fully busy.
const FULL_PERCENT: f64 = 99.0;
/// Windows below this share of the limit show what the unloaded device needs; minimum number of such windows.
const LIGHT: f64 = 0.7;
const MIN_LIGHT: usize = 6;
/// Number in flight at the limit, divided by what the unloaded device needs: a queue is long from the first value on,
/// and short below the second.
const LONG_QUEUE: f64 = 2.0;
const SHORT_QUEUE: f64 = 1.3;
/// Maximum share of the windows at the limit with a short queue, and of all windows with I/O that are faster.
const MAX_SHORT: f64 = 0.3;
const MAX_FASTER: f64 = 0.02;
/// Minimum mean request size, 64 KiB: smaller requests are limited by their number, if at all.
const MIN_REQUEST: f64 = 65_536.0;
/// Share of the time from which on a limit is a warning.
const WARNING: f64 = 0.2;

/// A limit of throughput that the recording shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plateau {
    /// Median rate of the windows at the limit.
    pub limit_bytes_per_s: f64,
    /// 5th and 95th percentile of their rates, in bytes per second.
    pub limit_range: (f64, f64),
    /// Start of the first window at the limit, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End of the last window at the limit.
    pub to_ns: i64,
    /// Number of windows at the limit.
    pub windows: usize,
    /// Length of a window.
    pub window_ns: i64,
    /// Share of the recording in these windows, 0 to 1.
    pub share: f64,
    /// Mean number in flight in these windows.
    pub in_flight: f64,
    /// Highest mean number in flight of one of these windows.
    pub most_in_flight: f64,
    /// I/Os in flight that the unloaded device needs for that rate, by Little's law.
    pub needed_in_flight: f64,
    /// Mean latency in these windows, in microseconds.
    pub latency_us: f64,
    /// Mean latency of the unloaded device, in microseconds: median over light windows.
    pub light_us: f64,
    /// Mean request size in bytes.
    pub request_bytes: f64,
}

/// One window of half a second or more.
#[derive(Clone, Copy)]
struct Joined {
    from_ns: i64,
    ios_per_s: f64,
    bytes_per_s: f64,
    in_flight: f64,
    busy_percent: f64,
    /// Sum of the latencies of one second's I/Os, in microseconds.
    us_per_s: f64,
    lossy: bool,
}

impl Joined {
    /// Whether the device was busy all the time, at this rate within half the width of a plateau.
    fn is_at(&self, limit: f64) -> bool {
        !self.lossy
            && self.busy_percent >= FULL_PERCENT
            && (self.bytes_per_s / limit - 1.0).abs() <= WIDTH
    }
}

/// The joined windows with activity, and the length of each in nanoseconds.
fn joined(load: &Load, dev: DevId, losses: &Losses) -> (Vec<Joined>, i64) {
    let each = JOINED_NS.div_euclid(load.len_ns.max(1)).max(1) as usize;
    let window_ns = load.len_ns * each as i64;
    let whole = load.windows / each;
    let parts = load
        .points
        .chunk_by(|a, b| load.index(a) / each == load.index(b) / each);
    let mut windows = Vec::new();
    for part in parts {
        let number = load.index(&part[0]) / each;
        if number >= whole {
            break;
        }
        let from_ns = load.from_ns + number as i64 * window_ns;
        windows.push(Joined {
            from_ns,
            ios_per_s: mean(part, each, |p| p.ios_per_s),
            bytes_per_s: mean(part, each, |p| p.bytes_per_s),
            in_flight: mean(part, each, |p| p.in_flight),
            busy_percent: mean(part, each, |p| p.busy_percent),
            us_per_s: mean(part, each, |p| p.ios_per_s * p.mean_us.unwrap_or(0.0)),
            lossy: losses.overlap(dev, from_ns, from_ns + window_ns),
        });
    }
    (windows, window_ns)
}

/// The mean over `windows` windows; `points` are those with activity.
fn mean(points: &[LoadPoint], windows: usize, value: fn(&LoadPoint) -> f64) -> f64 {
    points.iter().map(value).sum::<f64>() / windows as f64
}

/// The limit of a device; `None` if its windows show none.
pub(in crate::analysis) fn find(load: &Load, dev: DevId, losses: &Losses) -> Option<Plateau> {
    let (all, window_ns) = joined(load, dev, losses);
    let full: Vec<&Joined> = all
        .iter()
        .filter(|w| w.busy_percent >= FULL_PERCENT && !w.lossy)
        .collect();
    let limit = densest(&full)?;

    // The rate is the device's limit only if it is common while the device is busy, and hardly ever exceeded.
    let on = in_runs_at(&all, limit, window_ns);
    let all_windows = load.windows as f64 * load.len_ns as f64 / window_ns as f64;
    let share = on.len() as f64 / all_windows.max(1.0);
    let is_usual = on.len() >= MIN_WINDOWS
        && share >= MIN_SHARE
        && on.len() as f64 >= MIN_OF_BUSY * full.len() as f64;
    if !is_usual || is_exceeded(&all, limit) {
        return None;
    }

    // The limit must be one of bytes, not of the number of requests.
    let request_bytes = mean_request(&on);
    if request_bytes < MIN_REQUEST || !by_bytes(&on) {
        return None;
    }

    // Light windows show what the unloaded device needs, if their requests are of about the same size.
    let light: Vec<&Joined> = all
        .iter()
        .filter(|w| w.ios_per_s > 0.0 && !w.lossy && w.bytes_per_s < LIGHT * limit)
        .collect();
    let are_alike = (0.5..2.0).contains(&(mean_request(&light) / request_bytes));
    if light.len() < MIN_LIGHT || !are_alike {
        return None;
    }
    // The median, because a window in which an overload begins is not light.
    let mut light_means: Vec<f64> = light.iter().map(|w| w.us_per_s / w.ios_per_s).collect();
    let light_us = median(&mut light_means)?;

    // Little's law: this many would be in flight if I/Os came at that rate to the unloaded device. At a limit more wait.
    let ios_per_s = sum(&on, |w| w.ios_per_s) / on.len() as f64;
    let needed = ios_per_s * light_us / 1e6;
    if !has_long_queues(&on, needed) {
        return None;
    }

    let mut rates: Vec<f64> = on.iter().map(|w| w.bytes_per_s).collect();
    Some(Plateau {
        limit_bytes_per_s: nearest_rank(&mut rates, 0.5)?,
        limit_range: (
            nearest_rank(&mut rates, 0.05)?,
            nearest_rank(&mut rates, 0.95)?,
        ),
        from_ns: on[0].from_ns,
        to_ns: on[on.len() - 1].from_ns + window_ns,
        windows: on.len(),
        window_ns,
        share,
        in_flight: sum(&on, |w| w.in_flight) / on.len() as f64,
        most_in_flight: on.iter().map(|w| w.in_flight).fold(0.0, f64::max),
        needed_in_flight: needed,
        latency_us: sum(&on, |w| w.us_per_s) / sum(&on, |w| w.ios_per_s),
        light_us,
        request_bytes,
    })
}

/// The windows at the limit, in runs of at least two. A single one can be at that rate by chance.
fn in_runs_at(all: &[Joined], limit: f64, window_ns: i64) -> Vec<&Joined> {
    let runs =
        all.chunk_by(|a, b| a.is_at(limit) == b.is_at(limit) && b.from_ns - a.from_ns == window_ns);
    runs.filter(|run| run[0].is_at(limit) && run.len() >= MIN_RUN)
        .flatten()
        .collect()
}

/// Whether more than a few of the windows with I/O are faster than the limit.
fn is_exceeded(all: &[Joined], limit: f64) -> bool {
    let active = all.iter().filter(|w| w.ios_per_s > 0.0).count();
    let faster = all
        .iter()
        .filter(|w| w.bytes_per_s > limit * (1.0 + WIDTH))
        .count();
    faster as f64 > MAX_FASTER * active as f64
}

/// Whether at least half of the windows have far more than `needed` in flight, and few have hardly more. A load that
/// arrives at a limited rate has a short queue.
fn has_long_queues(on: &[&Joined], needed: f64) -> bool {
    let needed = needed.max(1.0);
    let long = on
        .iter()
        .filter(|w| w.in_flight >= LONG_QUEUE * needed)
        .count();
    let short = on
        .iter()
        .filter(|w| w.in_flight < SHORT_QUEUE * needed)
        .count();
    2 * long >= on.len() && short as f64 <= MAX_SHORT * on.len() as f64
}

fn sum(windows: &[&Joined], value: fn(&Joined) -> f64) -> f64 {
    windows.iter().map(|w| value(w)).sum()
}

/// Mean request size in bytes.
fn mean_request(windows: &[&Joined]) -> f64 {
    sum(windows, |w| w.bytes_per_s) / sum(windows, |w| w.ios_per_s)
}

/// Median rate in the interval of rates, 5 % either way, that contains most windows; of equal ones the fastest.
fn densest(full: &[&Joined]) -> Option<f64> {
    let mut rates: Vec<f64> = full
        .iter()
        .map(|w| w.bytes_per_s)
        .filter(|r| *r > 0.0)
        .collect();
    rates.sort_by(f64::total_cmp);
    let from = (0..rates.len()).max_by_key(|from| held_from(&rates, *from))?;
    let end = from + held_from(&rates, from);
    nearest_rank(&mut rates[from..end].to_vec(), 0.5)
}

/// Number of sorted `rates` in the interval that begins at index `from`.
fn held_from(rates: &[f64], from: usize) -> usize {
    rates.partition_point(|r| *r <= rates[from] * (1.0 + 2.0 * WIDTH)) - from
}

/// Whether bytes per second vary less than I/Os per second, or by at most 2 %: then bytes are limited, not requests.
fn by_bytes(on: &[&Joined]) -> bool {
    spread(on, |w| w.bytes_per_s) <= spread(on, |w| w.ios_per_s).max(0.02)
}

/// Standard deviation of a value over the windows, relative to its mean.
fn spread(on: &[&Joined], value: fn(&Joined) -> f64) -> f64 {
    let mean = sum(on, value) / on.len() as f64;
    let squares: f64 = on.iter().map(|w| (value(w) / mean - 1.0).powi(2)).sum();
    (squares / on.len() as f64).sqrt()
}

/// The finding.
pub(in crate::analysis) fn finding(dev: DevId, p: &Plateau) -> Finding {
    Finding {
        dev: Some(dev),
        from_ns: p.from_ns,
        to_ns: p.to_ns,
        severity: if p.share >= WARNING {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::BandwidthSaturation(BandwidthSaturationEvidence {
            plateau_bytes_per_s: p.limit_bytes_per_s,
            plateau_range_bytes_per_s: p.limit_range,
            plateau_percent: 100.0 * p.share,
            windows: p.windows,
            window_s: p.window_ns as f64 / 1e9,
            mean_in_flight: p.in_flight,
            max_in_flight: p.most_in_flight,
            needed_in_flight: p.needed_in_flight,
            plateau_mean_us: p.latency_us,
            unloaded_us: p.light_us,
            mean_request_bytes: p.request_bytes,
        }),
    }
}
