//! Adds imported tables to a report: devices without single I/Os, bursts in rows of short intervals, and the audit of
//! averages.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::bursts::{Limit, LimitSource};
use iolens_core::analysis::counters::audit;
use iolens_core::analysis::counters::imported::{
    AllClasses, bursts, clocks, of_all_classes, summaries, unclassed_ios, utilisation,
    without_doubles,
};
use iolens_core::analysis::{DeviceSummary, Report, findings};
use iolens_core::model::{DevId, IntervalRates};
use iolens_core::store::Recording;

/// Adds the audit (A25), and for each device of the tables that was not idle a row with its bursts (A13). Recordings
/// with single I/Os are skipped: those give better figures. `limits` are the user's limits of devices, in bytes per
/// second.
pub fn add(
    recording: &Recording,
    rates: &[IntervalRates],
    range: Range<i64>,
    limits: &BTreeMap<DevId, f64>,
    report: &mut Report,
) {
    let whole: Vec<IntervalRates> = rates
        .iter()
        .filter(|r| r.from_ns >= range.start && r.to_ns <= range.end)
        .copied()
        .collect();
    report.findings.extend(audit::finding(&audit::audit_tables(
        &whole.iter().collect(),
        &recording.meta().devices,
    )));
    if recording.ios_stored() > 0 {
        findings::sort(&mut report.findings);
        return;
    }
    let lost = recording.lost(range.clone());
    let single = without_doubles(rates, &recording.meta().devices);
    let bursts = bursts(rates, range.clone(), &lost, |dev| {
        Some(Limit {
            bytes_per_s: *limits.get(&dev)?,
            source: LimitSource::User,
        })
    });
    report.findings.extend(bursts);
    let clocks = clocks(&single, range.clone(), &lost);
    report.findings.extend(clocks);
    findings::sort(&mut report.findings);
    let single = cut_to(&single, &range);
    let rows = cut_to(rates, &range);
    // The total excludes stacked devices; there is a row for every device.
    report.devices.ios += unclassed_ios(&single, range.clone());
    for s in summaries(&single, range.clone()) {
        report.devices.ios += s.ios();
        report.devices.bytes += s.bytes();
    }
    report.all_classes = of_all_classes(&rows, range.clone());
    let utilisation = utilisation(&rows);
    for s in summaries(&rows, range) {
        let together = report.all_classes.get(&s.dev);
        let util_percent = utilisation.get(&s.dev).copied();
        if is_idle(&s, together, util_percent) {
            continue;
        }
        if let Some(util) = util_percent {
            report.util_io_ticks_percent.insert(s.dev, util);
        }
        report.devices.devices.push(s);
    }
}

/// The rows that overlap `range`, cut to it. An average holds for any part of its interval, as in the rows of `zoom`.
fn cut_to(rates: &[IntervalRates], range: &Range<i64>) -> Vec<IntervalRates> {
    let mut inside = Vec::new();
    for rate in rates {
        if rate.from_ns < range.end && rate.to_ns > range.start {
            inside.push(IntervalRates {
                from_ns: rate.from_ns.max(range.start),
                to_ns: rate.to_ns.min(range.end),
                ..*rate
            });
        }
    }
    inside
}

/// Whether a device was idle according to its tables. Reports leave such devices out, as they do with recorded
/// counters. A device that is busy without completing anything hangs, and is not idle.
fn is_idle(
    summary: &DeviceSummary,
    together: Option<&AllClasses>,
    util_percent: Option<f64>,
) -> bool {
    let is_busy = util_percent > Some(0.0) || summary.concurrency.mean > Some(0.0);
    let mut has_ios = together
        .is_some_and(|all| all.ios > Some(0) || all.bytes > Some(0) || all.mean_us > Some(0.0));
    for c in &summary.classes {
        has_ios |= c.ios > Some(0) || c.bytes > Some(0) || c.mean_us > Some(0.0);
    }
    !is_busy && !has_ios
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::ClassRates;

    const S: i64 = 1_000_000_000;

    fn is_left_out(row: IntervalRates) -> bool {
        let rows = [row];
        let together = of_all_classes(&rows, 0..2 * S);
        let summaries = summaries(&rows, 0..2 * S);
        let util_percent = utilisation(&rows).get(&row.dev).copied();
        is_idle(&summaries[0], together.get(&row.dev), util_percent)
    }

    /// A row with so many reads per second.
    fn reads(from_s: i64, to_s: i64, ios_per_s: f64) -> IntervalRates {
        let mut row = IntervalRates::new(from_s * S, to_s * S, DevId(1));
        row.classes[0].ios_per_s = Some(ios_per_s);
        row.util_percent = Some(ios_per_s);
        row
    }

    #[test]
    fn rows_that_cross_the_ends_of_the_time_count_with_their_part_of_it() {
        let rates = [reads(0, 600, 10.0), reads(600, 1200, 40.0)];
        let range = 100 * S..900 * S;
        let rows = cut_to(&rates, &range);
        let summary = &summaries(&rows, range)[0];
        assert_eq!(summary.classes[0].ios, Some(500 * 10 + 300 * 40));
        let util_percent = utilisation(&rows)[&DevId(1)];
        assert!((util_percent - 21.25).abs() < 1e-9, "{util_percent}");
        assert_eq!(cut_to(&rates, &(0..1200 * S)), rates);
        assert_eq!(cut_to(&rates, &(600 * S..700 * S)).len(), 1);
    }

    #[test]
    fn only_a_device_on_which_nothing_happened_is_idle() {
        let idle = IntervalRates {
            classes: [ClassRates {
                ios_per_s: Some(0.0),
                bytes_per_s: Some(0.0),
                mean_us: Some(0.0),
                ..ClassRates::default()
            }; 4],
            in_flight: Some(0.0),
            util_percent: Some(0.0),
            ..IntervalRates::new(0, S, DevId(1))
        };
        assert!(is_left_out(idle));
        // A table that says nothing of it.
        assert!(is_left_out(IntervalRates::new(0, S, DevId(1))));
        let mut reads = idle;
        reads.classes[0].ios_per_s = Some(2.0);
        assert!(!is_left_out(reads));
        let mut unclassed = IntervalRates::new(0, S, DevId(1));
        unclassed.all.ios_per_s = Some(2.0);
        assert!(!is_left_out(unclassed));
        let hangs = IntervalRates {
            in_flight: Some(1.0),
            util_percent: Some(100.0),
            ..idle
        };
        assert!(!is_left_out(hangs));
    }
}
