//! Combines the stages of an I/O (queue, merge, issue, complete), matched by device and sector.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use iolens_core::model::{BioStages, Comm, DevId, Io, Op};

use super::log::Log;

/// A stage of an I/O, from a trace line or record.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Time of the event, in nanoseconds.
    pub at_ns: i64,
    /// Device number.
    pub dev: DevId,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Operation (`REQ_OP_*`).
    pub op: Op,
    /// `cmd_flags >> 8` as far as the source reports it.
    pub flags: i32,
    /// The running task: the submitter in early stages, any task at completion.
    pub tgid: Option<i32>,
    /// Name of the task (`comm`).
    pub comm: Option<Comm>,
    /// Error number of a failure, positive.
    pub error: i32,
}

/// Stage of an I/O in the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockStage {
    /// A bio arrives (Q).
    Queue,
    /// A request starts to be accounted (G, `block_io_start`).
    Start,
    /// The bio was appended to a request that ends where it begins (M).
    BackMerge,
    /// The bio was put at the front of a request that begins where it ends (F).
    FrontMerge,
    /// The request was handed to the scheduler (I).
    Insert,
    /// The request went to the driver (D); the last one counts.
    Issue,
    /// The driver gave it back (R).
    Requeue,
    /// Completed (C), perhaps in part.
    Complete,
}

#[derive(Debug, Clone)]
struct Waiting {
    start_ns: i64,
    way: Way,
    end_sector: u64,
    tgid: Option<i32>,
    comm: Option<Comm>,
    flags: i32,
    op: Op,
    merges: i32,
}

/// Times of queueing of a request's own bio, and of allocation and insertion of the request; and of the bios merged
/// into it, the times of queueing (if seen) and merging.
#[derive(Debug, Clone, Default)]
struct Way {
    queue_ns: Option<i64>,
    get_ns: Option<i64>,
    insert_ns: Option<i64>,
    merged: Vec<(Option<i64>, i64)>,
}

impl Way {
    /// Merges a bio, or the request that it has become, into this request at `at_ns`.
    fn merge(&mut self, other: Option<Waiting>, at_ns: i64) {
        let Some(w) = other else {
            return self.merged.push((None, at_ns));
        };
        self.merged.push((w.way.queue_ns, at_ns));
        self.merged.extend(w.way.merged);
    }

    /// The rows of all its bios.
    fn bios(&self, dev: DevId, issue_ns: i64, done_ns: i64) -> impl Iterator<Item = BioStages> {
        let issued = Some(issue_ns);
        let done = Some(done_ns);
        let row = BioStages {
            done_ns,
            dev,
            q2g_ns: None,
            g2i_ns: None,
            q2m_ns: None,
            i2d_ns: None,
            m2d_ns: None,
            d2c_ns: done_ns.saturating_sub(issue_ns).max(0),
            q2c_ns: None,
        };
        let own = BioStages {
            q2g_ns: span_ns(self.queue_ns, self.get_ns),
            g2i_ns: span_ns(self.get_ns, self.insert_ns),
            i2d_ns: span_ns(self.insert_ns, issued),
            q2c_ns: span_ns(self.queue_ns, done),
            ..row
        };
        let merged = self.merged.iter().map(move |(queue_ns, at_ns)| BioStages {
            q2m_ns: span_ns(*queue_ns, Some(*at_ns)),
            m2d_ns: span_ns(Some(*at_ns), issued),
            q2c_ns: span_ns(*queue_ns, done),
            ..row
        });
        std::iter::once(own).chain(merged)
    }
}

/// Time between two instants; `None` if one is unknown or they are in the wrong order.
fn span_ns(from: Option<i64>, to: Option<i64>) -> Option<i64> {
    Some(to?.saturating_sub(from?)).filter(|ns| *ns >= 0)
}

#[derive(Debug, Clone)]
struct Flight {
    issue_ns: i64,
    waiting: Option<Waiting>,
    bytes: u64,
    left: u64,
    sector: u64,
    op: Op,
    flags: i32,
    tgid: Option<i32>,
    comm: Option<Comm>,
}

/// I/Os in flight at the ends of a log last no longer than this, or than twice the longest I/O.
const MIN_REACH_NS: i64 = 100_000_000;
/// A bio becomes a request within this time, unless its task waits for a free request.
const SURELY_RECENT_NS: i64 = 10_000_000;

type RequestKey = (DevId, u64, bool);
type Map<V> = HashMap<RequestKey, V, BuildHasherDefault<SectorHasher>>;

/// Multiply-and-fold hash: sectors are not chosen by an attacker, and this map is the hot spot.
#[derive(Debug, Default, Clone, Copy)]
pub struct SectorHasher(u64);

impl Hasher for SectorHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i32(&mut self, v: i32) {
        self.write_u64(v as u64);
    }

    fn write_u8(&mut self, v: u8) {
        self.write_u64(u64::from(v));
    }
}

/// Matches stages in order of time.
#[derive(Debug, Default)]
pub struct Pairing {
    waiting: Map<Waiting>,
    /// End of each waiting request -> its start, for back merges.
    ends: Map<u64>,
    flights: Map<Flight>,
    /// Devices that have issued requests; on others (dm, md) a bio goes directly from queue to completion.
    request_devices: Vec<DevId>,
    /// The sector of each task's latest bio on each device: a task waits for its request before it sends another bio.
    latest_bios: HashMap<(Option<i32>, DevId), u64, BuildHasherDefault<SectorHasher>>,
    /// Times of issues without a completion, and of completions without an issue.
    issues: Vec<i64>,
    completions: Vec<i64>,
    span_ns: Option<(i64, i64)>,
    longest_ns: i64,
    /// Number of durations with an end before the start.
    negative: u64,
    /// Paths of bios through the block layer, if the source reports them.
    pub bios: Option<Vec<BioStages>>,
}

/// Replaces a negative time by 0 and counts it.
fn not_negative(ns: i64, negative: &mut u64) -> i64 {
    *negative += u64::from(ns < 0);
    ns.max(0)
}

fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

/// The first sector after an I/O.
fn end_sector(e: &Event) -> u64 {
    e.sector.saturating_add(sectors(e.bytes))
}

impl Pairing {
    /// An instance that also keeps the stages of bios.
    pub fn with_bios() -> Pairing {
        Pairing {
            bios: Some(Vec::new()),
            ..Pairing::default()
        }
    }

    /// Adds the next stage. A completion returns the finished I/O.
    pub fn push(&mut self, stage: BlockStage, e: &Event) -> Option<Io> {
        let (first, last) = self.span_ns.unwrap_or((e.at_ns, e.at_ns));
        self.span_ns = Some((first.min(e.at_ns), last.max(e.at_ns)));
        // A flush and an I/O at sector 0 may be in flight together.
        let key = (e.dev, e.sector, e.bytes == 0);
        match stage {
            BlockStage::Queue => self.queue(key, e),
            BlockStage::Start => self.start(key, e),
            BlockStage::BackMerge => self.back_merge(e),
            BlockStage::FrontMerge => self.front_merge(key, e),
            BlockStage::Insert => {
                if let Some(w) = self.waiting.get_mut(&key) {
                    w.way.insert_ns = Some(e.at_ns);
                }
            }
            BlockStage::Issue => self.issue(key, e),
            BlockStage::Requeue => {
                if let Some(w) = self.flights.remove(&key).and_then(|f| f.waiting) {
                    self.waiting.insert(key, w);
                }
            }
            BlockStage::Complete => return self.complete(key, e),
        }
        None
    }

    /// Ends the pairing. I/Os in flight at the ends of the log are censored; if one end is missing in between, the
    /// I/O was lost.
    pub fn finish(&mut self, log: &mut Log) {
        self.issues
            .extend(self.flights.drain().map(|(_, f)| f.issue_ns));
        let Some((first, last)) = self.span_ns else {
            return;
        };
        let reach = self.longest_ns.saturating_mul(2).max(MIN_REACH_NS);
        let at_end = self
            .issues
            .iter()
            .filter(|at| last.saturating_sub(**at) <= reach)
            .count() as u64;
        let at_start = self
            .completions
            .iter()
            .filter(|at| at.saturating_sub(first) <= reach)
            .count() as u64;
        let issues = self.issues.len() as u64;
        let completions = self.completions.len() as u64;
        log.censored += at_end + at_start;
        // An issue and a completion without partners may belong to the same I/O.
        let lost = (issues - at_end).max(completions - at_start);
        log.lost_ios += lost;
        if self.negative > 0 {
            log.limit(&format!(
                "{} times count as 0: their end has an earlier stamp than their beginning",
                self.negative
            ));
        }
        if lost > 0 {
            log.limit(&format!(
                "of at least {lost} I/Os one end is missing in the middle of the trace: events were lost, or the files of \
                 some processors were not given"
            ));
        }
    }

    /// A bio arrives. It waits for its request, unless a request for the same sectors is waiting already.
    fn queue(&mut self, key: RequestKey, e: &Event) {
        self.latest_bios.insert((e.tgid, e.dev), e.sector);
        // The start of accounting is later than the bio's arrival, and closer to what the kernel's statistics count.
        // A second bio for a sector does not replace a request that is waiting.
        if let Some(w) = self.waiting.get(&key)
            && w.end_sector == end_sector(e)
            && (w.way.get_ns.is_some() || !self.request_devices.contains(&e.dev))
        {
            return;
        }
        let way = Way {
            queue_ns: Some(e.at_ns),
            ..Way::default()
        };
        self.wait(key, e, way, 0);
    }

    /// The accounting of a request starts. A waiting entry with the same key may be its bio, whose stages and merges
    /// are kept.
    fn start(&mut self, key: RequestKey, e: &Event) {
        let waiting = self.waiting.remove(&key);
        let (way, merges) = match waiting.filter(|w| self.is_of(w, e)) {
            Some(bio) => (bio.way, bio.merges),
            None => (Way::default(), 0),
        };
        let way = Way {
            get_ns: Some(e.at_ns),
            ..way
        };
        self.wait(key, e, way, merges);
    }

    /// A bio or request waits to be issued, replacing any waiting entry with its key.
    fn wait(&mut self, key: RequestKey, e: &Event, way: Way, merges: i32) {
        let end_sector = end_sector(e);
        self.waiting.insert(
            key,
            Waiting {
                start_ns: e.at_ns,
                way,
                end_sector,
                tgid: e.tgid,
                comm: e.comm,
                flags: e.flags,
                op: e.op,
                merges,
            },
        );
        self.ends.insert((e.dev, end_sector, false), e.sector);
    }

    /// Whether the bio `w` has become the request of `e`. A bio whose request was not seen stays in the map, and much
    /// later another request may start at its sector.
    fn is_of(&self, w: &Waiting, e: &Event) -> bool {
        let recent = e.at_ns.saturating_sub(w.start_ns) <= SURELY_RECENT_NS;
        recent || (w.tgid == e.tgid && self.latest_bios.get(&(e.tgid, e.dev)) == Some(&e.sector))
    }

    fn back_merge(&mut self, e: &Event) {
        // The bio's own queue event is not a request.
        let bio = self.waiting.remove(&(e.dev, e.sector, e.bytes == 0));
        let Some(start) = self.ends.remove(&(e.dev, e.sector, false)) else {
            return;
        };
        if let Some(w) = self.waiting.get_mut(&(e.dev, start, false)) {
            w.end_sector = end_sector(e);
            w.merges = w.merges.saturating_add(1);
            if self.bios.is_some() {
                w.way.merge(bio, e.at_ns);
            }
            self.ends.insert((e.dev, w.end_sector, false), start);
        }
    }

    fn front_merge(&mut self, key: RequestKey, e: &Event) {
        let bio = self.waiting.remove(&key);
        if let Some(mut w) = self.waiting.remove(&(e.dev, end_sector(e), false)) {
            w.merges = w.merges.saturating_add(1);
            if self.bios.is_some() {
                w.way.merge(bio, e.at_ns);
            }
            self.ends.insert((e.dev, w.end_sector, false), e.sector);
            self.waiting.insert(key, w);
        }
    }

    fn issue(&mut self, key: RequestKey, e: &Event) {
        if !self.request_devices.contains(&e.dev) {
            self.request_devices.push(e.dev);
        }
        let waiting = self.waiting.remove(&key);
        if let Some(w) = &waiting {
            let end = (e.dev, w.end_sector, false);
            if self.ends.get(&end) == Some(&e.sector) {
                self.ends.remove(&end);
            }
        }
        let flight = Flight {
            issue_ns: e.at_ns,
            waiting,
            bytes: e.bytes,
            left: e.bytes,
            sector: e.sector,
            op: e.op,
            flags: e.flags,
            tgid: e.tgid,
            comm: e.comm,
        };
        let began = flight.waiting.is_some();
        if let Some(lost) = self.flights.insert(key, flight) {
            // The same sector was issued again without a completion: a requeue that the trace does not report, or a
            // lost event.
            if lost.waiting.is_some() && !began {
                if let Some(f) = self.flights.get_mut(&key) {
                    f.waiting = lost.waiting;
                }
            } else {
                self.issues.push(lost.issue_ns);
            }
        }
    }

    fn complete(&mut self, key: RequestKey, e: &Event) -> Option<Io> {
        let found = self.flights.remove(&key).map(|f| (key, f)).or_else(|| {
            // Flushes complete with other sectors and lengths than they were issued with.
            let other = (key.0, key.1, !key.2);
            self.flights.remove(&other).map(|f| (other, f))
        });
        let Some((_, mut flight)) = found else {
            return self.complete_bio(key, e);
        };
        if e.bytes > 0 && e.bytes < flight.left && e.error == 0 {
            flight.left -= e.bytes;
            let rest = (e.dev, end_sector(e), false);
            self.flights.insert(rest, flight);
            return None;
        }
        let w = flight.waiting.as_ref();
        if let (Some(bios), Some(w)) = (&mut self.bios, w) {
            bios.extend(w.way.bios(e.dev, flight.issue_ns, e.at_ns));
        }
        let queue_ns = w.map(|w| flight.issue_ns.saturating_sub(w.start_ns));
        let queue_ns = queue_ns.map(|ns| not_negative(ns, &mut self.negative));
        let device_ns = not_negative(e.at_ns.saturating_sub(flight.issue_ns), &mut self.negative);
        self.longest_ns = self.longest_ns.max(device_ns);
        let mut io = Io::new(
            e.at_ns,
            e.dev,
            flight.op,
            bytes(flight.bytes),
            queue_ns,
            device_ns,
        );
        io.sector = i64::try_from(flight.sector).ok();
        io.flags = Some(flight.flags | w.map_or(0, |w| w.flags));
        io.error = Some(e.error);
        io.merges = w.map(|w| w.merges);
        // The process that queued it, because the issuer may be a kernel worker.
        io.tgid = w.and_then(|w| w.tgid).or(flight.tgid);
        io.comm = w.and_then(|w| w.comm).or(flight.comm);
        Some(io)
    }

    /// Devices that only take bios have no issue: the time from queue to completion is device time.
    fn complete_bio(&mut self, key: RequestKey, e: &Event) -> Option<Io> {
        // A completed request no longer waits, whether its issue was seen or not.
        let w = self.waiting.remove(&key);
        let Some(w) = w.filter(|_| !self.request_devices.contains(&e.dev)) else {
            // A flush that the kernel made from a request is issued once and completes twice.
            if e.op != Op::FLUSH {
                self.completions.push(e.at_ns);
            }
            return None;
        };
        self.ends.remove(&(e.dev, w.end_sector, false));
        let device_ns = not_negative(e.at_ns.saturating_sub(w.start_ns), &mut self.negative);
        let mut io = Io::new(e.at_ns, e.dev, w.op, bytes(e.bytes), None, device_ns);
        io.sector = i64::try_from(e.sector).ok();
        io.flags = Some(w.flags);
        io.error = Some(e.error);
        io.tgid = w.tgid;
        io.comm = w.comm;
        Some(io)
    }
}

fn bytes(b: u64) -> i64 {
    i64::try_from(b).unwrap_or(i64::MAX)
}

/// `REQ_OP_DRV_IN`.
const DRIVER_IN: Op = Op(34);

/// Operation and flags of the letters that kernel and tools print (`blk_fill_rwbs`): `R`, `WS`, `FWFS`, `DE`, `RA`,
/// `N`. `N` is any other operation: with sectors (`has_data`) it writes zeroes, without it is a driver's pass-through.
pub fn rwbs(letters: &[u8], has_data: bool) -> (Op, i32) {
    let mut flags = 0;
    let rest = match letters {
        [b'F', rest @ ..] if !rest.is_empty() => {
            flags |= Io::FLAG_PREFLUSH;
            rest
        }
        all => all,
    };
    let (op, rest) = match rest {
        [b'R', rest @ ..] => (Op::READ, rest),
        [b'W', rest @ ..] => (Op::WRITE, rest),
        [b'D', b'E', rest @ ..] => (Op::SECURE_ERASE, rest),
        [b'D', rest @ ..] => (Op::DISCARD, rest),
        [b'F', rest @ ..] => (Op::FLUSH, rest),
        [b'N', rest @ ..] if has_data => (Op::WRITE_ZEROES, rest),
        [b'N', rest @ ..] => (DRIVER_IN, rest),
        other => (DRIVER_IN, other),
    };
    for b in rest {
        flags |= match b {
            b'F' => Io::FLAG_FUA,
            b'A' => Io::FLAG_RAHEAD,
            b'S' => Io::FLAG_SYNC,
            b'M' => Io::FLAG_META,
            // `U`, an atomic write, has no flag here.
            _ => 0,
        };
    }
    (op, flags)
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
