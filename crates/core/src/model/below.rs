//! Index to find the devices below a device in a list without comparing every pair.

use std::collections::HashMap;

use super::device::{disks_of_partition_name, host_and_name, is_disk_name};
use super::{DevId, Device};

/// Index of a list of devices by the names that other devices refer to.
#[derive(Debug)]
pub struct Below<'a> {
    devices: &'a [Device],
    /// By their own names and those of their partitions.
    named: HashMap<&'a str, Vec<usize>>,
    /// By the numbers of their partitions.
    partitions: HashMap<DevId, Vec<usize>>,
    /// Disks that an imported log knows by name only, by host.
    disks: HashMap<Option<&'a str>, Vec<usize>>,
}

impl<'a> Below<'a> {
    /// Looks at each device once.
    pub fn new(devices: &'a [Device]) -> Below<'a> {
        let mut below = Below {
            devices,
            named: HashMap::new(),
            partitions: HashMap::new(),
            disks: HashMap::new(),
        };
        for (i, d) in devices.iter().enumerate() {
            below.named.entry(&d.name).or_default().push(i);
            for (name, id) in &d.partitions {
                below.named.entry(name).or_default().push(i);
                below.partitions.entry(*id).or_default().push(i);
            }
            let (host, name) = host_and_name(&d.name);
            if is_disk_name(name) {
                below.disks.entry(host).or_default().push(i);
            }
        }
        below
    }

    /// The devices under `upper`, in the order of the list.
    pub fn of(&self, upper: &Device) -> impl Iterator<Item = &'a Device> {
        let (host, name) = host_and_name(&upper.name);
        let names = upper
            .slaves
            .iter()
            .map(String::as_str)
            .chain(disks_of_partition_name(&upper.name));
        let mut found: Vec<usize> = names
            .filter_map(|n| self.named.get(n))
            .flatten()
            .copied()
            .collect();
        found.extend(self.partitions.get(&upper.id).into_iter().flatten());
        if upper.is_imported() && !is_disk_name(name) {
            found.extend(self.disks.get(&host).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        let devices = self.devices;
        let upper = upper.clone();
        found
            .into_iter()
            .map(|i| &devices[i])
            .filter(move |lower| lower.id != upper.id && upper.is_above(lower))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn device() -> impl Strategy<Value = Device> {
        let names = [
            "sda",
            "sda1",
            "sdaa",
            "nvme0n1",
            "nvme0n1p2",
            "ata-x-part1",
            "ata-x",
            "dm-0",
            "h/dm-1",
            "h/sdb",
        ];
        let name = prop::sample::select(names.to_vec());
        let some = |n| prop::collection::vec(name.clone(), 0..n);
        (
            name.clone(),
            0..2u32,
            0..12u32,
            some(2),
            some(2),
            any::<bool>(),
        )
            .prop_map(|(name, major, minor, slaves, partitions, sum)| Device {
                slaves: slaves.into_iter().map(str::to_owned).collect(),
                partitions: partitions
                    .iter()
                    .zip(5..)
                    .map(|(n, i)| ((*n).to_owned(), DevId::new(major, i)))
                    .collect(),
                stable_id: sum.then(|| "aggregate:x".to_owned()).filter(|_| minor == 7),
                ..Device::named(name, DevId::new(major, minor))
            })
    }

    proptest! {
        #[test]
        fn the_same_pairs_are_found_as_by_a_look_at_all(devices in prop::collection::vec(device(), 0..12)) {
            let below = Below::new(&devices);
            for upper in &devices {
                let all = devices.iter().filter(|d| d.id != upper.id && upper.is_above(d));
                let found: Vec<&Device> = below.of(upper).collect();
                prop_assert_eq!(found, all.collect::<Vec<_>>());
            }
        }
    }
}
