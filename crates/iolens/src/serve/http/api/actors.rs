//! `actors`: who did it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::waits::Grouping;

use super::super::App;
use super::super::endpoint::{
    AT, CGROUP, CLASS, DEVICE, Endpoint, FILE, FORMAT, FROM, GROUPING_BY, HOST, PROCESS, TO,
};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::params::Params;
use super::{AskedData, content_type, write_table};
use crate::engine;
use crate::present::answers::actors::ActorsDocument;

/// What `/api/v1/actors` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/actors",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "Who had most I/O time",
    parameters: &[
        HOST,
        FROM,
        TO,
        AT,
        GROUPING_BY,
        DEVICE,
        PROCESS,
        CGROUP,
        FILE,
        CLASS,
        FORMAT,
    ],
    keys: &["schema_version", "by", "actors", "others", "notes"],
    schema: Some("ActorsDocument"),
    handler: || get(actors),
};

/// `GET /api/v1/actors`.
///
/// # Errors
/// A parameter makes no sense, or no recording that knows who caused I/O holds the time.
pub async fn actors(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let question = AskedData::of(&app, &params)?;
    let by = params.one_of("by", &Grouping::NAMES)?.unwrap_or_default();
    app.stream(content_type(question.format), move |out, asker| {
        let found = engine::actors::actors(&question.query(asker)?, by.into())?;
        let document = ActorsDocument::of(found, by, asker.notes());
        write_table(out, question.format, &document.columns(), &document)
    })
    .await
}
