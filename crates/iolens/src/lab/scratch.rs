//! What an experiment makes on a machine and takes away again: scratch files, loop devices, file systems on them.
//!
//! Everything that is made is written to a list. Dropping a guard undoes it; after a SIGKILL the list is what
//! [`clean`] goes by. Nothing that is not on the list is ever detached, unmounted or removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LIST: &str = "scratch.list";
const MIB: usize = 1 << 20;

/// A kind of thing on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    File,
    Dir,
    /// A folder of ours and everything in it.
    Tree,
    Loop,
    Mount,
}

impl Thing {
    fn word(self) -> &'static str {
        match self {
            Thing::File => "file",
            Thing::Dir => "dir",
            Thing::Tree => "tree",
            Thing::Loop => "loop",
            Thing::Mount => "mount",
        }
    }

    fn from_word(w: &str) -> Option<Thing> {
        [Thing::File, Thing::Dir, Thing::Tree, Thing::Loop, Thing::Mount].into_iter().find(|t| t.word() == w)
    }
}

/// The list of an experiment's scratch things.
#[derive(Debug, Clone)]
pub struct Registry {
    path: PathBuf,
}

impl Registry {
    /// The list in the experiment's directory.
    pub fn of(experiment: &Path) -> Registry {
        Registry { path: experiment.join(LIST) }
    }

    fn note(&self, thing: Thing, what: &str) -> io::Result<()> {
        if what.contains(['\n', '\t']) {
            return Err(io::Error::other(format!("{what:?}: a name with line ends or tabs cannot be kept track of")));
        }
        let mut f = OpenOptions::new().create(true).append(true).open(&self.path)?;
        writeln!(f, "{}\t{what}", thing.word())?;
        f.sync_all()
    }

    fn entries(&self) -> Vec<(Thing, String)> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.lines()
            .filter_map(|l| l.split_once('\t').and_then(|(t, w)| Some((Thing::from_word(t)?, w.to_owned()))))
            .collect()
    }

    /// A scratch file of `bytes` random bytes, which must not exist yet; removed when dropped.
    ///
    /// # Errors
    /// It exists, cannot be written, or there is too little room.
    pub fn file(&self, path: &Path, bytes: u64) -> io::Result<ScratchFile> {
        let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        need_room(dir, bytes)?;
        let absolute = dir.canonicalize()?.join(path.file_name().unwrap_or_default());
        // Made first, then listed: a name on the list that was not ours would be removed by `clean`. An empty file that a
        // kill between the two leaves behind takes no room.
        let mut file = OpenOptions::new().write(true).create_new(true).open(&absolute)?;
        let guard = ScratchFile { path: absolute };
        self.note(Thing::File, &guard.path.to_string_lossy())?;
        fill(&mut file, bytes)?;
        file.sync_all()?;
        Ok(guard)
    }

    /// A new folder in a directory of the user's; removed with all that is in it when dropped.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn folder(&self, path: &Path) -> io::Result<ScratchTree> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        fs::create_dir(path).map_err(named)?;
        let tree = ScratchTree { path: path.canonicalize()? };
        self.note(Thing::Tree, &tree.path.to_string_lossy())?;
        Ok(tree)
    }

    /// A loop device over a new scratch file.
    ///
    /// # Errors
    /// As [`Registry::file`], or no loop device can be made (no privilege).
    pub fn loop_disk(&self, backing: &Path, bytes: u64) -> io::Result<LoopDisk> {
        let file = self.file(backing, bytes)?;
        // Noted by its file: the number is not known before it is made, and a number may be reused by others.
        self.note(Thing::Loop, &file.path.to_string_lossy())?;
        let out = run("losetup", &["-f", "--show", "--direct-io=on", &file.path.to_string_lossy()])
            .or_else(|_| run("losetup", &["-f", "--show", &file.path.to_string_lossy()]))?;
        Ok(LoopDisk { device: PathBuf::from(out.trim()), file })
    }

    /// Makes a file system on a loop device of ours and mounts it on a new directory.
    ///
    /// # Errors
    /// mkfs or mount is missing or fails.
    pub fn mount(&self, disk: &LoopDisk, fs_type: &str, point: &Path) -> io::Result<Mount> {
        let quiet: &[&str] = match fs_type {
            // Without discards, which would make holes in the file under the device.
            "ext4" => &["-q", "-F", "-E", "nodiscard"],
            "xfs" | "btrfs" => &["-q", "-f", "-K"],
            "ntfs" => &["-q", "-F", "-f"],
            _ => &[],
        };
        let device = disk.device.to_string_lossy().into_owned();
        let mut words = quiet.to_vec();
        words.push(&device);
        run(&format!("mkfs.{fs_type}"), &words)?;
        fs::create_dir(point)?;
        let point = point.canonicalize()?;
        let dir = ScratchDir { path: point.clone() };
        self.note(Thing::Dir, &point.to_string_lossy())?;
        self.note(Thing::Mount, &point.to_string_lossy())?;
        run("mount", &["-t", driver(fs_type).unwrap_or(fs_type), &device, &point.to_string_lossy()])?;
        Ok(Mount { dir })
    }
}

/// The driver by which a file system can be mounted here: the kernel's, loaded or not, or one in user space.
pub fn driver(fs_type: &str) -> Option<&str> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let kernel = if fs_type == "ntfs" { "ntfs3" } else { fs_type };
    let loaded = known.lines().any(|l| l.split_whitespace().next_back() == Some(kernel));
    if loaded || run("modprobe", &["-n", "-q", kernel]).is_ok() {
        return Some(kernel);
    }
    (fs_type == "ntfs" && has_program("mount.ntfs-3g") && known.contains("fuseblk")).then_some("ntfs-3g")
}

/// Undoes what is left of an experiment that was killed: (what was undone, what could not be).
///
/// # Errors
/// The list cannot be written.
pub fn clean(experiment: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let registry = Registry::of(experiment);
    let (mut done, mut left) = (Vec::new(), Vec::new());
    for (thing, what) in registry.entries().into_iter().rev() {
        let path = Path::new(&what);
        let said = format!("{} {what}", thing.word());
        match undo(thing, path) {
            Some(Ok(())) => done.push(said),
            Some(Err(e)) => left.push((thing, what, format!("{said}: {e}"))),
            None => {}
        }
    }
    if left.is_empty() {
        match fs::remove_file(&registry.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => return Ok((done, Vec::new())),
        }
    }
    // What is still there stays on the list, in the order of making.
    let part = registry.path.with_extension("part");
    let list: String = left.iter().rev().map(|(t, w, _)| format!("{}\t{w}\n", t.word())).collect();
    fs::write(&part, list)?;
    fs::rename(&part, &registry.path)?;
    Ok((done, left.into_iter().map(|l| l.2).collect()))
}

/// `None` if it is gone already.
fn undo(thing: Thing, path: &Path) -> Option<io::Result<()>> {
    match thing {
        Thing::Mount if is_mounted(path) => Some(run("umount", &[&path.to_string_lossy()]).map(drop)),
        Thing::Loop => detach_all_over(path),
        Thing::File if path.is_file() => Some(fs::remove_file(path)),
        Thing::Dir if path.is_dir() => Some(fs::remove_dir(path)),
        Thing::Tree if path.is_dir() => Some(fs::remove_dir_all(path)),
        _ => None,
    }
}

fn is_mounted(point: &Path) -> bool {
    let Ok(text) = fs::read_to_string("/proc/self/mounts") else { return false };
    // Blanks in mount points are printed as \040.
    let name = point.to_string_lossy().replace(' ', "\\040");
    text.lines().any(|l| l.split(' ').nth(1) == Some(&name))
}

/// Detaches every loop device whose backing file is `file`: exactly that file, which we made.
fn detach_all_over(file: &Path) -> Option<io::Result<()>> {
    let out = run("losetup", &["-j", &file.to_string_lossy(), "--noheadings", "-O", "NAME"]).ok()?;
    let devices: Vec<&str> = out.split_whitespace().collect();
    let detach = |d: &&str| run("losetup", &["-d", d]).map(drop);
    (!devices.is_empty()).then(|| devices.iter().try_for_each(detach))
}

/// Runs a helper program; its error message becomes ours.
fn run(program: &str, words: &[&str]) -> io::Result<String> {
    let out = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        // Ctrl-C is for us: an unmount that it kills would leave the mount behind.
        .process_group(0)
        .output()
        .map_err(|e| io::Error::other(format!("{program} cannot be run: {e}")))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&out.stderr);
    Err(io::Error::other(format!("{program} failed: {}", why.lines().last().unwrap_or("without a word"))))
}

/// Whether a program can be found.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .any(|d| d.join(name).is_file())
}

/// Fails unless `dir` has `bytes` and a tenth more to spare.
///
/// # Errors
/// Too little room, or the directory does not exist.
pub fn need_room(dir: &Path, bytes: u64) -> io::Result<()> {
    let s = rustix::fs::statvfs(dir).map_err(|e| io::Error::other(format!("{}: {e}", dir.display())))?;
    let free = s.f_bavail.saturating_mul(s.f_frsize);
    if free < bytes + bytes / 10 {
        let (need, have) = (bytes >> 20, free >> 20);
        return Err(io::Error::other(format!("{}: {need} MiB are needed and {have} MiB free", dir.display())));
    }
    Ok(())
}

/// Random bytes: disks and file systems that compress or skip zeros must do the work.
fn fill(file: &mut File, bytes: u64) -> io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut block = vec![0u8; MIB];
    let mut left = bytes;
    while left > 0 {
        block.chunks_exact_mut(8).for_each(|c| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            c.copy_from_slice(&state.to_le_bytes());
        });
        let n = left.min(MIB as u64) as usize;
        file.write_all(&block[..n])?;
        left -= n as u64;
    }
    Ok(())
}

fn complain(what: &str, path: &Path, e: &io::Error) {
    eprintln!("iolens: {}: {what}: {e}; `iolens lab clean DIR` tries again", path.display());
}

/// A file of ours.
#[derive(Debug)]
pub struct ScratchFile {
    /// Where it is.
    pub path: PathBuf,
}

/// Drops the pages of this file or device, and nobody else's, from the page cache.
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
        if let Err(e) = fs::remove_file(&self.path) {
            complain("cannot be removed", &self.path, &e);
        }
    }
}

/// A folder of ours, with what is in it.
#[derive(Debug)]
pub struct ScratchTree {
    /// Where it is.
    pub path: PathBuf,
}

impl Drop for ScratchTree {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.path) {
            complain("cannot be removed", &self.path, &e);
        }
    }
}

#[derive(Debug)]
struct ScratchDir {
    path: PathBuf,
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir(&self.path) {
            complain("cannot be removed", &self.path, &e);
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
            complain("cannot be detached", &self.file.path, &e);
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
        // Something that looks at new mounts (an indexer, a desktop) may be in it for a moment.
        for _ in 0..20 {
            if undone.is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            undone = run("umount", &[&self.dir.path.to_string_lossy()]);
        }
        if let Err(e) = undone {
            complain("cannot be unmounted", &self.dir.path, &e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_gone_after_a_kill_and_nothing_else() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let r = Registry::of(dir.path());
        let kept = dir.path().join("precious");
        fs::write(&kept, "do not touch").expect("writes");
        assert!(r.file(&kept, 10).is_err(), "an existing file is refused");
        assert_eq!(fs::read_to_string(&kept).expect("there"), "do not touch");
        assert!(!dir.path().join(LIST).exists(), "a refused name is not listed");
        let f = r.file(&dir.path().join("scratch"), 3 * MIB as u64 + 5).expect("makes");
        assert_eq!(fs::metadata(&f.path).expect("there").len(), 3 * MIB as u64 + 5);
        std::mem::forget(f);
        let tree = r.folder(&dir.path().join("folder")).expect("makes");
        fs::write(tree.path.join("copy"), "ours").expect("writes");
        std::mem::forget(tree);
        assert!(r.folder(dir.path()).is_err(), "an existing folder is refused");
        let (done, left) = clean(dir.path()).expect("cleans");
        assert_eq!((done.len(), left.len()), (2, 0), "{done:?}");
        assert!(kept.exists() && !dir.path().join("scratch").exists() && !dir.path().join("folder").exists());
        assert!(clean(dir.path()).expect("nothing left").0.is_empty());
    }

    #[test]
    fn what_cannot_be_undone_stays_on_the_list() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let full = dir.path().join("full");
        fs::create_dir(&full).expect("makes");
        fs::write(full.join("not ours"), "").expect("writes");
        Registry::of(dir.path()).note(Thing::Dir, &full.to_string_lossy()).expect("notes");
        let (done, left) = clean(dir.path()).expect("tries");
        assert!(done.is_empty() && left.len() == 1 && left[0].contains("full"), "{left:?}");
        fs::remove_file(full.join("not ours")).expect("removes");
        assert_eq!(clean(dir.path()).expect("cleans").0.len(), 1);
    }

    #[test]
    fn too_much_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let e = Registry::of(dir.path()).file(&dir.path().join("huge"), 1 << 60).expect_err("no such disk");
        assert!(e.to_string().contains("MiB free"), "{e}");
        assert!(!dir.path().join("huge").exists());
    }

    #[test]
    fn a_loop_disk_comes_and_goes() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("temporary directory");
        match Registry::of(dir.path()).loop_disk(&dir.path().join("disk"), 4 << 20) {
            Ok(disk) => {
                let device = disk.device.clone();
                assert!(device.starts_with("/dev"));
                drop(disk);
                assert!(!dir.path().join("disk").exists());
            }
            Err(e) => eprintln!("SKIP: no loop device can be made: {e}"),
        }
    }
}
