//! Absolute deadlines: sampling that does not drift.

use rustix::thread::{ClockId, NanosleepRelativeResult};
use rustix::time::Timespec;
use std::time::Duration;

/// Timer slack: the kernel may wake a thread up to this much later, to combine wake-ups, and usually does so at the end
/// of that time. Periods that are this many times longer are not affected.
const SLACK_PERIODS: i64 = 1000;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_nsec)
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At the deadline or after it.
    Due {
        /// The deadline, in nanoseconds of `CLOCK_MONOTONIC`.
        due_ns: i64,
        /// Number of deadlines that passed completely (the process or the machine was stopped) and are skipped.
        missed: u64,
    },
    /// By a signal, before the deadline. The deadline is kept: the next wait waits for it.
    Interrupted,
}

/// Deadlines at `start + k * period`, independent of the time that the work between them takes.
#[derive(Debug, Clone)]
pub struct Pace {
    period_ns: i64,
    next_ns: i64,
    late: u64,
    missed: u64,
}

impl Pace {
    /// Starts now; the first deadline is one period away. Periods below 1 µs count as 1 µs. For a short period, the
    /// calling thread asks the kernel to be woken on time (`prctl(2)`, `PR_SET_TIMERSLACK`); the default is 50 µs
    /// later.
    pub fn new(period: Duration) -> Pace {
        let pace = Pace::starting_at(monotonic_ns(), period);
        let slack = rustix::thread::current_timer_slack().unwrap_or(0);
        if slack > 1 && pace.period_ns < SLACK_PERIODS * slack as i64 {
            // If this fails, wake-ups are later by the default slack, and nothing else changes.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        }
        pace
    }

    /// Like [`Pace::new`], starting at an instant in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn starting_at(start_ns: i64, period: Duration) -> Pace {
        let period_ns = i64::try_from(period.as_nanos())
            .unwrap_or(i64::MAX / 4)
            .clamp(1_000, i64::MAX / 4);
        Pace {
            period_ns,
            next_ns: start_ns.saturating_add(period_ns),
            late: 0,
            missed: 0,
        }
    }

    /// Time between deadlines.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns as u64)
    }

    /// The next deadline, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// Number of deadlines that had passed when [`Pace::wait`] was called, because the work before took longer than a
    /// period.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Number of deadlines that were skipped.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Sleeps until the next deadline, or returns at once if it has passed.
    pub fn wait(&mut self) -> Wake {
        let now = monotonic_ns();
        if now < self.next_ns {
            let until = Timespec {
                tv_sec: self.next_ns / 1_000_000_000,
                tv_nsec: self.next_ns % 1_000_000_000,
            };
            match rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until) {
                Ok(()) => {}
                Err(rustix::io::Errno::INTR) => return Wake::Interrupted,
                // The clock is not available (never seen on Linux): sleep for the difference.
                Err(_) => {
                    let left = self.next_ns - now;
                    let d = Timespec {
                        tv_sec: left / 1_000_000_000,
                        tv_nsec: left % 1_000_000_000,
                    };
                    if let NanosleepRelativeResult::Interrupted(_) = rustix::thread::nanosleep(&d) {
                        return Wake::Interrupted;
                    }
                }
            }
        } else {
            self.late += 1;
        }
        self.arrive(monotonic_ns())
    }

    /// Consumes the deadline reached at `now_ns`; whole periods beyond it are skipped and counted.
    fn arrive(&mut self, now_ns: i64) -> Wake {
        let missed = ((now_ns - self.next_ns) / self.period_ns).max(0);
        let due_ns = self.next_ns + missed * self.period_ns;
        self.missed += missed as u64;
        self.next_ns = due_ns.saturating_add(self.period_ns);
        Wake::Due {
            due_ns,
            missed: missed as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn never_wakes_early_and_does_not_drift() {
        let start = monotonic_ns();
        let mut pace = Pace::starting_at(start, Duration::from_millis(2));
        for k in 1..=5 {
            match pace.wait() {
                Wake::Due { due_ns, .. } => {
                    assert!(monotonic_ns() >= due_ns);
                    assert_eq!((due_ns - start) % 2_000_000, 0);
                    assert!(due_ns >= start + k * 2_000_000);
                }
                Wake::Interrupted => panic!("no signal was sent"),
            }
        }
    }

    #[test]
    fn short_periods_have_no_slack() {
        // The slack is the thread's own: this test's.
        let slack = || rustix::thread::current_timer_slack().expect("Linux");
        let before = slack();
        Pace::new(Duration::from_secs(1));
        assert_eq!(slack(), before);
        Pace::new(Duration::from_millis(1));
        assert!(slack() <= 1 || before == 0, "{}", slack());
    }

    #[test]
    fn missed_intervals_are_counted() {
        let mut pace = Pace::starting_at(0, Duration::from_secs(1));
        assert_eq!(
            pace.arrive(1_000_000_007),
            Wake::Due {
                due_ns: 1_000_000_000,
                missed: 0
            }
        );
        assert_eq!(
            pace.arrive(5_400_000_000),
            Wake::Due {
                due_ns: 5_000_000_000,
                missed: 3
            }
        );
        assert_eq!((pace.missed(), pace.next_ns()), (3, 6_000_000_000));
    }

    proptest! {
        #[test]
        fn deadlines_are_multiples_of_the_period(period in 1u64..10_000_000, steps in prop::collection::vec(0i64..100_000_000, 1..40)) {
            let mut pace = Pace::starting_at(0, Duration::from_micros(period));
            let mut now = 0;
            let mut taken = 0;
            for step in steps {
                now = (now + step).max(pace.next_ns());
                let Wake::Due { due_ns, missed } = pace.arrive(now) else { panic!("arrived") };
                taken += 1 + missed;
                prop_assert_eq!(due_ns, taken as i64 * period as i64 * 1000);
                prop_assert!(due_ns <= now && now < pace.next_ns());
            }
        }
    }
}
