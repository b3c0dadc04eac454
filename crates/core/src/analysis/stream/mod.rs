//! Building blocks of the analyses: windows, ordering by time, bins, samples, quantiles.

pub(in crate::analysis) mod arrivals;
pub mod consumer;
pub mod device_index;
pub(in crate::analysis) mod kept_slots;
pub(in crate::analysis) mod last_slot;
pub mod latencies;
pub(in crate::analysis) mod least_rate;
pub mod losses;
pub mod order;

pub mod peak;
pub mod requests;
pub(in crate::analysis) mod series;
pub(in crate::analysis) mod spread;
pub mod steps;
pub mod window;
