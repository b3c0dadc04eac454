//! `iolens info`: describes recordings.

use std::io::Write as _;

use anyhow::Result;

use crate::FAILED;
use crate::cli::InfoPlan;
use crate::engine::inventory::RecordingInfo;
use crate::present::escape::terminal;
use crate::present::inventory;
use crate::present::query_text::{self, Spelling};

/// Runs `iolens info`. Each recording that cannot be read yields an error on stderr and exit code 2; the others are
/// shown.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(plan: &InfoPlan) -> Result<u8> {
    let mut infos = Vec::new();
    let mut code = 0;
    for place in &plan.recordings {
        for found in RecordingInfo::read_all(place) {
            match found {
                Ok(info) => infos.push(info),
                Err(e) => {
                    let why = query_text::error(&e, Spelling::Flags);
                    eprintln!("iolens: {}", terminal(&why));
                    code = FAILED;
                }
            }
        }
    }
    if code == FAILED && infos.is_empty() {
        return Ok(code);
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
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ClockArgs;

    #[test]
    fn a_place_that_is_no_recording_is_a_failure() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = InfoPlan {
            recordings: vec![dir.path().join("a"), dir.path().join("b")],
            json: true,
            clock: ClockArgs::default(),
        };
        assert_eq!(run(&plan).expect("said on standard error"), FAILED);
    }
}
