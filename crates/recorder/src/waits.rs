//! Waits in a growing recording: rows computed alongside the recorder, written a few times an hour.

use anyhow::Result;
use iolens_core::model::WaitSums;
use iolens_core::store::RecordingWriter;

use crate::rollups::put_back;

/// Maximum number of waiting rows of both steps.
const MAX_WAITING: usize = 32 << 10;
/// Time covered by one file.
const FILE_NS: i64 = 600_000_000_000;

/// Rows that are not written yet.
#[derive(Debug, Default)]
pub struct Waits {
    waiting: Vec<WaitSums>,
    written_ns: i64,
}

impl Waits {
    /// Takes rows.
    pub fn note(&mut self, rows: Vec<WaitSums>) {
        self.waiting.extend(rows);
    }

    /// Writes what is due at `now_ns`, nanoseconds since the recording's start.
    ///
    /// # Errors
    /// The file system refuses. A full disk is not an error; the rows are tried again.
    pub fn tick(&mut self, now_ns: i64, writer: &mut RecordingWriter) -> Result<()> {
        if now_ns - self.written_ns < FILE_NS && self.waiting.len() < MAX_WAITING {
            return Ok(());
        }
        self.written_ns = now_ns;
        self.write(writer)
    }

    /// Writes all remaining rows.
    ///
    /// # Errors
    /// As [`Waits::tick`].
    pub fn finish(mut self, writer: &mut RecordingWriter) -> Result<()> {
        self.write(writer)
    }

    fn write(&mut self, writer: &mut RecordingWriter) -> Result<()> {
        let mut due = std::mem::take(&mut self.waiting);
        due.sort_by_key(|row| (row.step_s, row.at_ns));
        // The coarser rows are kept longer, so they are written first: if there is room for one file only, it is
        // theirs.
        let mut steps: Vec<&[WaitSums]> = due.chunk_by(|a, b| a.step_s == b.step_s).collect();
        steps.reverse();
        let mut unwritten = Vec::new();
        for rows in steps {
            if !writer.write_waits(rows[0].step_s, rows)? {
                unwritten.extend_from_slice(rows);
            }
        }
        put_back(&mut self.waiting, unwritten, MAX_WAITING);
        Ok(())
    }
}
