//! Small consecutive numbers for devices, used as array indices.

use std::collections::HashMap;

use crate::model::DevId;

/// Numbers devices in the order in which they appear.
#[derive(Debug, Clone, Default)]
pub struct DeviceIndex {
    devices: Vec<DevId>,
    numbers: HashMap<DevId, u32>,
    last: Option<(DevId, u32)>,
}

impl DeviceIndex {
    /// Up to this many devices a linear search is faster than a hash table.
    const FEW: usize = 16;

    /// The number of `dev`; a new device gets the next one.
    #[inline]
    pub fn number(&mut self, dev: DevId) -> u32 {
        match self.last {
            Some((last, i)) if last == dev => i,
            _ => {
                let i = self.look_up(dev);
                self.last = Some((dev, i));
                i
            }
        }
    }

    fn look_up(&mut self, dev: DevId) -> u32 {
        if let Some(i) = self.among_few(dev) {
            return i as u32;
        }
        let next = self.devices.len() as u32;
        let i = if self.devices.len() < Self::FEW {
            next
        } else {
            *self.numbers.entry(dev).or_insert(next)
        };
        if i == next {
            self.devices.push(dev);
        }
        i
    }

    /// The number of `dev`, if it is among the first few.
    fn among_few(&self, dev: DevId) -> Option<usize> {
        let few = self.devices.len().min(Self::FEW);
        self.devices[..few].iter().position(|known| *known == dev)
    }

    /// The number of `dev`, if it has one.
    pub fn get(&self, dev: DevId) -> Option<usize> {
        let few = self.among_few(dev);
        few.or_else(|| self.numbers.get(&dev).map(|i| *i as usize))
    }

    /// The devices, indexed by number.
    pub fn devices(&self) -> &[DevId] {
        &self.devices
    }
}
