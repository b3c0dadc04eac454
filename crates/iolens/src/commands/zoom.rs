//! `iolens zoom`: time series of a recording at any step.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};

use anyhow::{Result, bail};
use iolens_core::analysis::timeline::{GroupBy, Row};

use crate::cli::{Format, SubjectArgs, ZoomPlan};
use crate::engine::filter::FilterPlan;
use crate::engine::rows::DeviceFilter;
use crate::engine::subjects::{Interval, Order, Totals};
use crate::engine::view::View;
use crate::engine::{choose, names};
use crate::present::escape;
use crate::present::zoom::{self, ZoomWriter};

/// Subjects of the totals after a table, unless `--top` says how many.
const MAX_TOTALS: usize = 20;

/// Runs `iolens zoom`.
///
/// # Errors
/// No recording, a window outside it, or more rows than the limit.
pub fn run(plan: &ZoomPlan) -> Result<u8> {
    let order = match &plan.subjects.sort {
        Some(name) => Order::named(name, plan.rows.extended)?,
        None => Order::IoTime,
    };
    let views = views(plan)?;
    let (Some(first), Some(last)) = (views.first(), views.last()) else {
        return Ok(0);
    };
    let start_unix_ns = first.recording.meta().start_unix_ns;
    let since_start = |view: &View| {
        let own_start_ns = view.recording.meta().start_unix_ns;
        own_start_ns.saturating_sub(start_unix_ns)
    };
    let (rows, by) = (&plan.rows, first.timeline.by);
    let times = plan.clock.times(first.recording.meta(), 0);
    if views.len() > 1 && times.is_relative() {
        let (n, path) = (views.len(), first.recording.path().display().to_string());
        eprintln!(
            "iolens: {n} recordings; times count from the start of the first, {}",
            escape::terminal(&path)
        );
    }
    let shown = shown(plan, &views, by, order)?;
    let is_shown = |name: &str| shown.as_ref().is_none_or(|shown| shown.contains(name));
    let mut writer = ZoomWriter::new(
        zoom::Format::from(rows.format),
        by,
        rows.extended,
        first.timeline.step_ns,
    )
    .with_times(times)
    .with_all_classes(views.iter().any(has_all_classes))
    .with_fine_times(views.len() > 1)
    .with_width(crate::streams::layout().width);
    let from_ns = first.range().start;
    let to_ns = last.range().end + since_start(last);
    let mut out = BufWriter::new(crate::streams::stdout());
    out.write_all(writer.begin().as_bytes())?;
    let mut totals = Totals::default();
    for view in &views {
        if by == GroupBy::Cgroup && rows.format != Format::Table {
            writer.know_pods(names::read(&view.recording, i64::MAX)?.pods);
        }
        let mut interval = Interval::default();
        view.show(since_start(view), |row: &Row, name: &str| {
            if !is_shown(name) {
                return Ok(());
            }
            totals.add(row, name);
            if plan.subjects.sort.is_none() {
                return Ok(out.write_all(writer.row(row, name).as_bytes())?);
            }
            for (row, name) in interval.push(order, row, name) {
                out.write_all(writer.row(&row, &name).as_bytes())?;
            }
            Ok(())
        })?;
        for (row, name) in interval.finish(order) {
            out.write_all(writer.row(&row, &name).as_bytes())?;
        }
    }
    if rows.format == Format::Table && by != GroupBy::All && !plan.subjects.totals {
        let most = plan.subjects.top.map_or(MAX_TOTALS, |n| n as usize);
        let sorted = totals.over(from_ns, to_ns, order);
        let text = writer.totals(sorted.into_iter().take(most));
        out.write_all(text.as_bytes())?;
    }
    out.write_all(writer.end().as_bytes())?;
    out.flush()?;
    if let Some(note) = writer.cut_short().filter(|_| rows.format != Format::Table) {
        eprintln!("iolens: {note}");
    }
    Ok(0)
}

/// What is shown of each recording.
fn views(plan: &ZoomPlan) -> Result<Vec<View>> {
    let subjects = &plan.subjects;
    let filter = FilterPlan {
        process: subjects.process.clone(),
        cgroup: subjects.cgroup.clone(),
        file: subjects.file.clone(),
        class: subjects.class.map(Into::into),
    };
    let mut views = Vec::new();
    for chosen in choose::all(&plan.recording, &plan.window.by(plan.clock))? {
        let devices = devices(subjects);
        let devices = DeviceFilter::of(&chosen.recording.meta().devices, &devices)?;
        let mut rows = plan.rows.clone();
        if subjects.totals {
            let range = crate::engine::window::resolve(&chosen.recording, &chosen.window)?;
            rows.step = Some((range.end - range.start).max(1_000_000));
        }
        views.push(
            View::of(chosen, &rows)?
                .of_devices(devices)
                .of_ios(&filter)?,
        );
    }
    if !views.is_empty() && views.iter().all(View::is_empty) {
        let (option, name) = match (&subjects.file, &subjects.cgroup) {
            (Some(file), _) => ("file", file),
            (None, Some(cgroup)) => ("cgroup", cgroup),
            (None, None) => return Ok(views),
        };
        bail!(
            "--{option} {}: no I/O of it in this time; --by {option} lists those that have some",
            escape::terminal(name)
        );
    }
    Ok(views)
}

fn devices(subjects: &SubjectArgs) -> Vec<String> {
    let bare = |name: &String| name.strip_prefix("/dev/").unwrap_or(name).to_owned();
    subjects.devices.iter().map(bare).collect()
}

/// The subjects that have rows, where not all have.
fn shown(
    plan: &ZoomPlan,
    views: &[View],
    by: GroupBy,
    order: Order,
) -> Result<Option<BTreeSet<String>>> {
    if by == GroupBy::All {
        return Ok(None);
    }
    let leaves_out_idle = by == GroupBy::Device && plan.subjects.devices.is_empty();
    if !leaves_out_idle && plan.subjects.top.is_none() {
        return Ok(None);
    }
    let totals = Totals::of_views(views)?;
    let mut shown = totals.first(order, plan.subjects.top.map_or(usize::MAX, |n| n as usize));
    if leaves_out_idle {
        let busy = totals.busy();
        shown.retain(|name| busy.contains(name));
    }
    Ok(Some(shown))
}

fn has_all_classes(view: &View) -> bool {
    let mut rates = view.tables.iter().flatten();
    rates.any(|r| !r.all.is_empty())
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
