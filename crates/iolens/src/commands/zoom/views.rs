//! Plans the rows of `iolens zoom` for each recording, and selects their subjects.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use iolens_core::analysis::timeline::GroupBy;

use crate::cli::{SubjectArgs, ZoomPlan};
use crate::commands::limits::bare_names;
use crate::engine::caller::Caller;
use crate::engine::filter::FilterPlan;
use crate::engine::part::{Source, Tier};
use crate::engine::query::{Grain, Query, Step};
use crate::engine::subjects::{Order, SubjectTotals};
use crate::engine::view::PlannedRows;
use crate::present::escape;

/// Plans the rows of each recording.
///
/// # Errors
/// No recording covers the time, it cannot be read, or the selection has no I/O in it.
pub fn views(plan: &ZoomPlan, caller: &Caller) -> Result<Vec<PlannedRows>> {
    let subjects = &plan.subjects;
    let filter = FilterPlan {
        process: subjects.process.clone(),
        cgroup: subjects.cgroup.clone(),
        file: subjects.file.clone(),
        class: subjects.class.map(Into::into),
    };
    let devices = bare_names(&subjects.devices);
    let query = Query {
        devices: &devices,
        ios: Some(&filter),
        ..Query::new(&plan.recording, plan.window.by(plan.clock), caller)
    };
    let by = plan.rows.by.into();
    let step = if subjects.totals {
        Step::Whole
    } else {
        Step::OfSource(plan.rows.step)
    };
    let tier = Tier::Finest;
    let mut views = Vec::new();
    for part in query.parts(Grain::Rows { step, by, tier })?.parts {
        let view = PlannedRows::new(part, by, plan.rows.extended, caller)?;
        views.push(view.with_waits(plan.waits, caller));
    }
    if let Some((option, name)) = without_io(subjects, &views, caller)? {
        bail!(
            "--{option} {}: no I/O of it in this time; --by {option} lists those that have some",
            escape::terminal(name)
        );
    }
    Ok(views)
}

/// The option, with its name, that selects something without I/O in the time of `views`.
fn without_io<'a>(
    subjects: &'a SubjectArgs,
    views: &[PlannedRows],
    caller: &Caller,
) -> Result<Option<(&'static str, &'a str)>> {
    if views.is_empty() {
        return Ok(None);
    }
    if views.iter().all(PlannedRows::is_empty) {
        if let Some(file) = &subjects.file {
            return Ok(Some(("file", file.as_str())));
        }
        if let Some(cgroup) = &subjects.cgroup {
            return Ok(Some(("cgroup", cgroup.as_str())));
        }
    }
    let Some(process) = &subjects.process else {
        return Ok(None);
    };
    for view in views {
        if view.part.has_process(process, caller)? {
            return Ok(None);
        }
    }
    Ok(Some(("process", process.as_str())))
}

/// The subjects that have rows; `None` if all have.
///
/// # Errors
/// A recording cannot be read.
pub fn shown(
    plan: &ZoomPlan,
    views: &[PlannedRows],
    by: GroupBy,
    order: Order,
    caller: &Caller,
) -> Result<Option<BTreeSet<String>>> {
    if by == GroupBy::All {
        return Ok(None);
    }
    let leaves_out_idle = by == GroupBy::Device && plan.subjects.devices.is_empty();
    if !leaves_out_idle && plan.subjects.top.is_none() {
        return Ok(None);
    }
    // The owners of the time are needed for the order only; computing them costs a second analysis.
    let waits = plan.waits && plan.subjects.sort.is_some();
    let totals = SubjectTotals::of_views(views, waits, caller)?;
    let mut shown = totals.first(order, plan.subjects.top.map_or(usize::MAX, |n| n as usize));
    if leaves_out_idle {
        let busy = totals.busy();
        shown.retain(|name| busy.contains(name));
    }
    Ok(Some(shown))
}

/// Whether its rows contain only totals over all classes.
pub fn has_all_classes(view: &PlannedRows) -> bool {
    let Source::Tables(rates) = &view.part.source else {
        return false;
    };
    rates.iter().any(|r| !r.all.is_empty())
}
