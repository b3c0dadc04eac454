//! A13: bursts with what surrounds them: what coarser samples show, how much was in flight, how the other class fared.

use serde::Serialize;

use super::bursts::{self, Burst, BurstRule, Limit, SampledView, sampled_view};
use super::cells::{Actor, Series, Sizes};
use super::chance::expected_by_chance;
use super::detail::Around;
use super::envelope::{active_second_rate, running_sums};
use super::load::LoadPoint;
use super::requests::{Request, Requests};
use crate::model::Class;

/// Bursts that are kept of one stream; the largest.
pub const MOST_BURSTS: usize = 1000;

/// Bursts closer than this are one.
const GAP_NS: i64 = 100_000_000;

const SECOND_NS: i64 = 1_000_000_000;

/// A burst with what others would have seen of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BurstDetail {
    /// The burst.
    pub burst: Burst,
    /// Through one-second samples.
    pub second: SampledView,
    /// Through samples of 15 s; `None` in a recording that is shorter, and for bursts that are not among the largest.
    pub quarter_minute: Option<SampledView>,
    /// Through samples of a minute, likewise.
    pub minute: Option<SampledView>,
    /// What a cloud volume's micro-bursting formula says of the minute that holds its peak: bytes over the seconds in which
    /// there was any I/O. An estimate printed for comparison.
    pub active_second_bytes_per_s: Option<f64>,
    /// Mean number in flight, all classes, in the busiest window of 100 ms or more that it touches.
    pub in_flight: Option<f64>,
    /// Longest latency, in microseconds, of the other class's requests that met it.
    pub other_max_us: Option<f64>,
    /// How many of those there were (of a large recording: of a sample, scaled).
    pub other_n: Option<u64>,
    /// How many bursts like it a stream of independent requests of the same rate and sizes would show, at most.
    pub by_chance: f64,
    /// I/Os are missing from it: its numbers are lower bounds.
    pub lossy: bool,
    /// Who moved most of it. Untrusted text inside.
    #[serde(skip)]
    pub cause: Option<Actor>,
}

/// The bursts of one stream with their limit.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub limit: Option<Limit>,
    pub bursts: Vec<BurstDetail>,
}

pub(super) fn find_bursts(around: &Around, series: &Series, class: Class) -> Found {
    let limit = around.limit.or_else(|| bursts::learned_limit(series));
    let Some(judged) = limit else { return Found { limit, bursts: Vec::new() } };
    let lossy = |from_ns, to_ns| around.losses.overlap(around.dev, from_ns, to_ns);
    let cause = |from_ns, to_ns| around.cells.main_actor(around.dev, class, &[(from_ns, to_ns)]);
    let sizes = around.cells.sizes(around.dev, class);
    Found { limit, bursts: bursts_of(series, sizes, &judged, lossy, cause) }
}

/// Bursts against a limit. `sizes` are those of the requests of `series`. `lossy` and `cause` say of an interval whether
/// I/Os are missing and who moved most.
pub(super) fn bursts_of(
    series: &Series,
    sizes: Sizes,
    limit: &Limit,
    lossy: impl Fn(i64, i64) -> bool,
    cause: impl Fn(i64, i64) -> Option<Actor>,
) -> Vec<BurstDetail> {
    let rule = BurstRule { gap_slots: (GAP_NS / series.dt_ns).max(1) as usize, ..BurstRule::default() };
    let sums = running_sums(&series.bytes);
    let detail = |burst: Burst| BurstDetail {
        second: sampled_view(series, &sums, &burst, SECOND_NS),
        quarter_minute: None,
        minute: None,
        active_second_bytes_per_s: None,
        in_flight: None,
        other_max_us: None,
        other_n: None,
        by_chance: expected_by_chance(series, sizes, &burst),
        lossy: lossy(burst.from_ns, burst.to_ns),
        cause: cause(burst.from_ns, burst.to_ns),
        burst,
    };
    let mut found = bursts::find(series, limit, &rule);
    // A stream that bursts a hundred thousand times is a steady one.
    found.truncate(MOST_BURSTS * 100);
    found.into_iter().map(detail).collect()
}

/// What is around the bursts of one stream.
pub(super) struct Surroundings<'a> {
    series: &'a Series,
    sums: Vec<u64>,
    /// Slots with I/O before each slot.
    active: Vec<u64>,
    load: &'a [LoadPoint],
    others: &'a Requests,
    longest_ns: i64,
}

impl<'a> Surroundings<'a> {
    /// `others` are requests of the other class.
    pub fn new(series: &'a Series, load: &'a [LoadPoint], others: &'a Requests) -> Surroundings<'a> {
        let active: Vec<u64> = series.bytes.iter().map(|b| u64::from(*b > 0)).collect();
        let longest_ns = others.kept().iter().map(Request::total_ns).max().unwrap_or(0);
        Surroundings {
            series,
            sums: running_sums(&series.bytes),
            active: running_sums(&active),
            load,
            others,
            longest_ns,
        }
    }

    fn describe(&self, b: &mut BurstDetail) {
        let len_ns = self.series.bytes.len() as i64 * self.series.dt_ns;
        let view = |ns: i64| (len_ns >= ns).then(|| sampled_view(self.series, &self.sums, &b.burst, ns));
        b.quarter_minute = view(15 * SECOND_NS);
        b.minute = view(60 * SECOND_NS);
        b.active_second_bytes_per_s = Some(self.active_second_rate(&b.burst));
        b.in_flight = self.in_flight(&b.burst);
        let (max_ns, n) = self.other(&b.burst);
        b.other_max_us = max_ns.map(|ns| ns as f64 / 1e3);
        b.other_n = Some(n * self.others.one_in());
    }

    /// Of the aligned minute of its peak, or of as much of it as was recorded.
    fn active_second_rate(&self, burst: &Burst) -> f64 {
        let (dt, slots) = (self.series.dt_ns, self.series.bytes.len());
        let per_minute = ((60 * SECOND_NS / dt).max(1)) as usize;
        let peak = ((burst.peak_at_ns - self.series.from_ns) / dt).max(0) as usize;
        let from = (peak / per_minute * per_minute).min(slots);
        let to = (from + per_minute).min(slots);
        let seconds = |slots: u64| slots as f64 * dt as f64 / 1e9;
        let period_s = seconds((to - from) as u64);
        let idle_s = period_s - seconds(self.active[to] - self.active[from]);
        active_second_rate((self.sums[to] - self.sums[from]) as f64, period_s, idle_s)
    }

    fn in_flight(&self, burst: &Burst) -> Option<f64> {
        let first = self.load.partition_point(|p| p.from_ns + p.len_ns <= burst.from_ns);
        let touched = self.load[first..].iter().take_while(|p| p.from_ns < burst.to_ns);
        touched.map(|p| p.in_flight).max_by(f64::total_cmp)
    }

    /// Longest latency of the other class's requests whose `[start, done)` meets the burst, and their number.
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

/// The largest of `bursts`, in the order of time, with their surroundings.
pub(super) fn largest(bursts: Vec<BurstDetail>, around: &Surroundings) -> Vec<BurstDetail> {
    let mut bursts = largest_alone(bursts);
    bursts.iter_mut().for_each(|b| around.describe(b));
    bursts
}

/// The same without their surroundings.
pub(super) fn largest_alone(mut bursts: Vec<BurstDetail>) -> Vec<BurstDetail> {
    if bursts.len() > MOST_BURSTS {
        bursts.sort_by_key(|b| std::cmp::Reverse(b.burst.bytes));
        bursts.truncate(MOST_BURSTS);
        bursts.sort_by_key(|b| b.burst.from_ns);
    }
    bursts
}
