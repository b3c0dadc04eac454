//! Utilisation of the disks under a path, from the kernel's counters.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iolens_core::analysis::counters::io_ticks::Regime;
use iolens_core::analysis::counters::rates::{Delta, State, iostat};
use iolens_core::analysis::device::utilisation::{Busy, Combined, Estimator, Looks, combine};
use iolens_core::model::{CounterSample, DevId, DiskCounters};
use iolens_observe::counters::{KernelFile, monotonic_ns, parse_stat};
use iolens_observe::topology::{Disk, Host, MountPath, MountWatch, Resolver};

use super::{Cached, Cadence};

/// Interval between checks for changed mounts: one system call.
const WATCH_NS: i64 = 1_000_000_000;

/// Maximum interval between path lookups: a disk that leaves a RAID changes no mount.
const RESOLVE_NS: i64 = 30_000_000_000;

/// Why there is no signal.
#[derive(Debug)]
pub enum SignalError {
    /// The mount table cannot be read.
    Mounts(io::Error),
    /// The path cannot be looked at.
    Path(PathBuf, io::Error),
}

impl std::fmt::Display for SignalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SignalError::Mounts(_) => f.write_str("the mount table cannot be read"),
            SignalError::Path(path, _) => write!(f, "{} cannot be looked at", path.display()),
        }
    }
}

impl std::error::Error for SignalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SignalError::Mounts(e) | SignalError::Path(_, e) => Some(e),
        }
    }
}

/// One disk over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskReading {
    /// Kernel name (`nvme0n1`).
    pub name: Arc<str>,
    /// Device number (major:minor).
    pub id: DevId,
    /// How busy it was.
    pub busy: Busy,
    /// The difference of its counters, for rates; `None` before the second reading.
    pub delta: Option<Delta>,
    /// I/Os in flight at the interval's end; `None`: the disk is not there any more.
    pub in_flight: Option<u64>,
}

/// All disks under a path over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// End of the interval, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: i64,
    /// Its length in nanoseconds.
    pub span_ns: i64,
    /// Each disk, by name.
    pub disks: Vec<DiskReading>,
    /// Mean, maximum and the set as a whole; `None`: there is no disk, or one of them is not known.
    pub combined: Option<Combined>,
}

#[derive(Debug)]
struct DiskReader {
    disk: Disk,
    name: Arc<str>,
    files: Vec<KernelFile>,
    iostats: Option<bool>,
    before: Option<CounterSample>,
    looks: Looks,
}

impl DiskReader {
    fn new(disk: Disk, buffer: &mut Vec<u8>) -> DiskReader {
        let files = disk.stats.iter().map(KernelFile::new).collect();
        let iostats = disk
            .stats
            .first()
            .and_then(|s| s.parent())
            .and_then(|dir| fs::read_to_string(dir.join("queue/iostats")).ok());
        let mut reader = DiskReader {
            name: disk.name.as_str().into(),
            disk,
            files,
            iostats: iostats.map(|s| s.trim() != "0"),
            before: None,
            looks: Looks::default(),
        };
        reader.before = reader.read(monotonic_ns(), buffer);
        reader
    }

    fn read(&mut self, at_ns: i64, buffer: &mut Vec<u8>) -> Option<CounterSample> {
        let mut counters: Option<DiskCounters> = None;
        for file in &mut self.files {
            let one = parse_stat(file.read(buffer).ok()?).counters;
            match &mut counters {
                Some(sum) => iostat::add_to_group(sum, &one),
                None => counters = Some(one),
            }
        }
        counters.map(|counters| CounterSample {
            at_ns,
            dev: self.disk.id,
            counters,
        })
    }

    fn sample(&mut self, at_ns: i64, estimator: Estimator, buffer: &mut Vec<u8>) -> DiskReading {
        let (busy, delta) = self.measure(at_ns, estimator, buffer);
        let in_flight = self.before.map(|n| n.counters.in_flight);
        DiskReading {
            name: Arc::clone(&self.name),
            id: self.disk.id,
            busy,
            delta,
            in_flight,
        }
    }

    fn measure(
        &mut self,
        at_ns: i64,
        estimator: Estimator,
        buffer: &mut Vec<u8>,
    ) -> (Busy, Option<Delta>) {
        let now = self.read(at_ns, buffer);
        let delta = self
            .before
            .as_ref()
            .zip(now.as_ref())
            .map(|(before, now)| Delta::between(before, now, self.iostats));
        let known = delta.unwrap_or_else(|| Delta::unknown(State::Restarted, 0));
        let busy = estimator.busy_with_looks(&known, std::mem::take(&mut self.looks));
        self.before = now;
        (busy, delta)
    }
}

/// The signal of one path. Follows the path when it moves to another mount, and the mount when its disks change.
#[derive(Debug)]
pub struct Utilisation {
    root: PathBuf,
    path: PathBuf,
    resolver: Resolver,
    watch: Option<MountWatch>,
    stack: MountPath,
    readers: Vec<DiskReader>,
    estimator: Estimator,
    buffer: Vec<u8>,
    at_ns: i64,
    watched_ns: i64,
    resolved_ns: i64,
    /// Whether lookups are done in place. They may have to wait for the disk being measured, so the cached reading
    /// uses a thread.
    pub(super) resolve_inline: bool,
}

impl Utilisation {
    /// The signal of the disks under `path` (a file, a directory or a block device) on this machine.
    ///
    /// A path that is on no disk is no error: see [`Utilisation::no_disk`].
    ///
    /// # Errors
    /// The path does not exist or may not be looked at.
    pub fn of_path(path: impl AsRef<Path>) -> Result<Utilisation, SignalError> {
        Utilisation::under(Path::new("/"), path)
    }

    /// Like [`Utilisation::of_path`], for a machine whose files are under `root` (a container's `/host`, a saved tree).
    ///
    /// # Errors
    /// The path does not exist under `root` or may not be looked at.
    pub fn under(root: &Path, path: impl AsRef<Path>) -> Result<Utilisation, SignalError> {
        let path = path.as_ref().to_owned();
        let live = root == Path::new("/");
        // Started before the table is read, so that no change is missed in between.
        let watch = if live { MountWatch::start().ok() } else { None };
        let resolver = Resolver::read(root).map_err(SignalError::Mounts)?;
        let stack = resolver
            .resolve(&path)
            .map_err(|e| SignalError::Path(path.clone(), e))?;
        let host = Host::read(root);
        let regime = host.kernel.as_deref().and_then(Regime::of_release);
        let now = monotonic_ns();
        let mut signal = Utilisation {
            root: root.to_owned(),
            path,
            resolver,
            watch,
            stack,
            readers: Vec::new(),
            estimator: Estimator {
                regime,
                hz: host.hz,
            },
            buffer: Vec::new(),
            at_ns: now,
            watched_ns: now,
            resolved_ns: now,
            resolve_inline: true,
        };
        signal.open_readers();
        Ok(signal)
    }

    /// The stack under the path.
    pub fn stack(&self) -> &MountPath {
        &self.stack
    }

    /// Why there is nothing to measure, as a sentence (tmpfs, a network file system, `/proc`); `None` if there is.
    pub fn no_disk(&self) -> Option<&str> {
        self.stack.no_disk.as_deref()
    }

    /// The kernel's estimator of busy time.
    pub fn estimator(&self) -> Estimator {
        self.estimator
    }

    /// Utilisation since the last call, or since creation. Reads one small file of sysfs per disk.
    pub fn sample(&mut self) -> Reading {
        let now = self.resolved_now();
        let estimator = self.estimator;
        let buffer = &mut self.buffer;
        let disks: Vec<DiskReading> = self
            .readers
            .iter_mut()
            .map(|r| r.sample(now, estimator, buffer))
            .collect();
        if disks.iter().any(|d| d.in_flight.is_none()) {
            self.resolved_ns = i64::MIN;
        }
        let span_ns = now - std::mem::replace(&mut self.at_ns, now);
        let busy: Vec<Option<f64>> = disks.iter().map(|d| d.busy.busy_percent).collect();
        Reading {
            at_ns: now,
            span_ns,
            combined: combine(&busy, None),
            disks,
        }
    }

    /// Like [`Utilisation::sample`], but returns only the busy time of the busiest disk, in percent; throttle and
    /// cached reading use it. Allocates nothing. `None`: there is no disk, or one of them is not known.
    pub fn sample_busiest(&mut self) -> Option<f64> {
        let now = self.resolved_now();
        let estimator = self.estimator;
        let buffer = &mut self.buffer;
        let mut busiest = Some(f64::NEG_INFINITY);
        let mut gone = false;
        for reader in &mut self.readers {
            let percent = reader.measure(now, estimator, buffer).0.busy_percent;
            // One unknown disk makes the maximum unknown: it may be the busiest.
            busiest = busiest.zip(percent).map(|(a, b)| a.max(b));
            gone |= reader.before.is_none();
        }
        if gone {
            self.resolved_ns = i64::MIN;
        }
        self.at_ns = now;
        busiest.filter(|p| p.is_finite())
    }

    /// When the last sample was taken, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) fn sampled_at_ns(&self) -> i64 {
        self.at_ns
    }

    /// Looks whether anything is in flight. On kernels whose `io_ticks` cannot be trusted
    /// ([`Estimator::wants_looks`]), call it some hundred times between two samples, at uneven intervals: the samples
    /// then rest on these looks instead.
    pub fn look(&mut self) {
        for reader in &mut self.readers {
            if let Some(now) = reader.read(monotonic_ns(), &mut self.buffer) {
                reader.looks.look(now.counters.in_flight);
            }
        }
    }

    /// A reading that refreshes itself and can be shared by many threads.
    pub fn cached(self, cadence: Cadence) -> Cached {
        Cached::new(self, cadence)
    }

    /// Whether mounts have changed, a disk has gone, or the last lookup is old.
    pub(super) fn resolve_due(&mut self, now: i64) -> bool {
        if self.resolved_ns == i64::MIN || now - self.resolved_ns >= RESOLVE_NS {
            return true;
        }
        if now - self.watched_ns < WATCH_NS {
            return false;
        }
        self.watched_ns = now;
        match &self.watch {
            Some(watch) => watch.changed(),
            None => self.resolver.refresh().unwrap_or(true),
        }
    }

    /// Looks up the path again if that is due and no other thread does. Returns the time in nanoseconds of
    /// `CLOCK_MONOTONIC` for the sample of all disks: reading one takes a microsecond, and the counters are in
    /// milliseconds.
    fn resolved_now(&mut self) -> i64 {
        let now = monotonic_ns();
        if self.resolve_inline && self.resolve_due(now) {
            self.resolve();
            return monotonic_ns();
        }
        now
    }

    /// Looks up the path again. If it has vanished, its last disks are kept, and callers report their errors.
    fn resolve(&mut self) {
        let found = lookup(&self.root, &self.path);
        self.take(found);
    }

    /// Takes the result of [`lookup`].
    pub(super) fn take(&mut self, found: Option<MountPath>) {
        self.resolved_ns = monotonic_ns();
        if let Some(stack) = found.filter(|s| *s != self.stack) {
            self.stack = stack;
            self.open_readers();
        }
    }

    /// Path and root for [`lookup`].
    pub(super) fn place(&self) -> (PathBuf, PathBuf) {
        (self.root.clone(), self.path.clone())
    }

    /// Opens readers of the disks; readers of disks that stay are kept with their state.
    fn open_readers(&mut self) {
        let mut old = std::mem::take(&mut self.readers);
        for disk in &self.stack.disks {
            let kept = old
                .iter()
                .position(|r| r.disk == *disk && r.before.is_some())
                .map(|i| old.swap_remove(i));
            self.readers
                .push(kept.unwrap_or_else(|| DiskReader::new(disk.clone(), &mut self.buffer)));
        }
    }
}

/// The stack under `path` now; `None` if it does not exist.
pub(super) fn lookup(root: &Path, path: &Path) -> Option<MountPath> {
    Resolver::read(root).ok()?.resolve(path).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::analysis::device::utilisation::Method;

    /// A machine of one disk with a mount on it, whose counters a test may set.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |p: &str, text: &str| {
            let p = root.path().join(p);
            fs::create_dir_all(p.parent().unwrap()).unwrap();
            fs::write(p, text).unwrap();
        };
        put("proc/1/mountinfo", "20 1 8:0 / / rw - ext4 /dev/sda rw\n");
        put("proc/sys/kernel/osrelease", "6.12.0\n");
        put("boot/config-6.12.0", "CONFIG_HZ=250\n");
        for (name, id) in [("sda", "8:0"), ("sdb", "8:16")] {
            put(&format!("sys/devices/block/{name}/dev"), id);
            put(&format!("sys/devices/block/{name}/queue/iostats"), "1\n");
            put(
                &format!("sys/devices/block/{name}/stat"),
                "10 0 80 5 0 0 0 0 0 1000 5",
            );
            for link in [format!("sys/dev/block/{id}"), format!("sys/block/{name}")] {
                let at = root.path().join(link);
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(
                    root.path().join(format!("sys/devices/block/{name}")),
                    at,
                )
                .unwrap();
            }
        }
        fs::create_dir_all(root.path().join("data")).unwrap();
        root
    }

    #[test]
    fn busy_time_is_the_counters_share_of_the_real_interval() {
        let root = machine();
        let mut u = Utilisation::under(root.path(), "/data").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(
            root.path().join("sys/devices/block/sda/stat"),
            "20 0 160 15 0 0 0 0 3 1010 15",
        )
        .unwrap();
        let r = u.sample();
        let d = &r.disks[0];
        let span_ms = d.delta.unwrap().span_ns as f64 / 1e6;
        assert!(
            (d.busy.busy_percent.unwrap() - 1000.0 / span_ms).abs() < 1e-6,
            "{d:?}"
        );
        assert_eq!(
            (d.busy.method, d.busy.ios, d.in_flight),
            (Method::IoTicks, Some(10), Some(3))
        );
        assert_eq!(
            r.combined.unwrap().max_percent,
            d.busy.busy_percent.unwrap()
        );
    }

    #[test]
    fn a_removed_disk_is_unknown_and_its_replacement_is_found() {
        let root = machine();
        let mut u = Utilisation::under(root.path(), "/data").unwrap();
        fs::remove_dir_all(root.path().join("sys/devices/block/sda")).unwrap();
        let r = u.sample();
        assert_eq!((r.disks[0].in_flight, r.combined), (None, None));
        let mut other = Utilisation::under(root.path(), "/data").ok();
        assert_eq!(
            other.as_mut().and_then(Utilisation::sample_busiest),
            None,
            "there is no disk to be busy"
        );
        fs::write(
            root.path().join("proc/1/mountinfo"),
            "20 1 8:16 / / rw - ext4 /dev/sdb rw\n",
        )
        .unwrap();
        assert_eq!(
            &*u.sample().disks[0].name,
            "sdb",
            "the path was looked up again"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(u.sample().combined.is_some());
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(u.sample_busiest(), Some(0.0));
        fs::remove_dir_all(root.path().join("sys/devices/block/sdb")).unwrap();
        assert_eq!(u.sample_busiest(), None);
        fs::write(
            root.path().join("proc/1/mountinfo"),
            "20 1 8:32 / / rw - tmpfs none rw\n",
        )
        .unwrap();
        assert_eq!(
            u.sample_busiest(),
            None,
            "looked up again: there is no disk any more"
        );
        assert!(u.stack().disks.is_empty());
    }

    #[test]
    fn a_disk_that_is_not_accounted_is_unknown_not_idle() {
        let root = machine();
        fs::write(
            root.path().join("sys/devices/block/sda/queue/iostats"),
            "0\n",
        )
        .unwrap();
        let mut u = Utilisation::under(root.path(), "/data").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert_eq!(u.sample().combined, None);
    }

    #[test]
    fn missing_paths_and_paths_without_a_disk_are_distinguished() {
        let e = Utilisation::of_path("/nonexistent/path").unwrap_err();
        assert!(e.to_string().contains("/nonexistent/path"), "{e}");
        let mut u = Utilisation::of_path("/proc").unwrap();
        assert!(u.no_disk().is_some());
        assert_eq!(u.sample().combined, None);
    }
}
