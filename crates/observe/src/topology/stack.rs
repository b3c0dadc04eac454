//! Devices under a device: partitions, dm (LVM, crypt, multipath), md, bcache, loop, nvme multipath, down to disks.

use std::fs;
use std::path::{Path, PathBuf};

use iolens_core::model::DevId;

use super::devices::text;

/// Maximum number of layers. A deeper tree can only be a cycle.
pub(super) const MAX_DEPTH: usize = 32;

/// A block device and the devices under it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Layer {
    /// Kernel name (`dm-0`).
    pub name: String,
    /// Device number; `None`: a hidden path of an nvme multipath disk.
    #[serde(skip)]
    pub id: Option<DevId>,
    /// Type in the terms of `lsblk`: `disk`, `part`, `lvm`, `crypt`, `mpath`, `dm`, `raid1`, `loop`, `path`, ...
    pub kind: String,
    /// User-visible name: a dm name, or the backing file of a loop device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The layers directly under it; empty for a disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Layer>,
}

/// A disk at the bottom of a stack, whose utilisation can be measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    /// Kernel name.
    pub name: String,
    /// Device number.
    pub id: DevId,
    /// Paths of its counters, under `ROOT/sys`. Several for an NVMe multipath disk if the kernel counts only its paths.
    pub stats: Vec<PathBuf>,
}

/// Function that returns the devices below the backing file of a loop device.
pub(super) type BackingFile<'a> = &'a dyn Fn(&Path, usize) -> Vec<Layer>;

/// Walks sysfs under a root.
pub(super) struct Walk<'a> {
    pub root: &'a Path,
    pub backing: BackingFile<'a>,
}

impl Walk<'_> {
    /// The device with this number and everything below it; `None` if sysfs does not have it (any more).
    pub fn device(&self, id: DevId, depth: usize) -> Option<Layer> {
        self.directory(&self.root.join("sys/dev/block").join(id.to_string()), depth)
    }

    /// The device with this kernel name, whole disks only.
    pub fn named(&self, name: &str, depth: usize) -> Option<Layer> {
        self.directory(&self.root.join("sys/class/block").join(name), depth)
            .or_else(|| self.directory(&self.root.join("sys/block").join(name), depth))
    }

    /// The device of a sysfs directory, or of a link to one.
    pub fn directory(&self, dir: &Path, depth: usize) -> Option<Layer> {
        let dir = fs::canonicalize(dir).ok()?;
        let name = dir.file_name()?.to_str()?.replace('!', "/");
        let id = super::devices::dev_id(&dir.join("dev"));
        let mut layer = Layer {
            name,
            id,
            kind: kind_of(&dir),
            label: label_of(&dir),
            below: Vec::new(),
        };
        if depth < MAX_DEPTH {
            layer.below = self.below(&dir, &layer, depth + 1);
        }
        Some(layer)
    }

    fn below(&self, dir: &Path, layer: &Layer, depth: usize) -> Vec<Layer> {
        if dir.join("partition").is_file() {
            return dir
                .parent()
                .and_then(|disk| self.directory(disk, depth))
                .into_iter()
                .collect();
        }
        let slaves = super::devices::sorted_names(&dir.join("slaves"));
        if !slaves.is_empty() {
            return slaves
                .iter()
                .filter_map(|s| self.directory(&dir.join("slaves").join(s), depth))
                .collect();
        }
        if let (true, Some(file)) = (dir.join("loop").is_dir(), &layer.label) {
            return (self.backing)(
                Path::new(file.strip_suffix(" (deleted)").unwrap_or(file)),
                depth,
            );
        }
        nvme_paths(dir, &layer.name)
    }
}

/// The hidden path devices `nvmeXcYnZ` of a multipath head `nvmeXnZ` (Linux 4.15 and newer).
fn nvme_paths(dir: &Path, head: &str) -> Vec<Layer> {
    let Some((subsystem, namespace)) = head
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('n'))
    else {
        return Vec::new();
    };
    // Both are listed in /sys/block. On a live machine the head's own directory is elsewhere (in a virtual subsystem).
    let block = dir
        .ancestors()
        .find(|a| a.ends_with("sys"))
        .map(|sys| sys.join("block"));
    let siblings = block
        .as_deref()
        .map(super::devices::sorted_names)
        .unwrap_or_default();
    siblings
        .into_iter()
        .filter(|name| is_nvme_path(name, subsystem, namespace))
        .map(|name| Layer {
            name,
            id: None,
            kind: "path".into(),
            label: None,
            below: Vec::new(),
        })
        .collect()
}

/// `nvme0c1n2` is a path to namespace 2 of subsystem 0.
fn is_nvme_path(name: &str, subsystem: &str, namespace: &str) -> bool {
    let rest = name
        .strip_prefix("nvme")
        .and_then(|r| r.strip_prefix(subsystem));
    let Some((controller, of)) = rest.and_then(|r| r.strip_prefix('c')?.split_once('n')) else {
        return false;
    };
    of == namespace && controller.bytes().all(|b| b.is_ascii_digit())
}

/// The type that `lsblk` prints (`get_type()` of util-linux).
fn kind_of(dir: &Path) -> String {
    if dir.join("partition").is_file() {
        return "part".into();
    }
    if dir.join("dm").is_dir() {
        // The UUID of a dm device begins with the subsystem that created it: LVM-, CRYPT-LUKS2-, mpath-, part1-mpath-.
        let uuid = text(&dir.join("dm/uuid"));
        let prefix = uuid.and_then(|u| u.split_once('-').map(|(p, _)| p.to_ascii_lowercase()));
        return match prefix {
            Some(p) if p.starts_with("part") => "part".into(),
            Some(p) if !p.is_empty() => p,
            _ => "dm".into(),
        };
    }
    if dir.join("md").is_dir() {
        return text(&dir.join("md/level")).unwrap_or_else(|| "md".into());
    }
    match dir.file_name().and_then(|n| n.to_str()) {
        Some(n) if n.starts_with("loop") => "loop".into(),
        _ if text(&dir.join("device/type")).as_deref() == Some("5") => "rom".into(),
        _ => "disk".into(),
    }
}

fn label_of(dir: &Path) -> Option<String> {
    text(&dir.join("dm/name")).or_else(|| text(&dir.join("loop/backing_file")))
}

/// The disks at the bottom of `layers`, without duplicates, ordered by name.
///
/// A loop device whose file is on no disk (tmpfs, FUSE) counts as a disk itself. An NVMe multipath head is one disk,
/// whatever the number of its paths.
pub(super) fn disks(root: &Path, layers: &[Layer]) -> Vec<Disk> {
    let mut out = Vec::new();
    layers.iter().for_each(|l| collect(root, l, &mut out));
    out.sort();
    out.dedup();
    out
}

fn stat_file(root: &Path, name: &str) -> PathBuf {
    let directory = root.join("sys/block").join(name.replace('/', "!"));
    directory.join("stat")
}

fn collect(root: &Path, layer: &Layer, out: &mut Vec<Disk>) {
    let paths: Vec<&str> = layer
        .below
        .iter()
        .filter(|b| b.kind == "path")
        .map(|b| b.name.as_str())
        .collect();
    if paths.len() < layer.below.len() {
        return layer.below.iter().for_each(|l| collect(root, l, out));
    }
    let Some(id) = layer.id else { return };
    let own = stat_file(root, &layer.name);
    // Before d4d957b53d91 (Linux 6.1) the head of an NVMe multipath disk had no counters.
    let stats = if !paths.is_empty() && !has_counted(&own) {
        paths
            .into_iter()
            .map(|path| stat_file(root, path))
            .collect()
    } else {
        vec![own]
    };
    out.push(Disk {
        name: layer.name.clone(),
        id,
        stats,
    });
}

fn has_counted(stat: &Path) -> bool {
    fs::read_to_string(stat).is_ok_and(|s| s.split_whitespace().any(|n| n != "0"))
}
