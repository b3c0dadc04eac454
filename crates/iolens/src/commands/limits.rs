//! The limits of devices and links that the user specified (`--limit`), by device number.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use iolens_core::analysis::bursts::links::Link;
use iolens_core::analysis::bursts::{Limit, LimitSource};
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{DevId, Device};

use crate::cli::CarryLimit;
use crate::engine::layers::Layers;
use crate::engine::report::Limits;
use crate::present::query_text::no_such_device;

/// Resolves the limits that the user specified.
///
/// # Errors
/// The recording has no such device, two limits are for the same device, or an I/O would count twice on a link.
pub fn limits(devices: &[Device], known: &[CarryLimit]) -> Result<Limits> {
    let mut limits = BTreeMap::new();
    let mut links = Vec::<Link>::new();
    for k in known {
        let members = k
            .devices
            .iter()
            .map(|name| named(devices, name, "--limit"))
            .collect::<Result<Vec<Device>>>()?;
        let ids: Vec<DevId> = members.iter().map(|d| d.id).collect();
        let bytes_per_s = k.bytes_per_s as f64;
        // A link is identified by its devices, independent of the order in which they are named.
        let sorted: BTreeSet<&DevId> = ids.iter().collect();
        let again = match ids[..] {
            [dev] => limits.insert(dev, bytes_per_s).is_some(),
            _ => links
                .iter()
                .any(|link| link.devices.iter().collect::<BTreeSet<_>>() == sorted),
        };
        ensure!(
            !again,
            "--limit: {} has two limits; give one",
            k.devices.join("+")
        );
        if let [layer, ..] = Layers::doubled(&members, GroupBy::All).words() {
            bail!("--limit: {layer} would count each I/O twice; leave out the upper device");
        }
        if ids.len() > 1 {
            links.push(Link {
                devices: ids,
                limit: Limit {
                    bytes_per_s,
                    source: LimitSource::User,
                },
            });
        }
    }
    Ok(Limits {
        of_devices: limits,
        links,
    })
}

/// The name of a device without its directory.
pub fn bare_name(name: &str) -> &str {
    name.strip_prefix("/dev/").unwrap_or(name)
}

/// The names of devices without their directory.
pub fn bare_names(names: &[String]) -> Vec<String> {
    let bare = names.iter().map(|name| bare_name(name));
    bare.map(str::to_owned).collect()
}

/// Finds the device called `name` (or `/dev/name`, or MAJ:MIN) among `devices`. `option` is the option that named it.
///
/// # Errors
/// There is no such device.
pub fn named(devices: &[Device], name: &str, option: &str) -> Result<Device> {
    let bare = bare_name(name);
    devices
        .iter()
        .find(|d| d.name == bare || d.id.to_string() == bare)
        .cloned()
        .with_context(|| {
            let known: Vec<String> = devices.iter().map(|d| d.name.clone()).collect();
            format!("{option} {}", no_such_device(name, &known))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices() -> Vec<Device> {
        let dm = Device {
            slaves: vec!["sda".to_owned()],
            ..Device::named("dm-0", DevId::new(253, 0))
        };
        vec![
            Device::named("sda", DevId::new(8, 0)),
            Device::named("sdb", DevId::new(8, 16)),
            dm,
        ]
    }

    fn given(all: &[(&str, u64)]) -> Result<Limits> {
        let one = |(names, bytes_per_s): &(&str, u64)| CarryLimit {
            devices: names.split('+').map(str::to_owned).collect(),
            bytes_per_s: *bytes_per_s,
        };
        limits(&devices(), &all.iter().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn devices_and_links_by_number() {
        let Limits { of_devices, links } =
            given(&[("sda", 500), ("sda+sdb", 900), ("sdb+dm-0", 7)]).expect("no contradiction");
        assert_eq!(of_devices, BTreeMap::from([(DevId::new(8, 0), 500.0)]));
        assert_eq!(links[0].devices, [DevId::new(8, 0), DevId::new(8, 16)]);
        assert_eq!((links.len(), links[1].limit.bytes_per_s), (2, 7.0));
    }

    #[test]
    fn contradictory_options_are_reported() {
        let said = |all| given(all).expect_err("refused").to_string();
        assert_eq!(
            said(&[("sdz", 1)]),
            "--limit sdz: no such device; there are sda, sdb, dm-0"
        );
        assert_eq!(
            said(&[("sda", 1), ("sda", 2)]),
            "--limit: sda has two limits; give one"
        );
        assert_eq!(
            said(&[("sda+sdb", 1), ("sdb+sda", 2)]),
            "--limit: sdb+sda has two limits; give one"
        );
        let twice = said(&[("sda+dm-0", 1)]);
        assert_eq!(
            twice,
            "--limit: dm-0 (on sda) would count each I/O twice; leave out the upper device"
        );
    }
}
