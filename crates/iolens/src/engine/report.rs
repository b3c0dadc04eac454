//! All analyses of a recording, each on a thread of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::bursts::links::Link;
use iolens_core::analysis::timeline::{Differences, GroupBy};
use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::model::{DevId, IntervalRates, Names};
use iolens_core::store::{IoColumns, Recording, read_rates, read_stages};

use super::caller::Caller;
use super::error::Result;
use super::layers::Layers;
use super::part::Part;
use super::part::Source;
use super::{decode, names, report_tables, window};

/// What the user knows of devices.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Of single devices, in bytes per second.
    pub of_devices: BTreeMap<DevId, f64>,
    /// Links that several share.
    pub links: Vec<Link>,
}

/// The report of a part, with what imported tables add to it.
///
/// # Errors
/// The recording cannot be read.
pub fn of_part(part: &Part, limits: &Limits, caller: &Caller) -> Result<Report> {
    let Part {
        recording,
        range,
        names,
        filter,
        ..
    } = part;
    let mut report = analyse(recording, range, names, &filter.layers, limits, caller)?;
    let others: Vec<IntervalRates>;
    let rates = match &part.source {
        Source::Tables(rates) => rates,
        _ => {
            others = read_rates(recording.path())?;
            &others
        }
    };
    report_tables::add(
        recording,
        rates,
        range.clone(),
        &limits.of_devices,
        &mut report,
    );
    Ok(report)
}

/// The report of `range` with nothing known beside the recording.
///
/// # Errors
/// The recording cannot be read.
pub fn plain(recording: &Recording, range: &Range<i64>, caller: &Caller) -> Result<Report> {
    let names = names::read(recording, range.end, caller)?;
    let layers = Layers::of(recording, GroupBy::All, caller)?;
    let limits = Limits::default();
    let mut report = analyse(recording, range, &names, &layers, &limits, caller)?;
    let rates = read_rates(recording.path())?;
    report_tables::add(
        recording,
        &rates,
        range.clone(),
        &BTreeMap::new(),
        &mut report,
    );
    Ok(report)
}

/// All analyses over what completed in `range`, and what was in flight in it.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse(
    recording: &Recording,
    range: &Range<i64>,
    names: &Names,
    layers: &Layers,
    limits: &Limits,
    caller: &Caller,
) -> Result<Report> {
    let mut builder =
        ReportBuilder::for_recording(recording.meta(), Window::new(range.start, range.end))
            .leaving_out(layers.left_out().keys().copied().collect())
            .limited(limits.of_devices.clone(), limits.links.clone());
    recording
        .lost(range.clone())
        .iter()
        .for_each(|l| builder.lost(l));
    let met = decode::for_parts(
        recording,
        window::with_in_flight(range),
        IoColumns::ALL,
        caller,
        &mut builder.parts(),
    )?;
    met.damage.iter().for_each(|l| builder.lost(l));
    caller.damage(&met.warnings);
    if recording.requests_stored() > 0 {
        let mut requests = recording.requests(window::with_last_instant(recording, range));
        for batch in &mut requests {
            batch?.iter().for_each(|r| builder.request(r));
        }
        caller.damage(requests.warnings());
    }
    read_stages(recording.path(), |bio| builder.bio(bio))?;
    let mut pressure = recording.pressure(i64::MIN..i64::MAX);
    for batch in &mut pressure {
        batch?.iter().for_each(|sample| builder.pressure(sample));
    }
    caller.damage(pressure.warnings());
    let mut differences = Differences::new(&recording.meta().devices);
    let mut counters = recording.counters(window::with_last_instant(recording, range));
    for batch in &mut counters {
        batch?
            .iter()
            .filter_map(|c| differences.push(c))
            .for_each(|d| builder.counters(&d));
    }
    caller.damage(counters.warnings());
    Ok(builder.finish_naming(range.end, &|file| names.files.get(&file).cloned()))
}
