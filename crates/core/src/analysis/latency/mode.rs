//! Finds a second mode in device times: for example 1 % of similar requests at 12 ms beside 99 % at 100 us.
//!
//! Device times are compared within one class and size (a factor of two), relative to those issued at the same load
//! (`at_issue.rs`), so that neither sizes nor queueing in the device cause a mode. A *second mode* is a peak in the
//! density of their logarithms beyond a valley: exponential, log-normal and gamma times, and sums of them, have none.
//! A *tail* has far more slow requests than a log-normal distribution with the same median and 90th percentile.

use std::collections::HashSet;

use serde::Serialize;

use crate::analysis::counters::pressure::{CpuShortage, HostPressure};
use crate::analysis::device::at_issue::{AtIssue, against_alike};
use crate::analysis::findings::evidence::{Evidence, LatencyModeEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::latency::change::LatencyContext;
use crate::analysis::math::distributions::chernoff;
use crate::analysis::math::stats::nearest_rank;
use crate::analysis::stream::requests::Requests;
use crate::model::{Class, DevId};

/// Histogram of the residuals (natural logarithms): bin width, range below 0, number of bins.
const BIN: f64 = 0.2;
const BELOW: f64 = 6.0;
const BINS: usize = 90;
/// Minimum ratio of a second mode to the usual device time, and of the beginning of a tail.
const FARTHER: f64 = 4.0;
const TAIL: f64 = 10.0;
/// Minimum number of slow requests and of separate stretches of them, and maximum share of them in one stretch.
const MIN_SLOW: usize = 30;
const MIN_STRETCHES: usize = 10;
const MAX_LENGTH_SHARE: f64 = 0.2;
/// Share of slow requests of a class and size. Fewer are an accident; more are one of two ways in which the device serves.
const MIN_SHARE: f64 = 0.0005;
const MAX_SHARE: f64 = 0.2;
/// The peak must be this many times as high as the valley, and significant at this level over all places and streams.
const HIGHER: f64 = 4.0;
const ALPHA: f64 = 1e-5;
/// A tail begins at least this many standard deviations (from median and 90th percentile) out: one in a million.
const FAR_OUT: f64 = 4.75;
/// Minimum number of requests of a size; fewer show no shape.
const MIN_REQUESTS: usize = 2000;
/// Slow requests below 0.5 ms are not reported.
const MIN_SLOW_US: f64 = 500.0;
/// Requests slower than a second are a finding of their own.
const MAX_SLOW_US: f64 = 1e6;
/// Share of the device time from which on slow requests are a warning.
const WARNING: f64 = 0.2;

/// Distribution of the slow requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "LatencyModeForm")
)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Slow I/Os cluster around a device time of their own.
    SecondMode,
    /// Slow I/Os are spread over a wide range of device times.
    Tail,
}

/// A second mode or heavy tail of device time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mode {
    /// Class of the requests.
    pub class: Class,
    /// Minimum size of the requests.
    pub min_bytes: u64,
    /// Sizes are below this: twice the minimum.
    pub below_bytes: u64,
    /// Second mode or tail.
    pub form: Form,
    /// Requests of that size in the sample.
    pub ios: usize,
    /// Slow requests among them.
    pub slow_ios: usize,
    /// Median device time of the other requests, in microseconds.
    pub usual_us: f64,
    /// Median device time of the slow requests, in microseconds.
    pub slow_us: f64,
    /// Share of the device time of this class and size that slow requests take, 0 to 1.
    pub slow_time_share: f64,
    /// Number of stretches of consecutive slow requests.
    pub stretches: usize,
    /// Issue of the first slow request, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Issue of the last slow request.
    pub to_ns: i64,
    /// The sectors between which four fifths of the slow ones begin, if these hold a fifth of all requests or less.
    pub sectors: Option<(i64, i64)>,
    /// Issue and completion of each slow request in the sample.
    #[serde(skip)]
    pub slow_spans: Vec<(i64, i64)>,
}

type ModeRow<'a> = (&'a AtIssue, f64);

/// The mode with the largest share of device time among the reads or writes in `samples`.
pub(in crate::analysis) fn find(
    samples: &[Requests<AtIssue>; 2],
    class: Class,
    around: &LatencyContext,
) -> Option<Mode> {
    let kept: Vec<&AtIssue> = samples[class as usize]
        .kept()
        .iter()
        .filter(|r| !r.meets_gap(around.gaps))
        .collect();
    if kept.len() < MIN_REQUESTS {
        return None;
    }
    let rows = against_alike(&kept);
    (1..=u32::BITS)
        .filter_map(|octave| of_size(&rows, octave, class, around.family))
        .max_by(|a, b| a.slow_time_share.total_cmp(&b.slow_time_share))
}

/// The mode of the requests of one size.
fn of_size(rows: &[ModeRow], octave: u32, class: Class, family: usize) -> Option<Mode> {
    let alike: Vec<ModeRow> = rows
        .iter()
        .filter(|r| u32::BITS - r.0.sectors.leading_zeros() == octave)
        .copied()
        .collect();
    let (form, limit) = slow_beyond(&alike, family)?;
    described(&alike, limit, (class, octave, form))
}

/// The form of the slow requests, and the residual beyond which requests are slow.
fn slow_beyond(rows: &[ModeRow], family: usize) -> Option<(Form, f64)> {
    if rows.len() < MIN_REQUESTS {
        return None;
    }
    valley(rows, family)
        .map(|limit| (Form::SecondMode, limit))
        .or_else(|| {
            let mut residuals: Vec<f64> = rows.iter().map(|r| r.1).collect();
            let middle = nearest_rank(&mut residuals, 0.5)?;
            let high = nearest_rank(&mut residuals, 0.9)?;
            let sigma = (high - middle) / 1.2816;
            Some((Form::Tail, middle + TAIL.ln().max(FAR_OUT * sigma)))
        })
}

/// Bottom of the valley between the main peak and the highest peak beyond a valley.
fn valley(rows: &[ModeRow], family: usize) -> Option<f64> {
    let mut counts = [0.0f64; BINS];
    for r in rows {
        let bin = ((r.1 + BELOW) / BIN).max(0.0) as usize;
        counts[bin.min(BINS - 1)] += 1.0;
    }
    let smooth: Vec<f64> = counts.windows(3).map(|w| w.iter().sum()).collect();
    let main = (0..smooth.len()).max_by(|a, b| smooth[*a].total_cmp(&smooth[*b]))?;
    let first = main + (FARTHER.ln() / BIN).ceil() as usize;
    let places = (smooth.len() * family.max(1)) as f64;
    // Any place far enough from the main peak can be the second peak: take the highest one with a valley before it.
    let (_, lowest) = (first..smooth.len())
        .filter_map(|peak| Some((peak, valley_before(peak, main, &smooth, places)?)))
        .max_by(|(a, _), (b, _)| smooth[*a].total_cmp(&smooth[*b]))?;
    // Bin i of the smoothed histogram is centred on bin i + 1.
    Some((lowest as f64 + 1.5) * BIN - BELOW)
}

/// The lowest place between the main peak and `peak`; `None` if peak and valley differ too little, given the number
/// of `places` tried.
fn valley_before(peak: usize, main: usize, smooth: &[f64], places: f64) -> Option<usize> {
    let lowest = (main..peak).min_by(|a, b| smooth[*a].total_cmp(&smooth[*b]))?;
    let high = smooth[peak];
    let low = smooth[lowest];
    // Bound of the chance that two equal bins share `n` requests so unevenly (Chernoff).
    let n = high + low;
    (high >= HIGHER * low && chernoff(n, high / n, 0.5) * places <= ALPHA).then_some(lowest)
}

/// Describes the slow requests of a class and size; `None` if they are too few or too many, too similar to the
/// others, or explained otherwise.
fn described(
    rows: &[ModeRow],
    limit: f64,
    (class, octave, form): (Class, u32, Form),
) -> Option<Mode> {
    let (slow, usual): (Vec<ModeRow>, Vec<ModeRow>) = rows.iter().partition(|r| r.1 > limit);
    let share = slow.len() as f64 / rows.len() as f64;
    if slow.len() < MIN_SLOW
        || !(MIN_SHARE..=MAX_SHARE).contains(&share)
        || is_cache(rows, limit, class)
    {
        return None;
    }
    // Requests are in order of issue. One long episode of slowness is a single stretch, which is no mode.
    let stretches: Vec<usize> = rows
        .chunk_by(|a, b| (a.1 > limit) == (b.1 > limit))
        .filter(|stretch| stretch[0].1 > limit)
        .map(<[ModeRow]>::len)
        .collect();
    let longest = stretches.iter().copied().max()? as f64;
    if stretches.len() < MIN_STRETCHES || longest > MAX_LENGTH_SHARE * slow.len() as f64 {
        return None;
    }
    let mut slow_us = device_us(&slow);
    let mut usual_us = device_us(&usual);
    let slow_sum = slow_us.iter().sum::<f64>();
    let usual_sum = usual_us.iter().sum::<f64>();
    let slow_p50 = nearest_rank(&mut slow_us, 0.5)?;
    let usual_p50 = nearest_rank(&mut usual_us, 0.5)?;
    let matters = (MIN_SLOW_US..MAX_SLOW_US).contains(&slow_p50) && slow_p50 >= FARTHER * usual_p50;
    matters.then(|| Mode {
        class,
        min_bytes: 512 << (octave - 1),
        below_bytes: 512 << octave,
        form,
        ios: rows.len(),
        slow_ios: slow.len(),
        usual_us: usual_p50,
        slow_us: slow_p50,
        slow_time_share: slow_sum / (slow_sum + usual_sum),
        stretches: stretches.len(),
        from_ns: slow[0].0.issue_ns,
        to_ns: slow[slow.len() - 1].0.issue_ns,
        sectors: sectors_of(rows, &slow),
        slow_spans: slow
            .iter()
            .map(|r| (r.0.issue_ns, r.0.issue_ns + r.0.device_ns))
            .collect(),
    })
}

fn device_us(rows: &[ModeRow]) -> Vec<f64> {
    rows.iter().map(|r| r.0.device_ns as f64 / 1e3).collect()
}

/// Whether repeated reads of the same sectors are hardly ever slow: the device's cache serves these, the medium the others.
fn is_cache(rows: &[ModeRow], limit: f64, class: Class) -> bool {
    let mut seen = HashSet::new();
    // (requests, slow ones) of first and of repeated reads of a sector.
    let mut sides = [(0.0, 0.0); 2];
    for r in rows
        .iter()
        .filter(|r| class == Class::Read && r.0.sector >= 0)
    {
        let side = &mut sides[usize::from(!seen.insert(r.0.sector))];
        *side = (side.0 + 1.0, side.1 + if r.1 > limit { 1.0 } else { 0.0 });
    }
    let [first, again] = sides;
    first.0 >= 50.0 && again.0 >= 50.0 && again.1 / again.0 < 0.2 * first.1 / first.0
}

/// Number of parts with equally many requests, by sector, used to locate the slow ones.
const PARTS: usize = 20;

/// Sector range of the fewest adjacent twentieths of all requests that hold four fifths of the slow ones; at most
/// four twentieths.
fn sectors_of(rows: &[ModeRow], slow: &[ModeRow]) -> Option<(i64, i64)> {
    let all = places(rows);
    let slow = places(slow);
    if slow.len() < MIN_SLOW {
        return None;
    }
    for width in 1..=PARTS / 5 {
        for from in 0..=PARTS - width {
            let low = part_begin(&all, from);
            let high = part_begin(&all, from + width);
            if count_between(&slow, low, high) * 5 >= slow.len() * 4 {
                // Many requests at one sector can make a part larger than a twentieth.
                return (count_between(&all, low, high) * 4 <= all.len()).then_some((low, high));
            }
        }
    }
    None
}

/// First sectors of the requests, sorted; unknown ones are left out.
fn places(rows: &[ModeRow]) -> Vec<i64> {
    let mut places: Vec<i64> = rows
        .iter()
        .map(|r| r.0.sector)
        .filter(|s| *s >= 0)
        .collect();
    places.sort_unstable();
    places
}

/// First sector of a part of `places`; for `PARTS` the end of the last one.
fn part_begin(places: &[i64], part: usize) -> i64 {
    if part == PARTS {
        places[places.len() - 1].saturating_add(1)
    } else {
        places[part * places.len() / PARTS]
    }
}

fn count_between(places: &[i64], low: i64, high: i64) -> usize {
    places.partition_point(|s| *s < high) - places.partition_point(|s| *s < low)
}

/// How many of the slow requests a shortage of CPU time explains.
struct InShortage {
    percent: Option<f64>,
    /// The most frequent shortage, if shortages explain at least half of all slow requests.
    shortage: Option<CpuShortage>,
}

impl InShortage {
    fn of(spans: &[(i64, i64)], host: &HostPressure) -> InShortage {
        let mut known = 0;
        let mut explained: Vec<CpuShortage> = Vec::new();
        for (from_ns, to_ns) in spans {
            let Some(state) = host.between(*from_ns, *to_ns) else {
                continue;
            };
            known += 1;
            explained.extend(state.cpu_shortage(to_ns - from_ns));
        }
        let is_known = known > 0 && 2 * known >= spans.len();
        let shortage = explained
            .iter()
            .max_by_key(|s| explained.iter().filter(|e| e == s).count())
            .copied();
        InShortage {
            percent: is_known.then(|| 100.0 * explained.len() as f64 / known as f64),
            shortage: shortage.filter(|_| is_known && 2 * explained.len() >= spans.len()),
        }
    }
}

/// The finding. If a shortage of CPU time explains half of the slow requests, it is no warning about the device.
pub(in crate::analysis) fn finding(dev: DevId, m: &Mode, host: &HostPressure) -> Finding {
    let in_shortage = InShortage::of(&m.slow_spans, host);
    Finding {
        dev: Some(dev),
        from_ns: m.from_ns,
        to_ns: m.to_ns,
        severity: if m.slow_time_share >= WARNING && in_shortage.shortage.is_none() {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::LatencyMode(LatencyModeEvidence {
            class: m.class,
            form: m.form,
            min_bytes: m.min_bytes,
            below_bytes: m.below_bytes,
            slow_percent: 100.0 * (m.slow_ios as f64 / m.ios as f64),
            usual_device_us: m.usual_us,
            slow_device_us: m.slow_us,
            slow_time_percent: 100.0 * m.slow_time_share,
            slow_ios: m.slow_ios,
            sampled_ios: m.ios,
            stretches: m.stretches,
            slow_sectors: m.sectors,
            slow_in_cpu_shortage_percent: in_shortage.percent,
            cpu_shortage: in_shortage.shortage,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_ones_while_the_cpus_are_short_are_no_warning_about_the_device() {
        use crate::model::PressureSample;
        const S: i64 = 1_000_000_000;
        let severity_and_shortage = |slow_ms: i64, waits_ns: i64| {
            let slow_ns = slow_ms * 1_000_000;
            let mode = Mode {
                class: Class::Read,
                min_bytes: 4096,
                below_bytes: 8192,
                form: Form::SecondMode,
                ios: 10_000,
                slow_ios: 1000,
                usual_us: 100.0,
                slow_us: slow_ns as f64 / 1e3,
                slow_time_share: 0.9,
                stretches: 500,
                from_ns: 0,
                to_ns: 10 * S,
                sectors: None,
                slow_spans: (0..100)
                    .map(|i| (i * S / 10, i * S / 10 + slow_ns))
                    .collect(),
            };
            let mut host = HostPressure::default();
            host.push(&PressureSample {
                from_ns: 0,
                to_ns: 10 * S,
                cpus: Some(2),
                cpu_some_ns: Some(waits_ns),
                runnable: Some(8),
                ..PressureSample::default()
            });
            let found = finding(DevId(1), &mode, &host);
            let Evidence::LatencyMode(e) = found.evidence else {
                panic!("{found:?}")
            };
            (found.severity, e.cpu_shortage)
        };
        let is_cpu = (Severity::Info, Some(CpuShortage::Pressure));
        assert_eq!(severity_and_shortage(12, 9 * S), is_cpu);
        let is_device = (Severity::Warning, None);
        assert_eq!(severity_and_shortage(12, S), is_device);
        // No task waits for a CPU that long.
        assert_eq!(severity_and_shortage(280, 9 * S), is_device);
    }
}
