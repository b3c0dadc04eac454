//! How long the work that this thread does for a caller may take.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The time that was given is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

impl std::fmt::Display for TooSlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this takes too long: ask for a shorter stretch")
    }
}

impl std::error::Error for TooSlow {}

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// All work that has a deadline is to end now: the process does.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Ends all work that has a deadline at its next [`check`]: the process is about to end.
pub fn end_all() {
    IS_ENDING.store(true, Ordering::Relaxed);
}

/// Does `work`, which ends with [`TooSlow`] where it asks [`check`] after `deadline`.
pub fn until<T>(deadline: Instant, work: impl FnOnce() -> T) -> T {
    DEADLINE.set(Some(deadline));
    let done = work();
    DEADLINE.set(None);
    done
}

/// When the work of this thread must have ended, to hand on to threads that do a part of it.
pub fn deadline() -> Option<Instant> {
    DEADLINE.get()
}

/// Called by engines between batches, on the thread that was asked.
///
/// # Errors
/// The time is over; never where no limit was set.
pub fn check() -> Result<(), TooSlow> {
    match DEADLINE.get() {
        Some(deadline) if IS_ENDING.load(Ordering::Relaxed) || Instant::now() > deadline => {
            Err(TooSlow)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_those_that_were_given_a_time_run_out_of_it() {
        assert_eq!(check(), Ok(()));
        let now = Instant::now();
        assert_eq!(until(now + Duration::from_secs(3600), check), Ok(()));
        assert_eq!(
            until(
                now.checked_sub(Duration::from_millis(1)).expect("a time"),
                check
            ),
            Err(TooSlow)
        );
        assert_eq!(check(), Ok(()), "the limit was that work's");
    }
}
