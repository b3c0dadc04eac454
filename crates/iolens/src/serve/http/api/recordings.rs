//! `recordings` and `devices`: lists what is recorded.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use iolens_core::model::{LossReason, Source, known_sum};
use iolens_core::store::{Recording, Root, SumTable};

use super::super::App;
use super::super::endpoint::{Endpoint, HOST, Parameter, Shape};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::json;
use super::params::Params;
use crate::engine::TimeWindow;
use crate::engine::caller::Caller;
use crate::engine::note::Note;
use crate::engine::query::{Grain, Query};
use crate::present::answers::devices::DevicesDocument;
use crate::present::answers::recordings::{RecordingsDocument, StoredRecording};
use crate::present::times::rfc3339;

/// What `/api/v1/recordings` is.
pub static RECORDINGS: Endpoint = Endpoint {
    path: "/api/v1/recordings",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "What there is, and how fine",
    parameters: &[HOST],
    keys: &["schema_version", "root", "recordings", "notes"],
    schema: Some("RecordingsDocument"),
    handler: || get(recordings),
};

/// What `/api/v1/devices` is.
pub static DEVICES: Endpoint = Endpoint {
    path: "/api/v1/devices",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "Names and numbers of the devices",
    parameters: &[HOST, AT],
    keys: &["schema_version", "from", "to", "devices", "notes"],
    schema: Some("DevicesDocument"),
    handler: || get(devices),
};

/// `at` of devices.
const AT: Parameter = Parameter {
    name: "at",
    shape: Shape::Text,
    description: "RFC 3339, seconds since the epoch, -5m or now: those of the recording that holds it; without it of the newest",
};

/// `GET /api/v1/recordings`.
///
/// # Errors
/// The root cannot be read.
pub async fn recordings(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &RECORDINGS)?;
    let place = app.place(&params);
    let said = app
        .read(move |asker| {
            let path = place.path()?;
            let found = all(path, &asker.caller)?;
            Ok(RecordingsDocument::new(
                shown_root(path, &asker.caller)?,
                found,
            ))
        })
        .await?;
    json(&said.answer.with_notes(said.notes))
}

/// The path of the recordings, if the caller may see names of files.
fn shown_root(place: &Path, caller: &Caller) -> Result<Option<String>> {
    if caller.hides_names() {
        return Ok(None);
    }
    // A path that is not UTF-8 cannot be represented in JSON.
    let absolute = std::path::absolute(place)?;
    Ok(absolute.to_str().map(str::to_owned))
}

fn all(place: &Path, caller: &Caller) -> Result<Vec<StoredRecording>> {
    let Some(root) = Root::open(place)? else {
        return Ok(vec![describe(None, &Recording::open(place)?)?]);
    };
    let mut found = Vec::new();
    for stored in root.recordings() {
        caller.check()?;
        match Recording::open(&stored.path)
            .map_err(anyhow::Error::from)
            .and_then(|r| describe(Some(&stored.host), &r))
        {
            Ok(recording) => found.push(recording),
            Err(e) => caller.note(Note::Unread(format!("{e:#}; left out"))),
        }
    }
    Ok(found)
}

fn describe(host: Option<&str>, recording: &Recording) -> Result<StoredRecording> {
    let meta = recording.meta();
    let mut resolutions: Vec<String> = Vec::new();
    let ios = recording.ios_stored();
    resolutions.extend((ios > 0).then(|| "io".to_owned()));
    resolutions.extend(
        SumTable::Rollups
            .steps(recording.path())?
            .iter()
            .map(|s| format!("{s}s")),
    );
    resolutions.extend(matches!(meta.source, Source::Counters).then(|| "counters".to_owned()));
    let lost = recording.lost(i64::MIN..i64::MAX);
    // I/Os removed by the size limit had been recorded, so they are not lost; they are counted separately.
    let mut removed_ios = 0;
    let mut lost_ios = Some(0i64);
    for l in &lost {
        if l.reason == LossReason::Retention {
            removed_ios += l.ios.unwrap_or(0);
        } else if l.reason.is_loss() {
            // One loss of unknown size makes the sum unknown.
            lost_ios = known_sum(lost_ios, l.ios);
        }
    }
    Ok(StoredRecording {
        host: host.map(str::to_owned),
        from: rfc3339(meta.start_unix_ns),
        to: rfc3339(meta.start_unix_ns.saturating_add(recording.end_ns())),
        open: meta.end_ns.is_none(),
        source: meta.source.to_string(),
        kernel: meta.kernel.clone(),
        ios: meta.source.known_ios(ios),
        lost_ios,
        removed_ios,
        disk_bytes: recording.disk_bytes(),
        resolutions,
    })
}

/// `GET /api/v1/devices`: the devices of the recording at `at`, or of the newest.
///
/// # Errors
/// No recording covers the time.
pub async fn devices(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &DEVICES)?;
    let place = app.place(&params);
    let at = params.time("at")?;
    let said = app
        .read(move |asker| {
            let window = TimeWindow {
                at,
                ..TimeWindow::default()
            };
            let query = Query::new(place.path()?, window, &asker.caller);
            let found = query.parts(Grain::Recording)?;
            let recording = found.parts.into_iter().next_back().map(|p| p.recording);
            let recording = recording.ok_or_else(|| anyhow::anyhow!("no recording"))?;
            Ok(DevicesDocument::of(recording.meta(), recording.end_ns()))
        })
        .await?;
    json(&said.answer.with_notes(said.notes))
}
