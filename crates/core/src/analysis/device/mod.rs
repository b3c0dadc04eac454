//! Activity and utilisation of a device: counts, stages, concurrency, busy time (A2 to A6, A24).

pub(in crate::analysis) mod at_issue;
pub mod attribution;
pub(in crate::analysis) mod by_issue;
pub(in crate::analysis) mod context;
pub mod detail;
pub mod devices;
pub mod exact;
pub mod level;
pub mod set;
pub mod slots;
pub mod stages;
pub mod summary;
pub mod utilisation;
