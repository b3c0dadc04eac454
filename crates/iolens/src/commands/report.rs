//! `iolens report`: every analysis of a recording, as text, as JSON, as an HTML file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result};
use iolens_core::analysis::Report;
use iolens_core::analysis::files::By;
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{DevId, IntervalRates};
use iolens_core::private::{Access, write_file};
use iolens_core::store::{Recording, read_rates};

use super::limits::{limits, named};
use crate::cli::{ClockArgs, ReportPlan};
use crate::engine::choose::{self, Chosen};
use crate::engine::layers::Layers;
use crate::engine::page::{Beside, page};
use crate::engine::report::{analyse, facts};
use crate::engine::{files, names, report_tables, source, tables, window};
use crate::present::html::Names;
use crate::present::report_json::{self, RecordingFacts};
use crate::present::{report_summary, report_text};

/// Runs `iolens report`.
///
/// # Errors
/// No recording, a window outside it, or no place for the HTML file.
pub fn run(plan: &ReportPlan) -> Result<u8> {
    let Chosen {
        recording,
        window: asked,
    } = choose::one(&plan.recording, &plan.window.by(plan.clock))?;
    let mut range = window::resolve_for_analysis(&recording, &asked)?;
    let rates = read_rates(recording.path())?;
    // Single I/Os give exact figures.
    let tables = Some(&rates[..]).filter(|r| !r.is_empty() && recording.ios_stored() == 0);
    if let Some(tables) = tables {
        range = tables::window(tables, &asked, range);
    }
    let names = names::read(&recording, range.end)?;
    let (limits, links) = limits(&recording.meta().devices, &plan.limits)?;
    let of = |name: &String| Ok(named(&recording.meta().devices, name, "--device")?.id);
    let detailed = plan
        .devices
        .iter()
        .map(of)
        .collect::<Result<BTreeSet<DevId>>>()?;
    let layers = Layers::of(&recording, GroupBy::All)?;
    let mut report = analyse(&recording, &range, &names, &layers, (limits.clone(), links))?;
    report_tables::add(&recording, &rates, range.clone(), &limits, &mut report);
    if let Some(path) = &plan.output {
        write_html(
            &recording,
            &range,
            &report,
            &names,
            (tables, &layers),
            path,
            plan.share.access(),
        )?;
        eprintln!("iolens: {} written; open it in a browser", path.display());
    }
    let facts = RecordingFacts {
        detailed,
        ..facts(&recording, &layers)
    };
    let meta = recording.meta();
    let layout = crate::streams::layout();
    let times = plan.clock.times(meta, range.start);
    let text = if plan.json {
        let requests = files::if_recorded(&recording, &range, By::Class)?;
        report_json::render(&report, meta, &names, &facts, requests.as_ref())
    } else if plan.full || !facts.detailed.is_empty() {
        report_text::render(&report, meta, &names, &facts, &times, layout)
    } else {
        report_summary::render(&report, meta, &names, &facts, &times, layout)
    };
    crate::streams::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// More I/Os than this are analysed on request, not at the end of a recording: it would take seconds.
const MAX_IOS_AT_ONCE: u64 = 10_000_000;
/// As many findings as a screen holds.
const MAX_FINDINGS: usize = 6;

/// The findings of the recording in `path`, for the end of `record`; nothing if that would take long.
///
/// # Errors
/// The recording cannot be read.
pub fn findings(path: &Path) -> Result<String> {
    let recording = source::open(path)?;
    if recording.ios_stored() > MAX_IOS_AT_ONCE {
        return Ok(String::new());
    }
    let range = 0..recording.end_ns();
    let names = names::read(&recording, range.end)?;
    let layers = Layers::of(&recording, GroupBy::All)?;
    let report = analyse(
        &recording,
        &range,
        &names,
        &layers,
        (BTreeMap::new(), Vec::new()),
    )?;
    Ok(report_text::findings(
        &report,
        recording.meta(),
        MAX_FINDINGS,
        &ClockArgs::default().times(recording.meta(), 0),
        crate::streams::layout(),
    ))
}

/// The same, and the HTML report beside the recording; its path, or why there is none.
///
/// # Errors
/// The recording cannot be read.
pub fn findings_and_html(path: &Path, html: &Path) -> Result<(String, Result<()>)> {
    let recording = source::open(path)?;
    let range = 0..recording.end_ns();
    let names = names::read(&recording, range.end)?;
    let layers = Layers::of(&recording, GroupBy::All)?;
    let report = analyse(
        &recording,
        &range,
        &names,
        &layers,
        (BTreeMap::new(), Vec::new()),
    )?;
    let written = write_html(
        &recording,
        &range,
        &report,
        &names,
        (None, &layers),
        html,
        Access::OWNER,
    );
    Ok((
        report_text::findings(
            &report,
            recording.meta(),
            MAX_FINDINGS,
            &ClockArgs::default().times(recording.meta(), 0),
            crate::streams::layout(),
        ),
        written,
    ))
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
    tables_and_layers: (Option<&[IntervalRates]>, &Layers),
    path: &Path,
    access: Access,
) -> Result<()> {
    let page = page(
        recording,
        range,
        report,
        names,
        tables_and_layers,
        Beside::default(),
    )?;
    write_file(path, &page, access).with_context(|| format!("{} cannot be written", path.display()))
}
