//! Recordings that hold imported tables instead of I/Os: their window, their step, their rows in `zoom`.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Result;
use iolens_core::analysis::imported::without_doubles;
use iolens_core::analysis::timeline::{GroupBy, Row, TableTimeline, TimelinePlan};
use iolens_core::model::{DevId, IntervalRates};
use iolens_core::store::{Recording, read_rates};

use crate::cli::WindowArgs;

/// A recording's tables, if it holds no I/Os, which tell more.
///
/// # Errors
/// The tables are damaged.
pub fn of(recording: &Recording) -> Result<Option<Vec<IntervalRates>>> {
    if recording.ios_stored() > 0 {
        return Ok(None);
    }
    Ok(Some(read_rates(recording.path())?).filter(|r| !r.is_empty()))
}

/// How long the rows of the finest table usually are: the step that shows each row as it stands; in nanoseconds.
pub fn own_step_ns(rates: &[IntervalRates]) -> Option<i64> {
    let mut lengths: BTreeMap<DevId, Vec<i64>> = BTreeMap::new();
    for r in rates {
        lengths.entry(r.dev).or_default().push(r.interval_ns());
    }
    let median = |of: &mut Vec<i64>| {
        of.sort_unstable();
        of.get(of.len() / 2).copied()
    };
    lengths.values_mut().filter_map(median).min().map(|ns| ns.max(1_000_000))
}

/// `range` from where the tables begin, unless `--from` says otherwise: their time column need not begin at zero, and
/// before it nothing is known.
pub fn window(rates: &[IntervalRates], args: &WindowArgs, range: Range<i64>) -> Range<i64> {
    let begin_ns = rates.iter().map(|r| r.from_ns).min().unwrap_or(0).max(0);
    if args.from.is_some() { range } else { begin_ns.min(range.end)..range.end }
}

/// The rows.
///
/// # Errors
/// More of them than anybody can want.
pub fn rows(
    recording: &Recording,
    rates: &[IntervalRates],
    plan: &TimelinePlan,
    counts: impl Fn(DevId) -> bool,
    end_ns: i64,
) -> Result<Vec<Row>> {
    let mut timeline = TableTimeline::new(plan.clone())?;
    match plan.by {
        GroupBy::All => {
            let single = without_doubles(rates, &recording.meta().devices);
            single.iter().filter(|r| counts(r.dev)).for_each(|r| timeline.push(r));
        }
        _ => rates.iter().filter(|r| counts(r.dev)).for_each(|r| timeline.push(r)),
    }
    recording.lost(plan.window.from_ns..end_ns).iter().for_each(|l| timeline.lost(l));
    Ok(timeline.finish(end_ns)?)
}
