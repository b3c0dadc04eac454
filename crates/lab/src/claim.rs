//! Claims a block device that the user allows a test to overwrite: checks it, and holds it exclusively so that it
//! cannot be mounted.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use iolens_core::model::DevId;
use iolens_observe::topology::{Mount, MountTable};
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
/// It is not a block device; or it or a part of it is mounted, used as swap, or held by another device, loop or
/// process.
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
    if let Some(point) = mount_point_of(&sys, number)? {
        return refuse(path, &format!("is mounted on {point}"));
    }
    if let Some(holder) = first_holder(&sys) {
        return refuse(path, &format!("is in use by {holder}"));
    }
    if let Some(user) = loop_over(path) {
        return refuse(path, &format!("is in use by {user}"));
    }
    // The kernel grants this only once, and not for a device that is mounted, used as swap, or part of another
    // device.
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
fn mount_point_of(sys: &Path, number: u64) -> io::Result<Option<String>> {
    let mut numbers = vec![dev_id(number)];
    for entry in fs::read_dir(sys).into_iter().flatten().flatten() {
        if entry.path().join("partition").exists() {
            let text = fs::read_to_string(entry.path().join("dev"));
            numbers.extend(text.ok().and_then(|t| t.trim().parse::<DevId>().ok()));
        }
    }
    let table = MountTable::read(Path::new("/"))?;
    let mount = table.mounts().iter().find(|m| shows_any(m, &numbers));
    Ok(mount.map(|m| m.point.display().to_string()))
}

/// Whether the mount is of one of the devices.
fn shows_any(mount: &Mount, numbers: &[DevId]) -> bool {
    if numbers.contains(&mount.dev) {
        return true;
    }
    // btrfs and others show an anonymous device number; then the source of the mount is the device node.
    let source = Path::new(&mount.source);
    source.is_absolute() && fs::metadata(source).is_ok_and(|m| numbers.contains(&dev_id(m.rdev())))
}

fn dev_id(number: u64) -> DevId {
    DevId::new(rustix::fs::major(number), rustix::fs::minor(number))
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

/// A loop device on this device, which holds no exclusive claim.
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
    fn a_mount_is_recognised_by_its_number_or_by_its_source() {
        let table = MountTable::parse(
            b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
              30 22 8:17 / /with\\040blank rw - xfs /dev/sdb1 rw\n\
              31 22 0:50 / /anonymous rw - btrfs /dev/null rw\n\
              32 22 0:51 / /none rw - tmpfs null rw\n",
        );
        let found = |number: DevId| {
            let mount = table.mounts().iter().find(|m| shows_any(m, &[number]));
            mount.map(|m| m.point.display().to_string())
        };
        let node = fs::metadata("/dev/null").expect("there").rdev();
        assert_eq!(found(DevId::new(8, 17)).as_deref(), Some("/with blank"));
        assert_eq!(found(dev_id(node)).as_deref(), Some("/anonymous"));
        assert_eq!(found(DevId::new(8, 33)), None);
    }

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
