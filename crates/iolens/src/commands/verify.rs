//! `iolens verify`: checks whether recordings are complete and undamaged.

use std::io::Write as _;

use anyhow::Result;

use crate::cli::VerifyPlan;
use crate::engine::inventory::{recordings_of, verify};
use crate::present::verification;

/// Runs `iolens verify`. The exit code is 1 if something is damaged.
///
/// # Errors
/// One of them is not a recording, or cannot be read.
pub fn run(plan: &VerifyPlan) -> Result<u8> {
    let mut out = crate::streams::stdout();
    let mut verified = Vec::new();
    for place in &plan.recordings {
        for path in recordings_of(place)? {
            let found = verify(&path)?;
            if !plan.json {
                out.write_all(verification::text(&path, &found).as_bytes())?;
            }
            verified.push((path, found));
        }
    }
    if plan.json {
        out.write_all(verification::json(&verified)?.as_bytes())?;
    }
    let is_damaged = verified.iter().any(|(_, found)| !found.damage.is_empty());
    Ok(u8::from(is_damaged))
}
