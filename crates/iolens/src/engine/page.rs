//! The data that the HTML report draws in addition to the figures of the report.

use iolens_core::analysis::Report;
use iolens_core::analysis::files::{By, FilesReport};
use iolens_core::analysis::overview::OverviewData;
use iolens_core::model::{CpuShares, IntervalRates, Mark};
use iolens_core::store::read_cpu;

use super::caller::Caller;
use super::error::Result;
use super::files;
use super::overview::overview;
use super::part::{self, Part};

/// The data drawn for a part.
pub struct Drawn {
    /// The whole part at several resolutions.
    pub overview: OverviewData,
    /// Remarks on the time line.
    pub marks: Vec<Mark>,
    /// File-level requests, if they were recorded.
    pub files: Option<FilesReport>,
    /// The rates that were imported instead of single I/Os.
    pub rates: Option<Vec<IntervalRates>>,
    /// CPU use beside those.
    pub cpu: Vec<CpuShares>,
}

impl Drawn {
    /// Reads the data of `part`, whose analysis is `report`.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn read(part: &Part, report: &Report, caller: &Caller) -> Result<Drawn> {
        let Part {
            recording, range, ..
        } = part;
        let tables = match &part.source {
            part::Source::Tables(rates) => Some(rates.as_slice()),
            _ => None,
        };
        let layers = &part.filter.layers;
        let overview = overview(recording, range, report, tables, layers, caller)?;
        let mut rates = None;
        let mut cpu = Vec::new();
        if let Some(tables) = tables {
            let mut shown = tables.to_vec();
            shown.retain(|r| r.from_ns < range.end && r.to_ns > range.start);
            rates = Some(shown);
            cpu = read_cpu(recording.path())?;
            cpu.retain(|c| c.from_ns < range.end && c.to_ns > range.start);
        }
        Ok(Drawn {
            overview,
            marks: recording.marks(range.clone()),
            files: files::if_recorded(recording, range, By::Process, caller)?,
            rates,
            cpu,
        })
    }
}
