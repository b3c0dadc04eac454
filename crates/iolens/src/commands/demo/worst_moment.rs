//! The end of the demo: seconds beside 10 ms intervals around the worst moment.

use std::path::Path;

use anyhow::Result;
use iolens_core::analysis::Window;
use iolens_core::analysis::latency::slowest::{SlowestFinder, SlowestIo};
use iolens_core::analysis::timeline::{GroupBy, Row, TimelinePlan};
use iolens_core::model::{Class, DevId};
use iolens_core::store::{IoColumns, Recording};

use crate::cli::ClockArgs;
use crate::engine::TimeWindow;
use crate::engine::caller::Caller;
use crate::engine::decode::each_io;
use crate::engine::filter::DeviceFilter;
use crate::engine::filter::Filter;
use crate::engine::layers::Layers;
use crate::engine::part::Part;
use crate::engine::query::{Grain, Query};
use crate::engine::rows::{device_name, each_row_of};
use crate::present::times::Times;
use crate::present::zoom::{self, ZoomWriter};
use crate::present::{demo_text, escape};

/// The tables are side by side if they fit in this width, unless the terminal is narrower.
const MAX_COLUMNS: usize = 140;
/// Number of rows shown before and after the worst one.
const AROUND: usize = 9;
const FINE_NS: i64 = 10_000_000;
const COARSE_NS: i64 = 1_000_000_000;

/// Shows the worst moment, on `disk` alone if it is known, because other I/O would hide it.
///
/// # Errors
/// The recording cannot be read.
pub fn show(path: &Path, disk: Option<DevId>) -> Result<()> {
    let caller = crate::commands::caller();
    let query = Query::new(path, TimeWindow::default(), &caller);
    let Part {
        recording, range, ..
    } = query.one(Grain::Recording)?;
    let mut filter = Filter::default();
    match disk {
        Some(disk) => filter.devices = DeviceFilter::only(disk),
        None => filter.layers = Layers::of(&recording, GroupBy::All, &caller)?,
    }
    let window = Window::new(range.start, range.end);
    let fine = TimelinePlan::new(window, FINE_NS);
    let fine = rows(&recording, fine, &filter, &caller)?;
    let coarse = TimelinePlan::new(window, COARSE_NS);
    let coarse = rows(&recording, coarse, &filter, &caller)?;
    // Slow reads are what a user notices. With counters there are no single reads, so the interval with most writes
    // is shown.
    let slowest = slowest_read(&recording, &filter, &caller)?;
    let worst = match slowest {
        Some(read) => row_at(&fine, read.done_ns),
        None => most_written(&fine),
    };
    let Some(worst) = worst else {
        println!("The demo's I/O is not in the recording: no moment to show.");
        return Ok(());
    };
    let around = &fine[worst.saturating_sub(AROUND)..(worst + AROUND + 1).min(fine.len())];
    let worst = &fine[worst];
    let second = coarse
        .iter()
        .find(|s| s.from_ns <= worst.from_ns && worst.to_ns <= s.to_ns);
    let times = ClockArgs::default().times(recording.meta(), range.start);
    let sentence = match (slowest, second) {
        (Some(read), _) => demo_text::reads_stopped(&read, worst, second, &times),
        (None, Some(second)) => demo_text::worst_moment(worst, second, &times),
        (None, None) => String::new(),
    };
    println!(
        "{}",
        crate::streams::layout().sentences(sentence.trim_end())
    );
    let devices = &recording.meta().devices;
    let of = disk
        .map(|disk| format!(" on {}", escape::terminal(&device_name(devices, disk))))
        .unwrap_or_default();
    let seconds = format!("Each second{of}, as iostat 1 would show it:");
    let detail = format!("Each 10 ms{of} around the worst moment:");
    let left = table(&coarse, COARSE_NS, &times);
    let right = table(around, FINE_NS, &times);
    print!(
        "{}",
        demo_text::side_by_side(
            (&seconds, &left),
            (&detail, &right),
            crate::streams::layout().width.min(MAX_COLUMNS)
        )
    );
    print!(
        "{}",
        crate::streams::layout().sentences(&demo_text::closer_look(path, worst, &times))
    );
    Ok(())
}

/// The slowest read of the load, which is by this process.
fn slowest_read(
    recording: &Recording,
    filter: &Filter,
    caller: &Caller,
) -> Result<Option<SlowestIo>> {
    let Some(tgid) = recording.meta().recorder_tgid else {
        return Ok(None);
    };
    let mut finder = SlowestFinder::new(tgid, Class::Read);
    let columns = IoColumns::QUEUE | IoColumns::TGID;
    each_io(recording, 0..recording.end_ns(), columns, caller, |io| {
        if filter.counts(io.dev) {
            finder.push(io);
        }
    })?;
    Ok(finder.finish())
}

fn row_at(rows: &[Row], at_ns: i64) -> Option<usize> {
    rows.iter()
        .position(|row| row.from_ns <= at_ns && at_ns < row.to_ns)
}

/// All rows of `plan`.
fn rows(
    recording: &Recording,
    plan: TimelinePlan,
    filter: &Filter,
    caller: &Caller,
) -> Result<Vec<Row>> {
    let range = plan.window.from_ns..plan.window.to_ns;
    let mut rows = Vec::new();
    each_row_of(recording, range, plan, filter, caller, |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// The interval with the most bytes written.
fn most_written(rows: &[Row]) -> Option<usize> {
    (0..rows.len())
        .filter(|i| bytes_written(&rows[*i]) > 0)
        .max_by_key(|i| bytes_written(&rows[*i]))
}

fn bytes_written(row: &Row) -> u64 {
    row.flows[Class::Write as usize].bytes
}

fn table(rows: &[Row], step_ns: i64, times: &Times) -> String {
    let mut writer = ZoomWriter::new(zoom::Format::Table, GroupBy::All, false, step_ns)
        .with_times(times.clone());
    let body: String = rows.iter().map(|row| writer.row(row, "")).collect();
    writer.begin() + &body + &writer.end()
}
