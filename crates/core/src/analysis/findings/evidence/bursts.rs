//! Evidence of bursts, and of bursts that come back.

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
    /// What bursts: reads or writes.
    pub class: Class,
    /// Bytes submitted in it; of a table or a link: completed.
    pub bytes: u64,
    /// I/Os submitted in it; of a table or a link: completed.
    pub ios: u64,
    /// The least that its highest throughput was: bytes of I/Os issued and completed inside a window of 10 ms or more, over
    /// its length.
    pub peak_bytes_per_s: f64,
    /// I/Os of its highest slot, where they were submitted.
    pub peak_iops: f64,
    /// The highest one-second sample of it, in the middle of 100 phases of the sampler.
    pub mean_1s_bytes_per_s: f64,
    /// How many times less than its peak one-second samples show.
    pub hidden_factor: f64,
    /// From the first submission above the background to the last.
    pub duration_s: f64,
    /// Slots of at least half of its own peak, added up.
    pub core_s: f64,
    /// Width of the slots that it was measured in.
    pub slot_s: f64,
    /// Mean size of its I/Os.
    pub mean_request_bytes: f64,
    /// What the device or link can take.
    pub limit_bytes_per_s: Option<f64>,
    /// Where that limit comes from.
    pub limit_source: Option<LimitSource>,
    /// Its peak as a share of the limit.
    pub percent_of_limit: f64,
    /// Whether its peak reaches 95 % of the limit.
    pub exceeds_limit: bool,
    /// What it has too many of.
    pub measure: Measure,
    /// The stream's own rate outside its bursts, in bytes or in I/Os as the measure says.
    pub baseline_per_s: f64,
    /// How many bursts like this the stream's background would show in the whole recording.
    pub expected_by_chance: f64,
    /// The same, at most 1.
    pub p_value: f64,
    /// Bytes in its core.
    pub core_bytes: u64,
    /// Depth of the token bucket that would absorb it at its own mean rate over one second.
    pub bucket_bytes: f64,
    /// The highest 15-second sample of it; `null` of a shorter recording, and of bursts that are not among the largest.
    pub mean_15s_bytes_per_s: Option<f64>,
    /// How many times less 15-second samples show.
    pub hidden_factor_15s: Option<f64>,
    /// The highest one-minute sample of it.
    pub mean_60s_bytes_per_s: Option<f64>,
    /// How many times less one-minute samples show.
    pub hidden_factor_60s: Option<f64>,
    /// Bytes of the minute of its peak over the seconds of that minute with any I/O, as cloud volumes estimate micro-bursts.
    pub active_second_bytes_per_s: Option<f64>,
    /// Mean number in flight, all classes, in the busiest window of 100 ms or more that it touches.
    pub max_in_flight: Option<f64>,
    /// Longest latency of the other class's I/Os that met it.
    pub other_class_max_us: Option<f64>,
    /// How many I/Os of the other class met it; of a large recording estimated from a sample.
    pub other_class_ios: Option<u64>,
    /// Of a table: the highest mean latency of the other class in rows that meet it. Absent where single I/Os are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_class_mean_max_us: Option<Option<f64>>,
    /// Bursts of this stream that one-second samples hide.
    pub bursts_in_recording: usize,
    /// I/Os are missing from it: its numbers are lower bounds.
    pub lossy: bool,
    /// Who moved most of it.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
    /// Names of the devices behind one link whose sum it is about. Absent where it is about one device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub link_devices: Vec<DevId>,
}

/// Bursts of one class of I/Os that come back (A15).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeriodicityEvidence {
    /// What comes back: reads or writes.
    pub class: Class,
    /// `periodic`, or `tentative` where only three or four periods were seen.
    pub verdict: Verdict,
    /// Time between returns, fitted to the onsets that keep step.
    pub period_s: f64,
    /// Lower end of its 95 % interval.
    pub period_low_s: Option<f64>,
    /// Upper end of its 95 % interval.
    pub period_high_s: Option<f64>,
    /// One less the p-value.
    pub confidence: f64,
    /// How likely chance shows a chain of onsets like it anywhere.
    pub p_value: f64,
    /// Standard deviation of the time between beats, as a share of the period.
    pub jitter: f64,
    /// Autocorrelation of the logarithm of KiB at the period; of the surest period only.
    pub autocorrelation: Option<f64>,
    /// Periods from its first to its last beat.
    pub cycles: f64,
    /// Beginnings of activity after quiet.
    pub onsets: usize,
    /// Those of them that keep its time.
    pub onsets_in_step: usize,
    /// Who moved most of what comes back.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
}
