//! Control groups of this process, of both versions: where they are, and new ones below them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use iolens_observe::topology::{Mount, MountTable};

/// A hierarchy of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hierarchy {
    /// The unified one.
    V2,
    /// Version 1 with the controller `freezer`.
    V1Freezer,
    /// Version 1 with the controller `blkio`: it tells whose an I/O is.
    V1Blkio,
}

impl Hierarchy {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Hierarchy::V2 => "cgroup v2 freezer",
            Hierarchy::V1Freezer => "cgroup v1 freezer",
            Hierarchy::V1Blkio => "cgroup v1 blkio",
        }
    }

    fn is_mounted_as(self, mount: &Mount) -> bool {
        let has = |controller: &str| mount.super_options.to_string_lossy().split(',').any(|o| o == controller);
        match self {
            Hierarchy::V2 => mount.fs_type == "cgroup2",
            Hierarchy::V1Freezer => mount.fs_type == "cgroup" && has("freezer"),
            Hierarchy::V1Blkio => mount.fs_type == "cgroup" && has("blkio"),
        }
    }

    /// The line `ID:CONTROLLERS:PATH` of `/proc/self/cgroup` that is about this hierarchy.
    fn own_path(self, proc_cgroup: &str) -> Option<&str> {
        proc_cgroup.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let has = |c: &str| controllers.split(',').any(|x| x == c);
            let is = match self {
                Hierarchy::V2 => id == "0" && controllers.is_empty(),
                Hierarchy::V1Freezer => has("freezer"),
                Hierarchy::V1Blkio => has("blkio"),
            };
            is.then_some(path)
        })
    }
}

/// A control group that was made for one command. Removed when dropped, if it is empty.
#[derive(Debug)]
pub struct Group {
    hierarchy: Hierarchy,
    dir: PathBuf,
}

impl Group {
    /// Makes one below this process' own.
    ///
    /// # Errors
    /// The hierarchy is not mounted, or new groups may not be made there.
    pub fn new(hierarchy: Hierarchy) -> io::Result<Group> {
        let not_here = || io::Error::new(io::ErrorKind::NotFound, format!("{} is not mounted here", hierarchy.name()));
        let table = MountTable::read(Path::new("/"))?;
        let mount = table.mounts().iter().find(|m| hierarchy.is_mounted_as(m)).ok_or_else(not_here)?;
        let text = fs::read_to_string("/proc/self/cgroup")?;
        let own = hierarchy.own_path(&text).ok_or_else(not_here)?;
        // In a container the mount shows a part of the hierarchy, and the path counts from the whole.
        let own = Path::new(own)
            .strip_prefix(&mount.root)
            .or_else(|_| Path::new(own).strip_prefix("/"))
            .unwrap_or(Path::new(""));
        let dir = mount.point.join(own).join(format!("iolens-throttle-{}", std::process::id()));
        fs::create_dir(&dir).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", dir.display())))?;
        let group = Group { hierarchy, dir };
        if hierarchy != Hierarchy::V1Blkio {
            // An old kernel (before 5.2) has no freezer in version 2.
            fs::OpenOptions::new()
                .write(true)
                .open(group.freezer_file())
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", group.freezer_file().display())))?;
        }
        Ok(group)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Which hierarchy it is of.
    pub fn hierarchy(&self) -> Hierarchy {
        self.hierarchy
    }

    /// The number under which events name it.
    pub fn id(&self) -> Option<i64> {
        fs::metadata(&self.dir).ok().and_then(|m| i64::try_from(m.ino()).ok())
    }

    /// Processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|l| l.parse().ok()).collect()
    }

    fn freezer_file(&self) -> PathBuf {
        freezer_file(&self.dir, self.hierarchy == Hierarchy::V2)
    }

    /// Stops or resumes all processes in it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        fs::write(self.freezer_file(), freezer_word(self.hierarchy == Hierarchy::V2, frozen))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.hierarchy != Hierarchy::V1Blkio {
            // Nothing must stay frozen; if the group is gone already, nothing does.
            drop(self.freeze(false));
        }
        // Not empty while children of the command live on in it: the guardian removes it then.
        drop(fs::remove_dir(&self.dir));
    }
}

fn freezer_file(dir: &Path, v2: bool) -> PathBuf {
    dir.join(if v2 { "cgroup.freeze" } else { "freezer.state" })
}

fn freezer_word(v2: bool, frozen: bool) -> &'static str {
    match (v2, frozen) {
        (true, true) => "1",
        (true, false) => "0",
        (false, true) => "FROZEN",
        (false, false) => "THAWED",
    }
}

/// Resumes everything in the group `dir`, of whichever version; does nothing to a group without a freezer.
pub fn thaw(dir: &Path) {
    for v2 in [true, false] {
        let file = freezer_file(dir, v2);
        if file.exists() {
            drop(fs::write(file, freezer_word(v2, false)));
        }
    }
}

/// Moves this process into the group `dir`.
///
/// # Errors
/// The kernel refuses.
pub fn enter(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("cgroup.procs"), "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_groups_are_found_in_both_versions() {
        let text = "9:name=systemd:/\n7:blkio,misc:/b\n6:freezer:/a:b\n0::/user.slice\n";
        assert_eq!(Hierarchy::V2.own_path(text), Some("/user.slice"));
        assert_eq!(Hierarchy::V1Freezer.own_path(text), Some("/a:b"));
        assert_eq!(Hierarchy::V1Blkio.own_path(text), Some("/b"));
        assert_eq!(Hierarchy::V1Freezer.own_path("0::/\n"), None);
    }

    #[test]
    fn a_group_can_be_made_frozen_and_removed() {
        for hierarchy in [Hierarchy::V2, Hierarchy::V1Freezer] {
            let group = match Group::new(hierarchy) {
                Ok(g) => g,
                Err(e) => {
                    eprintln!("SKIP: {e}");
                    continue;
                }
            };
            assert!(group.processes().is_empty() && group.id().is_some());
            group.freeze(true).expect("may be frozen");
            let dir = group.dir().to_owned();
            drop(group);
            assert!(!dir.exists());
        }
    }
}
