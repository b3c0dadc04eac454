//! The size limit of a recording: accounts for its disk space, and removes the oldest segments.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use super::disk::{BLOCK, allocated};
use super::error::StoreError;
use super::options::WriterOptions;
use super::schema::Table;
use super::segment::ClosedSegment;
use crate::model::{Lost, TableManifest};
use crate::private::PrivateDir;

/// Sizes of frames and logs, which shrink with the size limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetentionLimits {
    /// Rows per frame.
    pub frame_rows: usize,
    /// Rows per segment of the tables besides `io`.
    pub other_rows: usize,
    /// No log or Parquet file grows beyond this.
    pub largest_file: u64,
}

/// Maximum size of the active `io` segment, which is held in memory too. Only extreme values come near it.
const MAX_LOG: u64 = 16 << 20;
/// Upper bound of a row's size in a frame, in bytes.
const WIDEST_ROW: u64 = 160;

impl RetentionLimits {
    pub fn new(options: &WriterOptions) -> RetentionLimits {
        let keep = options.keep_bytes.unwrap_or(u64::MAX);
        let frame = (keep / 32 / WIDEST_ROW).clamp(64, 2048) as usize;
        RetentionLimits {
            frame_rows: frame.min(options.segment_rows.max(1)),
            other_rows: 64 << 10,
            largest_file: MAX_LOG.min(keep / 8),
        }
    }

    /// Size at which a log is converted to a Parquet file.
    pub fn wal_bytes(&self, table: Table) -> u64 {
        if table == Table::Io {
            self.largest_file
        } else {
            self.largest_file / 4
        }
    }
}

/// The finished segments of all tables, oldest first, and their sizes.
#[derive(Debug)]
pub(crate) struct Retention {
    keep: Option<u64>,
    closed: [VecDeque<ClosedSegment>; Table::COUNT],
    closed_bytes: u64,
    /// Size of one copy of the description.
    pub meta_bytes: u64,
    /// Size of the file that reserves space for writing the end.
    pub reserve: u64,
    /// I/Os removed so far.
    pub ios_removed: u64,
    /// Disk space of rollups, actors and the table of devices, which are never removed here.
    beside: u64,
    /// Size of files that other components write into the recording (findings).
    pub foreign: u64,
}

impl Retention {
    pub fn new(keep: Option<u64>, meta_bytes: u64, reserve: u64) -> Retention {
        Retention {
            keep,
            closed: Default::default(),
            closed_bytes: 0,
            meta_bytes,
            reserve,
            ios_removed: 0,
            beside: 0,
            foreign: 0,
        }
    }

    /// Disk space of the recording with `active` bytes of logs: files, directories, both copies of the description, and
    /// a temporary file for a third.
    pub fn used(&self, active: u64) -> u64 {
        let directories = (2 + Table::ALL.len() as u64) * BLOCK;
        self.closed_bytes
            + self.beside
            + self.foreign
            + active
            + 3 * allocated(self.meta_bytes)
            + allocated(self.reserve)
            + directories
    }

    /// Checks that the description leaves space for four files of `largest` bytes: two logs, a segment and its copy.
    pub fn fits(&self, largest: u64) -> Result<(), StoreError> {
        let least = self.used(0) + 4 * largest;
        match self.keep {
            // Half of a small limit is reserved for files, so the smallest limit is twice the rest.
            Some(keep) if keep < least => Err(StoreError::KeepTooSmall {
                keep,
                least: 2 * self.used(0),
            }),
            _ => Ok(()),
        }
    }

    pub fn put(&mut self, table: Table, segment: ClosedSegment) {
        self.closed_bytes += allocated(segment.bytes);
        self.closed[table as usize - 1].push_back(segment);
    }

    /// Accounts for a file of `bytes` bytes, in its own directory beside the tables, that is never removed.
    pub fn add_beside(&mut self, bytes: u64) {
        let directories = if self.beside == 0 { 3 * BLOCK } else { 0 };
        self.beside += allocated(bytes) + directories;
    }

    /// The segments of each table.
    pub fn manifest(&self) -> BTreeMap<String, TableManifest> {
        let mut tables = BTreeMap::new();
        for table in Table::ALL {
            let closed = &self.closed[table as usize - 1];
            if let Some(first) = closed.front()
                && let Some(last) = closed.back()
            {
                let manifest = TableManifest {
                    segments: closed.len() as u32,
                    first: first.number,
                    last: last.number,
                    rows: closed.iter().map(|c| c.rows as u64).sum(),
                };
                tables.insert(table.name().to_owned(), manifest);
            }
        }
        tables
    }

    /// Removes the oldest segments until `extra` more bytes fit. The removed rows are appended to `lost`, even if the
    /// space does not suffice.
    pub fn make_room(
        &mut self,
        recording: &PrivateDir,
        active: u64,
        extra: u64,
        active_io_from: i64,
        lost: &mut Vec<Lost>,
    ) -> Result<(), StoreError> {
        let Some(keep) = self.keep else {
            return Ok(());
        };
        // Two blocks more: the frame or file may start a new block, and its log may be a new file.
        while self.used(active) + allocated(extra) + 2 * BLOCK > keep {
            let io = &mut self.closed[Table::Io as usize - 1];
            if let Some(oldest) = io.pop_front() {
                let from = io.front().map_or(active_io_from, |s| s.min);
                self.ios_removed += oldest.totals.ios as u64;
                lost.push(oldest.totals.removed(oldest.min, oldest.max));
                self.remove(recording, oldest)?;
                self.remove_older_than(recording, from, lost)?;
            } else if !self.remove_any(recording, lost)? {
                // Nothing is left to remove; treat it like a full disk.
                return Err(StoreError::NoSpace {
                    path: recording.path().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Removes the segments of the other tables that end before `from_ns`.
    fn remove_older_than(
        &mut self,
        recording: &PrivateDir,
        from_ns: i64,
        lost: &mut Vec<Lost>,
    ) -> Result<(), StoreError> {
        for table in Table::OTHERS {
            while self.closed[table as usize - 1]
                .front()
                .is_some_and(|s| s.max < from_ns)
            {
                self.remove_front(recording, table, lost)?;
            }
        }
        Ok(())
    }

    /// Removes the oldest segment of the other tables; `false` if there is none.
    fn remove_any(
        &mut self,
        recording: &PrivateDir,
        lost: &mut Vec<Lost>,
    ) -> Result<bool, StoreError> {
        let oldest = Table::OTHERS
            .into_iter()
            .filter_map(|t| Some((self.closed[t as usize - 1].front()?.max, t)))
            .min();
        oldest.map_or(Ok(false), |(_, table)| {
            self.remove_front(recording, table, lost).map(|()| true)
        })
    }

    fn remove_front(
        &mut self,
        recording: &PrivateDir,
        table: Table,
        lost: &mut Vec<Lost>,
    ) -> Result<(), StoreError> {
        let Some(segment) = self.closed[table as usize - 1].pop_front() else {
            return Ok(());
        };
        if segment.totals.ios > 0 {
            // The segment recorded earlier removals. They are carried over as one loss.
            lost.push(segment.totals.removed(segment.min, segment.max));
        }
        self.remove(recording, segment)
    }

    fn remove(&mut self, recording: &PrivateDir, segment: ClosedSegment) -> Result<(), StoreError> {
        self.closed_bytes -= allocated(segment.bytes);
        match recording.remove_file(&segment.name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io(
                &recording.path().join(&segment.name),
                "remove",
                e,
            )),
            _ => Ok(()),
        }
    }
}
