//! `iolens generate`.

use std::io::Write as _;

use anyhow::Result;

use crate::cli::{GeneratePlan, generate};

/// Runs `iolens generate`.
///
/// # Errors
/// There is no such command, or a file or standard output cannot be written.
pub fn run(plan: &GeneratePlan) -> Result<u8> {
    let text = generate(plan)?;
    crate::streams::stdout().write_all(&text)?;
    Ok(0)
}
