//! The statistics of experiments, as pure functions on their results: nothing here runs, reads or writes
//! anything.

pub mod anova;
pub mod copies;
pub mod identities;
pub mod poll;
pub mod sweep;
