//! `waits`: who waited for whom.

use iolens_core::analysis::waits::Grouping;
use serde::Serialize;

use crate::engine::waits::{PartWaitBins, PartWaits};
use crate::present::SCHEMA_VERSION;
use crate::present::waits::{OtherWaits, WaitEntry, WaitsBlock};

/// Who waited for whom.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitsDocument {
    schema_version: u32,
    by: &'static str,
    /// Start of the first recording. Times in the document are relative to it.
    start_unix_s: Option<f64>,
    waits: Vec<WaitEntry>,
    /// Sums of what the entries do not include.
    waits_others: OtherWaits,
    /// Length of the intervals, if they were requested.
    step_s: Option<f64>,
    /// Intervals in which I/Os completed, if they were requested.
    intervals: Option<Vec<WaitInterval>>,
    notes: Vec<String>,
}

/// Who waited for whom in one interval.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitInterval {
    /// Start of the interval.
    start_unix_s: f64,
    #[serde(flatten)]
    block: WaitsBlock,
}

impl WaitsDocument {
    /// The sums of all parts, and in `steps` of so many nanoseconds each interval.
    pub fn of(
        parts: &[PartWaits],
        grouping: Grouping,
        steps: Option<(i64, &[PartWaitBins])>,
        notes: Vec<String>,
    ) -> WaitsDocument {
        let block = together(parts);
        WaitsDocument {
            schema_version: SCHEMA_VERSION,
            by: grouping.name(),
            start_unix_s: parts.first().map(|p| start_unix_ns(p) as f64 / 1e9),
            waits: block.waits,
            waits_others: block.others,
            step_s: steps.map(|(ns, _)| ns as f64 / 1e9),
            intervals: steps.map(|(_, bins)| intervals(bins)),
            notes,
        }
    }
}

/// Each interval of each recording by itself, by time.
fn intervals(parts: &[PartWaitBins]) -> Vec<WaitInterval> {
    let mut all = Vec::new();
    for part in parts {
        let meta = part.part.recording.meta();
        for bins in part.bins.chunk_by(|a, b| a.from_ns == b.from_ns) {
            let start_unix_ns = meta.start_unix_ns.saturating_add(bins[0].from_ns);
            all.push(WaitInterval {
                start_unix_s: start_unix_ns as f64 / 1e9,
                block: WaitsBlock::of_interval(bins, meta, &part.part.names),
            });
        }
    }
    all
}

fn start_unix_ns(part: &PartWaits) -> i64 {
    part.part.recording.meta().start_unix_ns
}

/// The sums of all parts.
fn together(parts: &[PartWaits]) -> WaitsBlock {
    let first_ns = parts.first().map_or(0, start_unix_ns);
    let mut all = WaitsBlock::default();
    for part in parts {
        let later_ns = start_unix_ns(part).saturating_sub(first_ns);
        let meta = part.part.recording.meta();
        for piece in &part.pieces {
            let block = if piece.is_of_sums {
                WaitsBlock::of_sums(&piece.devices, meta, &part.part.names)
            } else {
                WaitsBlock::of(&piece.devices, meta, &part.part.names)
            };
            all.add(block, later_ns as f64 / 1e9);
        }
    }
    all
}
