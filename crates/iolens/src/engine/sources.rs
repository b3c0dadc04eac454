//! Selects the source that answers in a part of a recording: single I/Os, sums, imported tables or counters.

use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::SECOND_NS;
use iolens_core::rollup::ROLLUP_STEPS_S;
use iolens_core::store::{Recording, SumTable};

use super::error::{Distinction, QueryError, Result};
use super::part::{Part, Rollups, Source, Tier};
use super::{rollups, tables};

/// Default length of a row of single I/Os.
const DEFAULT_STEP_NS: i64 = 1_000_000_000;

/// Selects the source of rows of `asked` nanoseconds, or of the source's own step, and moves the part to where rows
/// start.
///
/// # Errors
/// Only sums are left, and they cannot make up such rows.
pub fn of_rows(part: &mut Part, by: GroupBy, tier: Tier, asked: Option<i64>) -> Result<()> {
    let recording = &part.recording;
    let rates = tables::of(recording)?;
    let own_step_ns = rates.as_deref().and_then(tables::own_step_ns);
    let step_ns = match asked.or(own_step_ns) {
        Some(step_ns) => step_ns,
        None => rollups::left(recording)?.map_or(DEFAULT_STEP_NS, |s| i64::from(s) * SECOND_NS),
    };
    part.step_ns = step_ns;
    if let Some(step_s) = rollups::left_for(recording, step_ns, &part.range)? {
        part.range = rollups::window(step_s, step_ns, by, &part.range)?;
        part.source = Source::Rollups(Rollups {
            step_s,
            until_ns: i64::MAX,
            ios_are_removed: true,
        });
    } else if tier == Tier::Coarsest
        && let Some((step_s, until_ns)) =
            rollups::carrying(recording, step_ns, by, &mut part.range)?
    {
        part.source = Source::Rollups(Rollups {
            step_s,
            until_ns,
            ios_are_removed: false,
        });
    } else if let Some(rates) = rates {
        let range = part.range.clone();
        part.range = tables::window(&rates, part.begins_as_asked, range);
        part.source = Source::Tables(rates);
        part.own_intervals = asked.is_none();
    }
    Ok(())
}

/// Selects the source of the columns of a heat map. The part already has their width.
///
/// # Errors
/// Only sums are left, and they have no queue times.
pub fn of_columns(part: &mut Part, of_queue_times: bool, tier: Tier) -> Result<()> {
    let removed = rollups::left(&part.recording)?;
    if of_queue_times {
        return match removed {
            Some(_) => Err(QueryError::SumsWithoutQueueTime),
            None => Ok(()),
        };
    }
    // A sum is as exact in time as its step. That does not show if a column is wider than the step, or if column and
    // step are the same: then each column has the one sum whose middle it contains.
    let column_s = part.step_ns / SECOND_NS;
    let is_whole = column_s >= 1 && part.step_ns % SECOND_NS == 0;
    let [second_s, minute_s, hour_s] = ROLLUP_STEPS_S.map(i64::from);
    let widest_s = match column_s {
        _ if column_s >= 2 * hour_s => hour_s,
        _ if column_s >= minute_s => minute_s,
        _ => second_s,
    };
    let mut carried = None;
    if (column_s >= 2 || is_whole) && tier == Tier::Coarsest {
        let step_ns = widest_s * SECOND_NS;
        carried = rollups::carrying(&part.recording, step_ns, GroupBy::Device, &mut part.range)?;
    }
    let left = removed.map(|step_s| (step_s, part.range.end));
    if let Some((step_s, until_ns)) = carried.or(left) {
        part.source = Source::Rollups(Rollups {
            step_s,
            until_ns,
            ios_are_removed: removed.is_some(),
        });
    }
    Ok(())
}

/// Longer than any recording, so that there is one row per actor and recording.
const WHOLE_NS: i64 = 400 * 86_400 * SECOND_NS;

/// Selects the source that says who caused I/O.
///
/// # Errors
/// Only sums are left, and they do not say it.
pub fn of_actors(part: &mut Part, by: GroupBy) -> Result<()> {
    if rollups::left(&part.recording)?.is_none() {
        return of_rows(part, by, Tier::Coarsest, Some(WHOLE_NS));
    }
    let steps = SumTable::Actors.steps(part.recording.path())?;
    let step_s = steps.first().copied();
    part.source = Source::ActorSums {
        step_s: step_s.ok_or(QueryError::SumsWithoutActors)?,
    };
    Ok(())
}

/// Fails if only sums are left of the recording.
///
/// # Errors
/// Only sums are left.
pub fn refuse_sums(recording: &Recording) -> Result<()> {
    if recording.ios_stored() == 0 && rollups::left(recording)?.is_some() {
        return Err(QueryError::SumsOnly);
    }
    Ok(())
}

/// Fails if I/Os are selected and the source knows devices only.
///
/// # Errors
/// The selection is not possible.
pub fn refuse_selection(part: &Part) -> Result<()> {
    match part.source.devices_only() {
        Some(because) => Err(QueryError::OnlyDevices {
            wanted: Distinction::Selection,
            because,
        }),
        None => Ok(()),
    }
}
