//! Finds the process behind I/O that kernel worker threads submit to a device under dm, md or a loop device over a
//! file.
//!
//! `dmcrypt_write`, `md1_raid1` or a `kworker` submit the I/O that processes requested from the device above. A
//! worker's I/O on the lower device is matched with the I/Os on the upper one that were in flight at the same time and
//! map to its sectors (`offset.rs`), or have its size as long as the mapping is not known. If all of these belong to
//! one process, that process is named; if they belong to several, or if one may be missing from the recording, none is.
//! A worker's I/O without a match (a superblock, a resynchronisation) stays the worker's. Matched I/Os have
//! [`Origin::Above`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::analysis::stacks::offset::Placement;
use crate::analysis::stream::losses::Losses;
use crate::model::{Below, Class, Comm, DevId, Device, Io, KernelThread, Lost, Origin};

/// I/Os are held back while those above may still complete; no more than these, and no longer than this beyond their own
/// completion. After that only a place names a process.
const MAX_HELD: usize = 1 << 18;
const HOLD_NS: i64 = 2_000_000_000;

/// An I/O above that completed so long after one below may have been it.
const LATER_NS: i64 = 1_000_000_000;

/// A device and one under it. Numbers of devices that went are given to others.
#[derive(Debug)]
struct Pair {
    added_ns: i64,
    placement: Placement,
    /// To write, an array with parity also reads.
    reads_to_write: bool,
    /// The upper one is a file on the lower one.
    is_loop: bool,
}

#[derive(Debug)]
struct Held {
    io: Io,
    /// Waits for what is above.
    waits: bool,
    is_sampled: bool,
}

/// What is above an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    /// Nothing: it is the worker's own.
    None,
    /// Too much.
    Ambiguous,
    /// This one of those held; whether all others that it may be are of the same file.
    Of(usize, bool),
}

/// Finds the processes behind I/O of workers. See the [module](self).
#[derive(Debug)]
pub struct StackJoin {
    /// By the lower and the upper device, in the order in which they were added.
    pairs: BTreeMap<(DevId, DevId), Vec<Pair>>,
    lowers: BTreeSet<DevId>,
    uppers: BTreeSet<DevId>,
    losses: Losses,
    held: VecDeque<Held>,
    /// Taken since those held were looked at.
    unseen: usize,
    sampled: u64,
}

/// Whether a thread of the kernel submitted an I/O on behalf of others.
pub fn is_by_worker(io: &Io) -> bool {
    let thread = io.comm.and_then(|comm| comm.kernel_thread());
    thread.is_some_and(KernelThread::submits_for_others)
}

/// Which of the pairs of two numbers it was when `upper` began.
fn in_use(all: &[Pair], upper: &Io) -> usize {
    all.partition_point(|p| p.added_ns <= upper.start_ns())
        .saturating_sub(1)
}

fn asks_for_flush(io: &Io) -> bool {
    io.flags
        .is_none_or(|f| f & (Io::FLAG_PREFLUSH | Io::FLAG_FUA) != 0)
}

/// The number of a process, or its name where that is not known.
fn process(io: &Io) -> (Option<i32>, Option<Comm>) {
    (io.tgid, io.comm.filter(|_| io.tgid.is_none()))
}

fn is_layer(device: &Device) -> bool {
    let named = ["dm-", "md", "loop"];
    device.raid.is_some() || named.iter().any(|name| device.name.starts_with(name))
}

impl StackJoin {
    /// For a recording of `devices`, of which `lost` is missing; `None` if none of them lies on another.
    pub fn new<'a>(
        devices: &[Device],
        lost: impl IntoIterator<Item = &'a Lost>,
    ) -> Option<StackJoin> {
        let below = Below::new(devices);
        let mut pairs: BTreeMap<(DevId, DevId), Vec<Pair>> = BTreeMap::new();
        for upper in devices.iter().filter(|d| is_layer(d)) {
            let reads_to_write = upper.raid.as_ref().is_some_and(|r| r.has_parity());
            let added_ns = upper.added_ns.unwrap_or(i64::MIN);
            for lower in below.of(upper) {
                let pair = Pair {
                    added_ns,
                    placement: Placement::under(upper),
                    reads_to_write,
                    is_loop: upper.name.starts_with("loop"),
                };
                pairs.entry((lower.id, upper.id)).or_default().push(pair);
            }
        }
        pairs
            .values_mut()
            .for_each(|own| own.sort_by_key(|p| p.added_ns));
        if pairs.is_empty() {
            return None;
        }
        let lowers = pairs.keys().map(|k| k.0).collect();
        let uppers = pairs.keys().map(|k| k.1).collect();
        let mut losses = Losses::default();
        lost.into_iter().for_each(|l| losses.push(l));
        Some(StackJoin {
            pairs,
            lowers,
            uppers,
            losses,
            held: VecDeque::new(),
            unseen: 0,
            sampled: 0,
        })
    }

    /// Takes the next I/Os in the order of completion, of which none after them began before `later_start_ns`. Gives
    /// those that are decided, in the same order, and what none after these began before.
    pub fn push(&mut self, ios: Vec<Io>, later_start_ns: i64) -> (Vec<Io>, i64) {
        self.unseen += ios.len();
        self.held.reserve(ios.len());
        for io in ios {
            let is_on_behalf = is_by_worker(&io) && io.origin != Origin::Writeback;
            self.held.push_back(Held {
                waits: is_on_behalf && self.lowers.contains(&io.dev),
                is_sampled: false,
                io,
            });
        }
        // Looking at all of them each time would cost more the longer they are held.
        let is_due = 4 * self.unseen >= self.held.len() || later_start_ns == i64::MAX;
        if is_due && self.held.iter().any(|h| h.waits) {
            self.unseen = 0;
            let late_ns = self
                .held
                .back()
                .map_or(0, |h| h.io.done_ns.saturating_sub(HOLD_NS));
            let late = self.held.partition_point(|h| h.io.done_ns < late_ns);
            let forced = late.max(self.held.len().saturating_sub(MAX_HELD));
            self.sweep(later_start_ns, forced, Self::sample);
            self.pairs
                .values_mut()
                .flatten()
                .for_each(|pair| pair.placement.learn());
            self.sweep(later_start_ns, forced, |join, at, above| {
                let known = join.held[at].io.issue_ns() < later_start_ns;
                join.apply(at, join.find(at, above, known));
            });
        }
        // Order is kept: one that waits holds back all that completed after it.
        let decided = self
            .held
            .iter()
            .position(|h| h.waits)
            .unwrap_or(self.held.len());
        let out = self.held.drain(..decided).map(|h| h.io).collect();
        let held_ns = self.held.iter().map(|h| h.io.start_ns()).min();
        (
            out,
            held_ns.map_or(later_start_ns, |ns| ns.min(later_start_ns)),
        )
    }

    /// Calls `act` with each I/O that waits and was at its device before `known_ns`, or is among the first `forced`, the
    /// last one first, and with those above that it may belong to.
    fn sweep(
        &mut self,
        known_ns: i64,
        forced: usize,
        mut act: impl FnMut(&mut Self, usize, &[usize]),
    ) {
        let mut open = Vec::new();
        let mut left = 0;
        let mut above = Vec::new();
        for at in (0..self.held.len()).rev() {
            let io = &self.held[at].io;
            if self.held[at].waits && (io.issue_ns() < known_ns || at < forced) {
                above.clear();
                above.extend(
                    open.iter()
                        .copied()
                        .filter(|u| self.may_belong(&self.held[*u].io, io)),
                );
                act(self, at, &above);
            }
            let io = &self.held[at].io;
            if self.uppers.contains(&io.dev) {
                if open.len() > 2 * left + 64 {
                    open.retain(|u: &usize| self.held[*u].io.start_ns() <= io.done_ns);
                    left = open.len();
                }
                open.push(at);
            }
        }
    }

    /// The devices of two I/Os, as they lay on each other then.
    fn pair(&self, upper: &Io, lower: &Io) -> Option<&Pair> {
        let all = self.pairs.get(&(lower.dev, upper.dev))?;
        all.get(in_use(all, upper))
    }

    /// `upper` completes later.
    fn may_belong(&self, upper: &Io, lower: &Io) -> bool {
        let Some(pair) = self.pair(upper, lower) else {
            return false;
        };
        let own = lower.class();
        let class = upper.class();
        let is_alike =
            class == own || (pair.reads_to_write && class == Class::Write && own == Class::Read);
        // The start of a request may be that of the first of its batch.
        let is_open = upper.start_ns() <= lower.issue_ns();
        // Below a loop device the file is its own, whatever file is read above.
        let is_file_alike = match lower.inode() {
            Some(file) if !pair.is_loop => upper.inode() == Some(file),
            _ => true,
        };
        is_alike && is_open && is_file_alike
    }

    fn sample(&mut self, at: usize, above: &[usize]) {
        if std::mem::replace(&mut self.held[at].is_sampled, true) {
            return;
        }
        self.sampled += 1;
        let lower = &self.held[at].io;
        for upper in above.iter().map(|u| &self.held[*u].io) {
            let Some(all) = self.pairs.get_mut(&(lower.dev, upper.dev)) else {
                continue;
            };
            let now = in_use(all, upper);
            all[now].placement.sample(self.sampled, upper, lower);
        }
    }

    /// `is_known`: `above` are all there can be.
    fn find(&self, at: usize, above: &[usize], is_known: bool) -> Match {
        let lower = &self.held[at].io;
        // A flush has no place: what sent it can only be one that asked for a flush.
        if lower.bytes == 0 {
            if !is_known {
                return Match::Ambiguous;
            }
            return self.one_of(above.iter().filter(|u| asks_for_flush(&self.held[**u].io)));
        }
        let placed = self.one_of(above.iter().filter(|u| {
            let upper = &self.held[**u].io;
            self.pair(upper, lower)
                .is_some_and(|pair| pair.placement.meets(upper, lower))
        }));
        if placed != Match::None {
            return placed;
        }
        if !is_known {
            return Match::Ambiguous;
        }
        // None lies where it must; the one it belongs to may be missing, or its device's offset may not be known yet.
        let mut own = self.pairs_above(lower.dev);
        let to_ns = lower.done_ns.saturating_add(LATER_NS);
        if own.any(|(upper, _)| self.losses.overlap(upper, lower.issue_ns(), to_ns)) {
            return Match::Ambiguous;
        }
        // A file has many places: where one is known, others may not be.
        let loose: Vec<usize> = above
            .iter()
            .copied()
            .filter(|u| {
                self.pair(&self.held[*u].io, lower)
                    .is_some_and(|pair| pair.is_loop || !pair.placement.is_known())
            })
            .collect();
        // Without a place, the size must say that it is the same request.
        let mut sized = loose
            .iter()
            .filter(|u| self.held[**u].io.bytes == lower.bytes)
            .peekable();
        let has_its_size = sized.peek().is_some();
        // Past the page cache a loop device hands on each request as it is.
        let is_handed_on =
            lower.origin == Origin::Direct && loose.iter().all(|u| self.is_of_loop(*u, lower));
        match self.one_of(loose.iter()) {
            Match::Of(..) | Match::Ambiguous if !has_its_size => Match::Ambiguous,
            Match::Ambiguous if is_handed_on => self.one_of(sized),
            found => found,
        }
    }

    /// One I/O of those, if they are all of one process.
    fn one_of<'a>(&self, mut all: impl Iterator<Item = &'a usize>) -> Match {
        let Some(first) = all.next() else {
            return Match::None;
        };
        let first_io = &self.held[*first].io;
        let mut is_one = true;
        let mut is_one_file = true;
        for u in all {
            let io = &self.held[*u].io;
            is_one &= process(io) == process(first_io);
            is_one_file &= io.inode() == first_io.inode();
        }
        if is_one {
            Match::Of(*first, is_one_file)
        } else {
            Match::Ambiguous
        }
    }

    fn is_of_loop(&self, upper: usize, lower: &Io) -> bool {
        let pair = self.pair(&self.held[upper].io, lower);
        pair.is_some_and(|pair| pair.is_loop)
    }

    /// Whether files on `dev` are all that devices above it are made of.
    fn is_below_loops_only(&self, dev: DevId) -> bool {
        let mut pairs = self.pairs_above(dev).flat_map(|(_, pairs)| pairs);
        pairs.all(|pair| pair.is_loop)
    }

    /// The devices above `dev`, each with the pairs that the two were.
    fn pairs_above(&self, dev: DevId) -> impl Iterator<Item = (DevId, &[Pair])> {
        let above = (dev, DevId(i32::MIN))..=(dev, DevId(i32::MAX));
        let pairs = self.pairs.range(above);
        pairs.map(|((_, upper), pairs)| (*upper, &pairs[..]))
    }

    fn apply(&mut self, at: usize, found: Match) {
        let (upper, is_one_file) = match found {
            Match::Of(u, is_one_file) => (Some(self.held[u].io), is_one_file),
            Match::Ambiguous | Match::None => (None, false),
        };
        let dev = self.held[at].io.dev;
        // What a loop device's worker reads has at least the name of the file; readahead of it belongs to no I/O above.
        let is_own = found == Match::Ambiguous && self.is_below_loops_only(dev);
        let held = &mut self.held[at];
        held.waits = false;
        if is_own || found == Match::None {
            return;
        }
        let io = &mut held.io;
        let file = upper.filter(|_| is_one_file && io.ino.is_none());
        io.tgid = upper.and_then(|u| u.tgid);
        io.comm = upper.and_then(|u| u.comm);
        io.cgroup = upper.and_then(|u| u.cgroup);
        io.origin = Origin::Above;
        if let Some(u) = file {
            io.ino = u.ino;
            io.generation = u.generation;
            io.fs_dev = u.fs_dev;
        }
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
