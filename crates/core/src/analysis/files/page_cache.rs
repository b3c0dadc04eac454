//! The share of I/O that the page cache serves (A16: `hit = 1 - device reads / program reads`, without a benchmark).
//!
//! Two signs show it. Programs read more from files than devices returned (known if file-level requests were
//! recorded, since each synchronous read shows whether it went to the device or slept). And write-back reaches the
//! device later, so no program waits for it.

use std::collections::BTreeSet;

use crate::analysis::findings::evidence::{CachedReadsEvidence, Evidence, WrittenBackEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId, Io, Origin, Request, RequestFlags};

/// Minimum number of bytes to be reported.
const MIN_BYTES: u64 = 4 << 20;

/// Share of the bytes read from which on the cache serves the reads.
const READ_SHARE: f64 = 0.5;

/// Share of the bytes written from which on the kernel writes, not the programs.
const WRITE_SHARE: f64 = 0.9;

/// Bytes written to one device, by origin.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    bytes: u64,
    written_back: u64,
    known: u64,
    from_ns: i64,
    to_ns: i64,
}

/// Accumulates the finding `page-cache`.
#[derive(Debug)]
pub struct PageCache {
    window: Window,
    layers: BTreeSet<DevId>,
    /// Indices of devices in the list of writes.
    index: DeviceIndex,
    written: Vec<Written>,
    device_read: u64,
    /// Bytes that programs read through files, without `O_DIRECT` and without reading block devices.
    program_read: u64,
    /// Number of reads known one by one, and of those that found all data in memory.
    reads: (u64, u64),
    span: Option<(i64, i64)>,
}

impl PageCache {
    /// For what ends inside `window`. Reads of `layers` are not counted, as they are read on the devices below, too.
    pub fn new(window: Window, layers: BTreeSet<DevId>) -> PageCache {
        PageCache {
            window,
            layers,
            index: DeviceIndex::default(),
            written: Vec::new(),
            device_read: 0,
            program_read: 0,
            reads: (0, 0),
            span: None,
        }
    }

    /// Takes the next I/O that completes inside the window.
    pub fn push(&mut self, io: &Io) {
        let bytes = io.bytes.max(0) as u64;
        match io.class() {
            Class::Read if self.layers.contains(&io.dev) => {}
            Class::Read => self.device_read += bytes,
            Class::Write => self.write(io, bytes),
            Class::Discard | Class::Flush => {}
        }
    }

    fn write(&mut self, io: &Io, bytes: u64) {
        let number = self.index.number(io.dev) as usize;
        if number == self.written.len() {
            self.written.push(Written {
                from_ns: io.done_ns,
                ..Written::default()
            });
        }
        let sums = &mut self.written[number];
        sums.bytes += bytes;
        sums.known += if matches!(io.origin, Origin::Unknown | Origin::Above) {
            0
        } else {
            bytes
        };
        sums.written_back += if io.origin == Origin::Writeback {
            bytes
        } else {
            0
        };
        sums.to_ns = io.done_ns;
    }

    /// Takes the next file-level request.
    pub fn request(&mut self, r: &Request) {
        let outside = !self
            .window
            .contains(r.end_ns.min(self.window.to_ns.saturating_sub(1)));
        let uncached = r.flags.has(RequestFlags::DIRECT) || r.flags.has(RequestFlags::BLOCK_DEVICE);
        if outside || uncached || r.bytes_in <= 0 {
            return;
        }
        self.program_read += r.bytes_in as u64;
        for hit in r.first.iter().filter_map(|io| io.how.cache_hit()) {
            self.reads.0 += 1;
            self.reads.1 += u64::from(hit);
        }
        let (from, to) = self.span.unwrap_or((r.start_ns, r.end_ns));
        self.span = Some((
            from.min(r.start_ns).max(self.window.from_ns),
            to.max(r.end_ns),
        ));
    }

    /// The findings. `complete` means that no I/O is lost.
    pub fn finish(self, complete: bool) -> Vec<Finding> {
        let devices = self.index.devices().iter().copied();
        let mut written: Vec<(DevId, &Written)> = devices.zip(&self.written).collect();
        written.sort_by_key(|(dev, _)| *dev);
        let read = self.read_finding(complete);
        read.into_iter()
            .chain(
                written
                    .into_iter()
                    .filter_map(|(dev, w)| written_finding(dev, w)),
            )
            .collect()
    }

    fn read_finding(&self, complete: bool) -> Option<Finding> {
        let (from_ns, to_ns) = self.span?;
        let hit = 1.0 - self.device_read as f64 / self.program_read as f64;
        if self.program_read < MIN_BYTES || hit < READ_SHARE || !complete {
            return None;
        }
        let (n, found) = self.reads;
        Some(Finding {
            dev: None,
            from_ns,
            to_ns,
            severity: Severity::Info,
            evidence: Evidence::CachedReads(CachedReadsEvidence {
                program_read_bytes: self.program_read,
                device_read_bytes: self.device_read,
                hit_percent: 100.0 * hit,
                reads_looked_at: n,
                reads_without_wait_percent: (n > 0).then(|| 100.0 * found as f64 / n as f64),
            }),
        })
    }
}

fn written_finding(dev: DevId, w: &Written) -> Option<Finding> {
    let share = w.written_back as f64 / w.bytes.max(1) as f64;
    if w.bytes < MIN_BYTES || share < WRITE_SHARE {
        return None;
    }
    Some(Finding {
        dev: Some(dev),
        from_ns: w.from_ns,
        to_ns: w.to_ns,
        severity: Severity::Info,
        evidence: Evidence::WrittenBack(WrittenBackEvidence {
            written_bytes: w.bytes,
            written_back_bytes: w.written_back,
            origin_known_bytes: w.known,
            written_back_percent: 100.0 * share,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DataIo, How, Op};

    const A: DevId = DevId(8 << 20);
    const LAYER: DevId = DevId(253 << 20);

    fn written(origin: Origin, n: i64) -> impl Iterator<Item = Io> {
        (0..n).map(move |i| Io {
            origin,
            ..Io::new(
                1000 + i,
                DevId(A.0 + (i % 2) as i32),
                Op::WRITE,
                1 << 20,
                None,
                10,
            )
        })
    }

    fn reading(bytes_in: i64, flags: RequestFlags, how: How) -> Request {
        let io = DataIo {
            after_ns: 0,
            duration_ns: 10,
            bytes: bytes_in,
            how,
        };
        Request {
            bytes_in,
            flags,
            first: vec![io],
            ..Request::new(10, 100)
        }
    }

    #[test]
    fn what_the_kernel_writes_back_is_reported_of_each_device() {
        let mut cache = PageCache::new(Window::OPEN, BTreeSet::new());
        written(Origin::Writeback, 20).for_each(|io| cache.push(&io));
        let found = cache.finish(true);
        assert_eq!(
            found.iter().map(|f| f.dev).collect::<Vec<_>>(),
            [Some(A), Some(DevId(A.0 + 1))]
        );
        let Evidence::WrittenBack(e) = &found[0].evidence else {
            panic!("{found:?}")
        };
        assert_eq!(
            (e.written_back_percent, found[0].from_ns, found[0].to_ns),
            (100.0, 1000, 1018)
        );
        let mut cache = PageCache::new(Window::OPEN, BTreeSet::new());
        written(Origin::Writeback, 20)
            .chain(written(Origin::Direct, 20))
            .for_each(|io| cache.push(&io));
        assert!(
            cache.finish(true).is_empty(),
            "half of it is the programs' own"
        );
    }

    #[test]
    fn reads_that_never_reached_a_device_are_reported_unless_io_is_missing() {
        let cache = || {
            let mut cache = PageCache::new(Window::new(0, 1000), BTreeSet::from([LAYER]));
            cache.push(&Io::new(50, A, Op::READ, 2 << 20, None, 10));
            cache.push(&Io::new(50, LAYER, Op::READ, 2 << 20, None, 10));
            (0..10).for_each(|_| {
                cache.request(&reading(1 << 20, RequestFlags::default(), How::default()))
            });
            cache.request(&reading(100 << 20, RequestFlags::DIRECT, How::DEVICE));
            cache
        };
        let found = cache().finish(true);
        assert_eq!(found.len(), 1);
        let Evidence::CachedReads(e) = &found[0].evidence else {
            panic!("{found:?}")
        };
        assert_eq!(
            (
                e.hit_percent,
                e.reads_looked_at,
                e.reads_without_wait_percent
            ),
            (80.0, 10, Some(100.0))
        );
        assert!(cache().finish(false).is_empty());
        let mut cold = PageCache::new(Window::new(0, 1000), BTreeSet::from([LAYER]));
        cold.push(&Io::new(50, A, Op::READ, 10 << 20, None, 10));
        (0..10).for_each(|_| cold.request(&reading(1 << 20, RequestFlags::default(), How::DEVICE)));
        assert!(cold.finish(true).is_empty());
    }
}
