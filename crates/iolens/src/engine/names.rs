//! The names of a recording, for the commands that show files and control groups.

use std::collections::HashSet;

use iolens_core::model::Names;
use iolens_core::store::Recording;

use super::caller::Caller;
use super::error::Result;

/// Of every file and control group the name recorded last before `to_ns`, else the first one after it.
///
/// # Errors
/// The recording cannot be read.
pub fn read(recording: &Recording, to_ns: i64, caller: &Caller) -> Result<Names> {
    let mut names = Names::default();
    let mut known = HashSet::new();
    let mut reader = recording.names(i64::MIN..i64::MAX);
    for batch in &mut reader {
        caller.check()?;
        for name in batch? {
            if !known.insert(name.of) && name.at_ns > to_ns {
                continue;
            }
            names.insert(name.of, name.text);
        }
    }
    caller.damage(reader.warnings());
    Ok(names)
}
