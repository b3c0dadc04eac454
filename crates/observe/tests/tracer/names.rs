//! Looks up paths by numbers, on real file systems and in a real cgroup hierarchy.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use iolens_core::model::{DevId, Inode};
use iolens_observe::topology::PathLookup;

use crate::lab::{LoopDisk, Mounted, on_each_file_system, ready, run};

/// Device number of the file system mounted at `point`, as the BPF programs see it.
fn fs_dev(point: &Path) -> i32 {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let words = |l: &str| l.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let line = text
        .lines()
        .map(words)
        .find(|w| Path::new(&w[4]) == point)
        .unwrap();
    let (major, minor) = line[2].split_once(':').unwrap();
    DevId::new(major.parse().unwrap(), minor.parse().unwrap()).0
}

/// File names that are difficult for mountinfo, terminals or careless parsers.
fn hostile(dir: &Path) -> Vec<PathBuf> {
    fs::create_dir(dir.join("a dir\twith\nlines")).unwrap();
    let names: [&[u8]; 5] = [
        b"plain",
        b"with space",
        b"a dir\twith\nlines/x\x1b[31m\\040",
        b"looks gone (deleted)",
        b"\xff\xfe",
    ];
    let paths = names.map(|n| dir.join(std::ffi::OsStr::from_bytes(n)));
    paths.iter().for_each(|p| fs::write(p, b"x").unwrap());
    paths.to_vec()
}

fn ino(path: &Path) -> i64 {
    fs::symlink_metadata(path).unwrap().ino() as i64
}

/// The file that has this number now.
fn numbered(fs_dev: i32, ino: i64) -> Inode {
    Inode {
        fs_dev,
        ino,
        generation: None,
    }
}

/// The kernel refuses handles without CAP_DAC_READ_SEARCH.
fn may_open_by_number() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let caps = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .unwrap();
    let may = u64::from_str_radix(caps.trim(), 16).unwrap() & 1 << 2 != 0;
    if !may {
        eprintln!("SKIP: CAP_DAC_READ_SEARCH is missing");
    }
    may
}

#[test]
fn closed_files_are_found_by_inode_number() {
    if !may_open_by_number() {
        return;
    }
    on_each_file_system(&[], |kind, disk| {
        let fs = Mounted::new(disk, kind);
        let dev = fs_dev(fs.dir.path());
        let mut names = PathLookup::new();
        for path in hostile(fs.dir.path()) {
            assert_eq!(
                names.file(numbered(dev, ino(&path)), None).as_deref(),
                Some(&*path.to_string_lossy()),
                "{kind}"
            );
            // Far from the numbers of devices that others may have mounted.
            assert_eq!(
                names.file(numbered(dev + 0x8_0000, ino(&path)), None),
                None,
                "{kind}: another device"
            );
        }
        assert_eq!(
            names.file(numbered(dev, 123_456_789), None),
            None,
            "{kind}: no such inode"
        );
    });
}

#[test]
fn a_removed_file_that_is_open_is_reported_as_deleted_and_a_closed_one_not_at_all() {
    if !may_open_by_number() {
        return;
    }
    on_each_file_system(&[], |kind, disk| {
        let fs = Mounted::new(disk, kind);
        let dev = fs_dev(fs.dir.path());
        let path = fs.dir.path().join("gone");
        let file = fs::File::create(&path).unwrap();
        let number = ino(&path);
        fs::remove_file(&path).unwrap();
        let me = Some(std::process::id() as i32);
        let reported = PathLookup::new().file(numbered(dev, number), me);
        assert_eq!(
            reported,
            Some(format!("{} (deleted)", path.display())),
            "{kind}"
        );
        drop(file);
        assert_eq!(
            PathLookup::new().file(numbered(dev, number), me),
            None,
            "{kind}"
        );
    });
}

#[test]
fn bind_mounts_lead_to_a_path_that_exists_and_nothing_stays_open() {
    let Some(_turn) = ready(&["losetup", "mkfs.ext4"]).filter(|_| may_open_by_number()) else {
        return;
    };
    let disk = LoopDisk::in_memory(64);
    let fs = Mounted::new(&disk, "ext4");
    let inner = fs.dir.path().join("inner");
    let outer = fs.dir.path().join("outer");
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("in"), b"x").unwrap();
    fs::write(&outer, b"x").unwrap();
    let dev = fs_dev(fs.dir.path());
    run(
        "mount",
        &[
            "--bind",
            inner.to_str().unwrap(),
            other.path().to_str().unwrap(),
        ],
    );
    let in_number = ino(&inner.join("in"));
    let out_number = ino(&outer);
    assert_eq!(
        PathLookup::new()
            .file(numbered(dev, in_number), None)
            .as_deref(),
        inner.join("in").to_str()
    );
    assert_eq!(
        PathLookup::new()
            .file(numbered(dev, out_number), None)
            .as_deref(),
        outer.to_str()
    );
    // Only the bind mount remains, so files outside of it have no path any more.
    run("umount", &[fs.dir.path().to_str().unwrap()]);
    let mut names = PathLookup::new();
    assert_eq!(
        names.file(numbered(dev, in_number), None).as_deref(),
        other.path().join("in").to_str()
    );
    assert_eq!(names.file(numbered(dev, out_number), None), None);
    run("umount", &[other.path().to_str().unwrap()]);
}

#[test]
fn control_groups_are_found_by_their_ids() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let Some(root) = mounts
        .lines()
        .find(|l| l.split(' ').nth(2) == Some("cgroup2"))
        .and_then(|l| l.split(' ').nth(1))
    else {
        return eprintln!("SKIP: no cgroup v2 hierarchy");
    };
    let name = format!("iolens test {}", std::process::id());
    let group = Path::new(root).join(&name);
    if let Err(e) = fs::create_dir(&group) {
        return eprintln!("SKIP: no control group can be made: {e}");
    }
    let id = ino(&group);
    let reported = may_open_by_number().then(|| PathLookup::new().cgroup(id));
    fs::remove_dir(&group).unwrap();
    if let Some(reported) = reported {
        assert_eq!(reported, Some(format!("/{name}")));
        assert_eq!(PathLookup::new().cgroup(id), None, "it is gone");
    }
}
