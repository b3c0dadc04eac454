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
use super::stages::{column, column_of, missing, required};
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
/// Rows of so many seconds are read for weeks at a time, mostly of one device, which then follow one another.
const BY_DEVICE_S: i32 = 3600;
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

/// The file of `rows`, ordered by time; of steps as long as [`BY_DEVICE_S`] by device and time.
pub(crate) fn encode_rollups(rows: &[Rollup]) -> Result<Vec<u8>, ParquetError> {
    if rows.first().is_some_and(|r| r.step_s >= BY_DEVICE_S) {
        let mut rows = rows.to_vec();
        rows.sort_by_key(|r| (r.dev, r.at_ns));
        return encode(ROLLUP_SCHEMA, rows.chunks(GROUP).map(rollup_columns));
    }
    encode(ROLLUP_SCHEMA, rows.chunks(GROUP).map(rollup_columns))
}

fn rollup_columns(rows: &[Rollup]) -> Vec<Cells> {
    let long = |f: fn(&Rollup) -> i64| Cells::Long(rows.iter().map(f).collect());
    let some = |f: fn(&Rollup) -> Option<i64>| Cells::OptionalLong(rows.iter().map(f).collect());
    let lists = |of: fn(&Rollup) -> &CallHistogram, value: fn((i32, i32)) -> i32| {
        Cells::Lists(
            rows.iter()
                .map(|r| elements(of(r)).map(value).collect())
                .collect(),
        )
    };
    let (bucket, count) = (|e: (i32, i32)| e.0, |e: (i32, i32)| e.1);
    vec![
        Cells::Int(rows.iter().map(|r| r.step_s).collect()),
        long(|r| r.at_ns),
        Cells::OptionalInt(rows.iter().map(|r| r.dev.map(|d| d.0)).collect()),
        Cells::Text(
            rows.iter()
                .map(|r| ByteArray::from(r.class.map_or(ALL, Class::name)))
                .collect(),
        ),
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

/// Bucket and I/Os of each element of the two lists of a histogram. A bucket with more I/Os than an element holds, as an hour at
/// 600,000 I/Os per second may have, comes again with the rest: readers add up.
fn elements(h: &CallHistogram) -> impl Iterator<Item = (i32, i32)> {
    h.counts().iter().flat_map(|(bucket, ios)| {
        let mut left = *ios;
        std::iter::from_fn(move || {
            let part = i32::try_from(left).unwrap_or(i32::MAX);
            left -= u64::from(part.unsigned_abs());
            (part > 0).then_some((i32::from(*bucket), part))
        })
    })
}

/// The file of the devices, for joins in SQL; text that is not known is empty.
pub(crate) fn encode_devices(devices: &[Device]) -> Result<Vec<u8>, ParquetError> {
    let text = |f: fn(&Device) -> &str| {
        Cells::Text(devices.iter().map(|d| ByteArray::from(f(d))).collect())
    };
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
        Cells::OptionalInt(
            devices
                .iter()
                .map(|d| d.rotational.map(i32::from))
                .collect(),
        ),
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
    pub const ALL: RollupHistograms = RollupHistograms {
        total: true,
        device: true,
    };
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
    read_rollups_with(
        recording,
        step_s,
        range,
        RollupHistograms::ALL,
        |_| true,
        take,
    )
}

/// The same with these histograms only, and without rows of devices that are not `wanted`; losses whose device is not known
/// come.
///
/// # Errors
/// As [`read_rollups`].
pub fn read_rollups_with(
    recording: &Path,
    step_s: i32,
    range: Range<i64>,
    histograms: RollupHistograms,
    wanted: impl Fn(DevId) -> bool,
    take: impl FnMut(Rollup),
) -> Result<Vec<String>, StoreError> {
    let wanted = |at_ns: i64, dev: Option<i32>| {
        range.contains(&at_ns) && dev.is_none_or(|d| wanted(DevId(d)))
    };
    let rows = |group: &dyn RowGroupReader| rows_of(group, histograms, &wanted);
    sums::read(
        recording,
        ROLLUP,
        step_s,
        &range,
        rows,
        |r| (r.step_s, r.at_ns),
        take,
    )
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
    sums::write_missing(
        recording,
        ROLLUP,
        access,
        [hours, minutes, seconds].map(file),
    )
}

/// The rows that are `wanted` by time and device. They mostly follow one another: others are hardly decoded.
fn rows_of(
    group: &dyn RowGroupReader,
    histograms: RollupHistograms,
    wanted: &dyn Fn(i64, Option<i32>) -> bool,
) -> Result<Vec<Rollup>, ParquetError> {
    let (at, dev) = (
        required("at_ns", column::<Int64Type>(group, "at_ns")?)?,
        column::<Int32Type>(group, "dev")?,
    );
    let wanted: Vec<bool> = at
        .iter()
        .zip(&dev)
        .map(|(at_ns, dev)| wanted(*at_ns, *dev))
        .collect();
    let (Some(first), Some(last)) = (
        wanted.iter().position(|w| *w),
        wanted.iter().rposition(|w| *w),
    ) else {
        return Ok(Vec::new());
    };
    let part = first..last + 1;
    let (at, dev, wanted) = (&at[part.clone()], &dev[part.clone()], &wanted[part.clone()]);
    let long = |name| required(name, column_of::<Int64Type>(group, name, &part)?);
    let some = |name| column_of::<Int64Type>(group, name, &part);
    let step = required("step_s", column_of::<Int32Type>(group, "step_s", &part)?)?;
    let class = required("class", column_of::<ByteArrayType>(group, "class", &part)?)?;
    let (ios, bytes, device_sum) = (long("ios")?, long("bytes")?, long("device_sum_ns")?);
    let (merges, errors, queue_sum) = (some("merges")?, some("errors")?, some("queue_sum_ns")?);
    let (busy, in_flight, max) = (
        some("busy_ns")?,
        some("in_flight_ns")?,
        some("in_flight_max")?,
    );
    let lost = some("lost_ios")?;
    let of = |is_wanted: bool, buckets, counts| match is_wanted {
        true => read_histograms(group, (buckets, counts), &part, wanted),
        false => Ok(vec![CallHistogram::default(); wanted.len()]),
    };
    let mut total = of(histograms.total, "total_buckets", "total_counts")?;
    let mut device = of(histograms.device, "device_buckets", "device_counts")?;
    let lengths = [
        dev.len(),
        class.len(),
        at.len(),
        ios.len(),
        bytes.len(),
        device_sum.len(),
        merges.len(),
    ];
    let more = [
        errors.len(),
        queue_sum.len(),
        busy.len(),
        in_flight.len(),
        max.len(),
        lost.len(),
    ];
    if lengths
        .iter()
        .chain(&more)
        .chain(&[total.len(), device.len()])
        .any(|n| *n != step.len())
    {
        return Err(ParquetError::General(
            "columns of different lengths".to_owned(),
        ));
    }
    let row = |i: usize| {
        let flight = busy[i].zip(in_flight[i]).zip(max[i]);
        let flight = flight.map(|((busy_ns, in_flight_ns), in_flight_max)| Flight {
            busy_ns,
            in_flight_ns,
            in_flight_max,
        });
        Rollup {
            step_s: step[i],
            at_ns: at[i],
            dev: dev[i].map(DevId),
            class: Class::ALL
                .into_iter()
                .find(|c| c.name().as_bytes() == class[i].data()),
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
    Ok((0..step.len()).filter(|i| wanted[*i]).map(row).collect())
}

/// The histograms of `rows`; of those that are not `wanted` empty ones.
fn read_histograms(
    group: &dyn RowGroupReader,
    (buckets, counts): (&str, &str),
    rows: &Range<usize>,
    wanted: &[bool],
) -> Result<Vec<CallHistogram>, ParquetError> {
    let ((buckets, lengths), (counts, same)) =
        (lists(group, buckets, rows)?, lists(group, counts, rows)?);
    if lengths != same || lengths.len() != wanted.len() {
        return Err(ParquetError::General(
            "histograms of different lengths".to_owned(),
        ));
    }
    let mut from = 0;
    let of = |(n, is_wanted): (usize, &bool)| {
        let row = from..from + n;
        from += n;
        let mut h = CallHistogram::default();
        for (bucket, n) in buckets[row.clone()]
            .iter()
            .zip(&counts[row])
            .filter(|_| *is_wanted)
        {
            h.add_to_bucket(
                u16::try_from(*bucket).unwrap_or(u16::MAX),
                u64::try_from(*n).unwrap_or(0),
            );
        }
        h
    };
    Ok(lengths.into_iter().zip(wanted).map(of).collect())
}

/// A column of lists, which may be empty or null: the elements of `rows` one after the other, and how many each row has.
fn lists(
    group: &dyn RowGroupReader,
    name: &str,
    rows: &Range<usize>,
) -> Result<(Vec<i32>, Vec<usize>), ParquetError> {
    let schema = group.metadata().schema_descr();
    let at = schema
        .columns()
        .iter()
        .position(|c| c.path().parts().first().is_some_and(|p| p == name));
    let at = at.ok_or_else(|| missing(name))?;
    let descriptor = schema.column(at);
    if descriptor.physical_type() != parquet::basic::Type::INT32 || descriptor.max_rep_level() != 1
    {
        return Err(missing(name));
    }
    let mut reader = get_typed_column_reader::<Int32Type>(group.get_column_reader(at)?);
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = reader.skip_records(rows.start)?;
    while read < rows.end {
        let (n, ..) = reader.read_records(
            rows.end - read,
            Some(&mut defined),
            Some(&mut repeated),
            &mut values,
        )?;
        if n == 0 {
            return Err(missing(name));
        }
        read += n;
    }
    let mut lengths: Vec<usize> = Vec::with_capacity(rows.len());
    for (level, continues) in defined.into_iter().zip(repeated) {
        if continues == 0 {
            lengths.push(0);
        }
        if level == descriptor.max_def_level() {
            *lengths.last_mut().ok_or_else(|| missing(name))? += 1;
        }
    }
    if lengths.iter().sum::<usize>() != values.len() {
        return Err(missing(name));
    }
    Ok((values, lengths))
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
            let io = Io::new(
                s * S + 500,
                DevId(8),
                op,
                4096,
                Some(s % 5).filter(|q| *q > 0),
                90_000 + s * 977,
            );
            builder.push_ios(&[io]);
        }
        builder.finish()
    }

    fn written(dir: &Path, step_s: i32, number: u32, rows: &[Rollup]) {
        fs::create_dir_all(dir.join(ROLLUP)).expect("makes");
        fs::write(
            dir.join(sums::file_name(ROLLUP, step_s, number)),
            encode_rollups(rows).expect("encodes"),
        )
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
        assert_eq!(
            read(dir.path(), 1, 0..i64::MAX),
            (vec![], vec![]),
            "nothing there"
        );
        let all = rows(GROUP as i64 / 2 + 700);
        assert!(all.len() > GROUP && all.iter().any(|r| r.queue_sum_ns.is_none()));
        let (early, late) = all.split_at(all.len() / 2);
        written(dir.path(), 1, 1, early);
        written(dir.path(), 1, 2, late);
        written(dir.path(), 60, 1, &minutes(&all));
        assert!(read(dir.path(), 1, 0..i64::MAX).0 == all);
        assert!(read(dir.path(), 60, 0..i64::MAX).0 == minutes(&all));
        let mut of_device = Vec::new();
        let wanted = RollupHistograms {
            total: false,
            device: true,
        };
        read_rollups_with(
            dir.path(),
            60,
            0..i64::MAX,
            wanted,
            |_| true,
            |r| of_device.push(r),
        )
        .expect("readable");
        let expected: Vec<Rollup> = minutes(&all)
            .into_iter()
            .map(|r| Rollup {
                total: CallHistogram::default(),
                ..r
            })
            .collect();
        assert!(of_device == expected);
        let part: Vec<Rollup> = all
            .iter()
            .filter(|r| (900 * S..1000 * S).contains(&r.at_ns))
            .cloned()
            .collect();
        assert!(part.len() == 200 && read(dir.path(), 1, 900 * S..1000 * S).0 == part);
    }

    #[test]
    fn an_hour_of_a_fast_device_counts_all_its_ios_in_one_bucket() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let io = Io::new(5, DevId(8), Op::READ, 512, Some(1), 90_000);
        let mut hour = Rollup::empty(3600, 0, Some(DevId(8)), Some(Class::Read));
        hour.count(&io);
        let bucket = hour.device.counts()[0].0;
        // 600,000 I/Os per second, and once more than two elements hold.
        hour.device.add_to_bucket(bucket, 600_000 * 3600 - 1);
        hour.total.add_to_bucket(7, 2 * 2_147_483_647 + 5);
        assert_eq!(
            elements(&hour.device).collect::<Vec<_>>(),
            [(bucket.into(), i32::MAX), (bucket.into(), 12_516_353)]
        );
        written(dir.path(), 3600, 1, std::slice::from_ref(&hour));
        assert!(read(dir.path(), 3600, 0..i64::MAX).0 == [hour]);
    }

    #[test]
    fn of_some_devices_come_their_rows_and_losses_of_unknown_ones_and_hours_are_by_device() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut hours = Vec::new();
        for at_ns in (0..24).map(|h| h * 3600 * S) {
            for dev in [7, 8, 9] {
                let mut row = Rollup::empty(3600, at_ns, Some(DevId(dev)), Some(Class::Read));
                (0..=dev).for_each(|i| {
                    row.count(&Io::new(
                        at_ns,
                        DevId(dev),
                        Op::READ,
                        512,
                        Some(1),
                        1 << (10 + i),
                    ))
                });
                hours.push(row);
            }
            hours.push(Rollup {
                lost_ios: Some(3),
                ..Rollup::empty(3600, at_ns, None, None)
            });
        }
        let seconds: Vec<Rollup> = hours
            .iter()
            .map(|r| Rollup {
                step_s: 1,
                ..r.clone()
            })
            .collect();
        written(dir.path(), 3600, 1, &hours);
        written(dir.path(), 1, 1, &seconds);
        let range = 2 * 3600 * S..20 * 3600 * S;
        let of = |step_s, dev: Option<i32>| {
            let mut rows = Vec::new();
            let wanted = |d: DevId| dev.is_none_or(|dev| d.0 == dev);
            let all = RollupHistograms::ALL;
            read_rollups_with(dir.path(), step_s, range.clone(), all, wanted, |r| {
                rows.push(r)
            })
            .expect("readable");
            rows
        };
        let expected = |all: &[Rollup], dev: Option<i32>| {
            let is = |r: &&Rollup| {
                range.contains(&r.at_ns)
                    && (dev.is_none() || r.dev.is_none_or(|d| Some(d.0) == dev))
            };
            all.iter().filter(is).cloned().collect::<Vec<_>>()
        };
        for dev in [Some(8), Some(1), None] {
            assert!(of(1, dev) == expected(&seconds, dev), "{dev:?}");
            let mut by_device = expected(&hours, dev);
            by_device.sort_by_key(|r| (r.dev, r.at_ns));
            assert!(of(3600, dev) == by_device, "{dev:?}");
        }
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
        assert!(
            rows == all && warnings.len() == 1 && warnings[0].contains("1s-000001"),
            "{warnings:?}"
        );
    }

    #[test]
    fn histograms_are_narrow_and_devices_are_a_table() {
        let all = rows(1);
        let row = all.iter().find(|r| r.class.is_some()).expect("of a class");
        let (low, high, n) = row.total.buckets().next().expect("one");
        assert!(
            n == 1 && (high - low) as f64 <= low as f64 / 16.0,
            "{low} {high}"
        );
        let device = Device {
            model: Some("Disk".to_owned()),
            ..Device::named("sda", DevId(8))
        };
        let bytes = encode_devices(&[device]).expect("encodes");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("readable");
        let row = reader
            .get_row_iter(None)
            .expect("rows")
            .next()
            .expect("one")
            .expect("readable")
            .to_string();
        assert!(
            row.contains("name: \"sda\"")
                && row.contains("model: \"Disk\"")
                && row.contains("size_bytes: null"),
            "{row}"
        );
    }
}
