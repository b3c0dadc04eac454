//! `iolens merge`: joins consecutive recordings into one.

use anyhow::Result;

use crate::cli::MergePlan;
use crate::copies::output::{refuse_existing, write_whole};
use crate::copies::parts::{CopiedPart, in_order, write_parts};
use crate::engine::inventory::recordings_of;
use crate::engine::source;
use crate::present::copy_text;

/// Runs `iolens merge`.
///
/// # Errors
/// They cannot be joined, the output exists, or reading or writing fails.
pub fn run(plan: &MergePlan) -> Result<u8> {
    refuse_existing(&plan.output)?;
    let caller = super::caller();
    let mut parts = Vec::new();
    for place in &plan.recordings {
        for path in recordings_of(place)? {
            parts.push(CopiedPart::whole(source::open(&path, &caller)?));
        }
    }
    let parts = in_order(parts)?;
    let copied = write_whole(&plan.output, "merging", |to, interrupt| {
        write_parts(to, &parts, plan.share.access(), interrupt)
    })?;
    eprint!("{}", copy_text::remarks(&copied));
    print!("{}", copy_text::summary(&plan.output, &copied));
    Ok(0)
}
