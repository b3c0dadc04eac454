//! Rollups and devices as tables: `rollup/1s-NNNNNN.parquet`, those of `60s` and `3600s`, `devices/000001.parquet`.
//!
//! Each step has files of its own, so that the seconds can go when the minutes shall stay. Not in the write-ahead log: what
//! a killed recorder had not written can be computed from its I/Os again.

use std::ops::Range;
use std::path::Path;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;

use super::error::StoreError;
use super::rates::{Cells, encode};
use super::stages::{column, missing, required};
use super::sums;
use crate::model::{CallHistogram, Class, DevId, Device, DeviceKind, Flight, Rollup};
use crate::private::Access;

/// The directory of rollups in a recording.
pub(crate) const ROLLUP: &str = "rollup";
/// The table of devices.
pub(crate) const DEVICES: &str = "devices";
/// The one file of it.
pub(crate) const DEVICES_FILE: &str = "devices/000001.parquet";
const ALL: &str = "all";
/// Rows of one row group: what is in memory at once.
const GROUP: usize = 1 << 14;
const ROLLUP_SCHEMA: &str = "message rollup {
    REQUIRED INT32 step_s; REQUIRED INT64 at_ns; OPTIONAL INT32 dev; REQUIRED BYTE_ARRAY class (UTF8);
    REQUIRED INT64 ios; REQUIRED INT64 bytes; OPTIONAL INT64 merges; OPTIONAL INT64 errors;
    OPTIONAL INT64 queue_sum_ns; REQUIRED INT64 device_sum_ns;
    OPTIONAL INT64 busy_ns; OPTIONAL INT64 in_flight_ns; OPTIONAL INT64 in_flight_max; OPTIONAL INT64 lost_ios;
    REQUIRED group total_buckets (LIST) { repeated group list { REQUIRED INT32 element; } }
    REQUIRED group total_counts (LIST) { repeated group list { REQUIRED INT32 element; } }
    REQUIRED group device_buckets (LIST) { repeated group list { REQUIRED INT32 element; } }
    REQUIRED group device_counts (LIST) { repeated group list { REQUIRED INT32 element; } } }";
const DEVICES_SCHEMA: &str = "message devices {
    REQUIRED INT32 dev; REQUIRED BYTE_ARRAY name (UTF8); REQUIRED BYTE_ARRAY kind (UTF8);
    REQUIRED BYTE_ARRAY stable_id (UTF8); REQUIRED BYTE_ARRAY model (UTF8);
    OPTIONAL INT64 size_bytes; OPTIONAL INT32 rotational; OPTIONAL INT64 added_ns; OPTIONAL INT64 removed_ns; }";

/// The file of `rows`, which are ordered by time.
pub(crate) fn encode_rollups(rows: &[Rollup]) -> Result<Vec<u8>, ParquetError> {
    encode(ROLLUP_SCHEMA, rows.chunks(GROUP).map(rollup_columns))
}

fn rollup_columns(rows: &[Rollup]) -> Vec<Cells> {
    let long = |f: fn(&Rollup) -> i64| Cells::Long(rows.iter().map(f).collect());
    let some = |f: fn(&Rollup) -> Option<i64>| Cells::OptionalLong(rows.iter().map(f).collect());
    let lists = |of: fn(&Rollup) -> &CallHistogram, value: fn(&(u16, u64)) -> i32| {
        Cells::Lists(rows.iter().map(|r| of(r).counts().iter().map(value).collect()).collect())
    };
    let bucket = |c: &(u16, u64)| i32::from(c.0);
    // A minute in which a device completes 2^31 I/Os of one duration is far beyond any device.
    let count = |c: &(u16, u64)| i32::try_from(c.1).unwrap_or(i32::MAX);
    vec![
        Cells::Int(rows.iter().map(|r| r.step_s).collect()),
        long(|r| r.at_ns),
        Cells::OptionalInt(rows.iter().map(|r| r.dev.map(|d| d.0)).collect()),
        Cells::Text(rows.iter().map(|r| ByteArray::from(r.class.map_or(ALL, Class::name))).collect()),
        long(|r| r.ios),
        long(|r| r.bytes),
        some(|r| r.merges),
        some(|r| r.errors),
        some(|r| r.queue_sum_ns),
        long(|r| r.device_sum_ns),
        some(|r| r.flight.map(|f| f.busy_ns)),
        some(|r| r.flight.map(|f| f.in_flight_ns)),
        some(|r| r.flight.map(|f| f.in_flight_max)),
        some(|r| r.lost_ios),
        lists(|r| &r.total, bucket),
        lists(|r| &r.total, count),
        lists(|r| &r.device, bucket),
        lists(|r| &r.device, count),
    ]
}

/// The file of the devices, for joins in SQL; text that is not known is empty.
pub(crate) fn encode_devices(devices: &[Device]) -> Result<Vec<u8>, ParquetError> {
    let text = |f: fn(&Device) -> &str| Cells::Text(devices.iter().map(|d| ByteArray::from(f(d))).collect());
    let some = |f: fn(&Device) -> Option<i64>| Cells::OptionalLong(devices.iter().map(f).collect());
    let columns = vec![
        Cells::Int(devices.iter().map(|d| d.id.0).collect()),
        text(|d| &d.name),
        text(|d| match d.kind {
            DeviceKind::Request => "request",
            DeviceKind::Bio => "bio",
            DeviceKind::Unknown => "unknown",
        }),
        text(|d| d.stable_id.as_deref().unwrap_or("")),
        text(|d| d.model.as_deref().unwrap_or("")),
        some(|d| d.size_bytes.and_then(|n| i64::try_from(n).ok())),
        Cells::OptionalInt(devices.iter().map(|d| d.rotational.map(i32::from)).collect()),
        some(|d| d.added_ns),
        some(|d| d.removed_ns),
    ];
    encode(DEVICES_SCHEMA, std::iter::once(columns))
}

/// The steps in seconds of the rollups that a recording has, the finest first.
///
/// # Errors
/// The directory cannot be listed.
pub fn rollup_steps(recording: &Path) -> Result<Vec<i32>, StoreError> {
    sums::steps(recording, ROLLUP)
}

/// Where the newest rollup of `step_s` ends, in nanoseconds since the recording's start; 0 if there is none. Damaged files
/// are left out.
///
/// # Errors
/// The directory cannot be listed.
pub fn rollups_until(recording: &Path, step_s: i32) -> Result<i64, StoreError> {
    sums::until(recording, ROLLUP, step_s)
}

/// Which histograms of rollups are read; those that are not come empty. They are most of what reading costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollupHistograms {
    /// [`Rollup::total`].
    pub total: bool,
    /// [`Rollup::device`].
    pub device: bool,
}

impl RollupHistograms {
    /// Both.
    pub const ALL: RollupHistograms = RollupHistograms { total: true, device: true };
}

/// Gives `take` the rollups of `step_s` whose slots begin in `range` (nanoseconds since the recording's start), file by
/// file, within each in order; nothing if the recording has none. Of damaged files what follows the damage is left out; what
/// they are comes back.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn read_rollups(
    recording: &Path,
    step_s: i32,
    range: Range<i64>,
    take: impl FnMut(Rollup),
) -> Result<Vec<String>, StoreError> {
    read_rollups_with(recording, step_s, range, RollupHistograms::ALL, take)
}

/// The same with these histograms only.
///
/// # Errors
/// As [`read_rollups`].
pub fn read_rollups_with(
    recording: &Path,
    step_s: i32,
    range: Range<i64>,
    histograms: RollupHistograms,
    take: impl FnMut(Rollup),
) -> Result<Vec<String>, StoreError> {
    let rows = |group: &dyn RowGroupReader| rows_of(group, histograms);
    sums::read(recording, ROLLUP, step_s, &range, rows, |r| (r.step_s, r.at_ns), take)
}

/// Writes rollups that are missing in a recording that no process writes to any more: those of each of [`crate::rollup::ROLLUP_STEPS_S`].
///
/// # Errors
/// The recording is another user's, or the file system refuses.
pub fn write_missing_rollups(
    recording: &Path,
    access: Access,
    [seconds, minutes, hours]: [&[Rollup]; 3],
) -> Result<(), StoreError> {
    // The seconds last: what is complete is judged by them.
    let file = |rows: &[Rollup]| Some((rows.first()?.step_s, encode_rollups(rows)));
    sums::write_missing(recording, ROLLUP, access, [hours, minutes, seconds].map(file))
}

fn rows_of(group: &dyn RowGroupReader, wanted: RollupHistograms) -> Result<Vec<Rollup>, ParquetError> {
    let long = |name| required(name, column::<Int64Type>(group, name)?);
    let some = |name| column::<Int64Type>(group, name);
    let (step, dev) = (required("step_s", column::<Int32Type>(group, "step_s")?)?, column::<Int32Type>(group, "dev")?);
    let class = required("class", column::<ByteArrayType>(group, "class")?)?;
    let (at, ios, bytes, device_sum) = (long("at_ns")?, long("ios")?, long("bytes")?, long("device_sum_ns")?);
    let (merges, errors, queue_sum) = (some("merges")?, some("errors")?, some("queue_sum_ns")?);
    let (busy, in_flight, max) = (some("busy_ns")?, some("in_flight_ns")?, some("in_flight_max")?);
    let lost = some("lost_ios")?;
    let none = || vec![CallHistogram::default(); step.len()];
    let mut total = if wanted.total { histograms(group, "total_buckets", "total_counts")? } else { none() };
    let mut device = if wanted.device { histograms(group, "device_buckets", "device_counts")? } else { none() };
    let lengths = [dev.len(), class.len(), at.len(), ios.len(), bytes.len(), device_sum.len(), merges.len()];
    let more = [errors.len(), queue_sum.len(), busy.len(), in_flight.len(), max.len(), lost.len()];
    if lengths.iter().chain(&more).chain(&[total.len(), device.len()]).any(|n| *n != step.len()) {
        return Err(ParquetError::General("columns of different lengths".to_owned()));
    }
    let row = |i: usize| {
        let flight = busy[i].zip(in_flight[i]).zip(max[i]);
        let flight =
            flight.map(|((busy_ns, in_flight_ns), in_flight_max)| Flight { busy_ns, in_flight_ns, in_flight_max });
        Rollup {
            step_s: step[i],
            at_ns: at[i],
            dev: dev[i].map(DevId),
            class: Class::ALL.into_iter().find(|c| c.name().as_bytes() == class[i].data()),
            ios: ios[i],
            bytes: bytes[i],
            merges: merges[i],
            errors: errors[i],
            queue_sum_ns: queue_sum[i],
            device_sum_ns: device_sum[i],
            flight,
            lost_ios: lost[i],
            total: std::mem::take(&mut total[i]),
            device: std::mem::take(&mut device[i]),
        }
    };
    Ok((0..step.len()).map(row).collect())
}

fn histograms(group: &dyn RowGroupReader, buckets: &str, counts: &str) -> Result<Vec<CallHistogram>, ParquetError> {
    let (buckets, counts) = (lists(group, buckets)?, lists(group, counts)?);
    let of = |(buckets, counts): (Vec<i32>, Vec<i32>)| {
        let mut h = CallHistogram::default();
        for (bucket, n) in buckets.into_iter().zip(counts) {
            h.add_to_bucket(u16::try_from(bucket).unwrap_or(u16::MAX), u64::try_from(n).unwrap_or(0));
        }
        h
    };
    Ok(buckets.into_iter().zip(counts).map(of).collect())
}

/// A column of lists, which may be empty or null.
fn lists(group: &dyn RowGroupReader, name: &str) -> Result<Vec<Vec<i32>>, ParquetError> {
    let schema = group.metadata().schema_descr();
    let at = schema.columns().iter().position(|c| c.path().parts().first().is_some_and(|p| p == name));
    let at = at.ok_or_else(|| missing(name))?;
    let descriptor = schema.column(at);
    if descriptor.physical_type() != parquet::basic::Type::INT32 || descriptor.max_rep_level() != 1 {
        return Err(missing(name));
    }
    let mut reader = get_typed_column_reader::<Int32Type>(group.get_column_reader(at)?);
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut read = 0;
    while read < rows {
        let (n, ..) = reader.read_records(rows - read, Some(&mut defined), Some(&mut repeated), &mut values)?;
        if n == 0 {
            return Err(missing(name));
        }
        read += n;
    }
    let mut values = values.into_iter();
    let mut out: Vec<Vec<i32>> = Vec::with_capacity(rows);
    for (level, continues) in defined.into_iter().zip(repeated) {
        if continues == 0 {
            out.push(Vec::new());
        }
        if level == descriptor.max_def_level() {
            out.last_mut().zip(values.next()).ok_or_else(|| missing(name)).map(|(list, v)| list.push(v))?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Io, Op};
    use crate::rollup::{RollupBuilder, minutes};
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use std::fs;

    const S: i64 = 1_000_000_000;

    fn rows(seconds: i64) -> Vec<Rollup> {
        let mut builder = RollupBuilder::default();
        for s in 0..seconds {
            let op = if s % 3 == 0 { Op::WRITE } else { Op::READ };
            let io = Io::new(s * S + 500, DevId(8), op, 4096, Some(s % 5).filter(|q| *q > 0), 90_000 + s * 977);
            builder.push_ios(&[io]);
        }
        builder.finish()
    }

    fn written(dir: &Path, step_s: i32, number: u32, rows: &[Rollup]) {
        fs::create_dir_all(dir.join(ROLLUP)).expect("makes");
        fs::write(dir.join(sums::file_name(ROLLUP, step_s, number)), encode_rollups(rows).expect("encodes"))
            .expect("writes");
    }

    fn read(dir: &Path, step_s: i32, range: Range<i64>) -> (Vec<Rollup>, Vec<String>) {
        let mut rows = Vec::new();
        let warnings = read_rollups(dir, step_s, range, |r| rows.push(r)).expect("readable");
        (rows, warnings)
    }

    #[test]
    fn rows_come_back_whole_by_step_and_time_over_several_groups_and_files() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert_eq!(read(dir.path(), 1, 0..i64::MAX), (vec![], vec![]), "nothing there");
        let all = rows(GROUP as i64 / 2 + 700);
        assert!(all.len() > GROUP && all.iter().any(|r| r.queue_sum_ns.is_none()));
        let (early, late) = all.split_at(all.len() / 2);
        written(dir.path(), 1, 1, early);
        written(dir.path(), 1, 2, late);
        written(dir.path(), 60, 1, &minutes(&all));
        assert!(read(dir.path(), 1, 0..i64::MAX).0 == all);
        assert!(read(dir.path(), 60, 0..i64::MAX).0 == minutes(&all));
        let mut of_device = Vec::new();
        let wanted = RollupHistograms { total: false, device: true };
        read_rollups_with(dir.path(), 60, 0..i64::MAX, wanted, |r| of_device.push(r)).expect("readable");
        let expected: Vec<Rollup> =
            minutes(&all).into_iter().map(|r| Rollup { total: CallHistogram::default(), ..r }).collect();
        assert!(of_device == expected);
        let part: Vec<Rollup> = all.iter().filter(|r| (900 * S..1000 * S).contains(&r.at_ns)).cloned().collect();
        assert!(part.len() == 200 && read(dir.path(), 1, 900 * S..1000 * S).0 == part);
    }

    #[test]
    fn a_damaged_file_costs_its_own_rows() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let all = rows(100);
        written(dir.path(), 1, 1, &all);
        written(dir.path(), 1, 2, &all);
        let path = dir.path().join(sums::file_name(ROLLUP, 1, 1));
        let mut bytes = fs::read(&path).expect("there");
        bytes.truncate(bytes.len() / 2);
        fs::write(&path, bytes).expect("writes");
        let (rows, warnings) = read(dir.path(), 1, 0..i64::MAX);
        assert!(rows == all && warnings.len() == 1 && warnings[0].contains("1s-000001"), "{warnings:?}");
    }

    #[test]
    fn histograms_are_narrow_and_devices_are_a_table() {
        let all = rows(1);
        let row = all.iter().find(|r| r.class.is_some()).expect("of a class");
        let (low, high, n) = row.total.buckets().next().expect("one");
        assert!(n == 1 && (high - low) as f64 <= low as f64 / 16.0, "{low} {high}");
        let device = Device { model: Some("Disk".to_owned()), ..Device::named("sda", DevId(8)) };
        let bytes = encode_devices(&[device]).expect("encodes");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("readable");
        let row = reader.get_row_iter(None).expect("rows").next().expect("one").expect("readable").to_string();
        assert!(
            row.contains("name: \"sda\"") && row.contains("model: \"Disk\"") && row.contains("size_bytes: null"),
            "{row}"
        );
    }
}
