//! Evidence of devices at their limits, and of how busy they are.

use serde::Serialize;

use crate::analysis::capacity::State;
use crate::analysis::capacity::models::Fit;
use crate::analysis::counters::io_ticks::{Regime, Verdict};

/// A device at its capacity (A18).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SaturationEvidence {
    /// Share of the windows with I/O in which at least twice as much is in flight as the device serves at once.
    pub saturated_percent: f64,
    /// The plateau of throughput against number in flight, as far as it was observed.
    pub max_ios_per_s: f64,
    /// 95 % confidence interval of the maximum throughput.
    pub max_ios_per_s_ci: Option<(f64, f64)>,
    /// Mean latency while hardly anything else was in flight.
    pub unloaded_us: f64,
    /// 95 % confidence interval of the mean latency at light load.
    pub unloaded_ci_us: Option<(f64, f64)>,
    /// Number of I/Os that the device serves at once; beyond it, more concurrency only adds waiting.
    pub knee_in_flight: f64,
    /// 95 % confidence interval of the knee.
    pub knee_in_flight_ci: Option<(f64, f64)>,
    /// Load of the recorded mix of I/Os on the device, from the cost of I/Os that had it to themselves.
    pub mix_load_percent: Option<f64>,
    /// The best-fitting model.
    pub fit: Option<Fit>,
    /// Mean number in flight.
    pub mean_in_flight: f64,
    /// Highest mean number in flight of a window.
    pub max_in_flight: f64,
    /// Headroom between the mean load and the highest observed throughput, as a share of the latter.
    pub headroom_percent: Option<f64>,
    /// Number of windows in which it was measured.
    pub windows: usize,
    /// Length of a window.
    pub window_s: f64,
    /// State of the device.
    pub state: State,
}

/// Throughput is at the limit of the device: more demand only adds waiting.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandwidthSaturationEvidence {
    /// Rate that throughput hardly ever exceeds: median over the windows on the plateau.
    pub plateau_bytes_per_s: f64,
    /// 5th and 95th percentile of the rate in the windows on the plateau.
    pub plateau_range_bytes_per_s: (f64, f64),
    /// Share of the time that windows on the plateau cover.
    pub plateau_percent: f64,
    /// Number of these windows.
    pub windows: usize,
    /// Length of a window.
    pub window_s: f64,
    /// Mean number in flight in these windows.
    pub mean_in_flight: f64,
    /// Highest mean number in flight of one of these windows.
    pub max_in_flight: f64,
    /// Number of I/Os in flight that the unloaded device needs for the plateau's rate.
    pub needed_in_flight: f64,
    /// Mean latency in the windows on the plateau.
    pub plateau_mean_us: f64,
    /// Mean latency at light load.
    pub unloaded_us: f64,
    /// Mean size of the I/Os in these windows.
    pub mean_request_bytes: f64,
}

/// The device or its driver accepts no more I/Os, and others wait in the kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueFullEvidence {
    /// Queue depth: the largest number of reads and writes ever in flight on the device.
    pub queue_depth: i64,
    /// Time with a full queue.
    pub full_s: f64,
    /// Share of the recording with a full queue.
    pub full_percent: f64,
    /// Number of intervals of at least 100 ms in which the queue was full.
    pub full_stretches: usize,
    /// Length of the longest interval in which the queue was full.
    pub longest_full_s: f64,
    /// I/Os issued while the queue was full.
    pub full_ios: u64,
    /// Mean time that these I/Os waited in the kernel.
    pub queue_mean_us: f64,
    /// Longest queue time of the I/Os issued while the queue was full.
    pub queue_max_us: u32,
    /// Mean device time of these I/Os.
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
    /// What this kernel's way of counting gives for these I/Os.
    pub expected_percent: Option<f64>,
    /// Standard deviation of the kernel's figure, in percentage points; `null` if its clock is not known.
    pub sigma_pp: Option<f64>,
    /// How this kernel counts; `null` if it is not known.
    pub regime: Option<Regime>,
    /// Verdict on the kernel's figure.
    pub verdict: Verdict,
}
