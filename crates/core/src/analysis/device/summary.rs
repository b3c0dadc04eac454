//! The reported summary of each device: classes, busy time, concurrency.

use serde::Serialize;

use crate::analysis::device::level::LevelTime;
use crate::analysis::stream::order::Clipped;
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId};

/// Summary of one class of one device. Latencies are start to completion (S2C, what `iostat` calls await) unless
/// named otherwise. Quantiles are nearest rank, exact up to 65536 I/Os and within 1/256 beyond.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassSummary {
    /// Completed I/Os; `None` if the source does not say (imported tables may know bytes and no I/Os, or neither).
    pub ios: Option<u64>,
    /// Bytes they moved; `None` if the source does not say.
    pub bytes: Option<u64>,
    /// Requests merged into these I/Os, as counted by the kernel; `null` if the source does not report merges.
    pub merges: Option<u64>,
    /// Failed I/Os among them; `None` if the source does not say.
    pub errors: Option<u64>,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 75th percentile.
    pub p75_us: Option<f64>,
    /// 90th percentile.
    pub p90_us: Option<f64>,
    /// 95th percentile.
    pub p95_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
    /// 95 % confidence interval of the median, from order statistics; `null` with too few I/Os to bound it.
    pub p50_ci_us: Option<(f64, f64)>,
    /// 95 % confidence interval of the 90th percentile, from order statistics; `null` with too few I/Os to bound it.
    pub p90_ci_us: Option<(f64, f64)>,
    /// 95 % confidence interval of the 99th percentile, from order statistics; `null` with too few I/Os to bound it.
    pub p99_ci_us: Option<(f64, f64)>,
    /// 95 % confidence interval of the 99.9th percentile, from order statistics; `null` with too few I/Os to bound it.
    pub p999_ci_us: Option<(f64, f64)>,
    /// The longest latency. An interval without completions that lies within it was blocked, not idle.
    pub max_us: Option<f64>,
    /// Mean time from start to issue, spent in the kernel's queues. `None` if the source has no start.
    pub queue_mean_us: Option<f64>,
    /// Mean time from issue to completion (D2C): driver and device.
    pub device_mean_us: Option<f64>,
    /// Percent of I/Os that begin at the sector where the previous one of the same device and class, in order of start, ended.
    /// `null` without sectors or with fewer than two I/Os.
    pub sequential_percent: Option<f64>,
    /// Fewer than 30 I/Os: quantiles are unreliable.
    pub low_n: bool,
}

/// Time-weighted distribution of the number in flight (A3), exact from events.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Concurrency {
    /// `∫N/T`.
    pub mean: Option<f64>,
    /// Median over time.
    pub p50: Option<u64>,
    /// 75th percentile over time.
    pub p75: Option<u64>,
    /// 99th percentile over time.
    pub p99: Option<u64>,
    /// The highest level that was held for a nonzero time.
    pub max: Option<u64>,
    /// Share of time at each level from 0 on, in percent.
    #[serde(skip)]
    pub percent_at: Vec<f64>,
}

impl Concurrency {
    /// Summary of `levels`.
    pub fn of(levels: &LevelTime) -> Concurrency {
        let total: i64 = levels.ns_at().iter().sum();
        Concurrency {
            mean: levels.mean(),
            p50: levels.quantile(0.5),
            p75: levels.quantile(0.75),
            p99: levels.quantile(0.99),
            max: levels.max(),
            percent_at: levels
                .ns_at()
                .iter()
                .map(|ns| 100.0 * *ns as f64 / total as f64)
                .collect(),
        }
    }
}

/// Summary of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceSummary {
    /// Device number.
    pub dev: DevId,
    /// By class, indexed by `Class as usize`.
    pub classes: [ClassSummary; 4],
    /// Percent of time with any I/O between start and done (A2); `None` if the window is empty.
    pub busy_percent: Option<f64>,
    /// The same for reads only (A4).
    pub busy_read_percent: Option<f64>,
    /// The same for writes only (A4).
    pub busy_write_percent: Option<f64>,
    /// Percent of time with reads and writes at once (A4).
    pub busy_both_percent: Option<f64>,
    /// Percent of time with any I/O between issue and done: the device itself (A2).
    pub busy_device_percent: Option<f64>,
    /// In flight between start and done.
    pub concurrency: Concurrency,
    /// I/Os lost on this device, which the numbers above do not include; `None` if some were lost but their number is
    /// not known.
    pub lost_ios: Option<u64>,
}

impl DevicesSummary {
    /// Replaces the devices, and updates the totals.
    pub(in crate::analysis) fn replace(&mut self, devices: Vec<DeviceSummary>) {
        self.ios = devices.iter().map(DeviceSummary::ios).sum();
        self.bytes = devices.iter().map(DeviceSummary::bytes).sum();
        self.devices = devices;
    }

    /// Lost I/Os without those of devices that `is_left_out` selects; `None` if some were lost but their number is not known.
    pub fn lost_ios_without(&self, is_left_out: impl Fn(DevId) -> bool) -> Option<u64> {
        let (left_out, counted): (Vec<_>, Vec<_>) =
            self.devices.iter().partition(|d| is_left_out(d.dev));
        let of_left_out = left_out
            .iter()
            .try_fold(0, |sum: u64, d| Some(sum + d.lost_ios?));
        match (self.lost_ios, of_left_out) {
            (Some(all), Some(of_left_out)) => Some(all.saturating_sub(of_left_out)),
            // The total may be unknown only because of devices left out, so add up the others.
            (None, None) => counted
                .iter()
                .try_fold(self.lost_anywhere?, |sum, d| Some(sum + d.lost_ios?)),
            (all, _) => all,
        }
    }

    /// I/Os of all devices, if the source counts I/Os.
    pub fn known_ios(&self) -> Option<u64> {
        let said = self.devices.is_empty() || self.classes().any(|c| c.ios.is_some());
        (said || self.ios > 0).then_some(self.ios)
    }

    /// Bytes of all devices, if the source counts bytes.
    pub fn known_bytes(&self) -> Option<u64> {
        let silent = self.classes().any(|c| c.ios > Some(0) && c.bytes.is_none());
        let said =
            self.devices.is_empty() || (self.classes().any(|c| c.bytes.is_some()) && !silent);
        (said || self.bytes > 0).then_some(self.bytes)
    }

    fn classes(&self) -> impl Iterator<Item = &ClassSummary> {
        self.devices.iter().flat_map(|d| &d.classes)
    }
}

impl DeviceSummary {
    /// Summary from counters without single I/Os. Of concurrency only the mean is known, `in_flight`.
    pub(in crate::analysis) fn of_counters(
        dev: DevId,
        classes: [ClassSummary; 4],
        in_flight: Option<f64>,
    ) -> DeviceSummary {
        DeviceSummary {
            dev,
            classes,
            busy_percent: None,
            busy_read_percent: None,
            busy_write_percent: None,
            busy_both_percent: None,
            busy_device_percent: None,
            concurrency: Concurrency {
                mean: in_flight,
                ..Concurrency::default()
            },
            lost_ios: Some(0),
        }
    }

    /// The numbers of one class.
    pub fn class(&self, class: Class) -> &ClassSummary {
        &self.classes[class as usize]
    }

    /// I/Os of all classes whose number is known.
    pub fn ios(&self) -> u64 {
        self.classes.iter().filter_map(|c| c.ios).sum()
    }

    /// Bytes of all classes whose bytes are known.
    pub fn bytes(&self) -> u64 {
        self.classes.iter().filter_map(|c| c.bytes).sum()
    }
}

/// All devices, with their totals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DevicesSummary {
    /// The window that was studied.
    pub window: Window,
    /// The devices with completed or lost I/Os, by device number.
    pub devices: Vec<DeviceSummary>,
    /// All I/Os counted.
    pub ios: u64,
    /// The bytes that they moved.
    pub bytes: u64,
    /// Lost I/Os of all devices and of unknown ones; `None` if some were lost but their number is not known.
    pub lost_ios: Option<u64>,
    /// Lost I/Os whose device is not known; `None` if some were lost but their number is not known.
    pub lost_anywhere: Option<u64>,
    /// I/Os in flight when the probes were attached (censored: their start is not known, so they are not counted).
    pub censored_ios: u64,
    /// I/Os that were in flight for longer than the sweep could hold them back, and the busy time that may be missing.
    pub clipped: Clipped,
}

impl DevicesSummary {
    /// The summary of `dev`.
    pub fn of(&self, dev: DevId) -> Option<&DeviceSummary> {
        self.devices
            .binary_search_by_key(&dev, |d| d.dev)
            .ok()
            .map(|i| &self.devices[i])
    }
}
