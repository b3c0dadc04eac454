//! The files that take most of an actor's I/O time, in memory that does not grow with the number of files.

use crate::model::{Inode, Io};

/// Files counted at once. A file with more than a sixteenth of the I/O time is always among them.
const MAX_COUNTED: usize = 16;

/// I/O of one file. Where an actor used more files than are counted at once, these are lower bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUse {
    /// The file.
    pub file: Inode,
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Sum of their latencies.
    pub io_time_ns: i64,
}

/// A counted file.
#[derive(Debug, Clone, Copy)]
struct Counter {
    usage: FileUse,
    /// Its I/O time and that of the files that had this place before: an upper bound of all that this file did.
    most_ns: i64,
}

/// Finds the files with most I/O time in one pass (the space-saving algorithm of Metwally, Agrawal and El Abbadi, 2005).
#[derive(Debug, Clone, Default)]
pub(super) struct TopFiles {
    counters: Vec<Counter>,
    /// Place of the file of the I/O before: I/Os often come in runs.
    last: usize,
}

impl TopFiles {
    /// Counts `io`, if its file is known.
    pub fn push(&mut self, io: &Io) {
        let Some(file) = io.inode() else {
            return;
        };
        self.add(&FileUse {
            file,
            ios: 1,
            bytes: io.bytes.max(0) as u64,
            io_time_ns: io.total_ns().max(0),
        });
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &TopFiles) {
        for counter in &other.counters {
            self.add(&counter.usage);
        }
    }

    fn add(&mut self, usage: &FileUse) {
        let at = match self.place_of(&usage.file) {
            Some(at) => at,
            None => self.make_place(usage.file),
        };
        self.last = at;
        let counted = &mut self.counters[at].usage;
        counted.ios += usage.ios;
        counted.bytes += usage.bytes;
        counted.io_time_ns = counted.io_time_ns.saturating_add(usage.io_time_ns);
        let most_ns = &mut self.counters[at].most_ns;
        *most_ns = most_ns.saturating_add(usage.io_time_ns);
    }

    fn place_of(&self, file: &Inode) -> Option<usize> {
        let last = self.counters.get(self.last);
        if last.is_some_and(|counter| counter.usage.file == *file) {
            return Some(self.last);
        }
        // Most files of an actor differ in nothing but this number.
        let mut counters = self.counters.iter();
        counters.position(|c| c.usage.file.ino == file.ino && c.usage.file == *file)
    }

    /// A place for a file that is not counted.
    fn make_place(&mut self, file: Inode) -> usize {
        let mut counter = Counter {
            usage: FileUse {
                file,
                ios: 0,
                bytes: 0,
                io_time_ns: 0,
            },
            most_ns: 0,
        };
        if self.counters.len() < MAX_COUNTED {
            self.counters.push(counter);
            return self.counters.len() - 1;
        }
        // All places are taken. The least one goes, and its time is inherited: otherwise two rare files that take turns could
        // push out a third one that is used more than both.
        let mut at = 0;
        counter.most_ns = i64::MAX;
        for (place, counted) in self.counters.iter().enumerate() {
            if counted.most_ns < counter.most_ns {
                at = place;
                counter.most_ns = counted.most_ns;
            }
        }
        self.counters[at] = counter;
        at
    }

    /// At most `most` files, those with most I/O time first.
    pub fn finish(self, most: usize) -> Vec<FileUse> {
        let mut files: Vec<FileUse> = self.counters.iter().map(|c| c.usage).collect();
        files.sort_by_key(|f| (std::cmp::Reverse(f.io_time_ns), f.file));
        files.truncate(most);
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Op};

    fn io(ino: i64, device_ns: i64) -> Io {
        Io {
            fs_dev: Some(1),
            ino: Some(ino),
            ..Io::new(0, DevId(1), Op::READ, 4096, Some(0), device_ns)
        }
    }

    #[test]
    fn sixteen_files_are_counted_exactly() {
        let mut top = TopFiles::default();
        for i in 0..1600 {
            top.push(&io(i % 16, 10 + i % 16));
        }
        let files = top.finish(3);
        assert_eq!(
            files.iter().map(|f| f.file.ino).collect::<Vec<_>>(),
            [15, 14, 13]
        );
        assert_eq!((files[0].ios, files[0].io_time_ns), (100, 2500));
    }

    #[test]
    fn a_file_with_a_tenth_of_the_time_is_found_among_thousands() {
        let mut top = TopFiles::default();
        for i in 0..10_000 {
            top.push(&io(i, 1000));
            if i % 9 == 0 {
                top.push(&io(77_777, 1000));
            }
        }
        let files = top.finish(1);
        assert_eq!(files[0].file.ino, 77_777);
        assert!(
            files[0].ios <= 1112 && files[0].ios > 1000,
            "{files:?}: a lower bound"
        );
    }

    #[test]
    fn an_io_without_a_file_is_not_counted() {
        let mut top = TopFiles::default();
        top.push(&Io::new(0, DevId(1), Op::READ, 4096, Some(0), 10));
        assert_eq!(top.finish(3), []);
    }
}
