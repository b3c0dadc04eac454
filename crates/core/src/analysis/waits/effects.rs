//! What waiting did to the I/Os that a program waits for: by victim and by program that it waited behind.
//!
//! The table of waits counts every I/O. Here only those count for which a program can be waiting: no write-back that
//! no program asked for, no discards. Per pair of victim and culprit there are the time lost, the latencies with the culprit
//! at work, and the stretches of time in which it happened. Memory is bounded per pair, and pairs are bounded.

use super::Program;
use super::device::Wait;
use super::stretches::Stretches;
use crate::model::{Class, OwnedTime, SECOND_NS, WorstWait, bucket_at, floor_to, rank};

/// Pairs of victim and culprit of which latencies and stretches are kept; of further ones only the sums are.
const MAX_DETAILED: usize = 512;

/// Where there are more pairs those have them that lost at least this; if these are too many, this many times as much.
const FIRST_LEAST_NS: i64 = 10_000_000;
const LEAST_FACTOR: i64 = 8;

/// Programs that are kept of those that a victim may have waited for.
const MAX_SUSPECTS: usize = 32;

/// Of longer recordings intervals of this length are looked at by themselves, too.
pub const INTERVAL_NS: i64 = 120 * SECOND_NS;

/// What a victim lost behind one program in one interval of [`INTERVAL_NS`], of how much I/O time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostInInterval {
    /// End of the interval; 0 if nothing was lost.
    pub end_ns: i64,
    /// Lost.
    pub ns: i64,
    /// The victim's I/O time meanwhile, of the same class.
    pub io_time_ns: i64,
}

impl LostInInterval {
    fn keep_worse(&mut self, other: &LostInInterval) {
        if other.ns > self.ns {
            *self = *other;
        }
    }

    /// Adds what was lost behind another process, or by another one: of the same interval the sum, else the worse one counts.
    fn merge(&mut self, other: &LostInInterval) {
        if self.end_ns != other.end_ns {
            self.keep_worse(other);
            return;
        }
        self.ns += other.ns;
        // Behind two processes one victim lost of one and the same I/O time; that of two victims differs.
        if self.io_time_ns != other.io_time_ns {
            self.io_time_ns += other.io_time_ns;
        }
    }
}

/// Latencies in buckets of a sixteenth of an octave: a quantile is off by at most 3 %.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitLatencies {
    first: usize,
    counts: Vec<u32>,
}

/// Buckets to an octave.
const PER_OCTAVE: usize = 16;

impl WaitLatencies {
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

    fn merge(&mut self, other: &WaitLatencies) {
        for (i, n) in other.counts.iter().enumerate() {
            if *n > 0 {
                self.add_to(other.first + i, *n);
            }
        }
    }

    /// Those of `self` that are not in `part`.
    #[must_use]
    pub fn without(&self, part: &WaitLatencies) -> WaitLatencies {
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
        let counts = self.counts.iter().map(|n| u64::from(*n));
        let bucket = bucket_at(counts, rank(q, self.n()))?;
        Some(Self::value(self.first + bucket))
    }
}

/// Time lost by the clock: what I/Os that wait at the same time lose counts once. A lower bound, as an I/O that began earlier than one
/// that completed before it counts from there on only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ClockLoss {
    ns: i64,
    /// What lies before is counted.
    counted_to_ns: i64,
    /// Of the I/O that is counted, what is not counted yet.
    left_ns: i64,
}

impl ClockLoss {
    /// Takes an I/O. Then [`ClockLoss::add`] for what it lost.
    fn begin(&mut self, start_ns: i64, done_ns: i64) {
        self.left_ns = (done_ns - start_ns.max(self.counted_to_ns)).max(0);
        self.counted_to_ns = self.counted_to_ns.max(done_ns);
    }

    fn add(&mut self, ns: i64) {
        let counted_ns = ns.min(self.left_ns);
        self.ns += counted_ns;
        self.left_ns -= counted_ns;
    }
}

/// What one victim lost behind one program.
#[derive(Debug, Clone, Default)]
pub(super) struct PairSums {
    pub actor: u32,
    pub ns: i64,
    by_clock: ClockLoss,
    pub ios: u64,
    /// All that those lost.
    pub excess_ns: i64,
    /// I/Os that took more than twice their undisturbed latency because of it.
    pub delayed_ios: u64,
    /// Behind the victim's own I/Os, of those that waited behind this program too.
    pub own_ns: i64,
    pub worst: WorstWait,
    /// By the number of the group.
    pub by_group: Vec<(u32, i64)>,
    pub details: Option<Box<PairDetails>>,
    /// The number of the victim's I/O that was counted last.
    last_io: u64,
    /// Lost in the present interval, and in the worst one before.
    in_interval_ns: i64,
    worst_interval: LostInInterval,
}

#[derive(Debug, Clone, Default)]
pub(super) struct PairDetails {
    pub latencies: WaitLatencies,
    pub stretches: Stretches,
}

/// Sums over the I/Os of one class that one program waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectSums {
    /// How many.
    pub ios: u64,
    /// How many took more than twice their undisturbed latency.
    pub delayed_ios: u64,
    /// Whose each part of their latencies is; their own are the program's I/Os of this class.
    pub time: OwnedTime,
    /// What of it was waited behind their own by I/Os that waited behind nothing else.
    pub own_alone_ns: i64,
    /// All excess.
    by_clock: ClockLoss,
    /// The most of it in one interval of [`INTERVAL_NS`].
    pub most_in_interval_ns: i64,
    /// Start of the first.
    pub from_ns: i64,
    /// End of the last.
    pub to_ns: i64,
    /// The longest wait.
    pub worst: WorstWait,
    /// The longest latency.
    pub longest_ns: i64,
    /// How many are of a kind of which too few had the device to themselves: what they lost is a lower bound, and may be nothing.
    pub bound_ios: u64,
    /// All latencies.
    pub latencies: WaitLatencies,
}

impl Default for EffectSums {
    fn default() -> EffectSums {
        EffectSums {
            ios: 0,
            delayed_ios: 0,
            time: OwnedTime::default(),
            own_alone_ns: 0,
            by_clock: ClockLoss::default(),
            most_in_interval_ns: 0,
            from_ns: i64::MAX,
            to_ns: i64::MIN,
            worst: WorstWait::default(),
            longest_ns: 0,
            bound_ios: 0,
            latencies: WaitLatencies::default(),
        }
    }
}

impl EffectSums {
    fn add(&mut self, other: &EffectSums) {
        self.ios += other.ios;
        self.delayed_ios += other.delayed_ios;
        self.time.add(&other.time);
        self.own_alone_ns += other.own_alone_ns;
        self.by_clock.ns += other.by_clock.ns;
        // Those of two processes may be of one interval.
        self.most_in_interval_ns += other.most_in_interval_ns;
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.worst.keep_worse(&other.worst);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.bound_ios += other.bound_ios;
        self.latencies.merge(&other.latencies);
    }

    /// The share of all excess that was lost by the clock; 1 without any.
    pub fn share_by_clock(&self) -> f64 {
        match self.time.excess_ns() {
            0 => 1.0,
            excess_ns => self.by_clock.ns as f64 / excess_ns as f64,
        }
    }

    /// What I/Os waited behind nothing but others turns out to be their own.
    fn move_to_own(&mut self, ns: i64) {
        self.time = self.time.with_own(self.time.own_ns + ns);
        self.own_alone_ns += ns;
    }
}

/// What one process lost, of one class.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessEffect {
    sums: EffectSums,
    pairs: Vec<PairSums>,
    /// By actor, what the I/Os counted in [`EffectSums::bound_ios`] may have waited for it.
    suspects: Vec<(u32, i64)>,
    /// End of the present interval, the I/O time in it so far, and how much of that is excess.
    interval_end_ns: i64,
    interval_io_time_ns: i64,
    interval_excess_ns: i64,
}

/// Pairs that still may get details. The first ones have them; where there are too many, those that lost most take their place.
#[derive(Debug)]
pub(super) struct DetailsLeft {
    left: usize,
    /// A pair must have lost this much.
    least_ns: i64,
    /// A pair without details lost so much more that those with less must give theirs up.
    pub is_wanted: bool,
}

impl Default for DetailsLeft {
    fn default() -> DetailsLeft {
        DetailsLeft {
            left: MAX_DETAILED,
            least_ns: 0,
            is_wanted: false,
        }
    }
}

impl DetailsLeft {
    /// Details for a pair that lost `ns` so far.
    fn take(&mut self, ns: i64) -> Option<Box<PairDetails>> {
        if ns < self.least_ns {
            return None;
        }
        if self.left == 0 {
            self.is_wanted |= ns >= self.next_least_ns();
            return None;
        }
        self.left -= 1;
        Some(Box::default())
    }

    fn next_least_ns(&self) -> i64 {
        FIRST_LEAST_NS.max(LEAST_FACTOR * self.least_ns)
    }

    /// Raises what a pair must have lost. Call [`ProcessEffect::give_up_details`] of all then.
    pub fn raise(&mut self) {
        self.least_ns = self.next_least_ns();
        self.is_wanted = false;
    }
}

impl ProcessEffect {
    /// Counts an I/O. Then [`ProcessEffect::behind`] for all that it waited behind, then [`ProcessEffect::close`].
    pub fn count(&mut self, wait: &Wait) {
        let latency_ns = wait.io.latency_ns();
        if wait.io.done_ns >= self.interval_end_ns {
            self.end_interval();
            self.interval_end_ns = floor_to(wait.io.done_ns, INTERVAL_NS) + INTERVAL_NS;
        }
        self.interval_io_time_ns += latency_ns;
        self.interval_excess_ns += wait.time.excess_ns();
        let sums = &mut self.sums;
        sums.ios += 1;
        sums.delayed_ios += u64::from(wait.is_delayed());
        sums.by_clock.begin(wait.io.start_ns, wait.io.done_ns);
        sums.by_clock.add(wait.time.excess_ns());
        sums.from_ns = sums.from_ns.min(wait.io.start_ns);
        sums.to_ns = sums.to_ns.max(wait.io.done_ns);
        sums.worst.keep_worse(&wait.as_worst());
        sums.longest_ns = sums.longest_ns.max(latency_ns);
        sums.bound_ios += u64::from(wait.is_bound);
        sums.latencies.add_to(WaitLatencies::bucket(latency_ns), 1);
    }

    /// Ends the present interval. Once more at the end of the stream.
    pub fn end_interval(&mut self) {
        for pair in &mut self.pairs {
            pair.worst_interval.keep_worse(&LostInInterval {
                end_ns: self.interval_end_ns,
                ns: pair.in_interval_ns,
                io_time_ns: self.interval_io_time_ns,
            });
            pair.in_interval_ns = 0;
        }
        let most_ns = &mut self.sums.most_in_interval_ns;
        *most_ns = self.interval_excess_ns.max(*most_ns);
        self.interval_io_time_ns = 0;
        self.interval_excess_ns = 0;
    }

    /// Counts what the last I/O waited behind another program's group, or behind another class of its own program. Yields the
    /// place of this pair.
    pub fn behind(
        &mut self,
        wait: &Wait,
        (actor, group): (u32, u32),
        ns: i64,
        left: &mut DetailsLeft,
    ) -> usize {
        let place = match self.pairs.iter().position(|p| p.actor == actor) {
            Some(place) => place,
            None => {
                self.pairs.push(PairSums {
                    actor,
                    ..PairSums::default()
                });
                self.pairs.len() - 1
            }
        };
        let io = self.sums.ios;
        let pair = &mut self.pairs[place];
        pair.ns += ns;
        pair.in_interval_ns += ns;
        match pair.by_group.iter_mut().find(|g| g.0 == group) {
            Some(known) => known.1 += ns,
            None => pair.by_group.push((group, ns)),
        }
        let is_first = pair.last_io != io;
        if is_first {
            pair.last_io = io;
            pair.ios += 1;
            pair.excess_ns += wait.time.excess_ns();
            pair.by_clock.begin(wait.io.start_ns, wait.io.done_ns);
        }
        pair.by_clock.add(ns);
        // What does not double the latency is queueing, and marks no stretch.
        let is_delayed = ns > wait.time.undisturbed_ns;
        pair.delayed_ios += u64::from(is_delayed);
        if pair.details.is_none() {
            pair.details = left.take(pair.ns);
        }
        if let Some(details) = &mut pair.details {
            if is_first {
                let bucket = WaitLatencies::bucket(wait.io.latency_ns());
                details.latencies.add_to(bucket, 1);
            }
            if is_delayed {
                let start_ns = wait.io.start_ns;
                let done_ns = wait.io.done_ns;
                let ios = u64::from(is_first);
                details.stretches.push(start_ns, done_ns, ns, ios);
            }
        }
        pair.worst.keep_worse(&wait.as_worst());
        place
    }

    /// Counts what the last I/O may have waited for a program, its own one too.
    pub fn may_have_waited(&mut self, actor: u32, at_most_ns: i64) {
        if let Some(known) = self.suspects.iter_mut().find(|known| known.0 == actor) {
            known.1 += at_most_ns;
        } else if self.suspects.len() < MAX_SUSPECTS {
            self.suspects.push((actor, at_most_ns));
        }
    }

    /// Pairs that lost less than what a pair must have lost have details no more.
    pub fn give_up_details(&mut self, left: &mut DetailsLeft) {
        for pair in &mut self.pairs {
            if pair.ns < left.least_ns && pair.details.take().is_some() {
                left.left += 1;
            }
        }
    }

    /// Ends an I/O of which `own_ns` was waited behind the program's own I/Os of this class, and behind other programs most
    /// behind the one of the pair `main`.
    pub fn close(&mut self, wait: &Wait, own_ns: i64, main: Option<usize>) {
        self.sums.time.add(&wait.time.with_own(own_ns));
        match main {
            Some(place) => self.pairs[place].own_ns += own_ns,
            None => self.sums.own_alone_ns += own_ns,
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
    /// How long by the clock: what I/Os that wait at the same time lose counts once for each process.
    pub by_clock_ns: i64,
    /// I/Os that had to wait for it.
    pub ios: u64,
    /// All that those lost, to whatever.
    pub excess_ns: i64,
    /// I/Os that took more than twice as long because of it.
    pub delayed_ios: u64,
    /// What those waited behind the victim's own I/Os.
    pub own_ns: i64,
    /// The worst of them.
    pub worst: WorstWait,
    /// The interval in which most was lost; not known where a part of it was lost behind the victim's own I/Os.
    pub worst_interval: LostInInterval,
    /// By class and origin, the most first.
    pub blame: Vec<Blame>,
    /// Latencies of those I/Os; empty where there were too many pairs.
    pub latencies: WaitLatencies,
    /// When I/Os took more than twice as long because of it.
    pub stretches: Stretches,
}

/// What waiting did to the I/Os of one class that one program waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Whose.
    pub victim: Program,
    /// Their class.
    pub class: Class,
    /// What all of them lost.
    pub sums: EffectSums,
    /// Behind whom, the most time first.
    pub pairs: Vec<Pair>,
    /// Programs that the I/Os counted in [`EffectSums::bound_ios`] may have waited for, the victim itself too, and how long at
    /// most, the longest first.
    pub suspects: Vec<(Program, i64)>,
}

impl Pair {
    /// What was lost behind `culprit`, without the time behind groups that are the victim's own.
    fn new(
        culprit: Program,
        sums: &PairSums,
        is_own: impl Fn(u32) -> bool,
        place_of: impl Fn(u32) -> usize,
    ) -> Pair {
        let details = sums.details.as_deref().cloned().unwrap_or_default();
        let mut pair = Pair {
            culprit,
            ns: 0,
            by_clock_ns: 0,
            ios: sums.ios,
            excess_ns: sums.excess_ns,
            delayed_ios: sums.delayed_ios,
            own_ns: sums.own_ns,
            worst: sums.worst,
            worst_interval: sums.worst_interval,
            blame: Vec::new(),
            latencies: details.latencies,
            stretches: details.stretches,
        };
        for (group, ns) in sums.by_group.iter().filter(|(group, _)| !is_own(*group)) {
            pair.ns += ns;
            pair.add_blame(&Blame {
                group: place_of(*group),
                ns: *ns,
            });
        }
        pair.sort_blame();
        if pair.ns < sums.ns {
            pair.worst_interval = LostInInterval::default();
        }
        pair.by_clock_ns = sums.by_clock.ns.min(pair.ns);
        pair
    }

    fn merge(&mut self, other: &Pair) {
        self.ns += other.ns;
        self.by_clock_ns += other.by_clock_ns;
        self.ios += other.ios;
        self.excess_ns += other.excess_ns;
        self.delayed_ios += other.delayed_ios;
        self.own_ns += other.own_ns;
        self.worst.keep_worse(&other.worst);
        self.worst_interval.merge(&other.worst_interval);
        self.latencies.merge(&other.latencies);
        self.stretches.merge(&other.stretches);
        for blame in &other.blame {
            self.add_blame(blame);
        }
        self.sort_blame();
    }

    fn add_blame(&mut self, more: &Blame) {
        match self.blame.iter_mut().find(|b| b.group == more.group) {
            Some(known) => known.ns += more.ns,
            None => self.blame.push(*more),
        }
    }

    /// The most time first.
    fn sort_blame(&mut self) {
        self.blame
            .sort_by_key(|b| (std::cmp::Reverse(b.ns), b.group));
    }
}

impl Effect {
    pub(super) fn new(victim: Program, class: Class) -> Effect {
        Effect {
            victim,
            class,
            sums: EffectSums::default(),
            pairs: Vec::new(),
            suspects: Vec::new(),
        }
    }

    /// Makes one of all pairs that have one culprit.
    pub fn join_pairs(&mut self) {
        for pair in std::mem::take(&mut self.pairs) {
            self.add_pair(pair);
        }
        self.sort_pairs();
    }

    /// Adds what another process of the same program felt, whose I/Os are of the same class. What they waited behind each
    /// other is their own queue.
    pub fn merge(&mut self, other: &Effect, both: Program) {
        let before = std::mem::replace(&mut self.victim, both);
        self.sums.add(&other.sums);
        for pair in &other.pairs {
            self.add_pair(pair.clone());
        }
        for pair in self.pairs.extract_if(.., |pair| {
            let culprit = &pair.culprit;
            *culprit == before || *culprit == other.victim || culprit.name() == both.name()
        }) {
            self.sums.move_to_own(pair.ns);
        }
        let suspects = std::mem::take(&mut self.suspects);
        for (program, at_most_ns) in suspects.iter().chain(&other.suspects) {
            let is_own = program.name() == both.name();
            self.add_suspect(if is_own { both } else { *program }, *at_most_ns);
        }
        self.sort_pairs();
    }

    /// Adds the sums of one process. `program_of` names actors; `class_of` and `place_of` are about groups.
    pub(super) fn add(
        &mut self,
        process: &ProcessEffect,
        program_of: impl Fn(u32) -> Program,
        class_of: impl Fn(u32) -> Class,
        place_of: impl Fn(u32) -> usize,
    ) {
        self.sums.add(&process.sums);
        for sums in &process.pairs {
            let culprit = program_of(sums.actor);
            // Processes that are shown as one program wait behind their own.
            let is_own =
                |group| culprit == self.victim && is_own_class(self.class, class_of(group));
            let pair = Pair::new(culprit, sums, is_own, &place_of);
            self.sums.move_to_own(sums.ns - pair.ns);
            if pair.ns > 0 {
                self.add_pair(pair);
            }
        }
        for (actor, at_most_ns) in &process.suspects {
            self.add_suspect(program_of(*actor), *at_most_ns);
        }
    }

    fn add_suspect(&mut self, program: Program, at_most_ns: i64) {
        match self.suspects.iter_mut().find(|known| known.0 == program) {
            Some(known) => known.1 += at_most_ns,
            None => self.suspects.push((program, at_most_ns)),
        }
    }

    fn add_pair(&mut self, pair: Pair) {
        match self.pairs.iter_mut().find(|p| p.culprit == pair.culprit) {
            Some(known) => known.merge(&pair),
            None => self.pairs.push(pair),
        }
    }

    /// The most time first.
    pub(super) fn sort_pairs(&mut self) {
        self.pairs
            .sort_by_key(|p| (std::cmp::Reverse(p.ns), p.culprit));
        self.suspects
            .sort_by_key(|(program, at_most_ns)| (std::cmp::Reverse(*at_most_ns), *program));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ios_lose_at_the_same_time_counts_once_by_the_clock() {
        let mut one_by_one = ClockLoss::default();
        let mut at_once = ClockLoss::default();
        for i in 0..10 {
            one_by_one.begin(1000 * i, 1000 * i + 100);
            at_once.begin(1000, 1100 + i);
            for part_ns in [50, 30] {
                one_by_one.add(part_ns);
                at_once.add(part_ns);
            }
        }
        assert_eq!(one_by_one.ns, 800);
        // The first one's 80, and the 9 that each of the others ends later.
        assert_eq!(at_once.ns, 89);
    }

    fn lost(end_ns: i64, ns: i64, io_time_ns: i64) -> LostInInterval {
        LostInInterval {
            end_ns,
            ns,
            io_time_ns,
        }
    }

    #[test]
    fn what_is_lost_in_one_interval_adds_up_and_of_two_the_worse_one_counts() {
        let cases = [
            (
                "behind two",
                lost(1, 5, 100),
                lost(1, 2, 100),
                lost(1, 7, 100),
            ),
            ("by two", lost(1, 5, 100), lost(1, 2, 30), lost(1, 7, 130)),
            (
                "at two times",
                lost(1, 5, 100),
                lost(2, 9, 20),
                lost(2, 9, 20),
            ),
            ("by one only", lost(0, 0, 0), lost(2, 9, 20), lost(2, 9, 20)),
        ];
        for (case, mut sum, other, expected) in cases {
            sum.merge(&other);
            assert_eq!(sum, expected, "{case}");
        }
    }
}
