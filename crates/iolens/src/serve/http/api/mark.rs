//! `mark`: adds a mark with a text to the recording.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::post;
use serde_json::json as value;

use super::super::endpoint::{Endpoint, Parameter, Shape};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::json;
use super::params::Params;

/// What `/api/v1/mark` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/mark",
    method: "post",
    kind: RequestKind::Light,
    summary: "Puts a remark on the time line, now",
    parameters: &[TEXT],
    keys: &["schema_version", "marked"],
    schema: None,
    handler: || post(mark),
};

/// `text`.
const TEXT: Parameter = Parameter {
    name: "text",
    shape: Shape::Text,
    description: "One line, at most 500 bytes",
};

/// A mark is a line, not a log.
const MAX_BYTES: usize = 500;

/// `POST /api/v1/mark`.
///
/// # Errors
/// The text is missing, the server does not record, or the recorder has not yet taken earlier marks.
pub async fn mark(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let text = params.get("text").unwrap_or_default();
    if text.is_empty() || text.len() > MAX_BYTES || text.contains('\n') {
        return Err(Problem::bad(format!(
            "text: expected one line of 1 to {MAX_BYTES} bytes"
        )));
    }
    let Some(marks) = &app.marks else {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this server records nothing; there is no time line to mark",
        ));
    };
    match marks.try_send(text.to_owned()) {
        Ok(()) => json(&value!({ "schema_version": SCHEMA_VERSION, "marked": text })),
        Err(_) => Err(Problem::busy(
            "the recorder has not taken the remarks before",
        )),
    }
}
