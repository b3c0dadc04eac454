//! Kernel files that are read repeatedly through one descriptor.

use super::{ParsedStat, parse_stat};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Magic numbers of the kernel's virtual file systems (`statfs(2)`).
const PROC_SUPER_MAGIC: u64 = 0x9fa0;
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// A page minus an upper bound of the longest line of `/proc/diskstats` (a name of 32 bytes and 19 numbers).
const PAGE_LESS_A_RECORD: usize = 4096 - 512;

/// A file of `/proc` or `/sys` (or of a copy of them), kept open between reads.
///
/// A read is one `pread` at offset 0, which makes the kernel generate the content anew. If the device behind a
/// descriptor is gone (`ENODEV`), the file is reopened, so a device plugged again under the same name is found. On an
/// ordinary file system the file may have been replaced by another of the same name; that is detected, too.
#[derive(Debug)]
pub struct KernelFile {
    path: PathBuf,
    fd: Option<OwnedFd>,
    ordinary: bool,
}

impl KernelFile {
    /// Names the file; it is opened by the first read.
    pub fn new(path: impl Into<PathBuf>) -> KernelFile {
        KernelFile {
            path: path.into(),
            fd: None,
            ordinary: false,
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a virtual file of the kernel, not a copy. Known after a read.
    pub fn is_kernels(&self) -> bool {
        self.fd.is_some() && !self.ordinary
    }

    /// Reads the whole file into `buffer` and returns its content. `buffer` grows if the file is larger. If it is large
    /// enough and the file has at most one page, this is a single system call.
    ///
    /// # Errors
    /// Error of `open` or `pread`. The file is closed after an error.
    pub fn read<'a>(&mut self, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Errno> {
        if self.ordinary && self.replaced() {
            self.fd = None;
        }
        let n = match self.fill(buffer) {
            Err(_) if self.fd.is_some() => {
                self.fd = None;
                self.fill(buffer)
            }
            other => other,
        };
        match n {
            Ok(n) => Ok(&buffer[..n]),
            Err(e) => {
                self.fd = None;
                Err(e)
            }
        }
    }

    fn replaced(&self) -> bool {
        match &self.fd {
            Some(fd) => rustix::fs::fstat(fd).is_ok_and(|s| s.st_nlink == 0),
            None => false,
        }
    }

    fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        if self.fd.is_none() {
            self.open()?;
        }
        let Some(fd) = &self.fd else {
            return Err(Errno::BADF);
        };
        if buffer.len() < 4096 {
            buffer.resize(4096, 0);
        }
        let mut n = 0;
        loop {
            if n == buffer.len() {
                buffer.resize(buffer.len() * 2, 0);
            }
            let room = buffer.len() - n;
            let got =
                rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut buffer[n..], n as u64))?;
            n += got;
            // An ordinary file returns all it has. A `seq_file` returns whole records up to a page; if there was room
            // for one more record (372 bytes at most), the end was reached. This saves the last `pread`.
            let ended = if self.ordinary {
                got < room
            } else {
                got > 0 && got < PAGE_LESS_A_RECORD && buffer[n - 1] == b'\n'
            };
            if got == 0 || ended {
                return Ok(n);
            }
        }
    }

    fn open(&mut self) -> Result<(), Errno> {
        let fd = rustix::fs::open(&self.path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        self.ordinary = rustix::fs::fstatfs(&fd)
            .map(|s| !matches!(s.f_type as u64, PROC_SUPER_MAGIC | SYSFS_MAGIC))
            .unwrap_or(true);
        self.fd = Some(fd);
        Ok(())
    }
}

/// A `stat` file of sysfs, kept open; its text is parsed only when it has changed.
#[derive(Debug)]
pub struct StatFile {
    file: KernelFile,
    text: Vec<u8>,
    stat: ParsedStat,
}

impl StatFile {
    /// Names the file; it is opened by the first read.
    pub fn new(path: impl Into<PathBuf>) -> StatFile {
        StatFile {
            file: KernelFile::new(path),
            text: Vec::new(),
            stat: ParsedStat::default(),
        }
    }

    /// Reads and parses it; `buffer` is scratch space that many files can share.
    ///
    /// # Errors
    /// Error of reading the file.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<ParsedStat, Errno> {
        let text = self.file.read(buffer)?;
        if text != self.text {
            self.stat = parse_stat(text);
            self.text.clear();
            // Longer than any kernel's text, so not worth keeping.
            match text.len() {
                0..=1024 => self.text.extend_from_slice(text),
                // Not a kernel's text; this value makes the next read parse, whatever it returns.
                _ => self.text.push(0),
            }
        }
        Ok(self.stat)
    }
}

/// Reads a small file once.
///
/// # Errors
/// Error of `open` or `read`.
pub fn read_once(path: &Path) -> Result<Vec<u8>, Errno> {
    let mut buffer = Vec::new();
    let n = KernelFile::new(path).read(&mut buffer)?.len();
    buffer.truncate(n);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_every_change_of_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stat");
        std::fs::write(&path, "one").expect("written");
        let mut file = KernelFile::new(&path);
        let mut buffer = Vec::new();
        assert_eq!(file.read(&mut buffer), Ok(&b"one"[..]));
        std::fs::write(&path, "second").expect("written in place");
        assert_eq!(file.read(&mut buffer), Ok(&b"second"[..]));
        let other = dir.path().join("new");
        std::fs::write(&other, "third").expect("written");
        std::fs::rename(&other, &path).expect("replaced");
        assert_eq!(file.read(&mut buffer), Ok(&b"third"[..]));
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(file.read(&mut buffer), Err(Errno::NOENT));
        std::fs::write(&path, "back").expect("written");
        assert_eq!(file.read(&mut buffer), Ok(&b"back"[..]));
    }

    #[test]
    fn stat_files_reread_their_text() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stat");
        let mut file = StatFile::new(&path);
        let mut buffer = Vec::new();
        let mut reads = |text: &str| {
            std::fs::write(&path, text).expect("written");
            file.read(&mut buffer)
                .map(|s| (s.fields, s.counters.read.ios))
        };
        assert_eq!(reads(""), Ok((0, 0)));
        assert_eq!(reads("1 2 3 4 5 6 7 8 9 10 11\n"), Ok((11, 1)));
        assert_eq!(reads("1 2 3 4 5 6 7 8 9 10 11\n"), Ok((11, 1)));
        assert_eq!(reads("2 2 3 4 5 6 7 8 9 10 11\n"), Ok((11, 2)));
        let long = format!("3 2 3 4 5 6 7 8 9 10 11{}", " ".repeat(2000));
        assert_eq!(
            (reads(&long), reads(&long), reads("")),
            (Ok((11, 3)), Ok((11, 3)), Ok((0, 0)))
        );
    }

    #[test]
    fn large_files_are_read_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("large");
        let text = "0123456789".repeat(5000);
        std::fs::write(&path, &text).expect("written");
        assert_eq!(read_once(&path).expect("read"), text.as_bytes());
    }

    #[test]
    fn a_directory_is_an_error() {
        assert!(read_once(Path::new("/proc")).is_err());
    }
}
