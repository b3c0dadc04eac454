//! `live`: what happens, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use tokio::sync::broadcast::error::RecvError;

use super::super::App;
use super::super::problem::Problem;
use super::description::parameters;
use super::params::Params;
use crate::engine::Instant;

/// `GET /api/v1/live`: what happened after `since`, then an event `slot` for each device and 100 ms, `finding` where one begins or ends, `missed` with a number where this client was too slow.
///
/// # Errors
/// Nothing is recorded, or too many watch.
pub async fn live(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, parameters("live"))?;
    let since_ns = match params.time("since")? {
        None => i64::MAX,
        Some(Instant::Wall(t)) => i64::try_from(t.as_nanosecond()).unwrap_or(i64::MAX),
        Some(Instant::SinceStart(_)) => return Err(Problem::bad("since: give a wall-clock time")),
    };
    let Some(feed) = &app.live else {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this server records nothing; there is nothing live",
        ));
    };
    let place = Arc::clone(&app.watchers).try_acquire_owned();
    let place = place.map_err(|_| Problem::busy("too many watch already"))?;
    let (recent, rows) = feed.watch(since_ns);
    let events = unfold((recent, rows, place), |(mut recent, mut rows, place)| async move {
        let next = match recent.pop_front() {
            Some(happened) => Ok(happened),
            None => rows.recv().await,
        };
        let event = match next {
            Ok(happened) => Event::default().event(happened.event).data(happened.data),
            Err(RecvError::Lagged(n)) => Event::default().event("missed").data(n.to_string()),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok::<_, Infallible>(event), (recent, rows, place)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}
