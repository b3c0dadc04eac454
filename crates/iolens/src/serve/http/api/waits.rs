//! `waits`: who waited for whom.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::waits::Grouping;
use serde::Serialize;

use super::super::endpoint::{AT, DEVICE, Endpoint, FROM, HOST, Parameter, Shape, TO};
use super::super::places::Kind;
use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::params::Params;
use crate::engine;
use crate::engine::waits::PartWaits;
use crate::present::waits::{OtherWaits, WaitEntry, WaitsBlock};

/// What `/api/v1/waits` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/waits",
    method: "get",
    kind: Kind::Heavy,
    summary: "Who waited for whom, those that lost most first",
    parameters: &[HOST, FROM, TO, AT, BY, DEVICE],
    keys: &[
        "schema_version",
        "by",
        "start_unix_s",
        "waits",
        "waits_others",
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
    notes: Vec<String>,
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
    let grouping = params.one_of("by", &GROUPINGS)?.unwrap_or_default();
    app.stream("application/json", move |out, asker| {
        let query = asker.query(&place, window)?.of_devices(&devices);
        let parts = engine::waits::waits(&query, grouping)?;
        let block = together(&parts);
        let by = GROUPINGS.iter().find(|(_, g)| *g == grouping);
        out.json(&WaitsDocument {
            schema_version: SCHEMA_VERSION,
            by: by.map_or("process", |(name, _)| name),
            start_unix_s: parts.first().map(|p| start_unix_ns(p) as f64 / 1e9),
            waits: block.waits,
            waits_others: block.others,
            notes: asker.notes(),
        })
    })
    .await
}

fn start_unix_ns(part: &PartWaits) -> i64 {
    part.part.recording.meta().start_unix_ns
}

/// The sums of all parts.
fn together(parts: &[PartWaits]) -> WaitsBlock {
    let first_ns = parts.first().map_or(0, start_unix_ns);
    let mut all = WaitsBlock::default();
    for part in parts {
        let own = WaitsBlock::of(&part.devices, part.part.recording.meta(), &part.part.names);
        let later_ns = start_unix_ns(part).saturating_sub(first_ns);
        all.add(own, later_ns as f64 / 1e9);
    }
    all
}
