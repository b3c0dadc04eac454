//! Changes of latency, second modes, and limits, planted in recordings of a minute: how many are found, with which
//! size, and how often something is reported although nothing is planted.

use crate::scenes::{Arrivals, Burst, Device, MIXED, Scene, nulls};
use crate::seeds;
use crate::simulator::{Rng, SECOND, evidence, poisson, serve};
use iolens_core::analysis::findings::{Finding, FindingKind, Severity};
use iolens_core::analysis::{ReportBuilder, Window};
use iolens_core::model::Io;

fn of_kind(scene: &Scene, seed: u64, kind: FindingKind) -> Vec<Finding> {
    scene
        .report(seed)
        .findings
        .into_iter()
        .filter(|f| f.kind() == kind)
        .collect()
}

/// At most 1 % of recordings of a scene with a warning and 3 % with an info, up to chance.
fn silent(scenes: &[(&str, Scene)], kinds: &[FindingKind], few: u64) {
    for (name, scene) in scenes {
        let runs = seeds(few);
        let mut seen = vec![[0u64; 2]; kinds.len()];
        for seed in 500..500 + runs {
            let found = scene.report(seed).findings;
            for (counts, kind) in seen.iter_mut().zip(kinds) {
                let worst = found
                    .iter()
                    .filter(|f| f.kind() == *kind)
                    .map(|f| f.severity)
                    .max();
                counts[0] += u64::from(worst >= Some(Severity::Warning));
                counts[1] += u64::from(worst == Some(Severity::Info));
                found
                    .iter()
                    .filter(|f| f.kind() == *kind)
                    .for_each(|f| eprintln!("{name}, seed {seed}: {:?}", f.evidence));
            }
        }
        for ([warnings, infos], kind) in seen.iter().zip(kinds) {
            eprintln!(
                "| {name} | {} | {warnings} | {infos} | of {runs}",
                kind.name()
            );
            let most = |percent: f64| {
                percent / 100.0 * runs as f64 + 2.0 * (percent / 100.0 * runs as f64).sqrt()
            };
            assert!(
                *warnings as f64 <= most(1.0) && *infos as f64 <= most(3.0),
                "{name}: {}",
                kind.name()
            );
        }
    }
}

const ALL: [FindingKind; 5] = [
    FindingKind::LatencyStep,
    FindingKind::LatencyTrend,
    FindingKind::LatencyMode,
    FindingKind::BandwidthSaturation,
    FindingKind::QueueFull,
];

/// Changing loads on a device that does not change: latency follows the load and is not a finding.
fn changing_loads() -> Vec<(&'static str, Scene)> {
    let half = |before: f64, after: f64, device| {
        // A sine of twice the recording's length is as high in the first half as it is low in the second.
        let per_s = f64::midpoint(before, after);
        let swing = (before - after) / (before + after);
        Scene {
            arrivals: Arrivals::Diurnal {
                per_s,
                swing,
                period_s: 60.0,
            },
            device,
            ..Scene::default()
        }
    };
    let grown = |at_s: f64, per_s: f64, bytes: i64| Burst {
        at_s,
        for_s: 60.0 - at_s,
        per_s,
        op: iolens_core::model::Op::WRITE,
        bytes,
    };
    let disk = |per_s: f64| Scene {
        arrivals: Arrivals::Poisson(per_s),
        device: Device::DISK,
        ..Scene::default()
    };
    vec![
        ("load falls, disk", half(1500.0, 300.0, Device::DISK)),
        ("load rises, disk", half(300.0, 1500.0, Device::DISK)),
        ("load rises, fast device", half(500.0, 5000.0, Device::FAST)),
        (
            "twice the load from 30 s on, disk",
            Scene {
                bursts: vec![grown(30.0, 600.0, 0)],
                ..disk(600.0)
            },
        ),
        (
            "large writes besides from 25 s on, disk",
            Scene {
                bursts: vec![grown(25.0, 50.0, 1 << 20)],
                ..disk(400.0)
            },
        ),
        (
            "twelve slow spells",
            Scene {
                pace: spells(12, 8.0),
                ..disk(400.0)
            },
        ),
        (
            "three slow spells",
            Scene {
                pace: spells(3, 8.0),
                ..disk(200.0)
            },
        ),
    ]
}

/// Intervals of 1.5 s in which everything takes `factor` times as long.
fn spells(n: u32, factor: f64) -> Vec<(f64, f64)> {
    let at = |k: u32| 2.0 + 57.0 / f64::from(n) * (f64::from(k) + f64::from(k * 7 % 5) / 12.0);
    (0..n)
        .flat_map(|k| {
            [
                (at(k), 1.0),
                (at(k), factor),
                (at(k) + 1.5, factor),
                (at(k) + 1.5, 1.0),
            ]
        })
        .collect()
}

#[test]
fn steady_devices_changing_loads_and_paced_loads_have_none_of_these_findings() {
    silent(&nulls(), &ALL, 2);
    silent(&changing_loads(), &ALL, 3);
    silent(&mixtures(), &ALL, 2);
    silent(&paced_loads(), &ALL, 2);
    silent(&own_depths(), &ALL, 2);
}

#[test]
fn a_device_that_slows_down_at_once_is_found_with_time_and_size() {
    let scenes = [
        ("fast device", Scene::default()),
        (
            "fast device, mixed sizes",
            Scene {
                sizes: MIXED,
                ..Scene::default()
            },
        ),
        (
            "disk, 20 % busy",
            Scene {
                arrivals: Arrivals::Poisson(400.0),
                device: Device::DISK,
                ..Scene::default()
            },
        ),
        (
            "closed loop",
            Scene {
                arrivals: Arrivals::Closed {
                    workers: 8,
                    think_s: 0.005,
                },
                ..Scene::default()
            },
        ),
        (
            "on-off",
            Scene {
                arrivals: Arrivals::OnOff {
                    per_s: 2000.0,
                    on_s: 0.5,
                    off_s: 0.5,
                },
                ..Scene::default()
            },
        ),
    ];
    for (name, scene) in scenes {
        for (factor, needed) in [(2.0, 95), (1.4, 75), (0.5, 95)] {
            let mut found = 0;
            let mut good = 0;
            let runs = seeds(2);
            for seed in 0..runs {
                let at = 12.0 + 7.0 * (seed % 6) as f64;
                let stepped = Scene {
                    pace: vec![(at, 1.0), (at, factor)],
                    ..scene.clone()
                };
                let seen = of_kind(&stepped, seed, FindingKind::LatencyStep);
                let trend = of_kind(&stepped, seed, FindingKind::LatencyTrend);
                assert!(trend.is_empty(), "{name}: a step is no trend: {trend:?}");
                found += seen.len() as u64;
                // While the load is off, the time of the change cannot be seen.
                let off = if matches!(scene.arrivals, Arrivals::OnOff { .. }) {
                    3.0
                } else {
                    0.5
                };
                let near = |f: &&Finding| (evidence!(f, LatencyStep).at_s - at).abs() < off;
                // The transfer is part of the service time, so everything scales.
                let right = |f: &&Finding| {
                    (evidence!(f, LatencyStep).ratio_at_same_load / factor - 1.0).abs() < 0.15
                };
                good += seen.iter().filter(near).filter(right).count() as u64;
                seen.iter()
                    .for_each(|f| eprintln!("{name} {factor}: {:?}", f.evidence));
            }
            eprintln!(
                "{name}: {factor} times at once: {found} of {} found, {good} with time and size",
                2 * runs
            );
            assert!(
                good * 100 >= needed * 2 * runs,
                "{name}, {factor}: {good} of {}",
                2 * runs
            );
        }
    }
}

#[test]
fn a_device_that_slows_down_little_by_little_has_a_trend() {
    for (name, device, per_s) in [
        ("fast device", Device::FAST, 1000.0),
        ("disk, 20 % busy", Device::DISK, 400.0),
    ] {
        let mut found = 0;
        let runs = seeds(4);
        for seed in 0..runs {
            let pace = vec![(0.0, 1.0), (60.0, 2.0)];
            let scene = Scene {
                arrivals: Arrivals::Poisson(per_s),
                device,
                pace,
                ..Scene::default()
            };
            let seen = of_kind(&scene, seed, FindingKind::LatencyTrend);
            seen.iter()
                .for_each(|f| eprintln!("{name}: {:?}", f.evidence));
            let is_right = |f: &&Finding| {
                (evidence!(f, LatencyTrend).ratio_at_same_load / 2.0 - 1.0).abs() < 0.15
            };
            found += seen.iter().filter(is_right).count() as u64;
            assert!(
                of_kind(&scene, seed, FindingKind::LatencyStep).is_empty(),
                "{name}: a trend is no step"
            );
        }
        eprintln!("{name}: {found} of {} trends", 2 * runs);
        assert!(
            found * 100 >= 90 * 2 * runs,
            "{name}: {found} of {}",
            2 * runs
        );
    }
}

/// Reads at 500 a second on a device with a server for each, their times drawn by `service` (seconds).
fn reads(seed: u64, service: impl FnMut(&mut Rng) -> f64) -> Vec<Io> {
    let mut service = service;
    let jobs = poisson(&mut Rng::new(seed), 500.0, 60.0, |rng| {
        service(rng) * SECOND
    });
    serve(&jobs, None)
}

fn modes(ios: &[Io]) -> Vec<Finding> {
    let mut builder = ReportBuilder::new(Window::new(0, 60_000_000_000));
    ios.iter().for_each(|io| builder.push(io));
    builder
        .finish(0)
        .findings
        .into_iter()
        .filter(|f| f.kind() == FindingKind::LatencyMode)
        .collect()
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * rng.uniform().ln()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
}

/// Sizes with different costs, and periods without any completion.
fn mixtures() -> Vec<(&'static str, Scene)> {
    let large = &[(4096, 99), (4 << 20, 1)];
    let disk = |per_s| Scene {
        sizes: MIXED,
        device: Device::DISK,
        arrivals: Arrivals::Poisson(per_s),
        ..Scene::default()
    };
    vec![
        (
            "stalls",
            Scene {
                stalls: vec![(10.0, 0.3), (30.0, 0.5)],
                ..Scene::default()
            },
        ),
        ("mixed sizes, disk, 30 % busy", disk(300.0)),
        ("mixed sizes, disk, 70 % busy", disk(700.0)),
        (
            "1 % of 4 MiB",
            Scene {
                sizes: large,
                device: Device {
                    bytes_per_s: 3e8,
                    ..Device::FAST
                },
                ..Scene::default()
            },
        ),
    ]
}

#[test]
fn ordinary_devices_caches_and_steps_have_no_second_mode() {
    let stepped = Scene {
        pace: vec![(50.0, 1.0), (50.0, 5.0)],
        ..Scene::default()
    };
    silent(
        &[("five times as slow from 50 s on", stepped)],
        &[FindingKind::LatencyMode],
        3,
    );
    type Service = fn(&mut Rng) -> f64;
    let shapes: [(&str, Service); 5] = [
        ("exponential", |rng| rng.exp(5e-4)),
        ("log-normal", |rng| 3e-4 * normal(rng).exp()),
        ("log-normal, wide", |rng| 3e-4 * (1.5 * normal(rng)).exp()),
        ("gamma of 0.5", |rng| 5e-4 * normal(rng).powi(2)),
        ("two exponential ones, one 8 times as slow", |rng| {
            let mean = if rng.uniform() < 0.1 { 2.4e-3 } else { 3e-4 };
            rng.exp(mean)
        }),
    ];
    for (name, shape) in shapes {
        for seed in 0..seeds(4) {
            let found = modes(&reads(seed, shape));
            assert!(found.is_empty(), "{name}: {found:?}");
        }
    }
    // Repeated reads come from the device's cache; a quarter of the positions is read only once.
    let mut rng = Rng::new(3);
    let mut cached = reads(3, |_| 1e-4);
    let mut known = std::collections::HashSet::new();
    for io in &mut cached {
        let place = if rng.uniform() < 0.03 {
            1_000_000 + rng.below(1 << 30)
        } else {
            rng.below(500)
        };
        io.sector = Some(place as i64 * 8);
        io.device_ns = if known.insert(place) {
            8_000_000
        } else {
            90_000 + rng.below(30_000) as i64
        };
    }
    let found = modes(&cached);
    assert!(found.is_empty(), "{found:?}");
    cached.iter_mut().for_each(|io| io.sector = None);
    assert_eq!(
        modes(&cached).len(),
        1,
        "without places nothing shows that it is a cache"
    );
}

#[test]
fn one_in_a_hundred_at_12_ms_is_a_second_mode_with_its_share_and_place() {
    let scenes = [
        ("fast device", Scene::default()),
        (
            "fast device, mixed sizes",
            Scene {
                sizes: MIXED,
                ..Scene::default()
            },
        ),
        (
            "closed loop",
            Scene {
                arrivals: Arrivals::Closed {
                    workers: 8,
                    think_s: 0.005,
                },
                ..Scene::default()
            },
        ),
        (
            "on-off",
            Scene {
                arrivals: Arrivals::OnOff {
                    per_s: 2000.0,
                    on_s: 0.5,
                    off_s: 0.5,
                },
                ..Scene::default()
            },
        ),
    ];
    for (name, scene) in scenes {
        for (share, slow_s) in [(0.01, 0.012), (0.003, 0.012), (0.05, 0.002)] {
            let mut right = 0;
            let runs = seeds(2);
            for seed in 0..runs {
                let found = of_kind(
                    &Scene {
                        slow: Some((share, slow_s)),
                        ..scene.clone()
                    },
                    seed,
                    FindingKind::LatencyMode,
                );
                found
                    .iter()
                    .for_each(|f| eprintln!("{name}: {:?}", f.evidence));
                right += found
                    .iter()
                    .filter(|f| {
                        let e = evidence!(f, LatencyMode);
                        (e.slow_percent / 100.0 / share - 1.0).abs() < 0.4
                            && (e.slow_device_us / 1e6 / slow_s - 1.0).abs() < 0.1
                    })
                    .count() as u64;
            }
            eprintln!("{name}: {share} at {slow_s} s: {right} of {}", 2 * runs);
            assert!(
                right * 100 >= 90 * 2 * runs,
                "{name}: {share} at {slow_s} s: {right} of {}",
                2 * runs
            );
        }
    }
    // The slow ones are within 5 % of the device.
    let mut rng = Rng::new(5);
    let mut worn = reads(5, |rng| 8e-5 + rng.exp(3e-5));
    for io in &mut worn {
        let place = rng.below(20_000_000);
        io.sector = Some(place as i64 * 8);
        if (7_000_000..8_000_000).contains(&place) && rng.uniform() < 0.3 {
            io.device_ns = 12_000_000;
        }
    }
    let found = modes(&worn);
    let (from, to) = found
        .first()
        .and_then(|f| evidence!(f, LatencyMode).slow_sectors)
        .expect("a place");
    assert!(
        (5.9..=7.0).contains(&(from as f64 / 8e6)) && (7.9..=9.1).contains(&(to as f64 / 8e6)),
        "{found:?}"
    );
    // A tail without a peak of its own: Pareto.
    let tail = modes(&reads(6, |rng| {
        if rng.uniform() < 0.01 {
            1e-3 * rng.uniform().powf(-0.7)
        } else {
            1e-4
        }
    }));
    assert_eq!(tail.len(), 1);
}

/// A disk that transfers 200 MB/s, with one request of 256 KiB at a time and any arrivals.
fn streams(arrivals: Arrivals, bursts: Vec<Burst>) -> Scene {
    let device = Device {
        servers: 1,
        fixed_s: 2e-5,
        random_s: 2e-5,
        bytes_per_s: 2e8,
        nearest: false,
    };
    Scene {
        arrivals,
        sizes: &[(262_144, 1)],
        device,
        bursts,
        ..Scene::default()
    }
}

/// More than the device can transfer, for this many seconds every 15 s.
fn overload(for_s: f64, per_s: f64) -> Vec<Burst> {
    let op = iolens_core::model::Op::WRITE;
    (0..4)
        .map(|k| Burst {
            at_s: 4.0 + 15.0 * f64::from(k),
            for_s,
            per_s,
            op,
            bytes: 0,
        })
        .collect()
}

/// Loads that arrive at a limited rate, or keep a device busy without a growing queue.
fn paced_loads() -> Vec<(&'static str, Scene)> {
    let wide = Device {
        servers: 64,
        fixed_s: 1e-3,
        random_s: 4e-3,
        bytes_per_s: 2e9,
        nearest: false,
    };
    let mut paced = streams(Arrivals::Silence, overload(8.0, 400.0));
    paced.bursts.push(Burst {
        at_s: 0.0,
        for_s: 60.0,
        per_s: 100.0,
        ..paced.bursts[0]
    });
    paced.device = wide;
    let slow = Scene {
        pace: spells(3, 6.0),
        ..paced.clone()
    };
    let closed = |workers| {
        streams(
            Arrivals::Closed {
                workers,
                think_s: 0.0,
            },
            Vec::new(),
        )
    };
    vec![
        ("paced, parallel device", paced),
        ("paced, device slow for a while", slow),
        (
            "stream of 256 KiB, 50 % busy",
            streams(Arrivals::Poisson(380.0), Vec::new()),
        ),
        (
            "stream of 256 KiB, 80 % busy",
            streams(Arrivals::Poisson(600.0), Vec::new()),
        ),
        ("closed loop of 256 KiB", closed(1)),
        (
            "closed loop of 256 KiB, parallel device",
            Scene {
                device: wide,
                ..closed(32)
            },
        ),
    ]
}

#[test]
fn a_device_at_its_bandwidth_is_found_with_its_limit() {
    let kind = FindingKind::BandwidthSaturation;
    for (for_s, rate) in [(4.0, 1000.0), (3.0, 1500.0)] {
        let mut right = 0;
        let runs = seeds(4);
        for seed in 0..runs {
            let found = of_kind(
                &streams(Arrivals::Poisson(200.0), overload(for_s, rate)),
                seed,
                kind,
            );
            found.iter().for_each(|f| eprintln!("{:?}", f.evidence));
            // 262,144 bytes in 1.31 ms of transfer and 0.04 ms more.
            let limit = 262_144.0 / (262_144.0 / 2e8 + 4e-5);
            let rate = |f: &Finding| evidence!(f, BandwidthSaturation).plateau_bytes_per_s;
            right += found
                .iter()
                .filter(|f| (rate(f) / limit - 1.0).abs() < 0.02)
                .count() as u64;
        }
        eprintln!("{for_s} s at {rate} a second: {right} of {runs}");
        assert!(
            right * 100 >= 95 * runs,
            "{for_s} s at {rate} a second: {right} of {runs}"
        );
    }
}

fn with_places(arrivals: Arrivals, places: usize, device: Device) -> Scene {
    Scene {
        arrivals,
        places: Some(places),
        device,
        ..Scene::default()
    }
}

/// Programs that keep a number in flight, and queues that fill occasionally.
fn own_depths() -> Vec<(&'static str, Scene)> {
    let slow = Device {
        fixed_s: 5e-3,
        ..Device::FAST
    };
    vec![
        (
            "closed loop of 32, as many places",
            with_places(
                Arrivals::Closed {
                    workers: 32,
                    think_s: 0.0,
                },
                32,
                slow,
            ),
        ),
        (
            "one place, 40 % busy",
            with_places(Arrivals::Poisson(750.0), 1, Device::DISK),
        ),
        (
            "one place, 80 % busy",
            with_places(Arrivals::Poisson(1500.0), 1, Device::DISK),
        ),
        (
            "32 places, 50 % busy",
            with_places(Arrivals::Poisson(950.0), 32, Device::DISK),
        ),
    ]
}

#[test]
fn a_full_queue_is_found_with_its_level_and_the_wait() {
    let kind = FindingKind::QueueFull;
    for (name, places, workers) in [
        ("32 places, 48 workers", 32, 48),
        ("1 place, 8 workers", 1, 8),
    ] {
        let mut right = 0;
        let runs = seeds(3);
        for seed in 0..runs {
            let scene = with_places(
                Arrivals::Closed {
                    workers,
                    think_s: 0.0,
                },
                places,
                Device::DISK,
            );
            let found = of_kind(
                &Scene {
                    seconds: 20.0,
                    ..scene
                },
                seed,
                kind,
            );
            found
                .iter()
                .for_each(|f| eprintln!("{name}: {:?}", f.evidence));
            let waits = (workers - places) as f64 * 520.0;
            right += found
                .iter()
                .filter(|f| {
                    let e = evidence!(f, QueueFull);
                    e.queue_depth == places as i64
                        && e.full_percent > 90.0
                        && (e.queue_mean_us / waits - 1.0).abs() < 0.1
                })
                .count() as u64;
        }
        eprintln!("{name}: {right} of {runs}");
        assert_eq!(right, runs, "{name}");
    }
}
