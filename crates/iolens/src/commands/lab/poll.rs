//! `iolens lab poll`: disks and cells.

use anyhow::{Result, bail};
use iolens_lab::claim::{Claimed, claim};
use iolens_lab::experiment::{Experiment, Machine, Plan};
use iolens_lab::poll::{PollCell, PollPlan};
use iolens_lab::poll_runs;
use iolens_lab::scratch::has_program;

use super::console::{Console, WARN};
use crate::cli::LabPoll;

/// Runs `iolens lab poll`.
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
    // Checked before anything is created, and held until the end.
    let given: Vec<Claimed> = p
        .i_will_lose_data
        .iter()
        .map(|d| claim(d))
        .collect::<std::io::Result<_>>()?;
    let max_disks = if given.is_empty() {
        usize::MAX
    } else {
        given.len()
    };
    let mut counts: Vec<usize> = p.disks.iter().map(|d| (*d).min(max_disks)).collect();
    counts.dedup();
    let mut cells = Vec::new();
    for disks in &counts {
        for workers in &p.workers {
            cells.extend(p.target.iter().map(|t| PollCell {
                disks: *disks,
                workers: *workers,
                target_percent: *t,
            }));
        }
    }
    let given_paths = given.iter().map(|c| c.path.clone()).collect();
    let plan = PollPlan {
        dir: p.dir.clone(),
        size: p.size,
        seconds: p.seconds,
        given: given_paths,
        cells,
    };
    let console = Console::open()?;
    let whole = Plan {
        schema_version: 1,
        kind: "poll".to_owned(),
        seed: p.seed,
        machine: Machine::here(),
        plan,
    };
    let experiment = Experiment::begin(p.output.path(), &whole, WARN)?;
    poll_runs::run(&experiment, &whole, &given, &console)?;
    super::report::run(experiment.dir(), false)
}
