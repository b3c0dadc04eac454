//! Notifies systemd (`sd_notify(3)`) that the service records, that its loop runs, and that it is stopping. Does
//! nothing without systemd.
//!
//! A service whose root was removed cannot create another one (see [`super::restrict`]). It stops notifying, and the
//! watchdog restarts it.

use sd_notify::NotifyState;

/// Interval between self-checks without a watchdog.
const LOOK_NS: i64 = 1_000_000_000;

/// Notifies that the loop runs, as often as the unit's `WatchdogSec` requires.
#[derive(Debug)]
pub struct Supervisor {
    watched: bool,
    every_ns: i64,
    next_ns: i64,
}

impl Supervisor {
    /// Notifies that the service records.
    pub fn ready() -> Supervisor {
        notify(NotifyState::Ready);
        let mut limit_us = 0;
        let watched = sd_notify::watchdog_enabled(false, &mut limit_us);
        // Three times per interval, so that one late notification does no harm.
        let every_ns = match watched {
            true => {
                i64::try_from(limit_us)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(1000)
                    / 3
            }
            false => LOOK_NS,
        };
        Supervisor {
            watched,
            every_ns,
            next_ns: 0,
        }
    }

    /// The loop runs at this time. `is_well` returns whether the service works.
    pub fn alive(&mut self, at_ns: i64, is_well: impl FnOnce() -> bool) {
        if at_ns < self.next_ns {
            return;
        }
        self.next_ns = at_ns + self.every_ns;
        if is_well() && self.watched {
            notify(NotifyState::Watchdog);
        }
    }

    /// Notifies that the last recording is being finished.
    pub fn stopping(&self) {
        notify(NotifyState::Stopping);
    }
}

/// A notification that fails is ignored: systemd restarts a service from which it hears nothing.
fn notify(state: NotifyState) {
    let _ = sd_notify::notify(false, &[state]);
}
