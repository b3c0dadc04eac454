//! Block devices under `ROOT/sys/block`: identity, limits, partitions and stacking.

use std::fs;
use std::path::{Path, PathBuf};

use iolens_core::model::{DevId, Device, DeviceKind, Raid};

use super::mountpath::Resolver;

/// The block devices of a machine, read from sysfs.
#[derive(Debug, Clone)]
pub struct Topology {
    root: PathBuf,
    block_dir: PathBuf,
    partitions: PathBuf,
    sizes: Vec<u8>,
    skipped: u32,
    /// Disk numbers from another source, which sysfs and procfs do not show.
    learned: Vec<(String, DevId)>,
    devices: Vec<Device>,
}

/// Number of times that [`Topology::refresh_if_changed`] may skip a full reading.
const MAX_SKIPPED: u32 = 29;

/// The result of looking up a device name given by the user.
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
            root: root.to_owned(),
            block_dir: root.join("sys/block"),
            sizes: fs::read(&partitions).unwrap_or_default(),
            partitions,
            skipped: 0,
            learned: Vec::new(),
            devices: Vec::new(),
        };
        topology.refresh()?;
        Ok(topology)
    }

    /// Reads all devices again. Returns whether a device was added or removed, or changed its size or the disks below
    /// it.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn refresh(&mut self) -> std::io::Result<bool> {
        let mut names: Vec<String> = fs::read_dir(&self.block_dir)?
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort();
        let hidden = self.hidden_paths(&names);
        let mut devices: Vec<Device> = names
            .iter()
            .filter_map(|name| read_device(&self.block_dir, name, &hidden, &self.devices))
            .collect();
        self.resolve_files(&mut devices);
        put_paths_under_heads(&mut devices);
        // A device-mapper device may have been replaced under its number. It is then another device, on other disks.
        let before = self.devices.iter().map(identity);
        let changed = devices.iter().map(identity).ne(before);
        self.devices = devices;
        Ok(changed)
    }

    /// Hidden paths of NVMe multipath: disks without a device node, and so without `dev`. Since Linux 5.17 the kernel
    /// prints their numbers with their counters (before, 0:0: see [`Topology::learn_numbers`]).
    fn hidden_paths(&self, names: &[String]) -> Vec<(String, DevId)> {
        let paths = names.iter().filter(|name| head_of_path(name).is_some());
        let hidden: Vec<&String> = paths
            .filter(|name| !self.block_dir.join(name).join("dev").exists())
            .collect();
        if hidden.is_empty() {
            return Vec::new();
        }
        let counters = fs::read_to_string(self.root.join("proc/diskstats")).unwrap_or_default();
        let printed = counters.lines().filter_map(name_and_number);
        let learned = self.learned.iter().cloned();
        printed
            .chain(learned)
            .filter(|(name, _)| hidden.contains(&name))
            .collect()
    }

    /// Sets the numbers of disks for which the kernel shows none, from another source. Returns whether they changed;
    /// the next [`Topology::refresh_if_changed`] then reads everything.
    pub fn learn_numbers(&mut self, mut numbers: Vec<(String, DevId)>) -> bool {
        numbers.sort();
        if self.learned == numbers {
            return false;
        }
        self.learned = numbers;
        self.skipped = MAX_SKIPPED;
        true
    }

    /// Adds the disks below loop devices, which sysfs does not list: those of their backing files.
    fn resolve_files(&self, devices: &mut [Device]) {
        let mut loops = devices.iter_mut().filter(|d| is_loop(d)).peekable();
        if loops.peek().is_none() {
            return;
        }
        // Without a mount table loop devices have no disk, like those on a file in memory.
        let Ok(resolver) = Resolver::read(&self.root) else {
            return;
        };
        for device in loops {
            device.slaves = resolver.below(device.id);
        }
    }

    /// Like [`Topology::refresh`], but while `/proc/partitions` (devices with their sizes) is unchanged, it reads all
    /// devices only every thirtieth time. On an idle machine a full reading costs more than the rest of a recorder.
    ///
    /// # Errors
    /// As [`Topology::refresh`].
    pub fn refresh_if_changed(&mut self) -> std::io::Result<bool> {
        let sizes = fs::read(&self.partitions).unwrap_or_default();
        if !sizes.is_empty() && sizes == self.sizes && self.skipped < MAX_SKIPPED {
            self.skipped += 1;
            return Ok(false);
        }
        self.sizes = sizes;
        self.skipped = 0;
        self.refresh()
    }

    /// All whole disks, ordered by name.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The device numbers under which I/Os of `disk` are recorded: its own and, for an NVMe multipath head, those of
    /// its paths.
    pub fn recorded_as(&self, disk: &Device) -> Vec<DevId> {
        let mut numbers = vec![disk.id];
        for d in &self.devices {
            if head_of_path(&d.name).is_some_and(|head| head == disk.name) {
                numbers.push(d.id);
            }
        }
        numbers
    }

    /// Finds a disk by kernel name, `/dev/NAME`, a symbolic link to it, or `MAJ:MIN`.
    pub fn find(&self, word: &str) -> Lookup<'_> {
        let resolved = fs::canonicalize(word).ok();
        let name = match &resolved {
            Some(path) if path.starts_with("/dev") => {
                path.file_name().and_then(|n| n.to_str()).unwrap_or(word)
            }
            _ => word.strip_prefix("/dev/").unwrap_or(word),
        };
        for d in &self.devices {
            if d.name == name || d.id.to_string() == word {
                return Lookup::Disk(d);
            }
            if d.partitions
                .iter()
                .any(|(p, id)| p == name || id.to_string() == word)
            {
                return Lookup::PartitionOf(d);
            }
        }
        Lookup::Unknown
    }
}

/// The properties by which a device is recognised when it is read again.
fn identity(d: &Device) -> (&str, DevId, Option<u64>, &[String]) {
    (&d.name, d.id, d.size_bytes, &d.slaves)
}

fn is_loop(d: &Device) -> bool {
    let id = d.stable_id.as_deref();
    id.is_some_and(|id| id.starts_with("loop:"))
}

/// Parses a line of `/proc/diskstats`; `None` if it has no number (major 0).
fn name_and_number(line: &str) -> Option<(String, DevId)> {
    let mut fields = line.split_whitespace();
    let major = fields.next()?;
    let minor = fields.next()?;
    let name = fields.next()?;
    let id: DevId = format!("{major}:{minor}").parse().ok()?;
    (id.major() != 0).then(|| (name.to_owned(), id))
}

pub(super) fn text(path: &Path) -> Option<String> {
    let s = fs::read_to_string(path).ok()?;
    let s = s.trim();
    (!s.is_empty()).then(|| s.to_owned())
}

pub(super) fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

pub(super) fn dev_id(path: &Path) -> Option<DevId> {
    number(path)
}

pub(super) fn sorted_names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The head `nvme0n2` of a path such as `nvme0c1n2`.
fn head_of_path(name: &str) -> Option<String> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let are_numbers = [subsystem, controller, namespace]
        .iter()
        .all(|n| n.parse::<u32>().is_ok());
    are_numbers.then(|| format!("nvme{subsystem}n{namespace}"))
}

/// Adds the paths below NVMe multipath heads, by their names, because sysfs does not list them there.
fn put_paths_under_heads(devices: &mut [Device]) {
    let paths: Vec<(String, String)> = devices
        .iter()
        .filter_map(|d| head_of_path(&d.name).map(|head| (head, d.name.clone())))
        .collect();
    for (head, path) in paths {
        let head = devices
            .iter_mut()
            .find(|d| d.name == head && !d.slaves.contains(&path));
        head.into_iter().for_each(|h| h.slaves.push(path.clone()));
    }
}

/// Reads one device. `known` are the devices as read before.
fn read_device(
    block_dir: &Path,
    name: &str,
    hidden: &[(String, DevId)],
    known: &[Device],
) -> Option<Device> {
    let dir = block_dir.join(name);
    let queue = dir.join("queue");
    let id = match dev_id(&dir.join("dev")) {
        Some(id) => id,
        None => hidden.iter().find(|(h, _)| h == name)?.1,
    };
    let mut d = Device::named(name.replace('!', "/"), id);
    // A blk-mq disk has a directory `mq` (its hardware queues). A bio-based device has no requests and no such
    // directory.
    d.kind = if dir.join("mq").is_dir() {
        DeviceKind::Request
    } else {
        DeviceKind::Bio
    };
    d.size_bytes = number::<u64>(&dir.join("size")).map(|sectors| sectors * 512);
    // Reuse the serial number: each reading of a virtio disk's is a request to the device.
    let same = known
        .iter()
        .find(|k| (&k.name, k.id, k.size_bytes) == (&d.name, d.id, d.size_bytes));
    let serial = same
        .and_then(|k| k.stable_id.clone())
        .filter(|s| s.starts_with("serial:"));
    d.stable_id = serial.or_else(|| stable_id(&dir));
    d.model = text(&dir.join("device/model"));
    d.rotational = number::<u8>(&queue.join("rotational")).map(|v| v != 0);
    d.logical_block_bytes = number(&queue.join("logical_block_size"));
    d.max_request_bytes = number::<u64>(&queue.join("max_sectors_kb")).map(|kib| kib * 1024);
    d.nr_requests = number(&queue.join("nr_requests"));
    d.scheduler = text(&queue.join("scheduler")).map(|s| active_scheduler(&s));
    d.iostats = number::<u8>(&queue.join("iostats")).map(|v| v != 0);
    d.slaves = sorted_names(&dir.join("slaves"));
    d.raid = raid(&dir.join("md"));
    d.partitions = sorted_names(&dir)
        .into_iter()
        .filter(|p| dir.join(p).join("partition").is_file())
        .filter_map(|p| dev_id(&dir.join(&p).join("dev")).map(|id| (p, id)))
        .collect();
    Some(d)
}

/// `None` if it is not an md array, or not running.
fn raid(md: &Path) -> Option<Raid> {
    let level = text(&md.join("level"))?;
    let chunk_bytes = number(&md.join("chunk_size")).unwrap_or(0);
    let layout = number(&md.join("layout")).unwrap_or(0);
    Some(Raid {
        level,
        disks: number(&md.join("raid_disks"))?,
        chunk_bytes,
        layout,
    })
}

/// `none [mq-deadline] kyber` -> `mq-deadline`.
pub(super) fn active_scheduler(s: &str) -> String {
    match (s.find('['), s.find(']')) {
        (Some(a), Some(b)) if a < b => s[a + 1..b].to_owned(),
        _ => s.to_owned(),
    }
}

/// The first available name that survives a reboot: wwid, serial, dm or md identity, or a loop device's file.
fn stable_id(dir: &Path) -> Option<String> {
    let files = [
        ("wwid", "wwid"),
        ("wwid", "device/wwid"),
        ("dm", "dm/name"),
        ("md", "md/uuid"),
        ("serial", "serial"),
        ("serial", "device/serial"),
        ("loop", "loop/backing_file"),
    ];
    for (tag, file) in files {
        if let Some(name) = text(&dir.join(file)) {
            return Some(format!("{tag}:{name}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use iolens_core::model::layers_above;

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
        let Lookup::Disk(sda) = t.find("sda") else {
            panic!("sda not found")
        };
        assert_eq!(sda.kind, DeviceKind::Request);
        assert_eq!(sda.size_bytes, Some(1 << 20));
        assert_eq!(sda.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(sda.stable_id.as_deref(), Some("wwid:naa.5000"));
        let Lookup::Disk(dm) = t.find("253:0") else {
            panic!("dm-0 not found by number")
        };
        assert_eq!(
            (dm.kind, dm.slaves.as_slice()),
            (DeviceKind::Bio, &["sda".to_owned()][..])
        );
        assert_eq!(dm.raid, None);
        assert_eq!(dm.stable_id.as_deref(), Some("dm:vg-data"));
    }

    #[test]
    fn serial_numbers_are_asked_for_once() {
        let root = tempfile::tempdir().expect("temporary directory");
        let put = |file: &str, value: &str| {
            let path = root.path().join("sys/block/vda").join(file);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("mkdir");
            fs::write(path, value).expect("write");
        };
        [("dev", "254:0\n"), ("size", "2048\n"), ("serial", "one\n")]
            .iter()
            .for_each(|(file, value)| put(file, value));
        let mut t = Topology::read(root.path()).expect("readable");
        let mut serial = |value: &str| {
            put("serial", value);
            t.refresh().expect("readable");
            t.devices()[0].stable_id.clone()
        };
        assert_eq!(
            serial("two\n").as_deref(),
            Some("serial:one"),
            "it was not read again"
        );
        put("size", "4096\n");
        assert_eq!(
            serial("three\n").as_deref(),
            Some("serial:three"),
            "another disk"
        );
    }

    #[test]
    fn arrays_say_how_they_spread_their_data() {
        let root = tempfile::tempdir().expect("temporary directory");
        let md = root.path().join("sys/block/md5");
        fs::create_dir_all(md.join("md")).expect("mkdir");
        fs::write(md.join("dev"), "9:5\n").expect("write");
        for (file, value) in [
            ("level", "raid5"),
            ("raid_disks", "3"),
            ("chunk_size", "65536"),
            ("layout", "2"),
        ] {
            fs::write(md.join("md").join(file), format!("{value}\n")).expect("write");
        }
        let raid = Raid {
            level: "raid5".to_owned(),
            disks: 3,
            chunk_bytes: 65_536,
            layout: 2,
        };
        assert_eq!(
            Topology::read(root.path()).expect("readable").devices()[0].raid,
            Some(raid)
        );
        fs::write(md.join("md/level"), "\n").expect("write");
        assert_eq!(
            Topology::read(root.path()).expect("readable").devices()[0].raid,
            None,
            "it does not run"
        );
    }

    /// As before Linux 5.17, where the kernel prints their numbers as 0:0.
    #[test]
    fn a_hidden_path_gets_the_number_that_its_first_io_shows() {
        let root = tempfile::tempdir().expect("temporary directory");
        let put = |path: &str, content: &str| {
            let p = root.path().join(path);
            fs::create_dir_all(p.parent().expect("has a parent")).expect("mkdir");
            fs::write(p, content).expect("write");
        };
        put("sys/block/nvme0n1/dev", "259:1\n");
        put("sys/block/nvme0c0n1/size", "2048\n");
        put("proc/partitions", "259 1 1024 nvme0n1\n");
        put("proc/diskstats", "0 0 nvme0c0n1 1 0 8 0\n");
        let mut topology = Topology::read(root.path()).expect("readable");
        assert_eq!(topology.devices().len(), 1, "without a number");
        let path = ("nvme0c0n1".to_owned(), DevId::new(259, 0));
        assert!(topology.learn_numbers(vec![path.clone()]));
        assert!(topology.refresh_if_changed().expect("readable"));
        let Lookup::Disk(known) = topology.find("nvme0c0n1") else {
            panic!("not found")
        };
        assert_eq!(known.id, DevId::new(259, 0));
        let Lookup::Disk(head) = topology.find("nvme0n1") else {
            panic!("not found")
        };
        assert_eq!(head.slaves, ["nvme0c0n1"]);
        assert!(!topology.learn_numbers(vec![path]), "nothing new");
    }

    #[test]
    fn the_hidden_paths_of_nvme_multipath_are_named_and_lie_under_their_head() {
        let root = tree();
        let put = |path: &str, content: &str| {
            let p = root.path().join(path);
            fs::create_dir_all(p.parent().expect("has a parent")).expect("mkdir");
            fs::write(p, content).expect("write");
        };
        put("sys/block/nvme2n1/dev", "259:2\n");
        put("sys/block/nvme2n1/size", "2048\n");
        put("sys/block/nvme2c1n1/mq/0/nr_tags", "1\n");
        put("sys/block/nvme2c2n1/mq/0/nr_tags", "1\n");
        let line = |number: &str, name: &str| format!("{number} {name} 0 0 0 0 0 0 0 0 0 0 0\n");
        let lines = [
            line(" 259  1", "nvme2c1n1"),
            line(" 259  2", "nvme2n1"),
            line(" 259  3", "nvme2c2n1"),
        ];
        put("proc/diskstats", &lines.concat());
        let t = Topology::read(root.path()).expect("readable");
        let Lookup::Disk(head) = t.find("nvme2n1") else {
            panic!("no head")
        };
        assert_eq!(
            (head.kind, head.slaves.as_slice()),
            (
                DeviceKind::Bio,
                &["nvme2c1n1", "nvme2c2n1"].map(String::from)[..]
            )
        );
        let Lookup::Disk(path) = t.find("nvme2c2n1") else {
            panic!("no path")
        };
        assert_eq!(
            (path.id, path.kind),
            (DevId::new(259, 3), DeviceKind::Request)
        );
        assert_eq!(
            t.recorded_as(head),
            [2, 1, 3].map(|minor| DevId::new(259, minor))
        );
        assert_eq!(t.recorded_as(path), [path.id]);
        // As before 5.17: what has no number is not a device.
        put(
            "proc/diskstats",
            &[line("0 0", "nvme2c1n1"), line("0 0", "nvme2c2n1")].concat(),
        );
        let t = Topology::read(root.path()).expect("readable");
        assert!(matches!(t.find("nvme2c1n1"), Lookup::Unknown));
    }

    #[test]
    fn a_loop_device_is_above_the_disk_that_holds_its_file() {
        let root = tree();
        let put = |path: &str, content: &str| {
            let p = root.path().join(path);
            fs::create_dir_all(p.parent().expect("has a parent")).expect("mkdir");
            fs::write(p, content).expect("write");
        };
        for (name, id, file) in [
            ("loop0", "7:0", "/images/a.img"),
            ("loop1", "7:1", "/memory/b.img"),
        ] {
            put(&format!("sys/block/{name}/dev"), id);
            put(&format!("sys/block/{name}/loop/backing_file"), file);
            put(file.trim_start_matches('/'), "");
        }
        fs::create_dir_all(root.path().join("sys/dev/block")).expect("mkdir");
        for (id, target) in [("8:1", "sda/sda1"), ("7:0", "loop0"), ("7:1", "loop1")] {
            let link = root.path().join("sys/dev/block").join(id);
            std::os::unix::fs::symlink(format!("../../block/{target}"), link).expect("symlink");
        }
        put(
            "proc/1/mountinfo",
            "1 1 0:2 / / rw - rootfs rootfs rw\n30 1 8:1 / /images rw - ext4 /dev/sda1 rw\n\
             31 1 0:24 / /memory rw - tmpfs tmpfs rw\n",
        );
        let t = Topology::read(root.path()).expect("readable");
        let slaves = |name: &str| {
            t.devices()
                .iter()
                .find(|d| d.name == name)
                .expect("listed")
                .slaves
                .clone()
        };
        assert_eq!(
            (slaves("loop0"), slaves("loop1")),
            (vec!["sda1".to_owned()], Vec::new())
        );
        let above: Vec<_> = layers_above(t.devices(), |_| true)
            .into_iter()
            .map(|(d, _)| d.name.as_str())
            .collect();
        assert_eq!(
            above,
            ["dm-0", "loop0"],
            "one over a file in memory is the lowest that there is"
        );
    }

    #[test]
    fn partitions_are_distinguished_from_disks_and_unknown_words() {
        let root = tree();
        let t = Topology::read(root.path()).expect("readable");
        assert!(matches!(t.find("sda1"), Lookup::PartitionOf(d) if d.name == "sda"));
        assert!(matches!(t.find("8:1"), Lookup::PartitionOf(_)));
        assert_eq!(t.find("nvme9n9"), Lookup::Unknown);
        assert_eq!(t.find(""), Lookup::Unknown);
    }

    #[test]
    fn the_fast_check_sees_partition_changes_at_once() {
        let root = tree();
        fs::create_dir(root.path().join("proc")).expect("mkdir");
        let list = root.path().join("proc/partitions");
        fs::write(&list, "8 0 1024 sda\n").expect("write");
        let mut t = Topology::read(root.path()).expect("readable");
        fs::remove_dir_all(root.path().join("sys/block/sda")).expect("remove");
        assert!(
            !t.refresh_if_changed().expect("readable"),
            "no event of it yet"
        );
        fs::write(&list, "253 0 4 dm-0\n").expect("write");
        assert!(t.refresh_if_changed().expect("readable"));
        fs::remove_dir_all(root.path().join("sys/block/dm-0")).expect("remove");
        let looks = (1..=100).find(|_| t.refresh_if_changed().expect("readable"));
        assert_eq!(looks, Some(30), "seen without a hint");
    }

    #[test]
    fn hot_plug_and_size_changes_are_detected() {
        let root = tree();
        let mut t = Topology::read(root.path()).expect("readable");
        assert!(!t.refresh().expect("readable"));
        fs::write(root.path().join("sys/block/dm-0/size"), "8\n").expect("write");
        assert!(t.refresh().expect("readable"), "dm-0 can hold data now");
        fs::create_dir_all(root.path().join("sys/block/dm-0/slaves/sdb")).expect("mkdir");
        assert!(t.refresh().expect("readable"), "dm-0 is on sdb, too");
        assert!(!t.refresh().expect("readable"));
        fs::remove_dir_all(root.path().join("sys/block/sda")).expect("remove");
        assert!(t.refresh().expect("readable"), "sda is gone");
    }
}
