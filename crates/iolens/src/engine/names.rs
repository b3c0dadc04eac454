//! The names of a recording, for the commands that show files and control groups.

use std::collections::HashSet;

use anyhow::Result;
use iolens_core::model::Named;
use iolens_core::store::Recording;

use super::{patience, source};
use crate::present::html::Names;

/// Of every file and control group the name recorded last before `to_ns`, else the first one after it.
///
/// # Errors
/// The recording cannot be read.
pub fn read(recording: &Recording, to_ns: i64) -> Result<Names> {
    let mut names = Names::default();
    let mut known = HashSet::new();
    let mut reader = recording.names(i64::MIN..i64::MAX);
    for batch in &mut reader {
        patience::check()?;
        for name in batch? {
            if !known.insert(name.of) && name.at_ns > to_ns {
                continue;
            }
            match name.of {
                Named::File(file) => drop(names.files.insert(file, name.text)),
                Named::Cgroup(id) => drop(names.cgroups.insert(id, name.text)),
                Named::Pod(id) => drop(names.pods.insert(id, name.text)),
                Named::Unknown => {}
            }
        }
    }
    source::warn(reader.warnings());
    Ok(names)
}
