//! `iolens repair`: what a damaged recording still holds, as a whole one.

use anyhow::Result;

use crate::cli::RepairPlan;
use crate::copies::output::{refuse_existing, write_whole};
use crate::copies::repair::{DamagedRecording, repair};
use crate::present::copy_text;

/// Runs `iolens repair`.
///
/// # Errors
/// It is no recording, the output exists, or something cannot be written.
pub fn run(plan: &RepairPlan) -> Result<u8> {
    // First: what is wrong with it is no failure to write.
    refuse_existing(&plan.output)?;
    let damaged = DamagedRecording::open(&plan.recording)?;
    let repaired = write_whole(&plan.output, "repairing", |to, interrupt| {
        repair(damaged, to, plan.share.access(), interrupt)
    })?;
    print!("{}", copy_text::repaired(&plan.output, &repaired));
    Ok(0)
}
