//! Temporary state of an experiment: scratch files, loop devices, and file systems on them.
//!
//! Everything that is created is recorded in the [registry](super::registry). Dropping a guard undoes it; after a
//! SIGKILL, `lab clean` uses the list of the registry.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iolens_core::analysis::math::stats::Shuffler;
use iolens_core::private::{Access, PrivateDir};

use super::Warn;
use super::registry::{Registry, Thing, remove_tree};

const MIB: usize = 1 << 20;

/// A name in its open directory: what is made there is removed there, wherever its path leads by then.
#[derive(Debug)]
struct ScratchPlace {
    dir: PrivateDir,
    name: OsString,
    warn: Warn,
}

impl ScratchPlace {
    fn complain(&self, what: &str, path: &Path, e: &io::Error) {
        (self.warn)(&format!(
            "{}: {what}: {e}; `iolens lab clean DIR` tries again",
            path.display()
        ));
    }
}

fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

impl Registry {
    /// The place that `path` names, and its path without links.
    fn place(&self, path: &Path) -> io::Result<(ScratchPlace, PathBuf)> {
        let (dir, name) = PrivateDir::holding(path, Access::OWNER).map_err(|e| named(path, &e))?;
        let absolute = dir.path().canonicalize()?.join(&name);
        Ok((
            ScratchPlace {
                dir,
                name,
                warn: self.warn,
            },
            absolute,
        ))
    }

    /// A scratch file of `bytes` random bytes, which must not exist yet; removed when dropped.
    ///
    /// # Errors
    /// It exists, cannot be written, or there is too little room.
    pub fn file(&self, path: &Path, bytes: u64) -> io::Result<ScratchFile> {
        let dir = path
            .parent()
            .filter(|d| !d.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        need_room(dir, bytes)?;
        let (place, absolute) = self.place(path)?;
        // Created first, then recorded, so that the list contains its inode. If the process is killed in between, the
        // empty file that is left behind uses no space.
        let mut file = place
            .dir
            .create_file(&place.name)
            .map_err(|e| named(path, &e))?;
        let guard = ScratchFile {
            path: absolute,
            place,
        };
        self.note(Thing::File, &guard.path)?;
        fill(&mut file, bytes)?;
        file.sync_all()?;
        Ok(guard)
    }

    /// A new folder in a directory of the user's; removed with all that is in it when dropped.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn folder(&self, path: &Path) -> io::Result<ScratchTree> {
        let (place, absolute) = self.place(path)?;
        PrivateDir::create(path, Access::OWNER).map_err(|e| named(path, &e))?;
        let tree = ScratchTree {
            path: absolute,
            place,
        };
        self.note(Thing::Tree, &tree.path)?;
        Ok(tree)
    }

    /// A loop device over a new scratch file.
    ///
    /// # Errors
    /// As [`Registry::file`], or no loop device can be made (no privilege).
    pub fn loop_disk(&self, backing: &Path, bytes: u64) -> io::Result<LoopDisk> {
        let file = self.file(backing, bytes)?;
        // Recorded by its file: the device number is not known in advance, and it may be reused by others.
        self.note(Thing::Loop, &file.path)?;
        let out = run(
            "losetup",
            &[
                "-f",
                "--show",
                "--direct-io=on",
                &file.path.to_string_lossy(),
            ],
        )
        .or_else(|_| run("losetup", &["-f", "--show", &file.path.to_string_lossy()]))?;
        Ok(LoopDisk {
            device: PathBuf::from(out.trim()),
            file,
        })
    }

    /// Makes a file system on a loop device of ours and mounts it on a new directory.
    ///
    /// # Errors
    /// mkfs or mount is missing or fails.
    pub fn mount(&self, disk: &LoopDisk, fs_type: &str, point: &Path) -> io::Result<Mount> {
        let quiet: &[&str] = match fs_type {
            // Without discards, which would punch holes in the backing file.
            "ext4" => &["-q", "-F", "-E", "nodiscard"],
            "xfs" | "btrfs" => &["-q", "-f", "-K"],
            "ntfs" => &["-q", "-F", "-f"],
            _ => &[],
        };
        let device = disk.device.to_string_lossy().into_owned();
        let mut words = quiet.to_vec();
        words.push(&device);
        run(&format!("mkfs.{fs_type}"), &words)?;
        let (place, absolute) = self.place(point)?;
        PrivateDir::create(point, Access::OWNER).map_err(|e| named(point, &e))?;
        let dir = ScratchDir {
            path: absolute.clone(),
            place,
        };
        let point = absolute;
        self.note(Thing::Dir, &point)?;
        self.note(Thing::Mount, &point)?;
        run(
            "mount",
            &[
                "-t",
                driver(fs_type).unwrap_or(fs_type),
                &device,
                &point.to_string_lossy(),
            ],
        )?;
        Ok(Mount { dir })
    }
}

/// The driver with which a file system can be mounted here: the kernel's, loaded or not, or one in user space.
pub fn driver(fs_type: &str) -> Option<&str> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let kernel = if fs_type == "ntfs" { "ntfs3" } else { fs_type };
    let loaded = known
        .lines()
        .any(|l| l.split_whitespace().next_back() == Some(kernel));
    if loaded || run("modprobe", &["-n", "-q", kernel]).is_ok() {
        return Some(kernel);
    }
    (fs_type == "ntfs" && has_program("mount.ntfs-3g") && known.contains("fuseblk"))
        .then_some("ntfs-3g")
}

/// Runs a helper program; its error message becomes ours.
pub(super) fn run(program: &str, words: &[&str]) -> io::Result<String> {
    let out = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        // Ctrl-C must not reach the helper: a killed unmount would leave the mount behind.
        .process_group(0)
        .output()
        .map_err(|e| io::Error::other(format!("{program} cannot be run: {e}")))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&out.stderr);
    Err(io::Error::other(format!(
        "{program} failed: {}",
        why.lines().last().unwrap_or("without a word")
    )))
}

/// Whether a program can be found.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .any(|d| d.join(name).is_file())
}

/// Fails unless `dir` has `bytes` plus 10 % of free space.
///
/// # Errors
/// Too little room, or the directory does not exist.
pub fn need_room(dir: &Path, bytes: u64) -> io::Result<()> {
    let s = rustix::fs::statvfs(dir)
        .map_err(|e| io::Error::other(format!("{}: {e}", dir.display())))?;
    let free = s.f_bavail.saturating_mul(s.f_frsize);
    if free < bytes + bytes / 10 {
        let need = bytes >> 20;
        let have = free >> 20;
        return Err(io::Error::other(format!(
            "{}: {need} MiB are needed and {have} MiB free",
            dir.display()
        )));
    }
    Ok(())
}

/// Random bytes: disks and file systems that compress or skip zeros must do the work.
fn fill(file: &mut File, bytes: u64) -> io::Result<()> {
    let mut random = Shuffler::new(1);
    let mut block = vec![0u8; MIB];
    let mut left = bytes;
    while left > 0 {
        block
            .chunks_exact_mut(8)
            .for_each(|c| c.copy_from_slice(&random.bits().to_le_bytes()));
        let n = left.min(MIB as u64) as usize;
        file.write_all(&block[..n])?;
        left -= n as u64;
    }
    Ok(())
}

/// A file of ours.
#[derive(Debug)]
pub struct ScratchFile {
    /// Path of the file.
    pub path: PathBuf,
    place: ScratchPlace,
}

/// Drops the pages of this file or device, and no others, from the page cache.
///
/// # Errors
/// It cannot be opened or synced.
pub fn drop_cache(path: &Path) -> io::Result<()> {
    let f = File::open(path)?;
    f.sync_all()?;
    rustix::fs::fadvise(&f, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Reads the first `bytes` of a file or device, so that they are in the page cache.
///
/// # Errors
/// It cannot be read.
pub fn fill_cache(path: &Path, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0u8; MIB];
    let mut from = io::Read::take(File::open(path)?, bytes);
    while io::Read::read(&mut from, &mut buffer)? > 0 {}
    Ok(())
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Err(e) = self.place.dir.remove_file(&self.place.name) {
            self.place.complain("cannot be removed", &self.path, &e);
        }
    }
}

/// A folder of ours, with what is in it.
#[derive(Debug)]
pub struct ScratchTree {
    /// Path of the folder.
    pub path: PathBuf,
    place: ScratchPlace,
}

impl Drop for ScratchTree {
    fn drop(&mut self) {
        if let Err(e) = remove_tree(&self.place.dir, &self.place.name.to_string_lossy()) {
            self.place.complain("cannot be removed", &self.path, &e);
        }
    }
}

#[derive(Debug)]
struct ScratchDir {
    path: PathBuf,
    place: ScratchPlace,
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(e) = self.place.dir.remove_dir(&self.place.name) {
            self.place.complain("cannot be removed", &self.path, &e);
        }
    }
}

/// A loop device of ours and the file under it.
#[derive(Debug)]
pub struct LoopDisk {
    /// `/dev/loopN`.
    pub device: PathBuf,
    file: ScratchFile,
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if let Err(e) = run("losetup", &["-d", &self.device.to_string_lossy()]) {
            self.file
                .place
                .complain("cannot be detached", &self.file.path, &e);
        }
    }
}

/// A mounted file system of ours.
#[derive(Debug)]
pub struct Mount {
    dir: ScratchDir,
}

impl Mount {
    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.dir.path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut undone = run("umount", &[&self.dir.path.to_string_lossy()]);
        // A process that inspects new mounts (an indexer, a desktop) may use it for a moment.
        for _ in 0..20 {
            if undone.is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            undone = run("umount", &[&self.dir.path.to_string_lossy()]);
        }
        if let Err(e) = undone {
            self.dir
                .place
                .complain("cannot be unmounted", &self.dir.path, &e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::clean;

    fn registry(dir: &Path) -> Registry {
        Registry::with_state(dir, &dir.join("state"))
    }

    #[test]
    fn cleanup_after_a_kill_removes_only_our_files() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let r = registry(dir.path());
        let kept = dir.path().join("precious");
        fs::write(&kept, "do not touch").expect("writes");
        assert!(r.file(&kept, 10).is_err(), "an existing file is refused");
        assert_eq!(fs::read_to_string(&kept).expect("there"), "do not touch");
        assert!(
            !dir.path().join("state").exists(),
            "a refused name is not listed"
        );
        let f = r
            .file(&dir.path().join("iolens-lab-scratch"), 3 * MIB as u64 + 5)
            .expect("makes");
        assert_eq!(
            fs::metadata(&f.path).expect("there").len(),
            3 * MIB as u64 + 5
        );
        std::mem::forget(f);
        let tree = r
            .folder(&dir.path().join("iolens-lab-folder"))
            .expect("makes");
        fs::write(tree.path.join("copy"), "ours").expect("writes");
        std::mem::forget(tree);
        assert!(
            r.folder(dir.path()).is_err(),
            "an existing folder is refused"
        );
        let (done, left) = clean(&r).expect("cleans");
        assert_eq!((done.len(), left.len()), (2, 0), "{done:?}");
        assert!(
            kept.exists()
                && !dir.path().join("iolens-lab-scratch").exists()
                && !dir.path().join("iolens-lab-folder").exists()
        );
        assert!(clean(&r).expect("nothing left").0.is_empty());
    }

    #[test]
    fn oversized_requests_are_refused_before_writing() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let e = registry(dir.path())
            .file(&dir.path().join("iolens-lab-huge"), 1 << 60)
            .expect_err("no such disk");
        assert!(e.to_string().contains("MiB free"), "{e}");
        assert!(!dir.path().join("iolens-lab-huge").exists());
    }

    #[test]
    fn a_loop_disk_comes_and_goes() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("temporary directory");
        match registry(dir.path()).loop_disk(&dir.path().join("iolens-lab-disk"), 4 << 20) {
            Ok(disk) => {
                let device = disk.device.clone();
                assert!(device.starts_with("/dev"));
                drop(disk);
                assert!(!dir.path().join("iolens-lab-disk").exists());
            }
            Err(e) => eprintln!("SKIP: no loop device can be made: {e}"),
        }
    }
}
