//! Devices at their limits, and how busy they are.

use iolens_core::analysis::counters::io_ticks::Verdict;
use iolens_core::analysis::findings::evidence::{
    BandwidthSaturationEvidence, QueueFullEvidence, SaturationEvidence, UtilDisagreementEvidence,
};

use super::words::time;
use crate::present::estimator::about;
use crate::present::layout::size;

pub fn saturation(e: &SaturationEvidence) -> String {
    format!(
        "In {:.0} % of its busy time the device had more than twice what it serves at once ({:.1}) in flight, \
         up to {:.0}: more load only waited. It does not get beyond {:.0} I/Os per second; unloaded, one takes {}.",
        e.saturated_percent,
        e.knee_in_flight.max(1.0),
        e.max_in_flight,
        e.max_ios_per_s,
        time(e.min_us),
    )
}

pub fn bandwidth(e: &BandwidthSaturationEvidence) -> String {
    format!(
        "Throughput stays at {}/s in {:.0} % of the time while {:.0} I/Os are in flight (up to {:.0}), where {:.1} would do: \
         more demand only waits. Latency there is {}, at light load {}.",
        size(e.plateau_bytes_per_s),
        e.plateau_percent,
        e.mean_in_flight,
        e.max_in_flight,
        e.needed_in_flight,
        time(e.plateau_mean_us),
        time(e.light_mean_us),
    )
}

pub fn queue_full(e: &QueueFullEvidence) -> String {
    let stretches = match e.full_stretches {
        1 => "1 stretch".to_owned(),
        n => format!("{n} stretches"),
    };
    format!(
        "The device's queue was full for {:.1} s, {:.0} % of the time, in {stretches}: it had {} at once, never more, \
         and the next ones waited {} in the kernel (at most {}), beside {} with the device.",
        e.full_s,
        e.full_percent,
        e.level,
        time(e.wait_mean_us),
        time(f64::from(e.wait_max_us)),
        time(e.device_mean_us),
    )
}

pub fn util_disagreement(e: &UtilDisagreementEvidence) -> String {
    let way = match e.verdict {
        Verdict::Ok => "right",
        Verdict::BiasedHigh => "too high",
        Verdict::BiasedLow => "too low",
        Verdict::Impossible => "impossible",
    };
    let why = e
        .regime
        .map_or_else(String::new, |r| format!(" ({})", about(r)));
    format!(
        "The kernel's %util says {:.1} %, which is {way}: the device was busy {:.1} % of the time{why}.",
        e.util_io_ticks_percent, e.busy_percent
    )
}
