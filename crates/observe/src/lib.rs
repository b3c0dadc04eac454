//! The outside world turned into observations. Linux, privileges and `unsafe` live only here.
//!
//! Who may know whom: this crate knows `iolens_core::model` only.

pub mod counters;
pub mod import;
pub mod terminal;
pub mod topology;
pub mod trace;
pub mod writeback;
