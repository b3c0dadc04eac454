//! `report` and `findings`: the results of the analyses.

use std::io::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::files::By;

use super::super::App;
use super::super::endpoint::{AT, Endpoint, FORMAT, FROM, HOST, TO};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::params::Params;
use super::{AskedData, content_type, write_table};
use crate::engine::query::Grain;
use crate::engine::report::Limits;
use crate::engine::{self, files};
use crate::present::answers::findings::FindingsDocument;
use crate::present::findings as words;
use crate::present::report_json::{self, RecordingFacts};

/// What `/api/v1/findings` is.
pub static FINDINGS: Endpoint = Endpoint {
    path: "/api/v1/findings",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "What stands out, of each recording by itself",
    parameters: &[HOST, FROM, TO, AT, FORMAT],
    keys: &["schema_version", "findings", "notes"],
    schema: Some("FindingsDocument"),
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
        "not_proven",
        "findings",
        "facts",
        "files",
    ],
    schema: Some("ReportDocument"),
    handler: || get(report),
};

/// `GET /api/v1/report`: the document of `iolens report --json`.
///
/// # Errors
/// No recording covers the time, or several do.
pub async fn report(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &REPORT)?;
    let question = AskedData::of(&app, &params)?;
    app.stream("application/json", move |out, asker| {
        let part = question.query(asker)?.one(Grain::Analysis)?;
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

/// `GET /api/v1/findings`: the findings of each recording that overlaps the window, separately.
///
/// # Errors
/// No recording covers the time.
pub async fn findings(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &FINDINGS)?;
    let question = AskedData::of(&app, &params)?;
    app.stream(content_type(question.format), move |out, asker| {
        let found = engine::findings::findings(&question.query(asker)?, words::reported)?;
        let document = FindingsDocument::new(found, asker.notes());
        write_table(out, question.format, &document.columns(), &document)
    })
    .await
}
