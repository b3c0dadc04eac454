//! Tables of sums by time, `TABLE/STEPs-NNNNNN.parquet`. Each step has its own files, so that finer sums can be removed
//! while coarser ones stay. They are not in the write-ahead log: sums that a killed recorder had not written are
//! recomputed from its I/Os.

use std::fs;
use std::ops::Range;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;

use super::column::Column;
use super::error::StoreError;
use super::schema::TableDef;
use super::whole_file::{damaged, encode, read_group, rows_of, with_file};
use crate::private::{Access, PrivateDir};

/// Rows per row group, which is the unit held in memory.
pub(in crate::store) const GROUP: usize = 1 << 14;

/// A row of a table of sums. It is always written and read with all its columns.
pub(in crate::store) trait SumRow: Sized {
    /// Its table.
    const TABLE: &'static TableDef;

    /// The step in seconds, and the start of the slot.
    fn slot(&self) -> (i32, i64);

    /// The columns of rows, in the order of the table.
    fn collect(rows: &[Self]) -> Vec<Column>;

    /// Row `i` of the columns of a row group.
    fn read(columns: &[Column], i: usize) -> Result<Self, ParquetError>;
}

/// Encodes `rows`, ordered by time, as a file.
pub(in crate::store) fn encode_rows<R: SumRow>(rows: &[R]) -> Result<Vec<u8>, ParquetError> {
    encode(R::TABLE, rows.chunks(GROUP).map(R::collect))
}

/// Like [`read`], decoding all rows of each row group.
pub(in crate::store) fn read_rows<R: SumRow>(
    recording: &Path,
    step_s: i32,
    range: &Range<i64>,
    take: impl FnMut(R),
) -> Result<Vec<String>, StoreError> {
    read(
        recording,
        R::TABLE.name,
        step_s,
        range,
        rows_in::<R>,
        R::slot,
        take,
    )
}

fn rows_in<R: SumRow>(group: &dyn RowGroupReader) -> Result<Vec<R>, ParquetError> {
    let columns = read_group(group, R::TABLE)?;
    (0..rows_of(group)).map(|i| R::read(&columns, i)).collect()
}

/// Name of a file inside the directory of its recording.
pub(crate) fn file_name(table: &str, step_s: i32, number: u32) -> String {
    format!("{table}/{step_s}s-{number:06}.parquet")
}

/// Step and number parsed from a file name.
pub(crate) fn parse_name(name: &str) -> Option<(i32, u32)> {
    let (step, number) = name.strip_suffix(".parquet")?.split_once("s-")?;
    Some((step.parse().ok()?, number.parse().ok()?))
}

/// Names of the Parquet files of a table of a recording, in order; none if it has no such table.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn files(recording: &Path, table: &str) -> Result<Vec<String>, StoreError> {
    let dir = recording.join(table);
    let entries = match fs::read_dir(&dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|e| StoreError::io(&dir, "read", e))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io(&dir, "read", e))?;
        names.extend(
            entry
                .file_name()
                .to_str()
                .filter(|n| n.ends_with(".parquet"))
                .map(str::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

/// The steps in seconds that a table has, the finest first.
pub(in crate::store) fn steps(recording: &Path, table: &str) -> Result<Vec<i32>, StoreError> {
    let mut steps: Vec<i32> = files(recording, table)?
        .iter()
        .filter_map(|name| Some(parse_name(name)?.0))
        .collect();
    steps.sort_unstable();
    steps.dedup();
    Ok(steps)
}

/// End of the newest slot of `step_s`; 0 if there is none. Damaged files are ignored.
pub(in crate::store) fn until(
    recording: &Path,
    table: &str,
    step_s: i32,
) -> Result<i64, StoreError> {
    let mut until_ns = 0;
    for name in files(recording, table)?
        .iter()
        .filter(|n| parse_name(n).is_some_and(|(step, _)| step == step_s))
    {
        let path = recording.join(table).join(name);
        // A damaged file contributes nothing.
        drop(with_file(&path, |file| {
            let latest = file.meta().row_groups().iter().filter_map(|g| {
                match g
                    .columns()
                    .iter()
                    .find(|c| c.column_path().string() == "at_ns")?
                    .statistics()?
                {
                    Statistics::Int64(s) => s.max_opt().copied(),
                    _ => None,
                }
            });
            let end_ns = latest.max().map_or(0, |at_ns| {
                at_ns.saturating_add(i64::from(step_s) * 1_000_000_000)
            });
            until_ns = until_ns.max(end_ns);
            Ok(())
        }));
    }
    Ok(until_ns)
}

/// Passes the rows of `step_s` whose slots start in `range` to `take`, file by file, with one row group in memory at a
/// time. `decode` may skip rows of a row group; `slot` returns a row's step and slot start. Rows after damage in a file
/// are skipped; the damage is returned as warnings.
pub(in crate::store) fn read<R>(
    recording: &Path,
    table: &str,
    step_s: i32,
    range: &Range<i64>,
    decode: impl Fn(&dyn RowGroupReader) -> Result<Vec<R>, ParquetError>,
    slot: impl Fn(&R) -> (i32, i64),
    mut take: impl FnMut(R),
) -> Result<Vec<String>, StoreError> {
    let mut warnings = Vec::new();
    for name in files(recording, table)? {
        if parse_name(&name).is_some_and(|(step, _)| step != step_s) {
            continue;
        }
        let path = recording.join(table).join(&name);
        let read = each_row(&path, range, &decode, |row| {
            let (own_step_s, at_ns) = slot(&row);
            if own_step_s == step_s && range.contains(&at_ns) {
                take(row);
            }
        });
        match read {
            Ok(()) => {}
            Err(e @ StoreError::Damaged { .. }) => {
                warnings.push(format!("{e}; rows of {table} are missing"))
            }
            Err(e) => return Err(e),
        }
    }
    Ok(warnings)
}

/// Passes the rows of those row groups of one file that may overlap `range` to `take`.
fn each_row<R>(
    path: &Path,
    range: &Range<i64>,
    decode: &impl Fn(&dyn RowGroupReader) -> Result<Vec<R>, ParquetError>,
    mut take: impl FnMut(R),
) -> Result<(), StoreError> {
    with_file(path, |file| {
        for i in 0..file.meta().num_row_groups() {
            let group = file.group(i).map_err(|e| damaged(path, &e))?;
            if !meets(&*group, range) {
                continue;
            }
            for row in decode(&*group).map_err(|e| damaged(path, &e))? {
                take(row);
            }
        }
        Ok(())
    })
}

/// A file's bytes.
type Encoded = Result<Vec<u8>, ParquetError>;

/// Writes one file for each step with rows, into a recording that no process writes to any more.
pub(in crate::store) fn write_missing<const STEPS: usize>(
    recording: &Path,
    table: &str,
    access: Access,
    written: [Option<(i32, Encoded)>; STEPS],
) -> Result<(), StoreError> {
    if written.iter().all(Option::is_none) {
        return Ok(());
    }
    let dir = PrivateDir::open_own(recording, access)
        .map_err(|e| StoreError::io(recording, "write to", e))?;
    let mut number = files(recording, table)?
        .iter()
        .filter_map(|n| Some(parse_name(n)?.1))
        .max()
        .unwrap_or(0);
    let made = dir.make_dir(table).and_then(|()| dir.sync(Path::new(".")));
    made.map_err(|e| StoreError::io(&recording.join(table), "create", e))?;
    for (step_s, bytes) in written.into_iter().flatten() {
        number += 1;
        let name = file_name(table, step_s, number);
        let path = recording.join(&name);
        let bytes = bytes.map_err(|e| damaged(&path, &e))?;
        dir.write_atomically(&name, &bytes)
            .map_err(|e| StoreError::io(&path, "write", e))?;
    }
    Ok(())
}

/// Whether a row group can have rows of `range`, by its statistics.
fn meets(group: &dyn RowGroupReader, range: &Range<i64>) -> bool {
    let columns = group.metadata().columns();
    let time = columns
        .iter()
        .find(|c| c.column_path().string() == "at_ns")
        .and_then(|c| c.statistics());
    match time {
        Some(Statistics::Int64(s)) => {
            s.min_opt().is_none_or(|min| *min < range.end)
                && s.max_opt().is_none_or(|max| *max >= range.start)
        }
        _ => true,
    }
}
