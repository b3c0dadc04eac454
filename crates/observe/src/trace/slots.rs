//! What is left in the kernel half's slots when tracing ends (`bpf/slots.bpf.h`).

use std::{io, os::fd::BorrowedFd};

use iolens_core::model::{Class, DevId, Op};

use super::ring::Mapping;

/// `struct slot`: an I/O in flight. Only what user space reads has a name.
#[repr(C)]
struct Slot {
    key: u64,
    id: u64,
    start_ns: u64,
    issue_ns: u64,
    sector: u64,
    dev: u32,
    bytes: u32,
    cmd_flags: u32,
    merges: u16,
    rest: [u8; 74],
}
const _: () = assert!(size_of::<Slot>() == 128);

/// `struct noted`.
#[repr(C)]
struct Noted {
    start_ns: u64,
    dev: u32,
    bytes: u32,
    cmd_flags: u32,
    merges: u16,
    unused: u16,
}
const _: () = assert!(size_of::<Noted>() == 24);

/// `struct slot_note`.
#[repr(C)]
struct SlotNote {
    key: u64,
    id: u64,
    last: Noted,
    before: Noted,
}
const _: () = assert!(size_of::<SlotNote>() == 64);

/// `struct slot_end`.
#[repr(C)]
struct SlotEnd {
    id: u64,
    strays_and_homeless: u64,
}
const _: () = assert!(size_of::<SlotEnd>() == 16);

/// An I/O whose end was not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unended {
    /// When it was issued, else when it started: nanoseconds of the kernel's monotonic clock.
    pub from_ns: u64,
    /// When it started, if that is known.
    pub start_ns: u64,
    pub dev: DevId,
    pub class: Class,
    pub bytes: i64,
    pub merges: i64,
    /// Another one has begun in its place, so that it cannot be in flight any more.
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
    /// Maps the maps behind the descriptors, of `count` elements each.
    pub fn new(slots: BorrowedFd<'_>, notes: BorrowedFd<'_>, ends: BorrowedFd<'_>, count: usize) -> io::Result<Slots> {
        Ok(Slots {
            slots: Mapping::readable(slots, count * size_of::<Slot>())?,
            notes: Mapping::readable(notes, count * size_of::<SlotNote>())?,
            ends: Mapping::readable(ends, count * size_of::<SlotEnd>())?,
            count,
        })
    }

    /// Every I/O that was issued and not seen to end. To be called when no program runs any more.
    pub fn unended(&self) -> Vec<Unended> {
        (0..self.count).flat_map(|at| self.of_slot(at)).collect()
    }

    fn of_slot(&self, at: usize) -> impl Iterator<Item = Unended> {
        debug_assert!(at < self.count);
        // SAFETY: `at` is below `count`, for which each mapping was made, at a page's start; the elements are plain
        // integers, copied out at once, and a value torn by a program that is still running is a value too.
        let (slot, note, end) = unsafe {
            (
                self.slots.start().cast::<Slot>().add(at).read(),
                self.notes.start().cast::<SlotNote>().add(at).read(),
                self.ends.start().cast::<SlotEnd>().add(at).read(),
            )
        };
        let missing = slot.id.saturating_sub(end.id);
        let last = (missing > 0 && slot.key != 0 && slot.dev != 0).then(|| Unended {
            from_ns: slot.start_ns.max(slot.issue_ns),
            start_ns: slot.start_ns,
            dev: DevId(slot.dev as i32),
            class: class_of(slot.cmd_flags),
            bytes: i64::from(slot.bytes),
            merges: i64::from(slot.merges),
            replaced: false,
        });
        let before = (missing > 1 && note.before.dev != 0).then(|| Unended {
            from_ns: note.before.start_ns,
            start_ns: note.before.start_ns,
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
