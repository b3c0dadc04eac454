//! The disks that the command line names.

use anyhow::{Result, bail};
use iolens_core::model::{DevId, Device};
use iolens_observe::topology::{Lookup, Topology};

/// The disks that `words` name; `None` if there are none, which means every disk.
///
/// # Errors
/// A word names no disk.
pub fn choose_devices(topology: &Topology, words: &[String]) -> Result<Option<Vec<DevId>>> {
    if words.is_empty() {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    for word in words {
        match topology.find(word) {
            Lookup::Disk(d) => chosen.extend(topology.recorded_as(d)),
            Lookup::PartitionOf(d) => bail!(
                "{word} is a partition; whole disks are recorded: use -d {}",
                d.name
            ),
            Lookup::Unknown => bail!(
                "{word}: no such disk; there are {}",
                disk_names(topology.devices())
            ),
        }
    }
    Ok(Some(chosen))
}

fn disk_names(devices: &[Device]) -> String {
    let names: Vec<&str> = devices
        .iter()
        .filter(|d| d.size_bytes.unwrap_or(0) > 0)
        .map(|d| d.name.as_str())
        .take(12)
        .collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
