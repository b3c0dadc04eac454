//! The document of a fio sweep, and its tables of data.

use iolens_core::model::DataTable;
use iolens_lab::fio::FioResult;
use iolens_lab::statistics::identities::RunFacts;
use iolens_lab::statistics::sweep::{
    Interval, PageCacheFit, Regime, RunPoint, SeekTransfer, SweepRow, SweepSeries, summarise,
};

use super::chart::{Chart, Curve, Figure, Scale, bytes};
use super::document::{Section, Table};
use crate::present::layout;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// Series, by what their runs share.
pub fn series(results: &[(String, FioResult)]) -> Vec<SweepSeries> {
    let mut points = Vec::new();
    for (_, r) in results {
        points.push(RunPoint {
            series: r.cell.series(),
            block_bytes: r.cell.bs as f64,
            facts: RunFacts {
                lost_ios: r.lost_ios,
                ..r.facts.clone()
            },
            warm: r.cell.warm,
            sequential_read: r.cell.reads_in_order(),
            file_bytes: r.file_bytes,
            disk_phase: r.disk_phase,
        });
    }
    summarise(&points)
}

/// The tables of data: a row per block size, per run, per identity, per model's point and parameter.
pub fn data(
    all: &[SweepSeries],
    results: &[(String, FioResult)],
) -> Vec<(&'static str, DataTable)> {
    vec![
        ("results", rows_data(all)),
        ("runs", runs_data(results)),
        ("identities", identities_data(all)),
        ("models", models_data(all)),
        ("parameters", parameters_data(all)),
    ]
}

fn rows_data(all: &[SweepSeries]) -> DataTable {
    let mut series = Vec::new();
    let mut rows: Vec<&SweepRow> = Vec::new();
    for s in all {
        for row in &s.rows {
            series.push(s.name.clone());
            rows.push(row);
        }
    }
    DataTable::new(rows.len())
        .words("series", series)
        .numbers("block_bytes", rows.iter().map(|r| r.block_bytes))
        .numbers("replicates", rows.iter().map(|r| r.ios_per_s.n as f64))
        .numbers("ios_per_s", rows.iter().map(|r| r.ios_per_s.mean))
        .numbers(
            "ios_per_s_ci95",
            rows.iter().map(|r| r.ios_per_s.half_width),
        )
        .numbers("bytes_per_s", rows.iter().map(|r| r.bytes_per_s))
        .numbers("device_ios_per_s", rows.iter().map(|r| r.device_ios_per_s))
        .numbers(
            "device_bytes_per_s",
            rows.iter().map(|r| r.device_bytes_per_s),
        )
        .numbers("request_bytes", rows.iter().map(|r| r.request_bytes))
        .numbers("queue_length", rows.iter().map(|r| r.queue_length))
        .numbers("await_ms", rows.iter().map(|r| r.await_ms))
        .numbers("util_percent", rows.iter().map(|r| r.util_percent))
        .words("failed_identities", rows.iter().map(|r| r.failed.join(" ")))
        .words("verdicts", rows.iter().map(|r| r.verdicts.join("; ")))
}

fn runs_data(results: &[(String, FioResult)]) -> DataTable {
    let runs: Vec<&FioResult> = results.iter().map(|(_, r)| r).collect();
    let mut table = with_settings(results, &runs);
    for (direction, name) in ["read", "write"].into_iter().enumerate() {
        table = with_counts(table, &runs, direction, name);
    }
    with_totals(table, &runs)
}

/// A table with what was to be run, and for how long it was.
fn with_settings(results: &[(String, FioResult)], runs: &[&FioResult]) -> DataTable {
    DataTable::new(results.len())
        .words("cell", results.iter().map(|r| r.0.clone()))
        .words("series", runs.iter().map(|r| r.cell.series()))
        .words("device", runs.iter().map(|r| r.device.clone()))
        .numbers("block_bytes", runs.iter().map(|r| r.cell.bs as f64))
        .numbers(
            "replicate",
            runs.iter().map(|r| f64::from(r.cell.replicate)),
        )
        .numbers(
            "cached",
            runs.iter().map(|r| f64::from(u8::from(r.cell.warm))),
        )
        .numbers("runtime_s", runs.iter().map(|r| r.facts.runtime_s))
        .numbers("window_s", runs.iter().map(|r| r.facts.window_s))
}

/// Adds what reads (`direction` 0) or writes (1) came to, as fio, the kernel and the recorder count them.
fn with_counts(table: DataTable, runs: &[&FioResult], direction: usize, name: &str) -> DataTable {
    table
        .numbers(
            &format!("fio_{name}_ios"),
            runs.iter().map(|r| r.facts.app[direction].ios),
        )
        .numbers(
            &format!("fio_{name}_bytes"),
            runs.iter().map(|r| r.facts.app[direction].bytes),
        )
        .numbers(
            &format!("fio_{name}_mean_us"),
            runs.iter().map(|r| r.facts.app[direction].mean_us),
        )
        .numbers(
            &format!("device_{name}_ios"),
            runs.iter().map(|r| r.facts.device[direction].ios),
        )
        .numbers(
            &format!("device_{name}_bytes"),
            runs.iter().map(|r| r.facts.device[direction].bytes),
        )
        .numbers(
            &format!("device_{name}_merges"),
            runs.iter().map(|r| r.facts.device[direction].merges),
        )
        .numbers(
            &format!("device_{name}_ticks_ms"),
            runs.iter().map(|r| r.facts.device[direction].ticks_ms),
        )
        .numbers(
            &format!("others_{name}_ios"),
            runs.iter().map(|r| r.facts.foreign[direction].ios),
        )
        .numbers(
            &format!("others_{name}_bytes"),
            runs.iter().map(|r| r.facts.foreign[direction].bytes),
        )
}

/// Adds what is not apart for reads and writes.
fn with_totals(table: DataTable, runs: &[&FioResult]) -> DataTable {
    table
        .numbers("in_queue_ms", runs.iter().map(|r| r.facts.in_queue_ms))
        .numbers("io_ticks_ms", runs.iter().map(|r| r.facts.io_ticks_ms))
        .numbers(
            "fio_util_percent",
            runs.iter().map(|r| r.facts.util_percent),
        )
        .numbers(
            "disk_phase_bytes",
            runs.iter().map(|r| r.disk_phase.map(|p| p.0)),
        )
        .numbers(
            "disk_phase_s",
            runs.iter().map(|r| r.disk_phase.map(|p| p.1)),
        )
        .numbers("fio_user_percent", runs.iter().map(|r| r.fio_cpu_percent.0))
        .numbers(
            "fio_system_percent",
            runs.iter().map(|r| r.fio_cpu_percent.1),
        )
        .numbers(
            "lost_ios",
            runs.iter().map(|r| r.lost_ios.map(|n| n as f64)),
        )
}

fn identities_data(all: &[SweepSeries]) -> DataTable {
    let rows: Vec<_> = all
        .iter()
        .flat_map(|s| s.identities.iter().map(move |i| (s.name.clone(), i)))
        .collect();
    DataTable::new(rows.len())
        .words("series", rows.iter().map(|r| r.0.clone()))
        .numbers("block_bytes", rows.iter().map(|r| r.1.block_bytes))
        .words("identity", rows.iter().map(|r| r.1.id.clone()))
        .words("says", rows.iter().map(|r| r.1.text.to_owned()))
        .numbers("left", rows.iter().map(|r| r.1.left))
        .numbers("right", rows.iter().map(|r| r.1.right))
        .numbers(
            "residual_percent",
            rows.iter().map(|r| r.1.residual_percent),
        )
        .numbers("tolerance", rows.iter().map(|r| r.1.tolerance))
        .numbers("holds", rows.iter().map(|r| r.1.holds as f64))
        .numbers("replicates", rows.iter().map(|r| r.1.n as f64))
}

/// (series, model, bytes per I/O, measured, predicted, error) of all models' points.
fn model_points(all: &[SweepSeries]) -> Vec<(String, &'static str, f64, f64, f64, f64)> {
    let mut out = Vec::new();
    for s in all {
        for p in s.seek_transfer.iter().flat_map(|m| &m.points) {
            let measured = p.point.device_ios_per_s;
            let error = 100.0 * (p.predicted_ios_per_s / measured - 1.0);
            out.push((
                s.name.clone(),
                "seek + transfer",
                p.point.block_bytes,
                measured,
                p.predicted_ios_per_s,
                error,
            ));
        }
        for p in s.page_cache.iter().flat_map(|m| &m.points) {
            let measured = p.measured_ios_per_s;
            let predicted = p.predicted_ios_per_s;
            out.push((
                s.name.clone(),
                "two-phase page cache",
                p.block_bytes,
                measured,
                predicted,
                p.error_percent,
            ));
        }
    }
    out
}

fn models_data(all: &[SweepSeries]) -> DataTable {
    let rows = model_points(all);
    DataTable::new(rows.len())
        .words("series", rows.iter().map(|r| r.0.clone()))
        .words("model", rows.iter().map(|r| r.1.to_owned()))
        .numbers("block_bytes", rows.iter().map(|r| r.2))
        .numbers("measured_per_s", rows.iter().map(|r| r.3))
        .numbers("predicted_per_s", rows.iter().map(|r| r.4))
        .numbers("error_percent", rows.iter().map(|r| r.5))
}

fn parameters_data(all: &[SweepSeries]) -> DataTable {
    let mut rows: Vec<(String, &str, &str, Interval)> = Vec::new();
    for s in all {
        if let Some(m) = &s.seek_transfer {
            rows.push((s.name.clone(), "seek + transfer", "a_s", m.a_s));
            rows.push((
                s.name.clone(),
                "seek + transfer",
                "rate_bytes_per_s",
                m.rate_bytes_per_s,
            ));
        }
        if let Some(m) = &s.page_cache {
            rows.push((s.name.clone(), "two-phase page cache", "call_s", m.call_s));
            rows.push((
                s.name.clone(),
                "two-phase page cache",
                "copy_bytes_per_s",
                m.copy_bytes_per_s,
            ));
            rows.push((
                s.name.clone(),
                "two-phase page cache",
                "disk_bytes_per_s",
                m.disk_bytes_per_s,
            ));
        }
    }
    DataTable::new(rows.len())
        .words("series", rows.iter().map(|r| r.0.clone()))
        .words("model", rows.iter().map(|r| r.1.to_owned()))
        .words("parameter", rows.iter().map(|r| r.2.to_owned()))
        .numbers("value", rows.iter().map(|r| r.3.value))
        .numbers("low_95", rows.iter().map(|r| r.3.low))
        .numbers("high_95", rows.iter().map(|r| r.3.high))
}

/// A section per series.
pub fn sections(all: &[SweepSeries]) -> Vec<Section> {
    all.iter().map(section).collect()
}

fn rows_table(s: &SweepSeries) -> Table {
    let columns = [
        "bs",
        "n",
        "iops",
        "± 95 %",
        "MiB/s",
        "dev r+w/s",
        "dev MiB/s",
        "req KiB",
        "aqu-sz",
        "await ms",
        "%util",
        "failed",
    ];
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: s.rows.iter().map(table_row).collect(),
        ..Table::default()
    }
}

fn table_row(r: &SweepRow) -> Vec<String> {
    vec![
        bytes(r.block_bytes),
        r.ios_per_s.n.to_string(),
        format!("{:.1}", r.ios_per_s.mean),
        layout::number(r.ios_per_s.half_width, 1),
        format!("{:.2}", r.bytes_per_s / MIB),
        format!("{:.1}", r.device_ios_per_s),
        format!("{:.2}", r.device_bytes_per_s / MIB),
        layout::number(r.request_bytes.map(|b| b / 1024.0), 1),
        format!("{:.2}", r.queue_length),
        layout::number(r.await_ms, 3),
        format!("{:.1}", r.util_percent),
        if r.failed.is_empty() {
            "-".to_owned()
        } else {
            r.failed.join(" ")
        },
    ]
}

fn verdicts_table(s: &SweepSeries) -> Table {
    let rows = s.rows.iter().flat_map(|r| {
        r.verdicts
            .iter()
            .map(move |v| vec![bytes(r.block_bytes), v.clone()])
    });
    Table {
        caption: Some("Verdicts".to_owned()),
        columns: vec!["bs".to_owned(), "what happened".to_owned()],
        rows: rows.collect(),
        folded: false,
    }
}

fn identities_table(s: &SweepSeries) -> Table {
    let columns = [
        "bs",
        "identity",
        "says",
        "left",
        "right",
        "residual %",
        "tolerance",
        "holds",
    ];
    let mut rows = Vec::new();
    for i in &s.identities {
        rows.push(vec![
            bytes(i.block_bytes),
            i.id.clone(),
            i.text.to_owned(),
            short(i.left),
            short(i.right),
            layout::number(i.residual_percent, 3),
            short(i.tolerance),
            format!("{}/{}", i.holds, i.n),
        ]);
    }
    Table {
        caption: Some(
            "Consistency checks: fio against the device, with residual and tolerance".to_owned(),
        ),
        folded: true,
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

/// A number without digits that a large one does not need.
fn short(v: f64) -> String {
    if v.abs() >= 1000.0 {
        format!("{v:.0}")
    } else {
        format!("{v:.3}")
    }
}

/// `1.2 [1.1, 1.3]`, or that one replicate says nothing of the interval.
fn interval(i: &Interval, scale: f64, decimals: usize) -> String {
    let value = i.value * scale;
    let low = i.low * scale;
    let high = i.high * scale;
    if low.is_finite() && high.is_finite() {
        format!("{value:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
    } else if low.is_finite() {
        format!("{value:.decimals$} [{low:.decimals$}, no upper bound]")
    } else {
        format!("{value:.decimals$} (no interval: too few runs)")
    }
}

fn section(s: &SweepSeries) -> Section {
    let mut rates = vec![
        measured(s, "fio", |r| r.ios_per_s.mean),
        measured(s, "device requests", |r| r.device_ios_per_s),
    ];
    let mut paragraphs = Vec::new();
    let mut tables = vec![rows_table(s), verdicts_table(s)];
    if let Some(p) = &s.plateau {
        paragraphs.push(match p.breakpoint {
            Some(at) => format!(
                "IOPS-bound up to {} ({:.0} IOPS), bandwidth-bound above (BIC gain {:.1}, scatter {:.0} %).",
                bytes(at),
                p.level,
                p.bic_gain,
                100.0 * p.scatter
            ),
            None => {
                "No plateau: the rates do not change from IOPS-bound to bandwidth-bound within the sweep.".to_owned()
            }
        });
    }
    // What a model predicts is drawn beside what was measured.
    if let Some(m) = &s.seek_transfer {
        seek_transfer(m, &mut paragraphs, &mut tables);
        let points = m
            .points
            .iter()
            .map(|p| (p.point.block_bytes, p.predicted_ios_per_s))
            .collect();
        rates.push(Curve {
            name: "seek + transfer, device requests".to_owned(),
            points,
            is_model: true,
        });
    }
    if let Some(m) = &s.page_cache {
        page_cache(m, &mut paragraphs, &mut tables);
        let points = m
            .points
            .iter()
            .map(|p| (p.block_bytes, p.predicted_ios_per_s))
            .collect();
        rates.push(Curve {
            name: "two-phase model".to_owned(),
            points,
            is_model: true,
        });
    }
    let flows = vec![
        measured(s, "fio", |r| r.bytes_per_s / MIB),
        measured(s, "device", |r| r.device_bytes_per_s / MIB),
    ];
    tables.push(identities_table(s));
    // Logarithmic axes show the small blocks, plain ones the large: each chart is drawn both ways.
    let mut figures = Vec::new();
    for (x_scale, y_scale) in [(Scale::LogBytes, Scale::Log), (Scale::Bytes, Scale::Linear)] {
        for (y, curves) in [("I/Os per second", &rates), ("MiB per second", &flows)] {
            let x = "block size (bytes)".to_owned();
            figures.push(Figure::Chart(Chart {
                x,
                y: y.to_owned(),
                x_scale,
                y_scale,
                curves: curves.clone(),
            }));
        }
    }
    Section {
        title: s.name.clone(),
        paragraphs,
        tables,
        figures,
        links: Vec::new(),
    }
}

/// `of` each block size.
fn measured(s: &SweepSeries, name: &str, of: fn(&SweepRow) -> f64) -> Curve {
    Curve {
        name: name.to_owned(),
        points: s.rows.iter().map(|r| (r.block_bytes, of(r))).collect(),
        is_model: false,
    }
}

/// What a model predicts of one block size, beside what was measured; rates per second.
struct Prediction {
    block_bytes: f64,
    measured: f64,
    predicted: f64,
    error_percent: f64,
    note: String,
}

fn predictions(name: &str, of: Vec<Prediction>, last: &str) -> Table {
    let columns = ["bs", "measured /s", "predicted /s", "error %", last];
    let mut rows = Vec::new();
    for p in of {
        rows.push(vec![
            bytes(p.block_bytes),
            format!("{:.1}", p.measured),
            format!("{:.1}", p.predicted),
            format!("{:+.2}", p.error_percent),
            p.note,
        ]);
    }
    Table {
        caption: Some(format!("{name}: predicted and measured")),
        folded: false,
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

fn seek_transfer(m: &SeekTransfer, paragraphs: &mut Vec<String>, tables: &mut Vec<Table>) {
    let (rate, seq, rand) = m.iocost();
    paragraphs.push(format!(
        "Seek + transfer: each I/O costs {} us and its bytes move at {} MB/s (95 %, jackknife).",
        interval(&m.a_s, 1e6, 1),
        interval(&m.rate_bytes_per_s, 1e-6, 1),
    ));
    paragraphs.push(format!(
        "As a linear cost model (blk-iocost): rbps={rate:.0} rseqiops={seq:.0} rrandiops={rand:.0}."
    ));
    let mut points = Vec::new();
    for p in &m.points {
        let measured = p.point.device_ios_per_s;
        let predicted = p.predicted_ios_per_s;
        // The error of the rate: that of the point is of the time per request.
        points.push(Prediction {
            block_bytes: p.point.block_bytes,
            measured,
            predicted,
            error_percent: 100.0 * (predicted / measured - 1.0),
            note: format!("{:.1}", 1e6 / measured),
        });
    }
    tables.push(predictions(
        "Seek + transfer (device requests)",
        points,
        "us per request",
    ));
}

fn page_cache(m: &PageCacheFit, paragraphs: &mut Vec<String>, tables: &mut Vec<Table>) {
    paragraphs.push(format!(
        "Two-phase page cache: a call costs {} us and memory gives {} GB/s (from runs on the cached file); the disk filled the cache at {} MB/s. Mean error {:.2} %, largest {:.2} %.",
        interval(&m.call_s, 1e6, 3),
        interval(&m.copy_bytes_per_s, 1e-9, 2),
        interval(&m.disk_bytes_per_s, 1e-6, 1),
        m.mean_abs_error_percent,
        m.max_abs_error_percent,
    ));
    let mut points = Vec::new();
    for p in &m.points {
        let regime = match p.regime {
            Regime::Cpu => "processor",
            Regime::DiskThenMemory => "disk, then memory",
            Regime::Disk => "disk",
        };
        points.push(Prediction {
            block_bytes: p.block_bytes,
            measured: p.measured_ios_per_s,
            predicted: p.predicted_ios_per_s,
            error_percent: p.error_percent,
            note: regime.to_owned(),
        });
    }
    tables.push(predictions(
        "Two-phase page cache (calls)",
        points,
        "limited by",
    ));
}
