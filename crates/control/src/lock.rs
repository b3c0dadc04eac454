//! Mutexes that ignore poisoning: the state is counters and requests, valid after a panic.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The state, whatever happened to its last holder.
pub(super) fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases the lock until a notification, at most for `most`.
pub(super) fn wait<'a, T>(
    shared: &'a (Mutex<T>, Condvar),
    state: MutexGuard<'a, T>,
    most: Duration,
) -> MutexGuard<'a, T> {
    shared
        .1
        .wait_timeout(state, most)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}
