//! Device numbers for logs that only know names.

use std::collections::HashMap;

use iolens_core::model::{DevId, Device};

/// Names seen so far and the numbers they got.
#[derive(Debug, Default)]
pub struct Devices {
    ids: HashMap<Vec<u8>, DevId>,
    list: Vec<Device>,
}

impl Devices {
    /// The number of `name`: a made-up one (major 0, which no disk has), unless the name itself is `MAJ:MIN` or `MAJ,MIN`.
    pub fn by_name(&mut self, name: &[u8]) -> DevId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let text = String::from_utf8_lossy(name).into_owned();
        let id = number(&text).unwrap_or_else(|| DevId::new(0, self.list.len() as u32 + 1));
        self.ids.insert(name.to_owned(), id);
        self.list.push(Device::named(text, id));
        id
    }

    /// A device of which the log knows the number only.
    pub fn by_number(&mut self, id: DevId) -> DevId {
        if !self.list.iter().any(|d| d.id == id) {
            self.list.push(Device::named(id.to_string(), id));
        }
        id
    }

    /// A pseudo-device that stands for several: its name says so, and its identity keeps it out of sums.
    pub fn aggregate(&mut self, name: &str) -> DevId {
        let id = self.by_name(name.as_bytes());
        if let Some(d) = self.list.iter_mut().find(|d| d.id == id) {
            d.stable_id = Some(format!("aggregate:{name}"));
        }
        id
    }

    /// All of them, in order of appearance.
    pub fn into_list(self) -> Vec<Device> {
        self.list
    }
}

fn number(name: &str) -> Option<DevId> {
    let (major, minor) = name.split_once([':', ','])?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 11 && minor < 1 << 20).then(|| DevId::new(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_numbers_once_and_numbers_stay() {
        let mut d = Devices::default();
        let a = d.by_name(b"sda");
        assert_eq!(d.by_name(b"sda"), a);
        assert_ne!(d.by_name(b"sdb"), a);
        assert_eq!(d.by_name(b"254,0"), DevId::new(254, 0));
        assert_eq!(d.by_name(b"\xff"), DevId::new(0, 4));
        assert_eq!(d.into_list().len(), 4);
    }
}
