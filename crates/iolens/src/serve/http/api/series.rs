//! `series`, `heatmap` and `ios`: what happened when.

use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use iolens_core::model::Class;
use serde::Serialize;
use serde_json::{Map, Value, json as value};

use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::description::parameters;
use super::params::Params;
use super::{json, rfc3339, table, typed};
use crate::engine::heat::{HeatPlan, Part};
use crate::engine::rows::group_by;
use crate::engine::series::Series;
use crate::engine::single::{NamedIo, TooMany, ios as single_ios};
use crate::engine::{By, Format, RowArgs, parse_duration_ns};
use crate::present::columns::TableFormat;
use crate::present::series_json::SeriesColumns;
use crate::present::zoom::{self, ZoomWriter};

const BY: [(&str, By); 5] = [
    ("all", By::All),
    ("device", By::Device),
    ("process", By::Process),
    ("cgroup", By::Cgroup),
    ("file", By::File),
];
const CLASSES: [(&str, Class); 4] = [
    ("read", Class::Read),
    ("write", Class::Write),
    ("discard", Class::Discard),
    ("flush", Class::Flush),
];
/// Columns and rows of a heat map: more than a screen has shows nothing.
const MAX_CELLS: usize = 4096;
const USUAL_WIDTH: usize = 300;
const USUAL_HEIGHT: usize = 60;
/// Single I/Os of an answer.
const MAX_IOS: usize = 100_000;
const USUAL_IOS: usize = 10_000;

/// Rows, column by column.
#[derive(Debug, Serialize)]
struct SeriesDocument {
    schema_version: u32,
    step_s: f64,
    by: &'static str,
    /// `time_unix_s` is where a row's interval ends, `slot_s` how long it is.
    columns: Map<String, Value>,
    notes: Vec<String>,
}

/// `GET /api/v1/series`.
///
/// # Errors
/// A parameter makes no sense, no recording holds the time, or the rows are too many.
pub async fn series(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, parameters("series"))?;
    let (place, window, devices) = (app.place(&params), params.window()?, params.all("device"));
    let by = params.one_of("by", &BY)?.unwrap_or(By::All);
    let extended = params
        .one_of("extended", &[("true", true), ("false", false)])?
        .unwrap_or(false);
    let format = params
        .one_of("format", &TableFormat::NAMES)?
        .unwrap_or(TableFormat::Json);
    let csv = format == TableFormat::Csv;
    let step = params.parsed("step", parse_duration_ns)?;
    let rows = RowArgs {
        step,
        by,
        format: Format::Json,
        extended,
    };
    let said = app
        .read(move || {
            let group = group_by(by);
            let series = Series {
                path: &place,
                window,
                rows,
                devices: &devices,
            };
            let mut columns = SeriesColumns::new(group, extended);
            let mut writer = ZoomWriter::new(zoom::Format::Csv, group, extended, 1);
            let mut text = if csv { writer.begin() } else { String::new() };
            let step_ns = series.each_row(|row, name| match csv {
                true => text.push_str(&writer.row(row, name)),
                false => columns.row(row, name),
            })?;
            Ok((step_ns, columns.finish(), text))
        })
        .await?;
    let (step_ns, columns, text) = said.answer;
    if csv {
        return Ok(typed("text/csv; charset=utf-8", text));
    }
    if format == TableFormat::Arrow {
        return table(format, &columns);
    }
    let by = BY
        .iter()
        .find(|(_, b)| *b == by)
        .map_or("all", |(name, _)| name);
    let step_s = step_ns as f64 / 1e9;
    json(&SeriesDocument {
        schema_version: SCHEMA_VERSION,
        step_s,
        by,
        columns,
        notes: said.notes,
    })
}

/// Counts by time and latency.
#[derive(Debug, Serialize)]
struct HeatDocument {
    schema_version: u32,
    from: String,
    to: String,
    from_unix_s: f64,
    column_s: f64,
    /// Edges of the rows, one more than rows.
    latency_us: Vec<f64>,
    /// Column by column, each from the shortest latency on.
    counts: Vec<Vec<u64>>,
    ios: u64,
    /// I/Os whose time is not known.
    unknown_ios: u64,
    notes: Vec<String>,
}

/// `GET /api/v1/heatmap`.
///
/// # Errors
/// As [`series`].
pub async fn heatmap(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, parameters("heatmap"))?;
    let (place, window, devices) = (app.place(&params), params.window()?, params.all("device"));
    let class = params.one_of("class", &CLASSES)?;
    let parts = [
        ("total", Part::Total),
        ("queue", Part::Queue),
        ("device", Part::Device),
    ];
    let part = params.one_of("part", &parts)?.unwrap_or(Part::Total);
    let width = params
        .number("width", 1..=MAX_CELLS)?
        .unwrap_or(USUAL_WIDTH);
    let height = params
        .number("height", 1..=MAX_CELLS / 16)?
        .unwrap_or(USUAL_HEIGHT);
    let said = app
        .read(move || {
            let heat = HeatPlan {
                path: &place,
                window,
                class,
                part,
                devices: &devices,
                width,
            }
            .count()?;
            let cells = heat.cells(height);
            Ok((heat, cells))
        })
        .await?;
    let (heat, (bounds, counts)) = said.answer;
    json(&HeatDocument {
        schema_version: SCHEMA_VERSION,
        from: rfc3339(heat.unix_ns.start),
        to: rfc3339(heat.unix_ns.end),
        from_unix_s: heat.unix_ns.start as f64 / 1e9,
        column_s: heat.column_ns as f64 / 1e9,
        latency_us: bounds
            .iter()
            .map(|ns| (ns / 10.0).round() / 100.0)
            .collect(),
        ios: counts.iter().flatten().sum(),
        counts,
        unknown_ios: heat.unknown,
        notes: said.notes,
    })
}

/// Single I/Os, column by column.
#[derive(Debug, Serialize)]
struct IosDocument {
    schema_version: u32,
    ios: usize,
    columns: Map<String, Value>,
    notes: Vec<String>,
}

/// `GET /api/v1/ios`: refused with the nearest stretch that has not too many.
///
/// # Errors
/// As [`series`].
pub async fn ios(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, parameters("ios"))?;
    let (place, window, devices) = (app.place(&params), params.window()?, params.all("device"));
    let format = params
        .one_of("format", &TableFormat::NAMES)?
        .unwrap_or(TableFormat::Json);
    let limit = params.number("limit", 1..=MAX_IOS)?.unwrap_or(USUAL_IOS);
    let said = app
        .read(move || {
            let found = single_ios(&place, &window, &devices, limit)?;
            Ok(found.map(|ios| (ios.len(), io_columns(&ios))))
        })
        .await?;
    match said.answer {
        Ok((_, columns)) if format != TableFormat::Json => table(format, &columns),
        Ok((ios, columns)) => json(&IosDocument {
            schema_version: SCHEMA_VERSION,
            ios,
            columns,
            notes: said.notes,
        }),
        Err(TooMany { from_ns, to_ns }) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!(
                "more than {limit} I/Os: the nearest stretch that has no more is from={}&to={}",
                rfc3339(from_ns),
                rfc3339(to_ns)
            ),
        )),
    }
}

/// A column of single I/Os: its name, and how it comes out of one.
type IoColumn = (&'static str, fn(&NamedIo) -> Value);

const IO_COLUMNS: [IoColumn; 15] = [
    ("done_unix_s", |n| value!(n.done_unix_ns as f64 / 1e9)),
    ("device", |n| value!(n.device)),
    ("class", |n| value!(n.io.class().name())),
    ("op", |n| value!(n.io.op.0)),
    ("sector", |n| value!(n.io.sector)),
    ("bytes", |n| value!(n.io.bytes)),
    ("queue_us", |n| {
        value!(n.io.queue_ns.map(|ns| ns as f64 / 1e3))
    }),
    ("device_us", |n| value!(n.io.device_ns as f64 / 1e3)),
    ("total_us", |n| value!(n.io.total_ns() as f64 / 1e3)),
    ("error", |n| value!(n.io.error)),
    ("pid", |n| value!(n.io.tgid)),
    ("process", |n| {
        value!(n.io.comm.map(|c| c.to_text().into_owned()))
    }),
    ("cgroup", |n| value!(n.cgroup)),
    ("file", |n| value!(n.file)),
    ("origin", |n| value!(n.io.origin.name())),
];

fn io_columns(ios: &[NamedIo]) -> Map<String, Value> {
    IO_COLUMNS
        .iter()
        .map(|(name, get)| ((*name).to_owned(), ios.iter().map(get).collect()))
        .collect()
}
