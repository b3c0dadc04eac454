//! Finds a device's bandwidth limit: a throughput that more I/Os in flight do not raise.
//!
//! The recording's windows are joined to half a second each. The *limit* is the rate around which most of the fully busy ones lie
//! (5 % either way). It is the device's, not the load's, if hardly any window is faster, if far more is in flight there than
//! the unloaded device needs for that rate, and if the rate is hardly ever reached with less: a load that comes at a limited
//! rate has the same rate with a short queue.

use serde::Serialize;

use crate::analysis::capacity::load::{Load, LoadPoint};
use crate::analysis::findings::evidence::{BandwidthSaturationEvidence, Evidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::math::stats::{median, nearest_rank};
use crate::analysis::stream::losses::Losses;
use crate::model::DevId;

/// Windows are joined to this length at least: 0.5 s.
const JOINED_NS: i64 = 500_000_000;
/// Half the width of a plateau.
const WIDTH: f64 = 0.05;
/// So many windows at the limit, of all and of those fully busy, in runs of so many.
const MIN_WINDOWS: usize = 6;
const MIN_SHARE: f64 = 0.05;
const MIN_OF_BUSY: f64 = 0.5;
const MIN_RUN: usize = 2;
/// Busy all the time.
const FULL_PERCENT: f64 = 99.0;
/// Windows with less than this share of the limit show what the unloaded device needs.
const LIGHT: f64 = 0.7;
const MIN_LIGHT: usize = 6;
/// In flight at the limit, over what the unloaded device needs for it.
const LONG_QUEUE: f64 = 2.0;
const SHORT_QUEUE: f64 = 1.3;
/// At most this share of the windows at the limit has a short queue, and of all is faster.
const MAX_SHORT: f64 = 0.3;
const MAX_FASTER: f64 = 0.02;
/// Requests of less than 64 KiB are limited by their number, if by anything.
const MIN_REQUEST: f64 = 65_536.0;
/// A warning has this share of the time.
const WARNING: f64 = 0.2;

/// A limit of throughput that the recording shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plateau {
    /// Median rate of the windows on it.
    pub limit_bytes_per_s: f64,
    /// The rates between which nine tenths of them lie.
    pub limit_range: (f64, f64),
    /// First and last moment on it, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// See above.
    pub to_ns: i64,
    /// Windows on it, and their length.
    pub windows: usize,
    /// See above.
    pub window_ns: i64,
    /// Share of the time.
    pub share: f64,
    /// Mean and highest number in flight there.
    pub in_flight: f64,
    /// See above.
    pub most_in_flight: f64,
    /// I/Os in flight that the unloaded device needs for that rate.
    pub needed_in_flight: f64,
    /// Mean latency there in microseconds.
    pub latency_us: f64,
    /// Mean latency in light windows, in microseconds.
    pub light_us: f64,
    /// Mean request in bytes.
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
    /// Sum of latencies of the I/Os of a second.
    us_per_s: f64,
    lossy: bool,
}

impl Joined {
    /// Whether the device was busy all the time at this rate, give or take half the width of a plateau.
    fn is_at(&self, limit: f64) -> bool {
        !self.lossy
            && self.busy_percent >= FULL_PERCENT
            && (self.bytes_per_s / limit - 1.0).abs() <= WIDTH
    }
}

/// The joined windows with anything in them, and the length of each.
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

/// The mean over `windows` of which `points` are those with anything in them.
fn mean(points: &[LoadPoint], windows: usize, value: fn(&LoadPoint) -> f64) -> f64 {
    points.iter().map(value).sum::<f64>() / windows as f64
}

/// The limit that the windows of a device show; `None` if they show none.
pub(in crate::analysis) fn find(load: &Load, dev: DevId, losses: &Losses) -> Option<Plateau> {
    let (all, window_ns) = joined(load, dev, losses);
    let full: Vec<&Joined> = all
        .iter()
        .filter(|w| w.busy_percent >= FULL_PERCENT && !w.lossy)
        .collect();
    let limit = densest(&full)?;

    // The rate is the device's limit only if it is usual while the device is busy, and hardly ever exceeded.
    let on = in_runs_at(&all, limit, window_ns);
    let all_windows = load.windows as f64 * load.len_ns as f64 / window_ns as f64;
    let share = on.len() as f64 / all_windows.max(1.0);
    let is_usual = on.len() >= MIN_WINDOWS
        && share >= MIN_SHARE
        && on.len() as f64 >= MIN_OF_BUSY * full.len() as f64;
    if !is_usual || is_exceeded(&all, limit) {
        return None;
    }

    // What limits must be bytes, not the number of requests.
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
    // The middle one: a window in which an overload begins is no light one.
    let mut light_means: Vec<f64> = light.iter().map(|w| w.us_per_s / w.ios_per_s).collect();
    let light_us = median(&mut light_means)?;

    // Little's law: so many were in flight if I/Os came at that rate to the unloaded device. At a limit more wait.
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

/// The windows at the limit that follow one another. A single one can be at that rate by chance.
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

/// Whether mostly far more, and rarely hardly more, is in flight than the `needed` number. A load that comes at a limited
/// rate has a short queue.
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

/// Bytes of a request, on average.
fn mean_request(windows: &[&Joined]) -> f64 {
    sum(windows, |w| w.bytes_per_s) / sum(windows, |w| w.ios_per_s)
}

/// The middle of the interval of rates, 5 % either way, that holds most windows; of equals the fastest.
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

/// How many of the sorted `rates` lie in the interval that begins at the one numbered `from`.
fn held_from(rates: &[f64], from: usize) -> usize {
    rates.partition_point(|r| *r <= rates[from] * (1.0 + 2.0 * WIDTH)) - from
}

/// Whether bytes per second vary less than I/Os per second do, or sizes hardly vary: a limit of bytes, not of requests.
fn by_bytes(on: &[&Joined]) -> bool {
    spread(on, |w| w.bytes_per_s) <= spread(on, |w| w.ios_per_s).max(0.02)
}

/// The standard deviation of a value over the windows, as a share of its mean.
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
