//! Which rows of a report's tables are printed.

use std::collections::BTreeSet;

use iolens_core::model::DevId;

use super::report_json::RecordingFacts;

/// Which rows a table by device has.
pub(super) struct RowsShown<'a> {
    /// Of these devices alone, if there are any.
    devices: Option<&'a BTreeSet<DevId>>,
    facts: &'a RecordingFacts,
    /// At most so many.
    pub max_rows: usize,
}

impl<'a> RowsShown<'a> {
    /// Of all devices but those above others, on which I/Os of other rows would count a second time.
    pub fn of_all(facts: &'a RecordingFacts, max_rows: usize) -> RowsShown<'a> {
        RowsShown {
            devices: None,
            facts,
            max_rows,
        }
    }

    /// Of the devices that the user asked for; if there are none, of all as in [`RowsShown::of_all`].
    pub fn of_asked(facts: &'a RecordingFacts, max_rows: usize) -> RowsShown<'a> {
        RowsShown {
            devices: Some(&facts.detailed).filter(|asked| !asked.is_empty()),
            facts,
            max_rows,
        }
    }

    /// Whether rows of `dev` are among them.
    pub fn has(&self, dev: DevId) -> bool {
        match self.devices {
            Some(devices) => devices.contains(&dev),
            None => !self.facts.layers.contains_key(&dev),
        }
    }
}
