//! Throughput and submissions per device and direction in cells of 1 ms, and the process that moved most bytes (input
//! of A13).
//!
//! Bytes are spread over issue to completion (`spread.rs`); I/Os and their processes count at submission. Only cells
//! in which something changed are kept. When there are too many, all cells become ten times as wide: an hour or two
//! stay at 1 ms, days become 10 ms, months 100 ms. So memory stays bounded.
//!
//! `stream/kept_slots.rs` is not used here: it stores each slot with its number, which makes 40 bytes per cell instead
//! of 32, and there may be two million cells.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::least_rate::LeastRate;
use crate::analysis::stream::requests::grow_slowly;
pub use crate::analysis::stream::series::{Series, Slot};
use crate::analysis::stream::spread::{Edge, Flow, FlowLevel};
use crate::analysis::stream::window::Window;
use crate::model::{Class, Comm, DevId, Inode, Io, Origin};

/// Reads and writes, the classes that cells keep apart (`Class as usize`).
pub const CLASSES: [Class; 2] = [Class::Read, Class::Write];

/// The other one of [`CLASSES`].
pub(in crate::analysis) fn other(class: Class) -> Class {
    if class == Class::Read {
        Class::Write
    } else {
        Class::Read
    }
}

/// The process and file behind an I/O, as far as its source knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoActor {
    /// Process.
    pub tgid: Option<i32>,
    /// Its name. Untrusted.
    pub comm: Option<Comm>,
    /// How far the process can be trusted as the cause.
    pub origin: Origin,
    /// File.
    pub file: Option<Inode>,
}

impl IoActor {
    /// The actor behind `io`.
    pub fn of(io: &Io) -> IoActor {
        IoActor {
            tgid: io.tgid,
            comm: io.comm,
            origin: io.origin,
            file: io.inode(),
        }
    }

    /// Notes the file of another I/O of the same actor. If its I/Os use more than one file, no file is named.
    pub fn keep_file(&mut self, file: Option<Inode>) {
        self.file = self.file.filter(|f| Some(*f) == file);
    }

    /// Whether a process or a file is known, or at least that this is write-back or I/O for a device stacked on this one.
    pub(in crate::analysis) fn is_known(&self) -> bool {
        let is_behind = matches!(self.origin, Origin::Writeback | Origin::Above);
        self.comm.is_some() || self.tgid.is_some() || self.file.is_some() || is_behind
    }
}

/// Hasher for keys that are mixed already.
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

/// A 64-bit hash that stands for an actor. Collisions are so unlikely that they are not checked for.
#[inline]
fn mixed_bits(actor: &IoActor) -> u64 {
    let comm = actor.comm.map_or(0, Comm::to_bits);
    let (dev, ino) = actor.file.map_or((-1, -1), |f| (f.fs_dev, f.ino));
    let generation = actor
        .file
        .and_then(|f| f.generation)
        .map_or(u64::MAX, u64::from);
    let parts = [
        comm as u64,
        (comm >> 64) as u64,
        actor.tgid.map_or(u64::MAX, |t| t as u64),
        actor.origin as u64,
        dev as u64,
        ino as u64,
        generation,
    ];
    parts.iter().fold(0xcbf2_9ce4_8422_2325_u64, |bits, part| {
        (bits ^ part)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

/// Numbers of actors; 0 stands for all actors beyond [`ActorNumbers::MAX_ACTORS`].
#[derive(Debug)]
struct ActorNumbers {
    known: Vec<IoActor>,
    numbers: HashMap<u64, u16, BuildHasherDefault<Mixed>>,
    /// Cache of recently used actors, indexed by bits of their hash.
    near: [Option<(u64, u16)>; 1 << ActorNumbers::NEAR_BITS],
}

impl ActorNumbers {
    const MAX_ACTORS: usize = u16::MAX as usize;
    const NEAR_BITS: u32 = 8;

    fn number(&mut self, io: &Io) -> u16 {
        let actor = IoActor::of(io);
        let bits = mixed_bits(&actor);
        // The last multiplication mixes the highest bits best; the rotation has made them the lowest 29.
        let place = (bits >> (29 - Self::NEAR_BITS)) as usize % self.near.len();
        match self.near[place] {
            Some((known, n)) if known == bits => n,
            _ => {
                let n = self.look_up(actor, bits);
                self.near[place] = Some((bits, n));
                n
            }
        }
    }

    /// Out of line, so that a hit in the cache costs little more than the hash.
    #[inline(never)]
    fn look_up(&mut self, actor: IoActor, bits: u64) -> u16 {
        let room = self.known.len() < Self::MAX_ACTORS;
        let next = (self.known.len() as u16).wrapping_add(1);
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

    fn get(&self, n: u16) -> Option<IoActor> {
        self.known.get(usize::from(n.checked_sub(1)?)).copied()
    }
}

/// One cell of reads or of writes of one device.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    slot: u32,
    ios: u32,
    /// Throughput.
    edge: Edge,
    /// The actor with most bytes by majority vote (Boyer and Moore), and its lead in sectors.
    lead: u32,
    actor: u16,
    /// The highest lower bound of the throughput of a window that ends in this cell.
    peak: PeakRate,
}

impl Cell {
    /// Index of the slot of `per_slot` cells that contains this cell. The first `skipped` cells belong to no slot.
    fn place(&self, skipped: i64, per_slot: i64) -> usize {
        ((i64::from(self.slot) - skipped) / per_slot) as usize
    }
    fn vote(&mut self, actor: u16, weight: u32) {
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
        self.peak = self.peak.max(other.peak);
    }
}

/// A throughput in two bytes, which keeps a cell at 32 bytes: the base-2 logarithm of bytes per second in steps of
/// 1/1024, rounded down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PeakRate(u16);

impl PeakRate {
    const STEPS: f64 = 1024.0;

    fn new(bytes_per_s: f64) -> PeakRate {
        PeakRate((bytes_per_s.max(1.0).log2() * Self::STEPS) as u16)
    }

    fn bytes_per_s(self) -> f64 {
        match self.0 {
            0 => 0.0,
            steps => (f64::from(steps) / Self::STEPS).exp2(),
        }
    }
}

/// Reads or writes of one device or link.
#[derive(Debug, Default)]
struct CellStream {
    cells: Vec<Cell>,
    bytes: u64,
    least: Option<Box<LeastRate>>,
}

/// Whose cells: those of a device, or of all devices of a link, by its index in [`Cells::with_links`].
#[derive(Debug, Clone, Copy)]
pub(in crate::analysis) enum CellsOf {
    Device(DevId),
    Link(usize),
}

impl From<DevId> for CellsOf {
    fn from(dev: DevId) -> CellsOf {
        CellsOf::Device(dev)
    }
}

/// Accumulates cells of all devices. See the [module](self).
#[derive(Debug)]
pub struct Cells {
    window: Window,
    cell_ns: i64,
    most: usize,
    index: DeviceIndex,
    /// Reads and writes of each device.
    devices: Vec<[CellStream; 2]>,
    /// Members of each link, and the cells of all of them together.
    links: Vec<(Vec<DevId>, [CellStream; 2])>,
    total: usize,
    actors: ActorNumbers,
}

impl Cells {
    /// Number of cells (32 bytes each) at which all cells are made wider.
    pub const MAX_CELLS: usize = 2_000_000;

    /// The finest cell: 1 ms.
    pub const FINEST_NS: i64 = 1_000_000;

    /// Widest cell: 1000 s. Wider ones would be needed only for some ten thousand days or devices.
    const COARSEST_NS: i64 = 1_000_000_000_000;

    /// Cells for I/Os that complete inside `window`.
    pub fn new(window: Window) -> Cells {
        Cells::with_most(window, Self::MAX_CELLS)
    }

    /// Adds cells for each of `links`: the sum of its devices.
    #[must_use]
    pub fn with_links(mut self, links: impl Iterator<Item = Vec<DevId>>) -> Cells {
        self.links = links.map(|members| (members, Default::default())).collect();
        self
    }

    fn with_most(window: Window, most: usize) -> Cells {
        let actors = ActorNumbers {
            known: Vec::new(),
            numbers: HashMap::default(),
            near: [None; 1 << ActorNumbers::NEAR_BITS],
        };
        Cells {
            window,
            cell_ns: Self::FINEST_NS,
            most,
            index: DeviceIndex::default(),
            devices: Vec::new(),
            links: Vec::new(),
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
            self.devices.push(Default::default());
        }
        let actor = self.actors.number(io);
        while io.done_ns >= self.grid().to_ns() && self.cell_ns < Self::COARSEST_NS {
            self.grow();
        }
        let grid = self.grid();
        self.total += self.devices[i][class].push(grid, io, actor);
        for (members, streams) in &mut self.links {
            if members.contains(&io.dev) {
                self.total += streams[class].push(grid, io, actor);
            }
        }
        while self.total > self.most && self.cell_ns < Self::COARSEST_NS {
            self.grow();
        }
    }

    fn grid(&self) -> CellGrid {
        CellGrid {
            window: self.window,
            cell_ns: self.cell_ns,
        }
    }

    /// Bytes of all I/Os of `class`.
    pub(in crate::analysis) fn bytes(&self, of: impl Into<CellsOf>, class: Class) -> u64 {
        self.stream(of.into(), class).map_or(0, |s| s.bytes)
    }

    /// The number of the cell that contains `at_ns`.
    fn number(&self, at_ns: i64) -> i64 {
        self.grid().number(at_ns)
    }

    fn grow(&mut self) {
        let finer_ns = self.cell_ns;
        self.cell_ns *= 10;
        self.total = 0;
        let of_links = self.links.iter_mut().flat_map(|(_, streams)| streams);
        for stream in self.devices.iter_mut().flatten().chain(of_links) {
            stream.grow(finer_ns);
            self.total += stream.cells.len();
        }
    }

    /// The devices that have cells.
    pub fn devices(&self) -> &[DevId] {
        self.index.devices()
    }

    /// The reads or writes of a device or link. Discards and flushes have no cells.
    fn stream(&self, of: CellsOf, class: Class) -> Option<&CellStream> {
        let streams = match of {
            CellsOf::Device(dev) => &self.devices[self.index.get(dev)?],
            CellsOf::Link(number) => &self.links.get(number)?.1,
        };
        streams.get(class as usize)
    }

    fn cells(&self, of: CellsOf, class: Class) -> &[Cell] {
        self.stream(of, class).map_or(&[], |s| &s.cells)
    }

    /// Throughput over `window` in slots of `dt_ns` (a multiple of the cell width), or of one cell if that is wider.
    pub(in crate::analysis) fn series(
        &self,
        of: impl Into<CellsOf>,
        class: Class,
        dt_ns: i64,
        window: Window,
    ) -> Series {
        let of = of.into();
        let per_slot = (dt_ns.max(self.cell_ns) / self.cell_ns).max(1);
        let dt_ns = per_slot * self.cell_ns;
        let slots = (window.len_ns() as u64).div_ceil(dt_ns as u64) as usize;
        let skipped = (window.from_ns - self.window.from_ns).max(0) / self.cell_ns;
        let cells = self.cells(of, class);
        // The peak of the last completions is not in the cells yet.
        let pending = self
            .stream(of, class)
            .and_then(|s| s.least.as_deref()?.pending())
            .map(|(at_ns, rate)| (self.number(at_ns), rate));
        let later = cells.partition_point(|c| i64::from(c.slot) < skipped);
        let mut level = FlowLevel::default();
        let mut next = 0;
        let mut filled = Vec::new();
        cells[..later].iter().for_each(|c| level.start(c.edge));
        for own in
            cells[later..].chunk_by(|a, b| a.place(skipped, per_slot) == b.place(skipped, per_slot))
        {
            let at = own[0].place(skipped, per_slot);
            if at >= slots {
                break;
            }
            fill(&mut level, next..at, dt_ns, &mut filled);
            let mut sum = Edge::default();
            let mut ios = 0;
            let mut peak = 0.0f64;
            for cell in own {
                // Throughput that begins in the cell continues to the slot's end.
                let mut edge = cell.edge;
                let within = (i64::from(cell.slot) - skipped) % per_slot;
                edge.extend((per_slot - 1 - within) * self.cell_ns);
                sum.add(edge);
                ios += u64::from(cell.ios);
                peak = peak.max(cell.peak.bytes_per_s());
                if let Some((number, rate)) = pending
                    && number == i64::from(cell.slot)
                {
                    peak = peak.max(rate);
                }
            }
            filled.push(Slot::new(at, level.next(sum, dt_ns), ios, peak));
            next = at + 1;
        }
        fill(&mut level, next..slots, dt_ns, &mut filled);
        Series::new(window.from_ns, dt_ns, slots, filled.into_iter())
    }

    /// The process `tgid`, with the first name seen for it.
    pub fn process(&self, tgid: i32) -> IoActor {
        let named = self
            .actors
            .known
            .iter()
            .find(|a| a.tgid == Some(tgid) && a.comm.is_some());
        IoActor {
            tgid: Some(tgid),
            comm: named.and_then(|a| a.comm),
            origin: Origin::Direct,
            file: None,
        }
    }

    /// The actor with most bytes of `class` in the given intervals, by the majority of each cell.
    pub(in crate::analysis) fn main_actor(
        &self,
        of: impl Into<CellsOf>,
        class: Class,
        intervals: &[(i64, i64)],
    ) -> Option<IoActor> {
        let cells = self.cells(of.into(), class);
        let mut votes: HashMap<u16, u64> = HashMap::new();
        for (from_ns, to_ns) in intervals {
            let slot = (from_ns - self.window.from_ns)
                .max(0)
                .div_euclid(self.cell_ns);
            let first = cells.partition_point(|c| i64::from(c.slot) < slot);
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

/// Start and width of cells.
#[derive(Debug, Clone, Copy)]
struct CellGrid {
    window: Window,
    cell_ns: i64,
}

/// Fills the slots `places`, in which no I/O begins or ends, with the current throughput.
fn fill(level: &mut FlowLevel, places: Range<usize>, dt_ns: i64, filled: &mut Vec<Slot>) {
    if level.is_idle() {
        return;
    }
    for at in places {
        let bytes = level.next(Edge::default(), dt_ns);
        filled.push(Slot::new(at, bytes, 0, 0.0));
    }
}

impl CellGrid {
    fn number(self, at_ns: i64) -> i64 {
        (at_ns - self.window.from_ns).max(0) / self.cell_ns
    }

    fn end_ns(self, number: i64) -> i64 {
        self.window.from_ns + (number + 1) * self.cell_ns
    }

    /// Cells that start here or later have numbers beyond 32 bits.
    fn to_ns(self) -> i64 {
        let len_ns = self.cell_ns.saturating_mul(i64::from(u32::MAX));
        self.window.from_ns.saturating_add(len_ns)
    }
}

impl CellStream {
    /// Adds the next completed I/O; returns the number of new cells.
    fn push(&mut self, grid: CellGrid, io: &Io, actor: u16) -> usize {
        let before = self.cells.len();
        let bytes = io.bytes.max(0) as u64;
        self.bytes += bytes;
        let started = grid.number(io.start_ns());
        let mut place = self.place(started);
        let cell = &mut self.cells[place];
        cell.ios += 1;
        cell.vote(actor, (bytes / 512).clamp(1, u64::from(u32::MAX)) as u32);
        if let Some(flow) = Flow::of(io).within(grid.window) {
            let first = grid.number(flow.from_ns);
            if first != started {
                place = self.place(first);
            }
            self.cells[place].edge.add(flow.begin(grid.end_ns(first)));
            let last = grid.number(flow.to_ns);
            if last != first {
                place = self.place(last);
            }
            self.cells[place].edge.add(flow.end(grid.end_ns(last)));
        }
        let least = self.least.get_or_insert_with(|| Box::new(LeastRate::new()));
        if let Some((at_ns, rate)) = least.push(io.issue_ns(), io.done_ns, bytes) {
            let place = self.place(grid.number(at_ns));
            let peak = &mut self.cells[place].peak;
            *peak = PeakRate::new(rate).max(*peak);
        }
        self.cells.len() - before
    }

    /// Index of cell `number`, which is usually close to the last one. A missing cell is inserted.
    fn place(&mut self, number: i64) -> usize {
        let slot = number as u32;
        let cells = &self.cells;
        let mut after = cells.len();
        let near = after.saturating_sub(8);
        while after > near && cells[after - 1].slot > slot {
            after -= 1;
        }
        if after == near {
            after = cells[..after].partition_point(|c| c.slot <= slot);
        }
        if after > 0 && cells[after - 1].slot == slot {
            return after - 1;
        }
        self.insert(after, slot);
        after
    }

    fn insert(&mut self, place: usize, slot: u32) {
        grow_slowly(&mut self.cells);
        let new = Cell {
            slot,
            ..Cell::default()
        };
        self.cells.insert(place, new);
    }

    /// Joins ten cells of `finer_ns` into one.
    fn grow(&mut self, finer_ns: i64) {
        let mut joined: Vec<Cell> = Vec::new();
        for cell in &self.cells {
            let slot = cell.slot / 10;
            let place = i64::from(cell.slot % 10);
            if joined.last().is_none_or(|c| c.slot < slot) {
                joined.push(Cell {
                    slot,
                    ..Cell::default()
                });
            }
            // Throughput that begins in it continues to the new cell's end.
            let mut cell = *cell;
            cell.edge.extend((9 - place) * finer_ns);
            if let Some(last) = joined.last_mut() {
                last.add(&cell);
            }
        }
        joined.shrink_to_fit();
        self.cells = joined;
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
