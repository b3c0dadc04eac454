//! This machine: against `lsblk -s -J`, and stacks made of loop devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iolens_observe::topology::{Layer, Resolver};

/// All (name, type) edges of the tree that `lsblk -s` prints for one device.
fn lsblk(device: &str) -> Option<BTreeSet<(String, String)>> {
    let out = Command::new("lsblk")
        .args(["-s", "-J", "-o", "NAME,TYPE", "--merge"])
        .arg(format!("/dev/{device}"))
        .output();
    let out = match out {
        Ok(o) if o.status.success() => o,
        other => {
            eprintln!("SKIP: lsblk -s -J /dev/{device}: {other:?}");
            return None;
        }
    };
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut set = BTreeSet::new();
    let mut todo = json["blockdevices"].as_array().unwrap().clone();
    while let Some(d) = todo.pop() {
        set.insert((
            d["name"].as_str().unwrap().to_owned(),
            d["type"].as_str().unwrap().to_owned(),
        ));
        todo.extend(d["children"].as_array().cloned().unwrap_or_default());
    }
    Some(set)
}

/// The same of ours, down to loop devices: lsblk does not go below their files.
fn ours(layer: &Layer, out: &mut BTreeSet<(String, String)>) {
    out.insert((
        layer
            .label
            .clone()
            .filter(|_| layer.name.starts_with("dm-"))
            .unwrap_or(layer.name.clone()),
        layer.kind.clone(),
    ));
    if layer.kind != "loop" {
        layer
            .below
            .iter()
            .filter(|b| b.kind != "path")
            .for_each(|b| ours(b, out));
    }
}

#[test]
fn every_mounted_file_system_has_the_stack_that_lsblk_shows() {
    let found = Resolver::read(Path::new("/")).unwrap().local();
    let mut compared = 0;
    for p in &found {
        for layer in &p.layers {
            let Some(theirs) = lsblk(&layer.name) else {
                continue;
            };
            let mut mine = BTreeSet::new();
            ours(layer, &mut mine);
            assert_eq!(mine, theirs, "{}", p.path.display());
            compared += 1;
        }
    }
    if compared == 0 {
        eprintln!("SKIP: no mounted file system with a device that lsblk knows");
    }
}

#[test]
fn kernel_file_systems_have_no_disk() {
    let r = Resolver::read(Path::new("/")).unwrap();
    for path in ["/proc", "/sys"] {
        let p = r.resolve(Path::new(path)).unwrap();
        assert!(p.disks.is_empty() && p.no_disk.is_some(), "{p:?}");
    }
}

/// Loop devices and mounts, taken down in reverse order.
struct Undo(Vec<(&'static str, Vec<String>)>);

impl Drop for Undo {
    fn drop(&mut self) {
        for (program, arguments) in self.0.drain(..).rev() {
            let done = Command::new(program).args(&arguments).status();
            if !done.is_ok_and(|s| s.success()) {
                eprintln!("could not be undone: {program} {arguments:?}");
            }
        }
    }
}

impl Undo {
    fn run(
        &mut self,
        program: &str,
        arguments: &[&str],
        undo: Option<(&'static str, &[&str])>,
    ) -> Option<String> {
        let out = match Command::new(program).args(arguments).output() {
            Ok(o) if o.status.success() => o,
            other => {
                eprintln!("SKIP: {program} {arguments:?}: {other:?}");
                return None;
            }
        };
        let said = String::from_utf8(out.stdout).unwrap().trim().to_owned();
        if let Some((program, arguments)) = undo {
            self.0.push((
                program,
                arguments.iter().map(|a| a.replace("OUT", &said)).collect(),
            ));
        }
        Some(said)
    }

    fn loop_over(&mut self, file: &Path, mib: u64) -> Option<String> {
        let made = fs::File::create(file).and_then(|f| f.set_len(mib << 20));
        if let Err(e) = made {
            eprintln!("SKIP: {}: {e}", file.display());
            return None;
        }
        self.run(
            "losetup",
            &["--find", "--show", file.to_str()?],
            Some(("losetup", &["-d", "OUT"])),
        )
    }

    fn mount(&mut self, arguments: &[&str], point: &Path) -> Option<()> {
        fs::create_dir_all(point).ok()?;
        let point = point.to_str()?;
        let all: Vec<&str> = arguments.iter().copied().chain([point]).collect();
        self.run("mount", &all, Some(("umount", &[point])))
            .map(drop)
    }
}

fn names(r: &Resolver, path: &Path) -> Vec<String> {
    r.resolve(path)
        .unwrap()
        .disks
        .into_iter()
        .map(|d| d.name)
        .collect()
}

/// The disk of the crate's own directory, which files of this test reach.
fn home_disks() -> Vec<String> {
    names(
        &Resolver::read(Path::new("/")).unwrap(),
        Path::new(env!("CARGO_TARGET_TMPDIR")),
    )
}

#[test]
fn real_loops_overlay_and_btrfs_are_resolved() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |p: &str| -> PathBuf { dir.path().join(p) };
    let mut undo = Undo(Vec::new());
    let made = (|| {
        let outer = undo.loop_over(&at("outer.img"), 64)?;
        undo.run("mkfs.ext4", &["-q", "-F", &outer], None)?;
        undo.mount(&[&outer], &at("outer"))?;
        let inner = undo.loop_over(&at("outer/inner.img"), 24)?;
        undo.run("mkfs.ext4", &["-q", "-F", &inner], None)?;
        undo.mount(&[&inner], &at("inner"))?;
        undo.mount(&["--bind", at("inner").to_str()?], &at("bound"))?;
        for d in ["inner/upper", "inner/work", "low"] {
            fs::create_dir_all(at(d)).ok()?;
        }
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            at("low").display(),
            at("bound/upper").display(),
            at("bound/work").display()
        );
        undo.mount(&["-t", "overlay", "overlay", "-o", &options], &at("merged"))?;
        Some(outer)
    })();
    let Some(outer) = made else { return };
    let r = Resolver::read(Path::new("/")).unwrap();
    let home = home_disks();
    for p in ["outer", "inner", "bound", "merged"] {
        assert_eq!(names(&r, &at(p)), home, "{p}");
    }
    let inner = r.resolve(&at("bound")).unwrap();
    assert_eq!(inner.layers[0].kind, "loop");
    assert_eq!(format!("/dev/{}", inner.layers[0].below[0].name), outer);
    assert_eq!(
        names(&r, Path::new(&outer)),
        home,
        "the node itself is a valid path"
    );
}

#[test]
fn real_btrfs_over_two_loops_has_both() {
    // On tmpfs, so that the loop devices themselves are the lowest disks.
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return eprintln!("SKIP: no /dev/shm");
    };
    let at = |p: &str| -> PathBuf { dir.path().join(p) };
    let mut undo = Undo(Vec::new());
    let made = (|| {
        let a = undo.loop_over(&at("a.img"), 128)?;
        let b = undo.loop_over(&at("b.img"), 128)?;
        undo.run("mkfs.btrfs", &["-q", "-f", &a, &b], None)?;
        undo.run("btrfs", &["device", "scan", &a, &b], None)?;
        undo.mount(&[&a], &at("pool"))?;
        Some([a, b])
    })();
    let Some(members) = made else { return };
    let r = Resolver::read(Path::new("/")).unwrap();
    let mut expected: Vec<String> = members
        .iter()
        .map(|m| m.trim_start_matches("/dev/").to_owned())
        .collect();
    expected.sort();
    assert_eq!(names(&r, &at("pool")), expected);
}
