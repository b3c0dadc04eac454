//! The program from outside, on real devices where the machine allows it.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod calibrated;
mod calibrated_disk;
mod crash;
mod files;
mod hotplug;
mod import;
mod iostat_exact;
mod lab;
mod machine;
mod names;
mod real_life;
mod record;
mod space;
mod stacked;
mod throttle;
mod throttle_stops;
mod util;
