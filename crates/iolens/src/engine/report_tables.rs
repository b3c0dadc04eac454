//! What imported tables add to a report: the devices of a recording without I/Os of its own, bursts in fine rows, and the
//! audit of averages.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::bursts::{Limit, LimitSource};
use iolens_core::analysis::counters::audit;
use iolens_core::analysis::counters::imported::{
    bursts, clocks, of_all_classes, summaries, unclassed_ios, utilisation, without_doubles,
};
use iolens_core::analysis::{Report, findings};
use iolens_core::model::{DevId, IntervalRates};
use iolens_core::store::Recording;

/// Adds the audit (A25), and a row per device of the tables with its bursts (A13) unless single I/Os are there, which tell
/// more. `limits` are what the user knows of devices, in bytes per second.
pub fn add(
    recording: &Recording,
    rates: &[IntervalRates],
    range: Range<i64>,
    limits: &BTreeMap<DevId, f64>,
    report: &mut Report,
) {
    let within = rates
        .iter()
        .filter(|r| r.from_ns >= range.start && r.to_ns <= range.end);
    report.findings.extend(audit::finding(&audit::audit_tables(
        &within.collect(),
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
    // Totals are of devices that hold no other's I/Os; rows are of all.
    report.devices.ios += unclassed_ios(&single, range.clone());
    for s in summaries(&single, range.clone()) {
        report.devices.ios += s.ios();
        report.devices.bytes += s.bytes();
    }
    report.all_classes = of_all_classes(rates, range.clone());
    let utilisation = utilisation(rates);
    for s in summaries(rates, range) {
        if let Some(util) = utilisation.get(&s.dev) {
            report.util_io_ticks_percent.insert(s.dev, *util);
        }
        report.devices.devices.push(s);
    }
}
