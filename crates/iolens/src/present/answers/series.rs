//! `series`, `heatmap` and `ios`: what happened when.

use iolens_core::analysis::heat::{Cells, Heat};
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::analysis::waits::IoWait;
use serde::Serialize;

use crate::engine::single::NamedIo;
use crate::present::SCHEMA_VERSION;
use crate::present::columns::{Column, Columns, TableFormat, Texts};
use crate::present::times::rfc3339;

/// Rows, column by column.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SeriesDocument {
    schema_version: u32,
    step_s: f64,
    by: &'static str,
    /// `time_unix_s` is where a row's interval ends, `slot_s` how long it is.
    #[cfg_attr(
        test,
        schemars(with = "std::collections::BTreeMap<String, Vec<serde_json::Value>>")
    )]
    pub columns: Columns,
    notes: Vec<String>,
}

impl SeriesDocument {
    /// Rows of `step_ns`, column by column.
    pub fn new(step_ns: i64, by: GroupBy, columns: Columns, notes: Vec<String>) -> SeriesDocument {
        SeriesDocument {
            schema_version: SCHEMA_VERSION,
            step_s: step_ns as f64 / 1e9,
            by: by.name(),
            columns,
            notes,
        }
    }
}

/// Number of I/Os by time and latency.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeatDocument {
    schema_version: u32,
    from: String,
    to: String,
    from_unix_s: f64,
    column_s: f64,
    /// Latency bounds of the rows, one more than the number of rows.
    latency_us: Vec<f64>,
    /// I/Os per cell, column by column. Each column starts with the lowest latency.
    counts: Vec<Vec<u64>>,
    /// Recorded time in each column. Divide by it to compute rates.
    recorded_s: Vec<f64>,
    ios: u64,
    /// I/Os whose time is not known. They are in no column.
    unknown_ios: u64,
    notes: Vec<String>,
}

impl HeatDocument {
    /// `heat` in so many rows; of its columns `recorded_ns` are recorded.
    pub fn of(heat: &Heat, recorded_ns: &[i64], height: usize, notes: Vec<String>) -> HeatDocument {
        let Cells { edges_ns, counts } = heat.cells(height);
        HeatDocument {
            schema_version: SCHEMA_VERSION,
            from: rfc3339(heat.unix_ns.start),
            to: rfc3339(heat.unix_ns.end),
            from_unix_s: heat.unix_ns.start as f64 / 1e9,
            column_s: heat.column_ns as f64 / 1e9,
            // To a hundredth of a microsecond.
            latency_us: edges_ns
                .iter()
                .map(|ns| (ns / 10.0).round() / 100.0)
                .collect(),
            ios: counts.iter().flatten().sum(),
            counts,
            recorded_s: recorded_ns.iter().map(|ns| *ns as f64 / 1e9).collect(),
            unknown_ios: heat.unknown,
            notes,
        }
    }
}

/// Single I/Os, column by column.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IosDocument {
    schema_version: u32,
    ios: usize,
    /// Reference second (since 1970, UTC) of `start_ns` and `done_ns`: a double cannot hold nanoseconds since 1970 exactly.
    since_unix_s: i64,
    /// By completion.
    #[cfg_attr(
        test,
        schemars(with = "std::collections::BTreeMap<String, Vec<serde_json::Value>>")
    )]
    pub columns: Columns,
    notes: Vec<String>,
}

impl IosDocument {
    /// `ios` in their order. In a table there is no second from which times count: they are of the epoch.
    pub fn of(ios: &[NamedIo], format: TableFormat, notes: Vec<String>) -> IosDocument {
        let first_ns = ios.iter().map(NamedIo::start_unix_ns).min().unwrap_or(0);
        let since_unix_s = first_ns.div_euclid(1_000_000_000);
        IosDocument {
            schema_version: SCHEMA_VERSION,
            ios: ios.len(),
            since_unix_s,
            columns: match format {
                TableFormat::Json => io_columns(ios, ["start_ns", "done_ns"], since_unix_s),
                _ => io_columns(ios, ["start_unix_ns", "done_unix_ns"], 0),
            },
            notes,
        }
    }
}

fn io_columns(ios: &[NamedIo], [start, done]: [&str; 2], since_unix_s: i64) -> Columns {
    let mut columns = Columns::default();
    let since_ns = since_unix_s.saturating_mul(1_000_000_000);
    let mut start_times = Vec::with_capacity(ios.len());
    let mut done_times = Vec::with_capacity(ios.len());
    let mut processes = Texts::default();
    for n in ios {
        start_times.push(Some(n.start_unix_ns() - since_ns));
        done_times.push(Some(n.done_unix_ns - since_ns));
        let name = n.io.comm.map(|comm| comm.to_text().into_owned());
        processes.push(name.as_deref());
    }
    // What an I/O is: its times, its place, its request.
    columns.push(
        "done_unix_s",
        numbers(ios, |n| Some(n.done_unix_ns as f64 / 1e9)),
    );
    columns.push(start, Column::Integers(start_times));
    columns.push(done, Column::Integers(done_times));
    columns.push("device", texts(ios, |n| Some(&n.device)));
    columns.push("class", texts(ios, |n| Some(n.io.class().name())));
    columns.push("op", integers(ios, |n| Some(n.io.op.0.into())));
    columns.push("flags", integers(ios, |n| n.io.flags.map(i64::from)));
    columns.push("sector", integers(ios, |n| n.io.sector));
    columns.push("bytes", integers(ios, |n| Some(n.io.bytes)));
    columns.push(
        "queue_us",
        numbers(ios, |n| n.io.queue_ns.map(|ns| ns as f64 / 1e3)),
    );
    columns.push(
        "device_us",
        numbers(ios, |n| Some(n.io.device_ns as f64 / 1e3)),
    );
    columns.push(
        "total_us",
        numbers(ios, |n| Some(n.io.total_ns() as f64 / 1e3)),
    );
    columns.push("error", integers(ios, |n| n.io.error.map(i64::from)));
    // Who it was for, as far as that is known.
    columns.push("pid", integers(ios, |n| n.io.tgid.map(i64::from)));
    columns.push("process", Column::Texts(processes));
    columns.push("cgroup", texts(ios, |n| n.cgroup.as_deref()));
    columns.push("file", texts(ios, |n| n.file.as_deref()));
    columns.push("origin", texts(ios, |n| Some(n.io.origin.name())));
    wait_columns(ios, &mut columns);
    columns
}

fn numbers(ios: &[NamedIo], of: fn(&NamedIo) -> Option<f64>) -> Column {
    Column::numbers(ios.iter().map(of))
}

fn integers(ios: &[NamedIo], of: fn(&NamedIo) -> Option<i64>) -> Column {
    Column::Integers(ios.iter().map(of).collect())
}

fn texts(ios: &[NamedIo], of: fn(&NamedIo) -> Option<&str>) -> Column {
    Column::Texts(ios.iter().map(of).collect())
}

/// A column of nanoseconds, shown in microseconds.
type WaitColumn = (&'static str, fn(&IoWait) -> i64);

/// Where the time of each went; the parts add up to `total_us`.
fn wait_columns(ios: &[NamedIo], columns: &mut Columns) {
    let parts: [WaitColumn; 7] = [
        ("undisturbed_us", |w| w.time.undisturbed_ns),
        ("wait_others_us", |w| w.time.others_ns),
        ("wait_own_us", |w| w.time.own_ns),
        ("wait_held_us", |w| w.time.held_ns),
        ("wait_device_us", |w| w.time.device_ns),
        ("wait_unknown_us", |w| w.time.unknown_ns),
        ("wait_behind_us", |w| w.behind_ns),
    ];
    for (name, part) in parts {
        let us = ios
            .iter()
            .map(|n| Some(part(n.wait.as_ref()?) as f64 / 1e3));
        columns.push(name, Column::numbers(us));
    }
    // Of the group that an I/O waited for longest these columns say who it was; they are empty where it waited for none.
    let mut processes = Texts::default();
    let mut pids = Vec::new();
    let mut classes = Texts::default();
    let mut origins = Texts::default();
    for io in ios {
        let group = io.wait.as_ref().and_then(|wait| wait.behind);
        let program = group.and_then(|group| group.program);
        let name = program
            .and_then(|p| p.comm)
            .map(|c| c.to_text().into_owned());
        processes.push(name.as_deref());
        pids.push(program.and_then(|p| p.tgid).map(i64::from));
        classes.push(group.map(|group| group.class.name()));
        origins.push(group.map(|group| group.origin.name()));
    }
    columns.push("wait_behind_pid", Column::Integers(pids));
    columns.push("wait_behind_process", Column::Texts(processes));
    columns.push("wait_behind_class", Column::Texts(classes));
    columns.push("wait_behind_origin", Column::Texts(origins));
}
