//! How programs use a device: syncs, small requests, the page cache.

use iolens_core::analysis::findings::evidence::{
    CachedReadsEvidence, FsyncBoundEvidence, SmallSequentialEvidence, SyncSource,
    WrittenBackEvidence,
};

use super::Sentence;
use super::words::{name, plural, time};
use crate::present::layout::size;
use crate::present::times::Times;

impl Sentence for FsyncBoundEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let who = self
            .cause
            .as_ref()
            .map_or_else(|| "one writer".to_owned(), name);
        let what = match self.sync_source {
            SyncSource::Calls => "inside sync calls",
            SyncSource::Ios => "waiting for flushes and forced writes",
        };
        let writes = self
            .writes_per_sync
            .map_or_else(String::new, |n| format!(", {n:.1} writes per sync"));
        format!(
            "{who} is bound by syncs: {:.0} % of its writing time went by {what} ({} syncs, {:.1} per second, median {}\
         {writes}). Without these waits it could write at most {:.1} times as fast.",
            self.sync_wait_percent,
            self.syncs,
            self.syncs_per_s,
            time(self.sync_p50_us),
            self.times_faster_at_most,
        )
    }
}

impl Sentence for SmallSequentialEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let by = self
            .cause
            .as_ref()
            .map_or_else(String::new, |c| format!(" of {}", name(c)));
        let runs = if self.runs == 1 {
            "one run".to_owned()
        } else {
            format!("{} runs", self.runs)
        };
        format!(
            "{}{by} move adjacent sectors in small requests: {} of {} each in {runs} of up to {}, not merged, {:.0} % \
         of the device's reads and writes. In requests of {} it would be {}.",
            plural(self.class),
            self.ios,
            size(self.request_bytes as f64),
            self.longest_run_ios,
            self.percent_of_ios,
            size(self.large_request_bytes as f64),
            self.ios_if_large,
        )
    }
}

impl Sentence for CachedReadsEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let looked = self
            .reads_without_wait_percent
            .map_or_else(String::new, |p| {
                format!(
                    " Of {} reads looked at, {p:.0} % did not wait.",
                    self.reads_looked_at
                )
            });
        format!(
            "Programs read {} through files, devices gave {}: {:.0} % came from the page cache. \
         What programs felt is not what devices took.{looked}",
            size(self.program_read_bytes as f64),
            size(self.device_read_bytes as f64),
            self.hit_percent,
        )
    }
}

impl Sentence for WrittenBackEvidence {
    fn sentence(&self, _times: &Times) -> String {
        format!(
            "{:.0} % of writes ({}) were buffered (kernel writeback): applications waited for them only in fsync.",
            self.written_back_percent,
            size(self.written_bytes as f64),
        )
    }
}
