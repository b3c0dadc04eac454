//! A13 in words: which bursts a person should hear of.

use serde_json::json;

use crate::analysis::bursts::Limit;
use crate::analysis::bursts::cells::other;
use crate::analysis::bursts::detail::BurstDetail;
use crate::analysis::bursts::links::{LinkDetail, LinkStream};
use crate::analysis::bursts::scan::Measure;
use crate::analysis::device::detail::{DeviceDetail, StreamDetail};
use crate::analysis::findings::conclusions::PathOf;
use crate::analysis::findings::formatting::{amount, name_of, plural, time};
use crate::analysis::findings::{Finding, FindingKind, Severity, evidence};
use crate::model::{Class, DevId};

/// Microbursts of one stream that are worth a finding of their own.
const TOLD_BURSTS: usize = 3;

/// Longer ones one-second samples do show, or they are no bursts but the load itself.
const MAX_NS: i64 = 1_500_000_000;

/// Those of one stream of one device.
pub(in crate::analysis) fn microbursts(detail: &DeviceDetail, stream: &StreamDetail, path_of: PathOf) -> Vec<Finding> {
    let source = Bursting { dev: Some(detail.dev), class: stream.class, slot_ns: stream.slot_ns, limit: stream.limit };
    hidden_bursts(&source, &stream.bursts, path_of)
}

/// The findings of one link: bursts that one-second samples hide, summed over its devices.
pub(in crate::analysis) fn conclude_link(detail: &LinkDetail, path_of: PathOf) -> Vec<Finding> {
    let limit = Some(detail.link.limit);
    let of_stream = |s: &LinkStream| {
        let source = Bursting { dev: None, class: s.class, slot_ns: s.slot_ns, limit };
        let mut found = hidden_bursts(&source, &s.bursts, path_of);
        for f in &mut found {
            f.link.clone_from(&detail.link.devices);
            f.summary.push_str(&format!(" Summed over the {} devices of one link.", f.link.len()));
        }
        found
    };
    detail.streams.iter().flat_map(of_stream).collect()
}

/// The findings of a table of averages: bursts that one-second samples hide. `slowest` is the highest mean latency, in
/// microseconds, that the other class had in a row that meets an interval.
pub(in crate::analysis) fn conclude_table(
    dev: DevId,
    class: Class,
    slot_ns: i64,
    limit: Limit,
    bursts: &[BurstDetail],
    slowest: impl Fn(i64, i64) -> Option<f64>,
) -> Vec<Finding> {
    let source = Bursting { dev: Some(dev), class, slot_ns, limit: Some(limit) };
    let mut found = hidden_bursts(&source, bursts, &|_| None);
    for f in &mut found {
        let us = slowest(f.from_ns, f.to_ns);
        f.evidence.insert("other_class_mean_max_us".to_owned(), json!(us));
        if let Some(us) = us {
            f.summary.push_str(&format!(" {} took up to {} on average meanwhile.", plural(other(class)), time(us)));
        }
    }
    found
}

/// Whose bursts are reported.
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
    b.burst.to_ns - b.burst.from_ns <= MAX_NS
}

fn microburst(source: &Bursting, b: &BurstDetail, all: usize, path_of: PathOf) -> Finding {
    let burst = &b.burst;
    let cause = name_of(b.cause, source.class, path_of);
    let seconds = (burst.to_ns - burst.from_ns) as f64 / 1e9;
    let by = cause.as_deref().map_or_else(String::new, |c| format!(", mostly by {c}"));
    let times = match b.significance.measure {
        Measure::Bytes => burst.bytes as f64,
        Measure::Ios => burst.ios as f64,
    } / seconds
        / b.significance.baseline_per_s;
    let usual = if times.is_finite() { format!(" ({times:.1}x the background)") } else { String::new() };
    let summary = format!(
        "{} burst: {} ({} I/Os) in {}{usual}{by}. The device moved up to {}/s; a 1 s sample shows {}/s ({:.1}x lower).{}{}",
        plural(source.class).trim_end_matches('s'),
        amount(burst.bytes as f64),
        burst.ios,
        time(seconds * 1e6),
        amount(burst.peak_bytes_per_s),
        amount(b.second.median_bytes_per_s),
        b.second.hidden_factor,
        if b.lossy { " Lower bound: some I/Os in this window were lost." } else { "" },
        if all > TOLD_BURSTS { format!(" One of {all} such bursts.") } else { String::new() },
    );
    Finding {
        kind: FindingKind::Microburst,
        dev: source.dev,
        link: Vec::new(),
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
            ("measure", json!(b.significance.measure)),
            ("baseline_per_s", json!(b.significance.baseline_per_s)),
            ("expected_by_chance", json!(b.significance.by_chance)),
            ("p", json!(b.significance.by_chance.min(1.0))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::math::stats::Shuffler;
    use crate::analysis::report::{Report, ReportBuilder};
    use crate::analysis::stream::window::Window;
    use crate::model::{Io, Op};

    const DISK: DevId = DevId(8 << 20);

    /// A minute of 60 reads a second that know nothing of each other, of 0.5 to 128 KiB, and `bursts` of 200 such reads
    /// within 20 ms.
    fn report(seed: u64, bursts: i64) -> Report {
        let mut lot = Shuffler::new(seed);
        let sizes = [512, 4096, 65_536, 131_072];
        let mut io = |done_ns| Io::new(done_ns, DISK, Op::READ, sizes[(lot.bits() >> 62) as usize], None, 100_000);
        let mut times = Shuffler::new(seed ^ 0xfeed);
        let alone: Vec<i64> = (0..3600).map(|_| (times.bits() % 60_000_000_000) as i64).collect();
        let at_once = (0..bursts * 200).map(|i| (i / 200 * 9 + 3) * 1_000_000_000 + i % 200 * 100_000);
        let mut ios: Vec<Io> = alone.into_iter().chain(at_once).map(&mut io).collect();
        ios.sort_by_key(|io| io.done_ns);
        let mut builder = ReportBuilder::new(Window::new(0, 60_000_000_000));
        ios.iter().for_each(|io| builder.push(io));
        builder.finish(60_000_000_000)
    }

    fn reported(report: &Report) -> usize {
        report.findings.iter().filter(|f| f.kind == FindingKind::Microburst).count()
    }

    #[test]
    fn independent_requests_make_no_finding_however_they_cluster() {
        for seed in 1..13 {
            let report = report(seed, 0);
            assert_eq!((reported(&report), report.details[0].streams[0].bursts_found), (0, 0), "seed {seed}");
        }
    }

    #[test]
    fn what_comes_at_once_is_reported_among_them() {
        let report = report(7, 2);
        assert_eq!(reported(&report), 2);
        let from_s: Vec<i64> = report.findings.iter().map(|f| f.from_ns / 1_000_000_000).collect();
        assert!([3, 12].iter().all(|s| from_s.contains(s) || from_s.contains(&(s - 1))), "{from_s:?}");
    }
}
