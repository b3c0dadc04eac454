//! Converts the logs that a killed recorder left to segments.

use std::path::Path;

use super::disk;
use super::error::StoreError;
use super::inventory::names_in;
use super::parquet_read::ParquetFile;
use super::parquet_write::FileEncoder;
use super::segment;
use super::wal::{self, NewerWal};
use crate::private::{Access, PrivateDir};

/// Converts each log in the recording at `path` to a segment and removes the log; no process may write there any more.
/// Returns the number of logs converted. A damaged log stays, because a segment could not show what is missing in it.
/// An unfinished write at the end, as a kill leaves it, is not damage: its rows were never readable.
///
/// # Errors
/// The recording is another user's, a log is of a later version, or the file system refuses.
pub fn close_logs(path: &Path, access: Access) -> Result<usize, StoreError> {
    let dir =
        PrivateDir::open_own(path, access).map_err(|e| StoreError::io(path, "write to", e))?;
    let mut encoder = FileEncoder::default();
    let mut bytes = Vec::new();
    let mut closed = 0;
    for name in names_in(&path.join("wal"))? {
        let Some((table, number)) = wal::parse_name(&name) else {
            continue;
        };
        let segment = format!("{}/{}", table.name(), segment::file_name(number));
        let log = format!("wal/{name}");
        let log_path = path.join(&log);
        // A recorder killed between the two steps leaves both. Readers take the file, or the log if the file is
        // damaged.
        let segment_path = path.join(&segment);
        if segment_path.exists() {
            if ParquetFile::open(&segment_path, table).is_ok() {
                remove_log(&dir, &log)?;
            }
            continue;
        }
        let content = disk::read_regular(&log_path, wal::MAX_FILE_BYTES)
            .map_err(|e| StoreError::io(&log_path, "read", e))?;
        let contents =
            wal::scan(&content).map_err(|NewerWal(v)| StoreError::newer(path, v.into()))?;
        let is_whole = contents.damage.is_empty() && contents.header == Some((table, number));
        if !is_whole || contents.frames.is_empty() {
            continue;
        }
        let frames = contents
            .frames
            .iter()
            .map(|frame| (frame.payload.as_slice(), frame.rows as usize));
        // Frames of another version, which this program cannot convert, stay in the log and are read from there.
        if encoder.encode(table, frames, &mut bytes).is_err() {
            continue;
        }
        dir.make_dir(table.name())
            .and_then(|()| dir.sync(Path::new(".")))
            .map_err(|e| StoreError::io(&path.join(table.name()), "create", e))?;
        dir.write_atomically(&segment, &bytes)
            .map_err(|e| StoreError::io(&segment_path, "write", e))?;
        // From here on the log is void.
        remove_log(&dir, &log)?;
        closed += 1;
    }
    Ok(closed)
}

fn remove_log(recording: &PrivateDir, log: &str) -> Result<(), StoreError> {
    recording
        .remove_file(log)
        .map_err(|e| StoreError::io(&recording.path().join(log), "remove", e))
}
