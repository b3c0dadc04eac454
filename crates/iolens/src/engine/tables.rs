//! Recordings of imported tables instead of I/Os: their window, their step and their rows in `zoom`.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::counters::imported::without_doubles;
use iolens_core::analysis::timeline::{GroupBy, Row, TableTimeline, TimelinePlan};
use iolens_core::model::{DevId, IntervalRates, Source};
use iolens_core::store::{Recording, read_rates};

use super::error::{QueryError, Result};
use super::filter::Filter;

/// A recording's tables; `None` if it holds single I/Os, which give better figures.
///
/// # Errors
/// The tables are damaged.
pub fn of(recording: &Recording) -> Result<Option<Vec<IntervalRates>>> {
    if recording.ios_stored() > 0 {
        return Ok(None);
    }
    Ok(Some(read_rates(recording.path())?).filter(|r| !r.is_empty()))
}

/// How long the rows of the finest table usually are, in nanoseconds.
pub fn own_step_ns(rates: &[IntervalRates]) -> Option<i64> {
    let mut lengths: BTreeMap<DevId, Vec<i64>> = BTreeMap::new();
    for r in rates {
        lengths.entry(r.dev).or_default().push(r.interval_ns());
    }
    let finest_ns = lengths.into_values().filter_map(median).min()?;
    Some(finest_ns.max(1_000_000))
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// `range` from the start of the tables on, unless the query gives its start. The time column of a table need not
/// start at zero, and nothing is known before it.
pub fn window(rates: &[IntervalRates], begins_as_asked: bool, range: Range<i64>) -> Range<i64> {
    let begin_ns = rates.iter().map(|r| r.from_ns).min().unwrap_or(0).max(0);
    if begins_as_asked {
        range
    } else {
        begin_ns.min(range.end)..range.end
    }
}

/// A log may always show this many empty intervals.
const MAX_EMPTY_OF_LOG: i64 = 100_000;
/// The same for a recording, which may have watched an idle disk for weeks.
const MAX_EMPTY: i64 = 2_000_000;
/// Additional empty intervals allowed per I/O or row of a table. A damaged date would produce millions.
const MAX_EMPTY_PER_ROW: i64 = 20;

/// Refuses a time series of almost only empty intervals: a few hundred I/Os with a wrong date would print gigabytes.
///
/// # Errors
/// There are too few (`filled`) I/Os or rows of tables for the number of intervals of `step_ns` in `range`.
pub fn refuse_mostly_empty(
    source: &Source,
    range: &Range<i64>,
    step_ns: i64,
    filled: u64,
) -> Result<()> {
    let intervals = (range.end.max(range.start) - range.start) / step_ns.max(1);
    let max = if matches!(source, Source::Import(_)) {
        MAX_EMPTY_OF_LOG
    } else {
        MAX_EMPTY
    };
    if intervals > max && (intervals / MAX_EMPTY_PER_ROW) as u64 > filled {
        return Err(QueryError::MostlyEmpty {
            intervals,
            step_ns,
            filled,
        });
    }
    Ok(())
}

/// The rows of the tables.
///
/// # Errors
/// There are more rows than the maximum of an answer.
pub fn rows(
    recording: &Recording,
    rates: &[IntervalRates],
    plan: &TimelinePlan,
    filter: &Filter,
    end_ns: i64,
) -> Result<Vec<Row>> {
    let mut timeline = TableTimeline::new(plan.clone())?;
    match plan.by {
        // Devices that the user names count even if they are stacked on others.
        GroupBy::All if filter.devices.is_all() => {
            let devices = &recording.meta().devices;
            timeline = timeline.with_sums_of(devices);
            let single = without_doubles(rates, devices);
            for rate in single.iter().filter(|r| filter.counts(r.dev)) {
                timeline.push(rate);
            }
        }
        _ => {
            for rate in rates.iter().filter(|r| filter.counts(r.dev)) {
                timeline.push(rate);
            }
        }
    }
    for lost in &recording.lost(plan.window.from_ns..end_ns) {
        timeline.lost(lost);
    }
    Ok(timeline.finish(end_ns)?)
}
