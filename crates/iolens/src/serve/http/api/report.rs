//! `report` and `findings`: what it means.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use iolens_core::analysis::files::By;
use serde::Serialize;
use serde_json::{Map, Value, json as value};

use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::description::parameters;
use super::params::Params;
use super::{json, rfc3339, table, typed};
use crate::engine::choose::{self, Chosen};
use crate::engine::{self, files, report, window};
use crate::present::columns::TableFormat;
use crate::present::report_json;

/// `GET /api/v1/report`: the document of `iolens report --json`.
///
/// # Errors
/// No recording holds the time, or several do.
pub async fn report(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, parameters("report"))?;
    let (place, asked) = (app.place(&params), params.window()?);
    let said = app
        .read(move || {
            let Chosen {
                recording,
                window: asked,
            } = choose::one(&place, &asked)?;
            let range = window::resolve_for_analysis(&recording, &asked)?;
            let analysed = report::plain(&recording, &range)?;
            let facts = report::facts(&recording, &analysed.layers);
            let requests = files::if_recorded(&recording, &range, By::Class)?;
            Ok(report_json::render(
                &analysed.report,
                recording.meta(),
                &analysed.names,
                &facts,
                requests.as_ref(),
            ))
        })
        .await?;
    Ok(typed("application/json", said.answer))
}

/// Conclusions of a stretch of time.
#[derive(Debug, Serialize)]
struct FindingsDocument {
    schema_version: u32,
    findings: Vec<PlacedFinding>,
    notes: Vec<String>,
}

/// A finding of the report with its place in time.
#[derive(Debug, Serialize)]
struct PlacedFinding {
    start: String,
    end: String,
    start_unix_s: f64,
    end_unix_s: f64,
    /// As in the report; `start_s` and `end_s` count from the recording's start.
    #[serde(flatten)]
    finding: Value,
}

/// `GET /api/v1/findings`: of each recording that holds something of the time by itself.
///
/// # Errors
/// No recording holds the time.
pub async fn findings(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, parameters("findings"))?;
    let (place, asked) = (app.place(&params), params.window()?);
    let format = params
        .one_of("format", &TableFormat::NAMES)?
        .unwrap_or(TableFormat::Json);
    let said = app
        .read(move || engine::findings::findings(&place, &asked))
        .await?;
    let placed = |f: engine::findings::PlacedFinding| PlacedFinding {
        start: rfc3339(f.from_unix_ns),
        end: rfc3339(f.to_unix_ns),
        start_unix_s: f.from_unix_ns as f64 / 1e9,
        end_unix_s: f.to_unix_ns as f64 / 1e9,
        finding: f.finding,
    };
    let findings: Vec<PlacedFinding> = said.answer.into_iter().map(placed).collect();
    if format != TableFormat::Json {
        return table(format, &columns(&findings));
    }
    json(&FindingsDocument {
        schema_version: SCHEMA_VERSION,
        findings,
        notes: said.notes,
    })
}

/// A row for each finding; its evidence is JSON in a text.
fn columns(findings: &[PlacedFinding]) -> Map<String, Value> {
    let mut columns = Map::new();
    let mut put = |name: &str, of: &dyn Fn(&PlacedFinding) -> Value| {
        drop(columns.insert(name.to_owned(), findings.iter().map(of).collect()));
    };
    put("start", &|f| value!(f.start));
    put("end", &|f| value!(f.end));
    put("start_unix_s", &|f| value!(f.start_unix_s));
    put("end_unix_s", &|f| value!(f.end_unix_s));
    for name in ["kind", "device", "severity", "summary"] {
        put(name, &|f| f.finding[name].clone());
    }
    put("evidence", &|f| value!(f.finding["evidence"].to_string()));
    columns
}
