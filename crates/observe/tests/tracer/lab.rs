//! Test disks, loads, and the kernel's counts for comparison.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use iolens_core::model::{Class, DevId, Io, LossReason, Lost};
use iolens_observe::topology::{make_this_thread_ordinary, prefer_this_thread};
use iolens_observe::trace::{Tracer, TracerOptions};

/// Serialises tests, because they measure the same machine.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the machine has what a test needs; prints what is missing.
pub fn machine_has(tools: &[&str]) -> bool {
    let skip = |why: String| {
        eprintln!("SKIP: {why}");
        false
    };
    if !rustix::process::geteuid().is_root() {
        return skip("not root".into());
    }
    for tool in tools {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {tool}")])
            .output()
            .unwrap()
            .status
            .success();
        if !found {
            return skip(format!("{tool} is not installed"));
        }
    }
    match iolens_observe::trace::capabilities().load {
        Ok(()) => true,
        Err(why) => skip(why),
    }
}

/// Waits for the turn of a test that needs `tools`; `None`, with a message, if the machine lacks something.
pub fn ready(tools: &[&str]) -> Option<MutexGuard<'static, ()>> {
    machine_has(tools).then(turn)
}

/// Runs `test` for each file system that the machine can make, with its kind and a disk of 512 MiB to put it on.
pub fn on_each_file_system(tools: &[&str], mut test: impl FnMut(&str, &LoopDisk)) {
    let Some(_turn) = ready(&[&["losetup"], tools].concat()) else {
        return;
    };
    for kind in ["ext4", "xfs", "btrfs"] {
        if machine_has(&[&format!("mkfs.{kind}")]) {
            test(kind, &LoopDisk::in_memory(512));
        }
    }
}

/// Runs a command and returns its standard output; panics with all output if it fails.
pub fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(
        out.status.success(),
        "{program} {args:?}: {}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

/// A loop device on a file; both are removed when dropped.
pub struct LoopDisk {
    pub name: String,
    pub dev: DevId,
    file: PathBuf,
}

impl LoopDisk {
    /// Over a new file of `mib` MiB in `dir`.
    pub fn new(dir: &Path, mib: u64) -> LoopDisk {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = dir.join(format!("iolens-test-{}-{n}.img", std::process::id()));
        fs::File::create(&file).unwrap().set_len(mib << 20).unwrap();
        let path = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
        let name = path.trim().trim_start_matches("/dev/").to_owned();
        let dev = dev_of(&name);
        LoopDisk { name, dev, file }
    }

    /// On tmpfs: as fast as a disk can be, and without I/O on another device.
    pub fn in_memory(mib: u64) -> LoopDisk {
        LoopDisk::new(Path::new("/dev/shm"), mib)
    }

    /// Its node under `/dev`.
    pub fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// The file under it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Truncates its backing file without telling the device.
    pub fn truncate_file(&self, bytes: u64) {
        fs::File::options()
            .write(true)
            .open(&self.file)
            .unwrap()
            .set_len(bytes)
            .unwrap();
    }

    /// Writes one of its queue's settings.
    pub fn set_queue(&self, setting: &str, value: &str) {
        fs::write(format!("/sys/block/{}/queue/{setting}", self.name), value)
            .unwrap_or_else(|e| panic!("{setting}={value}: {e}"));
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .args(["--detach", &self.path()])
            .status();
        let _ = fs::remove_file(&self.file);
    }
}

/// Device number of a disk by its kernel name.
pub fn dev_of(name: &str) -> DevId {
    let text = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
    let (major, minor) = text.trim().split_once(':').unwrap();
    DevId::new(major.parse().unwrap(), minor.parse().unwrap())
}

/// The counts of one class that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub ios: i64,
    pub bytes: i64,
    pub merges: i64,
    pub ticks_ms: i64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    fn sub(self, b: Counts) -> Counts {
        Counts {
            ios: self.ios - b.ios,
            bytes: self.bytes - b.bytes,
            merges: self.merges - b.merges,
            ticks_ms: self.ticks_ms - b.ticks_ms,
        }
    }
}

/// The kernel's counts of a disk by class, from `/sys/block/NAME/stat`.
pub fn kernel_counts(name: &str) -> [Counts; 4] {
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    let f: Vec<i64> = text
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    let class = |at: usize| Counts {
        ios: f[at],
        merges: f[at + 1],
        bytes: f[at + 2] * 512,
        ticks_ms: f[at + 3],
    };
    let flush = Counts {
        ios: f[15],
        ticks_ms: f[16],
        ..Counts::default()
    };
    [class(0), class(4), class(11), flush]
}

/// Waits until nothing is in flight on a disk, including write-back of its page cache.
pub fn settle(name: &str) {
    let path = format!("/sys/block/{name}/inflight");
    for _ in 0..2000 {
        let text = fs::read_to_string(&path).unwrap();
        if text.split_whitespace().all(|n| n == "0") {
            // udev may still be looking at a new device.
            thread::sleep(Duration::from_millis(20));
            let again = fs::read_to_string(&path).unwrap();
            if again == text {
                return;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{name} does not come to rest");
}

/// Result of one traced run for one device.
pub struct Traced {
    pub ios: Vec<Io>,
    pub lost: Vec<Lost>,
    pub kernel: [Counts; 4],
    pub late: u64,
}

/// Traces `work` on disk `name`. `hold_back`: the reader sleeps until the work is over.
pub fn trace(
    name: &str,
    options: TracerOptions,
    hold_back: bool,
    work: impl FnOnce() + Send,
) -> Traced {
    let dev = dev_of(name);
    settle(name);
    let before = kernel_counts(name);
    let mut tracer = Tracer::start(options).unwrap();
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            work();
            settle(name);
        });
        // Like the recorder: with higher priority than ordinary threads. The load itself stays ordinary.
        prefer_this_thread();
        while !worker.is_finished() {
            thread::sleep(Duration::from_millis(5));
            if !hold_back {
                tracer.poll(&mut ios, &mut lost).unwrap();
            }
        }
        make_this_thread_ordinary();
    });
    let after = kernel_counts(name);
    let stats = tracer.finish(&mut ios, &mut lost).unwrap();
    assert!(
        ios.is_sorted_by_key(|io| io.done_ns),
        "not in order of completion"
    );
    ios.retain(|io| io.dev == dev);
    lost.retain(|l| l.dev.is_none_or(|d| d == dev));
    let kernel = std::array::from_fn(|i| after[i] - before[i]);
    Traced {
        ios,
        lost,
        kernel,
        late: stats.late,
    }
}

/// Repeats the run up to five times while the kernel hides too many I/Os (see [`Traced::hidden`]), because their number
/// depends on what else the host does at that moment.
pub fn trace_fairly(name: &str, options: &TracerOptions, work: impl Fn() + Sync) -> Traced {
    for _ in 0..4 {
        let traced = trace(name, options.clone(), false, &work);
        // An I/O whose issue and completion the kernel hides cannot be counted.
        if traced.hidden() <= traced.hidden_allowed() && (traced.hidden() == 0 || traced.is_exact())
        {
            return traced;
        }
        eprintln!(
            "NOTE: once more: the kernel hid {} of {} I/Os from BPF",
            traced.hidden(),
            traced.ios.len()
        );
    }
    trace(name, options.clone(), false, &work)
}

impl Traced {
    /// Number of I/Os that the kernel did not show. A kernel that hides a process from BPF hides completions that
    /// interrupt it.
    pub fn hidden(&self) -> i64 {
        let sum = |reason| self.missing(reason).iter().map(|c| c.ios).sum::<i64>();
        sum(LossReason::Unseen) + sum(LossReason::Censored)
    }

    fn hidden_allowed(&self) -> i64 {
        64 + self.ios.len() as i64 / 200
    }

    /// Recorded I/Os by class; ticks as the kernel counts them: nanoseconds summed, then truncated to milliseconds.
    pub fn recorded(&self) -> [Counts; 4] {
        let mut out = [Counts::default(); 4];
        let mut ns = [0i64; 4];
        for io in &self.ios {
            let c = &mut out[io.class() as usize];
            c.ios += 1;
            c.bytes += io.bytes;
            c.merges += i64::from(io.merges.unwrap_or(0));
            ns[io.class() as usize] += io.total_ns();
        }
        for (c, ns) in out.iter_mut().zip(ns) {
            c.ticks_ms = ns / 1_000_000;
        }
        out
    }

    /// Lost or censored, by class.
    pub fn missing(&self, reason: LossReason) -> [Counts; 4] {
        let mut out = [Counts::default(); 4];
        for l in self.lost.iter().filter(|l| l.reason == reason) {
            let Some(class) = l.class else { continue };
            let c = &mut out[class as usize];
            c.ios += l.ios.unwrap();
            c.bytes += l.bytes.unwrap();
            c.merges += l.merges.unwrap();
        }
        out
    }

    /// Recorded + lost + censored, by class.
    fn accounted(&self) -> [Counts; 4] {
        let mut sums = self.recorded();
        for reason in [
            LossReason::RingFull,
            LossReason::SlotClash,
            LossReason::Unseen,
            LossReason::Censored,
        ] {
            for (sum, part) in sums.iter_mut().zip(self.missing(reason)) {
                sum.ios += part.ios;
                sum.bytes += part.bytes;
                sum.merges += part.merges;
            }
        }
        sums
    }

    fn is_exact(&self) -> bool {
        let numbers = |c: &Counts| (c.ios, c.bytes, c.merges);
        self.accounted()
            .iter()
            .map(numbers)
            .eq(self.kernel.iter().map(numbers))
    }

    /// Whether the only difference is a few writes without bytes that are neither recorded nor counted.
    pub fn misses_empty_flushes_only(&self) -> bool {
        let accounted = self.accounted();
        let missing = |class: Class| self.kernel[class as usize] - accounted[class as usize];
        let others = Class::ALL
            .into_iter()
            .filter(|class| *class != Class::Write);
        (1..=8).contains(&missing(Class::Write).ios)
            && others.map(|class| missing(class).ios).all(|ios| ios == 0)
            && Class::ALL
                .into_iter()
                .map(missing)
                .all(|m| m.bytes == 0 && m.merges == 0)
    }

    /// Fails unless recorded + lost + censored equals the kernel's count in every class.
    pub fn assert_exact(&self, what: &str) {
        let recorded = self.recorded();
        let accounted = self.accounted();
        for class in Class::ALL {
            let i = class as usize;
            let sum = accounted[i];
            let kernel = self.kernel[i];
            assert_eq!(
                (sum.ios, sum.bytes, sum.merges),
                (kernel.ios, kernel.bytes, kernel.merges),
                "{what}: {} (ios, bytes, merges) recorded {:?} lost {:?} against the kernel's {kernel:?}",
                class.name(),
                recorded[i],
                self.lost,
            );
        }
        assert_eq!(self.late, 0, "{what}: late events");
    }

    /// Fails if our sums of latencies exceed the kernel's ticks, which start earlier and end later.
    pub fn assert_not_longer_than_the_kernels(&self, what: &str) {
        for (ours, kernel) in self.recorded().iter().zip(&self.kernel) {
            let more = (kernel.ticks_ms - ours.ticks_ms) as f64;
            assert!(
                more >= -2.0 - kernel.ticks_ms as f64 * 0.001,
                "{what}: longer than the kernel's {kernel:?}: {ours:?}"
            );
        }
    }

    /// Describes where our sums of latencies are below the kernel's ticks by more than the difference of the intervals.
    /// The kernel's start is the time cached when the submitter's plug began (da4c8c3d0975, 6.9). Its end is read after
    /// the bios were completed, that is after the waiting thread was woken, which may have taken the CPU. I/Os that
    /// were not recorded are missing from ours.
    pub fn shorter_than_the_kernels(&self, what: &str) -> Option<String> {
        let wake_up_ms = wake_up_ms();
        self.recorded()
            .iter()
            .zip(&self.kernel)
            .find_map(|(ours, kernel)| {
                let hidden = (kernel.ios - ours.ios) as f64 * kernel.ticks_ms as f64
                    / kernel.ios.max(1) as f64;
                let more = (kernel.ticks_ms - ours.ticks_ms) as f64;
                // A discard's plug begins before its bios are made (blkdev_issue_discard), which takes microseconds.
                let before_ms = if std::ptr::eq(kernel, &self.kernel[Class::Discard as usize]) {
                    0.010
                } else {
                    0.003
                };
                // The pages of a large I/O's bios are pinned one after the other inside one plug.
                let pinning_ms = kernel.bytes as f64 / 4096.0 * 0.0002;
                let around_ms = kernel.ios as f64 * (before_ms + wake_up_ms);
                let outside =
                    around_ms + pinning_ms + kernel.ticks_ms as f64 * 0.05 + 3.0 * hidden + 20.0;
                (more > outside).then(|| {
                    format!("{what}: {more} ms shorter than the kernel's {kernel:?}: {ours:?}")
                })
            })
    }

    /// Fails if the tracer lost anything. I/Os that the kernel did not show (a kernel that hides a process from BPF
    /// hides completions that interrupt it) are counted, must be few, and are printed.
    pub fn assert_nothing_lost(&self, what: &str) {
        let sum = |reason| self.missing(reason).iter().map(|c| c.ios).sum::<i64>();
        assert_eq!(
            (sum(LossReason::RingFull), sum(LossReason::SlotClash)),
            (0, 0),
            "{what}: {:?}",
            self.lost
        );
        let hidden = self.hidden();
        if hidden > 0 {
            eprintln!(
                "NOTE: {what}: the kernel hid {hidden} of {} I/Os from BPF",
                self.ios.len() as i64 + hidden
            );
        }
        assert!(
            hidden <= self.hidden_allowed(),
            "{what}: {hidden} hidden of {}",
            self.ios.len()
        );
    }
}

/// Average time in milliseconds to wake a waiting thread, on this machine at this moment.
fn wake_up_ms() -> f64 {
    const ROUNDS: u32 = 1000;
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while theirs.read(&mut byte).unwrap() > 0 {
                theirs.write_all(&byte).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            let mut byte = [0];
            ours.write_all(&byte).unwrap();
            ours.read_exact(&mut byte).unwrap();
        }
        drop(ours);
    });
    start.elapsed().as_secs_f64() * 1e3 / f64::from(2 * ROUNDS)
}

/// Runs a fio load for `seconds`; with direct I/O unless the load says otherwise.
pub fn put_on(path: &str, load: &[&str], seconds: &str) {
    let runtime = format!("--runtime={seconds}");
    let mut args = vec!["--size=192m", "--time_based", &runtime, "--end_fsync=0"];
    if !load.iter().any(|a| a.starts_with("--direct")) {
        args.push("--direct=1");
    }
    args.extend(load);
    fio(path, &args);
}

/// The clock of the events.
pub fn now_ns() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Inode number of this process's directory in the cgroup v2 hierarchy, which is the group's id.
pub fn own_cgroup() -> Option<i64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups
        .lines()
        .find_map(|l| l.strip_prefix("0::"))?
        .to_owned();
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts
        .lines()
        .find(|l| l.split(' ').nth(2) == Some("cgroup2"))?
        .split(' ')
        .nth(1)?
        .to_owned();
    Some(fs::metadata(format!("{root}{path}")).ok()?.ino() as i64)
}

/// Directory for files on the machine's own disk.
pub fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A file system on a disk, mounted in a directory of its own until dropped.
pub struct Mounted {
    pub dir: tempfile::TempDir,
}

impl Mounted {
    /// Makes a file system of `kind` on `disk` and mounts it.
    pub fn new(disk: &LoopDisk, kind: &str) -> Mounted {
        // Do not leave work to a kernel thread that would start later.
        let options: &[&str] = if kind == "ext4" {
            &["-Fq", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
        } else {
            &["-f"]
        };
        run(
            &format!("mkfs.{kind}"),
            &[options, &[&disk.path()]].concat(),
        );
        let dir = tempfile::tempdir().unwrap();
        run(
            "mount",
            &["-t", kind, &disk.path(), dir.path().to_str().unwrap()],
        );
        Mounted { dir }
    }

    /// Path of `name` in it.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir.path()).status();
    }
}

/// Runs fio on a file or device with `args`; returns its JSON.
pub fn fio(target: &str, args: &[&str]) -> serde_json::Value {
    let mut all = vec![
        "--name=job",
        "--output-format=json",
        "--allow_mounted_write=0",
    ];
    let filename = format!("--filename={target}");
    all.push(&filename);
    all.extend(args);
    let text = run("fio", &all);
    // Notes of fio precede the document.
    let json = &text[text
        .find('{')
        .unwrap_or_else(|| panic!("no JSON in {text}"))..];
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {text}"))
}
