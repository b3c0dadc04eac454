//! The HTML report of a stretch of a recording.

use std::ops::Range;

use anyhow::Result;
use iolens_core::analysis::Report;
use iolens_core::analysis::files::By;
use iolens_core::model::IntervalRates;
use iolens_core::store::{Recording, read_cpu};

use super::files;
use super::layers::Layers;
use super::overview::overviews;
use super::report::facts;
use crate::present::html::{self, Names, Note, ReportData, Tables, View};

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
    let inside = |from_ns: i64, to_ns: i64| from_ns < range.end && to_ns > range.start;
    let mut rates = Vec::new();
    let mut cpu = Vec::new();
    if let Some(tables) = tables {
        rates = tables.to_vec();
        rates.retain(|r| inside(r.from_ns, r.to_ns));
        cpu = read_cpu(recording.path())?;
        cpu.retain(|c| inside(c.from_ns, c.to_ns));
    }
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
        tables: tables.map(|_| Tables {
            rates: &rates,
            cpu: &cpu,
        }),
        view: beside.view,
    })?)
}
