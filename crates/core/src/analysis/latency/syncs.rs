//! Finds writers bound by syncs: they write, wait until a flush or a forced write completes, and continue.
//!
//! A *sync* on a device is the union of overlapping flushes and of writes that carry one (`PREFLUSH`, `FUA`). A
//! *cycle* lasts from the end of one sync to the end of the next. Pauses longer than a second are the writer's own,
//! and end a series of cycles. A writer is bound by syncs if they take at least half of the time of its cycles, and
//! if it submits nothing while one is in flight: a writer that does not wait submits during syncs as often as their
//! share of the time. If cycles do not get longer when their syncs do, a clock paces the writer, and it is not bound.
//!
//! Sync calls of programs (where files were recorded) show the same without inference: each is one wait of its process.

use std::collections::BTreeMap;

use crate::analysis::bursts::cells::IoActor;
use crate::analysis::findings::evidence::{Cause, Evidence, FsyncBoundEvidence, SyncSource};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::math::distributions::chernoff;
use crate::analysis::math::stats::{median, nearest_rank};
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::window::Window;
use crate::model::{Class, Comm, DevId, Inode, Io, Origin, PathOf, Request};

/// A longer time without a sync is a pause of the writer.
const PAUSE_NS: i64 = 1_000_000_000;

/// Minimum number of cycles for a finding, and for a warning.
const MIN_CYCLES: u64 = 50;
const MANY_CYCLES: u64 = 200;

/// Minimum share of the cycles' time in syncs for a finding, and for a warning.
const BOUND: f64 = 0.5;
const MOSTLY: f64 = 0.8;

/// Minimum share of the window in syncs for a finding, and for a warning.
const MIN_TIME_SHARE: f64 = 0.01;
const WARNING_TIME_SHARE: f64 = 0.05;

/// Maximum share of cycles in which the writer submits during the sync.
const STRAY: f64 = 0.1;

/// I/Os of one device that are processed together, and maximum number of writers distinguished on it.
const BLOCK: usize = 4096;
const MAX_WRITERS: usize = 16;

/// Maximum number of processes distinguished by their sync calls, and of those with a finding.
const MAX_PROCESSES: usize = 1 << 14;
const REPORTED: usize = 3;

/// The time of one writer, divided at the ends of its syncs.
#[derive(Debug, Clone, Default)]
struct Cycles {
    n: u64,
    wait_ns: i64,
    active_ns: i64,
    /// Cycles in which the writer submitted something while a sync was in flight.
    stray: u64,
    from_ns: i64,
    to_ns: i64,
    last_wait_ns: i64,
    /// (sync, pause after it) of a sample of cycles, in nanoseconds.
    sample: Vec<(i64, i64)>,
    one_in: u64,
}

impl Cycles {
    const SAMPLE: usize = 512;

    /// Adds a cycle of `cycle_ns` that ends at `to_ns` with a sync of `wait_ns`.
    fn add(&mut self, wait_ns: i64, cycle_ns: i64, to_ns: i64, is_stray: bool) {
        if self.n == 0 {
            self.from_ns = to_ns - cycle_ns;
        }
        // Sample all cycles, later every second, every fourth and so on. That is enough for a median.
        if self.n > 0 && self.n.is_multiple_of(self.one_in.max(1)) {
            self.sample.push((self.last_wait_ns, cycle_ns - wait_ns));
            if self.sample.len() == Self::SAMPLE {
                let mut is_even = false;
                self.sample.retain(|_| {
                    is_even = !is_even;
                    is_even
                });
                self.one_in = 2 * self.one_in.max(1);
            }
        }
        self.n += 1;
        self.last_wait_ns = wait_ns;
        self.stray += u64::from(is_stray);
        self.wait_ns += wait_ns;
        self.active_ns += cycle_ns;
        self.to_ns = to_ns;
    }

    fn share(&self) -> f64 {
        self.wait_ns as f64 / self.active_ns.max(1) as f64
    }

    /// Whether pauses shrink as waits grow, because a clock sets the pace. The shortest quarter of waits is compared
    /// with the next quarter only: longer waits may miss a beat, and continue until the next one.
    fn is_paced(&self) -> bool {
        let mut pairs = self.sample.clone();
        pairs.sort_unstable();
        let quarter = pairs.len() / 4;
        let short = &pairs[..quarter];
        let long = &pairs[quarter..2 * quarter];
        let wait = median_of(long, |p| p.0) - median_of(short, |p| p.0);
        let pause = median_of(long, |p| p.1) - median_of(short, |p| p.1);
        let longer = short
            .iter()
            .map(|s| long.iter().filter(|l| s.1 > l.1).count())
            .sum::<usize>();
        pause < -0.5 * wait && longer as f64 >= 0.65 * (quarter * quarter) as f64
    }

    /// Upper bound of the probability that a writer that does not wait submits something in so few syncs (Chernoff).
    fn p_value(&self) -> f64 {
        let n = self.n as f64;
        let seen = self.stray as f64 / self.n.max(1) as f64;
        let expected = self.share().min(0.999);
        if seen >= expected {
            1.0
        } else {
            chernoff(n, seen, expected)
        }
    }

    fn is_bound(&self, window: Window) -> bool {
        self.n >= MIN_CYCLES
            && self.share() >= BOUND
            && self.stray as f64 <= STRAY * self.n as f64
            && self.wait_ns as f64 >= MIN_TIME_SHARE * window.len_ns() as f64
            && !self.is_paced()
    }

    fn severity(&self, window: Window) -> Severity {
        let much = self.n >= MANY_CYCLES
            && self.share() >= MOSTLY
            && self.wait_ns as f64 >= WARNING_TIME_SHARE * window.len_ns() as f64;
        if much {
            Severity::Warning
        } else {
            Severity::Info
        }
    }
}

/// The median of waits, or of pauses.
fn median_of(pairs: &[(i64, i64)], of: fn(&(i64, i64)) -> i64) -> f64 {
    let mut values: Vec<f64> = pairs.iter().map(|p| of(p) as f64).collect();
    median(&mut values).unwrap_or(0.0)
}

/// One submission, or a flush by the block layer itself.
#[derive(Debug, Clone, Copy)]
struct Sent {
    start_ns: i64,
    done_ns: i64,
    /// Index in [`SyncScan::writers`]; `None` for the block layer's flush, and for writers beyond the maximum.
    writer: Option<u8>,
    is_sync: bool,
}

#[derive(Debug)]
struct Writer {
    actor: IoActor,
    cycles: Cycles,
    writes: u64,
    bytes: u64,
    /// Of the current cycle: number of submissions, and whether one came during its sync.
    open: (u64, bool),
}

impl Writer {
    /// Whether it writes for other processes, which wait: a journal, or a file system's metadata.
    fn is_helper(&self) -> bool {
        matches!(self.actor.origin, Origin::Metadata | Origin::Journal)
    }
}

/// Accumulates syncs and writes of one device. Costs nothing until the first sync.
#[derive(Debug, Default)]
pub(in crate::analysis) struct SyncScan {
    block: Vec<Sent>,
    syncs: usize,
    writers: Vec<Writer>,
}

impl SyncScan {
    /// Takes the next completed I/O.
    #[inline]
    pub fn push(&mut self, io: &Io) {
        let class = io.class();
        let is_sync = class == Class::Flush || (class == Class::Write && io.is_forced());
        if is_sync || (class == Class::Write && self.syncs > 0) {
            self.take(io, is_sync);
        }
    }

    fn take(&mut self, io: &Io, is_sync: bool) {
        self.syncs += usize::from(is_sync);
        let writer = if io.class() == Class::Flush {
            None
        } else {
            self.writer(io)
        };
        if let Some(w) = writer
            .and_then(|w| self.writers.get_mut(usize::from(w)))
            .filter(|_| io.bytes > 0)
        {
            w.writes += 1;
            w.bytes += io.bytes as u64;
        }
        self.block.push(Sent {
            start_ns: io.start_ns(),
            done_ns: io.done_ns,
            writer,
            is_sync,
        });
        if self.block.len() >= BLOCK {
            self.settle();
        }
    }

    fn writer(&mut self, io: &Io) -> Option<u8> {
        let found = self.writers.iter().position(|w| w.actor.tgid == io.tgid);
        if found.is_none() && self.writers.len() < MAX_WRITERS {
            let new = Writer {
                actor: IoActor::of(io),
                cycles: Cycles::default(),
                writes: 0,
                bytes: 0,
                open: (0, false),
            };
            self.writers.push(new);
            return u8::try_from(self.writers.len() - 1).ok();
        }
        let found = found?;
        self.writers[found].actor.keep_file(io.inode());
        u8::try_from(found).ok()
    }

    /// Divides the collected I/Os into cycles.
    fn settle(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        block.sort_unstable_by_key(|s| (s.start_ns, !s.is_sync));
        let mut rest = block.iter().peekable();
        let mut last_end: Option<i64> = None;
        while let Some(next) = rest.next() {
            if !next.is_sync {
                self.mark(next, false);
                continue;
            }
            self.mark(next, false);
            let begin = next.start_ns;
            let mut end = next.done_ns;
            while let Some(inside) = rest.next_if(|s| s.start_ns < end) {
                end = if inside.is_sync {
                    end.max(inside.done_ns)
                } else {
                    end
                };
                self.mark(inside, true);
            }
            self.close(
                last_end.filter(|last| begin - last <= PAUSE_NS),
                (begin, end),
            );
            last_end = Some(end);
        }
        self.writers.iter_mut().for_each(|w| w.open = (0, false));
        block.clear();
        self.block = block;
        // If there was no sync, later writes are skipped again, until the next sync.
        self.syncs = usize::from(last_end.is_some());
    }

    fn mark(&mut self, sent: &Sent, is_during: bool) {
        if let Some(w) = sent
            .writer
            .and_then(|w| self.writers.get_mut(usize::from(w)))
        {
            w.open = (w.open.0 + 1, w.open.1 | is_during);
        }
    }

    fn close(&mut self, last_end: Option<i64>, (begin, end): (i64, i64)) {
        for w in &mut self.writers {
            let (sent, is_stray) = std::mem::take(&mut w.open);
            if let Some(last) = last_end.filter(|_| sent > 0) {
                w.cycles.add(end - begin, end - last, end, is_stray);
            }
        }
    }

    /// The writer that is bound by the syncs of `dev`, if there is one; of several the one with most cycles, journals last.
    pub fn finish(mut self, dev: DevId, window: Window, losses: &Losses) -> Option<Bound> {
        self.settle();
        let found = self
            .writers
            .into_iter()
            .filter(|w| w.cycles.is_bound(window))
            .filter(|w| !losses.overlap(dev, w.cycles.from_ns, w.cycles.to_ns))
            .max_by_key(|w| (!w.is_helper(), w.cycles.n))?;
        let writes = Some(found.writes).filter(|n| *n > 0);
        let bytes = Some(found.bytes);
        Some(Bound {
            actor: found.actor,
            path: None,
            cycles: found.cycles,
            writes,
            bytes,
            by_calls: false,
        })
    }
}

/// A writer that waits for syncs.
#[derive(Debug, Clone)]
pub struct Bound {
    actor: IoActor,
    path: Option<String>,
    cycles: Cycles,
    writes: Option<u64>,
    bytes: Option<u64>,
    by_calls: bool,
}

impl PartialEq for Bound {
    fn eq(&self, other: &Bound) -> bool {
        (self.actor, self.cycles.n, self.cycles.wait_ns)
            == (other.actor, other.cycles.n, other.cycles.wait_ns)
    }
}

impl Bound {
    /// The finding on `dev`; without a device if it comes from sync calls.
    pub(in crate::analysis) fn finding(
        &self,
        dev: Option<DevId>,
        window: Window,
        path_of: PathOf,
    ) -> Finding {
        let c = &self.cycles;
        let mut us: Vec<f64> = c.sample.iter().map(|(ns, _)| *ns as f64 / 1e3).collect();
        let sync_p50_us = nearest_rank(&mut us, 0.5).unwrap_or(0.0);
        let active_s = c.active_ns as f64 / 1e9;
        let cause = Cause::of(Some(self.actor), Class::Write, path_of);
        Finding {
            dev,
            from_ns: c.from_ns,
            to_ns: c.to_ns,
            severity: c.severity(window),
            evidence: Evidence::FsyncBound(FsyncBoundEvidence {
                cause: cause.map(|c| Cause {
                    path: self.path.clone().or(c.path),
                    ..c
                }),
                pid: self.actor.tgid,
                sync_source: if self.by_calls {
                    SyncSource::Calls
                } else {
                    SyncSource::Ios
                },
                syncs: c.n,
                syncs_per_s: c.n as f64 / active_s.max(1e-9),
                sync_p50_us,
                sync_wait_s: c.wait_ns as f64 / 1e9,
                writing_s: active_s,
                sync_wait_percent: 100.0 * c.share(),
                writes: self.writes,
                writes_per_sync: self.writes.map(|w| w as f64 / c.n as f64),
                bytes: self.bytes,
                times_faster_at_most: 1.0 / (1.0 - c.share()).max(1e-3),
                syncs_not_waited_for: c.stray,
                p_value: (!self.by_calls).then(|| c.p_value()),
            }),
        }
    }
}

/// The sync calls of one process.
#[derive(Debug, Default)]
struct Caller {
    comm: Option<Comm>,
    path: Option<std::sync::Arc<str>>,
    one_path: bool,
    cycles: Cycles,
    last_end: Option<i64>,
    writes: u64,
    bytes: u64,
}

/// Accumulates the sync calls and writes of processes.
#[derive(Debug)]
pub(in crate::analysis) struct SyncCalls {
    window: Window,
    callers: BTreeMap<i32, Caller>,
}

impl SyncCalls {
    pub fn new(window: Window) -> SyncCalls {
        SyncCalls {
            window,
            callers: BTreeMap::new(),
        }
    }

    /// Takes the next file-level request, in the order of their ends.
    pub fn request(&mut self, r: &Request) {
        let Some(tgid) = r.tgid.filter(|_| {
            self.window
                .contains(r.end_ns.min(self.window.to_ns.saturating_sub(1)))
        }) else {
            return;
        };
        if self.callers.len() >= MAX_PROCESSES && !self.callers.contains_key(&tgid) {
            return;
        }
        let caller = self.callers.entry(tgid).or_insert_with(|| Caller {
            one_path: true,
            ..Caller::default()
        });
        if r.sync.is_none() {
            caller.writes += r.ios_out.max(0) as u64;
            caller.bytes += r.bytes_out.max(0) as u64;
            return;
        }
        caller.comm = r.comm.or(caller.comm);
        caller.one_path &= caller.path.is_none() || caller.path == r.path;
        caller.path.clone_from(&r.path);
        if let Some(last) = caller.last_end.filter(|last| r.start_ns - last <= PAUSE_NS) {
            // The time of overlapping calls counts once.
            let begin = r.start_ns.max(last);
            if r.end_ns > last {
                caller.cycles.add(
                    r.end_ns - begin,
                    r.end_ns - last,
                    r.end_ns,
                    r.start_ns < last,
                );
            }
        }
        caller.last_end = Some(caller.last_end.unwrap_or(r.end_ns).max(r.end_ns));
    }

    /// The processes that are bound by their sync calls, longest wait first. `window` is closed.
    pub fn finish(self, window: Window) -> Vec<Bound> {
        let mut bound: Vec<Bound> = self
            .callers
            .into_iter()
            .filter(|(_, c)| c.cycles.is_bound(window))
            .map(|(tgid, c)| Bound {
                actor: IoActor {
                    tgid: Some(tgid),
                    comm: c.comm,
                    origin: Origin::Direct,
                    file: None::<Inode>,
                },
                path: c.path.filter(|_| c.one_path).map(|p| p.to_string()),
                cycles: c.cycles,
                writes: Some(c.writes).filter(|n| *n > 0),
                bytes: Some(c.bytes).filter(|n| *n > 0),
                by_calls: true,
            })
            .collect();
        bound.sort_by_key(|b| std::cmp::Reverse(b.cycles.wait_ns));
        bound.truncate(REPORTED);
        bound
    }
}

/// Removes findings inferred from I/Os if there is one from the sync calls of the same process.
pub(in crate::analysis) fn without_doubles(found: &mut Vec<Finding>) {
    let mut by_calls: Vec<Option<i32>> = Vec::new();
    for f in found.iter() {
        if let (None, Evidence::FsyncBound(e)) = (f.dev, &f.evidence) {
            by_calls.push(e.pid);
        }
    }
    found.retain(|f| match &f.evidence {
        Evidence::FsyncBound(e) if f.dev.is_some() => !by_calls.contains(&e.pid),
        _ => true,
    });
}
