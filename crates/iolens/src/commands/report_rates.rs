//! What imported tables add to a report: the devices of a recording without I/Os of its own, and the audit of averages.

use std::ops::Range;

use anyhow::Result;
use iolens_core::analysis::imported::{summaries, utilisation, without_doubles};
use iolens_core::analysis::{Report, audit, findings};
use iolens_core::store::{Recording, read_rates};

/// Adds the audit (A25), and a row per device of the tables unless single I/Os are there, which tell more.
///
/// # Errors
/// The tables are damaged.
pub fn add(recording: &Recording, range: Range<i64>, report: &mut Report) -> Result<()> {
    let rates = read_rates(recording.path())?;
    let within = rates.iter().filter(|r| r.from_ns >= range.start && r.to_ns <= range.end);
    report.findings.extend(audit::finding(&audit::audit_tables(&within.collect(), &recording.meta().devices)));
    findings::sort(&mut report.findings);
    if recording.ios_stored() > 0 {
        return Ok(());
    }
    for s in summaries(&without_doubles(&rates, &recording.meta().devices), range.clone()) {
        report.devices.ios += s.classes.iter().map(|c| c.ios).sum::<u64>();
        report.devices.bytes += s.classes.iter().map(|c| c.bytes).sum::<u64>();
    }
    for s in summaries(&rates, range) {
        if let Some(util) = utilisation(&rates, s.dev) {
            report.util_io_ticks_percent.insert(s.dev, util);
        }
        report.devices.devices.push(s);
    }
    Ok(())
}
