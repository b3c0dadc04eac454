//! Rollups as tables: `rollup/1s-NNNNNN.parquet`, and the same for `60s` and `3600s`.
//!
//! Each step has its own files, so that the seconds can be removed while the minutes stay. They are not in the
//! write-ahead log: rollups that a killed recorder had not written are recomputed from its I/Os.

use std::ops::Range;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;

use crate::model::{CallHistogram, Class, DevId, Flight, Rollup};
use crate::private::Access;
use crate::store::StoreError;
use crate::store::cell::{List, Text};
use crate::store::column::Column;
use crate::store::sums::{self, GROUP};
use crate::store::whole_file::{encode, read_columns, rows_of};

table! {
    whole "rollup" of Rollup, by at_ns;

    /// length of the slot: 1, 60 or 3600 seconds
    step_s: i32 = |r| r.step_s;

    /// start of the slot, a multiple of the step; the table's time
    at_ns: i64 = |r| r.at_ns;

    /// device number; null for losses whose device is not known
    dev: Option<i32> = |r| r.dev.map(|d| d.0);

    /// `read`, `write`, `discard`, `flush`, or `all` for all classes together
    class: Text = |r| r.class.map_or(ALL, Class::name);

    /// I/Os completed
    ios: i64 = |r| r.ios;

    /// bytes that they moved
    bytes: i64 = |r| r.bytes;

    /// merges that went into them; like the next two, null unless it is known for every I/O
    merges: Option<i64> = |r| r.merges;

    /// I/Os that failed
    errors: Option<i64> = |r| r.errors;

    /// time from start to issue, summed
    queue_sum_ns: Option<i64> = |r| r.queue_sum_ns;

    /// time from issue to completion, summed
    device_sum_ns: i64 = |r| r.device_sum_ns;

    /// in rows of `all`, like the next two: time with any I/O in flight
    busy_ns: Option<i64> = |r| r.flight.map(|f| f.busy_ns);

    /// time in flight, summed over I/Os
    in_flight_ns: Option<i64> = |r| r.flight.map(|f| f.in_flight_ns);

    /// largest number of I/Os in flight at once
    in_flight_max: Option<i64> = |r| r.flight.map(|f| f.in_flight_max);

    /// I/Os known to be missing; null if their number is not known
    lost_ios: Option<i64> = |r| r.lost_ios;

    /// start to completion: numbers of the non-empty buckets; this and the next three are empty in rows of `all`
    total_buckets: List = |r| buckets(&r.total);

    /// I/Os in each of these buckets
    total_counts: List = |r| counts(&r.total);

    /// issue to completion: numbers of the non-empty buckets
    device_buckets: List = |r| buckets(&r.device);

    /// I/Os in each of these buckets
    device_counts: List = |r| counts(&r.device);

    /// in rows of `all`, like the next three: time with a read in flight; missing in older recordings
    busy_read_ns: Option<i64> = |r| busy_ns(r, Class::Read);

    /// time with a write in flight
    busy_write_ns: Option<i64> = |r| busy_ns(r, Class::Write);

    /// time with a discard in flight
    busy_discard_ns: Option<i64> = |r| busy_ns(r, Class::Discard);

    /// time with a flush in flight
    busy_flush_ns: Option<i64> = |r| busy_ns(r, Class::Flush);
}

fn busy_ns(r: &Rollup, class: Class) -> Option<i64> {
    r.busy_of_class_ns.map(|busy_ns| busy_ns[class as usize])
}

const ALL: &str = "all";
/// From this step on rows are sorted by device: they are read for weeks at a time, usually of one device.
const BY_DEVICE_S: i32 = 3600;

/// Encodes `rows`, ordered by time. Steps of at least [`BY_DEVICE_S`] are sorted by device and time.
pub(in crate::store) fn encode_rollups(rows: &[Rollup]) -> Result<Vec<u8>, ParquetError> {
    if rows.first().is_some_and(|r| r.step_s >= BY_DEVICE_S) {
        let mut rows = rows.to_vec();
        rows.sort_by_key(|r| (r.dev, r.at_ns));
        return encode(&TABLE, rows.chunks(GROUP).map(collect));
    }
    encode(&TABLE, rows.chunks(GROUP).map(collect))
}

fn buckets(h: &CallHistogram) -> Vec<i32> {
    elements(h).map(|(bucket, _)| bucket).collect()
}

fn counts(h: &CallHistogram) -> Vec<i32> {
    elements(h).map(|(_, ios)| ios).collect()
}

/// Bucket and count of each element in the two lists of a histogram. A count that does not fit into one element (an
/// hour at 600,000 I/Os per second) is split over several elements of the same bucket; readers add them up.
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

/// Histograms of rollups to read; the others are returned empty. Histograms take most of the reading time.
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

/// Passes the rollups of `step_s` whose slots start in `range` (nanoseconds since the recording's start) to `take`,
/// file by file, in order within each file; does nothing if the recording has none. Rows after damage in a file are
/// skipped; returns a warning for each damaged file.
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

/// Like [`read_rollups`], with these histograms only and only for devices that are `wanted`. Losses whose device is not
/// known are included.
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
    sums::read(
        recording,
        TABLE.name,
        step_s,
        &range,
        |group| rows_in(group, histograms, &range, &wanted),
        |r| (r.step_s, r.at_ns),
        take,
    )
}

/// Writes missing rollups of each of [`crate::rollup::ROLLUP_STEPS_S`] to a recording that no process writes to any
/// more.
///
/// # Errors
/// The recording is another user's, or the file system refuses.
pub fn write_missing_rollups(
    recording: &Path,
    access: Access,
    [seconds, minutes, hours]: [&[Rollup]; 3],
) -> Result<(), StoreError> {
    // Write the seconds last: they decide whether the rollups count as complete.
    let files =
        [hours, minutes, seconds].map(|rows| Some((rows.first()?.step_s, encode_rollups(rows))));
    sums::write_missing(recording, TABLE.name, access, files)
}

/// The rows in `range` whose device is `wanted` or not known. Such rows are usually adjacent, so few others are
/// decoded.
fn rows_in(
    group: &dyn RowGroupReader,
    histograms: RollupHistograms,
    range: &Range<i64>,
    wanted: &dyn Fn(DevId) -> bool,
) -> Result<Vec<Rollup>, ParquetError> {
    let all = 0..rows_of(group);
    let keys = read_columns(group, &TABLE, &all, |i| i == at::at_ns || i == at::dev)?;
    let keys = Columns(&keys);
    let wanted: Vec<bool> = all
        .map(|i| range.contains(&keys.at_ns(i)) && keys.dev(i).is_none_or(|dev| wanted(DevId(dev))))
        .collect();
    let first = wanted.iter().position(|w| *w);
    let last = wanted.iter().rposition(|w| *w);
    let (Some(first), Some(last)) = (first, last) else {
        return Ok(Vec::new());
    };
    let part = first..last + 1;
    let columns = read_columns(group, &TABLE, &part, |i| match i {
        at::total_buckets | at::total_counts => histograms.total,
        at::device_buckets | at::device_counts => histograms.device,
        _ => true,
    })?;
    let rows = part.clone().filter(|row| wanted[*row]);
    rows.map(|row| read_row(&columns, row - first, histograms))
        .collect()
}

fn read_row(
    columns: &[Column],
    i: usize,
    histograms: RollupHistograms,
) -> Result<Rollup, ParquetError> {
    let c = Columns(columns);
    // A histogram that was not requested has not been decoded and stays empty.
    let mut total = CallHistogram::default();
    if histograms.total {
        total = histogram(c.total_buckets(i), c.total_counts(i))?;
    }
    let mut device = CallHistogram::default();
    if histograms.device {
        device = histogram(c.device_buckets(i), c.device_counts(i))?;
    }
    Ok(Rollup {
        step_s: c.step_s(i),
        at_ns: c.at_ns(i),
        dev: c.dev(i).map(DevId),
        class: Class::from_name(c.class(i)),
        ios: c.ios(i),
        bytes: c.bytes(i),
        merges: c.merges(i),
        errors: c.errors(i),
        queue_sum_ns: c.queue_sum_ns(i),
        device_sum_ns: c.device_sum_ns(i),
        flight: flight(c, i),
        busy_of_class_ns: busy_of_class_ns(c, i),
        lost_ios: c.lost_ios(i),
        total,
        device,
    })
}

fn flight(c: Columns<'_>, i: usize) -> Option<Flight> {
    Some(Flight {
        busy_ns: c.busy_ns(i)?,
        in_flight_ns: c.in_flight_ns(i)?,
        in_flight_max: c.in_flight_max(i)?,
    })
}

fn busy_of_class_ns(c: Columns<'_>, i: usize) -> Option<[i64; Class::ALL.len()]> {
    Some([
        c.busy_read_ns(i)?,
        c.busy_write_ns(i)?,
        c.busy_discard_ns(i)?,
        c.busy_flush_ns(i)?,
    ])
}

/// The histogram of two lists of equal length.
fn histogram(buckets: &[i32], counts: &[i32]) -> Result<CallHistogram, ParquetError> {
    if buckets.len() != counts.len() {
        return Err(ParquetError::General(
            "histograms of different lengths".to_owned(),
        ));
    }
    let mut h = CallHistogram::default();
    for (bucket, n) in buckets.iter().zip(counts) {
        h.add_to_bucket(
            u16::try_from(*bucket).unwrap_or(u16::MAX),
            u64::try_from(*n).unwrap_or(0),
        );
    }
    Ok(h)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Io, Op};
    use crate::rollup::{RollupBuilder, minutes};
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
        fs::create_dir_all(dir.join(TABLE.name)).expect("makes");
        fs::write(
            dir.join(sums::file_name(TABLE.name, step_s, number)),
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
        let path = dir.path().join(sums::file_name(TABLE.name, 1, 1));
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
    fn histograms_are_narrow() {
        let all = rows(1);
        let row = all.iter().find(|r| r.class.is_some()).expect("of a class");
        let (low, high, n) = row.total.buckets().next().expect("one");
        assert!(
            n == 1 && (high - low) as f64 <= low as f64 / 16.0,
            "{low} {high}"
        );
    }
}
