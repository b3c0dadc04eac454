//! Who waited for whom, from single I/Os.

use iolens_core::analysis::waits::{DeviceVictims, Grouping, WaitsBuilder};
use iolens_core::analysis::{Part as Analysis, Window};
use iolens_core::store::IoColumns;

use super::caller::Caller;
use super::error::Result;
use super::part::Part;
use super::query::{Grain, Query};
use super::{decode, window};

/// The waits of a part of a recording.
pub struct PartWaits {
    /// The part, with its names.
    pub part: Part,
    /// By device, those that were asked for.
    pub devices: Vec<DeviceVictims>,
}

/// The waits in the window of `query`, of each recording by itself. Devices below others count like all others.
///
/// # Errors
/// No recording holds the time, its single I/Os are gone, or it cannot be read.
pub fn waits(query: &Query<'_>, grouping: Grouping) -> Result<Vec<PartWaits>> {
    let mut all = Vec::new();
    for part in query.parts(Grain::Analysis)?.parts {
        let mut devices = of_part(&part, grouping, query.caller)?;
        devices.retain(|d| part.filter.devices.has(d.dev));
        all.push(PartWaits { part, devices });
    }
    Ok(all)
}

fn of_part(part: &Part, grouping: Grouping, caller: &Caller) -> Result<Vec<DeviceVictims>> {
    let recording = &part.recording;
    let range = &part.range;
    let mut builder = WaitsBuilder::by(grouping, Window::new(range.start, range.end));
    for lost in recording.lost(range.clone()) {
        builder.lost(&lost);
    }
    // An I/O that completes later was worked on inside the window, as the report has it.
    let in_flight = window::with_in_flight(range);
    let mut parts: [&mut dyn Analysis; 1] = [&mut builder];
    let met = decode::for_parts(recording, in_flight, IoColumns::ALL, caller, &mut parts)?;
    for lost in &met.damage {
        builder.lost(lost);
    }
    caller.damage(&met.warnings);
    Ok(builder.finish())
}
