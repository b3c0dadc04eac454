//! The columns of time series (`zoom`): one table for the text, CSV and JSON output and the help.
//!
//! To add a column: add a line to [`FIELDS`], and its definition to `fields.json`, which the schemas, the page and
//! docs/fields.md use. Names are fixed once released, because scripts rely on them.

use iolens_core::analysis::timeline::{Extended, Row};
use iolens_core::analysis::waits::TimeOwner;
use iolens_core::model::{Class, ClassRates};

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Not known: null, empty or `-`, never 0.
    Unknown,
    /// A count.
    Count(u64),
    /// A measure.
    Number(f64),
    /// Less than the source can resolve: `<` and the bound in the table, not known in other formats.
    Below(f64),
}

impl From<Option<f64>> for Value {
    fn from(v: Option<f64>) -> Value {
        v.filter(|v| v.is_finite())
            .map_or(Value::Unknown, Value::Number)
    }
}

/// A column.
#[derive(Debug)]
pub struct Field {
    /// Name in CSV and JSON, including the unit.
    pub name: &'static str,
    /// Title in the table.
    pub title: &'static str,
    /// Width of the table's column, including the space before it.
    pub width: usize,
    /// Digits after the point in the table.
    pub decimals: usize,
    /// Whether it is only shown with `-x`.
    pub extended: bool,
    /// Gets the value from a row.
    pub get: fn(&Row) -> Value,
}

const fn plain(
    name: &'static str,
    title: &'static str,
    width: usize,
    get: fn(&Row) -> Value,
) -> Field {
    Field {
        name,
        title,
        width,
        decimals: 0,
        extended: false,
        get,
    }
}

const fn extra(
    name: &'static str,
    title: &'static str,
    width: usize,
    decimals: usize,
    get: fn(&Row) -> Value,
) -> Field {
    Field {
        name,
        title,
        width,
        decimals,
        extended: true,
        get,
    }
}

fn ext(row: &Row, get: fn(&Extended) -> Option<f64>) -> Value {
    row.extended.as_ref().and_then(get).into()
}

fn mean(row: &Row, class: Class) -> Value {
    row.mean_below_us(class)
        .map_or_else(|| row.mean_us(class).into(), Value::Below)
}

/// All columns after the time and the group, in order.
pub const FIELDS: &[Field] = &[
    plain("r_per_s", "r/s", 12, |r| r.ios_per_s(Class::Read).into()),
    plain("r_kib_per_s", "Kr/s", 9, |r| {
        r.kib_per_s(Class::Read).into()
    }),
    plain("r_us", "us/r", 9, |r| mean(r, Class::Read)),
    plain("w_per_s", "w/s", 12, |r| r.ios_per_s(Class::Write).into()),
    plain("w_kib_per_s", "Kw/s", 9, |r| {
        r.kib_per_s(Class::Write).into()
    }),
    plain("w_us", "us/w", 9, |r| mean(r, Class::Write)),
    extra("r_p99_us", "p99 us/r", 11, 0, |r| ext(r, |x| x.r_p99_us)),
    extra("w_p99_us", "p99 us/w", 10, 0, |r| ext(r, |x| x.w_p99_us)),
    extra("r_max_us", "max us/r", 10, 0, |r| ext(r, |x| x.r_max_us)),
    extra("w_max_us", "max us/w", 10, 0, |r| ext(r, |x| x.w_max_us)),
    extra("inflight_mean", "in-flight", 11, 2, |r| {
        ext(r, Extended::inflight_mean)
    }),
    extra("inflight_max", "max", 6, 0, |r| {
        r.extended
            .and_then(|x| x.inflight_max)
            .map_or(Value::Unknown, Value::Count)
    }),
    extra("busy_percent", "%busy", 8, 1, |r| {
        ext(r, Extended::busy_percent)
    }),
];

const DISCARDS_PER_S: Field = extra("d_per_s", "d/s", 12, 0, |r| {
    r.ios_per_s(Class::Discard).into()
});
const DISCARDED_KIB_PER_S: Field = extra("d_kib_per_s", "Kd/s", 9, 0, |r| {
    r.kib_per_s(Class::Discard).into()
});
const FLUSHES_PER_S: Field = extra("f_per_s", "f/s", 12, 0, |r| {
    r.ios_per_s(Class::Flush).into()
});

/// The columns of `--class discard`.
pub const DISCARDS: &[Field] = &[
    DISCARDS_PER_S,
    DISCARDED_KIB_PER_S,
    plain("d_us", "us/d", 9, |r| mean(r, Class::Discard)),
];

/// The columns of `--class flush`. Flushes carry no bytes.
pub const FLUSHES: &[Field] = &[
    FLUSHES_PER_S,
    plain("f_us", "us/f", 9, |r| mean(r, Class::Flush)),
];

/// Columns for charts only, in the answers of `series` and the slots of `live`, after those of [`FIELDS`].
pub const CHARTED: &[Field] = &[
    extra("r_p50_us", "p50 us/r", 11, 0, |r| ext(r, |x| x.r_p50_us)),
    extra("r_p90_us", "p90 us/r", 11, 0, |r| ext(r, |x| x.r_p90_us)),
    extra("w_p50_us", "p50 us/w", 11, 0, |r| ext(r, |x| x.w_p50_us)),
    extra("w_p90_us", "p90 us/w", 11, 0, |r| ext(r, |x| x.w_p90_us)),
    DISCARDS_PER_S,
    DISCARDED_KIB_PER_S,
    FLUSHES_PER_S,
    extra("busy_read_percent", "%busy r", 8, 1, |r| {
        ext(r, |x| x.busy_percent_of(Class::Read))
    }),
    extra("busy_write_percent", "%busy w", 8, 1, |r| {
        ext(r, |x| x.busy_percent_of(Class::Write))
    }),
    extra("busy_discard_percent", "%busy d", 8, 1, |r| {
        ext(r, |x| x.busy_percent_of(Class::Discard))
    }),
    extra("busy_flush_percent", "%busy f", 8, 1, |r| {
        ext(r, |x| x.busy_percent_of(Class::Flush))
    }),
];

/// Columns of imported tables with totals over all classes only, after all others.
pub const ALL_CLASSES: &[Field] = &[
    plain("all_per_s", "io/s", 12, |r| all(r, |a| a.ios_per_s)),
    plain("all_kib_per_s", "K/s", 9, |r| {
        all(r, |a| a.bytes_per_s.map(|b| b / 1024.0))
    }),
    plain("all_us", "us/io", 9, |r| all(r, |a| a.mean_us)),
];

/// The columns of `--waits`: who owned the I/O time, by cause.
pub const WAITS: &[Field] = &[
    owned("undisturbed_s", "undisturbed s", |r| {
        owned_s(r, TimeOwner::Undisturbed)
    }),
    owned("others_s", "others s", |r| owned_s(r, TimeOwner::Others)),
    owned("own_s", "own s", |r| owned_s(r, TimeOwner::Own)),
    owned("held_s", "held s", |r| owned_s(r, TimeOwner::Held)),
    owned("device_s", "device s", |r| owned_s(r, TimeOwner::Device)),
    owned("unknown_s", "unknown s", |r| owned_s(r, TimeOwner::Unknown)),
];

const fn owned(name: &'static str, title: &'static str, get: fn(&Row) -> Value) -> Field {
    let column = plain(name, title, 10, get);
    Field {
        width: if title.len() < 9 { 10 } else { title.len() + 1 },
        decimals: 4,
        ..column
    }
}

fn owned_s(row: &Row, cause: TimeOwner) -> Value {
    let waits = row.waits.as_ref();
    waits.map(|time| time.ns(cause) as f64 / 1e9).into()
}

fn all(row: &Row, get: fn(&ClassRates) -> Option<f64>) -> Value {
    row.of_all_classes().and_then(get).into()
}

/// Which columns are shown in addition to the basic ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShownColumns {
    /// The columns of `-x`.
    pub extended: bool,
    /// The columns of imported tables with totals over all classes.
    pub all_classes: bool,
    /// The columns of the class selected with `--class`.
    pub class: Option<Class>,
    /// The columns of `--waits`.
    pub waits: bool,
    /// The columns for charts only.
    pub charted: bool,
}

impl ShownColumns {
    /// The columns of a chart.
    pub fn of_chart(extended: bool) -> ShownColumns {
        ShownColumns {
            extended,
            charted: extended,
            ..ShownColumns::default()
        }
    }

    /// All selected columns in order.
    pub fn fields(self) -> impl Iterator<Item = &'static Field> {
        let all_classes = if self.all_classes { ALL_CLASSES } else { &[] };
        let of_class = match self.class {
            Some(Class::Discard) => DISCARDS,
            Some(Class::Flush) => FLUSHES,
            Some(Class::Read | Class::Write) | None => &[],
        };
        let waits = if self.waits { WAITS } else { &[] };
        let charted = if self.charted { CHARTED } else { &[] };
        FIELDS
            .iter()
            .filter(move |f| self.extended || !f.extended)
            .chain(all_classes)
            .chain(of_class)
            .chain(waits)
            .chain(charted)
    }
}
