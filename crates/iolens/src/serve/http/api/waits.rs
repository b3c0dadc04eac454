//! `waits`: who waited for whom.

use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::timeline::MIN_STEP_NS;
use iolens_core::analysis::waits::Grouping;
use serde::Serialize;

use super::super::endpoint::{
    AT, CGROUP, CLASS, DEVICE, Endpoint, FILE, FROM, HOST, PROCESS, Parameter, Shape, TO,
};
use super::super::places::Kind;
use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::params::Params;
use crate::engine;
use crate::engine::parse_duration_ns;
use crate::engine::query::Query;
use crate::engine::waits::PartWaits;
use crate::present::waits::{OtherWaits, WaitEntry, WaitsBlock};

/// What `/api/v1/waits` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/waits",
    method: "get",
    kind: Kind::Heavy,
    summary: "Who waited for whom, those that lost most first",
    parameters: &[
        HOST, FROM, TO, AT, STEP, BY, DEVICE, PROCESS, CGROUP, FILE, CLASS,
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
    handler: || get(waits),
};

/// `by`.
const BY: Parameter = Parameter {
    name: "by",
    shape: Shape::OneOf(&["process", "cgroup", "file"]),
    description: "Whose I/Os are taken together, beside those of one class and origin",
};

/// `step`.
const STEP: Parameter = Parameter {
    name: "step",
    shape: Shape::Text,
    description: "A duration such as 10ms, 1s or 1m: each interval by itself, too; at most 1000 of them",
};

/// An answer has at most so many intervals: with 20 entries each, some megabytes.
const MAX_INTERVALS: i64 = 1000;

const GROUPINGS: [(&str, Grouping); 3] = [
    ("process", Grouping::Process),
    ("cgroup", Grouping::Cgroup),
    ("file", Grouping::File),
];

/// Who waited for whom.
#[derive(Debug, Serialize)]
struct WaitsDocument {
    schema_version: u32,
    by: &'static str,
    /// What the times in it count from: the first recording's start.
    start_unix_s: Option<f64>,
    waits: Vec<WaitEntry>,
    /// What the entries leave out.
    waits_others: OtherWaits,
    /// Length of the intervals, if they were asked for.
    step_s: Option<f64>,
    /// Those in which I/Os completed, if they were asked for.
    intervals: Option<Vec<WaitInterval>>,
    notes: Vec<String>,
}

/// Who waited for whom in one interval.
#[derive(Debug, Serialize)]
struct WaitInterval {
    /// Its begin.
    start_unix_s: f64,
    #[serde(flatten)]
    block: WaitsBlock,
}

/// `GET /api/v1/waits`: sums over all recordings that hold something of the time.
///
/// # Errors
/// A parameter makes no sense, no recording holds the time, or its single I/Os are gone.
pub async fn waits(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let place = app.place(&params)?;
    let window = params.window()?;
    let devices = params.all("device");
    let chosen = params.selection()?;
    let grouping = params.one_of("by", &GROUPINGS)?.unwrap_or_default();
    let step_ns = params.parsed("step", parse_step)?;
    app.stream("application/json", move |out, asker| {
        let query = asker
            .query(&place, window)?
            .of_devices(&devices)
            .of_ios(&chosen)?;
        let parts = engine::waits::waits(&query, grouping)?;
        let block = together(&parts);
        let intervals = match step_ns {
            Some(step_ns) => Some(intervals(&query, &parts, grouping, step_ns)?),
            None => None,
        };
        let by = GROUPINGS.iter().find(|(_, g)| *g == grouping);
        out.json(&WaitsDocument {
            schema_version: SCHEMA_VERSION,
            by: by.map_or("process", |(name, _)| name),
            start_unix_s: parts.first().map(|p| start_unix_ns(p) as f64 / 1e9),
            waits: block.waits,
            waits_others: block.others,
            step_s: step_ns.map(|ns| ns as f64 / 1e9),
            intervals,
            notes: asker.notes(),
        })
    })
    .await
}

/// A length of intervals.
fn parse_step(text: &str) -> Result<i64, String> {
    let step_ns = parse_duration_ns(text).map_err(|e| e.to_string())?;
    if step_ns < MIN_STEP_NS {
        return Err("at least 1ms".to_owned());
    }
    Ok(step_ns)
}

/// Each interval of each recording by itself, by time.
fn intervals(
    query: &Query<'_>,
    parts: &[PartWaits],
    grouping: Grouping,
    step_ns: i64,
) -> Result<Vec<WaitInterval>> {
    let of_part = |p: &PartWaits| (p.part.range.end - p.part.range.start) / step_ns;
    if parts.iter().map(of_part).sum::<i64>() > MAX_INTERVALS {
        let problem = format!("more than {MAX_INTERVALS} intervals: choose a longer step");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, problem).into());
    }
    let mut all = Vec::new();
    for part in engine::waits::bins(query, grouping, step_ns)? {
        let meta = part.part.recording.meta();
        for bins in part.bins.chunk_by(|a, b| a.from_ns == b.from_ns) {
            let start_unix_ns = meta.start_unix_ns.saturating_add(bins[0].from_ns);
            all.push(WaitInterval {
                start_unix_s: start_unix_ns as f64 / 1e9,
                block: WaitsBlock::of_interval(bins, meta, &part.part.names),
            });
        }
    }
    Ok(all)
}

fn start_unix_ns(part: &PartWaits) -> i64 {
    part.part.recording.meta().start_unix_ns
}

/// The sums of all parts.
fn together(parts: &[PartWaits]) -> WaitsBlock {
    let first_ns = parts.first().map_or(0, start_unix_ns);
    let mut all = WaitsBlock::default();
    for part in parts {
        let later_ns = start_unix_ns(part).saturating_sub(first_ns);
        let meta = part.part.recording.meta();
        for piece in &part.pieces {
            let block = match piece.is_of_sums {
                true => WaitsBlock::of_sums(&piece.devices, meta, &part.part.names),
                false => WaitsBlock::of(&piece.devices, meta, &part.part.names),
            };
            all.add(block, later_ns as f64 / 1e9);
        }
    }
    all
}
