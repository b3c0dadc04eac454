//! Tests the analyses and the store through the public API: with published figures, closed forms, planted truths, and
//! other implementations' readers.
//!
//! `IOLENS_SEEDS=100` runs this many recordings of each scene instead of a few.

mod calibrate;
mod findings;
mod fixtures;
mod golden;
mod kinds;
mod oracles;
mod pyarrow;
mod queues;
mod scenes;
mod simulator;
mod writers;

use iolens_core::analysis::{Finding, FindingKind, Report, ReportBuilder, Window};
use iolens_core::model::Io;
use simulator::SECOND;

/// How many recordings of a scene there are.
fn seeds(few: u64) -> u64 {
    std::env::var("IOLENS_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(few)
}

/// The report of what completed in the first `seconds`.
fn report_of(ios: &[Io], seconds: f64) -> Report {
    let mut builder = ReportBuilder::new(Window::new(0, (seconds * SECOND) as i64));
    ios.iter().for_each(|io| builder.push(io));
    builder.finish(0)
}

/// The findings of one kind.
fn of_kind(report: &Report, kind: FindingKind) -> Vec<&Finding> {
    report
        .findings
        .iter()
        .filter(|f| f.kind() == kind)
        .collect()
}

/// Fails if a value differs from the expected one by more than `tolerance`, or is unknown.
fn near(got: impl Into<Option<f64>>, expected: f64, tolerance: f64, what: &str) {
    let got = got.into().unwrap_or(f64::NAN);
    assert!(
        (got - expected).abs() <= tolerance,
        "{what}: got {got}, expected {expected} ± {tolerance}"
    );
}
