//! A block device that the user gives up for a test: checked, then held exclusively so that it cannot be mounted.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The device, held exclusively until dropped.
#[derive(Debug)]
pub struct Claimed {
    /// Path of the device node.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    _held: File,
}

fn refuse<T>(path: &Path, why: &str) -> io::Result<T> {
    Err(io::Error::other(format!(
        "{}: {why}; nothing was written",
        path.display()
    )))
}

/// Claims `path` if it is a block device that is not in use.
///
/// # Errors
/// It is no block device; it or a part of it is mounted, swapped to, or held by another device, loop or process.
pub fn claim(path: &Path) -> io::Result<Claimed> {
    let meta = fs::metadata(path)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    if !meta.file_type().is_block_device() {
        return refuse(
            path,
            "is no block device, and existing files and directories are never overwritten",
        );
    }
    let number = meta.rdev();
    let sys = sys_dir(number);
    if let Some(point) = mount_point_of(&sys, number) {
        return refuse(path, &format!("is mounted on {point}"));
    }
    if let Some(holder) = first_holder(&sys) {
        return refuse(path, &format!("is in use by {holder}"));
    }
    if let Some(user) = loop_over(path) {
        return refuse(path, &format!("is in use by {user}"));
    }
    // The kernel grants this to one only: not for what is mounted, swapped to, or part of another device.
    let excl = (rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC).bits() as i32;
    let held = match OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(excl)
        .open(path)
    {
        Ok(f) => f,
        Err(e) if Errno::from_io_error(&e) == Some(Errno::BUSY) => {
            return refuse(path, "is in use (mounted, swap, or part of another device)");
        }
        Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    };
    if let Some(who) = opened_by(number) {
        return refuse(path, &format!("is open in {who}"));
    }
    let sectors: u64 = fs::read_to_string(sys.join("size"))?
        .trim()
        .parse()
        .unwrap_or(0);
    Ok(Claimed {
        path: path.canonicalize()?,
        bytes: sectors * 512,
        _held: held,
    })
}

fn sys_dir(number: u64) -> PathBuf {
    PathBuf::from(format!(
        "/sys/dev/block/{}:{}",
        rustix::fs::major(number),
        rustix::fs::minor(number)
    ))
}

/// Where the device or one of its partitions is mounted, in this process' view.
fn mount_point_of(sys: &Path, number: u64) -> Option<String> {
    let name = |n: u64| format!("{}:{}", rustix::fs::major(n), rustix::fs::minor(n));
    let mut numbers = vec![name(number)];
    for entry in fs::read_dir(sys).into_iter().flatten().flatten() {
        if entry.path().join("partition").exists() {
            numbers
                .extend(fs::read_to_string(entry.path().join("dev")).map(|t| t.trim().to_owned()));
        }
    }
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let fields = text.lines().filter_map(|l| {
        let f: Vec<&str> = l.split(' ').collect();
        Some((*f.get(2)?, *f.get(4)?, l))
    });
    // btrfs and others show an anonymous number: there the source is the device's node.
    let source = |line: &str| {
        let words = line.split(" - ").nth(1).unwrap_or_default();
        let node = words.split(' ').nth(1).unwrap_or_default();
        node.starts_with('/') && fs::metadata(node).is_ok_and(|m| numbers.contains(&name(m.rdev())))
    };
    let mut hits = fields.filter(|(n, _, line)| numbers.iter().any(|x| x == n) || source(line));
    hits.next().map(|h| h.1.replace("\\040", " "))
}

/// A device built on this one or on a partition of it.
fn first_holder(sys: &Path) -> Option<String> {
    let parts = fs::read_dir(sys)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.join("partition").exists());
    std::iter::once(sys.to_owned())
        .chain(parts)
        .find_map(|d| fs::read_dir(d.join("holders")).ok()?.flatten().next())
        .map(|e| e.file_name().to_string_lossy().into_owned())
}

/// A loop device over this device: it holds no exclusive claim.
fn loop_over(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let loops = fs::read_dir("/sys/block").ok()?.flatten();
    loops.into_iter().find_map(|e| {
        let backing = fs::read_to_string(e.path().join("loop/backing_file")).ok()?;
        (Path::new(backing.trim_end()) == real)
            .then(|| e.file_name().to_string_lossy().into_owned())
    })
}

/// Another process that has it open.
fn opened_by(number: u64) -> Option<String> {
    let own = std::process::id().to_string();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let pid = process.file_name().to_string_lossy().into_owned();
        if pid == own || !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        for fd in fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let same = fs::metadata(fd.path())
                .is_ok_and(|m| m.file_type().is_block_device() && m.rdev() == number);
            if same {
                let comm = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some(format!("process {pid} ({})", comm.trim()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_devices_are_refused_untouched() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = dir.path().join("precious");
        fs::write(&file, "do not touch").expect("writes");
        for path in [file.as_path(), dir.path(), Path::new("/dev/null")] {
            let e = claim(path).expect_err("refused");
            assert!(e.to_string().contains("no block device"), "{e}");
        }
        assert_eq!(fs::read_to_string(&file).expect("there"), "do not touch");
        assert!(
            claim(Path::new("/dev/there-is-none"))
                .expect_err("refused")
                .to_string()
                .contains("there-is-none")
        );
    }
}
