//! The disk that a recording root may take.
//!
//! A recording takes at most an eighth of the budget, and what is closed leaves two eighths free: for the one that grows and
//! for the one before it, whose end is still written. So the limit holds at every instant, whatever is removed when.

use std::path::{Path, PathBuf};

use anyhow::Result;
use iolens_core::private::Access;
use iolens_core::store::{Budget, Freed};
use iolens_observe::topology::wall_clock_ns;

/// Recordings take at most this part of the budget.
const PARTS: u64 = 8;
/// Room for descriptions and findings that are written anew while something is removed.
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
    /// What one recording may take.
    pub fn part(&self) -> u64 {
        self.keep_bytes / PARTS
    }

    /// Removes what is oldest until another recording fits beside the one at `growing`.
    ///
    /// # Errors
    /// The file system refuses, or something in the root is another user's.
    pub fn make_room(&self, growing: Option<&Path>) -> Result<Freed> {
        let budget = Budget {
            keep_bytes: self.keep_bytes,
            access: self.access,
        };
        let limit = self.keep_bytes - 2 * self.part() - MARGIN;
        Ok(budget.make_room(&self.root, growing, limit, wall_clock_ns())?)
    }
}
