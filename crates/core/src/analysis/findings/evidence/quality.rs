//! Evidence of failed and lost I/Os, and of misleading tables.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::counters::audit::AuditRow;
use crate::model::{Class, LossReason};

/// I/Os that the device failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IoErrorEvidence {
    /// Number of failed I/Os.
    pub ios: u64,
    /// Number of failed I/Os by error number (`errno`).
    pub by_error: BTreeMap<i32, u64>,
    /// Class of the first failed I/O.
    pub first_class: Class,
    /// First sector of the first failed I/O, in units of 512 bytes.
    pub first_sector: Option<i64>,
    /// Completion of the first failed I/O, in seconds since the recording's start.
    pub first_done_s: f64,
    /// Name of the process that submitted it. Untrusted.
    #[serde(skip)]
    pub first_process: Option<String>,
    /// Its process id.
    #[serde(skip)]
    pub first_pid: Option<i32>,
}

/// I/Os lost from the recording for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostEventsEvidence {
    /// The reason.
    pub reason: LossReason,
    /// Number of lost I/Os; `null` if it is not known.
    pub ios: Option<u64>,
    /// Number of intervals with losses.
    pub intervals: u64,
    /// Share of all I/Os that are lost.
    pub lost_percent: Option<f64>,
}

/// Mean latencies of an imported table compared with finer rows of the same time (A25).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AveragedAveragesEvidence {
    /// Number of means that were checked because finer rows cover their interval.
    pub checked: usize,
    /// Number of checked means that are averages of averages.
    pub averages_of_averages: usize,
    /// The test of each of them.
    pub rows: Vec<AuditRow>,
}
