//! Describes recordings and lists those below a directory, for `info` and `ls`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iolens_core::model::{LossReason, RecordingMeta};
use iolens_core::store::{Recording, Root, StoreError, TableContent};
pub use iolens_core::store::{Verification, verify};

use super::caller::Caller;
use super::error::{QueryError, Result};
use super::note::Note;

/// Maximum depth of the search below a directory.
const MAX_DEPTH: usize = 16;

/// The description of a recording.
#[derive(Debug, Clone)]
pub struct RecordingInfo {
    /// The path as the user wrote it.
    pub path: PathBuf,
    /// The metadata of the recording as a whole.
    pub meta: RecordingMeta,
    /// End in nanoseconds since its start. For a recording that is still open this is its last observation.
    pub end_ns: i64,
    /// Number of single I/Os; `None` for recordings of counters or imported averages.
    pub ios: Option<u64>,
    /// Size of all its files in bytes.
    pub disk_bytes: u64,
    /// Losses by reason.
    pub losses: BTreeMap<LossReason, LossSum>,
    /// Nanoseconds without a recorder, between the recordings that were merged into this one.
    pub unrecorded_ns: i64,
    /// Its tables.
    pub tables: Vec<TableContent>,
    /// Damage found when opening it, one line each.
    pub damage: Vec<String>,
}

/// All losses of one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossSum {
    /// Number of intervals with losses.
    pub intervals: u64,
    /// Number of lost I/Os or requests; `None`: not known for at least one interval.
    pub ios: Option<u64>,
    /// Start of the first interval, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End of the last interval, in nanoseconds since the recording's start.
    pub to_ns: i64,
}

/// Nanoseconds without a recorder, between the recordings that were merged into `recording`.
pub fn unrecorded_ns(recording: &Recording) -> i64 {
    let losses = recording.lost(i64::MIN..i64::MAX);
    let unrecorded = losses
        .iter()
        .filter(|lost| lost.reason == LossReason::NotRecorded);
    unrecorded.map(|lost| lost.to_ns - lost.from_ns).sum()
}

impl RecordingInfo {
    /// Reads the description of the recording at `path`.
    ///
    /// # Errors
    /// It is no recording, or cannot be read.
    pub fn read(path: &Path) -> Result<RecordingInfo> {
        let recording = Recording::open(path)?;
        let mut losses: BTreeMap<LossReason, LossSum> = BTreeMap::new();
        for lost in recording.lost(i64::MIN..i64::MAX) {
            let sum = losses.entry(lost.reason).or_insert(LossSum {
                intervals: 0,
                ios: Some(0),
                from_ns: lost.from_ns,
                to_ns: lost.to_ns,
            });
            sum.intervals += 1;
            sum.ios = sum
                .ios
                .zip(lost.ios)
                .map(|(sum, ios)| sum.saturating_add(ios.max(0).unsigned_abs()));
            sum.from_ns = sum.from_ns.min(lost.from_ns);
            sum.to_ns = sum.to_ns.max(lost.to_ns);
        }
        Ok(RecordingInfo {
            path: path.to_owned(),
            meta: recording.meta().clone(),
            end_ns: recording.end_ns(),
            ios: recording.meta().source.known_ios(recording.ios_stored()),
            disk_bytes: recording.disk_bytes(),
            losses,
            unrecorded_ns: unrecorded_ns(&recording),
            tables: recording.contents()?,
            damage: recording.warnings().to_vec(),
        })
    }

    /// Reads each recording at `place` (a recording, or a root with several). Errors are returned per recording.
    pub fn read_all(place: &Path) -> Vec<Result<RecordingInfo>> {
        match recordings_of(place) {
            Ok(paths) => paths.iter().map(|path| RecordingInfo::read(path)).collect(),
            Err(e) => vec![Err(e)],
        }
    }

    /// Number of lost block I/Os; `None`: not known.
    pub fn lost_ios(&self) -> Option<u64> {
        let mut sum = Some(0u64);
        for (reason, lost) in &self.losses {
            if reason.is_loss() {
                sum = sum.zip(lost.ios).map(|(sum, ios)| sum.saturating_add(ios));
            }
        }
        sum
    }

    /// Number of single I/Os that the size limit removed; `None`: not known.
    pub fn removed_ios(&self) -> Option<u64> {
        self.losses
            .get(&LossReason::Retention)
            .map_or(Some(0), |lost| lost.ios)
    }

    /// Whether its end is not written: it is still growing, or its recorder was killed.
    pub fn is_open(&self) -> bool {
        self.meta.end_ns.is_none()
    }

    /// Number of files of all its tables.
    pub fn table_files(&self) -> u64 {
        self.tables.iter().map(|t| t.files).sum()
    }
}

/// The recordings at `place`: itself, or all of a root.
///
/// # Errors
/// A root cannot be listed.
pub fn recordings_of(place: &Path) -> Result<Vec<PathBuf>> {
    let Some(root) = Root::open(place)? else {
        return Ok(vec![place.to_owned()]);
    };
    let stored = root.recordings().iter();
    Ok(stored.map(|stored| stored.path.clone()).collect())
}

/// The recordings at and below `dir`, ordered by path. Symbolic links are not followed, and directories below a
/// recording are not searched. What cannot be read is left out with a note.
///
/// # Errors
/// `dir` itself cannot be listed.
pub fn below(dir: &Path, caller: &Caller) -> Result<Vec<RecordingInfo>> {
    let mut found = Vec::new();
    if holds_recording(dir) {
        found.push(RecordingInfo::read(dir)?);
        return Ok(found);
    }
    let mut waiting = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = waiting.pop() {
        let below = match directories_in(&dir) {
            Ok(below) => below,
            Err(why) if depth == 0 => {
                return Err(QueryError::Store(StoreError::Io {
                    path: dir,
                    doing: "read",
                    why,
                }));
            }
            Err(why) => {
                caller.note(Note::Unread(format!("{}: {why}; left out", dir.display())));
                continue;
            }
        };
        for path in below {
            if !holds_recording(&path) {
                if depth < MAX_DEPTH {
                    waiting.push((path, depth + 1));
                }
                continue;
            }
            match RecordingInfo::read(&path) {
                Ok(info) => found.push(info),
                Err(e) => caller.note(Note::LeftOut {
                    recording: path,
                    why: Arc::new(e),
                }),
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn holds_recording(dir: &Path) -> bool {
    ["meta.json", "meta.json.bak"]
        .iter()
        .any(|name| dir.join(name).is_file())
}

/// The sub-directories of a directory, without symbolic links.
fn directories_in(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{DevId, Io, Lost, Observation, Op, RecorderCost, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions};

    fn record(path: &Path, losses: &[Option<i64>]) {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(path, meta, WriterOptions::default()).expect("creates");
        for i in 0..10 {
            let io = Io::new(i * 1000, DevId::new(8, 0), Op::READ, 512, Some(5), 10);
            writer.push_ios(&[io]).expect("writes");
        }
        for ios in losses {
            let lost = Lost {
                ios: *ios,
                ..Lost::somewhere(1000, 2000, LossReason::RingFull)
            };
            writer.push(&Observation::Lost(lost)).expect("writes");
        }
        writer
            .finish(20_000, RecorderCost::default())
            .expect("finishes");
    }

    #[test]
    fn losses_are_summed_and_unknown_numbers_stay_unknown() {
        let dir = tempfile::tempdir().expect("a directory");
        let known = dir.path().join("known");
        let unknown = dir.path().join("unknown");
        record(&known, &[Some(3), Some(4)]);
        record(&unknown, &[Some(3), None]);
        let info = RecordingInfo::read(&known).expect("reads");
        assert_eq!((info.ios, info.lost_ios()), (Some(10), Some(7)));
        assert_eq!(info.losses[&LossReason::RingFull].intervals, 2);
        let io = &info.tables[0];
        assert_eq!((io.name, io.files, io.rows), ("io", 1, Some(10)));
        let info = RecordingInfo::read(&unknown).expect("reads");
        assert_eq!(info.lost_ios(), None);
    }

    #[test]
    fn one_that_cannot_be_read_hides_no_other_of_its_root() {
        let dir = tempfile::tempdir().expect("a directory");
        let host = dir.path().join("host=a");
        std::fs::create_dir(&host).expect("makes");
        for start in ["start_ns=1", "start_ns=2", "start_ns=3"] {
            record(&host.join(start), &[]);
        }
        let broken = host.join("start_ns=2");
        for name in ["meta.json", "meta.json.bak"] {
            std::fs::write(broken.join(name), "{").expect("writes");
        }
        let mut readable = Vec::new();
        for found in RecordingInfo::read_all(dir.path()) {
            readable.push(found.is_ok());
        }
        assert_eq!(readable, [true, false, true]);
        let absent = RecordingInfo::read_all(&dir.path().join("absent"));
        assert!(matches!(&absent[..], [Err(_)]));
    }

    #[test]
    fn recordings_are_found_at_any_depth_and_unreadable_ones_are_noted() {
        let dir = tempfile::tempdir().expect("a directory");
        let deep = dir.path().join("a/host=b");
        std::fs::create_dir_all(&deep).expect("makes");
        record(&deep.join("start_ns=0"), &[]);
        record(&dir.path().join("z.iolens"), &[]);
        let broken = dir.path().join("broken");
        std::fs::create_dir(&broken).expect("makes");
        std::fs::write(broken.join("meta.json"), "{").expect("writes");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).expect("links");
        let notes = Arc::new(std::sync::Mutex::new(0));
        let counter = Arc::clone(&notes);
        let caller = Caller::new(move |_| *counter.lock().expect("no panic") += 1);
        let found = below(dir.path(), &caller).expect("lists");
        let names: Vec<&str> = found
            .iter()
            .filter_map(|info| info.path.file_name()?.to_str())
            .collect();
        assert_eq!(names, ["start_ns=0", "z.iolens"]);
        assert_eq!(*notes.lock().expect("no panic"), 1);
        assert!(below(&dir.path().join("nothing"), &caller).is_err());
    }
}
