//! What waiting did to the I/Os that a program waits for: by victim and by program that it waited behind.
//!
//! The table of waits counts every I/O. Here only those count for which a program can be waiting: no write-back that
//! no program asked for, no discards. Per pair of victim and culprit there are the time lost, the latencies with the culprit
//! at work, and the stretches of time in which it happened. Memory is bounded per pair, and pairs are bounded.

use super::stretches::Stretches;
use super::{Program, Worst};
use crate::model::Class;

/// Pairs of victim and culprit of which latencies and stretches are kept; of further ones only the sums are.
const MAX_DETAILED: usize = 512;

/// Latencies in buckets of a sixteenth of an octave: a quantile is off by at most 3 %.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LatencyCounts {
    first: usize,
    counts: Vec<u32>,
}

/// Buckets to an octave.
const PER_OCTAVE: usize = 16;

impl LatencyCounts {
    fn bucket(ns: i64) -> usize {
        let value = ns.max(PER_OCTAVE as i64) as u64;
        let octave = value.ilog2() as usize;
        let within = (value >> (octave - 4)) as usize - PER_OCTAVE;
        (octave - 4) * PER_OCTAVE + within
    }

    /// The middle of a bucket.
    fn value(bucket: usize) -> i64 {
        let octave = bucket / PER_OCTAVE + 4;
        let within = (bucket % PER_OCTAVE + PER_OCTAVE) as i64;
        let width = 1i64 << (octave - 4);
        within * width + width / 2
    }

    fn add_to(&mut self, bucket: usize, n: u32) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let place = bucket - self.first;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(n);
    }

    fn merge(&mut self, other: &LatencyCounts) {
        for (i, n) in other.counts.iter().enumerate() {
            if *n > 0 {
                self.add_to(other.first + i, *n);
            }
        }
    }

    /// Those of `self` that are not in `part`.
    #[must_use]
    pub fn without(&self, part: &LatencyCounts) -> LatencyCounts {
        let mut rest = self.clone();
        for (i, n) in part.counts.iter().enumerate() {
            let place = (part.first + i).checked_sub(rest.first);
            if let Some(count) = place.and_then(|place| rest.counts.get_mut(place)) {
                *count = count.saturating_sub(*n);
            }
        }
        rest
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many.
    pub fn n(&self) -> u64 {
        self.counts.iter().map(|n| u64::from(*n)).sum()
    }

    /// The quantile by nearest rank, within 3 %; `None` of nothing.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let rank = ((q * self.n() as f64).ceil() as u64).max(1);
        let mut passed = 0;
        for (i, n) in self.counts.iter().enumerate() {
            passed += u64::from(*n);
            if passed >= rank {
                return Some(Self::value(self.first + i));
            }
        }
        None
    }
}

/// What one victim lost behind one program.
#[derive(Debug, Clone, Default)]
pub(super) struct PairSums {
    pub actor: u32,
    pub ns: i64,
    pub ios: u64,
    /// I/Os that took more than twice their undisturbed latency because of it.
    pub delayed_ios: u64,
    /// Behind the victim's own I/Os, of those that waited behind this program too.
    pub own_ns: i64,
    pub worst: Worst,
    /// By the number of the group.
    pub by_group: Vec<(u32, i64)>,
    pub details: Option<Box<PairDetails>>,
    /// The number of the victim's I/O that was counted last.
    last_io: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct PairDetails {
    pub latencies: LatencyCounts,
    pub stretches: Stretches,
}

/// Sums over the I/Os that one program waits for, of one class.
#[derive(Debug, Clone, Default)]
pub(super) struct EffectSums {
    pub ios: u64,
    pub delayed_ios: u64,
    pub io_time_ns: i64,
    pub undisturbed_ns: i64,
    pub held_ns: i64,
    pub device_ns: i64,
    pub unknown_ns: i64,
    /// Behind its own I/Os of this class, by whether another program was worked on meanwhile.
    pub own_ns: i64,
    pub own_alone_ns: i64,
    pub from_ns: i64,
    pub to_ns: i64,
    pub worst: Worst,
    pub longest_ns: i64,
    pub latencies: LatencyCounts,
    pub pairs: Vec<PairSums>,
}

/// One I/O that a program waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Felt {
    pub start_ns: i64,
    pub done_ns: i64,
    pub undisturbed_ns: i64,
    pub held_ns: i64,
    pub device_ns: i64,
    pub unknown_ns: i64,
}

/// Pairs that still may get details.
#[derive(Debug)]
pub(super) struct DetailsLeft(usize);

impl Default for DetailsLeft {
    fn default() -> DetailsLeft {
        DetailsLeft(MAX_DETAILED)
    }
}

impl EffectSums {
    /// Counts an I/O of this victim. Then [`EffectSums::behind`] for all that it waited behind, then [`EffectSums::close`].
    pub fn count(&mut self, felt: &Felt) {
        let latency_ns = felt.done_ns - felt.start_ns;
        let excess_ns = latency_ns - felt.undisturbed_ns;
        if self.ios == 0 {
            self.from_ns = felt.start_ns;
        }
        self.ios += 1;
        self.from_ns = self.from_ns.min(felt.start_ns);
        self.to_ns = self.to_ns.max(felt.done_ns);
        self.io_time_ns += latency_ns;
        self.undisturbed_ns += felt.undisturbed_ns;
        self.held_ns += felt.held_ns;
        self.device_ns += felt.device_ns;
        self.unknown_ns += felt.unknown_ns;
        self.longest_ns = self.longest_ns.max(latency_ns);
        self.latencies.add_to(LatencyCounts::bucket(latency_ns), 1);
        if excess_ns > felt.undisturbed_ns {
            self.delayed_ios += 1;
        }
        self.worst.keep_worse(&Worst {
            done_ns: felt.done_ns,
            latency_ns,
            undisturbed_ns: felt.undisturbed_ns,
        });
    }

    /// Counts what the last I/O waited behind another program's group, or behind another class of its own program.
    pub fn behind(
        &mut self,
        felt: &Felt,
        (actor, group): (u32, u32),
        ns: i64,
        left: &mut DetailsLeft,
    ) {
        let place = match self.pairs.iter().position(|p| p.actor == actor) {
            Some(place) => place,
            None => {
                let details = left.0.checked_sub(1).map(|left_after| {
                    left.0 = left_after;
                    Box::default()
                });
                self.pairs.push(PairSums {
                    actor,
                    details,
                    ..PairSums::default()
                });
                self.pairs.len() - 1
            }
        };
        let io = self.ios;
        let pair = &mut self.pairs[place];
        pair.ns += ns;
        match pair.by_group.iter_mut().find(|g| g.0 == group) {
            Some(known) => known.1 += ns,
            None => pair.by_group.push((group, ns)),
        }
        let is_first = pair.last_io != io;
        if is_first {
            pair.last_io = io;
            pair.ios += 1;
        }
        let latency_ns = felt.done_ns - felt.start_ns;
        // What does not double the latency is queueing, and marks no stretch.
        let is_delayed = ns > felt.undisturbed_ns;
        pair.delayed_ios += u64::from(is_delayed);
        if let Some(details) = &mut pair.details {
            if is_first {
                let bucket = LatencyCounts::bucket(latency_ns);
                details.latencies.add_to(bucket, 1);
            }
            if is_delayed {
                details
                    .stretches
                    .push(felt.start_ns, felt.done_ns, ns, u64::from(is_first));
            }
        }
        pair.worst.keep_worse(&Worst {
            done_ns: felt.done_ns,
            latency_ns,
            undisturbed_ns: felt.undisturbed_ns,
        });
    }

    /// Ends an I/O of which `own_ns` was waited behind the program's own I/Os of this class, and behind other programs most
    /// behind `main`.
    pub fn close(&mut self, own_ns: i64, main: Option<u32>) {
        self.own_ns += own_ns;
        let main = main.and_then(|main| self.pairs.iter_mut().find(|p| p.actor == main));
        match main {
            Some(pair) => pair.own_ns += own_ns,
            None => self.own_alone_ns += own_ns,
        }
    }
}

/// Whether what I/Os of `victim` wait behind others of their own program counts as their own queue: a read that waits for
/// its program's write-back has another cause, while a sync waits for the very writes that it asks for.
pub(super) fn is_own_class(victim: Class, other: Class) -> bool {
    victim == other || victim != Class::Read
}

/// Time lost behind the I/Os of one class and origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blame {
    /// The group, by its place among [`DeviceFelt::groups`](super::DeviceFelt::groups).
    pub group: usize,
    /// How long.
    pub ns: i64,
}

/// What one victim lost behind one program.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Behind whom; the victim itself for other classes of its own I/O.
    pub culprit: Program,
    /// How long, summed: a lower bound of the harm.
    pub ns: i64,
    /// I/Os that had to wait for it.
    pub ios: u64,
    /// I/Os that took more than twice as long because of it.
    pub delayed_ios: u64,
    /// What those waited behind the victim's own I/Os.
    pub own_ns: i64,
    /// The worst of them.
    pub worst: Worst,
    /// By class and origin, the most first.
    pub blame: Vec<Blame>,
    /// Latencies of those I/Os; empty where there were too many pairs.
    pub latencies: LatencyCounts,
    /// When I/Os took more than twice as long because of it.
    pub stretches: Stretches,
}

/// What waiting did to the I/Os of one class that one program waits for. The parts add up to `io_time_ns`.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Whose.
    pub victim: Program,
    /// Their class.
    pub class: Class,
    /// How many.
    pub ios: u64,
    /// How many took more than twice their undisturbed latency.
    pub delayed_ios: u64,
    /// Sum of the latencies.
    pub io_time_ns: i64,
    /// What they would have taken undisturbed.
    pub undisturbed_ns: i64,
    /// Above the driver while the device had room.
    pub held_ns: i64,
    /// By the device itself.
    pub device_ns: i64,
    /// Of no known cause.
    pub unknown_ns: i64,
    /// Behind the program's own I/Os of this class.
    pub own_ns: i64,
    /// The same, of I/Os that waited behind nothing else.
    pub own_alone_ns: i64,
    /// Start of the first.
    pub from_ns: i64,
    /// End of the last.
    pub to_ns: i64,
    /// The longest wait.
    pub worst: Worst,
    /// The longest latency.
    pub longest_ns: i64,
    /// All latencies.
    pub latencies: LatencyCounts,
    /// Behind whom, the most time first.
    pub pairs: Vec<Pair>,
}

impl Pair {
    fn merge(&mut self, other: &Pair) {
        self.ns += other.ns;
        self.ios += other.ios;
        self.delayed_ios += other.delayed_ios;
        self.own_ns += other.own_ns;
        self.worst.keep_worse(&other.worst);
        self.latencies.merge(&other.latencies);
        self.stretches.merge(&other.stretches);
        for blame in &other.blame {
            match self.blame.iter_mut().find(|b| b.group == blame.group) {
                Some(known) => known.ns += blame.ns,
                None => self.blame.push(*blame),
            }
        }
        self.blame
            .sort_by_key(|b| (std::cmp::Reverse(b.ns), b.group));
    }
}

impl Effect {
    /// What they lost: all that is not undisturbed.
    pub fn excess_ns(&self) -> i64 {
        self.io_time_ns - self.undisturbed_ns
    }

    pub(super) fn none(victim: Program, class: Class) -> Effect {
        Effect {
            victim,
            class,
            ios: 0,
            delayed_ios: 0,
            io_time_ns: 0,
            undisturbed_ns: 0,
            held_ns: 0,
            device_ns: 0,
            unknown_ns: 0,
            own_ns: 0,
            own_alone_ns: 0,
            from_ns: i64::MAX,
            to_ns: i64::MIN,
            worst: Worst::default(),
            longest_ns: 0,
            latencies: LatencyCounts::default(),
            pairs: Vec::new(),
        }
    }

    /// Makes one of all pairs that have one culprit.
    pub fn join_pairs(&mut self) {
        let mut joined: Vec<Pair> = Vec::new();
        for pair in std::mem::take(&mut self.pairs) {
            match joined.iter_mut().find(|p| p.culprit == pair.culprit) {
                Some(known) => known.merge(&pair),
                None => joined.push(pair),
            }
        }
        self.pairs = joined;
        self.pairs
            .sort_by_key(|p| (std::cmp::Reverse(p.ns), p.culprit));
    }

    /// Adds what another process of the same program felt, whose I/Os are of the same class. What they waited behind each
    /// other is their own queue.
    pub fn merge(&mut self, other: &Effect, both: Program) {
        let before = std::mem::replace(&mut self.victim, both);
        self.ios += other.ios;
        self.delayed_ios += other.delayed_ios;
        self.io_time_ns += other.io_time_ns;
        self.undisturbed_ns += other.undisturbed_ns;
        self.held_ns += other.held_ns;
        self.device_ns += other.device_ns;
        self.unknown_ns += other.unknown_ns;
        self.own_ns += other.own_ns;
        self.own_alone_ns += other.own_alone_ns;
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.worst.keep_worse(&other.worst);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.latencies.merge(&other.latencies);
        for pair in &other.pairs {
            match self.pairs.iter_mut().find(|p| p.culprit == pair.culprit) {
                Some(known) => known.merge(pair),
                None => self.pairs.push(pair.clone()),
            }
        }
        let is_inside = |p: &Program| *p == before || *p == other.victim || p.name() == both.name();
        let mut inside_ns = 0;
        self.pairs.retain(|pair| {
            if is_inside(&pair.culprit) {
                inside_ns += pair.ns;
            }
            !is_inside(&pair.culprit)
        });
        self.own_ns += inside_ns;
        self.own_alone_ns += inside_ns;
        self.pairs
            .sort_by_key(|p| (std::cmp::Reverse(p.ns), p.culprit));
    }

    /// Adds the sums of one process. `program_of` names actors; `class_of` and `place_of` are about groups.
    pub(super) fn add(
        &mut self,
        sums: &EffectSums,
        program_of: impl Fn(u32) -> Program,
        class_of: impl Fn(u32) -> Class,
        place_of: impl Fn(u32) -> usize,
    ) {
        self.ios += sums.ios;
        self.delayed_ios += sums.delayed_ios;
        self.io_time_ns += sums.io_time_ns;
        self.undisturbed_ns += sums.undisturbed_ns;
        self.held_ns += sums.held_ns;
        self.device_ns += sums.device_ns;
        self.unknown_ns += sums.unknown_ns;
        self.own_ns += sums.own_ns;
        self.own_alone_ns += sums.own_alone_ns;
        self.from_ns = self.from_ns.min(sums.from_ns);
        self.to_ns = self.to_ns.max(sums.to_ns);
        self.worst.keep_worse(&sums.worst);
        self.longest_ns = self.longest_ns.max(sums.longest_ns);
        self.latencies.merge(&sums.latencies);
        for pair in &sums.pairs {
            let culprit = program_of(pair.actor);
            let mut other = pair.clone();
            if culprit == self.victim {
                // Processes that are shown as one program wait behind their own.
                let class = self.class;
                other
                    .by_group
                    .retain(|(group, _)| !is_own_class(class, class_of(*group)));
                other.ns = other.by_group.iter().map(|g| g.1).sum();
                self.own_ns += pair.ns - other.ns;
                self.own_alone_ns += pair.ns - other.ns;
            }
            if other.ns > 0 {
                self.add_pair(culprit, &other, &place_of);
            }
        }
    }

    fn add_pair(&mut self, culprit: Program, sums: &PairSums, place_of: &impl Fn(u32) -> usize) {
        let place = match self.pairs.iter().position(|p| p.culprit == culprit) {
            Some(place) => place,
            None => {
                self.pairs.push(Pair {
                    culprit,
                    ns: 0,
                    ios: 0,
                    delayed_ios: 0,
                    own_ns: 0,
                    worst: Worst::default(),
                    blame: Vec::new(),
                    latencies: LatencyCounts::default(),
                    stretches: Stretches::default(),
                });
                self.pairs.len() - 1
            }
        };
        let pair = &mut self.pairs[place];
        pair.ns += sums.ns;
        pair.ios += sums.ios;
        pair.delayed_ios += sums.delayed_ios;
        pair.own_ns += sums.own_ns;
        pair.worst.keep_worse(&sums.worst);
        if let Some(details) = &sums.details {
            pair.latencies.merge(&details.latencies);
            pair.stretches.merge(&details.stretches);
        }
        for (group, ns) in &sums.by_group {
            let group = place_of(*group);
            match pair.blame.iter_mut().find(|b| b.group == group) {
                Some(known) => known.ns += ns,
                None => pair.blame.push(Blame { group, ns: *ns }),
            }
        }
        pair.blame
            .sort_by_key(|b| (std::cmp::Reverse(b.ns), b.group));
    }
}
