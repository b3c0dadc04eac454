//! Schedules looks, and selects the time that each covers: the last minutes, or on a busy host the costliest part of
//! them.

use std::ops::Range;
use std::time::{Duration, Instant};

use iolens_core::analysis::waits::effects::INTERVAL_NS;
use iolens_core::model::SECOND_NS;

use crate::serve::lost_time::{KEPT_NS, LostTime};

/// Maximum time covered by a look; longer findings are known from their start. Intervals in a report have the same
/// length.
pub const WINDOW_NS: i64 = INTERVAL_NS;
const MIN_WINDOW_NS: i64 = 15 * SECOND_NS;

/// Minimum time between the starts of two looks.
pub const PERIOD: Duration = Duration::from_secs(10);
/// A look may take at most one of this many parts of the time.
const SHARE: u32 = 50;
/// The same while no program loses much: a look may still find a program's own queue, or a device that becomes
/// slower.
const CALM_SHARE: u32 = 200;
/// Even then, a look comes after this time at the latest, unless [`SHARE`] forbids it.
const MAX_CALM: Duration = Duration::from_secs(300);

/// Maximum number of I/Os of a look, about two seconds of CPU time: with more, looks would be too rare.
const MAX_IOS: f64 = 1_200_000.0;

/// When the next look is due.
#[derive(Debug)]
pub struct NextLook {
    /// Not before this time.
    pub earliest: Instant,
    /// At this time at the latest, even if there seems to be nothing to find.
    latest: Instant,
}

impl NextLook {
    /// The first look, after one period.
    pub fn first() -> NextLook {
        let at = Instant::now() + PERIOD;
        NextLook {
            earliest: at,
            latest: at,
        }
    }

    /// The look after one that started at `began` and took `took`.
    pub fn after(began: Instant, took: Duration) -> NextLook {
        let earliest = began + PERIOD.max(took * SHARE);
        let latest = began + (took * CALM_SHARE).min(MAX_CALM);
        NextLook {
            earliest,
            latest: latest.max(earliest),
        }
    }

    /// Whether the look is due, given the time lost since the last one.
    pub fn is_due(&self, now: Instant, lost: &LostTime) -> bool {
        now >= self.latest || now >= self.earliest && lost.has_trouble()
    }
}

/// The state of the looks so far.
#[derive(Debug)]
pub struct LookPace {
    /// Length of time that a look can cover without a timeout.
    affordable_ns: i64,
    /// Everything before this Unix time was covered by a look, or cost less than what was covered.
    over_to_ns: i64,
}

impl LookPace {
    /// The state before the first look, at `now_ns` (Unix time).
    pub fn new(now_ns: i64) -> LookPace {
        LookPace {
            affordable_ns: WINDOW_NS,
            over_to_ns: now_ns,
        }
    }

    /// The range that a look at `now_ns` (Unix time) covers: the last minutes, or as much of them as it can. If the
    /// last look was longer ago, it is the stretch since then in which most I/O time was lost, else the newest.
    pub fn next(&self, now_ns: i64, lost: &LostTime) -> Range<i64> {
        let ios = lost.ios(&(now_ns - WINDOW_NS..now_ns));
        let share = MAX_IOS / ios.max(1) as f64;
        let length_ns = (WINDOW_NS as f64 * share.min(1.0)) as i64;
        let length_ns = length_ns.min(self.affordable_ns);
        let newest = now_ns - length_ns..now_ns;
        let since_ns = self.over_to_ns.max(now_ns - KEPT_NS);
        if since_ns >= newest.start {
            return newest;
        }
        let since = since_ns..now_ns;
        lost.worst_stretch(&since, length_ns).unwrap_or(newest)
    }

    /// A look at `now_ns` is complete.
    pub fn looked(&mut self, now_ns: i64) {
        self.over_to_ns = now_ns;
        self.affordable_ns = (self.affordable_ns * 2).min(WINDOW_NS);
    }

    /// A look timed out: the next one covers half as much.
    pub fn was_too_slow(&mut self) {
        self.affordable_ns = (self.affordable_ns / 2).max(MIN_WINDOW_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND_NS;

    /// A quarter of an hour with so many I/Os in each second; some seconds lost time.
    fn lost_time(ios: u64, lost_s: Range<i64>) -> LostTime {
        let mut seconds = Vec::new();
        for at_s in 100..1000 {
            seconds.push((at_s, ios, i64::from(lost_s.contains(&at_s))));
        }
        LostTime::of_seconds(seconds)
    }

    fn seconds(range: &Range<i64>) -> Range<i64> {
        range.start / S..range.end / S
    }

    #[test]
    fn a_look_comes_soon_where_much_is_lost_and_later_where_it_is_calm() {
        let began = Instant::now();
        let ms = Duration::from_millis;
        // How long a look took; when the next one is where much is lost, and where nothing is.
        let looks = [
            (ms(10), ms(10_000), ms(10_000)),
            (ms(100), ms(10_000), ms(20_000)),
            (ms(1000), ms(50_000), ms(200_000)),
            (ms(2000), ms(100_000), ms(300_000)),
            (ms(8000), ms(400_000), ms(400_000)),
        ];
        let calm = LostTime::new(0);
        let trouble = LostTime::new(0);
        trouble.failed();
        for (took, soon, late) in looks {
            let next = NextLook::after(began, took);
            for (lost, after) in [(&trouble, soon), (&calm, late)] {
                assert!(!next.is_due(began + after - ms(1), lost), "{took:?}");
                assert!(next.is_due(began + after, lost), "{took:?}");
            }
        }
    }

    #[test]
    fn a_host_with_few_ios_is_looked_at_whole() {
        let lost = lost_time(100, 900..910);
        let mut pace = LookPace::new(0);
        for now_s in [980, 990, 1000] {
            pace.looked((now_s - 10) * S);
            let next = pace.next(now_s * S, &lost);
            assert_eq!(seconds(&next), now_s - 120..now_s);
        }
        pace.was_too_slow();
        assert_eq!(
            seconds(&pace.next(1000 * S, &lost)),
            940..1000,
            "half of it"
        );
        pace.looked(1000 * S);
        assert_eq!(seconds(&pace.next(1000 * S, &lost)), 880..1000);
    }

    #[test]
    fn of_a_busy_host_what_cost_most_since_the_last_look_is_looked_at() {
        // Two minutes are 2.4 million I/Os.
        let lost = lost_time(20_000, 850..860);
        let mut pace = LookPace::new(0);
        pace.looked(800 * S);
        let next = seconds(&pace.next(1000 * S, &lost));
        assert_eq!(next, 800..860, "1.2 million, with what was before");
        pace.looked(1000 * S);
        let next = seconds(&pace.next(1000 * S, &lost));
        assert_eq!(next, 940..1000, "nothing was lost lately: the newest");
    }

    #[test]
    fn a_look_after_a_long_time_is_not_longer() {
        let lost = lost_time(1, 300..301);
        let pace = LookPace::new(0);
        let next = seconds(&pace.next(1000 * S, &lost));
        assert_eq!(next, 181..301);
        assert_eq!(seconds(&pace.next(5000 * S, &lost)), 4880..5000);
    }
}
