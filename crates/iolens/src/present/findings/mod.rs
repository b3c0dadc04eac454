//! Findings in words, and their evidence as documents hold it: a file for each family of kinds, a function for each kind.
//!
//! Names of processes and files are untrusted: escape the text where it is shown.

mod bursts;
mod capacity;
mod contrast;
mod latency;
mod quality;
#[cfg(test)]
mod tests;
mod words;
mod writers;

use iolens_core::analysis::findings::{Evidence, Finding};
use iolens_core::model::RecordingMeta;
use serde_json::{Map, Value};

use super::report_json::device_name;
use super::times::Times;
pub use quality::averaged_averages;

/// One sentence or two for a person; instants as `times` writes them.
pub fn summary(f: &Finding, times: &Times) -> String {
    match &f.evidence {
        Evidence::Microburst(e) => bursts::microburst(e),
        Evidence::Periodicity(e) => bursts::periodicity(e),
        Evidence::Starvation(e) => contrast::starvation(e),
        Evidence::StarvationOfMeans(e) => contrast::starvation_of_means(e),
        Evidence::Interference(e) => contrast::interference(e),
        Evidence::Stall(e) => latency::stall(e),
        Evidence::LatencyChange(e) => latency::change(e, times),
        Evidence::LatencyMode(e) => latency::mode(e),
        Evidence::SlowMember(e) => latency::slow_member(e),
        Evidence::SlowIo(e) => latency::slow_io(e),
        Evidence::BandwidthSaturation(e) => capacity::bandwidth(e),
        Evidence::QueueFull(e) => capacity::queue_full(e),
        Evidence::Saturation(e) => capacity::saturation(e),
        Evidence::UtilDisagreement(e) => capacity::util_disagreement(e),
        Evidence::FsyncBound(e) => writers::fsync_bound(e),
        Evidence::SmallSequential(e) => writers::small_sequential(e),
        Evidence::CachedReads(e) => writers::cached_reads(e),
        Evidence::WrittenBack(e) => writers::written_back(e),
        Evidence::IoError(e) => quality::io_error(e),
        Evidence::LostEvents(e) => quality::lost_events(e),
        Evidence::AveragedAverages(e) => {
            quality::averaged_averages(&e.rows).map_or_else(String::new, |s| s + ".")
        }
    }
}

/// The evidence of a document: processes and devices by their names.
pub fn evidence(f: &Finding, meta: &RecordingMeta) -> Map<String, Value> {
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
