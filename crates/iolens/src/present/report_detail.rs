//! One device in depth, as `report --json` and the HTML report give it: keys carry their units.

use iolens_core::analysis::Concurrency;
use iolens_core::analysis::Report;
use iolens_core::analysis::bursts::LimitSource;
use iolens_core::analysis::bursts::envelope::Unevenness;
use iolens_core::analysis::bursts::links::LinkDetail;
use iolens_core::analysis::bursts::scan::Measure;
use iolens_core::analysis::capacity::models::Fit;
use iolens_core::analysis::capacity::{Capacity, State};
use iolens_core::analysis::counters::io_ticks::UtilCheck;
use iolens_core::analysis::counters::pressure::CpuShortage;
use iolens_core::analysis::device::detail::{BurstDetail, DeviceDetail, StreamDetail};
use iolens_core::analysis::device::slots::{SLOT_NS, SlotGroup, SlotQuantiles, SlotSummary};
use iolens_core::analysis::device::stages::StagesSummary;
use iolens_core::analysis::latency::stalls::Stalls;
use iolens_core::analysis::periodicity::{self, Clock, Periodicity};
use iolens_core::model::{Class, RecordingMeta};
use serde::Serialize;

use super::report_json::{device_names, link_name};

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Detailed results for one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Detail<'a> {
    /// Everything.
    Full(Box<Full<'a>>),
    /// The verdicts, at the same places: a few hundred bytes however long the recording.
    Summary(Summary),
}

/// Everything about one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Full<'a> {
    slots: SlotsBlock,
    /// The kernel's busy time compared with the exact one; `null` without counters or with losses.
    util: Option<&'a UtilCheck>,
    capacity: CapacityDetail<'a>,
    stages: &'a StagesSummary,
    /// Gaps without completions that are not stalls of the device because the host was short of CPU time. Only among the 64
    /// longest gaps.
    gaps_of_host: Vec<GapOfHost>,
    attribution: AttributionDetail,
    /// Busiest hour; `null` in recordings of less than two hours.
    peak_hour: Option<PeakHourBlock>,
    streams: Vec<StreamBlock<'a>>,
}

/// Conclusions about one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    capacity: CapacityVerdict,
    streams: Vec<StreamVerdicts>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CapacityVerdict {
    state: State,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StreamVerdicts {
    class: Class,
    bytes: u64,
    bursts_found: usize,
    periodicity: PeriodicitySummary,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PeriodicitySummary {
    verdict: periodicity::Verdict,
}

/// Latency by the second of completion against latency by the second of arrival.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AttributionDetail {
    /// Length of the bins of which the mean latencies are compared.
    bin_s: f64,
    /// Percent of the seconds with I/O in which the two differ by more than 10 %.
    differ_percent: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PeakHourBlock {
    start_s: f64,
    end_s: f64,
    ios_per_s: f64,
    /// Ratio of its rate to that of the whole recording.
    peak_to_mean: f64,
}

/// Capacity of the device, its queueing model and its headroom.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CapacityDetail<'a> {
    state: State,
    /// Windows with I/O.
    windows: usize,
    window_s: f64,
    /// Highest throughput observed on a plateau, with its 95 % interval.
    max_ios_per_s: Option<f64>,
    /// Lower end of the 95 % confidence interval of `max_ios_per_s`.
    max_ios_per_s_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of `max_ios_per_s`.
    max_ios_per_s_high: Option<f64>,
    /// Mean latency at light load, with its 95 % interval.
    unloaded_us: Option<f64>,
    /// Lower end of the 95 % confidence interval of `unloaded_us`.
    unloaded_low_us: Option<f64>,
    /// Upper end of the 95 % confidence interval of `unloaded_us`.
    unloaded_high_us: Option<f64>,
    /// Knee `N*`: number of I/Os that the device serves in parallel, with its 95 % confidence interval.
    knee_in_flight: Option<f64>,
    /// Lower end of the 95 % confidence interval of `knee_in_flight`.
    knee_in_flight_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of `knee_in_flight`.
    knee_in_flight_high: Option<f64>,
    mean_in_flight: f64,
    saturated_percent: Option<f64>,
    headroom_percent: Option<f64>,
    mix_load_percent: Option<f64>,
    /// Ratio of the load in the busiest interval to the mean load, in I/Os or in bytes, whichever is smaller. Only without a
    /// throughput plateau.
    served_more_times: Option<f64>,
    /// Start of the busiest interval, in seconds since the recording's start.
    served_more_start_s: Option<f64>,
    /// End of the busiest interval, in seconds since the recording's start.
    served_more_end_s: Option<f64>,
    /// I/Os per second in the busiest interval.
    served_more_ios_per_s: Option<f64>,
    /// Mean latency in the busiest interval.
    served_more_mean_us: Option<f64>,
    /// Lower bound of the I/Os per second that fit in addition to the mean load, at no more than 1.5 times the latency at light
    /// load. Only without a throughput plateau.
    room_ios_per_s: Option<f64>,
    /// Lower end of the 95 % confidence interval of `room_ios_per_s`.
    room_ios_per_s_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of `room_ios_per_s`.
    room_ios_per_s_high: Option<f64>,
    /// Number of I/Os in flight at which `room_ios_per_s` was observed.
    room_in_flight: Option<f64>,
    /// Mean latency at which `room_ios_per_s` was observed.
    room_mean_us: Option<f64>,
    /// I/Os per second that could be added until the mean latency is twice that at light load.
    ios_left_per_s: Option<f64>,
    /// Number of I/Os in flight at which the best model has the most throughput per latency.
    best_power_in_flight: Option<f64>,
    /// I/Os per second at which the best model has the most throughput per latency.
    best_power_ios_per_s: Option<f64>,
    little_residual_percent: Option<f64>,
    /// Queueing models fitted to throughput against I/Os in flight, best first.
    fits: &'a [Fit],
}

/// One class of I/O of one device over time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StreamBlock<'a> {
    class: Class,
    bytes: u64,
    slot_s: f64,
    limit_bytes_per_s: Option<f64>,
    limit_source: Option<LimitSource>,
    bursts_found: usize,
    /// The largest, in the order of time.
    bursts: Vec<BurstBlock>,
    /// Maximum number of bytes in any window, by window length.
    envelope: Vec<EnvelopeBlock>,
    unevenness: Vec<UnevennessBlock>,
    periodicity: PeriodicityBlock<'a>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EnvelopeBlock {
    window_s: f64,
    most_bytes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnevennessBlock {
    slot_s: f64,
    /// Number of slots that all values here are based on.
    slot_count: u64,
    /// Index of dispersion of counts, `Var N / E N`. A Poisson load has 1.
    dispersion_index: f64,
    peak_to_mean: f64,
    duty_percent: f64,
}

impl From<&Unevenness> for UnevennessBlock {
    fn from(u: &Unevenness) -> UnevennessBlock {
        UnevennessBlock {
            slot_s: seconds(u.dt_ns),
            slot_count: u.slots,
            dispersion_index: u.idc,
            peak_to_mean: u.peak_to_mean,
            duty_percent: u.duty_percent,
        }
    }
}

/// A burst of submitted I/O.
#[derive(Serialize, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BurstBlock {
    start_s: f64,
    end_s: f64,
    /// Total length of the slots with at least half of its peak.
    core_s: f64,
    /// Bytes of all its I/Os.
    pub bytes: u64,
    ios: u64,
    mean_request_bytes: f64,
    peak_bytes_per_s: f64,
    peak_iops: f64,
    percent_of_limit: f64,
    exceeds_limit: bool,
    /// Peak rate that one-second samples show.
    mean_1s_bytes_per_s: f64,
    /// Ratio of the peak to the highest one-second sample; `null` if such samples show nothing.
    hidden_factor: Option<f64>,
    /// Expected number of such bursts in the whole recording if there were only the background, at most 1.
    p_value: f64,
    /// The background's rate of `measure`, per second.
    baseline_per_s: f64,
    measure: Measure,
    /// Token bucket depth that would absorb the burst at the stream's own mean rate over one second.
    bucket_bytes: f64,
    /// Whether it touches the start or end of the recording, so that it may have been longer.
    censored: bool,
    /// Whether I/Os are missing in it.
    lossy: bool,
}

impl From<&BurstDetail> for BurstBlock {
    fn from(b: &BurstDetail) -> BurstBlock {
        let burst = &b.burst;
        let second = &b.second;
        BurstBlock {
            start_s: seconds(burst.from_ns),
            end_s: seconds(burst.to_ns),
            core_s: seconds(burst.core_ns),
            bytes: burst.bytes,
            ios: burst.ios,
            mean_request_bytes: burst.mean_bytes,
            peak_bytes_per_s: burst.peak_bytes_per_s,
            peak_iops: burst.peak_iops,
            percent_of_limit: burst.percent_of_limit,
            exceeds_limit: burst.exceeds_limit,
            mean_1s_bytes_per_s: second.median_bytes_per_s,
            hidden_factor: Some(second.hidden_factor).filter(|v| v.is_finite()),
            p_value: b.significance.by_chance.min(1.0),
            baseline_per_s: b.significance.baseline_per_s,
            measure: b.significance.measure,
            bucket_bytes: burst.bucket_bytes,
            censored: burst.censored,
            lossy: b.lossy,
        }
    }
}

/// Periodicity of a load, whether it is periodic or not.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PeriodicityBlock<'a> {
    verdict: periodicity::Verdict,
    /// Resolution of the times; 0 for single I/Os.
    slot_s: f64,
    /// Period of the most significant clock, with its 95 % confidence interval.
    period_s: Option<f64>,
    period_low_s: Option<f64>,
    period_high_s: Option<f64>,
    /// Autocorrelation of log(KiB) at the period.
    autocorrelation: Option<f64>,
    /// Probability that chance shows such a chain anywhere.
    p_value: Option<f64>,
    /// Periods from its first to its last beat.
    cycles: Option<f64>,
    onsets: usize,
    /// Number of these onsets that match the clock.
    onsets_in_step: usize,
    gap_mean_s: Option<f64>,
    /// Coefficient of variation of the time between onsets.
    gap_cv: Option<f64>,
    /// Median absolute deviation of the time between onsets.
    gap_mad_s: Option<f64>,
    /// Detected clocks, most significant first.
    clocks: &'a [Clock],
}

impl<'a> From<&'a Periodicity> for PeriodicityBlock<'a> {
    fn from(p: &'a Periodicity) -> PeriodicityBlock<'a> {
        PeriodicityBlock {
            verdict: p.verdict,
            slot_s: p.slot_s,
            period_s: p.period_s,
            period_low_s: p.period_ci_s.map(|ci| ci.0),
            period_high_s: p.period_ci_s.map(|ci| ci.1),
            autocorrelation: p.acf,
            p_value: p.p_value,
            cycles: p.cycles,
            onsets: p.onsets,
            onsets_in_step: p.onsets_in_step,
            gap_mean_s: p.gap_mean_s,
            gap_cv: p.gap_cv,
            gap_mad_s: p.gap_mad_s,
            clocks: &p.clocks,
        }
    }
}

/// Concurrency in slots of time, in groups.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SlotsBlock {
    /// Length of a slot.
    width_s: f64,
    all: Vec<SlotGroupBlock>,
    read: Vec<SlotGroupBlock>,
    write: Vec<SlotGroupBlock>,
}

impl From<&SlotSummary> for SlotsBlock {
    fn from(s: &SlotSummary) -> SlotsBlock {
        SlotsBlock {
            width_s: seconds(SLOT_NS),
            all: s.all.iter().map(SlotGroupBlock::from).collect(),
            read: s.read.iter().map(SlotGroupBlock::from).collect(),
            write: s.write.iter().map(SlotGroupBlock::from).collect(),
        }
    }
}

/// Nearest-rank quantiles over the slots of one interval.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SlotGroupBlock {
    start_s: f64,
    end_s: f64,
    /// Number of slots that the quantiles are based on.
    slot_count: u64,
    /// Requests that touch a slot.
    touched: SlotQuantiles,
    /// I/Os in flight at the start of a slot.
    sampled: SlotQuantiles,
    /// Time-weighted mean number of I/Os in flight within a slot.
    slot_mean: SlotQuantiles,
    /// Maximum number of I/Os in flight within a slot.
    slot_max: SlotQuantiles,
    touched_percent: f64,
}

impl From<&SlotGroup> for SlotGroupBlock {
    fn from(g: &SlotGroup) -> SlotGroupBlock {
        SlotGroupBlock {
            start_s: seconds(g.from_ns),
            end_s: seconds(g.to_ns),
            slot_count: g.slots,
            touched: g.touched,
            sampled: g.sampled,
            slot_mean: g.mean,
            slot_max: g.max,
            touched_percent: g.touched_percent,
        }
    }
}

/// Devices together, or the devices behind one link.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SetBlock<'a> {
    /// Devices together.
    Devices(DevicesBlock<'a>),
    /// Behind one link.
    Link(LinkBlock<StreamBursts>),
}

/// Several devices together. They are busy while any of them has an I/O in flight.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DevicesBlock<'a> {
    name: &'static str,
    /// Names of the members.
    pub device_names: Vec<String>,
    /// Devices left out because they are layers above the others: their I/Os would count twice.
    left_out_names: Vec<String>,
    busy_percent: Option<f64>,
    busy_read_percent: Option<f64>,
    busy_write_percent: Option<f64>,
    busy_both_percent: Option<f64>,
    /// Mean of the devices' busy times. It hides one busy device among idle ones.
    mean_busy_percent: Option<f64>,
    /// Busy time of the busiest device.
    max_busy_percent: Option<f64>,
    concurrency: &'a Concurrency,
    /// As of a device.
    pub slots: Option<SlotsBlock>,
}

/// Devices that share one link, with the I/O on it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkBlock<B> {
    name: String,
    device_names: Vec<String>,
    limit_bytes_per_s: f64,
    limit_source: LimitSource,
    streams: Vec<LinkStreamBlock<B>>,
}

/// Reads or writes of all devices behind a link.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LinkStreamBlock<B> {
    class: Class,
    bytes: u64,
    slot_s: f64,
    bursts_found: usize,
    #[serde(flatten)]
    bursts: B,
}

/// All that are kept of a link's bursts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StreamBursts {
    bursts: Vec<BurstBlock>,
}

impl StreamBursts {
    /// From a link's stream.
    pub fn of(bursts: &[BurstDetail]) -> StreamBursts {
        StreamBursts {
            bursts: bursts.iter().map(BurstBlock::from).collect(),
        }
    }
}

/// The verdicts about `d`.
pub fn summary(d: &DeviceDetail) -> Summary {
    let mut streams = Vec::new();
    for s in &d.streams {
        streams.push(StreamVerdicts {
            class: s.class,
            bytes: s.bytes,
            bursts_found: s.bursts_found,
            periodicity: PeriodicitySummary {
                verdict: s.periodicity.verdict,
            },
        });
    }
    Summary {
        capacity: CapacityVerdict {
            state: d.capacity.state,
        },
        streams,
    }
}

/// A gap without completions that is explained by a shortage of CPU time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GapOfHost {
    /// Start, in seconds since the recording's start.
    start_s: f64,
    /// End, in seconds since the recording's start.
    end_s: f64,
    /// Which shortage of CPU time explains it.
    cpu_shortage: CpuShortage,
    /// I/Os in flight on the device at its end.
    in_flight: i64,
}

fn gaps_of_host(stalls: &Stalls) -> Vec<GapOfHost> {
    let mut gaps = Vec::new();
    for s in &stalls.stalls {
        if let Some(cpu_shortage) = s.cpu_shortage {
            gaps.push(GapOfHost {
                start_s: seconds(s.from_ns),
                end_s: seconds(s.to_ns),
                cpu_shortage,
                in_flight: s.in_flight,
            });
        }
    }
    gaps
}

/// Everything about `d` (A2, A3, A6, A12 to A15, A18, A24), with at most `bursts` of each stream: the largest.
pub fn full(d: &DeviceDetail, bursts: usize) -> Full<'_> {
    Full {
        slots: (&d.slots).into(),
        util: d.util.as_ref(),
        capacity: (&d.capacity).into(),
        stages: &d.stages,
        gaps_of_host: gaps_of_host(&d.stalls),
        attribution: AttributionDetail {
            bin_s: seconds(d.attribution.bin_ns),
            differ_percent: d.attribution.differ_percent,
        },
        peak_hour: d.peak_hour.map(|p| PeakHourBlock {
            start_s: seconds(p.from_ns),
            end_s: seconds(p.to_ns),
            ios_per_s: p.ios_per_s,
            peak_to_mean: p.ratio,
        }),
        streams: d.streams.iter().map(|s| stream(s, bursts)).collect(),
    }
}

/// Devices together (A4): all of them, if any did I/O that was seen.
pub fn devices<'a>(report: &'a Report, meta: &RecordingMeta) -> Option<DevicesBlock<'a>> {
    let set = &report.set;
    // One device did all I/O: the set's slots are its own.
    let alone = report
        .details
        .iter()
        .find(|d| set.members == [d.dev])
        .map(|d| &d.slots);
    (!set.members.is_empty()).then(|| DevicesBlock {
        name: "all",
        device_names: device_names(&set.members, meta),
        left_out_names: device_names(&set.left_out, meta),
        busy_percent: set.busy_percent,
        busy_read_percent: set.busy_read_percent,
        busy_write_percent: set.busy_write_percent,
        busy_both_percent: set.busy_both_percent,
        mean_busy_percent: set.mean_busy_percent,
        max_busy_percent: set.max_busy_percent,
        concurrency: &set.concurrency,
        slots: report.set_slots.as_ref().or(alone).map(SlotsBlock::from),
    })
}

/// Devices behind one link (A13), with what `bursts` makes of the bursts of each stream.
pub fn link<B>(
    d: &LinkDetail,
    meta: &RecordingMeta,
    bursts: impl Fn(&[BurstDetail]) -> B,
) -> LinkBlock<B> {
    let mut streams = Vec::new();
    for s in &d.streams {
        streams.push(LinkStreamBlock {
            class: s.class,
            bytes: s.bytes,
            slot_s: seconds(s.slot_ns),
            bursts_found: s.bursts_found,
            bursts: bursts(&s.bursts),
        });
    }
    LinkBlock {
        name: link_name(&d.link.devices, meta),
        device_names: device_names(&d.link.devices, meta),
        limit_bytes_per_s: d.link.limit.bytes_per_s,
        limit_source: d.link.limit.source,
        streams,
    }
}

/// Devices together, then links.
pub fn sets<'a>(report: &'a Report, meta: &RecordingMeta) -> Vec<SetBlock<'a>> {
    let links = report
        .links
        .iter()
        .map(|d| SetBlock::Link(link(d, meta, StreamBursts::of)));
    devices(report, meta)
        .map(SetBlock::Devices)
        .into_iter()
        .chain(links)
        .collect()
}

impl<'a> From<&'a Capacity> for CapacityDetail<'a> {
    fn from(c: &'a Capacity) -> CapacityDetail<'a> {
        let served = c.served_more.as_ref();
        let room = c.room.as_ref();
        CapacityDetail {
            state: c.state,
            windows: c.windows,
            window_s: seconds(c.window_ns),
            max_ios_per_s: c.max_ios_per_s,
            max_ios_per_s_low: c.max_ios_per_s_ci.map(|ci| ci.0),
            max_ios_per_s_high: c.max_ios_per_s_ci.map(|ci| ci.1),
            unloaded_us: c.min_us,
            unloaded_low_us: c.min_us_ci.map(|ci| ci.0),
            unloaded_high_us: c.min_us_ci.map(|ci| ci.1),
            knee_in_flight: c.knee_in_flight,
            knee_in_flight_low: c.knee_in_flight_ci.map(|ci| ci.0),
            knee_in_flight_high: c.knee_in_flight_ci.map(|ci| ci.1),
            mean_in_flight: c.mean_in_flight,
            saturated_percent: c.saturated_percent,
            headroom_percent: c.headroom.map(|h| 100.0 * h),
            mix_load_percent: c.mix_load.map(|rho| 100.0 * rho),
            served_more_times: served.map(|s| s.times),
            served_more_start_s: served.map(|s| seconds(s.from_ns)),
            served_more_end_s: served.map(|s| seconds(s.to_ns)),
            served_more_ios_per_s: served.map(|s| s.ios_per_s),
            served_more_mean_us: served.map(|s| s.mean_us),
            room_ios_per_s: room.map(|r| r.ios_per_s),
            room_ios_per_s_low: room.and_then(|r| r.interval).map(|ci| ci.0),
            room_ios_per_s_high: room.and_then(|r| r.interval).map(|ci| ci.1),
            room_in_flight: room.map(|r| r.in_flight),
            room_mean_us: room.map(|r| r.mean_us),
            ios_left_per_s: c.ios_left_at_twice_min,
            best_power_in_flight: c.best_power.map(|p| p.0),
            best_power_ios_per_s: c.best_power.map(|p| p.1),
            little_residual_percent: c.little_residual.map(|r| 100.0 * r),
            fits: &c.models,
        }
    }
}

fn stream(s: &StreamDetail, bursts: usize) -> StreamBlock<'_> {
    let mut listed: Vec<&BurstDetail> = s.bursts.iter().collect();
    // The largest are chosen, and listed in the order of time again.
    if listed.len() > bursts {
        listed.sort_by_key(|b| std::cmp::Reverse(b.burst.bytes));
        listed.truncate(bursts);
        listed.sort_by_key(|b| b.burst.from_ns);
    }
    StreamBlock {
        class: s.class,
        bytes: s.bytes,
        slot_s: seconds(s.slot_ns),
        limit_bytes_per_s: s.limit.map(|l| l.bytes_per_s),
        limit_source: s.limit.map(|l| l.source),
        bursts_found: s.bursts_found,
        bursts: listed.into_iter().map(BurstBlock::from).collect(),
        envelope: (s.envelope.iter())
            .map(|(ns, bytes)| EnvelopeBlock {
                window_s: seconds(*ns),
                most_bytes: *bytes,
            })
            .collect(),
        unevenness: s.unevenness.iter().map(UnevennessBlock::from).collect(),
        periodicity: (&s.periodicity).into(),
    }
}
