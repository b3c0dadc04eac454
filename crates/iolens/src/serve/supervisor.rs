//! What systemd is to know of the service (`sd_notify(3)`): that it records, that its loop runs, that it ends. Without
//! systemd nothing is said.

use sd_notify::NotifyState;

/// Says that the loop runs, as often as the unit's `WatchdogSec` asks for.
#[derive(Debug)]
pub struct Supervisor {
    /// `None`: there is no watchdog.
    every_ns: Option<i64>,
    next_ns: i64,
}

impl Supervisor {
    /// The service records.
    pub fn ready() -> Supervisor {
        say(NotifyState::Ready);
        let mut limit_us = 0;
        let watched = sd_notify::watchdog_enabled(false, &mut limit_us);
        // Three times within the limit, so that one that is late does no harm.
        let every_ns = watched.then(|| i64::try_from(limit_us).unwrap_or(i64::MAX).saturating_mul(1000) / 3);
        Supervisor { every_ns, next_ns: 0 }
    }

    /// The loop runs, at this time.
    pub fn alive(&mut self, at_ns: i64) {
        if let Some(every_ns) = self.every_ns
            && at_ns >= self.next_ns
        {
            say(NotifyState::Watchdog);
            self.next_ns = at_ns + every_ns;
        }
    }

    /// The last recording is being finished.
    pub fn stopping(&self) {
        say(NotifyState::Stopping);
    }
}

/// What cannot be delivered is not worth an end: systemd restarts a service that it does not hear.
fn say(state: NotifyState) {
    let _ = sd_notify::notify(false, &[state]);
}
