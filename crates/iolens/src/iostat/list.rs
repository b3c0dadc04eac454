//! The ordered list of devices, partitions and groups that is kept for the whole run.

use iolens_core::model::DiskCounters;
use iolens_observe::counters::StatFile;

/// Names this long are ignored.
const NAME_BYTES: usize = 256;

/// What an entry is; settled when it enters the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Something without a directory in `/sys/block`.
    Partition,
    /// A disk.
    Disk,
    /// A disk whose partitions are shown too.
    DiskWithPartitions,
    /// A sum over the entries that follow.
    Group,
}

/// One entry of the device list.
#[derive(Debug)]
pub struct Entry {
    /// Name in sysfs; of a group, a blank and the group's name.
    pub name: Vec<u8>,
    /// EntryKind of the device.
    pub kind: EntryKind,
    /// Major and minor number, if looked up and found.
    pub number: Option<(u32, u32)>,
    /// Whether the current sample has it.
    pub exists: bool,
    /// Counters of the current sample and of the one before it in turn. An entry that misses a sample keeps its old ones,
    /// so that on its return it is compared with the sample before the previous one, as in the reference.
    pub slots: [DiskCounters; 2],
    /// Which sample each slot is from.
    pub sampled: [Option<u64>; 2],
    /// Its `stat` files, opened when needed: the kernel's and the alternate directory's. In most runs no entry has any.
    pub files: Option<Box<[Option<StatFile>; 2]>>,
}

impl Entry {
    /// Takes the counters of a sample.
    pub fn set(&mut self, counters: DiskCounters, slot: usize, sample: u64) {
        self.slots[slot] = counters;
        self.sampled[slot] = Some(sample);
        self.exists = true;
    }
}

/// What is asked of a name when it enters the list.
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
    /// A name is sorted by its typed form: the list is not in byte order any more.
    disordered: bool,
    cursor: usize,
}

impl DeviceList {
    /// From now on new names go to the end, in place of their place in byte order.
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

    /// Nothing has been seen yet in the sample that begins.
    pub fn mark_all_absent(&mut self) {
        self.entries.iter_mut().for_each(|e| e.exists = false);
        self.cursor = 0;
    }

    /// Closes the open files: the next sample is in another directory.
    pub fn close_files(&mut self) {
        self.entries.iter_mut().for_each(|e| e.files = None);
    }

    /// The position of a name, which now exists; it is added if it was not there. `probe` checks whether a new name
    /// is a disk, and its number. `None`: the name is too long.
    pub fn add(
        &mut self,
        name: &[u8],
        ask: Ask,
        probe: impl FnOnce() -> (bool, Option<(u32, u32)>),
    ) -> Option<usize> {
        self.add_typed(name, name, ask, probe)
    }

    /// [`DeviceList::add`] of a device that was `typed` by another name: a new one goes where that name belongs.
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

    /// Where a name is, or where it goes. As long as names go to their place in byte order the whole list is in it.
    fn find(&self, name: &[u8], typed: &[u8]) -> Result<usize, usize> {
        // Names mostly come in the list's own order.
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
        // It is new: it goes to the end, or before the first name that is greater than what was typed.
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
