//! What imported tables add to a report of a recording without I/Os of its own.

use std::ops::Range;

use anyhow::Result;
use iolens_core::analysis::Report;
use iolens_core::analysis::imported::{summaries, utilisation};
use iolens_core::store::{Recording, read_rates};

/// Adds a row per device of the tables; nothing if single I/Os are there, which tell more.
///
/// # Errors
/// The tables are damaged.
pub fn add(recording: &Recording, range: Range<i64>, report: &mut Report) -> Result<()> {
    if recording.ios_stored() > 0 {
        return Ok(());
    }
    let rates = read_rates(recording.path())?;
    for s in summaries(&rates, range) {
        if let Some(util) = utilisation(&rates, s.dev) {
            report.util_io_ticks_percent.insert(s.dev, util);
        }
        report.devices.ios += s.classes.iter().map(|c| c.ios).sum::<u64>();
        report.devices.devices.push(s);
    }
    Ok(())
}
