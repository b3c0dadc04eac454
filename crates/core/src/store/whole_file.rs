//! Tables that are written as whole files, not row by row through the log: those of imports, and the sums, findings and
//! devices of an always-on recorder. If they were not written, they can be computed again. Their files have checksums
//! like segments ([`super::parquet_write`]); those of earlier versions have none.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::column::{Column, Ints, Texts};
use super::disk;
use super::error::StoreError;
use super::parquet_read::{ColumnChunk, ReadFailure, guarded};
use super::parquet_write::{CREATOR, with_checksums};
use super::schema::{ColumnDef, Kind, TableDef};
use super::whole_reader::WholeFile;
use crate::private::{Access, PrivateDir};

/// The one file of a table that has only one.
pub(super) fn path_of(recording: &Path, table: &TableDef) -> PathBuf {
    recording.join(table.name).join("000001.parquet")
}

/// Writes a table as its one file; each item of `groups` becomes a row group.
pub(super) fn write_table(
    recording: &Path,
    table: &TableDef,
    access: Access,
    groups: impl Iterator<Item = Vec<Column>>,
) -> Result<(), StoreError> {
    let path = path_of(recording, table);
    // Encoding to memory fails only if schema and columns disagree, which tests exclude.
    let bytes = encode(table, groups).map_err(|e| damaged(&path, &e))?;
    let written = PrivateDir::open(recording, access).and_then(|dir| {
        dir.make_dir(table.name)?;
        dir.write_atomically(path.strip_prefix(recording).unwrap_or(&path), &bytes)
    });
    written.map_err(|e| StoreError::io(&path, "write", e))
}

/// The bytes of a file of `table`.
pub(super) fn encode(
    table: &TableDef,
    groups: impl Iterator<Item = Vec<Column>>,
) -> Result<Vec<u8>, ParquetError> {
    // No page index: no checksum would cover it, and nothing reads it.
    let properties = WriterProperties::builder()
        .set_created_by(format!("{CREATOR} {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build();
    let schema = parse_message_type(&table.message())?;
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    for columns in groups {
        let mut group = writer.next_row_group()?;
        for (def, column) in table.columns.iter().zip(&columns) {
            let mut out = group.next_column()?.ok_or_else(|| missing(def.name))?;
            write_column(&mut out, def, column)?;
            out.close()?;
        }
        group.close()?;
    }
    with_checksums(writer)
}

fn write_column(
    out: &mut SerializedColumnWriter<'_>,
    def: &ColumnDef,
    column: &Column,
) -> Result<(), ParquetError> {
    match column {
        Column::Ints(ints) => {
            let levels = levels_of(def, ints);
            let levels = levels.as_deref();
            if def.kind == Kind::I32 {
                let values: Vec<i32> = known(ints).map(|v| v as i32).collect();
                out.typed::<Int32Type>()
                    .write_batch(&values, levels, None)?;
            } else {
                let values: Vec<i64> = known(ints).collect();
                out.typed::<Int64Type>()
                    .write_batch(&values, levels, None)?;
            }
        }
        Column::Texts(Texts { dictionary, index }) => {
            let words: Vec<ByteArray> = dictionary
                .iter()
                .map(|word| ByteArray::from(word.clone()))
                .collect();
            let values: Vec<ByteArray> = known(index).map(|i| words[i as usize].clone()).collect();
            let levels = levels_of(def, index);
            out.typed::<ByteArrayType>()
                .write_batch(&values, levels.as_deref(), None)?;
        }
        Column::Doubles(doubles) => {
            let levels: Vec<i16> = doubles.iter().map(|v| i16::from(v.is_some())).collect();
            let values: Vec<f64> = doubles.iter().copied().flatten().collect();
            out.typed::<DoubleType>()
                .write_batch(&values, Some(&levels), None)?;
        }
        Column::Lists(lists) => {
            let mut defined: Vec<i16> = Vec::with_capacity(lists.values.len());
            let mut repeated: Vec<i16> = Vec::with_capacity(lists.values.len());
            for row in 0..lists.ends.len() {
                // An empty list has one entry of levels, but no value.
                let n = lists.get(row).len();
                defined.extend(std::iter::repeat_n(i16::from(n > 0), n.max(1)));
                repeated.push(0);
                repeated.extend(std::iter::repeat_n(1, n.saturating_sub(1)));
            }
            out.typed::<Int32Type>()
                .write_batch(&lists.values, Some(&defined), Some(&repeated))?;
        }
        Column::Absent => return Err(missing(def.name)),
    }
    Ok(())
}

/// The values of the rows that have one.
fn known(ints: &Ints) -> impl Iterator<Item = i64> + '_ {
    let rows = ints.values.iter().enumerate();
    rows.filter(|(row, _)| ints.is_known(*row))
        .map(|(_, value)| *value)
}

/// Which rows of an optional column have a value.
fn levels_of(def: &ColumnDef, ints: &Ints) -> Option<Vec<i16>> {
    if def.required {
        return None;
    }
    Some(match &ints.valid {
        Some(valid) => valid.iter().map(|known| i16::from(*known)).collect(),
        None => vec![1; ints.len()],
    })
}

/// The columns in `selected` of some rows of a row group, by position. Others are absent, as are optional ones that the
/// file does not have.
pub(super) fn read_columns(
    group: &dyn RowGroupReader,
    table: &'static TableDef,
    rows: &Range<usize>,
    selected: impl Fn(usize) -> bool,
) -> Result<Vec<Column>, ParquetError> {
    let mut columns = Vec::with_capacity(table.columns.len());
    for (i, def) in table.columns.iter().enumerate() {
        let column = if selected(i) {
            read_column(group, def, rows)?
        } else {
            Column::Absent
        };
        columns.push(column);
    }
    Ok(columns)
}

/// All columns of a row group.
pub(super) fn read_group(
    group: &dyn RowGroupReader,
    table: &'static TableDef,
) -> Result<Vec<Column>, ParquetError> {
    read_columns(group, table, &(0..rows_of(group)), |_| true)
}

/// How many rows a row group has.
pub(super) fn rows_of(group: &dyn RowGroupReader) -> usize {
    usize::try_from(group.metadata().num_rows()).unwrap_or(0)
}

/// One column of some rows of a row group.
pub(super) fn read_column(
    group: &dyn RowGroupReader,
    def: &'static ColumnDef,
    rows: &Range<usize>,
) -> Result<Column, ParquetError> {
    let schema = group.metadata().schema_descr();
    // The elements of a list are a leaf below it, whose name differs between writers.
    let leaf = schema.columns().iter().position(|c| {
        let path = c.path().parts();
        match def.kind {
            Kind::List => path.first().is_some_and(|name| name == def.name),
            _ => path == [def.name],
        }
    });
    let Some(leaf) = leaf else {
        return if def.required {
            Err(missing(def.name))
        } else {
            Ok(Column::Absent)
        };
    };
    let column = schema.column(leaf);
    let fits = match def.kind {
        Kind::I32 | Kind::I64 => {
            matches!(column.physical_type(), Physical::INT32 | Physical::INT64)
        }
        Kind::Text => column.physical_type() == Physical::BYTE_ARRAY,
        Kind::F64 => matches!(column.physical_type(), Physical::DOUBLE | Physical::FLOAT),
        Kind::List => column.physical_type() == Physical::INT32,
    };
    if !fits || column.max_rep_level() != i16::from(def.kind == Kind::List) {
        return Err(missing(def.name));
    }
    let mut chunk = ColumnChunk::of_whole_file(group, leaf, def)?;
    let read = chunk
        .skip(rows.start)
        .and_then(|()| chunk.read(Path::new(""), rows.len()));
    read.map_err(|trouble| match trouble {
        ReadFailure::Damage(what) => ParquetError::General(what),
        ReadFailure::Fatal(StoreError::BadColumn {
            column, problem, ..
        }) => ParquetError::General(format!("column {column} {problem}")),
        ReadFailure::Fatal(_) | ReadFailure::Gone => missing(def.name),
    })
}

/// A column that is not what it must be.
pub(super) fn missing(name: &str) -> ParquetError {
    ParquetError::General(format!(
        "column {name} is missing or not as docs/recording-format.md has it"
    ))
}

/// The error for a damaged file.
pub(super) fn damaged(path: &Path, e: &ParquetError) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        what: e.to_string(),
    }
}

/// Runs `read` on the file of an optional table; does nothing if the file does not exist. If the Parquet library
/// panics, the file is damaged.
pub(super) fn with_file(
    path: &Path,
    read: impl FnOnce(&WholeFile) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let file = match disk::open_regular(path) {
        Ok(f) => f,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io(path, "read", e)),
    };
    let result = guarded(|| read(&WholeFile::read(path, file)?).map_err(ReadFailure::Fatal));
    result.map_err(|trouble| match trouble {
        ReadFailure::Fatal(e) => e,
        ReadFailure::Damage(what) => StoreError::Damaged {
            path: path.to_owned(),
            what,
        },
        ReadFailure::Gone => StoreError::Damaged {
            path: path.to_owned(),
            what: "it was removed meanwhile".to_owned(),
        },
    })
}

/// Passes the row groups of a file to `take`, one after the other; does nothing if the file does not exist.
pub(super) fn each_group(
    path: &Path,
    mut take: impl FnMut(&dyn RowGroupReader) -> Result<(), ParquetError>,
) -> Result<(), StoreError> {
    with_file(path, |file| {
        for i in 0..file.meta().num_row_groups() {
            let group = file.group(i);
            let taken = group.and_then(|group| take(&*group));
            taken.map_err(|e| damaged(path, &e))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tables::devices;

    #[test]
    fn a_panic_of_the_decoder_is_damage() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("table");
        with_file(&path, |_| panic!("no call without a file")).expect("nothing");
        let bytes = encode(&devices::TABLE, std::iter::empty()).expect("encodes");
        std::fs::write(&path, bytes).expect("writes");
        let e = with_file(&path, |_| panic!("deep inside"))
            .expect_err("damaged")
            .to_string();
        assert!(
            e.contains("table: damaged") && !e.contains("deep inside"),
            "{e}"
        );
    }
}
