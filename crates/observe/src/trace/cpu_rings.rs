//! The reader's side of the rings of events, one for each CPU (`bpf/cpu_rings.bpf.h`), merged by time.
//!
//! A program takes a seat of its CPU's ring, reads the clock, writes the event and at last the seat's number into it. So
//! what a ring holds is known by its head, and what of it is finished by the events themselves. Within a ring events are
//! in the order of their seats, which is that of their times but for a program that interrupts another between the
//! two; the merge brings the rings together, [`super::order`] the rest in order.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering, fence},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    event::IoEvent,
    order::Stamped,
    ring::{Drained, Mapping, Ring},
};

/// `struct cpu_ring`: the kernel's cache line and the reader's.
#[repr(C)]
struct CpuRing {
    head: AtomicU64,
    of_kernel: [u64; 7],
    tail: AtomicU64,
    awaited: AtomicU64,
    of_user: [u64; 6],
}
const _: () = assert!(size_of::<CpuRing>() == 128);

/// Bytes of the ring that carries wake-ups.
const WAKES_BYTES: u32 = 4096;

/// log2 of the seats that each of `cpus` CPUs gets of `ring_bytes` for all; at least 16.
pub(super) fn seat_shift(ring_bytes: u32, cpus: usize) -> u32 {
    let seats = ring_bytes as usize / size_of::<IoEvent>() / cpus.max(1);
    seats.max(16).ilog2()
}

/// What is being taken of one ring.
struct Cursor {
    cpu: usize,
    at: u64,
    end: u64,
}

/// The consumer of all rings.
pub(super) struct CpuRings {
    rings: Mapping,
    seats: Mapping,
    shift: u32,
    cpus: usize,
    wakes: Ring<u64>,
    wakes_fd: OwnedFd,
    cursors: Vec<Cursor>,
    /// (time of the next event, its cursor) of every ring that has one.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

// SAFETY: the mappings belong to this value alone and stay valid in whatever thread it lives.
unsafe impl Send for CpuRings {}

impl CpuRings {
    /// Maps the maps behind the descriptors: `struct cpu_ring[cpus]`, `struct io_event[cpus << shift]`, and the ring of
    /// wake-ups.
    pub fn new(
        rings: BorrowedFd<'_>,
        seats: BorrowedFd<'_>,
        wakes: BorrowedFd<'_>,
        cpus: usize,
        shift: u32,
    ) -> io::Result<CpuRings> {
        Ok(CpuRings {
            rings: Mapping::writable(rings, cpus * size_of::<CpuRing>())?,
            seats: Mapping::readable(seats, (cpus << shift) * size_of::<IoEvent>())?,
            shift,
            cpus,
            wakes: Ring::new(wakes, WAKES_BYTES)?,
            wakes_fd: wakes.try_clone_to_owned()?,
            cursors: Vec::with_capacity(cpus),
            next: BinaryHeap::with_capacity(cpus),
        })
    }

    fn ring(&self, cpu: usize) -> &CpuRing {
        debug_assert!(cpu < self.cpus);
        // SAFETY: `cpu` is below `cpus`, for which the mapping was made; its start is a page's. All fields that the
        // kernel writes are atomic, the others nobody reads.
        unsafe { self.rings.start().cast::<CpuRing>().add(cpu).as_ref() }
    }

    fn seat(&self, cpu: usize, number: u64) -> *const IoEvent {
        let at = (cpu << self.shift) + (number & ((1 << self.shift) - 1)) as usize;
        // SAFETY: `at` is below `cpus << shift`, for which the mapping was made.
        unsafe { self.seats.start().cast::<IoEvent>().add(at).as_ptr() }
    }

    /// The time of the event in a seat; `None` while it is being written.
    #[inline]
    fn stamp(&self, cpu: usize, number: u64) -> Option<u64> {
        let event = self.seat(cpu, number);
        // SAFETY: the pointer is good (`seat`); the word is only ever read and written atomically.
        let seat = unsafe { AtomicU64::from_ptr((&raw const (*event).seat).cast_mut()) };
        // SAFETY: with its own number in it the kernel is through with it, until the tail passes it.
        (seat.load(Ordering::Acquire) == number + 1).then(|| unsafe { (*event).stamp() })
    }

    /// Hands out every event that is finished, of each ring up to the first unfinished one, merged by time.
    pub fn drain(&mut self, mut take: impl FnMut(&IoEvent)) -> Drained {
        let mut drained = Drained { records: 0, complete: true, fill: 0.0 };
        self.cursors.clear();
        self.next.clear();
        for cpu in 0..self.cpus {
            let (at, end) = self.held(cpu);
            if at == end {
                continue;
            }
            drained.fill = drained.fill.max((end - at) as f64 / (1u64 << self.shift) as f64);
            match self.stamp(cpu, at) {
                Some(stamp) => self.next.push(Reverse((stamp, self.cursors.len()))),
                None => drained.complete = false,
            }
            self.cursors.push(Cursor { cpu, at, end });
        }
        let mut next = std::mem::take(&mut self.next);
        while let Some(mut first) = next.peek_mut() {
            let cursor = &mut self.cursors[first.0.1];
            let (cpu, number) = (cursor.cpu, cursor.at);
            cursor.at += 1;
            let (at, end) = (cursor.at, cursor.end);
            // SAFETY: `stamp` has found it finished, and the tail has not passed it.
            take(unsafe { &*self.seat(cpu, number) });
            drained.records += 1;
            let following = if at < end { self.stamp(cpu, at) } else { None };
            drained.complete &= at == end || following.is_some();
            match following {
                Some(stamp) => first.0.0 = stamp,
                None => drop(PeekMut::pop(first)),
            }
        }
        self.next = next;
        for cursor in &self.cursors {
            self.ring(cursor.cpu).tail.store(cursor.at, Ordering::Release);
        }
        drained
    }

    /// The numbers of the seats that are taken on a CPU: the first, and the one after the last.
    fn held(&self, cpu: usize) -> (u64, u64) {
        let ring = self.ring(cpu);
        (ring.tail.load(Ordering::Relaxed), ring.head.load(Ordering::Acquire))
    }

    /// Sleeps until there is an event, at most `timeout`; true if there is one.
    ///
    /// Without the kernel's atomic operations an event may go unnoticed that comes at the very moment of falling asleep;
    /// the next one, or the timeout, wakes.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        self.wakes.drain(|_| {});
        (0..self.cpus).for_each(|cpu| self.ring(cpu).awaited.store(1, Ordering::Relaxed));
        // Either a program that takes a seat now sees that it is awaited, or its seat is seen here.
        fence(Ordering::SeqCst);
        if !self.has_events() {
            let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.wakes_fd.as_fd(), PollFlags::IN)], Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        (0..self.cpus).for_each(|cpu| self.ring(cpu).awaited.store(0, Ordering::Relaxed));
        Ok(self.has_events())
    }

    fn has_events(&self) -> bool {
        (0..self.cpus).any(|cpu| {
            let (at, end) = self.held(cpu);
            at != end
        })
    }
}
