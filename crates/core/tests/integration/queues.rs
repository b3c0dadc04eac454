//! Simulated queues with closed forms: every number of a report that has a closed form agrees with it.

use crate::simulator::{Job, Rng, SECOND, bursts, evidence, merged, poisson, serve};
use crate::{near, report_of};
use iolens_core::analysis::capacity::models::{Model, mmc_response};
use iolens_core::analysis::device::detail::DeviceDetail;
use iolens_core::analysis::{DeviceSummary, Report};
use iolens_core::model::{Class, DevId, Io, Op, Origin};

fn device(report: &Report) -> (&DeviceSummary, &DeviceDetail) {
    (&report.devices.devices[0], &report.details[0])
}

#[test]
fn d_d_1_is_exact() {
    // 400 reads a second of 1 ms each, evenly: U = 40 %, L = 0.4, R = 1 ms, no more than one at once.
    let jobs: Vec<Job> = (0..8000)
        .map(|i| Job {
            at: f64::from(i) * 2.5e6,
            op: Op::READ,
            bytes: 4096,
            service: 1e6,
        })
        .collect();
    let report = report_of(&serve(&jobs, Some(1)), 20.0);
    let (d, detail) = device(&report);
    near(d.busy_percent, 40.0, 1e-6, "U = λS");
    near(d.concurrency.mean, 0.4, 1e-9, "L = λR");
    let read = d.class(Class::Read);
    assert_eq!(
        (read.mean_us, read.p50_us, read.p999_us, read.max_us),
        (Some(1000.0), Some(1000.0), Some(1000.0), Some(1000.0))
    );
    assert_eq!(
        (read.p50_ci_us, d.concurrency.max),
        (Some((1000.0, 1000.0)), Some(1))
    );
    // Slots of 2 ms, five to four reads: the one that begins 7.5 ms after the first touches two, so that none is untouched.
    let slots = &detail.slots.read[0];
    near(slots.touched_percent, 100.0, 0.1, "touched");
    near(slots.touched.mean, 1.0, 0.001, "touched, on average");
    near(slots.mean.mean, 0.4, 0.005, "mean of slots");
    near(detail.capacity.little_residual, 0.0, 1e-3, "L = X R");
}

/// Probability that M/M/c is empty, at utilisation `rho` of each of `c` servers; `None` at or beyond saturation.
fn mmc_idle(c: u32, rho: f64) -> Option<f64> {
    if !(0.0..1.0).contains(&rho) || c == 0 {
        return None;
    }
    let offered = f64::from(c) * rho;
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..c {
        sum += term;
        term *= offered / f64::from(k + 1);
    }
    Some(1.0 / (sum + term / (1.0 - rho)))
}

/// Mean response time of M/D/1 in units of the service time at utilisation `rho`; `None` at or beyond saturation.
fn md1_response(rho: f64) -> Option<f64> {
    (0.0..1.0)
        .contains(&rho)
        .then(|| 1.0 + rho / (2.0 * (1.0 - rho)))
}

#[test]
fn closed_forms_have_their_known_values() {
    assert!((md1_response(0.5).expect("stable") - 1.5).abs() < 1e-12);
    assert_eq!((md1_response(1.2), mmc_idle(0, 0.5)), (None, None));
    assert!(
        (mmc_idle(1, 0.3).expect("stable") - 0.7).abs() < 1e-12,
        "M/M/1: 1 - rho"
    );
    assert!(
        (mmc_idle(2, 0.5).expect("stable") - 1.0 / 3.0).abs() < 1e-12,
        "M/M/2: (1 - rho) / (1 + rho)"
    );
}

#[test]
fn m_d_1_waits_half_as_long_as_m_m_1() {
    let service = 1e6;
    let rho = 0.7;
    let seconds = 400.0;
    let per_s = rho * SECOND / service;
    let jobs = poisson(&mut Rng::new(21), per_s, seconds, |_| service);
    let report = report_of(&serve(&jobs, Some(1)), seconds);
    let (d, _) = device(&report);
    let expected = md1_response(rho).expect("stable");
    near(d.busy_percent, 70.0, 0.5, "U = ρ");
    near(
        d.class(Class::Read).mean_us,
        expected * 1000.0,
        0.03 * expected * 1000.0,
        "Pollaczek and Khinchine",
    );
    near(
        d.concurrency.mean,
        rho * expected,
        0.03 * rho * expected,
        "Little",
    );
    near(
        d.class(Class::Read).queue_mean_us,
        (expected - 1.0) * 1000.0,
        0.05 * expected * 1000.0,
        "wait",
    );
    near(d.class(Class::Read).device_mean_us, 1000.0, 0.01, "service");
}

#[test]
fn m_m_c_is_empty_and_slow_as_erlang_says() {
    for (c, seconds) in [(1u32, 400.0), (4, 200.0), (32, 60.0)] {
        let mean = 2e6;
        let rho = 0.5;
        let per_s = rho * f64::from(c) * SECOND / mean;
        let jobs = poisson(&mut Rng::new(u64::from(c) + 30), per_s, seconds, |r| {
            r.exp(mean)
        });
        let report = report_of(&serve(&jobs, Some(c as usize)), seconds);
        let (d, detail) = device(&report);
        near(
            d.busy_percent,
            100.0 * (1.0 - mmc_idle(c, rho).expect("stable")),
            1.0,
            "U = 1 - P0",
        );
        let response = mmc_response(c, rho).expect("stable") * mean / 1e3;
        near(
            d.class(Class::Read).mean_us,
            response,
            0.03 * response,
            "Erlang C",
        );
        // The cost of an I/O that is alone there: its service time, whatever arrives later.
        let cost = detail.stages.costs[0].map(|cost| cost.per_io_us);
        if c <= 4 {
            near(cost, mean / 1e3, 0.05 * mean / 1e3, "cost");
        }
    }
}

#[test]
fn the_load_of_a_ladder_is_known_to_three_points() {
    for c in [1usize, 4, 32] {
        let mut rng = Rng::new(c as u64 + 60);
        let mean = 2e6;
        let step_s = 4.0;
        let steps = [
            0.02, 0.05, 0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 1.2, 1.3, 1.5, 0.1,
        ];
        let mut jobs: Vec<Job> = Vec::new();
        for (i, rho) in steps.iter().enumerate() {
            let step = poisson(&mut rng, rho * c as f64 / (mean / SECOND), step_s, |r| {
                r.exp(mean)
            });
            jobs.extend(step.iter().map(|j| Job {
                at: j.at + i as f64 * step_s * SECOND,
                ..*j
            }));
        }
        let seconds = steps.len() as f64 * step_s;
        let report = report_of(&serve(&jobs, Some(c)), seconds);
        let (_, detail) = device(&report);
        let capacity = &detail.capacity;
        let max = capacity.max_ios_per_s.expect("seen");
        let truth = c as f64 * SECOND / mean;
        let (low, high) = capacity.max_ios_per_s_ci.expect("enough blocks");
        assert!(
            low <= max && max <= high && high - low < 0.2 * max,
            "{low} {max} {high}"
        );
        // ρ of the step at one half, by the plateau and by the best model.
        let at_half: Vec<f64> = detail
            .load
            .iter()
            .filter(|p| {
                p.from_ns as f64 >= 5.0 * step_s * SECOND
                    && (p.from_ns as f64) < 6.0 * step_s * SECOND
            })
            .map(|p| p.ios_per_s)
            .collect();
        let x = at_half.iter().sum::<f64>() / at_half.len() as f64;
        near(x / max, x / truth, 0.03, "ρ by the plateau");
        let best = capacity.models.first().expect("fitted").model;
        assert!(
            !matches!(best, Model::Md1 { .. }),
            "exponential service is not constant: {best:?}"
        );
        let (l, _) = capacity.best_power.expect("fitted");
        assert!(
            l > 0.2 && l < 3.0 * c as f64,
            "power is highest at L = {l} of c = {c}"
        );
    }
}

#[test]
fn the_cost_of_a_mixture_is_the_sum_of_its_parts() {
    // Reads of 0.2 ms, writes of 0.1 ms + 0.01 ms per KiB, one server, both Poisson: ρ = 0.1 + 0.09 + 0.08.
    let seconds = 100.0;
    let mut rng = Rng::new(70);
    let reads = poisson(&mut rng, 500.0, seconds, |_| 0.2e6);
    let mut kib = Rng::new(71);
    let writes: Vec<Job> = poisson(&mut rng, 500.0, seconds, |_| 0.0)
        .into_iter()
        .map(|j| {
            let size = 4 << kib.below(4);
            Job {
                op: Op::WRITE,
                bytes: size << 10,
                service: 0.1e6 + 0.01e6 * size as f64,
                ..j
            }
        })
        .collect();
    let report = report_of(&serve(&merged(&[&reads, &writes]), Some(1)), seconds);
    let (d, detail) = device(&report);
    let [read, write] = detail.stages.costs.map(|c| c.expect("enough alone"));
    near(read.per_io_us, 200.0, 0.1, "reads, per I/O");
    near(write.per_io_us, 100.0, 0.1, "writes, per I/O");
    near(write.per_kib_us, 10.0, 0.01, "writes, per KiB");
    let rates = [Class::Read, Class::Write].map(|c| {
        (
            d.class(c).ios.expect("counted") as f64 / seconds,
            d.class(c).bytes.expect("counted") as f64 / seconds,
        )
    });
    let rho = iolens_core::analysis::capacity::mix::load(&rates, &detail.stages.costs, 1.0)
        .expect("known");
    near(
        rho,
        d.busy_percent.expect("a window") / 100.0,
        0.002,
        "one server is busy by its load",
    );
}

#[test]
fn on_off_is_busy_while_it_is_on() {
    // 0.3 s on of every 2 s, 1000 writes a second of 0.5 ms on one server: half busy while on.
    let onsets: Vec<f64> = (0..20).map(|i| 0.5 + 2.0 * f64::from(i)).collect();
    let report = report_of(
        &serve(&bursts(&onsets, 0.3, 1000.0, 64 << 10, 0.5e6), Some(1)),
        40.0,
    );
    let (d, detail) = device(&report);
    near(d.busy_percent, 7.5, 1e-3, "U = duty x ρ");
    near(d.busy_write_percent, 7.5, 1e-3, "writes only");
    let stream = &detail.streams[1];
    assert_eq!(
        (stream.bursts_found, stream.bytes),
        (20, 20 * 300 * (64 << 10))
    );
    let b = &stream.bursts[3];
    let r = 1000.0 * f64::from(64 << 10);
    for (view, seconds) in [(Some(b.second), 1.0), (b.quarter_minute, 15.0)] {
        let shown = view.expect("long enough").median_bytes_per_s;
        // Whole bursts in a period, one more or less; at least half of one in a second.
        let most = (seconds / 2.0f64).ceil() * r * 0.3 / seconds;
        assert!(
            shown <= most * 1.001 && shown >= r * 0.3 / 2.0 / seconds,
            "{seconds} s: {shown} of {most}"
        );
    }
    assert!(b.minute.is_none(), "the recording is shorter than a minute");
    near(b.in_flight, 0.5, 0.1, "half busy while on");
    near(
        b.active_second_bytes_per_s,
        20.0 * r * 0.3 / 7.0,
        1.0,
        "little more than 6 s of 40 are active",
    );
}

#[test]
fn two_classes_in_one_queue_wait_alike() {
    // First come, first served: reads wait for the work of writes, Pollaczek and Khinchine with both services.
    let seconds = 400.0;
    let mut rng = Rng::new(80);
    let reads = poisson(&mut rng, 300.0, seconds, |_| 0.5e6);
    let writes: Vec<Job> = poisson(&mut rng, 100.0, seconds, |_| 3e6)
        .into_iter()
        .map(|j| Job { op: Op::WRITE, ..j })
        .collect();
    let report = report_of(&serve(&merged(&[&reads, &writes]), Some(1)), seconds);
    let (d, _) = device(&report);
    let rho = 300.0 * 0.5e-3 + 100.0 * 3e-3;
    let wait_us = 1e6 * (300.0 * 0.5e-3f64.powi(2) + 100.0 * 3e-3f64.powi(2)) / (2.0 * (1.0 - rho));
    near(d.busy_percent, 100.0 * rho, 0.5, "U = Σ λS");
    for class in [Class::Read, Class::Write] {
        near(
            d.class(class).queue_mean_us,
            wait_us,
            0.05 * wait_us,
            "both wait alike",
        );
    }
    let r = d.busy_read_percent;
    let w = d.busy_write_percent;
    let both = d.busy_both_percent;
    near(
        r.zip(w).zip(both).map(|((r, w), both)| r + w - both),
        d.busy_percent.expect("a window"),
        1e-9,
        "A4",
    );
}

#[test]
fn reads_that_meet_a_burst_are_counted_beside_it() {
    let seconds = 60.0;
    let reads = poisson(&mut Rng::new(90), 400.0, seconds, |r| 0.1e6 + r.exp(0.1e6));
    let onsets: Vec<f64> = (0..12).map(|i| 1.0 + 4.7 * f64::from(i)).collect();
    let ios = serve(
        &merged(&[&reads, &bursts(&onsets, 0.2, 1500.0, 256 << 10, 1e6)]),
        Some(1),
    );
    let report = report_of(&ios, seconds);
    let b = &device(&report).1.streams[1].bursts[2];
    assert!(
        b.other_n > Some(10) && b.other_max_us > Some(50_000.0),
        "reads waited there: {b:?}"
    );
}

#[test]
fn percentiles_of_m_m_1_lie_in_their_intervals() {
    let mut held = 0;
    let mut asked = 0;
    for seed in 0..40 {
        let seconds = 30.0;
        // A light load: successive latencies hardly depend on each other, as the interval assumes.
        let jobs = poisson(&mut Rng::new(seed + 100), 100.0, seconds, |r| r.exp(0.1e6));
        let report = report_of(&serve(&jobs, Some(1)), seconds);
        let read = device(&report).0.class(Class::Read);
        for (q, ci) in [
            (0.5, read.p50_ci_us),
            (0.9, read.p90_ci_us),
            (0.99, read.p99_ci_us),
        ] {
            let truth = -f64::ln(1.0 - q) / (10_000.0 - 100.0) * 1e6;
            asked += 1;
            held += usize::from(ci.is_some_and(|(low, high)| low <= truth && truth <= high));
        }
    }
    assert!(
        held * 100 >= asked * 88,
        "{held} of {asked} intervals of 95 % hold the truth"
    );
}

#[test]
fn a_set_of_devices_is_busier_than_its_busiest() {
    let seconds = 20.0;
    let on = |n: i32, jobs: &[Job]| {
        serve(jobs, Some(1)).into_iter().map(move |io| Io {
            dev: DevId(n),
            ..io
        })
    };
    let some = |seed, per_s: f64| poisson(&mut Rng::new(seed), per_s, seconds, |_| 1e6);
    let mut ios: Vec<Io> = on(1, &some(1, 600.0))
        .chain(on(2, &some(2, 100.0)))
        .chain(on(3, &some(3, 300.0)))
        .collect();
    ios.sort_by_key(|io| io.done_ns);
    let report = report_of(&ios, seconds);
    let set = &report.set;
    let own: Vec<f64> = report
        .devices
        .devices
        .iter()
        .map(|d| d.busy_percent.expect("a window"))
        .collect();
    let all = set.busy_percent.expect("a window");
    let max = set.max_busy_percent.expect("three");
    let mean = set.mean_busy_percent.expect("three");
    near(
        mean,
        own.iter().sum::<f64>() / 3.0,
        1e-9,
        "mean over devices",
    );
    assert!(
        all >= max && max >= mean && set.devices == 3,
        "{all} {max} {mean}"
    );
    // Independent devices: the set is idle while all are.
    let idle = own.iter().map(|u| 1.0 - u / 100.0).product::<f64>();
    near(all, 100.0 * (1.0 - idle), 1.0, "any of three");
    let slots = &report.set_slots.as_ref().expect("several devices").all[0];
    near(
        slots.mean.mean,
        set.concurrency.mean.expect("a window"),
        0.01,
        "slots of the set",
    );
    assert!(slots.touched_percent >= all && slots.touched_percent <= 100.0);
    assert!(
        report_of(&serve(&some(1, 600.0), Some(1)), seconds)
            .set_slots
            .is_none()
    );
}

#[test]
fn waits_in_the_kernel_are_reported() {
    let written = serve(
        &bursts(&[1.0, 6.0, 11.0], 0.2, 1000.0, 256 << 10, 0.2e6),
        Some(1),
    );
    let ios: Vec<Io> = written
        .into_iter()
        .map(|io| Io {
            origin: Origin::Writeback,
            ..io
        })
        .collect();
    let report = report_of(&ios, 15.0);
    let found: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.kind().name() == "page-cache")
        .collect();
    assert_eq!(found.len(), 1, "{:?}", report.findings);
    assert_eq!(evidence!(found[0], WrittenBack).written_back_percent, 100.0);
}

#[test]
fn an_io_that_outlives_a_million_others_is_busy_all_its_time() {
    // 1.2 million reads of 5 us every 10 us for 12 s; a write of 11 s completes after them.
    let reads =
        (1..1_200_000).map(|i| Io::new(i * 10_000, DevId(1), Op::READ, 4096, Some(0), 5000));
    let ios: Vec<Io> = reads
        .chain([Io::new(
            11_999_999_999,
            DevId(1),
            Op::WRITE,
            4096,
            Some(0),
            11_000_000_000,
        )])
        .collect();
    let report = report_of(&ios, 12.0);
    let (d, _) = device(&report);
    near(
        d.busy_percent,
        100.0 * 11.5 / 12.0,
        0.3,
        "busy all its time",
    );
    near(
        d.busy_device_percent,
        100.0 * 11.5 / 12.0,
        0.3,
        "busy all its time",
    );
    near(
        d.busy_write_percent,
        100.0 * 11.0 / 12.0,
        0.3,
        "busy all its time",
    );
    near(
        d.busy_both_percent,
        100.0 * 5.5 / 12.0,
        0.3,
        "busy all its time",
    );
    near(d.concurrency.mean, 17.0 / 12.0, 0.01, "one more in flight");
}

#[test]
fn a_random_load_below_capacity_claims_no_limit_below_it() {
    // One server with 1000 per second: any reported limit is its own, not the load's.
    for (i, rho) in [0.5, 0.7, 0.76, 0.8, 0.9].into_iter().enumerate() {
        let jobs = poisson(&mut Rng::new(i as u64 + 300), rho * 1000.0, 60.0, |r| {
            r.exp(1e6)
        });
        let report = report_of(&serve(&jobs, Some(1)), 60.0);
        let max = device(&report).1.capacity.max_ios_per_s;
        assert!(
            max.is_none_or(|x| (900.0..=1100.0).contains(&x)),
            "{rho}: {max:?}"
        );
    }
}

#[test]
fn the_interval_of_how_many_are_served_at_once_holds_the_truth() {
    // Ladders of load on 1, 4 and 32 servers; of intervals of 95 % few miss.
    let mut given = 0;
    let mut missed = Vec::new();
    // Many servers are slower ones, or their recordings would have most of the I/Os of this test.
    for (c, mean) in [(1usize, 2e6), (4, 2e6), (32, 8e6)] {
        for seed in 0..10 {
            let mut rng = Rng::new(1000 * c as u64 + seed);
            let step_s = 4.0;
            let mut jobs: Vec<Job> = Vec::new();
            for (i, rho) in [0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.3, 0.1]
                .iter()
                .enumerate()
            {
                let step = poisson(&mut rng, rho * c as f64 / (mean / SECOND), step_s, |r| {
                    r.exp(mean)
                });
                jobs.extend(step.iter().map(|j| Job {
                    at: j.at + i as f64 * step_s * SECOND,
                    ..*j
                }));
            }
            let report = report_of(&serve(&jobs, Some(c)), 10.0 * step_s);
            let Some((low, high)) = device(&report).1.capacity.knee_in_flight_ci else {
                continue;
            };
            given += 1;
            if c as f64 <= low - 0.005 || high + 0.005 <= c as f64 {
                missed.push((c, seed, low, high));
            }
        }
    }
    // Nine of ten given, and of thirty 95 % intervals more than four miss once in 60 such tests.
    assert!(
        given >= 27 && missed.len() <= 4,
        "{given} intervals; these miss: {missed:?}"
    );
}
