//! Converts the list to the rows of a report: sums groups, applies filters, selects names.

use super::Failure;
use super::exact::{Exact, is_disk};
use super::list::{DeviceList, Entry, EntryKind};
use crate::present::iostat::Row;
use iolens_core::analysis::counters::rates::iostat::{
    Values, add_to_group, idle, restarted, unused, values,
};
use iolens_core::analysis::device::exact::DeviceExact;
use iolens_core::model::DiskCounters;
use iolens_observe::counters::{
    MAPPER_DIR, PersistentNames, Root, device_mapper_major, mapper_name,
};
use rustix::io::Errno;
use std::borrow::Cow;

/// Which rows are shown.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// Whether devices that were never used are shown.
    pub unfiltered: bool,
    /// `-z`: devices without operations in the interval are not shown.
    pub omit_idle: bool,
    /// `-H`: only the sum of each group is shown.
    pub hide_members: bool,
}

/// How names of devices are shown.
#[derive(Debug, Default)]
pub struct ShownNames {
    /// `-N`.
    pub mapper: bool,
    /// `-j`.
    pub persistent: Option<PersistentNames>,
    mapper_major: Option<Option<u32>>,
}

impl ShownNames {
    /// ShownNames as these options show them.
    pub fn new(mapper: bool, persistent: Option<PersistentNames>) -> ShownNames {
        ShownNames {
            mapper,
            persistent,
            mapper_major: None,
        }
    }

    /// The name to show. `!` in sysfs stands for `/`.
    ///
    /// # Errors
    /// `/dev/mapper` cannot be listed.
    fn of<'a>(&mut self, root: &Root, entry: &'a Entry) -> Result<Cow<'a, [u8]>, Errno> {
        let Some((major, minor)) = entry.number else {
            return Ok(own_name(entry));
        };
        if let Some(name) = self
            .persistent
            .as_ref()
            .and_then(|p| p.name_of(root, major, minor))
        {
            return Ok(Cow::Owned(slashes(name)));
        }
        if self.mapper {
            let dm = *self
                .mapper_major
                .get_or_insert_with(|| device_mapper_major(root));
            if dm == Some(major)
                && let Some(name) = mapper_name(root, major, minor)?
            {
                return Ok(Cow::Owned(slashes(name)));
            }
        }
        Ok(own_name(entry))
    }

    /// Whether names are shown as in the kernel.
    pub fn are_own(&self) -> bool {
        !self.mapper && self.persistent.is_none()
    }
}

fn own_name(entry: &Entry) -> Cow<'_, [u8]> {
    match entry.name.contains(&b'!') {
        true => Cow::Owned(slashes(entry.name.clone())),
        false => Cow::Borrowed(entry.name.as_slice()),
    }
}

fn slashes(mut name: Vec<u8>) -> Vec<u8> {
    name.iter_mut()
        .filter(|b| **b == b'!')
        .for_each(|b| *b = b'/');
    name
}

/// Sums the members of each group into its current slot, without members that the filter hides.
pub fn sum_groups(list: &mut DeviceList, slot: usize, sample: u64, unfiltered: bool) {
    let mut group: Option<usize> = None;
    for at in 0..list.entries().len() {
        let entries = list.entries_mut();
        if entries[at].kind == EntryKind::Group {
            entries[at].set(DiskCounters::default(), slot, sample);
            group = Some(at);
        } else if let Some(g) = group
            && entries[at].exists
            && (unfiltered || !unused(&entries[at].slots[slot]))
        {
            let member = entries[at].slots[slot];
            add_to_group(&mut entries[g].slots[slot], &member);
        }
    }
}

/// An entry with its position among the rows.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// Entry of the device list.
    pub entry: &'a Entry,
    /// Number of existing members of a group; 1 for a device.
    pub members: usize,
    /// Whether it is a member of a group.
    pub grouped: bool,
}

impl Placed<'_> {
    fn device(entry: &Entry, grouped: bool) -> Placed<'_> {
        Placed {
            entry,
            members: 1,
            grouped,
        }
    }
}

/// The entries in the order of their rows: the sum of a group follows its members.
pub fn in_order(list: &DeviceList) -> impl Iterator<Item = Placed<'_>> {
    let entries = list.entries();
    let first = entries
        .iter()
        .position(|e| e.kind == EntryKind::Group)
        .unwrap_or(entries.len());
    let (alone, grouped) = entries.split_at(first);
    // Each chunk starts with the group, followed by its members.
    let groups = grouped
        .chunk_by(|_, next| next.kind != EntryKind::Group)
        .flat_map(move |chunk| {
            let members = chunk[1..].iter().filter(|e| e.exists);
            let sum = Placed {
                entry: &chunk[0],
                members: members.clone().count(),
                grouped: false,
            };
            members
                .map(|entry| Placed::device(entry, true))
                .chain(std::iter::once(sum))
        });
    alone
        .iter()
        .filter(|e| e.exists)
        .map(|entry| Placed::device(entry, false))
        .chain(groups)
}

/// Whether an entry has a row.
pub fn shown(placed: &Placed<'_>, slot: usize, filter: Filter) -> bool {
    let now = &placed.entry.slots[slot];
    let before = &placed.entry.slots[1 - slot];
    let hidden = filter.hide_members && placed.grouped
        || !filter.unfiltered && unused(now)
        || filter.omit_idle && idle(before, now);
    !hidden
}

/// The rows of a report. If a name cannot be determined, the rows before it and an error.
pub fn rows<'a>(
    list: &'a DeviceList,
    slot: usize,
    interval_cs: f64,
    filter: Filter,
    names: &mut ShownNames,
    root: &Root,
    exact: &Exact,
) -> (Vec<Row<'a>>, Option<Errno>) {
    let mut rows = Vec::with_capacity(list.entries().len());
    let mut sums = Sums::new(exact);
    for placed in in_order(list) {
        let exact = sums.of(&placed);
        if !shown(&placed, slot, filter) {
            continue;
        }
        let Placed { entry, members, .. } = placed;
        let name = match names.of(root, entry) {
            Ok(name) => name,
            Err(e) => return (rows, Some(e)),
        };
        let exact = exact.map(Box::new);
        rows.push(Row {
            name,
            values: statistics(entry, slot, interval_cs),
            members,
            exact,
        });
    }
    (rows, None)
}

/// A device's row on its own.
pub fn row_of(entry: &Entry, slot: usize, interval_cs: f64) -> Row<'_> {
    Row {
        name: own_name(entry),
        values: statistics(entry, slot, interval_cs),
        members: 1,
        exact: None,
    }
}

fn statistics(entry: &Entry, slot: usize, interval_cs: f64) -> Values {
    let now = &entry.slots[slot];
    let before = &entry.slots[1 - slot];
    if restarted(before, now) {
        return values(&DiskCounters::default(), now, interval_cs);
    }
    values(before, now, interval_cs)
}

/// Statistics of single I/Os for the rows, in the order of [`in_order`]; for a group, over its members if all are
/// known.
#[derive(Debug)]
pub struct Sums<'a> {
    exact: &'a Exact,
    group: Option<DeviceExact>,
    members: usize,
}

impl<'a> Sums<'a> {
    /// Empty sums.
    pub fn new(exact: &'a Exact) -> Sums<'a> {
        Sums {
            exact,
            group: None,
            members: 0,
        }
    }

    /// The statistics of the next row.
    pub fn of(&mut self, placed: &Placed<'_>) -> Option<DeviceExact> {
        if placed.entry.kind == EntryKind::Group {
            self.members = 0;
            return self.group.take();
        }
        let found = is_disk(placed.entry.kind)
            .then(|| self.exact.of(placed.entry.number))
            .flatten();
        if placed.grouped {
            self.members += 1;
            self.group = match (self.group.take(), &found) {
                (None, Some(first)) if self.members == 1 => Some(first.clone()),
                (Some(mut sum), Some(one)) => {
                    sum.add(one);
                    Some(sum)
                }
                _ => None,
            };
        }
        found
    }
}

/// The failure when `/dev/mapper` cannot be listed.
pub fn mapper_failure(e: Errno) -> Failure {
    Failure {
        code: 4,
        message: format!("Cannot open {MAPPER_DIR}: {}", super::reason(e)),
    }
}
