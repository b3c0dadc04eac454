//! `iolens zoom`: time series of a recording at any step.

use std::io::{BufWriter, Write};

use anyhow::Result;
use iolens_core::analysis::timeline::GroupBy;

use crate::cli::{Format, ZoomPlan};
use crate::engine::view::View;
use crate::engine::{choose, names};
use crate::present::escape;
use crate::present::zoom::{self, ZoomWriter};

/// Runs `iolens zoom`.
///
/// # Errors
/// No recording, a window outside it, or more rows than the limit.
pub fn run(plan: &ZoomPlan) -> Result<u8> {
    let chosen = choose::all(&plan.recording, &plan.window)?;
    let views = chosen
        .into_iter()
        .map(|c| View::of(c, &plan.rows))
        .collect::<Result<Vec<View>>>()?;
    let Some(first) = views.first() else {
        return Ok(0);
    };
    let start_unix_ns = first.recording.meta().start_unix_ns;
    let (rows, by) = (&plan.rows, first.timeline.by);
    if views.len() > 1 {
        let (n, path) = (views.len(), first.recording.path().display().to_string());
        eprintln!(
            "iolens: {n} recordings; times count from the start of the first, {}",
            escape::terminal(&path)
        );
    }
    let all_classes = views
        .iter()
        .filter_map(|v| v.tables.as_ref())
        .flatten()
        .any(|r| !r.all.is_empty());
    let mut writer = ZoomWriter::new(
        zoom::Format::from(rows.format),
        by,
        rows.extended,
        first.timeline.step_ns,
    )
    .with_all_classes(all_classes)
    .with_fine_times(views.len() > 1)
    .with_width(crate::streams::layout().width);
    let mut out = BufWriter::new(crate::streams::stdout());
    out.write_all(writer.begin().as_bytes())?;
    for view in views {
        if by == GroupBy::Cgroup && rows.format != Format::Table {
            writer.know_pods(names::read(&view.recording, i64::MAX)?.pods);
        }
        let shift_ns = view
            .recording
            .meta()
            .start_unix_ns
            .saturating_sub(start_unix_ns);
        view.show(shift_ns, |row, name| {
            Ok(out.write_all(writer.row(row, name).as_bytes())?)
        })?;
    }
    out.write_all(writer.end().as_bytes())?;
    out.flush()?;
    if let Some(note) = writer.cut_short().filter(|_| rows.format != Format::Table) {
        eprintln!("iolens: {note}");
    }
    Ok(0)
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
