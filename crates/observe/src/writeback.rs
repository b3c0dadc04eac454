//! Dirty pages of a file: their amount, and write-back of a range.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use libc::{SYNC_FILE_RANGE_WAIT_AFTER, SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE};

/// cachestat(2), Linux 6.5; the number is the same on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of `include/uapi/linux/mman.h`.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Bytes of the range of `length` bytes at `offset` (length 0: to the end) of `file` that are in memory but not on disk
/// yet: dirty, or under write-back.
///
/// # Errors
/// The kernel is older than 6.5, or the file has no pages (a device, a pipe).
pub fn unwritten_bytes(file: &File, offset: u64, length: u64) -> io::Result<u64> {
    let range = Range { offset, length };
    let mut stat = Stat::default();
    // SAFETY: both pointers are to live structures of the kernel's layout; the descriptor is open while `file` is borrowed.
    let done = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut stat,
            0,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((stat.dirty + stat.writeback) * rustix::param::page_size() as u64)
}

/// Writes back the dirty pages in `length` bytes of `file` at `offset`, and waits until they are written. It writes
/// neither metadata nor flushes the device, so it makes nothing durable (sync_file_range(2)).
///
/// # Errors
/// The disk failed, or this is not a regular file.
pub fn write_back(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let length = i64::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes no pointers; the descriptor is open while `file` is borrowed.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, all) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn written_pages_are_dirty_until_written_back() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("temporary file");
        file.write_all(&vec![7; 1 << 20]).expect("written");
        let before = match unwritten_bytes(&file, 0, 0) {
            Ok(n) => n,
            Err(e) => {
                eprintln!("SKIP: cachestat: {e}");
                return;
            }
        };
        assert!(before <= 1 << 20, "{before}");
        write_back(&file, 0, 1 << 20).expect("a regular file");
        assert_eq!(unwritten_bytes(&file, 0, 0).expect("as before"), 0);
        file.write_all(&[1; 8192]).expect("written");
        assert_eq!(
            unwritten_bytes(&file, 0, 1 << 20).expect("as before"),
            0,
            "only what was asked about"
        );
        assert_eq!(unwritten_bytes(&file, 1 << 30, 0).expect("past its end"), 0);
    }

    #[test]
    fn files_without_pages_are_an_error() {
        let (read, _write) = std::io::pipe().expect("a pipe");
        let pipe = File::from(std::os::fd::OwnedFd::from(read));
        assert!(write_back(&pipe, 0, 4096).is_err());
    }
}
