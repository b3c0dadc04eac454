//! `iolens repair`: what a damaged recording still holds, as a whole one.

use anyhow::Result;

use crate::cli::RepairPlan;
use crate::copies::output::write_whole;
use crate::copies::repair::repair;
use crate::present::copy_text;

/// Runs `iolens repair`.
///
/// # Errors
/// It is no recording, the output exists, or something cannot be written.
pub fn run(plan: &RepairPlan) -> Result<u8> {
    let repaired = write_whole(&plan.output, "repairing", |to, interrupt| {
        repair(&plan.recording, to, plan.share.access(), interrupt)
    })?;
    print!("{}", copy_text::repaired(&plan.output, &repaired));
    Ok(0)
}
