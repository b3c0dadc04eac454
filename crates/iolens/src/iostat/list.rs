//! The ordered list of devices, partitions and groups, kept for the whole run.

use iolens_core::model::DiskCounters;
use iolens_observe::counters::StatFile;

/// Names of this length or more are ignored.
const NAME_BYTES: usize = 256;

/// The kind of an entry, determined when it enters the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// An entry without a directory in `/sys/block`.
    Partition,
    /// A disk.
    Disk,
    /// A disk whose partitions are shown as well.
    DiskWithPartitions,
    /// A group: the sum of the entries that follow.
    Group,
}

/// One entry of the device list.
#[derive(Debug)]
pub struct Entry {
    /// Name in sysfs; for a group, a space followed by the group's name.
    pub name: Vec<u8>,
    /// EntryKind of the device.
    pub kind: EntryKind,
    /// Device number, if it was looked up and found.
    pub number: Option<(u32, u32)>,
    /// Whether it is in the current sample.
    pub exists: bool,
    /// Counters of the current and the previous sample, alternating. An entry that misses a sample keeps its old
    /// counters, so that on its return it is compared with the sample before the previous one, as in the reference.
    pub slots: [DiskCounters; 2],
    /// Index of the sample in each slot.
    pub sampled: [Option<u64>; 2],
    /// Its `stat` files in the kernel's and in the alternate directory, opened when needed. Most runs need none.
    pub files: Option<Box<[Option<StatFile>; 2]>>,
}

impl Entry {
    /// Sets the counters of a sample.
    pub fn set(&mut self, counters: DiskCounters, slot: usize, sample: u64) {
        self.slots[slot] = counters;
        self.sampled[slot] = Some(sample);
        self.exists = true;
    }
}

/// What to look up when a name enters the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Just the device.
    Device,
    /// A disk with its partitions.
    WithPartitions,
    /// A group of devices (`-g`).
    Group,
}

/// Devices in the order of the report.
#[derive(Debug, Default)]
pub struct DeviceList {
    entries: Vec<Entry>,
    appending: bool,
    /// Whether a name was sorted by the form in which it was typed, so that the list is not in byte order.
    disordered: bool,
    cursor: usize,
}

impl DeviceList {
    /// New names are now appended instead of inserted in byte order.
    pub fn append_from_now_on(&mut self) {
        self.appending = true;
    }

    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries in order.
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// A new sample starts: no entry has been seen in it.
    pub fn mark_all_absent(&mut self) {
        self.entries.iter_mut().for_each(|e| e.exists = false);
        self.cursor = 0;
    }

    /// Closes the open files, because the next sample is in another directory.
    pub fn close_files(&mut self) {
        self.entries.iter_mut().for_each(|e| e.files = None);
    }

    /// The index of a name, which is added if it is new. `probe` returns whether a new name is a disk, and its
    /// number. `None`: the name is too long.
    pub fn add(
        &mut self,
        name: &[u8],
        ask: Ask,
        probe: impl FnOnce() -> (bool, Option<(u32, u32)>),
    ) -> Option<usize> {
        self.add_typed(name, name, ask, probe)
    }

    /// As [`DeviceList::add`], for a device `typed` under another name: a new entry is sorted by that name.
    pub fn add_typed(
        &mut self,
        name: &[u8],
        typed: &[u8],
        ask: Ask,
        probe: impl FnOnce() -> (bool, Option<(u32, u32)>),
    ) -> Option<usize> {
        if name.len() >= NAME_BYTES {
            return None;
        }
        self.disordered |= name != typed;
        let at = match self.find(name, typed) {
            Ok(at) => {
                let e = &mut self.entries[at];
                if ask == Ask::WithPartitions && e.kind == EntryKind::Disk {
                    e.kind = EntryKind::DiskWithPartitions;
                }
                at
            }
            Err(at) => {
                let (kind, number) = if ask == Ask::Group {
                    (EntryKind::Group, None)
                } else {
                    let (disk, number) = probe();
                    let kind = match (disk, ask) {
                        (true, Ask::WithPartitions) => EntryKind::DiskWithPartitions,
                        (true, _) => EntryKind::Disk,
                        (false, _) => EntryKind::Partition,
                    };
                    (kind, number)
                };
                let entry = Entry {
                    name: name.to_vec(),
                    kind,
                    number,
                    exists: true,
                    slots: Default::default(),
                    sampled: [None; 2],
                    files: None,
                };
                self.entries.insert(at, entry);
                at
            }
        };
        self.entries[at].exists = true;
        self.cursor = at + 1;
        Some(at)
    }

    /// The index of a name, or where to insert it. The list is in byte order as long as all names are inserted so.
    fn find(&self, name: &[u8], typed: &[u8]) -> Result<usize, usize> {
        // Names mostly arrive in the order of the list.
        if self
            .entries
            .get(self.cursor)
            .is_some_and(|e| e.name == name)
        {
            return Ok(self.cursor);
        }
        if !self.appending && !self.disordered {
            return self
                .entries
                .binary_search_by(|e| e.name.as_slice().cmp(name));
        }
        if let Some(here) = self.entries.iter().position(|e| e.name == name) {
            return Ok(here);
        }
        // A new name is inserted before the first name that is greater than the typed one, or appended.
        let end = self.entries.len();
        if self.appending {
            return Err(end);
        }
        let mut entries = self.entries.iter();
        let after = entries.position(|e| e.name.as_slice() > typed);
        Err(after.unwrap_or(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &DeviceList) -> Vec<String> {
        list.entries()
            .iter()
            .map(|e| String::from_utf8_lossy(&e.name).into_owned())
            .collect()
    }

    fn add(list: &mut DeviceList, name: &str, ask: Ask) -> Option<usize> {
        list.add(name.as_bytes(), ask, || (!name.ends_with('1'), None))
    }

    #[test]
    fn byte_order_until_a_group_opens() {
        let mut list = DeviceList::default();
        for n in ["sdb", "sda9", "sda10", "sda", "sdb"] {
            add(&mut list, n, Ask::Device);
        }
        assert_eq!(names(&list), ["sda", "sda10", "sda9", "sdb"]);
        list.append_from_now_on();
        for n in [" g", "nvme", "sda", "dm-0"] {
            add(
                &mut list,
                n,
                if n == " g" { Ask::Group } else { Ask::Device },
            );
        }
        assert_eq!(
            names(&list),
            ["sda", "sda10", "sda9", "sdb", " g", "nvme", "dm-0"]
        );
    }

    #[test]
    fn a_device_typed_by_another_name_stands_where_that_name_belongs() {
        let mut list = DeviceList::default();
        let dm = |list: &mut DeviceList, name: &str, typed: &str| {
            list.add_typed(name.as_bytes(), typed.as_bytes(), Ask::Device, || {
                (true, None)
            })
        };
        add(&mut list, "sda", Ask::Device);
        dm(&mut list, "dm-1", "vg-home");
        dm(&mut list, "dm-0", "vg-root");
        dm(&mut list, "dm-1", "vg-home");
        assert_eq!(names(&list), ["sda", "dm-1", "dm-0"]);
        for found in ["dm-0", "dm-1", "nvme0n1", "sda"] {
            add(&mut list, found, Ask::Device);
        }
        assert_eq!(
            names(&list),
            ["nvme0n1", "sda", "dm-1", "dm-0"],
            "each once"
        );
    }

    #[test]
    fn a_disk_named_again_for_its_partitions() {
        let mut list = DeviceList::default();
        add(&mut list, "sda", Ask::Device);
        add(&mut list, "sda1", Ask::WithPartitions);
        assert_eq!(
            list.entries().iter().map(|e| e.kind).collect::<Vec<_>>(),
            [EntryKind::Disk, EntryKind::Partition]
        );
        add(&mut list, "sda", Ask::WithPartitions);
        add(&mut list, "sda", Ask::Device);
        assert_eq!(list.entries()[0].kind, EntryKind::DiskWithPartitions);
    }

    #[test]
    fn long_names_are_ignored() {
        let mut list = DeviceList::default();
        assert_eq!(add(&mut list, &"x".repeat(256), Ask::Device), None);
        assert_eq!(add(&mut list, &"x".repeat(255), Ask::Device), Some(0));
    }
}
