//! Experiments: reproducible loads under the recorder; each run is a recording.
//!
//! An experiment is a directory: `experiment.json` holds the plan, `cells/NNN/` each run's recording and its `cell.json`,
//! written last, so that an interrupted experiment continues where it stopped. Start at [`experiment::Experiment`], then
//! read one of [`fio_runs`], [`copies_runs`] and [`poll_runs`]; [`run::recorded`] puts one load under the recorder.
//! [`statistics`] turns results into fits, tests and verdicts.
//!
//! Nothing here writes to a device, mount point or file that it did not make itself, unless the user named it as one to
//! lose: [`registry`] lists what was made, [`scratch`] makes and removes it, [`claim`] checks what the user gave.
//!
//! Users: the program. This crate uses `core`, `import`, `observe` and `recorder`; it knows no command line and
//! no terminal: progress goes to a [`run::Watcher`], warnings to [`on_warning`].

use std::sync::OnceLock;

pub mod bracket;
pub mod claim;
pub mod copies;
pub mod copies_files;
pub mod copies_runs;
pub mod experiment;
pub mod fio;
pub mod fio_runs;
pub mod load;
pub mod poll;
pub mod poll_runs;
pub mod registry;
pub mod run;
pub mod scratch;
pub mod statistics;

static WARN: OnceLock<fn(&str)> = OnceLock::new();

/// Shows each warning with `show`; without one they are dropped. The first call counts: what a guard cannot undo when it
/// is dropped has no other way to the user.
pub fn on_warning(show: fn(&str)) {
    WARN.get_or_init(|| show);
}

fn warn(line: &str) {
    if let Some(show) = WARN.get() {
        show(line);
    }
}
