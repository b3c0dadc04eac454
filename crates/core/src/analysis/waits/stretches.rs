//! Stretches of time in which something goes on: how many, how long, how much in each, and whether they come back at one pace.

use crate::analysis::math::stats::{Shuffler, median};

/// Events at least this far apart belong to separate stretches.
const GAP_NS: i64 = 100_000_000;

/// Sample size for stretches and for the times between their starts.
const KEPT: usize = 128;

/// Number of largest stretches that are kept, and how many of them [`Stretches::largest`] returns.
const KEPT_LARGEST: usize = 32;
const LARGEST: usize = 8;

/// Minimum number of stretches for a period.
pub const MIN_FOR_PERIOD: u64 = 5;

/// For a period, this share of the times between starts must be within [`PERIOD_TOLERANCE`] of the period or of a
/// multiple of it.
const PERIOD_SHARE: f64 = 0.8;
const PERIOD_TOLERANCE: f64 = 0.15;

/// A stretch of time with activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stretch {
    /// Start of its first event.
    pub from_ns: i64,
    /// End of its last event.
    pub to_ns: i64,
    /// Nanoseconds lost or bytes moved in it.
    pub amount: i64,
    /// Number of I/Os in it.
    pub ios: u64,
}

/// Accumulates stretches. Memory is bounded: a random sample and the largest stretches are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretches {
    n: u64,
    open: Option<Stretch>,
    first_ns: i64,
    largest: Vec<Stretch>,
    sample: Vec<Stretch>,
    /// Times between starts.
    steps: Vec<i64>,
    random: Shuffler,
}

impl Default for Stretches {
    fn default() -> Stretches {
        Stretches {
            n: 0,
            open: None,
            first_ns: 0,
            largest: Vec::new(),
            sample: Vec::new(),
            steps: Vec::new(),
            random: Shuffler::new(1),
        }
    }
}

impl Stretches {
    /// Adds activity from `from_ns` to `to_ns`. Ends must not decrease from call to call.
    pub fn push(&mut self, from_ns: i64, to_ns: i64, amount: i64, ios: u64) {
        if let Some(open) = &mut self.open
            && from_ns <= open.to_ns + GAP_NS
        {
            open.from_ns = open.from_ns.min(from_ns);
            open.to_ns = open.to_ns.max(to_ns);
            open.amount += amount;
            open.ios += ios;
            return;
        }
        let next = Stretch {
            from_ns,
            to_ns,
            amount,
            ios,
        };
        match self.open.replace(next) {
            Some(before) => {
                self.close(before);
                self.keep_step(from_ns - before.from_ns);
            }
            None => self.first_ns = from_ns,
        }
        self.n += 1;
    }

    fn close(&mut self, stretch: Stretch) {
        keep_in_sample(&mut self.sample, self.n, &mut self.random, stretch);
        self.largest.push(stretch);
        if self.largest.len() > 2 * KEPT_LARGEST {
            self.keep_largest(KEPT_LARGEST);
        }
    }

    fn keep_largest(&mut self, n: usize) {
        self.largest
            .sort_by_key(|s| (std::cmp::Reverse(s.amount), s.from_ns));
        self.largest.truncate(n);
    }

    fn keep_step(&mut self, step_ns: i64) {
        keep_in_sample(&mut self.steps, self.n, &mut self.random, step_ns);
    }

    /// Adds the stretches of another process. Stretches that meet become one if both sides still have all of theirs;
    /// otherwise each counts separately.
    pub fn merge(&mut self, other: &Stretches) {
        if other.n == 0 {
            return;
        }
        if self.n == 0 {
            *self = other.clone();
            return;
        }
        if self.is_whole() && other.is_whole() {
            let mut all: Vec<Stretch> = self.all().chain(other.all()).copied().collect();
            all.sort_by_key(|s| s.from_ns);
            *self = Stretches::default();
            for stretch in all {
                self.push(stretch.from_ns, stretch.to_ns, stretch.amount, stretch.ios);
            }
            return;
        }
        for stretch in self.open.take().into_iter().chain(other.open) {
            self.close(stretch);
        }
        self.largest.extend(&other.largest);
        self.keep_largest(KEPT_LARGEST);
        self.sample.extend(&other.sample);
        self.sample.truncate(KEPT);
        self.steps.extend(&other.steps);
        self.steps.truncate(KEPT);
        self.n += other.n;
        self.first_ns = self.first_ns.min(other.first_ns);
    }

    /// Whether the sample still contains every stretch.
    fn is_whole(&self) -> bool {
        self.all().count() as u64 == self.n
    }

    /// Number of stretches.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The largest stretches in order of time.
    pub fn largest(&self) -> Vec<Stretch> {
        let mut all = self.clone();
        all.largest.extend(all.open);
        all.keep_largest(LARGEST);
        all.largest.sort_by_key(|s| s.from_ns);
        all.largest
    }

    /// The largest kept stretch that overlaps `from_ns..to_ns`.
    pub fn at(&self, from_ns: i64, to_ns: i64) -> Option<Stretch> {
        let kept = self.all().chain(&self.largest);
        let met = kept.filter(|s| s.from_ns <= to_ns && from_ns <= s.to_ns);
        met.max_by_key(|s| s.amount).copied()
    }

    /// Start of the first stretch.
    pub fn first_ns(&self) -> Option<i64> {
        (self.n > 0).then_some(self.first_ns)
    }

    /// End of the last stretch.
    pub fn last_ns(&self) -> Option<i64> {
        let closed = self.sample.iter().chain(&self.largest);
        closed.chain(&self.open).map(|s| s.to_ns).max()
    }

    fn all(&self) -> impl Iterator<Item = &Stretch> {
        self.sample.iter().chain(&self.open)
    }

    /// The sampled stretches in order of time, without small ones: each has at least half of the median amount.
    fn typical(&self) -> Vec<Stretch> {
        let mut amounts: Vec<f64> = self.all().map(|s| s.amount as f64).collect();
        let least = median(&mut amounts).unwrap_or(0.0) / 2.0;
        let mut typical: Vec<Stretch> = self.all().copied().collect();
        typical.retain(|s| s.amount as f64 >= least);
        typical.sort_by_key(|s| s.from_ns);
        typical
    }

    /// Number of stretches of typical size; estimated from the sample if not all stretches are kept.
    pub fn typical_n(&self) -> u64 {
        let share = self.typical().len() as f64 / self.all().count().max(1) as f64;
        (self.n as f64 * share).round() as u64
    }

    /// The stretch of typical size, if it is the only one.
    pub fn only_typical(&self) -> Option<Stretch> {
        match self.typical()[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Median amount of a typical stretch.
    pub fn median_amount(&self) -> Option<f64> {
        let typical = self.typical();
        let mut amounts: Vec<f64> = typical.iter().map(|s| s.amount as f64).collect();
        median(&mut amounts)
    }

    /// Median duration of a typical stretch.
    pub fn median_len_ns(&self) -> Option<f64> {
        let typical = self.typical();
        let mut lengths: Vec<f64> = typical
            .iter()
            .map(|s| (s.to_ns - s.from_ns) as f64)
            .collect();
        median(&mut lengths)
    }

    /// Times between starts. Small stretches count only if not all stretches are kept.
    fn steps_ns(&self) -> Vec<f64> {
        if !self.is_whole() {
            return self.steps.iter().map(|s| *s as f64).collect();
        }
        let typical = self.typical();
        let pairs = typical.windows(2);
        pairs
            .map(|pair| (pair[1].from_ns - pair[0].from_ns) as f64)
            .collect()
    }

    /// The period in nanoseconds, if the stretches are periodic; a few of them may be missing.
    pub fn period_ns(&self) -> Option<f64> {
        if self.typical_n() < MIN_FOR_PERIOD {
            return None;
        }
        let mut steps = self.steps_ns();
        let period = median(&mut steps)?;
        let mut in_step = 0;
        for step in &steps {
            let beats = (step / period).round().max(1.0);
            if (step / beats / period - 1.0).abs() <= PERIOD_TOLERANCE {
                in_step += 1;
            }
        }
        (f64::from(in_step) >= PERIOD_SHARE * steps.len() as f64).then_some(period)
    }
}

/// Keeps each of the `seen` values with the same probability.
fn keep_in_sample<T>(sample: &mut Vec<T>, seen: u64, random: &mut Shuffler, value: T) {
    if sample.len() < KEPT {
        sample.push(value);
        return;
    }
    let place = random.below(seen.max(1)) as usize;
    if let Some(slot) = sample.get_mut(place) {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn every(period_ms: i64, n: i64, jitter_ms: impl Fn(i64) -> i64) -> Stretches {
        let mut stretches = Stretches::default();
        for i in 0..n {
            let from_ns = (i * period_ms + jitter_ms(i)) * MS;
            for k in 0..5 {
                let at_ns = from_ns + k * 10 * MS;
                stretches.push(at_ns, at_ns + 20 * MS, 100, 1);
            }
        }
        stretches
    }

    #[test]
    fn what_is_close_together_is_one_stretch() {
        let stretches = every(1000, 10, |_| 0);
        assert_eq!(stretches.n(), 10);
        assert_eq!(stretches.median_amount(), Some(500.0));
        assert_eq!(stretches.median_len_ns(), Some(60e6));
        assert_eq!(stretches.first_ns(), Some(0));
        assert_eq!(stretches.last_ns(), Some(9060 * MS));
        assert_eq!(stretches.largest().len(), LARGEST);
    }

    #[test]
    fn a_period_is_told_from_five_stretches_on() {
        assert_eq!(every(1000, 4, |_| 0).period_ns(), None);
        assert_eq!(every(1000, 5, |_| 0).period_ns(), Some(1e9));
    }

    #[test]
    fn a_period_is_known_of_a_thousand_stretches_in_bounded_memory() {
        let stretches = every(2400, 1000, |i| i * 7919 % 100);
        let period_ns = stretches.period_ns().expect("a period");
        assert!((period_ns / 2.4e9 - 1.0).abs() < 0.02, "{period_ns}");
        assert_eq!(stretches.steps.len(), KEPT);
        assert_eq!(stretches.n(), 1000);
    }

    #[test]
    fn small_stretches_between_others_do_not_count() {
        let mut stretches = Stretches::default();
        for i in 0..6 {
            let from_ns = 2400 * i * MS;
            stretches.push(from_ns, from_ns + 60 * MS, 134_000_000, 128);
            if i % 2 == 0 {
                stretches.push(from_ns + 700 * MS, from_ns + 701 * MS, 4096, 1);
            }
        }
        assert_eq!(stretches.n(), 9);
        assert_eq!(stretches.typical_n(), 6);
        assert_eq!(stretches.median_amount(), Some(134e6));
        assert_eq!(stretches.median_len_ns(), Some(60e6));
        assert_eq!(stretches.period_ns(), Some(2.4e9));
    }

    #[test]
    fn one_stretch_of_typical_size_keeps_its_own_span_beside_a_smaller_one() {
        let mut stretches = Stretches::default();
        stretches.push(0, 382 * MS, 734_000_000, 700);
        let large = Stretch {
            from_ns: 0,
            to_ns: 382 * MS,
            amount: 734_000_000,
            ios: 700,
        };
        assert_eq!(stretches.only_typical(), Some(large));
        stretches.push(4300 * MS, 4411 * MS, 157_000_000, 150);
        assert_eq!(stretches.typical_n(), 1);
        assert_eq!(stretches.only_typical(), Some(large));
        assert_eq!(stretches.last_ns(), Some(4411 * MS));
        stretches.push(9000 * MS, 9400 * MS, 700_000_000, 700);
        assert_eq!(stretches.typical_n(), 2);
        assert_eq!(stretches.only_typical(), None);
    }

    #[test]
    fn stretches_of_two_processes_that_meet_become_one() {
        let mut one = every(1000, 10, |_| 0);
        one.merge(&every(1000, 10, |_| 30));
        assert_eq!(one.n(), 10);
        assert_eq!(one.median_amount(), Some(1000.0));
        assert_eq!(one.period_ns(), Some(1e9));
    }

    #[test]
    fn stretches_at_random_have_no_period() {
        let mut random = Shuffler::new(3);
        let mut stretches = Stretches::default();
        let mut at_ns = 0;
        for _ in 0..200 {
            at_ns += 200 * MS + random.below(5000) as i64 * MS;
            stretches.push(at_ns, at_ns + MS, 1, 1);
        }
        assert_eq!(stretches.period_ns(), None);
    }
}
