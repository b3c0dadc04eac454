//! Assigns device numbers in logs that have only names.

use std::collections::{BTreeSet, HashMap};

use iolens_core::model::{DevId, Device};

use super::text::owned_text;

/// The names seen so far and their numbers. The same name on two hosts is two devices.
#[derive(Debug, Default)]
pub struct Devices {
    ids: HashMap<(Option<String>, Vec<u8>), DevId>,
    list: Vec<(Option<String>, Device)>,
    /// The index in the list, by number.
    places: HashMap<DevId, usize>,
    host: Option<String>,
    /// There were more names than [`MAX_DEVICES`].
    too_many: bool,
}

/// No machine has this many disks. Content with more names is damaged, or not a log.
pub const MAX_DEVICES: usize = 1 << 15;

impl Devices {
    /// The host of the following names, if it is known.
    pub fn set_host(&mut self, host: Option<String>) {
        self.host = host;
    }

    /// The number of `name`. It is invented (major 0, which no disk has), unless the name itself is `MAJ:MIN` or
    /// `MAJ,MIN`.
    pub fn by_name(&mut self, name: &[u8]) -> DevId {
        let key = (self.host.clone(), name.to_owned());
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        if self.list.len() >= MAX_DEVICES {
            self.too_many = true;
            return DevId::new(0, 0);
        }
        let text = owned_text(name.trim_ascii());
        let id = number(&text).unwrap_or_else(|| DevId::new(0, self.list.len() as u32 + 1));
        self.ids.insert(key, id);
        self.add(self.host.clone(), Device::named(text, id));
        id
    }

    fn add(&mut self, host: Option<String>, device: Device) {
        self.places.entry(device.id).or_insert(self.list.len());
        self.list.push((host, device));
    }

    /// Whether there were more devices than are imported.
    pub fn too_many(&self) -> bool {
        self.too_many
    }

    /// Adds a device of which the log has only the number.
    pub fn by_number(&mut self, id: DevId) -> DevId {
        if self.places.contains_key(&id) {
            return id;
        }
        if self.list.len() >= MAX_DEVICES {
            self.too_many = true;
        } else {
            self.add(None, Device::named(id.to_string(), id));
        }
        id
    }

    /// A pseudo-device that represents several: its name shows that, and its identity excludes it from sums.
    pub fn aggregate(&mut self, name: &str) -> DevId {
        self.aggregate_as(name.as_bytes(), name)
    }

    /// A group of devices that iostat sums (`-g`). A leading blank distinguishes it from a device of that name.
    pub fn group(&mut self, name: &[u8]) -> DevId {
        let text = owned_text(name);
        self.aggregate_as(&[b" ", name].concat(), &format!("group:{text}"))
    }

    fn aggregate_as(&mut self, key: &[u8], identity: &str) -> DevId {
        let id = self.by_name(key);
        let place = self.places.get(&id);
        if let Some((_, d)) = place.and_then(|at| self.list.get_mut(*at)) {
            d.stable_id = Some(format!("aggregate:{identity}"));
        }
        id
    }

    /// All devices in order of appearance, and the numbers that represent several devices. If only one host is known, a
    /// log without a host is of that one. Names of several hosts get the host as a prefix.
    pub fn into_list(mut self) -> (Vec<Device>, HashMap<DevId, DevId>) {
        let hosts: BTreeSet<String> = self
            .list
            .iter()
            .filter_map(|(host, _)| host.clone())
            .collect();
        let mut same = HashMap::new();
        if hosts.len() == 1 {
            let mut first: HashMap<(Option<String>, String), DevId> = HashMap::new();
            self.list.retain(|(_, d)| {
                let id = *first
                    .entry((d.stable_id.clone(), d.name.clone()))
                    .or_insert(d.id);
                id == d.id || same.insert(d.id, id).is_some()
            });
        }
        let mut devices = Vec::with_capacity(self.list.len());
        for (host, mut device) in self.list {
            if hosts.len() > 1
                && let Some(host) = host
            {
                device.name = format!("{host}/{}", device.name);
            }
            devices.push(device);
        }
        (devices, same)
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
        assert_eq!(d.into_list().0.len(), 4);
    }

    #[test]
    fn a_log_that_names_more_devices_than_any_machine_has_is_known_as_such() {
        let mut d = Devices::default();
        for i in 0..MAX_DEVICES {
            d.by_name(format!("d{i}").as_bytes());
        }
        d.by_name(b"d0");
        assert!(!d.too_many());
        d.by_number(DevId::new(8, 0));
        assert!(d.too_many());
        assert_eq!(d.into_list().0.len(), MAX_DEVICES);
    }

    #[test]
    fn hosts_keep_their_devices_apart_and_a_silent_log_is_of_the_only_one() {
        let mut d = Devices::default();
        let silent = d.by_name(b"sda");
        d.set_host(Some("a".to_owned()));
        let of_a = d.by_name(b"sda");
        let group = d.group(b"sda");
        assert!(silent != of_a && group != of_a);
        let names = |list: &[Device]| list.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        let mut two = Devices::default();
        std::mem::swap(&mut two, &mut d);
        two.set_host(Some("b".to_owned()));
        two.by_name(b"sda");
        let (list, same) = two.into_list();
        assert_eq!(
            (names(&list), same.len()),
            (
                ["sda", "a/sda", "a/sda", "b/sda"]
                    .map(str::to_owned)
                    .to_vec(),
                0
            )
        );
        let silent = d.by_name(b"sda");
        d.set_host(Some("a".to_owned()));
        let of_a = d.by_name(b"sda");
        let (list, same) = d.into_list();
        assert_eq!(
            (names(&list), same),
            (vec!["sda".to_owned()], HashMap::from([(of_a, silent)]))
        );
    }
}
