//! A synthetic machine: `/sys`, `/proc/1/mountinfo` and directories under a temporary root.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use iolens_observe::topology::{Layer, MountPath, Resolver};
use serde_json::{Map, Value, json};

pub struct Machine {
    root: tempfile::TempDir,
    mounts: String,
    next_id: u32,
    /// The tree at each lookup, with the answer: what the Go and the Python package must find as well.
    lookups: RefCell<Vec<Value>>,
}

impl Machine {
    /// `/` is ext4 on the disk vda (254:0).
    pub fn new() -> Machine {
        let mut m = Machine {
            root: tempfile::tempdir().unwrap(),
            mounts: String::new(),
            next_id: 20,
            lookups: RefCell::default(),
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
        let found = self.resolver().resolve(Path::new(path)).unwrap();
        self.remember(path, &found);
        found
    }

    fn remember(&self, path: &str, found: &MountPath) {
        let root = self.root.path();
        let mut tree = Map::new();
        snapshot(root, root, &mut tree);
        let disk = |d: &iolens_observe::topology::Disk| {
            let stats: Vec<PathBuf> = d.stats.iter().map(|s| below(root, s)).collect();
            json!({"name": d.name, "dev": d.id.to_string(), "stats": stats})
        };
        let disks: Vec<Value> = found.disks.iter().map(disk).collect();
        self.lookups.borrow_mut().push(json!({
            "tree": tree, "path": path, "disks": disks, "no_disk": found.no_disk,
        }));
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

/// `path` as the machine under `root` names it.
fn below(root: &Path, path: &Path) -> PathBuf {
    Path::new("/").join(path.strip_prefix(root).unwrap_or(path))
}

/// Files as their text, links as `{"link": TARGET}`, empty directories as null.
fn snapshot(root: &Path, dir: &Path, tree: &mut Map<String, Value>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        let value = if kind.is_symlink() {
            json!({"link": below(root, &fs::read_link(&path).unwrap())})
        } else if kind.is_file() {
            json!(fs::read_to_string(&path).unwrap())
        } else if fs::read_dir(&path).unwrap().next().is_none() {
            Value::Null
        } else {
            snapshot(root, &path, tree);
            continue;
        };
        tree.insert(below(root, &path).to_str().unwrap().to_owned(), value);
    }
}

impl Drop for Machine {
    /// Compares the lookups with `fixtures/signal/trees/TEST.json`; `IOLENS_WRITE_FIXTURES=1` writes the file.
    fn drop(&mut self) {
        let thread = std::thread::current();
        let test = thread.name().and_then(|n| n.strip_prefix("fixtures::"));
        let (Some(test), false) = (test, std::thread::panicking()) else {
            return;
        };
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/signal/trees");
        let file = trees.join(format!("{test}.json"));
        let lookups = Value::Array(self.lookups.take());
        if std::env::var_os("IOLENS_WRITE_FIXTURES").is_some() {
            fs::create_dir_all(&trees).unwrap();
            let text = serde_json::to_string_pretty(&lookups).unwrap();
            return fs::write(&file, text + "\n").unwrap();
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        let known = serde_json::from_str(&text).unwrap_or(Value::Null);
        assert_eq!(
            lookups,
            known,
            "{}: IOLENS_WRITE_FIXTURES=1 writes it",
            file.display()
        );
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
