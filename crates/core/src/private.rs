//! Directories and files that only their owner may read, and that other users cannot redirect.
//!
//! Recordings name files of all users, and a recorder often runs as root in another user's directory. Every new name is
//! therefore created relative to an open directory, exclusively, and without following links. Its permissions do not
//! depend on the umask. This is the only place that creates files of recordings, reports and experiments.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Permissions of files: other users may get read access, never write access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    file_mode: u32,
    group: Option<u32>,
}

impl Access {
    /// Only the owner may read and write.
    pub const OWNER: Access = Access {
        file_mode: 0o600,
        group: None,
    };

    /// Files get the permission bits `mode` and the group with this number. Those who may read may also enter
    /// directories. Returns `None` if others could write, or the owner could not read and write.
    pub fn new(mode: u32, group: Option<u32>) -> Option<Access> {
        (mode & !0o044 == 0o600).then_some(Access {
            file_mode: mode,
            group,
        })
    }

    /// The group that files are given to.
    pub fn group(self) -> Option<u32> {
        self.group
    }

    fn dir_mode(self) -> u32 {
        self.file_mode | 0o100 | (self.file_mode & 0o044) >> 2
    }
}

impl Default for Access {
    fn default() -> Access {
        Access::OWNER
    }
}

/// An open directory in which files are created. Names are relative to it. A directory in such a name must be writable
/// by its owner only, as those that [`PrivateDir::make_dir`] created are.
#[derive(Debug, Clone)]
pub struct PrivateDir {
    path: PathBuf,
    access: Access,
    handle: Arc<at::Handle>,
}

impl PrivateDir {
    /// Creates the directory `path`.
    ///
    /// # Errors
    /// It exists, or others may write to its parent directory.
    pub fn create(path: &Path, access: Access) -> io::Result<PrivateDir> {
        let (parent, name) = PrivateDir::holding(path, access)?;
        let handle = at::make_dir(&parent.handle, Path::new(&name), access)?;
        // A user with write access to the parent may have replaced the directory in between.
        if !at::is_ours(&handle)? || !at::is_empty(&handle)? {
            let why = "it is another user's or not empty right after it was made: it was replaced meanwhile, or the file \
                       system gives new files to another user; choose another place";
            return Err(io::Error::other(why));
        }
        parent.sync(Path::new("."))?;
        Ok(PrivateDir {
            path: path.to_owned(),
            access,
            handle: Arc::new(handle),
        })
    }

    /// Opens the existing directory `path` for writing to it.
    ///
    /// # Errors
    /// It cannot be opened, is a link, or others may write to it.
    pub fn open(path: &Path, access: Access) -> io::Result<PrivateDir> {
        let handle = at::open_dir(path, false)?;
        at::refuse_what_others_write(&handle, path)?;
        Ok(PrivateDir {
            path: path.to_owned(),
            access,
            handle: Arc::new(handle),
        })
    }

    /// Opens the directory `path` of this user, for writing to it and for trusting its content.
    ///
    /// # Errors
    /// As [`PrivateDir::open`], or it belongs to another user.
    pub fn open_own(path: &Path, access: Access) -> io::Result<PrivateDir> {
        let dir = PrivateDir::open(path, access)?;
        if at::is_ours(&dir.handle)? {
            Ok(dir)
        } else {
            Err(io::Error::other("it belongs to another user"))
        }
    }

    /// Opens the directory `path` of this user for something that stays there for long. No other user may create names
    /// in it (not even with the sticky bit, as in `/tmp`), or own or rename a directory above it.
    ///
    /// # Errors
    /// As [`PrivateDir::open_own`], or another user could change where the path leads.
    pub fn open_for_good(path: &Path, access: Access) -> io::Result<PrivateDir> {
        let dir = PrivateDir::open_own(path, access)?;
        at::refuse_shared(&dir.handle, path)?;
        refuse_foreign_parents(path)?;
        Ok(dir)
    }

    /// Opens the directory that holds `path`. Returns it with the file name.
    ///
    /// # Errors
    /// `path` ends in no name, or others may write to the directory.
    pub fn holding(path: &Path, access: Access) -> io::Result<(PrivateDir, OsString)> {
        let Some(name) = path.file_name() else {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "it is a directory; give the name of a new file",
            ));
        };
        let parent = path
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let handle = at::open_dir(parent, true)?;
        at::refuse_what_others_write(&handle, parent)?;
        Ok((
            PrivateDir {
                path: parent.to_owned(),
                access,
                handle: Arc::new(handle),
            },
            name.to_owned(),
        ))
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory `name` in it; succeeds if it exists.
    ///
    /// # Errors
    /// The file system refuses, or `name` is something else.
    pub fn make_dir(&self, name: impl AsRef<Path>) -> io::Result<()> {
        match at::make_dir(&self.handle, name.as_ref(), self.access) {
            Err(e)
                if e.kind() == ErrorKind::AlreadyExists
                    && at::is_dir(&self.handle, name.as_ref()) =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Creates the file `name`.
    ///
    /// # Errors
    /// There is something of that name (a link too), or the file system refuses.
    pub fn create_file(&self, name: impl AsRef<Path>) -> io::Result<File> {
        at::create_file(&self.handle, name.as_ref(), self.access)
    }

    /// Replaces the content of the file `name` by `bytes`, atomically: writes a temporary file, syncs it, renames it,
    /// and syncs the directory. On any failure `name` has either its old or its new content, and no temporary file
    /// remains.
    ///
    /// # Errors
    /// `name` is a directory or a device, or the file system refuses.
    pub fn write_atomically(&self, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let written = self.write_temporary(name.as_ref(), bytes);
        let name = name.as_ref();
        written.and_then(|()| {
            self.sync(
                name.parent()
                    .filter(|p| *p != OsStr::new(""))
                    .unwrap_or(Path::new(".")),
            )
        })
    }

    /// The same without syncing, for content that a power loss may destroy.
    ///
    /// # Errors
    /// As [`PrivateDir::write_atomically`].
    pub fn replace(&self, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.put(name.as_ref(), |file| file.write_all(bytes))
    }

    fn write_temporary(&self, name: &Path, bytes: &[u8]) -> io::Result<()> {
        self.put(name, |file| {
            file.write_all(bytes).and_then(|()| file.sync_all())
        })
    }

    fn put(&self, name: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        at::refuse_all_but_files(&self.handle, &self.path, name)?;
        let mut temporary = name.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = Path::new(&temporary);
        // Left by a killed writer or planted by another user: remove the name itself, never its target.
        let _ = at::remove_file(&self.handle, temporary);
        let mut file = self.create_file(temporary)?;
        let written = fill(&mut file).and_then(|()| at::rename(&self.handle, temporary, name));
        written.inspect_err(|_| drop(at::remove_file(&self.handle, temporary)))
    }

    /// Removes the file (or link) `name`.
    ///
    /// # Errors
    /// The file system refuses, or there is none.
    pub fn remove_file(&self, name: impl AsRef<Path>) -> io::Result<()> {
        at::remove_file(&self.handle, name.as_ref())
    }

    /// Removes the empty directory `name`.
    ///
    /// # Errors
    /// The file system refuses, or it is not empty.
    pub fn remove_dir(&self, name: impl AsRef<Path>) -> io::Result<()> {
        at::remove_dir(&self.handle, name.as_ref())
    }

    /// Syncs the directory `name` (`.`: this one), so that created, renamed and removed names survive a power loss.
    ///
    /// # Errors
    /// The sync fails. It is not an error if the directory cannot be opened for reading.
    pub fn sync(&self, name: &Path) -> io::Result<()> {
        at::sync(&self.handle, name)
    }
}

/// Fails if a user other than root and this one owns a directory above `path`, or may rename entries in it. `path`
/// itself need not exist.
///
/// # Errors
/// The directory concerned, and a remedy.
pub fn refuse_foreign_parents(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let Some(existing) = path.ancestors().skip(1).find(|p| p.exists()) else {
        return Ok(());
    };
    for dir in existing.canonicalize()?.ancestors() {
        let handle = at::open_dir(dir, true)?;
        at::refuse_foreign(&handle, dir)?;
        at::refuse_what_others_write(&handle, dir)?;
    }
    Ok(())
}

/// Reads a file of trusted settings or a secret. It must be a regular file of root or this user that no other user may
/// write to or, if it `is_secret`, that not all users may read.
///
/// # Errors
/// It is something else (the message is one line), or it cannot be read.
pub fn read_trusted(path: &Path, is_secret: bool) -> io::Result<Vec<u8>> {
    /// Larger than any settings.
    const MAX_BYTES: u64 = 1 << 20;
    let file = at::open_trusted(path, is_secret)?;
    let mut content = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_BYTES + 1), &mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is larger than a MiB"));
    }
    Ok(content)
}

/// Writes the file `path` atomically: see [`PrivateDir::write_atomically`].
///
/// # Errors
/// `path` is no place for a file, others may write to its directory, or the file system refuses.
pub fn write_file(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let (dir, name) = PrivateDir::holding(path, access)?;
    dir.write_atomically(name, bytes)
}

/// Fails if [`write_file`] would fail because of what exists at `path`. For callers that compute the content for a long
/// time before writing it.
///
/// # Errors
/// As of [`write_file`].
pub fn refuse_all_but_file(path: &Path) -> io::Result<()> {
    let (dir, name) = PrivateDir::holding(path, Access::OWNER)?;
    at::refuse_all_but_files(&dir.handle, &dir.path, Path::new(&name))
}

#[cfg(unix)]
impl std::os::fd::AsFd for PrivateDir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

#[cfg(unix)]
mod at {
    use super::*;
    use rustix::fs::{self as sys, AtFlags, FileType, Gid, Mode, OFlags, Stat};
    use rustix::process::{getegid, geteuid};
    use std::os::fd::OwnedFd;

    pub(super) type Handle = OwnedFd;

    const OPEN_DIR: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
    /// A directory in which names are created need not be readable.
    #[cfg(target_os = "linux")]
    const UNREAD: OFlags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    const UNREAD: OFlags = OFlags::empty();

    /// `parent`: only names in it are made, and the user may have reached it through a link of their own.
    pub(super) fn open_dir(path: &Path, parent: bool) -> io::Result<Handle> {
        let how = if parent { UNREAD } else { OFlags::NOFOLLOW };
        Ok(sys::open(path, OPEN_DIR | how, Mode::empty())?)
    }

    pub(super) fn make_dir(dir: &Handle, name: &Path, access: Access) -> io::Result<Handle> {
        sys::mkdirat(dir, name, Mode::RWXU)?;
        let made = sys::openat(dir, name, OPEN_DIR | OFlags::NOFOLLOW, Mode::empty())?;
        give(&made, access.dir_mode(), access)?;
        Ok(made)
    }

    pub(super) fn create_file(dir: &Handle, name: &Path, access: Access) -> io::Result<File> {
        let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = sys::openat(dir, name, how, Mode::RUSR | Mode::WUSR)?;
        give(&made, access.file_mode, access).inspect_err(|_| drop(remove_file(dir, name)))?;
        Ok(File::from(made))
    }

    /// Sets group and permissions. Until then at most the owner has access.
    fn give(made: &Handle, mode: u32, access: Access) -> io::Result<()> {
        if let Some(group) = access.group {
            sys::fchown(made, None, Some(Gid::from_raw(group))).map_err(|e| {
                io::Error::other(format!(
                    "it cannot be given to group {group}: {}",
                    io::Error::from(e)
                ))
            })?;
        }
        let given = sys::fchmod(made, Mode::from_bits_truncate(mode as _));
        // Some file systems (FAT) have no permissions, so none were granted there.
        if access == Access::OWNER {
            Ok(())
        } else {
            Ok(given?)
        }
    }

    pub(super) fn is_ours(dir: &Handle) -> io::Result<bool> {
        Ok(sys::fstat(dir)?.st_uid == geteuid().as_raw())
    }

    pub(super) fn is_empty(dir: &Handle) -> io::Result<bool> {
        for entry in sys::Dir::read_from(dir)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails if a user other than this one, root and the directory's owner may replace entries in it.
    pub(super) fn refuse_what_others_write(dir: &Handle, path: &Path) -> io::Result<()> {
        let stat = sys::fstat(dir)?;
        let is_sticky = Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX);
        if !others_may_write(&stat) || (is_sticky && is_trusted(stat.st_uid)) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "other users may write to the directory {} (mode {:04o}) and could replace what is in it; \
             choose another one, or take their permission away (chmod go-w)",
            path.display(),
            stat.st_mode & 0o7777
        )))
    }

    /// Fails if others may create names in it, with or without the sticky bit.
    pub(super) fn refuse_shared(dir: &Handle, path: &Path) -> io::Result<()> {
        let stat = sys::fstat(dir)?;
        if !others_may_write(&stat) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "other users may make files in {} (mode {:04o}); take their permission away (chmod go-w)",
            path.display(),
            stat.st_mode & 0o7777
        )))
    }

    /// Fails if it belongs to a user other than root and this one.
    pub(super) fn refuse_foreign(dir: &Handle, path: &Path) -> io::Result<()> {
        let owner = sys::fstat(dir)?.st_uid;
        if is_trusted(owner) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the directory {} belongs to another user (number {owner}), who could replace what is below it; choose another place",
            path.display()
        )))
    }

    fn is_trusted(uid: u32) -> bool {
        [0, geteuid().as_raw()].contains(&uid)
    }

    /// A group with the owner as its only member, with which many systems make directories writable, adds no user.
    fn others_may_write(stat: &Stat) -> bool {
        let mode = Mode::from_raw_mode(stat.st_mode);
        let own_group = [stat.st_uid, 0, getegid().as_raw()].contains(&stat.st_gid);
        mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && !own_group)
    }

    pub(super) fn open_trusted(path: &Path, is_secret: bool) -> io::Result<File> {
        // Opening a pipe without a writer would block.
        let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = sys::open(path, how, Mode::empty())?;
        let stat = sys::fstat(&file)?;
        let refused = |why: String| Err(io::Error::other(why));
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return refused("it is no regular file".to_owned());
        }
        if !is_trusted(stat.st_uid) {
            return refused(format!(
                "it belongs to another user (number {}); run chown on it",
                stat.st_uid
            ));
        }
        if others_may_write(&stat) {
            return refused("other users can write to it; run chmod go-w on it".to_owned());
        }
        if is_secret && stat.st_mode & 0o007 != 0 {
            return refused("everybody can read it; run chmod o= on it".to_owned());
        }
        Ok(File::from(file))
    }

    /// Refuses to replace devices, pipes and directories, and links to them. A link to a file or to nothing is
    /// replaced, not its target. `path` is that of `dir`.
    pub(super) fn refuse_all_but_files(dir: &Handle, path: &Path, name: &Path) -> io::Result<()> {
        let why = match kind_of(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            None | Some(FileType::RegularFile) => return Ok(()),
            Some(FileType::Symlink) if is_replaceable_link(dir, path, name) => return Ok(()),
            Some(FileType::Directory) => "it is a directory; give the name of a file",
            Some(_) => "it is no regular file; give the name of a file",
        };
        Err(io::Error::other(why))
    }

    fn is_replaceable_link(dir: &Handle, path: &Path, name: &Path) -> bool {
        let target = kind_of(dir, name, AtFlags::empty());
        let holder = path.join(name);
        matches!(target, None | Some(FileType::RegularFile))
            && !holder.parent().is_some_and(has_links_of_system)
    }

    /// Whether links in this directory are the system's. `/dev/stdout` leads to whatever a process writes to, which may
    /// be a regular file, and all programs need it.
    pub(super) fn has_links_of_system(dir: &Path) -> bool {
        let Ok(dir) = dir.canonicalize() else {
            return false;
        };
        // Other file systems below /dev, such as /dev/shm, contain files of users.
        dir == Path::new("/dev") || dir.starts_with("/proc")
    }

    pub(super) fn is_dir(dir: &Handle, name: &Path) -> bool {
        kind_of(dir, name, AtFlags::SYMLINK_NOFOLLOW) == Some(FileType::Directory)
    }

    fn kind_of(dir: &Handle, name: &Path, follow: AtFlags) -> Option<FileType> {
        let stat: Stat = sys::statat(dir, name, follow).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }

    pub(super) fn rename(dir: &Handle, from: &Path, to: &Path) -> io::Result<()> {
        Ok(sys::renameat(dir, from, dir, to)?)
    }

    pub(super) fn remove_file(dir: &Handle, name: &Path) -> io::Result<()> {
        Ok(sys::unlinkat(dir, name, AtFlags::empty())?)
    }

    pub(super) fn remove_dir(dir: &Handle, name: &Path) -> io::Result<()> {
        Ok(sys::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
    }

    pub(super) fn sync(dir: &Handle, name: &Path) -> io::Result<()> {
        match sys::openat(dir, name, OPEN_DIR | OFlags::NOFOLLOW, Mode::empty()) {
            Err(rustix::io::Errno::ACCESS) => Ok(()),
            opened => Ok(sys::fsync(opened?)?),
        }
    }
}

/// Systems without these permissions: names are used as they are.
#[cfg(not(unix))]
mod at {
    use super::*;
    use std::fs;

    pub(super) type Handle = PathBuf;

    pub(super) fn open_dir(path: &Path, _parent: bool) -> io::Result<Handle> {
        fs::metadata(path)?;
        Ok(path.to_owned())
    }

    pub(super) fn make_dir(dir: &Handle, name: &Path, _access: Access) -> io::Result<Handle> {
        fs::create_dir(dir.join(name)).map(|()| dir.join(name))
    }

    pub(super) fn create_file(dir: &Handle, name: &Path, _access: Access) -> io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.join(name))
    }

    pub(super) fn is_ours(_dir: &Handle) -> io::Result<bool> {
        Ok(true)
    }

    pub(super) fn is_empty(dir: &Handle) -> io::Result<bool> {
        Ok(fs::read_dir(dir)?.next().is_none())
    }

    pub(super) fn refuse_what_others_write(_dir: &Handle, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn refuse_all_but_files(
        _dir: &Handle,
        _path: &Path,
        _name: &Path,
    ) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn refuse_shared(_dir: &Handle, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn refuse_foreign(_dir: &Handle, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn open_trusted(path: &Path, _is_secret: bool) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn is_dir(dir: &Handle, name: &Path) -> bool {
        dir.join(name).is_dir()
    }

    pub(super) fn rename(dir: &Handle, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(dir.join(from), dir.join(to))
    }

    pub(super) fn remove_file(dir: &Handle, name: &Path) -> io::Result<()> {
        fs::remove_file(dir.join(name))
    }

    pub(super) fn remove_dir(dir: &Handle, name: &Path) -> io::Result<()> {
        fs::remove_dir(dir.join(name))
    }

    pub(super) fn sync(_dir: &Handle, _name: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path)
            .expect("there")
            .permissions()
            .mode()
            & 0o7777
    }

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn permissions_are_the_owners_alone_or_those_asked_for() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        for (access, dir_mode, file_mode) in [
            (Access::OWNER, 0o700, 0o600),
            (Access::new(0o640, None).expect("allowed"), 0o750, 0o640),
            (Access::new(0o644, None).expect("allowed"), 0o755, 0o644),
        ] {
            let path = tmp.path().join(file_mode.to_string());
            let dir = PrivateDir::create(&path, access).expect("makes");
            dir.make_dir("io").expect("makes");
            dir.write_atomically("io/1", b"x").expect("writes");
            drop(dir.create_file("log").expect("makes"));
            assert_eq!([mode(&path), mode(&path.join("io"))], [dir_mode; 2]);
            assert_eq!(
                [mode(&path.join("io/1")), mode(&path.join("log"))],
                [file_mode; 2]
            );
        }
        assert!(
            [0o660, 0o666, 0o400, 0o700]
                .iter()
                .all(|m| Access::new(*m, None).is_none())
        );
    }

    #[test]
    fn a_planted_link_is_replaced_and_its_target_untouched() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let victim = tmp.path().join("victim");
        fs::write(&victim, "precious").expect("writes");
        let target = tmp.path().join("report.html");
        symlink(&victim, tmp.path().join("report.html.tmp")).expect("links");
        symlink(&victim, &target).expect("links");
        write_file(&target, b"page", Access::OWNER).expect("writes");
        assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
        assert!(fs::symlink_metadata(&target).expect("there").is_file());
        assert_eq!(fs::read_to_string(&target).expect("there"), "page");
        let dir = PrivateDir::open(tmp.path(), Access::OWNER).expect("opens");
        symlink(&victim, tmp.path().join("log")).expect("links");
        assert_eq!(
            dir.create_file("log").expect_err("a link is there").kind(),
            ErrorKind::AlreadyExists
        );
        symlink(tmp.path(), tmp.path().join("io")).expect("links");
        assert!(
            dir.make_dir("io").is_err(),
            "a link is no directory of ours"
        );
        assert!(PrivateDir::open(&tmp.path().join("io"), Access::OWNER).is_err());
    }

    #[test]
    fn the_directory_opened_stays_the_one_written_to() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let path = tmp.path().join("r");
        let other = tmp.path().join("other");
        let dir = PrivateDir::create(&path, Access::OWNER).expect("makes");
        fs::rename(&path, tmp.path().join("moved")).expect("moves");
        fs::create_dir(&other).expect("makes");
        symlink(&other, &path).expect("links");
        dir.write_atomically("meta.json", b"{}").expect("writes");
        assert_eq!(fs::read_dir(&other).expect("lists").count(), 0);
        assert!(tmp.path().join("moved/meta.json").exists());
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused_unless_it_is_sticky_and_ours() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let make = |name: &str| PrivateDir::create(&tmp.path().join(name), Access::OWNER);
        allow(tmp.path(), 0o777);
        let refused = make("a").expect_err("writable by others").to_string();
        assert!(
            refused.contains("mode 0777") && refused.contains(&tmp.path().display().to_string()),
            "{refused}"
        );
        assert!(PrivateDir::open(tmp.path(), Access::OWNER).is_err());
        allow(tmp.path(), 0o1777);
        make("a").expect("as in /tmp");
        allow(tmp.path(), 0o755);
        make("b").expect("makes");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(tmp.path(), None, Some(4321)).expect("root may");
            allow(tmp.path(), 0o775);
            make("c").expect_err("a group of others");
            std::os::unix::fs::chown(tmp.path(), Some(4321), Some(4321)).expect("root may");
            allow(tmp.path(), 0o775);
            make("c").expect("the group of the owner alone");
            allow(tmp.path(), 0o1777);
            make("d").expect_err("sticky, and another user's");
        }
    }

    #[test]
    fn only_a_file_can_be_written() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        fs::create_dir(tmp.path().join("dir")).expect("makes");
        let write = |name: &str| {
            write_file(&tmp.path().join(name), b"x", Access::OWNER).map_err(|e| e.to_string())
        };
        assert!(write("dir").expect_err("a directory").contains("directory"));
        assert!(
            write_file(Path::new("."), b"x", Access::OWNER)
                .expect_err("a directory")
                .to_string()
                .contains("directory")
        );
        assert!(
            write_file(Path::new("/dev/null"), b"x", Access::OWNER).is_err(),
            "a device is not replaced"
        );
        assert!(write("no/such").is_err());
        assert_eq!(
            fs::read_dir(tmp.path()).expect("lists").count(),
            1,
            "no temporary file stays"
        );
    }

    #[test]
    fn a_link_to_what_is_no_file_stays() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let link = tmp.path().join("link");
        for target in ["/dev/null", "/dev", "."] {
            symlink(target, &link).expect("links");
            for refused in [
                refuse_all_but_file(&link),
                write_file(&link, b"x", Access::OWNER),
            ] {
                let why = refused.expect_err("no file").to_string();
                assert!(why.contains("no regular file"), "{target}: {why}");
            }
            assert_eq!(fs::read_link(&link).expect("stays"), Path::new(target));
            fs::remove_file(&link).expect("removes");
        }
        symlink("nothing", &link).expect("links");
        refuse_all_but_file(&link).expect("nothing is lost");
        write_file(&link, b"x", Access::OWNER).expect("nothing is lost");
        assert!(fs::symlink_metadata(&link).expect("there").is_file());
    }

    #[test]
    fn a_link_of_the_system_stays_whatever_it_leads_to() {
        use std::os::fd::AsRawFd as _;
        let file = tempfile::tempfile().expect("a file");
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let refused = write_file(Path::new(&link), b"x", Access::OWNER);
        let why = refused.expect_err("a link").to_string();
        assert!(why.contains("no regular file"), "{why}");
        assert!(at::has_links_of_system(Path::new("/dev")));
        assert!(at::has_links_of_system(Path::new("/proc/self/fd")));
        assert!(!at::has_links_of_system(Path::new("/dev/shm")));
        assert!(!at::has_links_of_system(Path::new("/tmp")));
    }

    /// Changes the owner; returns false, with a message, without the privilege.
    fn give_away(path: &Path) -> bool {
        let given = std::os::unix::fs::chown(path, Some(65534), None).is_ok();
        if !given {
            eprintln!("SKIP: files cannot be given to another user");
        }
        given
    }

    #[test]
    fn what_stays_is_neither_in_a_shared_directory_nor_below_a_foreign_one() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let path = tmp.path().join("deep/root");
        fs::create_dir_all(&path).expect("makes");
        let refusal = || {
            let refused = PrivateDir::open_for_good(&path, Access::OWNER).expect_err("refused");
            refused.to_string()
        };
        allow(&path, 0o750);
        PrivateDir::open_for_good(&path, Access::OWNER).expect("its own");
        allow(&path, 0o1777);
        assert!(refusal().contains("chmod go-w"), "{}", refusal());
        allow(&path, 0o750);
        allow(&tmp.path().join("deep"), 0o777);
        assert!(refusal().contains("deep"), "{}", refusal());
        allow(&tmp.path().join("deep"), 0o1777);
        PrivateDir::open_for_good(&path, Access::OWNER).expect("as below /tmp");
        if give_away(&tmp.path().join("deep")) {
            assert!(refusal().contains("another user"), "{}", refusal());
            let new = refuse_foreign_parents(&path.join("a/b")).expect_err("refused");
            assert!(new.to_string().contains("deep"), "{new}");
        }
    }

    #[test]
    fn settings_and_secrets_are_regular_files_of_trusted_users() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let path = tmp.path().join("token");
        fs::write(&path, "secret").expect("writes");
        let refusal = |is_secret| {
            let refused = read_trusted(&path, is_secret).expect_err("refused");
            refused.to_string()
        };
        allow(&path, 0o640);
        assert_eq!(read_trusted(&path, true).expect("reads"), b"secret");
        allow(&path, 0o644);
        assert_eq!(read_trusted(&path, false).expect("reads"), b"secret");
        assert!(refusal(true).contains("everybody can read it"));
        allow(&path, 0o646);
        assert!(refusal(false).contains("other users can write"));
        allow(&path, 0o600);
        if give_away(&path) {
            assert!(refusal(true).contains("another user"));
            assert!(refusal(false).contains("another user"));
        }
        fs::remove_file(&path).expect("removes");
        let pipe = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, pipe).expect("makes a pipe");
        assert!(refusal(true).contains("no regular file"));
        let link = tmp.path().join("device");
        symlink("/dev/zero", &link).expect("links");
        assert!(read_trusted(&link, false).is_err());
    }
}
