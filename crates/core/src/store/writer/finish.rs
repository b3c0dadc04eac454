//! Finishes a recording, and reports the writer's status until then.

use std::path::Path;

use super::super::disk;
use super::super::error::StoreError;
use super::super::open_requests;
use super::super::options::{RecordingSummary, WriterStatus};
use super::super::schema::Table;
use super::{RESERVE_NAME, RecordingWriter, WAL};
use crate::model::RecorderCost;

impl RecordingWriter {
    /// The current status.
    pub fn status(&self) -> WriterStatus {
        WriterStatus {
            disk_bytes: self.disk_bytes(),
            ios_written: self.ios_written,
            ios_lost: self.ios_lost,
            ios_unwritten: self.ios_unwritten,
            requests_unwritten: self.requests_unwritten,
            ios_removed: self.retention.ios_removed,
            full: self.full_since_try_ns.is_some(),
        }
    }

    /// Closes everything and writes the end and the recorder's own cost into `meta.json`.
    pub fn finish(
        mut self,
        end_ns: i64,
        cost: RecorderCost,
    ) -> Result<RecordingSummary, StoreError> {
        self.now_ns = end_ns;
        self.remove_reserve();
        open_requests::remove(&self.dir);
        self.open_bytes = 0;
        self.repeats.finish(&mut self.counters);
        self.resume()?;
        self.flush_ios()?;
        self.flush_rest()?;
        for table in Table::ALL {
            let closed = self.close_segment(table);
            self.tolerate_full(closed)?;
        }
        // Closing segments may have removed old ones; store that loss too.
        self.flush_rest()?;
        let closed = self.close_segment(Table::Lost);
        self.tolerate_full(closed)?;
        self.meta.end_ns = Some(end_ns);
        self.meta.cost = cost;
        let full =
            self.full_since_try_ns.is_some() || self.segments.iter().any(|s| s.wal.is_some());
        self.meta.tables = (!full).then(|| self.retention.manifest());
        self.write_meta()?;
        if !full {
            self.dir
                .remove_dir(WAL)
                .map_err(|e| self.error(WAL, "remove", e))?;
        }
        self.dir
            .sync(Path::new("."))
            .map_err(|e| self.error(".", "sync", e))?;
        Ok(RecordingSummary {
            ios: self.ios_written - self.retention.ios_removed,
            ios_lost: self.ios_lost,
            ios_unwritten: self.ios_unwritten,
            requests_unwritten: self.requests_unwritten,
            ios_removed: self.retention.ios_removed,
            disk_bytes: disk::bytes_below(self.dir.path()),
            full,
        })
    }

    fn remove_reserve(&mut self) {
        let _ = self.dir.remove_file(RESERVE_NAME);
        self.retention.reserve = 0;
    }
}
