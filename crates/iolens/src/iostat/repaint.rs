//! Patches the previous report in place. Most devices have not changed, so neither their counters nor their rows need
//! to be processed, and the text is the same except for a few lines.
//!
//! After a second of sleep, the processor's caches contain nothing of the program. A report then costs less for its
//! instructions than for the memory that it touches.

use super::list::{DeviceList, EntryKind};
use super::rows::row_of;
use super::scan::KernelScan;
use crate::present::iostat::Style;
use crate::present::iostat::plain::{self, Layout, Places};
use iolens_core::analysis::counters::rates::iostat::CpuPercent;
use std::ops::Range;

/// A disk's row in `/proc/diskstats`.
#[derive(Debug, Clone, Copy)]
struct PaintedDisk {
    /// Index of its entry in the list.
    entry: usize,
    /// Index of its row in the report; `None`: it was never used and is not shown.
    row: Option<usize>,
    /// Whether its counters changed between the last two samples, so that its row is not all zeros.
    moved: bool,
}

/// A report that was written, and the positions of its parts.
#[derive(Debug)]
pub struct Repaint {
    text: Vec<u8>,
    places: Places,
    /// By row of `/proc/diskstats`; `None` for partitions.
    disks: Vec<Option<PaintedDisk>>,
    /// Disks whose rows must be patched.
    stale: Vec<PaintedDisk>,
    scratch: Vec<u8>,
}

impl Repaint {
    /// From a report that was just written. `shown` says for each existing device, in the order of the list, whether
    /// it has a row. `None` unless the sample came from `scan` alone.
    pub fn of(
        text: Vec<u8>,
        places: Places,
        list: &DeviceList,
        scan: &KernelScan,
        shown: impl Iterator<Item = bool>,
    ) -> Option<Repaint> {
        let (reader, order) = scan.disks()?;
        let entries = list.entries();
        let mut disks: Vec<Option<PaintedDisk>> = vec![None; reader.rows().len()];
        let mut row = 0;
        let mut known = 0;
        for ((at, entry), visible) in entries
            .iter()
            .enumerate()
            .filter(|(_, e)| e.exists)
            .zip(shown)
        {
            let found = order.iter().find(|r| reader.rows()[**r].name == entry.name);
            if entry.kind != EntryKind::Disk {
                return None;
            }
            let moved = entry.slots[0] != entry.slots[1];
            disks[*found?] = Some(PaintedDisk {
                entry: at,
                row: visible.then_some(row),
                moved,
            });
            row += usize::from(visible);
            known += 1;
        }
        let whole = known == order.len() && row == places.rows.len();
        whole.then(|| Repaint {
            text,
            places,
            disks,
            stale: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Reads a sample into `slot` of the entries that changed. `false`: the report gets another shape, and the sample
    /// must be read again.
    pub fn sample(
        &mut self,
        scan: &mut KernelScan,
        list: &mut DeviceList,
        slot: usize,
        sample: u64,
    ) -> bool {
        let Some(reader) = scan.refresh() else {
            return false;
        };
        let mut changed = reader.changed().iter().copied().peekable();
        self.stale.clear();
        for (at, disk) in self.disks.iter_mut().enumerate() {
            let moved = changed.next_if_eq(&at).is_some();
            let Some(disk) = disk else { continue };
            // After two samples without a change, an entry has the same counters in both slots already.
            if moved || disk.moved {
                if disk.row.is_none() {
                    return false;
                }
                list.entries_mut()[disk.entry].set(reader.rows()[at].counters, slot, sample);
                self.stale.push(*disk);
            }
            disk.moved = moved;
        }
        true
    }

    /// The time stamp above the report.
    pub fn stamp(&mut self, stamp: &[u8]) {
        self.scratch.clear();
        plain::stamp(&mut self.scratch, stamp);
        let place = self.places.stamp.clone();
        self.replace(place);
    }

    /// Repaints the CPU section.
    pub fn processors(&mut self, style: &Style, cpu: &CpuPercent) {
        self.scratch.clear();
        plain::processors(&mut self.scratch, style, cpu);
        let place = self.places.cpu.clone();
        self.replace(place);
    }

    /// The rows of what the last sample found changed, or at rest after a change.
    pub fn rows(
        &mut self,
        style: &Style,
        layout: &Layout,
        list: &DeviceList,
        slot: usize,
        interval_cs: f64,
    ) {
        for at in 0..self.stale.len() {
            let PaintedDisk {
                entry,
                row: Some(row),
                ..
            } = self.stale[at]
            else {
                continue;
            };
            self.scratch.clear();
            plain::only_row(
                &mut self.scratch,
                style,
                layout,
                &row_of(&list.entries()[entry], slot, interval_cs),
            );
            let place = self.places.rows[row].clone();
            self.replace(place);
        }
    }

    /// Replaces a part by `scratch`; if the lengths differ, everything after it moves.
    fn replace(&mut self, place: Range<usize>) {
        if place.len() == self.scratch.len() {
            self.text[place].copy_from_slice(&self.scratch);
            return;
        }
        let from = place.start;
        let end = place.end;
        self.text.splice(place, self.scratch.iter().copied());
        // The end of the part moves, and both ends of every later part.
        let Places { stamp, cpu, rows } = &mut self.places;
        for part in [stamp, cpu].into_iter().chain(rows) {
            for at in [&mut part.start, &mut part.end] {
                if *at >= end {
                    *at = *at - end + from + self.scratch.len();
                }
            }
        }
    }

    /// Text of the report.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}
