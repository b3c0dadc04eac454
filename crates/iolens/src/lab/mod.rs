//! Acts on the machine so that the recorder has something to see: loads and experiments.
//!
//! An experiment is a directory: `experiment.json` says what was planned, `cells/NNN/` holds each run's recording and
//! its `cell.json`, written last, so that an interrupted experiment goes on where it stopped. Nothing here writes to a
//! device, mount point or file that it did not make itself, unless the user named it as one to lose.

pub mod bracket;
pub mod claim;
pub mod copies;
pub mod experiment;
pub mod fio;
pub mod load;
pub mod poll;
pub mod scratch;
