//! What an experiment makes on a machine and takes away again: scratch files, loop devices, file systems on them.
//!
//! Everything that is made is written to a list. Dropping a guard undoes it; after a SIGKILL the list is what
//! [`clean`] goes by. Nothing that is not on the list is ever detached, unmounted or removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LIST: &str = "scratch.list";
const MIB: usize = 1 << 20;

/// A kind of thing on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    File,
    Dir,
    Loop,
    Mount,
}

impl Thing {
    fn word(self) -> &'static str {
        match self {
            Thing::File => "file",
            Thing::Dir => "dir",
            Thing::Loop => "loop",
            Thing::Mount => "mount",
        }
    }

    fn from_word(w: &str) -> Option<Thing> {
        [Thing::File, Thing::Dir, Thing::Loop, Thing::Mount].into_iter().find(|t| t.word() == w)
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
            "ext4" => &["-q", "-F"],
            "xfs" | "btrfs" => &["-q", "-f"],
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
        run("mount", &["-t", fs_type, &device, &point.to_string_lossy()])?;
        Ok(Mount { dir })
    }
}

/// Undoes what is left of an experiment that was killed; says what it did.
///
/// # Errors
/// There is no list.
pub fn clean(experiment: &Path) -> io::Result<Vec<String>> {
    let registry = Registry::of(experiment);
    let mut done = Vec::new();
    for (thing, what) in registry.entries().into_iter().rev() {
        let path = Path::new(&what);
        let undone = match thing {
            Thing::Mount => is_mounted(path) && run("umount", &[&what]).is_ok(),
            Thing::Loop => detach_all_over(path),
            Thing::File => path.is_file() && fs::remove_file(path).is_ok(),
            Thing::Dir => path.is_dir() && fs::remove_dir(path).is_ok(),
        };
        if undone {
            done.push(format!("{} {what}", thing.word()));
        }
    }
    match fs::remove_file(&registry.path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(done),
    }
}

fn is_mounted(point: &Path) -> bool {
    let Ok(text) = fs::read_to_string("/proc/self/mounts") else { return false };
    // Blanks in mount points are printed as \040.
    let name = point.to_string_lossy().replace(' ', "\\040");
    text.lines().any(|l| l.split(' ').nth(1) == Some(&name))
}

/// Detaches every loop device whose backing file is `file`: exactly that file, which we made.
fn detach_all_over(file: &Path) -> bool {
    let Ok(out) = run("losetup", &["-j", &file.to_string_lossy(), "--noheadings", "-O", "NAME"]) else { return false };
    let devices: Vec<&str> = out.split_whitespace().collect();
    !devices.is_empty() && devices.iter().all(|d| run("losetup", &["-d", d]).is_ok())
}

/// Runs a helper program; its error message becomes ours.
fn run(program: &str, words: &[&str]) -> io::Result<String> {
    let out = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
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

impl ScratchFile {
    /// Drops this file's pages, and nobody else's, from the page cache.
    ///
    /// # Errors
    /// The file cannot be opened or synced.
    pub fn drop_cache(&self) -> io::Result<()> {
        let f = File::open(&self.path)?;
        f.sync_all()?;
        rustix::fs::fadvise(&f, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_file(&self.path) {
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
        if let Err(e) = run("umount", &[&self.dir.path.to_string_lossy()]) {
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
        let done = clean(dir.path()).expect("cleans");
        assert_eq!(done.len(), 1, "{done:?}");
        assert!(kept.exists() && !dir.path().join("scratch").exists());
        assert!(clean(dir.path()).expect("nothing left").is_empty());
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
