//! Files of a recording: opening, and space on disk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Space a file takes: whole blocks of 4 KiB, as nearly every file system allocates.
pub(crate) fn allocated(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

pub(crate) const BLOCK: u64 = 4096;

/// Opens a file of a recording for reading. Anything but a regular file, such as a pipe or a device, could block a reader
/// for ever.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    File::open(path)
}

/// Reads a file of a recording that no recorder makes longer than `max` bytes.
pub(crate) fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::other(format!(
            "it is longer than {} MiB",
            max >> 20
        )));
    }
    Ok(bytes)
}

/// Total length of all files below `dir` in bytes.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let mut bytes = 0;
    for entry in entries {
        // Entries that cannot be read, usually because they were removed meanwhile, count as 0.
        match entry.and_then(|e| Ok((e.path(), e.metadata()?))) {
            Ok((path, meta)) if meta.is_dir() => bytes += bytes_below(&path),
            Ok((_, meta)) => bytes += meta.len(),
            Err(_) => {}
        }
    }
    bytes
}
