//! `report` and `findings`: what it means.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use iolens_core::analysis::files::By;
use serde::Serialize;
use serde_json::Value;

use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::description::parameters;
use super::params::Params;
use super::{json, rfc3339, typed};
use crate::engine::choose::{self, Chosen};
use crate::engine::{files, report, window};
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
            let Chosen { recording, window: asked } = choose::one(&place, &asked)?;
            let range = window::resolve_for_analysis(&recording, &asked)?;
            let analysed = report::plain(&recording, &range)?;
            let facts = report::facts(&recording, &analysed.layers);
            let requests = files::if_recorded(&recording, &range, By::Class)?;
            Ok(report_json::render(&analysed.report, recording.meta(), &facts, requests.as_ref()))
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
    let said = app
        .read(move || {
            let mut found = Vec::new();
            for Chosen { recording, window: asked } in choose::all(&place, &asked)? {
                let range = window::resolve_for_analysis(&recording, &asked)?;
                let report = report::plain(&recording, &range)?.report;
                let start_ns = recording.meta().start_unix_ns;
                found.extend(report.findings.iter().map(|f| {
                    let (from_ns, to_ns) = (start_ns.saturating_add(f.from_ns), start_ns.saturating_add(f.to_ns));
                    PlacedFinding {
                        start: rfc3339(from_ns),
                        end: rfc3339(to_ns),
                        start_unix_s: from_ns as f64 / 1e9,
                        end_unix_s: to_ns as f64 / 1e9,
                        finding: report_json::finding_value(f, recording.meta()),
                    }
                }));
            }
            Ok(found)
        })
        .await?;
    json(&FindingsDocument { schema_version: SCHEMA_VERSION, findings: said.answer, notes: said.notes })
}
