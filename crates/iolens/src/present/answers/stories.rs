//! `stories`: who made whom wait, how, how much, and what to try.

use iolens_core::analysis::Report;
use serde::Serialize;

use crate::engine::part::Part;
use crate::present::SCHEMA_VERSION;
use crate::present::report_json::RecordingFacts;
use crate::present::stories::{self, NotProvenEntry, StoryEntry};
use crate::present::times::rfc3339;

/// Stories of a time range.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StoriesDocument {
    schema_version: u32,
    stories: Vec<PlacedStory>,
    /// Programs that may have lost most of their I/O time to another program, if the recording neither proves nor excludes it.
    not_proven: Vec<NotProvenEntry>,
    notes: Vec<String>,
}

impl StoriesDocument {
    /// All of them, the most harm first.
    pub fn new(
        mut stories: Vec<PlacedStory>,
        not_proven: Vec<NotProvenEntry>,
        notes: Vec<String>,
    ) -> StoriesDocument {
        stories.sort_by(|a, b| b.story.harm_s().total_cmp(&a.story.harm_s()));
        StoriesDocument {
            schema_version: SCHEMA_VERSION,
            stories,
            not_proven,
            notes,
        }
    }
}

/// A story of the report with its place in time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlacedStory {
    start: String,
    end: String,
    start_unix_s: f64,
    end_unix_s: f64,
    /// Start of the recording, in seconds since 1970 (UTC). Times relative to the recording's start refer to it.
    recording_start_unix_s: f64,
    #[serde(flatten)]
    story: StoryEntry,
}

/// The stories of `report`, which is of `part`.
pub fn of_part(report: &Report, part: &Part) -> Vec<PlacedStory> {
    let meta = part.recording.meta();
    let facts = RecordingFacts::of(part);
    let entries = stories::entries(report, meta, &part.names, &facts);
    let placed = entries.into_iter().map(|e| placed(e, meta.start_unix_ns));
    placed.collect()
}

/// The program of `part` of which `report`, which is of that part, does not show whether it waited.
pub fn not_proven(report: &Report, part: &Part) -> Vec<NotProvenEntry> {
    let meta = part.recording.meta();
    stories::not_proven(report, meta, &part.names, &RecordingFacts::of(part))
        .into_iter()
        .collect()
}

fn placed(story: StoryEntry, recording_start_ns: i64) -> PlacedStory {
    let (start_s, end_s) = story.span_s();
    let start_ns = unix_ns(start_s, recording_start_ns);
    let end_ns = unix_ns(end_s, recording_start_ns);
    PlacedStory {
        start: rfc3339(start_ns),
        end: rfc3339(end_ns),
        start_unix_s: start_ns as f64 / 1e9,
        end_unix_s: end_ns as f64 / 1e9,
        recording_start_unix_s: recording_start_ns as f64 / 1e9,
        story,
    }
}

/// The time `since_s` seconds after a recording's start.
fn unix_ns(since_s: f64, recording_start_ns: i64) -> i64 {
    recording_start_ns.saturating_add((since_s * 1e9).round() as i64)
}
