//! The reader's side of a BPF ring buffer (kernel/bpf/ringbuf.c; the layout is the kernel's ABI).
//!
//! This is implemented here because the loader's library does not offer three things: how full the ring is, whether an
//! unfinished record stopped a drain (which the ordering needs), and one store of the consumer position per drain
//! instead of one per record. The data pages are mapped once, not twice as usual, so that an 8 MiB ring counts as 8 MiB
//! of this process. The few records that wrap around the end are assembled from two pieces.

use std::{
    io,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

pub(super) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps the first `len` bytes of a BPF map for reading.
    pub fn readable(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        Mapping::new(fd, 0, len, ProtFlags::READ)
    }

    /// Maps them for reading and writing.
    pub fn writable(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        Mapping::new(fd, 0, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The first byte of the mapping, which is page-aligned.
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }

    fn new(fd: BorrowedFd<'_>, offset: u64, len: usize, prot: ProtFlags) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing that exists.
        let at = unsafe { mmap(ptr::null_mut(), len, prot, MapFlags::SHARED, fd, offset)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Mapping { at, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; the one owner goes away, nothing borrows it.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Result of one drain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drained {
    /// Records returned so far.
    pub records: u64,
    /// Whether every record that had its entry when the drain began was returned.
    pub complete: bool,
    /// How full the ring was when the drain began, 0 to 1.
    pub fill: f64,
}

/// The consumer of a ring whose records are all of type `T`.
pub(crate) struct Ring<T> {
    consumer: Mapping,
    producer: Mapping,
    data: *const u8,
    size: u64,
    records: std::marker::PhantomData<T>,
}

// SAFETY: the mappings belong to this value alone and stay valid in whatever thread it lives.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring behind `fd`. `size` is the size of its data area in bytes (a power of two, whole pages).
    pub fn new(fd: BorrowedFd<'_>, size: u32) -> io::Result<Ring<T>> {
        let page = rustix::param::page_size();
        let consumer = Mapping::new(fd, 0, page, ProtFlags::READ | ProtFlags::WRITE)?;
        let producer = Mapping::new(fd, page as u64, page + size as usize, ProtFlags::READ)?;
        // SAFETY: the mapping is longer than a page.
        let data = unsafe { producer.at.as_ptr().add(page) };
        Ok(Ring {
            consumer,
            producer,
            data,
            size: u64::from(size),
            records: std::marker::PhantomData,
        })
    }

    fn consumer_position(&self) -> &AtomicU64 {
        // SAFETY: the first word of the consumer page is its position, aligned; the kernel reads it atomically.
        unsafe { self.consumer.at.cast().as_ref() }
    }

    fn producer_position(&self) -> &AtomicU64 {
        // SAFETY: the first word of the producer page is its position, aligned; the kernel stores it with release.
        unsafe { self.producer.at.cast().as_ref() }
    }

    /// Passes every finished record to `take`, in ring order, up to the first unfinished one.
    pub fn drain(&mut self, mut take: impl FnMut(T)) -> Drained {
        let end = self.producer_position().load(Ordering::Acquire);
        let begin = self.consumer_position().load(Ordering::Relaxed);
        let mut at = begin;
        let mut records = 0;
        let mut complete = true;
        while at < end {
            // SAFETY: `at` is below the producer position: a record header is there, aligned to 8 within the data.
            let header = unsafe {
                &*self
                    .data
                    .add((at & (self.size - 1)) as usize)
                    .cast::<AtomicU32>()
            };
            let length = header.load(Ordering::Acquire);
            if length & BUSY != 0 {
                complete = false;
                break;
            }
            let bytes = u64::from(length & !(BUSY | DISCARDED));
            if length & DISCARDED == 0 && bytes as usize == size_of::<T>() {
                take(self.read(at + HEADER));
                records += 1;
            }
            at += (bytes + HEADER).next_multiple_of(8);
        }
        self.consumer_position().store(at, Ordering::Release);
        Drained {
            records,
            complete,
            fill: (end - begin) as f64 / self.size as f64,
        }
    }

    #[inline]
    fn read(&self, at: u64) -> T {
        let offset = (at & (self.size - 1)) as usize;
        let head = (self.size as usize - offset).min(size_of::<T>());
        let mut record = std::mem::MaybeUninit::<T>::uninit();
        let to = record.as_mut_ptr().cast::<u8>();
        // SAFETY: a finished record of exactly this size is at `offset`, going round the end of the data if need be;
        // the kernel does not write to it until the consumer position passes it. Its type is plain data.
        unsafe {
            ptr::copy_nonoverlapping(self.data.add(offset), to, head);
            if head < size_of::<T>() {
                ptr::copy_nonoverlapping(self.data, to.add(head), size_of::<T>() - head);
            }
            record.assume_init()
        }
    }
}
