//! Turns the results of the analyses into findings with their evidence.

use crate::analysis::bursts::reported::microbursts;
use crate::analysis::capacity::bandwidth;
use crate::analysis::capacity::load::LoadPoint;
use crate::analysis::capacity::queue_full;
use crate::analysis::capacity::{State, is_beyond};
use crate::analysis::counters::io_ticks;
use crate::analysis::counters::pressure::HostPressure;
use crate::analysis::device::detail::{DeviceDetail, StreamDetail};
use crate::analysis::findings::evidence::{
    Cause, Evidence, PeriodicityEvidence, SaturationEvidence, UtilDisagreementEvidence,
};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::latency::change;
use crate::analysis::latency::mode;
use crate::analysis::periodicity::{Clock, Periodicity, Verdict};
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId, PathOf};

/// Fast clocks that move less than a quarter of this per cycle, in bytes, are not reported.
const MIN_BYTES: u64 = 4 << 20;

/// Clocks with a shorter period, in seconds, must move some data to be reported.
const FAST_S: f64 = 0.5;

/// The findings of one device.
pub(in crate::analysis) fn conclude(
    detail: &DeviceDetail,
    window: Window,
    host: &HostPressure,
    path_of: PathOf,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for own in &detail.streams {
        found.extend(microbursts(detail, own, path_of));
        found.extend(periodic(detail, own, window, path_of));
    }
    found.extend(saturated(detail));
    found.extend(
        detail
            .latency_changes
            .iter()
            .map(|c| change::finding(detail.dev, c, window, host)),
    );
    found.extend(
        detail
            .small_stream
            .iter()
            .map(|s| s.finding(detail.dev, path_of)),
    );
    found.extend(
        detail
            .sync_bound
            .iter()
            .map(|b| b.finding(Some(detail.dev), window, path_of)),
    );
    found.extend(
        detail
            .latency_modes
            .iter()
            .map(|m| mode::finding(detail.dev, m, host)),
    );
    found.extend(
        detail
            .plateau
            .iter()
            .map(|p| bandwidth::finding(detail.dev, p)),
    );
    found.extend(
        detail
            .queue_full
            .iter()
            .map(|q| queue_full::finding(detail.dev, q)),
    );
    found.extend(util_disagrees(detail, window));
    found
}

fn periodic(
    detail: &DeviceDetail,
    stream: &StreamDetail,
    window: Window,
    path_of: PathOf,
) -> Vec<Finding> {
    let clocks = &stream.periodicity.clocks;
    let mut found = Vec::new();
    for (clock, actor) in clocks.iter().zip(&stream.periodic_causes) {
        if is_echo(stream, clock, &detail.streams) {
            continue;
        }
        found.extend(period_finding(
            (detail.dev, stream.class),
            (&stream.periodicity, clock),
            stream.bytes,
            Cause::of(*actor, stream.class, path_of),
            window,
        ));
    }
    found
}

/// The finding about one clock of `class` on `dev`, whose stream moves `bytes` in total.
pub(in crate::analysis) fn period_finding(
    (dev, class): (DevId, Class),
    (p, clock): (&Periodicity, &Clock),
    bytes: u64,
    cause: Option<Cause>,
    window: Window,
) -> Option<Finding> {
    // A program that reads a block ten times a second is not worth a finding.
    let per_cycle = bytes as f64 / (window.len_s() / clock.period_s).max(1.0);
    if clock.period_s < FAST_S && per_cycle < MIN_BYTES as f64 / 4.0 {
        return None;
    }
    let first_ns = window.from_ns + (clock.first_beat_s * 1e9) as i64;
    let last_ns = window.from_ns + (clock.last_beat_s * 1e9) as i64;
    Some(Finding {
        dev: Some(dev),
        from_ns: first_ns,
        to_ns: last_ns.min(window.to_ns),
        severity: Severity::Info,
        evidence: Evidence::Periodicity(PeriodicityEvidence {
            class,
            verdict: if clock.is_periodic() {
                Verdict::Periodic
            } else {
                Verdict::Tentative
            },
            period_s: clock.period_s,
            period_low_s: clock.period_ci_s.map(|ci| ci.0),
            period_high_s: clock.period_ci_s.map(|ci| ci.1),
            confidence: 1.0 - clock.p_value,
            p_value: clock.p_value,
            jitter: clock.jitter,
            autocorrelation: p.acf.filter(|_| p.clocks.first() == Some(clock)),
            cycles: clock.cycles,
            onsets: p.onsets,
            onsets_in_step: clock.onsets_in_step,
            cause,
        }),
    })
}

/// Whether the other class has a clock of the same period and more bytes in bursts: I/O that waits for a flush, or is
/// released after it, only echoes the flush.
fn is_echo(stream: &StreamDetail, clock: &Clock, streams: &[StreamDetail]) -> bool {
    for other in streams.iter().filter(|s| s.class != stream.class) {
        let mut clocks = other.periodicity.clocks.iter();
        let keeps_time = clocks.any(|o| o.is_like(clock.period_s));
        if keeps_time && burst_bytes(other) > burst_bytes(stream) {
            return true;
        }
    }
    false
}

fn burst_bytes(stream: &StreamDetail) -> u64 {
    stream.bursts.iter().map(|b| b.burst.bytes).sum()
}

fn saturated(detail: &DeviceDetail) -> Option<Finding> {
    let c = &detail.capacity;
    let knee = c.knee_in_flight?.max(1.0);
    let saturated_percent = c.saturated_percent.filter(|p| *p >= 5.0)?;
    let beyond: Vec<&LoadPoint> = detail.load.iter().filter(|p| is_beyond(p, knee)).collect();
    // At least a second of it: shorter queues are bursts.
    if beyond.len() < 10 || matches!(c.state, State::Inconsistent | State::Idle) {
        return None;
    }
    let first = beyond.first()?;
    let last = beyond.last()?;
    Some(Finding {
        dev: Some(detail.dev),
        from_ns: first.from_ns,
        to_ns: last.from_ns + last.len_ns,
        severity: if c.state == State::Saturated {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::Saturation(Box::new(SaturationEvidence {
            saturated_percent,
            max_ios_per_s: c.max_ios_per_s?,
            max_ios_per_s_ci: c.max_ios_per_s_ci,
            unloaded_us: c.min_us?,
            unloaded_ci_us: c.min_us_ci,
            knee_in_flight: c.knee_in_flight?,
            knee_in_flight_ci: c.knee_in_flight_ci,
            mix_load_percent: c.mix_load.map(|part| 100.0 * part),
            fit: c.models.first().copied(),
            mean_in_flight: c.mean_in_flight,
            max_in_flight: beyond.iter().map(|p| p.in_flight).fold(0.0, f64::max),
            headroom_percent: c.headroom.map(|part| 100.0 * part),
            windows: c.windows,
            window_s: c.window_ns as f64 / 1e9,
            state: c.state,
        })),
    })
}

fn util_disagrees(detail: &DeviceDetail, window: Window) -> Option<Finding> {
    let u = detail.util.as_ref()?;
    if u.verdict == io_ticks::Verdict::Ok || (u.busy_percent - u.util_io_ticks_percent).abs() < 5.0
    {
        return None;
    }
    Some(Finding {
        dev: Some(detail.dev),
        from_ns: window.from_ns,
        to_ns: window.to_ns,
        severity: Severity::Info,
        evidence: Evidence::UtilDisagreement(UtilDisagreementEvidence {
            busy_percent: u.busy_percent,
            util_io_ticks_percent: u.util_io_ticks_percent,
            expected_percent: u.expected_percent,
            sigma_pp: u.sigma_pp,
            regime: u.regime,
            verdict: u.verdict,
        }),
    })
}
