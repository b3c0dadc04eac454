//! `iolens report -o FILE.html`: the recording read once more for the charts, and its remarkable moments a third time,
//! finely.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use iolens_core::analysis::overview::{CounterOverview, Overview, OverviewData, OverviewPlan, Scope, moments, scopes};
use iolens_core::analysis::timeline::{CounterRates, Differences};
use iolens_core::analysis::{Report, Window};
use iolens_core::model::{DevId, Histogram, Lost, RecordingMeta, Source};
use iolens_core::store::{IoColumns, Recording};

use super::{report, window};
use crate::present::html::{self, Names, ReportData};

/// Devices that have charts of their own.
const MOST_DEVICES: usize = 8;

/// Moments that are kept in slots of 1 ms.
const MOST_MOMENTS: usize = 12;

/// Writes the HTML report of what completed in `range`, about which `report` says the rest, to `out`.
///
/// # Errors
/// This program was built without the page, the recording cannot be read, or the file cannot be written.
pub fn write(recording: &Recording, report: &Report, range: &Range<i64>, out: &Path) -> Result<()> {
    let base = match recording.meta().source {
        Source::Counters => of_counters(recording, range)?,
        _ => of_events(recording, report, range)?,
    };
    let plan = OverviewPlan::details(&base, &moments(&base, &report.findings), MOST_MOMENTS);
    let mut details = Overview::new(plan.clone());
    for stretch in plan.reads(base.longest_ns) {
        each_io(recording, stretch.from_ns..stretch.to_ns, &mut details)?;
    }
    let details = details.finish();
    let data = ReportData {
        report,
        meta: recording.meta(),
        facts: &report::facts(recording),
        overview: &base,
        details: Some(&details),
        names: &Names::default(),
        notes: &[],
        marks: &recording.marks(range.clone()),
    };
    write_whole(out, &html::render(&data)?).with_context(|| format!("cannot write {}", out.display()))
}

/// Whole or not at all: a page that was cut off must not pass for one.
fn write_whole(out: &Path, page: &[u8]) -> std::io::Result<()> {
    let unfinished = out.with_extension("html.part");
    let written = std::fs::write(&unfinished, page).and_then(|()| std::fs::rename(&unfinished, out));
    if written.is_err() && unfinished.exists() {
        std::fs::remove_file(&unfinished)?;
    }
    written
}

fn of_events(recording: &Recording, report: &Report, range: &Range<i64>) -> Result<OverviewData> {
    let active: Vec<_> =
        report.devices.devices.iter().map(|d| (d.dev, d.classes.iter().map(|c| c.ios).sum())).collect();
    let plan = OverviewPlan::whole(report.devices.window, shown(recording.meta(), &active));
    let mut overview = Overview::new(plan);
    recording.lost(range.clone()).iter().for_each(|l| overview.lost(l));
    let damage = each_io(recording, window::with_in_flight(range), &mut overview)?;
    damage.iter().for_each(|l| overview.lost(l));
    Ok(overview.finish())
}

fn of_counters(recording: &Recording, range: &Range<i64>) -> Result<OverviewData> {
    let mut ios: BTreeMap<DevId, u64> = BTreeMap::new();
    // Idle devices leave samples out, and the last one comes when it may: the lower quartile is the recorder's step.
    let mut gaps = Histogram::new();
    each_difference(recording, range, |d| {
        *ios.entry(d.dev).or_default() += d.flows.iter().flatten().map(|f| f.ios).sum::<u64>();
        gaps.add(d.to_ns - d.from_ns);
    })?;
    let period_ns = gaps.quantile(0.25).unwrap_or(0);
    let active: Vec<_> = ios.into_iter().collect();
    let scopes = shown(recording.meta(), &active);
    let window = Window::new(range.start, range.end);
    let mut overview = CounterOverview::new(OverviewPlan::whole_of_counters(window, scopes, period_ns));
    recording.lost(range.clone()).iter().for_each(|l| overview.lost(l));
    each_difference(recording, range, |d| overview.push(d))?;
    Ok(overview.finish())
}

fn each_difference(recording: &Recording, range: &Range<i64>, mut eat: impl FnMut(&CounterRates)) -> Result<()> {
    let mut differences = Differences::new(&recording.meta().devices);
    let mut counters = recording.counters(range.clone());
    for batch in &mut counters {
        batch?.iter().filter_map(|c| differences.push(c)).for_each(|d| eat(&d));
    }
    Ok(())
}

/// Devices worth a chart; layers above other devices are not summed with them.
fn shown(meta: &RecordingMeta, active: &[(DevId, u64)]) -> Vec<Scope> {
    let stacked = |dev: DevId| meta.devices.iter().any(|d| d.id == dev && !d.slaves.is_empty());
    scopes(active, stacked, MOST_DEVICES)
}

/// Pushes what completed in `range`; gives what could not be read.
fn each_io(recording: &Recording, range: Range<i64>, overview: &mut Overview) -> Result<Vec<Lost>> {
    let mut reader = recording.ios(range, IoColumns::ALL);
    for batch in &mut reader {
        batch?.iter().for_each(|io| overview.push(io));
    }
    Ok(reader.damage().to_vec())
}
