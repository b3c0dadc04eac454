//! The HTML report of a stretch of a recording.

use std::ops::Range;

use anyhow::Result;
use iolens_core::analysis::Report;
use iolens_core::analysis::files::By;
use iolens_core::model::IntervalRates;
use iolens_core::store::Recording;

use super::files;
use super::layers::Layers;
use super::overview::overviews;
use super::report::facts;
use crate::present::html::{self, Names, Note, ReportData, View};

/// What a page shows beside the report's figures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Further remarks.
    pub notes: &'a [Note],
    /// Where it stands in a server's time.
    pub view: Option<View>,
}

/// The page of `report`, which is of `range`; `tables`: rates instead of single I/Os.
///
/// # Errors
/// The recording cannot be read, or this program was built without the page.
pub fn page(
    recording: &Recording,
    range: &Range<i64>,
    report: &Report,
    names: &Names,
    (tables, layers): (Option<&[IntervalRates]>, &Layers),
    beside: Beside<'_>,
) -> Result<Vec<u8>> {
    let (base, details) = overviews(recording, range, report, tables, layers)?;
    let requests = files::if_recorded(recording, range, By::Process)?;
    Ok(html::render(&ReportData {
        report,
        meta: recording.meta(),
        facts: &facts(recording, layers),
        overview: &base,
        details: details.as_ref(),
        names,
        notes: beside.notes,
        marks: &recording.marks(range.clone()),
        files: requests.as_ref(),
        view: beside.view,
    })?)
}
