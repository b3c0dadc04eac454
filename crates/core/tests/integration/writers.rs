//! Findings about processes compared with planted truths, over many seeds: writers that wait for syncs, streams
//! split into small requests, and processes that make others wait.

use crate::scenes::writers::{
    Arrival, Loop, Stream, arrivals, in_order, independent, random_syncs, served,
};
use crate::seeds;
use crate::simulator::{Rng, SECOND, evidence};
use iolens_core::analysis::findings::evidence::SyncSource;
use iolens_core::analysis::findings::{Finding, FindingKind, Severity};
use iolens_core::analysis::stories::Story;
use iolens_core::analysis::{ReportBuilder, Window};
use iolens_core::model::{Io, Op, Request};

/// Length of a recording.
const SECONDS: f64 = 20.0;

fn findings(kind: FindingKind, ios: Vec<Io>, calls: &[Request]) -> Vec<Finding> {
    let mut builder = ReportBuilder::new(Window::new(0, (SECONDS * SECOND) as i64));
    calls.iter().for_each(|r| builder.request(r));
    in_order(ios).iter().for_each(|io| builder.push(io));
    builder
        .finish(0)
        .findings
        .into_iter()
        .filter(|f| f.kind() == kind)
        .collect()
}

/// At most 1 % of recordings with a warning and 3 % with an info, up to chance.
fn assert_silent(name: &str, kind: FindingKind, scene: impl Fn(&mut Rng) -> Vec<Io>) {
    silent(name, scene, |ios| findings(kind, ios, &[]));
}

fn silent(
    name: &str,
    scene: impl Fn(&mut Rng) -> Vec<Io>,
    findings: impl Fn(Vec<Io>) -> Vec<Finding>,
) {
    let runs = seeds(6);
    let mut warnings = 0u64;
    let mut infos = 0u64;
    let mut example = None;
    for seed in 0..runs {
        let found = findings(scene(&mut Rng::new(104_729 * seed + 7)));
        let worst = found.iter().map(|f| f.severity).max();
        warnings += u64::from(worst >= Some(Severity::Warning));
        infos += u64::from(worst == Some(Severity::Info));
        example = example.or(found.into_iter().next());
    }
    eprintln!("{name}: {} warnings, {infos} infos in {runs}", warnings);
    let most =
        |percent: f64| percent / 100.0 * runs as f64 + 2.0 * (percent / 100.0 * runs as f64).sqrt();
    assert!(
        warnings as f64 <= most(1.0) && infos as f64 <= most(3.0),
        "{name}: {warnings}, {infos}: {example:?}"
    );
}

const LOOP: Loop = Loop {
    tgid: 7,
    writes: 2,
    sync_s: 2e-3,
    think_s: 1e-4,
    every_s: 0.0,
    from_s: 0.0,
    to_s: SECONDS,
};

#[test]
fn a_writer_that_waits_for_syncs_is_found_among_others() {
    let runs = seeds(6);
    let mut found = 0;
    for seed in 0..runs {
        let mut rng = Rng::new(seed);
        let sync_s = 5e-4 + 5e-3 * rng.uniform();
        let own = Loop {
            writes: 1 + rng.below(4),
            sync_s,
            think_s: 0.2 * sync_s * rng.uniform(),
            ..LOOP
        };
        let mut ios = own.ios(&mut rng);
        ios.extend(independent(&mut rng, 8, Op::WRITE, 200.0, SECONDS));
        ios.extend(independent(&mut rng, 9, Op::READ, 400.0, SECONDS));
        let reported = findings(FindingKind::FsyncBound, ios, &[]);
        let is_it = |f: &Finding| {
            let e = evidence!(f, FsyncBound);
            e.pid == Some(7)
                && e.writes_per_sync
                    .is_some_and(|n| (n / own.writes as f64 - 1.0).abs() < 0.05)
        };
        found += u64::from(reported.len() == 1 && is_it(&reported[0]));
        if reported.len() != 1 {
            eprintln!(
                "seed {seed}: {:?}",
                reported.iter().map(|f| &f.evidence).collect::<Vec<_>>()
            );
        }
    }
    eprintln!("{found} of {runs} found");
    assert!(found * 100 >= 95 * runs, "{found} of {runs} found");
}

#[test]
fn unawaited_syncs_are_not_reported() {
    let kind = FindingKind::FsyncBound;
    assert_silent("syncs at random, half of the time", kind, |rng| {
        let mut ios = random_syncs(rng, 7, 150.0, 5e-3, SECONDS);
        ios.extend(independent(rng, 8, Op::WRITE, 500.0, SECONDS));
        ios
    });
    assert_silent("a journal every 5 s", kind, |rng| {
        let mut ios = Loop {
            writes: 8,
            every_s: 5.0,
            ..LOOP
        }
        .ios(rng);
        ios.extend(independent(rng, 8, Op::WRITE, 500.0, SECONDS));
        ios
    });
    assert_silent("a clock of 10 ms", kind, |rng| {
        Loop {
            sync_s: 6e-3,
            every_s: 0.01,
            ..LOOP
        }
        .ios(rng)
    });
    assert_silent("a quarter of the time", kind, |rng| {
        Loop {
            think_s: 6e-3,
            ..LOOP
        }
        .ios(rng)
    });
    assert_silent("sixteen threads of one process", kind, |rng| {
        (0..16)
            .flat_map(|_| {
                Loop {
                    from_s: 2e-3 * rng.uniform(),
                    ..LOOP
                }
                .ios(rng)
            })
            .collect()
    });
    assert_silent("others sync", kind, |rng| {
        let mut ios = random_syncs(rng, 7, 300.0, 5e-3, SECONDS);
        ios.extend((8..12).flat_map(|tgid| independent(rng, tgid, Op::WRITE, 300.0, SECONDS)));
        ios
    });
}

#[test]
fn sync_calls_are_attributed_to_their_process() {
    let mut rng = Rng::new(3);
    let own = Loop {
        sync_s: 8e-3,
        ..LOOP
    };
    let calls = own.calls(&mut rng);
    let reported = findings(FindingKind::FsyncBound, own.ios(&mut rng), &calls);
    assert_eq!(
        reported.len(),
        1,
        "calls and I/Os say it once: {reported:?}"
    );
    let f = &reported[0];
    let e = evidence!(f, FsyncBound);
    assert_eq!(
        (f.severity, e.sync_source),
        (Severity::Warning, SyncSource::Calls)
    );
    assert_eq!(
        e.cause.as_ref().and_then(|c| c.path.as_deref()),
        Some("/srv/log"),
        "{f:?}"
    );
    assert!(
        e.sync_wait_percent > 90.0 && e.writes_per_sync.is_some_and(|n| (n - 2.0).abs() < 0.01),
        "{f:?}"
    );
    let idle = Loop {
        think_s: 2e-2,
        ..own
    };
    assert!(findings(FindingKind::FsyncBound, Vec::new(), &idle.calls(&mut rng)).is_empty());
}

const SMALL: Stream = Stream {
    tgid: 7,
    op: Op::READ,
    bytes: 4096,
    in_flight: 1,
    think_s: 1e-5,
    to_s: 2.0,
};

#[test]
fn a_stream_in_small_requests_is_found_among_random_ones() {
    let runs = seeds(6);
    let mut found = 0;
    for seed in 0..runs {
        let mut rng = Rng::new(seed);
        let bytes = 4096 << rng.below(4);
        let op = if rng.below(2) == 0 {
            Op::READ
        } else {
            Op::WRITE
        };
        let own = Stream {
            op,
            bytes,
            in_flight: 1 + rng.below(8) as usize,
            ..SMALL
        };
        let begin = 8 * rng.below(1 << 30) as i64;
        let mut ios = own.ios(&mut rng, |_, i| begin + i * bytes / 512);
        let random = Stream {
            tgid: 8,
            op: Op::READ,
            to_s: SECONDS,
            think_s: 1e-3,
            ..SMALL
        };
        ios.extend(random.ios(&mut rng, |rng, _| 8 * rng.below(1 << 30) as i64));
        let reported = findings(FindingKind::SmallSequential, ios, &[]);
        let is_it = |f: &Finding| {
            let e = evidence!(f, SmallSequential);
            let times = 131_072 / bytes;
            (e.pid, e.request_bytes) == (Some(7), bytes)
                && (e.ios_if_large as i64 * times - e.ios as i64).abs() < times
        };
        found += u64::from(reported.len() == 1 && is_it(&reported[0]));
    }
    eprintln!("{found} of {runs} found");
    assert!(found * 100 >= 95 * runs, "{found} of {runs} found");
}

#[test]
fn other_streams_are_not_cut_small() {
    let kind = FindingKind::SmallSequential;
    let random = |rng: &mut Rng| 8 * rng.below(1 << 30) as i64;
    assert_silent("random", kind, |rng| SMALL.ios(rng, |rng, _| random(rng)));
    assert_silent("random in a small file", kind, |rng| {
        SMALL.ios(rng, |rng, _| 8 * rng.below(40) as i64)
    });
    assert_silent("the same sectors again", kind, |rng| {
        SMALL.ios(rng, |_, i| 8 * (i % 50))
    });
    assert_silent("every second block", kind, |rng| {
        SMALL.ios(rng, |_, i| 16 * i)
    });
    assert_silent("short pieces", kind, |rng| {
        let mut begin = 0;
        SMALL.ios(rng, |rng, i| {
            begin = if i % 16 == 0 { random(rng) } else { begin + 8 };
            begin
        })
    });
    assert_silent("large requests", kind, |rng| {
        Stream {
            bytes: 131_072,
            ..SMALL
        }
        .ios(rng, |_, i| 256 * i)
    });
    assert_silent("a pace of its own", kind, |rng| {
        Stream {
            think_s: 2e-3,
            to_s: SECONDS,
            ..SMALL
        }
        .ios(rng, |_, i| 8 * i)
    });
    assert_silent("read ahead", kind, |rng| {
        let ios = Stream {
            bytes: 16_384,
            ..SMALL
        }
        .ios(rng, |_, i| 32 * i);
        ios.into_iter()
            .map(|io| Io {
                flags: Some(Io::FLAG_RAHEAD),
                ..io
            })
            .collect()
    });
    assert_silent("merged", kind, |rng| {
        let ios = Stream {
            bytes: 16_384,
            ..SMALL
        }
        .ios(rng, |_, i| 32 * i);
        ios.into_iter()
            .map(|io| Io {
                merges: Some(3),
                ..io
            })
            .collect()
    });
    assert_silent("a log, each record forced out", kind, |rng| {
        let mut sector = 0;
        let to_log = |mut io: Io| {
            io.sector = Some(sector);
            sector += io.bytes / 512;
            io
        };
        Loop { writes: 4, ..LOOP }
            .ios(rng)
            .into_iter()
            .map(to_log)
            .collect()
    });
    assert_silent(
        "a device on which the transfer takes most of the time",
        kind,
        |rng| {
            let per_byte = |io: Io| Io {
                device_ns: io.bytes * 20,
                done_ns: io.start_ns() + io.bytes * 20,
                ..io
            };
            let mut ios = Stream {
                bytes: 16_384,
                think_s: 1e-4,
                ..SMALL
            }
            .ios(rng, |_, i| 32 * i);
            ios.iter_mut()
                .enumerate()
                .for_each(|(i, io)| io.bytes = if i % 200 == 0 { 4096 } else { 16_384 });
            ios.into_iter().map(per_byte).collect()
        },
    );
}

/// Start times of `n` intervals of `len_s` at random, one in each part of the recording.
fn spells(rng: &mut Rng, n: u32, len_s: f64) -> Vec<f64> {
    let part = SECONDS / f64::from(n);
    (0..n)
        .map(|i| f64::from(i) * part + rng.uniform() * (part - len_s))
        .collect()
}

fn within(starts: &[f64], len_s: f64, at_s: f64) -> bool {
    starts.iter().any(|s| *s <= at_s && at_s < s + len_s)
}

/// A steady reader (7), a steady writer (8), and a process (9) that writes in spells of 0.2 s at `burst` a second.
fn three(rng: &mut Rng, starts: &[f64], burst: f64, service_s: f64) -> Vec<Arrival> {
    let mut all = arrivals(rng, (7, Op::READ, 4096), (150.0, 3e-4), SECONDS, |_| 150.0);
    all.extend(arrivals(
        rng,
        (8, Op::WRITE, 4096),
        (60.0, 3e-4),
        SECONDS,
        |_| 60.0,
    ));
    all.extend(arrivals(
        rng,
        (9, Op::WRITE, 262_144),
        (burst, service_s),
        SECONDS,
        |at| {
            if within(starts, 0.2, at) { burst } else { 0.0 }
        },
    ));
    all
}

/// The stories of `ios`.
fn stories(ios: Vec<Io>) -> Vec<Story> {
    let mut builder = ReportBuilder::new(Window::new(0, (SECONDS * SECOND) as i64));
    in_order(ios).iter().for_each(|io| builder.push(io));
    builder.finish(0).stories
}

/// The culprit of a story.
fn culprits(story: &Story) -> Vec<Option<i32>> {
    story.culprits.iter().map(|c| c.tgid).collect()
}

#[test]
fn who_made_whom_wait_is_told_among_processes() {
    let runs = seeds(20);
    let mut found = 0;
    for seed in 0..runs {
        let mut rng = Rng::new(seed);
        let starts = spells(&mut rng, 20, 0.2);
        let stories = stories(served(three(&mut rng, &starts, 500.0, 1.6e-3), 1));
        let blamed: Vec<Option<i32>> = stories.iter().flat_map(culprits).collect();
        let is_reader = |s: &Story| s.victim.tgid == Some(7) && culprits(s) == [Some(9)];
        let is_right = stories.iter().any(is_reader) && blamed.iter().all(|p| *p == Some(9));
        found += u64::from(is_right);
        if !is_right {
            eprintln!("seed {seed}: {stories:?}");
        }
    }
    eprintln!("{found} of {runs} found");
    assert!(found * 100 >= 95 * runs, "{found} of {runs} found");
}

#[test]
fn two_that_come_at_the_same_times_are_told_together() {
    let runs = seeds(20);
    let mut found = 0;
    for seed in 0..runs {
        let mut rng = Rng::new(seed);
        let starts = spells(&mut rng, 15, 0.2);
        let mut all = three(&mut rng, &starts, 500.0, 8e-4);
        let of_9 = all.clone().into_iter().filter(|w| w.tgid == 9);
        all.extend(of_9.map(|w| Arrival { tgid: 10, ..w }));
        let stories = stories(served(all, 1));
        let is_reader = |s: &Story| {
            let mut both = culprits(s);
            both.sort();
            s.victim.tgid == Some(7) && both == [Some(9), Some(10)]
        };
        found += u64::from(stories.iter().any(is_reader));
    }
    eprintln!("{found} of {runs} found");
    assert!(found * 100 >= 95 * runs, "{found} of {runs} found");
}

/// At most 1 % of recordings name a program as the cause, within chance.
fn assert_blameless(name: &str, scene: impl Fn(&mut Rng) -> Vec<Io>) {
    let runs = seeds(6);
    let mut blamed = 0;
    for seed in 0..runs {
        let stories = stories(scene(&mut Rng::new(104_729 * seed + 7)));
        let culprits: usize = stories.iter().map(|s| s.culprits.len()).sum();
        blamed += u64::from(culprits > 0);
        if culprits > 0 {
            eprintln!("{name}, seed {seed}: {stories:?}");
        }
    }
    eprintln!("{name}: programs blamed in {blamed} of {runs}");
    let expected = 0.01 * runs as f64;
    assert!(
        blamed as f64 <= expected + 2.0 * expected.sqrt(),
        "{name}: {blamed} of {runs}"
    );
}

#[test]
fn nobody_is_blamed_where_nobody_waits_for_another() {
    assert_blameless("slow at other times", |rng| {
        let starts = spells(rng, 12, 0.2);
        let slow = spells(rng, 6, 0.8);
        let mut all = three(rng, &starts, 300.0, 3e-4);
        all.iter_mut()
            .filter(|w| within(&slow, 0.8, w.at_s))
            .for_each(|w| w.service_s *= 8.0);
        served(all, 16)
    });
    assert_blameless("bursts on a device with room", |rng| {
        let starts = spells(rng, 20, 0.2);
        served(three(rng, &starts, 500.0, 1e-3), 64)
    });
}
