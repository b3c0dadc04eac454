//! `iolens report`: every analysis of a recording in one pass.

use std::io::Write as _;
use std::ops::Range;

use anyhow::Result;
use iolens_core::analysis::timeline::Differences;
use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::store::{IoColumns, Recording};

use super::{source, window};
use crate::cli::ReportPlan;
use crate::present::report_json::{self, RecordingFacts};
use crate::present::report_text;

/// Runs the command.
///
/// # Errors
/// No recording, or a window outside it.
pub fn run(plan: &ReportPlan) -> Result<u8> {
    let recording = source::open(&plan.recording)?;
    let range = window::resolve(&recording, &plan.window)?;
    let report = analyse(&recording, range)?;
    let render = if plan.json { report_json::render } else { report_text::render };
    std::io::stdout().lock().write_all(render(&report, recording.meta(), &facts(&recording)).as_bytes())?;
    Ok(0)
}

/// All analyses over what completed in `range`, and what was in flight in it.
fn analyse(recording: &Recording, range: Range<i64>) -> Result<Report> {
    let mut builder = ReportBuilder::new(Window::new(range.start, range.end));
    for l in recording.lost(range.clone()) {
        builder.lost(&l);
    }
    let mut reader = recording.ios(window::with_in_flight(&range), IoColumns::ALL);
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
