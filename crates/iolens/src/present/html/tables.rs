//! The rows of imported tables as the page draws them: every quantity of the log, per device, and the processors' shares.

use std::collections::BTreeMap;

use iolens_core::analysis::counters::row_groups::{RowGroup, cpu_groups, row_groups};
use iolens_core::model::{Class, ClassRates, CpuShares, DevId, IntervalRates};
use serde::Serialize;

use super::ReportData;
use super::pack::column;
use crate::present::report_json::device_name;

/// What was imported.
#[derive(Debug, Clone, Copy)]
pub struct Tables<'a> {
    /// Rows of devices, in order of time.
    pub rates: &'a [IntervalRates],
    /// Rows of processors.
    pub cpu: &'a [CpuShares],
}

/// Tables of rates instead of single I/Os.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TablesBlock {
    /// Number of rows of the log that are merged into one row to limit the size; 1 if none are merged.
    merged: usize,
    /// In the order of the log.
    devices: Vec<DeviceTable>,
    /// CPU shares `user`, `nice`, `system`, `iowait`, `steal` and `idle`; absent if the log has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<ColumnsBlock>,
}

/// The rows of a device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceTable {
    /// Name of the device.
    device: String,
    /// Rows of the log for the device.
    table: ColumnsBlock,
}

/// Rows as packed columns of equal length.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ColumnsBlock {
    /// How many rows.
    row_count: usize,
    /// Beginning of each row in milliseconds since the recording's start.
    starts: String,
    /// End of each row in milliseconds since the recording's start.
    ends: String,
    /// Hundredths, absent where the log says nothing: of I/Os or merges per second (`r_ios`, `r_merges`; `w`, `d`, `f`, and
    /// `all` for all classes together), of bytes per second (`r_bytes`), of microseconds (`r_us`, `service_us`), of I/Os in
    /// flight (`in_flight`), of percent (`util`).
    cols: BTreeMap<&'static str, String>,
    /// Maximum of the merged rows for each row, if several rows of the log are merged.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    peaks: BTreeMap<&'static str, String>,
}

const CLASSES: [(Class, [&str; 4]); 4] = [
    (Class::Read, ["r_ios", "r_bytes", "r_merges", "r_us"]),
    (Class::Write, ["w_ios", "w_bytes", "w_merges", "w_us"]),
    (Class::Discard, ["d_ios", "d_bytes", "d_merges", "d_us"]),
    (Class::Flush, ["f_ios", "f_bytes", "f_merges", "f_us"]),
];
const ALL_CLASSES: [&str; 4] = ["all_ios", "all_bytes", "all_merges", "all_us"];

/// Bytes that a cell takes about: a difference of two hundredths.
const CELL_BYTES: usize = 3;
/// A log has about so many columns.
const DEFAULT_COLUMNS: usize = 20;

/// The tables in at most about `budget` bytes.
pub(super) fn block(data: &ReportData, tables: Tables<'_>, budget: usize) -> TablesBlock {
    let by_device = by_device(data, tables.rates);
    let cells = tables.rates.len() * DEFAULT_COLUMNS;
    let mut merged = (cells * CELL_BYTES / 4 / budget.max(1)).max(1);
    loop {
        let block = merged_block(data, &by_device, tables.cpu, merged);
        if block.weight() <= budget || merged > tables.rates.len() {
            return block;
        }
        merged *= 2;
    }
}

/// The rows of each device in order of time, the devices in the order of the log.
fn by_device(data: &ReportData, rates: &[IntervalRates]) -> Vec<(DevId, Vec<IntervalRates>)> {
    let mut rows: BTreeMap<DevId, Vec<IntervalRates>> = BTreeMap::new();
    for r in rates {
        rows.entry(r.dev).or_default().push(*r);
    }
    let listed = data.meta.devices.iter().map(|d| d.id);
    let mut out: Vec<(DevId, Vec<IntervalRates>)> = listed
        .filter_map(|dev| Some((dev, rows.remove(&dev)?)))
        .collect();
    for (_, rows) in &mut out {
        rows.sort_by_key(|r| r.from_ns);
    }
    out
}

fn merged_block(
    data: &ReportData,
    by_device: &[(DevId, Vec<IntervalRates>)],
    cpu: &[CpuShares],
    merged: usize,
) -> TablesBlock {
    let mut devices = Vec::new();
    for (dev, rows) in by_device {
        devices.push(DeviceTable {
            device: device_name(data.meta, *dev),
            table: device_columns(&row_groups(rows, merged)),
        });
    }
    TablesBlock {
        merged,
        devices,
        cpu: (!cpu.is_empty()).then(|| cpu_columns(&cpu_groups(cpu, merged))),
    }
}

impl TablesBlock {
    fn weight(&self) -> usize {
        let devices = self.devices.iter().map(|d| &d.table);
        devices.chain(&self.cpu).map(ColumnsBlock::weight).sum()
    }
}

impl ColumnsBlock {
    fn weight(&self) -> usize {
        let columns = self.cols.values().chain(self.peaks.values());
        columns.map(|c| c.len() + 16).sum::<usize>() + self.starts.len() + self.ends.len()
    }
}

fn device_columns(groups: &[RowGroup]) -> ColumnsBlock {
    let peaks = if groups.iter().all(|g| g.mean == g.max) {
        BTreeMap::new()
    } else {
        columns_of(groups, |g| &g.max)
    };
    ColumnsBlock {
        row_count: groups.len(),
        starts: milliseconds(groups.iter().map(|g| g.mean.from_ns)),
        ends: milliseconds(groups.iter().map(|g| g.mean.to_ns)),
        cols: columns_of(groups, |g| &g.mean),
        peaks,
    }
}

fn columns_of(
    groups: &[RowGroup],
    row: fn(&RowGroup) -> &IntervalRates,
) -> BTreeMap<&'static str, String> {
    let rows: Vec<&IntervalRates> = groups.iter().map(row).collect();
    let mut cols = BTreeMap::new();
    for (class, names) in CLASSES {
        let rates: Vec<&ClassRates> = rows.iter().map(|r| &r.classes[class as usize]).collect();
        insert_rates(&mut cols, names, &rates);
    }
    let rates: Vec<&ClassRates> = rows.iter().map(|r| &r.all).collect();
    insert_rates(&mut cols, ALL_CLASSES, &rates);
    insert(&mut cols, "in_flight", rows.iter().map(|r| r.in_flight));
    insert(&mut cols, "util", rows.iter().map(|r| r.util_percent));
    insert(&mut cols, "service_us", rows.iter().map(|r| r.service_us));
    cols
}

/// `names` are those of I/Os, bytes, merges and mean latency.
fn insert_rates(
    cols: &mut BTreeMap<&'static str, String>,
    names: [&'static str; 4],
    rates: &[&ClassRates],
) {
    let [ios, bytes, merges, us] = names;
    insert(cols, ios, rates.iter().map(|r| r.ios_per_s));
    insert(cols, bytes, rates.iter().map(|r| r.bytes_per_s));
    insert(cols, merges, rates.iter().map(|r| r.merges_per_s));
    insert(cols, us, rates.iter().map(|r| r.mean_us));
}

/// Adds a column, unless the log has none of it.
fn insert(
    cols: &mut BTreeMap<&'static str, String>,
    name: &'static str,
    values: impl Iterator<Item = Option<f64>>,
) {
    let codes: Vec<Option<u64>> = values.map(|value| value.map(hundredths)).collect();
    if codes.iter().any(Option::is_some) {
        cols.insert(name, column(codes));
    }
}

/// One of the shares of a row.
type ShareOf = fn(&CpuShares) -> Option<f64>;

fn cpu_columns(rows: &[CpuShares]) -> ColumnsBlock {
    let shares: [(&'static str, ShareOf); 6] = [
        ("user", |c| c.user),
        ("nice", |c| c.nice),
        ("system", |c| c.system),
        ("iowait", |c| c.iowait),
        ("steal", |c| c.steal),
        ("idle", |c| c.idle),
    ];
    let mut cols = BTreeMap::new();
    for (name, of) in shares {
        insert(&mut cols, name, rows.iter().map(of));
    }
    ColumnsBlock {
        row_count: rows.len(),
        starts: milliseconds(rows.iter().map(|c| c.from_ns)),
        ends: milliseconds(rows.iter().map(|c| c.to_ns)),
        cols,
        peaks: BTreeMap::new(),
    }
}

/// Logs print two digits after the point; negative values are none that a log means.
fn hundredths(value: f64) -> u64 {
    (value * 100.0).round().max(0.0) as u64
}

fn milliseconds(ns: impl Iterator<Item = i64>) -> String {
    column(ns.map(|ns| Some((ns as f64 / 1e6).round().max(0.0) as u64)))
}
