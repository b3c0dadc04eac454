//! Parses binary files of blktrace, versions 7 and 8 (`struct blk_io_trace` and `blk_io_trace2` of
//! `include/uapi/linux/blktrace_api.h`). There is one file per CPU, each in order of time; the magic number shows the
//! byte order.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use iolens_core::model::{Comm, DevId, Io, Op};

use super::content::Content;
use super::log::{Epoch, ImportError, Log};
use super::pairing::{BlockStage, Event, Pairing};

const MAGIC: u32 = 0x6561_7400;
const VERSIONS: [u32; 2] = [7, 8];
/// Length of a record without its data, by version.
const HEADERS: [usize; 2] = [48, 64];
/// Flag in `action` of records that have the control group's number before their data.
const WITH_CGROUP: u32 = 1 << 8;
/// Actions, from 1 on; the higher ones were added with version 8 (zone plugging).
const LAST_ACTION: u32 = 24;

// Categories, the upper half of `action`.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const NOTIFY: u32 = 1 << 26;
const AHEAD: u32 = 1 << 27;
const META: u32 = 1 << 28;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// Whether the bytes begin like a trace in either byte order.
pub(super) fn has_magic(bytes: &[u8]) -> bool {
    let Some(Ok(first)) = bytes.get(..4).map(<[u8; 4]>::try_from) else {
        return false;
    };
    u32::from_le_bytes(first) & 0xffff_ff00 == MAGIC
        || u32::from_be_bytes(first) & 0xffff_ff00 == MAGIC
}

/// Parses the files of all CPUs together.
pub(super) fn parse(log: &mut Log, mut cursors: Vec<Cursor>) -> Result<(), ImportError> {
    let mut state = ReaderState {
        pairing: Pairing::with_bios(),
        comms: HashMap::new(),
        known: Vec::new(),
        unknown: 0,
    };
    for c in &mut cursors {
        c.advance(log);
    }
    // There is one file per CPU, so few that a scan for the earliest record is faster than a heap.
    while let Some(i) = earliest(&cursors) {
        if let Some(record) = cursors[i].next.take() {
            state.take(log, &record);
        }
        cursors[i].advance(log);
    }
    state.pairing.finish(log);
    log.bios = state.pairing.bios.take().unwrap_or_default();
    log.epoch = Epoch::Monotonic;
    log.unusable = Some(
        "no I/O was seen from issue to completion; import the logs of all processors together",
    );
    log.limit("source counts threads, not processes: thread ids are shown as process ids");
    log.limit("source knows no cgroup and no file");
    if state.unknown > 0 {
        log.limit(&format!(
            "{} records of unknown actions were not understood",
            state.unknown
        ));
    }
    say_missing(log, &cursors);
    for mut c in cursors {
        let path = std::mem::take(&mut c.path);
        if let Some((at, why)) = c.source.get_mut().close(&path)? {
            log.damage.record(&path, at, why);
        }
    }
    Ok(())
}

/// The name of a trace's files without the CPU number, and that number.
fn set_and_processor(path: &Path) -> Option<(String, u32)> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let (set, processor) = name.rsplit_once('.')?;
    Some((set.to_owned(), processor.parse().ok()?))
}

/// Names the CPUs whose file exists beside the others but was not given, or is missing in the numbering.
fn say_missing(log: &mut Log, cursors: &[Cursor]) {
    let given: HashSet<(String, u32)> = cursors
        .iter()
        .filter_map(|c| set_and_processor(&c.path))
        .collect();
    let mut missing: BTreeSet<(String, u32)> = BTreeSet::new();
    for c in cursors {
        let Some((set, processor)) = set_and_processor(&c.path) else {
            continue;
        };
        let dir = c
            .path
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        // Other files of the same trace in the directory; those that were given are removed below.
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            // blktrace leaves empty files for CPUs without events.
            let is_full = path.metadata().is_ok_and(|m| m.len() > 0);
            if is_full
                && let Some(beside) = set_and_processor(&path)
                && beside.0 == set
            {
                missing.insert(beside);
            }
        }
        // blktrace writes a file for each CPU from 0 on, so a lower number without any file is missing too.
        for n in 0..processor.min(1024) {
            let lower = (set.clone(), n);
            if !given.contains(&lower) && !dir.join(format!("{set}.{n}")).exists() {
                missing.insert(lower);
            }
        }
    }
    missing.retain(|m| !given.contains(m));
    if let Some((set, first)) = missing.first() {
        let n = missing.len();
        log.limit(&format!(
            "{n} files of the trace {set} were not given, the first is that of processor {first}"
        ));
    }
}

fn earliest(cursors: &[Cursor]) -> Option<usize> {
    let times = cursors
        .iter()
        .enumerate()
        .filter_map(|(i, c)| c.next.as_ref().map(|r| (r.time, i)));
    times.min().map(|(_, i)| i)
}

#[derive(Debug)]
struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    error: u16,
    /// The data of a notification; empty for other records.
    pdu: Vec<u8>,
    swapped: bool,
}

impl Record {
    /// The 32-bit number at this offset of its data.
    fn data_word(&self, at: usize) -> i64 {
        let bytes = [
            self.pdu[at],
            self.pdu[at + 1],
            self.pdu[at + 2],
            self.pdu[at + 3],
        ];
        let word = u32::from_le_bytes(bytes);
        i64::from(if self.swapped {
            word.swap_bytes()
        } else {
            word
        })
    }
}

/// The file of a CPU and its next record.
pub(super) struct Cursor {
    pub path: PathBuf,
    source: BufReader<Content>,
    /// The part of it that is in memory, and the offset of that part in the file.
    bytes: Vec<u8>,
    offset: u64,
    at: usize,
    next: Option<Record>,
}

/// More than the longest record.
const WINDOW: usize = 128 << 10;

impl Cursor {
    pub fn new(path: &Path, content: Content) -> Cursor {
        let source = content.buffered_whole();
        Cursor {
            path: path.to_owned(),
            source,
            bytes: Vec::new(),
            offset: 0,
            at: 0,
            next: None,
        }
    }

    /// Reads the next records into memory, if there are any.
    fn fill(&mut self) {
        if self.bytes.len() - self.at >= WINDOW {
            return;
        }
        self.offset += self.at as u64;
        self.bytes.drain(..self.at);
        self.at = 0;
        while self.bytes.len() < 2 * WINDOW {
            // Read errors are kept until the end.
            let Ok(more @ [_, ..]) = self.source.fill_buf() else {
                return;
            };
            let n = more.len();
            self.bytes.extend_from_slice(more);
            self.source.consume(n);
        }
    }

    /// Parses the next record; damaged ranges are noted and skipped.
    fn advance(&mut self, log: &mut Log) {
        self.next = None;
        loop {
            self.fill();
            if self.at >= self.bytes.len() {
                return;
            }
            match record(&self.bytes[self.at..]) {
                Ok((record, len)) => {
                    self.at += len;
                    self.next = Some(record);
                    return;
                }
                Err(why) => {
                    log.damage
                        .record(&self.path, self.offset + self.at as u64, why);
                    self.resync();
                }
            }
        }
    }

    /// Moves to the next position where a record may begin.
    fn resync(&mut self) {
        self.at += 1;
        loop {
            self.fill();
            let rest = &self.bytes[self.at..];
            if let Some(i) = rest.windows(4).position(has_version) {
                self.at += i;
                return;
            }
            if rest.len() < 4 {
                self.at = self.bytes.len();
                return;
            }
            self.at += rest.len() - 3;
        }
    }
}

/// The part of a record before its data. Its numbers have the byte order of the machine that wrote them.
struct Header<'a> {
    bytes: &'a [u8],
    swapped: bool,
}

impl Header<'_> {
    fn u16(&self, at: usize) -> u16 {
        let v = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]);
        if self.swapped { v.swap_bytes() } else { v }
    }

    fn u32(&self, at: usize) -> u32 {
        let b = self.bytes;
        let v = u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        if self.swapped { v.swap_bytes() } else { v }
    }

    fn u64(&self, at: usize) -> u64 {
        let first = u64::from(self.u32(at));
        let second = u64::from(self.u32(at + 4));
        if self.swapped {
            first << 32 | second
        } else {
            second << 32 | first
        }
    }
}

/// The record at the beginning of `rest`, and its length.
fn record(rest: &[u8]) -> Result<(Record, usize), String> {
    const CUT: &str = "cut off inside a record";
    let first = rest.first_chunk().ok_or(CUT)?;
    let little = u32::from_le_bytes(*first);
    let swapped = little & 0xffff_ff00 != MAGIC;
    let magic = if swapped { little.swap_bytes() } else { little };
    if magic & 0xffff_ff00 != MAGIC {
        return Err("no record of blktrace".to_owned());
    }
    let Some(version) = VERSIONS.iter().position(|v| *v == magic & 0xff) else {
        return Err(format!(
            "blktrace version {}, only 7 and 8 are known",
            magic & 0xff
        ));
    };
    let header = Header {
        bytes: rest.get(..HEADERS[version]).ok_or(CUT)?,
        swapped,
    };
    // Version 8 has 64 bits of action; the upper half encodes kinds of zone operations.
    let (pid, action, device, error, pdu_len) = match version {
        0 => (
            header.u32(32),
            header.u32(28),
            header.u32(36),
            header.u16(44),
            header.u16(46),
        ),
        _ => (
            header.u32(28),
            header.u64(32) as u32,
            header.u32(40),
            header.u16(48),
            header.u16(50),
        ),
    };
    let len = header.bytes.len() + usize::from(pdu_len);
    let Some(pdu) = rest.get(header.bytes.len()..len) else {
        return Err("cut off inside a record's data".to_owned());
    };
    let begin = if action & WITH_CGROUP != 0 {
        8.min(pdu.len())
    } else {
        0
    };
    let pdu = if action & NOTIFY != 0 {
        pdu[begin..].to_vec()
    } else {
        Vec::new()
    };
    Ok((
        Record {
            time: header.u64(8),
            sector: header.u64(16),
            bytes: header.u32(24),
            action,
            pid,
            device,
            error,
            pdu,
            swapped,
        },
        len,
    ))
}

fn has_version(w: &[u8]) -> bool {
    let first = [w[0], w[1], w[2], w[3]];
    is_known_magic(u32::from_le_bytes(first)) || is_known_magic(u32::from_be_bytes(first))
}

fn is_known_magic(magic: u32) -> bool {
    VERSIONS.iter().any(|v| magic == MAGIC | v)
}

struct ReaderState {
    pairing: Pairing,
    comms: HashMap<u32, Comm>,
    known: Vec<u32>,
    unknown: u64,
}

impl ReaderState {
    fn take(&mut self, log: &mut Log, r: &Record) {
        if r.action & NOTIFY != 0 {
            return self.notify(log, r);
        }
        let stage = match r.action & 0xff {
            1 => BlockStage::Queue,
            2 => BlockStage::BackMerge,
            3 => BlockStage::FrontMerge,
            4 => BlockStage::Start,
            12 => BlockStage::Insert,
            6 => BlockStage::Requeue,
            7 => BlockStage::Issue,
            8 => BlockStage::Complete,
            n => {
                self.unknown += u64::from(!(1..=LAST_ACTION).contains(&n));
                return;
            }
        };
        let dev = DevId((r.device & 0x7fff_ffff) as i32);
        if !self.known.contains(&r.device) {
            self.known.push(r.device);
            log.devices.by_number(dev);
        }
        let (op, flags) = op_and_flags(r);
        let event = Event {
            at_ns: i64::try_from(r.time).unwrap_or(i64::MAX),
            dev,
            sector: r.sector,
            bytes: u64::from(r.bytes),
            op,
            flags,
            tgid: i32::try_from(r.pid).ok(),
            comm: self.comms.get(&r.pid).copied(),
            // Kernels store the negative errno, truncated to 16 bits.
            error: i32::from(r.error as i16).abs(),
        };
        self.pairing
            .push(stage, &event)
            .into_iter()
            .for_each(|io| log.io(io));
    }

    fn notify(&mut self, log: &mut Log, r: &Record) {
        match r.action & 0xff {
            0 => {
                self.comms.insert(r.pid, Comm::new(&r.pdu));
            }
            1 if r.pdu.len() >= 8 => {
                let seconds = r.data_word(0);
                let nanoseconds = r.data_word(4).min(999_999_999);
                log.zero_unix_ns = log
                    .zero_unix_ns
                    .or(Some(seconds * 1_000_000_000 + nanoseconds));
            }
            2 => {
                let text = String::from_utf8_lossy(&r.pdu)
                    .trim_end_matches('\0')
                    .to_owned();
                log.mark(i64::try_from(r.time).unwrap_or(i64::MAX), "message", text);
            }
            _ => {}
        }
    }
}

fn op_and_flags(r: &Record) -> (Op, i32) {
    let op = match r.action {
        a if a & DISCARD != 0 => Op::DISCARD,
        a if a & WRITE != 0 => Op::WRITE,
        // Here the kernel counts an operation without data as a read.
        a if a & FLUSH != 0 && r.bytes == 0 => Op::FLUSH,
        a if a & READ != 0 => Op::READ,
        _ => Op::READ,
    };
    let mut flags = 0;
    for (bit, flag) in [
        (FLUSH, Io::FLAG_PREFLUSH),
        (SYNC, Io::FLAG_SYNC),
        (AHEAD, Io::FLAG_RAHEAD),
        (META, Io::FLAG_META),
        (FUA, Io::FLAG_FUA),
    ] {
        if r.action & bit != 0 && !(bit == FLUSH && op == Op::FLUSH) {
            flags |= flag;
        }
    }
    (op, flags)
}

#[cfg(test)]
#[path = "blktrace_tests.rs"]
mod tests;
