//! Evidence of I/Os that failed or are missing, and of tables that mislead.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::counters::audit::AuditRow;
use crate::model::{Class, LossReason};

/// I/Os that the device failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IoErrorEvidence {
    /// How many.
    pub ios: u64,
    /// How many by error number (`errno`).
    pub by_error: BTreeMap<i32, u64>,
    /// What the first one does.
    pub first_class: Class,
    /// Where it begins on the device, in units of 512 bytes.
    pub first_sector: Option<i64>,
    /// When it completed, in seconds since the recording's start.
    pub first_done_s: f64,
    /// Name of the process that submitted it. Untrusted.
    #[serde(skip)]
    pub first_process: Option<String>,
    /// Its process id.
    #[serde(skip)]
    pub first_pid: Option<i32>,
}

/// I/Os that are missing from the recording for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostEventsEvidence {
    /// Why.
    pub reason: LossReason,
    /// How many; `null` if not even their number is known.
    pub ios: Option<u64>,
    /// Stretches of time in which they are missing.
    pub intervals: u64,
    /// Their share of all I/Os.
    pub lost_percent: Option<f64>,
}

/// Mean latencies of an imported table against finer rows of the same time (A25).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AveragedAveragesEvidence {
    /// Means that finer rows cover.
    pub checked: usize,
    /// Those of them that are averages of averages.
    pub averages_of_averages: usize,
    /// Each of them.
    pub rows: Vec<AuditRow>,
}
