//! Stages of single bios in an import: `stages/000001.parquet`, written once when the import is complete.

use std::ops::Range;
use std::path::Path;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::error::StoreError;
use super::rates::{Cells, damaged, path_of, with_file, write_table};
use crate::model::{BioStages, DevId};
use crate::private::Access;

const SCHEMA: &str = "message stages {
    REQUIRED INT64 done_ns; REQUIRED INT32 dev; OPTIONAL INT64 q2g_ns; OPTIONAL INT64 g2i_ns; OPTIONAL INT64 q2m_ns;
    OPTIONAL INT64 i2d_ns; OPTIONAL INT64 m2d_ns; REQUIRED INT64 d2c_ns; OPTIONAL INT64 q2c_ns; }";
/// Rows of one row group: what is in memory at once.
const GROUP: usize = 1 << 16;

/// Writes the ways of bios into a recording; nothing if there are none.
///
/// # Errors
/// The file system refuses or is full.
pub fn write_stages(
    recording: &Path,
    bios: &[BioStages],
    access: Access,
) -> Result<(), StoreError> {
    if bios.is_empty() {
        return Ok(());
    }
    write_table(
        recording,
        "stages",
        access,
        SCHEMA,
        bios.chunks(GROUP).map(columns),
    )
}

fn columns(bios: &[BioStages]) -> Vec<Cells> {
    let some = |f: fn(&BioStages) -> Option<i64>| Cells::OptionalLong(bios.iter().map(f).collect());
    vec![
        Cells::Long(bios.iter().map(|b| b.done_ns).collect()),
        Cells::Int(bios.iter().map(|b| b.dev.0).collect()),
        some(|b| b.q2g_ns),
        some(|b| b.g2i_ns),
        some(|b| b.q2m_ns),
        some(|b| b.i2d_ns),
        some(|b| b.m2d_ns),
        Cells::Long(bios.iter().map(|b| b.d2c_ns).collect()),
        some(|b| b.q2c_ns),
    ]
}

/// Gives the ways of bios to `take`, one row group in memory at a time; nothing if the recording has none.
///
/// # Errors
/// The file is damaged, or columns are missing.
pub fn read_stages(recording: &Path, mut take: impl FnMut(&BioStages)) -> Result<(), StoreError> {
    let path = path_of(recording, "stages");
    with_file(&path, |file| {
        let reader = SerializedFileReader::new(file).map_err(|e| damaged(&path, &e))?;
        for i in 0..reader.num_row_groups() {
            let group = reader.get_row_group(i).and_then(|group| rows(&*group));
            group
                .map_err(|e| damaged(&path, &e))?
                .iter()
                .for_each(&mut take);
        }
        Ok(())
    })
}

fn rows(group: &dyn RowGroupReader) -> Result<Vec<BioStages>, ParquetError> {
    let long = |name: &str| required(name, column::<Int64Type>(group, name)?);
    let (done, d2c) = (long("done_ns")?, long("d2c_ns")?);
    let dev = column::<Int32Type>(group, "dev")?;
    let stage = |name| column::<Int64Type>(group, name);
    let (q2g, g2i, q2m) = (stage("q2g_ns")?, stage("g2i_ns")?, stage("q2m_ns")?);
    let (i2d, m2d, q2c) = (stage("i2d_ns")?, stage("m2d_ns")?, stage("q2c_ns")?);
    let row = |i: usize| {
        Some(BioStages {
            done_ns: done[i],
            dev: DevId((*dev.get(i)?)?),
            q2g_ns: *q2g.get(i)?,
            g2i_ns: *g2i.get(i)?,
            q2m_ns: *q2m.get(i)?,
            i2d_ns: *i2d.get(i)?,
            m2d_ns: *m2d.get(i)?,
            d2c_ns: *d2c.get(i)?,
            q2c_ns: *q2c.get(i)?,
        })
    };
    (0..done.len())
        .map(|i| row(i).ok_or_else(|| missing("dev")))
        .collect()
}

pub(super) fn missing(name: &str) -> ParquetError {
    ParquetError::General(format!(
        "column {name} is missing or not as docs/recording-format.md has it"
    ))
}

/// The values of a column that has no nulls.
pub(super) fn required<T>(name: &str, values: Vec<Option<T>>) -> Result<Vec<T>, ParquetError> {
    values
        .into_iter()
        .collect::<Option<Vec<T>>>()
        .ok_or_else(|| missing(name))
}

/// A whole column of a row group, whether it may be null or not.
pub(super) fn column<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    column_of::<T>(
        group,
        name,
        &(0..usize::try_from(group.metadata().num_rows()).unwrap_or(0)),
    )
}

/// A column of some rows of a row group.
pub(super) fn column_of<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
    rows: &Range<usize>,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let schema = group.metadata().schema_descr();
    let at = schema
        .columns()
        .iter()
        .position(|c| c.path().string() == name)
        .ok_or_else(|| missing(name))?;
    let descriptor = schema.column(at);
    if descriptor.physical_type() != T::get_physical_type() || descriptor.max_rep_level() > 0 {
        return Err(missing(name));
    }
    let nullable = descriptor.max_def_level() > 0;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut read = reader.skip_records(rows.start)?;
    while read < rows.end {
        let levels = nullable.then_some(&mut levels);
        let (records, _, _) = reader.read_records(rows.end - read, levels, None, &mut values)?;
        if records == 0 {
            return Err(missing(name));
        }
        read += records;
    }
    let mut values = values.into_iter();
    if !nullable {
        return Ok(values.map(Some).collect());
    }
    Ok(levels
        .into_iter()
        .map(|level| if level > 0 { values.next() } else { None })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bio(i: i64) -> BioStages {
        let of = |every: i64| (i % every == 0).then_some(i);
        let (q2g_ns, g2i_ns, q2m_ns) = (of(2), of(3), of(5));
        let (i2d_ns, m2d_ns, q2c_ns) = (of(7), None, of(1));
        BioStages {
            done_ns: i,
            dev: DevId(7 << 20),
            q2g_ns,
            g2i_ns,
            q2m_ns,
            i2d_ns,
            m2d_ns,
            d2c_ns: i + 1,
            q2c_ns,
        }
    }

    fn read(dir: &Path) -> Result<Vec<BioStages>, StoreError> {
        let mut rows = Vec::new();
        read_stages(dir, |b| rows.push(*b)).map(|()| rows)
    }

    #[test]
    fn rows_come_back_with_their_gaps_over_several_groups() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rows: Vec<BioStages> = (0..GROUP as i64 + 3).map(bio).collect();
        write_stages(dir.path(), &rows, Access::OWNER).expect("writes");
        assert!(read(dir.path()).expect("reads") == rows);
    }

    #[test]
    fn none_and_damage() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert!(read(dir.path()).expect("nothing there").is_empty());
        write_stages(dir.path(), &[bio(1)], Access::OWNER).expect("writes");
        let path = path_of(dir.path(), "stages");
        let mut bytes = std::fs::read(&path).expect("there");
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&path, bytes).expect("writes");
        assert!(matches!(read(dir.path()), Err(StoreError::Damaged { .. })));
    }
}
