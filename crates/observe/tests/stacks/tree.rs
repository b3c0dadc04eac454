//! A synthetic machine: `/sys`, `/proc/1/mountinfo` and directories under a temporary root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use iolens_observe::topology::{Layer, MountPath, Resolver};

pub struct Machine {
    root: tempfile::TempDir,
    mounts: String,
    next_id: u32,
}

impl Machine {
    /// `/` is ext4 on the disk vda (254:0).
    pub fn new() -> Machine {
        let mut m = Machine {
            root: tempfile::tempdir().unwrap(),
            mounts: String::new(),
            next_id: 20,
        };
        m.mounts = "20 1 254:0 / / rw - ext4 /dev/vda rw\n".into();
        m.disk("vda", "254:0");
        m
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn put(&self, path: &str, content: &str) {
        let p = self.root.path().join(path);
        fs::create_dir_all(p.parent().unwrap()).unwrap();
        fs::write(p, content).unwrap();
    }

    fn device(&self, dir: &str, name: &str, id: &str) {
        let base = format!("sys/{dir}");
        self.put(&format!("{base}/dev"), id);
        self.put(&format!("{base}/stat"), "1 0 8 1 1 0 8 1 0 2 2");
        let link = |at: String| {
            let at = self.root.path().join(at);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(self.root.path().join(&base), at).unwrap();
        };
        if !id.is_empty() {
            link(format!("sys/dev/block/{id}"));
            link(format!("sys/class/block/{name}"));
        }
        // A whole disk's directory is linked from /sys/block, a partition's is inside its disk's.
        if dir.split('/').count() == 4 {
            link(format!("sys/block/{name}"));
        }
    }

    pub fn disk(&self, name: &str, id: &str) {
        self.device(&format!("devices/pci0/block/{name}"), name, id);
    }

    pub fn partition(&self, disk: &str, name: &str, id: &str) {
        let dir = format!("devices/pci0/block/{disk}/{name}");
        self.put(&format!("sys/{dir}/partition"), "1");
        self.device(&dir, name, id);
    }

    /// A virtual device with its lower devices.
    pub fn virtual_disk(&self, name: &str, id: &str, slaves: &[&str]) {
        let dir = format!("devices/virtual/block/{name}");
        self.device(&dir, name, id);
        for s in slaves {
            let at = self.root.path().join(format!("sys/{dir}/slaves/{s}"));
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(
                fs::canonicalize(self.root.path().join(format!("sys/class/block/{s}"))).unwrap(),
                at,
            )
            .unwrap();
        }
    }

    pub fn dm(&self, name: &str, id: &str, uuid: &str, label: &str, slaves: &[&str]) {
        self.virtual_disk(name, id, slaves);
        self.put(&format!("sys/devices/virtual/block/{name}/dm/uuid"), uuid);
        self.put(&format!("sys/devices/virtual/block/{name}/dm/name"), label);
    }

    pub fn md(&self, name: &str, id: &str, level: &str, slaves: &[&str]) {
        self.virtual_disk(name, id, slaves);
        self.put(&format!("sys/devices/virtual/block/{name}/md/level"), level);
    }

    pub fn loop_device(&self, name: &str, id: &str, file: &str) {
        self.virtual_disk(name, id, &[]);
        self.put(
            &format!("sys/devices/virtual/block/{name}/loop/backing_file"),
            file,
        );
    }

    /// Mounts on the root file system; `fs` is "TYPE SOURCE OPTIONS".
    pub fn mount(&mut self, dev: &str, fs_root: &str, point: &str, fs: &str) {
        self.next_id += 1;
        let id = self.next_id;
        self.mounts += &format!("{id} 20 {dev} {fs_root} {point} rw - {fs}\n");
        fs::create_dir_all(self.root.path().join(&point[1..])).unwrap();
    }

    pub fn unmount(&mut self, point: &str) {
        let keep = |l: &&str| l.split(' ').nth(4) != Some(point);
        self.mounts = self
            .mounts
            .lines()
            .filter(keep)
            .map(|l| format!("{l}\n"))
            .collect();
    }

    pub fn resolver(&self) -> Resolver {
        self.put("proc/1/mountinfo", &self.mounts);
        Resolver::read(self.root.path()).unwrap()
    }

    pub fn resolve(&self, path: &str) -> MountPath {
        self.resolver().resolve(Path::new(path)).unwrap()
    }

    /// Names of the disks under `path`.
    pub fn disks(&self, path: &str) -> Vec<String> {
        self.resolve(path)
            .disks
            .into_iter()
            .map(|d| d.name)
            .collect()
    }
}

/// `dm-1(lvm)[md0(raid1)[sda1(part)[sda(disk)] ...]]`
pub fn shape(layers: &[Layer]) -> String {
    let one = |l: &Layer| {
        let below = if l.below.is_empty() {
            String::new()
        } else {
            format!("[{}]", shape(&l.below))
        };
        format!("{}({}){below}", l.name, l.kind)
    };
    layers.iter().map(one).collect::<Vec<_>>().join(" ")
}
