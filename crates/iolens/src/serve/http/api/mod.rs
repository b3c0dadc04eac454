//! `/api/v1`: a file for each kind of question; the engines are those of the commands.

mod actors;
mod description;
pub mod hosts;
mod live;
mod mark;
mod params;
mod recordings;
mod report;
mod series;
mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant as Deadline;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use iolens_core::store::Root;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::App;
use super::problem::Problem;
use crate::engine::patience;
use crate::present::columns::{self, TableFormat};
use crate::present::escape;
use crate::streams::heard;
pub use params::Params;

/// Who asks for what, under `/api/v1`.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/recordings", get(recordings::recordings))
        .route("/api/v1/devices", get(recordings::devices))
        .route("/api/v1/hosts", get(hosts::hosts))
        .route("/api/v1/series", get(series::series))
        .route("/api/v1/heatmap", get(series::heatmap))
        .route("/api/v1/ios", get(series::ios))
        .route("/api/v1/report", get(report::report))
        .route("/api/v1/actors", get(actors::actors))
        .route("/api/v1/live", get(live::live))
        .route("/api/v1/mark", post(mark::mark))
        .route("/api/v1/snapshot", post(snapshot::snapshot))
        .route("/api/v1/openapi.json", get(description::openapi))
        .route("/api/v1/findings", get(report::findings))
}

/// An answer, and what the engines said beside it.
pub struct Said<T> {
    /// The answer.
    pub answer: T,
    /// Lines for people: what is left out, and why.
    pub notes: Vec<String>,
}

impl App {
    /// Does `work`, which reads the store, on a thread that may wait: a few at a time, and until the request's time is over.
    ///
    /// # Errors
    /// What `work` says, or there was no time for it.
    pub async fn read<T: Send + 'static>(
        self: &Arc<App>,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Said<T>, Problem> {
        let deadline = Deadline::now() + self.patience;
        let turn = Arc::clone(&self.readers).acquire_owned().await;
        let turn = turn.map_err(|_| Problem::busy("the server ends"))?;
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work ends, not until no client waits for it any more.
            let _turn = turn;
            heard(|| patience::until(deadline, work))
        });
        match done.await {
            Ok((Ok(answer), notes)) => Ok(Said { answer, notes }),
            Ok((Err(e), _)) => Err(Problem::of(&e)),
            Err(_) => Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the answer could not be made",
            )),
        }
    }

    /// The recordings that a request is about: those of the one host that it names, or of the only one.
    pub fn place(&self, params: &Params) -> PathBuf {
        match params.get("host") {
            Some(host) => self.root.join(Root::host_directory(host)),
            None => self.root.clone(),
        }
    }
}

/// One JSON document.
pub fn json(document: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_string(document);
    let text = text.map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    Ok(typed("application/json", escape::json(&text).into_owned()))
}

/// A table in the form that was asked for, other than JSON.
pub fn table(format: TableFormat, columns: &Map<String, Value>) -> Result<Response, Problem> {
    match format {
        TableFormat::Arrow => {
            let bytes = columns::arrow(columns);
            let bytes = bytes
                .map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
            Ok(typed("application/vnd.apache.arrow.stream", bytes))
        }
        _ => Ok(typed("text/csv; charset=utf-8", columns::csv(columns))),
    }
}

/// A body of a type.
pub fn typed(content_type: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// RFC 3339 in UTC, to the nanosecond.
pub fn rfc3339(unix_ns: i64) -> String {
    Timestamp::from_nanosecond(unix_ns.into())
        .map_or_else(|_| unix_ns.to_string(), |t| t.to_string())
}

#[cfg(test)]
pub mod tests;
