//! From numbers to findings: which of them a person should hear, in which words, with which evidence.

use serde_json::{Value, json};

use super::bursts::Limit;
use super::capacity::State;
use super::cells::Actor;
use super::detail::{BurstDetail, DeviceDetail, StreamDetail};
use super::findings::{Finding, FindingKind, Severity, evidence};
use super::io_ticks;
use super::links::{LinkDetail, LinkStream};
use super::periodicity;
use super::starvation::{self, Starvation};
use super::window::Window;
use crate::model::{Class, DevId, Origin};

/// Microbursts of one stream that are worth a finding of their own.
const TOLD_BURSTS: usize = 3;

/// Smaller ones matter to nobody.
const LEAST_BYTES: u64 = 4 << 20;

/// One-second samples must hide at least this much.
const LEAST_HIDDEN: f64 = 2.0;

/// Longer ones one-second samples do show, or they are no bursts but the load itself.
const LONGEST_NS: i64 = 1_500_000_000;

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

/// Who it was, in words; kernel threads by what they do.
fn name_of(actor: Option<Actor>, path_of: PathOf) -> Option<String> {
    let actor = actor?;
    let role = actor.comm.and_then(|c| kernel_writer(&c.to_text()));
    let path = actor.file.and_then(|(dev, ino)| path_of(dev, ino));
    // The path says it better than an inode number, and the role better than the origin.
    let file = actor.file.filter(|_| path.is_none());
    let origin = if role.is_some() { Origin::Direct } else { actor.origin };
    let who = Actor { file, origin, ..actor }.describe();
    let mut text = role.map_or_else(String::new, |r| format!("{r}, "));
    let parts: Vec<String> = who.into_iter().chain(path).collect();
    text += &parts.join(", ");
    (!text.is_empty()).then_some(text)
}

/// What the kernel's own writers are for, by the names of their threads.
fn kernel_writer(comm: &str) -> Option<&'static str> {
    let known = [
        ("jbd2/", "ext4's journal"),
        ("xfsaild", "XFS's log"),
        ("xfs-", "XFS"),
        ("btrfs-transacti", "Btrfs's commit"),
        ("txg_sync", "ZFS's transaction group"),
        ("z_wr", "ZFS's transaction group"),
        ("kworker", "the kernel's write-back"),
        ("flush-", "the kernel's write-back"),
        ("kswapd", "swapping"),
        ("md", "RAID resynchronisation"),
    ];
    let is_md = |p: &str| p != "md" || comm.contains("_resync") || comm.contains("_raid");
    known.iter().find(|(prefix, _)| comm.starts_with(prefix) && is_md(prefix)).map(|(_, role)| *role)
}

fn plural(class: Class) -> &'static str {
    match class {
        Class::Read => "Reads",
        Class::Write => "Writes",
        Class::Discard => "Discards",
        Class::Flush => "Flushes",
    }
}

/// 1.23 GB and the like, decimal as rates are.
fn amount(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1e9 => (b / 1e9, "GB"),
        b if b >= 1e6 => (b / 1e6, "MB"),
        b => (b / 1e3, "kB"),
    };
    format!("{value:.*} {unit}", if value < 10.0 { 2 } else { 1 })
}

/// 1.2 ms and the like.
fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}

fn microbursts(detail: &DeviceDetail, stream: &StreamDetail, path_of: PathOf) -> Vec<Finding> {
    let source = Bursting { dev: Some(detail.dev), class: stream.class, slot_ns: stream.slot_ns, limit: stream.limit };
    hidden_bursts(&source, &stream.bursts, path_of)
}

/// The findings of one link: bursts that one-second samples hide, summed over its devices.
pub(super) fn conclude_link(detail: &LinkDetail, path_of: PathOf) -> Vec<Finding> {
    let devices: Vec<String> = detail.link.devices.iter().map(ToString::to_string).collect();
    let limit = Some(detail.link.limit);
    let of_stream = |s: &LinkStream| {
        let source = Bursting { dev: None, class: s.class, slot_ns: s.slot_ns, limit };
        let mut found = hidden_bursts(&source, &s.bursts, path_of);
        for f in &mut found {
            f.summary.push_str(&format!(" Summed over the {} devices of one link.", devices.len()));
            f.evidence.insert("link_devices".to_owned(), json!(devices));
        }
        found
    };
    detail.streams.iter().flat_map(of_stream).collect()
}

/// The findings of a table of averages: bursts that one-second samples hide. `slowest` is the highest mean latency, in
/// microseconds, that the other class had in a row that meets an interval.
pub(super) fn conclude_table(
    dev: DevId,
    class: Class,
    slot_ns: i64,
    limit: Limit,
    bursts: &[BurstDetail],
    slowest: impl Fn(i64, i64) -> Option<f64>,
) -> Vec<Finding> {
    let source = Bursting { dev: Some(dev), class, slot_ns, limit: Some(limit) };
    let mut found = hidden_bursts(&source, bursts, &|_, _| None);
    for f in &mut found {
        let other = if class == Class::Read { Class::Write } else { Class::Read };
        let us = slowest(f.from_ns, f.to_ns);
        f.evidence.insert("other_class_mean_max_us".to_owned(), json!(us));
        if let Some(us) = us {
            f.summary.push_str(&format!(" {} took up to {} on average meanwhile.", plural(other), time(us)));
        }
    }
    found
}

/// Whose bursts are told.
struct Bursting {
    dev: Option<DevId>,
    class: Class,
    slot_ns: i64,
    limit: Option<Limit>,
}

fn hidden_bursts(source: &Bursting, bursts: &[BurstDetail], path_of: PathOf) -> Vec<Finding> {
    let mut hidden: Vec<&BurstDetail> = bursts.iter().filter(|b| is_microburst(b)).collect();
    let all = hidden.len();
    hidden.sort_by_key(|b| std::cmp::Reverse(b.burst.bytes));
    hidden.iter().take(TOLD_BURSTS).map(|b| microburst(source, b, all, path_of)).collect()
}

fn is_microburst(b: &BurstDetail) -> bool {
    let short = b.burst.to_ns - b.burst.from_ns <= LONGEST_NS;
    short && b.burst.bytes >= LEAST_BYTES && b.burst.above_baseline && b.second.hidden_factor >= LEAST_HIDDEN
}

fn microburst(source: &Bursting, b: &BurstDetail, all: usize, path_of: PathOf) -> Finding {
    let burst = &b.burst;
    let cause = name_of(b.cause, path_of);
    let seconds = (burst.to_ns - burst.from_ns) as f64 / 1e9;
    let by = cause.as_deref().map_or_else(String::new, |c| format!(", mostly by {c}"));
    let summary = format!(
        "{} came at up to {}/s: {} in {seconds:.2} s, {} I/Os{by}. One-second samples show {}/s, {:.1} times less.{}{}",
        plural(source.class),
        amount(burst.peak_bytes_per_s),
        amount(burst.bytes as f64),
        burst.ios,
        amount(b.second.median_bytes_per_s),
        b.second.hidden_factor,
        if b.lossy { " I/Os are missing here: it was at least this." } else { "" },
        if all > TOLD_BURSTS { format!(" One of {all} such bursts.") } else { String::new() },
    );
    Finding {
        kind: FindingKind::Microburst,
        dev: source.dev,
        from_ns: burst.from_ns,
        to_ns: burst.to_ns,
        severity: Severity::Info,
        summary,
        evidence: evidence([
            ("class", json!(source.class.name())),
            ("bytes", json!(burst.bytes)),
            ("ios", json!(burst.ios)),
            ("peak_bytes_per_s", json!(burst.peak_bytes_per_s)),
            ("peak_iops", json!(burst.peak_iops)),
            ("mean_1s_bytes_per_s", json!(b.second.median_bytes_per_s)),
            ("hidden_factor", json!(b.second.hidden_factor)),
            ("duration_s", json!(seconds)),
            ("core_s", json!(burst.core_ns as f64 / 1e9)),
            ("slot_s", json!(source.slot_ns as f64 / 1e9)),
            ("mean_request_bytes", json!(burst.mean_bytes)),
            ("limit_bytes_per_s", json!(source.limit.map(|l| l.bytes_per_s))),
            ("limit_source", json!(source.limit.map(|l| l.source))),
            ("percent_of_limit", json!(burst.percent_of_limit)),
            ("exceeds_limit", json!(burst.exceeds_limit)),
            ("above_baseline", json!(burst.above_baseline)),
            ("core_bytes", json!(burst.core_bytes)),
            ("bucket_bytes", json!(burst.bucket_bytes)),
            ("mean_15s_bytes_per_s", json!(b.quarter_minute.map(|v| v.median_bytes_per_s))),
            ("hidden_factor_15s", json!(b.quarter_minute.map(|v| v.hidden_factor))),
            ("mean_60s_bytes_per_s", json!(b.minute.map(|v| v.median_bytes_per_s))),
            ("hidden_factor_60s", json!(b.minute.map(|v| v.hidden_factor))),
            ("active_second_bytes_per_s", json!(b.active_second_bytes_per_s)),
            ("in_flight", json!(b.in_flight)),
            ("other_class_max_us", json!(b.other_max_us)),
            ("other_class_ios", json!(b.other_n)),
            ("bursts_in_recording", json!(all)),
            ("lossy", json!(b.lossy)),
            ("cause", json!(cause)),
        ]),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Comm;

    #[test]
    fn kernel_threads_are_named_by_what_they_do() {
        let actor =
            |comm: &[u8], file| Actor { tgid: Some(9), comm: Some(Comm::new(comm)), origin: Origin::Unknown, file };
        let nameless = |_: i32, _: i64| None;
        let named = |_: i32, ino: i64| (ino == 12).then(|| "/srv/db".to_owned());
        let name = |a| name_of(Some(a), &nameless);
        assert_eq!(name(actor(b"jbd2/loop1-8", None)).as_deref(), Some("ext4's journal, jbd2/loop1-8 (process 9)"));
        let flusher = Actor { origin: Origin::Writeback, ..actor(b"kworker/u8:2", None) };
        assert_eq!(name(flusher).as_deref(), Some("the kernel's write-back, kworker/u8:2 (process 9)"));
        let buffered = Actor { origin: Origin::Writeback, ..actor(b"dd", Some((1, 12))) };
        assert_eq!(
            name_of(Some(buffered), &named).as_deref(),
            Some("buffered writes of dd (process 9), /srv/db"),
            "whoever dirtied the pages"
        );
        let nobody = Actor { tgid: None, comm: None, ..buffered };
        assert_eq!(
            name_of(Some(nobody), &named).as_deref(),
            Some("buffered writes of an unknown process, /srv/db"),
            "dirty before the recording"
        );
        assert_eq!(name(actor(b"fio", None)).as_deref(), Some("fio (process 9)"));
        assert_eq!(name(actor(b"mdadm", None)).as_deref(), Some("mdadm (process 9)"));
        assert_eq!(name_of(Some(actor(b"dd", Some((1, 12)))), &named).as_deref(), Some("dd (process 9), /srv/db"));
        assert_eq!(name_of(None, &nameless), None);
    }

    #[test]
    fn amounts_and_times_read_well() {
        assert_eq!([2.2235e9, 500.1e6, 4096.0].map(amount), ["2.22 GB", "500.1 MB", "4.10 kB"]);
        assert_eq!([136_888.0, 2.5e6, 98.6].map(time), ["136.9 ms", "2.50 s", "99 us"]);
    }
}
