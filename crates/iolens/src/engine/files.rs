//! The analysis of file-level requests over a recording.

use std::ops::Range;

use iolens_core::analysis::Window;
use iolens_core::analysis::files::{By, FilesReport, FilesReportBuilder};
use iolens_core::store::{IoColumns, Recording};

use super::caller::Caller;
use super::decode::each_row;
use super::error::Result;
use super::window;

/// The analysis of the requests of `range`, grouped by `by`; `None` if none were recorded.
///
/// # Errors
/// The recording cannot be read.
pub fn if_recorded(
    recording: &Recording,
    range: &Range<i64>,
    by: By,
    caller: &Caller,
) -> Result<Option<FilesReport>> {
    if recording.requests_stored() == 0 {
        return Ok(None);
    }
    let window = Window::from(range);
    Ok(Some(analyse(recording, window, by, caller)?))
}

/// All questions about the requests that ended in `window`.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse(
    recording: &Recording,
    window: Window,
    by: By,
    caller: &Caller,
) -> Result<FilesReport> {
    // What ends with the recording ends at its last instant.
    let range = window::with_last_instant(recording, &(window.from_ns..window.to_ns));
    let mut builder = FilesReportBuilder::new(window, by).with_devices(&recording.meta().devices);
    recording
        .lost(range.clone())
        .iter()
        .for_each(|l| builder.lost(l));
    let columns = IoColumns::QUEUE | IoColumns::TGID | IoColumns::FILE | IoColumns::ORIGIN;
    each_row(recording.ios(range.clone(), columns), caller, |io| {
        builder.push_io(&io);
    })?;
    each_row(recording.requests(range), caller, |request| {
        builder.push(&request);
    })?;
    Ok(builder.finish())
}
