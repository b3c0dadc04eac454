//! Opens a recording and reports its damage. Shared by everything that reads.

use std::path::Path;

use iolens_core::store::{IoColumns, Recording};

use super::caller::Caller;
use super::error::{QueryError, Result};

/// Opens `path` for `caller`, who gets a note for each damage.
///
/// # Errors
/// It is not a recording, this version cannot read it, or none of its I/Os can be read any more: a ruined recording
/// must not look like an idle disk.
pub fn open(path: &Path, caller: &Caller) -> Result<Recording> {
    let mut recording = Recording::open(path)?;
    let start_unix_ns = recording.meta().start_unix_ns;
    if let Some(until_unix_ns) = caller.stored_until_unix_ns(start_unix_ns) {
        recording.extend_to(until_unix_ns.saturating_sub(start_unix_ns));
    }
    if caller.hides_names() {
        recording.hide_names();
    }
    if let Some(damage) = ruined(&recording) {
        let is_repairable =
            recording.spare_damaged_columns().is_ok() && ruined(&recording).is_none();
        return Err(QueryError::NothingReadable {
            damage,
            repairable: is_repairable.then(|| path.to_owned()),
        });
    }
    caller.damage(path, recording.warnings());
    Ok(recording)
}

/// Larger than a row group. If nothing in this many I/Os can be read, the damage was found on opening.
const MAX_LOOKED_AT: u64 = 1 << 18;

/// What is damaged, if nothing else is left to read.
fn ruined(recording: &Recording) -> Option<String> {
    let mut warnings = recording.warnings().iter();
    let on_opening = warnings.find(|w| w.contains("/io/"));
    if recording.ios_stored() == 0 {
        return on_opening.cloned();
    }
    if recording.ios_stored() > MAX_LOOKED_AT {
        return None;
    }
    let mut reader = recording.ios(i64::MIN..i64::MAX, IoColumns::ALL);
    let readable = reader
        .by_ref()
        .any(|batch| batch.is_ok_and(|ios| !ios.is_empty()));
    if readable {
        None
    } else {
        reader.warnings().first().cloned()
    }
}
