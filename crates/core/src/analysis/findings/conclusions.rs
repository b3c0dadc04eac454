//! From numbers to findings: which of them a person should hear, in which words, with which evidence.

use serde_json::{Value, json};

use crate::analysis::bursts::cells::Actor;
use crate::analysis::bursts::reported::microbursts;
use crate::analysis::capacity::State;
use crate::analysis::capacity::bandwidth;
use crate::analysis::capacity::queue_full;
use crate::analysis::counters::io_ticks;
use crate::analysis::device::detail::{DeviceDetail, StreamDetail};
use crate::analysis::findings::formatting::{name_of, plural, singular, time};
use crate::analysis::findings::{Finding, FindingKind, Severity, evidence};
use crate::analysis::latency::change;
use crate::analysis::latency::mode;
use crate::analysis::math::lead_lag::Direction;
use crate::analysis::periodicity::{Clock, Periodicity, Verdict};
use crate::analysis::starvation::{self, Starvation};
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId, Inode};

/// One with fewer bytes a cycle moves nothing that matters.
const MIN_BYTES: u64 = 4 << 20;

/// Faster clocks must move some data to be reported.
const FAST_S: f64 = 0.5;

/// A name for a file, if the recording knows one: (device of the file system, inode) to path.
pub type PathOf<'a> = &'a dyn Fn(Inode) -> Option<String>;

/// The findings of one device.
pub(in crate::analysis) fn conclude(detail: &DeviceDetail, window: Window, path_of: PathOf) -> Vec<Finding> {
    let mut found = Vec::new();
    for own in &detail.streams {
        found.extend(microbursts(detail, own, path_of));
        found.extend(starved(detail, own, path_of));
        found.extend(periodic(detail, own, window, path_of));
    }
    found.extend(detail.interference.iter().map(|i| i.finding(detail.dev, path_of)));
    found.extend(saturated(detail));
    found.extend(detail.latency_changes.iter().map(|c| change::finding(detail.dev, c)));
    found.extend(detail.small_stream.iter().map(|s| s.finding(detail.dev, path_of)));
    found.extend(detail.sync_bound.iter().map(|b| b.finding(Some(detail.dev), window, path_of)));
    found.extend(detail.latency_modes.iter().map(|m| mode::finding(detail.dev, m)));
    found.extend(detail.plateau.iter().map(|p| bandwidth::finding(detail.dev, p)));
    found.extend(detail.queue_full.iter().map(|q| queue_full::finding(detail.dev, q)));
    found.extend(util_disagrees(detail, window));
    found
}

fn starved(detail: &DeviceDetail, victim: &StreamDetail, path_of: PathOf) -> Option<Finding> {
    let s = victim.starvation.as_ref()?;
    let proven = match s.verdict {
        starvation::Verdict::Starvation => true,
        starvation::Verdict::Suggestive if s.p_value.is_some_and(|p| p <= starvation::ALPHA) => false,
        starvation::Verdict::Suggestive
        | starvation::Verdict::SharedLoad
        | starvation::Verdict::NoEffect
        | starvation::Verdict::NoneObserved => return None,
    };
    let (first, last) = (s.episodes.first()?, s.episodes.last()?);
    let cause = name_of(victim.starvation_cause, s.aggressor, path_of);
    let by = cause.as_deref().map_or_else(String::new, |c| format!(" from {c}"));
    let head = format!("{} latency rises during {} bursts{by}", singular(victim.class), s.aggressor.name());
    Some(Finding {
        kind: FindingKind::Starvation,
        dev: Some(detail.dev),
        link: Vec::new(),
        from_ns: first.0,
        to_ns: last.1,
        severity: if proven { Severity::Warning } else { Severity::Info },
        summary: starved_in_words(&head, s),
        evidence: starvation_evidence(victim.class, s, cause),
    })
}

/// `head` says whose latency rises during whose bursts.
pub(in crate::analysis) fn starved_in_words(head: &str, s: &Starvation) -> String {
    let bursts = if s.bursts == 1 { "1 burst".to_owned() } else { format!("{} bursts", s.bursts) };
    let (name, during, outside) = match (s.p99_during_us, s.p99_outside_us) {
        (Some(during), Some(outside)) => ("p99", during, outside),
        _ => ("p50", s.p50_during_us.unwrap_or(0.0), s.p50_outside_us.unwrap_or(0.0)),
    };
    let interval = s.ratio_ci.map_or_else(String::new, |(low, high)| format!(", 95% interval {low:.2} to {high:.2}"));
    let certainty = match s.verdict {
        starvation::Verdict::Starvation => format!("p = {:.3}", s.p_value.unwrap_or(1.0)),
        _ => format!("inconclusive: only {bursts}, {} needed", starvation::MIN_EPISODES),
    };
    let order = match s.direction {
        Direction::LatencyFirst => " Latency rises before the bursts: they are not its only cause.",
        Direction::BurstFirst | Direction::Unclear => "",
    };
    format!(
        "{head}: {name} {} during {bursts} vs {} otherwise ({:.1}x; typically {:.2}x{interval}; {certainty}; n = {} vs {}).{order}",
        time(during),
        time(outside),
        during / outside.max(f64::MIN_POSITIVE),
        s.ratio.unwrap_or(1.0),
        s.treated,
        s.control,
    )
}

pub(in crate::analysis) fn starvation_evidence(
    victim: Class,
    s: &Starvation,
    cause: Option<String>,
) -> serde_json::Map<String, Value> {
    let of = |class: Class, us: Option<f64>| json!(us.filter(|_| victim == class));
    evidence([
        ("victim", json!(victim.name())),
        ("verdict", json!(s.verdict)),
        ("read_p99_during_us", of(Class::Read, s.p99_during_us)),
        ("read_p99_outside_us", of(Class::Read, s.p99_outside_us)),
        ("write_p99_during_us", of(Class::Write, s.p99_during_us)),
        ("write_p99_outside_us", of(Class::Write, s.p99_outside_us)),
        ("p50_during_us", json!(s.p50_during_us)),
        ("p50_outside_us", json!(s.p50_outside_us)),
        ("max_during_us", json!(s.max_during_us)),
        ("aggressor", json!(s.aggressor.name())),
        ("ratio", json!(s.ratio_p99.or(s.ratio_p50))),
        ("ratio_p50", json!(s.ratio_p50)),
        ("ratio_typical", json!(s.ratio)),
        ("ratio_typical_ci", json!(s.ratio_ci)),
        ("excess_us", json!(s.excess_us)),
        ("excess_us_ci", json!(s.excess_us_ci)),
        ("own_load_ratio", json!(s.own_load_ratio)),
        ("shift_us", json!(s.shift_us)),
        ("cliffs_delta", json!(s.cliffs_delta)),
        ("excess_request_ms", json!(s.excess_request_ms)),
        ("p_value", json!(s.p_value)),
        ("p_value_episodes", json!(s.p_episodes)),
        ("bursts", json!(s.bursts)),
        ("ios_during", json!(s.treated)),
        ("ios_outside", json!(s.control)),
        ("lag_s", json!(s.lag_ns as f64 / 1e9)),
        ("direction", json!(s.direction)),
        ("follows_s", json!(s.follows_ns.map(|ns| ns as f64 / 1e9))),
        ("cause", json!(cause)),
    ])
}

fn periodic(detail: &DeviceDetail, stream: &StreamDetail, window: Window, path_of: PathOf) -> Vec<Finding> {
    let clocks = stream.periodicity.clocks.iter().zip(&stream.periodic_causes);
    let own = clocks.filter(|(clock, _)| !is_echo(stream, clock, &detail.streams));
    let of = |(clock, cause): (&Clock, &Option<Actor>)| {
        let cause = name_of(*cause, stream.class, path_of);
        period_finding((detail.dev, stream.class), (&stream.periodicity, clock), stream.bytes, cause, window)
    };
    own.filter_map(of).collect()
}

/// One clock of `class` on `dev`, whose stream moves `bytes` in all.
pub(in crate::analysis) fn period_finding(
    (dev, class): (DevId, Class),
    (p, clock): (&Periodicity, &Clock),
    bytes: u64,
    cause: Option<String>,
    window: Window,
) -> Option<Finding> {
    // A program that reads a block ten times a second is no news.
    let per_cycle = bytes as f64 / (window.len_s() / clock.period_s).max(1.0);
    if clock.period_s < FAST_S && per_cycle < MIN_BYTES as f64 / 4.0 {
        return None;
    }
    let by = cause.as_deref().map_or_else(String::new, |c| format!(", mostly from {c}"));
    let periodic = clock.is_periodic();
    let at_ns = |s: f64| window.from_ns + (s * 1e9) as i64;
    Some(Finding {
        kind: FindingKind::Periodicity,
        dev: Some(dev),
        link: Vec::new(),
        from_ns: at_ns(clock.from_s),
        to_ns: at_ns(clock.to_s).min(window.to_ns),
        severity: Severity::Info,
        summary: format!(
            "{} recur every {:.2} s{by}: {} beats over {:.1} periods, jitter {:.1}% (p = {:.3}{}).",
            plural(class),
            clock.period_s,
            clock.in_step,
            clock.cycles,
            100.0 * clock.jitter,
            clock.p_value,
            if periodic { "" } else { "; tentative: too few periods" },
        ),
        evidence: evidence([
            ("class", json!(class.name())),
            ("verdict", json!(if periodic { Verdict::Periodic } else { Verdict::Tentative })),
            ("period_s", json!(clock.period_s)),
            ("period_low_s", json!(clock.period_ci_s.map(|ci| ci.0))),
            ("period_high_s", json!(clock.period_ci_s.map(|ci| ci.1))),
            ("confidence", json!(1.0 - clock.p_value)),
            ("p_value", json!(clock.p_value)),
            ("jitter", json!(clock.jitter)),
            ("autocorrelation", json!(p.acf.filter(|_| p.clocks.first() == Some(clock)))),
            ("cycles", json!(clock.cycles)),
            ("onsets", json!(p.onsets)),
            ("onsets_in_step", json!(clock.in_step)),
            ("cause", json!(cause)),
        ]),
    })
}

/// Whether another stream keeps the same time with more bytes: what waits for a flush, or is let loose after it, only
/// echoes the flush.
fn is_echo(stream: &StreamDetail, clock: &Clock, streams: &[StreamDetail]) -> bool {
    let bytes = |s: &StreamDetail| s.bursts.iter().map(|b| b.burst.bytes).sum::<u64>();
    streams
        .iter()
        .filter(|other| other.class != stream.class)
        .any(|other| other.periodicity.clocks.iter().any(|o| o.is_like(clock.period_s)) && bytes(other) > bytes(stream))
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
