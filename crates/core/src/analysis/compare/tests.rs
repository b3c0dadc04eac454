use super::*;
use crate::analysis::stream::losses::Losses;
use crate::model::{DevId, LossReason, Lost, Op};
use proptest::prelude::*;

/// Ten seconds of reads with exponentially distributed latencies; `mean_us` returns the mean at a time in seconds.
fn side(seed: u64, rate: u64, mean_us: impl Fn(f64) -> f64) -> Side {
    let mut random = Shuffler::new(seed);
    let mut uniform = move || (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
    let mut side = Side::new(Window::new(0, 10_000_000_000), &[]);
    let mut at_s = 0.0;
    loop {
        at_s += -(1.0 - uniform()).ln() / rate as f64;
        if at_s >= 10.0 {
            return side;
        }
        let latency_us = -(1.0 - uniform()).ln() * mean_us(at_s);
        let done_ns = (at_s * 1e9) as i64;
        let device_ns = (latency_us * 1e3) as i64;
        side.add(&read(done_ns, device_ns));
    }
}

fn read(done_ns: i64, device_ns: i64) -> Io {
    Io::new(
        done_ns,
        DevId::new(8, 0),
        Op::READ,
        4096,
        Some(0),
        device_ns,
    )
}

fn compared(before: &Side, after: &Side) -> Vec<Change> {
    let mut changes = compare(before, after);
    decide(&mut changes);
    changes
}

/// Whether any measure of the reads changed; without the intervals, which take most of the time.
fn differ(before: &Side, after: &Side) -> bool {
    let first = &before.classes[Class::Read as usize];
    let second = &after.classes[Class::Read as usize];
    let mut changes = differences(Class::Read, first, second);
    add_p_values(&mut changes, first, second);
    decide(&mut changes);
    changes.iter().any(|change| change.changed)
}

fn of(changes: &[Change], measure: Measure) -> &Change {
    changes
        .iter()
        .find(|change| change.measure == measure)
        .expect("every class has every measure")
}

#[test]
fn halves_of_one_steady_load_differ_in_at_most_five_of_a_hundred() {
    let differing = (0..100)
        .filter(|i| {
            let before = side(2 * i, 300, |_| 500.0);
            let after = side(2 * i + 1, 300, |_| 500.0);
            differ(&before, &after)
        })
        .count();
    assert!(differing <= 5, "{differing} of 100");
}

#[test]
fn a_load_in_phases_is_as_steady() {
    // Every 2.5 seconds, half a second is five times as slow: blocks within a side differ much, but the sides do not.
    let phases = |at_s: f64| if at_s % 2.5 < 0.5 { 2500.0 } else { 500.0 };
    let differing = (0..40)
        .filter(|i| {
            let before = side(1000 + 2 * i, 300, phases);
            let after = side(1001 + 2 * i, 300, phases);
            differ(&before, &after)
        })
        .count();
    assert!(differing <= 2, "{differing} of 40");
}

#[test]
fn a_planted_shift_is_found_and_lies_in_its_interval() {
    let mut covered = 0;
    for i in 0..8 {
        let before = side(5000 + 2 * i, 500, |_| 400.0);
        let after = side(5001 + 2 * i, 500, |_| 600.0);
        let changes = compared(&before, &after);
        let median = of(&changes, Measure::P50Us);
        assert!(median.changed, "{median:?}");
        assert!(!of(&changes, Measure::IosPerS).changed, "{changes:?}");
        let low = median.percent_low.expect("long enough");
        let high = median.percent_high.expect("long enough");
        covered += usize::from((low..=high).contains(&50.0));
    }
    assert!(
        covered >= 6,
        "{covered} of 8 intervals hold the planted 50 %"
    );
}

#[test]
fn rates_are_those_of_the_whole_stretch() {
    let before = side(1, 100, |_| 100.0);
    let after = side(2, 200, |_| 100.0);
    let changes = compared(&before, &after);
    let rate = of(&changes, Measure::IosPerS);
    assert_eq!(rate.before, Some(rate.ios_before as f64 / 10.0));
    assert_eq!(rate.after, Some(rate.ios_after as f64 / 10.0));
    assert!(rate.changed, "{rate:?}");
    let bytes = of(&changes, Measure::BytesPerS);
    assert_eq!(bytes.after, rate.after.map(|ios| ios * 4096.0));
}

#[test]
fn few_ios_have_no_tail_and_short_stretches_no_interval() {
    let few = side(1, 20, |_| 100.0);
    let tail = compared(&few, &few);
    assert_eq!(of(&tail, Measure::P999Us).before, None);
    let mut short = Side::new(Window::new(0, 1_000_000_000), &[]);
    short.add(&read(5, 3));
    let changes = compared(&short, &few);
    let rate = of(&changes, Measure::IosPerS);
    assert!(rate.percent.is_some());
    assert_eq!(
        (rate.percent_low, rate.p_value, rate.changed),
        (None, None, false)
    );
}

#[test]
fn rates_are_those_of_the_time_that_was_recorded() {
    let whole = side(1, 1000, |_| 100.0);
    let mut losses = Losses::default();
    let gap = Lost::somewhere(3_000_000_000, 9_000_000_000, LossReason::NotRecorded);
    losses.push(&gap);
    let mut parts = Side::new(Window::new(0, 10_000_000_000), &losses.unrecorded());
    for n in 0..4000 {
        let after_gap_ns = if n < 3000 { 0 } else { 6_000_000_000 };
        parts.add(&read(n * 1_000_000 + after_gap_ns, 100_000));
    }
    let changes = compared(&whole, &parts);
    let rate = of(&changes, Measure::IosPerS);
    let per_s = rate.after.expect("a rate");
    assert!((per_s - 1000.0).abs() < 1e-6, "{rate:?}");
    assert!(!rate.changed && rate.p_value.is_some(), "{rate:?}");
}

#[test]
fn what_is_new_has_no_percentage() {
    let none = Side::new(Window::new(0, 10_000_000_000), &[]);
    let changes = compared(&none, &side(1, 100, |_| 100.0));
    assert_eq!(changes.len(), Measure::ALL.len());
    let rate = of(&changes, Measure::IosPerS);
    assert_eq!(
        (rate.before, rate.percent, rate.changed),
        (Some(0.0), None, false)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn exchanging_the_sides_turns_the_sign(seed in 0u64..1000) {
        let a = side(seed, 100, |_| 300.0);
        let b = side(seed + 1, 150, |_| 300.0);
        let reads = Class::Read as usize;
        let forth = differences(Class::Read, &a.classes[reads], &b.classes[reads]);
        let back = differences(Class::Read, &b.classes[reads], &a.classes[reads]);
        for (one, other) in forth.iter().zip(&back) {
            prop_assert_eq!(one.before, other.after);
            let product = (1.0 + one.percent.unwrap_or(0.0) / 100.0) * (1.0 + other.percent.unwrap_or(0.0) / 100.0);
            prop_assert!((product - 1.0).abs() < 1e-9);
        }
    }
}
