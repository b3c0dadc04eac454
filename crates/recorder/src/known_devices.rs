//! The list of devices of a recorder, kept up to date by hot-plug.

use anyhow::{Context as _, Result};
use iolens_core::model::{DevId, Device, DeviceKind, Mark};
use iolens_observe::topology::Topology;

use crate::Feed;

/// All devices that a recorder has seen, or those of them that were chosen.
pub struct KnownDevices {
    topology: Topology,
    chosen: Option<Vec<DevId>>,
    all: Vec<Device>,
}

impl KnownDevices {
    /// Those of `topology`, or of them only `chosen`.
    pub fn new(topology: Topology, chosen: Option<Vec<DevId>>) -> KnownDevices {
        KnownDevices {
            all: selected(topology.devices(), chosen.as_deref()),
            topology,
            chosen,
        }
    }

    /// The devices; one that went has the time at which it did.
    pub fn all(&self) -> &[Device] {
        &self.all
    }

    /// Leaves out those that went.
    pub fn forget_removed(&mut self) {
        self.all.retain(|d| d.removed_ns.is_none());
    }

    /// Looks whether devices came or went by `now_ns`, and has `feed` record those without requests too. Yields marks of what
    /// changed; `None`: nothing did.
    ///
    /// # Errors
    /// The probes of devices without requests cannot be attached.
    pub fn look(&mut self, feed: &mut Feed, now_ns: i64) -> Result<Option<Vec<Mark>>> {
        self.topology.learn_numbers(feed.hidden_disks());
        if self.topology.refresh_if_changed().unwrap_or(false) {
            self.changed(feed, now_ns).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The same at the end: reads the devices anew only if the kernel's own numbers of disks have changed.
    ///
    /// # Errors
    /// As of [`KnownDevices::look`].
    pub fn last_look(&mut self, feed: &mut Feed, now_ns: i64) -> Result<Option<Vec<Mark>>> {
        if self.topology.learn_numbers(feed.hidden_disks()) && self.topology.refresh().is_ok() {
            self.changed(feed, now_ns).map(Some)
        } else {
            Ok(None)
        }
    }

    fn changed(&mut self, feed: &mut Feed, now_ns: i64) -> Result<Vec<Mark>> {
        let present = selected(self.topology.devices(), self.chosen.as_deref());
        let marks = merge_devices(&mut self.all, &present, now_ns);
        if present
            .iter()
            .any(|d| d.kind == DeviceKind::Bio && d.size_bytes.unwrap_or(0) > 0)
        {
            feed.attach_bio_based()
                .context("the probes for bio-based devices could not be attached")?;
        }
        Ok(marks)
    }
}

fn selected(devices: &[Device], filter: Option<&[DevId]>) -> Vec<Device> {
    devices
        .iter()
        .filter(|d| filter.is_none_or(|f| f.contains(&d.id)))
        .cloned()
        .collect()
}

/// Brings `known` up to date with `present`; devices that went stay, with the time at which they did.
fn merge_devices(known: &mut Vec<Device>, present: &[Device], now_ns: i64) -> Vec<Mark> {
    let mut marks = Vec::new();
    for gone in known
        .iter_mut()
        .filter(|k| k.removed_ns.is_none() && !present.iter().any(|p| same(k, p)))
    {
        gone.removed_ns = Some(now_ns);
        marks.push(mark(now_ns, "device-removed", gone));
    }
    for p in present {
        match known
            .iter_mut()
            .find(|k| k.removed_ns.is_none() && same(k, p))
        {
            Some(k) => {
                // A loop device whose file was taken away was above a disk before.
                let slaves = p
                    .slaves
                    .iter()
                    .chain(k.slaves.iter().filter(|s| !p.slaves.contains(s)))
                    .cloned()
                    .collect();
                *k = Device {
                    added_ns: k.added_ns,
                    slaves,
                    ..p.clone()
                };
            }
            None => {
                known.push(Device {
                    added_ns: Some(now_ns),
                    ..p.clone()
                });
                marks.push(mark(now_ns, "device-added", p));
            }
        }
    }
    marks
}

fn mark(at_ns: i64, kind: &str, device: &Device) -> Mark {
    Mark {
        at_ns,
        kind: kind.to_owned(),
        text: device.name.clone(),
    }
}

fn same(a: &Device, b: &Device) -> bool {
    a.id == b.id && a.name == b.name
}
