//! Evidence of devices at their limits, and of how busy they are.

use serde::Serialize;

use crate::analysis::capacity::State;
use crate::analysis::capacity::models::Fit;
use crate::analysis::counters::io_ticks::{Regime, Verdict};

/// A device at its capacity (A18).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SaturationEvidence {
    /// Share of its busy time with more than twice as much in flight as it serves at once.
    pub saturated_percent: f64,
    /// The plateau of throughput against I/Os in flight, as far as it was observed.
    pub max_ios_per_s: f64,
    /// Its 95 % interval.
    pub max_ios_per_s_ci: Option<(f64, f64)>,
    /// Mean latency while hardly anything else was in flight.
    pub unloaded_us: f64,
    /// Its 95 % interval.
    pub unloaded_ci_us: Option<(f64, f64)>,
    /// How many I/Os the device works on at once; beyond it, more concurrency only buys more waiting.
    pub knee_in_flight: f64,
    /// Its 95 % interval.
    pub knee_in_flight_ci: Option<(f64, f64)>,
    /// What the recorded mixture of I/Os takes of the device, from the cost of I/Os that had it to themselves.
    pub mix_load_percent: Option<f64>,
    /// The model that describes it best.
    pub fit: Option<Fit>,
    /// Mean number in flight.
    pub mean_in_flight: f64,
    /// Most in flight on average in a window.
    pub max_in_flight: f64,
    /// What is left between the mean load and the highest throughput observed.
    pub headroom_percent: Option<f64>,
    /// Windows that it was measured in.
    pub windows: usize,
    /// Their length.
    pub window_s: f64,
    /// How the device runs.
    pub state: State,
}

/// A device moves bytes as fast as it can, and more demand only waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandwidthSaturationEvidence {
    /// The rate that throughput hardly ever exceeds: the median of the windows on it.
    pub plateau_bytes_per_s: f64,
    /// The rates between which nine tenths of those windows lie.
    pub plateau_range_bytes_per_s: (f64, f64),
    /// Share of the time on it.
    pub plateau_percent: f64,
    /// Windows on it.
    pub windows: usize,
    /// Their length.
    pub window_s: f64,
    /// Mean number in flight on it.
    pub mean_in_flight: f64,
    /// Most in flight on it, on average in a window.
    pub max_in_flight: f64,
    /// In flight that the unloaded device needs for that rate.
    pub needed_in_flight: f64,
    /// Mean latency on it.
    pub plateau_mean_us: f64,
    /// Mean latency at light load.
    pub unloaded_us: f64,
    /// Mean size of the I/Os on it.
    pub mean_request_bytes: f64,
}

/// The device, or its driver, takes no more I/Os at once, and others wait in the kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueFullEvidence {
    /// Reads and writes that the device had at once, and never more.
    pub queue_depth: i64,
    /// Time with a full queue.
    pub full_s: f64,
    /// The same as a share of the recording.
    pub full_percent: f64,
    /// Stretches of 100 ms or more in which it was full.
    pub full_stretches: usize,
    /// The longest of them.
    pub longest_full_s: f64,
    /// I/Os issued in them.
    pub full_ios: u64,
    /// Mean time that these waited in the kernel.
    pub queue_mean_us: f64,
    /// Longest time that one waited.
    pub queue_max_us: u32,
    /// Mean time that they then took with the device.
    pub device_mean_us: f64,
}

/// The kernel's %util and the exact busy time differ (A2).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UtilDisagreementEvidence {
    /// Share of time with at least one I/O in flight.
    pub busy_percent: f64,
    /// The kernel's own estimate of it, as iostat prints it.
    pub util_io_ticks_percent: f64,
    /// What this kernel's way of counting gives for exactly these I/Os.
    pub expected_percent: Option<f64>,
    /// By how many percentage points the kernel's figure scatters, one standard deviation; `null` if its clock is not known.
    pub sigma_pp: Option<f64>,
    /// How this kernel counts; `null` if it is not known.
    pub regime: Option<Regime>,
    /// What to think of the kernel's figure.
    pub verdict: Verdict,
}
