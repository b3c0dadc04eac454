//! `iolens files`: where an application's I/O time goes.

use std::io::Write as _;
use std::ops::Range;

use anyhow::{Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::files::{By, FilesReport, FilesReportBuilder};
use iolens_core::store::{IoColumns, Recording};

use super::{source, window};
use crate::cli::{FilesBy, FilesPlan};
use crate::present::{files_json, files_text};

/// Runs the command.
///
/// # Errors
/// No recording, one without file-level requests, or a window outside it.
pub fn run(plan: &FilesPlan) -> Result<u8> {
    let recording = source::open(&plan.recording)?;
    if recording.requests_stored() == 0 {
        let path = plan.recording.display();
        let lost = recording.lost(0..i64::MAX);
        let lost: i64 = lost.iter().filter(|l| l.reason.is_of_requests()).filter_map(|l| l.ios).sum();
        if lost > 0 {
            bail!(
                "{path} holds no file-level requests; {lost} are known to be lost (those opened within the last seconds of a recorder that is killed are)"
            );
        }
        bail!("{path} holds no file-level requests; record them with: iolens record --files");
    }
    let range = window::resolve_for_analysis(&recording, &plan.window)?;
    let by = match plan.by {
        FilesBy::Class => By::Class,
        FilesBy::Process => By::Process,
        FilesBy::Path => By::Path,
        FilesBy::Cgroup => By::Cgroup,
    };
    let report = analyse(&recording, Window::new(range.start, range.end), by)?;
    let text = match plan.json {
        true => files_json::render(&report, recording.meta(), &plan.recording),
        false => files_text::render(&report, recording.meta()),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// What the requests of `range` tell, grouped by `by`; `None` if none were recorded.
///
/// # Errors
/// The recording cannot be read.
pub fn if_recorded(recording: &Recording, range: &Range<i64>, by: By) -> Result<Option<FilesReport>> {
    let analysed = || analyse(recording, Window::new(range.start, range.end), by);
    (recording.requests_stored() > 0).then(analysed).transpose()
}

/// All questions about the requests that ended in `window`.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse(recording: &Recording, window: Window, by: By) -> Result<FilesReport> {
    // What ends with the recording ends at its last instant.
    let range = super::window::with_last_instant(recording, &(window.from_ns..window.to_ns));
    let mut builder = FilesReportBuilder::new(window, by).with_devices(&recording.meta().devices);
    recording.lost(range.clone()).iter().for_each(|l| builder.lost(l));
    let columns = IoColumns::QUEUE | IoColumns::TGID | IoColumns::FILE | IoColumns::ORIGIN;
    let mut ios = recording.ios(range.clone(), columns);
    for batch in &mut ios {
        batch?.iter().for_each(|io| builder.push_io(io));
    }
    source::warn(ios.warnings());
    let mut requests = recording.requests(range);
    for batch in &mut requests {
        batch?.iter().for_each(|r| builder.push(r));
    }
    source::warn(requests.warnings());
    Ok(builder.finish())
}
