//! Statistics on plain numbers, independent of I/Os.

pub mod distributions;
pub mod intervals;
pub(in crate::analysis) mod runs;
pub mod stats;
