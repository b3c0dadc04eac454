//! `iolens lab copies`: the runs, and what they mean.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::anova::{Anova, jain_fairness, tukey_hsd, two_way};
use iolens_core::analysis::copies::{CellAverages, derive, doubts, two_means};
use serde_json::{Value, json};

use super::cell::{bar, recorded};
use crate::cli::LabCopies;
use crate::commands::record::Signals;
use crate::lab::bracket::Disk;
use crate::lab::copies::{CopiesPlan, CopyCell, CopyResult, Sample, Target, measure};
use crate::lab::experiment::{Experiment, Machine, Plan, random_order};
use crate::lab::scratch::{LoopDisk, Mount, Registry, ScratchFile, has_program, need_room};
use crate::present::lab_document::{Chart, Curve, Section, Table};

/// Room for a file system's own structures; XFS wants 300 MiB at least.
const FS_OVERHEAD: u64 = 320 << 20;

/// Runs the command.
///
/// # Errors
/// No target is possible, or a copy failed.
pub fn run(p: &LabCopies) -> Result<u8> {
    let mut targets: Vec<Target> = p.to.iter().cloned().map(Target::Dir).collect();
    for fs in &p.fs {
        match usable(fs) {
            Ok(()) => targets.push(Target::Loop(fs.clone())),
            Err(why) => eprintln!("iolens: {fs} is skipped: {why}"),
        }
    }
    if targets.is_empty() {
        bail!("no target: name directories with --to, or file systems with --fs (ext4, xfs, btrfs, vfat, ntfs)");
    }
    if p.copies.contains(&0) || p.replicates == 0 || p.size == 0 {
        bail!("--copies, --replicates and --size must be above 0");
    }
    let mut cells = Vec::new();
    for replicate in 0..p.replicates {
        for target in 0..targets.len() {
            cells.extend(p.copies.iter().map(|copies| CopyCell { target, copies: *copies, replicate }));
        }
    }
    let plan = CopiesPlan { dir: p.dir.clone(), file_bytes: p.size, sample_s: p.sample as f64 / 1e9, targets, cells };
    let signals = Signals::catch()?;
    let whole = Plan { schema_version: 1, kind: "copies".to_owned(), seed: p.seed, machine: Machine::here(), plan };
    let experiment = Experiment::begin(&p.output, &whole)?;
    copy_all(&experiment, &whole, &signals)?;
    super::report::run(experiment.dir(), false)
}

/// Whether a file system can be made and mounted here.
fn usable(fs: &str) -> Result<(), String> {
    if !["ext4", "xfs", "btrfs", "vfat", "ntfs"].contains(&fs) {
        return Err("ext4, xfs, btrfs, vfat or ntfs is wanted".to_owned());
    }
    if !has_program(&format!("mkfs.{fs}")) {
        return Err(format!("mkfs.{fs} is not installed"));
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let driver = if fs == "ntfs" { "ntfs3" } else { fs };
    let has = known.lines().any(|l| l.split_whitespace().next_back() == Some(driver));
    if has { Ok(()) } else { Err(format!("the kernel has no driver for {driver}")) }
}

/// A place to copy to, undone when dropped. The order of the fields is the order of undoing.
struct Place {
    mount: Option<Mount>,
    disk: Option<LoopDisk>,
    folder: Option<std::path::PathBuf>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // The folder is ours and empty unless a copy was interrupted; its copies are ours too.
        if let Some(folder) = &self.folder
            && let Err(e) = std::fs::remove_dir_all(folder)
        {
            eprintln!("iolens: {} cannot be removed: {e}", folder.display());
        }
        self.mount = None;
        self.disk = None;
    }
}

impl Place {
    fn dir(&self) -> &Path {
        self.mount.as_ref().map(Mount::point).or(self.folder.as_deref()).unwrap_or(Path::new("."))
    }
}

fn copy_all(experiment: &Experiment, whole: &Plan<CopiesPlan>, signals: &Signals) -> Result<()> {
    let plan = &whole.plan;
    let replicates: Vec<u32> = plan.cells.iter().map(|c| c.replicate).collect();
    let left: Vec<usize> =
        random_order(&replicates, whole.seed).into_iter().filter(|i| !experiment.is_done(*i)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let registry = Registry::of(experiment.dir());
    let most = u64::from(plan.cells.iter().map(|c| c.copies).max().unwrap_or(1)) * plan.file_bytes;
    need_room(&plan.dir, plan.file_bytes + most + most / 4 + FS_OVERHEAD)?;
    let source = registry.file(&plan.dir.join(format!("iolens-lab-{}.source", std::process::id())), plan.file_bytes)?;
    let bar = bar(left.len());
    for id in left {
        let cell = &plan.cells[id];
        let label = format!("{} copies to {}", cell.copies, plan.targets[cell.target].label());
        bar.set_message(label.clone());
        let dir = experiment.fresh_cell(id)?;
        let place = place(experiment, &registry, plan, cell, most)?;
        let disk = match &place.disk {
            Some(d) => Disk::under(&d.device)?,
            None => Disk::under(place.dir())?,
        };
        // The copies are to be limited by their target: the source comes from memory, in every cell alike.
        read_through(&source)?;
        let (result, _) = recorded(dir.join("rec.iolens"), vec![disk.dev], signals, &label, |stop| {
            measure(plan, cell, &source.path, place.dir(), &disk, stop)
        })?;
        std::fs::write(dir.join("data"), data_file(&result))?;
        std::fs::write(dir.join("averages"), averages_file(&result))?;
        experiment.finish_cell(id, &result)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn place(experiment: &Experiment, registry: &Registry, plan: &CopiesPlan, cell: &CopyCell, most: u64) -> Result<Place> {
    match &plan.targets[cell.target] {
        Target::Dir(dir) => {
            need_room(dir, u64::from(cell.copies) * plan.file_bytes)?;
            let folder = dir.join(format!("iolens-lab-{}", std::process::id()));
            std::fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
            Ok(Place { mount: None, disk: None, folder: Some(folder) })
        }
        Target::Loop(fs) => {
            let backing = plan.dir.join(format!("iolens-lab-{}.disk", std::process::id()));
            let disk =
                registry.loop_disk(&backing, most + most / 4 + FS_OVERHEAD).context("no loop device can be made")?;
            let mount = registry.mount(&disk, fs, &experiment.dir().join("mnt"))?;
            Ok(Place { mount: Some(mount), disk: Some(disk), folder: None })
        }
    }
}

fn read_through(source: &ScratchFile) -> Result<()> {
    std::io::copy(&mut std::fs::File::open(&source.path)?, &mut std::io::sink())?;
    Ok(())
}

/// All samples in order of time.
fn data_file(r: &CopyResult) -> String {
    let mut out =
        String::from("time_s seconds wMB/s w/s avgrq-sz avgqu-sz %util %user %nice %system %iowait %steal %idle\n");
    for s in &r.samples {
        let c = s.cpu_percent;
        let _ = writeln!(
            out,
            "{:.3} {:.3} {:.3} {:.3} {} {:.3} {:.3} {:.2} {:.2} {:.2} {:.2} {:.2} {:.2}",
            s.at_s,
            s.seconds,
            s.write_mb_per_s,
            s.writes_per_s,
            dash(s.request_sectors),
            s.queue_length,
            s.util_percent,
            c[0],
            c[1],
            c[2],
            c[3],
            c[4],
            c[5]
        );
    }
    out
}

fn dash(v: Option<f64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"))
}

/// Both kinds of mean: weighted by time, and plain over samples as logs of iostat are usually averaged.
fn averages_file(r: &CopyResult) -> String {
    let mut out = String::from("metric weighted plain_mean_of_samples\n");
    type OfSample = fn(&Sample) -> Option<f64>;
    let metrics: [(&str, OfSample); 5] = [
        ("wMB/s", |s| Some(s.write_mb_per_s)),
        ("w/s", |s| Some(s.writes_per_s)),
        ("avgrq-sz", |s| s.request_sectors),
        ("avgqu-sz", |s| Some(s.queue_length)),
        ("%util", |s| Some(s.util_percent)),
    ];
    for (name, f) in metrics {
        let samples: Vec<(f64, f64)> = r.samples.iter().filter_map(|s| Some((f(s)?, s.seconds))).collect();
        let plain = two_means(&samples).map(|m| m.plain);
        let _ = writeln!(out, "{name} {} {}", dash(f(&r.whole)), dash(plain));
    }
    let _ = writeln!(out, "elapsed_s {:.3} -\ndurable_s {:.3} -", r.elapsed_s, r.durable_s);
    out
}

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

type Metric = (&'static str, fn(&CopyResult) -> f64);

const METRICS: [Metric; 6] = [
    ("MB/s written", |r| r.whole.write_mb_per_s),
    ("Write requests per second", |r| r.whole.writes_per_s),
    ("Mean write request (sectors of 512 bytes)", |r| r.whole.request_sectors.unwrap_or(0.0)),
    ("Mean queue length", |r| r.whole.queue_length),
    ("Utilisation (%)", |r| r.whole.util_percent),
    ("MB/s while busy", |r| r.whole.write_mb_per_s / (r.whole.util_percent / 100.0).max(1e-9)),
];

/// Sections, the long table, and the summary as JSON.
pub fn render(results: &[CopyResult], file_mb: f64) -> (Vec<Section>, Table, Value) {
    let mut targets: Vec<(usize, String)> = results.iter().map(|r| (r.cell.target, r.target.clone())).collect();
    targets.sort();
    targets.dedup();
    let mut copies: Vec<u32> = results.iter().map(|r| r.cell.copies).collect();
    copies.sort_unstable();
    copies.dedup();
    let mut sections: Vec<Section> = METRICS.iter().map(|m| layout(results, &targets, &copies, m)).collect();
    let (anova_section, anova_json) = variance(results, &targets, &copies);
    sections.push(anova_section);
    sections.push(checks(results, file_mb));
    let long = long_table(results, file_mb);
    (sections, long, json!({ "anova_write_mb_per_s": anova_json, "cells": results }))
}

/// The published layout: copies by target.
fn layout(results: &[CopyResult], targets: &[(usize, String)], copies: &[u32], (name, f): &Metric) -> Section {
    let of = |t: usize, n: u32| -> Vec<f64> {
        results.iter().filter(|r| r.cell.target == t && r.cell.copies == n).map(f).collect()
    };
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let cell = |t: usize, n: u32| {
        let interval = iolens_core::analysis::anova::mean_interval(&of(t, n), 0.05);
        interval.map_or_else(
            || "-".to_owned(),
            |m| m.half_width.map_or_else(|| format!("{:.3}", m.mean), |h| format!("{:.3} ± {h:.3}", m.mean)),
        )
    };
    let mut columns = vec!["copies".to_owned()];
    columns.extend(targets.iter().map(|t| t.1.clone()));
    let row = |n: &u32| std::iter::once(n.to_string()).chain(targets.iter().map(|t| cell(t.0, *n))).collect();
    let curve = |t: &(usize, String)| Curve {
        name: t.1.clone(),
        points: copies.iter().map(|n| (f64::from(*n), mean(&of(t.0, *n)))).collect(),
        model: false,
    };
    let chart = Chart {
        x: "simultaneous copies".to_owned(),
        y: (*name).to_owned(),
        logarithmic: false,
        curves: targets.iter().map(curve).collect(),
    };
    Section {
        title: (*name).to_owned(),
        paragraphs: Vec::new(),
        table: Some(Table { columns, rows: copies.iter().map(row).collect() }),
        charts: vec![chart],
    }
}

fn variance(results: &[CopyResult], targets: &[(usize, String)], copies: &[u32]) -> (Section, Value) {
    let title = "Analysis of variance of MB/s".to_owned();
    let cells = |t: &(usize, String)| -> Vec<Vec<f64>> {
        let of = |n: &u32| {
            results
                .iter()
                .filter(|r| r.cell.target == t.0 && r.cell.copies == *n)
                .map(|r| r.whole.write_mb_per_s)
                .collect()
        };
        copies.iter().map(of).collect()
    };
    match two_way(&targets.iter().map(cells).collect::<Vec<_>>()) {
        Err(e) => {
            (Section { title, paragraphs: vec![format!("Not possible: {e}.")], ..Section::default() }, Value::Null)
        }
        Ok(a) => (anova_section(title, &a, targets), serde_json::to_value(&a).unwrap_or(Value::Null)),
    }
}

fn anova_section(title: String, a: &Anova, targets: &[(usize, String)]) -> Section {
    let row = |name: &str, s: &iolens_core::analysis::anova::Source| {
        let f = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
        vec![name.to_owned(), format!("{:.3}", s.ss), format!("{}", s.df), format!("{:.2}", s.percent), f(s.f), f(s.p)]
    };
    let mut rows = vec![row("target", &a.a), row("copies", &a.b)];
    rows.extend(a.interaction.iter().map(|i| row("target x copies", i)));
    rows.push(row("error", &a.error));
    rows.extend(a.non_additivity.iter().map(|n| row("non-additivity (of the error)", n)));
    let pair = |p: &iolens_core::analysis::anova::PairDifference| {
        format!(
            "{} - {}: {:.3} ± {:.3} MB/s, p = {:.2e} (Tukey)",
            targets[p.first].1, targets[p.second].1, p.difference, p.half_width, p.p
        )
    };
    let columns = ["source", "sum of squares", "df", "% of variation", "F", "p"].map(str::to_owned).to_vec();
    Section {
        title,
        paragraphs: tukey_hsd(a, 0.05).iter().map(pair).collect(),
        table: Some(Table { columns, rows }),
        charts: Vec::new(),
    }
}

fn checks(results: &[CopyResult], file_mb: f64) -> Section {
    let mut paragraphs = Vec::new();
    for r in results {
        let name = format!("{}, {} copies, replicate {}", r.target, r.cell.copies, r.cell.replicate + 1);
        let said = doubts(&averages(r), Some(r.durable_s), file_mb);
        paragraphs.extend(said.into_iter().map(|d| format!("{name}: {d}")));
    }
    if paragraphs.is_empty() {
        paragraphs.push("No cell says anything impossible.".to_owned());
    }
    Section { title: "Sanity checks".to_owned(), paragraphs, ..Section::default() }
}

fn long_table(results: &[CopyResult], file_mb: f64) -> Table {
    let columns = [
        "target",
        "copies",
        "replicate",
        "device",
        "write_mb_per_s",
        "writes_per_s",
        "request_sectors",
        "queue_length",
        "util_percent",
        "elapsed_s",
        "durable_s",
        "jain_fairness",
        "mb_per_busy_s",
        "write_await_ms",
        "cpu_user",
        "cpu_nice",
        "cpu_system",
        "cpu_iowait",
        "cpu_steal",
        "cpu_idle",
    ];
    let row = |r: &CopyResult| {
        let d = derive(&averages(r), file_mb);
        let rates: Vec<f64> = r.each_s.iter().map(|s| 1.0 / s.max(1e-9)).collect();
        let n = |v: f64| format!("{v:.4}");
        let o = |v: Option<f64>| v.map(n).unwrap_or_default();
        let mut cells =
            vec![r.target.clone(), r.cell.copies.to_string(), r.cell.replicate.to_string(), r.device.clone()];
        let w = &r.whole;
        cells.extend([
            n(w.write_mb_per_s),
            n(w.writes_per_s),
            o(w.request_sectors),
            n(w.queue_length),
            n(w.util_percent),
        ]);
        cells.extend([
            n(r.elapsed_s),
            n(r.durable_s),
            o(jain_fairness(&rates)),
            o(d.map(|d| d.mb_per_busy_s)),
            o(d.map(|d| d.write_await_ms)),
        ]);
        cells.extend(w.cpu_percent.map(n));
        cells
    };
    Table { columns: columns.map(str::to_owned).to_vec(), rows: results.iter().map(row).collect() }
}
