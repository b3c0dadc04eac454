//! `iolens zoom`: time series of a recording at any step.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::{CounterTimeline, Differences, GroupBy, GroupKey, Row, Timeline, TimelinePlan};
use iolens_core::model::{Class, DevId, Device, RecordingMeta, Source};
use iolens_core::store::{IoColumns, Recording};

use super::layers::Layers;
use super::{names, source, tables, window};
use crate::cli::{By, Format, ZoomPlan};
use crate::present::html::Names;
use crate::present::zoom::{self, ZoomWriter};
use crate::present::{demo_text, escape};

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
    let layers = Layers::doubled(&recording.meta().devices, by);
    layers.say();
    let mut writer = ZoomWriter::new(format(rows.format), by, rows.extended, step_ns);
    let mut out = BufWriter::new(std::io::stdout().lock());
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
        eprintln!("iolens: source: {}", meta.source);
        for limit in &meta.limits {
            eprintln!("iolens: {}", escape::terminal(limit));
        }
    }
}

/// The analysis' word for a grouping.
pub fn group_by(by: By) -> GroupBy {
    match by {
        By::All => GroupBy::All,
        By::Device => GroupBy::Device,
        By::Process => GroupBy::Process,
        By::Cgroup => GroupBy::Cgroup,
        By::File => GroupBy::File,
    }
}

/// The renderer's word for a format.
pub fn format(format: Format) -> zoom::Format {
    match format {
        Format::Table => zoom::Format::Table,
        Format::Csv => zoom::Format::Csv,
        Format::Json => zoom::Format::Json,
    }
}

/// Devices that get a row in every slot: all that can hold data.
pub fn device_keys(devices: &[Device], by: GroupBy) -> Vec<GroupKey> {
    if by != GroupBy::Device {
        return Vec::new();
    }
    let ids: BTreeSet<_> = devices.iter().filter(|d| d.size_bytes != Some(0)).map(|d| d.id).collect();
    ids.into_iter().map(GroupKey::Device).collect()
}

fn device_name(devices: &[Device], dev: DevId) -> String {
    devices.iter().find(|d| d.id == dev).map_or_else(|| dev.to_string(), |d| d.name.clone())
}

/// What a row is called; names are escaped by the writer.
pub fn group_name(devices: &[Device], names: &Names, key: GroupKey) -> String {
    let unknown = || "unknown".to_owned();
    match key {
        GroupKey::All => String::new(),
        GroupKey::Device(dev) => device_name(devices, dev),
        GroupKey::Process(Some(tgid), Some(comm)) => format!("{}[{tgid}]", comm.to_text()),
        GroupKey::Process(Some(tgid), None) => format!("[{tgid}]"),
        GroupKey::Process(None, comm) => comm.map_or_else(unknown, |c| c.to_text().into_owned()),
        GroupKey::Cgroup(None) | GroupKey::File(None) => unknown(),
        GroupKey::Cgroup(Some(id)) => names.cgroups.get(&id).cloned().unwrap_or_else(|| id.to_string()),
        GroupKey::File(Some((dev, ino))) => {
            names.files.get(&(dev, ino)).cloned().unwrap_or_else(|| format!("{} inode {ino}", DevId(dev)))
        }
    }
}

/// What must be read beside the required columns.
fn columns(by: GroupBy) -> IoColumns {
    IoColumns::QUEUE
        | match by {
            GroupBy::All | GroupBy::Device => IoColumns::REQUIRED,
            GroupBy::Process => IoColumns::TGID | IoColumns::COMM,
            GroupBy::Cgroup => IoColumns::CGROUP,
            GroupBy::File => IoColumns::FILE,
        }
}

/// Calls `show` with every row of `plan` over the devices that count, as soon as it is complete.
fn each_row(
    recording: &Recording,
    range: Range<i64>,
    plan: TimelinePlan,
    counts: impl Fn(DevId) -> bool,
    mut show: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    if recording.meta().source == Source::Counters {
        return each_row_of_counters(recording, range, plan, counts, show);
    }
    // What was in flight in the window may complete after it; only the extended columns ask for that.
    let reach =
        if plan.extended { window::with_in_flight(&range) } else { window::with_last_instant(recording, &range) };
    let columns = columns(plan.by);
    let mut timeline = Timeline::new(plan)?;
    for l in recording.lost(range.clone()).iter().filter(|l| l.dev.is_none_or(&counts)) {
        timeline.lost(l);
    }
    let mut reader = recording.ios(reach, columns);
    while let Some(batch) = reader.next() {
        reader.damage().iter().for_each(|l| timeline.lost(l));
        let mut batch = batch?;
        window::hold_inside(&mut batch, recording.end_ns());
        for io in batch.iter().filter(|io| counts(io.dev)) {
            timeline.push(io)?;
        }
        while let Some(row) = timeline.next_row() {
            show(row)?;
        }
    }
    source::warn(reader.warnings());
    timeline.finish(range.end)?;
    while let Some(row) = timeline.next_row() {
        show(row)?;
    }
    Ok(())
}

/// The same from counters: rates and mean latencies between samples.
fn each_row_of_counters(
    recording: &Recording,
    range: Range<i64>,
    plan: TimelinePlan,
    counts: impl Fn(DevId) -> bool,
    show: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let step_ns = plan.step_ns;
    let mut timeline = CounterTimeline::new(plan)?;
    let mut differences = Differences::new(&recording.meta().devices);
    // From the beginning: the window's first difference needs the sample before it. To where every device has been seen
    // after the window: a difference tells of the time before its later sample.
    let mut counters = recording.counters(0..i64::MAX);
    let mut seen_ns: HashMap<DevId, i64> = HashMap::new();
    let mut finest_ns = i64::MAX;
    for batch in &mut counters {
        let batch = batch?;
        for c in batch.iter().filter(|c| counts(c.dev)) {
            seen_ns.insert(c.dev, c.at_ns);
            if let Some(d) = differences.push(c) {
                finest_ns = finest_ns.min(d.to_ns - d.from_ns);
                timeline.push(&d);
            }
        }
        if seen_ns.values().all(|at_ns| *at_ns >= range.end.saturating_add(step_ns)) && !seen_ns.is_empty() {
            break;
        }
    }
    source::warn(counters.warnings());
    if step_ns < finest_ns && finest_ns < i64::MAX {
        eprintln!(
            "iolens: the counters were read every {:.1} ms or more seldom: in finer rows all that happened between two \
             readings stands in the later one's row, and of the rows between them nothing is known",
            finest_ns as f64 / 1e6
        );
    }
    timeline.finish(range.end)?.into_iter().try_for_each(show)
}

/// Rows on each side of the worst one that the demo shows.
const AROUND: usize = 9;
const FINE_NS: i64 = 10_000_000;
const COARSE_NS: i64 = 1_000_000_000;

/// The demo's end: the seconds beside the 10 ms around the worst moment, of `disk` alone where it is known: what else
/// the machine does would blur them.
///
/// # Errors
/// The recording cannot be read.
pub fn show_worst_moment(path: &Path, disk: Option<DevId>) -> Result<()> {
    let recording = source::open(path)?;
    let range = 0..recording.end_ns();
    let layers = Layers::doubled(&recording.meta().devices, GroupBy::All);
    let counts = |dev| disk.map_or_else(|| layers.counts(dev), |disk| dev == disk);
    let rows = |step_ns| -> Result<Vec<Row>> {
        let plan = TimelinePlan::new(Window::new(range.start, range.end), step_ns);
        let mut rows = Vec::new();
        each_row(&recording, range.clone(), plan, counts, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    };
    let (fine, coarse) = (rows(FINE_NS)?, rows(COARSE_NS)?);
    let Some(worst) = worst(&fine) else {
        println!("Nothing was written during the demo: no burst to show.");
        return Ok(());
    };
    let around = &fine[worst.saturating_sub(AROUND)..(worst + AROUND + 1).min(fine.len())];
    let worst = &fine[worst];
    if let Some(second) = coarse.iter().find(|s| s.from_ns <= worst.from_ns && worst.to_ns <= s.to_ns) {
        print!("{}", demo_text::worst_moment(worst, second));
    }
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(140, |w| usize::from(w.ws_col));
    let devices = &recording.meta().devices;
    let of = disk.map(|disk| format!(" on {}", escape::terminal(&device_name(devices, disk)))).unwrap_or_default();
    let seconds = format!("Each second{of}, as iostat 1 would show it:");
    let detail = format!("Each 10 ms{of} around the worst moment:");
    let (left, right) = (table(&coarse, COARSE_NS), table(around, FINE_NS));
    print!("{}", demo_text::side_by_side((&seconds, &left), (&detail, &right), columns));
    print!("{}", demo_text::closer_look(path, worst));
    Ok(())
}

/// The slot in which most was written.
fn worst(rows: &[Row]) -> Option<usize> {
    let written = |row: &Row| row.flows[Class::Write as usize].bytes;
    (0..rows.len()).filter(|i| written(&rows[*i]) > 0).max_by_key(|i| written(&rows[*i]))
}

fn table(rows: &[Row], step_ns: i64) -> String {
    let mut writer = ZoomWriter::new(zoom::Format::Table, GroupBy::All, false, step_ns);
    let body: String = rows.iter().map(|row| writer.row(row, "")).collect();
    writer.begin() + &body + &writer.end()
}
