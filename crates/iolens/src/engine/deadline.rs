//! Deadlines for the work on a query.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

impl std::fmt::Display for TooSlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this takes too long: ask for a shorter stretch")
    }
}

impl std::error::Error for TooSlow {}

/// Set when the process is about to end: all work with a deadline stops.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Stops all work that has a deadline at its next check, because the process is about to end.
pub fn end_all() {
    IS_ENDING.store(true, Ordering::Relaxed);
}

/// When work must have ended; the default is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline at `moment`.
    pub fn at(moment: Instant) -> Deadline {
        Deadline(Some(moment))
    }

    /// Called between batches.
    ///
    /// # Errors
    /// The deadline has passed. Never without a deadline.
    pub fn check(self) -> Result<(), TooSlow> {
        match self.0 {
            Some(moment) if IS_ENDING.load(Ordering::Relaxed) || Instant::now() > moment => {
                Err(TooSlow)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_those_that_were_given_a_time_run_out_of_it() {
        assert_eq!(Deadline::default().check(), Ok(()));
        let now = Instant::now();
        let later = Deadline::at(now + Duration::from_secs(3600));
        assert_eq!(later.check(), Ok(()));
        let past = now.checked_sub(Duration::from_millis(1)).expect("a time");
        assert_eq!(Deadline::at(past).check(), Err(TooSlow));
    }
}
