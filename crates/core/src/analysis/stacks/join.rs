//! Finds the process behind I/O that kernel worker threads submit to a device under dm, md, or a loop device on a file.
//!
//! Threads such as `dmcrypt_write`, `md1_raid1` or a `kworker` submit I/O that processes requested from the device
//! above. A worker's I/O on the lower device is matched with I/Os on the upper device that were in flight at the same
//! time. They must map to the same sectors (`offset.rs`), or have the same size while that mapping is not known. If all
//! candidates belong to one process, the I/O is attributed to it. If they belong to several, or one may be missing from
//! the recording, the I/O gets no process. A worker's I/O without a candidate (a superblock, a resynchronisation) keeps
//! the worker as its process. Matched I/Os have [`Origin::Above`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::analysis::stacks::offset::Placement;
use crate::analysis::stream::losses::Losses;
use crate::model::{Below, Class, Comm, DevId, Device, Io, KernelThread, Lost, Origin};

/// Limits of the buffer of I/Os that wait for I/Os above to complete: their number, and the time beyond their own
/// completion. Beyond these limits only a match by sectors attributes an I/O.
const MAX_HELD: usize = 1 << 18;
const HOLD_NS: i64 = 2_000_000_000;

/// Time after the completion of a lower I/O within which a missing I/O above may have been its origin.
const LATER_NS: i64 = 1_000_000_000;

/// A pair of stacked devices, valid from `added_ns`, because device numbers are reused.
#[derive(Debug)]
struct Pair {
    added_ns: i64,
    placement: Placement,
    /// Whether writes on the upper device cause reads on the lower one, as in arrays with parity.
    reads_to_write: bool,
    /// Whether the upper device is a loop device on a file of the lower one.
    is_loop: bool,
}

#[derive(Debug)]
struct Held {
    io: Io,
    /// Whether the I/O waits for its match.
    waits: bool,
    is_sampled: bool,
}

/// Result of matching an I/O with those above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    /// No match: the I/O is the worker's own.
    None,
    /// Several matches, or possibly a missing one.
    Ambiguous,
    /// Index of the matching I/O in the buffer, and whether all candidates belong to the same file.
    Of(usize, bool),
}

/// Finds the processes behind I/O of workers. See the [module](self).
#[derive(Debug)]
pub struct StackJoin {
    /// Pairs by lower and upper device number, in the order in which they were added.
    pairs: BTreeMap<(DevId, DevId), Vec<Pair>>,
    lowers: BTreeSet<DevId>,
    uppers: BTreeSet<DevId>,
    losses: Losses,
    held: VecDeque<Held>,
    /// Number of I/Os added since the last sweep.
    unseen: usize,
    sampled: u64,
}

/// Whether a thread of the kernel submitted an I/O on behalf of others.
pub fn is_by_worker(io: &Io) -> bool {
    let thread = io.comm.and_then(|comm| comm.kernel_thread());
    thread.is_some_and(KernelThread::submits_for_others)
}

/// Index of the pair of two device numbers that was valid when `upper` started.
fn in_use(all: &[Pair], upper: &Io) -> usize {
    all.partition_point(|p| p.added_ns <= upper.start_ns())
        .saturating_sub(1)
}

fn asks_for_flush(io: &Io) -> bool {
    io.flags
        .is_none_or(|f| f & (Io::FLAG_PREFLUSH | Io::FLAG_FUA) != 0)
}

/// The process id, or the name if the id is not known.
fn process(io: &Io) -> (Option<i32>, Option<Comm>) {
    (io.tgid, io.comm.filter(|_| io.tgid.is_none()))
}

fn is_layer(device: &Device) -> bool {
    let named = ["dm-", "md", "loop"];
    device.raid.is_some() || named.iter().any(|name| device.name.starts_with(name))
}

impl StackJoin {
    /// Creates a join for a recording of `devices` with the losses `lost`; `None` if no device is stacked on another.
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

    /// Takes the next I/Os in the order of completion. No I/O after them starts before `later_start_ns`. Returns the
    /// I/Os that are decided, in the same order, and a lower bound of the start of all I/Os still to be returned.
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
        // Sweep only when at least a quarter of the buffered I/Os are new. Sweeping on every call would cost more the
        // longer they are held.
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
        // Order is kept: an undecided I/O holds back all that completed after it.
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

    /// Calls `act` for each undecided I/O that was issued before `known_ns` or is among the first `forced`, from the
    /// last to the first, with the I/Os above that are its candidates.
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

    /// The pair of the two I/Os' devices that was valid at the time.
    fn pair(&self, upper: &Io, lower: &Io) -> Option<&Pair> {
        let all = self.pairs.get(&(lower.dev, upper.dev))?;
        all.get(in_use(all, upper))
    }

    /// Whether `upper`, which completes later, may be the origin of `lower`.
    fn may_belong(&self, upper: &Io, lower: &Io) -> bool {
        let Some(pair) = self.pair(upper, lower) else {
            return false;
        };
        let own = lower.class();
        let class = upper.class();
        let is_alike =
            class == own || (pair.reads_to_write && class == Class::Write && own == Class::Read);
        // The start of a request may be that of the first request of its batch.
        let is_open = upper.start_ns() <= lower.issue_ns();
        // Below a loop device, the lower I/O's file is the loop device's backing file, whatever file is read above.
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

    /// Finds the match of I/O `at` among the candidates `above`. `is_known`: no candidate is still to come.
    fn find(&self, at: usize, above: &[usize], is_known: bool) -> Match {
        let lower = &self.held[at].io;
        // A flush has no sectors; only an I/O that requires a flush can have caused it.
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
        // No candidate has the right sectors. The origin may be missing from the recording, or the offset may not be
        // known yet.
        let mut own = self.pairs_above(lower.dev);
        let to_ns = lower.done_ns.saturating_add(LATER_NS);
        if own.any(|(upper, _)| self.losses.overlap(upper, lower.issue_ns(), to_ns)) {
            return Match::Ambiguous;
        }
        // The offset does not decide for loop devices, because a file has many extents, nor where it is not known.
        let loose: Vec<usize> = above
            .iter()
            .copied()
            .filter(|u| {
                self.pair(&self.held[*u].io, lower)
                    .is_some_and(|pair| pair.is_loop || !pair.placement.is_known())
            })
            .collect();
        // Without known sectors, the size must show that it is the same request.
        let mut sized = loose
            .iter()
            .filter(|u| self.held[**u].io.bytes == lower.bytes)
            .peekable();
        let has_its_size = sized.peek().is_some();
        // A loop device with direct I/O passes on each request unchanged.
        let is_handed_on =
            lower.origin == Origin::Direct && loose.iter().all(|u| self.is_of_loop(*u, lower));
        match self.one_of(loose.iter()) {
            Match::Of(..) | Match::Ambiguous if !has_its_size => Match::Ambiguous,
            Match::Ambiguous if is_handed_on => self.one_of(sized),
            found => found,
        }
    }

    /// A match with the first of these I/Os, if all belong to one process.
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

    /// Whether all devices above `dev` are loop devices.
    fn is_below_loops_only(&self, dev: DevId) -> bool {
        let mut pairs = self.pairs_above(dev).flat_map(|(_, pairs)| pairs);
        pairs.all(|pair| pair.is_loop)
    }

    /// The devices above `dev`, each with its pairs over time.
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
        // An ambiguous I/O of a loop device's worker keeps the worker: it has at least the file's name, and read-ahead
        // of the backing file belongs to no I/O above.
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
