//! Resources that the tests need: the program, a loop device, a load; and reasons to skip, with a message.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iolens_core::model::{LossReason, Lost};

/// A command line of the program under test.
pub fn iolens(arguments: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_iolens"));
    c.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    c
}

/// Timeout of events that must happen eventually; a loaded machine is slow.
pub const TIMEOUT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(10);

/// Waits until `is_so`; the test fails after [`TIMEOUT`].
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < TIMEOUT, "not after {TIMEOUT:?}: {what}");
        std::thread::sleep(POLL);
    }
}

/// The time, in seconds since 1970.
pub fn now_unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs_f64()
}

/// Runs it to completion and keeps its output.
pub fn run(arguments: &[&str]) -> Output {
    iolens(arguments).output().unwrap()
}

/// All details of a run that was not as expected.
pub fn scene(out: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}

/// The run failed with exit code 2 and printed one line that contains all of `words`.
pub fn assert_refused(out: &Output, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{}", scene(out));
    assert_eq!(
        stderr.trim_end().lines().count(),
        1,
        "one line, not:\n{}",
        scene(out)
    );
    for w in words {
        assert!(stderr.contains(w), "{w:?} is missing:\n{}", scene(out));
    }
    assert!(out.stdout.is_empty(), "{}", scene(out));
}

/// `None`, with a message, where eBPF is not allowed.
pub fn ebpf() -> Option<()> {
    match iolens_observe::trace::Tracer::start(Default::default()) {
        Ok(_) => Some(()),
        Err(e) => {
            eprintln!("SKIP: eBPF is not available: {e}");
            None
        }
    }
}

/// I/Os that the kernel did not show to the tracer, as the recording counts them.
pub fn hidden(lost: &[Lost]) -> i64 {
    let of_kernel = |l: &&Lost| matches!(l.reason, LossReason::Unseen | LossReason::Censored);
    lost.iter().filter(of_kernel).filter_map(|l| l.ios).sum()
}

/// A loop device over a file of zeros on tmpfs; detached and removed when dropped.
pub struct LoopDevice {
    pub path: PathBuf,
    backing: PathBuf,
    /// Files of its queue's settings that were written, with their previous values.
    settings_before: Mutex<Vec<(PathBuf, String)>>,
}

impl LoopDevice {
    /// `None`, with a message, if the machine has none available.
    pub fn new(mib: u64) -> Option<LoopDevice> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let backing = Path::new("/dev/shm").join(format!("iolens-e2e-{}-{n}", std::process::id()));
        let made = File::create(&backing).and_then(|f| f.set_len(mib << 20));
        if let Err(e) = made {
            std::fs::remove_file(&backing).ok();
            eprintln!("SKIP: no loop device: {e}");
            return None;
        }
        LoopDevice::over(backing, &[])
    }

    /// On an existing file, which is removed at the end; `options` are additional ones for `losetup`.
    pub fn over(backing: PathBuf, options: &[&str]) -> Option<LoopDevice> {
        match Command::new("losetup")
            .args(["--find", "--show"])
            .args(options)
            .arg(&backing)
            .output()
        {
            Ok(o) if o.status.success() => Some(LoopDevice {
                path: PathBuf::from(String::from_utf8(o.stdout).unwrap().trim()),
                backing,
                settings_before: Mutex::default(),
            }),
            out => {
                std::fs::remove_file(&backing).ok();
                eprintln!(
                    "SKIP: no loop device: {:?}",
                    out.map(|o| String::from_utf8_lossy(&o.stderr).into_owned())
                );
                None
            }
        }
    }

    /// Kernel name.
    pub fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    /// The 17 numbers of its `stat`.
    pub fn stat(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(format!("/sys/block/{}/stat", self.name())).unwrap();
        text.split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect()
    }

    /// Writes one of its queue's settings, until it is dropped: the next loop device of this number would keep it.
    pub fn set_queue(&self, setting: &str, value: u64) {
        let file = PathBuf::from(format!("/sys/block/{}/queue/{setting}", self.name()));
        let before = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, value.to_string()).unwrap();
        self.settings_before.lock().unwrap().push((file, before));
    }

    /// Opened for direct I/O.
    pub fn open_direct(&self) -> File {
        open_direct(&self.path)
    }
}

/// Opened for direct I/O.
pub fn open_direct(path: &Path) -> File {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    File::options()
        .read(true)
        .write(true)
        .custom_flags(direct)
        .open(path)
        .unwrap()
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        for (file, before) in self.settings_before.lock().unwrap().drain(..).rev() {
            std::fs::write(file, before.trim()).ok();
        }
        let detached = Command::new("losetup").arg("-d").arg(&self.path).status();
        std::fs::remove_file(&self.backing).ok();
        if !detached.is_ok_and(|s| s.success()) {
            eprintln!("{} could not be detached", self.path.display());
        }
    }
}

/// A new ext4 on `device`, mounted until dropped; `None`, with a message, where that is not possible.
pub struct Mounted(tempfile::TempDir);

impl Mounted {
    /// Creates and mounts it.
    pub fn ext4(device: &LoopDevice) -> Option<Mounted> {
        let dir = tempfile::tempdir().unwrap();
        let mkfs = Command::new("mkfs.ext4")
            .args(["-Fq", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .arg(&device.path)
            .status();
        let mount = Command::new("mount")
            .arg(&device.path)
            .arg(dir.path())
            .status();
        if !mkfs.is_ok_and(|s| s.success()) || !mount.is_ok_and(|s| s.success()) {
            eprintln!("SKIP: no ext4 can be made and mounted");
            return None;
        }
        Some(Mounted(dir))
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(self.0.path());
    }
}

/// Unmounts `path`: a recorder of another test may look into it for a moment. What stays busy is taken out of the table of
/// mounts at least: `mkfs.btrfs` of every later test would fail on a disk in it whose server is gone.
pub fn unmount(path: &Path) {
    let umount = |options: &[&str]| {
        let out = Command::new("umount").args(options).arg(path).output();
        out.is_ok_and(|o| o.status.success())
    };
    for _ in 0..50 {
        if umount(&[]) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    if !umount(&["--lazy"]) {
        eprintln!("{} could not be unmounted", path.display());
    }
}

/// A recorder that is running and ready.
pub struct Recorder(pub Child);

impl Recorder {
    /// Starts `iolens record -o DIR` and waits until the probes are attached.
    pub fn start(directory: &Path, arguments: &[&str]) -> Recorder {
        Recorder::start_as(directory, arguments, |command| command)
    }

    /// The same for a command with changes.
    pub fn start_as(
        directory: &Path,
        arguments: &[&str],
        changed: impl Fn(Command) -> Command,
    ) -> Recorder {
        let mut all = vec!["record", "-o", directory.to_str().unwrap()];
        all.extend_from_slice(arguments);
        let mut child = changed(iolens(&all))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while !directory.join("meta.json").exists() {
            assert!(
                child.try_wait().unwrap().is_none(),
                "{}",
                scene(&child.wait_with_output().unwrap())
            );
            assert!(begin.elapsed() < TIMEOUT, "no recording after {TIMEOUT:?}");
            std::thread::sleep(POLL);
        }
        Recorder(child)
    }

    /// Ctrl-C, then its end.
    pub fn interrupt(self) -> Output {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.0.wait_with_output().unwrap()
    }
}

/// Reads 4 KiB blocks sequentially and repeatedly with direct I/O: the n-th read is of sector `8 * (n % blocks)`.
/// Returns the number of reads.
pub fn read_in_sequence(device: &LoopDevice, blocks: u64, stop: &AtomicBool) -> u64 {
    let file = device.open_direct();
    let mut storage = vec![0u8; 8192];
    let at = storage.as_ptr().align_offset(4096);
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        file.read_exact_at(&mut storage[at..at + 4096], n % blocks * 4096)
            .unwrap();
        n += 1;
    }
    n
}

/// Ends processes that a test has started, however the test ends.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets its flag when dropped, so that a test that fails does not leave its load running.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file with this content, for commands that need one.
pub fn file_with(dir: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.join(name);
    File::create(&path).unwrap().write_all(content).unwrap();
    path
}
