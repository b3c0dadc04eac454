//! Each kind of stack on a synthetic machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::tree::{Machine, shape};

#[test]
fn lvm_over_md_over_partitions() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.disk("sdb", "8:16");
    m.partition("sda", "sda1", "8:1");
    m.partition("sdb", "sdb1", "8:17");
    m.md("md0", "9:0", "raid1\n", &["sda1", "sdb1"]);
    m.dm("dm-0", "253:0", "LVM-abcdef", "vg-data", &["md0"]);
    m.mount("253:0", "/", "/data", "xfs /dev/mapper/vg-data rw");
    let p = m.resolve("/data");
    assert_eq!(
        shape(&p.layers),
        "dm-0(lvm)[md0(raid1)[sda1(part)[sda(disk)] sdb1(part)[sdb(disk)]]]"
    );
    assert_eq!(p.layers[0].label.as_deref(), Some("vg-data"));
    assert_eq!(m.disks("/data"), ["sda", "sdb"]);
    assert!(p.no_disk.is_none());
    assert_eq!(m.disks("/"), ["vda"]);
}

#[test]
fn two_volumes_on_one_disk_name_it_once_each() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.partition("sda", "sda1", "8:1");
    m.partition("sda", "sda2", "8:2");
    // One volume that spans two partitions of the same disk.
    m.dm("dm-0", "253:0", "LVM-x", "vg-a", &["sda1", "sda2"]);
    m.mount("253:0", "/", "/a", "ext4 /dev/mapper/vg-a rw");
    assert_eq!(m.disks("/a"), ["sda"]);
}

#[test]
fn crypt_on_multipath_partition() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.disk("sdb", "8:16");
    m.dm("dm-0", "253:0", "mpath-3600", "mpatha", &["sda", "sdb"]);
    m.dm("dm-1", "253:1", "part1-mpath-3600", "mpatha1", &["dm-0"]);
    m.dm("dm-2", "253:2", "CRYPT-LUKS2-77-root", "secret", &["dm-1"]);
    m.mount("253:2", "/", "/safe", "ext4 /dev/mapper/secret rw");
    let p = m.resolve("/safe");
    assert_eq!(
        shape(&p.layers),
        "dm-2(crypt)[dm-1(part)[dm-0(mpath)[sda(disk) sdb(disk)]]]"
    );
    assert_eq!(m.disks("/safe"), ["sda", "sdb"]);
}

#[test]
fn nvme_multipath_is_one_disk_and_its_paths_count_where_the_head_does_not() {
    let mut m = Machine::new();
    m.virtual_disk("nvme0n1", "259:0", &[]);
    for path in ["nvme0c0n1", "nvme0c1n1", "nvme0c0n12", "nvme10c0n1"] {
        m.virtual_disk(path, "", &[]);
        fs::remove_file(
            m.path()
                .join(format!("sys/devices/virtual/block/{path}/dev")),
        )
        .unwrap();
    }
    m.mount("259:0", "/", "/fast", "ext4 /dev/nvme0n1 rw");
    let p = m.resolve("/fast");
    assert_eq!(
        shape(&p.layers),
        "nvme0n1(disk)[nvme0c0n1(path) nvme0c1n1(path)]"
    );
    assert_eq!(p.disks.len(), 1);
    assert!(
        p.disks[0].stats[0].ends_with("nvme0n1/stat"),
        "the head counts: {:?}",
        p.disks
    );
    m.put(
        "sys/devices/virtual/block/nvme0n1/stat",
        "0 0 0 0 0 0 0 0 0 0 0",
    );
    let old = m.resolve("/fast");
    assert_eq!(
        old.disks[0].stats.len(),
        2,
        "an old kernel's head counts nothing: {:?}",
        old.disks
    );
}

#[test]
fn btrfs_on_two_disks_and_one_of_them_by_mapper_name() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.disk("sdb", "8:16");
    m.dm("dm-0", "253:0", "CRYPT-LUKS2-1-x", "x", &["sdb"]);
    for (name, target) in [("sda", "sda"), ("dm-0", "dm-0")] {
        let at = m.path().join("sys/fs/btrfs/1234-uuid/devices");
        fs::create_dir_all(&at).unwrap();
        std::os::unix::fs::symlink(
            fs::canonicalize(m.path().join("sys/class/block").join(target)).unwrap(),
            at.join(name),
        )
        .unwrap();
    }
    fs::create_dir_all(m.path().join("sys/fs/btrfs/features")).unwrap();
    m.mount(
        "0:44",
        "/sub",
        "/pool",
        "btrfs /dev/mapper/x rw,subvolid=256,subvol=/sub",
    );
    m.mount("0:45", "/sub", "/again", "btrfs /dev/sda rw");
    assert_eq!(
        shape(&m.resolve("/pool").layers),
        "dm-0(crypt)[sdb(disk)] sda(disk)"
    );
    assert_eq!(m.disks("/again"), ["sda", "sdb"]);
}

#[test]
fn overlay_on_a_bind_mount_has_the_disks_of_all_its_layers() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.disk("sdb", "8:16");
    m.mount("8:0", "/exported", "/bound", "ext4 /dev/sda rw");
    m.mount("8:16", "/", "/low,er", "ext4 /dev/sdb rw");
    fs::create_dir_all(m.path().join("bound/upper")).unwrap();
    m.mount(
        "0:60",
        "/",
        "/merged",
        "overlay overlay rw,lowerdir=/low\\134,er:/low\\134,er,upperdir=/bound/upper,workdir=/bound/w",
    );
    assert_eq!(shape(&m.resolve("/merged").layers), "sdb(disk) sda(disk)");
    assert_eq!(m.disks("/merged"), ["sda", "sdb"]);
    assert_eq!(m.disks("/bound"), ["sda"]);
}

#[test]
fn nested_loop_devices_resolve_to_the_real_disk() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.mount("8:0", "/", "/images", "ext4 /dev/sda rw");
    m.loop_device("loop0", "7:0", "/images/outer.img\n");
    m.mount("7:0", "/", "/outer", "ext4 /dev/loop0 rw");
    m.loop_device("loop1", "7:1", "/outer/inner.img (deleted)\n");
    m.mount("7:1", "/", "/inner", "ext4 /dev/loop1 rw");
    assert_eq!(
        shape(&m.resolve("/inner").layers),
        "loop1(loop)[loop0(loop)[sda(disk)]]"
    );
    assert_eq!(m.disks("/inner"), ["sda"]);
}

#[test]
fn a_loop_device_over_memory_is_itself_the_lowest_disk() {
    let mut m = Machine::new();
    m.mount("0:24", "/", "/tmp", "tmpfs tmpfs rw");
    m.loop_device("loop0", "7:0", "/tmp/disk.img\n");
    m.mount("7:0", "/", "/scratch", "ext4 /dev/loop0 rw");
    assert_eq!(m.disks("/scratch"), ["loop0"]);
}

#[test]
fn zfs_members_are_those_that_udev_labelled() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.partition("sda", "sda1", "8:1");
    m.disk("sdb", "8:16");
    m.disk("sdc", "8:32");
    let member =
        |pool: &str| format!("S:disk/by-id/x\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL={pool}\n");
    m.put("run/udev/data/b8:0", &member("tank"));
    m.put("run/udev/data/b8:1", &member("tank"));
    m.put("run/udev/data/b8:16", &member("tank"));
    m.put("run/udev/data/b8:32", &member("other"));
    m.mount("0:70", "/", "/tank/home", "zfs tank/home rw");
    assert_eq!(
        shape(&m.resolve("/tank/home").layers),
        "sda1(part)[sda(disk)] sdb(disk)"
    );
}

#[test]
fn bcache_bcachefs_and_awkward_names() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.disk("cciss!c0d0", "104:0");
    m.virtual_disk("bcache0", "252:0", &["sda", "cciss!c0d0"]);
    m.mount("252:0", "/", "/cached", "ext4 /dev/bcache0 rw");
    assert_eq!(m.disks("/cached"), ["cciss/c0d0", "sda"]);
    m.disk("sdb", "8:16");
    m.mount("0:80", "/", "/many", "bcachefs /dev/sda:/dev/sdb rw");
    assert_eq!(m.disks("/many"), ["sda", "sdb"]);
}

#[test]
fn file_systems_without_a_disk_give_a_reason() {
    let mut m = Machine::new();
    m.mount("0:24", "/", "/tmp", "tmpfs tmpfs rw");
    m.mount("0:25", "/", "/proc2", "proc proc rw");
    m.mount("0:26", "/", "/net", "nfs4 server:/export rw");
    m.mount("0:27", "/", "/ssh", "fuse.thing someone@host rw");
    m.mount("8:240", "/", "/gone", "ext4 /dev/sdp rw");
    for (path, word) in [
        ("/tmp", "tmpfs"),
        ("/proc2", "proc"),
        ("/net", "network"),
        ("/ssh", "process"),
        ("/gone", "removed"),
    ] {
        let p = m.resolve(path);
        assert!(
            p.disks.is_empty() && p.no_disk.as_deref().is_some_and(|w| w.contains(word)),
            "{path}: {p:?}"
        );
    }
    assert!(m.resolver().resolve(Path::new("/missing")).is_err());
    assert_eq!(
        m.resolver()
            .local()
            .iter()
            .map(|p| p.path.clone())
            .collect::<Vec<_>>(),
        [PathBuf::from("/")]
    );
}

#[test]
fn a_removed_disk_a_renamed_device_and_a_path_that_moves_are_seen() {
    let mut m = Machine::new();
    m.disk("sda", "8:0");
    m.disk("sdb", "8:16");
    m.md("md0", "9:0", "raid1", &["sda", "sdb"]);
    m.mount("9:0", "/", "/data", "ext4 /dev/md0 rw");
    assert_eq!(m.disks("/data"), ["sda", "sdb"]);
    fs::remove_file(m.path().join("sys/devices/virtual/block/md0/slaves/sdb")).unwrap();
    assert_eq!(m.disks("/data"), ["sda"], "a leg was pulled");

    let mut resolver = m.resolver();
    assert!(!resolver.refresh().unwrap());
    m.unmount("/data");
    assert_eq!(
        m.disks("/data"),
        ["vda"],
        "unmounted: the directory on the root disk"
    );
    assert!(resolver.refresh().unwrap());
    m.mount("8:16", "/", "/data", "ext4 /dev/sdb rw");
    assert_eq!(m.disks("/data"), ["sdb"], "moved");

    fs::remove_dir_all(m.path().join("sys/devices/pci0/block/sdb")).unwrap();
    fs::remove_file(m.path().join("sys/dev/block/8:16")).unwrap();
    m.disk("sdx", "8:16");
    assert_eq!(
        m.disks("/data"),
        ["sdx"],
        "the same number under a new name"
    );
}

#[test]
fn a_cyclic_stack_terminates() {
    let mut m = Machine::new();
    m.loop_device("loop0", "7:0", "/ring/file\n");
    m.mount("7:0", "/", "/ring", "ext4 /dev/loop0 rw");
    assert_eq!(m.disks("/ring"), ["loop0"]);
}
