//! Where I/Os are missing, for analyses that must not read silence as idleness.

use crate::model::{DevId, LossReason, Lost};

/// Intervals of loss, per device and for all. Bounded: when they become too many, neighbours are joined.
#[derive(Debug, Clone, Default)]
pub struct Losses {
    intervals: Vec<(i64, i64, Option<DevId>)>,
}

impl Losses {
    const MAX_INTERVALS: usize = 10_000;

    /// Takes what is missing; censored I/Os leave no gap worth the name, and of missing requests the I/Os are there.
    pub fn push(&mut self, lost: &Lost) {
        if lost.reason == LossReason::Censored || lost.reason.is_of_requests() {
            return;
        }
        self.intervals.push((lost.from_ns, lost.to_ns, lost.dev));
        if self.intervals.len() > Self::MAX_INTERVALS {
            // Closest neighbours first would be kinder; pairs in order are enough and linear.
            self.intervals = self
                .intervals
                .chunks(2)
                .filter_map(|pair| {
                    pair.iter()
                        .copied()
                        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1), if a.2 == b.2 { a.2 } else { None }))
                })
                .collect();
        }
    }

    /// Whether anything of `dev` is missing in `[from_ns, to_ns)`.
    pub fn overlap(&self, dev: DevId, from_ns: i64, to_ns: i64) -> bool {
        let meets = |a: i64, b: i64| Lost::somewhere(a, b, LossReason::Corrupt).meets(from_ns, to_ns);
        self.intervals.iter().any(|(a, b, d)| meets(*a, *b) && d.is_none_or(|d| d == dev))
    }

    /// The intervals that concern `dev`, in order, overlapping ones joined.
    pub fn of(&self, dev: DevId) -> Vec<(i64, i64)> {
        let mut mine: Vec<(i64, i64)> =
            self.intervals.iter().filter(|(_, _, d)| d.is_none_or(|d| d == dev)).map(|(a, b, _)| (*a, *b)).collect();
        mine.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::new();
        for (a, b) in mine {
            match joined.last_mut() {
                Some(last) if last.1 >= a => last.1 = last.1.max(b),
                _ => joined.push((a, b)),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(from_ns: i64, to_ns: i64, dev: Option<DevId>, reason: LossReason) -> Lost {
        Lost { from_ns, to_ns, dev, class: None, reason, ios: None, bytes: None, merges: None }
    }

    #[test]
    fn overlaps_know_their_device() {
        let mut l = Losses::default();
        l.push(&lost(10, 20, Some(DevId(1)), LossReason::RingFull));
        l.push(&lost(15, 30, None, LossReason::Corrupt));
        l.push(&lost(0, 100, None, LossReason::Censored));
        l.push(&lost(0, 100, None, LossReason::RequestUnwritten));
        assert!(l.overlap(DevId(1), 0, 11) && !l.overlap(DevId(2), 0, 11) && l.overlap(DevId(2), 29, 40));
        assert!(!l.overlap(DevId(2), 30, 40), "what ends where an interval begins does not touch it");
        assert_eq!((l.of(DevId(1)), l.of(DevId(2))), (vec![(10, 30)], vec![(15, 30)]));
    }

    #[test]
    fn very_many_stay_bounded_and_cover_what_they_did() {
        let mut l = Losses::default();
        (0..100_000).for_each(|i| l.push(&lost(i * 10, i * 10 + 1, None, LossReason::RingFull)));
        assert!(l.intervals.len() <= Losses::MAX_INTERVALS);
        assert!((0..100_000).step_by(997).all(|i| l.overlap(DevId(1), i * 10, i * 10 + 1)));
    }
}
