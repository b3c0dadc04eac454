//! Puts the stages of an I/O together: queue, merge, issue, complete, found by device and sector.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use iolens_core::model::{BioStages, Comm, DevId, Io, Op};

/// A stage of an I/O, as a trace line or record tells it.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// When, in nanoseconds.
    pub at_ns: i64,
    /// Where.
    pub dev: DevId,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Length.
    pub bytes: u64,
    /// What it does.
    pub op: Op,
    /// `cmd_flags >> 8` as far as the source tells.
    pub flags: i32,
    /// Who was running: the submitter in early stages, anyone at completion.
    pub tgid: Option<i32>,
    /// Its name.
    pub comm: Option<Comm>,
    /// Errno with which it failed, positive.
    pub error: i32,
}

/// Which stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A bio arrives (Q).
    Queue,
    /// A request starts to be accounted (G, `block_io_start`).
    Start,
    /// The bio was appended to a request that ends where it begins (M).
    BackMerge,
    /// The bio was put in front of a request that begins where it ends (F).
    FrontMerge,
    /// The request was handed to the scheduler (I).
    Insert,
    /// The request went to the driver (D); the last one counts.
    Issue,
    /// The driver gave it back (R).
    Requeue,
    /// Done (C), perhaps in part.
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

/// When a request's own bio was queued, when the request was allocated and inserted; and the bios merged into it, as
/// instants of queueing (if seen) and merging.
#[derive(Debug, Clone, Default)]
struct Way {
    queue_ns: Option<i64>,
    get_ns: Option<i64>,
    insert_ns: Option<i64>,
    merged: Vec<(Option<i64>, i64)>,
}

impl Way {
    /// A bio, or what one has become, is merged into this at `at_ns`.
    fn merge(&mut self, other: Option<Waiting>, at_ns: i64) {
        let Some(w) = other else { return self.merged.push((None, at_ns)) };
        self.merged.push((w.way.queue_ns, at_ns));
        self.merged.extend(w.way.merged);
    }

    /// The rows of all its bios.
    fn bios(&self, dev: DevId, issue_ns: i64, done_ns: i64) -> impl Iterator<Item = BioStages> {
        let between = |from: Option<i64>, to: Option<i64>| Some(to?.saturating_sub(from?)).filter(|ns| *ns >= 0);
        let (issued, done) = (Some(issue_ns), Some(done_ns));
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
            q2g_ns: between(self.queue_ns, self.get_ns),
            g2i_ns: between(self.get_ns, self.insert_ns),
            i2d_ns: between(self.insert_ns, issued),
            q2c_ns: between(self.queue_ns, done),
            ..row
        };
        let merged = self.merged.iter().map(move |(queue_ns, at_ns)| BioStages {
            q2m_ns: between(*queue_ns, Some(*at_ns)),
            m2d_ns: between(Some(*at_ns), issued),
            q2c_ns: between(*queue_ns, done),
            ..row
        });
        std::iter::once(own).chain(merged)
    }
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

type Key = (DevId, u64, bool);
type Map<V> = HashMap<Key, V, BuildHasherDefault<SectorHasher>>;

/// Multiplies and folds: sectors are not chosen by an enemy with anything to gain, and this map is the hot spot.
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

/// Pairs stages in the order of time.
#[derive(Debug, Default)]
pub struct Pairing {
    waiting: Map<Waiting>,
    /// Where a waiting request ends -> where it begins: back merges look for it.
    ends: Map<u64>,
    flights: Map<Flight>,
    /// Devices that have issued requests; on others (dm, md) a bio goes from queue to completion.
    request_devices: Vec<DevId>,
    /// Requests of which only one end was seen.
    pub censored: u64,
    /// The ways of bios through the block layer, if the source tells them.
    pub bios: Option<Vec<BioStages>>,
}

fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

impl Pairing {
    /// One that keeps the ways of bios too.
    pub fn with_bios() -> Pairing {
        Pairing { bios: Some(Vec::new()), ..Pairing::default() }
    }

    /// Takes the next stage in; a finished I/O comes out of a completion.
    pub fn push(&mut self, stage: Stage, e: &Event) -> Option<Io> {
        // A flush and the first sector's I/O may be in flight together.
        let key = (e.dev, e.sector, e.bytes == 0);
        match stage {
            Stage::Queue => self.wait(key, e, true),
            Stage::Start => self.wait(key, e, false),
            Stage::BackMerge => self.back_merge(e),
            Stage::FrontMerge => self.front_merge(key, e),
            Stage::Insert => {
                if let Some(w) = self.waiting.get_mut(&key) {
                    w.way.insert_ns = Some(e.at_ns);
                }
            }
            Stage::Issue => self.issue(key, e),
            Stage::Requeue => {
                if let Some(w) = self.flights.remove(&key).and_then(|f| f.waiting) {
                    self.waiting.insert(key, w);
                }
            }
            Stage::Complete => return self.complete(key, e),
        }
        None
    }

    /// Declares that no more stages come; what is open is censored.
    pub fn finish(&mut self) {
        self.censored += self.flights.len() as u64;
        self.flights.clear();
    }

    fn wait(&mut self, key: Key, e: &Event, queued: bool) {
        let end_sector = e.sector.saturating_add(sectors(e.bytes));
        let old = self.waiting.get(&key);
        // The start of accounting is later and nearer to what the kernel's statistics count than the bio's arrival; a
        // second bio for a sector that waits already does not displace the first.
        if let (Some(w), true) = (old, queued)
            && w.end_sector == end_sector
        {
            return;
        }
        let (merges, mut way) = self.waiting.remove(&key).map_or((0, Way::default()), |w| (w.merges, w.way));
        *if queued { &mut way.queue_ns } else { &mut way.get_ns } = Some(e.at_ns);
        let (tgid, comm, flags, op) = (e.tgid, e.comm, e.flags, e.op);
        self.waiting.insert(key, Waiting { start_ns: e.at_ns, way, end_sector, tgid, comm, flags, op, merges });
        self.ends.insert((e.dev, end_sector, false), e.sector);
    }

    fn back_merge(&mut self, e: &Event) {
        // The bio's own queue event is not a request.
        let bio = self.waiting.remove(&(e.dev, e.sector, e.bytes == 0));
        let Some(start) = self.ends.remove(&(e.dev, e.sector, false)) else { return };
        if let Some(w) = self.waiting.get_mut(&(e.dev, start, false)) {
            w.end_sector = e.sector.saturating_add(sectors(e.bytes));
            w.merges = w.merges.saturating_add(1);
            if self.bios.is_some() {
                w.way.merge(bio, e.at_ns);
            }
            self.ends.insert((e.dev, w.end_sector, false), start);
        }
    }

    fn front_merge(&mut self, key: Key, e: &Event) {
        let bio = self.waiting.remove(&key);
        let behind = e.sector.saturating_add(sectors(e.bytes));
        if let Some(mut w) = self.waiting.remove(&(e.dev, behind, false)) {
            w.merges = w.merges.saturating_add(1);
            if self.bios.is_some() {
                w.way.merge(bio, e.at_ns);
            }
            self.ends.insert((e.dev, w.end_sector, false), e.sector);
            self.waiting.insert(key, w);
        }
    }

    fn issue(&mut self, key: Key, e: &Event) {
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
            // The same sector issued again without a completion: a requeue the trace does not name, or a lost event.
            if lost.waiting.is_some() && !began {
                if let Some(f) = self.flights.get_mut(&key) {
                    f.waiting = lost.waiting;
                }
            } else {
                self.censored += 1;
            }
        }
    }

    fn complete(&mut self, key: Key, e: &Event) -> Option<Io> {
        let found = self.flights.remove(&key).map(|f| (key, f)).or_else(|| {
            // Flushes complete with other sectors and lengths than they were issued with.
            let other = (key.0, key.1, !key.2);
            self.flights.remove(&other).map(|f| (other, f))
        });
        let Some((_, mut flight)) = found else { return self.complete_bio(key, e) };
        if e.bytes > 0 && e.bytes < flight.left && e.error == 0 {
            flight.left -= e.bytes;
            let rest = (e.dev, e.sector.saturating_add(sectors(e.bytes)), false);
            self.flights.insert(rest, flight);
            return None;
        }
        let w = flight.waiting.as_ref();
        if let (Some(bios), Some(w)) = (&mut self.bios, w) {
            bios.extend(w.way.bios(e.dev, flight.issue_ns, e.at_ns));
        }
        let queue_ns = w.map(|w| flight.issue_ns.saturating_sub(w.start_ns).max(0));
        let device_ns = e.at_ns.saturating_sub(flight.issue_ns).max(0);
        let mut io = Io::new(e.at_ns, e.dev, flight.op, bytes(flight.bytes), queue_ns, device_ns);
        io.sector = i64::try_from(flight.sector).ok();
        io.flags = Some(flight.flags | w.map_or(0, |w| w.flags));
        io.error = Some(e.error);
        io.merges = w.map(|w| w.merges);
        // Whoever queued it; the issuer may be a kernel worker.
        io.tgid = w.and_then(|w| w.tgid).or(flight.tgid);
        io.comm = w.and_then(|w| w.comm).or(flight.comm);
        Some(io)
    }

    /// On devices that take bios only there is no issue: queue to completion is device time.
    fn complete_bio(&mut self, key: Key, e: &Event) -> Option<Io> {
        let is_bio_device = !self.request_devices.contains(&e.dev);
        let w = if is_bio_device { self.waiting.remove(&key) } else { None };
        let Some(w) = w else {
            self.censored += 1;
            return None;
        };
        self.ends.remove(&(e.dev, w.end_sector, false));
        let mut io = Io::new(e.at_ns, e.dev, w.op, bytes(e.bytes), None, e.at_ns.saturating_sub(w.start_ns).max(0));
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

/// Operation and flags of the letters that kernel and tools print (`blk_fill_rwbs`): `R`, `WS`, `FWFS`, `DE`, `RA`, `N`.
pub fn rwbs(letters: &[u8]) -> (Op, i32) {
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
        // `N` is anything else, passed through by a driver: DRV_IN (34) as the kernel numbers it.
        [b'N', rest @ ..] => (Op(34), rest),
        other => (Op(34), other),
    };
    for b in rest {
        flags |= match b {
            b'F' => Io::FLAG_FUA,
            b'A' => Io::FLAG_RAHEAD,
            b'S' => Io::FLAG_SYNC,
            b'M' => Io::FLAG_META,
            _ => 0,
        };
    }
    (op, flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(at_ns: i64, sector: u64, bytes: u64) -> Event {
        Event { at_ns, dev: DevId(1), sector, bytes, op: Op::WRITE, flags: 0, tgid: Some(7), comm: None, error: 0 }
    }

    fn run(stages: &[(Stage, Event)]) -> (Vec<Io>, u64) {
        let mut p = Pairing::default();
        let ios = stages.iter().filter_map(|(s, e)| p.push(*s, e)).collect();
        p.finish();
        (ios, p.censored)
    }

    #[test]
    fn queue_start_issue_complete() {
        use Stage::*;
        let (ios, censored) = run(&[
            (Queue, event(1, 8, 4096)),
            (Start, event(3, 8, 4096)),
            (Issue, event(10, 8, 4096)),
            (Complete, event(30, 8, 4096)),
        ]);
        assert_eq!((ios[0].queue_ns, ios[0].device_ns, ios[0].bytes, censored), (Some(7), 20, 4096, 0));
        assert_eq!(ios[0].start_ns(), 3, "accounting starts at G, not at Q");
    }

    #[test]
    fn merges_in_front_and_behind_keep_the_first_start() {
        use Stage::*;
        let (ios, _) = run(&[
            (Start, event(1, 16, 4096)),
            (Queue, event(2, 24, 4096)),
            (BackMerge, event(2, 24, 4096)),
            (Queue, event(3, 8, 4096)),
            (FrontMerge, event(3, 8, 4096)),
            (Issue, event(10, 8, 12288)),
            (Complete, event(30, 8, 12288)),
        ]);
        assert_eq!((ios.len(), ios[0].bytes, ios[0].queue_ns, ios[0].merges), (1, 12288, Some(9), Some(2)));
    }

    #[test]
    fn bios_tell_their_ways() {
        use Stage::*;
        let mut p = Pairing::with_bios();
        for (stage, e) in [
            (Queue, event(1, 16, 4096)),
            (Start, event(3, 16, 4096)),
            (Queue, event(4, 24, 4096)),
            (BackMerge, event(5, 24, 4096)),
            (Queue, event(6, 8, 4096)),
            (FrontMerge, event(8, 8, 4096)),
            (Insert, event(12, 8, 12288)),
            (Issue, event(20, 8, 12288)),
            (Complete, event(50, 8, 12288)),
        ] {
            p.push(stage, &e);
        }
        let ways: Vec<_> = p
            .bios
            .expect("asked for")
            .iter()
            .map(|b| (b.q2g_ns, b.g2i_ns, b.q2m_ns, b.i2d_ns, b.m2d_ns, b.q2c_ns))
            .collect();
        let merged = |q2m, m2d, q2c| (None, None, Some(q2m), None, Some(m2d), Some(q2c));
        assert_eq!(ways, [(Some(2), Some(9), None, Some(8), None, Some(49)), merged(1, 15, 46), merged(2, 12, 44)]);
    }

    #[test]
    fn partial_completions_end_at_the_last_one() {
        use Stage::*;
        let (ios, censored) = run(&[
            (Start, event(1, 0, 8192)),
            (Issue, event(2, 0, 8192)),
            (Complete, event(5, 0, 4096)),
            (Complete, event(9, 8, 4096)),
        ]);
        assert_eq!((ios.len(), ios[0].done_ns, ios[0].bytes, censored), (1, 9, 8192, 0));
    }

    #[test]
    fn only_one_end_is_censored() {
        use Stage::*;
        let (ios, censored) =
            run(&[(Issue, event(1, 0, 512)), (Complete, event(2, 64, 512)), (Issue, event(3, 8, 512))]);
        assert_eq!((ios.len(), censored), (0, 3));
    }

    #[test]
    fn a_device_of_bios_has_no_queue_time() {
        let (ios, _) = run(&[(Stage::Queue, event(1, 8, 512)), (Stage::Complete, event(5, 8, 512))]);
        assert_eq!((ios[0].queue_ns, ios[0].device_ns), (None, 4));
    }

    #[test]
    fn letters_of_the_kernel() {
        assert_eq!(rwbs(b"R"), (Op::READ, 0));
        assert_eq!(rwbs(b"FWFSM"), (Op::WRITE, Io::FLAG_PREFLUSH | Io::FLAG_FUA | Io::FLAG_SYNC | Io::FLAG_META));
        assert_eq!(rwbs(b"F"), (Op::FLUSH, 0));
        assert_eq!(rwbs(b"FF"), (Op::FLUSH, Io::FLAG_PREFLUSH));
        assert_eq!(rwbs(b"RA"), (Op::READ, Io::FLAG_RAHEAD));
        assert_eq!(rwbs(b""), (Op(34), 0));
    }

    proptest! {
        #[test]
        fn any_order_of_stages_conserves_ios(
            stages in proptest::collection::vec((0usize..8, 0u64..6, 0u64..3, any::<i64>()), 0..200),
        ) {
            use Stage::*;
            const ALL: [Stage; 8] = [Queue, Start, BackMerge, FrontMerge, Insert, Issue, Requeue, Complete];
            let mut p = Pairing::with_bios();
            let (mut completions, mut out) = (0, 0);
            for (s, sector, blocks, at) in stages {
                completions += usize::from(ALL[s] == Complete);
                out += usize::from(p.push(ALL[s], &event(at, sector * 8, blocks * 4096)).is_some());
            }
            p.finish();
            prop_assert!(out <= completions);
        }
    }
}
