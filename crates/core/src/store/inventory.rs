//! Lists the contents of a recording by table.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::reader::Recording;
use super::schema::{Table, TableDef};
use super::whole_file::with_file;
use super::{sums, tables, wal};

/// Tables that are written as whole files.
pub(super) const WHOLE: [&TableDef; 8] = [
    &tables::rates::TABLE,
    &tables::stages::TABLE,
    &tables::cpu::TABLE,
    &tables::rollup::TABLE,
    &tables::actors::TABLE,
    &tables::waits::TABLE,
    &tables::findings::TABLE,
    &tables::devices::TABLE,
];

/// One table of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableContent {
    /// Its directory in the recording.
    pub name: &'static str,
    /// Parquet files and logs.
    pub files: u64,
    /// Of all of them.
    pub bytes: u64,
    /// `None` if a file does not give it.
    pub rows: Option<u64>,
}

impl Recording {
    /// The tables of the recording, those of single observations first.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn contents(&self) -> Result<Vec<TableContent>, StoreError> {
        let logs = names_in(&self.path.join("wal"))?;
        let mut found = Vec::new();
        for table in Table::ALL {
            let mut paths = parquet_files(&self.path, table.name())?;
            for log in &logs {
                if wal::parse_name(log).is_some_and(|(of, _)| of == table) {
                    paths.push(self.path.join("wal").join(log));
                }
            }
            let blocks = &self.blocks[table as usize - 1];
            let rows = blocks.iter().map(|b| b.rows as u64).sum();
            found.push(content(table.name(), &paths, Some(rows)));
        }
        for table in WHOLE {
            let paths = parquet_files(&self.path, table.name)?;
            let mut rows = Some(0);
            for path in &paths {
                rows = rows.zip(rows_of_whole(path)).map(|(a, b)| a + b);
            }
            found.push(content(table.name, &paths, rows));
        }
        found.retain(|table| table.files > 0);
        Ok(found)
    }
}

fn content(name: &'static str, paths: &[PathBuf], rows: Option<u64>) -> TableContent {
    let sizes = paths.iter().map(|p| fs::metadata(p).map_or(0, |m| m.len()));
    TableContent {
        name,
        files: paths.len() as u64,
        bytes: sizes.sum(),
        rows,
    }
}

/// The Parquet files of a table, in order.
pub(super) fn parquet_files(recording: &Path, table: &str) -> Result<Vec<PathBuf>, StoreError> {
    let names = sums::files(recording, table)?;
    let dir = recording.join(table);
    Ok(names.iter().map(|name| dir.join(name)).collect())
}

/// Names in a directory; none if it is not there.
pub(super) fn names_in(dir: &Path) -> Result<BTreeSet<String>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        other => other.map_err(|e| StoreError::io(dir, "read", e))?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io(dir, "read", e))?;
        names.insert(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Rows that the footer of a whole table's file claims; `None` if it cannot be read.
fn rows_of_whole(path: &Path) -> Option<u64> {
    let mut rows = None;
    let read = with_file(path, |file| {
        rows = u64::try_from(file.meta().file_metadata().num_rows()).ok();
        Ok(())
    });
    read.ok().and(rows)
}
