//! Compares hosts and devices of a root by their rollups of one minute: which of them lost I/O time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use iolens_core::model::{
    CallHistogram, Class, DevId, Device, DeviceKind, MINUTE_NS, Rollup, ceil_to, known_sum,
};
use iolens_core::store::{
    Recording, RollupHistograms, Root, StoreError, Stored, findings_written, read_rollups_with,
};

use super::caller::Caller;
use super::choose::{self, FoundRecording};
use super::error::{QueryError, Result};
use super::findings::Reported;
use super::query::Query;

mod load;

pub use load::Peers;
use load::{OpenMinute, TimesByLoad};

const MINUTE_S: i32 = 60;
/// Maximum number of recordings whose sums are cached. Finished recordings do not change.
const MAX_REMEMBERED: usize = 20_000;

/// Sums of one device of one host over the stretch.
#[derive(Debug, Clone, Default)]
pub struct DeviceSums {
    /// Its description in the recordings.
    pub device: Option<Device>,
    /// Number of I/Os and their total latency in nanoseconds, by class.
    pub classes: [ClassSums; Class::ALL.len()],
    /// The same by load: by what the disk did in each minute.
    pub loads: TimesByLoad,
    /// Bytes moved.
    pub bytes: i64,
    /// Histogram of latencies from start to completion.
    pub total: CallHistogram,
    /// Nanoseconds with any I/O in flight; `None`: not known.
    pub busy_ns: Option<i64>,
    /// Failed I/Os; `None`: not known for every minute.
    pub errors: Option<i64>,
    /// I/Os known to be lost; `None`: the number is not known.
    pub lost_ios: Option<i64>,
    /// Start of the minute with the most I/O time, and that time; both in nanoseconds.
    pub worst: Option<(i64, i64)>,
}

/// I/Os of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassSums {
    /// How many.
    pub ios: i64,
    /// Sum of their latencies from start to completion, in nanoseconds. I/Os without a known queue time count from
    /// issue.
    pub total_ns: i64,
}

/// Sums of one host over the stretch.
#[derive(Debug, Clone, Default)]
pub struct HostSums {
    /// Its name.
    pub host: String,
    /// Number of recordings that overlap the stretch.
    pub recordings: u32,
    /// Start of the covered time, in Unix time in nanoseconds.
    pub from_unix_ns: i64,
    /// End of the covered time, in Unix time in nanoseconds.
    pub to_unix_ns: i64,
    /// Covered time in nanoseconds, without the gaps between recordings.
    pub covered_ns: i64,
    /// Devices by stable id, or by name if there is none.
    pub devices: BTreeMap<String, DeviceSums>,
    /// Findings reported during recording.
    pub reported: Reported,
    /// What could not be read, and why.
    pub damage: Vec<String>,
}

/// All hosts that could be read before the deadline.
#[derive(Debug, Default)]
pub struct Fleet {
    /// The stretch, in Unix time in nanoseconds.
    pub unix_ns: Range<i64>,
    /// Hosts with data in the stretch, and hosts whose data cannot be read.
    pub hosts: Vec<HostSums>,
    /// Number of hosts left out for lack of time. A later request continues with them.
    pub left_out: usize,
}

/// Sums of a part of one recording.
#[derive(Debug, Clone)]
struct PartSums {
    unix_ns: Range<i64>,
    devices: BTreeMap<String, DeviceSums>,
    reported: Reported,
    damage: Vec<String>,
}

/// Cache of the sums of parts that were read before.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<HashMap<Key, Arc<PartSums>>>);

/// Cache key: the recording, the part, and the modification time of its findings.
type Key = (PathBuf, Range<i64>, Option<SystemTime>);

/// Opens the root at `path`, with the hosts whose directory cannot be listed; `None` if it is not a root.
fn open(path: &Path) -> Result<Option<(Root, Vec<HostSums>)>> {
    let mut unlisted = Vec::new();
    let root = Root::open_with(path, |host, e| {
        unlisted.push(HostSums {
            host,
            damage: vec![e.to_string()],
            ..HostSums::default()
        });
        Ok(())
    })?;
    Ok(root.map(|root| (root, unlisted)))
}

/// Whether `path` is a root of several hosts.
pub fn is_fleet(path: &Path) -> bool {
    open(path)
        .is_ok_and(|r| r.is_some_and(|(root, unlisted)| root.hosts().len() + unlisted.len() > 1))
}

/// Reads the hosts of the root in the window of `query`. Without a start the window covers `default_ns`; without an
/// end it ends with the newest readable recording. The hosts with the newest recordings are read first, until
/// `deadline`.
///
/// # Errors
/// The path is not a root, or the root holds nothing of that time.
pub fn read(
    query: &Query<'_>,
    default_ns: i64,
    remembered: &Remembered,
    deadline: Instant,
) -> Result<Fleet> {
    let Some((root, unlisted)) = open(query.place)? else {
        return Err(QueryError::NoFleet(query.place.to_owned()));
    };
    if root.recordings().is_empty() && unlisted.is_empty() {
        return Err(QueryError::Empty(query.place.to_owned()));
    }
    let unix_ns = choose::stretch_of_hosts(&root, &query.window, default_ns)?;
    let mut fleet = Fleet {
        unix_ns: unix_ns.clone(),
        hosts: unlisted,
        left_out: 0,
    };
    let mut by_host: Vec<&[Stored]> = root.by_host().collect();
    by_host.sort_by_key(|recordings| Reverse(recordings.last().map(|r| r.start_unix_ns)));
    for (i, recordings) in by_host.iter().enumerate() {
        if Instant::now() > deadline {
            fleet.left_out = by_host.len() - i;
            break;
        }
        let sums = host_sums(recordings, &unix_ns, remembered, query.caller)?;
        if sums.recordings > 0 || sums.reported.total() > 0 || !sums.damage.is_empty() {
            fleet.hosts.push(sums);
        }
    }
    if fleet.hosts.is_empty() {
        return Err(QueryError::NoSumsThen);
    }
    Ok(fleet)
}

fn host_sums(
    recordings: &[Stored],
    unix_ns: &Range<i64>,
    remembered: &Remembered,
    caller: &Caller,
) -> Result<HostSums> {
    let mut sums = HostSums {
        host: recordings[0].host.clone(),
        from_unix_ns: i64::MAX,
        to_unix_ns: i64::MIN,
        ..HostSums::default()
    };
    for found in choose::holding_of_host(recordings, unix_ns) {
        caller.check()?;
        match found.and_then(|found| remembered.sums_of(&found)) {
            Ok(part) => sums.add(&part),
            Err(e) => sums.damage.push(format!("{e}; left out")),
        }
    }
    Ok(sums)
}

impl HostSums {
    fn add(&mut self, part: &PartSums) {
        self.reported.add(&part.reported);
        self.damage.extend_from_slice(&part.damage);
        if part.unix_ns.is_empty() {
            return;
        }
        self.recordings += 1;
        self.covered_ns += part.unix_ns.end - part.unix_ns.start;
        self.from_unix_ns = self.from_unix_ns.min(part.unix_ns.start);
        self.to_unix_ns = self.to_unix_ns.max(part.unix_ns.end);
        for (key, device) in &part.devices {
            match self.devices.get_mut(key) {
                Some(known) => known.add(device),
                None => drop(self.devices.insert(key.clone(), device.clone())),
            }
        }
    }
}

impl Remembered {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<PartSums>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sums_of(&self, found: &FoundRecording) -> Result<Arc<PartSums>, StoreError> {
        let path = &found.stored.path;
        let key = (path.clone(), found.range(), findings_written(path));
        if let Some(part) = self.lock().get(&key) {
            return Ok(Arc::clone(part));
        }
        let part = Arc::new(read_sums(found)?);
        if !part.damage.is_empty() {
            // Not cached, because a copy that is still being written may be complete later.
            return Ok(part);
        }
        let mut known = self.lock();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(key, Arc::clone(&part));
        Ok(part)
    }
}

/// Reads the minutes that begin in the part of a recording.
fn read_sums(found: &FoundRecording) -> Result<PartSums, StoreError> {
    let stored = &found.stored;
    let start_unix_ns = found.start_unix_ns;
    let range = found.range();
    let recording = Recording::open(&stored.path)?;
    let devices = &recording.meta().devices;
    let mut by_id: BTreeMap<DevId, (DeviceSums, OpenMinute)> = BTreeMap::new();
    let mut end_ns = 0;
    let first = ceil_to(range.start, MINUTE_NS);
    let wanted = RollupHistograms {
        total: true,
        device: false,
    };
    // Rows are in order of time, so each device needs at most one incomplete minute.
    let mut damage = read_rollups_with(
        &stored.path,
        MINUTE_S,
        first..range.end,
        wanted,
        |_| true,
        |row: Rollup| {
            let Some(dev) = row.dev else { return };
            end_ns = end_ns.max(row.at_ns + MINUTE_NS);
            let (sums, minute) = by_id
                .entry(dev)
                .or_insert_with(|| (DeviceSums::nothing(), OpenMinute::default()));
            sums.take(&row, start_unix_ns);
            minute.take(&row, &mut sums.loads);
        },
    )?;
    let reported = Reported::read(stored, start_unix_ns, &range).unwrap_or_else(|e| {
        damage.push(format!("{e}; its findings are missing"));
        Reported::default()
    });
    // Device numbers may differ between recordings, so from here on devices go by their identity.
    let mut of_devices: BTreeMap<String, DeviceSums> = BTreeMap::new();
    for device in devices.iter().rev() {
        let Some((mut sums, mut minute)) = by_id.remove(&device.id) else {
            continue;
        };
        minute.close(&mut sums.loads);
        sums.device = Some(device.clone());
        let key = device.stable_id.as_ref().unwrap_or(&device.name);
        // A disk may have several numbers: it was removed and came back, or it has several paths.
        if let Some(newer) = of_devices.remove(key) {
            sums.add_later_number(&newer);
        }
        of_devices.insert(key.clone(), sums);
    }
    let end_ns = end_ns.min(range.end);
    let unix_ns = start_unix_ns + first.min(end_ns)..start_unix_ns + end_ns;
    Ok(PartSums {
        unix_ns,
        devices: of_devices,
        reported,
        damage,
    })
}

impl DeviceSums {
    fn nothing() -> DeviceSums {
        DeviceSums {
            errors: Some(0),
            lost_ios: Some(0),
            ..DeviceSums::default()
        }
    }

    /// Adds a row of a minute. The row of all classes has the figures of the device, the others those of their class.
    fn take(&mut self, row: &Rollup, start_unix_ns: i64) {
        if let Some(class) = row.class {
            // Only the rows of single classes have histograms.
            self.total.merge(&row.total);
            let sums = &mut self.classes[class as usize];
            sums.ios += row.ios;
            sums.total_ns = sums
                .total_ns
                .saturating_add(row.device_sum_ns)
                .saturating_add(row.queue_sum_ns.unwrap_or(0));
            return;
        }
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.errors = known_sum(self.errors, row.errors);
        self.lost_ios = known_sum(self.lost_ios, row.lost_ios);
        if let Some(flight) = row.flight {
            *self.busy_ns.get_or_insert(0) += flight.busy_ns;
            if flight.in_flight_ns > self.worst.map_or(0, |(_, most)| most) {
                self.worst = Some((start_unix_ns + row.at_ns, flight.in_flight_ns));
            }
        }
    }

    fn add(&mut self, other: &DeviceSums) {
        for (a, b) in self.classes.iter_mut().zip(&other.classes) {
            a.ios += b.ios;
            a.total_ns = a.total_ns.saturating_add(b.total_ns);
        }
        self.loads.add(&other.loads);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.total.merge(&other.total);
        self.errors = known_sum(self.errors, other.errors);
        self.lost_ios = known_sum(self.lost_ios, other.lost_ios);
        self.busy_ns = known_sum(self.busy_ns, other.busy_ns);
        self.worst = self
            .worst
            .into_iter()
            .chain(other.worst)
            .max_by_key(|(_, ns)| *ns);
        // Keep the newest description.
        self.device = other.device.clone().or(self.device.take());
    }

    /// Adds the sums of the same disk under another number of the same recording. Two paths to a disk may be busy at
    /// the same time, so the busy time of the sum is not known.
    fn add_later_number(&mut self, later: &DeviceSums) {
        let removed_ns = self.device.as_ref().and_then(|d| d.removed_ns);
        let added_ns = later.device.as_ref().and_then(|d| d.added_ns);
        let was_gone = removed_ns
            .zip(added_ns)
            .is_some_and(|(removed_ns, added_ns)| removed_ns <= added_ns);
        self.add(later);
        if !was_gone {
            self.busy_ns = None;
        }
    }

    /// I/Os of all classes together.
    pub fn ios(&self) -> i64 {
        self.classes.iter().map(|c| c.ios).sum()
    }

    /// Whether it counts in sums over devices. A device on another recorded disk does not.
    pub fn is_disk(&self) -> bool {
        self.device
            .as_ref()
            .is_some_and(|d| d.kind != DeviceKind::Bio && !d.name.starts_with("loop"))
    }

    /// The group of devices with which it is compared: its model, or its rotational flag if the model is not known.
    pub fn kind(&self) -> String {
        let device = self.device.as_ref();
        let model = device
            .and_then(|d| d.model.as_deref())
            .map(|m| m.trim().to_owned());
        model.unwrap_or_else(|| match device.and_then(|d| d.rotational) {
            Some(true) => "(rotating)".to_owned(),
            Some(false) => "(solid state)".to_owned(),
            None => "(any)".to_owned(),
        })
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
