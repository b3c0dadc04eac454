//! The gap between the I/O time of programs and of devices, divided into cache hits, device time, and the rest (A23).

use std::collections::HashMap;

use serde::Serialize;

use crate::model::{Io, Op, Request, RequestClass, RequestFlags};

/// Block I/Os of each process, by their start, to be matched with its requests.
#[derive(Debug, Default)]
pub struct BlockIos {
    by_process: HashMap<i32, Vec<Span>>,
    /// Bytes of data (reads and writes) of all processes.
    bytes: i128,
    /// Bytes of I/Os whose process is known to be the cause.
    attributed_bytes: i128,
    ordered: bool,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start_ns: i64,
    done_ns: i64,
    bytes: i64,
    ino: Option<i64>,
}

/// Maximum number of block I/Os kept of a process: some 200 MB.
const MAX_IOS: i128 = 5_000_000;

impl BlockIos {
    /// Adds a completed block I/O. Only reads and direct writes belong to the task that submitted them.
    pub fn push(&mut self, io: &Io) {
        if io.op != Op::READ && io.op != Op::WRITE {
            return;
        }
        self.bytes += i128::from(io.bytes);
        let Some(tgid) = io.tgid.filter(|_| io.origin.is_by_submitter()) else {
            return;
        };
        self.attributed_bytes += i128::from(io.bytes);
        let spans = self.by_process.entry(tgid).or_default();
        if (spans.len() as i128) < MAX_IOS {
            spans.push(Span {
                start_ns: io.start_ns(),
                done_ns: io.done_ns,
                bytes: io.bytes,
                ino: io.ino,
            });
        }
        self.ordered = false;
    }

    /// Sorts the I/Os of each process by start.
    pub fn order(&mut self) {
        self.by_process
            .values_mut()
            .for_each(|s| s.sort_by_key(|io| io.start_ns));
        self.ordered = true;
    }

    /// Percent of the bytes of block I/O that cannot be attributed to a request: write-back, metadata, unknown processes.
    pub fn unattributed_percent(&self) -> Option<f64> {
        (self.bytes > 0)
            .then(|| 100.0 * (self.bytes - self.attributed_bytes) as f64 / self.bytes as f64)
    }

    /// Nanoseconds (start to completion, clipped to the request) and bytes of block I/O that the request's process
    /// submitted between its open call and its last data I/O; only I/O of its file, if the kernel named the file.
    /// With io_uring, I/Os may overlap. `None` without a known start. [`BlockIos::order`] must have been called.
    pub fn within(&self, r: &Request) -> Option<(i64, i64)> {
        let total = r.total_ns().filter(|_| r.sync.is_none())?;
        let from = r.start_ns;
        let to = r.start_ns + total;
        // Block I/O of io_uring is not submitted by the calls of the request.
        let ring = r.flags.has(RequestFlags::IO_URING);
        if r.device_ios == 0 && !ring {
            return Some((0, 0));
        }
        let Some(spans) = self.by_process.get(&r.tgid?) else {
            return ring.then_some((0, 0));
        };
        let first = spans.partition_point(|io| io.start_ns < from);
        let mine = spans[first..].iter().take_while(|io| io.start_ns < to);
        let mine = mine.filter(|io| io.ino.is_none() || r.ino.is_none() || io.ino == r.ino);
        Some(mine.fold((0, 0), |(ns, bytes), io| {
            (ns + io.done_ns.min(to) - io.start_ns, bytes + io.bytes)
        }))
    }
}

/// Sums over a group of requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// Requests, syncs included.
    pub requests: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes read by calls.
    pub bytes_in: i64,
    /// Bytes written by calls.
    pub bytes_out: i64,
    /// Number of data I/Os (calls that read or write data).
    pub data_ios: i64,
    /// Time inside calls: open, data I/Os, sync, close.
    pub call_s: f64,
    /// Time of block I/O inside the calls, as far as it can be attributed to them.
    pub block_io_s: f64,
    /// Bytes of the block I/O in `block_io_s`.
    pub block_io_bytes: i64,
    /// Data I/Os that waited for a device or slept for another reason.
    pub waited_ios: i64,
    /// Percent of reads that found their data in memory; `None` without synchronous reads.
    pub cache_hit_percent: Option<f64>,
    #[serde(skip)]
    reads: i64,
    #[serde(skip)]
    hits: i64,
}

impl Gap {
    /// Adds one request and the block I/O within it.
    pub fn add(&mut self, r: &Request, device: Option<(i64, i64)>) {
        self.requests += 1;
        self.bytes_in += r.bytes_in;
        self.bytes_out += r.bytes_out;
        self.data_ios += r.ios();
        let sync_ns = if r.sync.is_some() {
            r.end_ns - r.start_ns
        } else {
            0
        };
        self.syncs += u64::from(r.sync.is_some());
        self.call_s +=
            (r.active_ns + r.open_ns.unwrap_or(0) + r.close_ns.unwrap_or(0) + sync_ns) as f64 / 1e9;
        let (ns, bytes) = device.unwrap_or((0, 0));
        self.block_io_s += ns as f64 / 1e9;
        self.block_io_bytes += bytes;
        self.waited_ios += r.device_ios.max(r.slept_ios);
        if let Some((reads, hits)) = reads_and_hits(r) {
            self.reads += reads;
            self.hits += hits;
            self.cache_hit_percent =
                (self.reads > 0).then(|| 100.0 * self.hits as f64 / self.reads as f64);
        }
    }
}

/// Number of synchronous reads of a request, and of those that found their data in memory: they neither submitted
/// block I/O nor slept. `None` for requests that also wrote or used io_uring, whose counts cannot be separated.
pub fn reads_and_hits(r: &Request) -> Option<(i64, i64)> {
    let reported = r.class() == RequestClass::In && !r.flags.has(RequestFlags::IO_URING);
    // A read that submitted block I/O has also slept, unless it was direct and polled. So the larger count is the
    // union, except for reads that submitted without waiting.
    reported.then(|| (r.ios_in, (r.ios_in - r.device_ios.max(r.slept_ios)).max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Origin};

    fn block(start_ns: i64, done_ns: i64, tgid: i32, ino: Option<i64>, origin: Origin) -> Io {
        let io = Io::new(
            done_ns,
            DevId::new(8, 0),
            Op::READ,
            4096,
            Some(0),
            done_ns - start_ns,
        );
        Io {
            tgid: Some(tgid),
            ino,
            origin,
            ..io
        }
    }

    #[test]
    fn block_ios_are_laid_to_the_request_that_caused_them() {
        let mut b = BlockIos::default();
        b.push(&block(150, 250, 1, Some(7), Origin::Direct));
        b.push(&block(160, 900, 1, Some(7), Origin::Readahead));
        b.push(&block(170, 200, 1, Some(8), Origin::Direct));
        b.push(&block(180, 200, 2, Some(7), Origin::Direct));
        b.push(&block(190, 200, 1, Some(7), Origin::Writeback));
        b.push(&block(50, 99, 1, None, Origin::Direct));
        b.order();
        let mut r = Request {
            tgid: Some(1),
            ino: Some(7),
            last_after_ns: Some(300),
            ios_in: 3,
            device_ios: 2,
            ..Request::new(100, 500)
        };
        assert_eq!(b.within(&r), Some((100 + 240, 8192)));
        assert!((b.unattributed_percent().expect("bytes") - 100.0 / 6.0).abs() < 1e-9);
        let mut gap = Gap::default();
        gap.add(&r, b.within(&r));
        assert_eq!(
            (gap.cache_hit_percent.map(f64::round), gap.block_io_bytes),
            (Some(33.0), 8192)
        );
        r.device_ios = 0;
        assert_eq!(b.within(&r), Some((0, 0)));
        r.flags = RequestFlags::IO_URING;
        assert_eq!(b.within(&r), Some((100 + 240, 8192)), "no call submits it");
        assert_eq!(
            b.within(&Request {
                tgid: Some(3),
                ..r.clone()
            }),
            Some((0, 0))
        );
        r.flags = RequestFlags::UNKNOWN_START;
        assert_eq!(b.within(&r), None);
    }
}
