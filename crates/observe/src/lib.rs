//! Observes the running machine. Code that needs Linux, privileges or `unsafe` is only here.
//!
//! [`trace`] yields every block I/O from eBPF probes, [`counters`] samples `/proc` and `/sys` at a steady period,
//! [`topology`] maps numbers of devices, files and control groups to names, [`writeback`] handles a file's dirty pages,
//! and [`heap`] the program's own memory. Start at [`trace::Tracer`] or [`counters::Sampler`]. Nothing here stores or
//! analyses.
//!
//! Users: `control`, `recorder`, `lab` and the program. This crate uses `iolens_core::model` only.

pub mod counters;
pub mod heap;
pub mod terminal;
pub mod topology;
pub mod trace;
pub mod writeback;
