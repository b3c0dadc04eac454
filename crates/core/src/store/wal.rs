//! The write-ahead log: rows that are not in a closed Parquet file yet. One file per active segment, made of [frames].
//!
//! ```text
//! file   = "IOLENSWL" version:u16 table:u16 segment:u32 crc32(of these 16 bytes):u32  frame*
//! frame  = "iofr" payload_bytes:u32 rows:u32 crc32(payload):u32 min_time:i64 max_time:i64 number:u32
//!          crc32(of these 36 bytes):u32  payload
//! ```
//! Little endian throughout. Frames are numbered from 0 in each log, so that a missing one is noticed; version 1 had no
//! numbers. `wal/io-000007.wal` holds the rows of `io/000007.parquet`. Once that file exists the log is void, so a
//! crash between the rename and the removal of the log duplicates nothing.
//!
//! [frames]: super::frame

use std::fs::File;
use std::io::{self, Write};

use super::frame::MAX_FRAME_ROWS;
use super::frame_encoder::FrameEncoder;
use super::row::Row;
use super::schema::Table;
use crate::private::PrivateDir;

const FILE_MAGIC: &[u8; 8] = b"IOLENSWL";
const FRAME_MAGIC: &[u8; 4] = b"iofr";
pub(crate) const FILE_HEADER: usize = 20;
pub(crate) const FRAME_HEADER: usize = 40;
/// Length of a frame's header in version 1.
const OLD_FRAME_HEADER: usize = 36;
/// Version of the log's layout, independent of the recording's format version: logs survive a crash, not a format
/// upgrade.
pub(crate) const WAL_VERSION: u16 = 2;
/// Longer log files are not read; a segment becomes a Parquet file long before.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;
/// A longer payload is damage: the writer's frames stay far below.
const MAX_PAYLOAD: usize = 64 << 20;
/// Maximum rows of a log, twice what a segment may hold. A file with more is not ours and would need unbounded memory.
const MAX_LOG_ROWS: usize = 2 << 20;

/// A frame without its header: some rows of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub rows: u32,
    /// Smallest and largest time of the rows.
    pub min: i64,
    pub max: i64,
    pub payload: Vec<u8>,
}

/// Encodes `rows` (not empty) into a frame, header included, replacing what `out` holds.
pub(crate) fn encode_frame<R: Row>(
    rows: &[R],
    encoder: &mut FrameEncoder,
    out: &mut Vec<u8>,
) -> (i64, i64) {
    encoder.push(rows);
    finish_frame(R::TABLE, encoder, out)
}

/// Builds a frame, header included, from the rows of `table` in `encoder` (at least one), replacing the content of
/// `out`. Returns the smallest and largest time.
pub(crate) fn finish_frame(
    table: Table,
    encoder: &mut FrameEncoder,
    out: &mut Vec<u8>,
) -> (i64, i64) {
    let rows = encoder.rows();
    debug_assert!((1..=MAX_FRAME_ROWS).contains(&rows));
    out.clear();
    out.resize(FRAME_HEADER, 0);
    let (min, max) = encoder.finish(table.time_column(), out);
    let (header, payload) = out.split_at_mut(FRAME_HEADER);
    header[0..4].copy_from_slice(FRAME_MAGIC);
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&(rows as u32).to_le_bytes());
    header[12..16].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    header[16..24].copy_from_slice(&min.to_le_bytes());
    header[24..32].copy_from_slice(&max.to_le_bytes());
    number_frame(out, 0);
    (min, max)
}

/// Gives a frame its number in its log.
pub(crate) fn number_frame(frame: &mut [u8], number: u32) {
    frame[32..36].copy_from_slice(&number.to_le_bytes());
    let crc = crc32fast::hash(&frame[..36]);
    frame[36..40].copy_from_slice(&crc.to_le_bytes());
}

/// Name of the log of one segment.
pub(crate) fn file_name(table: Table, segment: u32) -> String {
    format!("{}-{segment:06}.wal", table.name())
}

/// Table and segment parsed from the name of a log file.
pub(crate) fn parse_name(name: &str) -> Option<(Table, u32)> {
    let (table, number) = name.strip_suffix(".wal")?.rsplit_once('-')?;
    Some((Table::from_name(table)?, number.parse().ok()?))
}

/// The log of the active segment, open for appending.
#[derive(Debug)]
pub(crate) struct WalFile {
    file: File,
    /// Relative to the recording.
    pub name: String,
    /// Bytes of complete frames, header included.
    pub len: u64,
    /// Whether something was appended since the last sync.
    pub dirty: bool,
}

impl WalFile {
    /// Creates the log of `segment` of `table`. Nothing stays behind if that fails.
    pub fn create(recording: &PrivateDir, table: Table, segment: u32) -> io::Result<WalFile> {
        let name = format!("wal/{}", file_name(table, segment));
        let file = recording.create_file(&name)?;
        let mut wal = WalFile {
            file,
            name,
            len: 0,
            dirty: false,
        };
        wal.append(&file_header(table, segment))
            .inspect_err(|_| drop(recording.remove_file(&wal.name)))?;
        Ok(wal)
    }

    /// Appends a frame completely or not at all: on a full disk the partial frame is truncated.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(e) = self.file.write_all(bytes) {
            // If truncating fails too, the reader finds a torn frame, whose rows count as lost already.
            let _ = self.file.set_len(self.len);
            let _ = io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.len));
            return Err(e);
        }
        self.len += bytes.len() as u64;
        self.dirty = true;
        Ok(())
    }

    /// Syncs the appended frames to the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.dirty = false;
        Ok(())
    }
}

pub(crate) fn file_header(table: Table, segment: u32) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[0..8].copy_from_slice(FILE_MAGIC);
    header[8..10].copy_from_slice(&WAL_VERSION.to_le_bytes());
    header[10..12].copy_from_slice(&(table as u16).to_le_bytes());
    header[12..16].copy_from_slice(&segment.to_le_bytes());
    let crc = crc32fast::hash(&header[..16]);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    header
}

/// A part of a log that cannot be read. A length of 0 bytes means that frames are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WalDamage {
    pub offset: usize,
    pub bytes: usize,
    /// Rows and their first and last time, if the frame's header is whole.
    pub known: Option<(u32, i64, i64)>,
    /// How many good frames come before it.
    pub after_frames: usize,
}

/// The contents of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WalContents {
    /// Table and segment in the header, if it is intact. A damaged header is no loss, because the file name has both.
    pub header: Option<(Table, u32)>,
    pub frames: Vec<Frame>,
    /// Rows of all frames.
    pub rows: usize,
    pub damage: Vec<WalDamage>,
    /// Expected number of the next frame; `None` after damage of unknown extent.
    next: Option<u32>,
    /// An unfinished write at the end: where it starts, and how many bytes there are.
    pub torn: Option<(usize, usize)>,
}

/// Error: the log has a newer layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewerWal(pub u16);

/// Reads a log in any state. A damaged frame loses its own rows; an unfinished frame at the end loses nothing.
pub(crate) fn scan(bytes: &[u8]) -> Result<WalContents, NewerWal> {
    let mut out = WalContents {
        next: Some(0),
        ..WalContents::default()
    };
    if bytes.len() < FILE_HEADER {
        out.torn = Some((0, bytes.len()));
        return Ok(out);
    }
    out.header = parse_file_header(bytes)?;
    let mut at = FILE_HEADER;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.len() < FRAME_HEADER {
            out.torn = Some((at, rest.len()));
            break;
        }
        at += match FrameHeader::parse(rest) {
            Some(header) => match take_frame(&mut out, at, rest, header) {
                Some(used) => used,
                None => break,
            },
            None => {
                let skip = next_header(rest);
                out.damage.push(WalDamage {
                    offset: at,
                    bytes: skip,
                    known: None,
                    after_frames: out.frames.len(),
                });
                out.next = None;
                skip
            }
        };
    }
    Ok(out)
}

fn parse_file_header(bytes: &[u8]) -> Result<Option<(Table, u32)>, NewerWal> {
    if bytes[..8] != *FILE_MAGIC || crc32fast::hash(&bytes[..16]) != u32_at(bytes, 16) {
        return Ok(None);
    }
    let version = u16::from_le_bytes([bytes[8], bytes[9]]);
    if version > WAL_VERSION {
        return Err(NewerWal(version));
    }
    let table = Table::from_code(u16::from_le_bytes([bytes[10], bytes[11]]));
    Ok(table.map(|t| (t, u32_at(bytes, 12))))
}

/// Decodes the frame at the start of `rest`. Returns its length, or `None` if it is torn.
fn take_frame(out: &mut WalContents, at: usize, rest: &[u8], h: FrameHeader) -> Option<usize> {
    let end = h.size + h.payload;
    if h.number.is_some() && out.next.is_some() && h.number != out.next {
        out.damage.push(WalDamage {
            offset: at,
            bytes: 0,
            known: None,
            after_frames: out.frames.len(),
        });
    }
    out.next = h.number.map(|n| n.wrapping_add(1));
    let Some(payload) = rest.get(h.size..end) else {
        out.torn = Some((at, rest.len()));
        return None;
    };
    let fits = out.rows + h.rows as usize <= MAX_LOG_ROWS;
    if fits && crc32fast::hash(payload) == h.crc {
        out.rows += h.rows as usize;
        out.frames.push(Frame {
            rows: h.rows,
            min: h.min,
            max: h.max,
            payload: payload.to_vec(),
        });
    } else {
        let known = Some((h.rows, h.min, h.max));
        out.damage.push(WalDamage {
            offset: at,
            bytes: end,
            known,
            after_frames: out.frames.len(),
        });
    }
    Some(end)
}

/// Distance to the next whole frame header in `rest`, or to its end.
fn next_header(rest: &[u8]) -> usize {
    let candidates = 1..rest.len().saturating_sub(FRAME_HEADER - 1);
    candidates
        .into_iter()
        .find(|i| FrameHeader::parse(&rest[*i..]).is_some())
        .unwrap_or(rest.len())
}

struct FrameHeader {
    /// Bytes of the header itself.
    size: usize,
    /// `None` in version 1.
    number: Option<u32>,
    payload: usize,
    rows: u32,
    crc: u32,
    min: i64,
    max: i64,
}

impl FrameHeader {
    /// `bytes` holds at least a header's length.
    fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        if bytes[..4] != *FRAME_MAGIC {
            return None;
        }
        // The header's own checksum shows the version, because the file header may be damaged.
        let (size, number) = if crc32fast::hash(&bytes[..36]) == u32_at(bytes, 36) {
            (FRAME_HEADER, Some(u32_at(bytes, 32)))
        } else if crc32fast::hash(&bytes[..32]) == u32_at(bytes, 32) {
            (OLD_FRAME_HEADER, None)
        } else {
            return None;
        };
        let header = FrameHeader {
            size,
            number,
            payload: u32_at(bytes, 4) as usize,
            rows: u32_at(bytes, 8),
            crc: u32_at(bytes, 12),
            min: i64_at(bytes, 16),
            max: i64_at(bytes, 24),
        };
        let sane =
            header.payload <= MAX_PAYLOAD && (1..=MAX_FRAME_ROWS as u32).contains(&header.rows);
        sane.then_some(header)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    i64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Mark;

    /// A log of `n` frames with one mark each, and the offsets at which its frames end.
    fn log(n: i64) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = file_header(Table::Marks, 3).to_vec();
        let mut ends = Vec::new();
        let mut frame = Vec::new();
        for i in 0..n {
            let mark = Mark {
                at_ns: i * 10,
                kind: "phase".into(),
                text: format!("number {i}"),
            };
            encode_frame(&[mark], &mut FrameEncoder::default(), &mut frame);
            number_frame(&mut frame, i as u32);
            bytes.extend_from_slice(&frame);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_log_torn_at_any_byte_keeps_every_frame_before_it() {
        let (bytes, ends) = log(5);
        for cut in 0..=bytes.len() {
            let read = scan(&bytes[..cut]).expect("our version");
            assert_eq!(
                read.frames.len(),
                ends.iter().filter(|e| **e <= cut).count(),
                "cut at {cut}"
            );
            assert!(
                read.damage.is_empty(),
                "a torn end is no damage (cut at {cut})"
            );
            let whole = cut == FILE_HEADER || ends.contains(&cut);
            assert_eq!(read.torn.is_none(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_costs_at_most_one_frame_and_is_noticed() {
        let (bytes, _) = log(4);
        let clean = scan(&bytes).expect("our version");
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let read = scan(&bad).expect("our version");
            let lost = clean.frames.len() - read.frames.len();
            assert!(
                read.frames.iter().all(|f| clean.frames.contains(f)),
                "bit {bit}: a wrong frame"
            );
            if bit / 8 < FILE_HEADER {
                assert!(read.header.is_none() && lost == 0, "bit {bit}");
            } else {
                assert!(
                    lost == 1 && (read.damage.len() == 1 || read.torn.is_some()),
                    "bit {bit}: {lost} frames lost"
                );
            }
        }
    }

    #[test]
    fn missing_and_duplicate_frames_are_detected() {
        let (bytes, ends) = log(4);
        let frame = |i: usize| &bytes[if i == 0 { FILE_HEADER } else { ends[i - 1] }..ends[i]];
        let of = |frames: &[usize]| {
            let frames: Vec<u8> = frames.iter().flat_map(|i| frame(*i)).copied().collect();
            scan(&[&bytes[..FILE_HEADER], &frames].concat())
                .expect("our version")
                .damage
        };
        assert_eq!(of(&[0, 1, 2, 3]), []);
        for (frames, after) in [
            (vec![1, 2, 3], 0),
            (vec![0, 2, 3], 1),
            (vec![0, 1, 1, 2, 3], 2),
        ] {
            let damage = of(&frames);
            assert_eq!(
                (damage[0].bytes, damage[0].after_frames),
                (0, after),
                "{frames:?}"
            );
        }
    }

    #[test]
    fn names_say_table_and_segment() {
        assert_eq!(
            parse_name(&file_name(Table::Counters, 12)),
            Some((Table::Counters, 12))
        );
        assert_eq!(parse_name("io-x.wal"), None);
        assert_eq!(parse_name("io-000001.parquet"), None);
    }
}
