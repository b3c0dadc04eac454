//! Reads the I/Os left in the BPF programs' slots when tracing ends (`bpf/slots.bpf.h`).

use std::{io, os::fd::BorrowedFd};

use iolens_core::model::{Class, DevId, Op};

use super::ring::Mapping;

/// `struct slot`: an I/O in flight. Fields not read by user space have no name.
#[repr(C)]
struct TraceSlot {
    /// Key of the I/O's request or bio (48 bits), and a counter of the I/Os in this slot (16 bits).
    owner: u64,
    start_ns: u64,
    issue_ns: u64,
    sector: u64,
    dev: u32,
    bytes: u32,
    cmd_flags: u32,
    merges: u16,
    rest: [u8; 82],
}
const _: () = assert!(size_of::<TraceSlot>() == 128);

/// `struct noted`.
#[repr(C)]
struct Noted {
    start_ns: u64,
    dev: u32,
    bytes: u32,
    cmd_flags: u32,
    merges: u16,
    is_accounted: u16,
}
const _: () = assert!(size_of::<Noted>() == 24);

/// `struct slot_note`.
#[repr(C)]
struct SlotNote {
    owner_and_claims: [u64; 2],
    last: Noted,
    before: Noted,
}
const _: () = assert!(size_of::<SlotNote>() == 64);

/// `struct slot_end`.
#[repr(C)]
struct SlotEnd {
    id: u32,
    strays_and_homeless: [u32; 2],
    unused: u32,
}
const _: () = assert!(size_of::<SlotEnd>() == 16);

/// An I/O without a completion, from its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutstandingSlot {
    /// Time of issue, or else of start, in nanoseconds of the kernel's monotonic clock.
    pub from_ns: u64,
    /// Time of start, if it is known.
    pub start_ns: u64,
    /// Whether it was handed to the driver.
    pub is_issued: bool,
    pub dev: DevId,
    pub class: Class,
    pub bytes: i64,
    pub merges: i64,
    /// Whether another I/O has started in the same slot, so that this one cannot be in flight any more.
    pub replaced: bool,
}

/// The tables of slots.
pub(super) struct Slots {
    slots: Mapping,
    notes: Mapping,
    ends: Mapping,
    count: usize,
}

// SAFETY: the mappings belong to this value alone and stay valid in whatever thread it lives.
unsafe impl Send for Slots {}

impl Slots {
    /// Maps the maps behind the descriptors, with `count` elements each.
    pub fn new(
        slots: BorrowedFd<'_>,
        notes: BorrowedFd<'_>,
        ends: BorrowedFd<'_>,
        count: usize,
    ) -> io::Result<Slots> {
        Ok(Slots {
            slots: Mapping::readable(slots, count * size_of::<TraceSlot>())?,
            notes: Mapping::readable(notes, count * size_of::<SlotNote>())?,
            ends: Mapping::readable(ends, count * size_of::<SlotEnd>())?,
            count,
        })
    }

    /// All I/Os in slots that have no completion. Call it when no program is running any more.
    pub fn outstanding(&self) -> Vec<OutstandingSlot> {
        (0..self.count).flat_map(|at| self.of_slot(at)).collect()
    }

    fn of_slot(&self, at: usize) -> impl Iterator<Item = OutstandingSlot> {
        debug_assert!(at < self.count);
        // SAFETY: `at` is below `count`, for which each mapping was made, at a page's start; the elements are plain
        // integers, copied out at once, and a value torn by a program that is still running is a value too.
        let (slot, note, end) = unsafe {
            (
                self.slots.start().cast::<TraceSlot>().add(at).read(),
                self.notes.start().cast::<SlotNote>().add(at).read(),
                self.ends.start().cast::<SlotEnd>().add(at).read(),
            )
        };
        // Both counters wrap modulo 2^16.
        let missing = (slot.owner as u16).wrapping_sub(end.id as u16);
        let last = (missing > 0 && slot.dev != 0).then(|| OutstandingSlot {
            from_ns: slot.start_ns.max(slot.issue_ns),
            start_ns: slot.start_ns,
            is_issued: slot.issue_ns != 0,
            dev: DevId(slot.dev as i32),
            class: class_of(slot.cmd_flags),
            bytes: i64::from(slot.bytes),
            merges: i64::from(slot.merges),
            replaced: false,
        });
        let before = (missing > 1 && note.before.dev != 0).then(|| OutstandingSlot {
            from_ns: note.before.start_ns,
            start_ns: note.before.start_ns,
            is_issued: true,
            dev: DevId(note.before.dev as i32),
            class: class_of(note.before.cmd_flags),
            bytes: i64::from(note.before.bytes),
            merges: i64::from(note.before.merges),
            replaced: true,
        });
        before.into_iter().chain(last)
    }
}

fn class_of(cmd_flags: u32) -> Class {
    Op((cmd_flags & 0xff) as i32).class()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::{
        fs::{MemfdFlags, memfd_create},
        io::pwrite,
    };

    use super::*;

    /// The words of a slot: owner, start, issue, sector, device and bytes, flags of the command and merges.
    fn slot(id: u64, start_ns: u64, issue_ns: u64, dev: u64, bytes: u64) -> [u64; 16] {
        let mut words = [0; 16];
        words[..6].copy_from_slice(&[
            99 << 16 | id,
            start_ns,
            issue_ns,
            8,
            dev | bytes << 32,
            1 | 3 << 32,
        ]);
        words
    }

    #[test]
    fn ios_without_an_end_are_in_flight_or_lost() {
        let file = |words: &[u64]| {
            let fd = memfd_create("slots", MemfdFlags::CLOEXEC).expect("memory");
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
            pwrite(&fd, &bytes, 0).expect("written");
            fd
        };
        // Ended; in flight; in flight where the one before it was missed (numbers begin anew after 65535); never issued.
        let slots = [
            slot(5, 10, 11, 7, 512),
            slot(2, 20, 21, 7, 1024),
            slot(1, 30, 31, 7, 4096),
            slot(1, 40, 0, 0, 0),
        ];
        let before = |start: u64| [99 << 16 | 9, 0, 0, 0, 0, start, 7 | 2048 << 32, 1 << 8];
        let notes = [before(0), before(1), before(25), before(2)];
        let ends: [[u64; 2]; 4] = [[5, 0], [1, 0], [0xffff, 0], [0, 0]];
        let slots = file(slots.as_flattened());
        let notes = file(notes.as_flattened());
        let ends = file(ends.as_flattened());
        let table = Slots::new(slots.as_fd(), notes.as_fd(), ends.as_fd(), 4).expect("mapped");
        let io = |start_ns, from_ns, bytes, class, merges, replaced| OutstandingSlot {
            from_ns,
            start_ns,
            is_issued: true,
            dev: DevId(7),
            class,
            bytes,
            merges,
            replaced,
        };
        assert_eq!(
            table.outstanding(),
            [
                io(20, 21, 1024, Class::Write, 3, false),
                io(25, 25, 2048, Class::Read, 0, true),
                io(30, 31, 4096, Class::Write, 3, false)
            ]
        );
    }
}
