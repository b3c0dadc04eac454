//! `report` and `findings`: what it means.

use std::io::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::files::By;
use iolens_core::model::{KindName, Severity};
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::endpoint::{AT, Endpoint, FORMAT, FROM, HOST, TO};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::params::Params;
use super::{content_type, write_table};
use crate::engine::query::Grain;
use crate::engine::report::Limits;
use crate::engine::{self, files};
use crate::present::columns::{Column, Columns, TableFormat};
use crate::present::findings as words;
use crate::present::report_json::{self, RecordingFacts};
use crate::present::times::rfc3339;

/// What `/api/v1/findings` is.
pub static FINDINGS: Endpoint = Endpoint {
    path: "/api/v1/findings",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "What stands out, of each recording by itself",
    parameters: &[HOST, FROM, TO, AT, FORMAT],
    keys: &["schema_version", "findings", "notes"],
    handler: || get(findings),
};

/// What `/api/v1/report` is.
pub static REPORT: Endpoint = Endpoint {
    path: "/api/v1/report",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "The document of iolens report --json",
    parameters: &[HOST, FROM, TO, AT],
    keys: &[
        "schema_version",
        "recording",
        "devices",
        "sets",
        "actors",
        "actors_others",
        "waits",
        "waits_others",
        "stories",
        "not_the_disk",
        "findings",
        "facts",
        "files",
    ],
    handler: || get(report),
};

/// `GET /api/v1/report`: the document of `iolens report --json`.
///
/// # Errors
/// No recording holds the time, or several do.
pub async fn report(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &REPORT)?;
    let place = app.place(&params)?;
    let asked = params.window()?;
    app.stream("application/json", move |out, asker| {
        let part = asker.query(&place, asked)?.one(Grain::Analysis)?;
        let report = engine::report::of_part(&part, &Limits::default(), &asker.caller)?;
        let requests = files::if_recorded(&part.recording, &part.range, By::Class, &asker.caller)?;
        let document = report_json::render(
            &report,
            part.recording.meta(),
            &part.names,
            &RecordingFacts::of(&part),
            requests.as_ref(),
        );
        Ok(out.write_all(document.as_bytes())?)
    })
    .await
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
    /// Since the recording's start.
    start_s: f64,
    end_s: f64,
    kind: KindName,
    severity: Severity,
    device: Option<String>,
    summary: String,
    evidence: Map<String, Value>,
}

/// `GET /api/v1/findings`: of each recording that holds something of the time by itself.
///
/// # Errors
/// No recording holds the time.
pub async fn findings(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &FINDINGS)?;
    let place = app.place(&params)?;
    let asked = params.window()?;
    let format = params
        .one_of("format", &TableFormat::NAMES)?
        .unwrap_or(TableFormat::Json);
    app.stream(content_type(format), move |out, asker| {
        let found = engine::findings::findings(&asker.query(&place, asked)?, words::reported)?;
        let findings: Vec<PlacedFinding> = found.into_iter().map(placed).collect();
        let columns = columns(&findings);
        let document = FindingsDocument {
            schema_version: SCHEMA_VERSION,
            findings,
            notes: asker.notes(),
        };
        write_table(out, format, &columns, &document)
    })
    .await
}

fn placed(f: engine::findings::PlacedFinding) -> PlacedFinding {
    let finding = f.finding;
    PlacedFinding {
        start: rfc3339(f.from_unix_ns),
        end: rfc3339(f.to_unix_ns),
        start_unix_s: f.from_unix_ns as f64 / 1e9,
        end_unix_s: f.to_unix_ns as f64 / 1e9,
        start_s: finding.from_ns as f64 / 1e9,
        end_s: finding.to_ns as f64 / 1e9,
        kind: finding.kind,
        severity: finding.severity,
        device: finding.device,
        summary: finding.summary,
        evidence: finding.evidence,
    }
}

/// A row for each finding; its evidence is JSON in a text.
fn columns(findings: &[PlacedFinding]) -> Columns {
    let mut columns = Columns::default();
    columns.push("start", texts(findings, |f| &f.start));
    columns.push("end", texts(findings, |f| &f.end));
    columns.push("start_unix_s", numbers(findings, |f| f.start_unix_s));
    columns.push("end_unix_s", numbers(findings, |f| f.end_unix_s));
    columns.push("kind", texts(findings, |f| f.kind.as_str()));
    let devices = findings.iter().map(|f| f.device.as_deref());
    columns.push("device", Column::Texts(devices.collect()));
    columns.push("severity", texts(findings, |f| f.severity.name()));
    columns.push("summary", texts(findings, |f| &f.summary));
    let evidence: Vec<String> = findings
        .iter()
        .map(|f| Value::from(f.evidence.clone()).to_string())
        .collect();
    let evidence = Column::texts(evidence.iter().map(String::as_str));
    columns.push("evidence", evidence);
    columns
}

fn texts(findings: &[PlacedFinding], of: fn(&PlacedFinding) -> &str) -> Column {
    Column::texts(findings.iter().map(of))
}

fn numbers(findings: &[PlacedFinding], of: fn(&PlacedFinding) -> f64) -> Column {
    Column::Numbers(findings.iter().map(of).collect())
}
