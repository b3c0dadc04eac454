//! What an I/O of a kind takes when nothing disturbs it, learned while the stream runs.

use crate::analysis::math::stats::Shuffler;
use crate::model::{Class, Io};

/// Values kept of each distribution.
const SAMPLE: usize = 256;

/// After so many values new ones replace old ones at a constant rate: the sample forgets.
const MEMORY: u64 = 1 << 16;

/// So many I/Os of a kind that found the device empty show its undisturbed latency; with fewer, a low percentile of all of them
/// must do.
const MIN_FIRST: usize = 8;

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

/// A random sample of a distribution that changes slowly, and what is made of it.
#[derive(Debug)]
struct KeptSample<T> {
    values: Vec<T>,
    seen: u64,
    random: Shuffler,
    /// Values that `made` does not know yet.
    unknown: usize,
    made: f64,
}

impl<T: Copy> KeptSample<T> {
    fn new() -> KeptSample<T> {
        KeptSample {
            values: Vec::new(),
            seen: 0,
            random: Shuffler::new(1),
            unknown: 0,
            made: 0.0,
        }
    }

    /// Whether something new is to be made now: up to a sixteenth of the values are late.
    fn is_due(&self) -> bool {
        self.unknown * 16 >= self.values.len()
    }

    fn push(&mut self, value: T) {
        self.seen += 1;
        if self.values.len() < SAMPLE {
            self.values.push(value);
            self.unknown += 1;
            return;
        }
        // Algorithm R, but with a bound on what was seen: a value that is in the sample leaves it after some MEMORY others.
        // The remainder by a constant takes no division, and nearly always it is that one.
        let random = self.random.bits();
        let place = if self.seen >= MEMORY {
            random % MEMORY
        } else {
            random % self.seen
        };
        if let Some(slot) = self.values.get_mut(place as usize) {
            *slot = value;
            self.unknown += 1;
        }
    }

    /// What `make` makes of the values, up to a sixteenth of them late.
    fn made(&mut self, make: impl FnOnce(&[T]) -> f64) -> Option<f64> {
        if self.values.is_empty() {
            return None;
        }
        if self.is_due() {
            self.made = make(&self.values);
            self.unknown = 0;
        }
        Some(self.made)
    }
}

/// The quantile `at` by nearest rank; 0 of nothing.
fn quantile(values: impl Iterator<Item = f64>, at: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    let rank = (at * values.len() as f64).ceil() as usize;
    let Some(last) = values.len().checked_sub(1) else {
        return 0.0;
    };
    let place = rank.saturating_sub(1).min(last);
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// What an I/O took that found the device empty.
#[derive(Debug, Clone, Copy)]
struct FirstIo {
    /// To its end, whatever came meanwhile.
    whole: f64,
    /// Until something came beside it; the same if nothing did.
    alone: f64,
}

impl FirstIo {
    fn was_joined(&self) -> bool {
        self.alone < self.whole
    }
}

/// The median of what I/Os take that have the device to themselves. What came beside one may have slowed it: of that one it is known
/// only that alone it would have taken longer than until then. Left out, the short ones would remain, so it counts as censored (Kaplan
/// and Meier 1958). Where nearly all were joined that median is not reached, or hangs on a few: the median of what they took,
/// slowed or not, bounds it.
fn undisturbed_median(first: &[FirstIo]) -> f64 {
    let bound = quantile(first.iter().map(|io| io.whole), 0.5);
    let mut sorted = first.to_vec();
    // At one time ends come before what is censored then.
    sorted.sort_unstable_by(|a, b| {
        let by_time = a.alone.total_cmp(&b.alone);
        by_time.then(a.was_joined().cmp(&b.was_joined()))
    });
    let mut lasting = 1.0;
    for (place, io) in sorted.iter().enumerate() {
        if io.was_joined() {
            continue;
        }
        let at_risk = (sorted.len() - place) as f64;
        lasting *= 1.0 - 1.0 / at_risk;
        // Half of an even number, in spite of rounding.
        if lasting <= 0.5 + 1e-9 {
            return io.alone.min(bound);
        }
    }
    bound
}

/// What a completed I/O shows of the levels of its kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observed {
    pub latency_ns: i64,
    pub device_ns: i64,
    /// Its share of the device: the integral of one over the number in the device, over its time there.
    pub share_ns: f64,
    /// For how long from its issue on it had the device to itself; `None` if something was there when it came.
    pub alone_ns: Option<i64>,
    /// How many others were in the device when it came there.
    pub found: u32,
}

/// The levels of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Start to completion when nothing else was there.
    pub undisturbed_ns: i64,
    /// Work of an I/O on a device that serves one after the other: at most [`Level::MAX_CREDITS`] times this.
    pub usual_credit_ns: f64,
    /// Work of an I/O on a device that serves all side by side.
    pub side_work_ns: f64,
}

impl Level {
    /// A credit beyond so many usual ones is no work of the I/O: the device paused.
    pub const MAX_CREDITS: f64 = 3.0;
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
        if self.ios.len() < MIN_FIRST {
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
        if self.ios.len() < MIN_FIRST {
            return None;
        }
        let mut latencies: Vec<i64> = self.ios.iter().map(|io| io.2).collect();
        latencies.sort_unstable();
        Some(latencies[MIN_FIRST / 2 - 1] as f64)
    }
}

/// Values of all I/Os of a kind, and of those that found the device empty, which are asked once there are enough.
#[derive(Debug)]
struct LevelSamples {
    first: KeptSample<FirstIo>,
    all: KeptSample<f64>,
    /// The quantile of all that is asked for while too few found the device empty.
    of_all: f64,
}

impl LevelSamples {
    fn new(of_all: f64) -> LevelSamples {
        LevelSamples {
            first: KeptSample::new(),
            all: KeptSample::new(),
            of_all,
        }
    }

    fn push(&mut self, value: f64, first: Option<FirstIo>) {
        if let Some(first) = first {
            self.first.push(first);
        }
        // From then on all are never asked again.
        if !self.has_enough_first() {
            self.all.push(value);
        }
    }

    fn has_enough_first(&self) -> bool {
        self.first.values.len() >= MIN_FIRST
    }

    fn is_due(&self) -> bool {
        if self.has_enough_first() {
            self.first.is_due()
        } else {
            self.all.is_due()
        }
    }

    /// The level of those that have the device to themselves.
    fn level(&mut self) -> Option<f64> {
        if self.has_enough_first() {
            return self.first.made(undisturbed_median);
        }
        let at = self.of_all;
        self.all.made(|values| quantile(values.iter().copied(), at))
    }
}

#[derive(Debug)]
struct KindLevels {
    least_queued: LeastQueued,
    latency: LevelSamples,
    credit: LevelSamples,
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
            work: LevelSamples::new(0.5),
            known: None,
        }
    }

    fn push(&mut self, observed: &Observed) {
        let latency_ns = observed.latency_ns as f64;
        let device_ns = observed.device_ns as f64;
        let alone_ns = observed.alone_ns.map(|ns| ns as f64);
        // What it waited above the device it waited alone.
        let queue_ns = latency_ns - device_ns;
        let first = alone_ns.map(|ns| FirstIo {
            whole: latency_ns,
            alone: (queue_ns + ns).min(latency_ns),
        });
        self.latency.push(latency_ns, first);
        let first = alone_ns.map(|ns| FirstIo {
            whole: observed.share_ns,
            alone: ns.min(observed.share_ns),
        });
        self.work.push(observed.share_ns, first);
        let is_bound = !self.latency.has_enough_first()
            && self.least_queued.push(observed.found, observed.latency_ns);
        if is_bound || self.latency.is_due() || self.work.is_due() {
            self.known = None;
        }
    }

    fn push_credit(&mut self, credit_ns: f64, alone_ns: Option<i64>) {
        let first = alone_ns.map(|ns| FirstIo {
            whole: credit_ns,
            alone: credit_ns.min(ns as f64),
        });
        self.credit.push(credit_ns, first);
        if self.credit.is_due() {
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
        let mut undisturbed_ns = self.latency.level().unwrap_or(0.0);
        let bound_ns = self.least_queued.median();
        if let Some(bound_ns) = bound_ns.filter(|_| !self.latency.has_enough_first()) {
            undisturbed_ns = undisturbed_ns.min(bound_ns);
        }
        Level {
            undisturbed_ns: undisturbed_ns as i64,
            usual_credit_ns: self.credit.level().unwrap_or(0.0),
            side_work_ns: self.work.level().unwrap_or(0.0).max(1.0),
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
    /// after sharing among those that one interrupt reported. `alone_ns` is that of [`Observed`].
    pub fn observe_credit(&mut self, kind: usize, credit_ns: f64, alone_ns: Option<i64>) {
        if credit_ns <= 0.0 {
            return;
        }
        self.kind(kind).push_credit(credit_ns, alone_ns);
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
            alone_ns: is_alone.then_some(latency_ns),
            found: u32::from(!is_alone),
        }
    }

    #[test]
    fn the_undisturbed_level_is_the_median_of_ios_that_found_the_device_empty() {
        let mut levels = Levels::new();
        for i in 0..1000 {
            levels.observe(0, &observed(50_000, false));
            if i % 10 == 0 {
                levels.observe(0, &observed(1000 + i, true));
            }
        }
        let level = levels.of(0);
        assert!((1400..1600).contains(&level.undisturbed_ns), "{level:?}");
    }

    /// Found the device empty; something came beside it after `joined_ns`.
    fn joined(latency_ns: i64, joined_ns: i64) -> Observed {
        Observed {
            alone_ns: Some(joined_ns.min(latency_ns)),
            found: 0,
            ..observed(latency_ns, true)
        }
    }

    #[test]
    fn what_is_alone_to_the_end_is_short_and_does_not_stand_for_all() {
        // Alone they take 10 to 50 us. Something comes after 0 to 60 us, and triples what is left.
        let mut random = Shuffler::new(3);
        let mut levels = Levels::new();
        for _ in 0..50_000 {
            let alone_ns = 10_000 + random.below(40_000) as i64;
            let joined_ns = random.below(60_000) as i64;
            let slowed_ns = (alone_ns - joined_ns).max(0) * 2;
            levels.observe(0, &joined(alone_ns + slowed_ns, joined_ns));
        }
        let level = levels.of(0);
        // The median of those that stay alone is 25 us, that of all 44 us.
        assert!(
            (27_000..34_000).contains(&level.undisturbed_ns),
            "{level:?}"
        );
    }

    #[test]
    fn where_nearly_all_are_joined_what_they_took_bounds_the_level() {
        let mut levels = Levels::new();
        for i in 0..10_000 {
            let latency_ns = 30_000 + i % 1000;
            // One in fifty takes a fifth of that, and is over before something comes.
            let latency_ns = if i % 50 == 0 { 6000 } else { latency_ns };
            levels.observe(0, &joined(latency_ns, 12_000));
        }
        let level = levels.of(0);
        assert!(
            (30_000..31_000).contains(&level.undisturbed_ns),
            "{level:?}"
        );
    }

    #[test]
    fn without_undisturbed_ios_a_low_percentile_bounds_the_level() {
        let mut levels = Levels::new();
        for i in 0..10_000 {
            levels.observe(0, &observed(1000 + i, false));
        }
        let level = levels.of(0);
        assert!((1000..2500).contains(&level.undisturbed_ns), "{level:?}");
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
        for found in 0..MIN_FIRST as u32 {
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
