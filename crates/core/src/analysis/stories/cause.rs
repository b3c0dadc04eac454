//! Effect and cause: who lost time that matters, and behind what.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::advice::{Advice, CulpritFacts};
use super::mechanism;
use super::{Doubt, Episodes, Harm, Scene, Share, Story, StoryKind};
use crate::analysis::device::detail::DeviceDetail;
use crate::analysis::waits::effects::{Effect, INTERVAL_NS, Pair, WaitLatencies};
use crate::analysis::waits::stretches::Stretches;
use crate::analysis::waits::{DeviceFelt, DeviceVictims, EffectSums, Program, WorstWait};
use crate::model::{Class, DevId, KernelThread, Origin, OwnedTime};

/// A victim must lose at least this much I/O time: 0.1 s, or 1 % of the analysed window if that is less.
const MIN_LOST_NS: i64 = 100_000_000;
const MIN_LOST_OF_VIEW: f64 = 0.01;

/// It must also lose at least this share of its I/O time.
pub(super) const MIN_LOST_OF_IO_TIME: f64 = 0.1;

/// If I/Os are lost and this share of the excess has no known cause, a story is only probable.
const MUCH_UNKNOWN: f64 = 0.1;

/// A victim needs this many delayed I/Os, or one I/O delayed for at least `LONG_DELAY_NS`, or `FEW_DELAYED_IOS` that
/// lost that much together.
pub(super) const MIN_DELAYED_IOS: u64 = 10;
pub(super) const LONG_DELAY_NS: i64 = 100_000_000;
const FEW_DELAYED_IOS: u64 = 4;

/// The cause must explain this share of the lost time. If two causes explain it together, each must explain at least
/// [`MIN_OF_TWO`].
const MIN_EXPLAINED: f64 = 0.5;
const MIN_OF_TWO: f64 = 0.2;

/// A second program that cost at least this fraction of what the first one cost is named too, even if the first
/// explains half of the lost time by itself.
const NEARLY_AS_MUCH: f64 = 0.5;

/// A program's own queue is too deep only if it costs at least this share of its I/O time and at least this many I/Os
/// are in flight on average.
const DEEP_QUEUE_SHARE: f64 = 0.5;
const DEEP_QUEUE: f64 = 4.0;

/// Without a single cause there is a story only if the victim lost this share of its I/O time.
const MIN_LOST_TO_MANY: f64 = 0.25;

/// Up to this many I/Os delayed by the device itself count as single slow I/Os.
const MAX_SINGLE_IOS: u64 = 10;

/// I/Os count as held by a limit or a scheduler from this mean hold time per delayed I/O on.
const MIN_HELD_NS: i64 = 5_000_000;

/// Journal commits that no process was seen to wait for are attributed to the program that owns `MIN_DIRTIED` of all
/// bytes written back or committed, if its bytes are at least `MIN_DIRTIED_OF_COMMITS` of the bytes of those commits.
const MIN_DIRTIED: f64 = 0.9;
const MIN_DIRTIED_OF_COMMITS: f64 = 0.5;

/// A rate limit explains a wait only if the worst I/O completed while the device was seen to be limited, or within this
/// margin; the edges of that time are not known more exactly.
const CAP_MARGIN_NS: i64 = 1_000_000_000;

/// With fewer delayed I/Os and fewer episodes than these a story is only probable.
const MIN_IOS_WITHOUT_DOUBT: u64 = 20;
const MIN_TIMES_WITHOUT_DOUBT: u64 = 3;

/// p99 is reported only for at least this many latencies.
const MIN_FOR_P99: u64 = 100;

/// What the lost time was spent behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A program. It is the victim itself if the victim waited for I/O of another class of its own.
    Program(Program),
    /// The victim's own I/Os of the same class.
    OwnQueue,
    /// Time held above the driver, by a scheduler or a limit.
    Held,
    /// The device itself.
    Device,
    /// Reading pages again that the control group's memory limit had evicted.
    MemoryLimit,
    /// Not known: I/Os are lost, or the wait began too long ago.
    NotKnown,
}

/// A device and what is known of it.
pub(super) struct Place<'a> {
    dev: DevId,
    felt: &'a DeviceFelt,
    detail: Option<&'a DeviceDetail>,
    scene: &'a Scene<'a>,
    min_lost_ns: i64,
    /// The program to which commits of the journal's thread are attributed.
    committer: Option<Program>,
}

/// An explanation of lost time: the mechanism, the victim-culprit pairs, and how much they explain.
struct Explained<'a> {
    kind: StoryKind,
    pairs: Vec<&'a Pair>,
    ns: i64,
    delayed_ios: u64,
    worst: WorstWait,
}

impl Explained<'_> {
    /// The lost wall-clock time. The times of two culprits are added up.
    fn by_clock_ns(&self) -> i64 {
        self.pairs.iter().map(|pair| pair.by_clock_ns).sum()
    }

    /// The stretches of time in which I/Os waited for any of the culprits. An I/O that waited for two culprits counts twice
    /// in `ios`, as it does in `delayed_ios`.
    fn stretches(&self) -> Stretches {
        let mut all = Stretches::default();
        for pair in &self.pairs {
            all.merge(&pair.stretches);
        }
        all
    }

    /// `ns` of the lost time is explained by the device itself.
    fn of_device(kind: StoryKind, ns: i64, sums: &EffectSums) -> Self {
        Explained {
            kind,
            pairs: Vec::new(),
            ns,
            delayed_ios: sums.delayed_ios,
            worst: sums.worst,
        }
    }
}

impl<'a> Place<'a> {
    pub fn of(device: &'a DeviceVictims, scene: &'a Scene<'a>) -> Place<'a> {
        let of_view_ns = (MIN_LOST_OF_VIEW * scene.window.len_ns() as f64) as i64;
        Place {
            dev: device.dev,
            felt: &device.felt,
            detail: scene.details.iter().find(|d| d.dev == device.dev),
            scene,
            min_lost_ns: MIN_LOST_NS.min(of_view_ns),
            committer: committer(&device.felt),
        }
    }

    /// The story of one victim, if it lost enough time and the cause is known.
    pub fn story(&self, effect: &Effect) -> Option<Story> {
        if !can_be_victim(&effect.victim) {
            return None;
        }
        let is_hurt = self.matters(effect, effect.sums.time.excess_ns());
        if !is_hurt && !effect.pairs.iter().any(|p| self.matters_in_interval(p)) {
            return None;
        }
        let effect = &*self.with_committer(effect);
        let joined;
        let (effect, explained) = match self.by_one(effect) {
            Some(explained) => (effect, explained),
            None => {
                joined = joined_by_name(effect);
                (&*joined, self.explain(&joined)?)
            }
        };
        self.is_worth_a_story(effect, &explained)
            .then(|| self.assemble(effect, &explained))
    }

    /// Whether enough I/Os were delayed long enough, and enough time was lost in total.
    fn is_worth_a_story(&self, effect: &Effect, explained: &Explained) -> bool {
        let is_long = explained.worst.excess_ns() >= LONG_DELAY_NS;
        let is_felt_by_few =
            explained.delayed_ios >= FEW_DELAYED_IOS && explained.ns >= LONG_DELAY_NS;
        let is_felt = explained.delayed_ios >= MIN_DELAYED_IOS || is_long || is_felt_by_few;
        let is_enough = self.matters(effect, explained.ns)
            || explained.pairs.iter().any(|p| self.matters_in_interval(p));
        is_felt && is_enough
    }

    /// `effect` with waits behind the journal's thread attributed to the program for which it commits.
    fn with_committer<'e>(&self, effect: &'e Effect) -> Cow<'e, Effect> {
        let Some(committer) = self.committer.filter(|c| *c != effect.victim) else {
            return Cow::Borrowed(effect);
        };
        let mut culprits = effect.pairs.iter().map(|pair| &pair.culprit);
        if !culprits.any(is_journal_thread) {
            return Cow::Borrowed(effect);
        }
        let mut named = effect.clone();
        for pair in &mut named.pairs {
            if is_journal_thread(&pair.culprit) {
                pair.culprit = committer;
            }
        }
        named.join_pairs();
        Cow::Owned(named)
    }

    fn matters(&self, effect: &Effect, lost_ns: i64) -> bool {
        self.is_enough(lost_ns, effect.sums.time.total_ns())
    }

    /// Whether the time lost behind a program in its worst interval would make a story of that interval alone. Such an
    /// incident is reported for a long window as well, in which the victim has far more I/O time.
    fn matters_in_interval(&self, pair: &Pair) -> bool {
        let worst = &pair.worst_interval;
        let is_longer = self.scene.window.len_ns() > INTERVAL_NS;
        is_longer && self.is_enough(worst.ns, worst.io_time_ns)
    }

    /// Whether a program that lost `lost_ns` of `io_time_ns` is a victim.
    pub fn is_enough(&self, lost_ns: i64, io_time_ns: i64) -> bool {
        is_much(lost_ns, io_time_ns, self.min_lost_ns)
    }

    /// The explanation by a single process, if there is one.
    fn by_one<'e>(&self, effect: &'e Effect) -> Option<Explained<'e>> {
        let explained = self.by_programs(effect, &self.pairs_of_others(effect))?;
        (explained.pairs.len() == 1).then_some(explained)
    }

    fn explain<'e>(&self, effect: &'e Effect) -> Option<Explained<'e>> {
        let pairs = self.pairs_of_others(effect);
        if let Some(explained) = self.by_programs(effect, &pairs) {
            return Some(explained);
        }
        // If the device's share is too small for a story, it must not hide the victim's own queue.
        let by_device = self.by_device(effect);
        if let Some(explained) = by_device.filter(|e| self.is_worth_a_story(effect, e)) {
            return Some(explained);
        }
        if let Some(explained) = self.by_own_queue(effect) {
            return Some(explained);
        }
        if let Some(explained) = self.by_many(effect, &pairs) {
            return Some(explained);
        }
        self.by_some_time(&pairs)
    }

    /// The pairs of `effect` whose culprit is known and is not the victim's own helper: a journal commit, for example,
    /// belongs to the program that called fsync.
    fn pairs_of_others<'e>(&self, effect: &'e Effect) -> Vec<&'e Pair> {
        let syncs = self.syncs_of(&effect.victim) > 0;
        let uses_device_above = self.felt.from_above(&effect.victim).next().is_some();
        let mut others = Vec::new();
        for pair in &effect.pairs {
            // `OTHERS` sums up many programs, possibly the victim too, so it cannot be a culprit. A program without
            // name and number cannot be one either, except for the kernel's write-back.
            let culprit = &pair.culprit;
            let is_nameless = culprit.comm.is_none() && culprit.tgid.is_none();
            let is_known = *culprit != Program::OTHERS && (!is_nameless || self.is_writeback(pair));
            // I/O for a device above that no program could be matched to may be the victim's own.
            let is_own_commit = syncs && is_journal_thread(culprit);
            let may_be_own = is_own_commit || uses_device_above && self.is_for_device_above(pair);
            if is_known && !may_be_own {
                others.push(pair);
            }
        }
        others
    }

    /// Whether most of the wait behind a culprit is behind write-back.
    fn is_writeback(&self, pair: &Pair) -> bool {
        self.is_mostly(pair, |origin| origin == Origin::Writeback)
    }

    /// Whether most of the wait behind a culprit is behind I/O of origins that `is_it` accepts.
    fn is_mostly(&self, pair: &Pair, is_it: impl Fn(Origin) -> bool) -> bool {
        let groups = &self.felt.groups;
        let mut ns = 0;
        for blame in &pair.blame {
            if is_it(groups[blame.group].origin) {
                ns += blame.ns;
            }
        }
        2 * ns >= pair.ns
    }

    /// Whether the culprit is a kernel thread, and most of the wait is behind I/O that it submitted for a device
    /// stacked on this one.
    fn is_for_device_above(&self, pair: &Pair) -> bool {
        let thread = pair.culprit.kernel_thread();
        let is_worker = thread.is_some_and(KernelThread::submits_for_others);
        if !is_worker || self.scene.layers.is_empty() {
            return false;
        }
        self.is_mostly(pair, Origin::is_by_submitter)
    }

    /// Number of syncs that a program requested, as far as its I/O shows them.
    fn syncs_of(&self, program: &Program) -> u64 {
        let mut syncs = 0;
        for group in &self.felt.groups {
            if group.program == Some(*program) && group.class != Class::Read {
                syncs += group.forced_ios;
                if group.class == Class::Flush {
                    syncs += group.ios;
                }
                match group.origin {
                    Origin::Writeback => syncs += group.sync_ios,
                    Origin::Journal => syncs += group.ios,
                    _ => {}
                }
            }
        }
        syncs
    }

    /// The explanation by programs: one that explains half of the lost time, or two that do so together or cost nearly
    /// the same. Time that the victim's I/Os queue behind each other while a program occupies the device counts neither
    /// for nor against that program.
    fn by_programs<'e>(&self, effect: &Effect, pairs: &[&'e Pair]) -> Option<Explained<'e>> {
        let excess_ns = effect.sums.time.excess_ns();
        let first = *pairs.first()?;
        let least_of_two = MIN_OF_TWO * excess_ns as f64;
        let second = pairs
            .get(1)
            .filter(|p| first.ns as f64 >= least_of_two && p.ns as f64 >= least_of_two);
        let has_rival = second.is_some_and(|p| p.ns as f64 >= NEARLY_AS_MUCH * first.ns as f64);
        let is_enough = explains(&[first], excess_ns);
        let is_alone = is_enough && !has_rival;
        let chosen = match second {
            Some(second) if !is_alone && explains(&[first, second], excess_ns) => {
                vec![first, *second]
            }
            _ if is_enough => vec![first],
            _ => return None,
        };
        Some(self.explained_by(first, chosen))
    }

    /// An explanation by the culprits of `pairs`, with the mechanism of `first`, one of them.
    fn explained_by<'e>(&self, first: &Pair, pairs: Vec<&'e Pair>) -> Explained<'e> {
        let mut worst = first.worst;
        for pair in &pairs {
            worst.keep_worse(&pair.worst);
        }
        Explained {
            kind: mechanism::of_pair(first, self.felt),
            ns: pairs.iter().map(|p| p.ns).sum(),
            delayed_ios: pairs.iter().map(|p| p.delayed_ios).sum(),
            worst,
            pairs,
        }
    }

    /// The explanation by the device: a rate limit, a pause, or single slow I/Os.
    fn by_device<'e>(&self, effect: &Effect) -> Option<Explained<'e>> {
        let sums = &effect.sums;
        let time = &sums.time;
        let excess_ns = time.excess_ns();
        // A rate-limited device builds up a queue; the time waited in it is caused by the limit.
        let at_ns = sums.worst.done_ns;
        if let Some(cap) = &self.felt.cap {
            let held = cap.from_ns - CAP_MARGIN_NS..=cap.to_ns + CAP_MARGIN_NS;
            let ns = sums.own_alone_ns + time.device_ns;
            if held.contains(&at_ns) && ns as f64 >= MIN_EXPLAINED * excess_ns as f64 {
                return Some(Explained::of_device(StoryKind::RateLimit, ns, sums));
            }
        }
        if self.is_cpu_short(&sums.worst) {
            return None;
        }
        let rest_ns = (excess_ns - time.own_ns).max(1);
        if time.device_ns as f64 >= MIN_EXPLAINED * rest_ns as f64 {
            if self.met_pause(&sums.worst) {
                return Some(Explained::of_device(
                    StoryKind::DevicePause,
                    time.device_ns,
                    sums,
                ));
            }
            let is_single = sums.delayed_ios <= MAX_SINGLE_IOS.max(sums.ios / 1000);
            let worst_ns = sums.worst.excess_ns();
            if is_single && worst_ns >= LONG_DELAY_NS {
                return Some(Explained::of_device(
                    StoryKind::SlowIo,
                    time.device_ns,
                    sums,
                ));
            }
            // One slow I/O can be most of the lost time even beside many short delays, which are due to CPUs or a
            // cache.
            let is_most = worst_ns as f64 >= MIN_EXPLAINED * rest_ns as f64;
            if worst_ns >= LONG_DELAY_NS && is_most {
                let ns = worst_ns.min(time.device_ns);
                return Some(Explained {
                    delayed_ios: 1,
                    ..Explained::of_device(StoryKind::SlowIo, ns, sums)
                });
            }
        }
        // Shorter holds are the submitter's own plugging.
        let held_each_ns = time.held_ns / sums.delayed_ios.max(1) as i64;
        let is_most = time.held_ns as f64 >= MIN_EXPLAINED * excess_ns as f64;
        if is_most && held_each_ns >= MIN_HELD_NS {
            return Some(Explained::of_device(StoryKind::Held, time.held_ns, sums));
        }
        None
    }

    /// Whether a shortage of CPU time explains a wait, because completing an I/O needs a CPU.
    fn is_cpu_short(&self, worst: &WorstWait) -> bool {
        let from_ns = worst.done_ns - worst.latency_ns;
        let shortage = self.scene.host.cpu_shortage(from_ns, worst.done_ns);
        shortage.is_some()
    }

    /// Whether pauses of the device that CPU shortage does not explain cover half of a wait, and one of them covers a
    /// quarter. Next to a single slow I/O every gap between other completions looks like a pause.
    fn met_pause(&self, worst: &WorstWait) -> bool {
        let Some(detail) = self.detail else {
            return false;
        };
        let from_ns = worst.done_ns - worst.latency_ns;
        let mut met_ns = 0;
        let mut longest_ns = 0;
        for pause in &detail.stalls.pauses {
            if pause.cpu_shortage.is_none() {
                let end_ns = pause.to_ns.min(worst.done_ns);
                let inside_ns = (end_ns - pause.from_ns.max(from_ns)).max(0);
                met_ns += inside_ns;
                longest_ns = inside_ns.max(longest_ns);
            }
        }
        2 * met_ns >= worst.latency_ns && 4 * longest_ns >= worst.latency_ns
    }

    /// The explanation by the victim's own queue: it keeps more I/Os in flight than the device serves at once.
    fn by_own_queue<'e>(&self, effect: &Effect) -> Option<Explained<'e>> {
        let sums = &effect.sums;
        let time = &sums.time;
        let ns = sums.own_alone_ns;
        let is_most = ns as f64 >= MIN_EXPLAINED * time.excess_ns() as f64;
        let is_much = ns as f64 >= DEEP_QUEUE_SHARE * time.total_ns() as f64;
        let is_usual = 2 * sums.delayed_ios >= sums.ios;
        let is_deep = in_flight(effect) >= DEEP_QUEUE;
        let is_chosen = !self.is_chosen_by_kernel(effect);
        if !(is_most && is_much && is_usual && is_deep && is_chosen) {
            return None;
        }
        Some(Explained {
            kind: StoryKind::OwnQueue,
            pairs: Vec::new(),
            ns,
            delayed_ios: sums.delayed_ios,
            worst: sums.worst,
        })
    }

    /// Whether most of the victim's I/O is write-back or sequential reads into the page cache, for which the kernel
    /// chooses the queue depth.
    fn is_chosen_by_kernel(&self, effect: &Effect) -> bool {
        let mut chosen = 0;
        let mut all = 0;
        for group in &self.felt.groups {
            if group.program == Some(effect.victim) && group.class == effect.class {
                all += group.ios;
                let is_read_ahead = group.origin == Origin::BufferedRead
                    && group.sequential_share() >= mechanism::SEQUENTIAL_SHARE;
                if group.origin == Origin::Writeback || is_read_ahead {
                    chosen += group.ios;
                }
            }
        }
        effect.class == Class::Flush || 2 * chosen >= all
    }

    /// The explanation by several programs, if only all of them together explain the lost time.
    fn by_many<'e>(&self, effect: &Effect, pairs: &[&'e Pair]) -> Option<Explained<'e>> {
        let sums = &effect.sums;
        let time = &sums.time;
        let ns: i64 = pairs.iter().map(|p| p.ns).sum();
        let is_most = ns as f64 >= MIN_EXPLAINED * time.excess_ns() as f64;
        let is_much = ns as f64 >= MIN_LOST_TO_MANY * time.total_ns() as f64;
        if pairs.len() < 3 || !is_most || !is_much {
            return None;
        }
        // The others together contain no program that could be named as well.
        let first = *pairs.first()?;
        if first.ns as f64 >= (1.0 - MIN_OF_TWO) * ns as f64 {
            return Some(self.explained_by(first, vec![first]));
        }
        Some(Explained {
            kind: StoryKind::NoSingleCause,
            pairs: Vec::new(),
            ns,
            delayed_ios: sums.delayed_ios,
            worst: sums.worst,
        })
    }

    /// The explanation by a program that was the cause for only part of the time: it explains half of what the I/Os
    /// lost that waited behind it. The victim lost more at other times, for example to a CPU shortage or a slow device,
    /// but not to a single cause.
    fn by_some_time<'e>(&self, pairs: &[&'e Pair]) -> Option<Explained<'e>> {
        let mut pairs = pairs.iter().copied();
        let pair = pairs.find(|pair| explains(&[*pair], pair.excess_ns))?;
        Some(self.explained_by(pair, vec![pair]))
    }

    fn assemble(&self, effect: &Effect, explained: &Explained) -> Story {
        let first = explained.pairs.first();
        let (with, without) = match first {
            Some(pair) if !pair.latencies.is_empty() => {
                let without = effect.sums.latencies.without(&pair.latencies);
                (p99(&pair.latencies), p99(&without))
            }
            _ => (None, None),
        };
        let mut culprit_ios = Vec::new();
        for pair in &explained.pairs {
            culprit_ios.extend(mechanism::culprit_io(pair, self.felt));
        }
        let mut culprit = CulpritFacts::default();
        if let Some(pair) = first {
            let cgroup = pair.culprit.cgroup;
            culprit = CulpritFacts {
                is_sync: mechanism::is_sync(pair, self.felt),
                is_own: pair.culprit == effect.victim || pair.culprit.is_process(&effect.victim),
                is_apart: cgroup.is_some() && cgroup != effect.victim.cgroup,
                is_kernel_thread: is_kernel_thread(&pair.culprit),
                is_for_device_above: self.is_for_device_above(pair),
            };
        }
        let by_clock_ns = first.map(|_| explained.by_clock_ns());
        let share_by_clock = effect.sums.share_by_clock();
        let stretches = explained.stretches();
        Story {
            kind: explained.kind,
            dev: self.dev,
            victim: effect.victim,
            class: effect.class,
            ios: effect.sums.ios,
            io_time_ns: effect.sums.time.total_ns(),
            excess_ns: effect.sums.time.excess_ns(),
            culprits: explained.pairs.iter().map(|p| p.culprit).collect(),
            culprit_ios,
            shares: shares(effect),
            harm: Harm {
                ns: explained.ns,
                by_clock_ns,
                lost_ns: by_clock_ns.unwrap_or((explained.ns as f64 * share_by_clock) as i64),
                delayed_ios: explained.delayed_ios,
                worst: explained.worst,
                p99_with_ns: with,
                p99_without_ns: without,
            },
            also: Vec::new(),
            episodes: episodes(&stretches, effect),
            doubts: self.doubts(effect, explained, stretches.n()),
            in_flight: in_flight(effect),
            cap: self
                .felt
                .cap
                .filter(|_| explained.kind == StoryKind::RateLimit),
            own_limit: None,
            memory_limit: None,
            advice: Advice::of(explained.kind, culprit),
        }
    }

    /// Why a story of so many episodes is only probable.
    fn doubts(&self, effect: &Effect, explained: &Explained, times: u64) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        if explained.delayed_ios < MIN_IOS_WITHOUT_DOUBT && times < MIN_TIMES_WITHOUT_DOUBT {
            doubts.push(Doubt::FewIos);
        }
        if self.scene.has_losses && is_much_unknown(&effect.sums.time) {
            doubts.push(Doubt::LostIos);
        }
        doubts
    }
}

/// Whether much of the lost time has no known cause. If I/Os are lost, one of them can be the cause.
pub(super) fn is_much_unknown(time: &OwnedTime) -> bool {
    time.unknown_ns as f64 >= MUCH_UNKNOWN * time.excess_ns() as f64
}

/// `effect` with all processes of one name and control group joined into one culprit, as when a script starts a program
/// repeatedly. Processes with the victim's name stay separate.
fn joined_by_name(effect: &Effect) -> Cow<'_, Effect> {
    let mut processes: BTreeMap<_, usize> = BTreeMap::new();
    for pair in &effect.pairs {
        let culprit = &pair.culprit;
        if culprit.comm.is_some() && culprit.name() != effect.victim.name() {
            *processes.entry(culprit.name()).or_default() += 1;
        }
    }
    processes.retain(|_, n| *n > 1);
    if processes.is_empty() {
        return Cow::Borrowed(effect);
    }
    let mut joined = effect.clone();
    for pair in &mut joined.pairs {
        if processes.contains_key(&pair.culprit.name()) {
            pair.culprit.tgid = None;
        }
    }
    joined.join_pairs();
    Cow::Owned(joined)
}

/// The program to which commits of the journal's thread are attributed if no process was seen to wait for them, for
/// example because the journal was full: the program that dirtied nearly all of the data, if there is one.
fn committer(felt: &DeviceFelt) -> Option<Program> {
    let mut committed_bytes = 0;
    let mut dirtied: BTreeMap<Program, u64> = BTreeMap::new();
    for group in felt.groups.iter().filter(|g| g.class == Class::Write) {
        let Some(program) = group.program else {
            continue;
        };
        match group.origin {
            Origin::Journal if is_journal_thread(&program) => committed_bytes += group.bytes,
            Origin::Journal | Origin::Writeback | Origin::Metadata => {
                *dirtied.entry(program).or_default() += group.bytes;
            }
            _ => {}
        }
    }
    let all: u64 = dirtied.values().sum();
    let (program, bytes) = dirtied.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let is_most = bytes as f64 >= MIN_DIRTIED * all as f64;
    let is_enough = bytes as f64 >= MIN_DIRTIED_OF_COMMITS * committed_bytes as f64;
    let is_known = program.comm.is_some() && !is_kernel_thread(&program);
    (is_known && is_most && is_enough).then_some(program)
}

fn p99(latencies: &WaitLatencies) -> Option<i64> {
    if latencies.n() < MIN_FOR_P99 {
        return None;
    }
    latencies.quantile(0.99)
}

/// Mean number of I/Os in flight from the first to the last.
pub(super) fn in_flight(effect: &Effect) -> f64 {
    let sums = &effect.sums;
    sums.time.total_ns() as f64 / (sums.to_ns - sums.from_ns).max(1) as f64
}

fn episodes(stretches: &Stretches, effect: &Effect) -> Episodes {
    Episodes {
        times: stretches.n(),
        from_ns: stretches.first_ns().unwrap_or(effect.sums.from_ns),
        to_ns: stretches.last_ns().unwrap_or(effect.sums.to_ns),
        worst: stretches.largest(),
    }
}

/// The whole excess divided by cause, largest part first.
pub(super) fn shares(effect: &Effect) -> Vec<Share> {
    let time = &effect.sums.time;
    let mut all = vec![
        (Cause::OwnQueue, time.own_ns),
        (Cause::Held, time.held_ns),
        (Cause::Device, time.device_ns),
        (Cause::NotKnown, time.unknown_ns),
    ];
    for pair in &effect.pairs {
        all.push((Cause::Program(pair.culprit), pair.ns));
    }
    all.retain(|(_, ns)| *ns > 0);
    all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    all.into_iter()
        .map(|(cause, ns)| Share { cause, ns })
        .collect()
}

/// Whether a program is a kernel thread. It works for others, so its waits are not its own.
pub(super) fn is_kernel_thread(program: &Program) -> bool {
    program.kernel_thread().is_some()
}

/// Whether a program can be a victim. `sync` cannot: its purpose is to wait for what others wrote.
fn can_be_victim(program: &Program) -> bool {
    let is_sync = program.comm.is_some_and(|comm| comm.as_bytes() == b"sync");
    *program != Program::OTHERS && !is_kernel_thread(program) && !is_sync
}

/// Whether a program is likely the victim of a story, judged by how its I/O time divides. This check is cheap and shows
/// when the full analysis is worth running. Time in the program's own queue does not count as lost.
pub fn is_likely_victim(program: &Program, time: &OwnedTime) -> bool {
    let lost_ns = time.lost_ns() - time.own_ns;
    can_be_victim(program) && is_much(lost_ns, time.total_ns(), MIN_LOST_NS)
}

/// Whether `lost_ns` is at least `min_lost_ns` and a large enough share of `io_time_ns`.
fn is_much(lost_ns: i64, io_time_ns: i64, min_lost_ns: i64) -> bool {
    lost_ns >= min_lost_ns && lost_ns as f64 >= MIN_LOST_OF_IO_TIME * io_time_ns as f64
}

/// Whether the culprits of `chosen` explain enough of the lost time.
fn explains(chosen: &[&Pair], excess_ns: i64) -> bool {
    let ns: i64 = chosen.iter().map(|p| p.ns).sum();
    let own_ns: i64 = chosen.iter().map(|p| p.own_ns).sum();
    // Time queued behind the victim's own I/Os meanwhile counts neither for nor against the culprits.
    let rest_ns = (excess_ns - own_ns).max(ns);
    ns as f64 >= MIN_EXPLAINED * rest_ns as f64
        && ns as f64 >= MIN_EXPLAINED / 2.0 * excess_ns as f64
}

fn is_journal_thread(program: &Program) -> bool {
    program.kernel_thread() == Some(KernelThread::Journal)
}
