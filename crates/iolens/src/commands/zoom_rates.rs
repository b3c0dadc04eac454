//! Rows of `zoom` for recordings that hold imported tables instead of I/Os.

use anyhow::Result;
use iolens_core::analysis::imported::{counter_rates, without_doubles};
use iolens_core::analysis::timeline::{CounterTimeline, GroupBy, Row, TimelinePlan};
use iolens_core::model::DevId;
use iolens_core::store::{Recording, read_rates};

/// The rows; `None` if the recording holds I/Os (or no tables), which tell more.
///
/// # Errors
/// The tables are damaged, or more rows are asked for than anybody can want.
pub fn rows(
    recording: &Recording,
    plan: &TimelinePlan,
    counts: impl Fn(DevId) -> bool,
    end_ns: i64,
) -> Result<Option<Vec<Row>>> {
    if recording.ios_stored() > 0 {
        return Ok(None);
    }
    let rates = read_rates(recording.path())?;
    if rates.is_empty() {
        return Ok(None);
    }
    let rates = match plan.by {
        GroupBy::All => without_doubles(&rates, &recording.meta().devices),
        _ => rates,
    };
    let mut timeline = CounterTimeline::new(plan.clone())?;
    for r in rates.iter().filter(|r| counts(r.dev)) {
        timeline.push(&counter_rates(r));
    }
    Ok(Some(timeline.finish(end_ns)?))
}
