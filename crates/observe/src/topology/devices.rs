//! Block devices under `ROOT/sys/block`: identity, limits, partitions, and what lies under what.

use std::fs;
use std::path::{Path, PathBuf};

use iolens_core::model::{DevId, Device, DeviceKind};

/// The block devices of a machine, read from sysfs.
#[derive(Debug, Clone)]
pub struct Topology {
    block_dir: PathBuf,
    partitions: PathBuf,
    sizes: Vec<u8>,
    skipped: u32,
    devices: Vec<Device>,
}

/// What a device word of a user means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// A whole disk.
    Disk(&'a Device),
    /// A partition of this disk.
    PartitionOf(&'a Device),
    /// Nothing by that name.
    Unknown,
}

impl Topology {
    /// Reads `root/sys/block`. A device that cannot be read (it may be vanishing) is left out.
    ///
    /// # Errors
    /// The directory itself cannot be listed.
    pub fn read(root: &Path) -> std::io::Result<Topology> {
        let partitions = root.join("proc/partitions");
        let mut topology = Topology {
            block_dir: root.join("sys/block"),
            sizes: fs::read(&partitions).unwrap_or_default(),
            partitions,
            skipped: 0,
            devices: Vec::new(),
        };
        topology.refresh()?;
        Ok(topology)
    }

    /// Reads everything anew and tells whether the set of devices, or whether one of them can hold data, has changed.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn refresh(&mut self) -> std::io::Result<bool> {
        let mut names: Vec<String> =
            fs::read_dir(&self.block_dir)?.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        let devices: Vec<Device> = names.iter().filter_map(|n| read_device(&self.block_dir, n)).collect();
        let key = |d: &Device| (d.name.clone(), d.id, d.size_bytes.unwrap_or(0) > 0);
        let changed = devices.iter().map(key).ne(self.devices.iter().map(key));
        self.devices = devices;
        Ok(changed)
    }

    /// Like [`Topology::refresh`], but as long as `/proc/partitions` (the devices that can hold data, with their sizes)
    /// reads as before, only every thirtieth time: looking at every device costs an idle machine more than all the
    /// rest of a recorder.
    ///
    /// # Errors
    /// As [`Topology::refresh`].
    pub fn refresh_if_changed(&mut self) -> std::io::Result<bool> {
        const MAX_SKIPPED: u32 = 29;
        let sizes = fs::read(&self.partitions).unwrap_or_default();
        if !sizes.is_empty() && sizes == self.sizes && self.skipped < MAX_SKIPPED {
            self.skipped += 1;
            return Ok(false);
        }
        self.sizes = sizes;
        self.skipped = 0;
        self.refresh()
    }

    /// All whole disks, by name.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Finds a disk by kernel name, `/dev/NAME`, a symbolic link to it, or `MAJ:MIN`.
    pub fn find(&self, word: &str) -> Lookup<'_> {
        let resolved = fs::canonicalize(word).ok();
        let name = match &resolved {
            Some(path) if path.starts_with("/dev") => path.file_name().and_then(|n| n.to_str()).unwrap_or(word),
            _ => word.strip_prefix("/dev/").unwrap_or(word),
        };
        for d in &self.devices {
            if d.name == name || d.id.to_string() == word {
                return Lookup::Disk(d);
            }
            if d.partitions.iter().any(|(p, id)| p == name || id.to_string() == word) {
                return Lookup::PartitionOf(d);
            }
        }
        Lookup::Unknown
    }
}

pub(super) fn text(path: &Path) -> Option<String> {
    let s = fs::read_to_string(path).ok()?;
    let s = s.trim();
    (!s.is_empty()).then(|| s.to_owned())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

pub(super) fn dev_id(path: &Path) -> Option<DevId> {
    number(path)
}

pub(super) fn sorted_names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn read_device(block_dir: &Path, name: &str) -> Option<Device> {
    let dir = block_dir.join(name);
    let queue = dir.join("queue");
    let mut d = Device::named(name.replace('!', "/"), dev_id(&dir.join("dev"))?);
    // A blk-mq disk has the directory `mq` (its hardware queues); a bio-based one takes no requests and has none.
    d.kind = if dir.join("mq").is_dir() { DeviceKind::Request } else { DeviceKind::Bio };
    d.stable_id = stable_id(&dir);
    d.model = text(&dir.join("device/model"));
    d.size_bytes = number::<u64>(&dir.join("size")).map(|sectors| sectors * 512);
    d.rotational = number::<u8>(&queue.join("rotational")).map(|v| v != 0);
    d.logical_block_bytes = number(&queue.join("logical_block_size"));
    d.max_request_bytes = number::<u64>(&queue.join("max_sectors_kb")).map(|kib| kib * 1024);
    d.nr_requests = number(&queue.join("nr_requests"));
    d.scheduler = text(&queue.join("scheduler")).map(|s| active_scheduler(&s));
    d.iostats = number::<u8>(&queue.join("iostats")).map(|v| v != 0);
    d.slaves = sorted_names(&dir.join("slaves"));
    d.partitions = sorted_names(&dir)
        .into_iter()
        .filter(|p| dir.join(p).join("partition").is_file())
        .filter_map(|p| dev_id(&dir.join(&p).join("dev")).map(|id| (p, id)))
        .collect();
    Some(d)
}

/// `none [mq-deadline] kyber` -> `mq-deadline`.
fn active_scheduler(s: &str) -> String {
    match (s.find('['), s.find(']')) {
        (Some(a), Some(b)) if a < b => s[a + 1..b].to_owned(),
        _ => s.to_owned(),
    }
}

/// The first name that survives a reboot: wwid, serial, dm or md identity, a loop device's file.
fn stable_id(dir: &Path) -> Option<String> {
    let tagged = |tag: &str, file: &str| text(&dir.join(file)).map(|v| format!("{tag}:{v}"));
    tagged("wwid", "wwid")
        .or_else(|| tagged("wwid", "device/wwid"))
        .or_else(|| tagged("dm", "dm/name"))
        .or_else(|| tagged("md", "md/uuid"))
        .or_else(|| tagged("serial", "serial"))
        .or_else(|| tagged("serial", "device/serial"))
        .or_else(|| tagged("loop", "loop/backing_file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        let put = |path: &str, content: &str| {
            let p = root.path().join("sys/block").join(path);
            fs::create_dir_all(p.parent().expect("has a parent")).expect("mkdir");
            fs::write(p, content).expect("write");
        };
        put("sda/dev", "8:0\n");
        put("sda/size", "2048\n");
        put("sda/mq/0/nr_tags", "1\n");
        put("sda/queue/scheduler", "none [mq-deadline] kyber\n");
        put("sda/device/wwid", "naa.5000\n");
        put("sda/sda1/dev", "8:1\n");
        put("sda/sda1/partition", "1\n");
        put("dm-0/dev", "253:0\n");
        put("dm-0/size", "0\n");
        put("dm-0/dm/name", "vg-data\n");
        put("dm-0/slaves/sda/dev", "8:0\n");
        put("cciss!c0d0/dev", "104:0\n");
        put("broken/size", "1\n");
        root
    }

    #[test]
    fn devices_have_kind_identity_and_stack() {
        let root = tree();
        let t = Topology::read(root.path()).expect("readable");
        let names: Vec<_> = t.devices().iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["cciss/c0d0", "dm-0", "sda"]);
        let Lookup::Disk(sda) = t.find("sda") else { panic!("sda not found") };
        assert_eq!(sda.kind, DeviceKind::Request);
        assert_eq!(sda.size_bytes, Some(1 << 20));
        assert_eq!(sda.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(sda.stable_id.as_deref(), Some("wwid:naa.5000"));
        let Lookup::Disk(dm) = t.find("253:0") else { panic!("dm-0 not found by number") };
        assert_eq!((dm.kind, dm.slaves.as_slice()), (DeviceKind::Bio, &["sda".to_owned()][..]));
        assert_eq!(dm.stable_id.as_deref(), Some("dm:vg-data"));
    }

    #[test]
    fn partitions_are_told_from_disks_and_unknown_words() {
        let root = tree();
        let t = Topology::read(root.path()).expect("readable");
        assert!(matches!(t.find("sda1"), Lookup::PartitionOf(d) if d.name == "sda"));
        assert!(matches!(t.find("8:1"), Lookup::PartitionOf(_)));
        assert_eq!(t.find("nvme9n9"), Lookup::Unknown);
        assert_eq!(t.find(""), Lookup::Unknown);
    }

    #[test]
    fn the_cheap_look_sees_what_the_list_of_partitions_shows_and_in_the_end_all() {
        let root = tree();
        fs::create_dir(root.path().join("proc")).expect("mkdir");
        let list = root.path().join("proc/partitions");
        fs::write(&list, "8 0 1024 sda\n").expect("write");
        let mut t = Topology::read(root.path()).expect("readable");
        fs::remove_dir_all(root.path().join("sys/block/sda")).expect("remove");
        assert!(!t.refresh_if_changed().expect("readable"), "nothing told of it yet");
        fs::write(&list, "253 0 4 dm-0\n").expect("write");
        assert!(t.refresh_if_changed().expect("readable"));
        fs::remove_dir_all(root.path().join("sys/block/dm-0")).expect("remove");
        let looks = (1..=100).find(|_| t.refresh_if_changed().expect("readable"));
        assert_eq!(looks, Some(30), "seen without a hint");
    }

    #[test]
    fn a_device_that_comes_goes_or_gets_a_size_is_a_change() {
        let root = tree();
        let mut t = Topology::read(root.path()).expect("readable");
        assert!(!t.refresh().expect("readable"));
        fs::write(root.path().join("sys/block/dm-0/size"), "8\n").expect("write");
        assert!(t.refresh().expect("readable"), "dm-0 can hold data now");
        fs::remove_dir_all(root.path().join("sys/block/sda")).expect("remove");
        assert!(t.refresh().expect("readable"), "sda is gone");
    }
}
