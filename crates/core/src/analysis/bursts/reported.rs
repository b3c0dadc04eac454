//! Selects the bursts that become findings (A13).

use crate::analysis::bursts::Limit;
use crate::analysis::bursts::detail::BurstDetail;
use crate::analysis::bursts::links::LinkDetail;
use crate::analysis::device::detail::{DeviceDetail, StreamDetail};
use crate::analysis::findings::evidence::{Cause, Evidence, MicroburstEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::model::{Class, DevId, PathOf};

/// Maximum number of microbursts of one stream that get a finding of their own.
pub const MAX_REPORTED_BURSTS: usize = 3;

/// Maximum length of a microburst. Longer ones show in one-second samples, or are the load itself.
const MAX_NS: i64 = 1_500_000_000;

/// The reported bursts of one stream of one device.
pub(in crate::analysis) fn microbursts(
    detail: &DeviceDetail,
    stream: &StreamDetail,
    path_of: PathOf,
) -> Vec<Finding> {
    let source = Bursting {
        dev: Some(detail.dev),
        class: stream.class,
        slot_ns: stream.slot_ns,
        limit: stream.limit,
    };
    hidden_bursts(&source, &stream.bursts, path_of)
        .into_iter()
        .map(|b| source.finding(b))
        .collect()
}

/// The findings of one link: bursts that one-second samples hide, summed over its devices.
pub(in crate::analysis) fn conclude_link(detail: &LinkDetail, path_of: PathOf) -> Vec<Finding> {
    let limit = Some(detail.link.limit);
    let mut findings = Vec::new();
    for stream in &detail.streams {
        let source = Bursting {
            dev: None,
            class: stream.class,
            slot_ns: stream.slot_ns,
            limit,
        };
        for mut hidden in hidden_bursts(&source, &stream.bursts, path_of) {
            hidden
                .evidence
                .link_devices
                .clone_from(&detail.link.devices);
            findings.push(source.finding(hidden));
        }
    }
    findings
}

/// The findings of a table of averages: bursts that one-second samples hide. `slowest` returns the highest mean
/// latency, in microseconds, of the other class's rows that overlap an interval.
pub(in crate::analysis) fn conclude_table(
    dev: DevId,
    class: Class,
    slot_ns: i64,
    limit: Limit,
    bursts: &[BurstDetail],
    slowest: impl Fn(i64, i64) -> Option<f64>,
) -> Vec<Finding> {
    let source = Bursting {
        dev: Some(dev),
        class,
        slot_ns,
        limit: Some(limit),
    };
    let mut findings = Vec::new();
    for mut hidden in hidden_bursts(&source, bursts, &|_| None) {
        hidden.evidence.other_class_mean_max_us = Some(slowest(hidden.from_ns, hidden.to_ns));
        findings.push(source.finding(hidden));
    }
    findings
}

/// The stream whose bursts are reported.
struct Bursting {
    dev: Option<DevId>,
    class: Class,
    slot_ns: i64,
    limit: Option<Limit>,
}

impl Bursting {
    fn finding(&self, b: Hidden) -> Finding {
        Finding {
            dev: self.dev,
            from_ns: b.from_ns,
            to_ns: b.to_ns,
            severity: Severity::Info,
            evidence: Evidence::Microburst(Box::new(b.evidence)),
        }
    }
}

/// A burst that one-second samples hide.
struct Hidden {
    from_ns: i64,
    to_ns: i64,
    evidence: MicroburstEvidence,
}

fn hidden_bursts(source: &Bursting, bursts: &[BurstDetail], path_of: PathOf) -> Vec<Hidden> {
    let mut hidden: Vec<&BurstDetail> = bursts.iter().filter(|b| is_microburst(b)).collect();
    let all = hidden.len();
    hidden.sort_by_key(|b| std::cmp::Reverse(b.burst.bytes));
    hidden
        .iter()
        .take(MAX_REPORTED_BURSTS)
        .map(|b| microburst(source, b, all, path_of))
        .collect()
}

fn is_microburst(b: &BurstDetail) -> bool {
    b.burst.to_ns - b.burst.from_ns <= MAX_NS
}

fn microburst(source: &Bursting, b: &BurstDetail, all: usize, path_of: PathOf) -> Hidden {
    let burst = &b.burst;
    let evidence = MicroburstEvidence {
        class: source.class,
        bytes: burst.bytes,
        ios: burst.ios,
        peak_bytes_per_s: burst.peak_bytes_per_s,
        peak_iops: burst.peak_iops,
        mean_1s_bytes_per_s: b.second.median_bytes_per_s,
        hidden_factor: b.second.hidden_factor,
        duration_s: (burst.to_ns - burst.from_ns) as f64 / 1e9,
        core_s: burst.core_ns as f64 / 1e9,
        slot_s: source.slot_ns as f64 / 1e9,
        mean_request_bytes: burst.mean_bytes,
        limit_bytes_per_s: source.limit.map(|l| l.bytes_per_s),
        limit_source: source.limit.map(|l| l.source),
        percent_of_limit: burst.percent_of_limit,
        exceeds_limit: burst.exceeds_limit,
        measure: b.significance.measure,
        baseline_per_s: b.significance.baseline_per_s,
        expected_by_chance: b.significance.by_chance,
        p_value: b.significance.by_chance.min(1.0),
        core_bytes: burst.core_bytes,
        bucket_bytes: burst.bucket_bytes,
        mean_15s_bytes_per_s: b.quarter_minute.map(|v| v.median_bytes_per_s),
        hidden_factor_15s: b.quarter_minute.map(|v| v.hidden_factor),
        mean_60s_bytes_per_s: b.minute.map(|v| v.median_bytes_per_s),
        hidden_factor_60s: b.minute.map(|v| v.hidden_factor),
        active_second_bytes_per_s: b.active_second_bytes_per_s,
        max_in_flight: b.in_flight,
        other_class_max_us: b.other_max_us,
        other_class_ios: b.other_n,
        other_class_mean_max_us: None,
        bursts_in_recording: all,
        lossy: b.lossy,
        cause: Cause::of(b.cause, source.class, path_of),
        link_devices: Vec::new(),
    };
    Hidden {
        from_ns: burst.from_ns,
        to_ns: burst.to_ns,
        evidence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::findings::FindingKind;
    use crate::analysis::math::stats::Shuffler;
    use crate::analysis::report::{Report, ReportBuilder};
    use crate::analysis::stream::window::Window;
    use crate::model::{Io, Op};

    const DISK: DevId = DevId(8 << 20);

    /// A minute of 60 reads a second that know nothing of each other, of 0.5 to 128 KiB, and `bursts` of 200 such reads
    /// within 20 ms.
    fn report(seed: u64, bursts: i64) -> Report {
        let mut random = Shuffler::new(seed);
        let sizes = [512, 4096, 65_536, 131_072];
        let mut io = |done_ns| {
            Io::new(
                done_ns,
                DISK,
                Op::READ,
                sizes[(random.bits() >> 62) as usize],
                None,
                100_000,
            )
        };
        let mut times = Shuffler::new(seed ^ 0xfeed);
        let alone: Vec<i64> = (0..3600)
            .map(|_| (times.bits() % 60_000_000_000) as i64)
            .collect();
        let at_once =
            (0..bursts * 200).map(|i| (i / 200 * 9 + 3) * 1_000_000_000 + i % 200 * 100_000);
        let mut ios: Vec<Io> = alone.into_iter().chain(at_once).map(&mut io).collect();
        ios.sort_by_key(|io| io.done_ns);
        let mut builder = ReportBuilder::new(Window::new(0, 60_000_000_000));
        ios.iter().for_each(|io| builder.push(io));
        builder.finish(60_000_000_000)
    }

    fn reported(report: &Report) -> usize {
        report
            .findings
            .iter()
            .filter(|f| f.kind() == FindingKind::Microburst)
            .count()
    }

    #[test]
    fn independent_requests_make_no_finding_however_they_cluster() {
        for seed in 1..13 {
            let report = report(seed, 0);
            assert_eq!(
                (reported(&report), report.details[0].streams[0].bursts_found),
                (0, 0),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn what_comes_at_once_is_reported_among_them() {
        let report = report(7, 2);
        assert_eq!(reported(&report), 2);
        let from_s: Vec<i64> = report
            .findings
            .iter()
            .map(|f| f.from_ns / 1_000_000_000)
            .collect();
        assert!(
            [3, 12]
                .iter()
                .all(|s| from_s.contains(s) || from_s.contains(&(s - 1))),
            "{from_s:?}"
        );
    }
}
