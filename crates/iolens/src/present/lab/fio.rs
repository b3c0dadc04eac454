//! The document of a fio sweep, and its tables of data.

use iolens_core::model::DataTable;
use iolens_lab::fio::FioResult;
use iolens_lab::statistics::sweep::{
    Interval, PageCacheFit, Regime, RunPoint, SeekTransfer, SweepRow, SweepSeries, summarise,
};

use super::chart::{Chart, Curve, Figure, Scale, bytes};
use super::document::{Section, Table};
use crate::present::layout;

/// Series, by what their runs share.
pub fn series(results: &[(String, FioResult)]) -> Vec<SweepSeries> {
    let point = |(_, r): &(String, FioResult)| RunPoint {
        series: r.cell.series(),
        block_bytes: r.cell.bs as f64,
        facts: r.facts.clone(),
        warm: r.cell.warm,
        sequential_read: r.cell.reads_in_order(),
        file_bytes: r.file_bytes,
        disk_phase: r.disk_phase,
    };
    summarise(&results.iter().map(point).collect::<Vec<_>>())
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
    let rows: Vec<(&str, &SweepRow)> = all
        .iter()
        .flat_map(|s| s.rows.iter().map(move |r| (s.name.as_str(), r)))
        .collect();
    let number = |f: fn(&SweepRow) -> Option<f64>| rows.iter().map(|r| f(r.1)).collect::<Vec<_>>();
    DataTable::new(rows.len())
        .words("series", rows.iter().map(|r| r.0.to_owned()))
        .numbers("block_bytes", number(|r| Some(r.block_bytes)))
        .numbers("replicates", number(|r| Some(r.ios_per_s.n as f64)))
        .numbers("ios_per_s", number(|r| Some(r.ios_per_s.mean)))
        .numbers("ios_per_s_ci95", number(|r| r.ios_per_s.half_width))
        .numbers("bytes_per_s", number(|r| Some(r.bytes_per_s)))
        .numbers("device_ios_per_s", number(|r| Some(r.device_ios_per_s)))
        .numbers("device_bytes_per_s", number(|r| Some(r.device_bytes_per_s)))
        .numbers("request_bytes", number(|r| r.request_bytes))
        .numbers("queue_length", number(|r| Some(r.queue_length)))
        .numbers("await_ms", number(|r| r.await_ms))
        .numbers("util_percent", number(|r| Some(r.util_percent)))
        .words(
            "failed_identities",
            rows.iter().map(|r| r.1.failed.join(" ")),
        )
        .words("verdicts", rows.iter().map(|r| r.1.verdicts.join("; ")))
}

fn runs_data(results: &[(String, FioResult)]) -> DataTable {
    let number =
        |f: &dyn Fn(&FioResult) -> Option<f64>| results.iter().map(|r| f(&r.1)).collect::<Vec<_>>();
    let side = |i: usize, f: fn(&FioResult, usize) -> Option<f64>| number(&|r| f(r, i));
    let mut t = DataTable::new(results.len())
        .words("cell", results.iter().map(|r| r.0.clone()))
        .words("series", results.iter().map(|r| r.1.cell.series()))
        .words("device", results.iter().map(|r| r.1.device.clone()))
        .numbers("block_bytes", number(&|r| Some(r.cell.bs as f64)))
        .numbers("replicate", number(&|r| Some(f64::from(r.cell.replicate))))
        .numbers(
            "cached",
            number(&|r| Some(f64::from(u8::from(r.cell.warm)))),
        )
        .numbers("runtime_s", number(&|r| Some(r.facts.runtime_s)))
        .numbers("window_s", number(&|r| Some(r.facts.window_s)));
    for (i, name) in ["read", "write"].into_iter().enumerate() {
        t = t
            .numbers(
                &format!("fio_{name}_ios"),
                side(i, |r, i| Some(r.facts.app[i].ios)),
            )
            .numbers(
                &format!("fio_{name}_bytes"),
                side(i, |r, i| Some(r.facts.app[i].bytes)),
            )
            .numbers(
                &format!("fio_{name}_mean_us"),
                side(i, |r, i| r.facts.app[i].mean_us),
            )
            .numbers(
                &format!("device_{name}_ios"),
                side(i, |r, i| Some(r.facts.device[i].ios)),
            )
            .numbers(
                &format!("device_{name}_bytes"),
                side(i, |r, i| r.facts.device[i].bytes),
            )
            .numbers(
                &format!("device_{name}_merges"),
                side(i, |r, i| Some(r.facts.device[i].merges)),
            )
            .numbers(
                &format!("device_{name}_ticks_ms"),
                side(i, |r, i| Some(r.facts.device[i].ticks_ms)),
            )
            .numbers(
                &format!("others_{name}_ios"),
                side(i, |r, i| Some(r.facts.foreign[i].ios)),
            )
            .numbers(
                &format!("others_{name}_bytes"),
                side(i, |r, i| Some(r.facts.foreign[i].bytes)),
            );
    }
    t.numbers("in_queue_ms", number(&|r| r.facts.in_queue_ms))
        .numbers("io_ticks_ms", number(&|r| r.facts.io_ticks_ms))
        .numbers("fio_util_percent", number(&|r| r.facts.util_percent))
        .numbers("disk_phase_bytes", number(&|r| r.disk_phase.map(|p| p.0)))
        .numbers("disk_phase_s", number(&|r| r.disk_phase.map(|p| p.1)))
        .numbers("fio_user_percent", number(&|r| r.fio_cpu_percent.0))
        .numbers("fio_system_percent", number(&|r| r.fio_cpu_percent.1))
        .numbers("lost_ios", number(&|r| r.lost_ios.map(|n| n as f64)))
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
    let row = |r: &SweepRow| {
        vec![
            bytes(r.block_bytes),
            r.ios_per_s.n.to_string(),
            format!("{:.1}", r.ios_per_s.mean),
            layout::number(r.ios_per_s.half_width, 1),
            format!("{:.2}", r.bytes_per_s / 1_048_576.0),
            format!("{:.1}", r.device_ios_per_s),
            format!("{:.2}", r.device_bytes_per_s / 1_048_576.0),
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
    };
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: s.rows.iter().map(row).collect(),
        ..Table::default()
    }
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
    let row = |i: &iolens_lab::statistics::sweep::IdentityRow| {
        let short = |v: f64| {
            if v.abs() >= 1000.0 {
                format!("{v:.0}")
            } else {
                format!("{v:.3}")
            }
        };
        vec![
            bytes(i.block_bytes),
            i.id.clone(),
            i.text.to_owned(),
            short(i.left),
            short(i.right),
            layout::number(i.residual_percent, 3),
            short(i.tolerance),
            format!("{}/{}", i.holds, i.n),
        ]
    };
    Table {
        caption: Some(
            "Consistency checks: fio against the device, with residual and tolerance".to_owned(),
        ),
        folded: true,
        columns: columns.map(str::to_owned).to_vec(),
        rows: s.identities.iter().map(row).collect(),
    }
}

/// `1.2 [1.1, 1.3]`, or that one replicate says nothing of the interval.
fn interval(i: &Interval, scale: f64, decimals: usize) -> String {
    let f = |v: f64| format!("{:.decimals$}", v * scale);
    if i.low.is_finite() && i.high.is_finite() {
        format!("{} [{}, {}]", f(i.value), f(i.low), f(i.high))
    } else if i.low.is_finite() {
        format!("{} [{}, no upper bound]", f(i.value), f(i.low))
    } else {
        format!("{} (no interval: too few runs)", f(i.value))
    }
}

fn section(s: &SweepSeries) -> Section {
    let curve = |name: &str, is_model: bool, points: Vec<(f64, f64)>| Curve {
        name: name.to_owned(),
        points,
        is_model,
    };
    let measured = |f: fn(&SweepRow) -> f64| {
        s.rows
            .iter()
            .map(|r| (r.block_bytes, f(r)))
            .collect::<Vec<_>>()
    };
    let mut rates = vec![
        curve("fio", false, measured(|r| r.ios_per_s.mean)),
        curve("device requests", false, measured(|r| r.device_ios_per_s)),
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
    if let Some(m) = &s.seek_transfer {
        seek_transfer(m, &mut paragraphs, &mut tables);
        let points = m
            .points
            .iter()
            .map(|p| (p.point.block_bytes, p.predicted_ios_per_s))
            .collect();
        rates.push(curve("seek + transfer, device requests", true, points));
    }
    if let Some(m) = &s.page_cache {
        page_cache(m, &mut paragraphs, &mut tables);
        rates.push(curve(
            "two-phase model",
            true,
            m.points
                .iter()
                .map(|p| (p.block_bytes, p.predicted_ios_per_s))
                .collect(),
        ));
    }
    let mib = |f: fn(&SweepRow) -> f64| {
        s.rows
            .iter()
            .map(|r| (r.block_bytes, f(r) / 1_048_576.0))
            .collect::<Vec<_>>()
    };
    let flows = vec![
        curve("fio", false, mib(|r| r.bytes_per_s)),
        curve("device", false, mib(|r| r.device_bytes_per_s)),
    ];
    tables.push(identities_table(s));
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

fn predictions(
    name: &str,
    rows: impl Iterator<Item = (f64, f64, f64, f64, String)>,
    last: &str,
) -> Table {
    let columns = ["bs", "measured /s", "predicted /s", "error %", last];
    let row = |(bs, measured, predicted, error, note): (f64, f64, f64, f64, String)| {
        vec![
            bytes(bs),
            format!("{measured:.1}"),
            format!("{predicted:.1}"),
            format!("{error:+.2}"),
            note,
        ]
    };
    Table {
        caption: Some(format!("{name}: predicted and measured")),
        folded: false,
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.map(row).collect(),
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
    let row = |p: &iolens_lab::statistics::sweep::FitPoint| {
        let measured = p.point.device_ios_per_s;
        let predicted = p.predicted_ios_per_s;
        let us = format!("{:.1}", 1e6 / measured);
        (
            p.point.block_bytes,
            measured,
            predicted,
            100.0 * (predicted / measured - 1.0),
            us,
        )
    };
    tables.push(predictions(
        "Seek + transfer (device requests)",
        m.points.iter().map(row),
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
    let regime = |r: Regime| match r {
        Regime::Cpu => "processor",
        Regime::DiskThenMemory => "disk, then memory",
        Regime::Disk => "disk",
    };
    let row = |p: &iolens_lab::statistics::sweep::CachePoint| {
        (
            p.block_bytes,
            p.measured_ios_per_s,
            p.predicted_ios_per_s,
            p.error_percent,
            regime(p.regime).to_owned(),
        )
    };
    tables.push(predictions(
        "Two-phase page cache (calls)",
        m.points.iter().map(row),
        "limited by",
    ));
}
