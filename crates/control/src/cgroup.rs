//! The control groups of this process, in cgroup v1 and v2, and creation of new groups below them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use iolens_observe::topology::{Mount, MountTable};

/// A hierarchy of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hierarchy {
    /// The unified hierarchy (`cgroup2`).
    V2,
    /// Version 1 with the controller `freezer`.
    V1Freezer,
    /// Version 1 with the controller `blkio`: attributes I/O, and limits the rate of I/O that its tasks submit.
    V1Blkio,
}

/// The purpose of a new group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Freezing,
    Attribution,
    Limiting,
}

impl Hierarchy {
    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Hierarchy::V2 => "cgroup v2 freezer",
            Hierarchy::V1Freezer => "cgroup v1 freezer",
            Hierarchy::V1Blkio => "cgroup v1 blkio",
        }
    }

    fn is_mounted_as(self, mount: &Mount) -> bool {
        let options = mount.super_options.to_string_lossy();
        match self {
            Hierarchy::V2 => mount.fs_type == "cgroup2",
            Hierarchy::V1Freezer => mount.fs_type == "cgroup" && lists(&options, "freezer"),
            Hierarchy::V1Blkio => mount.fs_type == "cgroup" && lists(&options, "blkio"),
        }
    }

    /// The line `ID:CONTROLLERS:PATH` of `/proc/self/cgroup` for this hierarchy.
    fn own_path(self, proc_cgroup: &str) -> Option<&str> {
        proc_cgroup.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let id = parts.next()?;
            let controllers = parts.next()?;
            let path = parts.next()?;
            let is = match self {
                Hierarchy::V2 => id == "0" && controllers.is_empty(),
                Hierarchy::V1Freezer => lists(controllers, "freezer"),
                Hierarchy::V1Blkio => lists(controllers, "blkio"),
            };
            is.then_some(path)
        })
    }

    /// Its mount point, and the directory of this process' own group.
    fn own_dir(self) -> io::Result<(PathBuf, PathBuf)> {
        let table = MountTable::read(Path::new("/"))?;
        let mount = table
            .mounts()
            .iter()
            .find(|m| self.is_mounted_as(m))
            .ok_or_else(|| self.not_mounted())?;
        let text = fs::read_to_string("/proc/self/cgroup")?;
        let own = self.own_path(&text).ok_or_else(|| self.not_mounted())?;
        // In a container, the mount shows part of the hierarchy, but the path starts at its root.
        let own = Path::new(own)
            .strip_prefix(&mount.root)
            .or_else(|_| Path::new(own).strip_prefix("/"))
            .unwrap_or(Path::new(""));
        Ok((mount.point.clone(), mount.point.join(own)))
    }

    fn not_mounted(self) -> io::Error {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("{} is not mounted here", self.name()),
        )
    }
}

/// Whether `name` is one of the words between commas.
fn lists(words: &str, name: &str) -> bool {
    words.split(',').any(|word| word == name)
}

/// A control group created for one command. Removed when dropped, if it is empty.
#[derive(Debug)]
pub struct Group {
    hierarchy: Hierarchy,
    dir: PathBuf,
}

impl Group {
    /// Creates a group below this process' own, with a freezer if the hierarchy supports it.
    ///
    /// # Errors
    /// The hierarchy is not mounted, or groups may not be created there.
    pub fn new(hierarchy: Hierarchy) -> io::Result<Group> {
        Group::make(
            hierarchy,
            if hierarchy == Hierarchy::V1Blkio {
                Purpose::Attribution
            } else {
                Purpose::Freezing
            },
        )
    }

    /// Creates a group whose rates can be limited. In version 2 the controller `io` must be enabled for it. A group
    /// that contains processes cannot pass a controller on, so the new group is created below the nearest ancestor
    /// that does.
    ///
    /// # Errors
    /// The hierarchy is not mounted, has no such controller, or groups may not be created there.
    pub fn limiting(hierarchy: Hierarchy) -> io::Result<Group> {
        Group::make(hierarchy, Purpose::Limiting)
    }

    fn make(hierarchy: Hierarchy, purpose: Purpose) -> io::Result<Group> {
        let (top, mut base) = hierarchy.own_dir()?;
        if hierarchy == Hierarchy::V2 && purpose == Purpose::Limiting {
            base = passes_io_on(&top, &base)?;
        }
        Group::under(&base, hierarchy, purpose)
    }

    fn under(base: &Path, hierarchy: Hierarchy, purpose: Purpose) -> io::Result<Group> {
        remove_left_over(base);
        let dir = base.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&dir).map_err(|e| named(&dir, &e))?;
        let group = Group { hierarchy, dir };
        let needed = match purpose {
            // Kernels before 5.2 have no freezer in version 2.
            Purpose::Freezing => Some(group.freezer_file()),
            Purpose::Limiting => Some(
                group
                    .dir
                    .join(LIMITS[usize::from(hierarchy != Hierarchy::V2)]),
            ),
            Purpose::Attribution => None,
        };
        if let Some(file) = needed {
            fs::OpenOptions::new()
                .write(true)
                .open(&file)
                .map_err(|e| named(&file, &e))?;
        }
        Ok(group)
    }

    /// One that exists already, in a tree that a test has made.
    #[cfg(test)]
    pub(super) fn at(hierarchy: Hierarchy, dir: &Path) -> Group {
        Group {
            hierarchy,
            dir: dir.to_owned(),
        }
    }

    /// Its directory under the cgroup mount.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Which hierarchy it is of.
    pub fn hierarchy(&self) -> Hierarchy {
        self.hierarchy
    }

    /// Its id in events.
    pub fn id(&self) -> Option<i64> {
        fs::metadata(&self.dir)
            .ok()
            .and_then(|m| i64::try_from(m.ino()).ok())
    }

    /// PIDs of the processes in the group.
    pub fn processes(&self) -> Vec<i32> {
        processes(&self.dir)
    }

    fn freezer_file(&self) -> PathBuf {
        freezer_file(&self.dir, self.hierarchy == Hierarchy::V2)
    }

    /// Stops or resumes all its processes.
    ///
    /// # Errors
    /// The kernel refuses the write to `cgroup.freeze` or `freezer.state`.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        fs::write(
            self.freezer_file(),
            freezer_word(self.hierarchy == Hierarchy::V2, frozen),
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // If processes cannot be moved out, the group stays, running and without limits.
        dissolve(&self.dir);
    }
}

/// Prefix of the names of groups; followed by the process id of iolens.
const PREFIX: &str = "iolens-throttle-";

/// Dissolves groups in `base` whose iolens was killed together with its guardians.
fn remove_left_over(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|n| n.strip_prefix(PREFIX))
            .and_then(|p| p.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            dissolve(&entry.path());
        }
    }
}

/// Processes in the group `dir`.
pub fn processes(dir: &Path) -> Vec<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|l| l.parse().ok()).collect()
}

/// Thaws the group `dir`, lifts its limits, moves its remaining processes to the group that the command was started
/// from, and removes it. Returns whether it is gone.
pub fn dissolve(dir: &Path) -> bool {
    thaw(dir);
    let all = [Hierarchy::V2, Hierarchy::V1Freezer, Hierarchy::V1Blkio];
    let own = all
        .iter()
        .filter_map(|h| h.own_dir().ok())
        .find(|(top, _)| dir.starts_with(top))
        .map(|(_, own)| own);
    // New processes may appear while others are being moved.
    for _ in 0..MOVES {
        let left = processes(dir);
        if left.is_empty() {
            break;
        }
        for home in own.as_deref().into_iter().chain(dir.parent()) {
            // A process that has ended cannot be moved, and need not be.
            left.iter()
                .for_each(|pid| drop(fs::write(home.join("cgroup.procs"), pid.to_string())));
        }
    }
    fs::remove_dir(dir).is_ok() || !dir.exists()
}

/// Maximum number of attempts, because processes may fork while they are moved.
const MOVES: usize = 8;

/// Files of limits in bytes per second: of version 2, and of version 1.
const LIMITS: [&str; 3] = [
    "io.max",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
];

fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

/// The nearest of `own` and its ancestors, up to `top`, that enables the controller `io` for its children.
fn passes_io_on(top: &Path, own: &Path) -> io::Result<PathBuf> {
    if !lists_io(&top.join("cgroup.controllers")) {
        let why = "the hierarchy has no controller `io` (not built in, or bound to version 1)";
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{}: {why}", top.display()),
        ));
    }
    // Only iolens' own group may be changed for this. The kernel refuses if it contains processes, unless it is the
    // root.
    drop(fs::write(own.join("cgroup.subtree_control"), "+io"));
    own.ancestors()
        .take_while(|dir| dir.starts_with(top))
        .find(|dir| lists_io(&dir.join("cgroup.subtree_control")))
        .map(Path::to_owned)
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "no group above this one passes the controller `io` on",
            )
        })
}

/// Whether a file of controllers has `io`.
fn lists_io(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|t| t.split_whitespace().any(|c| c == "io"))
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

/// Limits reads and writes of the group `dir` on the disk `maj:min`, in bytes per second each; `None`: no limit. The
/// kernel takes one disk per write.
///
/// # Errors
/// The kernel refuses the limit.
pub fn limit(
    dir: &Path,
    hierarchy: Hierarchy,
    device: &str,
    bytes_per_s: Option<u64>,
) -> io::Result<()> {
    if hierarchy == Hierarchy::V2 {
        let word = bytes_per_s.map_or("max".to_owned(), |b| b.to_string());
        let text = format!("{device} rbps={word} wbps={word}");
        return write_named(&dir.join(LIMITS[0]), &text);
    }
    // In version 1, the value 0 removes the limit.
    let text = format!("{device} {}", bytes_per_s.unwrap_or(0));
    for name in &LIMITS[1..] {
        write_named(&dir.join(name), &text)?;
    }
    Ok(())
}

/// Writes a file whose name is in the error.
fn write_named(file: &Path, text: &str) -> io::Result<()> {
    fs::write(file, text).map_err(|e| named(file, &e))
}

/// Resumes everything in the group `dir`, in either version, and removes its limits. Does nothing if the group has
/// neither.
pub fn thaw(dir: &Path) {
    for (i, name) in LIMITS.iter().enumerate() {
        let hierarchy = if i == 0 {
            Hierarchy::V2
        } else {
            Hierarchy::V1Blkio
        };
        for line in fs::read_to_string(dir.join(name))
            .unwrap_or_default()
            .lines()
        {
            if let Some(device) = line.split_whitespace().next() {
                drop(limit(dir, hierarchy, device, None));
            }
        }
    }
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
/// The kernel refuses to move the process.
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

    /// A group of version 2 as the kernel lays it out, three levels deep; `subtree` is what each passes on.
    fn tree(controllers: &str, subtree: [&str; 3]) -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        let mut dir = top.path().to_owned();
        for (i, passed) in subtree.iter().enumerate() {
            if i > 0 {
                dir.push(["", "user.slice", "session.scope"][i]);
                fs::create_dir(&dir).expect("made");
            }
            fs::write(
                dir.join("cgroup.controllers"),
                if i == 0 { controllers } else { subtree[i - 1] },
            )
            .expect("put");
            fs::write(dir.join("cgroup.subtree_control"), passed).expect("put");
        }
        // A group with processes refuses to pass anything on.
        let own = dir.join("cgroup.subtree_control");
        fs::remove_file(&own).expect("there");
        fs::create_dir(&own).expect("a folder in its place");
        top
    }

    #[test]
    fn a_limited_group_is_made_where_the_io_controller_reaches_it() {
        let at = |top: &tempfile::TempDir| {
            passes_io_on(top.path(), &top.path().join("user.slice/session.scope"))
        };
        let top = tree("cpu io memory", ["io memory", "io", ""]);
        assert_eq!(at(&top).expect("there"), top.path().join("user.slice"));
        let top = tree("cpu io memory", ["io memory", "memory", ""]);
        assert_eq!(at(&top).expect("there"), top.path());
        let top = tree("cpu io", ["cpu", "", ""]);
        assert!(
            at(&top)
                .expect_err("not delegated")
                .to_string()
                .contains("passes the controller")
        );
        let top = tree("cpu memory", ["cpu", "", ""]);
        assert!(
            at(&top)
                .expect_err("version 1 has it")
                .to_string()
                .contains("bound to version 1")
        );
    }

    #[test]
    fn limits_are_written_in_each_versions_words_and_lifted() {
        let dir = tempfile::tempdir().expect("a directory");
        let said = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        limit(dir.path(), Hierarchy::V2, "8:16", Some(1_000_000)).expect("written");
        assert_eq!(said("io.max"), "8:16 rbps=1000000 wbps=1000000");
        limit(dir.path(), Hierarchy::V1Blkio, "8:16", Some(5)).expect("written");
        assert_eq!(said(LIMITS[1]), "8:16 5");
        thaw(dir.path());
        assert_eq!(said("io.max"), "8:16 rbps=max wbps=max");
        assert_eq!(
            (said(LIMITS[1]), said(LIMITS[2])),
            ("8:16 0".to_owned(), "8:16 0".to_owned())
        );
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
