//! What makes I/Os take longer: stalls, changes, second modes, slow members, syncs, small requests.

pub mod change;
pub mod mode;
pub mod sequences;
pub mod slow_member;
pub mod slowest;
pub mod stalls;
pub mod syncs;
