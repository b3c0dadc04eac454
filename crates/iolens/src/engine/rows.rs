//! Rows of a recording's time series. `zoom` prints them, and `demo` shows the worst.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use iolens_core::analysis::timeline::{
    CounterTimeline, Differences, GroupBy, GroupKey, Row, Timeline, TimelinePlan,
};
use iolens_core::model::{DevId, Device, Names, Source, find_device};
use iolens_core::store::{IoColumns, Recording};

use super::caller::Caller;
use super::error::Result;
use super::filter::Filter;
use super::note::Note;
use super::{decode, window};

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

/// The name of a device, or its number if the recording has no name.
pub fn device_name(devices: &[Device], dev: DevId) -> String {
    find_device(devices, dev).map_or_else(|| dev.to_string(), |d| d.name.clone())
}

/// The name of a row. Writers escape it, and have their own text for unknown names.
pub fn group_name(devices: &[Device], names: &Names, key: GroupKey) -> String {
    match key {
        GroupKey::All => String::new(),
        GroupKey::Device(dev) => device_name(devices, dev),
        GroupKey::Process(Some(tgid), Some(comm)) => format!("{}[{tgid}]", comm.to_text()),
        GroupKey::Process(Some(tgid), None) => format!("[{tgid}]"),
        GroupKey::Process(None, Some(comm)) => comm.to_text().into_owned(),
        GroupKey::Process(None, None) | GroupKey::Cgroup(None) | GroupKey::File(None) => {
            "unknown".to_owned()
        }
        GroupKey::Cgroup(Some(id)) => names
            .cgroups
            .get(&id)
            .cloned()
            .unwrap_or_else(|| id.to_string()),
        GroupKey::File(Some(file)) => match names.files.get(&file) {
            Some(name) => name.clone(),
            None => format!("{} inode {}", DevId(file.fs_dev), file.ino),
        },
    }
}

/// The columns to read in addition to the required ones.
pub fn columns(by: GroupBy) -> IoColumns {
    IoColumns::QUEUE
        | match by {
            GroupBy::All | GroupBy::Device => IoColumns::REQUIRED,
            GroupBy::Process => IoColumns::TGID | IoColumns::COMM,
            GroupBy::Cgroup => IoColumns::CGROUP,
            GroupBy::File => IoColumns::FILE,
        }
}

/// Calls `show` with each row of `plan` over the I/Os that `filter` accepts, as soon as it is complete. With
/// counters, only the filter by device applies.
///
/// # Errors
/// The recording cannot be read, or `show` failed.
pub fn each_row_of(
    recording: &Recording,
    range: Range<i64>,
    plan: TimelinePlan,
    filter: &Filter,
    caller: &Caller,
    mut show: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    if recording.meta().source == Source::Counters {
        return each_row_of_counters(recording, range, plan, filter, caller, show);
    }
    // An I/O in flight in the window may complete after it. Only the extended columns need such I/Os.
    let reach = if plan.extended {
        window::with_in_flight(&range)
    } else {
        window::with_last_instant(recording, &range)
    };
    let columns = columns(plan.by) | filter.ios.columns();
    let mut timeline = Timeline::new(plan)?;
    for l in &window::losses(recording, &range) {
        if l.dev.is_none_or(|dev| filter.counts(dev)) {
            timeline.lost(l);
        }
    }
    let mut ios = decode::Ios::new(recording, reach, columns).started_before(range.end);
    let mut damage_seen = 0;
    while let Some(batch) = ios.next() {
        caller.check()?;
        damage_seen = mark_damage(&mut timeline, &ios, damage_seen);
        for io in &batch? {
            if filter.has(io) {
                timeline.push(io)?;
            }
        }
        while let Some(row) = timeline.next_row() {
            show(row)?;
        }
    }
    // If the last block is damaged, no batch follows it, so its damage is added here.
    mark_damage(&mut timeline, &ios, damage_seen);
    caller.damage(recording.path(), ios.reader().warnings());
    timeline.finish(range.end)?;
    while let Some(row) = timeline.next_row() {
        show(row)?;
    }
    Ok(())
}

/// Adds to `timeline` the losses of `ios` after the first `seen`. Returns the new number of losses.
fn mark_damage(timeline: &mut Timeline, ios: &decode::Ios, seen: usize) -> usize {
    let damage = ios.reader().damage();
    for lost in &damage[seen..] {
        timeline.lost(lost);
    }
    damage.len()
}

/// Rows from counters: rates and mean latencies between samples.
fn each_row_of_counters(
    recording: &Recording,
    range: Range<i64>,
    plan: TimelinePlan,
    filter: &Filter,
    caller: &Caller,
    show: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let step_ns = plan.step_ns;
    let mut timeline = CounterTimeline::new(plan)?;
    let mut differences = Differences::new(&recording.meta().devices);
    // Samples are read from the start, because the first difference in the window needs the sample before it, and
    // until every device has had a sample after the window, because a difference covers the time before its later
    // sample.
    let mut counters = recording.counters(0..i64::MAX);
    let mut seen_ns: HashMap<DevId, i64> = HashMap::new();
    let mut finest_ns = i64::MAX;
    let enough_ns = range.end.saturating_add(step_ns);
    for batch in &mut counters {
        caller.check()?;
        for c in batch?.iter().filter(|c| filter.counts(c.dev)) {
            seen_ns.insert(c.dev, c.at_ns);
            if let Some(d) = differences.push(c) {
                finest_ns = finest_ns.min(d.to_ns - d.from_ns);
                timeline.push(&d);
            }
        }
        let all_are_seen = seen_ns.values().all(|at_ns| *at_ns >= enough_ns);
        if all_are_seen && !seen_ns.is_empty() {
            break;
        }
    }
    caller.damage(recording.path(), counters.warnings());
    if step_ns < finest_ns && finest_ns < i64::MAX {
        caller.note(Note::FinerThanCounters(finest_ns));
    }
    timeline.finish(range.end)?.into_iter().try_for_each(show)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::analysis::Window;
    use iolens_core::model::{Io, Op, RecorderCost, RecordingMeta};
    use iolens_core::store::{RecordingWriter, WriterOptions};
    use std::path::Path;

    const MS: i64 = 1_000_000;

    /// `ios` reads, one each millisecond, in files of `rows` reads.
    fn record(path: &Path, ios: i64, rows: usize) {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let options = WriterOptions {
            segment_rows: rows,
            ..WriterOptions::default()
        };
        let mut writer = RecordingWriter::create(path, meta, options).expect("a recording");
        let reads: Vec<Io> = (0..ios)
            .map(|i| {
                Io::new(
                    i * MS + 1000,
                    DevId::new(8, 0),
                    Op::READ,
                    4096,
                    Some(i),
                    500,
                )
            })
            .collect();
        for chunk in reads.chunks(rows) {
            writer.push_ios(chunk).expect("written");
        }
        writer
            .finish(ios * MS, RecorderCost::default())
            .expect("finished");
    }

    /// Damages the first column, the times, of the file number `number`: reading its block fails.
    fn damage(path: &Path, number: usize) {
        let file = path.join(format!("io/{number:06}.parquet"));
        let mut bytes = std::fs::read(&file).expect("a segment");
        bytes[20..28].iter_mut().for_each(|byte| *byte ^= 0xff);
        std::fs::write(&file, bytes).expect("damaged");
    }

    /// Reads and the mark of each row of `step_ns`.
    fn rows(path: &Path, step_ns: i64) -> Vec<(u64, bool)> {
        let recording = Recording::open(path).expect("opens");
        assert!(
            recording.warnings().is_empty(),
            "opening reads footers only"
        );
        let range = 0..recording.end_ns();
        let plan = TimelinePlan::new(Window::from(&range), step_ns);
        let mut rows = Vec::new();
        let filter = Filter::default();
        let caller = Caller::without_notes();
        each_row_of(&recording, range, plan, &filter, &caller, |row| {
            rows.push((row.flows[0].ios, row.lossy));
            Ok(())
        })
        .expect("damage is no error");
        rows
    }

    #[test]
    fn a_damaged_last_block_marks_its_row() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.iolens");
        record(&path, 120, 40);
        assert_eq!(
            rows(&path, 40 * MS),
            [(40, false), (40, false), (40, false)]
        );
        damage(&path, 3);
        assert_eq!(rows(&path, 40 * MS), [(40, false), (40, false), (0, true)]);
    }

    #[test]
    fn damage_counts_once_however_many_batches_follow_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.iolens");
        record(&path, 1200, 10);
        damage(&path, 1);
        assert_eq!(
            rows(&path, 1200 * MS),
            [(1190, false)],
            "0.84 % of a row is missing"
        );
        assert_eq!(rows(&path, 600 * MS), [(590, true), (600, false)]);
    }
}
