//! Runs a sweep of fio: each run is recorded between two readings of the device's counters, minus other processes'
//! I/O.

use std::collections::BTreeMap;
use std::path::Path;

use crate::statistics::identities::Foreign;
use anyhow::{Context as _, Result};
use iolens_core::model::{Io, KernelThread, Op, Origin};
use iolens_core::store::{IoColumns, Recording};

use crate::bracket::Disk;
use crate::claim::Claimed;
use crate::experiment::{Experiment, Plan, random_order};
use crate::fio::{FioPlan, FioResult, measure};
use crate::run::{Watcher, recorded, space_for_a_run};
use crate::scratch::{LoopDisk, ScratchFile, drop_cache, fill_cache};

/// The device or file on which fio runs.
enum FioTarget {
    File(ScratchFile),
    Loop(LoopDisk),
    Given(Claimed),
}

impl FioTarget {
    fn path(&self) -> &Path {
        match self {
            FioTarget::File(f) => &f.path,
            FioTarget::Loop(l) => &l.device,
            FioTarget::Given(c) => &c.path,
        }
    }
}

/// The remaining runs, in random order. Runs that the device cannot do are reported and skipped.
fn runs_left(experiment: &Experiment, whole: &Plan<FioPlan>) -> Vec<usize> {
    let replicates: Vec<u32> = whole.plan.cells.iter().map(|c| c.replicate).collect();
    random_order(&replicates, whole.seed)
        .into_iter()
        .filter(|i| !experiment.is_done(*i))
        .collect()
}

/// Runs the rest of a sweep: each run on a cold (or a cached) file between two readings of the counters, and
/// recorded. `given` is the device that the user allows to overwrite.
///
/// # Errors
/// The target cannot be created, a run failed, or the user interrupted.
pub fn run(
    experiment: &Experiment,
    whole: &Plan<FioPlan>,
    given: Option<Claimed>,
    watcher: &dyn Watcher,
) -> Result<()> {
    let plan = &whole.plan;
    let mut left = runs_left(experiment, whole);
    if left.is_empty() {
        return Ok(());
    }
    let target = make_target(experiment, plan, given)?;
    let disk = Disk::under(target.path())?;
    // Direct I/O must be in whole blocks of the disk, and the block size is only known once there is a target.
    let block = disk.queue("logical_block_size").unwrap_or(512.0) as u64;
    if let Some(i) = left.iter().find(|i| !plan.cells[**i].fits_blocks(block)) {
        let bs = plan.cells[*i].bs;
        experiment.warn(&format!(
            "direct I/O of {bs} bytes is skipped: {} takes multiples of {block}",
            disk.name
        ));
        left.retain(|i| plan.cells[*i].fits_blocks(block));
    }
    watcher.begin(left.len(), plan.seconds + 1.0);
    for id in left {
        let cell = &plan.cells[id];
        let label = format!(
            "{} bs={}{}",
            cell.series(),
            cell.bs,
            if cell.warm { ", cached" } else { "" }
        );
        watcher.run(&label);
        space_for_a_run(experiment.dir())?;
        // Every run starts with the same state of the page cache, independent of the previous run.
        drop_cache(target.path()).context("the page cache cannot be dropped")?;
        if cell.warm {
            fill_cache(target.path(), plan.size).context("the file cannot be read")?;
        }
        let recording = experiment.fresh_cell(id)?.join("rec.iolens");
        let (mut result, _) =
            recorded(recording.clone(), vec![disk.dev], watcher, &label, |stop| {
                measure(plan, cell, target.path(), &disk, stop)
            })?;
        attribute(
            &recording,
            !matches!(target, FioTarget::File(_)),
            &mut result,
        )?;
        experiment.finish_cell(id, &result)?;
        watcher.run_done();
    }
    watcher.end();
    Ok(())
}

fn make_target(
    experiment: &Experiment,
    plan: &FioPlan,
    given: Option<Claimed>,
) -> Result<FioTarget> {
    if let Some(given) = given {
        return Ok(FioTarget::Given(given));
    }
    let registry = experiment.registry();
    let path = plan
        .dir
        .join(format!("iolens-lab-{}.scratch", std::process::id()));
    Ok(if plan.use_loop {
        FioTarget::Loop(
            registry
                .loop_disk(&path, plan.size)
                .context("no loop device can be made; leave out --loop")?,
        )
    } else {
        FioTarget::File(registry.file(&path, plan.size)?)
    })
}

/// Whether an I/O is the application's: fio's own, or one of the kernel on its behalf.
fn is_of_fio(io: &Io, name: &str, on_raw_device: bool) -> bool {
    let is_by_worker = KernelThread::of(name.as_bytes()) == Some(KernelThread::Worker);
    match io.origin {
        // Under a file it is the file system's own I/O. On a device without a file system it is data, through the
        // page cache.
        Origin::Metadata | Origin::Journal if !on_raw_device => false,
        Origin::Metadata if is_by_worker => true,
        // Attributed to the process that dirtied the page; unknown for pages that were dirty before the recording.
        Origin::Writeback => name.is_empty() || name.starts_with("fio"),
        _ => name.is_empty() || name.starts_with("fio") || is_by_worker,
    }
}

/// I/O of others besides fio, from the recording; nothing if it has no single I/Os.
fn attribute(recording: &Path, on_raw_device: bool, result: &mut FioResult) -> Result<()> {
    let r = Recording::open(recording)?;
    let mut others: BTreeMap<String, f64> = BTreeMap::new();
    let mut foreign = [Foreign::default(); 2];
    let mut phase: Option<(i64, i64, f64)> = None;
    for batch in &mut r.ios(0..i64::MAX, IoColumns::ALL) {
        for io in &batch? {
            let bytes = io.bytes as f64;
            let name = io
                .comm
                .map(|c| c.to_text().into_owned())
                .unwrap_or_default();
            if is_of_fio(io, &name, on_raw_device) {
                if io.op == Op::READ {
                    let (from, to, sum) = phase.unwrap_or((io.start_ns(), io.done_ns, 0.0));
                    phase = Some((from.min(io.start_ns()), to.max(io.done_ns), sum + bytes));
                }
                continue;
            }
            if let Some(side) = [Op::READ, Op::WRITE].iter().position(|op| *op == io.op) {
                foreign[side].ios += 1.0;
                foreign[side].bytes += bytes;
            }
            let is_metadata = matches!(io.origin, Origin::Metadata | Origin::Journal);
            if is_metadata && !on_raw_device {
                result.facts.metadata_bytes += bytes;
            } else {
                *others.entry(name).or_default() += bytes;
            }
        }
    }
    result.facts.others = others.into_iter().collect();
    result.facts.foreign = foreign;
    result.disk_phase = phase.map(|(from, to, bytes)| (bytes, (to - from) as f64 / 1e9));
    result.lost_ios = r
        .lost(0..i64::MAX)
        .iter()
        .filter(|l| l.reason.is_loss())
        .map(|l| l.ios)
        .sum();
    Ok(())
}
