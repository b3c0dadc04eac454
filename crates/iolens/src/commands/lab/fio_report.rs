//! The document of a fio sweep.

use iolens_core::analysis::sweep::{RunPoint, SweepRow, SweepSeries, summarise};

use crate::lab::fio::FioResult;
use crate::present::lab_document::{Chart, Curve, Section, Table};

/// Series, by what their runs share.
pub fn series(results: &[FioResult]) -> Vec<SweepSeries> {
    let point = |r: &FioResult| RunPoint {
        series: format!(
            "{} {} {} queue depth {}",
            r.cell.rw,
            r.cell.engine,
            if r.cell.direct { "direct" } else { "buffered" },
            r.cell.iodepth
        ),
        block_bytes: r.cell.bs as f64,
        facts: r.facts.clone(),
    };
    summarise(&results.iter().map(point).collect::<Vec<_>>())
}

/// A number, or `-` for what is not known.
fn or_dash(v: Option<f64>, decimals: usize) -> String {
    v.map_or_else(|| "-".to_owned(), |v| format!("{v:.decimals$}"))
}

/// The table of a series; also what `results.csv` holds.
pub fn table(all: &[SweepSeries]) -> Table {
    let columns = [
        "series",
        "bs",
        "n",
        "iops",
        "ci95",
        "MiB/s",
        "dev r+w/s",
        "dev MiB/s",
        "req KiB",
        "aqu-sz",
        "await ms",
        "%util",
        "failed",
        "verdict",
    ];
    let row = |s: &SweepSeries, r: &SweepRow| {
        vec![
            s.name.clone(),
            format!("{}", r.block_bytes),
            r.ios_per_s.n.to_string(),
            format!("{:.1}", r.ios_per_s.mean),
            or_dash(r.ios_per_s.half_width, 1),
            format!("{:.2}", r.bytes_per_s / 1_048_576.0),
            format!("{:.1}", r.device_ios_per_s),
            format!("{:.2}", r.device_bytes_per_s / 1_048_576.0),
            or_dash(r.request_bytes.map(|b| b / 1024.0), 1),
            format!("{:.2}", r.queue_length),
            or_dash(r.await_ms, 3),
            format!("{:.1}", r.util_percent),
            if r.failed.is_empty() { "-".to_owned() } else { r.failed.join(" ") },
            r.verdicts.join("; "),
        ]
    };
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: all.iter().flat_map(|s| s.rows.iter().map(move |r| row(s, r))).collect(),
    }
}

/// A section per series.
pub fn sections(all: &[SweepSeries]) -> Vec<Section> {
    all.iter().map(section).collect()
}

fn section(s: &SweepSeries) -> Section {
    let mut t = table(std::slice::from_ref(s));
    t.columns.remove(0);
    t.rows.iter_mut().for_each(|r| drop(r.remove(0)));
    // Sentences need a line of their own.
    t.columns.pop();
    t.rows.iter_mut().for_each(|r| drop(r.pop()));
    let measured = |name: &str, f: &dyn Fn(&SweepRow) -> f64| Curve {
        name: name.to_owned(),
        points: s.rows.iter().map(|r| (r.block_bytes, f(r))).collect(),
        model: false,
    };
    let mut curves = vec![measured("fio", &|r| r.ios_per_s.mean), measured("device", &|r| r.device_ios_per_s)];
    let mut paragraphs = Vec::new();
    if let Some(p) = &s.plateau {
        paragraphs.push(match p.breakpoint {
            Some(at) => format!("Plateau: {:.0} I/Os per second up to blocks of {:.0} bytes, then halved with every doubling (BIC gain {:.1}).", p.level, at, p.bic_gain),
            None => format!("No plateau ends within the sweep (one segment explains it as well; mean level {:.0}/s).", p.level),
        });
    }
    if let Some(m) = &s.seek_transfer {
        let (rate, seq, rand) = m.iocost();
        paragraphs.push(format!(
            "Seek + transfer: each I/O costs {:.1} us [{:.1}, {:.1}] and its bytes at {:.1} MB/s [{:.1}, {:.1}] (95 %, jackknife); worst point {:.1} % off.",
            m.a_s.value * 1e6,
            m.a_s.low * 1e6,
            m.a_s.high * 1e6,
            m.rate_bytes_per_s.value / 1e6,
            m.rate_bytes_per_s.low / 1e6,
            m.rate_bytes_per_s.high / 1e6,
            m.points.iter().map(|p| p.error_percent.abs()).fold(0.0, f64::max)
        ));
        paragraphs.push(format!("As a linear cost model: rbps={rate:.0} rseqiops={seq:.0} rrandiops={rand:.0}."));
        let points = m.points.iter().map(|p| (p.point.block_bytes, p.predicted_ios_per_s)).collect();
        curves.push(Curve { name: "model".to_owned(), points, model: true });
    }
    for r in &s.rows {
        paragraphs.extend(r.verdicts.iter().map(|v| format!("bs {}: {v}", r.block_bytes)));
    }
    let chart = |logarithmic| Chart {
        x: "block size (bytes)".to_owned(),
        y: "I/Os per second".to_owned(),
        logarithmic,
        curves: curves.clone(),
    };
    Section { title: s.name.clone(), paragraphs, table: Some(t), charts: vec![chart(true), chart(false)] }
}
