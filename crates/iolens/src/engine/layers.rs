//! Devices that must not be added to others: an I/O through a stack (md over disks, dm over a partition) is recorded
//! once on each layer, and what a partition does its disk does too.

use std::collections::{BTreeMap, BTreeSet};

use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{DevId, Device, layers_above};
use iolens_core::store::{IoColumns, Recording};

use super::caller::Caller;
use super::error::Result;
use super::note::Note;

/// Which of some devices lie above others of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layers {
    /// Each with the names of the devices under it.
    above: BTreeMap<DevId, Vec<String>>,
    words: Vec<String>,
}

impl Layers {
    /// Of `devices`, those whose I/Os `by` would count twice, if all of them are recorded: none if each device has its own
    /// rows.
    pub fn doubled(devices: &[Device], by: GroupBy) -> Layers {
        if by == GroupBy::Device {
            Layers::default()
        } else {
            Layers::above(devices, |_| true)
        }
    }

    /// The same of a recording: a device that is listed, but has no I/O in it, is not where I/Os are counted.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of(recording: &Recording, by: GroupBy, caller: &Caller) -> Result<Layers> {
        let devices = &recording.meta().devices;
        let all = Layers::doubled(devices, by);
        if all.words.is_empty() || recording.ios_stored() == 0 {
            return Ok(all);
        }
        let mut seen: BTreeSet<DevId> = BTreeSet::new();
        for batch in recording.ios(i64::MIN..i64::MAX, IoColumns::REQUIRED) {
            caller.check()?;
            let before = seen.len();
            for io in &batch? {
                seen.insert(io.dev);
            }
            // Usually the first thousands of I/Os show all there is to know.
            if seen.len() > before
                && Layers::above(devices, |dev| seen.contains(&dev)).above == all.above
            {
                break;
            }
        }
        Ok(Layers::above(devices, |dev| seen.contains(&dev)))
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

    /// Each of them with what it lies on.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// What is left out; `None` if nothing is.
    pub fn note(&self) -> Option<Note> {
        (!self.words.is_empty()).then(|| Note::Layers(self.words.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{Io, Op, RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions};

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
            Layers::of(recording, GroupBy::All, &Caller::deaf())
                .expect("readable")
                .counts(DevId::new(8, minor))
        };
        let [both, upper] = [recorded("both", &[9, 0]), recorded("upper", &[9])];
        assert_eq!((counts(&both, 9), counts(&both, 0)), (false, true));
        assert!(counts(&upper, 9), "nothing else has its I/O");
    }
}
