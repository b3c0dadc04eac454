//! `iolens lab fio`: a sweep, each run bracketed and recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use iolens_core::model::Origin;
use iolens_core::store::{IoColumns, Recording};

use super::cell::{bar, recorded};
use crate::cli::LabFio;
use crate::commands::record::Signals;
use crate::lab::bracket::Disk;
use crate::lab::experiment::{Experiment, Machine, Plan, random_order};
use crate::lab::fio::{FioCell, FioPlan, FioResult, measure};
use crate::lab::scratch::{LoopDisk, Registry, ScratchFile, has_program};

/// What fio works on.
enum Target {
    File(ScratchFile),
    Loop(LoopDisk),
    Given(PathBuf),
}

impl Target {
    fn path(&self) -> &Path {
        match self {
            Target::File(f) => &f.path,
            Target::Loop(l) => &l.device,
            Target::Given(p) => p,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// fio is missing, the target cannot be made, a run failed.
pub fn run(p: &LabFio) -> Result<u8> {
    if !has_program("fio") {
        bail!("fio is not installed; install it (Debian: apt-get install fio)");
    }
    for rw in &p.rw {
        if !["read", "write", "randread", "randwrite", "rw", "randrw"].contains(&rw.as_str()) {
            bail!("--rw {rw}: read, write, randread, randwrite, rw or randrw is wanted");
        }
    }
    if !(p.seconds > 0.0 && p.seconds < 1e6) || p.replicates == 0 || p.bs.contains(&0) {
        bail!("--seconds, --replicates and --bs must be above 0");
    }
    let plan = plan(p);
    let signals = Signals::catch()?;
    let whole = Plan { schema_version: 1, kind: "fio".to_owned(), seed: p.seed, machine: Machine::here(), plan };
    let experiment = Experiment::begin(&p.output, &whole)?;
    sweep(&experiment, &whole, &signals)?;
    super::report::run(experiment.dir(), false)
}

fn plan(p: &LabFio) -> FioPlan {
    let mut cells = Vec::new();
    for replicate in 0..p.replicates {
        for rw in &p.rw {
            for engine in &p.engine {
                for direct in &p.direct {
                    for iodepth in &p.iodepth {
                        for bs in &p.bs {
                            let (rw, engine) = (rw.clone(), engine.clone());
                            cells.push(FioCell {
                                bs: *bs,
                                rw,
                                engine,
                                direct: *direct == 1,
                                iodepth: *iodepth,
                                replicate,
                            });
                        }
                    }
                }
            }
        }
    }
    FioPlan {
        dir: p.dir.clone(),
        use_loop: p.use_loop,
        lose: p.i_will_lose_data.clone(),
        size: p.size,
        seconds: p.seconds,
        extra: p.extra.clone(),
        cells,
    }
}

fn sweep(experiment: &Experiment, whole: &Plan<FioPlan>, signals: &Signals) -> Result<()> {
    let plan = &whole.plan;
    let replicates: Vec<u32> = plan.cells.iter().map(|c| c.replicate).collect();
    let left: Vec<usize> =
        random_order(&replicates, whole.seed).into_iter().filter(|i| !experiment.is_done(*i)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let target = make_target(experiment, plan)?;
    let disk = Disk::under(target.path())?;
    let bar = bar(left.len());
    for id in left {
        let cell = &plan.cells[id];
        let label = format!(
            "fio {} bs={} {} direct={} qd={}",
            cell.rw,
            cell.bs,
            cell.engine,
            u8::from(cell.direct),
            cell.iodepth
        );
        bar.set_message(label.clone());
        if let Target::File(f) = &target {
            f.drop_cache().context("the scratch file's cache cannot be dropped")?;
        }
        let dir = experiment.fresh_cell(id)?;
        let recording = dir.join("rec.iolens");
        let ((), mut result) = {
            let (result, _) = recorded(recording.clone(), vec![disk.dev], signals, &label, |stop| {
                measure(plan, cell, target.path(), &disk, stop)
            })?;
            ((), result)
        };
        attribute(&recording, &mut result)?;
        experiment.finish_cell(id, &result)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn make_target(experiment: &Experiment, plan: &FioPlan) -> Result<Target> {
    if let Some(given) = &plan.lose {
        return Ok(Target::Given(given.clone()));
    }
    let registry = Registry::of(experiment.dir());
    let path = plan.dir.join(format!("iolens-lab-{}.scratch", std::process::id()));
    Ok(if plan.use_loop {
        Target::Loop(registry.loop_disk(&path, plan.size).context("no loop device can be made; leave out --loop")?)
    } else {
        Target::File(registry.file(&path, plan.size)?)
    })
}

/// Whose I/O it was besides fio's, from the recording; nothing if it has no single I/Os.
fn attribute(recording: &Path, result: &mut FioResult) -> Result<()> {
    let r = Recording::open(recording)?;
    let mut others: BTreeMap<String, f64> = BTreeMap::new();
    for batch in &mut r.ios(0..i64::MAX, IoColumns::ALL) {
        for io in &batch? {
            let bytes = io.bytes as f64;
            let name = io.comm.map(|c| c.to_text().into_owned()).unwrap_or_default();
            match io.origin {
                Origin::Metadata => result.facts.metadata_bytes += bytes,
                // Writeback is done by the kernel for whoever dirtied the page.
                Origin::Writeback => {}
                _ if name.is_empty() || name.starts_with("fio") || name.starts_with("kworker") => {}
                _ => *others.entry(name).or_default() += bytes,
            }
        }
    }
    result.facts.others = others.into_iter().collect();
    result.lost_ios = r.lost(0..i64::MAX).iter().filter(|l| l.reason.is_loss()).map(|l| l.ios).sum();
    Ok(())
}
