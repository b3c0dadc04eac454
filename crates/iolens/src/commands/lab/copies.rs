//! `iolens lab copies`: targets and cells.

use anyhow::{Result, bail};
use iolens_lab::copies::{CopiesPlan, CopyCell, Target};
use iolens_lab::copies_runs::{self, usable};
use iolens_lab::experiment::{Experiment, Machine, Plan};

use super::console::{Console, WARN};
use crate::cli::LabCopies;

/// Runs `iolens lab copies`.
///
/// # Errors
/// There is no usable target, or a copy failed.
pub fn run(p: &LabCopies) -> Result<u8> {
    let mut targets: Vec<Target> = p.to.iter().cloned().map(Target::Dir).collect();
    for fs in &p.fs {
        match usable(fs) {
            Ok(()) => targets.push(Target::Loop(fs.clone())),
            Err(why) => eprintln!("iolens: {fs} is skipped: {why}"),
        }
    }
    if targets.is_empty() {
        bail!(
            "no target: name directories with --to, or file systems with --fs (ext4, xfs, btrfs, vfat, ntfs)"
        );
    }
    if p.copies.contains(&0) || p.replicates == 0 || p.size == 0 {
        bail!("--copies, --replicates and --size must be above 0");
    }
    let mut cells = Vec::new();
    for replicate in 0..p.replicates {
        for target in 0..targets.len() {
            cells.extend(p.copies.iter().map(|copies| CopyCell {
                target,
                copies: *copies,
                replicate,
            }));
        }
    }
    let plan = CopiesPlan {
        dir: p.dir.clone(),
        file_bytes: p.size,
        sample_s: p.sample as f64 / 1e9,
        targets,
        cells,
    };
    let console = Console::open()?;
    let whole = Plan {
        schema_version: 1,
        kind: "copies".to_owned(),
        seed: p.seed,
        machine: Machine::here(),
        plan,
    };
    let experiment = Experiment::begin(p.output.path(), &whole, WARN)?;
    copies_runs::run(&experiment, &whole, &console)?;
    super::report::run(experiment.dir(), false)
}
