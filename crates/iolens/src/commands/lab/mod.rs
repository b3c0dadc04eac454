//! `iolens lab`: experiments, each run of which is a recording.

mod cell;
mod copies;
mod fio;
mod fio_report;
mod poll;
mod report;

use anyhow::{Context as _, Result};

use crate::cli::LabExperiment;
use crate::lab::scratch;
use crate::present::escape;

/// Runs an experiment, renders one again, or cleans up after one.
///
/// # Errors
/// One line: what, where, what to do.
pub fn run(what: &LabExperiment) -> Result<u8> {
    match what {
        LabExperiment::Fio(p) => fio::run(p),
        LabExperiment::Copies(p) => copies::run(p),
        LabExperiment::Poll(p) => poll::run(p),
        LabExperiment::Report(p) => report::run(&p.dir, p.json),
        LabExperiment::Clean(p) => {
            let done = scratch::clean(&p.dir).with_context(|| format!("{} could not be cleaned", p.dir.display()))?;
            for d in &done {
                println!("removed {}", escape::terminal(d));
            }
            if done.is_empty() {
                println!("nothing was left behind");
            }
            Ok(0)
        }
    }
}
