//! Details of each burst (A13): what samples of 1 s, 15 s and 60 s show of it, the number in flight, and the latency
//! of the other class.

use serde::Serialize;

use crate::analysis::bursts::cells::{IoActor, Series};
use crate::analysis::bursts::envelope::active_second_rate;
use crate::analysis::bursts::scan::{BurstBin, Excess, Measure, Sizes, excess, segment};
use crate::analysis::bursts::stream_scan::{BIN_NS, Scanned};
use crate::analysis::bursts::{
    self, Burst, BurstRule, Limit, LimitSource, SampledView, sampled_view,
};
use crate::analysis::capacity::load::LoadPoint;
use crate::analysis::device::context::{BURST_SLOT_NS, DeviceContext};
use crate::analysis::stream::requests::{Request, Requests};
use crate::model::{Class, SECOND_NS};

/// Maximum number of bursts kept of one stream; the largest are kept.
pub const MAX_BURSTS: usize = 1000;

/// Bursts separated by less than this are joined.
const GAP_NS: i64 = 100_000_000;

/// Minimum ratio of a burst's peak to its one-second samples. A burst of one second at three times the background has 1.5.
const MIN_HIDDEN: f64 = 1.2;

/// A burst, with the views of coarser samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BurstDetail {
    /// The burst.
    pub burst: Burst,
    /// As seen by samples of 1 s.
    pub second: SampledView,
    /// As seen by samples of 15 s; `None` in a shorter recording, and for bursts that are not among the largest.
    pub quarter_minute: Option<SampledView>,
    /// As seen by samples of 60 s; `None` as above.
    pub minute: Option<SampledView>,
    /// Result of a cloud volume's micro-bursting formula for the minute of its peak: bytes per second of time with
    /// I/O. An estimate, given for comparison.
    pub active_second_bytes_per_s: Option<f64>,
    /// Mean number in flight (all classes) in the busiest window of at least 100 ms that overlaps it.
    pub in_flight: Option<f64>,
    /// Longest latency, in microseconds, of requests of the other class that overlap it.
    pub other_max_us: Option<f64>,
    /// Number of these requests; scaled up if only a sample of them was kept.
    pub other_n: Option<u64>,
    /// How far it exceeds the background.
    pub significance: Significance,
    /// I/Os were lost during it, so its numbers are lower bounds.
    pub lossy: bool,
    /// The actor with most bytes. Contains untrusted text.
    #[serde(skip)]
    pub cause: Option<IoActor>,
}

/// The bursts of one stream with their limit.
#[derive(Debug, Clone)]
pub(in crate::analysis) struct Found {
    pub limit: Option<Limit>,
    pub bursts: Vec<BurstDetail>,
}

/// The bursts of a stream: relative to the user's limit if there is one, otherwise those found in its submissions (`scanned`).
pub(in crate::analysis) fn find_bursts(
    around: &DeviceContext,
    series: &Series,
    class: Class,
    scanned: Vec<Scanned>,
) -> Found {
    let limit = around.limit.or_else(|| bursts::learned_limit(series));
    let Some(judged) = limit else {
        return Found {
            limit,
            bursts: Vec::new(),
        };
    };
    if judged.source != LimitSource::Learned {
        let bursts = bursts_of(
            series,
            &judged,
            |from_ns, to_ns| around.losses.overlap(around.dev, from_ns, to_ns),
            |from_ns, to_ns| main_actor(around, class, from_ns, to_ns),
        );
        return Found { limit, bursts };
    }
    // From last to first: the throughput caused by a burst is counted until the next burst begins.
    let bins = (around.window.len_ns() / BIN_NS).max(1) as u64;
    let mut next_ns = i64::MAX;
    let mut bursts: Vec<BurstDetail> = Vec::new();
    for s in scanned.into_iter().rev() {
        let burst = served(series, &judged, &s, next_ns);
        next_ns = s.from_ns;
        // Slots wider than a burst do not show its peak. Its rate of submission is used instead, if that is higher.
        let asked_ns = (s.to_ns - s.from_ns).max(1);
        let asked = s.bytes as f64 * 1e9 / asked_ns as f64;
        let peak = if series.dt_ns <= BURST_SLOT_NS.max(asked_ns) {
            burst.peak_bytes_per_s
        } else {
            burst.peak_bytes_per_s.max(asked)
        };
        let second = s.second.hiding(peak);
        let lossy = around
            .losses
            .overlap(around.dev, burst.from_ns, burst.to_ns);
        let cause = main_actor(around, class, burst.from_ns, burst.to_ns);
        bursts.push(detail(
            burst,
            second,
            Significance::of((s.excess, BIN_NS, bins)),
            lossy,
            cause,
        ));
    }
    bursts.reverse();
    bursts.retain(is_hidden);
    Found { limit, bursts }
}

/// The actor with most bytes of `class` on the device in an interval.
fn main_actor(around: &DeviceContext, class: Class, from_ns: i64, to_ns: i64) -> Option<IoActor> {
    around
        .cells
        .main_actor(around.dev, class, &[(from_ns, to_ns)])
}

/// A burst of submissions, with the throughput that it caused before `next_ns`, the start of the next burst.
fn served(series: &Series, limit: &Limit, s: &Scanned, next_ns: i64) -> Burst {
    let last = series.slots().saturating_sub(1);
    let first = slot_at(series, s.from_ns).min(last);
    // The device may need as long again to serve it, and at least 100 ms more.
    let until_ns = (s.to_ns + (s.to_ns - s.from_ns).max(GAP_NS)).min(next_ns);
    let end = slot_at(series, until_ns - 1).clamp(first, last) + 1;
    Burst {
        end: slot_at(series, s.to_ns - 1).clamp(first, last) + 1,
        from_ns: s.from_ns,
        to_ns: s.to_ns,
        bytes: s.bytes,
        ios: s.ios,
        core_ns: s.core_ns,
        core_bytes: s.core_bytes,
        peak_iops: s.peak_iops,
        mean_bytes: s.bytes as f64 / s.ios.max(1) as f64,
        ..bursts::describe(series, limit, &BurstRule::default(), first, end)
    }
}

/// The slot that contains `ns`.
fn slot_at(series: &Series, ns: i64) -> usize {
    ((ns - series.from_ns).max(0) / series.dt_ns) as usize
}

/// Bursts of `series`, relative to a known limit or else to its own background. For an interval, `lossy` returns
/// whether I/Os were lost, and `cause` the actor with most bytes.
pub(in crate::analysis) fn bursts_of(
    series: &Series,
    limit: &Limit,
    lossy: impl Fn(i64, i64) -> bool,
    cause: impl Fn(i64, i64) -> Option<IoActor>,
) -> Vec<BurstDetail> {
    let rule = BurstRule {
        gap_slots: (GAP_NS / series.dt_ns).max(1) as usize,
        ..BurstRule::default()
    };
    let slots = series.slots() as u64;
    let bins: Vec<BurstBin> = series
        .filled()
        .iter()
        .map(|s| BurstBin {
            at: s.at as u64,
            ios: s.ios,
            bytes: s.bytes,
        })
        .collect();
    let sizes = Sizes::of_averages(&bins);
    let found = match limit.source {
        LimitSource::Learned => {
            let mut found = Vec::new();
            for e in segment(&bins, (0, slots), series.dt_ns, &sizes) {
                let burst =
                    bursts::describe(series, limit, &rule, e.first as usize, e.end as usize);
                found.push((burst, e));
            }
            found
        }
        LimitSource::User | LimitSource::Link => {
            let mut found = Vec::new();
            // A stream that bursts a hundred thousand times is a steady one.
            for burst in bursts::find(series, limit, &rule)
                .into_iter()
                .take(MAX_BURSTS * 100)
            {
                let range = (burst.first as u64, burst.end as u64);
                if let Some(e) = excess(&bins, range, slots, &sizes) {
                    found.push((burst, e));
                }
            }
            found
        }
    };

    let mut details = Vec::new();
    for (burst, e) in found {
        let second = sampled_view(series, &burst, SECOND_NS);
        let significance = Significance::of((e, series.dt_ns, slots));
        let is_lossy = lossy(burst.from_ns, burst.to_ns);
        let main_actor = cause(burst.from_ns, burst.to_ns);
        let burst = detail(burst, second, significance, is_lossy, main_actor);
        // Bursts relative to the stream's own background count only if coarser samples hide them.
        if limit.source != LimitSource::Learned || is_hidden(&burst) {
            details.push(burst);
        }
    }
    details
}

/// Whether one-second samples show clearly less than its peak.
fn is_hidden(b: &BurstDetail) -> bool {
    b.second.hidden_factor >= MIN_HIDDEN
}

/// How far a burst exceeds the background.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Significance {
    /// The measure that exceeds the background.
    pub measure: Measure,
    /// Rate of the background, in bytes or I/Os per second.
    pub baseline_per_s: f64,
    /// Expected number of such bursts in the whole recording if there were only the background.
    pub by_chance: f64,
}

impl Significance {
    /// From an excess, the width of its bins in nanoseconds, and the number of such bins in the recording.
    fn of((excess, bin_ns, bins): (Excess, i64, u64)) -> Significance {
        Significance {
            measure: excess.measure,
            baseline_per_s: excess.baseline * 1e9 / bin_ns as f64,
            by_chance: excess.by_chance(bins),
        }
    }
}

fn detail(
    burst: Burst,
    second: SampledView,
    significance: Significance,
    lossy: bool,
    cause: Option<IoActor>,
) -> BurstDetail {
    BurstDetail {
        second,
        quarter_minute: None,
        minute: None,
        active_second_bytes_per_s: None,
        in_flight: None,
        other_max_us: None,
        other_n: None,
        significance,
        lossy,
        cause,
        burst,
    }
}

/// Inputs for the details of one stream's bursts.
pub(in crate::analysis) struct Surroundings<'a> {
    series: &'a Series,
    load: &'a [LoadPoint],
    others: &'a Requests,
    longest_ns: i64,
}

impl<'a> Surroundings<'a> {
    /// `others` are requests of the other class.
    pub fn new(
        series: &'a Series,
        load: &'a [LoadPoint],
        others: &'a Requests,
    ) -> Surroundings<'a> {
        let longest_ns = others
            .kept()
            .iter()
            .map(Request::total_ns)
            .max()
            .unwrap_or(0);
        Surroundings {
            series,
            load,
            others,
            longest_ns,
        }
    }

    fn describe(&self, b: &mut BurstDetail) {
        b.quarter_minute = self.view(&b.burst, 15 * SECOND_NS);
        b.minute = self.view(&b.burst, 60 * SECOND_NS);
        b.active_second_bytes_per_s = Some(self.active_second_rate(&b.burst));
        b.in_flight = self.in_flight(&b.burst);
        let (max_ns, n) = self.other(&b.burst);
        b.other_max_us = max_ns.map(|ns| ns as f64 / 1e3);
        b.other_n = Some(n * self.others.one_in());
    }

    /// `burst` as seen by samples of `period_ns`; `None` if the series is shorter than one of them.
    fn view(&self, burst: &Burst, period_ns: i64) -> Option<SampledView> {
        let len_ns = self.series.slots() as i64 * self.series.dt_ns;
        (len_ns >= period_ns).then(|| sampled_view(self.series, burst, period_ns))
    }

    /// The rate in the aligned minute of its peak, or in the recorded part of that minute.
    fn active_second_rate(&self, burst: &Burst) -> f64 {
        let dt = self.series.dt_ns;
        let slots = self.series.slots();
        let per_minute = ((60 * SECOND_NS / dt).max(1)) as usize;
        let peak = ((burst.peak_at_ns - self.series.from_ns) / dt).max(0) as usize;
        let from = (peak / per_minute * per_minute).min(slots);
        let to = (from + per_minute).min(slots);
        let period_s = (to - from) as f64 * dt as f64 / 1e9;
        let active = self
            .series
            .range(from, to)
            .iter()
            .filter(|s| s.bytes > 0)
            .count();
        let active_s = active as f64 * dt as f64 / 1e9;
        active_second_rate(
            self.series.sum(from, to) as f64,
            period_s,
            period_s - active_s,
        )
    }

    fn in_flight(&self, burst: &Burst) -> Option<f64> {
        let first = self
            .load
            .partition_point(|p| p.from_ns + p.len_ns <= burst.from_ns);
        let touched = self.load[first..]
            .iter()
            .take_while(|p| p.from_ns < burst.to_ns);
        touched.map(|p| p.in_flight).max_by(f64::total_cmp)
    }

    /// Longest latency of requests of the other class whose `[start, done)` overlaps the burst, and their number.
    fn other(&self, burst: &Burst) -> (Option<i64>, u64) {
        let requests = self.others.kept();
        let first = requests.partition_point(|r| r.done_ns <= burst.from_ns);
        let met = requests[first..]
            .iter()
            .take_while(|r| r.done_ns - self.longest_ns < burst.to_ns)
            .filter(|r| r.start_ns < burst.to_ns)
            .map(Request::total_ns);
        met.fold((None, 0), |(max, n), ns| (max.max(Some(ns)), n + 1))
    }
}

/// The largest of `bursts` in order of time, with their surroundings.
pub(in crate::analysis) fn largest(
    bursts: Vec<BurstDetail>,
    around: &Surroundings,
) -> Vec<BurstDetail> {
    let mut bursts = largest_alone(bursts);
    bursts.iter_mut().for_each(|b| around.describe(b));
    bursts
}

/// The largest bursts without these details.
pub(in crate::analysis) fn largest_alone(mut bursts: Vec<BurstDetail>) -> Vec<BurstDetail> {
    if bursts.len() > MAX_BURSTS {
        bursts.sort_by_key(|b| std::cmp::Reverse(b.burst.bytes));
        bursts.truncate(MAX_BURSTS);
        bursts.sort_by_key(|b| b.burst.from_ns);
    }
    bursts
}

#[cfg(test)]
mod tests {
    use crate::analysis::report::{Report, ReportBuilder, ReportPlan};
    use crate::analysis::stream::window::Window;
    use crate::model::{DevId, Io, Op};
    use std::collections::BTreeMap;

    const DISK: DevId = DevId(8 << 20);
    const BYTES_PER_S: f64 = 150e6;

    /// A minute of a disk that writes 150 MB/s and takes up to `depth` requests at once, which it serves in turn: every six
    /// seconds a burst of `megabytes` in requests of 512 KiB, and a request each half second beside them.
    fn in_turn(depth: usize, megabytes: usize, limit: Option<f64>) -> Report {
        let size = 512 << 10;
        let service_ns = (f64::from(size) / BYTES_PER_S * 1e9).ceil() as i64;
        let mut starts: Vec<i64> = (0..120).map(|i| i * 500_000_000 + 7_000_000).collect();
        for burst in 0..9 {
            let requests = (megabytes * 1_000_000 / size as usize) as i64;
            starts.extend((0..requests).map(|i| (3 + 6 * burst) * 1_000_000_000 + i * 10_000));
        }
        starts.sort_unstable();
        let mut builder = ReportBuilder::with_plan(
            Window::new(0, 60_000_000_000),
            ReportPlan {
                limits: limit
                    .map(|l| (DISK, l))
                    .into_iter()
                    .collect::<BTreeMap<_, _>>(),
                ..ReportPlan::default()
            },
        );
        let mut done: Vec<i64> = Vec::new();
        for start_ns in starts {
            // The driver gets a request when one of the queue's places is free.
            let free_ns = done.len().checked_sub(depth).map_or(i64::MIN, |i| done[i]);
            let issue_ns = start_ns.max(free_ns);
            let done_ns = done.last().map_or(issue_ns, |last| issue_ns.max(*last)) + service_ns;
            done.push(done_ns);
            builder.push(&Io::new(
                done_ns,
                DISK,
                Op::WRITE,
                i64::from(size),
                Some(issue_ns - start_ns),
                done_ns - issue_ns,
            ));
        }
        builder.finish(60_000_000_000)
    }

    #[test]
    fn no_queue_inside_a_device_makes_a_rate_that_it_does_not_have() {
        for depth in [1, 32, 1024] {
            let report = in_turn(depth, 60, None);
            let stream = &report.details[0].streams[1];
            assert!(
                stream.limit.is_some_and(|l| l.bytes_per_s <= BYTES_PER_S),
                "{depth}: {:?}",
                stream.limit
            );
            assert_eq!(stream.bursts.len(), 9, "{depth}");
            for b in &stream.bursts {
                let peak = b.burst.peak_bytes_per_s;
                assert!(
                    peak <= BYTES_PER_S && peak > 0.9 * BYTES_PER_S,
                    "{depth}: {peak}"
                );
            }
        }
    }

    #[test]
    fn a_limit_is_exceeded_by_what_certainly_moved_alone() {
        // Spread evenly, the writes of a queue of 1024 begin at five times the disk's rate.
        for (limit, is_exceeded) in [(200e6, false), (150e6, true), (100e6, true)] {
            let report = in_turn(1024, 60, Some(limit));
            let bursts = &report.details[0].streams[1].bursts;
            assert!(bursts.len() >= 9, "{limit}: {}", bursts.len());
            let exceeding = bursts.iter().filter(|b| b.burst.exceeds_limit).count();
            assert_eq!(exceeding, if is_exceeded { 9 } else { 0 }, "{limit}");
        }
    }
}
