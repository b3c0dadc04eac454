//! Converts rows of logged tables to columns and back; [`super::tables`] implements it for each table.

use super::column::Column;
use super::frame_encoder::FrameEncoder;
use super::schema::Table;

/// A row of a table that is logged.
pub(crate) trait Row: Clone {
    const TABLE: Table;

    /// The instant by which the table is ordered.
    fn time(&self) -> i64;

    /// Shifts all times of the row by `ns`.
    fn shift(&mut self, ns: i64);

    /// Hands the values of every column to `e`, in the order of the table's schema.
    fn encode(rows: &[Self], e: &mut FrameEncoder);

    /// Row `i` of decoded columns. Required columns have been checked; a missing value there reads as 0 or "".
    fn assemble(columns: &[Column], i: usize) -> Self;

    /// Appends the first `n` rows of decoded columns.
    fn assemble_all(columns: &[Column], n: usize, out: &mut Vec<Self>) {
        out.extend((0..n).map(|i| Self::assemble(columns, i)));
    }
}
