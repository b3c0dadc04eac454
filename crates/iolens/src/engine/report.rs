//! All analyses of a recording, each on a thread of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::bursts::links::Link;
use iolens_core::analysis::timeline::{Differences, GroupBy};
use iolens_core::analysis::{Consumer, Report, ReportBuilder, Window};
use iolens_core::model::{DevId, IntervalRates, Names};
use iolens_core::store::{IoColumns, Recording, read_rates, read_stages};

use super::caller::Caller;
use super::decode::{Met, Nameless, each_row};
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
    of_part_and(part, limits, caller, &mut [])
}

/// The same, while `others` take the I/Os as well: the recording is read once.
///
/// # Errors
/// As of [`of_part`].
pub fn of_part_and(
    part: &Part,
    limits: &Limits,
    caller: &Caller,
    others: &mut [&mut dyn Consumer],
) -> Result<Report> {
    let Part {
        recording,
        range,
        names,
        filter,
        ..
    } = part;
    let layers = &filter.layers;
    let mut report = analyse(recording, range, names, layers, limits, caller, others)?;
    let read: Vec<IntervalRates>;
    let rates = match &part.source {
        Source::Tables(rates) => rates,
        _ => {
            read = read_rates(recording.path())?;
            &read
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
    let mut report = analyse(recording, range, &names, &layers, &limits, caller, &mut [])?;
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

/// All analyses over what completed in `range`, and what was in flight in it; `others` take the same I/Os.
///
/// # Errors
/// The recording cannot be read.
fn analyse(
    recording: &Recording,
    range: &Range<i64>,
    names: &Names,
    layers: &Layers,
    limits: &Limits,
    caller: &Caller,
    others: &mut [&mut dyn Consumer],
) -> Result<Report> {
    let mut cgroups = Vec::new();
    each_row(recording.cgroups(i64::MIN..i64::MAX), caller, |sample| {
        cgroups.push(sample);
    })?;
    let window = Window::from(range);
    let mut builder = ReportBuilder::for_recording(recording.meta(), window)
        .leaving_out(layers.left_out().keys().copied().collect())
        .limited(limits.of_devices.clone(), limits.links.clone())
        .knowing_cgroups(&cgroups);
    recording
        .lost(range.clone())
        .iter()
        .for_each(|l| builder.lost(l));
    let met = feed_ios(recording, range, &mut builder, others, caller)?;
    met.damage.iter().for_each(|l| builder.lost(l));
    caller.damage(&met.warnings);
    feed_samples(recording, range, &mut builder, caller)?;
    let mut report = builder.finish_naming(range.end, &|file| names.files.get(&file).cloned());
    if recording.hides_names() {
        report.hide_names();
    }
    Ok(report)
}

/// The I/Os of `range`, and those that were in flight in it, for the analyses and for `others`.
///
/// # Errors
/// The recording cannot be read.
fn feed_ios(
    recording: &Recording,
    range: &Range<i64>,
    builder: &mut ReportBuilder,
    others: &mut [&mut dyn Consumer],
    caller: &Caller,
) -> Result<Met> {
    // The part of the report that takes longest is the last one: it has this thread.
    let in_flight = window::with_in_flight(range);
    // What starts later was not in flight in the window, and analyses learn nothing from it.
    let learned_until_ns = Window::from(range).learned_until_ns();
    if recording.hides_names() {
        // I/Os of a program are taken together by its name; what is found loses the names at the end.
        let (mut consumers, rest) = builder.consumers_by_names();
        let mut nameless = Vec::new();
        for other in others {
            nameless.push(Nameless::new(&mut **other));
        }
        nameless.extend(rest.map(Nameless::new));
        for consumer in &mut nameless {
            consumers.push(consumer);
        }
        let ios = decode::Ios::identified(recording, in_flight, IoColumns::ALL)
            .started_before(learned_until_ns);
        decode::feed_all(ios, caller, &mut consumers)
    } else {
        let mut consumers: Vec<&mut dyn Consumer> = Vec::new();
        for other in others {
            consumers.push(&mut **other);
        }
        consumers.extend(builder.consumers());
        let ios =
            decode::Ios::new(recording, in_flight, IoColumns::ALL).started_before(learned_until_ns);
        decode::feed_all(ios, caller, &mut consumers)
    }
}

/// What the analyses look at beside I/Os: requests of programs, stages, the pressure of the host and counters.
///
/// # Errors
/// The recording cannot be read.
fn feed_samples(
    recording: &Recording,
    range: &Range<i64>,
    builder: &mut ReportBuilder,
    caller: &Caller,
) -> Result<()> {
    if recording.requests_stored() > 0 {
        let requests = recording.requests(window::with_last_instant(recording, range));
        each_row(requests, caller, |request| builder.request(&request))?;
    }
    read_stages(recording.path(), |bio| builder.bio(bio))?;
    each_row(recording.pressure(i64::MIN..i64::MAX), caller, |sample| {
        builder.pressure(&sample);
    })?;
    let mut differences = Differences::new(&recording.meta().devices);
    let counters = recording.counters(window::with_last_instant(recording, range));
    each_row(counters, caller, |sample| {
        if let Some(difference) = differences.push(&sample) {
            builder.counters(&difference);
        }
    })?;
    Ok(())
}
