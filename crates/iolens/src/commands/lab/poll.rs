//! `iolens lab poll`: load on loop disks, polled, with the truth from every I/O beside it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::poll::{BoxStats, ErrorBudget, box_stats};
use iolens_core::model::DevId;
use iolens_core::store::{IoColumns, Recording};
use serde_json::{Value, json};

use super::cell::{bar, recorded};
use crate::cli::LabPoll;
use crate::commands::record::Signals;
use crate::lab::bracket::Disk;
use crate::lab::experiment::{Experiment, Machine, Plan, random_order};
use crate::lab::fio::run_fio;
use crate::lab::poll::{PollCell, PollPlan, PollResult, Second, measure};
use crate::lab::scratch::{LoopDisk, Registry, has_program};
use crate::present::lab_document::{Section, Table};

/// Runs the command.
///
/// # Errors
/// fio or loop devices are missing, or a cell failed.
pub fn run(p: &LabPoll) -> Result<u8> {
    if !has_program("fio") {
        bail!("fio is not installed; install it (Debian: apt-get install fio)");
    }
    if p.disks.contains(&0)
        || p.workers.contains(&0)
        || p.seconds == 0
        || p.target.iter().any(|t| !(0.0..=100.0).contains(t))
    {
        bail!("--disks, --workers and --seconds must be above 0, --target between 0 and 100");
    }
    let mut cells = Vec::new();
    for disks in &p.disks {
        for workers in &p.workers {
            cells.extend(p.target.iter().map(|t| PollCell { disks: *disks, workers: *workers, target_percent: *t }));
        }
    }
    let plan = PollPlan { dir: p.dir.clone(), size: p.size, seconds: p.seconds, cells };
    let signals = Signals::catch()?;
    let whole = Plan { schema_version: 1, kind: "poll".to_owned(), seed: p.seed, machine: Machine::here(), plan };
    let experiment = Experiment::begin(&p.output, &whole)?;
    poll_all(&experiment, &whole, &signals)?;
    super::report::run(experiment.dir(), false)
}

fn poll_all(experiment: &Experiment, whole: &Plan<PollPlan>, signals: &Signals) -> Result<()> {
    let plan = &whole.plan;
    let left: Vec<usize> =
        random_order(&vec![0; plan.cells.len()], whole.seed).into_iter().filter(|i| !experiment.is_done(*i)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let most = plan.cells.iter().map(|c| c.disks).max().unwrap_or(1);
    let registry = Registry::of(experiment.dir());
    let mut loops: Vec<LoopDisk> = Vec::new();
    for i in 0..most {
        let path = plan.dir.join(format!("iolens-lab-{}-{i}.disk", std::process::id()));
        loops.push(registry.loop_disk(&path, plan.size).context("no loop device can be made")?);
    }
    let disks: Vec<Disk> = loops.iter().map(|l| Disk::under(&l.device)).collect::<std::io::Result<_>>()?;
    let bar = bar(left.len());
    for id in left {
        let cell = &plan.cells[id];
        let label = format!("{} disks, {} workers, {} %", cell.disks, cell.workers, cell.target_percent);
        bar.set_message(label.clone());
        let dir = experiment.fresh_cell(id)?;
        let (loops, disks) = (&loops[..cell.disks], &disks[..cell.disks]);
        let rate = calibrate(cell, loops)?;
        let recording = dir.join("rec.iolens");
        let watched = disks.iter().map(|d| d.dev).collect();
        let (mut result, _) = recorded(recording.clone(), watched, signals, &label, |stop| {
            std::thread::scope(|s| {
                let load = s.spawn(|| run_fio(&load_words(cell, loops, plan.seconds + 4, rate), stop));
                // fio needs a moment to start; the first second that is compared begins after it.
                std::thread::sleep(std::time::Duration::from_millis(700));
                let polled = measure(plan, cell, disks, whole.machine.hz, stop);
                match load.join() {
                    Ok(Ok(_)) => polled,
                    Ok(Err(e)) => polled.and(Err(e)),
                    Err(_) => bail!("the load panicked"),
                }
            })
        })?;
        fill_truth(&recording, disks, &mut result.seconds)?;
        experiment.finish_cell(id, &result)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// 75 % reads in random runs of 1000, as the published comparison drove its disks.
fn load_words(cell: &PollCell, loops: &[LoopDisk], seconds: u32, rate: Option<f64>) -> Vec<String> {
    let mut words: Vec<String> = [
        "--rw=randrw:1000",
        "--rwmixread=75",
        "--bs=8k",
        "--ioengine=libaio",
        "--direct=1",
        "--norandommap",
        "--time_based",
        "--output-format=json",
        "--group_reporting",
    ]
    .map(str::to_owned)
    .to_vec();
    words.push(format!("--iodepth={}", cell.workers));
    words.push(format!("--runtime={seconds}"));
    if let Some(r) = rate {
        words.push(format!("--rate_iops={:.0},{:.0}", (0.75 * r).max(1.0), (0.25 * r).max(1.0)));
    }
    for (i, l) in loops.iter().enumerate() {
        words.push(format!("--name=disk{i}"));
        words.push(format!("--filename={}", l.device.display()));
    }
    words
}

/// I/Os per second and disk that make the utilisation aimed at; `None`: as many as there can be.
///
/// Found by trial: utilisation is not proportional to the rate where I/Os overlap.
fn calibrate(cell: &PollCell, loops: &[LoopDisk]) -> Result<Option<f64>> {
    if cell.target_percent >= 100.0 {
        return Ok(None);
    }
    let disk = Disk::under(&loops[0].device)?;
    let never = std::sync::atomic::AtomicBool::new(false);
    let (mut low, mut high): (f64, f64) = (1.0, 40_000.0);
    let mut best = 100.0;
    for _ in 0..4 {
        let rate = (low * high).sqrt();
        let before = disk.read()?;
        run_fio(&load_words(cell, loops, 1, Some(rate)), &never)?;
        let b = crate::lab::bracket::Bracket::between(&before, &disk.read()?);
        // fio takes a while to start and end: its own second of load is what counts.
        let util = (b.io_ticks_ms / 10.0).min(100.0);
        best = rate;
        if util < cell.target_percent { low = rate } else { high = rate }
    }
    Ok(Some(best))
}

/// Exact busy time of each second from the I/Os of the recording; nothing if it has counters only or lost some.
fn fill_truth(recording: &Path, disks: &[Disk], seconds: &mut [Second]) -> Result<()> {
    let r = Recording::open(recording)?;
    let Some(zero) = r.meta().start_monotonic_ns else { return Ok(()) };
    if r.ios_stored() == 0 || r.lost(0..i64::MAX).iter().any(|l| l.reason.is_loss()) {
        return Ok(());
    }
    let mut spans: BTreeMap<DevId, Vec<(i64, i64)>> = BTreeMap::new();
    for batch in &mut r.ios(0..i64::MAX, IoColumns::QUEUE) {
        for io in &batch? {
            spans.entry(io.dev).or_default().push((io.start_ns() + zero, io.done_ns + zero));
        }
    }
    for list in spans.values_mut() {
        *list = union(list);
    }
    for s in seconds {
        let Some(dev) = disks.iter().find(|d| d.name == s.device).map(|d| d.dev) else { continue };
        let list = spans.get(&dev).map(Vec::as_slice).unwrap_or_default();
        let from = list.partition_point(|x| x.1 <= s.from_ns);
        let inside = list[from..].iter().take_while(|x| x.0 < s.to_ns);
        let busy: i64 = inside.map(|x| x.1.min(s.to_ns) - x.0.max(s.from_ns)).sum();
        s.exact_percent = Some(100.0 * busy as f64 / (s.to_ns - s.from_ns) as f64);
    }
    Ok(())
}

/// Overlapping spans joined, in order.
fn union(spans: &mut [(i64, i64)]) -> Vec<(i64, i64)> {
    spans.sort_unstable();
    let mut out: Vec<(i64, i64)> = Vec::new();
    for s in spans.iter() {
        match out.last_mut() {
            Some(last) if s.0 <= last.1 => last.1 = last.1.max(s.1),
            _ => out.push(*s),
        }
    }
    out
}

fn box_row(name: String, b: Option<BoxStats>, decimals: usize) -> Vec<String> {
    let mut row = vec![name];
    let f = |v: f64| format!("{v:.decimals$}");
    match b {
        Some(b) => row.extend([
            b.n.to_string(),
            f(b.mean),
            f(b.q1),
            f(b.median),
            f(b.q3),
            f(b.p99),
            f(b.max),
            b.outliers.len().to_string(),
        ]),
        None => row.extend(std::iter::repeat_n("-".to_owned(), 8)),
    }
    row
}

/// Sections, the long table, and the summary as JSON.
pub fn render(results: &[PollResult]) -> (Vec<Section>, Table, Value) {
    let name =
        |r: &PollResult| format!("{} disks, {} workers, {} %", r.cell.disks, r.cell.workers, r.cell.target_percent);
    let columns =
        |first: &str| [first, "n", "mean", "q1", "median", "q3", "p99", "max", "outliers"].map(str::to_owned).to_vec();
    type Way = (&'static str, fn(&PollResult) -> &Vec<f64>);
    let ways: [Way; 3] = [
        ("file opened each time", |r| &r.reopened_ns),
        ("file kept open", |r| &r.kept_ns),
        ("one disk in sysfs, kept open", |r| &r.sysfs_ns),
    ];
    let mut latency = Vec::new();
    for r in results {
        latency.extend(ways.iter().map(|(way, f)| box_row(format!("{}: {way}", name(r)), box_stats(f(r)), 0)));
    }
    let difference = |r: &PollResult, f: &dyn Fn(&Second) -> Option<f64>| {
        box_stats(&r.seconds.iter().filter_map(|s| f(s).map(|v| (s.poll_percent - v).abs())).collect::<Vec<_>>())
    };
    let against = |title: &str, text: String, f: &dyn Fn(&Second) -> Option<f64>| Section {
        title: title.to_owned(),
        paragraphs: vec![text],
        table: Some(Table {
            columns: columns("cell"),
            rows: results.iter().map(|r| box_row(name(r), difference(r, f), 3)).collect(),
        }),
        charts: Vec::new(),
    };
    let hz = results.iter().find_map(|r| r.hz).unwrap_or(250);
    let budget = ErrorBudget::new(hz, 1.0, 100.0);
    let (within, all) = within_budget(results, hz);
    let sections = vec![
        Section {
            title: "Latency of polling (ns)".to_owned(),
            paragraphs: vec!["Reading and parsing; the machine was under the cell's load.".to_owned()],
            table: Some(Table { columns: columns("cell and way"), rows: latency }),
            charts: Vec::new(),
        },
        against(
            "Polling against iostat (percentage points)",
            format!(
                "Both read the same counter: they may differ by one tick ({:.2}) and a hundredth of a second ({:.2} at 100 %). {within} of {all} seconds are within it.",
                budget.tick_pp, budget.interval_pp
            ),
            &|s| s.iostat_percent,
        ),
        against(
            "Polling against the truth from every I/O (percentage points)",
            "The kernel samples busy time by ticks; the exact value is the union of all I/Os.".to_owned(),
            &|s| s.exact_percent,
        ),
    ];
    (sections, long_table(results), json!({ "cells": results, "within_budget": within, "compared": all }))
}

/// Seconds whose difference to iostat the budget explains, of all that have one.
fn within_budget(results: &[PollResult], hz: u32) -> (usize, usize) {
    let all: Vec<&Second> = results.iter().flat_map(|r| &r.seconds).filter(|s| s.iostat_percent.is_some()).collect();
    let fits = |s: &&&Second| {
        let allowed = ErrorBudget::new(hz, (s.to_ns - s.from_ns) as f64 / 1e9, s.poll_percent).against_iostat_pp();
        s.iostat_percent.is_some_and(|i| (s.poll_percent - i).abs() <= allowed)
    };
    (all.iter().filter(fits).count(), all.len())
}

fn long_table(results: &[PollResult]) -> Table {
    let columns = [
        "disks",
        "workers",
        "target_percent",
        "device",
        "from_ns",
        "to_ns",
        "poll_percent",
        "iostat_percent",
        "exact_percent",
    ];
    let mut rows = Vec::new();
    for r in results {
        let o = |v: Option<f64>| v.map(|v| format!("{v:.4}")).unwrap_or_default();
        rows.extend(r.seconds.iter().map(|s| {
            vec![
                r.cell.disks.to_string(),
                r.cell.workers.to_string(),
                r.cell.target_percent.to_string(),
                s.device.clone(),
                s.from_ns.to_string(),
                s.to_ns.to_string(),
                o(Some(s.poll_percent)),
                o(s.iostat_percent),
                o(s.exact_percent),
            ]
        }));
    }
    Table { columns: columns.map(str::to_owned).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ios_count_once() {
        assert_eq!(union(&mut [(5, 9), (0, 3), (2, 4), (9, 10)]), [(0, 4), (5, 10)]);
    }
}
