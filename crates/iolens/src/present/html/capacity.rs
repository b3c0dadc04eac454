//! Capacity in words, and what to think of the kernel's %util.

use iolens_core::analysis::capacity::{ServedMore, State};
use iolens_core::analysis::counters::io_ticks::{UtilCheck, Verdict};
use iolens_core::analysis::device::detail::DeviceDetail;
use iolens_core::model::RecordingMeta;
use serde::Serialize;

use super::{Note, NoteLevel, ReportData};
use crate::present::estimator;
use crate::present::report_detail_text::util_sentence;
use crate::present::report_json::device_name;
use crate::present::times::Times;

/// Capacity and headroom of one device (A18) as the page reads it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CapacityBlock {
    max_iops: Option<f64>,
    light_us: Option<f64>,
    knee_inflight: Option<f64>,
    headroom_percent: Option<f64>,
    state: State,
    summary: String,
}

impl CapacityBlock {
    pub(super) fn new(d: &DeviceDetail, times: &Times) -> CapacityBlock {
        let c = &d.capacity;
        CapacityBlock {
            max_iops: c.max_ios_per_s,
            light_us: c.min_us,
            knee_inflight: c.knee_in_flight,
            headroom_percent: c.headroom.map(|h| 100.0 * h),
            state: c.state,
            summary: summary(d, times),
        }
    }
}

/// What to think of it, in a sentence or two.
pub(in crate::present) fn summary(d: &DeviceDetail, times: &Times) -> String {
    let c = &d.capacity;
    let text = state_text(c.state, d.plateau.is_some());
    let more = c.served_more.as_ref();
    let more = more.map(|s| served_more(s, times)).unwrap_or_default();
    match c.saturated_percent.filter(|p| *p > 0.0) {
        Some(p) => format!(
            "{text}{more} {p:.1} % of {} windows with I/O lie beyond the knee.",
            c.windows
        ),
        None => format!("{text}{more} n = {} windows with I/O.", c.windows),
    }
}

/// `is_at_bandwidth`: throughput stood at its limit in bytes for a part of the time.
fn state_text(state: State, is_at_bandwidth: bool) -> &'static str {
    match state {
        State::Idle => "the device was idle most of the time.",
        State::ParallelHeadroom => "the device was busy, and would serve more at once.",
        State::NearKnee => "more load will mean longer waits.",
        State::Saturated => {
            "most of the time more I/Os were in flight than the device works on at once: they waited."
        }
        State::ThrottledElsewhere => {
            "I/Os waited in the kernel's queues while the device had room: something holds them back."
        }
        State::CapacityNotObserved if is_at_bandwidth => {
            "the device moved as many bytes as it can for a part of the time; its limit in I/Os a second was not reached."
        }
        State::CapacityNotObserved => {
            "device limit not reached in this recording (no throughput plateau)."
        }
        State::Inconsistent => {
            "throughput, latency and concurrency do not agree (Little's law): I/Os are missing, or most were in flight at the edges."
        }
    }
}

/// The lower bound that the busiest stretch of the recording is.
fn served_more(s: &ServedMore, times: &Times) -> String {
    format!(
        " At least {:.1} times the mean load was served from {} ({:.0} I/Os/s, mean latency {:.1} us).",
        s.times,
        times.span_to(s.from_ns, s.to_ns, 0),
        s.ios_per_s,
        s.mean_us
    )
}

/// What this kernel's estimate of busy time is worth, and how it compares on each device.
pub(super) fn util_notes(data: &ReportData) -> Vec<Note> {
    let mut out = Vec::new();
    if let Some(regime) = data.report.regime {
        let hz = data
            .meta
            .kernel_hz
            .map(|hz| format!("; HZ is {hz}"))
            .unwrap_or_default();
        let text = format!(
            "%util as iostat prints it: {}{hz}.",
            estimator::about(regime)
        );
        out.push(Note {
            topic: "Kernel regime".to_owned(),
            level: NoteLevel::Info,
            text,
        });
    }
    out.extend(
        data.report
            .details
            .iter()
            .filter_map(|d| util_note(d, data.meta)),
    );
    out
}

fn util_note(d: &DeviceDetail, meta: &RecordingMeta) -> Option<Note> {
    let u: &UtilCheck = d.util.as_ref()?;
    let level = match u.verdict {
        Verdict::Ok => NoteLevel::Ok,
        Verdict::BiasedHigh | Verdict::BiasedLow | Verdict::Impossible => NoteLevel::Warning,
    };
    let text = format!("The kernel's busy time: {}.", util_sentence(u));
    Some(Note {
        topic: format!("%util of {}", device_name(meta, d.dev)),
        level,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_at_its_bandwidth_is_not_said_to_have_room() {
        let text = state_text(State::CapacityNotObserved, true);
        assert!(text.starts_with("the device moved as many bytes as it can"));
        assert!(!text.contains("limit not reached"));
        let text = state_text(State::CapacityNotObserved, false);
        assert!(text.starts_with("device limit not reached"));
    }
}
