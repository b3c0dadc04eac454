//! A13's ground: bytes and I/Os in cells of a millisecond, per device, for reads and writes; and who moved most of them.
//!
//! Only cells in which something completed are kept. When they become too many, all cells grow tenfold: an hour or two
//! stay at 1 ms, days become 10 ms, months 100 ms, and memory stays bounded.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::device_index::DeviceIndex;
use super::last_slot::LastSlot;
use super::window::Window;
use crate::model::{Class, Comm, DevId, Io, Origin};

/// Reads and writes, the classes that cells keep apart (`Class as usize`).
pub const CLASSES: [Class; 2] = [Class::Read, Class::Write];

/// Of [`CLASSES`] the other one.
pub(super) fn other(class: Class) -> Class {
    if class == Class::Read { Class::Write } else { Class::Read }
}

/// Whoever is behind an I/O, as far as its source could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor {
    /// Process.
    pub tgid: Option<i32>,
    /// Its name. Untrusted.
    pub comm: Option<Comm>,
    /// How far the process can be trusted as the cause.
    pub origin: Origin,
    /// File: (device of its file system, inode number).
    pub file: Option<(i32, i64)>,
}

impl Actor {
    /// In words, e.g. `fio (process 12)` or `buffered writes of dd (process 12), inode 12 on 8:1`.
    pub fn describe(&self) -> Option<String> {
        let file = self.file.map(|(dev, ino)| format!("inode {ino} on {}", DevId(dev)));
        let who = match (self.comm, self.tgid) {
            (Some(comm), Some(tgid)) => format!("{} (process {tgid})", comm.to_text()),
            (Some(comm), None) => comm.to_text().into_owned(),
            (None, Some(tgid)) => format!("process {tgid}"),
            (None, None) if self.origin == Origin::Writeback => "an unknown process".to_owned(),
            (None, None) => return file,
        };
        let file = file.map_or_else(String::new, |f| format!(", {f}"));
        Some(match self.origin {
            Origin::Writeback => format!("buffered writes of {who}{file}"),
            Origin::Metadata => format!("file-system metadata by {who}"),
            Origin::Direct | Origin::Unknown => format!("{who}{file}"),
        })
    }
}

/// The hash of what is mixed already.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.0 = self.0.rotate_left(8) ^ u64::from(*b));
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = bits;
    }
}

/// Actors by number; 0 is whoever comes after the first [`Actors::MOST`].
#[derive(Debug)]
struct Actors {
    known: Vec<Actor>,
    numbers: HashMap<u64, u32, BuildHasherDefault<Mixed>>,
    /// Those met last, by a cheap mixture of what tells them apart most often.
    near: [Option<(Actor, u32)>; 1 << Actors::NEAR_BITS],
}

impl Actors {
    const MOST: usize = 1 << 16;
    const NEAR_BITS: u32 = 6;

    fn number(&mut self, io: &Io) -> u32 {
        let actor = Actor { tgid: io.tgid, comm: io.comm, origin: io.origin, file: io.fs_dev.zip(io.ino) };
        let mixed = io.ino.unwrap_or(0) as u64 ^ (io.tgid.unwrap_or(0) as u64).rotate_left(32);
        let near = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::NEAR_BITS)) as usize;
        match &self.near[near] {
            Some((known, n)) if *known == actor => *n,
            _ => {
                let n = self.look_up(actor);
                self.near[near] = Some((actor, n));
                n
            }
        }
    }

    fn look_up(&mut self, actor: Actor) -> u32 {
        // Inodes differ for each file, names and numbers seldom clash in 64 mixed bits.
        let mut bits = 0xcbf2_9ce4_8422_2325_u64;
        let comm = actor.comm.map_or(0, Comm::to_bits);
        let (front, back) = (comm as u64, (comm >> 64) as u64);
        let (dev, ino) = actor.file.unwrap_or((-1, -1));
        for part in
            [front, back, actor.tgid.map_or(u64::MAX, |t| t as u64), actor.origin as u64, dev as u64, ino as u64]
        {
            bits = (bits ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        let room = self.known.len() < Self::MOST;
        let next = self.known.len() as u32 + 1;
        match self.numbers.get(&bits) {
            Some(n) => *n,
            None if room => {
                self.known.push(actor);
                self.numbers.insert(bits, next);
                next
            }
            None => 0,
        }
    }

    fn get(&self, n: u32) -> Option<Actor> {
        self.known.get(n.checked_sub(1)? as usize).copied()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    slot: u32,
    ios: [u32; 2],
    bytes: [u64; 2],
    /// Who moved most bytes, by majority vote (Boyer and Moore), and by what lead in sectors.
    actor: [u32; 2],
    lead: [u32; 2],
}

impl Cell {
    fn vote(&mut self, class: usize, actor: u32, weight: u32) {
        if self.actor[class] == actor || self.lead[class] == 0 {
            self.actor[class] = actor;
            self.lead[class] = self.lead[class].saturating_add(weight);
        } else if weight > self.lead[class] {
            self.actor[class] = actor;
            self.lead[class] = weight - self.lead[class];
        } else {
            self.lead[class] -= weight;
        }
    }

    fn add(&mut self, other: &Cell) {
        for c in 0..2 {
            self.ios[c] = self.ios[c].saturating_add(other.ios[c]);
            self.bytes[c] += other.bytes[c];
            self.vote(c, other.actor[c], other.lead[c]);
        }
    }
}

/// Sums over requests that tell how much their sizes differ.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sizes {
    bytes: f64,
    squares: f64,
}

impl Sizes {
    /// Takes a request.
    pub fn add(&mut self, bytes: f64) {
        self.bytes += bytes;
        self.squares += bytes * bytes;
    }

    /// Of a series of which sums alone are known: all requests of a slot are taken to be alike, and no larger than 1 MiB.
    pub fn of_averages(series: &Series) -> Sizes {
        let mut sizes = Sizes::default();
        for (bytes, ios) in series.bytes.iter().zip(&series.ios).map(|(b, n)| (*b as f64, *n as f64)) {
            sizes.bytes += bytes;
            sizes.squares += bytes * (bytes / ios.max(1.0)).min(1_048_576.0);
        }
        sizes
    }

    /// Of two streams together.
    pub fn merge(&mut self, other: Sizes) {
        self.bytes += other.bytes;
        self.squares += other.squares;
    }

    /// The size of the request in which a byte drawn at random lies: what the requests are like that move most.
    pub fn typical_bytes(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.squares / self.bytes)
    }
}

/// A dense series of slots of one class of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Beginning of the first slot, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Width of a slot.
    pub dt_ns: i64,
    /// Bytes completed in each slot.
    pub bytes: Vec<u64>,
    /// I/Os completed in each slot.
    pub ios: Vec<u64>,
}

impl Series {
    /// Beginning of slot `i`.
    pub fn at_ns(&self, i: usize) -> i64 {
        self.from_ns + i as i64 * self.dt_ns
    }

    /// Bytes per second in slot `i`.
    pub fn rate(&self, i: usize) -> f64 {
        self.bytes[i] as f64 * 1e9 / self.dt_ns as f64
    }

    /// The same in slots `times` as wide (exact: sums); a last part that fills no slot is kept as a short one.
    pub fn coarser(&self, times: usize) -> Series {
        let sums = |v: &[u64]| v.chunks(times.max(1)).map(|c| c.iter().sum()).collect();
        Series {
            from_ns: self.from_ns,
            dt_ns: self.dt_ns * times.max(1) as i64,
            bytes: sums(&self.bytes),
            ios: sums(&self.ios),
        }
    }
}

/// Accumulates cells of all devices. See the [module](self).
#[derive(Debug)]
pub struct Cells {
    window: Window,
    cell_ns: i64,
    last: LastSlot,
    most: usize,
    index: DeviceIndex,
    devices: Vec<Vec<Cell>>,
    /// Sums of bytes and of their squares, of reads and of writes, by device.
    sizes: Vec<[Sizes; 2]>,
    total: usize,
    actors: Actors,
}

impl Cells {
    /// So many cells are kept before they grow (44 bytes each).
    pub const MOST: usize = 3_000_000;

    /// The finest cell: 1 ms.
    pub const FINEST_NS: i64 = 1_000_000;

    /// Coarser they never get, which some ten thousand days or devices would take.
    const COARSEST_NS: i64 = 1_000_000_000_000;

    /// For what completes inside `window`.
    pub fn new(window: Window) -> Cells {
        Cells::with_most(window, Self::MOST)
    }

    fn with_most(window: Window, most: usize) -> Cells {
        let actors = Actors { known: Vec::new(), numbers: HashMap::default(), near: [None; 1 << Actors::NEAR_BITS] };
        let index = DeviceIndex::default();
        let (cell_ns, last) = (Self::FINEST_NS, LastSlot::new());
        Cells { window, cell_ns, last, most, index, devices: Vec::new(), sizes: Vec::new(), total: 0, actors }
    }

    /// Takes the next completed I/O; discards and flushes move no data and are left out.
    pub fn push(&mut self, io: &Io) {
        let class = io.class() as usize;
        if class > 1 || !self.window.contains(io.done_ns) {
            return;
        }
        let i = self.index.number(io.dev) as usize;
        if i == self.devices.len() {
            self.devices.push(Vec::new());
            self.sizes.push(Default::default());
        }
        let slot = self.last.index(io.done_ns, self.window.from_ns, self.cell_ns) as u32;
        let actor = self.actors.number(io);
        self.sizes[i][class].add(io.bytes.max(0) as f64);
        let cells = &mut self.devices[i];
        if cells.last().is_none_or(|c| c.slot < slot) {
            cells.push(Cell { slot, ..Cell::default() });
            self.total += 1;
        }
        // A completion out of order is booked where the stream is.
        if let Some(cell) = cells.last_mut() {
            let bytes = io.bytes.max(0) as u64;
            cell.ios[class] += 1;
            cell.bytes[class] += bytes;
            cell.vote(class, actor, (bytes / 512).clamp(1, u64::from(u32::MAX)) as u32);
        }
        while self.total > self.most && self.cell_ns < Self::COARSEST_NS {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.cell_ns *= 10;
        self.last = LastSlot::new();
        self.total = 0;
        for cells in &mut self.devices {
            let mut kept = 0;
            for i in 0..cells.len() {
                let cell = Cell { slot: cells[i].slot / 10, ..cells[i] };
                if kept > 0 && cells[kept - 1].slot == cell.slot {
                    cells[kept - 1].add(&cell);
                } else {
                    cells[kept] = cell;
                    kept += 1;
                }
            }
            cells.truncate(kept);
            self.total += kept;
        }
    }

    /// Width of a cell now.
    pub fn cell_ns(&self) -> i64 {
        self.cell_ns
    }

    /// The devices that have cells.
    pub fn devices(&self) -> &[DevId] {
        self.index.devices()
    }

    /// The sizes of all requests of `class` on `dev`.
    pub fn sizes(&self, dev: DevId, class: Class) -> Sizes {
        self.place(dev).and_then(|i| self.sizes[i].get(class as usize)).copied().unwrap_or_default()
    }

    fn place(&self, dev: DevId) -> Option<usize> {
        self.index.devices().iter().position(|d| *d == dev)
    }

    fn of(&self, dev: DevId) -> &[Cell] {
        self.place(dev).map_or(&[], |i| &self.devices[i])
    }

    /// `class` of `dev` in slots of at least `dt_ns` (a multiple of the cell) over `window`.
    pub fn series(&self, dev: DevId, class: Class, dt_ns: i64, window: Window) -> Series {
        let per_slot = (dt_ns.max(self.cell_ns) / self.cell_ns).max(1);
        let dt_ns = per_slot * self.cell_ns;
        let slots = (window.len_ns() as u64).div_ceil(dt_ns as u64) as usize;
        let mut series = Series { from_ns: window.from_ns, dt_ns, bytes: vec![0; slots], ios: vec![0; slots] };
        let class = class as usize;
        let skipped = (window.from_ns - self.window.from_ns).max(0) / self.cell_ns;
        for cell in self.of(dev) {
            let slot = (i64::from(cell.slot) - skipped) / per_slot;
            if class < 2 && i64::from(cell.slot) >= skipped && (slot as usize) < slots {
                series.bytes[slot as usize] += cell.bytes[class];
                series.ios[slot as usize] += u64::from(cell.ios[class]);
            }
        }
        series
    }

    /// Who moved most bytes of `class` on `dev` in the given intervals, by the majority of each cell.
    pub fn main_actor(&self, dev: DevId, class: Class, intervals: &[(i64, i64)]) -> Option<Actor> {
        let cells = self.of(dev);
        let class = class as usize;
        let mut votes: HashMap<u32, u64> = HashMap::new();
        for (from_ns, to_ns) in intervals {
            let slot = |ns: i64| (ns - self.window.from_ns).max(0).div_euclid(self.cell_ns);
            let first = cells.partition_point(|c| i64::from(c.slot) < slot(*from_ns));
            for cell in
                cells[first..].iter().take_while(|c| i64::from(c.slot) * self.cell_ns + self.window.from_ns < *to_ns)
            {
                *votes.entry(cell.actor[class]).or_default() += cell.bytes[class];
            }
        }
        let (actor, bytes) = votes.into_iter().max_by_key(|(n, bytes)| (*bytes, std::cmp::Reverse(*n)))?;
        if bytes > 0 { self.actors.get(actor) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;
    use proptest::prelude::*;

    const A: DevId = DevId(8 << 20);

    fn by(comm: &[u8], io: Io) -> Io {
        Io { comm: Some(Comm::new(comm)), tgid: Some(1), ..io }
    }

    #[test]
    fn buffered_writes_are_told_from_others() {
        let dd = Actor {
            tgid: Some(12),
            comm: Some(Comm::new(b"dd")),
            origin: Origin::Writeback,
            file: Some((8 << 20 | 1, 34)),
        };
        let nobody = Actor { tgid: None, comm: None, ..dd };
        let words = |a: Actor| a.describe();
        assert_eq!(words(dd).as_deref(), Some("buffered writes of dd (process 12), inode 34 on 8:1"));
        assert_eq!(words(nobody).as_deref(), Some("buffered writes of an unknown process, inode 34 on 8:1"));
        let direct = Actor { origin: Origin::Direct, ..nobody };
        assert_eq!(words(direct).as_deref(), Some("inode 34 on 8:1"));
        assert_eq!(words(Actor { file: None, ..direct }), None);
    }

    #[test]
    fn whoever_moved_most_is_named() {
        let mut cells = Cells::new(Window::OPEN);
        for i in 0..50 {
            let at = i * 200_000;
            cells.push(&by(b"dd", Io::new(at, A, Op::WRITE, 1 << 20, None, 1)));
            cells.push(&by(b"editor", Io::new(at, A, Op::WRITE, 4096, None, 1)));
            cells.push(&by(b"reader", Io::new(at, A, Op::READ, 4096, None, 1)));
        }
        let name = |class| cells.main_actor(A, class, &[(0, 5_000_000)]).and_then(|a| a.describe());
        assert_eq!(
            (name(Class::Write), name(Class::Read)),
            (Some("dd (process 1)".into()), Some("reader (process 1)".into()))
        );
        assert_eq!(cells.main_actor(A, Class::Write, &[(20_000_000, 30_000_000)]), None);
    }

    proptest! {
        #[test]
        fn growing_cells_lose_no_byte(at in prop::collection::vec((0i64..3_000_000_000, 0i64..5000, any::<bool>()), 1..300), most in 3usize..50) {
            let mut at = at;
            at.sort_unstable();
            let mut cells = Cells::with_most(Window::OPEN, most);
            for (t, bytes, write) in &at {
                cells.push(&Io::new(*t, A, if *write { Op::WRITE } else { Op::READ }, *bytes, None, 1));
            }
            let window = Window::new(0, 3_000_000_000);
            let fine = cells.series(A, Class::Write, 1_000_000, window);
            let coarse = cells.series(A, Class::Write, 1_000_000_000, window);
            prop_assert_eq!(fine.dt_ns, cells.cell_ns());
            prop_assert_eq!(coarse.dt_ns, cells.cell_ns().max(1_000_000_000));
            prop_assert!(cells.total <= most);
            for (second, (bytes, ios)) in coarse.bytes.iter().zip(&coarse.ios).enumerate() {
                let mine: Vec<i64> = at.iter().filter(|(t, _, w)| *w && t / coarse.dt_ns == second as i64).map(|x| x.1).collect();
                prop_assert_eq!((*bytes as i64, *ios as usize), (mine.iter().sum(), mine.len()));
            }
        }
    }
}
