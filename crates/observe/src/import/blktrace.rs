//! Binary files of blktrace, version 7 (`struct blk_io_trace` of `include/uapi/linux/blktrace_api.h`): one file per
//! processor, each in order of time; told apart from the other byte order by the magic number.

use std::collections::HashMap;
use std::path::Path;

use iolens_core::model::{Comm, DevId, Io, Mark, Op};

use super::log::{Epoch, Log};
use super::pairing::{Event, Pairing, Stage};

const HEADER: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

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

/// Whether bytes begin like a trace of either byte order.
pub(super) fn has_magic(bytes: &[u8]) -> bool {
    let Some(Ok(first)) = bytes.get(..4).map(<[u8; 4]>::try_from) else { return false };
    u32::from_le_bytes(first) & 0xffff_ff00 == MAGIC || u32::from_be_bytes(first) & 0xffff_ff00 == MAGIC
}

/// Reads the files of all processors together.
pub(super) fn parse(log: &mut Log, files: &[(&Path, &[u8])]) {
    let mut cursors: Vec<Cursor<'_>> = files.iter().map(|(path, bytes)| Cursor::new(path, bytes)).collect();
    let mut state = State { pairing: Pairing::with_bios(), comms: HashMap::new(), known: Vec::new() };
    for c in &mut cursors {
        c.advance(log);
    }
    // One file per processor, so few: a scan for the earliest beats a heap.
    while let Some(i) = earliest(&cursors) {
        if let Some(record) = cursors[i].next.take() {
            state.take(log, &record);
        }
        cursors[i].advance(log);
    }
    state.pairing.finish();
    log.censored += state.pairing.censored;
    log.bios = state.pairing.bios.take().unwrap_or_default();
    log.epoch = Epoch::Monotonic;
    log.unusable = Some("no I/O was seen from issue to completion; the logs of all processors are wanted together");
    log.limit("source counts threads, not processes: their numbers stand in the place of process ids");
    log.limit("source knows no cgroup and no file");
}

fn earliest(cursors: &[Cursor<'_>]) -> Option<usize> {
    let times = cursors.iter().enumerate().filter_map(|(i, c)| c.next.as_ref().map(|r| (r.time, i)));
    times.min().map(|(_, i)| i)
}

#[derive(Debug)]
struct Record<'a> {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    error: u16,
    pdu: &'a [u8],
    swapped: bool,
}

struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
    next: Option<Record<'a>>,
}

impl<'a> Cursor<'a> {
    fn new(path: &'a Path, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { path, bytes, at: 0, next: None }
    }

    /// Reads the next record; damaged stretches are noted and passed over.
    fn advance(&mut self, log: &mut Log) {
        self.next = None;
        while self.at < self.bytes.len() {
            match self.record() {
                Ok((record, len)) => {
                    self.at += len;
                    self.next = Some(record);
                    return;
                }
                Err(why) => {
                    log.damage.record(self.path, self.at as u64, why);
                    self.resync();
                }
            }
        }
    }

    fn record(&self) -> Result<(Record<'a>, usize), String> {
        let rest = &self.bytes[self.at..];
        let Some(h) = rest.get(..HEADER) else { return Err("cut off inside a record".to_owned()) };
        let little = u32::from_le_bytes([h[0], h[1], h[2], h[3]]);
        let swapped = little & 0xffff_ff00 != MAGIC;
        let magic = if swapped { little.swap_bytes() } else { little };
        if magic & 0xffff_ff00 != MAGIC {
            return Err("no record of blktrace".to_owned());
        }
        if magic & 0xff != VERSION {
            return Err(format!("blktrace version {}, only {VERSION} is known", magic & 0xff));
        }
        let u16_at = |i: usize| {
            let v = u16::from_le_bytes([h[i], h[i + 1]]);
            if swapped { v.swap_bytes() } else { v }
        };
        let u32_at = |i: usize| {
            let v = u32::from_le_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
            if swapped { v.swap_bytes() } else { v }
        };
        let u64_at = |i: usize| {
            let (a, b) = (u64::from(u32_at(i)), u64::from(u32_at(i + 4)));
            if swapped { a << 32 | b } else { b << 32 | a }
        };
        let len = HEADER + usize::from(u16_at(46));
        let Some(pdu) = rest.get(HEADER..len) else { return Err("cut off inside a record's data".to_owned()) };
        let record = Record {
            time: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action: u32_at(28),
            pid: u32_at(32),
            device: u32_at(36),
            error: u16_at(44),
            pdu,
            swapped,
        };
        Ok((record, len))
    }

    /// Moves to the next place where a record may begin.
    fn resync(&mut self) {
        let from = self.at + 1;
        let found = self.bytes.get(from..).and_then(|rest| rest.windows(4).position(has_version));
        self.at = found.map_or(self.bytes.len(), |i| from + i);
    }
}

fn has_version(w: &[u8]) -> bool {
    let first = [w[0], w[1], w[2], w[3]];
    u32::from_le_bytes(first) == MAGIC | VERSION || u32::from_be_bytes(first) == MAGIC | VERSION
}

struct State {
    pairing: Pairing,
    comms: HashMap<u32, Comm>,
    known: Vec<u32>,
}

impl State {
    fn take(&mut self, log: &mut Log, r: &Record<'_>) {
        if r.action & NOTIFY != 0 {
            return self.notify(log, r);
        }
        let stage = match r.action & 0xffff {
            1 => Stage::Queue,
            2 => Stage::BackMerge,
            3 => Stage::FrontMerge,
            4 => Stage::Start,
            12 => Stage::Insert,
            6 => Stage::Requeue,
            7 => Stage::Issue,
            8 => Stage::Complete,
            _ => return,
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
            // Kernels store the negative errno, cut to 16 bits.
            error: i32::from(r.error as i16).abs(),
        };
        log.ios.extend(self.pairing.push(stage, &event));
    }

    fn notify(&mut self, log: &mut Log, r: &Record<'_>) {
        match r.action & 0xffff {
            0 => {
                self.comms.insert(r.pid, Comm::new(r.pdu));
            }
            1 if r.pdu.len() >= 8 => {
                let word = |i: usize| {
                    let v = u32::from_le_bytes([r.pdu[i], r.pdu[i + 1], r.pdu[i + 2], r.pdu[i + 3]]);
                    i64::from(if r.swapped { v.swap_bytes() } else { v })
                };
                log.zero_unix_ns = log.zero_unix_ns.or(Some(word(0) * 1_000_000_000 + word(4).min(999_999_999)));
            }
            2 => log.marks.push(Mark {
                at_ns: i64::try_from(r.time).unwrap_or(i64::MAX),
                kind: "message".to_owned(),
                text: String::from_utf8_lossy(r.pdu).trim_end_matches('\0').to_owned(),
            }),
            _ => {}
        }
    }
}

fn op_and_flags(r: &Record<'_>) -> (Op, i32) {
    let op = match r.action {
        a if a & DISCARD != 0 => Op::DISCARD,
        a if a & WRITE != 0 => Op::WRITE,
        // The kernel counts an operation without data as a read here.
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
