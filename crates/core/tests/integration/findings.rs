//! Findings compared with planted truths, over many seeds: how many are found, and how many are found although nothing
//! is planted.

use crate::scenes::{Arrivals, Burst, Device, MIXED, Scene, arrays, nulls};
use crate::simulator::evidence;
use crate::{of_kind, seeds};
use iolens_core::analysis::findings::evidence::StallScope;
use iolens_core::analysis::findings::{Finding, FindingKind};
use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::model::{DevId, Device as Disk, Io, LossReason, Lost, Op, RecordingMeta, Source};

#[test]
fn a_stall_is_the_only_finding() {
    let mut found = 0;
    let mut blamed = 0;
    let runs = seeds(30);
    for seed in 0..runs {
        let at = 10.0 + seed as f64;
        let device = if seed % 2 == 0 {
            Device::FAST
        } else {
            Device::DISK
        };
        let scene = Scene {
            device,
            arrivals: Arrivals::Poisson(800.0),
            stalls: vec![(at, 0.3)],
            ..Scene::default()
        };
        let report = scene.report(seed);
        let stalls = of_kind(&report, FindingKind::Stall);
        let here = stalls
            .iter()
            .filter(|f| (f.from_ns as f64 / 1e9 - at).abs() < 0.05);
        found += u64::from(here.count() == 1 && stalls.len() == 1);
        let bursts = of_kind(&report, FindingKind::Microburst).len();
        let culprits: usize = report.stories.iter().map(|s| s.culprits.len()).sum();
        blamed += u64::from((bursts, culprits) != (0, 0));
        if (bursts, culprits) != (0, 0) || stalls.len() != 1 {
            eprintln!(
                "seed {seed}: {:?}",
                report
                    .findings
                    .iter()
                    .map(|f| &f.evidence)
                    .collect::<Vec<_>>()
            );
        }
    }
    eprintln!("{found} of {runs} stalls found, bursts or programs blamed in {blamed}");
    assert_eq!((found, blamed), (runs, 0));
}

#[test]
fn devices_that_work_do_not_stall() {
    for (name, scene) in nulls() {
        let runs = seeds(3);
        let reported = (0..runs)
            .filter(|seed| !of_kind(&scene.report(*seed), FindingKind::Stall).is_empty())
            .count() as u64;
        eprintln!("{name}: stalls in {reported} of {runs}");
        assert!(
            reported * 100 <= runs,
            "{name}: stalls in {reported} of {runs}"
        );
    }
}

#[test]
fn backgrounds_of_all_kinds_have_no_bursts() {
    for (name, scene) in nulls() {
        let runs = seeds(3);
        let bursts = |seed: &u64| {
            scene
                .report(*seed)
                .details
                .iter()
                .flat_map(|d| &d.streams)
                .any(|s| s.bursts_found > 0)
        };
        let reported = (100..100 + runs).filter(bursts).count() as u64;
        eprintln!("{name}: bursts in {reported} of {runs}");
        assert!(
            reported * 100 <= 3 * runs + 100,
            "{name}: bursts in {reported} of {runs}"
        );
    }
}

/// (planted, found, found elsewhere) of ten bursts of writes in each of some recordings.
fn recall(scene: &Scene, for_s: f64, per_s: f64, bytes: i64) -> (usize, usize, usize) {
    let mut planted = 0;
    let mut found = 0;
    let mut other = 0;
    for seed in 0..seeds(1) {
        let at = |k: u64| {
            2.0 + (scene.seconds - 4.0) / 10.0
                * (k as f64 + 0.37 * (((k + seed) * 7 % 10) as f64 / 10.0))
        };
        let bursts: Vec<Burst> = (0..10)
            .map(|k| Burst {
                at_s: at(k),
                for_s,
                per_s,
                op: Op::WRITE,
                bytes,
            })
            .collect();
        let report = Scene {
            bursts: bursts.clone(),
            ..scene.clone()
        }
        .report(seed);
        let seen = &report.details[0].streams[1].bursts;
        let meets = |b: &Burst, from: i64, to: i64| {
            (from as f64) < (b.at_s + b.for_s) * 1e9 && to as f64 > b.at_s * 1e9
        };
        planted += bursts.len();
        found += bursts
            .iter()
            .filter(|b| {
                seen.iter()
                    .any(|s| meets(b, s.burst.from_ns, s.burst.to_ns))
            })
            .count();
        other += report.details[0].streams[0].bursts.len();
        other += seen
            .iter()
            .filter(|s| {
                !bursts
                    .iter()
                    .any(|b| meets(b, s.burst.from_ns, s.burst.to_ns))
            })
            .count();
    }
    (planted, found, other)
}

#[test]
fn bursts_of_three_times_the_background_are_found_at_all_widths() {
    let device = Device {
        servers: 256,
        ..Device::FAST
    };
    for (name, sizes) in [("4 KiB", &[(4096, 1)][..]), ("mixed sizes", MIXED)] {
        // 5000 writes a second, and as many reads.
        let scene = Scene {
            arrivals: Arrivals::Poisson(10_000.0),
            sizes,
            device,
            ..Scene::default()
        };
        for for_s in [0.01, 0.03, 0.1, 0.3, 1.0] {
            let (planted, found, other) = recall(&scene, for_s, 10_000.0, 0);
            eprintln!("{name}, {for_s} s: {found} of {planted}, {other} elsewhere");
            assert!(
                found * 100 >= planted * 95 && other == 0,
                "{name}, {for_s} s: {found} of {planted}, {other} elsewhere"
            );
        }
    }
}

#[test]
fn equal_bursts_in_silence_are_all_counted() {
    let scene = Scene {
        arrivals: Arrivals::Silence,
        ..Scene::default()
    };
    let (planted, found, other) = recall(&scene, 0.03, 17_000.0, 128 << 10);
    assert_eq!((found, other), (planted, 0), "ten of 64 MiB in a minute");
    let bursts = |k: i32| Burst {
        at_s: 1.0 + 2.4 * f64::from(k),
        for_s: 0.05,
        per_s: 4000.0,
        op: Op::WRITE,
        bytes: 65_536,
    };
    let report = Scene {
        bursts: (0..24).map(bursts).collect(),
        ..scene
    }
    .report(3);
    let reported = report
        .findings
        .iter()
        .find(|f| f.kind() == FindingKind::Microburst)
        .expect("a finding");
    assert_eq!(
        (
            report.details[0].streams[1].bursts_found,
            evidence!(reported, Microburst).bursts_in_recording
        ),
        (24, 24)
    );
}

/// Ten workers that each read one block of a mirror or stripe at a time, in turn from each of its `members`, of which those in
/// `stuck` stall for half a second; above them `md0`. Beside it a disk with a load of its own.
fn array(members: i32, stuck: &[i32], names: fn(i32) -> String) -> Vec<Finding> {
    const MS: i64 = 1_000_000;
    let md = DevId::new(9, 0);
    let other = DevId::new(8, 240);
    let member = |m: i32| DevId::new(8, 16 * m as u32);
    let mut ready: Vec<(i64, i32)> = (0..10).map(|w| (i64::from(w) * 100_000, w)).collect();
    let mut ios: Vec<Io> = (0..10_000)
        .map(|i| {
            Io::new(
                i * MS + 1_200_000,
                other,
                Op::READ,
                4096,
                Some(0),
                1_200_000,
            )
        })
        .collect();
    while let Some((i, (at, turn))) = ready
        .iter()
        .copied()
        .enumerate()
        .min_by_key(|(_, r)| r.0)
        .filter(|r| r.1.0 < 10_000 * MS)
    {
        let m = turn % members;
        let is_stuck = stuck.contains(&m) && (5000 * MS..5500 * MS).contains(&at);
        let done = if is_stuck { 5500 * MS + at % 997 } else { at } + 900_000 + at % 300_007;
        ios.push(Io::new(done, member(m), Op::READ, 4096, Some(0), done - at));
        ios.push(Io::new(
            done + 2000,
            md,
            Op::READ,
            4096,
            Some(0),
            done - at + 3000,
        ));
        ready[i] = (done + 50_000, turn + 7);
    }
    ios.sort_by_key(|io| io.done_ns);
    let mut meta = RecordingMeta::new(Source::Ebpf, 0);
    let slaves = (0..members).map(names).collect();
    meta.devices = (0..members)
        .map(|m| Disk::named(names(m), member(m)))
        .collect();
    meta.devices.push(Disk {
        slaves,
        ..Disk::named("md0", md)
    });
    meta.devices.push(Disk::named("vdx", other));
    let mut builder = ReportBuilder::for_recording(&meta, Window::new(0, 10_000 * MS));
    ios.iter().for_each(|io| builder.push(io));
    builder
        .finish(0)
        .findings
        .into_iter()
        .filter(|f| f.kind() == FindingKind::Stall)
        .collect()
}

fn scopes(stalls: &[Finding]) -> Vec<StallScope> {
    stalls.iter().map(|f| evidence!(f, Stall).scope).collect()
}

#[test]
fn a_stall_is_reported_of_the_array_member_that_stopped_not_of_the_layer() {
    let name = |m: i32| format!("sd{}", char::from(b'a' + m as u8));
    let found = array(4, &[1], name);
    assert_eq!(found.len(), 1, "{found:?}");
    let e = evidence!(found[0], Stall);
    assert_eq!(
        (found[0].dev, e.scope),
        (Some(DevId::new(8, 16)), StallScope::ArrayMember),
        "{found:?}"
    );
    assert_eq!(
        (e.group.as_deref(), e.group_devices, e.group_devices_stalled),
        (Some("md0"), Some(4), Some(1))
    );
    assert_eq!(e.layers_stalled, ["md0"]);
    let all = array(3, &[0, 1, 2], name);
    assert_eq!(scopes(&all), [StallScope::Array; 3], "{all:?}");
    assert!(array(3, &[], name).is_empty(), "no stall");
}

/// Two namespaces of a controller and a disk, each with a read per millisecond; those in `stuck` stall for 0.3 s.
fn controller(stuck: &[usize]) -> Vec<Finding> {
    const MS: i64 = 1_000_000;
    let devices = [
        ("nvme0n1", DevId::new(259, 0)),
        ("nvme0n2", DevId::new(259, 1)),
        ("sda", DevId::new(8, 0)),
    ];
    let mut ios = Vec::new();
    for (i, (_, dev)) in devices.iter().enumerate() {
        for at in (0..10_000).map(|k| k * MS) {
            let is_stuck = stuck.contains(&i) && (5000 * MS..5300 * MS).contains(&at);
            let done = if is_stuck { 5300 * MS + at % 997 } else { at } + 1_200_000;
            ios.push(Io::new(done, *dev, Op::READ, 4096, Some(0), done - at));
        }
    }
    ios.sort_by_key(|io| io.done_ns);
    let mut meta = RecordingMeta::new(Source::Ebpf, 0);
    meta.devices = devices
        .iter()
        .map(|(name, dev)| Disk::named(*name, *dev))
        .collect();
    let mut builder = ReportBuilder::for_recording(&meta, Window::new(0, 10_000 * MS));
    ios.iter().for_each(|io| builder.push(io));
    builder
        .finish(0)
        .findings
        .into_iter()
        .filter(|f| f.kind() == FindingKind::Stall)
        .collect()
}

#[test]
fn devices_behind_one_controller_stop_together() {
    assert_eq!(scopes(&controller(&[0, 1])), [StallScope::Host; 2]);
    assert_eq!(scopes(&controller(&[0, 1, 2])), [StallScope::All; 3]);
    let one = controller(&[0]);
    assert_eq!(scopes(&one), [StallScope::Device]);
    let e = evidence!(one[0], Stall);
    assert_eq!(
        (e.group.as_deref(), e.group_devices, e.group_devices_stalled),
        (Some("nvme0"), Some(2), Some(1))
    );
}

/// Errors of earlier versions, each in its own scene.
mod regressions {
    use super::*;
    use iolens_core::analysis::periodicity::Verdict;
    use iolens_core::analysis::timeline::{CounterRates, Flow};

    const HOUR_S: f64 = 3600.0;

    /// Bins grew with the recording, so that no burst was found from hours on.
    #[test]
    fn bursts_are_found_in_a_recording_of_48_hours() {
        let at = |k: u32| 1000.0 + 4.7 * HOUR_S * f64::from(k);
        let burst = |k: u32| Burst {
            at_s: at(k),
            for_s: 0.03,
            per_s: 10_000.0,
            op: Op::WRITE,
            bytes: 65_536,
        };
        let bursts: Vec<Burst> = (0..10).map(burst).collect();
        // Idle most of the time; and with a request in flight nearly always.
        for fixed_s in [Device::FAST.fixed_s, 3.0] {
            let device = Device {
                fixed_s,
                servers: 4096,
                ..Device::FAST
            };
            let arrivals = Arrivals::Poisson(1.0);
            let report = Scene {
                seconds: 48.0 * HOUR_S,
                arrivals,
                device,
                bursts: bursts.clone(),
                ..Scene::default()
            }
            .report(1);
            let found: Vec<f64> = report.details[0].streams[1]
                .bursts
                .iter()
                .map(|b| b.burst.from_ns as f64 / 1e9)
                .collect();
            assert_eq!(found.len(), 10, "{fixed_s}: {found:?}");
            assert!(
                found
                    .iter()
                    .zip(&bursts)
                    .all(|(at, b)| (at - b.at_s).abs() < 0.05),
                "{fixed_s}: {found:?}"
            );
        }
    }

    /// A burst shorter than the slots was reported as more hidden than its own peak implies.
    #[test]
    fn hidden_peak_is_relative_to_the_samples() {
        let burst = Burst {
            at_s: 20.0,
            for_s: 0.002,
            per_s: 100_000.0,
            op: Op::WRITE,
            bytes: 65_536,
        };
        let scene = Scene {
            arrivals: Arrivals::Poisson(20.0),
            bursts: vec![burst],
            ..Scene::default()
        };
        let report = scene.report(2);
        let found = &report.details[0].streams[1].bursts;
        assert_eq!(found.len(), 1);
        for b in found {
            let expected = b.burst.peak_bytes_per_s / b.second.median_bytes_per_s;
            assert!(
                (b.second.hidden_factor - expected).abs() < 1e-6 * expected,
                "{:?}",
                b.second
            );
        }
    }

    /// The list of bursts contained every raw one, the findings only those that chance does not explain.
    #[test]
    fn bursts_in_the_list_are_those_of_the_findings() {
        let at = [10.0, 25.0, 40.0];
        let burst = |at_s: &f64| Burst {
            at_s: *at_s,
            for_s: 0.1,
            per_s: 10_000.0,
            op: Op::READ,
            bytes: 0,
        };
        let report = Scene {
            bursts: at.iter().map(burst).collect(),
            ..Scene::default()
        }
        .report(3);
        let listed: Vec<f64> = report.details[0].streams[0]
            .bursts
            .iter()
            .map(|b| b.burst.from_ns as f64 / 1e9)
            .collect();
        assert_eq!(
            (listed.len(), report.details[0].streams[1].bursts.len()),
            (3, 0),
            "{listed:?}"
        );
        assert!(
            listed.iter().zip(at).all(|(l, at)| (l - at).abs() < 0.05),
            "{listed:?}"
        );
    }

    fn counters(ios: &[Io], step_ns: i64, end_ns: i64) -> Report {
        let mut builder = ReportBuilder::new(Window::new(0, end_ns));
        for from_ns in (0..end_ns).step_by(step_ns as usize) {
            let mut flows = [Some(Flow::default()); 4];
            for io in ios
                .iter()
                .filter(|io| (from_ns..from_ns + step_ns).contains(&io.done_ns))
            {
                let flow = Flow {
                    ios: 1,
                    bytes: io.bytes as u64,
                    total_ns: io.total_ns(),
                };
                flows[io.class() as usize]
                    .get_or_insert_default()
                    .add(&flow);
            }
            let dev = crate::scenes::DEVICE;
            let to_ns = from_ns + step_ns;
            builder.counters(&CounterRates {
                dev,
                from_ns,
                to_ns,
                flows,
                busy_ns: None,
                area_ns: None,
            });
        }
        builder.finish(0)
    }

    fn clock(period_s: f64) -> Scene {
        let beats = (60.0 / period_s) as u32;
        let beat = |k: u32| Burst {
            at_s: 0.7 + period_s * f64::from(k),
            for_s: 0.02,
            per_s: 1000.0,
            op: Op::WRITE,
            bytes: 65_536,
        };
        Scene {
            arrivals: Arrivals::Silence,
            bursts: (0..beats - 1).map(beat).collect(),
            ..Scene::default()
        }
    }

    /// No clock was found in counters.
    #[test]
    fn counters_show_periodicity() {
        let report = counters(&clock(2.0).ios(5), 100_000_000, 60_000_000_000);
        let found = of_kind(&report, FindingKind::Periodicity);
        assert_eq!(found.len(), 1, "{:?}", report.findings);
        let period_s = evidence!(found[0], Periodicity).period_s;
        assert!((period_s - 2.0).abs() < 0.04, "{period_s}");
    }

    /// Periodicity was found in time without data, and none where one I/O of each period is missing.
    #[test]
    fn lost_intervals_give_no_periodicity_unless_little_is_lost() {
        let all = clock(2.0).ios(5);
        let found = |lost: &[(i64, i64, Option<i64>)]| {
            let mut builder = ReportBuilder::new(Window::new(0, 60_000_000_000));
            all.iter().for_each(|io| builder.push(io));
            for (from_ns, to_ns, ios) in lost.iter().copied() {
                let dev = Some(crate::scenes::DEVICE);
                let reason = LossReason::RingFull;
                builder.lost(&Lost {
                    from_ns,
                    to_ns,
                    dev,
                    class: None,
                    reason,
                    ios,
                    bytes: None,
                    merges: None,
                });
            }
            let report = builder.finish(0);
            let written = &report.details[0].streams[1].periodicity;
            (
                written.verdict == Verdict::Periodic,
                of_kind(&report, FindingKind::Periodicity).len(),
            )
        };
        let minute = |ios| [(0, 60_000_000_000, ios)];
        let each_beat = |ios| {
            (0..30)
                .map(|k| (k * 2_000_000_000, (k + 1) * 2_000_000_000 - 1, Some(ios)))
                .collect()
        };
        let (few, many): (Vec<_>, Vec<_>) = (each_beat(1), each_beat(all.len() as i64 / 30));
        assert_eq!(found(&[]), (true, 1));
        assert_eq!(
            (found(&few), found(&minute(Some(20)))),
            ((true, 1), (true, 1)),
            "one of each beat's {}",
            all.len() / 30
        );
        for lost in [&many[..], &minute(Some(50_000)), &minute(None)] {
            assert_eq!(found(lost), (false, 0));
        }
    }
}

#[test]
fn the_slow_disk_of_a_btrfs_is_named_if_data_lies_on_all() {
    for seed in 0..seeds(5) {
        let members = [arrays::disk(200.0, 1.0), arrays::disk(200.0, 2.5)];
        let raid = arrays::report_of_btrfs(&members, "raid1", seed, None);
        let slow = of_kind(&raid, FindingKind::SlowMember);
        let expected = vec![Some(arrays::member(1))];
        let named: Vec<_> = slow.iter().map(|f| f.dev).collect();
        assert_eq!(named, expected, "seed {seed}");
        assert_eq!(evidence!(slow[0], SlowMember).array, "btrfs 083c1c1d");
        // Each piece of data has one place: disks of different kinds are usual.
        let single = arrays::report_of_btrfs(&members, "single", seed, None);
        let found = of_kind(&single, FindingKind::SlowMember);
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
}

#[test]
fn one_lost_io_hides_no_slow_disk_and_an_unknown_number_does() {
    let members = [arrays::disk(10.0, 1.0), arrays::disk(10.0, 3.0)];
    for (ios, expected) in [(Some(1), 1), (None, 0)] {
        let lost = Lost {
            ios,
            ..Lost::somewhere(10_000_000_000, 50_000_000_000, LossReason::Unseen)
        };
        let report = arrays::report_of_btrfs(&members, "raid1", 1, Some(lost));
        let slow = of_kind(&report, FindingKind::SlowMember);
        assert_eq!(slow.len(), expected, "{ios:?}: {slow:?}");
    }
}
