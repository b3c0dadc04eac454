//! What an I/O of a kind takes when nothing disturbs it, learned while the stream runs.

use super::first_ios::{Alone, FirstIo, FirstIos};
use super::kept_sample::{KeptSample, MEMORY};
use crate::analysis::math::stats::nearest_rank;
use crate::model::{Class, Io};

/// So many I/Os of a kind that had the device to themselves show its undisturbed latency; with fewer, a low percentile of all of them
/// must do.
const MIN_ALONE: usize = 8;

/// That percentile. Under constant load the undisturbed level is never seen: this is above it, and what is attributed
/// then is a lower bound. The I/Os that found the fewest others in the device bound it, too: where a queue builds up and
/// stays, they are less than that share of all.
const LOW_PERCENTILE: f64 = 0.02;

/// Kinds: 4 classes, and sizes by powers of two from at most 512 bytes up.
pub(super) const SIZES: usize = 24;
pub(super) const KINDS: usize = 4 * SIZES;

/// The kind of an I/O of so many bytes.
pub(super) fn kind_of(class: Class, bytes: i64) -> usize {
    let sectors = (bytes.max(512) / 512) as u64;
    let octave = (sectors.ilog2() as usize).min(SIZES - 1);
    class as usize * SIZES + octave
}

/// The class of a kind.
pub(super) fn class_of(kind: usize) -> Class {
    Class::ALL[kind / SIZES]
}

/// What a completed I/O shows of the levels of its kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observed {
    pub latency_ns: i64,
    pub device_ns: i64,
    /// Its share of the device: the integral of one over the number in the device, over its time there.
    pub share_ns: f64,
    /// `None` if something was in the device when it came.
    pub alone: Option<Alone>,
    /// How many others were in the device when it came there.
    pub found: u32,
}

/// The levels of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Start to completion when nothing else was there.
    pub undisturbed_ns: i64,
    /// Too few had the device to themselves: what they take undisturbed may be far less.
    pub is_bound: bool,
    /// Work of an I/O on a device that serves one after the other is its credit, at most this: [`Level::MAX_CREDITS`] times the usual
    /// one, or that of late.
    pub most_work_ns: f64,
    /// Work of an I/O on a device that serves all side by side.
    pub side_work_ns: f64,
}

impl Level {
    /// A credit beyond so many usual ones is no work of the I/O: the device paused.
    const MAX_CREDITS: f64 = 3.0;
}

/// The latencies of the I/Os that found the fewest others in the device.
#[derive(Debug, Default)]
struct LeastQueued {
    /// How many it found, its number, its latency.
    ios: Vec<(u32, u64, i64)>,
    seen: u64,
    /// An I/O that found more than this is none of them, until the I/O of number `oldest` is too old.
    most_found: u32,
    oldest: u64,
}

impl LeastQueued {
    /// Takes an I/O, and says whether it is one of them now.
    fn push(&mut self, found: u32, latency_ns: i64) -> bool {
        self.seen += 1;
        let io = (found, self.seen, latency_ns);
        if self.ios.len() < MIN_ALONE {
            self.ios.push(io);
            return true;
        }
        let oldest = self.seen.saturating_sub(MEMORY);
        // Most I/Os under load end here.
        if found > self.most_found && oldest < self.oldest {
            return false;
        }
        // One that is too old gives way first, then the one that found most; of equals the oldest.
        let last = self
            .ios
            .iter_mut()
            .max_by_key(|io| (io.1 <= oldest, io.0, std::cmp::Reverse(io.1)));
        let Some(last) = last else {
            return false;
        };
        let is_kept = last.1 <= oldest || found <= last.0;
        if is_kept {
            *last = io;
        }
        self.most_found = self.ios.iter().map(|io| io.0).max().unwrap_or(0);
        self.oldest = self.ios.iter().map(|io| io.1).min().unwrap_or(0);
        is_kept
    }

    /// Their median, once there are enough.
    fn median(&self) -> Option<f64> {
        if self.ios.len() < MIN_ALONE {
            return None;
        }
        let mut latencies: Vec<i64> = self.ios.iter().map(|io| io.2).collect();
        latencies.sort_unstable();
        Some(latencies[MIN_ALONE / 2 - 1] as f64)
    }
}

/// Values of all I/Os of a kind, and of those that found the device empty, which are asked once enough were alone.
#[derive(Debug)]
struct LevelSamples {
    first: FirstIos,
    all: KeptSample<f64>,
    /// The quantile of all that is asked for until then, and what it was last.
    at: f64,
    of_all: f64,
}

impl LevelSamples {
    fn new(at: f64) -> LevelSamples {
        LevelSamples {
            first: FirstIos::new(),
            all: KeptSample::new(),
            at,
            of_all: 0.0,
        }
    }

    fn push(&mut self, value: f64, first: Option<FirstIo>) {
        if let Some(first) = first {
            self.first.push(first);
        }
        // From then on all are never asked again.
        if !self.has_enough_alone() {
            self.all.push(value);
        }
    }

    fn has_enough_alone(&self) -> bool {
        self.first.n_alone_kept() >= MIN_ALONE
    }

    fn is_due(&self) -> bool {
        if self.has_enough_alone() {
            self.first.is_due()
        } else {
            self.all.is_due()
        }
    }

    /// The level of those that have the device to themselves, up to a sixteenth of the values late; 0 if there are none.
    fn level(&mut self) -> f64 {
        if self.has_enough_alone() {
            return self.first.median();
        }
        if self.all.is_due() {
            self.all.was_used();
            let mut values = self.all.values().to_vec();
            self.of_all = nearest_rank(&mut values, self.at).unwrap_or(0.0);
        }
        self.of_all
    }
}

/// The last credits. A device that pauses has one that is long, or a batch; where most are, it has become slower, as a volume does
/// whose burst is used up: then each of them is work.
#[derive(Debug, Default)]
struct LateCredits {
    ns: [f64; LATE_CREDITS],
    seen: usize,
    median: f64,
}

const LATE_CREDITS: usize = 16;

impl LateCredits {
    /// Takes the next credit, and says whether the median may have changed: it is up to half of them late.
    fn push(&mut self, credit_ns: f64) -> bool {
        self.ns[self.seen % LATE_CREDITS] = credit_ns;
        self.seen += 1;
        let is_due = self.seen >= LATE_CREDITS && self.seen.is_multiple_of(LATE_CREDITS / 2);
        if is_due {
            let mut values = self.ns;
            self.median = nearest_rank(&mut values, 0.5).unwrap_or(0.0);
        }
        is_due
    }
}

#[derive(Debug)]
struct KindLevels {
    least_queued: LeastQueued,
    latency: LevelSamples,
    credit: LevelSamples,
    late_credits: LateCredits,
    /// Their shares of the device.
    work: LevelSamples,
    /// What was found last, until a value is due that may change it.
    known: Option<Level>,
}

impl KindLevels {
    fn new() -> KindLevels {
        KindLevels {
            least_queued: LeastQueued::default(),
            latency: LevelSamples::new(LOW_PERCENTILE),
            credit: LevelSamples::new(0.5),
            late_credits: LateCredits::default(),
            work: LevelSamples::new(0.5),
            known: None,
        }
    }

    fn push(&mut self, observed: &Observed) {
        let latency_ns = observed.latency_ns as f64;
        let device_ns = observed.device_ns as f64;
        let alone = observed.alone.as_ref();
        // What it waited above the device it waited alone.
        let queue_ns = latency_ns - device_ns;
        let first = alone.map(|alone| FirstIo::new(latency_ns, queue_ns, alone));
        self.latency.push(latency_ns, first);
        let share_ns = observed.share_ns;
        let first = alone.map(|alone| FirstIo::new(share_ns, 0.0, alone));
        self.work.push(share_ns, first);
        let is_bound = !self.latency.has_enough_alone()
            && self.least_queued.push(observed.found, observed.latency_ns);
        if is_bound || self.latency.is_due() || self.work.is_due() {
            self.known = None;
        }
    }

    fn push_credit(&mut self, credit_ns: f64, alone: Option<&Alone>) {
        let first = alone.map(|alone| FirstIo::new(credit_ns, 0.0, alone));
        self.credit.push(credit_ns, first);
        if self.credit.is_due() {
            self.known = None;
        }
    }

    fn push_late_credit(&mut self, credit_ns: f64) {
        if self.late_credits.push(credit_ns) {
            self.known = None;
        }
    }

    /// What is known by now. Between two values that are due it does not change, so it is found once.
    fn level(&mut self) -> Level {
        if let Some(known) = self.known {
            return known;
        }
        let level = self.find_level();
        self.known = Some(level);
        level
    }

    fn find_level(&mut self) -> Level {
        let is_bound = !self.latency.has_enough_alone();
        let mut undisturbed_ns = self.latency.level();
        if is_bound && let Some(bound_ns) = self.least_queued.median() {
            undisturbed_ns = undisturbed_ns.min(bound_ns);
        }
        Level {
            undisturbed_ns: undisturbed_ns as i64,
            is_bound,
            most_work_ns: (Level::MAX_CREDITS * self.credit.level()).max(self.late_credits.median),
            side_work_ns: self.work.level().max(1.0),
        }
    }
}

/// The levels of all kinds of one device.
#[derive(Debug)]
pub(super) struct Levels {
    kinds: Vec<Option<Box<KindLevels>>>,
}

impl Levels {
    pub fn new() -> Levels {
        Levels {
            kinds: std::iter::repeat_with(|| None).take(KINDS).collect(),
        }
    }

    fn kind(&mut self, kind: usize) -> &mut KindLevels {
        self.kinds[kind].get_or_insert_with(|| Box::new(KindLevels::new()))
    }

    pub fn observe(&mut self, kind: usize, observed: &Observed) {
        self.kind(kind).push(observed);
    }

    /// Takes the credit of an I/O: the time between the completion before it, or its issue if that is later, and its own,
    /// after sharing among those that one interrupt reported. `alone` is that of [`Observed`].
    pub fn observe_credit(&mut self, kind: usize, credit_ns: f64, alone: Option<&Alone>) {
        if credit_ns <= 0.0 {
            return;
        }
        self.kind(kind).push_credit(credit_ns, alone);
    }

    /// Takes the credit of an I/O that was reported by itself, for what the last ones were. What shares a batch may have waited out a
    /// pause together.
    pub fn observe_late_credit(&mut self, kind: usize, credit_ns: f64) {
        self.kind(kind).push_late_credit(credit_ns);
    }

    /// What is known of a kind by now.
    pub fn of(&mut self, kind: usize) -> Level {
        self.kind(kind).level()
    }
}

/// The kind of `io`.
pub(super) fn kind_of_io(io: &Io) -> usize {
    kind_of(io.class(), io.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(latency_ns: i64, is_alone: bool) -> Observed {
        Observed {
            latency_ns,
            device_ns: latency_ns,
            share_ns: latency_ns as f64,
            alone: is_alone.then_some(Alone {
                ns: latency_ns,
                was_joined: false,
            }),
            found: u32::from(!is_alone),
        }
    }

    #[test]
    fn the_undisturbed_level_is_the_median_of_ios_that_were_alone() {
        let mut levels = Levels::new();
        for i in 0..1000 {
            levels.observe(0, &observed(50_000, false));
            if i % 10 == 0 {
                levels.observe(0, &observed(1000 + i, true));
            }
        }
        let level = levels.of(0);
        assert!((1400..1600).contains(&level.undisturbed_ns), "{level:?}");
        assert!(!level.is_bound);
    }

    #[test]
    fn without_undisturbed_ios_a_low_percentile_bounds_the_level() {
        let mut levels = Levels::new();
        for i in 0..10_000 {
            levels.observe(0, &observed(1000 + i, false));
        }
        let level = levels.of(0);
        assert!((1000..2500).contains(&level.undisturbed_ns), "{level:?}");
        assert!(level.is_bound);
    }

    #[test]
    fn the_first_of_a_queue_that_stays_bound_the_level() {
        let mut levels = Levels::new();
        // A queue of 24 builds up at once and is kept: the n-th waits for all before it.
        for i in 0..3000 {
            let found = i.min(23);
            let latency_ns = 1000 * (i64::from(found) + 1);
            let io = observed(latency_ns, false);
            levels.observe(0, &Observed { found, ..io });
        }
        assert_eq!(levels.of(0).undisturbed_ns, 4000);
    }

    #[test]
    fn what_found_few_others_long_ago_is_forgotten() {
        let mut levels = Levels::new();
        for found in 0..MIN_ALONE as u32 {
            let io = observed(1000, false);
            levels.observe(0, &Observed { found, ..io });
        }
        for _ in 0..2 * MEMORY {
            let io = observed(9000, false);
            levels.observe(0, &Observed { found: 30, ..io });
        }
        assert_eq!(levels.of(0).undisturbed_ns, 9000);
    }

    #[test]
    fn a_level_follows_a_device_that_changes() {
        let mut levels = Levels::new();
        for _ in 0..100_000 {
            levels.observe(0, &observed(1000, true));
        }
        for _ in 0..100_000 {
            levels.observe(0, &observed(9000, true));
        }
        assert_eq!(levels.of(0).undisturbed_ns, 9000);
    }

    #[test]
    fn kinds_are_classes_and_octaves() {
        assert_eq!(kind_of(Class::Read, 0), kind_of(Class::Read, 512));
        assert_eq!(kind_of(Class::Read, 4096), kind_of(Class::Read, 8191));
        assert_ne!(kind_of(Class::Read, 4096), kind_of(Class::Read, 8192));
        assert_ne!(kind_of(Class::Read, 4096), kind_of(Class::Write, 4096));
        assert!(kind_of(Class::Flush, i64::MAX) < KINDS);
    }
}
