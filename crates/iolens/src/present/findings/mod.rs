//! The text of findings, and their evidence in documents: a file per family of kinds, a function per kind.
//!
//! Names of processes and files are untrusted: escape the text where it is displayed.

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

/// Evidence that can be described in a sentence. All kinds must implement it, because [`with_evidence`] calls it for
/// all.
pub(super) trait Sentence {
    /// One or two sentences; `times` formats the times in them.
    fn sentence(&self, times: &Times) -> String;
}

/// One or two sentences; `times` formats the times in them.
pub fn summary(f: &Finding, times: &Times) -> String {
    with_evidence!(f.evidence, e => e.sentence(times))
}

/// The finding as stored in documents, events and recordings.
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

/// The evidence for a document, with processes and devices by name.
fn evidence(f: &Finding, meta: &RecordingMeta) -> Map<String, Value> {
    let mut map = match serde_json::to_value(&f.evidence) {
        Ok(Value::Object(map)) => map,
        // Structs with string keys serialise to objects and cannot fail.
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
