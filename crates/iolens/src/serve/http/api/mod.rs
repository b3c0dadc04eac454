//! `/api/v1`: one file per endpoint. The engines are those of the commands.

pub mod actors;
pub mod hosts;
pub mod live;
pub mod mark;
mod params;
pub mod recordings;
pub mod report;
pub mod series;
pub mod snapshot;
pub mod stories;
pub mod waits;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use iolens_core::store::Root;
use serde::Serialize;

use super::App;
use super::answer::AnswerWriter;
use super::endpoint::Endpoint;
use super::guard::left_out;
use super::health::Health;
use super::problem::Problem;
use crate::engine::TimeWindow;
use crate::engine::caller::Caller;
use crate::engine::error::QueryError;
use crate::engine::filter::FilterPlan;
use crate::engine::note::Note;
use crate::engine::query::{DEFAULT_NS, Query};
use crate::present::columns::{Columns, TableFormat};
use crate::present::escape;
use crate::present::query_text::{self, Spelling};
pub use params::Params;

/// All endpoints of the server. To add one, write a file with its handler and its [`Endpoint`], and add a line here.
pub static ENDPOINTS: &[&Endpoint] = &[
    &super::page::FRONT,
    &super::page::REPORT_PAGE,
    &super::health::ENDPOINT,
    &super::metrics::ENDPOINT,
    &recordings::RECORDINGS,
    &recordings::DEVICES,
    &hosts::ENDPOINT,
    &series::SERIES,
    &series::HEATMAP,
    &series::IOS,
    &actors::ENDPOINT,
    &waits::ENDPOINT,
    &stories::ENDPOINT,
    &report::FINDINGS,
    &report::REPORT,
    &live::ENDPOINT,
    &mark::ENDPOINT,
    &snapshot::ENDPOINT,
    &super::routes::OPENAPI,
];

/// A response with the notes beside it.
pub struct WithNotes<T> {
    /// The response.
    pub answer: T,
    /// Notes for users: what is left out, and why.
    pub notes: Vec<String>,
}

/// The caller of a request, collecting the notes.
pub struct Asker {
    /// Passed to the engines.
    pub caller: Caller,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Asker {
    /// A caller with `deadline`. Names are hidden if there is a text that says how to see them. `health` keeps
    /// reported damage.
    pub fn new(deadline: Instant, names_left_out: Option<Arc<str>>, health: Arc<Health>) -> Asker {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&notes);
        let growing = health.growing();
        let caller = Caller::new(move |note: Note| {
            health.record_damage(&note);
            let text = query_text::note(&note, Spelling::Parameters);
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(text);
        });
        let caller = caller.until(deadline).hiding(names_left_out);
        let caller = caller.knowing(growing);
        Asker { caller, notes }
    }

    /// A query about `window` at `place`, or about the last minutes if `window` has no time.
    ///
    /// # Errors
    /// No recording can be read.
    pub fn query<'a>(
        &'a self,
        place: &'a Path,
        window: TimeWindow,
    ) -> Result<Query<'a>, QueryError> {
        Query::new(place, window, &self.caller).or_latest(DEFAULT_NS)
    }

    /// The notes so far, and how to see hidden names.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.remarks();
        notes.extend(self.caller.names_left_out().map(str::to_owned));
        notes
    }

    /// Takes the notes so far; they are not returned again.
    pub fn remarks(&self) -> Vec<String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *notes)
    }
}

/// The recordings that a request selects: those of the host that it names, or of the only host.
#[derive(Debug)]
pub struct AskedPlace {
    path: PathBuf,
    names_host: bool,
}

impl AskedPlace {
    /// Their path. Accesses the disk, so it must be called on a blocking thread.
    ///
    /// # Errors
    /// Nothing is recorded for that host.
    pub fn path(&self) -> Result<&Path, Problem> {
        // A name that is too long for a file is not a host's name either.
        if self.names_host && !self.path.is_dir() {
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "host: nothing is recorded of it; /api/v1/recordings lists what there is",
            ));
        }
        Ok(&self.path)
    }
}

/// The store query of a request.
struct AskedData {
    /// The recordings.
    place: AskedPlace,
    window: TimeWindow,
    /// Names of the selected devices; empty: all.
    devices: Vec<String>,
    /// The selected I/Os.
    ios: FilterPlan,
    /// Format of the response.
    format: TableFormat,
}

impl AskedData {
    /// Parses `params`. A parameter that an endpoint does not take is absent, so everything is selected.
    ///
    /// # Errors
    /// A parameter is invalid.
    fn of(app: &App, params: &Params) -> Result<AskedData, Problem> {
        let format = params.one_of("format", &TableFormat::NAMES)?;
        Ok(AskedData {
            place: app.place(params),
            window: params.window()?,
            devices: params.all("device"),
            ios: params.selection()?,
            format: format.unwrap_or(TableFormat::Json),
        })
    }

    /// The query for the engines.
    ///
    /// # Errors
    /// Nothing is recorded for the host, no recording can be read, or the query selects by a name that is hidden from
    /// the caller.
    fn query<'a>(&'a self, asker: &'a Asker) -> Result<Query<'a>> {
        let query = asker.query(self.place.path()?, self.window)?;
        Ok(query.of_devices(&self.devices).of_ios(&self.ios)?)
    }
}

impl App {
    /// Runs `work`, which reads the store, on a blocking thread: only a few at a time, and limited to the time of the
    /// request.
    ///
    /// # Errors
    /// The error of `work`, or a timeout.
    pub async fn read<T: Send + 'static>(
        self: &Arc<App>,
        work: impl FnOnce(&Asker) -> Result<T> + Send + 'static,
    ) -> Result<WithNotes<T>, Problem> {
        let asker = self.asker();
        let turn = Arc::clone(&self.readers).acquire_owned().await;
        let turn = turn.map_err(|_| Problem::busy("the server ends"))?;
        let health = Arc::clone(&self.health);
        let done = super::run_blocking(move || {
            // Held until the work ends, even if the client has disconnected.
            let _turn = turn;
            health.forget_removed();
            let answer = work(&asker)?;
            let notes = asker.notes();
            anyhow::Ok(WithNotes { answer, notes })
        });
        match done.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(e)) => Err(Problem::of(&e)),
            Err(_) => Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the answer could not be made",
            )),
        }
    }

    /// The caller of the current request.
    pub fn asker(&self) -> Asker {
        let deadline = Instant::now() + self.time_limit;
        Asker::new(deadline, left_out(), Arc::clone(&self.health))
    }

    /// The recordings that a request selects.
    pub fn place(&self, params: &Params) -> AskedPlace {
        let host = params.get("host");
        AskedPlace {
            path: match host {
                Some(host) => self.root.join(Root::host_directory(host)),
                None => self.root.clone(),
            },
            names_host: host.is_some(),
        }
    }
}

/// A response with one JSON document.
pub fn json(document: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_string(document);
    let text = text.map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    Ok(typed("application/json", escape::json(&text).into_owned()))
}

/// Content type of a table in `format`, if it is not a JSON document.
pub fn content_type(format: TableFormat) -> &'static str {
    match format {
        TableFormat::Json => "application/json",
        TableFormat::Csv => "text/csv; charset=utf-8",
        TableFormat::Arrow => "application/vnd.apache.arrow.stream",
    }
}

/// Writes a table in the requested format; `document` is its JSON form.
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

/// A response with a body of the given content type.
pub fn typed(content_type: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
pub mod tests;
