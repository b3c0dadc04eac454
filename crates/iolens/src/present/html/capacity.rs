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
    max_ios_per_s: Option<f64>,
    unloaded_us: Option<f64>,
    knee_in_flight: Option<f64>,
    headroom_percent: Option<f64>,
    state: State,
    summary: String,
}

impl CapacityBlock {
    pub(super) fn new(d: &DeviceDetail, times: &Times) -> CapacityBlock {
        let c = &d.capacity;
        CapacityBlock {
            max_ios_per_s: c.max_ios_per_s,
            unloaded_us: c.min_us,
            knee_in_flight: c.knee_in_flight,
            headroom_percent: c.headroom.map(|h| 100.0 * h),
            state: c.state,
            summary: summary(d, times),
        }
    }
}

/// What to think of it, in a sentence or two.
pub(in crate::present) fn summary(d: &DeviceDetail, times: &Times) -> String {
    let c = &d.capacity;
    let text = state_text(c.state, d.plateau.is_some(), c.full_percent);
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

/// If the device was never idle in this share of the windows or more, it may have been at its limit.
const MOSTLY_FULL_PERCENT: f64 = 50.0;

/// `is_at_bandwidth`: throughput stood at its limit in bytes for a part of the time. `full_percent` of the windows it was never
/// idle.
fn state_text(state: State, is_at_bandwidth: bool, full_percent: f64) -> &'static str {
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
        State::CapacityNotObserved if full_percent >= MOSTLY_FULL_PERCENT => {
            "whether the device was at its limit cannot be told: it was hardly ever idle, and its load did not vary enough."
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
    use iolens_core::analysis::report::ReportBuilder;
    use iolens_core::analysis::stream::window::Window;
    use iolens_core::model::{DevId, Io, Op};

    #[test]
    fn a_device_at_its_bandwidth_is_not_said_to_have_room() {
        let text = state_text(State::CapacityNotObserved, true, 96.0);
        assert!(text.starts_with("the device moved as many bytes as it can"));
        assert!(!text.contains("limit not reached"));
        let text = state_text(State::CapacityNotObserved, false, 10.0);
        assert!(text.starts_with("device limit not reached"));
    }

    /// One second with a read each 100 ms, then 23 s with 64 reads in flight throughout at a device that serves 1000 a second.
    #[test]
    fn a_device_at_its_limit_for_most_of_the_time_is_not_said_to_be_below_it() {
        let disk = DevId::new(8, 0);
        let mut builder = ReportBuilder::new(Window::new(0, 24_000_000_000));
        let mut read = |done_ns: i64, latency_ns: i64| {
            builder.push(&Io::new(done_ns, disk, Op::READ, 4096, Some(0), latency_ns));
        };
        for i in 0..10 {
            read(i * 100_000_000 + 1_000_000, 1_000_000);
        }
        for i in 0..23_000 {
            read(1_001_000_000 + i * 1_000_000, 1_000_000 * (i + 1).min(64));
        }
        let report = builder.finish(24_000_000_000);
        let detail = report.detail(disk).expect("I/O");
        let text = summary(detail, &Times::relative());
        assert!(!text.contains("not reached"), "{text}");
        assert!(detail.capacity.full_percent > 90.0, "{:?}", detail.capacity);
    }
}
