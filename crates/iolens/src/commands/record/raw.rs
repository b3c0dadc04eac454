//! `iolens record --counters-raw`: copies the kernel's files, one directory per sample.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use iolens_core::private::PrivateDir;
use iolens_observe::counters::{Pace, Root, monotonic_ns, snapshot};

use crate::cli::RecordPlan;
use crate::present::record_text;
use crate::signals::Signals;

/// Copies the files that `iolens iostat --replay` reads into a numbered sub-directory per sample, for bug reports.
/// Takes one sample immediately, one after each step, and one at the end of the given time.
pub fn run(dir: &Path, plan: &RecordPlan, signals: &Signals) -> Result<u8> {
    PrivateDir::create(dir, plan.share.access())
        .with_context(|| format!("{} cannot be made; choose a new directory", dir.display()))?;
    let period = Duration::from_nanos(u64::try_from(plan.raw_step).unwrap_or(u64::MAX));
    let start_ns = monotonic_ns();
    let end_ns = plan
        .for_ns
        .map_or(i64::MAX, |ns| start_ns.saturating_add(ns));
    let mut pace = Pace::starting_at(start_ns, period);
    let mut samples = 0;
    loop {
        write_raw_sample(dir, samples + 1)?;
        samples += 1;
        let now_ns = monotonic_ns();
        if now_ns >= end_ns {
            break;
        }
        if end_ns < pace.next_ns() {
            let left = Duration::from_nanos(end_ns.abs_diff(now_ns));
            Pace::starting_at(now_ns, left).wait();
        } else {
            pace.wait();
        }
        if signals.caught() > 0 {
            break;
        }
    }
    if !plan.quiet {
        let plural = if samples == 1 { "" } else { "s" };
        println!(
            "{samples} sample{plural} in {0}; replay with: iolens iostat --replay {0}",
            record_text::shell_word(dir)
        );
    }
    Ok(0)
}

/// Writes one sample. An incomplete sample is removed, because it would be read as that of a complete machine.
fn write_raw_sample(dir: &Path, index: usize) -> Result<()> {
    let written = snapshot::write(&Root::live(), dir, index);
    if written.is_err() {
        drop(std::fs::remove_dir_all(dir.join(index.to_string())));
        if index == 1 {
            drop(std::fs::remove_dir(dir));
        }
    }
    written.with_context(|| format!("a sample cannot be written to {}", dir.display()))?;
    Ok(())
}
