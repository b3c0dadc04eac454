//! Each analysis agrees with the closed forms of simulated queues.
//!
//! `IOLENS_FULL=1` runs 1000 null recordings instead of 200.

use crate::simulator::{DEV, Job, Rng, SECOND, bursts, evidence, merged, poisson, serve};
use crate::{near, of_kind, report_of};
use iolens_core::analysis::capacity::State;
use iolens_core::analysis::capacity::models::mmc_response;
use iolens_core::analysis::counters::io_ticks::{IoTicks, Regime};
use iolens_core::analysis::findings::{Cause, FindingKind};
use iolens_core::analysis::stories::Story;
use iolens_core::analysis::stream::order::{End, Hold, Span, StartOrder, Sweep};
use iolens_core::analysis::{ReportBuilder, Window};
use iolens_core::model::{Class, Comm, DevId, Io, LossReason, Lost, Op};

// A2

struct Ticks {
    ticks: IoTicks,
}

impl Sweep for Ticks {
    fn start(&mut self, span: &Span) {
        self.ticks.start(span.start_ns);
    }
    fn done(&mut self, end: &End) {
        self.ticks.done(end.at_ns);
    }
}

fn ticks_percent(ios: &[Io], regime: Regime, hz: u32, seconds: f64) -> f64 {
    let mut sweep = Ticks {
        ticks: IoTicks::new(regime, hz),
    };
    let mut order = StartOrder::new(Hold::RECORDING);
    ios.iter()
        .for_each(|io| order.push(Span::of(io, 0), &mut sweep));
    order.finish(&mut sweep);
    100.0 * sweep.ticks.busy_ns() as f64 / (seconds * SECOND)
}

#[test]
fn kernel_estimators_reproduce_an_independent_simulation() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/golden/synthetic_io_ticks_regimes.csv"
    );
    let table = std::fs::read_to_string(path).expect("the golden table");
    for (i, line) in table.lines().skip(1).enumerate() {
        let v: Vec<f64> = line
            .split(',')
            .map(|v| v.parse().unwrap_or(f64::INFINITY))
            .collect();
        let per_s = v[0];
        let service = v[1] * 1e6;
        let servers = v[2];
        let jiffy_ms = v[3];
        let seconds = 150_000.0 / per_s;
        let jobs = poisson(&mut Rng::new(i as u64), per_s, seconds, |_| service);
        let ios = serve(&jobs, servers.is_finite().then_some(servers as usize));
        let exact = report_of(&ios, seconds).devices.devices[0]
            .busy_percent
            .expect("a window");
        let hz = (1000.0 / jiffy_ms) as u32;
        // The golden run itself is only 200 s long, so its own noise is part of the tolerance.
        let jiffy_s = jiffy_ms / 1e3;
        let per_io_s = (v[1] / 1e3).max(jiffy_s * (-per_s * jiffy_s).exp());
        let noise = 3.0 * 100.0 * per_io_s * (per_s * 200.0).sqrt() / 200.0;
        near(exact, v[4], 0.3 + noise, line);
        for (regime, column) in [
            (Regime::TouchedJiffy, 5),
            (Regime::StartTouches, 6),
            (Regime::Sampled, 7),
        ] {
            near(
                ticks_percent(&ios, regime, hz, seconds),
                v[column],
                0.3 + noise,
                &format!("{line}: {regime:?}"),
            );
        }
    }
}

// A2, A3, A4, A6

#[test]
fn m_m_1_has_its_utilisation_queue_and_percentiles() {
    let per_s = 1000.0;
    let mean = 0.5e6;
    let seconds = 1000.0;
    let jobs = poisson(&mut Rng::new(1), per_s, seconds, |r| r.exp(mean));
    let report = report_of(&serve(&jobs, Some(1)), seconds);
    let d = &report.devices.devices[0];
    near(d.busy_percent.expect("a window"), 50.0, 0.5, "U = rho");
    near(
        d.concurrency.mean.expect("a window"),
        1.0,
        0.05,
        "L = rho / (1 - rho)",
    );
    near(
        d.busy_device_percent.expect("a window"),
        50.0,
        0.5,
        "the server",
    );
    let read = d.class(Class::Read);
    for (q, got) in [
        (0.5, read.p50_us),
        (0.9, read.p90_us),
        (0.99, read.p99_us),
        (0.999, read.p999_us),
    ] {
        let expected = -f64::ln(1.0 - q) / (2000.0 - 1000.0) * 1e6;
        near(
            got.expect("reads"),
            expected,
            0.03 * expected + if q > 0.99 { 0.03 * expected } else { 0.0 },
            "exponential response",
        );
    }
    let expected = mmc_response(1, 0.5).expect("stable") * 500.0;
    near(
        read.mean_us.expect("reads"),
        expected,
        0.03 * expected,
        "mean response",
    );
    // P(N = k) = (1 - rho) rho^k.
    for (k, percent) in d.concurrency.percent_at.iter().take(5).enumerate() {
        near(
            *percent,
            50.0 * 0.5f64.powi(k as i32),
            0.5,
            "geometric levels",
        );
    }
}

#[test]
fn m_g_infinity_is_poisson_and_touching_counts_more() {
    let per_s = 100.0;
    let service = 10e6;
    let seconds = 1500.0;
    let jobs = poisson(&mut Rng::new(2), per_s, seconds, |_| service);
    let report = report_of(&serve(&jobs, None), seconds);
    let p0 = report.devices.devices[0].concurrency.percent_at[0];
    near(p0, 100.0 * (-1.0f64).exp(), 0.5, "exact P0 = exp(-rho)");
    let groups = &report.details[0].slots.all;
    assert_eq!(groups.len(), 2, "20 minutes and the rest");
    let n: u64 = groups.iter().map(|g| g.slots).sum();
    let over = |f: fn(&iolens_core::analysis::device::slots::SlotGroup) -> f64| {
        groups.iter().map(|g| f(g) * g.slots as f64).sum::<f64>() / n as f64
    };
    near(
        over(|g| g.touched_percent),
        100.0 * (1.0 - (-1.2f64).exp()),
        0.5,
        "touched: Poisson(rho + lambda w)",
    );
    near(over(|g| g.touched.mean), 1.2, 0.012, "touched mean");
    near(over(|g| g.sampled.mean), 1.0, 0.012, "sampled mean");
    near(over(|g| g.mean.mean), 1.0, 0.012, "mean of means");
}

#[test]
fn m_d_1_touches_far_more_slots_than_it_fills() {
    let seconds = 600.0;
    let jobs = poisson(&mut Rng::new(3), 100.0, seconds, |_| 0.1e6);
    let report = report_of(&serve(&jobs, Some(1)), seconds);
    near(
        report.devices.devices[0].busy_percent.expect("a window"),
        1.0,
        0.05,
        "exact",
    );
    near(
        report.details[0].slots.read[0].touched_percent,
        18.95,
        0.5,
        "1 - (1 - rho) exp(-lambda w)",
    );
}

// A18

#[test]
fn a_ladder_of_load_shows_how_many_are_served_at_once() {
    for c in [1usize, 4, 32] {
        let mut rng = Rng::new(c as u64);
        let mean = 2e6;
        let step_s = 4.0;
        let mut jobs: Vec<Job> = Vec::new();
        for (i, rho) in [0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.3, 0.1]
            .iter()
            .enumerate()
        {
            let per_s = rho * c as f64 / (mean / SECOND);
            let step = poisson(&mut rng, per_s, step_s, |r| r.exp(mean));
            jobs.extend(step.iter().map(|j| Job {
                at: j.at + i as f64 * step_s * SECOND,
                ..*j
            }));
        }
        let report = report_of(&serve(&jobs, Some(c)), 10.0 * step_s);
        let capacity = &report.details[0].capacity;
        let knee = capacity
            .knee_in_flight
            .unwrap_or_else(|| panic!("c = {c}: {capacity:?}"));
        let expected_max = c as f64 / (mean / SECOND);
        near(
            capacity.max_ios_per_s.expect("seen"),
            expected_max,
            0.1 * expected_max,
            "plateau",
        );
        near(knee, c as f64, 0.1 * c as f64, "effective parallelism");
        assert!(capacity.little_residual.expect("busy") < 0.05);
    }
}

#[test]
fn fully_busy_but_parallel_is_not_saturated() {
    let seconds = 20.0;
    let jobs = poisson(&mut Rng::new(9), 4000.0, seconds, |r| r.exp(2e6));
    let report = report_of(&serve(&jobs, Some(64)), seconds);
    assert!(report.devices.devices[0].busy_percent.expect("a window") > 99.0);
    assert!(of_kind(&report, FindingKind::Saturation).is_empty());
}

// A13

#[test]
fn on_off_bursts_are_counted_and_measured() {
    for on_s in [0.05, 0.2, 0.5] {
        let onsets: Vec<f64> = (0..8)
            .map(|i| 1.0 + 3.0 * f64::from(i) + 0.137 * f64::from(i * i % 5))
            .collect();
        let jobs = bursts(&onsets, on_s, 2000.0, 512 << 10, 0.2e6);
        let report = report_of(&serve(&jobs, None), 30.0);
        let stream = &report.details[0].streams[1];
        assert_eq!(stream.bursts.len(), 8, "{on_s}");
        for (b, onset) in stream.bursts.iter().zip(&onsets) {
            assert_eq!(b.burst.bytes, (on_s * 2000.0) as u64 * (512 << 10));
            near(
                (b.burst.to_ns - b.burst.from_ns) as f64 / SECOND,
                on_s,
                0.0201,
                "duration within a slot at each end",
            );
            near(b.burst.from_ns as f64 / SECOND, *onset, 0.0101, "onset");
            let h = b.second.hidden_factor;
            assert!(h >= 0.95 / on_s && h <= 2.1 / on_s, "{on_s}: {h}");
        }
        let found = of_kind(&report, FindingKind::Microburst);
        assert_eq!(found.len(), if on_s <= 0.3 { 3 } else { found.len() });
        for f in found {
            let e = evidence!(f, Microburst);
            assert!(e.bytes > 0 && e.ios > 0 && e.peak_iops > 0.0, "{e:?}");
            assert!(
                e.peak_bytes_per_s > e.mean_1s_bytes_per_s && e.mean_1s_bytes_per_s > 0.0,
                "{e:?}"
            );
        }
    }
}

#[test]
fn a_rate_limit_is_not_reported_as_capacity() {
    // A program that passes 100, 300, then 800 I/Os per second, evenly or in small batches, to a device that serves 32
    // at once: any plateau is the program's.
    for (seed, batch) in [(1, 1), (2, 1), (3, 4), (4, 4)] {
        let mut rng = Rng::new(seed);
        let mut jobs = Vec::new();
        for (phase, rate) in [100.0, 300.0, 800.0].into_iter().enumerate() {
            let begin = phase as f64 * 20.0 * SECOND;
            for i in 0..(20.0 * rate) as usize / batch {
                let at = begin + (i * batch) as f64 * SECOND / rate;
                // Latency has a long tail, as that of real devices.
                let service = |rng: &mut Rng| {
                    0.2e6
                        + if rng.below(50) == 0 {
                            rng.exp(20e6)
                        } else {
                            rng.exp(0.5e6)
                        }
                };
                jobs.extend((0..batch).map(|_| Job {
                    at,
                    op: Op::READ,
                    bytes: 4096,
                    service: service(&mut rng),
                }));
            }
        }
        let report = report_of(&serve(&jobs, Some(32)), 60.0);
        let c = &report.details[0].capacity;
        assert_eq!(c.state, State::CapacityNotObserved, "seed {seed}: {c:?}");
        assert_eq!(
            (c.max_ios_per_s, c.knee_in_flight, c.headroom),
            (None, None, None),
            "seed {seed}"
        );
        assert!(of_kind(&report, FindingKind::Saturation).is_empty());
    }
}

// A14

/// Reads at random beside bulk writes on one server, first come, first served.
fn reads_and_writes(
    seed: u64,
    onsets: &[f64],
    seconds: f64,
    write_service: f64,
    servers: Option<usize>,
) -> Vec<Io> {
    let mut rng = Rng::new(seed);
    let reads = poisson(&mut rng, 100.0, seconds, |r| 0.1e6 + r.exp(0.1e6));
    serve(
        &merged(&[
            &reads,
            &bursts(onsets, 0.2, 500.0, 256 << 10, write_service),
        ]),
        servers,
    )
}

fn random_onsets(rng: &mut Rng, n: usize, seconds: f64) -> Vec<f64> {
    let mut onsets: Vec<f64> = (0..n).map(|_| rng.uniform() * (seconds - 1.0)).collect();
    onsets.sort_by(f64::total_cmp);
    onsets
}

fn nulls() -> u64 {
    if std::env::var_os("IOLENS_FULL").is_some() {
        1000
    } else {
        200
    }
}

/// The same I/Os with a program for each class.
fn named(ios: Vec<Io>) -> Vec<Io> {
    let name = |io: Io| {
        let (comm, tgid) = match io.class() {
            Class::Write => ("flusher", 7),
            _ => ("reader", 8),
        };
        Io {
            comm: Some(Comm::new(comm.as_bytes())),
            tgid: Some(tgid),
            ..io
        }
    };
    ios.into_iter().map(name).collect()
}

/// Whether a story is that the reader waited for the flusher.
fn is_reader_behind_flusher(story: &Story) -> bool {
    let culprits: Vec<Option<i32>> = story.culprits.iter().map(|c| c.tgid).collect();
    story.victim.tgid == Some(8) && story.class == Class::Read && culprits == [Some(7)]
}

#[test]
fn reads_behind_bulk_writes_in_the_queue_have_a_story() {
    let mut found = 0;
    for seed in 0..20 {
        let onsets = random_onsets(&mut Rng::new(seed + 500), 20, 60.0);
        // Each write takes 1.9 ms of the one server, 95 % of the burst's time: reads wait several times as long.
        let ios = named(reads_and_writes(seed, &onsets, 60.0, 1.9e6, Some(1)));
        let report = report_of(&ios, 60.0);
        found += usize::from(report.stories.first().is_some_and(is_reader_behind_flusher));
    }
    assert!(found >= 18, "power: {found} of 20");
}

#[test]
fn random_streams_rarely_give_stories_or_periods() {
    let mut with_story = 0;
    let mut periodic = 0;
    for seed in 0..nulls() {
        let mut rng = Rng::new(seed + 10_000);
        let onsets = random_onsets(&mut rng, 12, 60.0);
        // As many servers as it takes: reads do not notice the writes.
        let ios = named(reads_and_writes(seed, &onsets, 60.0, 1e6, None));
        let report = report_of(&ios, 60.0);
        with_story += u64::from(!report.stories.is_empty());
        periodic += u64::from(!of_kind(&report, FindingKind::Periodicity).is_empty());
    }
    let nulls = nulls();
    eprintln!("of {nulls} null recordings {with_story} have a story, {periodic} are periodic");
    assert!(
        with_story * 100 <= nulls,
        "stories in {with_story} of {nulls}"
    );
    assert!(periodic * 20 <= nulls, "periods in {periodic} of {nulls}");
}

// A15

#[test]
fn periods_from_a_twentieth_of_a_second_to_a_minute_are_found() {
    for (i, period) in [0.05, 0.1, 0.5, 5.0, 60.0].into_iter().enumerate() {
        let mut rng = Rng::new(40 + i as u64);
        let seconds = 20.0 * period;
        let onsets: Vec<f64> = (0..20)
            .map(|k| (f64::from(k) + 0.2 + 0.2 * (rng.uniform() - 0.5)) * period)
            .collect();
        let jobs = bursts(
            &onsets,
            (0.1 * period).min(0.2),
            100.0 / period.min(1.0) * 10.0,
            1 << 20,
            0.1e6,
        );
        let report = report_of(&serve(&jobs, None), seconds);
        let found = of_kind(&report, FindingKind::Periodicity);
        assert_eq!(
            found.len(),
            1,
            "{period}: {:?}",
            report.details[0].streams[1].periodicity
        );
        let got = evidence!(found[0], Periodicity).period_s;
        near(got, period, 0.012 * period, "period");
    }
}

// All together

/// A periodic load: a steady reader, and a writer that flushes 100 MB every three seconds into the same queue.
fn periodic_flushes() -> Vec<Io> {
    let mut rng = Rng::new(77);
    let reads = poisson(&mut rng, 400.0, 30.0, |r| 0.1e6 + r.exp(0.1e6));
    let onsets: Vec<f64> = (0..10).map(|k| 0.5 + 3.0 * f64::from(k)).collect();
    let writes = bursts(&onsets, 0.1, 2000.0, 512 << 10, 1e6);
    named(serve(&merged(&[&reads, &writes]), Some(1)))
}

#[test]
fn periodic_load_is_seen_completely() {
    let report = report_of(&periodic_flushes(), 30.0);
    let [story, others @ ..] = &report.stories[..] else {
        panic!("no story");
    };
    assert!(is_reader_behind_flusher(story), "{story:?}");
    assert!(
        !others.iter().any(|s| s.victim == story.victim),
        "{others:?}"
    );
    let flusher = |cause: &Option<Cause>| cause.as_ref().map(|c| (c.actor.comm, c.actor.tgid));
    let periodic = evidence!(of_kind(&report, FindingKind::Periodicity)[0], Periodicity);
    near(periodic.period_s, 3.0, 0.03, "period");
    assert_eq!(
        flusher(&periodic.cause),
        Some((Some(Comm::new(b"flusher")), Some(7)))
    );
    assert!(!of_kind(&report, FindingKind::Microburst).is_empty());
    for f in &report.findings {
        assert!(f.from_ns <= f.to_ns, "{f:?}");
    }
}

#[test]
fn what_is_lost_makes_bursts_lower_bounds() {
    // The same load, but some I/Os around every burst are lost.
    let mut builder = ReportBuilder::new(Window::new(0, (30.0 * SECOND) as i64));
    for k in 0..10i64 {
        let at = 500_000_000 + k * 3_000_000_000;
        builder.lost(&Lost {
            from_ns: at,
            to_ns: at + 800_000_000,
            dev: Some(DEV),
            class: None,
            reason: LossReason::RingFull,
            ios: Some(10),
            bytes: None,
            merges: None,
        });
    }
    periodic_flushes().iter().for_each(|io| builder.push(io));
    let report = builder.finish(0);
    assert!(
        of_kind(&report, FindingKind::Microburst)
            .iter()
            .all(|f| evidence!(f, Microburst).lossy)
    );
    assert_eq!(of_kind(&report, FindingKind::LostEvents).len(), 1);
}

#[test]
fn a_wrong_util_is_reported_with_its_reason() {
    use iolens_core::analysis::ReportPlan;
    use iolens_core::analysis::timeline::CounterRates;
    // 230 reads/s of 0.215 ms: 4.9 % busy; a kernel of the touched-jiffy kind says 62 %.
    let seconds = 100.0;
    let ios = serve(
        &poisson(&mut Rng::new(5), 230.0, seconds, |_| 0.215e6),
        Some(1),
    );
    let says = ticks_percent(&ios, Regime::StartTouches, 250, seconds);
    let plan = ReportPlan {
        kernel: Some((Regime::StartTouches, 250)),
        ..ReportPlan::default()
    };
    let window = Window::new(0, (seconds * SECOND) as i64);
    let mut builder = ReportBuilder::with_plan(window, plan);
    ios.iter().for_each(|io| builder.push(io));
    builder.counters(&CounterRates {
        dev: DEV,
        from_ns: 0,
        to_ns: window.to_ns,
        flows: [None; 4],
        busy_ns: Some((says / 100.0 * seconds * SECOND) as i64),
        area_ns: None,
    });
    let report = builder.finish(0);
    let util = report.details[0].util.as_ref().expect("compared");
    near(util.busy_percent, 4.94, 0.15, "exact");
    near(
        util.expected_percent.expect("known kernel"),
        says,
        0.01,
        "the port predicts the kernel",
    );
    assert_eq!(of_kind(&report, FindingKind::UtilDisagreement).len(), 1);
}

#[test]
fn several_devices_are_kept_apart_and_joined() {
    let on = |io: Io, n: i32| Io {
        dev: DevId(n),
        ..io
    };
    let ios = [
        on(Io::new(10, DEV, Op::READ, 512, Some(0), 10), 1),
        on(Io::new(15, DEV, Op::WRITE, 512, Some(0), 10), 2),
        on(Io::new(40, DEV, Op::READ, 512, Some(0), 10), 2),
    ];
    let mut builder = ReportBuilder::new(Window::new(0, 100));
    ios.iter().for_each(|io| builder.push(io));
    let report = builder.finish(0);
    let busy: Vec<_> = report
        .devices
        .devices
        .iter()
        .map(|d| d.busy_percent)
        .collect();
    assert_eq!(busy, [Some(10.0), Some(20.0)]);
    let set = &report.set;
    assert_eq!(
        (
            set.busy_percent,
            set.busy_read_percent,
            set.busy_both_percent
        ),
        (Some(25.0), Some(20.0), Some(5.0))
    );
    assert_eq!(
        (set.concurrency.mean, set.concurrency.max),
        (Some(0.3), Some(2))
    );
}

#[test]
fn counters_alone_give_counts_and_means_but_no_percentiles() {
    use iolens_core::analysis::timeline::{CounterRates, Flow};
    let rates = |to_ns, ios| CounterRates {
        dev: DEV,
        from_ns: to_ns - 10,
        to_ns,
        flows: [
            Some(Flow {
                ios,
                bytes: 4096 * ios,
                total_ns: 2_000_000 * ios as i64,
            }),
            Some(Flow::default()),
            None,
            None,
        ],
        busy_ns: Some(5),
        area_ns: Some(20),
    };
    let mut builder = ReportBuilder::new(Window::new(0, 100));
    [rates(10, 3), rates(20, 0), rates(30, 1)]
        .iter()
        .for_each(|r| builder.counters(r));
    let report = builder.finish(100);
    let d = &report.devices.devices[0];
    let read = d.class(Class::Read);
    assert_eq!(
        (report.devices.ios, read.ios, read.mean_us, read.p99_us),
        (4, Some(4), Some(2000.0), None)
    );
    assert_eq!(
        (d.busy_percent, d.concurrency.mean, d.concurrency.p50),
        (None, Some(2.0), None)
    );
    assert_eq!(report.util_io_ticks_percent[&DEV], 50.0);
    assert!(report.details.is_empty() && report.findings.is_empty());
}

#[test]
fn the_period_belongs_to_the_recurring_process() {
    let by = |comm: &[u8], at_s: f64, bytes| Io {
        comm: Some(Comm::new(comm)),
        tgid: Some(3),
        ..Io::new(
            (at_s * SECOND) as i64,
            DEV,
            Op::WRITE,
            bytes,
            Some(1000),
            100_000,
        )
    };
    let mut ios: Vec<Io> = (0..18)
        .map(|k| by(b"jbd2/vda1-8", 2.0 + 5.0 * f64::from(k), 24 << 10))
        .collect();
    ios.push(by(b"kworker/u8:2", 62.3, 64 << 20));
    ios.sort_by_key(|io| io.done_ns);
    let report = report_of(&ios, 90.0);
    let found = of_kind(&report, FindingKind::Periodicity);
    near(
        evidence!(found[0], Periodicity).period_s,
        5.0,
        0.05,
        "period",
    );
    let cause = evidence!(found[0], Periodicity)
        .cause
        .as_ref()
        .expect("a process");
    assert_eq!(
        (cause.actor.comm, cause.actor.tgid),
        (Some(Comm::new(b"jbd2/vda1-8")), Some(3))
    );
}
