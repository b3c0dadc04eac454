//! `iolens report`: every analysis of a recording, as text, as JSON, as an HTML file.

use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use iolens_core::analysis::timeline::Differences;
use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::store::{IoColumns, Recording};

use super::{report_html, source, window};
use crate::cli::ReportPlan;
use crate::present::report_json::{self, RecordingFacts};
use crate::present::report_text;

/// Runs the command.
///
/// # Errors
/// No recording, a window outside it, or no place for the HTML file.
pub fn run(plan: &ReportPlan) -> Result<u8> {
    let recording = source::open(&plan.recording)?;
    let range = window::resolve(&recording, &plan.window)?;
    let mut report = analyse(&recording, &range)?;
    super::report_rates::add(&recording, range.clone(), &mut report)?;
    if let Some(path) = &plan.output {
        report_html::write(&recording, &report, &range, path)?;
        eprintln!("iolens: {} written; open it in a browser", path.display());
    }
    let render = if plan.json { report_json::render } else { report_text::render };
    std::io::stdout().lock().write_all(render(&report, recording.meta(), &facts(&recording)).as_bytes())?;
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
    let report = analyse(&recording, &(0..recording.end_ns()))?;
    Ok(report_text::findings(&report, recording.meta(), MOST_FINDINGS))
}

/// The same, and the HTML report beside the recording; its path, or why there is none.
///
/// # Errors
/// The recording cannot be read.
pub fn findings_and_html(path: &Path, html: &Path) -> Result<(String, Result<()>)> {
    let recording = source::open(path)?;
    let range = 0..recording.end_ns();
    let report = analyse(&recording, &range)?;
    let written = report_html::write(&recording, &report, &range, html);
    Ok((report_text::findings(&report, recording.meta(), MOST_FINDINGS), written))
}

/// All analyses over what completed in `range`, and what was in flight in it.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse(recording: &Recording, range: &Range<i64>) -> Result<Report> {
    let mut builder = ReportBuilder::for_recording(recording.meta(), Window::new(range.start, range.end));
    recording.lost(range.clone()).iter().for_each(|l| builder.lost(l));
    let mut reader = recording.ios(window::with_in_flight(range), IoColumns::ALL);
    for batch in &mut reader {
        batch?.iter().for_each(|io| builder.push(io));
    }
    reader.damage().iter().for_each(|l| builder.lost(l));
    source::warn(reader.warnings());
    let mut differences = Differences::new(&recording.meta().devices);
    let mut counters = recording.counters(range.clone());
    for batch in &mut counters {
        batch?.iter().filter_map(|c| differences.push(c)).for_each(|d| builder.counters(&d));
    }
    source::warn(counters.warnings());
    Ok(builder.finish(range.end))
}

/// What only the recording as a whole knows.
pub fn facts(recording: &Recording) -> RecordingFacts {
    RecordingFacts {
        path: recording.path().display().to_string(),
        disk_bytes: Some(recording.disk_bytes()),
        total_ios: Some(recording.ios_stored()),
    }
}
