//! Recording roots: `ROOT/host=NAME/start_ns=UNIXNS/` is an ordinary recording, and the names give host and start.
//!
//! Directory names follow Hive partitioning: DuckDB and Spark turn them into columns, and `start_ns + done_ns` is
//! absolute time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::meta_file;
use super::reader::Recording;

const HOST: &str = "host=";
const START: &str = "start_ns=";

/// A directory of recordings, of one host or several.
#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    recordings: Vec<Stored>,
}

/// A recording in a root, not opened yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// The host in its directory's name.
    pub host: String,
    /// Wall clock of its start in nanoseconds since the Unix epoch, from its directory's name.
    pub start_unix_ns: i64,
    /// Its directory.
    pub path: PathBuf,
}

impl Root {
    /// The directory of copies that are kept forever: a root of its own, one level deeper than the recordings.
    pub const SNAPSHOTS: &str = "snapshots";
    /// Directory of copies around findings.
    pub const FROZEN: &str = "frozen";

    /// The root at `path`, or one host's part of it (`ROOT/host=NAME`). `None` if `path` is neither; it is then a
    /// recording, or not ours.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn open(path: &Path) -> Result<Option<Root>, StoreError> {
        Root::open_with(path, |_, e| Err(e))
    }

    /// Like [`Root::open`]; `unlisted` decides what to do with a host whose directory cannot be listed.
    ///
    /// # Errors
    /// The directory itself cannot be listed, or `unlisted` says so.
    pub fn open_with(
        path: &Path,
        mut unlisted: impl FnMut(String, StoreError) -> Result<(), StoreError>,
    ) -> Result<Option<Root>, StoreError> {
        if !path.is_dir() || meta_file::is_in(path) {
            return Ok(None);
        }
        let mut recordings = Vec::new();
        let own_name = fs::canonicalize(path)
            .ok()
            .and_then(|p| host_of(p.file_name()?.to_str()?));
        let mut is_root = false;
        if let Some(host) = own_name {
            is_root = true;
            recordings.extend(recordings_of(path, &host)?);
        }
        for name in directories(path)? {
            let Some(host) = host_of(&name) else { continue };
            is_root = true;
            match recordings_of(&path.join(&name), &host) {
                Ok(found) => recordings.extend(found),
                Err(e) => unlisted(host, e)?,
            }
        }
        recordings.sort();
        Ok(is_root.then(|| Root {
            path: path.to_owned(),
            recordings,
        }))
    }

    /// The directory it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All recordings, by host and start.
    pub fn recordings(&self) -> &[Stored] {
        &self.recordings
    }

    /// The hosts that have recordings, in order.
    pub fn hosts(&self) -> Vec<&str> {
        self.by_host()
            .map(|of_host| of_host[0].host.as_str())
            .collect()
    }

    /// The recordings of each host, by time.
    pub fn by_host(&self) -> impl Iterator<Item = &[Stored]> {
        self.recordings.chunk_by(|a, b| a.host == b.host)
    }

    /// The kept copies of recordings of `host`, which do not count as recordings of this root. Directories that cannot
    /// be listed count as empty.
    pub fn copies(&self, host: &str) -> Vec<Stored> {
        let name = Root::host_directory(host);
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let is_host = path.file_name().is_some_and(|own| own == name.as_str());
        let base = if is_host {
            path.parent().unwrap_or(&path)
        } else {
            &path
        };
        let mut copies = Vec::new();
        for place in [Root::SNAPSHOTS, Root::FROZEN].map(|place| base.join(place)) {
            let dir = place.join(&name);
            // Do not follow links: a user with write access could redirect them.
            if [&place, &dir]
                .iter()
                .all(|d| fs::symlink_metadata(d).is_ok_and(|m| m.is_dir()))
            {
                copies.extend(recordings_of(&dir, host).unwrap_or_default());
            }
        }
        copies
    }

    /// The directory of `host` in the root at `root`.
    pub fn host_directory(host: &str) -> String {
        format!("{HOST}{}", encode(host))
    }

    /// The directory of a recording that began at `start_unix_ns` in the directory of its host.
    pub fn recording_directory(start_unix_ns: i64) -> String {
        format!("{START}{start_unix_ns}")
    }

    /// The start in the name of a recording's directory.
    pub fn start_of(path: &Path) -> Option<i64> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(START)?.parse().ok()
    }
}

impl Stored {
    /// Start and end of the recording in wall-clock nanoseconds since the Unix epoch. A recording that is still
    /// running, or was cut off, ends with its last observation. If the directory was renamed, the start in the
    /// description counts.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn span_unix_ns(&self) -> Result<(i64, i64), StoreError> {
        let (meta, _) = meta_file::read(&self.path)?;
        let end_ns = match meta.end_ns {
            Some(end_ns) => end_ns,
            None => Recording::open(&self.path)?.end_ns(),
        };
        Ok((
            meta.start_unix_ns,
            meta.start_unix_ns.saturating_add(end_ns),
        ))
    }
}

fn recordings_of(dir: &Path, host: &str) -> Result<Vec<Stored>, StoreError> {
    let mut recordings = Vec::new();
    for name in directories(dir)? {
        if let Some(start_unix_ns) = start_in(&name) {
            recordings.push(Stored {
                host: host.to_owned(),
                start_unix_ns,
                path: dir.join(&name),
            });
        }
    }
    Ok(recordings)
}

/// The start in a directory's name, if it is written canonically. Otherwise two names could mean the same time.
fn start_in(name: &str) -> Option<i64> {
    let digits = name.strip_prefix(START)?;
    let start_unix_ns: i64 = digits.parse().ok()?;
    (start_unix_ns.to_string() == digits).then_some(start_unix_ns)
}

/// Names of the directories in `dir`. Links are skipped, because a user with write access could redirect them.
fn directories(dir: &Path) -> Result<Vec<String>, StoreError> {
    list_directories(dir).map_err(|e| StoreError::io(dir, "read", e))
}

fn list_directories(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().to_str().map(str::to_owned));
        }
    }
    Ok(names)
}

/// Percent-encodes a host name as Hive does: letters, digits, `.`, `-` and `_` stay, other bytes become `%XX`. The
/// result cannot leave its directory.
fn encode(host: &str) -> String {
    let mut out = String::new();
    for (i, b) in host.bytes().enumerate() {
        match b {
            b'.' if i == 0 => out.push_str("%2E"),
            b if b.is_ascii_alphanumeric() || b"-_.".contains(&b) => out.push(b.into()),
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

/// The host of a directory's name.
fn host_of(name: &str) -> Option<String> {
    let coded = name.strip_prefix(HOST)?;
    let mut bytes = Vec::new();
    let mut rest = coded.bytes();
    while let Some(b) = rest.next() {
        if b != b'%' {
            bytes.push(b);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RecorderCost, RecordingMeta, Source};
    use crate::store::{RecordingWriter, WriterOptions};

    fn record(root: &Path, host: &str, start_unix_ns: i64, end_ns: i64) -> PathBuf {
        let dir = root.join(Root::host_directory(host));
        fs::create_dir_all(&dir).expect("makes");
        let path = dir.join(Root::recording_directory(start_unix_ns));
        let meta = RecordingMeta::new(Source::Ebpf, start_unix_ns);
        let writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        writer
            .finish(end_ns, RecorderCost::default())
            .expect("finishes");
        path
    }

    fn open(path: &Path) -> Root {
        Root::open(path).expect("readable").expect("a root")
    }

    #[test]
    fn recordings_come_by_host_and_time_and_their_spans_are_absolute() {
        let root = tempfile::tempdir().expect("temporary directory");
        let late = record(root.path(), "a", 2_000, 50);
        let early = record(root.path(), "a", 900, 100);
        record(root.path(), "b", 5, 1);
        let found = open(root.path());
        assert_eq!(found.hosts(), ["a", "b"]);
        let paths: Vec<&Path> = found
            .recordings()
            .iter()
            .map(|r| r.path.as_path())
            .collect();
        assert_eq!(paths[..2], [early.as_path(), late.as_path()]);
        assert_eq!(
            found.recordings()[0].span_unix_ns().expect("readable"),
            (900, 1000)
        );
        let one = open(&root.path().join("host=a"));
        assert_eq!((one.hosts(), one.recordings().len()), (vec!["a"], 2));
        assert!(
            Root::open(&late).expect("readable").is_none(),
            "a recording is no root"
        );
        assert!(
            Root::open(&root.path().join("nothing"))
                .expect("readable")
                .is_none()
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_and_names_that_are_not_ours_are_left_out() {
        let root = tempfile::tempdir().expect("temporary directory");
        let real = record(root.path(), "a", 7, 1);
        std::os::unix::fs::symlink(&real, root.path().join("host=a/start_ns=8")).expect("links");
        std::os::unix::fs::symlink(root.path().join("host=a"), root.path().join("host=b"))
            .expect("links");
        for name in [
            "start_ns=",
            "start_ns=+9",
            "start_ns=09",
            "start_ns=x",
            "start_ns=99999999999999999999",
            "other",
        ] {
            fs::create_dir(root.path().join("host=a").join(name)).expect("makes");
        }
        let found = open(root.path());
        assert_eq!(
            found
                .recordings()
                .iter()
                .map(|r| r.path.clone())
                .collect::<Vec<_>>(),
            [real]
        );
    }

    #[test]
    fn copies_are_no_recordings_of_a_root_and_are_found_from_it_and_from_its_host() {
        let root = tempfile::tempdir().expect("temporary directory");
        record(root.path(), "a", 7, 1);
        let kept = record(&root.path().join(Root::SNAPSHOTS), "a", 3, 1);
        let frozen = record(&root.path().join(Root::FROZEN), "a", 5, 1);
        record(&root.path().join(Root::FROZEN), "b", 6, 1);
        for path in [root.path().to_owned(), root.path().join("host=a")] {
            let found = open(&path);
            assert_eq!(found.recordings().len(), 1);
            let names = |of: &[Stored]| {
                of.iter()
                    .map(|s| {
                        s.path
                            .strip_prefix(root.path().canonicalize().expect("there"))
                            .expect("below")
                            .to_owned()
                    })
                    .collect::<Vec<_>>()
            };
            let expected =
                [&kept, &frozen].map(|p| p.strip_prefix(root.path()).expect("below").to_owned());
            assert_eq!(names(&found.copies("a")), expected);
        }
        assert!(
            open(&root.path().join(Root::SNAPSHOTS))
                .copies("a")
                .is_empty()
        );
    }

    #[test]
    fn no_host_name_leaves_its_directory() {
        for host in [
            "db1.example.org",
            "..",
            ".",
            "a/b",
            "ü",
            "50%",
            "",
            "a=b",
            "line\nbreak",
        ] {
            let name = Root::host_directory(host);
            assert!(
                !name.contains('/') && !name.ends_with("=.") && !name.ends_with("=.."),
                "{name}"
            );
            assert_eq!(host_of(&name).as_deref(), Some(host));
        }
        assert!(
            ["host", "host=%", "host=%2", "host=%zz", "host=%FF"]
                .iter()
                .all(|n| host_of(n).is_none())
        );
    }
}
