//! Selects the rows that the tables of a report print.

use std::collections::BTreeSet;

use iolens_core::model::DevId;

use super::report_json::RecordingFacts;

/// The rows of a table by device.
pub(super) struct RowsShown<'a> {
    /// Restricts the table to these devices; `None`: all except stacked ones.
    devices: Option<&'a BTreeSet<DevId>>,
    facts: &'a RecordingFacts,
    /// Maximum number of rows.
    pub max_rows: usize,
}

impl<'a> RowsShown<'a> {
    /// Rows of all devices except stacked ones, whose I/Os would be counted twice.
    pub fn of_all(facts: &'a RecordingFacts, max_rows: usize) -> RowsShown<'a> {
        RowsShown {
            devices: None,
            facts,
            max_rows,
        }
    }

    /// Rows of the devices that the user asked for; if there are none, as [`RowsShown::of_all`].
    pub fn of_asked(facts: &'a RecordingFacts, max_rows: usize) -> RowsShown<'a> {
        RowsShown {
            devices: Some(&facts.detailed).filter(|asked| !asked.is_empty()),
            facts,
            max_rows,
        }
    }

    /// Whether rows of `dev` are shown.
    pub fn has(&self, dev: DevId) -> bool {
        match self.devices {
            Some(devices) => devices.contains(&dev),
            None => !self.facts.layers.contains_key(&dev),
        }
    }
}
