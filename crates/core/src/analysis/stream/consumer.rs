//! The interface of an analysis that consumes a shared stream of I/Os on its own thread.

use crate::model::Io;

/// An analysis, or a part of one. All parts of a report must receive the same I/Os.
pub trait Consumer: Send {
    /// Takes the next completed I/Os, in the order of completion. No later I/O starts before `later_start_ns`
    /// (`i64::MIN`: not known). Results do not depend on that bound; it keeps the memory in use small enough for the
    /// cache.
    fn consume(&mut self, ios: &[Io], later_start_ns: i64);
}
