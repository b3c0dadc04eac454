//! A13's ground: throughput and submissions in cells of a millisecond, per device, for reads and writes; and who moved most.
//!
//! Bytes are spread (`spread.rs`) over issue to completion; I/Os, and who is behind them, count when they were submitted.
//! Only cells in which something changed are kept. When they become too many, all cells grow tenfold: an hour or two
//! stay at 1 ms, days become 10 ms, months 100 ms, and memory stays bounded.
//!
//! `stream/kept_slots.rs` keeps touched slots, too, but beside their numbers: a cell would take 40 bytes instead of 32, of which
//! there may be two million.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::requests::grow_slowly;
pub use crate::analysis::stream::series::{Series, Slot};
use crate::analysis::stream::spread::{Edge, Flow, FlowLevel};
use crate::analysis::stream::window::Window;
use crate::model::{Class, Comm, DevId, Inode, Io, Origin};

/// Reads and writes, the classes that cells keep apart (`Class as usize`).
pub const CLASSES: [Class; 2] = [Class::Read, Class::Write];

/// Of [`CLASSES`] the other one.
pub(in crate::analysis) fn other(class: Class) -> Class {
    if class == Class::Read {
        Class::Write
    } else {
        Class::Read
    }
}

/// The actor behind an I/O, as far as its source could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor {
    /// Process.
    pub tgid: Option<i32>,
    /// Its name. Untrusted.
    pub comm: Option<Comm>,
    /// How far the process can be trusted as the cause.
    pub origin: Origin,
    /// File.
    pub file: Option<Inode>,
}

impl Actor {
    /// The actor behind `io`.
    pub fn of(io: &Io) -> Actor {
        Actor {
            tgid: io.tgid,
            comm: io.comm,
            origin: io.origin,
            file: io.inode(),
        }
    }

    /// Another I/O of the same actor is for `file`: of more than one file none is named.
    pub fn keep_file(&mut self, file: Option<Inode>) {
        self.file = self.file.filter(|f| Some(*f) == file);
    }

    /// Whether anything is known of it: a process, a file, or that it is unknown whose writes these are.
    pub(in crate::analysis) fn is_known(&self) -> bool {
        let is_behind = matches!(self.origin, Origin::Writeback | Origin::Above);
        self.comm.is_some() || self.tgid.is_some() || self.file.is_some() || is_behind
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
        bytes
            .iter()
            .for_each(|b| self.0 = self.0.rotate_left(8) ^ u64::from(*b));
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = bits;
    }
}

/// Actors by number; 0 is every actor after the first [`Actors::MAX_ACTORS`].
#[derive(Debug)]
struct Actors {
    known: Vec<Actor>,
    numbers: HashMap<u64, u32, BuildHasherDefault<Mixed>>,
    /// Those met last, by a cheap mixture of what differs between them most often.
    near: [Option<(Actor, u32)>; 1 << Actors::NEAR_BITS],
}

impl Actors {
    const MAX_ACTORS: usize = 1 << 16;
    const NEAR_BITS: u32 = 6;

    fn number(&mut self, io: &Io) -> u32 {
        let actor = Actor::of(io);
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
        let (dev, ino) = actor.file.map_or((-1, -1), |f| (f.fs_dev, f.ino));
        let generation = actor
            .file
            .and_then(|f| f.generation)
            .map_or(u64::MAX, u64::from);
        let tgid = actor.tgid.map_or(u64::MAX, |t| t as u64);
        for part in [
            front,
            back,
            tgid,
            actor.origin as u64,
            dev as u64,
            ino as u64,
            generation,
        ] {
            bits = (bits ^ part)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        }
        let room = self.known.len() < Self::MAX_ACTORS;
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

/// One cell of reads or of writes of one device.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    slot: u32,
    ios: u32,
    /// Throughput.
    edge: Edge,
    /// Who moved most bytes, by majority vote (Boyer and Moore), and by what lead in sectors.
    actor: u32,
    lead: u32,
}

impl Cell {
    fn vote(&mut self, actor: u32, weight: u32) {
        if self.actor == actor || self.lead == 0 {
            self.actor = actor;
            self.lead = self.lead.saturating_add(weight);
        } else if weight > self.lead {
            self.actor = actor;
            self.lead = weight - self.lead;
        } else {
            self.lead -= weight;
        }
    }

    fn add(&mut self, other: &Cell) {
        self.ios = self.ios.saturating_add(other.ios);
        self.edge.add(other.edge);
        self.vote(other.actor, other.lead);
    }
}

/// Accumulates cells of all devices. See the [module](self).
#[derive(Debug)]
pub struct Cells {
    window: Window,
    cell_ns: i64,
    most: usize,
    index: DeviceIndex,
    /// Of each device reads and writes.
    devices: Vec<[Vec<Cell>; 2]>,
    /// Bytes of reads and of writes, by device.
    bytes: Vec<[u64; 2]>,
    total: usize,
    actors: Actors,
}

impl Cells {
    /// So many cells are kept before they grow (32 bytes each).
    pub const MAX_CELLS: usize = 2_000_000;

    /// The finest cell: 1 ms.
    pub const FINEST_NS: i64 = 1_000_000;

    /// Coarser they never get, which some ten thousand days or devices would take.
    const COARSEST_NS: i64 = 1_000_000_000_000;

    /// For what completes inside `window`.
    pub fn new(window: Window) -> Cells {
        Cells::with_most(window, Self::MAX_CELLS)
    }

    fn with_most(window: Window, most: usize) -> Cells {
        let actors = Actors {
            known: Vec::new(),
            numbers: HashMap::default(),
            near: [None; 1 << Actors::NEAR_BITS],
        };
        let index = DeviceIndex::default();
        let cell_ns = Self::FINEST_NS;
        Cells {
            window,
            cell_ns,
            most,
            index,
            devices: Vec::new(),
            bytes: Vec::new(),
            total: 0,
            actors,
        }
    }

    /// Takes the next completed I/O; discards and flushes move no data and are left out.
    pub fn push(&mut self, io: &Io) {
        let class = io.class() as usize;
        if class > 1 || !self.window.contains(io.done_ns) {
            return;
        }
        let i = self.index.number(io.dev) as usize;
        if i == self.devices.len() {
            self.devices.push([Vec::new(), Vec::new()]);
            self.bytes.push([0; 2]);
        }
        let actor = self.actors.number(io);
        self.bytes[i][class] += io.bytes.max(0) as u64;
        let flow = Flow::of(io).within(self.window);
        while self.number(io.done_ns) >= i64::from(u32::MAX) && self.cell_ns < Self::COARSEST_NS {
            self.grow();
        }
        let cell = self.cell((i, class), self.number(io.start_ns()));
        cell.ios += 1;
        cell.vote(
            actor,
            (io.bytes.max(0) as u64 / 512).clamp(1, u64::from(u32::MAX)) as u32,
        );
        if let Some(flow) = flow {
            let [first, last] = [flow.from_ns, flow.to_ns].map(|ns| self.number(ns));
            let end_ns = |cell: i64| self.window.from_ns + (cell + 1) * self.cell_ns;
            let (begin, end) = (flow.begin(end_ns(first)), flow.end(end_ns(last)));
            self.cell((i, class), first).edge.add(begin);
            self.cell((i, class), last).edge.add(end);
        }
        while self.total > self.most && self.cell_ns < Self::COARSEST_NS {
            self.grow();
        }
    }

    /// Bytes of all I/Os of `class` on `dev`.
    pub fn bytes(&self, dev: DevId, class: Class) -> u64 {
        self.place(dev)
            .and_then(|i| self.bytes[i].get(class as usize))
            .copied()
            .unwrap_or(0)
    }

    /// Which cell holds `at_ns`.
    fn number(&self, at_ns: i64) -> i64 {
        (at_ns - self.window.from_ns).max(0) / self.cell_ns
    }

    /// Cell `number` of a class of device `i`, which is seldom far from its last one.
    fn cell(&mut self, (i, class): (usize, usize), number: i64) -> &mut Cell {
        let slot = number as u32;
        let cells = &mut self.devices[i][class];
        let later = cells
            .iter()
            .rev()
            .take(8)
            .take_while(|c| c.slot > slot)
            .count();
        let after = if later < 8 {
            cells.len() - later
        } else {
            cells.partition_point(|c| c.slot <= slot)
        };
        if after == 0 || cells[after - 1].slot < slot {
            grow_slowly(cells);
            cells.insert(
                after,
                Cell {
                    slot,
                    ..Cell::default()
                },
            );
            self.total += 1;
            return &mut cells[after];
        }
        &mut cells[after - 1]
    }

    fn grow(&mut self) {
        let finer_ns = self.cell_ns;
        self.cell_ns *= 10;
        self.total = 0;
        for cells in self.devices.iter_mut().flatten() {
            let mut joined: Vec<Cell> = Vec::new();
            for cell in cells.iter() {
                let (slot, place) = (cell.slot / 10, i64::from(cell.slot % 10));
                if joined.last().is_none_or(|c| c.slot < slot) {
                    joined.push(Cell {
                        slot,
                        ..Cell::default()
                    });
                }
                // What begins in it goes on to the new cell's end.
                let mut cell = *cell;
                cell.edge.extend((9 - place) * finer_ns);
                if let Some(last) = joined.last_mut() {
                    last.add(&cell);
                }
            }
            self.total += joined.len();
            joined.shrink_to_fit();
            *cells = joined;
        }
    }

    /// The devices that have cells.
    pub fn devices(&self) -> &[DevId] {
        self.index.devices()
    }

    fn place(&self, dev: DevId) -> Option<usize> {
        self.index.get(dev)
    }

    /// Discards and flushes have none.
    fn of(&self, dev: DevId, class: Class) -> &[Cell] {
        let own = self
            .place(dev)
            .and_then(|i| self.devices[i].get(class as usize));
        own.map_or(&[], Vec::as_slice)
    }

    /// `class` of `dev` in slots of at least `dt_ns` (a multiple of the cell) over `window`.
    pub fn series(&self, dev: DevId, class: Class, dt_ns: i64, window: Window) -> Series {
        let per_slot = (dt_ns.max(self.cell_ns) / self.cell_ns).max(1);
        let dt_ns = per_slot * self.cell_ns;
        let slots = (window.len_ns() as u64).div_ceil(dt_ns as u64) as usize;
        let skipped = (window.from_ns - self.window.from_ns).max(0) / self.cell_ns;
        let cells = self.of(dev, class);
        let later = cells.partition_point(|c| i64::from(c.slot) < skipped);
        let (mut level, mut next, mut filled) = (FlowLevel::default(), 0, Vec::new());
        cells[..later].iter().for_each(|c| level.start(c.edge));
        let place = |c: &Cell| ((i64::from(c.slot) - skipped) / per_slot) as usize;
        // What is in flight fills slots in which nothing begins or ends.
        let pass =
            |level: &mut FlowLevel, next: usize, to: usize, filled: &mut Vec<(usize, u64, u64)>| {
                if !level.is_idle() {
                    filled.extend((next..to).map(|at| (at, level.next(Edge::default(), dt_ns), 0)));
                }
            };
        for own in cells[later..]
            .chunk_by(|a, b| place(a) == place(b))
            .take_while(|own| place(&own[0]) < slots)
        {
            let at = place(&own[0]);
            pass(&mut level, next, at, &mut filled);
            let (mut sum, mut ios) = (Edge::default(), 0);
            for cell in own {
                // What begins in the cell goes on to the slot's end.
                let (mut edge, within) = (cell.edge, (i64::from(cell.slot) - skipped) % per_slot);
                edge.extend((per_slot - 1 - within) * self.cell_ns);
                sum.add(edge);
                ios += u64::from(cell.ios);
            }
            filled.push((at, level.next(sum, dt_ns), ios));
            next = at + 1;
        }
        pass(&mut level, next, slots, &mut filled);
        Series::new(window.from_ns, dt_ns, slots, filled.into_iter())
    }

    /// The process of this number, by the name that it was first met with.
    pub fn process(&self, tgid: i32) -> Actor {
        let named = self
            .actors
            .known
            .iter()
            .find(|a| a.tgid == Some(tgid) && a.comm.is_some());
        Actor {
            tgid: Some(tgid),
            comm: named.and_then(|a| a.comm),
            origin: Origin::Direct,
            file: None,
        }
    }

    /// Who moved most bytes of `class` on `dev` in the given intervals, by the majority of each cell.
    pub fn main_actor(&self, dev: DevId, class: Class, intervals: &[(i64, i64)]) -> Option<Actor> {
        let cells = self.of(dev, class);
        let mut votes: HashMap<u32, u64> = HashMap::new();
        for (from_ns, to_ns) in intervals {
            let slot = |ns: i64| (ns - self.window.from_ns).max(0).div_euclid(self.cell_ns);
            let first = cells.partition_point(|c| i64::from(c.slot) < slot(*from_ns));
            for cell in cells[first..]
                .iter()
                .take_while(|c| i64::from(c.slot) * self.cell_ns + self.window.from_ns < *to_ns)
            {
                *votes.entry(cell.actor).or_default() += u64::from(cell.lead);
            }
        }
        let (actor, lead) = votes
            .into_iter()
            .max_by_key(|(n, lead)| (*lead, std::cmp::Reverse(*n)))?;
        if lead > 0 {
            self.actors.get(actor)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;
    use proptest::prelude::*;

    const A: DevId = DevId(8 << 20);

    fn by(comm: &[u8], io: Io) -> Io {
        Io {
            comm: Some(Comm::new(comm)),
            tgid: Some(1),
            ..io
        }
    }

    #[test]
    fn the_actor_that_moved_most_is_named() {
        let mut cells = Cells::new(Window::OPEN);
        for i in 0..50 {
            let at = i * 200_000;
            cells.push(&by(b"dd", Io::new(at, A, Op::WRITE, 1 << 20, None, 1)));
            cells.push(&by(b"editor", Io::new(at, A, Op::WRITE, 4096, None, 1)));
            cells.push(&by(b"reader", Io::new(at, A, Op::READ, 4096, None, 1)));
        }
        let name = |class| {
            cells
                .main_actor(A, class, &[(0, 5_000_000)])
                .and_then(|a| a.comm)
        };
        assert_eq!(
            (name(Class::Write), name(Class::Read)),
            (Some(Comm::new(b"dd")), Some(Comm::new(b"reader")))
        );
        assert_eq!(
            cells.main_actor(A, Class::Write, &[(20_000_000, 30_000_000)]),
            None
        );
    }

    #[test]
    fn a_batch_of_completions_is_no_rate() {
        // 512 writes of 256 KiB wait 48 ms in the device and complete in one interrupt; a reader is not disturbed.
        let mut cells = Cells::new(Window::OPEN);
        (0..512).for_each(|_| {
            cells.push(&Io::new(
                148_000_000,
                A,
                Op::WRITE,
                256 << 10,
                Some(0),
                48_000_000,
            ))
        });
        let writes = cells.series(
            A,
            Class::Write,
            Cells::FINEST_NS,
            Window::new(0, 200_000_000),
        );
        let peak = writes.filled().iter().map(|s| s.bytes).max().unwrap_or(0) as f64 * 1e3;
        assert!(
            (peak / (f64::from(512 * (256 << 10)) / 0.048) - 1.0).abs() < 0.001,
            "{peak} B/s"
        );
        assert_eq!(
            (writes.sum(0, 200), writes.range(100, 101)[0].ios),
            (512 * (256 << 10), 512)
        );
        // A later window begins where half is done.
        let later = cells.series(
            A,
            Class::Write,
            2_000_000,
            Window::new(124_000_000, 200_000_000),
        );
        assert!(
            later.sum(0, later.slots()).abs_diff(256 * (256 << 10)) < 20_000,
            "{later:?}"
        );
    }

    proptest! {
        #[test]
        fn growing_cells_lose_no_byte(at in prop::collection::vec((0i64..3_000_000_000, 0i64..5000, any::<bool>()), 1..300), most in 3usize..50) {
            let mut at = at;
            at.sort_unstable();
            let mut cells = Cells::with_most(Window::OPEN, most);
            for (t, bytes, write) in &at {
                cells.push(&Io::new(*t, A, if *write { Op::WRITE } else { Op::READ }, *bytes, None, 0));
            }
            let window = Window::new(0, 3_000_000_000);
            let fine = cells.series(A, Class::Write, 1_000_000, window);
            let coarse = cells.series(A, Class::Write, 1_000_000_000, window);
            prop_assert_eq!(fine.dt_ns, cells.cell_ns);
            prop_assert_eq!(coarse.dt_ns, cells.cell_ns.max(1_000_000_000));
            prop_assert!(cells.total <= most);
            prop_assert_eq!(fine.sum(0, fine.slots()), coarse.sum(0, coarse.slots()));
            for second in 0..coarse.slots() {
                let (bytes, ios) = coarse.range(second, second + 1).first().map_or((0, 0), |s| (s.bytes, s.ios));
                let mine: Vec<i64> = at.iter().filter(|(t, _, w)| *w && t / coarse.dt_ns == second as i64).map(|x| x.1).collect();
                prop_assert_eq!((bytes as i64, ios as usize), (mine.iter().sum(), mine.len()));
            }
        }
    }
}
