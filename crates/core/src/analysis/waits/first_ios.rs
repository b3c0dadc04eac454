//! What I/Os take that have the device to themselves, learned from those that found it empty.
//!
//! A second I/O may slow down the first. For an I/O that was joined by another it is only known that alone it would
//! have taken longer than the time until then. Dropping these I/Os would bias the sample towards short ones, so they
//! are treated as censored: Kaplan and Meier, *Nonparametric Estimation from Incomplete Observations*, 1958.

use super::kept_sample::{KeptSample, MEMORY};

/// How long an I/O issued to an idle device had the device to itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Alone {
    /// Time from its issue.
    pub ns: i64,
    /// Whether another I/O was issued before it completed.
    pub was_joined: bool,
}

/// The latency of an I/O issued to an idle device.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstIo {
    /// Total latency, whether or not another I/O joined it.
    whole: f64,
    /// Time until another I/O joined it; the total latency if none did.
    alone: f64,
    was_joined: bool,
}

impl FirstIo {
    /// `whole` is the total latency, of which `before` passed before the issue.
    pub fn new(whole: f64, before: f64, alone: &Alone) -> FirstIo {
        let until_joined = (before + alone.ns as f64).min(whole);
        FirstIo {
            whole,
            alone: if alone.was_joined {
                until_joined
            } else {
                whole
            },
            was_joined: alone.was_joined,
        }
    }
}

/// Samples of the I/Os of one kind issued to an idle device. Under load few of them stay alone until they complete, so
/// joined and undisturbed I/Os have separate samples, weighted by how many there were.
#[derive(Debug)]
pub(super) struct FirstIos {
    alone: KeptSample<FirstIo>,
    joined: KeptSample<FirstIo>,
    /// Recent number of each sort.
    n_alone: f64,
    n_joined: f64,
    median: f64,
}

/// A value of a sample and its weight.
#[derive(Debug, Clone, Copy)]
struct Weighted {
    io: FirstIo,
    n: f64,
}

impl FirstIos {
    pub fn new() -> FirstIos {
        FirstIos {
            alone: KeptSample::new(),
            joined: KeptSample::new(),
            n_alone: 0.0,
            n_joined: 0.0,
            median: 0.0,
        }
    }

    pub fn push(&mut self, io: FirstIo) {
        if io.was_joined {
            self.n_joined += 1.0;
            self.joined.push(io);
        } else {
            self.n_alone += 1.0;
            self.alone.push(io);
        }
        // The counts decay as the samples do.
        if self.n_alone + self.n_joined > MEMORY as f64 {
            self.n_alone /= 2.0;
            self.n_joined /= 2.0;
        }
    }

    /// Number of sampled I/Os that stayed alone until they completed.
    pub fn n_alone_kept(&self) -> usize {
        self.alone.values().len()
    }

    pub fn is_due(&self) -> bool {
        self.alone.is_due() || self.joined.is_due()
    }

    /// Median latency when alone; 0 without I/Os. Recomputed when a sixteenth of the sample is new.
    pub fn median(&mut self) -> f64 {
        if self.is_due() {
            self.alone.was_used();
            self.joined.was_used();
            self.median = self.find_median();
        }
        self.median
    }

    /// If fewer than half completed alone before the last one was joined, the median when alone is not known; the
    /// median of the total latencies is then used as an upper bound.
    fn find_median(&self) -> f64 {
        let mut all = Vec::new();
        for (sample, n) in [(&self.alone, self.n_alone), (&self.joined, self.n_joined)] {
            let n = n / sample.values().len().max(1) as f64;
            all.extend(sample.values().iter().map(|io| Weighted { io: *io, n }));
        }
        let n: f64 = all.iter().map(|value| value.n).sum();
        let bound = median_of_whole(&mut all, n);
        // At equal times completions come before censored values.
        all.sort_unstable_by(|a, b| {
            let by_time = a.io.alone.total_cmp(&b.io.alone);
            by_time.then(a.io.was_joined.cmp(&b.io.was_joined))
        });
        let mut at_risk = n;
        let mut lasting = 1.0;
        for value in &all {
            if !value.io.was_joined {
                lasting *= 1.0 - (value.n / at_risk).min(1.0);
                // Half of an even number, tolerating rounding errors.
                if lasting <= 0.5 + 1e-9 {
                    return value.io.alone.min(bound);
                }
            }
            at_risk -= value.n;
        }
        bound
    }
}

/// The weighted median of the total latencies in `all`, whose weights add up to `n`; 0 if empty.
fn median_of_whole(all: &mut [Weighted], n: f64) -> f64 {
    all.sort_unstable_by(|a, b| a.io.whole.total_cmp(&b.io.whole));
    let mut passed = 0.0;
    for value in all.iter() {
        passed += value.n;
        if passed >= n / 2.0 {
            return value.io.whole;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::math::stats::Shuffler;

    /// I/Os that take `alone` if nothing comes, and three times what is left from `joined` on.
    fn median(ios: impl IntoIterator<Item = (f64, f64)>) -> f64 {
        let mut first = FirstIos::new();
        for (alone, joined) in ios {
            let left = (alone - joined).max(0.0);
            let had_it = Alone {
                ns: alone.min(joined) as i64,
                was_joined: joined < alone,
            };
            first.push(FirstIo::new(alone + 2.0 * left, 0.0, &had_it));
        }
        first.median()
    }

    fn random(n: usize, mut each: impl FnMut(&mut Shuffler) -> (f64, f64)) -> Vec<(f64, f64)> {
        let mut random = Shuffler::new(3);
        (0..n).map(|_| each(&mut random)).collect()
    }

    #[test]
    fn without_company_it_is_the_median() {
        for n in 1..40 {
            let ios = (1..=n).map(|i| (f64::from(i), 100.0));
            assert_eq!(median(ios), f64::from((n + 1) / 2), "{n}");
        }
        assert_eq!(median([]), 0.0);
    }

    #[test]
    fn what_is_alone_to_the_end_is_short_and_does_not_stand_for_all() {
        let ios = random(50_000, |random| {
            let alone = 10_000 + random.below(40_000);
            (alone as f64, random.below(60_000) as f64)
        });
        // The median of those that stay alone is 25 us, that of what all took 44 us.
        let median = median(ios);
        assert!((27_000.0..33_000.0).contains(&median), "{median}");
    }

    #[test]
    fn of_few_that_stay_alone_the_long_ones_count_for_those_that_are_joined() {
        // One in fifty is short; to nine of ten of the others something comes soon, to the rest after a while.
        let ios = random(20_000, |random| {
            let alone = match random.below(50) {
                0 => 6_000 + random.below(1000),
                _ => 35_000 + random.below(4000),
            };
            let joined = match random.below(10) {
                0 => 20_000 + random.below(40_000),
                _ => 12_000,
            };
            (alone as f64, joined as f64)
        });
        let median = median(ios);
        assert!((36_000.0..38_500.0).contains(&median), "{median}");
    }

    #[test]
    fn where_all_the_long_ones_are_joined_what_they_took_bounds_it() {
        let ios = random(10_000, |random| {
            let alone = match random.below(50) {
                0 => 6_000,
                _ => 30_000 + random.below(1000),
            };
            (alone as f64, 12_000.0)
        });
        let median = median(ios);
        assert!((66_000.0..69_000.0).contains(&median), "{median}");
    }
}
