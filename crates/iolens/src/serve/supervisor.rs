//! What systemd is to know of the service (`sd_notify(3)`): that it records, that its loop runs, that it ends. Without
//! systemd nothing is said.
//!
//! A service whose root is gone cannot make another one (see [`super::restrict`]): it says nothing more either, and the
//! watchdog starts it again.

use sd_notify::NotifyState;

/// How often the service looks at itself, without a watchdog.
const LOOK_NS: i64 = 1_000_000_000;

/// Says that the loop runs, as often as the unit's `WatchdogSec` asks for.
#[derive(Debug)]
pub struct Supervisor {
    watched: bool,
    every_ns: i64,
    next_ns: i64,
}

impl Supervisor {
    /// The service records.
    pub fn ready() -> Supervisor {
        notify(NotifyState::Ready);
        let mut limit_us = 0;
        let watched = sd_notify::watchdog_enabled(false, &mut limit_us);
        // Three times within the limit, so that one that is late does no harm.
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

    /// The loop runs, at this time; `is_well` says whether it can do what it is there for.
    pub fn alive(&mut self, at_ns: i64, is_well: impl FnOnce() -> bool) {
        if at_ns < self.next_ns {
            return;
        }
        self.next_ns = at_ns + self.every_ns;
        if is_well() && self.watched {
            notify(NotifyState::Watchdog);
        }
    }

    /// The last recording is being finished.
    pub fn stopping(&self) {
        notify(NotifyState::Stopping);
    }
}

/// What cannot be delivered is not worth an end: systemd restarts a service that it does not hear.
fn notify(state: NotifyState) {
    let _ = sd_notify::notify(false, &[state]);
}
