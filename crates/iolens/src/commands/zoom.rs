//! `iolens zoom`: time series of a recording at any step.

use std::io::{BufWriter, Write};

use anyhow::{Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::{GroupBy, Row, TimelinePlan};
use iolens_core::model::{RecordingMeta, Source};

use crate::cli::{Format, ZoomPlan};
use crate::engine::layers::Layers;
use crate::engine::rows::{device_keys, each_row, group_by, group_name};
use crate::engine::{names, source, tables, window};
use crate::present::escape;
use crate::present::html::Names;
use crate::present::zoom::{self, ZoomWriter};

/// Runs the command.
///
/// # Errors
/// No recording, a window outside it, or more rows than anybody can want.
pub fn run(plan: &ZoomPlan) -> Result<u8> {
    let recording = source::open(&plan.recording)?;
    let mut range = window::resolve(&recording, &plan.window)?;
    let rows = &plan.rows;
    let by = group_by(rows.by);
    let tables = tables::of(&recording)?;
    let own_step = tables.as_deref().and_then(tables::own_step_ns);
    let step_ns = rows.step.or(own_step).unwrap_or(rows.step_ns());
    if let Some(tables) = &tables {
        range = tables::window(tables, &plan.window, range);
    }
    let timeline = TimelinePlan {
        window: Window::new(range.start, range.end),
        step_ns,
        by,
        always: device_keys(&recording.meta().devices, by),
        extended: rows.extended,
    };
    timeline.check()?;
    if recording.meta().source != Source::Counters {
        let filled = tables.as_ref().map_or(recording.ios_stored(), |t| t.len() as u64);
        tables::refuse_mostly_empty(&recording.meta().source, &range, step_ns, filled)?;
    }
    if !matches!(by, GroupBy::All | GroupBy::Device) {
        if recording.meta().source == Source::Counters {
            bail!("--by: this recording was made from counters, which know devices only");
        }
        if tables.is_some() {
            bail!("--by: this recording was imported from tables, which know devices only");
        }
    }
    say_source(recording.meta());
    if let Some(own) = own_step.filter(|own| step_ns < *own) {
        eprintln!("iolens: the tables have averages over {} s: finer rows repeat them", own as f64 / 1e9);
    }
    let layers = Layers::of(&recording, by)?;
    layers.say();
    let all_classes = tables.as_ref().is_some_and(|t| t.iter().any(|r| !r.all.is_empty()));
    let mut writer = ZoomWriter::new(zoom::Format::from(rows.format), by, rows.extended, step_ns)
        .with_all_classes(all_classes)
        .with_width(crate::streams::layout().width);
    let mut out = BufWriter::new(crate::streams::stdout());
    out.write_all(writer.begin().as_bytes())?;
    let meta = recording.meta();
    let names = match by {
        GroupBy::Cgroup | GroupBy::File => names::read(&recording, range.end)?,
        GroupBy::All | GroupBy::Device | GroupBy::Process => Names::default(),
    };
    let counts = |dev| layers.counts(dev);
    let show = |row: Row| Ok(out.write_all(writer.row(&row, &group_name(&meta.devices, &names, row.key)).as_bytes())?);
    match &tables {
        Some(tables) => {
            tables::rows(&recording, tables, &timeline, counts, range.end)?.into_iter().try_for_each(show)?
        }
        None => each_row(&recording, range, timeline, counts, show)?,
    }
    out.write_all(writer.end().as_bytes())?;
    out.flush()?;
    if let Some(note) = writer.cut_short().filter(|_| rows.format != Format::Table) {
        eprintln!("iolens: {note}");
    }
    Ok(0)
}

/// Data goes to stdout; where it came from and what it cannot show, to stderr.
fn say_source(meta: &RecordingMeta) {
    if meta.source != Source::Ebpf {
        eprintln!("iolens: source: {}", escape::terminal(&meta.source.to_string()));
        for limit in &meta.limits {
            eprintln!("iolens: {}", escape::terminal(limit));
        }
    }
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
