//! The analysis of file-level requests over a recording.

use std::ops::Range;

use iolens_core::analysis::Window;
use iolens_core::analysis::files::{By, FilesReport, FilesReportBuilder};
use iolens_core::model::Names;
use iolens_core::store::{IoColumns, Recording};

use super::caller::Caller;
use super::decode::each_row;
use super::error::Result;
use super::{names, window};

/// Analyses the file-level requests of `range`, grouped by `by`; `None` if none were recorded.
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

/// Adds the known paths to a report that is grouped by control group.
fn name_cgroups(report: &mut FilesReport, names: &Names) {
    for group in &mut report.groups {
        let id = group.name.parse().ok();
        if let Some(path) = id.and_then(|id: i64| names.cgroups.get(&id)) {
            group.name.clone_from(path);
        }
    }
}

/// Runs all analyses of the file-level requests that ended in `window`.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse(
    recording: &Recording,
    window: Window,
    by: By,
    caller: &Caller,
) -> Result<FilesReport> {
    // A request that ends with the recording ends at its last instant, which a half-open range excludes.
    let range = window::with_last_instant(recording, &(window.from_ns..window.to_ns));
    let mut builder = FilesReportBuilder::new(window, by).with_devices(&recording.meta().devices);
    recording
        .lost(range.clone())
        .iter()
        .for_each(|l| builder.lost(l));
    let columns = IoColumns::QUEUE | IoColumns::TGID | IoColumns::FILE | IoColumns::ORIGIN;
    each_row(
        recording,
        recording.ios(range.clone(), columns),
        caller,
        |io| {
            builder.push_io(&io);
        },
    )?;
    each_row(recording, recording.requests(range), caller, |request| {
        builder.push(&request);
    })?;
    let mut report = builder.finish();
    if by == By::Cgroup {
        let names = names::read(recording, window.to_ns, caller)?;
        name_cgroups(&mut report, &names);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use iolens_core::analysis::files::FilesReportBuilder;
    use iolens_core::model::Request;

    use super::*;

    #[test]
    fn control_groups_are_called_by_their_paths() {
        let mut builder = FilesReportBuilder::new(Window::new(0, 100), By::Cgroup);
        for cgroup in [Some(1), Some(7), None] {
            builder.push(&Request {
                cgroup,
                ..Request::new(10, 20)
            });
        }
        let mut report = builder.finish();
        let mut names = Names::default();
        names.cgroups.insert(1, "/".to_owned());
        name_cgroups(&mut report, &names);
        let mut shown: Vec<&str> = report.groups.iter().map(|g| &*g.name).collect();
        shown.sort_unstable();
        assert_eq!(shown, ["/", "7", "?"]);
    }
}
