//! `iolens zoom`: prints time series of a recording with any step.

mod views;

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};

use anyhow::{Error, Result};
use iolens_core::analysis::timeline::{GroupBy, Row};

use self::views::{has_all_classes, shown, views};
use crate::cli::{Format, ZoomPlan};
use crate::engine::caller::Caller;
use crate::engine::subjects::{Order, SubjectInterval, SubjectTotals};
use crate::engine::view::PlannedRows;
use crate::present::escape;
use crate::present::fields::ShownColumns;
use crate::present::zoom::{self, ZoomWriter};
use crate::streams::Stdout;

/// Number of subjects in the totals after a table, unless `--top` is given.
const MAX_TOTALS: usize = 20;

/// Runs `iolens zoom`.
///
/// # Errors
/// There is no recording, the window is outside of it, or there are more rows than the limit.
pub fn run(plan: &ZoomPlan) -> Result<u8> {
    let order = match &plan.subjects.sort {
        Some(name) => zoom::order(name, columns(plan)).map_err(Error::msg)?,
        None => Order::IoTime,
    };
    let caller = super::caller();
    let views = views(plan, &caller)?;
    let (Some(first), Some(last)) = (views.first(), views.last()) else {
        return Ok(0);
    };
    let by = first.timeline.by;
    let start_unix_ns = first.start_unix_ns();
    let writer = writer_for(plan, &views, first);
    let shown = shown(plan, &views, by, order, &caller)?;
    let mut output = RowsOutput {
        writer,
        out: BufWriter::new(crate::streams::stdout()),
        totals: SubjectTotals::default(),
    };
    output.out.write_all(output.writer.begin().as_bytes())?;
    for view in &views {
        let begins_ns = view.start_unix_ns().saturating_sub(start_unix_ns);
        write_rows(
            plan,
            view,
            begins_ns,
            shown.as_ref(),
            order,
            &mut output,
            &caller,
        )?;
    }
    let RowsOutput {
        writer,
        mut out,
        mut totals,
    } = output;
    let is_table = plan.rows.format == Format::Table;
    if is_table && by != GroupBy::All && !plan.subjects.totals {
        // Rates over what the size limit removed would be too low.
        let from_ns = first.part.kept_from_ns();
        let last_begins_ns = last.start_unix_ns().saturating_sub(start_unix_ns);
        let to_ns = last_begins_ns + last.range().end;
        let most = plan.subjects.top.map_or(MAX_TOTALS, |n| n as usize);
        let recorded_ns: i64 = views.iter().map(PlannedRows::recorded_ns).sum();
        let sorted = totals.over(from_ns, to_ns, recorded_ns, order);
        let text = writer.totals(sorted.into_iter().take(most));
        out.write_all(text.as_bytes())?;
    }
    out.write_all(writer.end().as_bytes())?;
    out.flush()?;
    if let Some(remark) = writer.remark() {
        eprintln!("iolens: {remark}");
    }
    Ok(0)
}

/// The columns that the user selected.
fn columns(plan: &ZoomPlan) -> ShownColumns {
    ShownColumns {
        extended: plan.rows.extended,
        class: plan.subjects.class.map(Into::into),
        waits: plan.waits,
        ..ShownColumns::default()
    }
}

/// The writer for the rows of `views`; `first` is the first of them.
fn writer_for(plan: &ZoomPlan, views: &[PlannedRows], first: &PlannedRows) -> ZoomWriter {
    let rows = &plan.rows;
    let recording = &first.part.recording;
    let times = plan.clock.times(recording.meta(), 0);
    // Rows of several recordings use one clock, that of the first recording.
    if views.len() > 1 && times.is_relative() {
        let n = views.len();
        let path = recording.path().display().to_string();
        eprintln!(
            "iolens: {n} recordings; times count from the start of the first, {}",
            escape::terminal(&path)
        );
    }
    ZoomWriter::new(
        zoom::Format::from(rows.format),
        first.timeline.by,
        rows.extended,
        first.timeline.step_ns,
    )
    .with_times(times)
    .with_columns(ShownColumns {
        all_classes: views.iter().any(has_all_classes),
        ..columns(plan)
    })
    .with_fine_times(views.len() > 1)
    .with_own_intervals(views.iter().any(|view| view.timeline.own_intervals))
    .with_totals(plan.subjects.totals)
    .with_width(crate::streams::layout().width)
}

/// Where rows are written, with their totals.
struct RowsOutput {
    writer: ZoomWriter,
    out: BufWriter<Stdout>,
    totals: SubjectTotals,
}

/// Writes the rows of one recording, which starts `begins_ns` after the first one. If `shown` is given, only rows of
/// these subjects are written.
///
/// # Errors
/// The recording cannot be read, or stdout is closed.
fn write_rows(
    plan: &ZoomPlan,
    view: &PlannedRows,
    begins_ns: i64,
    shown: Option<&BTreeSet<String>>,
    order: Order,
    output: &mut RowsOutput,
    caller: &Caller,
) -> Result<()> {
    let RowsOutput {
        writer,
        out,
        totals,
    } = output;
    if view.timeline.by == GroupBy::Cgroup && plan.rows.format != Format::Table {
        writer.know_pods(view.part.names.pods.clone());
    }
    // A device has a row in every interval; rows of other subjects may be missing, so an interval can be empty.
    let may_be_empty = shown.is_some() && view.timeline.by != GroupBy::Device;
    let is_sorted = plan.subjects.sort.is_some();
    let mut interval = SubjectInterval::new(is_sorted.then_some(order));
    view.show(begins_ns, caller, |row: &Row, name: &str| {
        let is_shown = shown.is_none_or(|names| names.contains(name));
        if is_shown {
            totals.add(row, name);
        } else if !may_be_empty {
            return Ok(());
        }
        if !is_sorted && !may_be_empty {
            return Ok(out.write_all(writer.row(row, name).as_bytes())?);
        }
        // The rows of an interval are complete when the next one starts.
        for (row, name) in interval.push(row, is_shown.then_some(name)) {
            out.write_all(writer.row(&row, &name).as_bytes())?;
        }
        Ok(())
    })?;
    for (row, name) in interval.finish() {
        out.write_all(writer.row(&row, &name).as_bytes())?;
    }
    Ok(())
}

impl From<Format> for zoom::Format {
    fn from(format: Format) -> zoom::Format {
        match format {
            Format::Table => zoom::Format::Table,
            Format::Csv => zoom::Format::Csv,
            Format::Json => zoom::Format::Json,
        }
    }
}
