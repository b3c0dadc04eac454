//! Segments: a stretch of one table, first as frames in the log and in memory, then as one Parquet file.

use std::io;

use super::schema::Table;
use super::wal::{FRAME_HEADER, WalFile, number_frame};
use crate::model::{Io, LossReason, Lost};
use crate::private::PrivateDir;

/// Name of the file of one finished segment inside the directory of its table.
pub(crate) fn file_name(segment: u32) -> String {
    format!("{segment:06}.parquet")
}

/// Number of a segment whose file is called `name`, if that is such a name.
pub(crate) fn parse_name(name: &str) -> Option<u32> {
    name.strip_suffix(".parquet")?.parse().ok()
}

/// The sums of a segment, reported as lost when retention removes it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub ios: i64,
    pub bytes: i64,
    pub merges: i64,
}

impl Totals {
    /// Counts I/Os.
    pub fn add_ios(&mut self, ios: &[Io]) {
        self.ios += ios.len() as i64;
        self.bytes = ios
            .iter()
            .fold(self.bytes, |sum, io| sum.saturating_add(io.bytes));
        self.merges = ios.iter().fold(self.merges, |sum, io| {
            sum.saturating_add(io.merges.unwrap_or(0).into())
        });
    }

    /// Adds other totals.
    pub fn add(&mut self, other: Totals) {
        self.ios = self.ios.saturating_add(other.ios);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.merges = self.merges.saturating_add(other.merges);
    }

    /// Adds the removals that these rows of `lost` account for.
    pub fn add_removed(&mut self, lost: &[Lost]) {
        for l in lost.iter().filter(|l| l.reason == LossReason::Retention) {
            self.add(Totals {
                ios: l.ios.unwrap_or(0),
                bytes: l.bytes.unwrap_or(0),
                merges: l.merges.unwrap_or(0),
            });
        }
    }

    pub fn removed(&self, from_ns: i64, to_ns: i64) -> Lost {
        Lost {
            from_ns,
            to_ns,
            dev: None,
            class: None,
            reason: LossReason::Retention,
            ios: Some(self.ios),
            bytes: Some(self.bytes),
            merges: Some(self.merges),
        }
    }
}

/// The segment of a table that is being filled.
#[derive(Debug)]
pub(crate) struct Segment {
    pub table: Table,
    pub number: u32,
    pub wal: Option<WalFile>,
    /// The payloads of all frames, one after the other, and rows and end of each.
    payloads: Vec<u8>,
    frames: Vec<(usize, usize)>,
    pub rows: usize,
    pub min: i64,
    pub max: i64,
    pub totals: Totals,
    /// When its first frame was written.
    pub opened_ns: i64,
}

impl Segment {
    pub fn new(table: Table, number: u32) -> Segment {
        Segment {
            table,
            number,
            wal: None,
            payloads: Vec::new(),
            frames: Vec::new(),
            rows: 0,
            min: i64::MAX,
            max: i64::MIN,
            totals: Totals::default(),
            opened_ns: 0,
        }
    }

    /// Starts the next segment in the memory of this one, which is given without its rows.
    pub fn start_next(&mut self) -> Segment {
        let mut next = Segment::new(self.table, self.number + 1);
        next.payloads = std::mem::take(&mut self.payloads);
        next.payloads.clear();
        next.frames = std::mem::take(&mut self.frames);
        next.frames.clear();
        std::mem::replace(self, next)
    }

    /// Payload and rows of every frame.
    pub fn frames(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let mut start = 0;
        self.frames.iter().map(move |(rows, end)| {
            (
                &self.payloads[std::mem::replace(&mut start, *end)..*end],
                *rows,
            )
        })
    }

    /// Bytes in the log.
    pub fn wal_bytes(&self) -> u64 {
        self.wal.as_ref().map_or(0, |w| w.len)
    }

    /// Appends a frame, header and payload in `bytes`, to the log and to memory.
    pub fn append(
        &mut self,
        recording: &PrivateDir,
        bytes: &mut [u8],
        rows: usize,
        times: (i64, i64),
        now_ns: i64,
    ) -> io::Result<()> {
        let wal = match &mut self.wal {
            Some(wal) => wal,
            None => self
                .wal
                .insert(WalFile::create(recording, self.table, self.number)?),
        };
        number_frame(bytes, self.frames.len() as u32);
        wal.append(bytes)?;
        if self.rows == 0 {
            self.opened_ns = now_ns;
        }
        self.payloads.extend_from_slice(&bytes[FRAME_HEADER..]);
        self.frames.push((rows, self.payloads.len()));
        self.rows += rows;
        self.min = self.min.min(times.0);
        self.max = self.max.max(times.1);
        Ok(())
    }
}

/// A finished segment on disk.
#[derive(Debug)]
pub(crate) struct ClosedSegment {
    /// Relative to the recording.
    pub name: String,
    pub number: u32,
    pub rows: usize,
    pub bytes: u64,
    pub min: i64,
    pub max: i64,
    pub totals: Totals,
}
