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

/// A victim must lose so much, or this share of the time in view if that is less.
const MIN_LOST_NS: i64 = 100_000_000;
const MIN_LOST_OF_VIEW: f64 = 0.01;

/// And this share of its I/O time.
pub(super) const MIN_LOST_OF_IO_TIME: f64 = 0.1;

/// Where so much of the excess is of unknown cause and I/Os are missing, a story is only probable.
const MUCH_UNKNOWN: f64 = 0.1;

/// In so many I/Os, or in one that is delayed for so long, or in a few that lost as much together.
pub(super) const MIN_DELAYED_IOS: u64 = 10;
pub(super) const LONG_DELAY_NS: i64 = 100_000_000;
const FEW_DELAYED_IOS: u64 = 4;

/// The cause explains this share of what was lost; of two that explain it together each has at least [`MIN_OF_TWO`].
const MIN_EXPLAINED: f64 = 0.5;
const MIN_OF_TWO: f64 = 0.2;

/// A second program that cost so much of what the first one did is named beside it, even if the first one explains half.
const NEARLY_AS_MUCH: f64 = 0.5;

/// A queue of its own is too deep only from these on: share of the I/O time lost in it, I/Os in flight, share of I/Os delayed.
const DEEP_QUEUE_SHARE: f64 = 0.5;
const DEEP_QUEUE: f64 = 4.0;

/// Without a single cause only what lost this share of its I/O time is worth a story.
const MIN_LOST_TO_MANY: f64 = 0.25;

/// At most so many I/Os that a device delays by itself are single ones.
const MAX_SINGLE_IOS: u64 = 10;

/// Delayed I/Os are held by a limit or a scheduler for so long, in the mean.
const MIN_HELD_NS: i64 = 5_000_000;

/// Commits of a journal for which no process was seen to wait are of the program to which this share of the bytes belongs that are
/// written from the page cache or committed, if these are as many as this share of the bytes of those commits.
const MIN_DIRTIED: f64 = 0.9;
const MIN_DIRTIED_OF_COMMITS: f64 = 0.5;

/// The worst wait for a limit lies in the time in which the device was seen to be held, or so close to it: its edges are not known
/// better.
const CAP_MARGIN_NS: i64 = 1_000_000_000;

/// Fewer delayed I/Os make a story only probable, if it was not seen so often.
const MIN_IOS_WITHOUT_DOUBT: u64 = 20;
const MIN_TIMES_WITHOUT_DOUBT: u64 = 3;

/// A quantile is given of so many latencies.
const MIN_FOR_P99: u64 = 100;

/// Behind what time was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A program; the victim itself for other classes of its own I/O.
    Program(Program),
    /// The victim's own I/Os of the same class.
    OwnQueue,
    /// Held above the driver.
    Held,
    /// The device itself.
    Device,
    /// Pages that the memory limit of the control group had evicted.
    MemoryLimit,
    /// I/Os are missing, or the wait began too long ago.
    NotKnown,
}

/// A device and what is known of it.
pub(super) struct Place<'a> {
    dev: DevId,
    felt: &'a DeviceFelt,
    detail: Option<&'a DeviceDetail>,
    scene: &'a Scene<'a>,
    min_lost_ns: i64,
    /// For whom the journal's thread commits.
    committer: Option<Program>,
}

/// What explains a story: its mechanism, the pairs of its culprits, and the time lost.
struct Explained<'a> {
    kind: StoryKind,
    pairs: Vec<&'a Pair>,
    ns: i64,
    delayed_ios: u64,
    worst: WorstWait,
}

impl Explained<'_> {
    /// What of it passed by the clock. Parts that two programs cost one after the other add up.
    fn by_clock_ns(&self) -> i64 {
        self.pairs.iter().map(|pair| pair.by_clock_ns).sum()
    }

    /// The device itself took `ns` of what was lost.
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

    /// The story of what one victim lost, if it lost enough and it is known to what.
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

    /// Whether the victim felt it, and lost enough to it.
    fn is_worth_a_story(&self, effect: &Effect, explained: &Explained) -> bool {
        let is_long = explained.worst.excess_ns() >= LONG_DELAY_NS;
        let is_felt_by_few =
            explained.delayed_ios >= FEW_DELAYED_IOS && explained.ns >= LONG_DELAY_NS;
        let is_felt = explained.delayed_ios >= MIN_DELAYED_IOS || is_long || is_felt_by_few;
        let is_enough = self.matters(effect, explained.ns)
            || explained.pairs.iter().any(|p| self.matters_in_interval(p));
        is_felt && is_enough
    }

    /// `effect` with what was waited behind the journal's thread counted for the program for which it commits.
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

    /// Whether what was lost behind a program in its worst interval would be a story of that interval: then it is one of the day,
    /// too, in which the victim has far more I/O time.
    fn matters_in_interval(&self, pair: &Pair) -> bool {
        let worst = &pair.worst_interval;
        let is_longer = self.scene.window.len_ns() > INTERVAL_NS;
        is_longer && self.is_enough(worst.ns, worst.io_time_ns)
    }

    /// Whether a program that lost so much of so much I/O time is a victim.
    pub fn is_enough(&self, lost_ns: i64, io_time_ns: i64) -> bool {
        is_much(lost_ns, io_time_ns, self.min_lost_ns)
    }

    /// One process that explains it.
    fn by_one<'e>(&self, effect: &'e Effect) -> Option<Explained<'e>> {
        let explained = self.by_programs(effect, &self.pairs_of_others(effect))?;
        (explained.pairs.len() == 1).then_some(explained)
    }

    fn explain<'e>(&self, effect: &'e Effect) -> Option<Explained<'e>> {
        let pairs = self.pairs_of_others(effect);
        if let Some(explained) = self.by_programs(effect, &pairs) {
            return Some(explained);
        }
        // What the device took may be too little for a story, and hides no queue then.
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

    /// Those behind which `effect` waited and who are not the victim's own helpers: the journal's commits belong to the
    /// program that syncs.
    fn pairs_of_others<'e>(&self, effect: &'e Effect) -> Vec<&'e Pair> {
        let syncs = self.syncs_of(&effect.victim) > 0;
        let uses_device_above = self.felt.from_above(&effect.victim).next().is_some();
        let mut others = Vec::new();
        for pair in &effect.pairs {
            // Of all for whom there was no place none can be blamed, and the victim may be among them; nor can a program of which
            // neither name nor number is known, but for the kernel's write-back.
            let culprit = &pair.culprit;
            let is_nameless = culprit.comm.is_none() && culprit.tgid.is_none();
            let is_known = *culprit != Program::OTHERS && (!is_nameless || self.is_writeback(pair));
            // What is carried out for a device above and could not be given to a program may be the victim's own.
            let is_own_commit = syncs && is_journal_thread(culprit);
            let may_be_own = is_own_commit || uses_device_above && self.is_for_device_above(pair);
            if is_known && !may_be_own {
                others.push(pair);
            }
        }
        others
    }

    /// Whether most of what was waited behind a culprit is write-back.
    fn is_writeback(&self, pair: &Pair) -> bool {
        self.is_mostly(pair, |origin| origin == Origin::Writeback)
    }

    /// Whether most of what was waited behind a culprit came to be in a way that `is_it` accepts.
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

    /// Whether most of what was waited behind a thread of the kernel is I/O that it carried out for a device above.
    fn is_for_device_above(&self, pair: &Pair) -> bool {
        let thread = pair.culprit.kernel_thread();
        let is_worker = thread.is_some_and(KernelThread::submits_for_others);
        if !is_worker || self.scene.layers.is_empty() {
            return false;
        }
        self.is_mostly(pair, Origin::is_by_submitter)
    }

    /// Syncs that a program asked for, as far as its I/O shows them.
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

    /// One program that explains half of it, or two that do together, or that cost nearly the same. What queues up behind the victim's own I/Os while a
    /// program holds the device is not counted against that program, nor for it.
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

    /// The programs of `pairs` explain it; what `first` among them does is the mechanism.
    fn explained_by<'e>(&self, first: &Pair, pairs: Vec<&'e Pair>) -> Explained<'e> {
        Explained {
            kind: mechanism::of_pair(first, self.felt),
            ns: pairs.iter().map(|p| p.ns).sum(),
            delayed_ios: pairs.iter().map(|p| p.delayed_ios).sum(),
            worst: first.worst,
            pairs,
        }
    }

    /// The device, where it is known how it made I/Os wait.
    fn by_device<'e>(&self, effect: &Effect) -> Option<Explained<'e>> {
        let sums = &effect.sums;
        let time = &sums.time;
        let excess_ns = time.excess_ns();
        // A device that is held at a rate makes a queue: what is waited in it is the limit's doing.
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
            // Beside many short delays, which CPUs or a cache make, one alone can be most of what was lost.
            let is_most = worst_ns as f64 >= MIN_EXPLAINED * rest_ns as f64;
            if worst_ns >= LONG_DELAY_NS && is_most {
                let ns = worst_ns.min(time.device_ns);
                return Some(Explained {
                    delayed_ios: 1,
                    ..Explained::of_device(StoryKind::SlowIo, ns, sums)
                });
            }
        }
        // Shorter holds are the plug of the submitter itself.
        let held_each_ns = time.held_ns / sums.delayed_ios.max(1) as i64;
        let is_most = time.held_ns as f64 >= MIN_EXPLAINED * excess_ns as f64;
        if is_most && held_each_ns >= MIN_HELD_NS {
            return Some(Explained::of_device(StoryKind::Held, time.held_ns, sums));
        }
        None
    }

    /// Whether the CPUs explain a wait: a completion needs one.
    fn is_cpu_short(&self, worst: &WorstWait) -> bool {
        let from_ns = worst.done_ns - worst.latency_ns;
        let shortage = self.scene.host.cpu_shortage(from_ns, worst.done_ns);
        shortage.is_some()
    }

    /// Whether half of a wait lies in pauses of the device that the CPUs do not explain, a quarter in one of them. Beside a single
    /// slow I/O every gap between the others looks like a pause.
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

    /// More in flight than the device serves at once, without anybody else.
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

    /// Whether most of the victim's I/O is write-back, or reads one after the other into the page cache: how much of that is
    /// in flight is the kernel's choice.
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

    /// Several programs that explain it together only.
    fn by_many<'e>(&self, effect: &Effect, pairs: &[&'e Pair]) -> Option<Explained<'e>> {
        let sums = &effect.sums;
        let time = &sums.time;
        let ns: i64 = pairs.iter().map(|p| p.ns).sum();
        let is_most = ns as f64 >= MIN_EXPLAINED * time.excess_ns() as f64;
        let is_much = ns as f64 >= MIN_LOST_TO_MANY * time.total_ns() as f64;
        if pairs.len() < 3 || !is_most || !is_much {
            return None;
        }
        // Of the others together not one could be named beside it.
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

    /// The program that cost most of those that explain half of what the I/Os lost that waited for them. More was lost at other
    /// times, as where CPUs are short or the device is slow all the time, but not to one cause.
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
        let episodes = match first {
            Some(pair) => episodes(&pair.stretches, effect),
            None => episodes(&Stretches::default(), effect),
        };
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
            episodes,
            doubts: self.doubts(effect, explained),
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

    fn doubts(&self, effect: &Effect, explained: &Explained) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        let times = explained.pairs.first().map_or(0, |p| p.stretches.n());
        if explained.delayed_ios < MIN_IOS_WITHOUT_DOUBT && times < MIN_TIMES_WITHOUT_DOUBT {
            doubts.push(Doubt::FewIos);
        }
        if self.scene.has_losses && is_much_unknown(&effect.sums.time) {
            doubts.push(Doubt::LostIos);
        }
        doubts
    }
}

/// Whether much of what was lost has no known cause: where I/Os are missing, one of them can be it.
pub(super) fn is_much_unknown(time: &OwnedTime) -> bool {
    time.unknown_ns as f64 >= MUCH_UNKNOWN * time.excess_ns() as f64
}

/// `effect` with the processes of one name in one control group as one culprit, as when a script calls a program again and
/// again. Those of the victim's own name stay apart: they are its siblings.
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

/// The program for which the journal's thread commits what no process was seen to wait for, as when a commit begins because the
/// journal is full: what it holds is of the program that dirties pages and has commits made, if there is one.
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

/// I/Os in flight, in the mean from the first to the last.
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

/// All of the excess, the largest part first.
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

/// Whether a program is a thread of the kernel: it works for others, and none of its waits is its own.
pub(super) fn is_kernel_thread(program: &Program) -> bool {
    program.kernel_thread().is_some()
}

/// Whether a story can be about what a program lost. A `sync` waits for what others wrote: that is all it is for.
fn can_be_victim(program: &Program) -> bool {
    let is_sync = program.comm.is_some_and(|comm| comm.as_bytes() == b"sync");
    *program != Program::OTHERS && !is_kernel_thread(program) && !is_sync
}

/// Whether a program that lost so much of its I/O time, some of it behind others or to the device, is likely the victim of a
/// story. It costs little to ask, and says when a closer look is worth it; what queues behind its own I/Os is not counted.
pub fn is_likely_victim(program: &Program, time: &OwnedTime) -> bool {
    let lost_ns = time.lost_ns() - time.own_ns;
    can_be_victim(program) && is_much(lost_ns, time.total_ns(), MIN_LOST_NS)
}

/// Whether so much of so much I/O time is a harm.
fn is_much(lost_ns: i64, io_time_ns: i64, min_lost_ns: i64) -> bool {
    lost_ns >= min_lost_ns && lost_ns as f64 >= MIN_LOST_OF_IO_TIME * io_time_ns as f64
}

/// Whether the programs of `chosen` explain enough of what was lost.
fn explains(chosen: &[&Pair], excess_ns: i64) -> bool {
    let ns: i64 = chosen.iter().map(|p| p.ns).sum();
    let own_ns: i64 = chosen.iter().map(|p| p.own_ns).sum();
    // What queued up behind the victim's own I/Os meanwhile counts neither for them nor against them.
    let rest_ns = (excess_ns - own_ns).max(ns);
    ns as f64 >= MIN_EXPLAINED * rest_ns as f64
        && ns as f64 >= MIN_EXPLAINED / 2.0 * excess_ns as f64
}

fn is_journal_thread(program: &Program) -> bool {
    program.kernel_thread() == Some(KernelThread::Journal)
}
