//! Readers of `/proc` and `/sys` and the sampler, under a given root.
//!
//! Everything here is built to be cheap at any pace down to 1 ms: files are opened once ([`KernelFile`]), read by one
//! `pread`, and parsed without allocation ([`parse_stat`], [`parse_diskstats_line`]); waiting is for absolute deadlines
//! ([`Pace`]). [`Sampler`] puts these together for any consumer of observations; [`DiskstatsReader`] is for those who
//! keep their own time. Nothing here subtracts: `iolens_core::analysis::counters::rates` does.
//!
//! No input makes these readers panic: what cannot be parsed is skipped, what cannot be read is an error or absent.

mod clock;
mod diskstats;
mod file;
mod host;
mod names;
mod pace;
pub mod process;
mod root;
mod sampler;
mod scan;
pub mod snapshot;
mod system;

pub use clock::{LocalTime, Locale, unix_time_s};
pub use diskstats::{DiskRow, DiskstatsReader, RowKind, sysfs_name};
pub use file::{KernelFile, StatFile, read_once};
pub use host::{HostCounters, HostFiles};
pub use names::{MAPPER_DIR, PersistentNames, device_mapper_major, mapper_name, mapper_target};
pub use pace::{Pace, Wake, monotonic_ns};
pub use root::Root;
pub(crate) use root::push_components;
pub use sampler::{Sample, Sampler, device_number};
pub use scan::{ParsedLine, ParsedStat, parse_diskstats_line, parse_stat};
pub use system::{
    SystemFiles, SystemNames, parse_boot_time_s, parse_cpu, parse_uptime_cs, processors,
    system_names,
};
