//! The columns of the zoom: one line each, for the table, CSV, JSON and help alike.
//!
//! To add one: a line in [`FIELDS`], nothing else. Names are fixed once released, because scripts rely on them.

use iolens_core::analysis::timeline::{Extended, Row};
use iolens_core::model::Class;

/// A value as it leaves a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Could not be known: null, empty or `-`, never 0.
    Unknown,
    /// A count.
    Count(u64),
    /// A measure.
    Number(f64),
}

impl From<Option<f64>> for Value {
    fn from(v: Option<f64>) -> Value {
        v.filter(|v| v.is_finite()).map_or(Value::Unknown, Value::Number)
    }
}

/// A column.
pub struct Field {
    /// In CSV and JSON; carries its unit.
    pub name: &'static str,
    /// Above the table.
    pub title: &'static str,
    /// Of the table's column, the space before it included.
    pub width: usize,
    /// Digits after the point in the table.
    pub decimals: usize,
    /// Only with `-x`.
    pub extended: bool,
    /// For people.
    pub help: &'static str,
    /// Takes it out of a row.
    pub get: fn(&Row) -> Value,
}

const fn plain(
    name: &'static str,
    title: &'static str,
    width: usize,
    help: &'static str,
    get: fn(&Row) -> Value,
) -> Field {
    Field { name, title, width, decimals: 0, extended: false, help, get }
}

const fn extra(
    name: &'static str,
    title: &'static str,
    width: usize,
    decimals: usize,
    help: &'static str,
    get: fn(&Row) -> Value,
) -> Field {
    Field { name, title, width, decimals, extended: true, help, get }
}

fn ext(row: &Row, get: fn(&Extended) -> Option<f64>) -> Value {
    row.extended.as_ref().and_then(get).into()
}

/// All columns after the time and the group, in their order.
pub const FIELDS: &[Field] = &[
    plain("r_per_s", "r/s", 12, "reads completed per second", |r| r.ios_per_s(Class::Read).into()),
    plain("r_kib_per_s", "Kr/s", 9, "KiB read per second", |r| r.kib_per_s(Class::Read).into()),
    plain("r_us", "us/r", 9, "mean latency of reads, start to done, in microseconds", |r| {
        r.mean_us(Class::Read).into()
    }),
    plain("w_per_s", "w/s", 12, "writes completed per second", |r| r.ios_per_s(Class::Write).into()),
    plain("w_kib_per_s", "Kw/s", 9, "KiB written per second", |r| r.kib_per_s(Class::Write).into()),
    plain("w_us", "us/w", 9, "mean latency of writes, start to done, in microseconds", |r| {
        r.mean_us(Class::Write).into()
    }),
    extra("r_p99_us", "p99 us/r", 11, 0, "99th percentile of read latencies", |r| ext(r, |x| x.r_p99_us)),
    extra("w_p99_us", "p99 us/w", 10, 0, "99th percentile of write latencies", |r| ext(r, |x| x.w_p99_us)),
    extra("r_max_us", "max us/r", 10, 0, "longest read", |r| ext(r, |x| x.r_max_us)),
    extra("w_max_us", "max us/w", 10, 0, "longest write", |r| ext(r, |x| x.w_max_us)),
    extra("inflight_mean", "in-flight", 11, 2, "mean number in flight, start to done, over time", |r| {
        ext(r, |x| x.inflight_mean)
    }),
    extra("inflight_max", "max", 6, 0, "most in flight at once", |r| {
        r.extended.and_then(|x| x.inflight_max).map_or(Value::Unknown, Value::Count)
    }),
    extra("busy_percent", "%busy", 8, 1, "percent of time with anything in flight", |r| ext(r, |x| x.busy_percent)),
];

/// The columns to show.
pub fn fields(extended: bool) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |f| extended || !f.extended)
}
