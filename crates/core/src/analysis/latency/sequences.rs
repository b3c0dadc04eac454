//! Sequential streams cut into small requests: one process moves adjacent sectors, all requests of one small size, back to back.
//!
//! The next request of a stream begins where the furthest one so far ended, give or take a few requests, as several may be in
//! flight at once. A run counts if it covers as many sectors as it moved and keeps the device or its queue occupied: requests
//! that arrive at their own pace could not be joined without waiting. Requests that were merged, read ahead by the kernel, or
//! forced out one by one by syncs are left out: they could not be larger, or the kernel makes them larger already.

use crate::analysis::bursts::cells::IoActor;
use crate::analysis::capacity::mix::Cost;
use crate::analysis::device::context::DeviceContext;
use crate::analysis::findings::evidence::{Cause, Evidence, SmallSequentialEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::model::{Class, DevId, Io, Origin, PathOf, SECTOR_BYTES};

/// Maximum size of a small request, in bytes.
const SMALL_BYTES: i64 = 32 << 10;

/// Size that requests of a stream could have, in bytes, unless the device accepts less.
const LARGE_BYTES: u64 = 128 << 10;

/// A request is small if the possible size is at least this many times larger.
const FAR_BELOW: u64 = 4;

/// Minimum number of requests in a run.
const MIN_RUN: u64 = 64;

/// Minimum number of requests in all runs of a process, and their minimum share of the device's requests.
const MIN_IOS: u64 = 1000;
const MIN_SHARE: f64 = 0.2;

/// Minimum mean number of requests in flight during a run, and minimum share of the window that runs must take.
const BACK_TO_BACK: f64 = 0.3;
const MIN_TIME_SHARE: f64 = 0.01;

/// Maximum disorder, in requests.
const DISORDER: i64 = 32;

/// Maximum number of runs followed at once, and of streams kept.
const MAX_OPEN: usize = 8;
const MAX_STREAMS: usize = 16;

/// A run of this many requests is established: random I/O does not displace it within this time.
const LASTING: u64 = 8;
const LASTING_NS: i64 = 1_000_000_000;

/// Added to the rank of established runs, so that others are displaced first. It exceeds any number of I/Os.
const ESTABLISHED: u64 = 1 << 63;

#[derive(Debug, Clone, Copy)]
struct SequentialRun {
    /// Sequence number of its last I/O among all I/Os taken into runs.
    met: u64,
    actor: IoActor,
    class: Class,
    bytes: i64,
    first_sector: i64,
    next_sector: i64,
    n: u64,
    busy_ns: i64,
    from_ns: i64,
    to_ns: i64,
}

impl SequentialRun {
    fn of(io: &Io, sector: i64, met: u64) -> SequentialRun {
        SequentialRun {
            met,
            actor: IoActor::of(io),
            class: io.class(),
            bytes: io.bytes,
            first_sector: sector,
            next_sector: sector + io.bytes / SECTOR_BYTES,
            n: 1,
            busy_ns: io.total_ns(),
            from_ns: io.start_ns(),
            to_ns: io.done_ns,
        }
    }

    #[inline]
    fn goes_on(&self, io: &Io, sector: i64) -> bool {
        let away = (sector - self.next_sector).abs();
        let is_near = away <= DISORDER * (io.bytes / SECTOR_BYTES);
        // Size and position hardly ever both agree by chance, so they are tested in one well-predicted branch.
        (is_near & (io.bytes == self.bytes))
            && io.tgid == self.actor.tgid
            && io.class() == self.class
    }

    fn add(&mut self, io: &Io, sector: i64, met: u64) {
        self.met = met;
        self.first_sector = self.first_sector.min(sector);
        self.next_sector = self.next_sector.max(sector + io.bytes / SECTOR_BYTES);
        self.n += 1;
        self.busy_ns += io.total_ns();
        self.from_ns = self.from_ns.min(io.start_ns());
        self.to_ns = io.done_ns;
        self.actor.keep_file(io.inode());
    }

    /// Whether it is established and its last I/O is recent.
    #[inline]
    fn is_lasting(&self, now_ns: i64) -> bool {
        self.n >= LASTING && now_ns - self.to_ns < LASTING_NS
    }

    /// Whether it is long enough, without repeated sectors, holes or pauses.
    fn counts(&self) -> bool {
        let moved = self.n as i64 * (self.bytes / SECTOR_BYTES);
        let covered = self.next_sector - self.first_sector;
        self.n >= MIN_RUN
            && (moved - covered).abs() <= moved / 10
            && self.busy_ns as f64 >= BACK_TO_BACK * (self.to_ns - self.from_ns) as f64
    }
}

/// All runs of one process, class and size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stream {
    actor: IoActor,
    class: Class,
    bytes: i64,
    ios: u64,
    runs: u64,
    longest: u64,
    busy_ns: i64,
    from_ns: i64,
    to_ns: i64,
}

impl Stream {
    fn has(&self, run: &SequentialRun) -> bool {
        self.actor.tgid == run.actor.tgid && self.class == run.class && self.bytes == run.bytes
    }

    /// Whether moving the bytes takes longer than the fixed cost of a request: larger requests gain little then.
    fn is_efficient(&self, costs: &[Option<Cost>]) -> bool {
        let Some(cost) = costs.get(self.class as usize).copied().flatten() else {
            return false;
        };
        cost.per_kib_us > 0.0 && cost.per_kib_us * self.bytes as f64 / 1024.0 >= cost.per_io_us
    }
}

/// A stream that could use far fewer requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmallSequential {
    stream: Stream,
    /// I/Os of the device, reads and writes.
    of_ios: u64,
    /// Size that requests could have, in bytes.
    large_bytes: u64,
}

/// Accumulates streams of small requests of one device.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Sequences {
    ios: u64,
    /// Number of I/Os taken into runs.
    met: u64,
    /// At most [`MAX_OPEN`], in no particular order.
    open: Vec<SequentialRun>,
    streams: Vec<Stream>,
}

impl Sequences {
    /// Takes the next completed I/O.
    #[inline]
    pub fn push(&mut self, io: &Io) {
        match io.class() {
            Class::Flush => self.sync(),
            Class::Discard => {}
            Class::Write if io.is_forced() => {
                self.ios += 1;
                self.sync();
            }
            Class::Read | Class::Write => {
                self.ios += 1;
                if (1..=SMALL_BYTES).contains(&io.bytes) {
                    self.small(io);
                }
            }
        }
    }

    fn small(&mut self, io: &Io) {
        let read_ahead =
            io.origin == Origin::Readahead || io.flags.is_some_and(|f| f & Io::FLAG_RAHEAD != 0);
        let Some(sector) = io
            .sector
            .filter(|_| !read_ahead && io.merges.unwrap_or(0) == 0)
        else {
            return;
        };
        self.met += 1;
        let mut last: Option<&mut SequentialRun> = None;
        for run in &mut self.open {
            if run.goes_on(io, sector) && last.as_ref().is_none_or(|l| l.met < run.met) {
                last = Some(run);
            }
        }
        match last {
            Some(run) => run.add(io, sector, self.met),
            None => self.begin(SequentialRun::of(io, sector, self.met)),
        }
    }

    /// Index of the least recently continued run that satisfies `is_meant`.
    fn longest_ago(&self, is_meant: impl Fn(&SequentialRun) -> bool) -> Option<usize> {
        let mut found = None;
        let mut met = u64::MAX;
        for (place, run) in self.open.iter().enumerate() {
            if run.met < met && is_meant(run) {
                found = Some(place);
                met = run.met;
            }
        }
        found
    }

    /// Ends all runs of writes: a write before a sync could not wait to be joined with one after it.
    fn sync(&mut self) {
        while let Some(place) = self.longest_ago(|run| run.class == Class::Write) {
            self.close(place);
            self.open.swap_remove(place);
        }
    }

    /// Starts a run. If there are too many, the least recently continued one is closed, preferably one that is not
    /// established: nearly all of these are random I/Os, runs of one.
    fn begin(&mut self, new: SequentialRun) {
        if self.open.len() < MAX_OPEN {
            return self.open.push(new);
        }
        let mut place = 0;
        let mut first = u64::MAX;
        for (i, run) in self.open.iter().enumerate() {
            let rank = run.met + u64::from(run.is_lasting(new.to_ns)) * ESTABLISHED;
            if rank < first {
                first = rank;
                place = i;
            }
        }
        self.close(place);
        self.open[place] = new;
    }

    /// Adds the run at `place` to its stream.
    fn close(&mut self, place: usize) {
        let run = &self.open[place];
        if !run.counts() {
            return;
        }
        if let Some(s) = self.streams.iter_mut().find(|s| s.has(run)) {
            s.actor.keep_file(run.actor.file);
            s.ios += run.n;
            s.runs += 1;
            s.longest = s.longest.max(run.n);
            s.busy_ns += run.busy_ns.min(run.to_ns - run.from_ns);
            s.from_ns = s.from_ns.min(run.from_ns);
            s.to_ns = s.to_ns.max(run.to_ns);
        } else if self.streams.len() < MAX_STREAMS {
            self.streams.push(Stream {
                actor: run.actor,
                class: run.class,
                bytes: run.bytes,
                ios: run.n,
                runs: 1,
                longest: run.n,
                busy_ns: run.busy_ns.min(run.to_ns - run.from_ns),
                from_ns: run.from_ns,
                to_ns: run.to_ns,
            });
        }
    }

    /// The stream with most I/Os, if it is worth a finding. `costs` are those of the device's reads and writes.
    pub fn finish(
        mut self,
        around: &DeviceContext,
        costs: &[Option<Cost>],
    ) -> Option<SmallSequential> {
        while let Some(place) = self.longest_ago(|_| true) {
            self.close(place);
            self.open.swap_remove(place);
        }
        let large_bytes = around
            .max_request_bytes
            .map_or(LARGE_BYTES, |m| m.min(LARGE_BYTES));
        let mut largest: Option<Stream> = None;
        for s in self.streams {
            let has_many = s.ios >= MIN_IOS && s.ios as f64 >= MIN_SHARE * self.ios as f64;
            let takes_time = s.busy_ns as f64 >= MIN_TIME_SHARE * around.window.len_ns() as f64;
            let may_be_larger = s.bytes as u64 * FAR_BELOW <= large_bytes && !s.is_efficient(costs);
            let is_whole = !around.losses.overlap(around.dev, s.from_ns, s.to_ns);
            let matters = has_many && takes_time && may_be_larger && is_whole;
            if matters && largest.is_none_or(|l| s.ios >= l.ios) {
                largest = Some(s);
            }
        }
        Some(SmallSequential {
            stream: largest?,
            of_ios: self.ios,
            large_bytes,
        })
    }
}

impl SmallSequential {
    /// The finding about `dev`.
    pub(in crate::analysis) fn finding(&self, dev: DevId, path_of: PathOf) -> Finding {
        let s = &self.stream;
        let bytes = s.ios * s.bytes as u64;
        Finding {
            dev: Some(dev),
            from_ns: s.from_ns,
            to_ns: s.to_ns,
            severity: Severity::Info,
            evidence: Evidence::SmallSequential(SmallSequentialEvidence {
                class: s.class,
                cause: Cause::of(Some(s.actor), s.class, path_of),
                pid: s.actor.tgid,
                request_bytes: s.bytes,
                ios: s.ios,
                bytes,
                runs: s.runs,
                longest_run_ios: s.longest,
                percent_of_ios: 100.0 * s.ios as f64 / self.of_ios.max(1) as f64,
                busy_s: s.busy_ns as f64 / 1e9,
                large_request_bytes: self.large_bytes,
                ios_if_large: bytes.div_ceil(self.large_bytes),
            }),
        }
    }
}
