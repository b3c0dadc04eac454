//! `series`, `heatmap` and `ios`: I/O over time.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::heat::TimePart;
use iolens_core::analysis::timeline::{GroupBy, Row};
use jiff::tz::TimeZone;

use super::super::App;
use super::super::answer::AnswerWriter;
use super::super::endpoint::{
    AT, CGROUP, CLASS, DEVICE, Endpoint, FILE, FORMAT, FROM, HOST, PROCESS, Parameter, Shape, TO,
    names_of,
};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::params::Params;
use super::{AskedData, content_type, write_table};
use crate::engine::heat::HeatPlan;
use crate::engine::parse_duration_ns;
use crate::engine::series::Series;
use crate::engine::single::{TooMany, ios as single_ios};
use crate::present::answers::series::{HeatDocument, IosDocument, SeriesDocument};
use crate::present::columns::TableFormat;
use crate::present::series_json::SeriesColumns;
use crate::present::times::{Clock, Times, rfc3339};
use crate::present::zoom::{self, ZoomWriter};

/// What `/api/v1/series` is.
pub static SERIES: Endpoint = Endpoint {
    path: "/api/v1/series",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "The columns of zoom, from the coarsest tier that carries the step",
    parameters: &[
        HOST, FROM, TO, AT, STEP, BY, DEVICE, PROCESS, CGROUP, FILE, CLASS, EXTENDED, FORMAT,
    ],
    keys: &["schema_version", "step_s", "by", "columns", "notes"],
    schema: Some("SeriesDocument"),
    handler: || get(series),
};

/// What `/api/v1/heatmap` is.
pub static HEATMAP: Endpoint = Endpoint {
    path: "/api/v1/heatmap",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "I/Os by time and latency",
    parameters: &[
        HOST, FROM, TO, AT, DEVICE, PROCESS, CGROUP, FILE, CLASS, PART, WIDTH, HEIGHT,
    ],
    keys: &[
        "schema_version",
        "from",
        "to",
        "from_unix_s",
        "column_s",
        "latency_us",
        "counts",
        "recorded_s",
        "ios",
        "unknown_ios",
        "notes",
    ],
    schema: Some("HeatDocument"),
    handler: || get(heatmap),
};

/// What `/api/v1/ios` is.
pub static IOS: Endpoint = Endpoint {
    path: "/api/v1/ios",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "Single I/Os; too many are refused with the nearest stretch that has no more",
    parameters: &[
        HOST, FROM, TO, AT, DEVICE, PROCESS, CGROUP, FILE, CLASS, LIMIT, FORMAT,
    ],
    keys: &["schema_version", "ios", "since_unix_s", "columns", "notes"],
    schema: Some("IosDocument"),
    handler: || get(ios),
};

/// `step`.
const STEP: Parameter = Parameter {
    name: "step",
    shape: Shape::Text,
    description: "A duration such as 10ms, 1s or 1m; at least 1ms",
};
const GROUP_NAMES: [&str; 5] = names_of(&GroupBy::NAMES);
/// `by`.
const BY: Parameter = Parameter {
    name: "by",
    shape: Shape::OneOf(&GROUP_NAMES),
    description: "Subject of a row",
};
/// `extended`.
const EXTENDED: Parameter = Parameter {
    name: "extended",
    shape: Shape::OneOf(&["true", "false"]),
    description: "Percentiles, in flight and busy, too",
};
const PARTS: [(&str, TimePart); 3] = [
    ("total", TimePart::Total),
    ("queue", TimePart::Queue),
    ("device", TimePart::Device),
];
const PART_NAMES: [&str; 3] = names_of(&PARTS);
/// `part`.
const PART: Parameter = Parameter {
    name: "part",
    shape: Shape::OneOf(&PART_NAMES),
    description: "Which time of an I/O",
};
/// `width`: more columns or rows than a screen has show nothing.
const WIDTH: Parameter = Parameter {
    name: "width",
    shape: Shape::Number(1, 4096),
    description: "Columns",
};
/// `height`.
const HEIGHT: Parameter = Parameter {
    name: "height",
    shape: Shape::Number(1, 256),
    description: "Rows",
};
/// `limit`.
const LIMIT: Parameter = Parameter {
    name: "limit",
    shape: Shape::Number(1, 100_000),
    description: "Most I/Os that are wanted",
};

// Columns and rows of a heat map.
const DEFAULT_WIDTH: usize = 300;
const DEFAULT_HEIGHT: usize = 60;
/// Default number of single I/Os of a response.
const DEFAULT_IOS: usize = 10_000;

/// `GET /api/v1/series`.
///
/// # Errors
/// A parameter is invalid, no recording covers the time, or there are too many rows.
pub async fn series(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &SERIES)?;
    let question = AskedData::of(&app, &params)?;
    let by = params
        .one_of("by", &GroupBy::NAMES)?
        .unwrap_or(GroupBy::All);
    let extended = params.get("extended") == Some("true");
    let step_ns = params.parsed("step", parse_duration_ns)?;
    app.stream(content_type(question.format), move |out, asker| {
        let series = Series {
            query: question.query(asker)?,
            step_ns,
            by,
            extended,
        };
        if question.format == TableFormat::Csv {
            return csv(series, out);
        }
        let mut columns = SeriesColumns::new(by, extended);
        let step_ns = series.each_row(|_, row, name| columns.row(row, name))?;
        let document = SeriesDocument::new(step_ns, by, columns.finish(), asker.notes());
        write_table(out, question.format, &document.columns, &document)
    })
    .await
}

/// Writes the CSV lines of `zoom`, each as soon as it is complete.
fn csv(series: Series<'_>, out: &mut AnswerWriter) -> Result<()> {
    let mut writer = ZoomWriter::new(zoom::Format::Csv, series.by, series.extended, 1)
        .with_times(Times::relative());
    let mut written = out.write_all(writer.begin().as_bytes());
    let mut is_first = true;
    series.each_row(|start_unix_ns, row, name| {
        if is_first {
            // `time_s` counts from the start of the first recording, which is known with the first row.
            writer.set_times(Times::new(Clock::Wall(TimeZone::UTC), start_unix_ns, 0));
            is_first = false;
        }
        let since_start = Row {
            from_ns: row.from_ns - start_unix_ns,
            to_ns: row.to_ns - start_unix_ns,
            ..row.clone()
        };
        if written.is_ok() {
            written = out.write_all(writer.row(&since_start, name).as_bytes());
        }
    })?;
    Ok(written?)
}

/// `GET /api/v1/heatmap`.
///
/// # Errors
/// Those of [`series`].
pub async fn heatmap(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &HEATMAP)?;
    let mut question = AskedData::of(&app, &params)?;
    // There are sums per class, but none for selected I/Os.
    let class = question.ios.class.take();
    let part = params.one_of("part", &PARTS)?.unwrap_or(TimePart::Total);
    let width = params.number("width").unwrap_or(DEFAULT_WIDTH);
    let height = params.number("height").unwrap_or(DEFAULT_HEIGHT);
    app.stream("application/json", move |out, asker| {
        let plan = HeatPlan {
            query: question.query(asker)?,
            class,
            part,
            width,
        };
        let (heat, recorded_ns) = plan.count()?;
        out.json(&HeatDocument::of(
            &heat,
            &recorded_ns,
            height,
            asker.notes(),
        ))
    })
    .await
}

/// `GET /api/v1/ios`: if there are too many I/Os, the error names a stretch that can be returned.
///
/// # Errors
/// Those of [`series`].
pub async fn ios(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &IOS)?;
    let question = AskedData::of(&app, &params)?;
    let limit = params.number("limit").unwrap_or(DEFAULT_IOS);
    app.stream(content_type(question.format), move |out, asker| {
        let ios = match single_ios(&question.query(asker)?, limit)? {
            Ok(ios) => ios,
            Err(too_many) => return Err(refusal(limit, too_many).into()),
        };
        let document = IosDocument::of(&ios, question.format, asker.notes());
        write_table(out, question.format, &document.columns, &document)
    })
    .await
}

fn refusal(limit: usize, nearest: TooMany) -> Problem {
    let from = rfc3339(nearest.from_ns);
    let to = rfc3339(nearest.to_ns);
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        format!(
            "more than {limit} I/Os: the nearest stretch that has no more is from={from}&to={to}"
        ),
    )
}
