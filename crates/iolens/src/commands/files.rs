//! `iolens files`: shows where an application's I/O time goes.

use std::io::Write as _;

use anyhow::{Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::files::By;

use crate::cli::{FilesBy, FilesPlan};
use crate::engine::files::analyse;
use crate::engine::part::Part;
use crate::engine::query::{Grain, Query};
use crate::engine::window;
use crate::present::{files_json, files_text};

/// Runs `iolens files`.
///
/// # Errors
/// There is no recording, it has no file-level requests, or the window is outside of it.
pub fn run(plan: &FilesPlan) -> Result<u8> {
    let caller = super::caller();
    let query = Query::new(&plan.recording, plan.window.by(plan.clock), &caller);
    let Part {
        recording, range, ..
    } = query.one(Grain::Recording)?;
    if recording.requests_stored() == 0 {
        let path = recording.path().display();
        let lost = recording.lost(0..i64::MAX);
        let lost: i64 = lost
            .iter()
            .filter(|l| l.reason.is_of_requests())
            .filter_map(|l| l.ios)
            .sum();
        if lost > 0 {
            bail!(
                "{path} holds no file-level requests; {lost} are known to be lost (those opened within the last seconds of a recorder that is killed are)"
            );
        }
        bail!("{path} holds no file-level requests; record them with: iolens record --files");
    }
    let range = window::for_analysis(&recording, &range, &caller)?;
    let by = match plan.by {
        FilesBy::Class => By::Class,
        FilesBy::Process => By::Process,
        FilesBy::Path => By::Path,
        FilesBy::Cgroup => By::Cgroup,
    };
    let window = Window::new(range.start, range.end);
    let report = analyse(&recording, window, by, &caller)?;
    let text = match plan.json {
        true => files_json::render(&report, recording.meta(), recording.path()),
        false => {
            let times = plan.clock.times(recording.meta(), range.start);
            files_text::render(
                &report,
                recording.meta(),
                window,
                &times,
                crate::streams::layout(),
            )
        }
    };
    crate::streams::stdout().write_all(text.as_bytes())?;
    Ok(0)
}
