//! The part of a recording that `--from` and `--to` name.

use std::ops::Range;

use anyhow::{Result, bail};
use iolens_core::store::Recording;

use crate::cli::{Instant, WindowArgs};

/// Nanoseconds since the recording's start, half-open.
///
/// # Errors
/// The window is empty or lies outside the recording.
pub fn resolve(recording: &Recording, args: &WindowArgs) -> Result<Range<i64>> {
    let end_ns = recording.end_ns();
    let at = |i: Instant| match i {
        Instant::SinceStart(ns) => ns,
        Instant::Wall(t) => {
            let unix_ns = i64::try_from(t.as_nanosecond()).unwrap_or(i64::MAX);
            unix_ns.saturating_sub(recording.meta().start_unix_ns)
        }
    };
    let from = args.from.map_or(0, at);
    let to = args.to.map_or(end_ns, at);
    let seconds = |ns: i64| ns as f64 / 1e9;
    let has = seconds(end_ns);
    if from < 0 || (from >= end_ns && args.from.is_some()) {
        bail!("--from is {:.3} s from the recording's start, which has 0 to {has:.3} s", seconds(from));
    }
    if to <= 0 && args.to.is_some() {
        bail!("--to is {:.3} s from the recording's start, which has 0 to {has:.3} s", seconds(to));
    }
    if to < from || (to == from && args.to.is_some()) {
        bail!("--to ({:.3} s) is not after --from ({:.3} s)", seconds(to), seconds(from));
    }
    Ok(from..to.min(end_ns))
}

/// How long an I/O may outlive the window and still be counted as in flight in it.
const IN_FLIGHT_NS: i64 = 30_000_000_000;

/// `range` and what completes up to 30 s after it: I/Os that were in flight inside it.
pub fn with_in_flight(range: &Range<i64>) -> Range<i64> {
    range.start..range.end.saturating_add(IN_FLIGHT_NS)
}
