//! Finds stacked devices whose I/Os must not be added to those of others. An I/O through a stack (md over disks, dm
//! over a partition) is recorded once on each layer, and the I/O of a partition is also I/O of its disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{DevId, Device, MINUTE_NS, SECOND_NS, ceil_to, layers_above};
use iolens_core::store::{IoColumns, Recording, RollupHistograms, SumTable, read_rollups_with};

use super::caller::Caller;
use super::error::Result;
use super::note::Note;
use super::window::{UNSETTLED_NS, kept_from};

/// Number of I/Os that are read before the rollups are. Usually they show all devices.
const FIRST_LOOK_IOS: usize = if cfg!(test) { 100 } else { 16 << 10 };

/// The devices that are stacked on others of the same recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layers {
    /// Each stacked device with the names of the devices under it.
    above: BTreeMap<DevId, Vec<String>>,
    words: Vec<String>,
}

impl Layers {
    /// The devices whose I/Os a sum `by` would count twice, if all `devices` are recorded. None if rows are by
    /// device.
    pub fn doubled(devices: &[Device], by: GroupBy) -> Layers {
        if by == GroupBy::Device {
            Layers::default()
        } else {
            Layers::above(devices, |_| true)
        }
    }

    /// As [`Layers::doubled`], but only layers that have I/O in the recording count: a listed device without I/O
    /// hides no other.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of(recording: &Recording, by: GroupBy, caller: &Caller) -> Result<Layers> {
        let devices = &recording.meta().devices;
        let all = Layers::doubled(devices, by);
        if all.words.is_empty() || recording.ios_stored() == 0 {
            return Ok(all);
        }
        let mut search = DeviceSearch {
            recording,
            all: &all,
            seen: BTreeSet::new(),
        };
        search.look_at_ios(i64::MIN..i64::MAX, FIRST_LOOK_IOS, caller)?;
        if !search.is_over() {
            // A device without I/O would be searched for to the end. Rollups answer for most of the time without
            // decoding I/Os. Without rollups, the first range below covers everything.
            let summed = search.look_at_rollups()?.unwrap_or(i64::MAX..i64::MAX);
            search.look_at_ios(i64::MIN..summed.start, usize::MAX, caller)?;
            search.look_at_ios(summed.end..i64::MAX, usize::MAX, caller)?;
        }
        Ok(search.layers())
    }

    fn above(devices: &[Device], recorded: impl Fn(DevId) -> bool) -> Layers {
        let mut layers = Layers::default();
        for (device, under) in layers_above(devices, recorded) {
            let words = format!("{} (on {})", device.name, under.join(", "));
            layers.words.push(words);
            let names = under.into_iter().map(str::to_owned);
            layers.above.insert(device.id, names.collect());
        }
        layers
    }

    /// Whether an I/O of `dev` counts in sums.
    pub fn counts(&self, dev: DevId) -> bool {
        !self.above.contains_key(&dev)
    }

    /// The devices that do not count in sums, each with the names of those under it.
    pub fn left_out(&self) -> &BTreeMap<DevId, Vec<String>> {
        &self.above
    }

    /// Each left-out device with the devices under it, as text.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The note that names the left-out devices; `None` if there are none.
    pub fn note(&self) -> Option<Note> {
        (!self.words.is_empty()).then(|| Note::Layers(self.words.clone()))
    }
}

/// Searches a recording for the devices that have I/O.
struct DeviceSearch<'a> {
    recording: &'a Recording,
    /// The layers if all listed devices have I/O.
    all: &'a Layers,
    seen: BTreeSet<DevId>,
}

impl DeviceSearch<'_> {
    /// The layers if no further device has I/O.
    fn layers(&self) -> Layers {
        Layers::above(&self.recording.meta().devices, |dev| {
            self.seen.contains(&dev)
        })
    }

    /// Whether finding further devices would not change the result.
    fn is_over(&self) -> bool {
        self.layers().above == self.all.above
    }

    /// Reads the I/Os that completed in `range`, until the search is over or about `most` have been read.
    fn look_at_ios(&mut self, range: Range<i64>, most: usize, caller: &Caller) -> Result<()> {
        if range.is_empty() || self.is_over() {
            return Ok(());
        }
        let mut looked_at = 0;
        for batch in self.recording.ios(range, IoColumns::REQUIRED) {
            caller.check()?;
            let batch = batch?;
            let before = self.seen.len();
            for io in &batch {
                self.seen.insert(io.dev);
            }
            looked_at += batch.len();
            if looked_at >= most || (self.seen.len() > before && self.is_over()) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the coarsest rollups. Returns the time in which they count all I/Os that are still stored, in
    /// nanoseconds since the recording's start; `None` if there are no rollups, or they are damaged.
    fn look_at_rollups(&mut self) -> Result<Option<Range<i64>>> {
        let path = self.recording.path();
        let kept_ns = kept_from(self.recording, &(0..i64::MAX));
        let mut steps = SumTable::Rollups.steps(path)?;
        if kept_ns > 0 {
            // A rollup that begins before `kept_ns` also counts removed I/Os, so it is not used. With short steps only,
            // little of what is left is in such a rollup.
            steps.retain(|step_s| i64::from(*step_s) * SECOND_NS <= MINUTE_NS);
        }
        let Some(coarsest_s) = steps.last().copied() else {
            return Ok(None);
        };
        let from_ns = ceil_to(kept_ns, i64::from(coarsest_s) * SECOND_NS);
        let mut until_ns = i64::MAX;
        for step_s in steps {
            // The last rollup of a coarse step may end later than the I/Os that it counts.
            until_ns = until_ns.min(SumTable::Rollups.until(path, step_s)?);
        }
        if self.recording.meta().end_ns.is_none() {
            until_ns = until_ns.saturating_sub(UNSETTLED_NS);
        }
        if until_ns <= from_ns {
            return Ok(None);
        }
        let histograms = RollupHistograms {
            total: false,
            device: false,
        };
        let mut summed = BTreeSet::new();
        let warnings = read_rollups_with(
            path,
            coarsest_s,
            from_ns..i64::MAX,
            histograms,
            |dev| !self.seen.contains(&dev),
            |rollup| {
                if rollup.ios > 0 {
                    summed.extend(rollup.dev);
                }
            },
        )?;
        self.seen.append(&mut summed);
        Ok(warnings.is_empty().then_some(from_ns..until_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{
        Io, LossReason, Lost, Observation, Op, RecorderCost, RecordingMeta, Source,
    };
    use iolens_core::rollup::{RollupBuilder, minutes};
    use iolens_core::store::{RecordingWriter, WriterOptions};
    use std::path::Path;

    fn device(name: &str, minor: u32, slaves: &[&str]) -> Device {
        let slaves = slaves.iter().map(|s| (*s).to_owned()).collect();
        Device {
            slaves,
            ..Device::named(name, DevId::new(8, minor))
        }
    }

    fn left_out(devices: &[Device]) -> Vec<&str> {
        let layers = Layers::doubled(devices, GroupBy::All);
        devices
            .iter()
            .filter(|d| !layers.counts(d.id))
            .map(|d| &*d.name)
            .collect()
    }

    #[test]
    fn layers_and_partitions_are_left_out_of_sums_only() {
        let mut disk = device("sda", 0, &[]);
        disk.partitions = vec![("sda2".to_owned(), DevId::new(8, 2))];
        let stack = [
            device("dm-0", 9, &["md0"]),
            device("md0", 8, &["sda2", "sdb"]),
            disk,
            device("sdb", 16, &[]),
        ];
        assert_eq!(
            left_out(&stack),
            ["dm-0", "md0"],
            "over a partition of a recorded disk, too"
        );
        assert_eq!(Layers::doubled(&stack, GroupBy::Device), Layers::default());
        assert_eq!(
            left_out(&stack[..1]),
            [""; 0],
            "a layer that was recorded alone is all there is"
        );
    }

    #[test]
    fn a_layer_counts_where_the_device_under_it_is_listed_without_ios() {
        let dir = tempfile::tempdir().expect("a directory");
        let recorded = |name: &str, minors: &[u32]| {
            let path = dir.path().join(name);
            let mut meta = RecordingMeta::new(Source::Ebpf, 0);
            meta.devices = vec![device("dm-0", 9, &["sda"]), device("sda", 0, &[])];
            let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default())
                .expect("a recording");
            let ios: Vec<Io> = minors
                .iter()
                .map(|m| Io::new(1000, DevId::new(8, *m), Op::READ, 512, Some(0), 10))
                .collect();
            writer.push_ios(&ios).expect("written");
            writer
                .finish(2000, RecorderCost::default())
                .expect("finished");
            Recording::open(&path).expect("readable")
        };
        let counts = |recording: &Recording, minor| {
            Layers::of(recording, GroupBy::All, &Caller::without_notes())
                .expect("readable")
                .counts(DevId::new(8, minor))
        };
        let [both, upper] = [recorded("both", &[9, 0]), recorded("upper", &[9])];
        assert_eq!((counts(&both, 9), counts(&both, 0)), (false, true));
        assert!(counts(&upper, 9), "nothing else has its I/O");
    }

    /// An I/O of each `(second, minor)`, by time.
    fn ios(done: &[(i64, u32)]) -> Vec<Io> {
        done.iter()
            .map(|(second, minor)| {
                let done_ns = second * SECOND_NS + 1000;
                Io::new(done_ns, DevId::new(8, *minor), Op::READ, 512, Some(0), 10)
            })
            .collect()
    }

    /// The devices left out of sums of a recording of 500 s with three layers, each on a disk: of `stored`, of which the size limit
    /// removed what came before `kept_s`, with rollups of `summed`.
    fn left_out_with_rollups(
        path: &Path,
        stored: &[(i64, u32)],
        kept_s: i64,
        summed: &[(i64, u32)],
    ) -> Vec<String> {
        let mut meta = RecordingMeta::new(Source::Ebpf, 0);
        meta.devices = vec![
            device("dm-0", 9, &["sda"]),
            device("dm-1", 10, &["sdb"]),
            device("dm-2", 11, &["sdc"]),
            device("sda", 0, &[]),
            device("sdb", 16, &[]),
            device("sdc", 32, &[]),
        ];
        let options = WriterOptions {
            segment_rows: FIRST_LOOK_IOS,
            ..WriterOptions::default()
        };
        let mut writer = RecordingWriter::create(path, meta, options).expect("a recording");
        for chunk in ios(stored).chunks(FIRST_LOOK_IOS) {
            writer.push_ios(chunk).expect("written");
        }
        if kept_s > 0 {
            let removed = Lost::somewhere(0, kept_s * SECOND_NS, LossReason::Retention);
            writer.push(&Observation::Lost(removed)).expect("written");
        }
        let mut builder = RollupBuilder::default();
        builder.push_ios(&ios(summed));
        let seconds = builder.finish();
        writer
            .write_rollups(60, &minutes(&seconds))
            .expect("written");
        writer.write_rollups(1, &seconds).expect("written");
        writer
            .finish(500 * SECOND_NS, RecorderCost::default())
            .expect("finished");
        let recording = Recording::open(path).expect("readable");
        let layers =
            Layers::of(&recording, GroupBy::All, &Caller::without_notes()).expect("readable");
        let devices = recording.meta().devices.iter();
        devices
            .filter(|d| !layers.counts(d.id))
            .map(|d| d.name.clone())
            .collect()
    }

    #[test]
    fn devices_with_io_are_found_in_rollups_and_in_what_follows_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut stored = vec![(0, 9); 2 * FIRST_LOOK_IOS];
        stored.extend([(100, 0), (400, 16)]);
        let without = left_out_with_rollups(&dir.path().join("without"), &stored, 0, &[]);
        assert_eq!(without, ["dm-0", "dm-1"], "all single I/Os are looked at");
        let summed = [(0, 9), (100, 0), (200, 9)];
        let with = left_out_with_rollups(&dir.path().join("with"), &stored, 0, &summed);
        assert_eq!(
            with,
            ["dm-0", "dm-1"],
            "the I/O of sdb is after the rollups"
        );
        let summed = [(0, 9), (100, 0), (200, 32)];
        let more = left_out_with_rollups(&dir.path().join("more"), &stored, 0, &summed);
        assert_eq!(
            more,
            ["dm-0", "dm-1", "dm-2"],
            "rollups count an I/O of sdc"
        );
    }

    #[test]
    fn rollups_of_what_is_removed_say_nothing_of_what_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut stored = vec![(311, 9); 2 * FIRST_LOOK_IOS];
        stored.extend([(340, 0), (400, 16)]);
        let summed = [(100, 32), (302, 32), (311, 9), (340, 0), (380, 9)];
        let found = left_out_with_rollups(&dir.path().join("r"), &stored, 310, &summed);
        assert_eq!(found, ["dm-0", "dm-1"]);
    }
}
