//! Compares the latency of disks of one model at the same load, and finds the slow ones.

use std::collections::BTreeMap;

use iolens_core::analysis::math::stats;
use iolens_core::model::{Class, Rollup};

use super::{DeviceSums, Fleet};

/// Minimum number of devices with which a disk is compared.
pub const MIN_PEERS: usize = 3;
/// Minimum number of I/Os of a class at one load for which a mean is used.
const MIN_IOS: i64 = 100;
/// Healthy disks of a model differ by less than this factor at the same load. The Python module `slow` uses the same
/// value.
const MIN_SLOW_FACTOR: f64 = 1.4;
/// Healthy disks are within this many robust standard deviations of the others of their model.
const MAX_SPREADS: f64 = 4.0;
/// Ratio of the standard deviation of a normal distribution to its median absolute deviation.
const DEVIATION_PER_MAD: f64 = 1.4826;

/// Minutes are comparable if they agree in class, in bytes moved by the disk in the minute, and in the mean size of
/// I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ComparableLoad {
    class: usize,
    /// Twice log2 of the bytes of all classes in the minute. Latency depends on the load.
    minute_half_octave: u32,
    /// log2 of the mean I/O size in bytes.
    size_octave: u32,
}

/// Number of I/Os and the sums of their times.
#[derive(Debug, Clone, Copy, Default)]
struct TimeSums {
    ios: i64,
    /// From start to completion, in nanoseconds.
    total_ns: i64,
    /// From issue to completion, in nanoseconds.
    device_ns: i64,
}

impl TimeSums {
    fn add(&mut self, other: TimeSums) {
        self.ios = self.ios.saturating_add(other.ios);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
    }
}

/// The times of a disk at each load.
#[derive(Debug, Clone, Default)]
pub struct TimesByLoad(BTreeMap<ComparableLoad, TimeSums>);

impl TimesByLoad {
    /// Adds the times of another stretch.
    pub fn add(&mut self, other: &TimesByLoad) {
        for (load, times) in &other.0 {
            self.0.entry(*load).or_default().add(*times);
        }
    }
}

/// The minute of a disk that is being read. Its load is known only when it is complete.
#[derive(Debug, Default)]
pub struct OpenMinute {
    at_ns: i64,
    bytes: [i64; Class::ALL.len()],
    times: [TimeSums; Class::ALL.len()],
}

impl OpenMinute {
    /// Adds a row of a class. A row of the next minute first adds this minute to `into`.
    pub fn take(&mut self, row: &Rollup, into: &mut TimesByLoad) {
        let Some(class) = row.class else { return };
        if row.at_ns != self.at_ns {
            self.close(into);
            self.at_ns = row.at_ns;
        }
        let class = class as usize;
        self.bytes[class] = self.bytes[class].saturating_add(row.bytes);
        let queue_ns = row.queue_sum_ns.unwrap_or(0);
        self.times[class].add(TimeSums {
            ios: row.ios,
            total_ns: row.device_sum_ns.saturating_add(queue_ns),
            device_ns: row.device_sum_ns,
        });
    }

    /// Adds the minute to `into`, and starts a new one.
    pub fn close(&mut self, into: &mut TimesByLoad) {
        let minute = std::mem::take(self);
        let minute_bytes: i64 = minute
            .bytes
            .iter()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes));
        for (class, times) in minute.times.into_iter().enumerate() {
            if times.ios <= 0 {
                continue;
            }
            let load = ComparableLoad {
                class,
                minute_half_octave: half_octave(minute_bytes),
                size_octave: octave(minute.bytes[class] / times.ios),
            };
            into.0.entry(load).or_default().add(times);
        }
    }
}

fn octave(n: i64) -> u32 {
    n.max(1).ilog2()
}

/// Squaring a number doubles its logarithm, which gives half-octave steps.
fn half_octave(n: i64) -> u32 {
    let n = n.max(1).unsigned_abs();
    (u128::from(n) * u128::from(n)).ilog2()
}

/// Mean times per I/O, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Means {
    total_ns: f64,
    device_ns: f64,
}

/// The mean times per I/O on the median disk of each kind, at each load that at least [`MIN_PEERS`] disks had, and
/// the spread of the disks of each kind around it.
#[derive(Debug, Default)]
pub struct Peers {
    usual: BTreeMap<(String, ComparableLoad), Means>,
    /// The factor above which a disk of each kind is slow.
    slow_above: BTreeMap<String, f64>,
}

impl Peers {
    /// Computes them from all disks of the fleet.
    pub fn of(fleet: &Fleet) -> Peers {
        let hosts = fleet.hosts.iter();
        let disks: Vec<&DeviceSums> = hosts
            .flat_map(|h| h.devices.values())
            .filter(|d| d.is_disk())
            .collect();
        let mut means: BTreeMap<(String, ComparableLoad), Vec<Means>> = BTreeMap::new();
        for disk in &disks {
            let kind = disk.kind();
            for (load, times) in &disk.loads.0 {
                if times.ios >= MIN_IOS {
                    let of = means.entry((kind.clone(), *load)).or_default();
                    of.push(Means {
                        total_ns: times.total_ns as f64 / times.ios as f64,
                        device_ns: times.device_ns as f64 / times.ios as f64,
                    });
                }
            }
        }
        let mut peers = Peers::default();
        for (key, of) in means {
            if of.len() >= MIN_PEERS {
                let usual = Means {
                    total_ns: median(of.iter().map(|m| m.total_ns).collect()),
                    device_ns: median(of.iter().map(|m| m.device_ns).collect()),
                };
                peers.usual.insert(key, usual);
            }
        }
        let mut factors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for disk in disks {
            if let Some(factor) = peers.slow_factor(disk) {
                factors.entry(disk.kind()).or_default().push(factor.ln());
            }
        }
        for (kind, of) in factors {
            let middle = median(of.clone());
            let spread =
                DEVIATION_PER_MAD * median(of.iter().map(|f| (f - middle).abs()).collect());
            let bound = (middle + MAX_SPREADS * spread).exp();
            peers.slow_above.insert(kind, bound.max(MIN_SLOW_FACTOR));
        }
        peers
    }

    /// The loads of a disk that its peers had too, each with the peers' mean times.
    fn compared<'a>(
        &'a self,
        device: &'a DeviceSums,
    ) -> impl Iterator<Item = (&'a ComparableLoad, &'a TimeSums, &'a Means)> {
        let kind = device.kind();
        let loads = device.is_disk().then_some(&device.loads.0);
        loads
            .into_iter()
            .flatten()
            .filter_map(move |(load, times)| {
                let usual = self.usual.get(&(kind.clone(), *load))?;
                Some((load, times, usual))
            })
    }

    /// I/O time of `device` beyond that of the median disk of its kind for the same number of I/Os at the same load,
    /// in nanoseconds; `None`: no peers.
    pub fn lost_ns(&self, device: &DeviceSums) -> Option<f64> {
        let mut of_class: [Option<f64>; Class::ALL.len()] = Default::default();
        for (load, times, usual) in self.compared(device) {
            let beyond = times.total_ns as f64 - usual.total_ns * times.ios as f64;
            *of_class[load.class].get_or_insert(0.0) += beyond;
        }
        let known = of_class.into_iter().flatten();
        known.map(|beyond| beyond.max(0.0)).reduce(|a, b| a + b)
    }

    /// Ratio of the device time to that of the median disk of its kind for the same number of I/Os at the same load;
    /// `None`: no peers.
    pub fn slow_factor(&self, device: &DeviceSums) -> Option<f64> {
        let mut taken_ns = 0.0;
        let mut usual_ns = 0.0;
        for (_, times, usual) in self.compared(device) {
            taken_ns += times.device_ns as f64;
            usual_ns += usual.device_ns * times.ios as f64;
        }
        (taken_ns > 0.0 && usual_ns > 0.0).then(|| taken_ns / usual_ns)
    }

    /// Whether the slow factor is larger than the spread among healthy disks.
    pub fn is_slow(&self, device: &DeviceSums) -> bool {
        let bound = self.slow_above.get(&device.kind());
        let factor = self.slow_factor(device);
        factor
            .zip(bound)
            .is_some_and(|(factor, bound)| factor > *bound)
    }
}

/// The median of at least one value.
fn median(mut values: Vec<f64>) -> f64 {
    stats::median(&mut values).unwrap_or_default()
}
