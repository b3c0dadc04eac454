//! Selects disks by the names on the command line.

use anyhow::{Result, bail};
use iolens_core::model::DevId;
use iolens_observe::topology::{Lookup, Topology};

use crate::present::query_text::no_such_device;

/// The disks named by `words`; `None` if there are no words, which means every disk.
///
/// # Errors
/// A word does not name a disk.
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
            Lookup::Unknown => bail!("{}", no_such_device(word, &disk_names(topology))),
        }
    }
    Ok(Some(chosen))
}

/// Names of the disks that can have I/O.
fn disk_names(topology: &Topology) -> Vec<String> {
    let disks = topology.devices().iter();
    let disks = disks.filter(|d| d.size_bytes.unwrap_or(0) > 0);
    disks.map(|d| d.name.clone()).collect()
}
