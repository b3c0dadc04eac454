//! How often findings of every kind are wrong, in null scenes, and how often they are right, in scenes with a planted
//! cause.
//!
//! A short form by default; `make calibrate` runs many recordings of each scene and writes the tables of `docs/calibration.md`.
//! `IOLENS_SEED=N` makes other recordings of the same scenes, `IOLENS_SCENES=TEXT` takes only those with this in their names;
//! neither writes tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::report_of;
use crate::scenes::loads::{SECONDS, clock, fifo, on_off, shared_sine, slow_spells};
use crate::scenes::{Arrivals, Burst, Device, MIXED, Scene, arrays};
use crate::simulator::{Rng, SECOND, evidence};
use iolens_core::analysis::findings::{Finding, Severity};
use iolens_core::analysis::timeline::{CounterRates, Flow};
use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::model::{Io, Op};

fn is_full() -> bool {
    std::env::var_os("IOLENS_FULL").is_some()
}

/// Recordings of each scene.
fn recordings() -> u64 {
    let asked = std::env::var("IOLENS_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok());
    asked.unwrap_or(if is_full() { 200 } else { 4 })
}

/// What the kernel's counters say of `ios` every 100 ms, and nothing else.
fn counters_of(ios: &[Io]) -> Report {
    const STEP_NS: i64 = 100_000_000;
    let mut builder = ReportBuilder::new(Window::new(0, (SECONDS * SECOND) as i64));
    for own in ios.chunk_by(|a, b| a.done_ns / STEP_NS == b.done_ns / STEP_NS) {
        let mut flows = [Some(Flow::default()); 4];
        for io in own {
            let flow = Flow {
                ios: 1,
                bytes: io.bytes as u64,
                total_ns: io.total_ns(),
            };
            flows[io.class() as usize]
                .get_or_insert_default()
                .add(&flow);
        }
        let from_ns = own[0].done_ns / STEP_NS * STEP_NS;
        let to_ns = from_ns + STEP_NS;
        builder.counters(&CounterRates {
            dev: own[0].dev,
            from_ns,
            to_ns,
            flows,
            busy_ns: None,
            area_ns: None,
        });
    }
    builder.finish(0)
}

type Recording = Box<dyn Fn(u64) -> Report + Sync>;

/// Null scenes (no finding is correct), each with what makes the report of one recording of it.
fn nulls() -> Vec<(String, Recording)> {
    fn own(scene: impl Fn(&mut Rng) -> Vec<Io> + Sync + 'static) -> Recording {
        Box::new(move |seed| report_of(&scene(&mut Rng::new(7919 * seed + 13)), SECONDS))
    }
    fn of(scene: Scene) -> Recording {
        Box::new(move |seed| scene.report(seed + 100))
    }
    let fast = |arrivals| Scene {
        arrivals,
        ..Scene::default()
    };
    let disk = |per_s| Scene {
        arrivals: Arrivals::Poisson(per_s),
        device: Device::DISK,
        ..Scene::default()
    };
    let mut all: Vec<(String, Recording)> = Vec::new();
    for percent in [20.0, 40.0, 60.0, 80.0] {
        all.push((
            format!("FIFO, Poisson, {percent} % busy"),
            own(move |rng| fifo(rng, percent)),
        ));
    }
    for (busy, per_s) in [(40, 750.0), (80, 1500.0)] {
        let device = Device {
            nearest: true,
            ..Device::DISK
        };
        all.push((
            format!("nearest first, {busy} % busy"),
            of(Scene {
                device,
                ..disk(per_s)
            }),
        ));
    }
    all.push((
        "parallel device, Poisson".into(),
        of(fast(Arrivals::Poisson(1000.0))),
    ));
    all.push((
        "parallel device, Poisson, 20 a second".into(),
        of(fast(Arrivals::Poisson(20.0))),
    ));
    all.push((
        "the same, mixed sizes".into(),
        of(Scene {
            sizes: MIXED,
            ..fast(Arrivals::Poisson(1000.0))
        }),
    ));
    for duty in [0.1, 0.2, 0.35, 0.5] {
        let arrivals = Arrivals::OnOff {
            per_s: 1000.0 / duty,
            on_s: duty,
            off_s: 1.0 - duty,
        };
        all.push((
            format!("on-off, on {:.0} % of the time", 100.0 * duty),
            of(fast(arrivals)),
        ));
    }
    let similar = |sources| Arrivals::SelfSimilar {
        per_s: 1000.0,
        sources,
        tail: 1.4,
    };
    all.push(("self-similar".into(), of(fast(similar(20)))));
    all.push((
        "self-similar, mixed sizes".into(),
        of(Scene {
            sizes: MIXED,
            ..fast(similar(50))
        }),
    ));
    all.push((
        "cascade".into(),
        of(fast(Arrivals::Cascade {
            per_s: 1000.0,
            bias: 0.6,
        })),
    ));
    all.push((
        "closed loop of 8".into(),
        of(fast(Arrivals::Closed {
            workers: 8,
            think_s: 0.005,
        })),
    ));
    all.push((
        "diurnal".into(),
        of(fast(Arrivals::Diurnal {
            per_s: 1000.0,
            swing: 0.8,
            period_s: 30.0,
        })),
    ));
    all.push(("shared sine load, FIFO".into(), own(shared_sine)));
    all.push((
        "write bursts, independent slow spells".into(),
        own(slow_spells),
    ));
    all.push((
        "on-off writes, parallel device".into(),
        own(|rng| on_off(rng, false)),
    ));
    all.push((
        "the same, heavy-tailed".into(),
        own(|rng| on_off(rng, true)),
    ));
    for (name, members) in arrays::nulls() {
        all.push((
            format!("array: {name}"),
            Box::new(move |seed| arrays::report(&members, seed)),
        ));
    }
    all.push((
        "counters of FIFO, Poisson, 60 % busy".into(),
        Box::new(|seed| counters_of(&fifo(&mut Rng::new(seed), 60.0))),
    ));
    all
}

/// Scenes in which more is known to happen than the budget allows: (scene, kind, maximum per hundred, reason).
const KNOWN: &[(&str, &str, f64, &str)] = &[(
    "write bursts, independent slow spells",
    "microburst",
    100.0,
    "its bursts are bursts",
)];

/// Whether the scene or the row of this name is asked for.
fn is_wanted(name: &str) -> bool {
    std::env::var("IOLENS_SCENES").map_or(true, |text| name.contains(&text))
}

/// `of` each seed, on all CPUs.
fn each<T: Send>(seeds: u64, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism()
        .map_or(1, |n| n.get() as u64)
        .min(seeds.max(1));
    std::thread::scope(|scope| {
        let of = &of;
        let run = |first: u64| {
            scope.spawn(move || {
                (first..seeds)
                    .step_by(threads as usize)
                    .map(of)
                    .collect::<Vec<T>>()
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running
            .into_iter()
            .flat_map(|r| r.join().expect("no panic"))
            .collect()
    })
}

/// The worst severity of each kind of finding.
fn worst(report: &Report) -> BTreeMap<&'static str, Severity> {
    let mut kinds = BTreeMap::new();
    for f in &report.findings {
        let known = kinds.entry(f.kind().name()).or_insert(f.severity);
        *known = f.severity.max(*known);
    }
    kinds
}

/// (recordings with a warning or worse, with an info at most), by kind.
type Alarms = BTreeMap<&'static str, (u64, u64)>;

fn alarms(recording: &Recording) -> Alarms {
    let mut all = Alarms::new();
    for (kind, severity) in each(recordings(), |seed| worst(&recording(seed)))
        .into_iter()
        .flatten()
    {
        let (warnings, infos) = all.entry(kind).or_default();
        *(if severity >= Severity::Warning {
            warnings
        } else {
            infos
        }) += 1;
    }
    all
}

/// Whether this many of all recordings are within `percent`, within chance.
fn is_within(percent: f64, seen: u64) -> bool {
    let expected = percent / 100.0 * recordings() as f64;
    seen as f64 <= expected + 2.0 * expected.sqrt() + 0.5
}

#[test]
fn ordinary_recordings_have_no_findings() {
    let counted: Vec<(String, Alarms)> = nulls()
        .iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, of)| (name.clone(), alarms(of)))
        .collect();
    let table = null_table(&counted);
    println!("{table}");
    publish("null scenes", &table);
    let mut beyond = Vec::new();
    for (scene, kinds) in &counted {
        for (kind, (warnings, infos)) in kinds {
            let known = KNOWN
                .iter()
                .find(|k| k.0 == scene && k.1 == *kind)
                .map_or(3.0, |k| k.2);
            if !is_within(1.0, *warnings) || !is_within(known, *infos) {
                beyond.push(format!(
                    "{scene}: {kind}: {warnings} warnings, {infos} infos of {}",
                    recordings()
                ));
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}

/// The kinds that the table of `docs/calibration.md` documents, and those that were seen.
fn kinds(counted: &[(String, Alarms)]) -> Vec<String> {
    let docs = include_str!("../../../../docs/calibration.md");
    let rows = docs
        .lines()
        .skip_while(|l| !l.starts_with("| kind "))
        .take_while(|l| l.starts_with('|'));
    let of_row = |row: &str| {
        row.split('|')
            .nth(1)
            .unwrap_or("")
            .split(',')
            .map(|k| k.trim().trim_matches('`').to_owned())
            .collect::<Vec<_>>()
    };
    let mut all: Vec<String> = rows.skip(2).flat_map(of_row).collect();
    for kind in counted.iter().flat_map(|c| c.1.keys()) {
        if !all.iter().any(|k| k == kind) {
            all.push((*kind).to_owned());
        }
    }
    all
}

fn null_table(counted: &[(String, Alarms)]) -> String {
    let of = |alarms: &Alarms, kind: &str| alarms.get(kind).copied().unwrap_or_default();
    let (seen, silent): (Vec<String>, Vec<String>) = kinds(counted)
        .into_iter()
        .partition(|k| counted.iter().any(|c| of(&c.1, k) != (0, 0)));
    let mut out = format!(
        "Of {} recordings of each scene, with a warning + with an info at most:\n\n",
        recordings()
    );
    let _ = writeln!(out, "| scene, one minute each | {} |", seen.join(" | "));
    let _ = writeln!(out, "|---{}|", "|---".repeat(seen.len()));
    for (scene, alarms) in counted {
        let cell = |kind: &String| match of(alarms, kind) {
            (0, 0) => "0".to_owned(),
            (warnings, infos) => format!("{warnings} + {infos}"),
        };
        let _ = writeln!(
            out,
            "| {scene} | {} |",
            seen.iter().map(cell).collect::<Vec<_>>().join(" | ")
        );
    }
    let _ = writeln!(
        out,
        "\nIn no recording of any scene: {}.",
        silent.join(", ")
    );
    for (scene, kind, _, why) in KNOWN.iter().filter(|k| {
        counted
            .iter()
            .any(|c| c.0 == k.0 && of(&c.1, k.1) != (0, 0))
    }) {
        let _ = writeln!(out, "- {scene}: {kind}, because {why}.");
    }
    out
}

/// Puts `table` into the file that `IOLENS_DOCS` names, between the marks of `section`.
fn publish(section: &str, table: &str) {
    let is_usual = ["IOLENS_SEED", "IOLENS_SCENES"]
        .iter()
        .all(|name| std::env::var_os(name).is_none());
    let (Some(path), true) = (std::env::var_os("IOLENS_DOCS"), is_full() && is_usual) else {
        return;
    };
    let begin = format!("<!-- {section}: made by make calibrate -->\n");
    let end = format!("<!-- end of {section} -->");
    let text = std::fs::read_to_string(&path).expect("the document");
    let (before, rest) = text.split_once(&begin).expect("its mark");
    let (_, after) = rest.split_once(&end).expect("its end");
    let origin = std::env::var("IOLENS_ORIGIN").unwrap_or_default();
    std::fs::write(
        &path,
        format!("{before}{begin}\n{table}\n{origin}\n\n{end}{after}"),
    )
    .expect("written");
}

/// One row of the power curves: (what is planted, found, planted, target in percent).
type Power = (String, u64, u64, Option<f64>);

/// Ten bursts of writes each in recordings with 5000 writes and as many reads a second.
fn burst_power() -> Vec<Power> {
    let device = Device {
        servers: 256,
        ..Device::FAST
    };
    let scene = Scene {
        arrivals: Arrivals::Poisson(10_000.0),
        device,
        ..Scene::default()
    };
    let mut rows = Vec::new();
    let widths: &[f64] = if is_full() {
        &[0.01, 0.03, 0.1, 0.3, 1.0]
    } else {
        &[0.03, 0.3]
    };
    for for_s in widths {
        if !is_wanted("burst") {
            break;
        }
        for times in if is_full() {
            &[1.5, 2.0, 3.0, 5.0][..]
        } else {
            &[2.0, 3.0]
        } {
            let seeds = recordings().div_ceil(10);
            let found: u64 = each(seeds, |seed| {
                bursts_found(&scene, *for_s, 5000.0 * (times - 1.0), seed)
            })
            .iter()
            .sum();
            let target = match times {
                3.0.. => Some(95.0),
                2.0.. if (0.1..1.0).contains(for_s) => Some(90.0),
                _ => None,
            };
            rows.push((
                format!("burst of {} ms at {times}x its background", for_s * 1e3),
                found,
                10 * seeds,
                target,
            ));
        }
    }
    rows
}

/// The same in recordings of two days with one I/O a second.
fn long_burst_power() -> Vec<Power> {
    let device = Device {
        servers: 4096,
        ..Device::FAST
    };
    let scene = Scene {
        seconds: 172_800.0,
        arrivals: Arrivals::Poisson(1.0),
        device,
        ..Scene::default()
    };
    let (widths, seeds): (&[f64], u64) = if is_full() {
        (&[0.01, 0.03, 0.1, 0.3, 1.0], 4)
    } else {
        (&[0.1], 1)
    };
    let of = |for_s: &f64| {
        let found: u64 = each(seeds, |seed| bursts_found(&scene, *for_s, 10_000.0, seed))
            .iter()
            .sum();
        (
            format!("burst of {} ms in 48 hours", for_s * 1e3),
            found,
            10 * seeds,
            Some(95.0),
        )
    };
    if is_wanted("48 hours") {
        widths.iter().map(of).collect()
    } else {
        Vec::new()
    }
}

fn bursts_found(scene: &Scene, for_s: f64, per_s: f64, seed: u64) -> u64 {
    let at = |k: u64| {
        2.0 + (scene.seconds - 4.0) / 10.0 * (k as f64 + 0.037 * ((k + seed) * 7 % 10) as f64)
    };
    let bursts: Vec<Burst> = (0..10)
        .map(|k| Burst {
            at_s: at(k),
            for_s,
            per_s,
            op: Op::WRITE,
            bytes: 0,
        })
        .collect();
    let report = Scene {
        bursts: bursts.clone(),
        ..scene.clone()
    }
    .report(seed);
    let seen = &report.details[0].streams[1].bursts;
    let is_found = |b: &&Burst| {
        seen.iter().any(|s| {
            (s.burst.from_ns as f64) < (b.at_s + b.for_s) * SECOND
                && s.burst.to_ns as f64 > b.at_s * SECOND
        })
    };
    bursts.iter().filter(is_found).count() as u64
}

/// Recordings in which `of` is true.
fn share(name: String, target: Option<f64>, of: impl Fn(u64) -> bool + Sync) -> Power {
    if !is_wanted(&name) {
        return (name, 0, 0, None);
    }
    let found = each(recordings(), of)
        .into_iter()
        .filter(|found| *found)
        .count() as u64;
    (name, found, recordings(), target)
}

fn of_kind<'a>(report: &'a Report, kind: &'a str) -> impl Iterator<Item = &'a Finding> {
    report
        .findings
        .iter()
        .filter(move |f| f.kind().name() == kind)
}

fn stall_power() -> Vec<Power> {
    let lengths: &[f64] = if is_full() {
        &[0.02, 0.03, 0.05, 0.1, 0.3, 1.0]
    } else {
        &[0.3]
    };
    let of = |for_s: f64| {
        share(
            format!("device stands still for {} ms", for_s * 1e3),
            (for_s >= 0.3).then_some(100.0),
            move |seed| {
                let at = 10.0 + (seed % 40) as f64;
                let arrivals = Arrivals::Poisson(800.0);
                let report = Scene {
                    arrivals,
                    stalls: vec![(at, for_s)],
                    ..Scene::default()
                }
                .report(seed);
                of_kind(&report, "stall").any(|f| (f.from_ns as f64 / SECOND - at).abs() < 0.05)
            },
        )
    };
    let mut rows: Vec<Power> = lengths.iter().map(|s| of(*s)).collect();
    rows.push(share(
        "a stop of 300 ms is found, and nothing else".into(),
        Some(100.0),
        |seed| {
            let device = if seed % 2 == 0 {
                Device::FAST
            } else {
                Device::DISK
            };
            let arrivals = Arrivals::Poisson(800.0);
            let stalls = vec![(10.0 + (seed % 40) as f64, 0.3)];
            let report = Scene {
                device,
                arrivals,
                stalls,
                ..Scene::default()
            }
            .report(seed);
            let kinds: Vec<&str> = report.findings.iter().map(|f| f.kind().name()).collect();
            kinds == ["stall"]
        },
    ));
    rows
}

fn slow_member_power() -> Vec<Power> {
    let of = |times: f64| {
        share(
            format!("one disk of five {times}x as slow"),
            (times >= 2.0).then_some(95.0),
            move |seed| {
                of_kind(&arrays::with_slow(times, seed), "slow-member")
                    .any(|f| f.dev == Some(arrays::member(2)))
            },
        )
    };
    let times: &[f64] = if is_full() {
        &[1.25, 1.5, 1.75, 2.0, 3.0]
    } else {
        &[2.0]
    };
    times.iter().map(|t| of(*t)).collect()
}

fn clock_power() -> Vec<Power> {
    let is_found = |report: &Report, period: f64| {
        of_kind(report, "periodicity")
            .any(|f| (evidence!(f, Periodicity).period_s / period - 1.0).abs() < 0.02)
    };
    let jitters: &[f64] = if is_full() {
        &[0.0, 0.05, 0.1, 0.2]
    } else {
        &[0.05, 0.2]
    };
    let of = |jitter: f64| {
        let target = Some(if jitter <= 0.05 { 92.0 } else { 95.0 });
        share(
            format!(
                "2 s clock, beats up to {:.0} % early or late",
                100.0 * jitter
            ),
            target,
            move |seed| {
                is_found(
                    &report_of(
                        &clock(&mut Rng::new(seed), 2.0, jitter, (0.0, SECONDS)),
                        SECONDS,
                    ),
                    2.0,
                )
            },
        )
    };
    let mut rows: Vec<Power> = jitters.iter().map(|j| of(*j)).collect();
    rows.push(share(
        "5 s clock in the last quarter of an hour".into(),
        Some(100.0),
        |seed| {
            is_found(
                &report_of(
                    &clock(&mut Rng::new(seed), 5.0, 0.05, (2700.0, 3600.0)),
                    3600.0,
                ),
                5.0,
            )
        },
    ));
    rows.push(share(
        "clocks of 2.5 s and 7.3 s in one stream, both".into(),
        Some(95.0),
        |seed| {
            let mut rng = Rng::new(seed);
            let mut ios = clock(&mut rng, 2.5, 0.01, (0.0, SECONDS));
            ios.extend(clock(&mut rng, 7.3, 0.01, (0.4, SECONDS)));
            ios.sort_by_key(|io| io.done_ns);
            let report = report_of(&ios, SECONDS);
            is_found(&report, 2.5) && is_found(&report, 7.3)
        },
    ));
    rows
}

#[test]
fn planted_behaviour_is_found() {
    let rows: Vec<Power> = [
        burst_power(),
        long_burst_power(),
        stall_power(),
        slow_member_power(),
        clock_power(),
    ]
    .into_iter()
    .flatten()
    .filter(|row| row.2 > 0)
    .collect();
    let mut table = String::from("| planted | found | wanted |\n|---|---|---|\n");
    for (name, found, planted, target) in &rows {
        let wanted = target.map_or_else(String::new, |t| format!("{t} %"));
        let _ = writeln!(table, "| {name} | {found} of {planted} | {wanted} |");
    }
    println!("{table}");
    publish("power curves", &table);
    for (name, found, planted, target) in rows {
        let missed = (1.0 - target.unwrap_or(0.0) / 100.0) * planted as f64;
        assert!(
            found as f64 + missed + 2.0 * missed.sqrt() >= planted as f64,
            "{name}: {found} of {planted}"
        );
    }
}
