//! The program end to end, on real devices where the machine allows it.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod calibrated;
mod calibrated_disk;
mod crash;
mod demo;
mod escapes;
mod files;
mod hotplug;
mod import;
mod import_limits;
mod iostat_exact;
mod kernels;
mod lab;
mod layout;
mod machine;
mod names;
mod private;
mod query;
mod real_life;
mod record;
mod report;
mod self_check;
mod serve;
mod serve_faults;
mod serve_http;
mod serve_process;
mod space;
mod stacked;
mod streams;
mod throttle;
mod throttle_guard;
mod throttle_stops;
mod util;
mod wall_clock;
mod zoom;
