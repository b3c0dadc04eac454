//! Findings in words, and their evidence as documents hold it: a file for each family of kinds, a function for each kind.
//!
//! Names of processes and files are untrusted: escape the text where it is shown.

mod bursts;
mod capacity;
mod latency;
mod quality;
#[cfg(test)]
mod tests;
pub(super) mod words;
mod writers;

use iolens_core::analysis::findings::Finding;
use iolens_core::model::{RecordingMeta, StoredFinding};
use iolens_core::with_evidence;
use serde_json::{Map, Value};

use super::report_json::{device_name, finding_place};
use super::times::Times;
pub use quality::averaged_averages;
pub use words::plural;

/// Evidence in words. Every kind must have them: [`with_evidence`] asks for those of all.
pub(super) trait Sentence {
    /// One sentence or two for a person; instants as `times` writes them.
    fn sentence(&self, times: &Times) -> String;
}

/// One sentence or two for a person; instants as `times` writes them.
pub fn summary(f: &Finding, times: &Times) -> String {
    with_evidence!(f.evidence, e => e.sentence(times))
}

/// The finding as documents, events and recordings have it.
pub fn reported(f: &Finding, meta: &RecordingMeta) -> StoredFinding {
    StoredFinding {
        from_ns: f.from_ns,
        to_ns: f.to_ns,
        open: false,
        kind: f.kind().into(),
        severity: f.severity,
        device: finding_place(f, meta),
        summary: summary(f, &Times::utc(meta)),
        evidence: evidence(f, meta),
    }
}

/// The evidence of a document: processes and devices by their names.
fn evidence(f: &Finding, meta: &RecordingMeta) -> Map<String, Value> {
    let mut map = match serde_json::to_value(&f.evidence) {
        Ok(Value::Object(map)) => map,
        // Structs with string keys are objects and cannot fail.
        Ok(_) | Err(_) => Map::new(),
    };
    for (key, cause) in f.evidence.causes() {
        map.insert(key.to_owned(), words::name(cause).into());
    }
    if !f.link().is_empty() {
        let names: Vec<String> = f.link().iter().map(|dev| device_name(meta, *dev)).collect();
        map.insert("link_devices".to_owned(), names.into());
    }
    map
}
