//! The document of `iolens lab poll`.

use std::collections::BTreeSet;

use iolens_core::analysis::counters::io_ticks::Regime;
use iolens_core::model::DataTable;
use iolens_lab::poll::{PollResult, Second};
use iolens_lab::statistics::poll::{BoxStats, ErrorBudget, box_stats};
use serde_json::{Value, json};

use super::Rendered;
use super::chart::{BoxChart, BoxMark, Figure, Scale};
use super::document::{Section, Table};
use crate::present::{estimator, layout};

type Way = (&'static str, fn(&PollResult) -> &Vec<f64>);

const WAYS: [Way; 3] = [
    ("/proc/diskstats opened each time", |r| &r.reopened_ns),
    ("/proc/diskstats kept open", |r| &r.kept_ns),
    ("one disk in sysfs, kept open", |r| &r.sysfs_ns),
];

/// What all cells say together.
pub fn render(results: &[PollResult], plan: &Value) -> Rendered {
    let hz = results.iter().find_map(|r| r.hz).unwrap_or(250);
    let release = plan["machine"]["kernel"].as_str().unwrap_or_default();
    let (within, all) = within_budget(results, hz);
    let sections = vec![
        latency(results),
        against_iostat(results, hz, within, all),
        against_exact(results, hz, release),
        kernels(results, release),
    ];
    Rendered {
        sections,
        results: json!({ "cells": results, "within_budget": within, "compared": all }),
        tables: vec![
            ("results", seconds_data(results)),
            ("latency", latency_data(results)),
            ("boxes", boxes_data(results)),
        ],
        method: method(plan),
        done: results.len(),
    }
}

fn method(plan: &Value) -> Vec<String> {
    let of_load = "fio kept as many 8 KiB direct I/Os in flight on each disk as a cell says (libaio, 75 % reads, randrw:1000: a new place every 1000 I/Os), its rate calibrated for the target utilisation.";
    vec![
        format!("{of_load} Each cell lasted {} s.", plan["plan"]["seconds"]),
        "The counters were polled at the instant when `iostat -dxy 1` had printed its rows, so that both cover the same second; each way of polling was timed 20 times a second under that load.".to_owned(),
        "The exact utilisation of a second is the union of all its I/Os in the recording, from the kernel's accounting start to completion. Seconds with a lost I/O have none.".to_owned(),
        "Budget against iostat: one tick of the kernel's clock, and a hundredth of a second, to which iostat knows its interval. Boxes reach from the first to the third quartile, whiskers to the last value within 1.5 box heights, + is the mean.".to_owned(),
    ]
}

/// All pairs of numbers of disks and workers.
fn groups(results: &[PollResult]) -> Vec<(usize, u32)> {
    let all: BTreeSet<(usize, u32)> = results
        .iter()
        .map(|r| (r.cell.disks, r.cell.workers))
        .collect();
    all.into_iter().collect()
}

fn disks_word(n: usize) -> String {
    if n == 1 {
        "1 disk".to_owned()
    } else {
        format!("{n} disks")
    }
}

fn targets(results: &[PollResult]) -> Vec<f64> {
    let mut all: Vec<f64> = results.iter().map(|r| r.cell.target_percent).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

fn columns(first: &str) -> Vec<String> {
    [
        first, "n", "mean", "q1", "median", "q3", "p99", "max", "outliers",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn box_row(name: String, b: Option<&BoxStats>, decimals: usize) -> Vec<String> {
    let mut row = vec![name];
    match b {
        Some(b) => {
            row.push(b.n.to_string());
            for value in [b.mean, b.q1, b.median, b.q3, b.p99, b.max] {
                row.push(format!("{value:.decimals$}"));
            }
            row.push(b.outliers.len().to_string());
        }
        None => row.extend(std::iter::repeat_n("-".to_owned(), 8)),
    }
    row
}

fn latency(results: &[PollResult]) -> Section {
    let mut chart = BoxChart {
        y: "latency of one poll (ns)".to_owned(),
        y_scale: Scale::Log,
        group_names: WAYS.map(|w| w.0.to_owned()).to_vec(),
        ..BoxChart::default()
    };
    let mut rows = Vec::new();
    for (disks, workers) in groups(results) {
        for (group, (way, f)) in WAYS.iter().enumerate() {
            let of = results
                .iter()
                .filter(|r| (r.cell.disks, r.cell.workers) == (disks, workers));
            let stats = box_stats(&of.flat_map(|r| f(r).iter().copied()).collect::<Vec<_>>());
            rows.push(box_row(
                format!("{}, {workers} workers: {way}", disks_word(disks)),
                stats.as_ref(),
                0,
            ));
            chart.boxes.extend(stats.map(|stats| BoxMark {
                name: format!("{disks} x\n{workers}"),
                group_index: group,
                stats,
            }));
        }
    }
    let fastest = rows.len();
    Section {
        title: "Latency of polling (ns)".to_owned(),
        paragraphs: vec![format!(
            "Reading and parsing, while the machine was under each cell's load: {fastest} combinations of disks x workers and way. Under the boxes: disks x, workers."
        )],
        tables: vec![Table {
            columns: columns("cell and way"),
            rows,
            ..Table::default()
        }],
        figures: vec![Figure::BoxChart(chart)],
        ..Section::default()
    }
}

type OfSecond = fn(&Second) -> Option<f64>;

fn differences<'a>(cells: impl Iterator<Item = &'a PollResult>, of: OfSecond) -> Option<BoxStats> {
    let all = cells
        .flat_map(|r| &r.seconds)
        .filter_map(|s| of(s).map(|v| (s.poll_percent - v).abs()));
    box_stats(&all.collect::<Vec<_>>())
}

/// Two box plots of |poll - `of`|: by disks and workers, and by utilisation aimed at.
fn difference_figures(
    results: &[PollResult],
    y: &str,
    of: OfSecond,
    lines: &[(String, f64)],
) -> Vec<Figure> {
    // Boxes of as many disks have one colour.
    let counts: BTreeSet<usize> = results.iter().map(|r| r.cell.disks).collect();
    let empty = BoxChart {
        y: y.to_owned(),
        group_names: counts.iter().map(|n| disks_word(*n)).collect(),
        lines: lines.to_vec(),
        ..BoxChart::default()
    };
    let mut by_workers = empty.clone();
    let mut by_target = empty;
    for (group_index, disks) in counts.into_iter().enumerate() {
        let of_disks: Vec<&PollResult> = results.iter().filter(|r| r.cell.disks == disks).collect();
        let worker_counts: BTreeSet<u32> = of_disks.iter().map(|r| r.cell.workers).collect();
        for workers in worker_counts {
            let cells = of_disks.iter().filter(|r| r.cell.workers == workers);
            let stats = differences(cells.copied(), of);
            by_workers.boxes.extend(stats.map(|stats| BoxMark {
                name: format!("{workers}\nworkers"),
                group_index,
                stats,
            }));
        }
        for target in targets(results) {
            let cells = of_disks.iter().filter(|r| r.cell.target_percent == target);
            let stats = differences(cells.copied(), of);
            by_target.boxes.extend(stats.map(|stats| BoxMark {
                name: format!("{target} %\nutil"),
                group_index,
                stats,
            }));
        }
    }
    vec![Figure::BoxChart(by_workers), Figure::BoxChart(by_target)]
}

fn difference_table(results: &[PollResult], of: OfSecond) -> Table {
    let mut rows = Vec::new();
    for r in results {
        let c = &r.cell;
        let name = format!(
            "{}, {} workers, {} %",
            disks_word(c.disks),
            c.workers,
            c.target_percent
        );
        let stats = differences(std::iter::once(r), of);
        rows.push(box_row(name, stats.as_ref(), 3));
    }
    Table {
        columns: columns("cell"),
        rows,
        ..Table::default()
    }
}

fn against_iostat(results: &[PollResult], hz: u32, within: usize, all: usize) -> Section {
    let budget = ErrorBudget::new(hz, 1.0, 100.0);
    let lines = [
        ("one tick".to_owned(), budget.tick_pp),
        ("budget at 100 %".to_owned(), budget.against_iostat_pp()),
    ];
    let said = if all == 0 {
        "iostat is not installed: there is nothing to compare with.".to_owned()
    } else {
        format!(
            "Both read the same counter: they may differ by one tick ({:.2}) and a hundredth of a second of the interval ({:.2} at 100 %). {within} of {all} seconds ({:.1} %) are within that.",
            budget.tick_pp,
            budget.interval_pp,
            100.0 * within as f64 / all as f64
        )
    };
    Section {
        title: "Polling against iostat (percentage points)".to_owned(),
        paragraphs: vec![said],
        tables: vec![difference_table(results, |s| s.iostat_percent)],
        figures: difference_figures(
            results,
            "|poll - iostat| (pp)",
            |s| s.iostat_percent,
            &lines,
        ),
        ..Section::default()
    }
}

fn against_exact(results: &[PollResult], hz: u32, release: &str) -> Section {
    let tick = ErrorBudget::new(hz, 1.0, 100.0).tick_pp;
    let compared = results
        .iter()
        .flat_map(|r| &r.seconds)
        .filter(|s| s.exact_percent.is_some())
        .count();
    let all: usize = results.iter().map(|r| r.seconds.len()).sum();
    let about = Regime::of_release(release)
        .map_or("the kernel's estimator is not known here", estimator::about);
    Section {
        title: "Error against exact (traced) utilisation (percentage points)".to_owned(),
        paragraphs: vec![
            format!(
                "The counter itself is an estimate: {about}. {compared} of {all} seconds have an exact value."
            ),
            "Agreement with iostat does not show this error: both read the same counter."
                .to_owned(),
        ],
        tables: vec![difference_table(results, |s| s.exact_percent)],
        figures: difference_figures(
            results,
            "|poll - exact| (pp)",
            |s| s.exact_percent,
            &[("one tick".to_owned(), tick)],
        ),
        ..Section::default()
    }
}

/// Signed errors of one generation of kernels over all seconds that `cells` have: its estimate less the exact value.
fn errors<'a>(cells: impl Iterator<Item = &'a PollResult>, kernels: &str) -> Vec<f64> {
    let mut errors = Vec::new();
    for second in cells.flat_map(|r| &r.seconds) {
        let estimate = estimate(second, kernels);
        if let Some((estimate, exact)) = estimate.zip(second.exact_percent) {
            errors.push(estimate - exact);
        }
    }
    errors
}

/// What the estimator of `kernels` would have said of the second.
fn estimate(second: &Second, kernels: &str) -> Option<f64> {
    let mut estimates = second.estimates_percent.iter();
    let (_, percent) = estimates.find(|(of, _)| of == kernels)?;
    Some(*percent)
}

fn kernels(results: &[PollResult], release: &str) -> Section {
    let mut names: Vec<String> = Vec::new();
    for e in results
        .iter()
        .flat_map(|r| &r.seconds)
        .flat_map(|s| &s.estimates_percent)
    {
        if !names.contains(&e.0) {
            names.push(e.0.clone());
        }
    }
    let aimed = targets(results);
    let mut chart = BoxChart {
        y: "%util less exact (pp)".to_owned(),
        group_names: names.clone(),
        ..BoxChart::default()
    };
    let mut rows = Vec::new();
    for (group, name) in names.iter().enumerate() {
        for t in &aimed {
            let of = errors(results.iter().filter(|r| r.cell.target_percent == *t), name);
            let Some(stats) = box_stats(&of) else {
                continue;
            };
            let spread = box_stats(&of.iter().map(|e| e.abs()).collect::<Vec<_>>());
            rows.push(vec![
                name.clone(),
                format!("{t} %"),
                stats.n.to_string(),
                format!("{:+.3}", stats.mean),
                format!("{:+.3}", stats.median),
                layout::number(spread.as_ref().map(|s| s.p99), 3),
                layout::number(spread.map(|s| s.max), 3),
            ]);
            chart.boxes.push(BoxMark {
                name: format!("{t} %\nutil"),
                group_index: group,
                stats,
            });
        }
    }
    let said = match rows.is_empty() {
        true => "There are no single I/Os to compute it from.".to_owned(),
        false => format!(
            "The kernel's estimator of busy time has changed several times. This is the error of each generation for the same I/Os (a port of its estimator, applied to the recording), beside this kernel's ({release})."
        ),
    };
    let headings = [
        "kernels",
        "utilisation",
        "n",
        "mean error",
        "median error",
        "p99 of |error|",
        "max of |error|",
    ];
    Section {
        title: "The error of each generation of kernels (percentage points)".to_owned(),
        paragraphs: vec![said],
        figures: if rows.is_empty() {
            Vec::new()
        } else {
            vec![Figure::BoxChart(chart)]
        },
        tables: vec![Table {
            columns: headings.map(str::to_owned).to_vec(),
            rows,
            ..Table::default()
        }],
        ..Section::default()
    }
}

/// Seconds whose difference to iostat the budget explains, of all that have one.
fn within_budget(results: &[PollResult], hz: u32) -> (usize, usize) {
    let mut within = 0;
    let mut all = 0;
    for second in results.iter().flat_map(|r| &r.seconds) {
        let Some(iostat_percent) = second.iostat_percent else {
            continue;
        };
        let length_s = (second.to_ns - second.from_ns) as f64 / 1e9;
        let budget = ErrorBudget::new(hz, length_s, second.poll_percent);
        let difference = (second.poll_percent - iostat_percent).abs();
        all += 1;
        if difference <= budget.against_iostat_pp() {
            within += 1;
        }
    }
    (within, all)
}

fn seconds_data(results: &[PollResult]) -> DataTable {
    let all: Vec<(&PollResult, &Second)> = results
        .iter()
        .flat_map(|r| r.seconds.iter().map(move |s| (r, s)))
        .collect();
    let mut t = DataTable::new(all.len())
        .numbers("disks", all.iter().map(|r| r.0.cell.disks as f64))
        .numbers("workers", all.iter().map(|r| f64::from(r.0.cell.workers)))
        .numbers(
            "target_percent",
            all.iter().map(|r| r.0.cell.target_percent),
        )
        .words("device", all.iter().map(|r| r.1.device.clone()))
        .numbers("from_ns", all.iter().map(|r| r.1.from_ns as f64))
        .numbers("to_ns", all.iter().map(|r| r.1.to_ns as f64))
        .numbers("poll_percent", all.iter().map(|r| r.1.poll_percent))
        .numbers("iostat_percent", all.iter().map(|r| r.1.iostat_percent))
        .numbers("exact_percent", all.iter().map(|r| r.1.exact_percent));
    // All seconds that have estimates have them of the same generations of kernels.
    let names: Vec<String> = all
        .iter()
        .map(|r| &r.1.estimates_percent)
        .find(|e| !e.is_empty())
        .into_iter()
        .flatten()
        .map(|e| e.0.clone())
        .collect();
    for name in &names {
        t = t.numbers(
            &format!("estimate_of_kernels_{}_percent", name.replace(' ', "_")),
            all.iter().map(|r| estimate(r.1, name)),
        );
    }
    t
}

/// Box statistics of the latency of every cell and way: the single values are in results.json.
fn boxes_data(results: &[PollResult]) -> DataTable {
    let rows: Vec<(&PollResult, &str, Option<BoxStats>)> = results
        .iter()
        .flat_map(|r| WAYS.iter().map(move |(way, f)| (r, *way, box_stats(f(r)))))
        .collect();
    let boxes: Vec<Option<&BoxStats>> = rows.iter().map(|r| r.2.as_ref()).collect();
    DataTable::new(rows.len())
        .numbers("disks", rows.iter().map(|r| r.0.cell.disks as f64))
        .numbers("workers", rows.iter().map(|r| f64::from(r.0.cell.workers)))
        .numbers(
            "target_percent",
            rows.iter().map(|r| r.0.cell.target_percent),
        )
        .words("way", rows.iter().map(|r| r.1.to_owned()))
        .numbers("n", boxes.iter().map(|b| Some((*b)?.n as f64)))
        .numbers("mean_ns", boxes.iter().map(|b| Some((*b)?.mean)))
        .numbers("q1_ns", boxes.iter().map(|b| Some((*b)?.q1)))
        .numbers("median_ns", boxes.iter().map(|b| Some((*b)?.median)))
        .numbers("q3_ns", boxes.iter().map(|b| Some((*b)?.q3)))
        .numbers("p99_ns", boxes.iter().map(|b| Some((*b)?.p99)))
        .numbers("max_ns", boxes.iter().map(|b| Some((*b)?.max)))
}

/// Every single poll's latency.
fn latency_data(results: &[PollResult]) -> DataTable {
    let rows: Vec<(&PollResult, &str, f64)> = results
        .iter()
        .flat_map(|r| {
            WAYS.iter()
                .flat_map(move |(way, f)| f(r).iter().map(move |ns| (r, *way, *ns)))
        })
        .collect();
    DataTable::new(rows.len())
        .numbers("disks", rows.iter().map(|r| r.0.cell.disks as f64))
        .numbers("workers", rows.iter().map(|r| f64::from(r.0.cell.workers)))
        .numbers(
            "target_percent",
            rows.iter().map(|r| r.0.cell.target_percent),
        )
        .words("way", rows.iter().map(|r| r.1.to_owned()))
        .numbers("latency_ns", rows.iter().map(|r| r.2))
}
