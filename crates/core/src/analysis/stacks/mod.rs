//! Devices over devices: whose I/O a layer below carries out.

pub mod join;
pub(in crate::analysis) mod offset;
