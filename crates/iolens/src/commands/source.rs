//! What the reading commands share: opening a recording and saying what of it is damaged.

use std::path::Path;

use anyhow::Result;
use iolens_core::store::Recording;

use crate::present::escape;

/// Opens `path` and tells on stderr what of it is damaged.
///
/// # Errors
/// It is no recording, or not one that this version reads.
pub fn open(path: &Path) -> Result<Recording> {
    let recording = Recording::open(path)?;
    warn(recording.warnings());
    Ok(recording)
}

/// Tells on stderr, escaped.
pub fn warn(warnings: &[String]) {
    for w in warnings {
        eprintln!("iolens: {}", escape::terminal(w));
    }
}
