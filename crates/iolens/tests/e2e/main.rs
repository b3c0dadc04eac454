//! The program from outside, on real devices where the machine allows it.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod crash;
mod files;
mod hotplug;
mod iostat_exact;
mod machine;
mod names;
mod record;
mod space;
mod throttle;
mod util;
