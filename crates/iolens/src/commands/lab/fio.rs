//! `iolens lab fio`: a sweep, each run bracketed and recorded.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::identities::Foreign;
use iolens_core::model::{Io, Op, Origin};
use iolens_core::store::{IoColumns, Recording};

use super::cell::{bar, recorded, room_for_a_cell};
use crate::cli::{FioSweep, LabFio};
use crate::commands::record::Signals;
use crate::lab::bracket::Disk;
use crate::lab::claim::{Claimed, claim};
use crate::lab::experiment::{Experiment, Machine, Plan, random_order};
use crate::lab::fio::{FioCell, FioPlan, FioResult, measure};
use crate::lab::scratch::{LoopDisk, Registry, ScratchFile, drop_cache, fill_cache, has_program};

/// What fio works on.
enum Target {
    File(ScratchFile),
    Loop(LoopDisk),
    Given(Claimed),
}

impl Target {
    fn path(&self) -> &Path {
        match self {
            Target::File(f) => &f.path,
            Target::Loop(l) => &l.device,
            Target::Given(c) => &c.path,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// fio is missing, the target cannot be made, a run failed.
pub fn run(options: &LabFio) -> Result<u8> {
    let sweep = options.resolve()?;
    if !has_program("fio") {
        bail!("fio is not installed; install it (Debian: apt-get install fio)");
    }
    // Looked at before anything is made, and held until the end.
    let given = sweep.i_will_lose_data.as_deref().map(claim).transpose()?;
    let plan = plan(&sweep, given.as_ref());
    let signals = Signals::catch()?;
    let whole = Plan { schema_version: 1, kind: "fio".to_owned(), seed: sweep.seed, machine: Machine::here(), plan };
    let experiment = Experiment::begin(&sweep.output, &whole)?;
    run_cells(&experiment, &whole, given, &signals)?;
    super::report::run(experiment.dir(), false)
}

fn plan(p: &FioSweep, given: Option<&Claimed>) -> FioPlan {
    let mut cells = Vec::new();
    for replicate in 0..p.replicates {
        for rw in &p.rw {
            for engine in &p.engine {
                for direct in &p.direct {
                    for iodepth in &p.iodepth {
                        let cell = |bs: u64, warm: bool| FioCell {
                            bs,
                            rw: rw.clone(),
                            engine: engine.clone(),
                            direct: *direct,
                            iodepth: *iodepth,
                            replicate,
                            warm,
                        };
                        cells.extend(p.bs.iter().map(|bs| cell(*bs, false)));
                        cells.extend(warm_sizes(p, rw, *direct).map(|bs| cell(bs, true)));
                    }
                }
            }
        }
    }
    FioPlan {
        dir: p.dir.clone(),
        use_loop: p.use_loop,
        lose: p.i_will_lose_data.clone(),
        size: given.map_or(p.size, |g| p.size.min(g.bytes)),
        seconds: p.seconds,
        extra: p.extra.clone(),
        cells,
    }
}

/// Block sizes to be run on a cached file as well: the two-phase model takes its times from them.
fn warm_sizes(p: &FioSweep, rw: &str, direct: bool) -> impl Iterator<Item = u64> {
    let (small, large) = (p.bs.iter().min().copied(), p.bs.iter().max().copied());
    let wanted = rw == "read" && !direct && small < large;
    [small, large].into_iter().flatten().filter(move |_| wanted)
}

/// Which runs are left, in random order; those that the device cannot do are named and left out.
fn runs_left(experiment: &Experiment, whole: &Plan<FioPlan>) -> Vec<usize> {
    let replicates: Vec<u32> = whole.plan.cells.iter().map(|c| c.replicate).collect();
    random_order(&replicates, whole.seed).into_iter().filter(|i| !experiment.is_done(*i)).collect()
}

fn run_cells(experiment: &Experiment, whole: &Plan<FioPlan>, given: Option<Claimed>, signals: &Signals) -> Result<()> {
    let plan = &whole.plan;
    let mut left = runs_left(experiment, whole);
    if left.is_empty() {
        return Ok(());
    }
    let target = make_target(experiment, plan, given)?;
    let disk = Disk::under(target.path())?;
    let block = disk.queue("logical_block_size").unwrap_or(512.0) as u64;
    let possible = |i: &usize| !plan.cells[*i].direct || plan.cells[*i].bs.is_multiple_of(block);
    if let Some(i) = left.iter().find(|i| !possible(i)) {
        let bs = plan.cells[*i].bs;
        eprintln!("iolens: direct I/O of {bs} bytes is skipped: {} takes multiples of {block}", disk.name);
        left.retain(possible);
    }
    let bar = bar(left.len(), plan.seconds + 1.0);
    for id in left {
        let cell = &plan.cells[id];
        let label = format!("{} bs={}{}", cell.series(), cell.bs, if cell.warm { ", cached" } else { "" });
        bar.set_message(label.clone());
        room_for_a_cell(experiment.dir())?;
        drop_cache(target.path()).context("the page cache cannot be dropped")?;
        if cell.warm {
            fill_cache(target.path(), plan.size).context("the file cannot be read")?;
        }
        let recording = experiment.fresh_cell(id)?.join("rec.iolens");
        let (mut result, _) = recorded(recording.clone(), vec![disk.dev], signals, &label, |stop| {
            measure(plan, cell, target.path(), &disk, stop)
        })?;
        attribute(&recording, !matches!(target, Target::File(_)), &mut result)?;
        experiment.finish_cell(id, &result)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn make_target(experiment: &Experiment, plan: &FioPlan, given: Option<Claimed>) -> Result<Target> {
    if let Some(given) = given {
        return Ok(Target::Given(given));
    }
    let registry = Registry::of(experiment.dir());
    let path = plan.dir.join(format!("iolens-lab-{}.scratch", std::process::id()));
    Ok(if plan.use_loop {
        Target::Loop(registry.loop_disk(&path, plan.size).context("no loop device can be made; leave out --loop")?)
    } else {
        Target::File(registry.file(&path, plan.size)?)
    })
}

/// Whether an I/O is the application's: fio's own, or what the kernel does for it.
fn is_of_fio(io: &Io, name: &str, on_raw_device: bool) -> bool {
    match io.origin {
        // Below a file it is the file system's own; on a device without one it is the data, through the page cache.
        Origin::Metadata if !on_raw_device => false,
        Origin::Metadata if name.starts_with("kworker") => true,
        // By whoever dirtied the page; nobody is known of pages that were dirty before the recording.
        Origin::Writeback => name.is_empty() || name.starts_with("fio"),
        _ => name.is_empty() || name.starts_with("fio") || name.starts_with("kworker"),
    }
}

/// Whose I/O it was besides fio's, from the recording; nothing if it has no single I/Os.
fn attribute(recording: &Path, on_raw_device: bool, result: &mut FioResult) -> Result<()> {
    let r = Recording::open(recording)?;
    let mut others: BTreeMap<String, f64> = BTreeMap::new();
    let mut foreign = [Foreign::default(); 2];
    let mut phase: Option<(i64, i64, f64)> = None;
    for batch in &mut r.ios(0..i64::MAX, IoColumns::ALL) {
        for io in &batch? {
            let bytes = io.bytes as f64;
            let name = io.comm.map(|c| c.to_text().into_owned()).unwrap_or_default();
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
            if io.origin == Origin::Metadata && !on_raw_device {
                result.facts.metadata_bytes += bytes;
            } else {
                *others.entry(name).or_default() += bytes;
            }
        }
    }
    result.facts.others = others.into_iter().collect();
    result.facts.foreign = foreign;
    result.disk_phase = phase.map(|(from, to, bytes)| (bytes, (to - from) as f64 / 1e9));
    result.lost_ios = r.lost(0..i64::MAX).iter().filter(|l| l.reason.is_loss()).map(|l| l.ios).sum();
    Ok(())
}
