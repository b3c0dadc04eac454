//! Reads one sample into the list: which file the counters of each entry come from, and in which order names appear.

use super::list::{Ask, DeviceList, EntryKind};
use super::scan::{DirectoryScan, KernelScan};
use iolens_core::model::DiskCounters;
use iolens_observe::counters::{
    DiskstatsReader, Root, StatFile, device_number, parse_diskstats_line, parse_stat, read_once,
    sysfs_name,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directory given by `-f` or `+f`.
#[derive(Debug, Clone)]
pub struct Alternate {
    /// Directory of the samples, as given by the user.
    pub dir: PathBuf,
    /// `+f`: in addition to the kernel's files, not instead of them.
    pub both: bool,
}

/// Which devices are read from each sample.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// All of `/proc/diskstats`, and nothing else.
    pub everything: bool,
    /// All of `/sys/block`, after the listed devices.
    pub all: bool,
    /// `-x`: partitions without extended statistics are left out.
    pub extended: bool,
    /// Names are looked up by device number, so every entry needs one.
    pub numbers: bool,
    /// Patterns of names, and whether their disks' partitions are included.
    pub patterns: Vec<(Vec<u8>, bool)>,
    /// `-f`, `+f`.
    pub alternate: Option<Alternate>,
}

/// Reads samples under one root.
#[derive(Debug)]
pub struct Reader {
    root: Root,
    /// The sources of counters: the kernel's files, the alternate directory's, or both in this order.
    places: Vec<SnapshotPlace>,
    numbers: Option<Vec<Numbered>>,
    /// All disks of the running kernel.
    pub kernel_scan: KernelScan,
    named: Option<DiskstatsReader>,
    buffer: Vec<u8>,
}

/// Name of a device in sysfs, and its device number.
type Numbered = (Vec<u8>, (u32, u32));

#[derive(Debug)]
struct SnapshotPlace {
    block: PathBuf,
    dev_block: PathBuf,
    diskstats: DiskstatsReader,
    scan: DirectoryScan,
    /// Whether these are the kernel's directories, where the name of a partition starts with that of its disk.
    kernel: bool,
}

impl SnapshotPlace {
    fn kernel(root: &Root) -> SnapshotPlace {
        SnapshotPlace {
            block: root.path("/sys/block"),
            dev_block: root.path("/sys/dev/block"),
            diskstats: DiskstatsReader::at(root, &root.path("/proc/diskstats")),
            scan: DirectoryScan::new(root.path("/sys/block"), root.is_recorded()),
            kernel: true,
        }
    }

    fn alternate(root: &Root, dir: &Path) -> SnapshotPlace {
        let dir = in_root(root, dir);
        SnapshotPlace {
            block: dir.join("block"),
            dev_block: dir.join("dev/block"),
            diskstats: DiskstatsReader::at(root, &dir.join("diskstats")),
            scan: DirectoryScan::new(dir.join("block"), root.is_recorded()),
            kernel: false,
        }
    }
}

/// A directory given by the user: unchanged on the live machine, otherwise inside the root.
pub fn in_root(root: &Root, dir: &Path) -> PathBuf {
    if root.is_live() {
        dir.to_path_buf()
    } else {
        root.path(dir)
    }
}

impl Reader {
    /// Prepares reading under `root`; opens nothing yet.
    pub fn new(root: &Root, alternate: Option<&Alternate>) -> Reader {
        let mut places = Vec::new();
        if alternate.is_none_or(|a| a.both) {
            places.push(SnapshotPlace::kernel(root));
        }
        if let Some(a) = alternate {
            places.push(SnapshotPlace::alternate(root, &a.dir));
        }
        let kernel_scan = KernelScan::new(root, alternate.is_none());
        Reader {
            root: root.clone(),
            places,
            numbers: None,
            kernel_scan,
            named: None,
            buffer: Vec::new(),
        }
    }

    /// Whether a name is a disk, and its number if requested.
    pub fn probe(&mut self, name: &[u8], number: bool) -> (bool, Option<(u32, u32)>) {
        let disk = self
            .places
            .iter()
            .any(|p| p.block.join(OsStr::from_bytes(name)).exists());
        let number = (number || !disk).then(|| self.number(name)).flatten();
        (disk, number)
    }

    /// The number of a device: from `/proc/diskstats`, else from its device node.
    fn number(&mut self, name: &[u8]) -> Option<(u32, u32)> {
        let numbers = self.numbers.get_or_insert_with(|| {
            let text = read_once(&self.root.path("/proc/diskstats")).unwrap_or_default();
            let lines = text.split(|b| *b == b'\n').filter_map(parse_diskstats_line);
            lines
                .map(|l| (sysfs_name(l.name), (l.major, l.minor)))
                .collect()
        });
        if let Some((_, number)) = numbers.iter().find(|(n, _)| n == name) {
            return Some(*number);
        }
        let node: Vec<u8> = name
            .iter()
            .map(|b| if *b == b'!' { b'/' } else { *b })
            .collect();
        let node = self
            .root
            .node(&Path::new("/dev").join(OsStr::from_bytes(&node)));
        node.or_else(|| device_number(&self.root, name).map(|d| (d.major(), d.minor())))
    }

    /// Reads one sample into `slot` of the list's entries.
    pub fn read(&mut self, list: &mut DeviceList, what: &Selection, slot: usize, sample: u64) {
        self.numbers = None;
        list.mark_all_absent();
        if what.everything {
            self.read_diskstats(list, what, slot, sample);
            return;
        }
        self.add_matching(list, what);
        self.read_listed(list, what, slot, sample);
        if what.all {
            self.read_all(list, what, slot, sample);
        }
    }

    fn read_diskstats(
        &mut self,
        list: &mut DeviceList,
        what: &Selection,
        slot: usize,
        sample: u64,
    ) {
        for place in 0..self.places.len() {
            // A file that is missing is skipped silently, as in the reference.
            if self.places[place].diskstats.read().is_err() {
                continue;
            }
            for row in 0..self.places[place].diskstats.rows().len() {
                let r = &self.places[place].diskstats.rows()[row];
                if r.fields == 4 && what.extended {
                    continue;
                }
                let number = (r.dev.major(), r.dev.minor());
                let counters = r.counters;
                let name = r.name.clone();
                if let Some(at) = list.add(&name, Ask::Device, || self.probe(&name, false)) {
                    let entry = &mut list.entries_mut()[at];
                    entry.number = Some(number);
                    entry.set(counters, slot, sample);
                }
            }
        }
    }

    /// Adds names that match a pattern as if they had been typed.
    fn add_matching(&mut self, list: &mut DeviceList, what: &Selection) {
        if what.patterns.is_empty() {
            return;
        }
        let path = self.root.path("/proc/diskstats");
        let mut reader = self
            .named
            .take()
            .unwrap_or_else(|| DiskstatsReader::at(&self.root, &path));
        if reader.read().is_ok() {
            for row in reader.rows() {
                if let Some((_, parts)) = what
                    .patterns
                    .iter()
                    .find(|(p, _)| super::pattern::matches(p, &row.name))
                {
                    let ask = if *parts {
                        Ask::WithPartitions
                    } else {
                        Ask::Device
                    };
                    let number = Some((row.dev.major(), row.dev.minor()));
                    list.add(&row.name, ask, || (self.probe(&row.name, false).0, number));
                }
            }
        }
        self.named = Some(reader);
        list.mark_all_absent();
    }

    fn read_listed(&mut self, list: &mut DeviceList, what: &Selection, slot: usize, sample: u64) {
        let mut at = 0;
        while at < list.entries().len() {
            let entry = &mut list.entries_mut()[at];
            if entry.exists || entry.kind == EntryKind::Group {
                at += 1;
                continue;
            }
            let partition = entry.kind == EntryKind::Partition;
            // The scan of all disks that follows also reads the listed disks.
            if (partition || !what.all)
                && let Some(counters) = self.stat_of(&mut list.entries_mut()[at], partition)
            {
                list.entries_mut()[at].set(counters, slot, sample);
            }
            if list.entries()[at].kind == EntryKind::DiskWithPartitions {
                let name = list.entries()[at].name.clone();
                self.read_partitions(list, &name, what, slot, sample);
                at = list
                    .entries()
                    .iter()
                    .position(|e| e.name == name)
                    .unwrap_or(at);
            }
            at += 1;
        }
    }

    /// The counters of a listed entry, from the first source that has it.
    fn stat_of(&mut self, entry: &mut super::list::Entry, partition: bool) -> Option<DiskCounters> {
        for (place, file) in self
            .places
            .iter()
            .zip(entry.files.get_or_insert_default().iter_mut())
        {
            let dir = if partition {
                let (major, minor) = entry.number?;
                place.dev_block.join(format!("{major}:{minor}"))
            } else {
                place.block.join(OsStr::from_bytes(&entry.name))
            };
            let file = file.get_or_insert_with(|| StatFile::new(dir.join("stat")));
            if let Ok(stat) = file.read(&mut self.buffer) {
                return Some(stat.counters);
            }
        }
        None
    }

    /// Reads every sub-directory of the disk's directory that has a `stat` file, from the first source that has the
    /// disk.
    fn read_partitions(
        &mut self,
        list: &mut DeviceList,
        disk: &[u8],
        what: &Selection,
        slot: usize,
        sample: u64,
    ) {
        for place in 0..self.places.len() {
            let dir = self.places[place].block.join(OsStr::from_bytes(disk));
            let Ok(names) = super::scan::names(&dir, self.root.is_recorded()) else {
                continue;
            };
            let kernel = self.places[place].kernel;
            for name in names.into_iter().filter(|n| !kernel || n.starts_with(disk)) {
                let Ok(text) = read_once(&dir.join(OsStr::from_bytes(&name)).join("stat")) else {
                    continue;
                };
                let counters = parse_stat(&text).counters;
                if let Some(at) = list.add(&name, Ask::Device, || self.probe(&name, what.numbers)) {
                    list.entries_mut()[at].set(counters, slot, sample);
                }
            }
            return;
        }
    }

    fn read_all(&mut self, list: &mut DeviceList, what: &Selection, slot: usize, sample: u64) {
        let mut take = |reader: &mut Reader, name: &[u8], counters: DiskCounters| {
            let found = list.add(name, Ask::Device, || {
                (true, what.numbers.then(|| reader.number(name)).flatten())
            });
            if let Some(at) = found {
                list.entries_mut()[at].set(counters, slot, sample);
            }
        };
        let mut scan = std::mem::take(&mut self.kernel_scan);
        let done = scan.read(|name, counters| take(self, name, counters));
        self.kernel_scan = scan;
        if done {
            return;
        }
        for place in 0..self.places.len() {
            let mut scan = std::mem::take(&mut self.places[place].scan);
            scan.read(|name, counters| take(self, name, counters));
            self.places[place].scan = scan;
        }
    }
}
