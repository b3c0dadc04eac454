//! Lists what an experiment created on the machine, so that [`clean`] can remove what a killed experiment left.
//!
//! An experiment's directory may have been prepared or changed by another user, so nothing in it determines what is
//! removed. The list is in the user's state directory, which only this user can write; the experiment's directory
//! contains its number. Created objects are identified by device and inode, have names with a fixed prefix, and are
//! removed relative to their open directory. Anything that replaced them stays.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use iolens_core::private::{Access, PrivateDir, write_file};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::Warn;
use super::scratch::run;

/// File in the experiment's directory with the number of its list.
const NUMBER: &str = "scratch.list";
/// Prefix of everything that an experiment creates outside of its own directory.
const PREFIX: &str = "iolens-lab-";
/// What it makes inside, besides results.
const MOUNT_POINT: &str = "mnt";

/// The kind of a created object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Thing {
    File,
    Dir,
    /// A folder created by the experiment, with its contents.
    Tree,
    /// Loop devices on a file created by the experiment.
    Loop,
    /// A mount on a directory created by the experiment.
    Mount,
}

/// Device and inode, which are unique while the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ScratchIdentity(u64, u64);

impl ScratchIdentity {
    fn of(stat: &Stat) -> ScratchIdentity {
        ScratchIdentity(stat.st_dev, stat.st_ino)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RegistryEntry {
    thing: Thing,
    dir: PathBuf,
    dir_id: ScratchIdentity,
    name: String,
    id: ScratchIdentity,
}

/// The list as stored in the state directory.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    /// Identity of the experiment's directory.
    experiment: ScratchIdentity,
    entries: Vec<RegistryEntry>,
}

/// The list of one experiment's created objects.
#[derive(Debug, Clone)]
pub struct Registry {
    experiment: PathBuf,
    /// The user's, but for tests.
    state: Option<PathBuf>,
    pub(super) warn: Warn,
}

impl Registry {
    /// Opens the list of the experiment in this directory. `warn` reports what cannot be undone later.
    pub fn open(experiment: &Path, warn: Warn) -> Registry {
        Registry {
            experiment: experiment.to_owned(),
            state: None,
            warn,
        }
    }

    #[cfg(test)]
    pub(super) fn with_state(experiment: &Path, state: &Path) -> Registry {
        Registry {
            experiment: experiment.to_owned(),
            state: Some(state.to_owned()),
            warn: |line| panic!("{line}"),
        }
    }

    /// Adds the object at `path`, which was just created.
    pub(super) fn note(&self, thing: Thing, path: &Path) -> io::Result<()> {
        let entry = RegistryEntry::of(thing, path)?;
        let state = self.state_dir()?;
        let (name, mut list) = match self.list(&state)? {
            Some(found) => found,
            None => (
                self.begin_list()?,
                List {
                    experiment: identity(&self.experiment)?,
                    entries: Vec::new(),
                },
            ),
        };
        list.entries.push(entry);
        state.write_atomically(name, &serde_json::to_vec_pretty(&list)?)
    }

    /// Assigns a number to a new list.
    fn begin_list(&self) -> io::Result<String> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let number: String = random.iter().map(|b| format!("{b:02x}")).collect();
        write_file(
            &self.experiment.join(NUMBER),
            number.as_bytes(),
            Access::OWNER,
        )?;
        Ok(file_name(&number))
    }

    /// The list and the name of its file; `None` if nothing was created since the last cleaning.
    fn list(&self, state: &PrivateDir) -> io::Result<Option<(String, List)>> {
        let Some(number) = self.number()? else {
            return Ok(None);
        };
        let name = file_name(&number);
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = match rustix::fs::openat(state, &name, how, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Err(self.foreign()),
            opened => File::from(opened?),
        };
        // The number comes from the experiment's directory, which others may have written, so the file that it leads
        // to must be private to this user before its content is used.
        let meta = file.metadata()?;
        if !meta.is_file() || meta.uid() != geteuid().as_raw() || meta.mode() & 0o077 != 0 {
            return Err(self.foreign());
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let list: List = serde_json::from_str(&text)?;
        if list.experiment != identity(&self.experiment)?
            || !list.entries.iter().all(|e| is_our_name(&e.name))
        {
            return Err(self.foreign());
        }
        Ok(Some((name, list)))
    }

    fn foreign(&self) -> io::Error {
        io::Error::other(format!(
            "{} is not of this user's iolens on this machine, so nothing is removed by it; look for {PREFIX}* files, \
             loop devices and mounts yourself, then remove it",
            self.experiment.join(NUMBER).display()
        ))
    }

    /// The number of the list according to the experiment's directory, unchecked.
    fn number(&self) -> io::Result<Option<String>> {
        let path = self.experiment.join(NUMBER);
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&path, how, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            opened => File::from(opened?),
        };
        let mut text = Vec::new();
        file.take(33).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_number = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        Ok(Some(if is_number { text } else { "none".to_owned() }))
    }

    fn state_dir(&self) -> io::Result<PrivateDir> {
        let base = self.state.clone().map_or_else(state_base, Ok)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&base)?;
        let path = base.join("iolens");
        let dir = match PrivateDir::create(&path, Access::OWNER) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                PrivateDir::open_own(&path, Access::OWNER)
            }
            made => made,
        };
        dir.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
    }
}

fn file_name(number: &str) -> String {
    format!("lab-{number}.json")
}

/// The base directory of this user's state. A home directory of another user, which `sudo` may keep, is not used.
fn state_base() -> io::Result<PathBuf> {
    let us = geteuid();
    let home = absolute_path("HOME");
    let home = home.filter(|h| fs::metadata(h).is_ok_and(|m| m.uid() == us.as_raw()));
    let given = absolute_path("XDG_STATE_HOME");
    let given = given.filter(|p| !fs::metadata(p).is_ok_and(|m| m.uid() != us.as_raw()));
    given
        .or_else(|| home.map(|h| h.join(".local/state")))
        .or_else(|| us.is_root().then(|| PathBuf::from("/var/lib")))
        .ok_or_else(|| {
            io::Error::other(
                "there is no place to remember what is made: set HOME or XDG_STATE_HOME",
            )
        })
}

/// The path in a variable of the environment; a relative one does not count.
fn absolute_path(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    path.is_absolute().then_some(path)
}

fn identity(dir: &Path) -> io::Result<ScratchIdentity> {
    Ok(ScratchIdentity::of(&rustix::fs::stat(dir)?))
}

fn is_our_name(name: &str) -> bool {
    (name.starts_with(PREFIX) || name == MOUNT_POINT) && !name.contains('/')
}

impl RegistryEntry {
    fn of(thing: Thing, path: &Path) -> io::Result<RegistryEntry> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Err(io::Error::other(format!(
                "{path:?}: a name that is no text cannot be kept track of"
            )));
        };
        if !is_our_name(name) {
            return Err(io::Error::other(format!(
                "{name}: not a name under {PREFIX}"
            )));
        }
        let id = ScratchIdentity::of(&rustix::fs::lstat(path)?);
        Ok(RegistryEntry {
            thing,
            dir: dir.to_owned(),
            dir_id: identity(dir)?,
            name: name.to_owned(),
            id,
        })
    }

    /// Opens its directory, if it is still the one in which it was created.
    fn open_dir(&self) -> Option<OwnedFd> {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&self.dir, how, Mode::empty()).ok()?;
        (ScratchIdentity::of(&rustix::fs::fstat(&dir).ok()?) == self.dir_id).then_some(dir)
    }

    /// `None` if it is already gone, or was replaced by something else.
    fn undo(&self) -> Option<io::Result<()>> {
        let dir = self.open_dir()?;
        let path = self.dir.join(&self.name);
        if self.thing == Thing::Mount {
            return is_mounted(&path).then(|| run("umount", &[&path.to_string_lossy()]).map(drop));
        }
        let stat = rustix::fs::statat(&dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if ScratchIdentity::of(&stat) != self.id || stat.st_uid != geteuid().as_raw() {
            return None;
        }
        match self.thing {
            Thing::Mount => None,
            Thing::Loop => detach_all_over(&path),
            Thing::File => Some(self.unlink(&dir, AtFlags::empty())),
            Thing::Dir => Some(self.unlink(&dir, AtFlags::REMOVEDIR)),
            Thing::Tree => Some(remove_tree(&dir, &self.name)),
        }
    }

    fn unlink(&self, dir: &OwnedFd, flags: AtFlags) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(dir, &self.name, flags)?)
    }

    fn describe(&self) -> String {
        let thing = match self.thing {
            Thing::File => "file",
            Thing::Dir => "dir",
            Thing::Tree => "tree",
            Thing::Loop => "loop",
            Thing::Mount => "mount",
        };
        format!("{thing} {}", self.dir.join(&self.name).display())
    }
}

/// Removes a folder in an open directory with its contents. If a link is in its place, the link is removed.
pub(super) fn remove_tree(dir: impl AsFd, name: &str) -> io::Result<()> {
    fs::remove_dir_all(format!("/proc/self/fd/{}/{name}", dir.as_fd().as_raw_fd()))
}

fn is_mounted(point: &Path) -> bool {
    let Ok(text) = fs::read_to_string("/proc/self/mounts") else {
        return false;
    };
    // Blanks in mount points are printed as \040.
    let name = point.to_string_lossy().replace(' ', "\\040");
    text.lines().any(|l| l.split(' ').nth(1) == Some(&name))
}

/// Detaches every loop device with exactly this backing file, which the experiment created.
fn detach_all_over(file: &Path) -> Option<io::Result<()>> {
    let out = run(
        "losetup",
        &["-j", &file.to_string_lossy(), "--noheadings", "-O", "NAME"],
    )
    .ok()?;
    let mut done = None;
    for device in out.split_whitespace() {
        if let Err(e) = run("losetup", &["-d", device]) {
            return Some(Err(e));
        }
        done = Some(Ok(()));
    }
    done
}

/// Undoes what a killed experiment left. Returns what was undone, and what could not be.
///
/// # Errors
/// The list is not of this user, or cannot be written.
pub fn clean(registry: &Registry) -> io::Result<(Vec<String>, Vec<String>)> {
    let mut done = Vec::new();
    let mut left = Vec::new();
    let mut said = Vec::new();
    if registry.number()?.is_none() {
        return Ok((done, said));
    }
    let state = registry.state_dir()?;
    let Some((name, list)) = registry.list(&state)? else {
        return Ok((done, said));
    };
    for entry in list.entries.into_iter().rev() {
        match entry.undo() {
            Some(Ok(())) => done.push(entry.describe()),
            Some(Err(e)) => {
                said.push(format!("{}: {e}", entry.describe()));
                left.push(entry);
            }
            None => {}
        }
    }
    if left.is_empty() {
        PrivateDir::open(&registry.experiment, Access::OWNER)?.remove_file(NUMBER)?;
        state.remove_file(name)?;
    } else {
        // What still exists stays on the list, in the order of creation.
        left.reverse();
        let list = List {
            experiment: list.experiment,
            entries: left,
        };
        state.write_atomically(name, &serde_json::to_vec_pretty(&list)?)?;
    }
    Ok((done, said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// An experiment's directory and a state directory.
    fn place() -> (tempfile::TempDir, PathBuf, Registry) {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let experiment = tmp.path().join("experiment");
        fs::create_dir(&experiment).expect("makes");
        let registry = Registry::with_state(&experiment, &tmp.path().join("state"));
        (tmp, experiment, registry)
    }

    #[test]
    fn a_list_of_another_user_is_ignored() {
        let (tmp, experiment, registry) = place();
        let victim = tmp.path().join("victim");
        fs::create_dir(&victim).expect("makes");
        for planted in [
            format!("tree\t{}\n", victim.display()),
            "0".repeat(32),
            "../../x".to_owned(),
        ] {
            fs::write(experiment.join(NUMBER), &planted).expect("writes");
            let e = clean(&registry).expect_err("not ours").to_string();
            assert!(e.contains("not of this user's iolens"), "{e}");
            assert!(registry.note(Thing::Dir, &victim).is_err());
            assert!(victim.exists());
        }
    }

    #[test]
    fn experiments_have_separate_lists() {
        let (tmp, experiment, registry) = place();
        let other = tmp.path().join("other");
        fs::create_dir(&other).expect("makes");
        let made = registry
            .folder(&experiment.join("iolens-lab-1"))
            .expect("makes");
        std::mem::forget(made);
        fs::copy(experiment.join(NUMBER), other.join(NUMBER)).expect("copies");
        clean(&Registry {
            experiment: other,
            ..registry.clone()
        })
        .expect_err("a copied number");
        assert!(experiment.join("iolens-lab-1").exists());
        assert_eq!(clean(&registry).expect("cleans").0.len(), 1);
        assert!(!experiment.join("iolens-lab-1").exists() && !experiment.join(NUMBER).exists());
        assert_eq!(
            fs::read_dir(tmp.path().join("state/iolens"))
                .expect("lists")
                .count(),
            0
        );
    }

    #[test]
    fn replaced_files_are_not_removed() {
        let (tmp, _, registry) = place();
        let dir = tmp.path().join("dir");
        let victim = tmp.path().join("victim");
        for made in [&dir, &victim] {
            fs::create_dir(made).expect("makes");
        }
        for name in ["iolens-lab-1", "iolens-lab-2"] {
            std::mem::forget(registry.folder(&dir.join(name)).expect("makes"));
            fs::rename(dir.join(name), tmp.path().join(name)).expect("moves");
        }
        fs::write(victim.join("precious"), "").expect("writes");
        symlink(&victim, dir.join("iolens-lab-1")).expect("links");
        fs::create_dir(dir.join("iolens-lab-2")).expect("makes");
        fs::write(dir.join("iolens-lab-2/precious"), "").expect("writes");
        assert_eq!(clean(&registry).expect("cleans"), (vec![], vec![]));
        assert!(victim.join("precious").exists() && dir.join("iolens-lab-2/precious").exists());
        // The whole directory replaced: the same names in it are others.
        std::mem::forget(registry.folder(&dir.join("iolens-lab-3")).expect("makes"));
        fs::rename(&dir, tmp.path().join("moved")).expect("moves");
        fs::create_dir_all(dir.join("iolens-lab-3")).expect("makes");
        assert_eq!(clean(&registry).expect("cleans"), (vec![], vec![]));
        assert!(dir.join("iolens-lab-3").exists());
    }

    #[test]
    fn failed_cleanups_stay_on_the_list() {
        let (_tmp, experiment, registry) = place();
        let full = experiment.join(MOUNT_POINT);
        fs::create_dir(&full).expect("makes");
        fs::write(full.join("not ours"), "").expect("writes");
        registry.note(Thing::Dir, &full).expect("notes");
        let (done, left) = clean(&registry).expect("tries");
        assert!(
            done.is_empty() && left.len() == 1 && left[0].contains(MOUNT_POINT),
            "{left:?}"
        );
        fs::remove_file(full.join("not ours")).expect("removes");
        assert_eq!(clean(&registry).expect("cleans").0.len(), 1);
        assert!(
            registry
                .note(Thing::File, &experiment.join("elsewhere"))
                .is_err(),
            "not a name of ours"
        );
    }
}
