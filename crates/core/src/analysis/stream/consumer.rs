//! The interface of an analysis that consumes a shared stream of I/Os on its own thread.

use crate::model::Io;

/// An analysis, or a part of one such as a report, whose parts must all take the same I/Os.
pub trait Consumer: Send {
    /// Takes the next completed I/Os, in the order of completion. None of those after them began before
    /// `later_start_ns` (`i64::MIN`: not known): nothing depends on it, but memory then stays in the cache.
    fn consume(&mut self, ios: &[Io], later_start_ns: i64);
}
