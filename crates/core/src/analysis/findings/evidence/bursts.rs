//! Evidence of bursts and of periodic load.

use serde::Serialize;

use super::Cause;
use crate::analysis::bursts::LimitSource;
use crate::analysis::bursts::scan::Measure;
use crate::analysis::periodicity::Verdict;
use crate::model::{Class, DevId};

/// A burst of one class of I/Os that one-second samples hide (A13).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MicroburstEvidence {
    /// Reads or writes.
    pub class: Class,
    /// Bytes submitted in it; for a table or a link, bytes completed.
    pub bytes: u64,
    /// I/Os submitted in it; for a table or a link, I/Os completed.
    pub ios: u64,
    /// Lower bound of its highest throughput: bytes of I/Os issued and completed inside a window of at least 10 ms,
    /// divided by its length.
    pub peak_bytes_per_s: f64,
    /// Highest rate of I/Os in a slot, by their submission.
    pub peak_iops: f64,
    /// The highest one-second sample of it: median over 100 phases of the sampler.
    pub mean_1s_bytes_per_s: f64,
    /// Its peak divided by that sample: how much one-second samples hide.
    pub hidden_factor: f64,
    /// From the first submission above the background to the last.
    pub duration_s: f64,
    /// Total length of the slots with at least half of its own peak.
    pub core_s: f64,
    /// Width of the slots in which it was measured.
    pub slot_s: f64,
    /// Mean size of its I/Os.
    pub mean_request_bytes: f64,
    /// The limit of the device or link.
    pub limit_bytes_per_s: Option<f64>,
    /// Source of that limit.
    pub limit_source: Option<LimitSource>,
    /// Its peak in percent of the limit.
    pub percent_of_limit: f64,
    /// Whether the burst's peak reaches 95 % of the limit.
    pub exceeds_limit: bool,
    /// The quantity of which it has more than the background.
    pub measure: Measure,
    /// Rate of the stream outside its bursts, in bytes or I/Os per second according to `measure`.
    pub baseline_per_s: f64,
    /// Expected number of such bursts in the whole recording if there were only the background.
    pub expected_by_chance: f64,
    /// The same, limited to 1.
    pub p_value: f64,
    /// Bytes in the burst's core (see `core_s`).
    pub core_bytes: u64,
    /// Token bucket depth that would absorb the burst at the stream's own mean rate over one second.
    pub bucket_bytes: f64,
    /// Highest 15-second sample of the burst; `null` in a shorter recording, and for bursts that are not among the largest.
    pub mean_15s_bytes_per_s: Option<f64>,
    /// Ratio of the burst's peak to the highest 15-second sample.
    pub hidden_factor_15s: Option<f64>,
    /// Highest one-minute sample of the burst; `null` in a shorter recording, and for bursts that are not among the largest.
    pub mean_60s_bytes_per_s: Option<f64>,
    /// Ratio of the burst's peak to the highest one-minute sample.
    pub hidden_factor_60s: Option<f64>,
    /// Bytes in the minute of the peak divided by the seconds of that minute with any I/O, as cloud volumes estimate
    /// micro-bursts.
    pub active_second_bytes_per_s: Option<f64>,
    /// Mean number in flight (all classes) in the busiest window of at least 100 ms that overlaps it.
    pub max_in_flight: Option<f64>,
    /// Longest latency of I/Os of the other class that overlap the burst.
    pub other_class_max_us: Option<f64>,
    /// Number of I/Os of the other class that overlap the burst. In a large recording: estimated from a sample.
    pub other_class_ios: Option<u64>,
    /// Of an imported table: highest mean latency of the other class in rows that overlap the burst. Absent if individual I/Os
    /// are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_class_mean_max_us: Option<Option<f64>>,
    /// Number of bursts of this stream that one-second samples hide.
    pub bursts_in_recording: usize,
    /// I/Os were lost during it, so its numbers are lower bounds.
    pub lossy: bool,
    /// The process that moved most of it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
    /// Names of the devices behind one link if the burst is in the sum of their I/O. Absent for a burst of one device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub link_devices: Vec<DevId>,
}

/// Periodic load of one class of I/Os (A15).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeriodicityEvidence {
    /// Reads or writes.
    pub class: Class,
    /// `periodic`, or `tentative` if only three or four periods were seen.
    pub verdict: Verdict,
    /// The period, fitted to the onsets that are its beats.
    pub period_s: f64,
    /// Lower end of its 95 % confidence interval.
    pub period_low_s: Option<f64>,
    /// Upper end of its 95 % confidence interval.
    pub period_high_s: Option<f64>,
    /// 1 minus the p-value.
    pub confidence: f64,
    /// Probability that chance shows such a chain of onsets anywhere.
    pub p_value: f64,
    /// Standard deviation of the time between beats, as a share of the period.
    pub jitter: f64,
    /// Autocorrelation of the logarithm of KiB at the period; only for the period with the most evidence.
    pub autocorrelation: Option<f64>,
    /// Number of periods from its first to its last beat.
    pub cycles: f64,
    /// Number of onsets: starts of activity after a silence.
    pub onsets: usize,
    /// Number of onsets that are its beats.
    pub onsets_in_step: usize,
    /// The process that is behind its beats most often.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
}
