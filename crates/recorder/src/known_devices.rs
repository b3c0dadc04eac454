//! The list of a recorder's devices, updated on hot-plug.

use anyhow::{Context as _, Result};
use iolens_core::model::{DevId, Device, DeviceKind, Mark};
use iolens_observe::topology::Topology;

use crate::Feed;

/// The devices seen by a recorder, or the chosen ones of them.
pub struct KnownDevices {
    topology: Topology,
    chosen: Option<Vec<DevId>>,
    all: Vec<Device>,
}

impl KnownDevices {
    /// The devices of `topology`, or only those of `chosen`.
    pub fn new(topology: Topology, chosen: Option<Vec<DevId>>) -> KnownDevices {
        KnownDevices {
            all: selected(topology.devices(), chosen.as_deref()),
            topology,
            chosen,
        }
    }

    /// The devices. A device that was removed has the time of its removal.
    pub fn all(&self) -> &[Device] {
        &self.all
    }

    /// Drops removed devices from the list.
    pub fn forget_removed(&mut self) {
        self.all.retain(|d| d.removed_ns.is_none());
    }

    /// Looks for devices added or removed by `now_ns`, and lets `feed` record bio-based ones too. Returns a mark for
    /// each change; `None`: no change.
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

    /// Like [`KnownDevices::look`], at the end of a recording: reads the devices again only if the kernel's list of
    /// disks has changed.
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

/// Updates `known` with the `present` devices. Removed ones stay, with the time of their removal.
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
                // A loop device whose file was detached was above a disk before.
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
