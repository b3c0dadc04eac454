//! Rows of imported tables: `rates/000001.parquet` and `cpu/000001.parquet`, written once when an import is complete.
//!
//! `rates` is long: one row per interval, device and class (`read`, `write`, `discard`, `flush`, or `all` for what the
//! table gives for all classes together, with queue length and utilisation). Columns: `from_ns` and `to_ns` i64, `dev`
//! i32, `class` text, and as doubles, each null where the source did not say: `ios_per_s`, `bytes_per_s`,
//! `merges_per_s`, `mean_us`, `in_flight`, `util_percent`, `service_us`. `cpu`: `from_ns`, `to_ns`, and `user`, `nice`,
//! `system`, `iowait`, `steal`, `idle` in percent.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;

use super::disk;
use super::error::StoreError;
use super::parquet_read::{Trouble, guarded};
use crate::model::{Class, ClassRates, CpuShares, DevId, IntervalRates, RateRows};
use crate::private::{Access, PrivateDir};

const RATES_SCHEMA: &str = "message rates {
    REQUIRED INT64 from_ns; REQUIRED INT64 to_ns; REQUIRED INT32 dev; REQUIRED BYTE_ARRAY class (UTF8);
    OPTIONAL DOUBLE ios_per_s; OPTIONAL DOUBLE bytes_per_s; OPTIONAL DOUBLE merges_per_s; OPTIONAL DOUBLE mean_us;
    OPTIONAL DOUBLE in_flight; OPTIONAL DOUBLE util_percent; OPTIONAL DOUBLE service_us; }";
const CPU_SCHEMA: &str = "message cpu {
    REQUIRED INT64 from_ns; REQUIRED INT64 to_ns;
    OPTIONAL DOUBLE user; OPTIONAL DOUBLE nice; OPTIONAL DOUBLE system;
    OPTIONAL DOUBLE iowait; OPTIONAL DOUBLE steal; OPTIONAL DOUBLE idle; }";
const ALL: &str = "all";
/// Rows of a table in one row group: what is in memory at once.
const GROUP: usize = 1 << 14;

/// A column ready to be written.
pub(super) enum Cells {
    Long(Vec<i64>),
    OptionalLong(Vec<Option<i64>>),
    Int(Vec<i32>),
    OptionalInt(Vec<Option<i32>>),
    Text(Vec<ByteArray>),
    OptionalText(Vec<Option<ByteArray>>),
    Double(Vec<Option<f64>>),
    /// A list of each row, which may be empty.
    Lists(Vec<Vec<i32>>),
}

pub(super) fn path_of(recording: &Path, table: &str) -> PathBuf {
    recording.join(table).join("000001.parquet")
}

/// Writes the rows of imported tables into a recording; nothing for empty ones.
///
/// # Errors
/// The file system refuses or is full; there are more rows than readers take.
pub fn write_rates(
    recording: &Path,
    rates: &RateRows,
    cpu: &[CpuShares],
    access: Access,
) -> Result<(), StoreError> {
    for (table, rows) in [("rates", rates.len()), ("cpu", cpu.len())] {
        if rows > MAX_ROWS {
            let why = io::Error::other(format!("{rows} rows, {}", too_many_rows()));
            return Err(StoreError::Io {
                path: path_of(recording, table),
                doing: "write",
                why,
            });
        }
    }
    put_rates(recording, rates, cpu, access)
}

fn put_rates(
    recording: &Path,
    rates: &RateRows,
    cpu: &[CpuShares],
    access: Access,
) -> Result<(), StoreError> {
    if !rates.is_empty() {
        let mut rows = rates.iter();
        let groups = std::iter::from_fn(|| {
            let group: Vec<IntervalRates> = rows.by_ref().take(GROUP).collect();
            let long: Vec<(&IntervalRates, Option<Class>)> =
                group.iter().flat_map(spread).collect();
            (!long.is_empty()).then(|| rate_columns(&long))
        });
        write_table(recording, "rates", access, RATES_SCHEMA, groups)?;
    }
    if !cpu.is_empty() {
        write_table(
            recording,
            "cpu",
            access,
            CPU_SCHEMA,
            cpu.chunks(GROUP).map(cpu_columns),
        )?;
    }
    Ok(())
}

/// The classes with values in a row; `None` is all together and always present.
fn spread(r: &IntervalRates) -> impl Iterator<Item = (&IntervalRates, Option<Class>)> {
    let classes = Class::ALL
        .into_iter()
        .filter(|c| !r.classes[*c as usize].is_empty())
        .map(Some);
    classes.chain([None]).map(move |c| (r, c))
}

fn rate_columns(long: &[(&IntervalRates, Option<Class>)]) -> Vec<Cells> {
    let of = |f: fn(&ClassRates) -> Option<f64>| {
        Cells::Double(
            long.iter()
                .map(|(r, c)| f(c.map_or(&r.all, |c| &r.classes[c as usize])))
                .collect(),
        )
    };
    let whole = |f: fn(&IntervalRates) -> Option<f64>| {
        Cells::Double(
            long.iter()
                .map(|(r, c)| if c.is_none() { f(r) } else { None })
                .collect(),
        )
    };
    vec![
        Cells::Long(long.iter().map(|(r, _)| r.from_ns).collect()),
        Cells::Long(long.iter().map(|(r, _)| r.to_ns).collect()),
        Cells::Int(long.iter().map(|(r, _)| r.dev.0).collect()),
        Cells::Text(
            long.iter()
                .map(|(_, c)| ByteArray::from(c.map_or(ALL, Class::name)))
                .collect(),
        ),
        of(|c| c.ios_per_s),
        of(|c| c.bytes_per_s),
        of(|c| c.merges_per_s),
        of(|c| c.mean_us),
        whole(|r| r.in_flight),
        whole(|r| r.util_percent),
        whole(|r| r.service_us),
    ]
}

fn cpu_columns(cpu: &[CpuShares]) -> Vec<Cells> {
    let of = |f: fn(&CpuShares) -> Option<f64>| Cells::Double(cpu.iter().map(f).collect());
    vec![
        Cells::Long(cpu.iter().map(|c| c.from_ns).collect()),
        Cells::Long(cpu.iter().map(|c| c.to_ns).collect()),
        of(|c| c.user),
        of(|c| c.nice),
        of(|c| c.system),
        of(|c| c.iowait),
        of(|c| c.steal),
        of(|c| c.idle),
    ]
}

pub(super) fn write_table(
    recording: &Path,
    table: &str,
    access: Access,
    schema: &str,
    groups: impl Iterator<Item = Vec<Cells>>,
) -> Result<(), StoreError> {
    let path = path_of(recording, table);
    // Encoding to memory fails only if schema and columns disagree, which the tests would have shown.
    let bytes = encode(schema, groups).map_err(|e| damaged(&path, &e))?;
    let written = PrivateDir::open(recording, access).and_then(|dir| {
        dir.make_dir(table)?;
        dir.write_atomically(path.strip_prefix(recording).unwrap_or(&path), &bytes)
    });
    written.map_err(|e| StoreError::io(&path, "write", e))
}

pub(super) fn encode(
    schema: &str,
    groups: impl Iterator<Item = Vec<Cells>>,
) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_created_by(format!("iolens {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut writer = SerializedFileWriter::new(
        Vec::new(),
        Arc::new(parse_message_type(schema)?),
        Arc::new(properties),
    )?;
    for columns in groups {
        let mut group = writer.next_row_group()?;
        let mut columns = columns.into_iter();
        while let Some(mut out) = group.next_column()? {
            match columns.next() {
                Some(Cells::Long(v)) => drop(out.typed::<Int64Type>().write_batch(&v, None, None)?),
                Some(Cells::OptionalLong(v)) => {
                    let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                    let values: Vec<i64> = v.into_iter().flatten().collect();
                    out.typed::<Int64Type>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Some(Cells::Int(v)) => drop(out.typed::<Int32Type>().write_batch(&v, None, None)?),
                Some(Cells::OptionalInt(v)) => {
                    let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                    let values: Vec<i32> = v.into_iter().flatten().collect();
                    out.typed::<Int32Type>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Some(Cells::Lists(v)) => {
                    let of = |list: &Vec<i32>| {
                        (0..list.len().max(1))
                            .map(|i| i16::from(i > 0))
                            .collect::<Vec<i16>>()
                    };
                    let repeated: Vec<i16> = v.iter().flat_map(of).collect();
                    let of = |list: &Vec<i32>| vec![i16::from(!list.is_empty()); list.len().max(1)];
                    let defined: Vec<i16> = v.iter().flat_map(of).collect();
                    let values: Vec<i32> = v.into_iter().flatten().collect();
                    out.typed::<Int32Type>().write_batch(
                        &values,
                        Some(&defined),
                        Some(&repeated),
                    )?;
                }
                Some(Cells::Text(v)) => {
                    out.typed::<ByteArrayType>().write_batch(&v, None, None)?;
                }
                Some(Cells::OptionalText(v)) => {
                    let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                    let values: Vec<ByteArray> = v.into_iter().flatten().collect();
                    out.typed::<ByteArrayType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Some(Cells::Double(v)) => {
                    let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                    let values: Vec<f64> = v.into_iter().flatten().collect();
                    out.typed::<DoubleType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                None => {
                    return Err(ParquetError::General(
                        "fewer columns than the schema has".to_owned(),
                    ));
                }
            }
            out.close()?;
        }
        group.close()?;
    }
    writer.into_inner()
}

pub(super) fn damaged(path: &Path, e: &ParquetError) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        what: e.to_string(),
    }
}

/// Reads the rows of imported tables, ordered by the end of their intervals; nothing if the recording has none.
///
/// # Errors
/// A file is damaged.
pub fn read_rates(recording: &Path) -> Result<Vec<IntervalRates>, StoreError> {
    let mut out: Vec<IntervalRates> = Vec::new();
    for_each_row(&path_of(recording, "rates"), |row| {
        let key = (
            long(row, "from_ns")?,
            long(row, "to_ns")?,
            DevId(int(row, "dev")?),
        );
        // Rows of one interval and device follow each other; other writers may not keep that, then there are more rows.
        if out
            .last()
            .is_none_or(|r| (r.from_ns, r.to_ns, r.dev) != key)
        {
            out.push(IntervalRates::new(key.0, key.1, key.2));
        }
        let r = out.last_mut()?;
        let class = text(row, "class")?;
        let rates = ClassRates {
            ios_per_s: double(row, "ios_per_s"),
            bytes_per_s: double(row, "bytes_per_s"),
            merges_per_s: double(row, "merges_per_s"),
            mean_us: double(row, "mean_us"),
        };
        match Class::ALL.into_iter().find(|c| c.name() == class) {
            Some(c) => r.classes[c as usize] = rates,
            None => {
                r.all = rates;
                r.in_flight = double(row, "in_flight");
                r.util_percent = double(row, "util_percent");
                r.service_us = double(row, "service_us");
            }
        }
        Some(out.len())
    })?;
    out.sort_by_key(|r| r.to_ns);
    Ok(out)
}

/// Reads the processors' shares of an import.
///
/// # Errors
/// A file is damaged.
pub fn read_cpu(recording: &Path) -> Result<Vec<CpuShares>, StoreError> {
    let mut out = Vec::new();
    for_each_row(&path_of(recording, "cpu"), |row| {
        let d = |name| double(row, name);
        out.push(CpuShares {
            from_ns: long(row, "from_ns")?,
            to_ns: long(row, "to_ns")?,
            user: d("user"),
            nice: d("nice"),
            system: d("system"),
            iowait: d("iowait"),
            steal: d("steal"),
            idle: d("idle"),
        });
        Some(out.len())
    })?;
    Ok(out)
}

/// Rows of tables that are held as a whole: more than a gigabyte.
const MAX_ROWS: usize = if cfg!(test) { 1 << 15 } else { 4 << 20 };

fn too_many_rows() -> String {
    format!("more than {MAX_ROWS} rows; split the log and import its parts apart")
}

/// Runs `read` on the file of a table that not every recording has; nothing if it is not there. Where the Parquet library
/// panics the file is damaged.
pub(super) fn with_file(
    path: &Path,
    read: impl FnOnce(File) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let file = match disk::open_regular(path) {
        Ok(f) => f,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io(path, "read", e)),
    };
    guarded(|| read(file).map_err(Trouble::Fatal)).map_err(|trouble| match trouble {
        Trouble::Fatal(e) => e,
        Trouble::Damage(what) => StoreError::Damaged {
            path: path.to_owned(),
            what,
        },
        Trouble::Gone => StoreError::Damaged {
            path: path.to_owned(),
            what: "it was removed meanwhile".to_owned(),
        },
    })
}

/// `take` says how many rows it holds; `None` if the row is not what it must be.
fn for_each_row(path: &Path, take: impl FnMut(&Row) -> Option<usize>) -> Result<(), StoreError> {
    with_file(path, |file| each_row_of(path, file, take))
}

fn each_row_of(
    path: &Path,
    file: File,
    mut take: impl FnMut(&Row) -> Option<usize>,
) -> Result<(), StoreError> {
    let reader = SerializedFileReader::new(file).map_err(|e| damaged(path, &e))?;
    for row in reader.get_row_iter(None).map_err(|e| damaged(path, &e))? {
        let row = row.map_err(|e| damaged(path, &e))?;
        let held = take(&row);
        if held > Some(MAX_ROWS) {
            let what = too_many_rows();
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                what,
            });
        }
        if held.is_none() {
            let what = "a required column is missing or of another type; see docs/import.md for the columns".to_owned();
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                what,
            });
        }
    }
    Ok(())
}

fn field<'a>(row: &'a Row, name: &str) -> Option<&'a Field> {
    row.get_column_iter()
        .find(|(n, _)| *n == name)
        .map(|(_, f)| f)
}

fn long(row: &Row, name: &str) -> Option<i64> {
    match field(row, name)? {
        Field::Long(v) => Some(*v),
        Field::Int(v) => Some(i64::from(*v)),
        _ => None,
    }
}

fn int(row: &Row, name: &str) -> Option<i32> {
    i32::try_from(long(row, name)?).ok()
}

fn text<'a>(row: &'a Row, name: &str) -> Option<&'a str> {
    match field(row, name)? {
        Field::Str(s) => Some(s),
        _ => None,
    }
}

fn double(row: &Row, name: &str) -> Option<f64> {
    match field(row, name)? {
        Field::Double(v) => Some(*v),
        Field::Float(v) => Some(f64::from(*v)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_with_their_gaps() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut a = IntervalRates::new(0, 100, DevId::new(0, 1));
        a.classes[0] = ClassRates {
            ios_per_s: Some(20.0),
            mean_us: Some(136_888.0),
            ..ClassRates::default()
        };
        a.util_percent = Some(99.8);
        let b = IntervalRates::new(100, 200, DevId::new(0, 1));
        let cpu = CpuShares {
            from_ns: 0,
            to_ns: 100,
            user: Some(1.5),
            ..CpuShares::default()
        };
        write_rates(dir.path(), &[a, b].iter().collect(), &[cpu], Access::OWNER).expect("writes");
        assert_eq!(read_rates(dir.path()).expect("reads"), [a, b]);
        assert_eq!(read_cpu(dir.path()).expect("reads"), [cpu]);
    }

    #[test]
    fn more_rows_than_one_group_holds() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rows: Vec<_> = (0..GROUP as i64 + 3)
            .map(|i| IntervalRates::new(i, i + 1, DevId(1)))
            .collect();
        write_rates(dir.path(), &rows.iter().collect(), &[], Access::OWNER).expect("writes");
        assert!(read_rates(dir.path()).expect("reads") == rows);
    }

    #[test]
    fn more_rows_than_memory_should_hold_are_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rows: RateRows = (0..MAX_ROWS as i64 + 1)
            .map(|i| IntervalRates::new(i, i + 1, DevId(1)))
            .collect::<Vec<_>>()
            .iter()
            .collect();
        let refused = |e: StoreError| {
            let e = e.to_string();
            assert!(
                e.contains("rates/000001.parquet") && e.contains("more than 32768 rows; split"),
                "{e}"
            );
        };
        refused(write_rates(dir.path(), &rows, &[], Access::OWNER).expect_err("one too many"));
        assert!(
            !path_of(dir.path(), "rates").exists(),
            "what no reader takes is not written"
        );
        put_rates(dir.path(), &rows, &[], Access::OWNER).expect("writes");
        refused(read_rates(dir.path()).expect_err("one too many"));
    }

    #[test]
    fn a_panic_of_the_decoder_is_damage() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("table");
        with_file(&path, |_| panic!("no call without a file")).expect("nothing");
        std::fs::write(&path, "x").expect("writes");
        let e = with_file(&path, |_| panic!("deep inside"))
            .expect_err("damaged")
            .to_string();
        assert!(
            e.contains("table: damaged") && !e.contains("deep inside"),
            "{e}"
        );
    }

    #[test]
    fn none_and_damage() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert!(read_rates(dir.path()).expect("nothing there").is_empty());
        write_rates(
            dir.path(),
            &[IntervalRates::new(0, 1, DevId(1))].iter().collect(),
            &[],
            Access::OWNER,
        )
        .expect("writes");
        let path = path_of(dir.path(), "rates");
        let mut bytes = std::fs::read(&path).expect("there");
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&path, bytes).expect("writes");
        assert!(matches!(
            read_rates(dir.path()),
            Err(StoreError::Damaged { .. })
        ));
    }
}
