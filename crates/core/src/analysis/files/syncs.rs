//! Duration of fsync and similar calls, and device I/O during them.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::analysis::math::intervals::{total_ns, union};
use crate::analysis::stream::latencies::Latencies;
use crate::model::{Class, DevId, Device, Io, Request, find_device};

/// Syncs of one group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncSummary {
    /// Number of syncs.
    pub n: u64,
    /// Fewer than 30 syncs.
    pub low_n: bool,
    /// Number of failed syncs.
    pub failed: u64,
    /// Mean duration, in microseconds.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// Syncs of one process, or of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncGroup {
    /// Its name. Untrusted: escape it where it is shown.
    pub name: String,
    /// Its syncs.
    #[serde(flatten)]
    pub sync: SyncSummary,
}

/// The `most` groups with the longest total wait.
pub fn worst(groups: HashMap<String, Syncs>, most: usize) -> Vec<SyncGroup> {
    let mut out: Vec<SyncGroup> = Vec::new();
    for (name, mut syncs) in groups {
        if let Some(sync) = syncs.finish() {
            out.push(SyncGroup { name, sync });
        }
    }
    out.sort_by(|a, b| {
        waited_us(b)
            .total_cmp(&waited_us(a))
            .then_with(|| a.name.cmp(&b.name))
    });
    out.truncate(most);
    out
}

/// Total duration of a group's syncs, in microseconds.
fn waited_us(group: &SyncGroup) -> f64 {
    group.sync.mean_us * group.sync.n as f64
}

/// Durations of syncs.
#[derive(Debug, Default)]
pub struct Syncs {
    latencies: Latencies,
    failed: u64,
}

impl Syncs {
    /// Adds a request of class sync.
    pub fn add(&mut self, r: &Request) {
        self.latencies.add(r.end_ns - r.start_ns);
        self.failed += u64::from(r.failed != 0);
    }

    /// The summary; `None` without syncs.
    pub fn finish(&mut self) -> Option<SyncSummary> {
        Some(SyncSummary {
            n: self.latencies.n(),
            low_n: self.latencies.low_n(),
            failed: self.failed,
            mean_us: self.latencies.mean_us()?,
            p50_us: self.latencies.quantile_us(0.5)?,
            p95_us: self.latencies.quantile_us(0.95)?,
            p99_us: self.latencies.quantile_us(0.99)?,
            max_us: self.latencies.max_us()?,
        })
    }
}

/// I/O that a device completed while at least one sync of a file on it was waiting.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Meanwhile {
    /// The device's name, or its number.
    pub device: String,
    /// Time during which at least one sync was waiting.
    pub syncing_s: f64,
    /// Number of writes completed in that time.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: i64,
    /// Number of flushes completed while a sync was waiting.
    pub flushes: u64,
    /// Number of reads completed while a sync was waiting. They compete with the syncs.
    pub reads: u64,
}

/// The values of an I/O that [`meanwhile`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief {
    done_ns: i64,
    dev: DevId,
    class: Class,
    bytes: i64,
}

impl From<&Io> for Brief {
    fn from(io: &Io) -> Brief {
        Brief {
            done_ns: io.done_ns,
            dev: io.dev,
            class: io.class(),
            bytes: io.bytes,
        }
    }
}

/// A sync: its start and end, and the device number of its file's file system.
pub type SyncSpan = (i64, i64, Option<i32>);

/// The whole disk of a device or partition.
fn disk_of(fs_dev: i32, devices: &[Device]) -> Option<DevId> {
    let dev = DevId(fs_dev);
    let disk = devices
        .iter()
        .find(|d| d.id == dev || d.partitions.iter().any(|(_, id)| *id == dev));
    disk.map(|d| d.id)
}

/// Sums `ios` (in order of completion) over the union of the intervals of `syncs`, for each device under the synced
/// files. Stacked devices and other disks are left out: they would count the same data twice, or other data. So are
/// syncs on file systems whose device is not known (btrfs, overlays).
pub fn meanwhile(syncs: &[SyncSpan], ios: &[Brief], devices: &[Device]) -> Vec<Meanwhile> {
    let mut spans: BTreeMap<DevId, Vec<(i64, i64)>> = BTreeMap::new();
    for (from, to, fs_dev) in syncs {
        if let Some(disk) = fs_dev.and_then(|d| disk_of(d, devices)) {
            spans.entry(disk).or_default().push((*from, *to));
        }
    }
    spans
        .into_iter()
        .map(|(dev, spans)| Meanwhile {
            device: name_of(dev, devices),
            ..on_device(dev, spans, ios)
        })
        .collect()
}

/// The device's name, or its number if it is not among `devices`.
fn name_of(dev: DevId, devices: &[Device]) -> String {
    match find_device(devices, dev) {
        Some(device) => device.name.clone(),
        None => format!("{}:{}", dev.major(), dev.minor()),
    }
}

fn on_device(dev: DevId, spans: Vec<(i64, i64)>, ios: &[Brief]) -> Meanwhile {
    let syncing = union(spans);
    let mut out = Meanwhile {
        syncing_s: total_ns(&syncing) as f64 / 1e9,
        ..Meanwhile::default()
    };
    for (from, to) in syncing {
        let first = ios.partition_point(|io| io.done_ns < from);
        for io in ios[first..]
            .iter()
            .take_while(|io| io.done_ns <= to)
            .filter(|io| io.dev == dev)
        {
            match io.class {
                Class::Write => {
                    out.writes += 1;
                    out.written_bytes += io.bytes;
                }
                Class::Flush => out.flushes += 1,
                Class::Read => out.reads += 1,
                Class::Discard => {}
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_syncs_count_their_devices_time_and_ios_once() {
        let disk = DevId::new(8, 0);
        let io = |done_ns, class, bytes| Brief {
            done_ns,
            dev: disk,
            class,
            bytes,
        };
        let ios = [
            io(5, Class::Write, 100),
            io(15, Class::Write, 10),
            Brief {
                dev: DevId::new(7, 0),
                ..io(16, Class::Write, 10)
            },
            io(18, Class::Flush, 0),
            io(40, Class::Read, 7),
            io(60, Class::Write, 1),
        ];
        let mut device = Device::named("sda", disk);
        device
            .partitions
            .push(("sda1".to_owned(), DevId::new(8, 1)));
        let on = Some(DevId::new(8, 1).0);
        let all = meanwhile(
            &[
                (10, 20, on),
                (15, 30, on),
                (38, 45, on),
                (0, 99, Some(77)),
                (0, 99, None),
            ],
            &ios,
            &[device],
        );
        let [m] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            (
                m.device.as_str(),
                m.writes,
                m.written_bytes,
                m.flushes,
                m.reads
            ),
            ("sda", 1, 10, 1, 1)
        );
        assert!((m.syncing_s - 27e-9).abs() < 1e-15);
    }

    #[test]
    fn no_sync_has_no_summary() {
        assert_eq!(Syncs::default().finish(), None);
        let mut s = Syncs::default();
        s.add(&Request {
            failed: 5,
            ..Request::new(1000, 4000)
        });
        let f = s.finish().expect("one");
        assert_eq!((f.n, f.failed, f.p50_us, f.low_n), (1, 1, 3.0, true));
    }
}
