//! Reads recordings for the analyses. A [`query::Query`] selects place, time, devices and I/Os. It yields parts: each
//! is a recording with the source that answers and a filter. [`rows`], [`report`], [`heat`] and the others add up the
//! parts; [`decode`] gives every part of an analysis a thread.
//!
//! Engines depend neither on the command line nor on output formats: errors and notes are typed, and the caller
//! formats them.

pub mod actors;
pub mod browse;
pub mod caller;
mod choose;
mod civil;
pub mod deadline;
pub mod decode;
pub mod diff;
pub mod error;
pub mod files;
pub mod filter;
pub mod findings;
pub mod fleet;
pub mod heat;
pub mod inside;
pub mod inventory;
pub mod layers;
pub mod names;
pub mod note;
pub mod overview;
pub mod page;
mod parallel;
pub mod part;
#[cfg(test)]
mod pieces_tests;
pub mod privacy;
pub mod query;
pub mod report;
mod report_tables;
mod rollups;
pub mod rows;
pub mod series;
pub mod single;
pub mod source;
mod sources;
pub mod stories;
pub mod subjects;
mod tables;
pub mod view;
pub mod waits;
pub mod window;
pub mod worst_stretch;

pub use crate::units::{
    CivilInstant, Day, Instant, TimeWindow, parse_duration_ns, parse_instant, unix_ns,
};
pub use choose::AROUND_NS;
