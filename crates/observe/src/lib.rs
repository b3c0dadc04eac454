//! Observes the running machine. Code that needs Linux, privileges or `unsafe` is only here.
//!
//! [`trace`] yields every block I/O from eBPF probes, [`counters`] reads `/proc` and `/sys` at a steady pace,
//! [`topology`] gives names to the numbers of devices, files and control groups, [`writeback`] handles a file's dirty
//! pages, [`heap`] the program's own memory. Start at [`trace::Tracer`] or [`counters::Sampler`]. Nothing here stores
//! or analyses.
//!
//! Users: `control`, `recorder`, `lab` and the program. This crate uses `iolens_core::model` only.

pub mod counters;
pub mod heap;
pub mod terminal;
pub mod topology;
pub mod trace;
pub mod writeback;
