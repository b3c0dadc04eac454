//! What the I/O of a group is: how much, in what pattern, forced or not, and when.

use super::stretches::Stretches;
use super::{Group, Program};
use crate::model::{Class, Io, Origin};

/// Maximum number of sequential streams that are tracked per group.
const STREAMS: usize = 4;

/// The I/O of one program, class and origin on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The program; `None` for programs without a group of their own.
    pub program: Option<Program>,
    /// Class of the I/Os.
    pub class: Class,
    /// Origin of the I/Os.
    pub origin: Origin,
    /// Number of completed I/Os.
    pub ios: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// I/Os that a program waits for (`REQ_SYNC`).
    pub sync_ios: u64,
    /// Forced I/Os: with a flush, or written through to the medium (FUA).
    pub forced_ios: u64,
    /// Bytes of I/Os that continue another one.
    pub sequential_bytes: u64,
    /// Stretches of time with such I/O; amounts are bytes.
    pub stretches: Stretches,
    ends: [i64; STREAMS],
    next_end: usize,
}

impl Profile {
    pub(super) fn of(group: &Group) -> Profile {
        Profile {
            program: group.program,
            class: group.class,
            origin: group.origin,
            ios: 0,
            bytes: 0,
            sync_ios: 0,
            forced_ios: 0,
            sequential_bytes: 0,
            stretches: Stretches::default(),
            ends: [-1; STREAMS],
            next_end: 0,
        }
    }

    pub(super) fn push(&mut self, io: &Io) {
        let bytes = io.bytes.max(0);
        let flags = io.flags.unwrap_or(0);
        self.ios += 1;
        self.bytes += bytes as u64;
        self.sync_ios += u64::from(flags & Io::FLAG_SYNC != 0);
        self.forced_ios += u64::from(io.is_forced());
        if let Some(sector) = io.sector {
            let end = sector + bytes / 512;
            match self.ends.iter().position(|e| *e == sector) {
                Some(stream) => {
                    self.sequential_bytes += bytes as u64;
                    self.ends[stream] = end;
                }
                None => {
                    self.ends[self.next_end] = end;
                    self.next_end = (self.next_end + 1) % STREAMS;
                }
            }
        }
        self.stretches.push(io.start_ns(), io.done_ns, bytes, 1);
    }

    pub(in crate::analysis) fn merge(&mut self, other: &Profile) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.sync_ios += other.sync_ios;
        self.forced_ios += other.forced_ios;
        self.sequential_bytes += other.sequential_bytes;
        self.stretches.merge(&other.stretches);
    }

    /// Mean I/O size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.ios.max(1) as f64
    }

    /// Share of the bytes that continue another I/O.
    pub fn sequential_share(&self) -> f64 {
        self.sequential_bytes as f64 / self.bytes.max(1) as f64
    }

    /// Whether at least half of its I/Os carry a flush or are flushes.
    pub fn is_mostly_forced(&self) -> bool {
        self.class == Class::Flush || 2 * self.forced_ios >= self.ios
    }
}
