//! The documents of `iolens lab copies`: one per cell, and one of all.

use std::fmt::Write as _;

use iolens_core::model::DataTable;
use iolens_lab::copies::{CopyResult, CopySample};
use iolens_lab::copies_files::{SAMPLED, averages_of, dash};
use iolens_lab::statistics::anova::{
    Anova, MeanInterval, PairDifference, Source, jain_fairness, mean_interval, tukey_hsd, two_way,
};
use iolens_lab::statistics::copies::{CellAverages, derive, doubts};
use serde_json::{Map, Value, json};

use super::Rendered;
use super::chart::{Chart, Curve, Figure};
use super::document::{Document, Section, Table};
use crate::present::layout;

const CPU: [&str; 6] = ["user", "nice", "system", "iowait", "steal", "idle"];

fn averages(r: &CopyResult) -> CellAverages {
    CellAverages {
        copies: r.cell.copies,
        write_mb_per_s: r.whole.write_mb_per_s,
        writes_per_s: r.whole.writes_per_s,
        request_sectors: r.whole.request_sectors.unwrap_or(0.0),
        queue_length: r.whole.queue_length,
        util_percent: r.whole.util_percent,
    }
}

fn fairness(r: &CopyResult) -> Option<f64> {
    jain_fairness(
        &r.each_s
            .iter()
            .map(|s| 1.0 / s.max(1e-9))
            .collect::<Vec<_>>(),
    )
}

fn label(r: &CopyResult) -> String {
    let s = if r.cell.copies == 1 { "copy" } else { "copies" };
    format!(
        "{}, {} {s}, replicate {}",
        r.target,
        r.cell.copies,
        r.cell.replicate + 1
    )
}

/// Everything that is doubtful about a cell.
fn said_of(r: &CopyResult, file_mb: f64) -> Vec<String> {
    let mut out = doubts(&averages(r), Some(r.durable_s), file_mb);
    // The counter advances by ticks, of at most 10 ms: a short sample may get one that is not its own.
    let impossible = r
        .samples
        .iter()
        .filter(|s| s.util_percent > 100.5 + 1.0 / s.seconds)
        .map(|s| s.util_percent);
    if let Some(worst) = impossible
        .reduce(f64::max)
        .filter(|_| r.whole.util_percent <= 100.0)
    {
        out.push(format!(
            "a sample says {worst:.1} % utilisation: more than all the time there was"
        ));
    }
    if r.user_space_driver {
        out.push(
            "the file system's driver runs in user space: its own work is in the times".to_owned(),
        );
    }
    out
}

/// One cell as a document of its own.
pub fn cell_document(r: &CopyResult, file_mb: f64, facts: Vec<(String, String)>) -> Document {
    let links = Section {
        title: "Every I/O".to_owned(),
        paragraphs: vec!["The recording beside this file holds each of them: `iolens report rec.iolens`, `iolens zoom rec.iolens --step 10ms`.".to_owned()],
        links: vec![("data".to_owned(), "data".to_owned()), ("averages".to_owned(), "averages".to_owned()), ("all cells".to_owned(), "../../report.html".to_owned())],
        ..Section::default()
    };
    Document {
        title: label(r),
        facts,
        method: Vec::new(),
        sections: vec![
            watched_section(r),
            times_section(r, file_mb),
            checks_section(r, file_mb),
            links,
        ],
    }
}

/// The counters of the device over time, and their averages.
fn watched_section(r: &CopyResult) -> Section {
    let mut cpu = Vec::new();
    for (i, name) in CPU.into_iter().enumerate() {
        cpu.push(curve(r, name, |s| s.cpu_percent[i]));
    }
    let figures = vec![
        chart(
            "MB/s",
            vec![
                curve(r, "written", |s| s.write_mb_per_s),
                curve(r, "read", |s| s.read_mb_per_s),
            ],
        ),
        chart(
            "utilisation (%)",
            vec![curve(r, "%util", |s| s.util_percent)],
        ),
        chart(
            "queue length",
            vec![curve(r, "queue length", |s| s.queue_length)],
        ),
        chart("processor time (%)", cpu),
    ];
    let rows = averages_of(r)
        .into_iter()
        .map(|(name, w, p)| vec![name.to_owned(), dash(w), dash(p)])
        .collect();
    let means = Table {
        caption: Some("Averages".to_owned()),
        columns: ["metric", "weighted by time", "plain mean of samples"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        folded: false,
    };
    let data = samples_data(std::slice::from_ref(&(String::new(), r.clone())));
    Section {
        title: format!("{} as the device saw it", label(r)),
        figures,
        tables: vec![means, Table::of("data: every sample", &data)],
        ..Section::default()
    }
}

/// How long the copies took, all and each.
fn times_section(r: &CopyResult, file_mb: f64) -> Section {
    Section {
        title: "The copies".to_owned(),
        paragraphs: vec![format!(
            "All were copied after {:.3} s and on the disk after {:.3} s; Jain's fairness {}. {} MiB were free before.",
            r.elapsed_s,
            r.durable_s,
            dash(fairness(r)),
            r.free_bytes >> 20
        )],
        tables: vec![each_copy(r, file_mb)],
        ..Section::default()
    }
}

/// How far the figures can be trusted.
fn checks_section(r: &CopyResult, file_mb: f64) -> Section {
    let mut paragraphs = said_of(r, file_mb);
    if paragraphs.is_empty() {
        paragraphs.push("All sanity checks passed.".to_owned());
    }
    Section {
        title: "Sanity checks".to_owned(),
        paragraphs,
        ..Section::default()
    }
}

/// `of` each sample over time.
fn curve(r: &CopyResult, name: &str, of: impl Fn(&CopySample) -> f64) -> Curve {
    Curve {
        name: name.to_owned(),
        points: r.samples.iter().map(|s| (s.at_s, of(s))).collect(),
        is_model: false,
    }
}

fn chart(y: &str, curves: Vec<Curve>) -> Figure {
    Figure::Chart(Chart {
        x: "seconds since the copies began".to_owned(),
        y: y.to_owned(),
        curves,
        ..Chart::default()
    })
}

fn each_copy(r: &CopyResult, file_mb: f64) -> Table {
    let mut rows = Vec::new();
    for (i, seconds) in r.each_s.iter().enumerate() {
        let pieces = r.extents.get(i).copied().flatten();
        rows.push(vec![
            format!("{}", i + 1),
            format!("{seconds:.3}"),
            dash(r.each_durable_s.get(i).copied()),
            format!("{:.3}", file_mb / seconds.max(1e-9)),
            pieces.map_or_else(|| "-".to_owned(), |p| p.to_string()),
        ]);
    }
    Table {
        columns: [
            "copy",
            "cp exit (s)",
            "on the disk (s)",
            "MB/s to cp exit",
            "extents",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
        ..Table::default()
    }
}

type Metric = (&'static str, &'static str, fn(&CopyResult) -> f64);

/// Name, key in JSON, value.
const METRICS: [Metric; 8] = [
    ("MB/s written", "write_mb_per_s", |r| r.whole.write_mb_per_s),
    ("Write requests per second", "writes_per_s", |r| {
        r.whole.writes_per_s
    }),
    (
        "Mean write request (sectors of 512 bytes)",
        "request_sectors",
        |r| r.whole.request_sectors.unwrap_or(0.0),
    ),
    ("Mean queue length", "queue_length", |r| {
        r.whole.queue_length
    }),
    ("Utilisation (%)", "util_percent", |r| r.whole.util_percent),
    ("MB/s while busy", "mb_per_busy_s", |r| {
        r.whole.write_mb_per_s / (r.whole.util_percent / 100.0).max(1e-9)
    }),
    (
        "Seconds until all copies were on the disk",
        "durable_s",
        |r| r.durable_s,
    ),
    ("Jain's fairness among the copies", "jain_fairness", |r| {
        fairness(r).unwrap_or(1.0)
    }),
];

/// What all cells say together.
pub fn render(results: &[(String, CopyResult)], file_mb: f64, plan: &Value) -> Rendered {
    let cells: Vec<&CopyResult> = results.iter().map(|r| &r.1).collect();
    let mut targets: Vec<(usize, String)> = cells
        .iter()
        .map(|r| (r.cell.target, r.target.clone()))
        .collect();
    targets.sort();
    targets.dedup();
    let mut copies: Vec<u32> = cells.iter().map(|r| r.cell.copies).collect();
    copies.sort_unstable();
    copies.dedup();
    let mut sections = Vec::new();
    let mut analyses = Map::new();
    for metric in &METRICS {
        let mut s = layout(&cells, &targets, &copies, metric);
        let (value, said) = variance(&cells, &targets, &copies, metric, &mut s.tables);
        s.paragraphs = said;
        analyses.insert(metric.1.to_owned(), value);
        sections.push(s);
    }
    sections.push(checks(&cells, file_mb));
    sections.push(Section {
        title: "Every cell".to_owned(),
        links: results
            .iter()
            .map(|(id, r)| (label(r), format!("cells/{id}/report.html")))
            .collect(),
        ..Section::default()
    });
    Rendered {
        sections,
        results: json!({ "anova": analyses, "cells": cells }),
        tables: vec![
            ("results", cells_data(results, file_mb)),
            ("samples", samples_data(results)),
        ],
        method: method(plan, file_mb),
        done: results.len(),
    }
}

fn method(plan: &Value, file_mb: f64) -> Vec<String> {
    vec![
        format!("A file of {file_mb:.1} MiB of random bytes, read into memory first, was copied by as many `cp --reflink=never` at once as each cell says; each copy was timed to cp's exit and until its fsync returned, and the whole until the file system was synced."),
        "Scratch file systems were made anew for every cell on a loop device, mounted, and taken away; a folder of our own in a directory that was given is emptied.".to_owned(),
        format!("The disk's counters and the processors' were read every {} s and at the end; every I/O is in cells/*/rec.iolens.", plan["plan"]["sample_s"]),
        "MB are MiB, as iostat counts them. Intervals are 95 % by Student's t over replicates; analysis of variance with two factors and interaction (Jain, chapters 21 and 22), pairs by Tukey's honestly significant difference.".to_owned(),
        "MB/s while busy = MB/s / (%util / 100): what the disk gives while it works, whatever it waits for.".to_owned(),
    ]
}

fn of(cells: &[&CopyResult], target: usize, copies: u32, f: fn(&CopyResult) -> f64) -> Vec<f64> {
    cells
        .iter()
        .filter(|r| r.cell.target == target && r.cell.copies == copies)
        .map(|r| f(r))
        .collect()
}

/// The published layout: copies by target.
fn layout(
    cells: &[&CopyResult],
    targets: &[(usize, String)],
    copies: &[u32],
    (name, _, f): &Metric,
) -> Section {
    // The table has a row for each number of copies; the chart has a curve for each target.
    let mut columns = vec!["copies".to_owned()];
    columns.extend(targets.iter().map(|t| t.1.clone()));
    let mut rows = Vec::new();
    for n in copies {
        let mut row = vec![n.to_string()];
        for (target, _) in targets {
            row.push(interval_cell(&of(cells, *target, *n, *f)));
        }
        rows.push(row);
    }
    let mut curves = Vec::new();
    for (target, target_name) in targets {
        let mut points = Vec::new();
        for n in copies {
            let values = of(cells, *target, *n, *f);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            points.push((f64::from(*n), mean));
        }
        curves.push(Curve {
            name: target_name.clone(),
            points,
            is_model: false,
        });
    }
    let chart = Chart {
        x: "simultaneous copies".to_owned(),
        y: (*name).to_owned(),
        curves,
        ..Chart::default()
    };
    Section {
        title: (*name).to_owned(),
        tables: vec![Table {
            columns,
            rows,
            ..Table::default()
        }],
        figures: vec![Figure::Chart(chart)],
        ..Section::default()
    }
}

/// The mean of `values` with its interval.
fn interval_cell(values: &[f64]) -> String {
    match mean_interval(values, 0.05) {
        Some(mean) => mean_cell(&mean),
        None => "-".to_owned(),
    }
}

/// `mean ± half width`; an interval wider than its mean says only that there are too few replicates.
fn mean_cell(m: &MeanInterval) -> String {
    match m.half_width {
        None => format!("{:.3} (n = 1)", m.mean),
        Some(h) if h > m.mean.abs() => format!("{:.3} (n = {}: inconclusive)", m.mean, m.n),
        Some(h) => format!("{:.3} ± {h:.3}", m.mean),
    }
}

/// The analysis of a metric: as JSON, in sentences, and as tables.
fn variance(
    cells: &[&CopyResult],
    targets: &[(usize, String)],
    copies: &[u32],
    (_, _, f): &Metric,
    tables: &mut Vec<Table>,
) -> (Value, Vec<String>) {
    // Replicates by target, then by number of copies.
    let mut values = Vec::new();
    for (target, _) in targets {
        let by_copies: Vec<Vec<f64>> = copies.iter().map(|n| of(cells, *target, *n, *f)).collect();
        values.push(by_copies);
    }
    match two_way(&values) {
        Err(e) => (Value::Null, vec![format!("No analysis of variance: {e}.")]),
        Ok(a) => {
            let pairs = tukey_hsd(&a, 0.05);
            let said = in_words(&a, &pairs, targets);
            tables.push(anova_table(&a));
            tables.extend((!pairs.is_empty()).then(|| pairs_table(&pairs, targets)));
            (json!({ "two_way": a, "tukey_hsd": pairs }), said)
        }
    }
}

fn in_words(a: &Anova, pairs: &[PairDifference], targets: &[(usize, String)]) -> Vec<String> {
    let mut first = format!(
        "Variance explained: file system {:.1} %, copies {:.1} %",
        a.a.percent, a.b.percent
    );
    if let Some(i) = &a.interaction {
        let _ = write!(first, ", interaction {:.1} %", i.percent);
    }
    let _ = write!(first, ", residual {:.1} %.", a.error.percent);
    let apart: Vec<String> = pairs
        .iter()
        .filter(|p| p.p < 0.05)
        .map(|p| format!("{} and {}", targets[p.first].1, targets[p.second].1))
        .collect();
    let second = match (pairs.is_empty(), apart.is_empty()) {
        (true, _) => {
            "No comparison of file systems: a single replicate leaves no residual variance."
                .to_owned()
        }
        (false, true) => "No significant pair (Tukey HSD, alpha = 0.05).".to_owned(),
        (false, false) => format!(
            "Significant pairs (Tukey HSD, alpha = 0.05): {}.",
            apart.join(", ")
        ),
    };
    vec![first, second]
}

fn anova_table(a: &Anova) -> Table {
    let mut rows = vec![source_row("target", &a.a), source_row("copies", &a.b)];
    if let Some(interaction) = &a.interaction {
        rows.push(source_row("target x copies", interaction));
    }
    rows.push(source_row("error", &a.error));
    if let Some(part) = &a.non_additivity {
        rows.push(source_row("non-additivity (of the error)", part));
    }
    Table {
        caption: Some("Analysis of variance and allocation of variation".to_owned()),
        folded: true,
        columns: ["source", "sum of squares", "df", "% of variation", "F", "p"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }
}

/// What one source adds to the variation.
fn source_row(name: &str, s: &Source) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{:.4}", s.ss),
        format!("{}", s.df),
        format!("{:.2}", s.percent),
        layout::number(s.f, 3),
        s.p.map_or_else(|| "-".to_owned(), p_cell),
    ]
}

/// A p-value; a very small one with its power of ten.
fn p_cell(p: f64) -> String {
    if p < 1e-4 {
        format!("{p:.1e}")
    } else {
        format!("{p:.4}")
    }
}

fn pairs_table(pairs: &[PairDifference], targets: &[(usize, String)]) -> Table {
    let mut rows = Vec::new();
    for pair in pairs {
        let first = &targets[pair.first].1;
        let second = &targets[pair.second].1;
        rows.push(vec![
            format!("{first} - {second}"),
            format!("{:.4}", pair.difference),
            format!("{:.4}", pair.half_width),
            p_cell(pair.p),
        ]);
    }
    Table {
        caption: Some(
            "Tukey's honestly significant differences, 95 % for all pairs together".to_owned(),
        ),
        folded: true,
        columns: ["pair", "difference", "±", "p"].map(str::to_owned).to_vec(),
        rows,
    }
}

fn checks(cells: &[&CopyResult], file_mb: f64) -> Section {
    let mut paragraphs: Vec<String> = cells
        .iter()
        .flat_map(|r| {
            said_of(r, file_mb)
                .into_iter()
                .map(move |d| format!("{}: {d}", label(r)))
        })
        .collect();
    if paragraphs.is_empty() {
        paragraphs.push("All sanity checks passed.".to_owned());
    }
    Section {
        title: "Sanity checks".to_owned(),
        paragraphs,
        ..Section::default()
    }
}

fn cells_data(results: &[(String, CopyResult)], file_mb: f64) -> DataTable {
    let cells: Vec<&CopyResult> = results.iter().map(|(_, r)| r).collect();
    let mut t = DataTable::new(results.len())
        .words("cell", results.iter().map(|(id, _)| id.clone()))
        .words("target", cells.iter().map(|r| r.target.clone()))
        .words("device", cells.iter().map(|r| r.device.clone()))
        .numbers("copies", cells.iter().map(|r| f64::from(r.cell.copies)))
        .numbers(
            "replicate",
            cells.iter().map(|r| f64::from(r.cell.replicate)),
        );
    for (_, name, f) in METRICS {
        t = t.numbers(name, cells.iter().map(|r| f(r)));
    }
    t = t.numbers("elapsed_s", cells.iter().map(|r| r.elapsed_s));
    // A cell that wrote nothing has none of these.
    let mut derived = Vec::new();
    for r in &cells {
        derived.push(derive(&averages(r), file_mb));
    }
    t = t
        .numbers(
            "write_await_ms",
            derived.iter().map(|d| Some(d.as_ref()?.write_await_ms)),
        )
        .numbers(
            "service_ms",
            derived.iter().map(|d| Some(d.as_ref()?.service_ms)),
        )
        .numbers(
            "implied_request_sectors",
            derived.iter().map(|d| Some(d.as_ref()?.request_sectors)),
        )
        .numbers(
            "impossible_util",
            derived
                .iter()
                .map(|d| Some(f64::from(u8::from(d.as_ref()?.impossible_util)))),
        );
    for (i, name) in CPU.into_iter().enumerate() {
        t = t.numbers(
            &format!("cpu_{name}_percent"),
            cells.iter().map(|r| r.whole.cpu_percent[i]),
        );
    }
    t
}

/// Every sample of every cell.
pub fn samples_data(results: &[(String, CopyResult)]) -> DataTable {
    let all: Vec<(&str, &CopyResult, &CopySample)> = results
        .iter()
        .flat_map(|(id, r)| r.samples.iter().map(move |s| (id.as_str(), r, s)))
        .collect();
    let mut t = DataTable::new(all.len())
        .words("cell", all.iter().map(|r| r.0.to_owned()))
        .words("target", all.iter().map(|r| r.1.target.clone()))
        .numbers("copies", all.iter().map(|r| f64::from(r.1.cell.copies)))
        .numbers("time_s", all.iter().map(|r| r.2.at_s))
        .numbers("seconds", all.iter().map(|r| r.2.seconds));
    for (name, f) in SAMPLED {
        t = t.numbers(name, all.iter().map(|r| f(r.2)));
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_wider_than_its_mean_is_no_result() {
        let of = |values: &[f64]| mean_cell(&mean_interval(values, 0.05).expect("values"));
        assert_eq!(of(&[10.0, 2.0]), "6.000 (n = 2: inconclusive)");
        assert_eq!(of(&[6.0]), "6.000 (n = 1)");
        assert_eq!(of(&[6.0, 6.1]), "6.050 ± 0.635");
    }
}
