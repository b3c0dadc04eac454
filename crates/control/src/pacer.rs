//! Writes back the dirty pages of a throttled command at the command's own share of the time.
//!
//! A program that copies files fills the page cache, and the kernel writes it back on its own schedule: 30 s later
//! all at once, in a queue so deep that all other I/O waits behind it, whether the command is held or not. While the
//! command is held a thread therefore writes its files back, one piece at a time, with the same share of the time as the
//! command; and a command that writes faster than this is held until it has caught up.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use iolens_observe::writeback::{unwritten_bytes, write_back};

use super::background::{FileId, file_id};
use super::lock::{locked, wait};

/// Bytes per write-back call: large enough for an efficient disk, small enough not to delay other I/O for long.
const PIECE: u64 = 512 << 10;

/// A rest smaller than a piece waits this long for more data, so that appended lines are not written one by one; and
/// the search for unwritten pages restarts at the beginning of a file this often.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// With more unwritten bytes than this the command waits. The kernel writes back all dirty pages of a file every 30 s
/// (`dirty_expire_centisecs`) at once: this limits how much that can be.
const MAX_UNWRITTEN: u64 = 8 << 20;

/// Poll interval of files without data to write.
const LOOK: Duration = Duration::from_millis(50);

/// Counting the pages of a large file takes a while: rest this many times as long.
const LOOKS_REST: u32 = 100;

/// A backlog measured longer ago than this is not valid any more: the disk is stuck, and holding the command would
/// not help.
const STALE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Shared {
    /// Files that the command has open for writing, and the paths to reopen them.
    open: HashMap<FileId, PathBuf>,
    /// The command's share of the time; `None`: it runs freely.
    share: Option<f64>,
    unwritten: u64,
    looked: Instant,
    ended: bool,
}

/// The thread. After this is dropped it ends with its current piece; dropping does not wait.
#[derive(Debug)]
pub struct Pacer(Arc<(Mutex<Shared>, Condvar)>);

impl Pacer {
    /// Begins with no files, and the command running freely.
    pub fn start() -> Pacer {
        let shared = Shared {
            open: HashMap::new(),
            share: None,
            unwritten: 0,
            looked: Instant::now(),
            ended: false,
        };
        let shared = Arc::new((Mutex::new(shared), Condvar::new()));
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || work(&of_thread));
        Pacer(shared)
    }

    /// Sets the files that the command has open for writing.
    pub fn set_files(&self, open: HashMap<FileId, PathBuf>) {
        locked(&self.0.0).open = open;
    }

    /// Sets the command's share of the time; `None`: it runs freely, and its files are left to the kernel.
    pub fn set_share(&self, share: Option<f64>) {
        locked(&self.0.0).share = share;
        self.0.1.notify_all();
    }

    /// Whether the command is so far ahead of the write-back that it should wait.
    pub fn is_behind(&self) -> bool {
        let shared = locked(&self.0.0);
        shared.share.is_some()
            && shared.unwritten > MAX_UNWRITTEN
            && shared.looked.elapsed() < STALE
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        locked(&self.0.0).ended = true;
        self.0.1.notify_all();
    }
}

/// A file and its write-back progress.
#[derive(Debug)]
struct Tracked {
    file: File,
    /// Everything before this offset was written back once.
    cursor: u64,
    /// When a rest smaller than a piece was last written, or the search restarted.
    rested: Instant,
    unwritten: u64,
}

impl Tracked {
    /// Opens the same file as the command's descriptor, unless that was closed and its number reused.
    fn open(id: FileId, path: &PathBuf) -> Option<Tracked> {
        // Opening a pipe or terminal would block. They are never requested, but the descriptor number may be reused
        // at any time.
        if !is_regular(&fs::metadata(path).ok()?, id) {
            return None;
        }
        let file = File::open(path).ok()?;
        // Between the two calls the number may have been reused for another file.
        if !is_regular(&file.metadata().ok()?, id) {
            return None;
        }
        Some(Tracked {
            file,
            cursor: 0,
            rested: Instant::now(),
            unwritten: 0,
        })
    }

    /// Writes one piece if there is enough data. Returns how long it took.
    fn step(&mut self, closed: bool) -> Option<Duration> {
        let size = self.file.metadata().ok()?.size();
        let unwritten = unwritten_bytes(&self.file, self.cursor, 0).ok();
        self.unwritten = unwritten.unwrap_or(0);
        // Kernels before 6.5 cannot report this: all bytes after the cursor may be dirty.
        let ahead = unwritten.unwrap_or_else(|| size.saturating_sub(self.cursor));
        let rested = closed || self.rested.elapsed() >= MAX_WAIT;
        if ahead < PIECE && rested {
            self.rested = Instant::now();
            if ahead == 0 {
                self.cursor = 0;
                return None;
            }
        } else if ahead < PIECE {
            return None;
        }
        let at = if unwritten.is_some() {
            first_unwritten(&self.file, self.cursor, size)
        } else {
            self.cursor
        };
        let begin = Instant::now();
        // Write errors are reported to the command by its own fsync or close; here the piece is just not retried.
        let _ = write_back(&self.file, at, PIECE);
        // The last page may still grow.
        self.cursor = (at + PIECE).min(size & !4095).max(self.cursor);
        Some(begin.elapsed())
    }
}

/// Whether these are the metadata of the regular file `id`.
fn is_regular(metadata: &fs::Metadata, id: FileId) -> bool {
    metadata.is_file() && file_id(metadata) == Some(id)
}

/// An offset shortly before the first unwritten byte after `from`, found by bisection: written pages cost nothing.
fn first_unwritten(file: &File, from: u64, size: u64) -> u64 {
    let mut at = from;
    let mut length = size.saturating_sub(from);
    while length > PIECE {
        let half = length.div_ceil(2);
        if unwritten_bytes(file, at, half).is_ok_and(|n| n == 0) {
            at += half;
            length -= half;
        } else {
            length = half;
        }
    }
    at
}

fn work(shared: &(Mutex<Shared>, Condvar)) {
    let mut files: HashMap<FileId, Tracked> = HashMap::new();
    loop {
        let (open, share) = {
            let mut s = locked(&shared.0);
            s.unwritten = files.values().map(|f| f.unwritten).sum();
            s.looked = Instant::now();
            if s.ended {
                return;
            }
            let Some(share) = s.share else {
                files.clear();
                drop(wait(shared, s, Duration::from_secs(3600)));
                continue;
            };
            (s.open.clone(), share)
        };
        for (id, path) in &open {
            if !files.contains_key(id)
                && let Some(file) = Tracked::open(*id, path)
            {
                files.insert(*id, file);
            }
        }
        let begin = Instant::now();
        let worked: Duration = files
            .iter_mut()
            .filter_map(|(id, f)| f.step(!open.contains_key(id)))
            .sum();
        let looked = begin.elapsed().saturating_sub(worked);
        // A file that the command has closed is dropped once it is written.
        files.retain(|id, f| open.contains_key(id) || f.unwritten > 0);
        let pause = if worked.is_zero() {
            LOOK
        } else {
            worked.mul_f64((1.0 / share.max(1e-3) - 1.0).max(0.0))
        };
        drop(wait(
            shared,
            locked(&shared.0),
            pause.max(looked * LOOKS_REST).min(STALE / 2),
        ));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::os::fd::AsRawFd as _;

    /// A file on a disk, or `None` where pages cannot be counted.
    fn file() -> Option<File> {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        match unwritten_bytes(&file, 0, 0) {
            Ok(_) => Some(file),
            Err(e) => {
                eprintln!("SKIP: cachestat: {e}");
                None
            }
        }
    }

    #[test]
    fn the_first_unwritten_piece_of_a_large_sparse_file_is_found() {
        let Some(mut file) = file() else { return };
        let far = 700 << 20;
        let size = 1 << 30;
        file.set_len(size).unwrap();
        file.seek(SeekFrom::Start(far)).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        if unwritten_bytes(&file, 0, 0).unwrap() == 0 {
            // The kernel was faster.
            return;
        }
        let at = first_unwritten(&file, 0, size);
        assert!(at <= far && far < at + PIECE, "{at}");
    }

    #[test]
    fn files_are_written_back_only_while_the_command_is_held() {
        let Some(mut file) = file() else { return };
        file.write_all(&vec![3; 8 << 20]).unwrap();
        let id = file_id(&file.metadata().unwrap()).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let pacer = Pacer::start();
        pacer.set_files([(id, path)].into());
        pacer.set_share(Some(0.9));
        let begin = Instant::now();
        while unwritten_bytes(&file, 0, 0).unwrap() > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "not written");
            std::thread::sleep(Duration::from_millis(5));
        }
        pacer.set_share(None);
        assert!(!pacer.is_behind());
    }

    #[test]
    fn a_descriptor_that_now_is_another_file_is_left_alone() {
        let Some(file) = file() else { return };
        let other = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let id = file_id(&other.metadata().unwrap()).unwrap();
        assert!(
            Tracked::open(
                id,
                &PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
            )
            .is_none()
        );
    }
}
