//! The disk budget of a recording root.
//!
//! A recording uses at most 1/8 of the budget, and closed recordings leave 2/8 free: for the current one, and for the
//! one before it, whose end is still being written. So the limit holds at any time, whenever files are removed.

use std::path::{Path, PathBuf};

use anyhow::Result;
use iolens_core::private::Access;
use iolens_core::store::{Budget, Freed};
use iolens_observe::topology::wall_clock_ns;

/// A recording uses at most one of this many parts of the budget.
const PARTS: u64 = 8;
/// Space for descriptions and findings that are rewritten while files are being removed.
const MARGIN: u64 = 1 << 20;

/// A root and its budget.
#[derive(Debug, Clone)]
pub struct Space {
    /// The recording root.
    pub root: PathBuf,
    /// Hard cap over all recordings.
    pub keep_bytes: u64,
    /// Who may read what is written.
    pub access: Access,
}

impl Space {
    /// Maximum size of one recording in bytes.
    pub fn part(&self) -> u64 {
        self.keep_bytes / PARTS
    }

    /// Removes the oldest data until another recording fits beside the current one at `growing`.
    ///
    /// # Errors
    /// A file operation fails, or something in the root belongs to another user.
    pub fn make_room(&self, growing: Option<&Path>) -> Result<Freed> {
        let budget = Budget {
            keep_bytes: self.keep_bytes,
            access: self.access,
        };
        let limit = self.keep_bytes - 2 * self.part() - MARGIN;
        Ok(budget.make_room(&self.root, growing, limit, wall_clock_ns())?)
    }
}
