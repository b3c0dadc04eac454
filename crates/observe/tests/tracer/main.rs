//! The tracer against the kernel's own counts, on devices made for the purpose. Needs root, BPF, `losetup` and `fio`;
//! what the machine lacks is skipped with a message. `IOLENS_FULL=1` runs the long matrix.
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
