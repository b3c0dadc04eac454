//! Resolves a path to its mount, file system and disks (A22).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use iolens_core::model::DevId;

use super::mounts::{Mount, MountTable, canonical_under, join_under, split_protected};
use super::stack::{Disk, Layer, MAX_DEPTH, Walk, disks};

/// The mount and devices under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPath {
    /// The path as given.
    pub path: PathBuf,
    /// The mount it is on; `None` if the path is itself a block device.
    pub mount: Option<Mount>,
    /// The block devices directly below the file system, each with all devices below it.
    pub layers: Vec<Layer>,
    /// The disks at the bottom, without duplicates, ordered by name.
    pub disks: Vec<Disk>,
    /// The reason if there is no disk, as a sentence; otherwise `None`.
    pub no_disk: Option<String>,
}

/// Resolves paths of the machine under one root.
#[derive(Debug, Clone)]
pub struct Resolver {
    root: PathBuf,
    mounts: MountTable,
}

impl Resolver {
    /// Reads the mount table under `root` (`/` for the live machine).
    ///
    /// # Errors
    /// The mount table cannot be read.
    pub fn read(root: &Path) -> io::Result<Resolver> {
        Ok(Resolver {
            root: root.to_owned(),
            mounts: MountTable::read(root)?,
        })
    }

    /// Rereads the mount table; returns whether it has changed.
    ///
    /// # Errors
    /// The mount table cannot be read.
    pub fn refresh(&mut self) -> io::Result<bool> {
        let mounts = MountTable::read(&self.root)?;
        let changed = mounts != self.mounts;
        self.mounts = mounts;
        Ok(changed)
    }

    /// Finds the mount and the disks of `path` (a file, a directory, or a block device's node).
    ///
    /// # Errors
    /// The path does not exist or may not be looked at.
    pub fn resolve(&self, path: &Path) -> io::Result<MountPath> {
        let canonical = canonical_under(&self.root, path)?;
        let real = join_under(&self.root, &canonical);
        let meta = fs::metadata(&real)?;
        if meta.file_type().is_block_device() {
            let id = DevId::new(
                rustix::fs::major(meta.rdev()),
                rustix::fs::minor(meta.rdev()),
            );
            let layers: Vec<Layer> = self.device(id, 0).into_iter().collect();
            return Ok(self.finish(
                path,
                None,
                layers,
                format!("sysfs has no block device {id}"),
            ));
        }
        let mount = self.mount_of(&canonical, &real);
        Ok(match mount {
            Some(mount) => self.of_mount(path, mount),
            None => self.finish(
                path,
                None,
                Vec::new(),
                "the mount table does not say what it is on".into(),
            ),
        })
    }

    /// All mounted file systems on disks, each at the mount point that shows most of it, ordered by mount point.
    pub fn local(&self) -> Vec<MountPath> {
        let mut seen = HashSet::new();
        let mut mounts: Vec<&Mount> = self.mounts.mounts().iter().collect();
        // A bind mount shows only a part of a file system that is mounted as a whole elsewhere.
        mounts.sort_by_key(|m| {
            (
                m.root.components().count(),
                m.point.components().count(),
                m.point.clone(),
            )
        });
        let mut out: Vec<MountPath> = mounts
            .into_iter()
            .filter(|m| {
                self.mounts
                    .of_path(&m.point)
                    .is_some_and(|top| top.id == m.id)
            })
            .filter(|m| seen.insert(m.dev))
            .map(|m| self.of_mount(&m.point, m))
            .filter(|p| !p.disks.is_empty())
            .collect();
        out.sort_by(|a, b| a.path.cmp(&b.path));
        out
    }

    fn mount_of(&self, canonical: &Path, real: &Path) -> Option<&Mount> {
        let exact = if self.root == Path::new("/") {
            mount_id(real).and_then(|id| self.mounts.by_id(id))
        } else {
            None
        };
        exact.or_else(|| self.mounts.of_path(canonical))
    }

    fn of_mount(&self, path: &Path, mount: &Mount) -> MountPath {
        let layers = self.layers(mount, 0);
        self.finish(path, Some(mount.clone()), layers, why_none(mount))
    }

    fn finish(
        &self,
        path: &Path,
        mount: Option<Mount>,
        layers: Vec<Layer>,
        why_none: String,
    ) -> MountPath {
        let disks = disks(&self.root, &layers);
        let no_disk = disks.is_empty().then_some(why_none);
        MountPath {
            path: path.to_owned(),
            mount,
            layers,
            disks,
            no_disk,
        }
    }

    fn device(&self, id: DevId, depth: usize) -> Option<Layer> {
        self.walk(&|file, depth| self.backing(file, depth))
            .device(id, depth)
    }

    fn named(&self, name: &str, depth: usize) -> Option<Layer> {
        self.walk(&|file, depth| self.backing(file, depth))
            .named(name, depth)
    }

    fn directory(&self, sysfs: &Path, depth: usize) -> Option<Layer> {
        self.walk(&|file, depth| self.backing(file, depth))
            .directory(sysfs, depth)
    }

    /// Names of the devices directly below device `id`, partitions or disks.
    pub(super) fn below(&self, id: DevId) -> Vec<String> {
        self.device(id, 0)
            .into_iter()
            .flat_map(|d| d.below)
            .map(|d| d.name)
            .collect()
    }

    fn walk<'a>(&'a self, backing: super::stack::BackingFile<'a>) -> Walk<'a> {
        Walk {
            root: &self.root,
            backing,
        }
    }

    fn backing(&self, file: &Path, depth: usize) -> Vec<Layer> {
        // A deleted backing file is still on the disk of its directory.
        let at = canonical_under(&self.root, file).unwrap_or_else(|_| file.to_owned());
        self.mounts
            .of_path(&at)
            .map(|m| self.layers(m, depth))
            .unwrap_or_default()
    }

    /// The devices directly below a file system.
    fn layers(&self, mount: &Mount, depth: usize) -> Vec<Layer> {
        if depth >= MAX_DEPTH {
            return Vec::new();
        }
        if mount.dev.major() != 0 {
            return self.device(mount.dev, depth).into_iter().collect();
        }
        match mount.fs_type.as_str() {
            "overlay" => self.overlay(mount, depth),
            "btrfs" => self
                .btrfs(mount, depth)
                .unwrap_or_else(|| self.by_source(mount, depth)),
            "zfs" => self.zfs(mount, depth),
            _ => self.by_source(mount, depth),
        }
    }

    /// The upper and all lower directories, each with the disks of its own file system.
    fn overlay(&self, mount: &Mount, depth: usize) -> Vec<Layer> {
        let mut directories = Vec::new();
        for option in overlay_options(&mount.super_options) {
            let (key, value) = option;
            match key {
                "upperdir" | "lowerdir+" | "datadir+" => directories.push(value),
                "lowerdir" => directories.extend(split_protected(&value, b':')),
                _ => {}
            }
        }
        let mut seen = HashSet::new();
        directories
            .iter()
            .filter(|d| !d.is_empty())
            .filter_map(|d| canonical_under(&self.root, Path::new(d)).ok())
            .filter_map(|d| self.mounts.of_path(&d))
            .filter(|m| m.id != mount.id && seen.insert(m.dev))
            .flat_map(|m| self.layers(m, depth + 1))
            .collect()
    }

    /// All members of the file system, from `/sys/fs/btrfs/UUID/devices`.
    fn btrfs(&self, mount: &Mount, depth: usize) -> Option<Vec<Layer>> {
        let base = self.root.join("sys/fs/btrfs");
        let member = self.kernel_name(&mount.source)?;
        let devices = super::devices::sorted_names(&base)
            .into_iter()
            .map(|uuid| base.join(uuid).join("devices"))
            .find(|dir| fs::symlink_metadata(dir.join(&member)).is_ok())?;
        Some(
            super::devices::sorted_names(&devices)
                .iter()
                .filter_map(|name| self.directory(&devices.join(name), depth))
                .collect(),
        )
    }

    /// The members of a zfs pool. zfs has no information in sysfs, but udev stores each member's label.
    fn zfs(&self, mount: &Mount, depth: usize) -> Vec<Layer> {
        let source = mount.source.to_string_lossy();
        let pool = source.split('/').next().unwrap_or_default();
        let data = self.root.join("run/udev/data");
        let mut layers: Vec<Layer> = Vec::new();
        for name in super::devices::sorted_names(&data) {
            // udev names the file of block device 8:0 `b8:0`.
            let id = name.strip_prefix('b').and_then(|n| n.parse().ok());
            if let Some(id) = id
                && is_zfs_member(&data.join(&name), pool)
            {
                layers.extend(self.device(id, depth));
            }
        }
        // udev labels a whole disk and its partition alike; the partition is the member.
        let under: HashSet<Option<DevId>> = layers
            .iter()
            .flat_map(|l| l.below.iter().map(|b| b.id))
            .collect();
        layers.retain(|l| !under.contains(&l.id));
        layers
    }

    /// A file system without a device number of its own that was mounted from devices (bcachefs: `/dev/a:/dev/b`).
    fn by_source(&self, mount: &Mount, depth: usize) -> Vec<Layer> {
        if !mount.source.as_bytes().starts_with(b"/dev/") {
            return Vec::new();
        }
        mount
            .source
            .as_bytes()
            .split(|b| *b == b':')
            .filter_map(|s| self.kernel_name(OsStr::from_bytes(s)))
            .filter_map(|n| self.named(&n, depth))
            .collect()
    }

    /// Kernel name of a node under `/dev`: its own name, that of its link target, or that of the dm device.
    fn kernel_name(&self, source: &OsStr) -> Option<String> {
        let path = canonical_under(&self.root, Path::new(source))
            .unwrap_or_else(|_| PathBuf::from(source));
        let name = path.file_name()?.to_str()?;
        if path.parent() != Some(Path::new("/dev/mapper")) {
            return Some(name.to_owned());
        }
        let block = self.root.join("sys/block");
        super::devices::sorted_names(&block)
            .into_iter()
            .find(|d| super::devices::text(&block.join(d).join("dm/name")).as_deref() == Some(name))
    }
}

/// Whether udev's file of a device marks it as a member of this zfs pool.
fn is_zfs_member(file: &Path, pool: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|l| l == "E:ID_FS_TYPE=zfs_member")
        && text
            .lines()
            .any(|l| l.strip_prefix("E:ID_FS_LABEL=") == Some(pool))
}

/// The kernel's id of the mount of an existing path (statx, Linux 5.8).
fn mount_id(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let st = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (st.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(st.stx_mnt_id)
}

/// Parses `key=value` options; a backslash protects commas in names of directories.
fn overlay_options(options: &OsStr) -> impl Iterator<Item = (&str, std::ffi::OsString)> {
    // Backslashes before colons must be kept until the list of lower directories is split, so only commas are unescaped
    // here.
    let mut out: Vec<Vec<u8>> = vec![Vec::new()];
    let bytes = options.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let last = out.len() - 1;
        match (bytes[i], bytes.get(i + 1)) {
            (b'\\', Some(b',')) => {
                out[last].push(b',');
                i += 1;
            }
            (b',', _) => out.push(Vec::new()),
            (b, _) => out[last].push(b),
        }
        i += 1;
    }
    const KEYS: [&str; 4] = ["upperdir", "lowerdir", "lowerdir+", "datadir+"];
    out.into_iter().filter_map(|option| {
        let at = option.iter().position(|b| *b == b'=')?;
        let key = KEYS.into_iter().find(|k| k.as_bytes() == &option[..at])?;
        Some((key, OsStr::from_bytes(&option[at + 1..]).to_owned()))
    })
}

fn why_none(mount: &Mount) -> String {
    let kind = &mount.fs_type;
    match kind.as_str() {
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "virtiofs" | "afs" | "glusterfs"
        | "fuse.sshfs" => {
            format!("{kind} is a network file system: its disks are another machine's")
        }
        "overlay" => "overlay: none of its layers is on a visible block device".to_owned(),
        "zfs" => "zfs: no member of the pool is known to udev here (/run/udev/data)".to_owned(),
        "btrfs" => "btrfs: its members are not under /sys/fs/btrfs here".to_owned(),
        k if k.starts_with("fuse") => {
            format!("{kind} is served by a process, not by a block device")
        }
        _ if mount.dev.major() == 0 => format!("{kind} has no block device under it"),
        _ => format!("its device {} is not in sysfs (removed?)", mount.dev),
    }
}
