//! Devices in depth as the page reads them (`web/src/data.ts`): slots, stages, %util, capacity, rhythm, attribution.

use iolens_core::analysis::attribution::Bin;
use iolens_core::analysis::detail::DeviceDetail;
use iolens_core::analysis::io_ticks::UtilCheck;
use iolens_core::analysis::stages::StagesSummary;
use iolens_core::analysis::timeline::Flow;
use serde::Serialize;
use serde_json::{Value, json};

use super::ReportData;
use super::capacity::CapacityBlock;
use super::pack::{column, log_code};
use crate::present::report_detail;
use crate::present::report_json::device_name;

/// All devices together take at most this much of the file.
const MOST_BYTES: usize = 256 << 10;
/// Bins of a curve of attribution: more than this, and a shift of one bin could not be seen.
const MOST_BINS: usize = 120;

/// One device.
#[derive(Serialize)]
pub(super) struct DepthBlock<'a> {
    device: String,
    slots: Value,
    util: Option<&'a UtilCheck>,
    stages: &'a StagesSummary,
    capacity: CapacityBlock,
    rhythm: Vec<Value>,
    attribution: AttributionBlock,
}

/// Mean latencies of all I/Os by the time of their completion and by that of their arrival, as packed log codes of ns,
/// where the two differ most.
#[derive(Serialize)]
struct AttributionBlock {
    from_ns: i64,
    bin_ns: i64,
    bins: usize,
    differ_percent: Option<f64>,
    completed: String,
    arrived: String,
}

/// The devices with most I/O first, as many as fit; and how many did not.
pub(super) fn blocks<'a>(data: &ReportData<'a>) -> (Vec<DepthBlock<'a>>, usize) {
    let mut details: Vec<&DeviceDetail> = data.report.details.iter().collect();
    details.sort_by_key(|d| std::cmp::Reverse(d.stages.s2c.n));
    let (mut blocks, mut used) = (Vec::new(), 0);
    let all = details.len();
    for d in details {
        let block = block(d, data);
        used += serde_json::to_string(&block).map_or(0, |text| text.len());
        if used > MOST_BYTES {
            break;
        }
        blocks.push(block);
    }
    let left_out = all - blocks.len();
    (blocks, left_out)
}

fn block<'a>(d: &'a DeviceDetail, data: &ReportData) -> DepthBlock<'a> {
    let rhythm = d.streams.iter().filter(|s| s.bytes > 0).map(|s| {
        json!({
            "class": s.class.name(),
            "bursts": s.bursts_found,
            "periodicity": report_detail::periodicity(&s.periodicity),
        })
    });
    DepthBlock {
        device: device_name(data.meta, d.dev),
        slots: shortened(report_detail::slots(&d.slots)),
        util: d.util.as_ref(),
        stages: &d.stages,
        capacity: CapacityBlock::new(&d.capacity),
        rhythm: rhythm.collect(),
        attribution: attribution(d, data.report.devices.window.from_ns),
    }
}

fn attribution(d: &DeviceDetail, from_ns: i64) -> AttributionBlock {
    let a = &d.attribution;
    let first = most_apart(&a.bins);
    let bins = &a.bins[first..a.bins.len().min(first + MOST_BINS)];
    let means = |of: fn(&Bin) -> &Flow| column(bins.iter().map(|b| of(b).mean_us().map(|us| log_code(us * 1e3))));
    AttributionBlock {
        from_ns: from_ns + first as i64 * a.bin_ns,
        bin_ns: a.bin_ns,
        bins: bins.len(),
        differ_percent: a.differ_percent,
        completed: means(|b| &b.completed),
        arrived: means(|b| &b.arrived),
    }
}

/// Where the [`MOST_BINS`] begin in which latencies by completion and by arrival are furthest apart, as factors.
fn most_apart(bins: &[Bin]) -> usize {
    let apart = |b: &Bin| match b.completed.mean_us().zip(b.arrived.mean_us()) {
        Some((done, came)) => (done.max(0.1) / came.max(0.1)).ln().abs(),
        None => 0.0,
    };
    let mut sum: f64 = bins.iter().take(MOST_BINS).map(apart).sum();
    let (mut best, mut most) = (0, sum);
    for (i, (leaves, enters)) in bins.iter().zip(bins.iter().skip(MOST_BINS)).enumerate() {
        sum += apart(enters) - apart(leaves);
        if sum > most {
            (best, most) = (i + 1, sum);
        }
    }
    best
}

/// Numbers to a thousandth: finer digits would only fill the file.
fn shortened(value: Value) -> Value {
    match value {
        Value::Number(n) if n.is_f64() => json!((n.as_f64().unwrap_or(0.0) * 1e3).round() / 1e3),
        Value::Array(items) => items.into_iter().map(shortened).collect(),
        Value::Object(items) => items.into_iter().map(|(k, v)| (k, shortened(v))).collect(),
        other => other,
    }
}

/// The devices of `report --json` without what [`blocks`] gives more compactly.
pub(super) fn without_detail(devices: Value) -> Value {
    let Value::Array(mut devices) = devices else { return devices };
    for d in &mut devices {
        if let Some(d) = d.as_object_mut() {
            d.remove("detail");
        }
    }
    Value::Array(devices)
}

/// The sets of `report --json` that are more than one device, without what would not fit; of a link's bursts the largest.
pub(super) fn sets(sets: Value) -> Value {
    let Value::Array(sets) = sets else { return Value::Array(Vec::new()) };
    let several = |s: &Value| s["devices"].as_array().is_some_and(|d| d.len() > 1) || s["streams"].is_array();
    sets.into_iter().filter(several).map(|s| with_largest_bursts(fitting(shortened(s)))).collect()
}

/// A long recording's groups of slots would fill the file.
fn fitting(mut set: Value) -> Value {
    if set.to_string().len() > MOST_BYTES {
        set["slots"] = Value::Null;
    }
    set
}

fn with_largest_bursts(mut link: Value) -> Value {
    for stream in link.get_mut("streams").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(Value::Array(bursts)) = stream.as_object_mut().and_then(|s| s.remove("bursts")) else { continue };
        stream["largest"] = bursts.into_iter().rev().max_by_key(|b| b["bytes"].as_u64()).into();
    }
    link
}

/// For the part on data quality.
pub(super) fn left_out_text(n: usize) -> String {
    format!("{n} devices with little I/O are not shown in depth; `iolens report --json` has them.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_one_device_are_left_out_and_links_tell_their_largest_burst() {
        let set = |devices: &[&str]| json!({"name": "all", "devices": devices, "slots": {"all": []}, "busy_percent": 12.345678});
        let burst = |bytes: u64| json!({"bytes": bytes, "percent_of_limit": 50.0});
        let link = json!({"name": "sda+sdb", "devices": ["sda", "sdb"], "streams": [
            {"class": "read", "bursts": []}, {"class": "write", "bursts": [burst(3), burst(9), burst(5)]},
        ]});
        assert_eq!(sets(json!([set(&["sda"])])), json!([]));
        let got = sets(json!([set(&["sda", "sdb"]), link]));
        assert_eq!((&got[0]["busy_percent"], got.as_array().map(Vec::len)), (&json!(12.346), Some(2)));
        assert_eq!(got[1]["streams"][0], json!({"class": "read", "largest": null}));
        assert_eq!(got[1]["streams"][1]["largest"]["bytes"], 9);
        let groups: Vec<_> = (0..MOST_BYTES / 10).map(|i| json!({"start_s": i})).collect();
        let long =
            sets(json!([{"name": "all", "devices": ["sda", "sdb"], "slots": {"all": groups}, "busy_percent": 1.0}]));
        assert_eq!((&long[0]["slots"], &long[0]["busy_percent"]), (&Value::Null, &json!(1.0)));
    }

    #[test]
    fn the_stretch_with_the_shift_is_shown() {
        let flow = |us: i64| Flow { ios: 1, bytes: 512, total_ns: us * 1000 };
        let mut bins = vec![Bin { completed: flow(100), arrived: flow(100) }; 1000];
        assert_eq!((most_apart(&bins), most_apart(&bins[..50]), most_apart(&[])), (0, 0, 0));
        bins[700].arrived = flow(90_000);
        bins[703].completed = flow(90_000);
        let first = most_apart(&bins);
        assert!(first <= 700 && 703 < first + MOST_BINS, "{first}");
    }
}
