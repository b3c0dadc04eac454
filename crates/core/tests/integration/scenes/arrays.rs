//! Arrays: every member has its own load and its own device.

use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::model::{
    BtrfsSettings, DevId, Device as Disk, Io, Lost, Raid, RecordingMeta, Settings, Source,
};

use super::{Arrivals, Device, MIXED, Scene};

pub fn member(m: usize) -> DevId {
    DevId::new(8, 16 * m as u32)
}

/// The report of an md array of `members`.
pub fn report(members: &[Scene], seed: u64) -> Report {
    report_with(members, seed, None, |meta| {
        let raid = Raid {
            level: "raid5".to_owned(),
            disks: members.len() as u32,
            chunk_bytes: 65_536,
            layout: 2,
        };
        let slaves = meta.devices.iter().map(|d| d.name.clone()).collect();
        meta.devices.push(Disk {
            slaves,
            raid: Some(raid),
            ..Disk::named("md0", DevId::new(9, 0))
        });
    })
}

/// The report of `members` that one btrfs lies on; `lost` is missing in the recording.
pub fn report_of_btrfs(
    members: &[Scene],
    data_profile: &str,
    seed: u64,
    lost: Option<Lost>,
) -> Report {
    report_with(members, seed, lost, |meta| {
        let btrfs = BtrfsSettings {
            uuid: "083c1c1d-843d-4626".to_owned(),
            label: None,
            devices: meta.devices.iter().map(|d| d.id).collect(),
            data_profile: Some(data_profile.to_owned()),
            metadata_profile: None,
        };
        meta.settings = Some(Settings {
            btrfs: vec![btrfs],
            ..Settings::default()
        });
    })
}

/// The report of `members`; `describe` states how they are combined.
fn report_with(
    members: &[Scene],
    seed: u64,
    lost: Option<Lost>,
    describe: impl FnOnce(&mut RecordingMeta),
) -> Report {
    let own = |(m, scene): (usize, &Scene)| -> Vec<Io> {
        scene
            .ios(97 * seed + m as u64)
            .into_iter()
            .map(|io| Io {
                dev: member(m),
                ..io
            })
            .collect()
    };
    let mut ios: Vec<Io> = members.iter().enumerate().flat_map(own).collect();
    ios.sort_by_key(|io| io.done_ns);
    let name = |m: usize| format!("sd{}", char::from(b'a' + m as u8));
    let mut meta = RecordingMeta::new(Source::Ebpf, 0);
    meta.devices = (0..members.len())
        .map(|m| Disk::named(name(m), member(m)))
        .collect();
    describe(&mut meta);
    let mut builder = ReportBuilder::for_recording(&meta, Window::new(0, 60_000_000_000));
    if let Some(lost) = &lost {
        builder.lost(lost);
    }
    ios.iter().for_each(|io| builder.push(io));
    builder.finish(0)
}

/// A disk that takes `times` as long as others for requests at random places.
pub fn disk(per_s: f64, times: f64) -> Scene {
    let device = Device {
        random_s: times * Device::DISK.random_s,
        fixed_s: times * Device::DISK.fixed_s,
        ..Device::DISK
    };
    Scene {
        arrivals: Arrivals::Poisson(per_s),
        device,
        ..Scene::default()
    }
}

/// Five disks; the third is slower.
pub fn with_slow(times: f64, seed: u64) -> Report {
    let members: Vec<Scene> = (0..5)
        .map(|m| disk(200.0, if m == 2 { times } else { 1.0 }))
        .collect();
    report(&members, seed)
}

/// Arrays without a slow member.
pub fn nulls() -> Vec<(&'static str, Vec<Scene>)> {
    let similar = Scene {
        arrivals: Arrivals::SelfSimilar {
            per_s: 200.0,
            sources: 10,
            tail: 1.4,
        },
        sizes: MIXED,
        ..disk(0.0, 1.0)
    };
    // Four spells of 2 s, each four times as slow.
    let spells = |first_s: f64| {
        let spell = |k: i32| {
            let at = first_s + 14.0 * f64::from(k);
            [
                (at, 1.0),
                (at + 0.01, 4.0),
                (at + 2.0, 4.0),
                (at + 2.01, 1.0),
            ]
        };
        Scene {
            pace: (0..4).flat_map(spell).collect(),
            ..disk(200.0, 1.0)
        }
    };
    vec![
        ("two members, disks", vec![disk(500.0, 1.0); 2]),
        ("five members, self-similar, mixed sizes", vec![similar; 5]),
        (
            "two slow members of four",
            [1.0, 3.0, 3.0, 1.0]
                .map(|times| disk(200.0, times))
                .to_vec(),
        ),
        (
            "three members with slow spells in turn",
            [3.0, 7.0, 11.0].map(spells).to_vec(),
        ),
    ]
}
