//! A21's pass conditions on the simulated disk: 200 seeds, every kernel's estimator.
#![allow(clippy::unwrap_used)]

use iolens_core::analysis::counters::io_ticks::Regime;

use super::simulated_disk::{Load, SECOND, SERVICE, Second, SimulatedDisk};
use super::{Limits, Mode};

const SEEDS: u64 = 200;
const REGIMES: [Regime; 4] = [
    Regime::RoundStats,
    Regime::TouchedJiffy,
    Regime::StartTouches,
    Regime::Sampled,
];
const TARGET: f64 = 70.0;

/// Runs every seed and estimator.
fn everywhere(
    seconds: i64,
    limits: Limits,
    load: impl Fn() -> Load<'static>,
    check: impl Fn(&[Second], &str),
) {
    for regime in REGIMES {
        for seed in 1..=SEEDS {
            let run = SimulatedDisk::new(load(), regime, seed).throttled(limits, seconds);
            check(&run, &format!("{regime:?}, seed {seed}: {}", trace(&run)));
        }
    }
}

fn trace(run: &[Second]) -> String {
    run.iter()
        .map(|s| format!("{:.0}/{:.2}/{} ", s.busy_percent, s.duty, s.mode.name()))
        .collect()
}

fn mean(seconds: &[Second], f: impl Fn(&Second) -> f64) -> f64 {
    seconds.iter().map(f).sum::<f64>() / seconds.len() as f64
}

/// From sample `at + 10` on, every mean of ten samples is within 5 points of the target.
fn assert_settled(run: &[Second], at: usize, until: usize, scene: &str) {
    for (i, w) in run[at + 10..until].windows(10).enumerate() {
        let u = mean(w, |s| s.busy_percent);
        assert!(
            (u - TARGET).abs() <= 5.0,
            "sample {}: {u:.1} %: {scene}",
            at + 10 + i
        );
    }
}

fn assert_calm(run: &[Second], scene: &str) {
    let transitions = run.windows(2).filter(|w| w[0].mode != w[1].mode).count();
    let allowed = 2 * run.len().div_ceil(60);
    assert!(
        transitions <= allowed,
        "{transitions} transitions in {} samples: {scene}",
        run.len()
    );
}

/// The background got nine tenths of what the best fixed share could have given it below the target.
fn assert_worth_it(run: &[Second], foreground: f64, scene: &str) {
    let got = mean(run, |s| s.background_percent);
    assert!(got >= 0.9 * (TARGET - foreground), "{got:.1} %: {scene}");
}

#[test]
fn a_steady_foreground() {
    everywhere(75, Limits::DEFAULT, Load::default, |run, scene| {
        assert_settled(run, 0, 75, scene);
        assert_calm(&run[15..], scene);
        assert_worth_it(&run[15..], 30.0, scene);
    });
}

#[test]
fn a_small_start_duty_converges_from_below() {
    let load = || Load {
        start: 0.1,
        ..Load::default()
    };
    everywhere(45, Limits::DEFAULT, load, |run, scene| {
        assert_settled(run, 0, 45, scene);
        assert!(run[0].background_percent < 15.0, "{scene}");
        assert!(
            run[..10]
                .windows(2)
                .all(|w| w[1].duty - w[0].duty <= 0.25 + 1e-9),
            "{scene}"
        );
    });
    let alone = || Load {
        foreground: &|_| 0.0,
        events: true,
        start: 0.1,
        ..Load::default()
    };
    everywhere(10, Limits::DEFAULT, alone, |run, scene| {
        assert!(run[4..].iter().all(|s| s.duty >= 1.0), "{scene}")
    });
}

#[test]
fn a_step() {
    let load = || Load {
        foreground: &|t| if t < 15 * SECOND { 10.0 } else { 45.0 },
        ..Load::default()
    };
    everywhere(60, Limits::DEFAULT, load, |run, scene| {
        assert_settled(run, 0, 15, scene);
        assert_settled(run, 15, 60, scene);
        assert_worth_it(&run[25..], 45.0, scene);
    });
}

#[test]
fn a_ramp() {
    let load = || Load {
        foreground: &|t| 5.0 + 45.0 * t as f64 / (60.0 * SECOND as f64),
        ..Load::default()
    };
    everywhere(60, Limits::DEFAULT, load, |run, scene| {
        assert_settled(run, 0, 60, scene);
        assert_calm(&run[15..], scene);
    });
}

#[test]
fn a_bursty_foreground() {
    let load = || Load {
        foreground: &|t| {
            if t.rem_euclid(600_000_000) < 300_000_000 {
                50.0
            } else {
                10.0
            }
        },
        ..Load::default()
    };
    everywhere(75, Limits::DEFAULT, load, |run, scene| {
        let u = mean(&run[10..], |s| s.busy_percent);
        assert!((u - TARGET).abs() <= 5.0, "{u:.1} %: {scene}");
        assert_calm(&run[15..], scene);
        assert_worth_it(&run[15..], 30.0, scene);
    });
}

#[test]
fn a_saturated_foreground_leaves_the_floor() {
    let load = || Load {
        foreground: &|_| 130.0,
        ..Load::default()
    };
    everywhere(40, Limits::DEFAULT, load, |run, scene| {
        assert!(
            run[10..]
                .iter()
                .all(|s| s.duty <= Limits::DEFAULT.floor + 1e-9),
            "{scene}"
        );
        assert_calm(&run[10..], scene);
        assert!(
            mean(&run[10..], |s| s.background_percent) > 0.0,
            "it still makes progress: {scene}"
        );
    });
}

#[test]
fn sixty_idle_seconds_cause_no_windup() {
    let load = || Load {
        foreground: &|t| if t < 60 * SECOND { 0.0 } else { 30.0 },
        wants: &|t| t >= 60 * SECOND,
        ..Load::default()
    };
    everywhere(80, Limits::DEFAULT, load, |run, scene| {
        assert_settled(run, 60, 80, scene)
    });
}

#[test]
fn a_lost_sensor_gives_the_floor_and_a_recovered_one_converges() {
    let load = || Load {
        sensor: &|t| !(20 * SECOND..30 * SECOND).contains(&t),
        ..Load::default()
    };
    everywhere(50, Limits::DEFAULT, load, |run, scene| {
        assert!(
            run[24..30]
                .iter()
                .all(|s| s.duty <= Limits::DEFAULT.floor + 1e-9),
            "{scene}"
        );
        assert!(run[24..29].iter().all(|s| s.mode == Mode::Blind), "{scene}");
        assert_settled(run, 30, 50, scene);
    });
}

#[test]
fn an_idle_disk_is_given_to_the_command_and_returned() {
    let load = || Load {
        foreground: &|t| if t < 20 * SECOND { 0.0 } else { 30.0 },
        events: true,
        ..Load::default()
    };
    everywhere(45, Limits::DEFAULT, load, |run, scene| {
        assert!(run[5..20].iter().all(|s| s.duty >= 1.0), "{scene}");
        assert_settled(run, 20, 45, scene);
    });
}

#[test]
fn the_latency_limit_holds_in_ninety_nine_of_a_hundred_windows() {
    // Two background I/Os at a time: what comes behind them waits three service times and more.
    let slo = 6 * SERVICE;
    let limits = Limits {
        latency_slo_ns: Some(slo),
        ..Limits::DEFAULT
    };
    let load = || Load {
        depth: 2,
        foreground: &|_| 15.0,
        ..Load::default()
    };
    let mut windows = 0;
    let mut missed = 0;
    let mut unguarded = 0;
    for regime in REGIMES {
        for seed in 1..=SEEDS / 10 {
            let late = |run: &[Second]| {
                run.iter()
                    .filter(|s| s.foreground_p99.is_some_and(|p| p > slo))
                    .count()
            };
            let run = SimulatedDisk::new(load(), regime, seed).throttled(limits, 600);
            windows += run.len() - 60;
            missed += late(&run[60..]);
            unguarded += late(
                &SimulatedDisk::new(load(), regime, seed).throttled(Limits::DEFAULT, 600)[60..],
            );
        }
    }
    assert!(
        missed * 100 <= windows,
        "{missed} of {windows} windows were too slow"
    );
    assert!(
        unguarded * 10 > windows,
        "without the guard many are: {unguarded} of {windows}"
    );
}
