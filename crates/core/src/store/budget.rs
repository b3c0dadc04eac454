//! The size limit of a recording root, across recordings, restarts and hosts.
//!
//! Single I/Os are removed first, starting with the oldest recording. Next come the oldest one-second rollups and
//! ten-second actors and waits, and last whole recordings. Recordings that a process still writes to are not touched;
//! they have their own limit ([`super::WriterOptions`]).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::disk::BLOCK;
use super::error::StoreError;
use super::reader::Recording;
use super::removal::{drop_seconds, drop_single, drop_whole};
use super::root::{Root, Stored};
use super::schema::Table;
use super::sums::parse_name;
use super::tables::{actors, rollup, waits};
use super::wal;
use crate::private::{Access, PrivateDir};

/// The tables of single observations.
pub(super) const SINGLE: [Table; 4] = [Table::Io, Table::Counters, Table::Requests, Table::Names];
/// How long one-second rollups are kept while they take less than their share.
const SECONDS_STAY_NS: i64 = 7 * 86_400 * 1_000_000_000;
/// Older one-second rollups are removed first if all of them take more than 1/20 of the limit.
const SECONDS_SHARE: u64 = 20;

/// How long one-minute sums and findings are kept while they take less than their share.
const MINUTES_STAY_NS: i64 = 400 * 86_400 * 1_000_000_000;
/// Older ones are removed first if all of them take more than 1/50 of the limit.
const MINUTES_SHARE: u64 = 50;
/// A recording lasts at most a day, so one that began a day before a limit has ended before it.
const LONGEST_NS: i64 = 86_400 * 1_000_000_000;

/// The size limit of a root.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Maximum size of the whole root in bytes.
    pub keep_bytes: u64,
    /// Access of other users to files that are written.
    pub access: Access,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freed {
    /// Recordings whose single I/Os were removed.
    pub of_ios: usize,
    /// Recordings whose one-second rollups were removed.
    pub of_seconds: usize,
    /// Recordings that were removed completely.
    pub whole: usize,
}

/// Disk space of a recording by tier, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sizes {
    single: u64,
    seconds: u64,
    rest: u64,
}

impl Sizes {
    fn total(self) -> u64 {
        self.single + self.seconds + self.rest
    }
}

impl Budget {
    /// Removes the oldest data until the recordings in `root`, except the one at `growing`, take at most `limit_bytes`.
    /// A recording of a later version, or one that cannot be read now, is skipped as long as it has single I/Os.
    ///
    /// # Errors
    /// The root or a recording in it is not this user's own, or the file system refuses.
    pub fn make_room(
        &self,
        root: &Path,
        growing: Option<&Path>,
        limit_bytes: u64,
        now_unix_ns: i64,
    ) -> Result<Freed, StoreError> {
        let mut freed = Freed::default();
        let Some(found) = Root::open(root)? else {
            return Ok(freed);
        };
        let mut closed = self.closed_recordings(&found, growing)?;
        // The directories of the root and its hosts, and the lock file.
        let mut fixed = (found.hosts().len() as u64 + 2) * BLOCK;
        loop {
            let used: u64 = closed.iter().map(|(_, s)| s.total()).sum::<u64>() + fixed;
            if used <= limit_bytes {
                return Ok(freed);
            }
            let Some((at, what)) = self.next_to_go(&closed, now_unix_ns) else {
                return Ok(freed);
            };
            let path = closed[at].0.path.clone();

            // Removing single I/Os needs a readable recording, because the loss is written into it.
            if what == Tier::Single
                && let Err(e) = Recording::open(&path)
            {
                let (_, its_sizes) = closed.remove(at);
                if e.is_damage() {
                    // A damaged recording cannot be opened to write the loss, and is of no use otherwise.
                    drop_whole(&path, self.access)?;
                    freed.whole += 1;
                } else {
                    // It has a later version or cannot be read now. It stays, and space is freed elsewhere.
                    fixed += its_sizes.total();
                }
                continue;
            }

            match what {
                Tier::Single => {
                    drop_single(&path, self.access)?;
                    freed.of_ios += 1;
                }
                Tier::Seconds => {
                    drop_seconds(&path, self.access)?;
                    freed.of_seconds += 1;
                }
                Tier::Whole => {
                    drop_whole(&path, self.access)?;
                    freed.whole += 1;
                    closed.remove(at);
                    continue;
                }
            }

            // The removed tier counts as empty, whatever the file system reports, so it is not selected twice.
            let now = sizes(&path)?;
            closed[at].1 = match what {
                Tier::Single => Sizes { single: 0, ..now },
                _ => Sizes { seconds: 0, ..now },
            };
        }
    }

    /// The recordings of `root` except the one at `growing`, with their sizes, oldest first.
    fn closed_recordings(
        &self,
        root: &Root,
        growing: Option<&Path>,
    ) -> Result<Vec<(Stored, Sizes)>, StoreError> {
        let mut closed = Vec::new();
        for stored in root.recordings() {
            if Some(stored.path.as_path()) == growing {
                continue;
            }
            own(&stored.path, self.access)?;
            closed.push((stored.clone(), sizes(&stored.path)?));
        }
        closed.sort_by_key(|(stored, _)| stored.start_unix_ns);
        Ok(closed)
    }

    /// Selects the recording and the tier to remove next; `None` if `closed` is empty.
    fn next_to_go(&self, closed: &[(Stored, Sizes)], now_unix_ns: i64) -> Option<(usize, Tier)> {
        if closed.is_empty() {
            return None;
        }
        // Old sums that exceed their share are removed before any single I/Os.
        let minutes: u64 = closed.iter().map(|(_, s)| s.rest).sum();
        if minutes > self.keep_bytes / MINUTES_SHARE
            && is_older_than(&closed[0].0, MINUTES_STAY_NS, now_unix_ns)
        {
            return Some((0, Tier::Whole));
        }
        let seconds: u64 = closed.iter().map(|(_, s)| s.seconds).sum();
        let oldest_seconds = closed.iter().position(|(_, s)| s.seconds > 0);
        if let Some(at) = oldest_seconds
            && seconds > self.keep_bytes / SECONDS_SHARE
            && is_older_than(&closed[at].0, SECONDS_STAY_NS, now_unix_ns)
        {
            return Some((at, Tier::Seconds));
        }
        // Otherwise the finest tier goes first, regardless of age, because it takes the most space.
        let oldest_single = closed.iter().position(|(_, s)| s.single > 0);
        Some(match (oldest_single, oldest_seconds) {
            (Some(at), _) => (at, Tier::Single),
            (None, Some(at)) => (at, Tier::Seconds),
            (None, None) => (0, Tier::Whole),
        })
    }
}

/// Whether all of a recording is older than `stay_ns`.
fn is_older_than(recording: &Stored, stay_ns: i64, now_unix_ns: i64) -> bool {
    recording.start_unix_ns < now_unix_ns.saturating_sub(stay_ns + LONGEST_NS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    Single,
    Seconds,
    Whole,
}

/// Disk space of a recording in bytes, directories included.
///
/// # Errors
/// It cannot be listed.
pub fn stored_bytes(recording: &Path) -> Result<u64, StoreError> {
    sizes(recording).map(Sizes::total)
}

/// Removes a recording that no process writes to.
///
/// # Errors
/// It is not this user's own, or the file system refuses.
pub fn remove_recording(recording: &Path, access: Access) -> Result<(), StoreError> {
    drop_whole(recording, access)
}

/// Opens a recording of this user's own: no other user can have put something else there.
pub(super) fn own(path: &Path, access: Access) -> Result<PrivateDir, StoreError> {
    PrivateDir::open_own(path, access).map_err(|e| StoreError::io(path, "write to", e))
}

/// Disk space of the files below a recording, directories included.
fn sizes(recording: &Path) -> Result<Sizes, StoreError> {
    let mut sizes = Sizes {
        rest: BLOCK,
        ..Sizes::default()
    };
    for (dir, name, bytes) in files(recording)? {
        let place = match dir.as_str() {
            "wal" if wal::parse_name(&name).is_some_and(|(t, _)| SINGLE.contains(&t)) => {
                &mut sizes.single
            }
            table if is_fine(table, &name) => &mut sizes.seconds,
            dir if SINGLE.iter().any(|t| t.name() == dir) => &mut sizes.single,
            _ => &mut sizes.rest,
        };
        *place += bytes;
    }
    Ok(sizes)
}

/// Directory (empty for the recording itself), name and size of each file in a recording, which has one level of
/// directories. Each directory is listed too, with an empty name.
pub(super) fn files(recording: &Path) -> Result<Vec<(String, String, u64)>, StoreError> {
    let mut found = Vec::new();
    let listed = entries(recording).map_err(|e| StoreError::io(recording, "read", e))?;
    for (name, meta) in listed {
        if !meta.is_dir() {
            found.push((String::new(), name, on_disk(&meta)));
            continue;
        }
        let listed = entries(&recording.join(&name));
        let listed = listed.map_err(|e| StoreError::io(recording, "read", e))?;
        for (inner, meta) in listed {
            found.push((name.clone(), inner, on_disk(&meta)));
        }
        found.push((name, String::new(), on_disk(&meta)));
    }
    Ok(found)
}

fn entries(dir: &Path) -> io::Result<Vec<(String, fs::Metadata)>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(meta) => out.push((entry.file_name().to_string_lossy().into_owned(), meta)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(out)
}

#[cfg(unix)]
fn on_disk(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(meta) * 512
}

#[cfg(not(unix))]
fn on_disk(meta: &fs::Metadata) -> u64 {
    super::disk::allocated(meta.len())
}

/// Whether a file holds fine sums, which are removed before one-minute sums: one-second rollups, ten-second actors and
/// waits.
pub(super) fn is_fine(table: &str, name: &str) -> bool {
    let Some((step_s, _)) = parse_name(name) else {
        return false;
    };
    let is_rollup = table == rollup::TABLE.name;
    let is_of_names = table == actors::TABLE.name || table == waits::TABLE.name;
    (is_rollup && step_s == 1) || (is_of_names && step_s == 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Io, LossReason, Op, RecorderCost, RecordingMeta, Source};
    use crate::rollup::{RollupBuilder, minutes};
    use crate::store::meta_file;
    use crate::store::{IoColumns, RecordingWriter, WriterOptions, read_rollups};
    use std::path::PathBuf;

    const S: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * S;

    /// A recording of `ios` I/Os in 1000 s with rollups; cut off like by `kill -9` unless `whole`.
    fn record(root: &Path, start_unix_ns: i64, ios: i64, whole: bool) -> PathBuf {
        let host = root.join(Root::host_directory("h"));
        fs::create_dir_all(&host).expect("makes");
        let path = host.join(Root::recording_directory(start_unix_ns));
        let meta = RecordingMeta::new(Source::Ebpf, start_unix_ns);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        let mut rollups = RollupBuilder::default();
        for i in 0..ios {
            let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
            let io = Io::new(
                i * 1000 * S / ios,
                DevId(8),
                Op::READ,
                4096,
                Some(5),
                (mixed % 90_000) as i64,
            );
            let io = Io {
                sector: Some(mixed as i64),
                ..io
            };
            writer.push_ios(&[io]).expect("writes");
            rollups.push_ios(&[io]);
        }
        writer.tick(1000 * S).expect("writes");
        let rows = rollups.finish();
        assert!(
            writer.write_rollups(1, &rows).expect("writes")
                && writer.write_rollups(60, &minutes(&rows)).expect("writes")
        );
        if whole {
            writer
                .finish(1000 * S, RecorderCost::default())
                .expect("finishes");
        }
        path
    }

    fn du(path: &Path) -> u64 {
        let own = on_disk(&fs::symlink_metadata(path).expect("there"));
        let below = entries(path).map_or(0, |list| {
            list.iter()
                .map(|(name, meta)| {
                    if meta.is_dir() {
                        du(&path.join(name))
                    } else {
                        on_disk(meta)
                    }
                })
                .sum()
        });
        own + below
    }

    fn budget() -> Budget {
        Budget {
            keep_bytes: 1 << 30,
            access: Access::OWNER,
        }
    }

    /// Recordings that follow one another.
    fn record_whole(root: &Path, n: i64, ios: i64) -> Vec<PathBuf> {
        (0..n)
            .map(|i| record(root, DAY + i * 2000 * S, ios, true))
            .collect()
    }

    /// One byte less than there is, so that a single step is enough.
    fn make_a_little_room(root: &Path) -> Freed {
        budget()
            .make_room(root, None, du(root) - 1, 3 * DAY)
            .expect("makes room")
    }

    fn rollups(path: &Path, step_s: i32) -> usize {
        let mut n = 0;
        read_rollups(path, step_s, 0..i64::MAX, |_| n += 1).expect("reads");
        n
    }

    #[test]
    fn what_cannot_be_opened_is_no_obstacle() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let root = tmp.path();
        let paths = record_whole(root, 2, 5_000);
        for name in [meta_file::META, meta_file::META_COPY] {
            fs::write(paths[0].join(name), "{").expect("writes");
        }
        let freed = make_a_little_room(root);
        assert_eq!(
            freed,
            Freed {
                whole: 1,
                ..Freed::default()
            }
        );
        assert!(
            !paths[0].exists() && Recording::open(&paths[1]).is_ok_and(|r| r.ios_stored() == 5_000)
        );
    }

    #[test]
    fn what_is_of_a_later_version_or_cannot_be_read_now_stays() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let root = tmp.path();
        let paths = record_whole(root, 4, 20_000);
        let newer = r#"{"schema_version": 7, "source": {"what": "is this"}}"#;
        let unreadable = |path: PathBuf| {
            fs::remove_file(&path).expect("removes");
            fs::create_dir(&path).expect("makes");
        };
        for name in [meta_file::META, meta_file::META_COPY] {
            fs::write(paths[0].join(name), newer).expect("writes");
            unreadable(paths[1].join(name));
        }
        // One copy is damaged, and of the other it is not known.
        fs::write(paths[2].join(meta_file::META), "{").expect("writes");
        unreadable(paths[2].join(meta_file::META_COPY));
        let freed = make_a_little_room(root);
        assert_eq!(
            freed,
            Freed {
                of_ios: 1,
                ..Freed::default()
            }
        );
        assert!(Recording::open(&paths[3]).is_ok_and(|r| r.ios_stored() == 0));
        let freed = budget()
            .make_room(root, None, 0, 3 * DAY)
            .expect("all that can");
        assert_eq!((freed.of_ios, freed.whole), (0, 1));
        let left: Vec<bool> = paths.iter().map(|p| p.exists()).collect();
        assert_eq!(left, [true, true, true, false]);
    }

    #[test]
    fn what_is_oldest_goes_first_and_says_so() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let root = tmp.path();
        let paths: Vec<PathBuf> = (0..4)
            .map(|i| record(root, DAY + i * 2000 * S, 50_000, i != 1))
            .collect();
        // As the budget counts: directories too, which some file systems keep elsewhere.
        let counted = || {
            3 * BLOCK
                + paths
                    .iter()
                    .map(|p| sizes(p).expect("sizes").total())
                    .sum::<u64>()
        };
        let now = DAY + 8000 * S;
        assert_eq!(
            budget()
                .make_room(root, None, counted(), now)
                .expect("room"),
            Freed::default()
        );
        let ios_of = |path: &Path| Recording::open(path).expect("opens").ios_stored();
        // One byte less, and the oldest recording's I/Os go; one that was cut off is trimmed like another.
        for gone in [1, 2] {
            let limit = counted() - 1;
            let freed = budget().make_room(root, None, limit, now).expect("room");
            assert_eq!(
                freed,
                Freed {
                    of_ios: 1,
                    ..Freed::default()
                },
                "{gone}"
            );
            assert!(du(root) <= limit, "{} > {limit}", du(root));
            let left: Vec<u64> = paths.iter().map(|p| ios_of(p)).collect();
            assert_eq!(left.iter().filter(|n| **n == 0).count(), gone, "{left:?}");
            assert!(
                left[gone..].iter().all(|n| *n == 50_000) && rollups(&paths[0], 1) == 2000,
                "{left:?}"
            );
        }
        for path in &paths[..2] {
            let trimmed = Recording::open(path).expect("opens");
            assert!(trimmed.warnings().is_empty(), "{:?}", trimmed.warnings());
            let lost = trimmed.lost(i64::MIN..i64::MAX);
            assert_eq!(
                (lost.len(), lost[0].reason, lost[0].ios),
                (1, LossReason::Retention, Some(50_000))
            );
            assert!(trimmed.ios(0..i64::MAX, IoColumns::ALL).next().is_none());
        }
        let freed = budget()
            .make_room(root, Some(&paths[3]), 0, now)
            .expect("all that can");
        assert_eq!((freed.whole, freed.of_ios), (3, 1));
        assert!(
            ios_of(&paths[3]) == 50_000 && paths[..3].iter().all(|p| !p.exists()),
            "the growing one stays"
        );
    }

    #[test]
    fn seconds_of_the_last_week_outlive_ios_and_older_ones_do_not() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let root = tmp.path();
        let old = record(root, DAY, 5_000, true);
        let new = record(root, 20 * DAY, 5_000, true);
        let small = Budget {
            keep_bytes: du(root),
            ..budget()
        };
        let freed = small
            .make_room(root, None, du(root) - 1, 20 * DAY + 1000 * S)
            .expect("room");
        assert_eq!(
            freed,
            Freed {
                of_seconds: 1,
                ..Freed::default()
            }
        );
        assert_eq!(
            (rollups(&old, 1), rollups(&old, 60) > 0, rollups(&new, 1)),
            (0, true, 2000)
        );
        let freed = small
            .make_room(root, None, sizes(&new).expect("sizes").rest * 4, 20 * DAY)
            .expect("room");
        assert_eq!(
            freed.of_ios, 2,
            "single I/Os before the seconds of the last week: {freed:?}"
        );
    }

    #[test]
    fn recordings_of_more_than_400_days_go_whole_where_they_take_more_than_their_share() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let root = tmp.path();
        let old = record(root, DAY, 5_000, true);
        let new = record(root, 500 * DAY, 5_000, true);
        let limit = du(root) - 1;
        let tight = Budget {
            keep_bytes: 20 * sizes(&old).expect("sizes").rest,
            ..budget()
        };
        let kept = Budget {
            keep_bytes: 1 << 30,
            ..budget()
        };
        assert_eq!(
            kept.next_to_go(&listed(&[&old, &new]), 500 * DAY),
            Some((0, Tier::Single)),
            "a small share"
        );
        let freed = tight.make_room(root, None, limit, 500 * DAY).expect("room");
        assert_eq!(
            (freed, old.exists(), new.exists()),
            (
                Freed {
                    whole: 1,
                    ..Freed::default()
                },
                false,
                true
            )
        );
    }

    fn listed(paths: &[&PathBuf]) -> Vec<(Stored, Sizes)> {
        let stored = |path: &PathBuf| {
            let digits = path
                .file_name()
                .and_then(|n| n.to_str()?.strip_prefix("start_ns="))
                .expect("a start");
            let start_unix_ns = digits.parse().expect("a number");
            Stored {
                host: "h".to_owned(),
                start_unix_ns,
                path: path.clone(),
            }
        };
        paths
            .iter()
            .map(|p| (stored(p), sizes(p).expect("sizes")))
            .collect()
    }

    #[cfg(unix)]
    #[test]
    fn what_another_user_could_have_put_there_is_not_touched() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let tmp = tempfile::tempdir().expect("temporary directory");
        let root = tmp.path().join("root");
        let path = record(&root, DAY, 1000, true);
        let victim = record(&tmp.path().join("elsewhere"), DAY, 1000, true);
        symlink(&victim, path.with_file_name("start_ns=9")).expect("links");
        fs::remove_dir_all(path.join("names")).ok();
        symlink(victim.join("io"), path.join("names")).expect("links");
        budget()
            .make_room(&root, None, 0, DAY)
            .expect("all that can");
        assert_eq!(Recording::open(&victim).expect("opens").ios_stored(), 1000);
        let path = record(&root, 2 * DAY, 1000, true);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("ours");
        let refused = budget()
            .make_room(&root, None, 0, DAY)
            .expect_err("others may write")
            .to_string();
        assert!(refused.contains("other users may write"), "{refused}");
    }
}
