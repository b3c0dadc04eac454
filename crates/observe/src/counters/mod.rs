//! Readers of `/proc` and `/sys` and the sampler, under a given root.
//!
//! Everything here is cheap enough for periods down to 1 ms: files are opened once ([`KernelFile`]), read with one
//! `pread`, and parsed without allocation ([`parse_stat`], [`parse_diskstats_line`]). Waiting uses absolute deadlines
//! ([`Pace`]). [`Sampler`] combines these for any consumer of observations; [`DiskstatsReader`] is for callers with
//! their own timing. Differences are not computed here, but in `iolens_core::analysis::counters::rates`.
//!
//! No input makes these readers panic. What cannot be parsed is skipped; what cannot be read is an error or absent.

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
