//! How programs use a device: syncs, small requests, the page cache.

use iolens_core::analysis::findings::evidence::{
    CachedReadsEvidence, FsyncBoundEvidence, SmallSequentialEvidence, SyncSource,
    WrittenBackEvidence,
};

use super::words::{name, plural, time};
use crate::present::layout::size;

pub fn fsync_bound(e: &FsyncBoundEvidence) -> String {
    let who = e
        .cause
        .as_ref()
        .map_or_else(|| "one writer".to_owned(), name);
    let what = match e.source {
        SyncSource::Calls => "inside sync calls",
        SyncSource::Ios => "waiting for flushes and forced writes",
    };
    let writes = e
        .writes_per_sync
        .map_or_else(String::new, |n| format!(", {n:.1} writes per sync"));
    format!(
        "{who} is bound by syncs: {:.0} % of its writing time went by {what} ({} syncs, {:.1} per second, median {}\
         {writes}). Without these waits it could write at most {:.1} times as fast.",
        e.sync_wait_percent,
        e.syncs,
        e.syncs_per_s,
        time(e.sync_p50_us),
        e.times_faster_at_most,
    )
}

pub fn small_sequential(e: &SmallSequentialEvidence) -> String {
    let by = e
        .cause
        .as_ref()
        .map_or_else(String::new, |c| format!(" of {}", name(c)));
    let runs = if e.runs == 1 {
        "one run".to_owned()
    } else {
        format!("{} runs", e.runs)
    };
    format!(
        "{}{by} move adjacent sectors in small requests: {} of {} each in {runs} of up to {}, not merged, {:.0} % \
         of the device's reads and writes. In requests of {} it would be {}.",
        plural(e.class),
        e.ios,
        size(e.request_bytes as f64),
        e.longest_run_ios,
        e.percent_of_ios,
        size(e.large_request_bytes as f64),
        e.ios_if_large,
    )
}

pub fn cached_reads(e: &CachedReadsEvidence) -> String {
    let looked = e.reads_without_wait_percent.map_or_else(String::new, |p| {
        format!(
            " Of {} reads looked at, {p:.0} % did not wait.",
            e.reads_looked_at
        )
    });
    format!(
        "Programs read {} through files, devices gave {}: {:.0} % came from the page cache. \
         What programs felt is not what devices took.{looked}",
        size(e.program_read_bytes as f64),
        size(e.device_read_bytes as f64),
        e.hit_percent,
    )
}

pub fn written_back(e: &WrittenBackEvidence) -> String {
    format!(
        "{:.0} % of writes ({}) were buffered (kernel writeback): applications waited for them only in fsync.",
        e.written_back_percent,
        size(e.written_bytes as f64),
    )
}
