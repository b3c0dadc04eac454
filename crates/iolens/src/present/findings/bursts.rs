//! Bursts, and bursts that come back.

use iolens_core::analysis::bursts::reported::MAX_REPORTED_BURSTS;
use iolens_core::analysis::bursts::scan::Measure;
use iolens_core::analysis::findings::evidence::{MicroburstEvidence, PeriodicityEvidence};
use iolens_core::analysis::periodicity::Verdict;
use iolens_core::model::Class;

use super::words::{name, plural, singular, time};
use crate::present::layout::{p_value, size};

pub fn microburst(e: &MicroburstEvidence) -> String {
    let by = e
        .cause
        .as_ref()
        .map_or_else(String::new, |c| format!(", mostly by {}", name(c)));
    let moved = match e.measure {
        Measure::Bytes => e.bytes as f64,
        Measure::Ios => e.ios as f64,
    };
    let times = moved / e.duration_s / e.baseline_per_s;
    let usual = if times.is_finite() {
        format!(" ({times:.1}x the background)")
    } else {
        String::new()
    };
    let mut text = format!(
        "{} burst: {} ({} I/Os) in {}{usual}{by}. The device moved up to {}/s; a 1 s sample shows {}/s ({:.1}x lower).",
        singular(e.class),
        size(e.bytes as f64),
        e.ios,
        time(e.duration_s * 1e6),
        size(e.peak_bytes_per_s),
        size(e.mean_1s_bytes_per_s),
        e.hidden_factor,
    );
    if e.lossy {
        text.push_str(" Lower bound: some I/Os in this window were lost.");
    }
    if e.bursts_in_recording > MAX_REPORTED_BURSTS {
        text.push_str(&format!(" One of {} such bursts.", e.bursts_in_recording));
    }
    if let Some(Some(us)) = e.other_class_mean_max_us {
        let other = if e.class == Class::Read {
            Class::Write
        } else {
            Class::Read
        };
        text.push_str(&format!(
            " {} took up to {} on average meanwhile.",
            plural(other),
            time(us)
        ));
    }
    if !e.link_devices.is_empty() {
        text.push_str(&format!(
            " Summed over the {} devices of one link.",
            e.link_devices.len()
        ));
    }
    text
}

pub fn periodicity(e: &PeriodicityEvidence) -> String {
    let by = e
        .cause
        .as_ref()
        .map_or_else(String::new, |c| format!(", mostly from {}", name(c)));
    format!(
        "{} recur every {:.2} s{by}: {} beats over {:.1} periods, jitter {:.1}% ({}{}).",
        plural(e.class),
        e.period_s,
        e.onsets_in_step,
        e.cycles,
        100.0 * e.jitter,
        p_value(e.p_value),
        if e.verdict == Verdict::Periodic {
            ""
        } else {
            "; tentative: too few periods"
        },
    )
}
