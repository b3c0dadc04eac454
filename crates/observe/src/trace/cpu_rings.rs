//! The reader's side of the event rings, one per CPU (`bpf/cpu_rings.bpf.h`), merged by time.
//!
//! A program takes an entry of its CPU's ring, reads the clock, writes the event, and at last writes the entry's number
//! into it. The head of a ring thus shows which entries are taken, and the events show which are finished. Within a
//! ring events have the order of their entries. This is their order in time, unless one program interrupted another
//! between the two steps. The merge combines the rings; [`super::order`] corrects the rest.

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

/// `struct cpu_ring`: the kernel's cache line and the reader's cache line.
#[repr(C)]
struct CpuRing {
    head: AtomicU64,
    of_kernel: [u64; 7],
    tail: AtomicU64,
    awaited: AtomicU64,
    of_user: [u64; 6],
}
const _: () = assert!(size_of::<CpuRing>() == 128);

/// Size in bytes of the ring that carries wake-ups.
const WAKES_BYTES: u32 = 4096;

/// Number and size of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingSizes {
    /// One more than the highest CPU number.
    pub cpus: usize,
    /// log2 of the number of entries of each ring.
    pub shift: u32,
}

impl RingSizes {
    /// Divides `ring_bytes` evenly among the CPUs; at least 16 entries each.
    pub fn of(ring_bytes: u32, cpus: usize) -> RingSizes {
        let entries = ring_bytes as usize / size_of::<IoEvent>() / cpus.max(1);
        RingSizes {
            cpus,
            shift: entries.max(16).ilog2(),
        }
    }
}

/// Position in one ring during a drain.
struct RingCursor {
    cpu: usize,
    at: u64,
    end: u64,
}

/// The consumer of all rings.
pub(super) struct CpuRings {
    rings: Mapping,
    entries: Mapping,
    shift: u32,
    cpus: usize,
    wakes: Ring<u64>,
    wakes_fd: OwnedFd,
    cursors: Vec<RingCursor>,
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
        entries: BorrowedFd<'_>,
        wakes: BorrowedFd<'_>,
        RingSizes { cpus, shift }: RingSizes,
    ) -> io::Result<CpuRings> {
        Ok(CpuRings {
            rings: Mapping::writable(rings, cpus * size_of::<CpuRing>())?,
            entries: Mapping::readable(entries, (cpus << shift) * size_of::<IoEvent>())?,
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
        // kernel writes are atomic, the others are not read.
        unsafe { self.rings.start().cast::<CpuRing>().add(cpu).as_ref() }
    }

    fn entry(&self, cpu: usize, number: u64) -> *const IoEvent {
        let at = (cpu << self.shift) + (number & ((1 << self.shift) - 1)) as usize;
        // SAFETY: `at` is below `cpus << shift`, for which the mapping was made.
        unsafe { self.entries.start().cast::<IoEvent>().add(at).as_ptr() }
    }

    /// Time of the event in an entry; `None` while the event is being written.
    #[inline]
    fn stamp(&self, cpu: usize, number: u64) -> Option<u64> {
        let event = self.entry(cpu, number);
        // SAFETY: the pointer is good (`entry`); the word is only ever read and written atomically.
        let entry = unsafe { AtomicU64::from_ptr((&raw const (*event).entry).cast_mut()) };
        // SAFETY: with its own number in it the kernel is through with it, until the tail passes it.
        (entry.load(Ordering::Acquire) == number + 1).then(|| unsafe { (*event).stamp() })
    }

    /// Passes every finished event to `take`, up to the first unfinished one of each ring, merged by time.
    pub fn drain(&mut self, mut take: impl FnMut(&IoEvent)) -> Drained {
        let mut drained = Drained {
            records: 0,
            complete: true,
            fill: 0.0,
        };
        self.cursors.clear();
        self.next.clear();
        for cpu in 0..self.cpus {
            let (at, end) = self.held(cpu);
            if at == end {
                continue;
            }
            drained.fill = drained
                .fill
                .max((end - at) as f64 / (1u64 << self.shift) as f64);
            match self.stamp(cpu, at) {
                Some(stamp) => self.next.push(Reverse((stamp, self.cursors.len()))),
                None => drained.complete = false,
            }
            self.cursors.push(RingCursor { cpu, at, end });
        }
        let mut next = std::mem::take(&mut self.next);
        while let Some(mut first) = next.peek_mut() {
            let cursor = &mut self.cursors[first.0.1];
            let cpu = cursor.cpu;
            let number = cursor.at;
            cursor.at += 1;
            let at = cursor.at;
            let end = cursor.end;
            // SAFETY: `stamp` has found it finished, and the tail has not passed it.
            take(unsafe { &*self.entry(cpu, number) });
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
            self.ring(cursor.cpu)
                .tail
                .store(cursor.at, Ordering::Release);
        }
        drained
    }

    /// Numbers of a CPU's taken entries: the first, and one after the last.
    fn held(&self, cpu: usize) -> (u64, u64) {
        let ring = self.ring(cpu);
        (
            ring.tail.load(Ordering::Relaxed),
            ring.head.load(Ordering::Acquire),
        )
    }

    /// Sleeps until there is an event, at most for `timeout`; returns whether there is one.
    ///
    /// On kernels whose BPF lacks the atomic operations, an event that arrives just before the reader sleeps may go
    /// unnoticed; the next event or the timeout wakes it.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        self.wakes.drain(|_| {});
        (0..self.cpus).for_each(|cpu| self.ring(cpu).awaited.store(1, Ordering::Relaxed));
        // After this fence, either a program that takes an entry sees the flag, or its entry is seen here.
        fence(Ordering::SeqCst);
        if !self.has_events() {
            let timeout = Timespec {
                tv_sec: timeout.as_secs() as i64,
                tv_nsec: i64::from(timeout.subsec_nanos()),
            };
            match poll(
                &mut [PollFd::new(&self.wakes_fd.as_fd(), PollFlags::IN)],
                Some(&timeout),
            ) {
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use rustix::{
        fs::{MemfdFlags, ftruncate, memfd_create},
        io::pwrite,
    };

    use super::*;

    const CPUS: usize = 3;
    const SHIFT: u32 = 4;

    /// The kernel's side of the rings, in files instead of maps.
    struct Kernel {
        rings: OwnedFd,
        entries: OwnedFd,
        wakes: OwnedFd,
        head: [u64; CPUS],
        /// Entries that are taken and not filled, with the times that their events will have.
        unfinished: [VecDeque<(u64, u64)>; CPUS],
    }

    impl Kernel {
        fn new() -> Kernel {
            let file = |bytes: usize| {
                let fd = memfd_create("ring", MemfdFlags::CLOEXEC).expect("memory");
                ftruncate(&fd, bytes as u64).expect("memory");
                fd
            };
            Kernel {
                rings: file(4096),
                entries: file((CPUS << SHIFT) * size_of::<IoEvent>()),
                wakes: file(3 * 4096),
                head: [0; CPUS],
                unfinished: Default::default(),
            }
        }

        fn reader(&self) -> CpuRings {
            CpuRings::new(
                self.rings.as_fd(),
                self.entries.as_fd(),
                self.wakes.as_fd(),
                RingSizes {
                    cpus: CPUS,
                    shift: SHIFT,
                },
            )
            .expect("mapped")
        }

        fn reserve_entry(&mut self, cpu: usize, stamp: u64) {
            let number = self.head[cpu];
            self.head[cpu] += 1;
            pwrite(
                &self.rings,
                &self.head[cpu].to_ne_bytes(),
                (cpu * size_of::<CpuRing>()) as u64,
            )
            .expect("written");
            self.unfinished[cpu].push_back((number, stamp));
        }

        /// Fills an entry: the event's time, and last its number. The previous content is overwritten.
        fn publish(&mut self, cpu: usize) {
            let Some((number, stamp)) = self.unfinished[cpu].pop_front() else {
                return;
            };
            let at = (cpu << SHIFT) + (number as usize & ((1 << SHIFT) - 1));
            let event = (at * size_of::<IoEvent>()) as u64;
            let done = std::mem::offset_of!(IoEvent, done_ns);
            let entry = std::mem::offset_of!(IoEvent, entry);
            pwrite(&self.entries, &stamp.to_ne_bytes(), event + done as u64).expect("written");
            pwrite(
                &self.entries,
                &(number + 1).to_ne_bytes(),
                event + entry as u64,
            )
            .expect("written");
        }
    }

    proptest! {
        /// Entries taken and filled by several CPUs in any order, drained at any time: each event comes once, each CPU's in
        /// the order of its entries, none before it is finished; a drain says whether it met an unfinished one.
        #[test]
        fn each_event_comes_once(steps in prop::collection::vec((0..CPUS, 0..4u8), 0..400)) {
            let mut kernel = Kernel::new();
            let mut reader = kernel.reader();
            let mut clock = 0;
            let mut seen = Vec::new();
            for (cpu, what) in steps {
                match what {
                    0 if kernel.head[cpu] - reader.held(cpu).0 < 1 << SHIFT => {
                        clock += 1;
                        kernel.reserve_entry(cpu, clock * CPUS as u64 + cpu as u64);
                    }
                    1 | 2 => kernel.publish(cpu),
                    3 => {
                        let from = seen.len();
                        let drained = reader.drain(|e| seen.push(e.done_ns));
                        prop_assert_eq!(drained.records as usize, seen.len() - from);
                        prop_assert_eq!(drained.complete, kernel.unfinished.iter().all(VecDeque::is_empty));
                        prop_assert!(seen[from..].is_sorted(), "merged by time");
                        for cpu in 0..CPUS {
                            let finished = kernel.head[cpu] - kernel.unfinished[cpu].len() as u64;
                            let taken = seen.iter().filter(|s| *s % CPUS as u64 == cpu as u64).count() as u64;
                            prop_assert_eq!(taken, finished);
                            prop_assert_eq!(reader.held(cpu).0, finished, "its entries are given back");
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn ring_fill_is_that_of_the_fullest_ring() {
        let mut kernel = Kernel::new();
        let mut reader = kernel.reader();
        for stamp in 0..12 {
            kernel.reserve_entry(2, stamp);
            kernel.publish(2);
        }
        kernel.reserve_entry(0, 5);
        let drained = reader.drain(|_| {});
        assert_eq!(
            (drained.records, drained.complete, drained.fill),
            (12, false, 0.75)
        );
    }

    #[test]
    fn waits_end_by_event_or_timeout() {
        let mut kernel = Kernel::new();
        let mut reader = kernel.reader();
        assert!(
            !reader.wait(Duration::from_millis(1)).expect("waited"),
            "nothing comes"
        );
        kernel.reserve_entry(1, 7);
        assert!(
            reader.wait(Duration::from_secs(3600)).expect("waited"),
            "it is there already"
        );
        assert_eq!(
            reader.ring(1).awaited.load(Ordering::Relaxed),
            0,
            "a reader that is awake needs no wake-up"
        );
    }

    #[test]
    fn memory_is_shared_out_to_the_cpus() {
        assert_eq!(RingSizes::of(8 << 20, 2).shift, 15);
        assert_eq!(RingSizes::of(8 << 20, 64).shift, 10);
        assert_eq!(RingSizes::of(4096, 128).shift, 4, "a few at least");
    }
}
