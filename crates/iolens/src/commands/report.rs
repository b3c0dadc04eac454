//! `iolens report`: every analysis of a recording, as text, as JSON, as an HTML file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result};
use iolens_core::analysis::files::By;
use iolens_core::analysis::imported::{pieces, without_doubles};
use iolens_core::analysis::links::Link;
use iolens_core::analysis::overview::{CounterOverview, Overview, OverviewData, OverviewPlan, moments, scopes};
use iolens_core::analysis::timeline::{CounterRates, Differences, GroupBy};
use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::model::{DevId, Histogram, IntervalRates, Lost, Source};
use iolens_core::store::{IoColumns, Recording, read_rates, read_stages};

use super::layers::Layers;
use super::limits::limits;
use super::{decode, files, names, source, tables, window};
use crate::cli::ReportPlan;
use crate::present::html::{self, Names, ReportData};
use crate::present::report_json::{self, RecordingFacts};
use crate::present::report_text;

/// What [`ReportBuilder`] looks at.
const REPORT_COLUMNS: IoColumns = IoColumns::ALL.without(IoColumns::FLAGS).without(IoColumns::CGROUP);

/// Devices that get charts of their own in the HTML report.
const MOST_SCOPES: usize = 8;
/// Stretches that the HTML report shows down to 1 ms.
const MOST_DETAILS: usize = 8;

/// Runs the command.
///
/// # Errors
/// No recording, a window outside it, or no place for the HTML file.
pub fn run(plan: &ReportPlan) -> Result<u8> {
    let recording = source::open(&plan.recording)?;
    let mut range = window::resolve_for_analysis(&recording, &plan.window)?;
    let rates = read_rates(recording.path())?;
    // Single I/Os tell more.
    let tables = Some(&rates[..]).filter(|r| !r.is_empty() && recording.ios_stored() == 0);
    if let Some(tables) = tables {
        range = tables::window(tables, &plan.window, range);
    }
    let names = names::read(&recording, range.end)?;
    let (limits, links) = limits(&recording.meta().devices, &plan.limits)?;
    let mut report = analyse(&recording, &range, &names, limits.clone(), links)?;
    super::report_rates::add(&recording, &rates, range.clone(), &limits, &mut report);
    if let Some(path) = &plan.output {
        write_html(&recording, &range, &report, &names, tables, path)?;
        eprintln!("iolens: {} written; open it in a browser", path.display());
    }
    let text = if plan.json {
        let requests = files::if_recorded(&recording, &range, By::Class)?;
        report_json::render(&report, recording.meta(), &facts(&recording), requests.as_ref())
    } else {
        report_text::render(&report, recording.meta(), &facts(&recording))
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// More I/Os than this are analysed when asked for, not at the end of a recording: it would take seconds.
const MOST_IOS_AT_ONCE: u64 = 10_000_000;
/// As many findings as a screen holds.
const MOST_FINDINGS: usize = 6;

/// The findings of the recording in `path`, for the end of `record`; nothing if that would take long.
///
/// # Errors
/// The recording cannot be read.
pub fn findings(path: &Path) -> Result<String> {
    let recording = source::open(path)?;
    if recording.ios_stored() > MOST_IOS_AT_ONCE {
        return Ok(String::new());
    }
    let range = 0..recording.end_ns();
    let names = names::read(&recording, range.end)?;
    let report = analyse(&recording, &range, &names, BTreeMap::new(), Vec::new())?;
    Ok(report_text::findings(&report, recording.meta(), MOST_FINDINGS))
}

/// The same, and the HTML report beside the recording; its path, or why there is none.
///
/// # Errors
/// The recording cannot be read.
pub fn findings_and_html(path: &Path, html: &Path) -> Result<(String, Result<()>)> {
    let recording = source::open(path)?;
    let range = 0..recording.end_ns();
    let names = names::read(&recording, range.end)?;
    let report = analyse(&recording, &range, &names, BTreeMap::new(), Vec::new())?;
    let written = write_html(&recording, &range, &report, &names, None, html);
    Ok((report_text::findings(&report, recording.meta(), MOST_FINDINGS), written))
}

/// All analyses over what completed in `range`, and what was in flight in it.
///
/// # Errors
/// The recording cannot be read.
fn analyse(
    recording: &Recording,
    range: &Range<i64>,
    names: &Names,
    limits: BTreeMap<DevId, f64>,
    links: Vec<Link>,
) -> Result<Report> {
    let mut builder = ReportBuilder::for_recording(recording.meta(), Window::new(range.start, range.end))
        .leaving_out(layers(recording))
        .limited(limits, links);
    recording.lost(range.clone()).iter().for_each(|l| builder.lost(l));
    let met = decode::for_parts(recording, window::with_in_flight(range), REPORT_COLUMNS, &mut builder.parts())?;
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
    let mut differences = Differences::new(&recording.meta().devices);
    let mut counters = recording.counters(range.clone());
    for batch in &mut counters {
        batch?.iter().filter_map(|c| differences.push(c)).for_each(|d| builder.counters(&d));
    }
    source::warn(counters.warnings());
    Ok(builder.finish_naming(range.end, &|fs_dev, ino| names.files.get(&(fs_dev, ino)).cloned()))
}

/// What only the recording as a whole knows.
fn facts(recording: &Recording) -> RecordingFacts {
    RecordingFacts {
        path: recording.path().display().to_string(),
        disk_bytes: Some(recording.disk_bytes()),
        total_ios: Some(recording.ios_stored()),
        layers: layers(recording),
    }
}

/// Devices above others that are recorded too.
fn layers(recording: &Recording) -> BTreeSet<DevId> {
    Layers::doubled(&recording.meta().devices, GroupBy::All).left_out().clone()
}

/// Writes the HTML report of `range` to `path`; whole or not at all.
///
/// # Errors
/// This program was built without the page, the recording cannot be read, or the file cannot be written.
fn write_html(
    recording: &Recording,
    range: &Range<i64>,
    report: &Report,
    names: &Names,
    tables: Option<&[IntervalRates]>,
    path: &Path,
) -> Result<()> {
    let (base, details) = overviews(recording, range, report, tables)?;
    let requests = files::if_recorded(recording, range, By::Process)?;
    let page = html::render(&ReportData {
        report,
        meta: recording.meta(),
        facts: &facts(recording),
        overview: &base,
        details: details.as_ref(),
        names,
        notes: &[],
        marks: &recording.marks(range.clone()),
        files: requests.as_ref(),
    })?;
    let unfinished = path.with_extension("html.part");
    let written = std::fs::write(&unfinished, &page).and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() && unfinished.exists() {
        std::fs::remove_file(&unfinished)?;
    }
    written.with_context(|| format!("{} cannot be written", path.display()))
}

/// The whole window at several resolutions, and closer looks at what was found.
fn overviews(
    recording: &Recording,
    range: &Range<i64>,
    report: &Report,
    tables: Option<&[IntervalRates]>,
) -> Result<(OverviewData, Option<OverviewData>)> {
    let meta = recording.meta();
    let devices: Vec<(DevId, u64)> = report.devices.devices.iter().map(|d| (d.dev, d.ios())).collect();
    let layers = Layers::doubled(&meta.devices, GroupBy::All);
    let is_layer = |dev| !layers.counts(dev);
    let window = Window::new(range.start, range.end);
    if meta.source == Source::Counters {
        let (active, step_ns) = counted(recording, range)?;
        let plan = OverviewPlan::whole_of_counters(window, scopes(&active, is_layer, MOST_SCOPES), step_ns);
        let mut overview = CounterOverview::new(plan);
        recording.lost(range.clone()).iter().for_each(|l| overview.lost(l));
        each_difference(recording, range, |d| overview.push(d))?;
        return Ok((overview.finish(), None));
    }
    if let Some(rates) = tables {
        return Ok((overview_of_tables(recording, window, &devices, rates), None));
    }
    let plan = OverviewPlan::whole(window, scopes(&devices, is_layer, MOST_SCOPES));
    let base = overview(recording, range, plan, &[window::with_in_flight(range)])?;
    let plan = OverviewPlan::details(&base, &moments(&base, &report.findings), MOST_DETAILS);
    let reads: Vec<Range<i64>> = plan.reads(base.longest_ns).iter().map(|w| w.from_ns..w.to_ns).collect();
    let details = overview(recording, range, plan, &reads)?;
    Ok((base, Some(details)))
}

/// What imported tables show: each row in slots of its own length, coarser rows spread over them.
fn overview_of_tables(
    recording: &Recording,
    window: Window,
    devices: &[(DevId, u64)],
    rates: &[IntervalRates],
) -> OverviewData {
    let single: BTreeSet<(DevId, i64)> =
        without_doubles(rates, &recording.meta().devices).iter().map(|r| (r.dev, r.to_ns)).collect();
    // A sum of what stands beside it, or a coarser table of the same, is drawn by itself only.
    let double: BTreeSet<DevId> = rates.iter().filter(|r| !single.contains(&(r.dev, r.to_ns))).map(|r| r.dev).collect();
    let row_ns = tables::own_step_ns(rates).unwrap_or(1_000_000_000);
    let scopes = scopes(devices, |dev| double.contains(&dev), MOST_SCOPES);
    let plan = OverviewPlan::whole_of_tables(window, scopes, row_ns);
    let mut overview = CounterOverview::new(plan);
    recording.lost(window.from_ns..window.to_ns).iter().for_each(|l| overview.lost(l));
    for r in rates.iter().filter(|r| r.from_ns < window.to_ns && r.to_ns > window.from_ns) {
        pieces(r, window.from_ns, row_ns).iter().for_each(|piece| overview.push(piece));
    }
    overview.finish()
}

fn overview(
    recording: &Recording,
    range: &Range<i64>,
    plan: OverviewPlan,
    reads: &[Range<i64>],
) -> Result<OverviewData> {
    let mut overview = Overview::new(plan);
    recording.lost(range.clone()).iter().for_each(|l| overview.lost(l));
    // Only whoever reads a block knows that it is damaged; several reads may meet the same one.
    let mut damage: Vec<Lost> = Vec::new();
    for read in reads {
        let met = decode::each_io(recording, read.clone(), IoColumns::ALL, |io| overview.push(io))?;
        let new: Vec<Lost> = met.damage.into_iter().filter(|l| !damage.contains(l)).collect();
        damage.extend(new);
    }
    damage.iter().for_each(|l| overview.lost(l));
    Ok(overview.finish())
}

/// What each device did in `range` according to its counters, and the recorder's step in nanoseconds.
fn counted(recording: &Recording, range: &Range<i64>) -> Result<(Vec<(DevId, u64)>, i64)> {
    let mut ios: BTreeMap<DevId, u64> = BTreeMap::new();
    // Idle devices leave samples out, and the last one comes when it may: the lower quartile is the step.
    let mut gaps = Histogram::new();
    each_difference(recording, range, |d| {
        if d.to_ns <= range.start {
            return;
        }
        *ios.entry(d.dev).or_default() += d.flows.iter().flatten().map(|f| f.ios).sum::<u64>();
        gaps.add(d.to_ns - d.from_ns);
    })?;
    Ok((ios.into_iter().collect(), gaps.quantile(0.25).unwrap_or(0)))
}

/// Differences between counter samples up to the end of `range`.
fn each_difference(recording: &Recording, range: &Range<i64>, mut eat: impl FnMut(&CounterRates)) -> Result<()> {
    let mut differences = Differences::new(&recording.meta().devices);
    for batch in recording.counters(0..range.end) {
        batch?.iter().filter_map(|c| differences.push(c)).for_each(|d| eat(&d));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{Comm, Io, Op, Origin};

    #[test]
    fn what_is_not_read_changes_no_report() {
        let of = |keep: bool| {
            let mut builder = ReportBuilder::new(Window::OPEN);
            for i in 0..10_000 {
                let op = if i % 3 == 0 { Op::WRITE } else { Op::READ };
                let io = Io::new(i * 100_000, DevId::new(8, 0), op, 4096, Some(i % 700), 50_000 + i % 9000);
                let io = Io { sector: Some(i * 8), error: Some(0), merges: Some(1), tgid: Some(7), ..io };
                let io = Io { comm: Some(Comm::new(b"fio")), ino: Some(12), fs_dev: Some(3), ..io };
                let (flags, cgroup) = (Some((i % 40) as i32).filter(|_| keep), Some(i % 5).filter(|_| keep));
                builder.push(&Io { flags, cgroup, origin: Origin::Writeback, ..io });
            }
            builder.finish(1_000_000_000)
        };
        assert!(!REPORT_COLUMNS.contains(IoColumns::FLAGS) && !REPORT_COLUMNS.contains(IoColumns::CGROUP));
        assert_eq!(of(true), of(false));
    }
}
