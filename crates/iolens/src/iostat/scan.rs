//! Reads all disks at once, by the cheapest method with the same result.

use iolens_core::model::DiskCounters;
use iolens_observe::counters::{DiskstatsReader, Root, RowKind, StatFile};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory on an ordinary file system that changed less than this long ago is listed again, because its
/// timestamps are no finer than a tick of the kernel's clock.
const SETTLED_S: i64 = 2;

/// Names in a directory, unsorted or in byte order.
pub fn names(dir: &Path, sorted: bool) -> std::io::Result<Vec<Vec<u8>>> {
    let mut names: Vec<Vec<u8>> = std::fs::read_dir(dir)?
        .map_while(Result::ok)
        .map(|e| e.file_name().into_vec())
        .collect();
    if sorted {
        names.sort_unstable();
    }
    Ok(names)
}

/// Scans all directories with a `stat` file in `/sys/block`, or in a copy of it.
#[derive(Debug, Default)]
pub struct DirectoryScan {
    dir: PathBuf,
    sorted: bool,
    listed: Option<(i64, i64)>,
    files: Vec<(Vec<u8>, StatFile)>,
    buffer: Vec<u8>,
}

impl DirectoryScan {
    /// Prepares to scan `dir`.
    pub fn new(dir: PathBuf, sorted: bool) -> DirectoryScan {
        DirectoryScan {
            dir,
            sorted,
            ..DirectoryScan::default()
        }
    }

    /// Passes the counters of every readable disk to `take`, in the order of the directory.
    pub fn read(&mut self, mut take: impl FnMut(&[u8], DiskCounters)) {
        self.list();
        for (name, file) in &mut self.files {
            if let Ok(stat) = file.read(&mut self.buffer) {
                take(name, stat.counters);
            }
        }
    }

    /// Lists the directory, unless it certainly has not changed.
    fn list(&mut self) {
        let changed = std::fs::metadata(&self.dir)
            .ok()
            .map(|m| (m.mtime(), m.mtime_nsec()));
        let now = iolens_observe::counters::unix_time_s();
        let settled =
            changed.is_some_and(|(s, _)| s < now - SETTLED_S) && !self.dir.starts_with("/sys");
        if settled && self.listed == changed {
            return;
        }
        self.listed = changed;
        let Ok(names) = names(&self.dir, self.sorted) else {
            self.files.clear();
            return;
        };
        if names.iter().eq(self.files.iter().map(|(n, _)| n)) {
            return;
        }
        let mut old = std::mem::take(&mut self.files);
        self.files = names
            .into_iter()
            .map(|name| match old.iter().position(|(n, _)| *n == name) {
                Some(at) => old.swap_remove(at),
                None => {
                    let file = StatFile::new(self.dir.join(OsStr::from_bytes(&name)).join("stat"));
                    (name, file)
                }
            })
            .collect();
    }
}

/// Reads `/proc/diskstats` instead of one file per disk, as long as it contains the same disks as `/sys/block`: one
/// system call per 45 devices, instead of two or three per device.
#[derive(Debug, Default)]
pub struct KernelScan {
    reader: Option<DiskstatsReader>,
    generation: Option<u64>,
    /// Indices of the rows of disks, in the order of `/sys/block`; `None`: the two differ.
    order: Option<Vec<usize>>,
    /// In tests any file counts as the kernel's.
    #[cfg(test)]
    pub trusting: bool,
}

impl KernelScan {
    /// Prepares it, if `allowed` and `root` may be a running kernel.
    pub fn new(root: &Root, allowed: bool) -> KernelScan {
        let is_possible = allowed && !root.is_recorded();
        KernelScan {
            reader: is_possible.then(|| DiskstatsReader::at(root, &root.path("/proc/diskstats"))),
            ..KernelScan::default()
        }
    }

    fn is_kernels(&self) -> bool {
        #[cfg(test)]
        if self.trusting {
            return true;
        }
        self.reader
            .as_ref()
            .is_some_and(DiskstatsReader::is_kernels)
    }

    /// The reader and which of its rows are disks, if the last [`KernelScan::read`] could.
    pub fn disks(&self) -> Option<(&DiskstatsReader, &[usize])> {
        Some((self.reader.as_ref()?, self.order.as_ref()?))
    }

    /// Reads only this file. `None`: it cannot be read, or contains other devices than before.
    pub fn refresh(&mut self) -> Option<&DiskstatsReader> {
        let reader = self.reader.as_mut()?;
        reader.read().ok()?;
        (self.generation == Some(reader.generation())).then_some(reader)
    }

    /// Passes the counters of every disk to `take`, in the order of `/sys/block`. `false`: not possible; read the
    /// directory instead.
    pub fn read(&mut self, mut take: impl FnMut(&[u8], DiskCounters)) -> bool {
        let readable = self.reader.as_mut().is_some_and(|r| r.read().is_ok());
        if !readable || !self.is_kernels() {
            self.reader = None;
        }
        let Some(reader) = &self.reader else {
            return false;
        };
        if self.generation != Some(reader.generation()) {
            self.generation = Some(reader.generation());
            self.order = order(reader);
        }
        let Some(order) = &self.order else {
            return false;
        };
        for row in order.iter().map(|i| &reader.rows()[*i]) {
            take(&row.name, row.counters);
        }
        true
    }
}

/// The indices of the directory's disks, in its order; `None` unless both contain the same names.
fn order(reader: &DiskstatsReader) -> Option<Vec<usize>> {
    let rows = reader.rows();
    let mut by_name: Vec<usize> = (0..rows.len())
        .filter(|row| rows[*row].kind == RowKind::Disk)
        .collect();
    if by_name.len() != reader.disks().len() {
        return None;
    }
    by_name.sort_unstable_by(|a, b| rows[*a].name.cmp(&rows[*b].name));
    let mut order = Vec::with_capacity(by_name.len());
    for disk in reader.disks() {
        let at = by_name.binary_search_by(|row| rows[*row].name.cmp(disk));
        order.push(by_name[at.ok()?]);
    }
    Some(order)
}
