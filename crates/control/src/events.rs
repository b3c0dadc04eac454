//! Exact busy time from every I/O, with the background's own I/O separated from other work.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iolens_core::analysis::device::utilisation::BusyUnion;
use iolens_core::model::{DevId, Histogram, Io, LossReason};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::{Disk, MountPath};
use iolens_observe::trace::{TraceError, Tracer, TracerOptions};

use super::carried::{Carried, Carrier, carriers};
use super::lock::locked;

/// How often the kernel's ring is emptied.
const POLL: Duration = Duration::from_millis(20);

/// 4 MiB hold 40 thousand I/Os: two million per second at this pace.
const RING_BYTES: u32 = 4 << 20;

/// How long a window waits for I/Os that began in it and are still in flight.
const GRACE: Duration = Duration::from_millis(60);

/// What identifies the background's own I/Os.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// Process ids (tgid).
    pub tgids: HashSet<i32>,
    /// Its control groups (inode numbers of their directories).
    pub cgroups: HashSet<i64>,
    /// Files that it has open for writing, as (device, inode). They identify write-back of pages that were dirty
    /// before the start, or that a short-lived child dirtied.
    pub files: HashSet<(i32, i64)>,
}

impl Own {
    /// Whether the background caused this I/O.
    fn caused(&self, io: &Io) -> bool {
        let by_group = io.cgroup.is_some_and(|c| self.cgroups.contains(&c));
        let by_file = io.ino.is_some_and(|ino| {
            io.fs_dev
                .is_some_and(|dev| self.files.contains(&(dev, ino)))
        });
        // For write-back, this is the process that dirtied the pages, if that was observed.
        let by_task = io.tgid.is_some_and(|t| self.tgids.contains(&t));
        by_group || by_file || by_task
    }
}

/// One disk in one window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DiskEvents {
    /// Nanoseconds with at least one I/O.
    pub busy_ns: i64,
    /// Nanoseconds with at least one I/O of other work.
    pub foreground_ns: i64,
    /// Completed I/Os.
    pub ios: u64,
}

/// The I/O on the disks between two instants.
#[derive(Debug, Clone)]
pub struct EventWindow {
    /// Start, in nanoseconds of `CLOCK_MONOTONIC`.
    pub from_ns: i64,
    /// End of the window, in nanoseconds of `CLOCK_MONOTONIC`.
    pub to_ns: i64,
    /// Per disk, by device number.
    pub disks: HashMap<DevId, DiskEvents>,
    /// Nanoseconds with an I/O on any disk of each path, in the order in which the paths were given.
    pub any_ns: Vec<i64>,
    /// Latencies (start to done) of other work's I/Os, in nanoseconds.
    pub foreground: Histogram,
    /// Bytes that the background's I/Os moved.
    pub own_bytes: u64,
    /// Whether more than one I/O in a hundred was lost, or an unknown number, so that all of this is too low.
    pub lossy: bool,
}

impl EventWindow {
    /// Utilisation of the disk that other work uses most, in percent.
    pub fn foreground_percent(&self) -> Option<f64> {
        self.percent(self.disks.values().map(|d| d.foreground_ns).max()?)
    }

    /// A duration as percentage of the window's length; `None` if the window is empty.
    pub fn percent(&self, ns: i64) -> Option<f64> {
        let span = self.to_ns - self.from_ns;
        (span > 0).then(|| (100.0 * ns as f64 / span as f64).min(100.0))
    }
}

struct DiskUnions {
    dev: DevId,
    all: BusyUnion,
    foreign: BusyUnion,
    /// I/O of others or of kernel workers; it may not be known for whom a worker did it.
    foreign_or_carried: BusyUnion,
    ios: u64,
    /// Indices of the paths that contain it.
    sets: Vec<usize>,
}

impl DiskUnions {
    fn new(dev: DevId, sets: &[HashSet<DevId>], now: i64) -> DiskUnions {
        DiskUnions {
            dev,
            all: BusyUnion::new(now),
            foreign: BusyUnion::new(now),
            foreign_or_carried: BusyUnion::new(now),
            ios: 0,
            sets: (0..sets.len())
                .filter(|i| sets[*i].contains(&dev))
                .collect(),
        }
    }

    /// The disk's activity up to `to_ns`. Workers' I/O counts as foreground if `by_anyone` is set.
    fn take_events(&mut self, to_ns: i64, by_anyone: bool) -> DiskEvents {
        let busy_ns = self.all.take(to_ns);
        let foreign_ns = self.foreign.take(to_ns);
        let foreign_or_carried_ns = self.foreign_or_carried.take(to_ns);
        let foreground_ns = if by_anyone {
            foreign_or_carried_ns
        } else {
            foreign_ns
        };
        DiskEvents {
            busy_ns,
            // What a layer answers from its cache, or queues, does not keep a disk busy.
            foreground_ns: foreground_ns.min(busy_ns),
            ios: std::mem::take(&mut self.ios),
        }
    }

    fn push_foreign(&mut self, io: &Io) {
        self.foreign.push(io.start_ns(), io.done_ns);
        self.foreign_or_carried.push(io.start_ns(), io.done_ns);
    }
}

/// The attributes by which an I/O is attributed: process, control group, file.
type Marks = (Option<i32>, Option<i64>, Option<i32>, Option<i64>);

struct Collected {
    /// There are few disks, so a linear search is faster than hashing; there may be very many I/Os.
    disks: Vec<DiskUnions>,
    sets: Vec<BusyUnion>,
    carried: Carried,
    from_ns: i64,
    latencies: Histogram,
    own_bytes: u64,
    /// I/Os lost in this window; `None`: the number is not known.
    lost: Option<u64>,
    complete_to_ns: i64,
    own: Own,
    /// Cache of the last attribution: most I/Os come in runs of the same process and file.
    last: Option<(Marks, bool)>,
    failed: Option<String>,
}

impl Collected {
    fn new(devices: &[HashSet<DevId>], carriers: Vec<Carrier>, now: i64) -> Collected {
        let all: HashSet<DevId> = devices.iter().flatten().copied().collect();
        Collected {
            disks: all
                .into_iter()
                .map(|dev| DiskUnions::new(dev, devices, now))
                .collect(),
            sets: devices.iter().map(|_| BusyUnion::new(now)).collect(),
            carried: Carried::new(carriers),
            from_ns: now,
            latencies: Histogram::new(),
            own_bytes: 0,
            lost: Some(0),
            complete_to_ns: now,
            own: Own::default(),
            last: None,
            failed: None,
        }
    }

    fn set_own(&mut self, own: Own) {
        self.own = own;
        self.last = None;
    }

    fn is_own(&mut self, io: &Io) -> bool {
        let marks = (io.tgid, io.cgroup, io.fs_dev, io.ino);
        match self.last {
            Some((before, own)) if before == marks => own,
            _ => self.last.insert((marks, self.own.caused(io))).1,
        }
    }

    fn take(&mut self, io: &Io) {
        let own = self.is_own(io);
        let bytes = u64::try_from(io.bytes).unwrap_or(0);
        if let Some(below) = self.carried.asked(io) {
            if own {
                self.own_bytes += bytes;
                return;
            }
            for disk in self.disks.iter_mut().filter(|d| below.contains(&d.dev)) {
                disk.push_foreign(io);
            }
            self.latencies.add(io.total_ns());
            return;
        }
        let Some(disk) = self.disks.iter_mut().find(|d| d.dev == io.dev) else {
            return;
        };
        disk.all.push(io.start_ns(), io.done_ns);
        disk.ios += 1;
        for i in &disk.sets {
            self.sets[*i].push(io.start_ns(), io.done_ns);
        }
        if self.carried.worked(io) {
            // The owner is known from the layer above, which has counted the bytes.
            disk.foreign_or_carried.push(io.start_ns(), io.done_ns);
        } else if own {
            self.own_bytes += bytes;
        } else {
            disk.push_foreign(io);
            self.latencies.add(io.total_ns());
        }
    }

    /// Time in which other work used a disk, in the current window.
    fn foreign_so_far_ns(&self, disk: &DiskUnions) -> i64 {
        let foreign_ns = if self.carried.is_more_than_asked() {
            disk.foreign_or_carried.so_far_ns()
        } else {
            disk.foreign.so_far_ns()
        };
        foreign_ns.min(disk.all.so_far_ns())
    }

    fn window(&mut self, to_ns: i64) -> EventWindow {
        let ios: u64 = self.disks.iter().map(|d| d.ios).sum();
        let lossy = self.lost.is_none_or(|lost| lost * 100 > ios);
        self.lost = Some(0);
        let by_anyone = self.carried.is_more_than_asked();
        self.carried.next_window();
        EventWindow {
            from_ns: std::mem::replace(&mut self.from_ns, to_ns),
            to_ns,
            disks: self
                .disks
                .iter_mut()
                .map(|d| (d.dev, d.take_events(to_ns, by_anyone)))
                .collect(),
            any_ns: self.sets.iter_mut().map(|s| s.take(to_ns)).collect(),
            foreground: std::mem::take(&mut self.latencies),
            own_bytes: std::mem::take(&mut self.own_bytes),
            lossy,
        }
    }
}

/// A tracer of the disks under a path, drained by a thread of its own. Dropping it detaches.
pub struct Events {
    shared: Arc<Mutex<Collected>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    attributed: bool,
}

impl Events {
    /// Traces the disks of these paths; with `attribution`, also the process of each I/O.
    ///
    /// # Errors
    /// Tracing is not allowed or not possible here.
    pub fn start(stacks: &[&MountPath], attribution: bool) -> Result<Events, TraceError> {
        let sets: Vec<HashSet<DevId>> = stacks
            .iter()
            .map(|s| s.disks.iter().map(|d| d.id).collect())
            .collect();
        let found: Option<Vec<Vec<Carrier>>> = stacks.iter().map(|s| carriers(&s.layers)).collect();
        let attributed = attribution && found.is_some();
        let carriers = found.filter(|_| attributed).unwrap_or_default().concat();
        let of_layers = carriers.iter().map(|c| c.dev);
        let devices: HashSet<DevId> = sets.iter().flatten().copied().chain(of_layers).collect();
        let tracer = Tracer::start(TracerOptions {
            devices: Some(devices.into_iter().collect()),
            ring_bytes: RING_BYTES,
            attribution: attributed,
            bio_based: stacks.iter().flat_map(|s| &s.disks).any(is_bio_based)
                || carriers.iter().any(|c| c.is_bio_based),
            ..TracerOptions::default()
        })?;
        let collected = Collected::new(&sets, carriers, monotonic_ns());
        let shared = Arc::new(Mutex::new(collected));
        let stop = Arc::new(AtomicBool::new(false));
        let into = Arc::clone(&shared);
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || drain(tracer, &into, &until));
        Ok(Events {
            shared,
            stop,
            thread: Some(thread),
            attributed,
        })
    }

    /// Whether the background's own I/Os can be distinguished from others' on this stack.
    pub fn attributed(&self) -> bool {
        self.attributed
    }

    /// Sets what identifies the background from now on.
    pub fn set_own(&self, own: Own) {
        locked(&self.shared).set_own(own);
    }

    /// Begins the first window at `at_ns`; what was before is forgotten.
    pub(super) fn begin(&self, at_ns: i64) {
        locked(&self.shared).window(at_ns);
    }

    /// Busy time due to others, in percent, of the disk where it is highest, in the open window so far. `None` before
    /// the first events.
    pub fn foreground_percent_so_far(&self) -> Option<f64> {
        let c = locked(&self.shared);
        let span_ns = c.complete_to_ns - c.from_ns;
        let busy_ns = c.disks.iter().map(|d| c.foreign_so_far_ns(d)).max()?;
        (span_ns > 0).then(|| (100.0 * busy_ns as f64 / span_ns as f64).min(100.0))
    }

    /// Waits until `span` of the open window has been observed, at most three times as long; then returns
    /// [`Events::foreground_percent_so_far`].
    pub fn watch_foreground(&self, span: Duration) -> Option<f64> {
        let begin = Instant::now();
        loop {
            let watched_ns = {
                let c = locked(&self.shared);
                c.complete_to_ns - c.from_ns
            };
            if watched_ns >= span.as_nanos() as i64 || begin.elapsed() > 3 * span {
                return self.foreground_percent_so_far();
            }
            std::thread::sleep(POLL / 4);
        }
    }

    /// The window from the end of the last one to `to_ns`. Waits a moment for I/Os in flight. `None`: the tracer has
    /// failed.
    pub fn window(&self, to_ns: i64) -> Option<EventWindow> {
        let begin = Instant::now();
        loop {
            let mut c = locked(&self.shared);
            if c.failed.is_some() {
                return None;
            }
            if c.complete_to_ns >= to_ns + GRACE.as_nanos() as i64 || begin.elapsed() > 4 * GRACE {
                return Some(c.window(to_ns));
            }
            drop(c);
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            drop(thread.join());
        }
    }
}

fn drain(mut tracer: Tracer, into: &Mutex<Collected>, until: &AtomicBool) {
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    while !until.load(Ordering::Relaxed) {
        let polled = tracer.poll(&mut ios, &mut lost);
        let mut c = locked(into);
        ios.drain(..).for_each(|io| c.take(&io));
        for l in lost.drain(..).filter(|l| l.reason != LossReason::Censored) {
            c.lost = c
                .lost
                .zip(l.ios)
                .map(|(sum, n)| sum.saturating_add(n.unsigned_abs()));
        }
        match polled {
            Ok(stats) => c.complete_to_ns = stats.complete_to_ns,
            Err(e) => {
                c.failed = Some(e.to_string());
                return;
            }
        }
        drop(c);
        std::thread::sleep(POLL);
    }
}

/// A blk-mq disk has the directory `mq`; zram and similar take bios only, and need probes that slow down the other
/// disks too.
fn is_bio_based(disk: &Disk) -> bool {
    disk.stats
        .first()
        .and_then(|s| s.parent())
        .is_some_and(|dir| !dir.join("mq").is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{Comm, Op, Origin};
    use iolens_observe::topology::Layer;

    #[test]
    fn writeback_belongs_to_the_files_writer() {
        let own = Own {
            tgids: [10].into(),
            cgroups: [77].into(),
            files: [(5, 1000)].into(),
        };
        let io = |edit: fn(&mut Io)| {
            let mut io = Io::new(0, DevId::new(8, 0), Op::WRITE, 4096, None, 1);
            edit(&mut io);
            own.caused(&io)
        };
        assert!(io(|io| io.tgid = Some(10)), "its process");
        assert!(!io(|io| io.tgid = Some(11)));
        assert!(
            io(|io| (io.tgid, io.origin) = (Some(10), Origin::Writeback)),
            "it dirtied the pages"
        );
        assert!(
            !io(|io| (io.tgid, io.origin) = (Some(11), Origin::Writeback)),
            "another process submitted it"
        );
        assert!(
            !io(|io| io.origin = Origin::Writeback),
            "dirty before the start"
        );
        assert!(
            io(|io| (io.ino, io.fs_dev, io.origin) = (Some(1000), Some(5), Origin::Writeback)),
            "its file"
        );
        assert!(
            !io(|io| (io.ino, io.fs_dev) = (Some(1000), Some(6))),
            "the same number on another file system"
        );
        assert!(io(|io| io.cgroup = Some(77)));
    }

    #[test]
    fn each_io_is_booked_where_it_belongs_whatever_came_before() {
        let a = DevId::new(8, 0);
        let b = DevId::new(8, 16);
        let elsewhere = DevId::new(8, 32);
        let mut c = Collected::new(&[[a].into(), [a, b].into()], vec![], 0);
        c.set_own(Own {
            tgids: [10].into(),
            ..Own::default()
        });
        let io = |dev, done_ns, tgid| Io {
            tgid: Some(tgid),
            ..Io::new(done_ns, dev, Op::READ, 4096, Some(0), 10)
        };
        for (dev, done_ns, tgid) in [
            (a, 10, 10),
            (a, 30, 11),
            (b, 50, 11),
            (b, 70, 10),
            (elsewhere, 80, 10),
        ] {
            c.take(&io(dev, done_ns, tgid));
        }
        c.set_own(Own {
            tgids: [11].into(),
            ..Own::default()
        });
        c.take(&io(a, 90, 10));
        let w = c.window(100);
        assert_eq!(
            (w.any_ns, w.own_bytes, w.foreground.n()),
            (vec![30, 50], 2 * 4096, 3)
        );
        assert_eq!(
            w.disks[&a],
            DiskEvents {
                busy_ns: 30,
                foreground_ns: 20,
                ios: 3
            }
        );
        assert_eq!(
            w.disks[&b],
            DiskEvents {
                busy_ns: 20,
                foreground_ns: 10,
                ios: 2
            }
        );
    }

    #[test]
    fn what_workers_do_is_the_layers_as_long_as_it_was_asked_for_that() {
        let disk = DevId::new(8, 0);
        let crypt = DevId::new(253, 0);
        let below = |kind: &str, id, below| Layer {
            name: kind.to_owned(),
            id: Some(id),
            kind: kind.to_owned(),
            label: None,
            below,
        };
        let stack = [below("crypt", crypt, vec![below("disk", disk, vec![])])];
        let mut c = Collected::new(&[[disk].into()], carriers(&stack).expect("numbers"), 0);
        c.set_own(Own {
            tgids: [10].into(),
            ..Own::default()
        });
        const MIB: i64 = 1 << 20;
        let io = |dev, done_ns, comm: &str, tgid| Io {
            tgid: Some(tgid),
            comm: Some(Comm::new(comm.as_bytes())),
            ..Io::new(done_ns, dev, Op::WRITE, MIB, Some(0), 10)
        };
        // The command alone.
        c.take(&io(disk, 10, "kworker/1:2", 99));
        c.take(&io(crypt, 11, "dd", 10));
        let alone = c.window(100);
        assert_eq!((alone.own_bytes, alone.foreground.n()), (MIB as u64, 0));
        let busy = |busy_ns, foreground_ns| DiskEvents {
            busy_ns,
            foreground_ns,
            ios: 1,
        };
        assert_eq!(alone.disks[&disk], busy(10, 0));
        // Others on the same layer.
        c.take(&io(disk, 110, "kworker/1:2", 99));
        c.take(&io(crypt, 110, "postgres", 11));
        let beside = c.window(200);
        assert_eq!((beside.own_bytes, beside.foreground.n()), (0, 1));
        assert_eq!(beside.disks[&disk], busy(10, 10));
        // Workers of another layer on the same disk, and others on the disk itself.
        c.take(&io(disk, 210, "dmcrypt_write/2", 99));
        assert_eq!(c.window(300).disks[&disk], busy(10, 10));
        c.take(&io(disk, 310, "postgres", 11));
        assert_eq!(c.window(400).disks[&disk], busy(10, 10));
        // What the layer answers from its cache.
        c.take(&io(crypt, 410, "postgres", 11));
        assert_eq!(c.window(500).disks[&disk].foreground_ns, 0);
    }
}
