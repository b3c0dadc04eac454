//! `iolens report`: runs every analysis of a recording, and prints text or JSON or writes an HTML file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::Report;
use iolens_core::analysis::files::By;
use iolens_core::model::DevId;
use iolens_core::private::{Access, refuse_all_but_file, write_file};

use super::limits::{limits, named};
use crate::cli::{ClockArgs, ReportPlan, typed_window};
use crate::engine::inside::Inside;
use crate::engine::page::Drawn;
use crate::engine::part::Part;
use crate::engine::query::{Grain, Query};
use crate::engine::report::{self, Limits};
use crate::engine::{TimeWindow, files};
use crate::present::html::{self, Beside};
use crate::present::report_json::{self, RecordingFacts};
use crate::present::{report_summary, report_text};

/// Runs `iolens report`.
///
/// # Errors
/// There is no recording, the window is outside of it, or the HTML file cannot be written.
pub fn run(plan: &ReportPlan) -> Result<u8> {
    let caller = super::caller();
    let query = Query::new(&plan.recording, plan.window.by(plan.clock), &caller);
    let part = query.one(Grain::Analysis)?;
    let meta = part.recording.meta();
    let limits = limits(&meta.devices, &plan.limits)?;
    // Errors of the arguments are reported before the long analysis: unknown names, or a file that must not be
    // replaced.
    let mut detailed: BTreeSet<DevId> = BTreeSet::new();
    for name in &plan.devices {
        detailed.insert(named(&meta.devices, name, "--device")?.id);
    }
    if let Some(path) = &plan.output {
        refuse_foreign(path)?;
    }
    let report = report::of_part(&part, &limits, &caller)?;
    if let Some(path) = &plan.output {
        write_html(&query, &part, &report, path, plan.share.access())?;
        eprintln!("iolens: {} written; open it in a browser", path.display());
    }
    let facts = RecordingFacts {
        detailed,
        muted: plan.muted.iter().cloned().collect(),
        victim: plan.victim.clone(),
        window_options: typed_window(&plan.window, plan.clock),
        ..RecordingFacts::of(&part)
    };
    // If devices are named, all details are shown instead of the summary.
    let names = &part.names;
    let layout = crate::streams::layout();
    let times = plan.clock.times(meta, part.range.start);
    let text = if plan.json {
        let requests = files::if_recorded(&part.recording, &part.range, By::Class, &caller)?;
        report_json::render(&report, meta, names, &facts, requests.as_ref())
    } else if plan.full || !facts.detailed.is_empty() {
        report_text::render(&report, meta, names, &facts, &times, layout)
    } else {
        report_summary::render(&report, meta, names, &facts, &times, layout)
    };
    crate::streams::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// Recordings with more I/Os than this are not analysed at the end of recording, which would take seconds.
const MAX_IOS_AT_ONCE: u64 = 10_000_000;
/// Number of findings that fit on a screen.
const MAX_FINDINGS: usize = 6;

/// The findings of the recording at `path`, for the end of `record`; empty if the analysis would take too long.
///
/// # Errors
/// The recording cannot be read.
pub fn findings(path: &Path) -> Result<String> {
    let caller = super::caller();
    let part = Query::new(path, TimeWindow::default(), &caller).one(Grain::Recording)?;
    if part.recording.ios_stored() > MAX_IOS_AT_ONCE {
        return Ok(String::new());
    }
    let part = part.described(&caller)?;
    let report = report::of_part(&part, &Limits::default(), &caller)?;
    Ok(findings_of(&part, &report))
}

/// What is shown at the end of a demo.
pub struct DemoReport {
    /// What happened to the demo's own reads; all stories if there is none about them.
    pub story: String,
    /// Whether the HTML report was written, or why not.
    pub written: Result<()>,
}

/// The story of the process that made the recording; also writes the HTML report beside the recording.
///
/// # Errors
/// The recording cannot be read.
pub fn demo_report(path: &Path, html: &Path) -> Result<DemoReport> {
    let caller = super::caller();
    let query = Query::new(path, TimeWindow::default(), &caller);
    let part = query.one(Grain::Recording)?.described(&caller)?;
    let report = report::of_part(&part, &Limits::default(), &caller)?;
    let written = write_html(&query, &part, &report, html, Access::OWNER);
    let meta = part.recording.meta();
    let times = ClockArgs::default().times(meta, 0);
    let layout = crate::streams::layout();
    let story = report_text::own_story(&report, meta, &part.names, &times, layout);
    Ok(DemoReport { story, written })
}

fn findings_of(part: &Part, report: &Report) -> String {
    let meta = part.recording.meta();
    let times = ClockArgs::default().times(meta, 0);
    let layout = crate::streams::layout();
    let names = &part.names;
    report_text::stories_and_findings(report, meta, names, MAX_FINDINGS, &times, layout)
}

/// Fails if `path` is a file that is not an HTML report of this program. Empty files and links may be replaced,
/// because nothing is lost.
///
/// # Errors
/// There is such a file, it cannot be read, or its directory does not exist.
fn refuse_foreign(path: &Path) -> Result<()> {
    refuse_all_but_file(path).with_context(|| cannot_be_written(path))?;
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(());
    }
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(html::PAGE_HEAD).read_to_end(&mut head))
        .with_context(|| format!("{} exists and cannot be read", path.display()))?;
    if !html::is_page(&head) {
        bail!(
            "{} exists and is no HTML report of iolens, so it is not replaced; choose another name",
            path.display()
        );
    }
    Ok(())
}

/// Writes the HTML report of `part` to `path` atomically.
///
/// # Errors
/// This program was built without the page, the recording cannot be read, or the file cannot be written.
fn write_html(
    query: &Query<'_>,
    part: &Part,
    report: &Report,
    path: &Path,
    access: Access,
) -> Result<()> {
    let drawn = Drawn::read(part, report, query.caller)?;
    let inside = Inside::read(query, part, report)?;
    let beside = Beside {
        inside: Some(&inside),
        ..Beside::default()
    };
    let page = html::page(part, report, &drawn, beside)?;
    write_file(path, &page, access).with_context(|| cannot_be_written(path))
}

fn cannot_be_written(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}
