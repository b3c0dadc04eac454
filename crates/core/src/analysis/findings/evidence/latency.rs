//! Evidence of slow devices and slow I/Os.

use serde::Serialize;

use crate::analysis::counters::pressure::{CpuShortage, HostState};
use crate::analysis::latency::{change, mode};
use crate::model::Class;

/// Nothing completed for far longer than the device's service times explain.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallEvidence {
    /// From the last completion, or the issue after idleness, to the next completion.
    pub duration_s: f64,
    /// Longest gap between completions that the device's service times explain.
    pub expected_s: f64,
    /// I/Os in flight on the device at its end.
    pub in_flight: i64,
    /// I/Os issued during the stall.
    pub issued_meanwhile: i64,
    /// Class of the last completion before the stall; `null` if the device was idle.
    pub completed_before: Option<Class>,
    /// Class of the first completion after the stall.
    pub completed_after: Class,
    /// Whether a flush was in flight on the device.
    pub flush_in_flight: bool,
    /// Scope of the stall.
    pub scope: StallScope,
    /// Number of other devices that stalled at the same time, excluding those stacked with this one.
    pub other_devices_stalled: usize,
    /// Number of other devices with I/O, excluding those stacked with this one.
    pub other_devices: usize,
    /// Name of the array, or of the controller or host, that the device belongs to.
    pub group: Option<String>,
    /// Number of devices in `group`.
    pub group_devices: Option<usize>,
    /// Number of devices in `group` that stalled at the same time.
    pub group_devices_stalled: Option<usize>,
    /// Names of the layers above that stalled with the device.
    pub layers_stalled: Vec<String>,
    /// Number of stalls of this device in the recording.
    pub stalls_in_recording: usize,
    /// Pressure of the host at that time, which does not explain the stall; `null` if the recording does not hold it.
    pub host_state: Option<HostState>,
}

/// Scope of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StallScope {
    /// One device.
    Device,
    /// Several devices.
    Devices,
    /// One member of an array.
    ArrayMember,
    /// Several members of an array.
    ArrayMembers,
    /// All members of an array.
    Array,
    /// All devices behind one controller or host, and no others.
    Host,
    /// All devices.
    All,
}

/// Device time rises or falls at equal load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyChangeEvidence {
    /// Class of the I/Os.
    pub class: Class,
    /// Step or trend.
    pub form: change::Form,
    /// Time of the step or start of the trend, in seconds since the recording's start.
    pub at_s: f64,
    /// Ratio of device time after the change to that before, for I/Os of the same size with as many other I/Os and bytes in
    /// flight. Of a trend: end to beginning.
    pub ratio_at_same_load: f64,
    /// 95 % confidence interval of `ratio_at_same_load`, over blocks of time.
    pub ratio_at_same_load_ci: (f64, f64),
    /// Median device time before the change. Of a trend: in the first quarter.
    pub device_p50_before_us: Option<f64>,
    /// Median device time after the change. Of a trend: in the last quarter.
    pub device_p50_after_us: Option<f64>,
    /// 99th percentile of device time before the change; `null` with fewer than 100 I/Os.
    pub device_p99_before_us: Option<f64>,
    /// 99th percentile of device time after the change; `null` with fewer than 100 I/Os.
    pub device_p99_after_us: Option<f64>,
    /// Sampled I/Os before the change.
    pub ios_before: usize,
    /// Sampled I/Os after the change.
    pub ios_after: usize,
    /// Ratio of the I/Os issued per second after the change to those before.
    pub load_ratio: f64,
    /// Of shuffles of pairs of blocks; for a trend, of the Mann-Kendall test, corrected for autocorrelation.
    pub p_value: f64,
    /// p-value corrected for all streams of the report: Student's t over blocks, times splits and streams. Of a trend:
    /// `p_value` times streams.
    pub p_family: f64,
    /// Number of blocks of time compared.
    pub blocks: usize,
    /// A shortage of CPU time that began or ended with it and explains the difference. Then the cause need not be the device.
    pub cpu_shortage: Option<CpuShortage>,
    /// Pressure of the host before the change; `null` if the recording does not hold it.
    pub host_before: Option<HostState>,
    /// Pressure of the host after the change; `null` if the recording does not hold it.
    pub host_after: Option<HostState>,
}

/// Some I/Os of one class and size have a far longer device time than the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyModeEvidence {
    /// Class of the I/Os.
    pub class: Class,
    /// Second mode or tail.
    pub form: mode::Form,
    /// Minimum size of the I/Os.
    pub min_bytes: u64,
    /// Sizes of the I/Os are less than this.
    pub below_bytes: u64,
    /// Share of slow I/Os in the sample.
    pub slow_percent: f64,
    /// Median device time of the other I/Os.
    pub usual_device_us: f64,
    /// Median device time of the slow I/Os.
    pub slow_device_us: f64,
    /// Share of the device time of this class and size that slow I/Os account for.
    pub slow_time_percent: f64,
    /// Number of slow I/Os in the sample.
    pub slow_ios: usize,
    /// Number of sampled I/Os of this class and size.
    pub sampled_ios: usize,
    /// Number of stretches of consecutive slow I/Os.
    pub stretches: usize,
    /// Sector range in which four fifths of the slow I/Os begin; `null` if it holds more than a fifth of all I/Os.
    pub slow_sectors: Option<(i64, i64)>,
    /// Share of the slow I/Os that a shortage of CPU time explains; `null` if the recording does not hold the host's pressure
    /// during most of them.
    pub slow_in_cpu_shortage_percent: Option<f64>,
    /// The shortage that explains at least half of the slow I/Os. Then the cause need not be the device.
    pub cpu_shortage: Option<CpuShortage>,
}

/// One member of an array has a longer device time than each of its peers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowMemberEvidence {
    /// Name of the array.
    pub array: String,
    /// Number of members of the array.
    pub members: usize,
    /// Name of the slow member.
    #[serde(skip)]
    pub member: String,
    /// Class of the I/Os.
    pub class: Class,
    /// Ratio of the member's device time to that of the slowest peer, at the same time, size and direction.
    pub ratio: f64,
    /// 95 % confidence interval of `ratio`, over blocks of time.
    pub ratio_ci: (f64, f64),
    /// Of Student's t over blocks, corrected for all comparisons of the report.
    pub p_value: f64,
    /// Number of blocks of time compared.
    pub blocks: usize,
    /// Median device time of the member.
    pub device_p50_us: Option<f64>,
    /// 99th percentile of the member's device time.
    pub device_p99_us: Option<f64>,
    /// Name of the slowest peer.
    pub slowest_peer: String,
    /// Median device time of the slowest peer.
    pub slowest_peer_p50_us: Option<f64>,
    /// 99th percentile of the slowest peer's device time.
    pub slowest_peer_p99_us: Option<f64>,
    /// Sampled I/Os of the slowest peer.
    #[serde(skip)]
    pub slowest_peer_ios: usize,
    /// Sampled I/Os of the member.
    pub ios: usize,
    /// Sampled I/Os of all other members.
    pub peers_ios: usize,
}

/// Single I/Os that took longer than a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowIoEvidence {
    /// Number of I/Os that took longer than a second.
    pub ios_over_1s: u64,
    /// Latency of the slowest I/O.
    pub slowest_us: f64,
    /// Device time of the slowest I/O.
    pub slowest_device_us: f64,
    /// Completion of the slowest I/O, in seconds since the recording's start.
    pub slowest_done_s: f64,
    /// Class of the slowest I/O.
    pub slowest_class: Class,
    /// Size of the slowest I/O.
    pub slowest_bytes: i64,
    /// First sector of the slowest I/O, in units of 512 bytes.
    pub slowest_sector: Option<i64>,
    /// Name of the process that submitted the slowest I/O. Untrusted: escape it when displaying.
    pub slowest_process: Option<String>,
    /// Its process id.
    #[serde(skip)]
    pub slowest_pid: Option<i32>,
    /// The shortage of CPU time during the slowest, if such shortages explain all of them. Then the cause need not be
    /// the device.
    pub cpu_shortage: Option<CpuShortage>,
}
