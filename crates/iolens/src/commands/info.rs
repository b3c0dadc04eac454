//! `iolens info`: what recordings are.

use std::io::Write as _;

use anyhow::Result;

use crate::cli::InfoPlan;
use crate::engine::inventory::RecordingInfo;
use crate::present::inventory;

/// Runs `iolens info`.
///
/// # Errors
/// One of them is no recording, or cannot be read.
pub fn run(plan: &InfoPlan) -> Result<u8> {
    let mut infos = Vec::new();
    for place in &plan.recordings {
        infos.extend(RecordingInfo::read_all(place)?);
    }
    let mut text = String::new();
    if plan.json {
        text = inventory::json(&infos)?;
    } else {
        let layout = crate::streams::layout();
        for (i, info) in infos.iter().enumerate() {
            if i > 0 {
                text.push('\n');
            }
            let times = plan.clock.times(&info.meta, 0);
            text.push_str(&inventory::text(info, &times, layout));
        }
    }
    crate::streams::stdout().write_all(text.as_bytes())?;
    Ok(0)
}
