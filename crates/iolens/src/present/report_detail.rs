//! One device in depth, as `report --json` and the HTML report give it: keys carry their units.

use iolens_core::analysis::bursts::{Burst, SampledView};
use iolens_core::analysis::capacity::Capacity;
use iolens_core::analysis::detail::{BurstDetail, DeviceDetail, StreamDetail};
use iolens_core::analysis::periodicity::Periodicity;
use iolens_core::analysis::slots::{SLOT_NS, SlotGroup};
use serde_json::{Value, json};

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Everything about `d` (A2, A3, A6, A12 to A15, A18, A24).
pub fn detail(d: &DeviceDetail) -> Value {
    json!({
        "slots": slots(d),
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

/// Concurrency in slots, in groups (A3, A4).
pub fn slots(d: &DeviceDetail) -> Value {
    let groups = |groups: &[SlotGroup]| groups.iter().map(group).collect::<Vec<_>>();
    json!({
        "width_s": seconds(SLOT_NS),
        "all": groups(&d.slots.all), "read": groups(&d.slots.read), "write": groups(&d.slots.write),
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
        "unloaded_us": c.min_us,
        "knee_in_flight": c.knee_in_flight,
        "mean_in_flight": c.mean_in_flight,
        "saturated_percent": c.saturated_percent,
        "headroom_percent": c.headroom.map(|h| 100.0 * h),
        "little_residual_percent": c.little_residual.map(|r| 100.0 * r),
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
