//! `iolens cut`: copies a part of a recording to a new recording.

use anyhow::Result;

use crate::cli::{ClockArgs, CutPlan};
use crate::copies::output::{refuse_existing, write_whole};
use crate::copies::parts::{CopiedPart, write_parts};
use crate::engine::query::{Grain, Query};
use crate::engine::window;
use crate::present::copy_text;

/// Runs `iolens cut`.
///
/// # Errors
/// No recording covers the time, the output exists, or reading or writing fails.
pub fn run(plan: &CutPlan) -> Result<u8> {
    refuse_existing(&plan.output)?;
    let clock = ClockArgs {
        utc: plan.utc,
        relative: false,
    };
    let caller = super::caller();
    let query = Query::new(&plan.recording, plan.window.by(clock), &caller);
    let mut parts = Vec::new();
    for part in query.parts(Grain::Recording)?.parts {
        // Time whose I/Os the size limit removed is not copied.
        let range = window::for_analysis(&part.recording, &part.range, &caller)?;
        let range = window::with_last_instant(&part.recording, &range);
        let recording = part.recording;
        parts.push(CopiedPart { recording, range });
    }
    let copied = write_whole(&plan.output, "cutting", |to, interrupt| {
        write_parts(to, &parts, plan.share.access(), interrupt)
    })?;
    eprint!("{}", copy_text::remarks(&copied));
    print!("{}", copy_text::summary(&plan.output, &copied));
    Ok(0)
}
