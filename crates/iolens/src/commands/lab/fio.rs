//! `iolens lab fio`: the runs of a sweep.

use anyhow::{Result, bail};
use iolens_lab::claim::{Claimed, claim};
use iolens_lab::experiment::{Experiment, Machine, Plan};
use iolens_lab::fio::{FioCell, FioPlan};
use iolens_lab::fio_runs;
use iolens_lab::scratch::has_program;

use super::console::{Console, WARN};
use crate::cli::{FioSweep, LabFio};

/// Runs `iolens lab fio`.
///
/// # Errors
/// fio is missing, the target cannot be created, or a run failed.
pub fn run(options: &LabFio) -> Result<u8> {
    let sweep = options.resolve()?;
    if !has_program("fio") {
        bail!("fio is not installed; install it (Debian: apt-get install fio)");
    }
    // Checked before anything is created, and held until the end.
    let given = sweep.i_will_lose_data.as_deref().map(claim).transpose()?;
    let plan = plan(&sweep, given.as_ref());
    let console = Console::open()?;
    let whole = Plan {
        schema_version: 1,
        kind: "fio".to_owned(),
        seed: sweep.seed,
        machine: Machine::here(),
        plan,
    };
    let experiment = Experiment::begin(&sweep.output, &whole, WARN)?;
    fio_runs::run(&experiment, &whole, given, &console)?;
    super::report::run(experiment.dir(), false)
}

fn plan(p: &FioSweep, given: Option<&Claimed>) -> FioPlan {
    let mut cells = Vec::new();
    for replicate in 0..p.replicates {
        for rw in &p.rw {
            for engine in &p.engine {
                for direct in &p.direct {
                    for iodepth in &p.iodepth {
                        // Warm cells read a cached file, so they run after the cold ones.
                        let cold = p.bs.iter().map(|bs| (*bs, false));
                        let warm = warm_sizes(p, rw, *direct).map(|bs| (bs, true));
                        for (bs, warm) in cold.chain(warm) {
                            cells.push(FioCell {
                                bs,
                                rw: rw.clone(),
                                engine: engine.clone(),
                                direct: *direct,
                                iodepth: *iodepth,
                                replicate,
                                warm,
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
        size: given.map_or(p.size, |g| p.size.min(g.bytes)),
        seconds: p.seconds,
        extra: p.extra.clone(),
        cells,
    }
}

/// Block sizes that are also run on a cached file, for the times that the two-phase model needs.
fn warm_sizes(p: &FioSweep, rw: &str, direct: bool) -> impl Iterator<Item = u64> {
    let small = p.bs.iter().min().copied();
    let large = p.bs.iter().max().copied();
    let cacheable = rw == "read" && !direct && small < large;
    [small, large]
        .into_iter()
        .flatten()
        .filter(move |_| cacheable)
}
