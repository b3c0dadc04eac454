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
//! no terminal: progress goes to a [`run::Watcher`], warnings to a [`Warn`].

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

/// Shows a warning to the user. A plain function, so that guards can keep it: what they cannot undo when they are dropped
/// has no other way out.
pub type Warn = fn(&str);
