//! Rows of an imported table: `rates/000001.parquet`, written once at the end of an import.

use std::io;
use std::path::Path;

use parquet::errors::ParquetError;

use super::cpu;
use crate::model::{Class, ClassRates, CpuShares, DevId, IntervalRates, RateRows};
use crate::private::Access;
use crate::store::StoreError;
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::schema::TableDef;
use crate::store::whole_file::{each_group, path_of, read_columns, rows_of, write_table};

table! {
    whole "rates" of ClassRow, by to_ns;

    /// start of the interval
    from_ns: i64 = |r| r.from_ns;

    /// end of the interval; the table's time
    to_ns: i64 = |r| r.to_ns;

    /// device number; made up (major 0) if the source has names only, see `devices` in `meta.json`
    dev: i32 = |r| r.dev.0;

    /// `read`, `write`, `discard`, `flush` or `all`
    class: Text = |r| r.class.map_or(ALL, Class::name);

    /// I/Os completed per second
    ios_per_s: Option<f64> = |r| r.rates.ios_per_s;

    /// bytes per second
    bytes_per_s: Option<f64> = |r| r.rates.bytes_per_s;

    /// merges per second
    merges_per_s: Option<f64> = |r| r.rates.merges_per_s;

    /// mean time from start to completion in microseconds; null also if no I/O completed
    mean_us: Option<f64> = |r| r.rates.mean_us;

    /// mean number of I/Os in flight; in rows of `all` only, like the next two
    in_flight: Option<f64> = |r| r.in_flight;

    /// utilisation as the source defines it
    util_percent: Option<f64> = |r| r.util_percent;

    /// the obsolete `svctm` in microseconds
    service_us: Option<f64> = |r| r.service_us;
}

const ALL: &str = "all";
/// Intervals per row group, which is the unit held in memory.
pub(super) const GROUP: usize = 1 << 14;
/// Rows that are read at a time, whatever row group size another program chose.
const READ_AT_ONCE: usize = 1 << 18;
/// Maximum rows of tables that are held in memory as a whole: more than a gigabyte.
const MAX_ROWS: usize = if cfg!(test) { 1 << 15 } else { 4 << 20 };

/// The values of one interval for one class, or for all classes together.
struct ClassRow {
    from_ns: i64,
    to_ns: i64,
    dev: DevId,
    class: Option<Class>,
    rates: ClassRates,
    in_flight: Option<f64>,
    util_percent: Option<f64>,
    service_us: Option<f64>,
}

impl ClassRow {
    fn of(r: &IntervalRates, class: Class) -> ClassRow {
        ClassRow {
            from_ns: r.from_ns,
            to_ns: r.to_ns,
            dev: r.dev,
            class: Some(class),
            rates: r.classes[class as usize],
            in_flight: None,
            util_percent: None,
            service_us: None,
        }
    }

    fn of_all(r: &IntervalRates) -> ClassRow {
        ClassRow {
            from_ns: r.from_ns,
            to_ns: r.to_ns,
            dev: r.dev,
            class: None,
            rates: r.all,
            in_flight: r.in_flight,
            util_percent: r.util_percent,
            service_us: r.service_us,
        }
    }
}

/// The rows of an interval: one for each class with values, and always one for all classes together.
fn spread(r: &IntervalRates) -> impl Iterator<Item = ClassRow> + '_ {
    let classes = Class::ALL
        .into_iter()
        .filter(|class| !r.classes[*class as usize].is_empty());
    classes
        .map(|class| ClassRow::of(r, class))
        .chain([ClassRow::of_all(r)])
}

/// Writes the rows of imported tables into a recording; writes no file for an empty table.
///
/// # Errors
/// The file system refuses or is full; there are more rows than readers take.
pub fn write_rates(
    recording: &Path,
    rates: &RateRows,
    cpu: &[CpuShares],
    access: Access,
) -> Result<(), StoreError> {
    for (table, rows) in [(&TABLE, rates.len()), (&cpu::TABLE, cpu.len())] {
        if rows > MAX_ROWS {
            let why = io::Error::other(format!("{rows} rows, {}", too_many_rows()));
            return Err(StoreError::Io {
                path: path_of(recording, table),
                doing: "write",
                why,
            });
        }
    }
    put_rates(recording, rates, access)?;
    cpu::write_cpu(recording, cpu, access)
}

fn put_rates(recording: &Path, rates: &RateRows, access: Access) -> Result<(), StoreError> {
    if rates.is_empty() {
        return Ok(());
    }
    let mut intervals = rates.iter();
    let groups = std::iter::from_fn(|| {
        let group: Vec<IntervalRates> = intervals.by_ref().take(GROUP).collect();
        let rows: Vec<ClassRow> = group.iter().flat_map(spread).collect();
        (!rows.is_empty()).then(|| collect(&rows))
    });
    write_table(recording, &TABLE, access, groups)
}

/// Reads the rows of imported tables, ordered by the end of their intervals; returns none if the recording has none.
///
/// # Errors
/// A file is damaged.
pub fn read_rates(recording: &Path) -> Result<Vec<IntervalRates>, StoreError> {
    let mut intervals: Vec<IntervalRates> = Vec::new();
    each_batch(recording, &TABLE, |columns, rows| {
        let c = Columns(columns);
        for i in 0..rows {
            take_row(c, i, &mut intervals);
        }
        intervals.len()
    })?;
    intervals.sort_by_key(|r| r.to_ns);
    Ok(intervals)
}

/// Adds row `i` to its interval.
fn take_row(c: Columns<'_>, i: usize, intervals: &mut Vec<IntervalRates>) {
    let from_ns = c.from_ns(i);
    let to_ns = c.to_ns(i);
    let dev = DevId(c.dev(i));
    // Rows of one interval and device are adjacent. Where another writer did not keep this order, there are more
    // intervals.
    let continues = intervals
        .last()
        .is_some_and(|r| (r.from_ns, r.to_ns, r.dev) == (from_ns, to_ns, dev));
    if !continues {
        intervals.push(IntervalRates::new(from_ns, to_ns, dev));
    }
    let Some(r) = intervals.last_mut() else {
        return;
    };
    let rates = ClassRates {
        ios_per_s: c.ios_per_s(i),
        bytes_per_s: c.bytes_per_s(i),
        merges_per_s: c.merges_per_s(i),
        mean_us: c.mean_us(i),
    };
    match Class::from_name(c.class(i)) {
        Some(class) => r.classes[class as usize] = rates,
        None => {
            r.all = rates;
            r.in_flight = c.in_flight(i);
            r.util_percent = c.util_percent(i);
            r.service_us = c.service_us(i);
        }
    }
}

/// Passes the rows of a table to `take` in batches. `take` returns how many rows it holds.
pub(super) fn each_batch(
    recording: &Path,
    table: &'static TableDef,
    mut take: impl FnMut(&[Column], usize) -> usize,
) -> Result<(), StoreError> {
    let path = path_of(recording, table);
    each_group(&path, |group| {
        let rows = rows_of(group);
        for from in (0..rows).step_by(READ_AT_ONCE) {
            let batch = from..rows.min(from + READ_AT_ONCE);
            let columns = read_columns(group, table, &batch, |_| true)?;
            if take(&columns, batch.len()) > MAX_ROWS {
                return Err(ParquetError::General(too_many_rows()));
            }
        }
        Ok(())
    })
}

fn too_many_rows() -> String {
    format!("more than {MAX_ROWS} rows; split the log and import its parts apart")
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
        assert_eq!(cpu::read_cpu(dir.path()).expect("reads"), [cpu]);
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
            !path_of(dir.path(), &TABLE).exists(),
            "what no reader takes is not written"
        );
        put_rates(dir.path(), &rows, Access::OWNER).expect("writes");
        refused(read_rates(dir.path()).expect_err("one too many"));
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
        let path = path_of(dir.path(), &TABLE);
        let mut bytes = std::fs::read(&path).expect("there");
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&path, bytes).expect("writes");
        assert!(matches!(
            read_rates(dir.path()),
            Err(StoreError::Damaged { .. })
        ));
    }
}
