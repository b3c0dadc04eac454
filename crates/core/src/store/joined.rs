//! Reads consecutive recordings as one, for a time range that spans a restart or a rotation of the recorder.

use std::ops::Range;
use std::path::Path;

use super::reader::{Recording, lost_block};
use super::row::Row;
use super::schema::Table;
use crate::model::{Device, LossReason, Lost};

/// Shorter gaps come from adjustments of the wall clock during a rotation and are not missing time.
pub const MIN_GAP_NS: i64 = 10_000_000;

/// The loss between the end of a recording and the start of the next; both times count from the same origin.
pub fn gap_between(end_ns: i64, from_ns: i64) -> Option<Lost> {
    let is_gap = from_ns.saturating_sub(end_ns) >= MIN_GAP_NS;
    is_gap.then(|| lost_block(end_ns, from_ns, None, LossReason::NotRecorded))
}

impl Recording {
    /// Joins parts of recordings, in time order, to one recording called `path` that starts with the first. Each range
    /// is in nanoseconds since the start of its own recording. Gaps between parts become losses of unknown size. `None`
    /// if there are no parts.
    ///
    /// Sums, findings and imported tables are not joined: they are read by the path of a single recording.
    pub fn joined(path: &Path, parts: Vec<(Recording, Range<i64>)>) -> Option<Recording> {
        let mut parts = parts.into_iter();
        let (first, range) = parts.next()?;
        let end_ns = range.end.min(first.end_ns);
        let mut joined = Recording {
            path: path.to_owned(),
            end_ns,
            ..first
        };
        joined.meta.end_ns = None;
        joined.meta.tables = None;
        joined.keep_only(0, i64::MIN, end_of(&range, end_ns));
        for (next, range) in parts {
            joined.append(next, &range);
        }
        joined.meta.end_ns = Some(joined.end_ns);
        joined.lost.sort_by_key(|l| l.to_ns);
        Some(joined)
    }

    /// Appends the part of `next` that is in `range`.
    fn append(&mut self, mut next: Recording, range: &Range<i64>) {
        let shift_ns = next
            .meta
            .start_unix_ns
            .saturating_sub(self.meta.start_unix_ns);
        let from_ns = range.start.saturating_add(shift_ns);
        self.lost.extend(gap_between(self.end_ns, from_ns));
        let own_end_ns = next.end_ns;
        // The end is inclusive if the part extends to its recording's end: no later recording has the rows of that
        // instant.
        let to_ns = match end_of(range, own_end_ns) {
            i64::MAX => i64::MAX,
            to_ns => to_ns.saturating_add(shift_ns),
        };
        // From here on, all times are those of the joined recording.
        next.keep_only(shift_ns, from_ns, to_ns);
        for (blocks, more) in self.blocks.iter_mut().zip(next.blocks) {
            blocks.extend(more);
        }
        self.lost.extend(next.lost);
        self.marks.extend(next.marks);
        self.warnings.extend(next.warnings);
        self.hides_names |= next.hides_names;
        self.disk_bytes = self.disk_bytes.saturating_add(next.disk_bytes);
        let later_end_ns = range.end.min(own_end_ns).saturating_add(shift_ns);
        self.end_ns = self.end_ns.max(later_end_ns);
        // Most devices and limits are those of the previous recording; each is listed once.
        for device in next.meta.devices {
            self.add_device(device, shift_ns);
        }
        for limit in next.meta.limits {
            if !self.meta.limits.contains(&limit) {
                self.meta.limits.push(limit);
            }
        }
        self.meta.cost = self.meta.cost.plus(&next.meta.cost);
    }

    /// Shifts everything by `shift_ns` and removes what is then outside `from_ns..to_ns`. Names looked up earlier stay,
    /// because later I/Os refer to them.
    fn keep_only(&mut self, shift_ns: i64, from_ns: i64, to_ns: i64) {
        for table in Table::ALL {
            let blocks = &mut self.blocks[table as usize - 1];
            let kept = match table {
                Table::Names => i64::MIN..i64::MAX,
                _ => from_ns..to_ns,
            };
            *blocks = blocks
                .iter()
                .filter_map(|b| b.moved(shift_ns, kept.start, kept.end))
                .collect();
        }
        // Losses are intervals; one that crosses a bound is clipped.
        self.lost.retain_mut(|lost| {
            lost.shift(shift_ns);
            let touches = lost.to_ns >= from_ns && lost.from_ns < to_ns;
            lost.from_ns = lost.from_ns.max(from_ns);
            lost.to_ns = lost.to_ns.min(to_ns);
            touches
        });
        for mark in &mut self.marks {
            mark.shift(shift_ns);
        }
        self.marks
            .retain(|mark| (from_ns..to_ns).contains(&mark.at_ns));
    }

    /// Adds a device of a later recording unless it is there already under the same number and name.
    fn add_device(&mut self, device: Device, shift_ns: i64) {
        let known = self
            .meta
            .devices
            .iter()
            .any(|d| d.id == device.id && d.name == device.name);
        if known {
            return;
        }
        let added_ns = device.added_ns.unwrap_or(0).saturating_add(shift_ns);
        let removed_ns = device.removed_ns.map(|ns| ns.saturating_add(shift_ns));
        self.meta.devices.push(Device {
            added_ns: Some(added_ns),
            removed_ns,
            ..device
        });
    }
}

/// End of a part; `i64::MAX` if the part extends to the end of its recording.
fn end_of(range: &Range<i64>, end_ns: i64) -> i64 {
    if range.end >= end_ns {
        i64::MAX
    } else {
        range.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        DevId, Inode, Io, Mark, Name, Named, Observation, Op, RecorderCost, RecordingMeta, Source,
    };
    use crate::store::{IoColumns, RecordingWriter, WriterOptions};

    const S: i64 = 1_000_000_000;

    /// A recording of ten seconds from `start_s` on with an I/O at the end of each, a name and a mark; `finished`: as
    /// Parquet files, not as a log.
    fn recorded(dir: &Path, start_s: i64, finished: bool) -> Recording {
        let path = dir.join(start_s.to_string());
        let mut meta = RecordingMeta::new(Source::Ebpf, start_s * S);
        meta.devices = vec![Device::named("sda", DevId::new(8, 0))];
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        let of = Named::File(Inode {
            fs_dev: 8,
            ino: start_s,
            generation: None,
        });
        let text = format!("/of {start_s}");
        let name = Name {
            at_ns: S / 2,
            of,
            text,
        };
        writer.push(&Observation::Name(name)).expect("writes");
        for second in 1..=10 {
            let io = Io::new(second * S, DevId::new(8, 0), Op::READ, 512, Some(5), 10);
            writer.push_ios(&[io]).expect("writes");
        }
        let mark = Mark {
            at_ns: S,
            kind: "remark".to_owned(),
            text: String::new(),
        };
        writer.push(&Observation::Mark(mark)).expect("writes");
        writer.tick(10 * S).expect("writes");
        if finished {
            writer
                .finish(10 * S, RecorderCost::default())
                .expect("finishes");
        } else {
            drop(writer);
        }
        Recording::open(&path).expect("opens")
    }

    fn done_s(recording: &Recording, range: Range<i64>) -> Vec<i64> {
        let reader = recording.ios(range, IoColumns::ALL);
        let ios = reader.flat_map(|batch| batch.expect("readable"));
        ios.map(|io| io.done_ns / S).collect()
    }

    #[test]
    fn parts_are_one_recording_in_the_time_of_the_first() {
        let dir = tempfile::tempdir().expect("a directory");
        for finished in [true, false] {
            let dir = dir.path().join(finished.to_string());
            std::fs::create_dir(&dir).expect("makes");
            let parts = vec![
                (recorded(&dir, 100, finished), 8 * S..10 * S),
                (recorded(&dir, 110, finished), 0..10 * S),
                (recorded(&dir, 130, finished), 0..2 * S),
            ];
            let joined = Recording::joined(&dir, parts).expect("parts");
            assert_eq!(
                (joined.meta().start_unix_ns, joined.end_ns()),
                (100 * S, 32 * S)
            );
            let all: Vec<i64> = (1..=20).chain([31]).collect();
            assert_eq!(done_s(&joined, 0..i64::MAX), all, "half open at 32 s");
            assert_eq!(done_s(&joined, 9 * S..12 * S), [9, 10, 11]);
            let gaps: Vec<(i64, i64, LossReason)> = joined
                .lost(0..i64::MAX)
                .iter()
                .filter(|l| l.reason == LossReason::NotRecorded)
                .map(|l| (l.from_ns / S, l.to_ns / S, l.reason))
                .collect();
            assert_eq!(gaps, [(20, 30, LossReason::NotRecorded)]);
            let marks: Vec<i64> = joined
                .marks(0..i64::MAX)
                .iter()
                .map(|m| m.at_ns / S)
                .collect();
            assert_eq!(marks, [1, 11, 31]);
            let names = joined.names(i64::MIN..i64::MAX);
            let names: Vec<String> = names
                .flat_map(|batch| batch.expect("readable"))
                .map(|n| n.text)
                .collect();
            assert_eq!(names, ["/of 100", "/of 110", "/of 130"]);
            assert_eq!(
                joined.meta().devices.len(),
                1,
                "one device, recorded thrice"
            );
        }
    }

    #[test]
    fn nothing_joined_is_no_recording() {
        assert!(Recording::joined(Path::new("/"), Vec::new()).is_none());
    }
}
