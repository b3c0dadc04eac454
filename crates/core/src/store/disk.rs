//! Files that appear whole or not at all, and what they take of the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Space a file takes: whole blocks of 4 KiB, as nearly every file system allocates.
pub(crate) fn allocated(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

pub(crate) const BLOCK: u64 = 4096;

/// Puts `bytes` under `path`: written under a temporary name, synced, renamed; the directory is synced too. Whatever
/// fails, `path` is either what it was or what it shall be, and no temporary file stays.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let written = write_synced(temporary, bytes).and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(temporary);
        return written;
    }
    path.parent().map_or(Ok(()), sync_dir)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes created, renamed and removed names of a directory survive a power loss.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    // Other systems cannot open a directory for this, and do not need to.
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// Bytes of all files below `dir`, as long as they are.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: io::Result<fs::DirEntry>| match entry.and_then(|e| Ok((e.path(), e.metadata()?))) {
        Ok((path, meta)) if meta.is_dir() => bytes_below(&path),
        Ok((_, meta)) => meta.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}
