//! Paths of files and control groups, by the numbers that the BPF programs report.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iolens_core::model::{DevId, Inode};
use rustix::fs::{Mode, OFlags};

use super::handle::{self, Handle};
use super::mounts::{Mount, MountTable};

/// Interval after which the mount table is read again for an unknown mount.
const MOUNTS_AGE: Duration = Duration::from_secs(1);
/// Maximum number of mounts of a file system that are tried for a file.
const MAX_MOUNTS: usize = 8;
/// Maximum number of a process's descriptors that are searched for a file.
const MAX_DESCRIPTORS: usize = 256;

/// Looks up paths. It caches only the list of mounts; the caller caches paths.
///
/// A file is opened by its inode number and generation, without read access (`O_PATH`), through a mount of its file
/// system. The path is taken from the kernel (`/proc/self/fd`) and is accepted only if it leads back to the same file.
/// If the generation is not known, ext2, ext3, ext4 and f2fs accept the number alone, xfs reports the generation, and
/// btrfs accepts none on newer kernels. If this fails, the descriptors of the process that did the I/O are searched.
/// Mounts are held open only during a lookup (some ten microseconds), so they can be unmounted.
#[derive(Debug, Default)]
pub struct PathLookup {
    mounts: MountTable,
    read: Option<Instant>,
}

impl PathLookup {
    /// Reads nothing until the first lookup.
    pub fn new() -> PathLookup {
        PathLookup::default()
    }

    /// The path of `inode`, as this process sees it; for a file that was removed and is still open its last path
    /// followed by ` (deleted)`. `tgid` is a process that may have it open. `None` if the path is not certain; a file
    /// with another generation does not match. Not escaped; invalid UTF-8 becomes U+FFFD.
    pub fn file(&mut self, inode: Inode, tgid: Option<i32>) -> Option<String> {
        let fs_dev = inode.fs_dev;
        self.know(|m| m.dev.0 == fs_dev);
        let mut mounts: Vec<&Mount> = self
            .mounts
            .mounts()
            .iter()
            .filter(|m| m.dev.0 == fs_dev)
            .collect();
        if ambiguous(&mounts) {
            return None;
        }
        // Stable sort: of mounts with equally high roots, the first mounted comes first.
        mounts.sort_by_key(|m| m.root.as_os_str().len());
        let by_number = mounts
            .iter()
            .take(MAX_MOUNTS)
            .find_map(|m| open_file(m, inode));
        by_number.or_else(|| self.held_by(tgid?, inode))
    }

    /// The path of a control group in the v2 hierarchy, by its id. Not escaped.
    pub fn cgroup(&mut self, id: i64) -> Option<String> {
        self.know(|m| m.fs_type == "cgroup2");
        let mount = self
            .mounts
            .mounts()
            .iter()
            .find(|m| m.fs_type == "cgroup2")?;
        let fd = open_directory(&mount.point)?;
        let group = handle::open(fd.as_fd(), Handle::Kernfs(id as u64)).ok()?;
        let path = link(&group)?;
        let inside = path.strip_prefix(&mount.point).ok()?;
        let same = fs::symlink_metadata(&path).ok()?.ino() == id as u64;
        same.then(|| text(&mount.root.join(inside)))
    }

    /// Reads the mounts again if none of them satisfies `wanted` and the list is stale.
    fn know(&mut self, wanted: impl Fn(&Mount) -> bool) {
        let fresh = self.read.is_some_and(|at| at.elapsed() < MOUNTS_AGE);
        let stale = self.read.is_none_or(|at| at.elapsed() >= 10 * MOUNTS_AGE);
        if stale || (!fresh && !self.mounts.mounts().iter().any(wanted)) {
            self.mounts = MountTable::read(Path::new("/")).unwrap_or_default();
            self.read = Some(Instant::now());
        }
    }

    /// Finds the file among the open descriptors of process `tgid`. The path is the process's own if it has other
    /// mounts.
    fn held_by(&self, tgid: i32, inode: Inode) -> Option<String> {
        let Inode {
            fs_dev,
            ino,
            generation,
        } = inode;
        let entries = fs::read_dir(format!("/proc/{tgid}/fd")).ok()?;
        let subvolumes = self
            .mounts
            .mounts()
            .iter()
            .any(|m| m.dev.0 == fs_dev && m.fs_type == "btrfs");
        for entry in entries.flatten().take(MAX_DESCRIPTORS) {
            // Follows the link to the file itself, without opening it.
            let Ok(meta) = fs::metadata(entry.path()) else {
                continue;
            };
            if i64::try_from(meta.ino()) != Ok(ino) || !meta.is_file() {
                continue;
            }
            // On btrfs, files have the device number of their subvolume, but the mount has that of the file system.
            let here = if subvolumes {
                self.mount_of(&entry.path())
            } else {
                Some(dev_of(&meta))
            };
            if here != Some(fs_dev) {
                continue;
            }
            // Read the path first: if the descriptor is closed and reopened in between, its generation differs.
            let path = fs::read_link(entry.path()).ok()?;
            if generation.is_none() || handle::generation_of(&entry.path()) == generation {
                return Some(text(&path));
            }
        }
        None
    }

    /// Device of the file system on which the descriptor behind `link` (`/proc/PID/fd/N`) is open.
    fn mount_of(&self, link: &Path) -> Option<i32> {
        let info = link
            .parent()?
            .with_file_name("fdinfo")
            .join(link.file_name()?);
        let info = fs::read_to_string(info).ok()?;
        let id: u64 = info
            .lines()
            .find_map(|l| l.strip_prefix("mnt_id:"))?
            .trim()
            .parse()
            .ok()?;
        self.mounts
            .mounts()
            .iter()
            .find(|m| m.id == id)
            .map(|m| m.dev.0)
    }
}

/// Whether a number is ambiguous: btrfs numbers inodes per subvolume, and several subvolumes may be mounted.
fn ambiguous(mounts: &[&Mount]) -> bool {
    let mut subvolumes = mounts
        .iter()
        .filter(|m| m.fs_type == "btrfs")
        .map(|m| m.subvolume());
    subvolumes
        .next()
        .is_some_and(|first| first.is_none() || subvolumes.any(|other| other != first))
}

/// Opens the file by its number through `mount`. Returns its path if that leads back to it.
fn open_file(mount: &Mount, inode: Inode) -> Option<String> {
    let fd = open_directory(&mount.point)?;
    let ino = u64::try_from(inode.ino).ok()?;
    let any = inode.generation.unwrap_or(0);
    let handle = match mount.fs_type.as_str() {
        "xfs" => {
            let generation = inode.generation;
            Handle::Xfs {
                ino,
                generation: generation.or_else(|| handle::xfs_generation(fd.as_fd(), ino))?,
            }
        }
        "btrfs" => Handle::Btrfs {
            ino,
            subvolume: mount.subvolume()?,
            generation: any,
        },
        "ext2" | "ext3" | "ext4" | "f2fs" => Handle::Inode {
            ino: u32::try_from(ino).ok()?,
            generation: any,
        },
        _ => return None,
    };
    let file = handle::open(fd.as_fd(), handle).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let dev = DevId::new(
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    )
    .0;
    if stat.st_ino != ino || (dev != inode.fs_dev && mount.fs_type != "btrfs") {
        return None;
    }
    let path = link(&file)?;
    if stat.st_nlink == 0 {
        // No name leads to the file any more. If the kernel has no name in memory either, it can only report "/".
        let named = path.as_os_str().as_bytes().strip_suffix(b" (deleted)")?;
        return named
            .strip_prefix(mount.point.as_os_str().as_bytes())
            .filter(|n| n.len() > 1)
            .map(|_| text(&path));
    }
    // The name may belong to another file by now.
    let there = fs::symlink_metadata(&path).ok()?;
    (there.ino() == ino && there.dev() == stat.st_dev).then(|| text(&path))
}

/// Opens the mount point, unless it is a file or another mount covers it.
fn open_directory(point: &Path) -> Option<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(point, flags, Mode::empty()).ok()
}

/// The kernel's path of an open file.
fn link(fd: &OwnedFd) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

fn dev_of(meta: &fs::Metadata) -> i32 {
    DevId::new(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())).0
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, subvolume: Option<u64>) -> Mount {
        Mount {
            id: 1,
            parent: 1,
            dev: DevId(1),
            root: "/".into(),
            point: "/".into(),
            options: "rw".into(),
            fs_type: kind.into(),
            source: "none".into(),
            super_options: subvolume.map_or_else(
                || "rw".into(),
                |n| format!("rw,subvolid={n},subvol=/x").into(),
            ),
        }
    }

    #[test]
    fn inode_numbers_of_several_subvolumes_are_ambiguous() {
        let a = mount("btrfs", Some(5));
        let b = mount("btrfs", Some(256));
        let none = mount("btrfs", None);
        let ext4 = mount("ext4", None);
        assert!(!ambiguous(&[]) && !ambiguous(&[&ext4, &ext4]) && !ambiguous(&[&a, &a]));
        assert!(ambiguous(&[&a, &b]) && ambiguous(&[&none]));
    }

    #[test]
    fn a_file_that_this_process_holds_is_found_among_its_descriptors() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a b\n\u{1b}[31m");
        let file = fs::File::create(&path).expect("creates");
        let meta = file.metadata().expect("stat");
        let names = PathLookup::new();
        let me = std::process::id() as i32;
        let link = std::path::PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let inode = Inode {
            fs_dev: dev_of(&meta),
            ino: meta.ino() as i64,
            generation: None,
        };
        let exact = Inode {
            generation: handle::generation_of(&link),
            ..inode
        };
        assert_eq!(names.held_by(me, inode).as_deref(), path.to_str());
        assert_eq!(names.held_by(me, exact).as_deref(), path.to_str());
        assert_eq!(
            names.held_by(
                me,
                Inode {
                    fs_dev: inode.fs_dev + 1,
                    ..inode
                }
            ),
            None
        );
        let other = exact.generation.map_or(1, |g| g.wrapping_add(1));
        assert_eq!(
            names.held_by(
                me,
                Inode {
                    generation: Some(other),
                    ..inode
                }
            ),
            None,
            "an earlier file of this number"
        );
        drop(file);
        assert_eq!(names.held_by(me, inode), None);
    }

    #[test]
    fn missing_files_have_no_name() {
        let mut names = PathLookup::new();
        let root = |fs_dev| Inode {
            fs_dev,
            ino: 2,
            generation: None,
        };
        assert_eq!(names.file(root(-1), None), None);
        assert_eq!(
            names.file(root(DevId::new(2000, 1).0), Some(i32::MAX)),
            None
        );
        assert_eq!(names.cgroup(i64::MAX), None);
    }
}
