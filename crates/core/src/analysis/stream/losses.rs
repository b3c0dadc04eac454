//! The intervals in which I/Os are missing, so that analyses do not treat them as idle time.

use crate::analysis::math::intervals::{union, within_ns};
use crate::analysis::stream::window::Window;
use crate::model::{DevId, LossReason, Lost};

/// An interval with missing I/Os, and their number if it is known.
#[derive(Debug, Clone, Copy)]
struct Gap {
    from_ns: i64,
    to_ns: i64,
    dev: Option<DevId>,
    ios: Option<i64>,
    /// Nothing is known of this time.
    is_unrecorded: bool,
}

impl Gap {
    /// Like [`Lost::meets`].
    fn meets(&self, from_ns: i64, to_ns: i64) -> bool {
        Lost::somewhere(self.from_ns, self.to_ns, LossReason::Corrupt).meets(from_ns, to_ns)
    }
    /// The interval that covers both.
    fn and(&self, other: &Gap) -> Gap {
        Gap {
            from_ns: self.from_ns.min(other.from_ns),
            to_ns: self.to_ns.max(other.to_ns),
            dev: self.dev.filter(|dev| other.dev == Some(*dev)),
            ios: self.ios.zip(other.ios).map(|(a, b)| a.max(0) + b.max(0)),
            is_unrecorded: self.is_unrecorded && other.is_unrecorded,
        }
    }
}

/// Intervals of loss, per device and for all. Memory is bounded: when there are too many, neighbours are merged.
#[derive(Debug, Clone, Default)]
pub struct Losses {
    gaps: Vec<Gap>,
}

impl Losses {
    const MAX_INTERVALS: usize = 10_000;

    /// If at most this share of an interval's I/Os is missing, the start of activity in it is still visible: some I/Os
    /// of a batch of 32 are recorded.
    const MAX_LITTLE_SHARE: f64 = 0.1;

    /// Takes a loss. Censored I/Os are not a gap. Missing requests are not either, because their I/Os are recorded.
    pub fn push(&mut self, lost: &Lost) {
        if lost.reason == LossReason::Censored || lost.reason.is_of_requests() {
            return;
        }
        self.gaps.push(Gap {
            from_ns: lost.from_ns,
            to_ns: lost.to_ns,
            dev: lost.dev,
            ios: lost.ios,
            is_unrecorded: lost.is_unrecorded_time(),
        });
        if self.gaps.len() > Self::MAX_INTERVALS {
            // Merging the closest neighbours first would be more precise; merging pairs in order is sufficient and
            // linear.
            let pairs = self.gaps.chunks(2);
            self.gaps = pairs
                .filter_map(|pair| pair.iter().copied().reduce(|a, b| a.and(&b)))
                .collect();
        }
    }

    /// Whether I/Os of `dev` are missing in `[from_ns, to_ns)`.
    pub fn overlap(&self, dev: DevId, from_ns: i64, to_ns: i64) -> bool {
        self.gaps
            .iter()
            .any(|gap| gap.meets(from_ns, to_ns) && gap.dev.is_none_or(|d| d == dev))
    }

    /// Time in which nothing was recorded, as ordered, disjoint and non-adjacent intervals.
    pub fn unrecorded(&self) -> Vec<(i64, i64)> {
        let mut intervals = Vec::new();
        for gap in &self.gaps {
            if gap.is_unrecorded && gap.from_ns < gap.to_ns {
                intervals.push((gap.from_ns, gap.to_ns));
            }
        }
        union(intervals)
    }

    /// Nanoseconds of `window` in which nothing was recorded. Rates and shares of time exclude them.
    pub fn unrecorded_ns(&self, window: Window) -> i64 {
        within_ns(&self.unrecorded(), window.from_ns, window.to_ns).max(0)
    }

    /// The intervals that affect `dev`, in order, with overlapping ones merged.
    pub fn of(&self, dev: DevId) -> Vec<(i64, i64)> {
        self.joined(dev)
            .iter()
            .map(|gap| (gap.from_ns, gap.to_ns))
            .collect()
    }

    /// The intervals of [`Losses::of`] in which more than a tenth of the I/Os, or an unknown number, is missing. `seen`
    /// returns the number of recorded I/Os of `dev` that completed in an interval.
    pub fn heavy(&self, dev: DevId, seen: impl Fn(i64, i64) -> u64) -> Vec<(i64, i64)> {
        let mut heavy = Vec::new();
        for gap in self.joined(dev) {
            let is_heavy = gap.ios.is_none_or(|lost| {
                let all = lost as f64 + seen(gap.from_ns, gap.to_ns) as f64;
                lost as f64 > Self::MAX_LITTLE_SHARE * all
            });
            if is_heavy {
                heavy.push((gap.from_ns, gap.to_ns));
            }
        }
        heavy
    }

    fn joined(&self, dev: DevId) -> Vec<Gap> {
        let mut own: Vec<Gap> = self
            .gaps
            .iter()
            .filter(|gap| gap.dev.is_none_or(|d| d == dev))
            .copied()
            .collect();
        own.sort_unstable_by_key(|gap| (gap.from_ns, gap.to_ns));
        let mut joined: Vec<Gap> = Vec::new();
        for gap in own {
            match joined.last_mut() {
                Some(last) if last.to_ns >= gap.from_ns => *last = last.and(&gap),
                _ => joined.push(gap),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(from_ns: i64, to_ns: i64, dev: Option<DevId>, reason: LossReason) -> Lost {
        Lost {
            from_ns,
            to_ns,
            dev,
            class: None,
            reason,
            ios: None,
            bytes: None,
            merges: None,
        }
    }

    #[test]
    fn overlaps_know_their_device() {
        let mut l = Losses::default();
        l.push(&lost(10, 20, Some(DevId(1)), LossReason::RingFull));
        l.push(&lost(15, 30, None, LossReason::Corrupt));
        l.push(&lost(0, 100, None, LossReason::Censored));
        l.push(&lost(0, 100, None, LossReason::RequestUnwritten));
        assert!(
            l.overlap(DevId(1), 0, 11)
                && !l.overlap(DevId(2), 0, 11)
                && l.overlap(DevId(2), 29, 40)
        );
        assert!(
            !l.overlap(DevId(2), 30, 40),
            "what ends where an interval begins does not touch it"
        );
        assert_eq!(
            (l.of(DevId(1)), l.of(DevId(2))),
            (vec![(10, 30)], vec![(15, 30)])
        );
    }

    #[test]
    fn time_that_was_not_recorded_counts_once_and_within_the_window() {
        let mut l = Losses::default();
        for (from_ns, to_ns) in [(10, 30), (20, 40), (60, 70), (95, 200)] {
            l.push(&lost(from_ns, to_ns, None, LossReason::NotRecorded));
        }
        l.push(&lost(0, 5, None, LossReason::Retention));
        l.push(&lost(50, 55, None, LossReason::Corrupt));
        assert_eq!(l.unrecorded_ns(Window::new(0, 100)), 5 + 30 + 10 + 5);
        assert_eq!(l.unrecorded_ns(Window::new(25, 65)), 15 + 5);
        assert_eq!(l.unrecorded_ns(Window::new(65, 25)), 0);
        assert_eq!(l.unrecorded(), [(0, 5), (10, 40), (60, 70), (95, 200)]);
    }

    #[test]
    fn little_loss_and_much() {
        let of = |from_ns, to_ns, ios| Lost {
            ios,
            ..lost(from_ns, to_ns, Some(DevId(1)), LossReason::RingFull)
        };
        let mut l = Losses::default();
        let gaps = [
            (0, 10, Some(1)),
            (20, 30, Some(4)),
            (40, 50, None),
            (60, 70, Some(1)),
            (65, 80, Some(2)),
        ];
        gaps.iter()
            .for_each(|(from, to, ios)| l.push(&of(*from, *to, *ios)));
        // Two I/Os are seen every nanosecond: 1 of 21 is little, 4 of 24 is not, nor is what overlaps with 3 of 43.
        assert_eq!(
            l.heavy(DevId(1), |from, to| 2 * (to - from) as u64),
            [(20, 30), (40, 50)]
        );
        assert_eq!(
            l.heavy(DevId(1), |_, _| 0),
            [(0, 10), (20, 30), (40, 50), (60, 80)],
            "all of it is missing"
        );
        assert_eq!(l.heavy(DevId(2), |_, _| 0), []);
    }

    #[test]
    fn very_many_stay_bounded_and_cover_what_they_did() {
        let mut l = Losses::default();
        (0..100_000).for_each(|i| l.push(&lost(i * 10, i * 10 + 1, None, LossReason::RingFull)));
        assert!(l.gaps.len() <= Losses::MAX_INTERVALS);
        assert!(
            (0..100_000)
                .step_by(997)
                .all(|i| l.overlap(DevId(1), i * 10, i * 10 + 1))
        );
    }
}
