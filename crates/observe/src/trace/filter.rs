//! The list of devices that are traced, as the BPF programs look it up.

use std::collections::BTreeMap;

use aya::maps::{Array, MapData};
use iolens_core::model::DevId;

use super::{
    error::{TraceError, refused},
    event::{DEVICE_HASH, DEVICE_SHIFT, DEVICE_WAYS, DeviceSet},
};

/// The non-empty sets of the kernel's table.
type FilterTable = BTreeMap<u32, DeviceSet>;

/// Index of a device's set in the table, by Fibonacci hashing as in the BPF programs.
fn set_of(dev: DevId) -> u32 {
    (dev.0 as u32).wrapping_mul(DEVICE_HASH) >> DEVICE_SHIFT
}

/// Builds the table that contains these devices, or returns the first device whose set is full.
fn table_of(devices: &[DevId]) -> Result<FilterTable, DevId> {
    let mut table = FilterTable::new();
    for dev in devices {
        let set = table.entry(set_of(*dev)).or_insert([0; DEVICE_WAYS]);
        if !set.contains(&(dev.0 as u32)) {
            *set.iter_mut().find(|d| **d == 0).ok_or(*dev)? = dev.0 as u32;
        }
    }
    Ok(table)
}

/// The kernel's table and the content that it was given.
pub(super) struct DeviceFilter {
    map: Array<MapData, DeviceSet>,
    table: FilterTable,
}

impl DeviceFilter {
    /// Wraps the kernel's table, which must be empty.
    pub fn new(map: Array<MapData, DeviceSet>) -> DeviceFilter {
        DeviceFilter {
            map,
            table: FilterTable::new(),
        }
    }

    /// Replaces the list. A device on both the old and the new list is traced without a gap.
    ///
    /// # Errors
    /// The kernel refuses, or too many device numbers hash to one set; the list then stays as it was.
    pub fn set(&mut self, devices: &[DevId]) -> Result<(), TraceError> {
        let table = table_of(devices).map_err(TraceError::TooManyDevices)?;
        let gone = self
            .table
            .keys()
            .filter(|set| !table.contains_key(set))
            .map(|set| (set, &[0; DEVICE_WAYS]));
        for (set, value) in table
            .iter()
            .filter(|(set, value)| self.table.get(set) != Some(value))
            .chain(gone)
        {
            self.map
                .set(*set, value, 0)
                .map_err(|e| refused("change the list of devices", &e))?;
        }
        self.table = table;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever numbers a machine gives its disks, each is found in its set, and nothing else.
        #[test]
        fn every_device_is_in_its_hash_set(devices in prop::collection::vec((1u32..4096, 0u32..1 << 20), 0..500)) {
            let devices: Vec<DevId> = devices.into_iter().map(|(major, minor)| DevId::new(major, minor)).collect();
            // Drawn at random some set may be full: that is said, not hidden.
            if let Ok(table) = table_of(&devices) {
                for dev in &devices {
                    prop_assert!(table[&set_of(*dev)].contains(&(dev.0 as u32)));
                }
                let held = table.values().flatten().filter(|d| **d != 0).count();
                let mut distinct = devices.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(held, distinct.len());
            }
        }
    }

    #[test]
    fn thousands_of_disks_find_room() {
        for step in [1, 16, 64] {
            let disks: Vec<DevId> = (0..2000).map(|i| DevId::new(8, i * step)).collect();
            assert!(table_of(&disks).is_ok(), "minors {step} apart");
        }
    }

    #[test]
    fn a_full_set_is_an_error() {
        let crowd: Vec<DevId> = (0..1 << 20)
            .map(|i| DevId::new(8, i))
            .filter(|d| set_of(*d) == 7)
            .take(9)
            .collect();
        assert_eq!(table_of(&crowd[..8]).map(|t| t.len()), Ok(1));
        assert_eq!(table_of(&crowd), Err(crowd[8]));
    }
}
