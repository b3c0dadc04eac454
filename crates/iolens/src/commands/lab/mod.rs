//! `iolens lab`: experiments; each run is a recording.

mod console;
mod copies;
mod fio;
mod poll;
mod report;

use anyhow::{Context as _, Result, bail};
use iolens_lab::experiment;
use iolens_lab::registry::{self, Registry};

use crate::cli::LabExperiment;
use crate::present::escape;

/// Runs an experiment, renders one again, or cleans up after one.
///
/// # Errors
/// A one-line error that says what failed, where, and what to do.
pub fn run(what: &LabExperiment) -> Result<u8> {
    match what {
        LabExperiment::Fio(p) => fio::run(p),
        LabExperiment::Copies(p) => copies::run(p),
        LabExperiment::Poll(p) => poll::run(p),
        LabExperiment::Report(p) => report::run(&p.dir, p.json),
        LabExperiment::Clean(p) => clean(&p.dir),
    }
}

fn clean(dir: &std::path::Path) -> Result<u8> {
    // A running experiment still needs its files.
    let _lock = experiment::lock(dir)?;
    let (done, left) = registry::clean(&Registry::open(dir, console::WARN))
        .with_context(|| format!("{} could not be cleaned", dir.display()))?;
    for d in &done {
        println!("removed {}", escape::terminal(d));
    }
    if let Some(first) = left.first() {
        bail!(
            "{} things could not be removed, first: {first}; stop what uses them and try again",
            left.len()
        );
    }
    if done.is_empty() {
        println!("nothing was left behind");
    }
    Ok(0)
}
