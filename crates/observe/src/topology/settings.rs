//! Reads the machine's settings that concern disks: queues, mounts, write-back, btrfs.

use std::fs;
use std::path::Path;

use iolens_core::model::{
    BtrfsSettings, DevId, Device, MountSettings, QueueSettings, Settings, WritebackSettings,
};

use super::cgroups::Cgroups;
use super::devices::{active_scheduler, dev_id, number, sorted_names, text};
use super::mountpath::{MountPath, Resolver};
use super::stack::Layer;

/// Maximum number of mounts; further ones are left out.
const MAX_MOUNTS: usize = 256;

/// Reads the settings of `devices` under `root` (`/` for the live machine). Each value is independent: one that cannot
/// be read is unknown.
pub fn read_settings(root: &Path, devices: &[Device]) -> Settings {
    let cgroups = Cgroups::find(root);
    let mut queues = Vec::new();
    for device in devices.iter().filter(|d| d.removed_ns.is_none()) {
        let mut queue = read_queue(root, device);
        queue.iocost_qos = cgroups.line_of_root("io.cost.qos", device.id);
        queue.iocost_model = cgroups.line_of_root("io.cost.model", device.id);
        queues.push(queue);
    }
    Settings {
        cpus: text(&root.join("sys/devices/system/cpu/online")).and_then(|list| cpus_of(&list)),
        io_controller: cgroups.io_controller(),
        writeback: read_writeback(root),
        queues,
        mounts: read_mounts(root, devices),
        btrfs: read_btrfs(root, devices),
    }
}

/// Number of CPUs in a list such as `0-3,8`.
fn cpus_of(list: &str) -> Option<u32> {
    let mut cpus = 0;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.parse().ok()?;
        let last: u32 = last.parse().ok()?;
        cpus += last.checked_sub(first)? + 1;
    }
    Some(cpus)
}

fn read_writeback(root: &Path) -> WritebackSettings {
    let vm = root.join("proc/sys/vm");
    let vmstat = fs::read_to_string(root.join("proc/vmstat")).unwrap_or_default();
    WritebackSettings {
        dirty_ratio: number(&vm.join("dirty_ratio")),
        dirty_bytes: number(&vm.join("dirty_bytes")),
        dirty_background_ratio: number(&vm.join("dirty_background_ratio")),
        dirty_background_bytes: number(&vm.join("dirty_background_bytes")),
        dirty_expire_centisecs: number(&vm.join("dirty_expire_centisecs")),
        dirty_writeback_centisecs: number(&vm.join("dirty_writeback_centisecs")),
        dirty_threshold_bytes: threshold_bytes(&vmstat, "nr_dirty_threshold"),
        dirty_background_threshold_bytes: threshold_bytes(&vmstat, "nr_dirty_background_threshold"),
    }
}

/// Converts a value of `/proc/vmstat`, which counts pages, to bytes.
fn threshold_bytes(vmstat: &str, name: &str) -> Option<u64> {
    let mut lines = vmstat.lines();
    let rest = lines.find_map(|l| l.strip_prefix(name)?.strip_prefix(' '))?;
    let pages: u64 = rest.trim().parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

fn read_queue(root: &Path, device: &Device) -> QueueSettings {
    let name = device.name.replace('/', "!");
    let queue = root.join("sys/block").join(name).join("queue");
    let read_ahead_kib: Option<u64> = number(&queue.join("read_ahead_kb"));
    let max_request_kib: Option<u64> = number(&queue.join("max_sectors_kb"));
    QueueSettings {
        dev: device.id,
        scheduler: text(&queue.join("scheduler")).map(|s| active_scheduler(&s)),
        nr_requests: number(&queue.join("nr_requests")),
        wbt_lat_us: number(&queue.join("wbt_lat_usec")),
        read_ahead_bytes: read_ahead_kib.map(|kib| kib * 1024),
        write_cache: text(&queue.join("write_cache")),
        rotational: number::<u8>(&queue.join("rotational")).map(|v| v != 0),
        rq_affinity: number(&queue.join("rq_affinity")),
        max_request_bytes: max_request_kib.map(|kib| kib * 1024),
        iocost_qos: None,
        iocost_model: None,
    }
}

fn read_mounts(root: &Path, devices: &[Device]) -> Vec<MountSettings> {
    let Ok(resolver) = Resolver::read(root) else {
        return Vec::new();
    };
    let mut mounts = Vec::new();
    for path in resolver.local() {
        let settings = mount_settings(&path, devices);
        mounts.extend(settings.filter(|m| !m.devices.is_empty()));
        if mounts.len() == MAX_MOUNTS {
            break;
        }
    }
    mounts
}

fn mount_settings(path: &MountPath, devices: &[Device]) -> Option<MountSettings> {
    let mount = path.mount.as_ref()?;
    let mut under = Vec::new();
    for layer in &path.layers {
        add_devices(layer, devices, &mut under);
    }
    let own = mount.options.to_string_lossy();
    let of_file_system = mount.super_options.to_string_lossy();
    Some(MountSettings {
        fs_dev: mount.dev,
        devices: under,
        mount_point: Some(mount.point.to_string_lossy().into_owned()),
        source: Some(mount.source.to_string_lossy().into_owned()),
        fs_type: Some(mount.fs_type.clone()),
        options: Some(joined_options(&own, &of_file_system)),
    })
}

/// Joins both option lists, without duplicates.
fn joined_options(own: &str, of_file_system: &str) -> String {
    let mut options: Vec<&str> = Vec::new();
    for option in own.split(',').chain(of_file_system.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

/// Adds the numbers of `layer` and of all devices below it, if they are recorded.
fn add_devices(layer: &Layer, devices: &[Device], under: &mut Vec<DevId>) {
    let recorded = layer.id.filter(|id| devices.iter().any(|d| d.id == *id));
    if let Some(id) = recorded
        && !under.contains(&id)
    {
        under.push(id);
    }
    for below in &layer.below {
        add_devices(below, devices, under);
    }
}

fn read_btrfs(root: &Path, devices: &[Device]) -> Vec<BtrfsSettings> {
    let base = root.join("sys/fs/btrfs");
    let mut all = Vec::new();
    for uuid in sorted_names(&base) {
        let dir = base.join(&uuid);
        let mut members: Vec<DevId> = Vec::new();
        for name in sorted_names(&dir.join("devices")) {
            let disk = disk_of(&dir.join("devices").join(name));
            members.extend(disk.filter(|id| !members.contains(id)));
        }
        // A btrfs without recorded devices is left out. Of any other, all devices are listed.
        if !members.iter().any(|m| devices.iter().any(|d| d.id == *m)) {
            continue;
        }
        all.push(BtrfsSettings {
            label: text(&dir.join("label")),
            devices: members,
            data_profile: profile(&dir.join("allocation/data")),
            metadata_profile: profile(&dir.join("allocation/metadata")),
            uuid,
        });
    }
    all
}

/// The whole disk of a sysfs directory, which is that of a disk or a partition.
fn disk_of(device: &Path) -> Option<DevId> {
    let dir = fs::canonicalize(device).ok()?;
    if dir.join("partition").is_file() {
        return dev_id(&dir.parent()?.join("dev"));
    }
    dev_id(&dir.join("dev"))
}

/// The allocation profile in use: the kernel has a directory for each. During a conversion there are several.
fn profile(allocation: &Path) -> Option<String> {
    let mut profiles = sorted_names(allocation);
    profiles.retain(|name| allocation.join(name).is_dir());
    (!profiles.is_empty()).then(|| profiles.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tree;

    fn link(root: &Path, target: &str, path: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it has a parent")).expect("mkdir");
        std::os::unix::fs::symlink(root.join(target), path).expect("symlink");
    }

    #[test]
    fn queues_mounts_and_writeback_are_read_with_their_units() {
        let root = tree(&[
            ("sys/devices/system/cpu/online", "0-2,8\n"),
            ("sys/block/sda/dev", "8:0\n"),
            ("sys/block/sda/queue/scheduler", "none [mq-deadline]\n"),
            ("sys/block/sda/queue/nr_requests", "64\n"),
            ("sys/block/sda/queue/wbt_lat_usec", "75000\n"),
            ("sys/block/sda/queue/read_ahead_kb", "128\n"),
            ("sys/block/sda/queue/write_cache", "write back\n"),
            ("sys/block/sda/queue/rotational", "1\n"),
            ("sys/block/sda/queue/rq_affinity", "2\n"),
            ("sys/block/sda/queue/max_sectors_kb", "1280\n"),
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/sda/sda1/dev", "8:1\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/vmstat", "nr_dirty 3\nnr_dirty_threshold 1000\n"),
            (
                "proc/1/mountinfo",
                "30 1 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw,data=ordered\n",
            ),
        ]);
        link(root.path(), "sys/block/sda/sda1", "sys/dev/block/8:1");
        let sda = DevId::new(8, 0);
        let settings = read_settings(root.path(), &[Device::named("sda", sda)]);
        assert_eq!(settings.cpus, Some(4));
        assert_eq!(settings.writeback.dirty_ratio, Some(20));
        assert_eq!(settings.writeback.dirty_bytes, Some(0));
        assert_eq!(settings.writeback.dirty_expire_centisecs, None);
        let page_bytes = rustix::param::page_size() as u64;
        assert_eq!(
            settings.writeback.dirty_threshold_bytes,
            Some(1000 * page_bytes)
        );
        let queue = settings.queue(sda).expect("it is recorded");
        assert_eq!(queue.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(queue.wbt_lat_us, Some(75_000));
        assert_eq!(queue.read_ahead_bytes, Some(128 * 1024));
        assert_eq!(queue.write_cache.as_deref(), Some("write back"));
        assert_eq!((queue.rotational, queue.rq_affinity), (Some(true), Some(2)));
        assert_eq!(queue.max_request_bytes, Some(1280 * 1024));
        let mount = settings.mounts_on(sda).next().expect("it is mounted");
        assert_eq!(mount.fs_dev, DevId::new(8, 1));
        assert_eq!(mount.mount_point.as_deref(), Some("/"));
        assert_eq!(mount.options.as_deref(), Some("rw,noatime,data=ordered"));
        let other = [Device::named("sdb", DevId::new(8, 16))];
        assert!(read_settings(root.path(), &other).mounts.is_empty());
    }

    #[test]
    fn a_btrfs_on_two_devices_is_one_group() {
        let root = tree(&[
            ("sys/block/sdb/dev", "8:16\n"),
            ("sys/block/sdc/dev", "8:32\n"),
            ("sys/block/sdc/sdc1/dev", "8:33\n"),
            ("sys/block/sdc/sdc1/partition", "1\n"),
            ("sys/fs/btrfs/features/raid56", "0\n"),
            ("sys/fs/btrfs/abcd/label", "pool\n"),
            ("sys/fs/btrfs/abcd/allocation/data/raid1/used_bytes", "1\n"),
            ("sys/fs/btrfs/abcd/allocation/data/flags", "1\n"),
        ]);
        link(
            root.path(),
            "sys/block/sdb",
            "sys/fs/btrfs/abcd/devices/sdb",
        );
        link(
            root.path(),
            "sys/block/sdc/sdc1",
            "sys/fs/btrfs/abcd/devices/sdc1",
        );
        let recorded = [Device::named("sdb", DevId::new(8, 16))];
        let settings = read_settings(root.path(), &recorded);
        let both = [DevId::new(8, 16), DevId::new(8, 32)];
        assert_eq!(settings.btrfs_peers(DevId::new(8, 16)), both);
        let btrfs = &settings.btrfs[0];
        assert_eq!(btrfs.label.as_deref(), Some("pool"));
        assert_eq!(btrfs.data_profile.as_deref(), Some("raid1"));
    }

    #[test]
    fn an_empty_root_has_no_settings() {
        let root = tempfile::tempdir().expect("temporary directory");
        assert_eq!(read_settings(root.path(), &[]), Settings::default());
    }

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(cpus_of("0"), Some(1));
        assert_eq!(cpus_of("0-3,8-9"), Some(6));
        assert_eq!(cpus_of("3-1"), None);
        assert_eq!(cpus_of(""), None);
    }
}
