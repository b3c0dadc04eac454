//! Statistics on plain numbers: nothing here knows what an I/O is.

pub mod distributions;
pub mod intervals;
pub(in crate::analysis) mod runs;
pub mod stats;
