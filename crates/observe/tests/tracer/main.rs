//! Compares the tracer with the kernel's own counts, on devices created for the tests. Needs root, BPF, `losetup` and
//! `fio`; tests without what they need are skipped with a message. `IOLENS_FULL=1` runs the long matrix.
#![allow(clippy::unwrap_used)]

mod bio;
mod dirtiers;
mod exact;
mod lab;
mod losses;
mod names;
mod programs;
mod same;
mod starts;
mod who;
