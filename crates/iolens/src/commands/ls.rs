//! `iolens ls`: lists the recordings below a directory.

use std::io::Write as _;

use anyhow::Result;

use crate::cli::{ClockArgs, LsPlan};
use crate::engine::inventory;
use crate::present::inventory as words;

/// Runs `iolens ls`.
///
/// # Errors
/// The directory cannot be listed.
pub fn run(plan: &LsPlan) -> Result<u8> {
    let infos = inventory::below(&plan.dir, &super::caller())?;
    let text = if plan.json {
        words::json(&infos)?
    } else {
        let clock = ClockArgs {
            utc: plan.utc,
            relative: false,
        };
        words::list(&infos, &clock.zone(), crate::streams::layout())
    };
    crate::streams::stdout().write_all(text.as_bytes())?;
    if infos.is_empty() {
        eprintln!(
            "iolens: {}: no recording here or below; iolens record makes one",
            plan.dir.display()
        );
    }
    Ok(0)
}
