//! `waits`: who waited for whom.

use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::timeline::MIN_STEP_NS;
use iolens_core::analysis::waits::Grouping;

use super::super::App;
use super::super::endpoint::{
    AT, CGROUP, CLASS, DEVICE, Endpoint, FILE, FROM, GROUPING_BY, HOST, PROCESS, Parameter, Shape,
    TO,
};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::AskedData;
use super::params::Params;
use crate::engine;
use crate::engine::parse_duration_ns;
use crate::engine::query::Query;
use crate::engine::waits::{PartWaitBins, PartWaits};
use crate::present::answers::waits::WaitsDocument;

/// What `/api/v1/waits` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/waits",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "Who waited for whom, those that lost most first",
    parameters: &[
        HOST,
        FROM,
        TO,
        AT,
        STEP,
        GROUPING_BY,
        DEVICE,
        PROCESS,
        CGROUP,
        FILE,
        CLASS,
    ],
    keys: &[
        "schema_version",
        "by",
        "start_unix_s",
        "waits",
        "waits_others",
        "step_s",
        "intervals",
        "notes",
    ],
    schema: Some("WaitsDocument"),
    handler: || get(waits),
};

/// `step`.
const STEP: Parameter = Parameter {
    name: "step",
    shape: Shape::Text,
    description: "A duration such as 10ms, 1s or 1m: each interval by itself, too; at most 1000 of them",
};

/// Maximum number of intervals of a response: with 20 entries each, some megabytes.
const MAX_INTERVALS: i64 = 1000;

/// `GET /api/v1/waits`: sums over all recordings that overlap the window.
///
/// # Errors
/// A parameter is invalid, no recording covers the time, or its single I/Os were removed.
pub async fn waits(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let question = AskedData::of(&app, &params)?;
    let grouping = params.one_of("by", &Grouping::NAMES)?.unwrap_or_default();
    let step_ns = params.parsed("step", parse_step)?;
    app.stream("application/json", move |out, asker| {
        let query = question.query(asker)?;
        let parts = engine::waits::waits(&query, grouping)?;
        let bins = match step_ns {
            Some(step_ns) => Some(bins(&query, &parts, grouping, step_ns)?),
            None => None,
        };
        let steps = step_ns.zip(bins.as_deref());
        out.json(&WaitsDocument::of(&parts, grouping, steps, asker.notes()))
    })
    .await
}

/// Parses the length of an interval.
fn parse_step(text: &str) -> Result<i64, String> {
    let step_ns = parse_duration_ns(text).map_err(|e| e.to_string())?;
    if step_ns < MIN_STEP_NS {
        return Err("at least 1ms".to_owned());
    }
    Ok(step_ns)
}

/// The intervals of each recording separately, in order of time.
fn bins(
    query: &Query<'_>,
    parts: &[PartWaits],
    grouping: Grouping,
    step_ns: i64,
) -> Result<Vec<PartWaitBins>> {
    let mut intervals = 0;
    for PartWaits { part, .. } in parts {
        intervals += (part.range.end - part.range.start) / step_ns;
    }
    if intervals > MAX_INTERVALS {
        let problem = format!("more than {MAX_INTERVALS} intervals: choose a longer step");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, problem).into());
    }
    Ok(engine::waits::bins(query, grouping, step_ns)?)
}
