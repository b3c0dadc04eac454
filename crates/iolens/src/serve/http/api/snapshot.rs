//! `snapshot`: preserves a stretch of time from retention.

use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::post;
use jiff::Timestamp;
use serde_json::json as value;

use super::super::endpoint::{Endpoint, Parameter, Shape};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::super::{App, COPY_TIME_LIMIT, SCHEMA_VERSION};
use super::json;
use super::params::Params;
use crate::engine::{Instant, unix_ns};
use crate::present::times::rfc3339;
use crate::serve::snapshots::NoRoom;

/// What `/api/v1/snapshot` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/snapshot",
    method: "post",
    kind: RequestKind::Copy,
    summary: "Copies a stretch into a recording of its own that no budget removes",
    parameters: &[FROM, TO],
    keys: &["schema_version", "name", "from", "to", "ios", "disk_bytes"],
    schema: None,
    handler: || post(snapshot),
};

/// `from`.
const FROM: Parameter = Parameter {
    name: "from",
    shape: Shape::Text,
    description: "Where the stretch begins: RFC 3339, seconds since the epoch, -5m or now",
};
/// `to`.
const TO: Parameter = Parameter {
    name: "to",
    shape: Shape::Text,
    description: "Where it ends, in the same forms; now, if that is later",
};

/// `POST /api/v1/snapshot`.
///
/// # Errors
/// A time is missing or invalid, there is nothing to keep, or the disk is too small for the copy.
pub async fn snapshot(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let now_ns = unix_ns(Timestamp::now());
    // The future cannot be copied.
    let from_ns = given_unix_ns(&params, "from")?.min(now_ns);
    let to_ns = given_unix_ns(&params, "to")?.min(now_ns);
    if from_ns >= to_ns {
        return Err(Problem::bad("to is not after from"));
    }
    let Some(snapshots) = app.snapshots.clone() else {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this server records nothing; copy the recordings where they are",
        ));
    };
    let turn = Arc::clone(&app.snapshot_turn).try_acquire_owned();
    let turn = turn.map_err(|_| Problem::busy("another stretch is being copied"))?;
    // The copy continues and keeps its turn until it is done, even if the client disconnects.
    let deadline = std::time::Instant::now() + COPY_TIME_LIMIT;
    let done = super::super::run_blocking(move || {
        let _turn = turn;
        snapshots.keep(from_ns, to_ns, deadline)
    });
    let (name, kept, from_ns, to_ns) = match done.await {
        Ok(Ok((name, kept))) => (name, kept, from_ns, to_ns),
        Ok(Err(e)) if e.is::<NoRoom>() => {
            return Err(Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                format!("{e:#}"),
            ));
        }
        Ok(Err(e)) => return Err(Problem::of(&e)),
        Err(_) => {
            return Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the copy could not be made",
            ));
        }
    };
    json(&value!({
        "schema_version": SCHEMA_VERSION,
        "name": name,
        "from": rfc3339(from_ns),
        "to": rfc3339(to_ns),
        "ios": kept.ios,
        "disk_bytes": kept.bytes,
    }))
}

fn given_unix_ns(params: &Params, name: &'static str) -> Result<i64, Problem> {
    match params.time(name)? {
        Some(Instant::Wall(t)) => Ok(unix_ns(t)),
        Some(Instant::SinceStart(_) | Instant::Civil(_)) => {
            Err(Problem::bad(format!("{name}: give a wall-clock time")))
        }
        None => Err(Problem::bad(format!("{name}: give a time"))),
    }
}
