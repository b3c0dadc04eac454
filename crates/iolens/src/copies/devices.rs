//! Merges what several recordings know about the devices of a copy.

use iolens_core::model::{Device, DeviceKind};

/// Updates `known` with `later`, the devices of a recording that starts at `from_ns`. Returns whether this changed
/// anything. All times are those of the copy.
pub fn learn_devices(known: &mut Vec<Device>, later: Vec<Device>, from_ns: i64) -> bool {
    let before = known.clone();
    for mut device in later {
        let there_from_ns = device.added_ns.unwrap_or(from_ns);
        match known
            .iter_mut()
            .find(|earlier| is_same(earlier, &device, there_from_ns))
        {
            Some(earlier) => *earlier = joint(earlier, device),
            None => {
                // A device that existed when a later recording started is known from then on.
                if from_ns > 0 {
                    device.added_ns.get_or_insert(from_ns);
                }
                known.push(device);
            }
        }
    }
    *known != before
}

/// Whether both are the same device without interruption. A device that was removed before the other appeared has
/// returned.
fn is_same(earlier: &Device, later: &Device, there_from_ns: i64) -> bool {
    let stayed = earlier.removed_ns.is_none_or(|at| at >= there_from_ns);
    earlier.id == later.id && earlier.name == later.name && stayed
}

/// The later description, completed with what only `earlier` contains.
fn joint(earlier: &Device, later: Device) -> Device {
    let kind = match later.kind {
        DeviceKind::Unknown => earlier.kind,
        kind => kind,
    };
    // Devices that were below it for some time have its I/Os of that time.
    let mut slaves = later.slaves;
    for slave in &earlier.slaves {
        if !slaves.contains(slave) {
            slaves.push(slave.clone());
        }
    }
    let partitions = if later.partitions.is_empty() {
        earlier.partitions.clone()
    } else {
        later.partitions
    };
    Device {
        name: later.name,
        id: later.id,
        kind,
        stable_id: later.stable_id.or_else(|| earlier.stable_id.clone()),
        model: later.model.or_else(|| earlier.model.clone()),
        size_bytes: later.size_bytes.or(earlier.size_bytes),
        rotational: later.rotational.or(earlier.rotational),
        logical_block_bytes: later.logical_block_bytes.or(earlier.logical_block_bytes),
        max_request_bytes: later.max_request_bytes.or(earlier.max_request_bytes),
        nr_requests: later.nr_requests.or(earlier.nr_requests),
        scheduler: later.scheduler.or_else(|| earlier.scheduler.clone()),
        iostats: later.iostats.or(earlier.iostats),
        slaves,
        raid: later.raid.or_else(|| earlier.raid.clone()),
        partitions,
        added_ns: earlier.added_ns,
        removed_ns: later.removed_ns,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::DevId;

    fn sda() -> Device {
        Device::named("sda", DevId::new(8, 0))
    }

    #[test]
    fn each_recording_adds_what_the_others_do_not_know() {
        let first = Device {
            model: Some("Disk 1".to_owned()),
            size_bytes: Some(1 << 30),
            slaves: vec!["sdx".to_owned()],
            ..sda()
        };
        let second = Device {
            stable_id: Some("wwn-1".to_owned()),
            size_bytes: Some(2 << 30),
            kind: DeviceKind::Request,
            slaves: vec!["sdy".to_owned()],
            partitions: vec![("sda1".to_owned(), DevId::new(8, 1))],
            removed_ns: Some(15),
            ..sda()
        };
        let mut known = vec![first];
        assert!(learn_devices(&mut known, vec![second.clone()], 10));
        let expected = Device {
            model: Some("Disk 1".to_owned()),
            slaves: vec!["sdy".to_owned(), "sdx".to_owned()],
            ..second
        };
        assert_eq!(known, [expected]);
        let same = Device {
            removed_ns: Some(15),
            ..sda()
        };
        assert!(!learn_devices(&mut known, vec![same], 12));
    }

    #[test]
    fn a_device_that_comes_again_is_another_one() {
        let gone = Device {
            removed_ns: Some(5),
            ..sda()
        };
        let back = Device {
            added_ns: Some(7),
            ..sda()
        };
        let mut known = vec![gone.clone(), back.clone()];
        // A later part of the same recording.
        assert!(!learn_devices(
            &mut known,
            vec![gone.clone(), back.clone()],
            3
        ));
        let mut known = vec![gone.clone()];
        assert!(learn_devices(&mut known, vec![sda()], 10));
        let again = Device {
            added_ns: Some(10),
            ..sda()
        };
        assert_eq!(known, [gone, again]);
    }
}
