//! Names of files and control groups in a recording, for the commands that show them.

use std::collections::HashSet;

use iolens_core::model::Names;
use iolens_core::store::Recording;

use super::caller::Caller;
use super::decode::each_row;
use super::error::Result;

/// The name of every file and control group: the last one recorded before `to_ns`, else the first one after it.
///
/// # Errors
/// The recording cannot be read.
pub fn read(recording: &Recording, to_ns: i64, caller: &Caller) -> Result<Names> {
    let mut names = Names::default();
    let mut known = HashSet::new();
    each_row(
        recording,
        recording.names(i64::MIN..i64::MAX),
        caller,
        |name| {
            if known.insert(name.of) || name.at_ns <= to_ns {
                names.insert(name.of, name.text);
            }
        },
    )?;
    Ok(names)
}
