//! Time series over the recordings of a root, from the coarsest source that fits the step.

use std::sync::atomic::{AtomicUsize, Ordering};

use iolens_core::analysis::timeline::{GroupBy, Row};

use super::error::{QueryError, Result};
use super::parallel;
use super::part::Tier;
use super::query::{Grain, Query, Step};
use super::view::PlannedRows;

/// The specification of a time series.
pub struct Series<'a> {
    /// Which place, devices and time.
    pub query: Query<'a>,
    /// Length of a row in nanoseconds; `None`: chosen so that the rows fill a chart.
    pub step_ns: Option<i64>,
    /// Subject of a row.
    pub by: GroupBy,
    /// Whether to compute percentiles, I/Os in flight and busy time.
    pub extended: bool,
}

/// Maximum number of rows of an answer: what a page can draw and a client can hold.
const MAX_ROWS: usize = 200_000;
/// Preferred number of rows if no step is given: about the width of a chart.
const DEFAULT_ROWS: i64 = 900;

/// The rows of one piece with their names, and the index of the piece.
type RowsOfPiece = (usize, Vec<(Row, String)>);

impl Series<'_> {
    /// Passes each row, in Unix time, to `show`, with the start of the first recording and the name of its group.
    /// Returns the step that was used.
    ///
    /// # Errors
    /// No recording holds the time, or the rows are too many.
    pub fn each_row(self, mut show: impl FnMut(i64, &Row, &str)) -> Result<i64> {
        let caller = self.query.caller;
        let found = self.query.parts(Grain::Rows {
            step: Step::Fitting {
                given: self.step_ns,
                usual: DEFAULT_ROWS,
                most: MAX_ROWS,
            },
            by: self.by,
            tier: Tier::Coarsest,
        })?;
        let step_ns = found.step_ns.unwrap_or(0);
        let mut views = Vec::new();
        for part in found.parts {
            views.push(PlannedRows::new(part, self.by, self.extended, caller)?);
        }
        let start_unix_ns = views.first().map_or(0, PlannedRows::start_unix_ns);
        let count = AtomicUsize::new(0);
        let mut pieces = Vec::new();
        for view in &views {
            pieces.extend(view.pieces().into_iter().map(|piece| (view, piece)));
        }
        // With a single piece, rows are shown as they come.
        if let [(view, _)] = pieces.as_slice() {
            view.show(view.start_unix_ns(), caller, |row, name| {
                count_row(&count)?;
                show(start_unix_ns, row, name);
                Ok(())
            })?;
            return Ok(step_ns);
        }
        // With several pieces, rows are collected first, because threads end in any order.
        let gathered = parallel::shared(&pieces, caller, Vec::new, |of_thread, i, piece| {
            let (view, range) = piece;
            let mut rows = Vec::new();
            view.show_piece(range.clone(), view.start_unix_ns(), caller, |row, name| {
                count_row(&count)?;
                rows.push((row.clone(), name.to_owned()));
                Ok(())
            })?;
            of_thread.push((i, rows));
            Ok(())
        })?;
        let mut parts: Vec<RowsOfPiece> = gathered.concat();
        parts.sort_unstable_by_key(|(i, _)| *i);
        for (row, name) in parts.iter().flat_map(|(_, rows)| rows) {
            show(start_unix_ns, row, name);
        }
        Ok(step_ns)
    }
}

/// Counts a row of the answer. Called on any thread.
///
/// # Errors
/// There are too many.
fn count_row(count: &AtomicUsize) -> Result<()> {
    if count.fetch_add(1, Ordering::Relaxed) < MAX_ROWS {
        Ok(())
    } else {
        Err(QueryError::TooManyRows(MAX_ROWS))
    }
}
