//! One device in depth, as `report --json` and the HTML report give it: keys carry their units.

use iolens_core::analysis::Report;
use iolens_core::analysis::bursts::{Burst, SampledView};
use iolens_core::analysis::capacity::Capacity;
use iolens_core::analysis::detail::{BurstDetail, DeviceDetail, StreamDetail};
use iolens_core::analysis::links::{LinkDetail, LinkStream};
use iolens_core::analysis::periodicity::Periodicity;
use iolens_core::analysis::slots::{SLOT_NS, SlotGroup, SlotSummary};
use iolens_core::model::{DevId, RecordingMeta};
use serde_json::{Value, json};

use super::report_json::{device_name, link_name};

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Everything about `d` (A2, A3, A6, A12 to A15, A18, A24).
pub fn detail(d: &DeviceDetail) -> Value {
    json!({
        "slots": slots(&d.slots),
        "util": d.util,
        "capacity": capacity(&d.capacity),
        "stages": d.stages,
        "attribution": {"bin_s": seconds(d.attribution.bin_ns), "differ_percent": d.attribution.differ_percent},
        "peak_hour": d.peak_hour.map(|p| json!({
            "start_s": seconds(p.from_ns), "end_s": seconds(p.to_ns), "ios_per_s": p.ios_per_s, "ratio": p.ratio,
        })),
        "streams": d.streams.iter().map(stream).collect::<Vec<_>>(),
    })
}

/// Devices together (A4): all of them, if any did I/O that was seen.
pub fn sets(report: &Report, meta: &RecordingMeta) -> Vec<Value> {
    let set = &report.set;
    // One device did all I/O: the set's slots are its own.
    let alone = report.details.iter().find(|d| set.members == [d.dev]).map(|d| &d.slots);
    let names = |devices: &[DevId]| devices.iter().map(|dev| device_name(meta, *dev)).collect::<Vec<_>>();
    let all = json!({
        "name": "all",
        "devices": names(&set.members),
        "left_out": names(&set.left_out),
        "busy_percent": set.busy_percent,
        "busy_read_percent": set.busy_read_percent,
        "busy_write_percent": set.busy_write_percent,
        "busy_both_percent": set.busy_both_percent,
        "mean_busy_percent": set.mean_busy_percent,
        "max_busy_percent": set.max_busy_percent,
        "concurrency": set.concurrency,
        "slots": report.set_slots.as_ref().or(alone).map(slots),
    });
    let all = if set.members.is_empty() { Vec::new() } else { vec![all] };
    all.into_iter().chain(report.links.iter().map(|link| self::link(link, meta))).collect()
}

/// Devices behind one link (A13).
fn link(d: &LinkDetail, meta: &RecordingMeta) -> Value {
    let devices: Vec<String> = d.link.devices.iter().map(|dev| device_name(meta, *dev)).collect();
    let stream = |s: &LinkStream| {
        json!({
            "class": s.class.name(), "bytes": s.bytes, "slot_s": seconds(s.slot_ns),
            "bursts_found": s.bursts_found, "bursts": s.bursts.iter().map(burst).collect::<Vec<_>>(),
        })
    };
    json!({
        "name": link_name(&d.link.devices, meta),
        "devices": devices,
        "limit_bytes_per_s": d.link.limit.bytes_per_s,
        "limit_source": d.link.limit.source,
        "streams": d.streams.iter().map(stream).collect::<Vec<_>>(),
    })
}

/// Concurrency in slots, in groups (A3, A4).
pub fn slots(s: &SlotSummary) -> Value {
    let groups = |groups: &[SlotGroup]| groups.iter().map(group).collect::<Vec<_>>();
    json!({
        "width_s": seconds(SLOT_NS),
        "all": groups(&s.all), "read": groups(&s.read), "write": groups(&s.write),
    })
}

fn group(g: &SlotGroup) -> Value {
    json!({
        "start_s": seconds(g.from_ns), "end_s": seconds(g.to_ns), "slots": g.slots,
        "touched": g.touched, "sampled": g.sampled, "mean": g.mean, "max": g.max, "touched_percent": g.touched_percent,
    })
}

fn capacity(c: &Capacity) -> Value {
    json!({
        "state": c.state,
        "windows": c.windows,
        "window_s": seconds(c.window_ns),
        "max_ios_per_s": c.max_ios_per_s,
        "max_ios_per_s_low": c.max_ios_per_s_ci.map(|ci| ci.0),
        "max_ios_per_s_high": c.max_ios_per_s_ci.map(|ci| ci.1),
        "unloaded_us": c.min_us,
        "unloaded_low_us": c.min_us_ci.map(|ci| ci.0),
        "unloaded_high_us": c.min_us_ci.map(|ci| ci.1),
        "knee_in_flight": c.knee_in_flight,
        "knee_in_flight_low": c.knee_in_flight_ci.map(|ci| ci.0),
        "knee_in_flight_high": c.knee_in_flight_ci.map(|ci| ci.1),
        "mean_in_flight": c.mean_in_flight,
        "saturated_percent": c.saturated_percent,
        "headroom_percent": c.headroom.map(|h| 100.0 * h),
        "mix_load_percent": c.mix_load.map(|rho| 100.0 * rho),
        "ios_left_per_s": c.ios_left_at_twice_min,
        "best_power_in_flight": c.best_power.map(|p| p.0),
        "best_power_ios_per_s": c.best_power.map(|p| p.1),
        "little_residual_percent": c.little_residual.map(|r| 100.0 * r),
        "models": c.models,
    })
}

fn stream(s: &StreamDetail) -> Value {
    json!({
        "class": s.class.name(),
        "bytes": s.bytes,
        "slot_s": seconds(s.slot_ns),
        "limit_bytes_per_s": s.limit.map(|l| l.bytes_per_s),
        "limit_source": s.limit.map(|l| l.source),
        "bursts_found": s.bursts_found,
        "bursts": s.bursts.iter().map(burst).collect::<Vec<_>>(),
        "envelope": s.envelope.iter()
            .map(|(ns, bytes)| json!({"window_s": seconds(*ns), "most_bytes": bytes})).collect::<Vec<_>>(),
        "unevenness": s.unevenness.iter().map(|u| json!({
            "slot_s": seconds(u.dt_ns), "slots": u.slots, "dispersion_index": u.idc, "peak_to_mean": u.peak_to_mean,
            "duty_percent": u.duty_percent,
        })).collect::<Vec<_>>(),
        "periodicity": periodicity(&s.periodicity),
        "starvation": s.starvation,
    })
}

fn burst(b: &BurstDetail) -> Value {
    let (burst, second): (&Burst, &SampledView) = (&b.burst, &b.second);
    json!({
        "start_s": seconds(burst.from_ns), "end_s": seconds(burst.to_ns), "core_s": seconds(burst.core_ns),
        "bytes": burst.bytes, "ios": burst.ios, "mean_request_bytes": burst.mean_bytes,
        "peak_bytes_per_s": burst.peak_bytes_per_s, "peak_iops": burst.peak_iops,
        "percent_of_limit": burst.percent_of_limit, "exceeds_limit": burst.exceeds_limit,
        "mean_1s_bytes_per_s": second.median_bytes_per_s, "hidden_factor": finite(second.hidden_factor),
        "bucket_bytes": burst.bucket_bytes, "censored": burst.censored, "lossy": b.lossy,
    })
}

/// A15's answer, also when it is no.
pub fn periodicity(p: &Periodicity) -> Value {
    json!({
        "verdict": p.verdict,
        "slot_s": p.slot_s,
        "period_s": p.period_s,
        "period_low_s": p.period_ci_s.map(|ci| ci.0),
        "period_high_s": p.period_ci_s.map(|ci| ci.1),
        "autocorrelation": p.acf,
        "p_value": p.p_value,
        "cycles": p.cycles,
        "onsets": p.onsets,
        "onsets_in_step": p.in_step,
        "gap_mean_s": p.gap_mean_s,
        "gap_cv": p.gap_cv,
        "gap_mad_s": p.gap_mad_s,
    })
}

/// JSON knows no infinity.
fn finite(v: f64) -> Option<f64> {
    v.is_finite().then_some(v)
}
