//! Devices that must not be added to others: an I/O through a stack (md over disks, dm over a partition) is recorded
//! once on each layer, and what a partition does its disk does too.

use std::collections::BTreeSet;

use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{DevId, Device};

use crate::present::escape;

/// Which of some devices lie above others of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layers {
    above: BTreeSet<DevId>,
    words: Vec<String>,
}

impl Layers {
    /// Of `devices`, those whose I/Os `by` would count twice: none if each device has its own rows.
    pub fn doubled(devices: &[Device], by: GroupBy) -> Layers {
        let mut layers = Layers::default();
        if by == GroupBy::Device {
            return layers;
        }
        for d in devices {
            let under: Vec<&str> = devices.iter().filter(|b| b.id != d.id && lies_on(d, b)).map(|b| &*b.name).collect();
            if !under.is_empty() && layers.above.insert(d.id) {
                layers.words.push(format!("{} (on {})", d.name, under.join(", ")));
            }
        }
        layers
    }

    /// Whether an I/O of `dev` counts in sums.
    pub fn counts(&self, dev: DevId) -> bool {
        !self.above.contains(&dev)
    }

    /// The devices that do not count in sums.
    pub fn left_out(&self) -> &BTreeSet<DevId> {
        &self.above
    }

    /// Each of them with what it lies on.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// What is left out, in one line for stderr; nothing if nothing is.
    pub fn say(&self) {
        if !self.words.is_empty() {
            let names = self.words.join(", ");
            eprintln!(
                "iolens: left out, because the devices below have the same I/Os: {}; --by device shows all layers",
                escape::terminal(&names)
            );
        }
    }
}

/// Whether what `upper` does reaches `lower`: it is stacked on it or on a partition of it, or is such a partition.
fn lies_on(upper: &Device, lower: &Device) -> bool {
    let stacked = |slave: &String| *slave == lower.name || lower.partitions.iter().any(|(name, _)| name == slave);
    upper.slaves.iter().any(stacked)
        || lower.partitions.iter().any(|(_, id)| *id == upper.id)
        || is_partition_name(&upper.name, &lower.name)
}

/// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`: imported tables say no more than names.
fn is_partition_name(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let digits = if disk.ends_with(|c: char| c.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, minor: u32, slaves: &[&str]) -> Device {
        let slaves = slaves.iter().map(|s| (*s).to_owned()).collect();
        Device { slaves, ..Device::named(name, DevId::new(8, minor)) }
    }

    fn left_out(devices: &[Device]) -> Vec<&str> {
        let layers = Layers::doubled(devices, GroupBy::All);
        devices.iter().filter(|d| !layers.counts(d.id)).map(|d| &*d.name).collect()
    }

    #[test]
    fn layers_and_partitions_are_left_out_of_sums_only() {
        let mut disk = device("sda", 0, &[]);
        disk.partitions = vec![("sda2".to_owned(), DevId::new(8, 2))];
        let stack = [device("dm-0", 9, &["md0"]), device("md0", 8, &["sda2", "sdb"]), disk, device("sdb", 16, &[])];
        assert_eq!(left_out(&stack), ["dm-0", "md0"], "over a partition of a recorded disk, too");
        assert_eq!(Layers::doubled(&stack, GroupBy::Device), Layers::default());
        assert_eq!(left_out(&stack[..1]), [""; 0], "a layer that was recorded alone is all there is");
    }

    #[test]
    fn partitions_by_name() {
        let imported = ["sda", "sda1", "nvme0n1", "nvme0n1p3", "dm-1", "dm-10", "sdaa"];
        let devices: Vec<Device> = (0..).zip(imported).map(|(i, n)| device(n, i, &[])).collect();
        assert_eq!(left_out(&devices), ["sda1", "nvme0n1p3"]);
    }
}
