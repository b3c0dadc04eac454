//! Analyses of kernel counters and of imported tables (A1, A2, A25, A26).

pub mod audit;
pub mod imported;
pub mod io_ticks;
pub mod pressure;
pub mod rates;
pub mod row_groups;
pub(in crate::analysis) mod summary;
