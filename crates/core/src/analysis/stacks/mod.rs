//! Stacked devices: attributes I/O on a lower layer to the process that caused it on the layer above.

pub mod join;
pub(in crate::analysis) mod offset;
