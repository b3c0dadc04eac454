//! Access to the BPF programs' table of latency histograms through a memory mapping: entries are read in place and
//! released by a store.

use std::{
    io,
    mem::offset_of,
    os::fd::BorrowedFd,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use iolens_core::model::CallHistogram;

use super::super::ring::Mapping;
use super::event::FileRequest;

/// `struct histogram`.
#[repr(C)]
struct Histogram {
    owner: AtomicU64,
    counts: [AtomicU32; CallHistogram::BUCKETS],
}
const _: () = assert!(size_of::<Histogram>() == 1992 && offset_of!(Histogram, counts) == 8);

/// The table. Entries are numbered from 1, as in [`FileRequest`].
pub(super) struct Histograms {
    mapping: Mapping,
    places: usize,
}

// SAFETY: the mapping belongs to this value alone and stays valid in whatever thread it lives.
unsafe impl Send for Histograms {}

impl Histograms {
    /// Maps the map behind `fd`, which has `places` entries.
    pub fn new(fd: BorrowedFd<'_>, places: usize) -> io::Result<Histograms> {
        Ok(Histograms {
            mapping: Mapping::writable(fd, places * size_of::<Histogram>())?,
            places,
        })
    }

    fn at(&self, place: u16) -> Option<&Histogram> {
        let index = usize::from(place)
            .checked_sub(1)
            .filter(|index| *index < self.places)?;
        // SAFETY: `index` is below `places`, for which the mapping was made; its start is a page's, and the size of an
        // element a multiple of its alignment. All fields are atomic.
        Some(unsafe { self.mapping.start().cast::<Histogram>().add(index).as_ref() })
    }

    /// Histograms of the reads and writes of `r` after its first calls; `None` for each that it does not have.
    pub fn of(&self, r: &FileRequest) -> [Option<CallHistogram>; 2] {
        r.histograms.map(|place| {
            let counts = &self.at(place)?.counts;
            CallHistogram::of_counts(counts.iter().map(|count| count.load(Ordering::Relaxed)))
        })
    }

    /// Like `of`, for an open request with the key `key` in the table. The request may have ended meanwhile, and its
    /// histograms may belong to another one.
    pub fn of_open(&self, r: &FileRequest, key: u64) -> [Option<CallHistogram>; 2] {
        let mut of = self.of(r);
        for (writes, histogram) in of.iter_mut().enumerate() {
            let owner = self
                .at(r.histograms[writes])
                .map(|h| h.owner.load(Ordering::Acquire));
            *histogram = histogram
                .take()
                .filter(|_| owner == Some(key | writes as u64));
        }
        of
    }

    /// Releases the histograms of `r`, which has ended.
    pub fn free(&self, r: &FileRequest) {
        for histogram in r.histograms.iter().filter_map(|place| self.at(*place)) {
            histogram.owner.store(0, Ordering::Release);
        }
    }
}
