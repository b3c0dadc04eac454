//! Rows of a recording's time series: what `zoom` prints and `demo` shows the worst of.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use anyhow::{Result, bail};
use iolens_core::analysis::timeline::{
    CounterTimeline, Differences, GroupBy, GroupKey, Row, Timeline, TimelinePlan,
};
use iolens_core::model::{DevId, Device, Source, find_device};
use iolens_core::store::{IoColumns, Recording};

use super::filter::IoFilter;
use super::{decode, patience, source, window};
use crate::cli::By;
use crate::present::html::Names;

/// The grouping that `--by` names.
pub fn group_by(by: By) -> GroupBy {
    match by {
        By::All => GroupBy::All,
        By::Device => GroupBy::Device,
        By::Process => GroupBy::Process,
        By::Cgroup => GroupBy::Cgroup,
        By::File => GroupBy::File,
    }
}

/// Devices that get a row in every interval: all that can hold data.
pub fn device_keys(devices: &[Device], by: GroupBy) -> Vec<GroupKey> {
    if by != GroupBy::Device {
        return Vec::new();
    }
    let ids: BTreeSet<_> = devices
        .iter()
        .filter(|d| d.size_bytes != Some(0))
        .map(|d| d.id)
        .collect();
    ids.into_iter().map(GroupKey::Device).collect()
}

/// The name of a device, its number if the recording does not say.
pub fn device_name(devices: &[Device], dev: DevId) -> String {
    find_device(devices, dev).map_or_else(|| dev.to_string(), |d| d.name.clone())
}

/// What a row is called; names are escaped by the writer.
pub fn group_name(devices: &[Device], names: &Names, key: GroupKey) -> String {
    let unknown = || "unknown".to_owned();
    match key {
        GroupKey::All => String::new(),
        GroupKey::Device(dev) => device_name(devices, dev),
        GroupKey::Process(Some(tgid), Some(comm)) => format!("{}[{tgid}]", comm.to_text()),
        GroupKey::Process(Some(tgid), None) => format!("[{tgid}]"),
        GroupKey::Process(None, comm) => comm.map_or_else(unknown, |c| c.to_text().into_owned()),
        GroupKey::Cgroup(None) | GroupKey::File(None) => unknown(),
        GroupKey::Cgroup(Some(id)) => names
            .cgroups
            .get(&id)
            .cloned()
            .unwrap_or_else(|| id.to_string()),
        GroupKey::File(Some(file)) => {
            let number = || format!("{} inode {}", DevId(file.fs_dev), file.ino);
            names.files.get(&file).cloned().unwrap_or_else(number)
        }
    }
}

/// Devices that were chosen by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFilter(Option<BTreeSet<DevId>>);

impl DeviceFilter {
    /// Those called `names`, or `MAJOR:MINOR`; all, if there is no name.
    ///
    /// # Errors
    /// None is called so.
    pub fn of(devices: &[Device], names: &[String]) -> Result<DeviceFilter> {
        if names.is_empty() {
            return Ok(DeviceFilter(None));
        }
        let mut chosen = BTreeSet::new();
        for name in names {
            let before = chosen.len();
            chosen.extend(
                devices
                    .iter()
                    .filter(|d| d.name == *name || d.id.to_string() == *name)
                    .map(|d| d.id),
            );
            if chosen.len() == before && !devices.iter().any(|d| d.name == *name) {
                let known: Vec<&str> = devices
                    .iter()
                    .take(MAX_NAMED)
                    .map(|d| d.name.as_str())
                    .collect();
                bail!(
                    "{name}: no such device here; there are {}",
                    known.join(", ")
                );
            }
        }
        Ok(DeviceFilter(Some(chosen)))
    }

    /// Whether none was chosen.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `dev` is one of them.
    pub fn has(&self, dev: DevId) -> bool {
        self.0.as_ref().is_none_or(|chosen| chosen.contains(&dev))
    }
}

/// As many devices are named where one is not found.
const MAX_NAMED: usize = 12;

/// What must be read beside the required columns.
fn columns(by: GroupBy) -> IoColumns {
    IoColumns::QUEUE
        | match by {
            GroupBy::All | GroupBy::Device => IoColumns::REQUIRED,
            GroupBy::Process => IoColumns::TGID | IoColumns::COMM,
            GroupBy::Cgroup => IoColumns::CGROUP,
            GroupBy::File => IoColumns::FILE,
        }
}

/// Calls `show` with every row of `plan` over the devices that count, as soon as it is complete.
///
/// # Errors
/// The recording cannot be read, or `show` failed.
pub fn each_row(
    recording: &Recording,
    range: Range<i64>,
    plan: TimelinePlan,
    counts: impl Fn(DevId) -> bool,
    show: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    each_row_of(recording, range, plan, counts, &IoFilter::default(), show)
}

/// The same of the I/Os that `filter` has; counters know none of what it asks for.
///
/// # Errors
/// As [`each_row`].
pub fn each_row_of(
    recording: &Recording,
    range: Range<i64>,
    plan: TimelinePlan,
    counts: impl Fn(DevId) -> bool,
    filter: &IoFilter,
    mut show: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    if recording.meta().source == Source::Counters {
        return each_row_of_counters(recording, range, plan, counts, show);
    }
    // What was in flight in the window may complete after it; only the extended columns ask for that.
    let reach = if plan.extended {
        window::with_in_flight(&range)
    } else {
        window::with_last_instant(recording, &range)
    };
    let columns = columns(plan.by) | filter.columns();
    let mut timeline = Timeline::new(plan)?;
    for l in recording
        .lost(range.clone())
        .iter()
        .filter(|l| l.dev.is_none_or(&counts))
    {
        timeline.lost(l);
    }
    let mut ios = decode::Ios::new(recording, reach, columns);
    while let Some(batch) = ios.next() {
        patience::check()?;
        ios.reader().damage().iter().for_each(|l| timeline.lost(l));
        for io in batch?.iter().filter(|io| counts(io.dev) && filter.has(io)) {
            timeline.push(io)?;
        }
        while let Some(row) = timeline.next_row() {
            show(row)?;
        }
    }
    source::warn(ios.reader().warnings());
    timeline.finish(range.end)?;
    while let Some(row) = timeline.next_row() {
        show(row)?;
    }
    Ok(())
}

/// The same from counters: rates and mean latencies between samples.
fn each_row_of_counters(
    recording: &Recording,
    range: Range<i64>,
    plan: TimelinePlan,
    counts: impl Fn(DevId) -> bool,
    show: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let step_ns = plan.step_ns;
    let mut timeline = CounterTimeline::new(plan)?;
    let mut differences = Differences::new(&recording.meta().devices);
    // From the beginning: the window's first difference needs the sample before it. To where every device has been seen
    // after the window: a difference tells of the time before its later sample.
    let mut counters = recording.counters(0..i64::MAX);
    let mut seen_ns: HashMap<DevId, i64> = HashMap::new();
    let mut finest_ns = i64::MAX;
    for batch in &mut counters {
        patience::check()?;
        let batch = batch?;
        for c in batch.iter().filter(|c| counts(c.dev)) {
            seen_ns.insert(c.dev, c.at_ns);
            if let Some(d) = differences.push(c) {
                finest_ns = finest_ns.min(d.to_ns - d.from_ns);
                timeline.push(&d);
            }
        }
        if seen_ns
            .values()
            .all(|at_ns| *at_ns >= range.end.saturating_add(step_ns))
            && !seen_ns.is_empty()
        {
            break;
        }
    }
    source::warn(counters.warnings());
    if step_ns < finest_ns && finest_ns < i64::MAX {
        eprintln!(
            "iolens: the counters were read every {:.1} ms or more seldom: in finer rows all that happened between two \
             readings stands in the later one's row, and of the rows between them nothing is known",
            finest_ns as f64 / 1e6
        );
    }
    timeline.finish(range.end)?.into_iter().try_for_each(show)
}
