//! Counts all losses of a session in one place: in the tracer, in the queue to the writer, and on the writer's disk.
//! Metrics, health, the final message and the summary of a recording all read it, so they cannot disagree.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use iolens_core::model::{LossReason, Lost};

const REASONS: usize = LossReason::ALL.len();

/// Lost I/Os so far, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossCounts([i64; REASONS]);

impl LossCounts {
    /// I/Os (requests, if [`LossReason::is_of_requests`]) lost for this reason.
    pub fn get(&self, reason: LossReason) -> i64 {
        self.0[index(reason)]
    }

    /// I/Os lost, for whatever reason.
    pub fn ios(&self) -> i64 {
        self.sum(LossReason::is_loss)
    }

    /// File-level requests lost.
    pub fn requests(&self) -> i64 {
        self.sum(LossReason::is_of_requests)
    }

    /// I/Os that were seen but not stored, because the writer did not take them or had no space.
    pub fn unstored_ios(&self) -> i64 {
        self.get(LossReason::WriterBusy) + self.get(LossReason::DiskFull)
    }

    /// Reasons for which I/Os were lost, with their numbers.
    pub fn of_ios(&self) -> impl Iterator<Item = (LossReason, i64)> + '_ {
        let reasons = LossReason::ALL.into_iter().filter(|r| r.is_loss());
        reasons
            .map(|reason| (reason, self.get(reason)))
            .filter(|(_, ios)| *ios > 0)
    }

    /// These counts with another loss added.
    #[must_use]
    pub fn with(mut self, reason: LossReason, ios: i64) -> LossCounts {
        self.0[index(reason)] += ios;
        self
    }

    fn sum(&self, counts: impl Fn(LossReason) -> bool) -> i64 {
        let reasons = LossReason::ALL.into_iter().filter(|r| counts(*r));
        reasons.map(|reason| self.get(reason)).sum()
    }
}

/// The tally, shared by all threads that can lose something.
#[derive(Debug, Clone, Default)]
pub struct LossTally(Arc<[AtomicI64; REASONS]>);

impl LossTally {
    /// Adds `ios` to the count of `reason`.
    pub fn add(&self, reason: LossReason, ios: i64) {
        self.0[index(reason)].fetch_add(ios, Ordering::Relaxed);
    }

    /// Counts a loss reported by the source. A loss of unknown size adds nothing.
    pub fn add_lost(&self, lost: &Lost) {
        self.add(lost.reason, lost.ios.unwrap_or(0));
    }

    /// The counts so far.
    pub fn counts(&self) -> LossCounts {
        LossCounts(std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }
}

/// The position in [`LossReason::ALL`].
fn index(reason: LossReason) -> usize {
    reason as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_count_of_its_own_and_censored_ios_are_not_lost() {
        let tally = LossTally::default();
        for (i, reason) in LossReason::ALL.into_iter().enumerate() {
            assert_eq!(index(reason), i);
            tally.add(reason, 1 << i);
        }
        let counts = tally.counts();
        for (i, reason) in LossReason::ALL.into_iter().enumerate() {
            assert_eq!(counts.get(reason), 1 << i);
        }
        let all = (1 << REASONS) - 1;
        let neither = counts.get(LossReason::Censored) + counts.get(LossReason::Retention);
        assert_eq!(counts.ios() + counts.requests() + neither, all);
        assert_eq!(
            counts.of_ios().map(|(_, ios)| ios).sum::<i64>(),
            counts.ios()
        );
    }

    #[test]
    fn threads_count_into_the_same_tally_and_an_unknown_number_adds_nothing() {
        let tally = LossTally::default();
        let other = tally.clone();
        let counts = std::thread::spawn(move || other.add(LossReason::DiskFull, 3));
        counts.join().expect("counts");
        tally.add_lost(&Lost::somewhere(0, 1, LossReason::DiskFull));
        assert_eq!(tally.counts().unstored_ios(), 3);
    }
}
