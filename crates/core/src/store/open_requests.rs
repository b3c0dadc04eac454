//! Requests that have not ended yet: `wal/requests-open.wal`, a log with one snapshot of them, which the next snapshot
//! replaces. It is read only if the recording was not finished. A request that ended after the snapshot has its own
//! row; the others are reported as in the snapshot.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::block::Block;
use super::disk;
use super::error::StoreError;
use super::frame::MAX_FRAME_ROWS;
use super::frame_encoder::FrameEncoder;
use super::merge::TableReader;
use super::schema::Table;
use super::wal::{self, FRAME_HEADER, Frame};
use crate::model::{Request, RequestFlags};
use crate::private::PrivateDir;

pub(super) const NAME: &str = "wal/requests-open.wal";

/// Encodes the requests as the file's bytes.
pub(crate) fn encode(open: &[Request], encoder: &mut FrameEncoder) -> Vec<u8> {
    let mut bytes = wal::file_header(Table::Requests, 0).to_vec();
    let mut frame = Vec::new();
    for (number, rows) in open.chunks(MAX_FRAME_ROWS).enumerate() {
        wal::encode_frame(rows, encoder, &mut frame);
        wal::number_frame(&mut frame, number as u32);
        bytes.extend_from_slice(&frame);
    }
    bytes
}

/// Replaces the previous snapshot. It is not synced: it serves recorders that are killed, and after a power loss its
/// checksum shows whether it is intact.
pub(crate) fn replace(recording: &PrivateDir, bytes: &[u8]) -> io::Result<()> {
    recording.replace(NAME, bytes)
}

/// Removes the file. If that fails nothing is lost: a finished recording's file is not read.
pub(crate) fn remove(recording: &PrivateDir) {
    let _ = recording.remove_file(NAME);
}

/// Identity of a request: its opening; if that was not seen, its file and descriptor.
type RequestIdentity = (
    Option<i64>,
    Option<i32>,
    Option<i32>,
    Option<i64>,
    Option<i32>,
);

fn identity(r: &Request) -> RequestIdentity {
    let start_ns = (!r.flags.has(RequestFlags::UNKNOWN_START)).then_some(r.start_ns);
    (start_ns, r.tgid, r.fd, r.ino, r.fs_dev)
}

/// The requests of the last snapshot that have not ended since, as a block. `None` if there are none or the file is
/// damaged.
pub(crate) fn read(recording: &Path, ended: &[Block]) -> Result<Option<Block>, StoreError> {
    let path = recording.join(NAME);
    let bytes = match disk::read_regular(&path, wal::MAX_FILE_BYTES) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| StoreError::io(&path, "read", e))?,
    };
    let Ok(contents) = wal::scan(&bytes) else {
        return Ok(None);
    };
    let Some(seen) = Block::of_log(contents.frames, path.clone()) else {
        return Ok(None);
    };
    // A request that has ended since the snapshot is complete in the table.
    let later = rows(ended, seen.min)?;
    let later: HashSet<RequestIdentity> = later
        .iter()
        .filter(|r| r.sync.is_none())
        .map(identity)
        .collect();
    let mut open = rows(&[seen], i64::MIN)?;
    open.retain(|r| !later.contains(&identity(r)));
    // Readers take blocks, so encode the remaining requests as one.
    let mut encoder = FrameEncoder::default();
    let mut bytes = Vec::new();
    let mut frames = Vec::new();
    for rows in open.chunks(MAX_FRAME_ROWS) {
        let (min, max) = wal::encode_frame(rows, &mut encoder, &mut bytes);
        frames.push(Frame {
            rows: rows.len() as u32,
            min,
            max,
            payload: bytes[FRAME_HEADER..].to_vec(),
        });
    }
    Ok(Block::of_log(frames, path))
}

fn rows(blocks: &[Block], from_ns: i64) -> Result<Vec<Request>, StoreError> {
    let batches: Result<Vec<Vec<Request>>, StoreError> =
        TableReader::new(blocks, from_ns..i64::MAX, u64::MAX).collect();
    Ok(batches?.into_iter().flatten().collect())
}
