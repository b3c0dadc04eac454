//! Evidence of devices and I/Os that take long.

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
    /// The longest gap that the device's service times explain.
    pub expected_s: f64,
    /// I/Os with the device at its end.
    pub in_flight: i64,
    /// I/Os issued in it.
    pub issued_meanwhile: i64,
    /// What completed last before it; `null` if the device was idle.
    pub completed_before: Option<Class>,
    /// What completed first after it.
    pub completed_after: Class,
    /// Whether a flush was with the device.
    pub flush_in_flight: bool,
    /// How far it reached.
    pub scope: StallScope,
    /// Other devices that stalled at the same time; layers above and below are left out.
    pub other_devices_stalled: usize,
    /// Other devices that did I/O; layers above and below are left out.
    pub other_devices: usize,
    /// Name of the array, or of the controller or host, that the device belongs to.
    pub group: Option<String>,
    /// Devices of that group.
    pub group_devices: Option<usize>,
    /// Those of them that stalled at the same time.
    pub group_devices_stalled: Option<usize>,
    /// Names of the layers above that stood still with it.
    pub layers_stalled: Vec<String>,
    /// Stalls of this device.
    pub stalls_in_recording: usize,
    /// What the host was short of at that time, which does not explain the stall; `null` if the recording does not hold it.
    pub host_state: Option<HostState>,
}

/// How far a stall reached.
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

/// The device takes longer, or less long, for the same load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyChangeEvidence {
    /// Of which I/Os.
    pub class: Class,
    /// At once, or little by little.
    pub form: change::Form,
    /// The step, or the beginning of the trend, in seconds since the recording's start.
    pub at_s: f64,
    /// Device time after the change over that before it, of I/Os of the same size that met as many others and as many bytes; of
    /// a trend: end over beginning.
    pub ratio_at_same_load: f64,
    /// Its 95 % interval, over blocks of time.
    pub ratio_at_same_load_ci: (f64, f64),
    /// Median device time before; of a trend: in the first quarter.
    pub device_p50_before_us: Option<f64>,
    /// Median device time after; of a trend: in the last quarter.
    pub device_p50_after_us: Option<f64>,
    /// 99th percentile of device time before; `null` of fewer than 100 I/Os.
    pub device_p99_before_us: Option<f64>,
    /// 99th percentile of device time after; `null` of fewer than 100 I/Os.
    pub device_p99_after_us: Option<f64>,
    /// I/Os before, in the sample.
    pub ios_before: usize,
    /// I/Os after, in the sample.
    pub ios_after: usize,
    /// I/Os issued per second after it over before it.
    pub load_ratio: f64,
    /// By shuffles of pairs of blocks; of a trend: Mann and Kendall's test, corrected for autocorrelation.
    pub p_value: f64,
    /// For all streams of the report: Student's t over blocks, times splits; of a trend: `p_value` times streams.
    pub p_family: f64,
    /// Blocks of time compared.
    pub blocks: usize,
    /// The shortage of CPU time that came or went with it and is as long as what was added: then it need not be the device.
    pub cpu_shortage: Option<CpuShortage>,
    /// What the host was short of before; `null` if the recording does not hold it.
    pub host_before: Option<HostState>,
    /// What the host was short of after; `null` if the recording does not hold it.
    pub host_after: Option<HostState>,
}

/// Some I/Os of one class and size take far longer with the device than the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyModeEvidence {
    /// Of which I/Os.
    pub class: Class,
    /// Around a time of their own, or spread out.
    pub form: mode::Form,
    /// Smallest size of these I/Os.
    pub min_bytes: u64,
    /// They are smaller than this.
    pub below_bytes: u64,
    /// Share of the slow ones.
    pub slow_percent: f64,
    /// Median device time of the others.
    pub usual_device_us: f64,
    /// Median device time of the slow ones.
    pub slow_device_us: f64,
    /// Share of the device time of this class and size that the slow ones take.
    pub slow_time_percent: f64,
    /// Slow ones, in the sample.
    pub slow_ios: usize,
    /// I/Os of this class and size, in the sample.
    pub sampled_ios: usize,
    /// Stretches of slow ones without a usual one between.
    pub stretches: usize,
    /// The sectors between which four fifths of the slow ones begin; `null` if these hold more than a fifth of all.
    pub slow_sectors: Option<(i64, i64)>,
    /// Share of the slow ones during which a shortage of CPU time explains that nothing happened; `null` if the recording
    /// does not hold what the host was short of during most of them.
    pub slow_in_cpu_shortage_percent: Option<f64>,
    /// The shortage that explains at least half of the slow ones: then it need not be the device.
    pub cpu_shortage: Option<CpuShortage>,
}

/// One member of an array takes longer than each of its peers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowMemberEvidence {
    /// Name of the array.
    pub array: String,
    /// Its members.
    pub members: usize,
    /// Name of the slow one.
    #[serde(skip)]
    pub member: String,
    /// Of which I/Os.
    pub class: Class,
    /// Device time over that of the slowest peer, at the same time, size and direction.
    pub ratio: f64,
    /// Its 95 % interval, over blocks of time.
    pub ratio_ci: (f64, f64),
    /// Student's t over blocks, for all comparisons of the report.
    pub p_value: f64,
    /// Blocks of time compared.
    pub blocks: usize,
    /// Median device time of the member.
    pub device_p50_us: Option<f64>,
    /// 99th percentile of its device time.
    pub device_p99_us: Option<f64>,
    /// Name of the slowest peer.
    pub slowest_peer: String,
    /// Median device time of the slowest peer.
    pub slowest_peer_p50_us: Option<f64>,
    /// 99th percentile of its device time.
    pub slowest_peer_p99_us: Option<f64>,
    /// I/Os of the slowest peer, in the sample.
    #[serde(skip)]
    pub slowest_peer_ios: usize,
    /// I/Os of the member, in the sample.
    pub ios: usize,
    /// I/Os of all peers, in the sample.
    pub peers_ios: usize,
}

/// Single I/Os that took longer than a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowIoEvidence {
    /// How many took longer than a second.
    pub ios_over_1s: u64,
    /// Latency of the slowest.
    pub slowest_us: f64,
    /// Its time with the device.
    pub slowest_device_us: f64,
    /// When it completed, in seconds since the recording's start.
    pub slowest_done_s: f64,
    /// What it does.
    pub slowest_class: Class,
    /// Its size.
    pub slowest_bytes: i64,
    /// Where it begins on the device, in units of 512 bytes.
    pub slowest_sector: Option<i64>,
    /// Name of the process that submitted it. Untrusted.
    pub slowest_process: Option<String>,
    /// Its process id.
    #[serde(skip)]
    pub slowest_pid: Option<i32>,
    /// The shortage of CPU time during the slowest, if such shortages explain all of them: then it need not be the device.
    pub cpu_shortage: Option<CpuShortage>,
}
