//! From numbers to findings: which of them a person should hear, in which words, with which evidence.

use serde_json::{Value, json};

use super::capacity::State;
use super::detail::{DeviceDetail, StreamDetail};
use super::findings::{Finding, FindingKind, Severity, evidence};
use super::io_ticks;
use super::periodicity;
use super::starvation::{self, Starvation};
use super::told_bursts::microbursts;
use super::window::Window;
use super::words::{name_of, plural, time};
use crate::model::Class;

/// One with fewer bytes a cycle moves nothing that matters.
const LEAST_BYTES: u64 = 4 << 20;

/// Faster rhythms must move some data to be told.
const BREATH_S: f64 = 0.5;

/// From this ratio of p99 on a suspicion is a warning too.
const GRAVE_RATIO: f64 = 5.0;

/// A name for a file, if the recording knows one: (device of the file system, inode) to path.
pub type PathOf<'a> = &'a dyn Fn(i32, i64) -> Option<String>;

/// The findings of one device.
pub(super) fn conclude(detail: &DeviceDetail, window: Window, path_of: PathOf) -> Vec<Finding> {
    let mut found = Vec::new();
    for (own, other) in [(0, 1), (1, 0)].map(|(a, b)| (&detail.streams[a], &detail.streams[b])) {
        found.extend(microbursts(detail, own, path_of));
        found.extend(starved(detail, own, other, path_of));
        found.extend(periodic(detail, own, window, path_of));
    }
    found.extend(saturated(detail));
    found.extend(util_disagrees(detail, window));
    found
}

fn starved(detail: &DeviceDetail, victim: &StreamDetail, burster: &StreamDetail, path_of: PathOf) -> Option<Finding> {
    let s = victim.starvation.as_ref()?;
    let p = s.p_value.filter(|p| *p < starvation::ALPHA)?;
    let proven = match s.verdict {
        starvation::Verdict::Starvation => true,
        starvation::Verdict::Suggestive => false,
        starvation::Verdict::NoEffect | starvation::Verdict::NoneObserved => return None,
    };
    let (first, last) = (burster.bursts.first()?, burster.bursts.last()?);
    let cause = name_of(victim.starvation_cause, path_of);
    Some(Finding {
        kind: FindingKind::Starvation,
        dev: Some(detail.dev),
        link: Vec::new(),
        from_ns: first.burst.from_ns,
        to_ns: last.burst.to_ns,
        severity: if proven || s.ratio_p99 >= Some(GRAVE_RATIO) { Severity::Warning } else { Severity::Info },
        summary: starved_in_words(victim, burster, s, p, cause.as_deref()),
        evidence: starvation_evidence(victim, s, cause),
    })
}

fn starved_in_words(
    victim: &StreamDetail,
    burster: &StreamDetail,
    s: &Starvation,
    p: f64,
    cause: Option<&str>,
) -> String {
    let (during, outside) = (s.p99_during_us.unwrap_or(0.0), s.p99_outside_us.unwrap_or(0.0));
    let by = cause.map_or_else(String::new, |c| format!(" (mostly by {c})"));
    let (bursts, certainty) = match s.verdict {
        starvation::Verdict::Starvation => (format!("{} bursts", s.bursts), format!("p = {p:.3}")),
        _ if s.bursts == 1 => ("1 burst".to_owned(), "suggestive only: one burst proves nothing".to_owned()),
        _ => (format!("{} bursts", s.bursts), "suggestive only: fewer than 5 bursts".to_owned()),
    };
    let order = match s.direction {
        starvation::Direction::LatencyFirst => " But latency rises before the bursts: they are not its only cause.",
        starvation::Direction::BurstFirst | starvation::Direction::Unclear => "",
    };
    format!(
        "{} wait while {} burst{by}: 99 % took up to {} during {bursts}, up to {} otherwise ({:.1} times; median {:.1} times; {} of them against {}; {certainty}).{order}",
        plural(victim.class),
        plural(burster.class).to_lowercase(),
        time(during),
        time(outside),
        s.ratio_p99.unwrap_or(0.0),
        s.ratio_p50.unwrap_or(0.0),
        s.treated,
        s.control,
    )
}

fn starvation_evidence(victim: &StreamDetail, s: &Starvation, cause: Option<String>) -> serde_json::Map<String, Value> {
    let of = |class: Class, us: Option<f64>| json!(us.filter(|_| victim.class == class));
    evidence([
        ("victim", json!(victim.class.name())),
        ("verdict", json!(s.verdict)),
        ("read_p99_during_us", of(Class::Read, s.p99_during_us)),
        ("read_p99_outside_us", of(Class::Read, s.p99_outside_us)),
        ("write_p99_during_us", of(Class::Write, s.p99_during_us)),
        ("write_p99_outside_us", of(Class::Write, s.p99_outside_us)),
        ("p50_during_us", json!(s.p50_during_us)),
        ("p50_outside_us", json!(s.p50_outside_us)),
        ("max_during_us", json!(s.max_during_us)),
        ("ratio", json!(s.ratio_p99)),
        ("ratio_p50", json!(s.ratio_p50)),
        ("shift_us", json!(s.shift_us)),
        ("cliffs_delta", json!(s.cliffs_delta)),
        ("excess_request_ms", json!(s.excess_request_ms)),
        ("p_value", json!(s.p_value)),
        ("bursts", json!(s.bursts)),
        ("ios_during", json!(s.treated)),
        ("ios_outside", json!(s.control)),
        ("lag_s", json!(s.lag_ns as f64 / 1e9)),
        ("direction", json!(s.direction)),
        ("follows_s", json!(s.follows_ns.map(|ns| ns as f64 / 1e9))),
        ("cause", json!(cause)),
    ])
}

fn periodic(detail: &DeviceDetail, stream: &StreamDetail, window: Window, path_of: PathOf) -> Option<Finding> {
    let p = &stream.periodicity;
    if is_echo(stream, &detail.streams) {
        return None;
    }
    let tentative = match p.verdict {
        periodicity::Verdict::Periodic => false,
        periodicity::Verdict::Tentative => true,
        periodicity::Verdict::NotPeriodic | periodicity::Verdict::InsufficientData => return None,
    };
    let (period_s, p_value) = (p.period_s?, p.p_value?);
    // A program that reads a block ten times a second is no news.
    let per_cycle = stream.bytes as f64 / p.cycles.filter(|c| *c >= 1.0)?;
    if period_s < BREATH_S && per_cycle < LEAST_BYTES as f64 / 4.0 {
        return None;
    }
    let cause = name_of(stream.periodic_cause, path_of);
    let by = cause.as_deref().map_or_else(String::new, |c| format!(", mostly by {c}"));
    let sure = match p.cycles {
        _ if !tentative => "",
        Some(cycles) if cycles < 5.0 => "; tentative: too few periods to be sure",
        _ => "; tentative: only the onsets say so",
    };
    Some(Finding {
        kind: FindingKind::Periodicity,
        dev: Some(detail.dev),
        link: Vec::new(),
        from_ns: window.from_ns,
        to_ns: window.to_ns,
        severity: Severity::Info,
        summary: format!(
            "{} come back every {period_s:.2} s{by}: {} onsets keep step over {:.1} periods (p = {p_value:.3}{sure}).",
            plural(stream.class),
            p.in_step,
            p.cycles.unwrap_or(0.0),
        ),
        evidence: evidence([
            ("class", json!(stream.class.name())),
            ("verdict", json!(p.verdict)),
            ("period_s", json!(period_s)),
            ("period_low_s", json!(p.period_ci_s.map(|ci| ci.0))),
            ("period_high_s", json!(p.period_ci_s.map(|ci| ci.1))),
            ("confidence", json!(1.0 - p_value)),
            ("p_value", json!(p_value)),
            ("autocorrelation", json!(p.acf)),
            ("onset_period_s", json!(p.onset_period_s)),
            ("onset_power", json!(p.onset_power)),
            ("onset_p_value", json!(p.onset_p_value)),
            ("cycles", json!(p.cycles)),
            ("onsets", json!(p.onsets)),
            ("onsets_in_step", json!(p.in_step)),
            ("cause", json!(cause)),
        ]),
    })
}

/// Whether another stream beats the same time with more bytes: what waits for a flush, or is let loose after it, only
/// echoes the flush.
fn is_echo(stream: &StreamDetail, streams: &[StreamDetail]) -> bool {
    let bytes = |s: &StreamDetail| s.bursts.iter().map(|b| b.burst.bytes).sum::<u64>();
    let Some(period) = stream.periodicity.period_s else { return false };
    streams.iter().filter(|other| other.class != stream.class).any(|other| {
        let other_period =
            other.periodicity.period_s.filter(|_| other.periodicity.verdict == periodicity::Verdict::Periodic);
        other_period.is_some_and(|o| (o - period).abs() <= 0.05 * period) && bytes(other) > bytes(stream)
    })
}

fn saturated(detail: &DeviceDetail) -> Option<Finding> {
    let c = &detail.capacity;
    let knee = c.knee_in_flight?.max(1.0);
    let percent = c.saturated_percent.filter(|p| *p >= 5.0)?;
    let beyond = || detail.load.iter().filter(|p| p.in_flight >= 2.0 * knee);
    // A second of it, at least: shorter queues are bursts.
    if beyond().count() < 10 || matches!(c.state, State::Inconsistent | State::Idle) {
        return None;
    }
    let (first, last) = (beyond().next()?, beyond().next_back()?);
    let worst = beyond().map(|p| p.in_flight).fold(0.0, f64::max);
    let (max, min_us) = (c.max_ios_per_s?, c.min_us?);
    Some(Finding {
        kind: FindingKind::Saturation,
        dev: Some(detail.dev),
        link: Vec::new(),
        from_ns: first.from_ns,
        to_ns: last.from_ns + last.len_ns,
        severity: if c.state == State::Saturated { Severity::Warning } else { Severity::Info },
        summary: format!(
            "In {percent:.0} % of its busy time the device had more than twice what it serves at once ({knee:.1}) in flight, \
             up to {worst:.0}: more load only waited. It does not get beyond {max:.0} I/Os per second; unloaded, one takes {}.",
            time(min_us),
        ),
        evidence: evidence([
            ("saturated_percent", json!(percent)),
            ("max_ios_per_s", json!(max)),
            ("max_ios_per_s_ci", json!(c.max_ios_per_s_ci)),
            ("min_us", json!(min_us)),
            ("min_us_ci", json!(c.min_us_ci)),
            ("knee_in_flight", json!(c.knee_in_flight)),
            ("knee_in_flight_ci", json!(c.knee_in_flight_ci)),
            ("mix_load", json!(c.mix_load)),
            ("model", json!(c.models.first())),
            ("mean_in_flight", json!(c.mean_in_flight)),
            ("max_in_flight", json!(worst)),
            ("headroom", json!(c.headroom)),
            ("windows", json!(c.windows)),
            ("window_s", json!(c.window_ns as f64 / 1e9)),
            ("state", json!(c.state)),
        ]),
    })
}

fn util_disagrees(detail: &DeviceDetail, window: Window) -> Option<Finding> {
    let u = detail.util.as_ref()?;
    let way = match u.verdict {
        io_ticks::Verdict::Ok => return None,
        io_ticks::Verdict::BiasedHigh => "too high",
        io_ticks::Verdict::BiasedLow => "too low",
        io_ticks::Verdict::Impossible => "impossible",
    };
    if (u.exact_percent - u.io_ticks_percent).abs() < 5.0 {
        return None;
    }
    let why = u.regime.map_or_else(String::new, |r| format!(" ({})", r.about()));
    Some(Finding {
        kind: FindingKind::UtilDisagreement,
        dev: Some(detail.dev),
        link: Vec::new(),
        from_ns: window.from_ns,
        to_ns: window.to_ns,
        severity: Severity::Info,
        summary: format!(
            "The kernel's %util says {:.1} %, which is {way}: the device was busy {:.1} % of the time{why}.",
            u.io_ticks_percent, u.exact_percent
        ),
        evidence: evidence([
            ("busy_percent", json!(u.exact_percent)),
            ("util_io_ticks_percent", json!(u.io_ticks_percent)),
            ("expected_percent", json!(u.expected_percent)),
            ("sigma_pp", json!(u.sigma_pp)),
            ("regime", json!(u.regime)),
            ("verdict", json!(u.verdict)),
        ]),
    })
}
