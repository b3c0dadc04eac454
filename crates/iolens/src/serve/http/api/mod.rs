//! `/api/v1`: a file for each kind of question; the engines are those of the commands.

pub mod actors;
pub mod hosts;
pub mod live;
pub mod mark;
mod params;
pub mod recordings;
pub mod report;
pub mod series;
pub mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant as Deadline;

use anyhow::Result;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use iolens_core::store::Root;
use jiff::Timestamp;
use serde::Serialize;

use super::App;
use super::answer::AnswerWriter;
use super::guard::left_out;
use super::problem::{Problem, as_parameters};
use crate::engine::{patience, privacy};
use crate::present::columns::{Columns, TableFormat};
use crate::present::escape;
use crate::streams::heard;
pub use params::Params;

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
        let left_out = left_out();
        let turn = Arc::clone(&self.readers).acquire_owned().await;
        let turn = turn.map_err(|_| Problem::busy("the server ends"))?;
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work ends, not until no client waits for it any more.
            let _turn = turn;
            privacy::hiding(left_out, || noted(|| patience::until(deadline, work)))
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
    ///
    /// # Errors
    /// Nothing is recorded of that host.
    pub fn place(&self, params: &Params) -> Result<PathBuf, Problem> {
        let Some(host) = params.get("host") else {
            return Ok(self.root.clone());
        };
        let place = self.root.join(Root::host_directory(host));
        // A name that is too long for a file is no host's either.
        if !place.is_dir() {
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "host: nothing is recorded of it; /api/v1/recordings lists what there is",
            ));
        }
        Ok(place)
    }
}

/// Does a part of the work of an answer; beside it what the engines say, with the names of parameters in place of flags, and how
/// to see the names that are left out.
pub fn noted<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let (done, notes) = heard(work);
    let mut notes: Vec<String> = notes.iter().map(|n| as_parameters(n)).collect();
    notes.extend(privacy::left_out().map(|how| how.to_string()));
    (done, notes)
}

/// One JSON document.
pub fn json(document: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_string(document);
    let text = text.map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    Ok(typed("application/json", escape::json(&text).into_owned()))
}

/// What a table is in the form that was asked for, if that is not a document.
pub fn content_type(format: TableFormat) -> &'static str {
    match format {
        TableFormat::Json => "application/json",
        TableFormat::Csv => "text/csv; charset=utf-8",
        TableFormat::Arrow => "application/vnd.apache.arrow.stream",
    }
}

/// Writes a table in the form that was asked for; `document` is what holds it as JSON.
pub fn write_table(
    out: &mut AnswerWriter,
    format: TableFormat,
    columns: &Columns,
    document: &impl Serialize,
) -> Result<()> {
    match format {
        TableFormat::Json => out.json(document),
        TableFormat::Csv => columns.write_csv(out),
        TableFormat::Arrow => columns.write_arrow(out),
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
