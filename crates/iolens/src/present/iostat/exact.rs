//! What the reference does not have: columns from single I/Os (`--true`, `--hist`), in every format.
//!
//! A value that is not known (no eBPF, no I/O, a partition) is `-` in tables and `null` in JSON.

use super::columns::{CellValue, Column};
use super::{Row, Style};
use iolens_core::analysis::device::exact::DeviceExact;
use iolens_core::model::Histogram;

/// A value for machines: its name with its unit, and the value if it is known.
pub type ExactField = (&'static str, fn(&DeviceExact) -> Option<f64>);

/// `--true`.
pub const TRUE_FIELDS: [ExactField; 3] = [
    ("busy_percent", DeviceExact::busy_percent),
    ("inflight_mean", DeviceExact::inflight_mean),
    ("inflight_max", |e| e.inflight_max.map(|n| n as f64)),
];

/// `--hist`: nearest-rank percentiles of latency, start to done.
pub const HIST_FIELDS: [ExactField; 6] = [
    ("r_p50_us", |e| quantile_us(&e.read, 0.5)),
    ("r_p99_us", |e| quantile_us(&e.read, 0.99)),
    ("r_max_us", |e| quantile_us(&e.read, 1.0)),
    ("w_p50_us", |e| quantile_us(&e.write, 0.5)),
    ("w_p99_us", |e| quantile_us(&e.write, 0.99)),
    ("w_max_us", |e| quantile_us(&e.write, 1.0)),
];

fn quantile_us(h: &Histogram, q: f64) -> Option<f64> {
    h.quantile(q).map(|ns| ns as f64 / 1e3)
}

/// Milliseconds, as the waiting times beside them.
macro_rules! milliseconds {
    ($name:literal, $at:literal) => {
        Column::known($name, 8, 3, |r| {
            value(r, HIST_FIELDS[$at]).map(|us| us / 1e3)
        })
    };
}

/// The columns of `--true` in tables.
pub const TRUE_COLUMNS: [Column; 3] = [
    Column::known("%busy", 6, 2, |r| value(r, TRUE_FIELDS[0])),
    Column::known("inflight", 8, 2, |r| value(r, TRUE_FIELDS[1])),
    Column::known("infl-max", 8, 0, |r| value(r, TRUE_FIELDS[2])),
];

/// The columns of `--hist` in tables, in milliseconds.
pub const HIST_COLUMNS: [Column; 6] = [
    milliseconds!("r_p50", 0),
    milliseconds!("r_p99", 1),
    milliseconds!("r_max", 2),
    milliseconds!("w_p50", 3),
    milliseconds!("w_p99", 4),
    milliseconds!("w_max", 5),
];

fn value(row: &Row<'_>, field: ExactField) -> Option<f64> {
    row.exact.as_deref().and_then(field.1)
}

/// The columns that a style asks for.
pub fn columns(style: &Style) -> Vec<Column> {
    debug_assert!(
        HIST_COLUMNS
            .iter()
            .chain(&TRUE_COLUMNS)
            .all(|c| matches!(c.cell, CellValue::Known(..)))
    );
    let (t, h): (&[Column], &[Column]) = (&TRUE_COLUMNS, &HIST_COLUMNS);
    [
        if style.exact { t } else { &[] },
        if style.percentiles { h } else { &[] },
    ]
    .concat()
}

/// The fields for machines that are asked for, in order.
pub fn fields(exact: bool, percentiles: bool) -> Vec<ExactField> {
    let (t, h): (&[ExactField], &[ExactField]) = (&TRUE_FIELDS, &HIST_FIELDS);
    let lost: &[ExactField] = &[("lost_ios", |e| Some(e.lost_ios as f64))];
    let any = exact || percentiles;
    [
        if exact { t } else { &[] },
        if percentiles { h } else { &[] },
        if any { lost } else { &[] },
    ]
    .concat()
}

/// A value as JSON and CSV write it: at most six decimals.
pub fn text(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}
