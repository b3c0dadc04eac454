//! The detailed analysis of devices, in the form that the page reads: slots, stages, %util, capacity, periods,
//! attribution.

use iolens_core::analysis::bursts::detail::BurstDetail;
use iolens_core::analysis::counters::io_ticks::UtilCheck;
use iolens_core::analysis::device::attribution::Bin;
use iolens_core::analysis::device::detail::DeviceDetail;
use iolens_core::analysis::device::stages::StagesSummary;
use iolens_core::analysis::timeline::Flow;
use iolens_core::model::Class;
use serde::Serialize;
use serde_json::Value;

use super::ReportData;
use super::capacity::CapacityBlock;
use super::pack::{column, each_number, log_code};
use crate::present::report_detail::{
    self, BurstBlock, DevicesBlock, LinkBlock, PeriodicityBlock, SlotsBlock,
};
use crate::present::report_json::device_name;
use crate::present::times::Times;

/// Maximum size of the details of all devices in the file.
const MAX_BYTES: usize = 256 << 10;
/// Maximum number of bins of an attribution curve: with more, a shift of one bin would not be visible.
const MAX_BINS: usize = 120;

/// What the analyses say of one device beside its row in the tables.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DepthBlock<'a> {
    device: String,
    #[cfg_attr(test, schemars(with = "SlotsBlock"))]
    slots: Value,
    /// The kernel's busy time compared with the exact one; `null` without counters or with losses.
    util: Option<&'a UtilCheck>,
    stages: &'a StagesSummary,
    capacity: CapacityBlock,
    /// Periodicity of reads and of writes. Only classes with I/Os are included.
    rhythm: Vec<Rhythm<'a>>,
    attribution: AttributionBlock,
}

/// Whether the load of one class comes back.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Rhythm<'a> {
    class: Class,
    bursts_found: usize,
    periodicity: PeriodicityBlock<'a>,
}

/// Mean latencies of all I/Os by the time of their completion and by that of their arrival, as packed log codes of ns,
/// where the two differ most.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AttributionBlock {
    from_ns: i64,
    /// Length of the bins of which the mean latencies are compared.
    bin_ns: i64,
    bins: usize,
    differ_percent: Option<f64>,
    /// Mean latency of the I/Os by bin of their completion, packed as text.
    completed: String,
    /// Mean latency of the I/Os by bin of their arrival, packed as text.
    arrived: String,
}

/// The devices with the most I/O, as many as fit, and the number of the others.
pub(super) fn blocks<'a>(data: &ReportData<'a>) -> (Vec<DepthBlock<'a>>, usize) {
    let mut details: Vec<&DeviceDetail> = data.report.details.iter().collect();
    details.sort_by_key(|d| std::cmp::Reverse(d.stages.s2c.n));
    let mut blocks = Vec::new();
    let mut used = 0;
    let all = details.len();
    for d in details {
        let block = block(d, data);
        used += serde_json::to_string(&block).map_or(0, |text| text.len());
        if used > MAX_BYTES {
            break;
        }
        blocks.push(block);
    }
    let left_out = all - blocks.len();
    (blocks, left_out)
}

fn block<'a>(d: &'a DeviceDetail, data: &ReportData) -> DepthBlock<'a> {
    let rhythm = d.streams.iter().filter(|s| s.bytes > 0).map(|s| Rhythm {
        class: s.class,
        bursts_found: s.bursts_found,
        periodicity: (&s.periodicity).into(),
    });
    DepthBlock {
        device: device_name(data.meta, d.dev),
        slots: shortened(SlotsBlock::from(&d.slots)),
        util: d.util.as_ref(),
        stages: &d.stages,
        capacity: CapacityBlock::new(d, &Times::utc(data.meta)),
        rhythm: rhythm.collect(),
        attribution: attribution(d, data.report.devices.window.from_ns),
    }
}

fn attribution(d: &DeviceDetail, from_ns: i64) -> AttributionBlock {
    let a = &d.attribution;
    let all = a.dense();
    let first = most_apart(&all);
    let bins = &all[first..all.len().min(first + MAX_BINS)];
    AttributionBlock {
        from_ns: from_ns + first as i64 * a.bin_ns,
        bin_ns: a.bin_ns,
        bins: bins.len(),
        differ_percent: a.differ_percent,
        completed: mean_codes(bins, |b| &b.completed),
        arrived: mean_codes(bins, |b| &b.arrived),
    }
}

/// A packed column of mean latencies.
fn mean_codes(bins: &[Bin], of: fn(&Bin) -> &Flow) -> String {
    let codes = bins
        .iter()
        .map(|bin| Some(log_code(of(bin).mean_us()? * 1e3)));
    column(codes)
}

/// Start of the [`MAX_BINS`] bins in which latencies by completion and by arrival differ by the largest factors.
fn most_apart(bins: &[Bin]) -> usize {
    let mut sum: f64 = bins.iter().take(MAX_BINS).map(apart).sum();
    let mut best = 0;
    let mut most = sum;
    for (i, (leaves, enters)) in bins.iter().zip(bins.iter().skip(MAX_BINS)).enumerate() {
        sum += apart(enters) - apart(leaves);
        if sum > most {
            best = i + 1;
            most = sum;
        }
    }
    best
}

/// How much the two means of a bin differ: the absolute logarithm of their ratio.
fn apart(bin: &Bin) -> f64 {
    match bin.completed.mean_us().zip(bin.arrived.mean_us()) {
        Some((done, came)) => (done.max(0.1) / came.max(0.1)).ln().abs(),
        None => 0.0,
    }
}

/// Rounds numbers to thousandths, because more digits only increase the file.
fn shortened(block: impl Serialize) -> Value {
    // Structs with string keys cannot fail to serialise.
    let mut value = serde_json::to_value(block).unwrap_or_default();
    each_number(&mut value, |v| (v * 1e3).round() / 1e3);
    value
}

/// Of a link's bursts the one of most bytes; of equals the first.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LargestBurst {
    largest: Option<BurstBlock>,
}

impl LargestBurst {
    fn of(bursts: &[BurstDetail]) -> LargestBurst {
        LargestBurst {
            largest: bursts
                .iter()
                .rev()
                .max_by_key(|b| b.burst.bytes)
                .map(BurstBlock::from),
        }
    }
}

/// Devices together, or behind one link: as in `report --json`, with less of what fills the file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum SetOfPage<'a> {
    Devices(DevicesBlock<'a>),
    Link(LinkBlock<LargestBurst>),
}

/// Sets of more than one device, and links, without parts that do not fit.
pub(super) fn sets(data: &ReportData) -> Vec<Value> {
    let together =
        report_detail::devices(data.report, data.meta).filter(|s| s.device_names.len() > 1);
    let links = data
        .report
        .links
        .iter()
        .map(|d| SetOfPage::Link(report_detail::link(d, data.meta, LargestBurst::of)));
    let sets = together
        .map(|s| SetOfPage::Devices(fitting(s)))
        .into_iter()
        .chain(links);
    sets.map(shortened).collect()
}

/// Groups of slots of a long recording would not fit in the file.
fn fitting(mut set: DevicesBlock<'_>) -> DevicesBlock<'_> {
    set.slots = set
        .slots
        .filter(|s| shortened(s).to_string().len() <= MAX_BYTES);
    set
}

/// A note for the section on data quality.
pub(super) fn left_out_text(n: usize) -> String {
    format!("{n} devices with little I/O are not shown in depth; `iolens report --json` has them.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretch_with_the_shift_is_shown() {
        let flow = |us: i64| Flow {
            ios: 1,
            bytes: 512,
            total_ns: us * 1000,
        };
        let mut bins = vec![
            Bin {
                completed: flow(100),
                arrived: flow(100)
            };
            1000
        ];
        assert_eq!(
            (most_apart(&bins), most_apart(&bins[..50]), most_apart(&[])),
            (0, 0, 0)
        );
        bins[700].arrived = flow(90_000);
        bins[703].completed = flow(90_000);
        let first = most_apart(&bins);
        assert!(first <= 700 && 703 < first + MAX_BINS, "{first}");
    }
}
