//! All analyses of a recording, each on a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::Result;
use iolens_core::analysis::bursts::links::Link;
use iolens_core::analysis::timeline::{Differences, GroupBy};
use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::model::{DevId, IntervalRates};
use iolens_core::store::{IoColumns, Recording, read_rates, read_stages};

use super::layers::Layers;
use super::{decode, names, report_tables, source, window};
use crate::present::html::Names;
use crate::present::report_json::RecordingFacts;

/// All analyses over what completed in `range`, and what was in flight in it.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse(
    recording: &Recording,
    range: &Range<i64>,
    names: &Names,
    layers: &Layers,
    (limits, links): (BTreeMap<DevId, f64>, Vec<Link>),
) -> Result<Report> {
    let mut builder =
        ReportBuilder::for_recording(recording.meta(), Window::new(range.start, range.end))
            .leaving_out(layers.left_out().keys().copied().collect())
            .limited(limits, links);
    recording
        .lost(range.clone())
        .iter()
        .for_each(|l| builder.lost(l));
    let met = decode::for_parts(
        recording,
        window::with_in_flight(range),
        IoColumns::ALL,
        &mut builder.parts(),
    )?;
    met.damage.iter().for_each(|l| builder.lost(l));
    source::warn(&met.warnings);
    if recording.requests_stored() > 0 {
        let mut requests = recording.requests(window::with_last_instant(recording, range));
        for batch in &mut requests {
            batch?.iter().for_each(|r| builder.request(r));
        }
        source::warn(requests.warnings());
    }
    read_stages(recording.path(), |bio| builder.bio(bio))?;
    let mut pressure = recording.pressure(i64::MIN..i64::MAX);
    for batch in &mut pressure {
        batch?.iter().for_each(|sample| builder.pressure(sample));
    }
    source::warn(pressure.warnings());
    let mut differences = Differences::new(&recording.meta().devices);
    let mut counters = recording.counters(window::with_last_instant(recording, range));
    for batch in &mut counters {
        batch?
            .iter()
            .filter_map(|c| differences.push(c))
            .for_each(|d| builder.counters(&d));
    }
    source::warn(counters.warnings());
    Ok(builder.finish_naming(range.end, &|file| names.files.get(&file).cloned()))
}

/// What only the recording as a whole knows.
pub fn facts(recording: &Recording, layers: &Layers) -> RecordingFacts {
    RecordingFacts {
        path: recording.path().display().to_string(),
        disk_bytes: Some(recording.disk_bytes()),
        total_ios: Some(recording.ios_stored()),
        layers: layers.left_out().clone(),
        detailed: BTreeSet::new(),
    }
}

/// A report and what it was made with.
pub struct Analysed {
    /// All analyses.
    pub report: Report,
    /// Of control groups and files.
    pub names: Names,
    /// What is counted once of stacked devices.
    pub layers: Layers,
    /// Imported rates; empty without a table.
    pub rates: Vec<IntervalRates>,
}

/// The report of `range` with nothing known beside the recording.
///
/// # Errors
/// As [`analyse`].
pub fn plain(recording: &Recording, range: &Range<i64>) -> Result<Analysed> {
    let names = names::read(recording, range.end)?;
    let layers = Layers::of(recording, GroupBy::All)?;
    let mut report = analyse(
        recording,
        range,
        &names,
        &layers,
        (BTreeMap::new(), Vec::new()),
    )?;
    let rates = read_rates(recording.path())?;
    report_tables::add(
        recording,
        &rates,
        range.clone(),
        &BTreeMap::new(),
        &mut report,
    );
    Ok(Analysed {
        report,
        names,
        layers,
        rates,
    })
}
