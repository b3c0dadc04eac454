//! `iolens zoom`: time series of a recording at any step.

use std::io::{BufWriter, Write};
use std::ops::Range;

use anyhow::{Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::{GroupBy, Row, TimelinePlan};
use iolens_core::model::{IntervalRates, RecordingMeta, Source};
use iolens_core::store::Recording;

use crate::cli::{Format, ZoomPlan};
use crate::engine::choose::{self, Chosen};
use crate::engine::layers::Layers;
use crate::engine::rows::{device_keys, each_row, group_by, group_name};
use crate::engine::{names, tables, window};
use crate::present::escape;
use crate::present::html::Names;
use crate::present::zoom::{self, ZoomWriter};

/// Runs `iolens zoom`.
///
/// # Errors
/// No recording, a window outside it, or more rows than the limit.
pub fn run(plan: &ZoomPlan) -> Result<u8> {
    let chosen = choose::all(&plan.recording, &plan.window)?;
    let views = chosen.into_iter().map(|c| View::of(c, plan)).collect::<Result<Vec<View>>>()?;
    let Some(first) = views.first() else { return Ok(0) };
    let start_unix_ns = first.recording.meta().start_unix_ns;
    let (rows, by) = (&plan.rows, first.timeline.by);
    if views.len() > 1 {
        let (n, path) = (views.len(), first.recording.path().display().to_string());
        eprintln!("iolens: {n} recordings; times count from the start of the first, {}", escape::terminal(&path));
    }
    let all_classes = views.iter().filter_map(|v| v.tables.as_ref()).flatten().any(|r| !r.all.is_empty());
    let mut writer = ZoomWriter::new(zoom::Format::from(rows.format), by, rows.extended, first.timeline.step_ns)
        .with_all_classes(all_classes)
        .with_fine_times(views.len() > 1)
        .with_width(crate::streams::layout().width);
    let mut out = BufWriter::new(crate::streams::stdout());
    out.write_all(writer.begin().as_bytes())?;
    for view in views {
        let shift_ns = view.recording.meta().start_unix_ns.saturating_sub(start_unix_ns);
        view.show(shift_ns, |row, name| Ok(out.write_all(writer.row(row, name).as_bytes())?))?;
    }
    out.write_all(writer.end().as_bytes())?;
    out.flush()?;
    if let Some(note) = writer.cut_short().filter(|_| rows.format != Format::Table) {
        eprintln!("iolens: {note}");
    }
    Ok(0)
}

/// The rows of one recording, planned.
struct View {
    recording: Recording,
    range: Range<i64>,
    tables: Option<Vec<IntervalRates>>,
    timeline: TimelinePlan,
}

impl View {
    /// What `plan` asks of a recording, checked; says on stderr what the recording cannot show.
    fn of(Chosen { recording, window: asked }: Chosen, plan: &ZoomPlan) -> Result<View> {
        let mut range = window::resolve(&recording, &asked)?;
        let rows = &plan.rows;
        let by = group_by(rows.by);
        let tables = tables::of(&recording)?;
        let own_step = tables.as_deref().and_then(tables::own_step_ns);
        let step_ns = rows.step.or(own_step).unwrap_or(rows.step_ns());
        if let Some(tables) = &tables {
            range = tables::window(tables, &asked, range);
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
        Ok(View { recording, range, tables, timeline })
    }

    /// Gives every row with its name to `show`, `shift_ns` later than the recording says.
    fn show(self, shift_ns: i64, mut show: impl FnMut(&Row, &str) -> Result<()>) -> Result<()> {
        let View { recording, range, tables, timeline } = self;
        let (meta, by) = (recording.meta(), timeline.by);
        let layers = Layers::of(&recording, by)?;
        layers.say();
        let names = match by {
            GroupBy::Cgroup | GroupBy::File => names::read(&recording, range.end)?,
            GroupBy::All | GroupBy::Device | GroupBy::Process => Names::default(),
        };
        let counts = |dev| layers.counts(dev);
        let shifted = |row: Row| {
            let (from_ns, to_ns) = (row.from_ns + shift_ns, row.to_ns + shift_ns);
            show(&Row { from_ns, to_ns, ..row }, &group_name(&meta.devices, &names, row.key))
        };
        match &tables {
            Some(tables) => {
                tables::rows(&recording, tables, &timeline, counts, range.end)?.into_iter().try_for_each(shifted)
            }
            None => each_row(&recording, range, timeline, counts, shifted),
        }
    }
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
