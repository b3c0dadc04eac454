//! The files of a recording root that are at the target, that are waiting, and that were removed before they were
//! sent.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use iolens_core::store::Root;

/// A recording that has ended and whose files have not changed for this long is complete. From then on, files that
/// the size limit removes from it stay at the target.
const SETTLED_NS: i64 = 600 * 1_000_000_000;
/// The only file that is rewritten after a recording is complete: a finding that began in it can end much later.
const FINDINGS: &str = "findings/000001.parquet";
/// Files that describe the others, so they are sent last.
const DESCRIPTIONS: [&str; 2] = ["meta.json.bak", "meta.json"];

/// The version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    pub bytes: u64,
    pub modified_ns: i64,
    inode: u64,
}

/// Start and directory of a recording below the root: `host=NAME/start_ns=UNIXNS`.
type RecordingKey = (i64, String);

/// A file to send: its recording, its name and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsentFile {
    pub recording: String,
    pub name: String,
    pub stamp: FileStamp,
}

/// A number of files and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSum {
    pub files: u64,
    pub bytes: u64,
}

impl FileSum {
    /// Adds a file of this size.
    pub fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

#[derive(Debug, Default)]
struct Shipment {
    /// The local files by name.
    files: BTreeMap<String, FileStamp>,
    /// The versions that are at the target.
    sent: HashMap<String, FileStamp>,
    /// Whether the target was asked what it has.
    is_known: bool,
    is_settled: bool,
}

impl Shipment {
    fn unsent(&self) -> impl Iterator<Item = (&String, FileStamp)> {
        self.files
            .iter()
            .filter(|(name, stamp)| self.sent.get(*name) != Some(*stamp))
            .map(|(name, stamp)| (name, *stamp))
    }

    /// The next file to send. Tables go first and descriptions last, so that what these list is already there.
    fn next_unsent(&self) -> Option<(&String, FileStamp)> {
        self.unsent().min_by_key(|(name, _)| {
            DESCRIPTIONS
                .iter()
                .position(|d| d == name)
                .map_or(0, |i| i + 1)
        })
    }
}

/// The files of a root that are to be sent.
#[derive(Debug)]
pub struct Backlog {
    root: PathBuf,
    shipments: BTreeMap<RecordingKey, Shipment>,
    /// Recordings that are complete at the target, with the modification time of their findings.
    done: BTreeMap<String, i64>,
}

impl Backlog {
    /// The backlog of the recordings in `root`, without those that are `done`.
    pub fn new(root: &Path, done: BTreeMap<String, i64>) -> Backlog {
        Backlog {
            root: root.to_owned(),
            shipments: BTreeMap::new(),
            done,
        }
    }

    /// Recordings that are complete at the target.
    pub fn done(&self) -> &BTreeMap<String, i64> {
        &self.done
    }

    /// Scans the root. Returns the files that were removed before they were sent.
    ///
    /// # Errors
    /// The root cannot be listed.
    pub fn look(&mut self, now_unix_ns: i64) -> Result<FileSum> {
        let mut dropped = FileSum::default();
        let Some(found) = Root::open(&self.root)? else {
            return Ok(dropped);
        };
        let mut before = std::mem::take(&mut self.shipments);
        let mut newest: HashMap<&str, i64> = HashMap::new();
        for stored in found.recordings() {
            let start = newest.entry(&stored.host).or_insert(i64::MIN);
            *start = stored.start_unix_ns.max(*start);
        }
        let mut done = BTreeMap::new();
        for stored in found.recordings() {
            let Ok(below) = stored.path.strip_prefix(&self.root) else {
                continue;
            };
            let name = below.to_string_lossy().into_owned();
            let key = (stored.start_unix_ns, name);
            let mut shipment = before.remove(&key).unwrap_or_default();
            if let Some(written_ns) = self.done.get(&key.1).copied() {
                done.insert(key.1.clone(), written_ns);
                let findings = stamp_of(&stored.path.join(FINDINGS)).ok();
                if let Some(late) = findings.filter(|f| f.modified_ns != written_ns) {
                    let shipment = Shipment {
                        files: BTreeMap::from([(FINDINGS.to_owned(), late)]),
                        is_known: true,
                        ..Shipment::default()
                    };
                    self.shipments.insert(key, shipment);
                }
                continue;
            }
            let files = match closed_files(&stored.path) {
                Err(e) if e.kind() == ErrorKind::NotFound => BTreeMap::new(),
                files => files?,
            };
            let gone = shipment
                .unsent()
                .filter(|(name, _)| !files.contains_key(*name));
            gone.for_each(|(_, stamp)| dropped.add(stamp.bytes));
            let last_ns = files.values().map(|f| f.modified_ns).max().unwrap_or(0);
            // A log left by a killed recorder is converted by the next start, however much later.
            shipment.is_settled = newest.get(&*stored.host) > Some(&stored.start_unix_ns)
                && last_ns < now_unix_ns - SETTLED_NS
                && !has_logs(&stored.path);
            shipment.files = files;
            self.shipments.insert(key, shipment);
        }
        for gone in before.values() {
            gone.unsent()
                .for_each(|(_, stamp)| dropped.add(stamp.bytes));
        }
        self.done = done;
        Ok(dropped)
    }

    /// The files waiting, and the modification time of the oldest.
    pub fn waiting(&self) -> (FileSum, Option<i64>) {
        let mut sum = FileSum::default();
        let unsent = self.shipments.values().flat_map(Shipment::unsent);
        let oldest = unsent.inspect(|(_, stamp)| sum.add(stamp.bytes));
        let oldest = oldest.map(|(_, stamp)| stamp.modified_ns).min();
        (sum, oldest)
    }

    /// The next recording, if the target has not been asked about it yet.
    pub fn next_unknown(&self) -> Option<&str> {
        let ((_, name), shipment) = self.first()?;
        (!shipment.is_known).then_some(name)
    }

    /// The next file to send, from the oldest recording.
    pub fn next_unsent(&self) -> Option<UnsentFile> {
        let ((_, recording), shipment) = self.first()?;
        let (name, stamp) = shipment.next_unsent()?;
        Some(UnsentFile {
            recording: recording.clone(),
            name: name.clone(),
            stamp,
        })
    }

    fn first(&self) -> Option<(&RecordingKey, &Shipment)> {
        let mut of = self.shipments.iter();
        of.find(|(_, s)| s.unsent().next().is_some())
    }

    fn shipment(&mut self, recording: &str) -> Option<&mut Shipment> {
        let mut of = self.shipments.iter_mut();
        of.find(|((_, name), _)| name == recording).map(|(_, s)| s)
    }

    /// Sets which files of a recording the target has, by size. Files that are written only once are not sent again.
    pub fn known(&mut self, recording: &str, there: &HashMap<String, u64>) {
        if let Some(shipment) = self.shipment(recording) {
            shipment.is_known = true;
            let once = shipment.files.iter().filter(|(name, stamp)| {
                !is_replaced(name) && there.get(*name) == Some(&stamp.bytes)
            });
            shipment.sent = once.map(|(name, stamp)| (name.clone(), *stamp)).collect();
        }
    }

    /// A file is at the target, or will never be.
    pub fn sent(&mut self, file: &UnsentFile) {
        if let Some(shipment) = self.shipment(&file.recording) {
            shipment.sent.insert(file.name.clone(), file.stamp);
        }
    }

    /// Marks recordings that are complete at the target. Returns whether there were any.
    pub fn settle(&mut self) -> bool {
        let mut changed = false;
        let done = &mut self.done;
        self.shipments.retain(|(_, name), shipment| {
            let is_late = done.contains_key(name);
            let all = shipment.unsent().next().is_none();
            if !all || !(is_late || shipment.is_settled) {
                return true;
            }
            let findings = shipment.files.get(FINDINGS);
            done.insert(name.clone(), findings.map_or(0, |f| f.modified_ns));
            changed = true;
            false
        });
        changed
    }
}

/// Whether the file is rewritten under the same name while a recording grows.
fn is_replaced(name: &str) -> bool {
    DESCRIPTIONS.contains(&name) || name == FINDINGS || name.starts_with("devices/")
}

/// The descriptions and closed table files of a recording. All of them were renamed into place when complete.
fn closed_files(recording: &Path) -> io::Result<BTreeMap<String, FileStamp>> {
    let mut files = BTreeMap::new();
    for name in closed_names(recording)? {
        match stamp_of(&recording.join(&name)) {
            Ok(stamp) => drop(files.insert(name, stamp)),
            // The size limit may remove a file at any time.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(files)
}

/// Their names relative to the recording.
fn closed_names(recording: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(recording)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !entry.file_type()?.is_dir() {
            if DESCRIPTIONS.contains(&&*name) {
                names.push(name);
            }
            continue;
        }
        for inner in fs::read_dir(entry.path())?.flatten() {
            if let Ok(inner) = inner.file_name().into_string()
                && inner.ends_with(".parquet")
            {
                names.push(format!("{name}/{inner}"));
            }
        }
    }
    Ok(names)
}

/// Whether the recording has logs `TABLE-NNNNNN.wal` with rows that are not in a table file yet. `requests-open.wal`
/// is never converted.
fn has_logs(recording: &Path) -> bool {
    let names = fs::read_dir(recording.join("wal")).into_iter().flatten();
    names.flatten().any(|entry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            let (_, number) = name.strip_suffix(".wal")?.rsplit_once('-')?;
            number.parse::<u32>().ok()
        });
        number.is_some()
    })
}

fn stamp_of(path: &Path) -> io::Result<FileStamp> {
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_file() {
        return Err(ErrorKind::NotFound.into());
    }
    Ok(FileStamp {
        bytes: meta.len(),
        modified_ns: meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
        inode: meta.ino(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
        let temporary = path.with_extension("tmp");
        fs::write(&temporary, text).expect("writes");
        fs::rename(&temporary, &path).expect("renames");
    }

    /// Sends all; the names in their order.
    fn send_all(backlog: &mut Backlog, there: &HashMap<String, u64>) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            if let Some(recording) = backlog.next_unknown().map(str::to_owned) {
                backlog.known(&recording, there);
                continue;
            }
            let Some(file) = backlog.next_unsent() else {
                return names;
            };
            names.push(format!("{}/{}", file.recording, file.name));
            backlog.sent(&file);
        }
    }

    const FAR_NS: i64 = i64::MAX / 2;

    #[test]
    fn the_oldest_recording_goes_first_descriptions_last_and_logs_stay() {
        let root = tempfile::tempdir().expect("temporary directory");
        for name in [
            "io/000001.parquet",
            "meta.json",
            "meta.json.bak",
            "rollup/1s-000001.parquet",
        ] {
            write(root.path(), &format!("host=b/start_ns=5/{name}"), name);
        }
        write(root.path(), "host=a/start_ns=10/meta.json", "{}");
        for name in ["wal/io-000002.wal", "reserve", "io/000002.parquet.tmp"] {
            write(root.path(), &format!("host=b/start_ns=5/{name}"), "x");
        }
        let mut backlog = Backlog::new(root.path(), BTreeMap::new());
        assert_eq!(backlog.look(0).expect("lists"), FileSum::default());
        assert_eq!(backlog.waiting().0.files, 5);
        let names = send_all(&mut backlog, &HashMap::new());
        let of_b = [
            "io/000001.parquet",
            "rollup/1s-000001.parquet",
            "meta.json.bak",
            "meta.json",
        ];
        let mut expected: Vec<String> = of_b.map(|n| format!("host=b/start_ns=5/{n}")).into();
        expected.push("host=a/start_ns=10/meta.json".to_owned());
        assert_eq!(names, expected);
        assert_eq!(backlog.waiting(), (FileSum::default(), None));
        write(root.path(), "host=b/start_ns=5/meta.json", "{\"end\": 1}");
        backlog.look(0).expect("lists");
        assert_eq!(
            send_all(&mut backlog, &HashMap::new()),
            ["host=b/start_ns=5/meta.json"]
        );
    }

    #[test]
    fn what_is_there_is_not_sent_again_unless_it_is_another_version() {
        let root = tempfile::tempdir().expect("temporary directory");
        for name in [
            "io/000001.parquet",
            "io/000002.parquet",
            "io/000003.parquet",
            "meta.json",
        ] {
            write(
                root.path(),
                &format!("host=a/start_ns=5/{name}"),
                "0123456789",
            );
        }
        let there = [
            ("io/000001.parquet", 10),
            ("io/000002.parquet", 7),
            ("meta.json", 10),
        ];
        let there = there.map(|(name, bytes)| (name.to_owned(), bytes)).into();
        let mut backlog = Backlog::new(root.path(), BTreeMap::new());
        backlog.look(0).expect("lists");
        let names = send_all(&mut backlog, &there);
        let names: Vec<&str> = names
            .iter()
            .filter_map(|n| n.split_once("5/"))
            .map(|n| n.1)
            .collect();
        assert_eq!(
            names,
            ["io/000002.parquet", "io/000003.parquet", "meta.json"]
        );
    }

    #[test]
    fn what_is_removed_before_it_was_sent_is_counted_and_what_was_sent_is_not() {
        let root = tempfile::tempdir().expect("temporary directory");
        for name in ["io/000001.parquet", "io/000002.parquet", "meta.json"] {
            write(
                root.path(),
                &format!("host=a/start_ns=5/{name}"),
                "0123456789",
            );
        }
        write(root.path(), "host=a/start_ns=6/meta.json", "{}");
        let mut backlog = Backlog::new(root.path(), BTreeMap::new());
        backlog.look(0).expect("lists");
        backlog.known("host=a/start_ns=5", &HashMap::new());
        let first = backlog.next_unsent().expect("a file");
        assert_eq!(first.name, "io/000001.parquet");
        backlog.sent(&first);
        fs::remove_dir_all(root.path().join("host=a/start_ns=5/io")).expect("removes");
        let one = FileSum {
            files: 1,
            bytes: 10,
        };
        assert_eq!(backlog.look(0).expect("lists"), one, "the second of io");
        assert_eq!(backlog.look(0).expect("lists"), FileSum::default(), "once");
        fs::remove_dir_all(root.path().join("host=a/start_ns=5")).expect("removes");
        assert_eq!(backlog.look(0).expect("lists"), one, "the description");
    }

    #[test]
    fn a_recording_with_a_log_is_not_whole_however_old_it_is() {
        let root = tempfile::tempdir().expect("temporary directory");
        for name in ["meta.json", "wal/io-000001.wal"] {
            write(root.path(), &format!("host=a/start_ns=5/{name}"), "x");
        }
        write(root.path(), "host=a/start_ns=6/meta.json", "{}");
        let mut backlog = Backlog::new(root.path(), BTreeMap::new());
        backlog.look(FAR_NS).expect("lists");
        send_all(&mut backlog, &HashMap::new());
        assert!(!backlog.settle(), "its I/Os are still to come");
        write(root.path(), "host=a/start_ns=5/io/000001.parquet", "x");
        fs::remove_file(root.path().join("host=a/start_ns=5/wal/io-000001.wal")).expect("removes");
        backlog.look(FAR_NS).expect("lists");
        let names = send_all(&mut backlog, &HashMap::new());
        assert_eq!(names, ["host=a/start_ns=5/io/000001.parquet"]);
        assert!(backlog.settle());
    }

    #[test]
    fn of_a_whole_recording_only_findings_that_end_later_are_sent() {
        let root = tempfile::tempdir().expect("temporary directory");
        for name in ["io/000001.parquet", FINDINGS, "meta.json"] {
            write(root.path(), &format!("host=a/start_ns=5/{name}"), "x");
        }
        write(root.path(), "host=a/start_ns=6/meta.json", "{}");
        let mut backlog = Backlog::new(root.path(), BTreeMap::new());
        backlog.look(0).expect("lists");
        send_all(&mut backlog, &HashMap::new());
        assert!(!backlog.settle(), "it may still change");
        backlog.look(FAR_NS).expect("lists");
        assert!(backlog.settle());
        let done: Vec<&String> = backlog.done().keys().collect();
        assert_eq!(done, ["host=a/start_ns=5"], "not the newest, which grows");
        // The size limit: nothing of it reaches the target, now or after a restart.
        write(root.path(), "host=a/start_ns=5/meta.json", "{trimmed}");
        write(root.path(), "host=a/start_ns=5/lost/000001.parquet", "x");
        fs::remove_dir_all(root.path().join("host=a/start_ns=5/io")).expect("removes");
        let mut again = Backlog::new(root.path(), backlog.done().clone());
        assert_eq!(again.look(FAR_NS).expect("lists"), FileSum::default());
        assert_eq!(
            send_all(&mut again, &HashMap::new()),
            ["host=a/start_ns=6/meta.json"]
        );
        write(
            root.path(),
            &format!("host=a/start_ns=5/{FINDINGS}"),
            "longer",
        );
        again.look(FAR_NS).expect("lists");
        let late = send_all(&mut again, &HashMap::new());
        assert_eq!(late, [format!("host=a/start_ns=5/{FINDINGS}")]);
        assert!(again.settle() && again.next_unsent().is_none());
        again.look(FAR_NS).expect("lists");
        assert!(again.next_unsent().is_none());
        fs::remove_dir_all(root.path().join("host=a/start_ns=5")).expect("removes");
        assert_eq!(again.look(FAR_NS).expect("lists"), FileSum::default());
        assert!(again.done().is_empty());
    }
}
