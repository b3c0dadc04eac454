//! `/proc/diskstats`: all devices and partitions in one read.

use super::{KernelFile, ParsedLine, Root, parse_diskstats_line};
use iolens_core::model::{DevId, DiskCounters};
use rustix::io::Errno;
use std::ops::Range;
use std::path::Path;

/// Kind of a row of `/proc/diskstats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// A whole disk, or a layer that acts as one (dm, md, loop): it has a directory in `/sys/block`.
    Disk,
    /// A partition. Its I/O is also in its disk's row, so the two must never be added.
    Partition,
}

/// The counters of one device or partition at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskRow {
    /// Device number.
    pub dev: DevId,
    /// Kernel name, with `!` where the kernel's name has `/` (as sysfs does). Untrusted: escape it where it is shown.
    pub name: Vec<u8>,
    /// Disk or partition.
    pub kind: RowKind,
    /// How many fields the kernel printed (4, or 11 to 17).
    pub fields: usize,
    /// Counters of the row.
    pub counters: DiskCounters,
}

/// A reader of `/proc/diskstats` that keeps its descriptor and rows. While the set of devices is stable, a read
/// allocates nothing and takes one system call per page of text.
#[derive(Debug)]
pub struct DiskstatsReader {
    root: Root,
    file: KernelFile,
    buffer: Vec<u8>,
    /// The text of the previous read, and the position of each row's line in it.
    previous: Vec<u8>,
    lines: Vec<Range<usize>>,
    rows: Vec<DiskRow>,
    disks: Vec<Vec<u8>>,
    changed: Vec<usize>,
    generation: u64,
}

impl DiskstatsReader {
    /// Opens `/proc/diskstats` under `root` and reads it once.
    ///
    /// # Errors
    /// Error of opening or reading the file.
    pub fn open(root: &Root) -> Result<DiskstatsReader, Errno> {
        let mut reader = DiskstatsReader::at(root, &root.path("/proc/diskstats"));
        reader.read()?;
        Ok(reader)
    }

    /// A reader of another file of the same format, which the first read opens. Whether a row is a disk is still looked
    /// up in `/sys/block` under `root`.
    pub fn at(root: &Root, path: &Path) -> DiskstatsReader {
        DiskstatsReader {
            root: root.clone(),
            file: KernelFile::new(path),
            buffer: Vec::new(),
            previous: Vec::new(),
            lines: Vec::new(),
            rows: Vec::new(),
            disks: Vec::new(),
            changed: Vec::new(),
            generation: 0,
        }
    }

    /// Reads the file. Lines in another format are skipped.
    ///
    /// # Errors
    /// Error of reading the file.
    pub fn read(&mut self) -> Result<&[DiskRow], Errno> {
        std::mem::swap(&mut self.buffer, &mut self.previous);
        let length = match self.file.read(&mut self.buffer) {
            Ok(text) => text.len(),
            Err(e) => {
                // The rows still correspond to the previous text.
                std::mem::swap(&mut self.buffer, &mut self.previous);
                return Err(e);
            }
        };
        let text = &self.buffer[..length];
        self.changed.clear();
        let mut has_new_rows = false;
        let mut n = 0;
        let mut at = 0;
        while at < length {
            // The line of an idle device is unchanged and need not be parsed.
            let before = self
                .lines
                .get(n)
                .and_then(|line| self.previous.get(line.clone()));
            if let Some(before) = before
                && let Some(end) = end_if_same(text, at, before)
            {
                self.lines[n] = at..end;
                at = end + 1;
                n += 1;
                continue;
            }

            let line = at..end_of_line(text, at);
            at = line.end + 1;
            let Some(parsed) = parse_diskstats_line(&text[line.clone()]) else {
                continue;
            };
            has_new_rows |= put_row(&mut self.rows, &mut self.lines, n, parsed, line);
            self.changed.push(n);
            n += 1;
        }

        // Rows after the last line belong to removed devices.
        let has_gone_rows = n < self.rows.len();
        self.rows.truncate(n);
        self.lines.truncate(n);
        if has_new_rows || has_gone_rows {
            self.generation += 1;
            self.classify();
        }
        Ok(&self.rows)
    }

    /// Separates disks from partitions by one read of `/sys/block`.
    fn classify(&mut self) {
        self.disks = self.root.names("/sys/block").unwrap_or_default();
        let mut sorted: Vec<&[u8]> = self.disks.iter().map(Vec::as_slice).collect();
        sorted.sort_unstable();
        for row in &mut self.rows {
            let disk = sorted.binary_search(&row.name.as_slice()).is_ok();
            row.kind = if disk {
                RowKind::Disk
            } else {
                RowKind::Partition
            };
        }
    }

    /// The names in `/sys/block`, in its order, at the last change of the rows.
    pub fn disks(&self) -> &[Vec<u8>] {
        &self.disks
    }

    /// Whether the file is the kernel's own, not a copy. Known after a read.
    pub fn is_kernels(&self) -> bool {
        self.file.is_kernels()
    }

    /// The rows of the last read.
    pub fn rows(&self) -> &[DiskRow] {
        &self.rows
    }

    /// Indices of the rows that the last read found changed, in order. Valid if the set and order of rows did not
    /// change ([`DiskstatsReader::generation`]).
    pub fn changed(&self) -> &[usize] {
        &self.changed
    }

    /// Increases by one whenever the set or the order of rows changes.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// End of the line at `at`, if it equals the line `before`.
fn end_if_same(text: &[u8], at: usize, before: &[u8]) -> Option<usize> {
    let end = at + before.len();
    let is_same = text[at..].starts_with(before) && text.get(end).is_none_or(|b| *b == b'\n');
    is_same.then_some(end)
}

/// End of the line at `at`: its line feed, or the end of the text.
fn end_of_line(text: &[u8], at: usize) -> usize {
    text[at..]
        .iter()
        .position(|b| *b == b'\n')
        .map_or(text.len(), |i| at + i)
}

/// Stores a line's counters in row `n`. Returns whether the row is new, because it belonged to another device or did
/// not exist.
fn put_row(
    rows: &mut Vec<DiskRow>,
    lines: &mut Vec<Range<usize>>,
    n: usize,
    parsed: ParsedLine<'_>,
    line: Range<usize>,
) -> bool {
    let dev = DevId::new(parsed.major, parsed.minor);
    if let Some(row) = rows.get_mut(n)
        && row.dev == dev
        && same_name(&row.name, parsed.name)
    {
        row.fields = parsed.stat.fields;
        row.counters = parsed.stat.counters;
        lines[n] = line;
        return false;
    }

    // All following rows are rebuilt. This is rare, and their order may have changed, too.
    rows.truncate(n);
    lines.truncate(n);
    rows.push(DiskRow {
        dev,
        name: sysfs_name(parsed.name),
        // Disks are identified once all rows are known.
        kind: RowKind::Partition,
        fields: parsed.stat.fields,
        counters: parsed.stat.counters,
    });
    lines.push(line);
    true
}

fn same_name(sysfs: &[u8], kernel: &[u8]) -> bool {
    sysfs.len() == kernel.len()
        && sysfs
            .iter()
            .zip(kernel)
            .all(|(s, k)| s == k || (*k == b'/' && *s == b'!'))
}

/// Converts a kernel name to its sysfs form: `cciss/c0d0` is the directory `cciss!c0d0`.
pub fn sysfs_name(name: &[u8]) -> Vec<u8> {
    name.iter()
        .map(|b| if *b == b'/' { b'!' } else { *b })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(disks: &[&str]) -> Machine {
            let m = Machine(tempfile::tempdir().expect("a directory"));
            std::fs::create_dir_all(m.0.path().join("proc")).expect("made");
            for d in disks {
                std::fs::create_dir_all(m.0.path().join("sys/block").join(d)).expect("made");
            }
            m
        }

        fn stats(&self, text: &str) {
            std::fs::write(self.0.path().join("proc/diskstats"), text).expect("written");
        }

        fn root(&self) -> Root {
            Root::under(self.0.path())
        }
    }

    fn names(rows: &[DiskRow]) -> Vec<String> {
        rows.iter()
            .map(|r| String::from_utf8_lossy(&r.name).into_owned())
            .collect()
    }

    #[test]
    fn disks_and_partitions_are_distinguished() {
        let m = Machine::new(&["sda", "cciss!c0d0"]);
        m.stats(
            "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 1 sda1 1 2 3 4\nrubbish\n104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11\n",
        );
        let reader = DiskstatsReader::open(&m.root()).expect("opened");
        assert_eq!(names(reader.rows()), ["sda", "sda1", "cciss!c0d0"]);
        let kinds: Vec<RowKind> = reader.rows().iter().map(|r| r.kind).collect();
        assert_eq!(kinds, [RowKind::Disk, RowKind::Partition, RowKind::Disk]);
        assert_eq!(reader.rows()[1].counters.read.sectors, 2);
    }

    #[test]
    fn devices_come_and_go() {
        let m = Machine::new(&["sda", "sdb", "sdc"]);
        let line =
            |minor: u32, name: &str, n: u64| format!("8 {minor} {name} {n} 0 0 0 0 0 0 0 0 0 0\n");
        m.stats(&(line(0, "sda", 1) + &line(16, "sdb", 1)));
        let mut reader = DiskstatsReader::open(&m.root()).expect("opened");
        let first = reader.generation();
        reader.read().expect("read");
        assert_eq!(reader.generation(), first, "nothing changed");
        m.stats(&(line(16, "sdb", 7) + &line(32, "sdc", 9)));
        let rows = reader.read().expect("read");
        assert_eq!(names(rows), ["sdb", "sdc"]);
        assert_eq!(
            (rows[0].counters.read.ios, rows[1].counters.read.ios),
            (7, 9)
        );
        assert!(reader.generation() > first);
        m.stats(&(line(0, "sda", 1) + &line(16, "sdb", 8) + &line(32, "sdc", 9)));
        assert_eq!(names(reader.read().expect("read")), ["sda", "sdb", "sdc"]);
        m.stats("");
        assert!(reader.read().expect("read").is_empty());
    }

    #[test]
    fn a_missing_file_is_an_error() {
        assert_eq!(
            DiskstatsReader::open(&Machine::new(&[]).root()).err(),
            Some(Errno::NOENT)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_sequence_of_files_gives_its_own_rows(files in prop::collection::vec(prop::collection::vec((0u32..6, 0u64..9), 0..6), 1..6)) {
            let m = Machine::new(&["d0", "d1", "d2"]);
            m.stats("");
            let mut reader = DiskstatsReader::open(&m.root()).expect("opened");
            for file in files {
                m.stats(&file.iter().map(|(d, n)| format!("9 {d} d{d} {n} 0 0 0 0 0 0 0 0 0 0\n")).collect::<String>());
                let got: Vec<(u32, u64)> = reader.read().expect("read").iter().map(|r| (r.dev.minor(), r.counters.read.ios)).collect();
                prop_assert_eq!(got, file);
            }
        }
    }
}
