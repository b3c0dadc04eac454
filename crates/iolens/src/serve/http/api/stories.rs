//! `stories`: who made whom wait, how, how much, and what to try.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;

use super::super::App;
use super::super::endpoint::{AT, CGROUP, CLASS, DEVICE, Endpoint, FILE, FROM, HOST, PROCESS, TO};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::AskedData;
use super::params::Params;
use crate::engine;
use crate::engine::stories::PartStories;
use crate::present::answers::stories::{StoriesDocument, of_part};
use crate::present::stories::NotProvenEntry;

/// What `/api/v1/stories` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/stories",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "Who made whom wait, how, how much, and what to try: of each recording by itself, the most harm first",
    parameters: &[HOST, FROM, TO, AT, DEVICE, PROCESS, CGROUP, FILE, CLASS],
    keys: &["schema_version", "stories", "not_proven", "notes"],
    schema: Some("StoriesDocument"),
    handler: || get(stories),
};

/// `GET /api/v1/stories`.
///
/// # Errors
/// No recording covers the time, its single I/Os were removed, or there are too many for one response.
pub async fn stories(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let mut question = AskedData::of(&app, &params)?;
    // `class` selects by the class of the story's own I/Os. The culprits' I/Os may be of other classes.
    let class = question.ios.class.take();
    app.stream("application/json", move |out, asker| {
        let query = question.query(asker)?;
        let mut stories = Vec::new();
        let mut not_proven = Vec::new();
        for found in engine::stories::stories(&query, class)? {
            let PartStories { part, report, .. } = &found;
            stories.extend(of_part(report, part));
            if let Some(unknown) = &found.not_proven {
                let meta = part.recording.meta();
                not_proven.push(NotProvenEntry::of(unknown, meta, &part.names));
            }
        }
        out.json(&StoriesDocument::new(stories, not_proven, asker.notes()))
    })
    .await
}
