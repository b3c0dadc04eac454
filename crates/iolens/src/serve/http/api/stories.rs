//! `stories`: who made whom wait, how, how much, and what to try.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use serde::Serialize;

use super::super::endpoint::{AT, CGROUP, CLASS, DEVICE, Endpoint, FROM, HOST, PROCESS, TO};
use super::super::places::Kind;
use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::params::Params;
use crate::engine;
use crate::engine::filter::FilterPlan;
use crate::engine::stories::PartStories;
use crate::present::report_json::RecordingFacts;
use crate::present::stories::{self, StoryEntry};
use crate::present::times::rfc3339;

/// What `/api/v1/stories` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/stories",
    method: "get",
    kind: Kind::Heavy,
    summary: "Who made whom wait, how, how much, and what to try: of each recording by itself, the most harm first",
    parameters: &[HOST, FROM, TO, AT, DEVICE, PROCESS, CGROUP, CLASS],
    keys: &["schema_version", "stories", "notes"],
    handler: || get(stories),
};

/// Stories of a stretch of time.
#[derive(Debug, Serialize)]
struct StoriesDocument {
    schema_version: u32,
    stories: Vec<PlacedStory>,
    notes: Vec<String>,
}

/// A story of the report with its place in time.
#[derive(Debug, Serialize)]
struct PlacedStory {
    start: String,
    end: String,
    start_unix_s: f64,
    end_unix_s: f64,
    /// What the other times in it count from.
    recording_start_unix_s: f64,
    #[serde(flatten)]
    story: StoryEntry,
}

/// `GET /api/v1/stories`.
///
/// # Errors
/// No recording holds the time, its single I/Os are gone, or they are too many for one answer.
pub async fn stories(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let place = app.place(&params)?;
    let window = params.window()?;
    let devices = params.all("device");
    let chosen = params.selection()?;
    // A story is of I/Os of one class; those of its culprits may be of others.
    let class = chosen.class;
    let chosen = FilterPlan {
        class: None,
        ..chosen
    };
    app.stream("application/json", move |out, asker| {
        let query = asker
            .query(&place, window)?
            .of_devices(&devices)
            .of_ios(&chosen)?;
        let mut stories = Vec::new();
        for PartStories { part, report } in engine::stories::stories(&query, class)? {
            let meta = part.recording.meta();
            let facts = RecordingFacts::of(&part);
            for story in stories::entries(&report, meta, &part.names, &facts) {
                stories.push(placed(story, meta.start_unix_ns));
            }
        }
        stories.sort_by(|a, b| b.story.harm_s().total_cmp(&a.story.harm_s()));
        out.json(&StoriesDocument {
            schema_version: SCHEMA_VERSION,
            stories,
            notes: asker.notes(),
        })
    })
    .await
}

fn placed(story: StoryEntry, start_unix_ns: i64) -> PlacedStory {
    let (start_s, end_s) = story.span_s();
    let unix_ns = |since_s: f64| start_unix_ns.saturating_add((since_s * 1e9).round() as i64);
    PlacedStory {
        start: rfc3339(unix_ns(start_s)),
        end: rfc3339(unix_ns(end_s)),
        start_unix_s: unix_ns(start_s) as f64 / 1e9,
        end_unix_s: unix_ns(end_s) as f64 / 1e9,
        recording_start_unix_s: start_unix_ns as f64 / 1e9,
        story,
    }
}
