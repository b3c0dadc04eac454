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
    let rows: Vec<IntervalRates> = rates
        .iter()
        .filter(|r| r.from_ns >= range.start && r.to_ns <= range.end)
        .copied()
        .collect();
    report.findings.extend(audit::finding(&audit::audit_tables(
        &rows.iter().collect(),
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
    // The total excludes stacked devices; there is a row for every device.
    report.devices.ios += unclassed_ios(&single, range.clone());
    for s in summaries(&single, range.clone()) {
        report.devices.ios += s.ios();
        report.devices.bytes += s.bytes();
    }
    report.all_classes = of_all_classes(rates, range.clone());
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
