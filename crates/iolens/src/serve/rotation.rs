//! Decides when the next recording starts: the current one is full, the day is over, the clock was set, or its writer
//! failed. Space for it is freed first, on a thread of its own.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Result, anyhow};
use iolens_core::model::DAY_NS;
use iolens_core::private::Access;
use iolens_core::store::{Freed, Recording, Root, close_logs};
use iolens_observe::topology::wall_clock_ns;
use iolens_recorder::{Closed, Progress, Session, complete_rollups};

use super::http::Health;
use super::space::Space;
use crate::engine::caller::GrowingRecording;
use crate::present::{escape, serve_text};

/// Interval between checks of size and clock.
const LOOK_NS: i64 = 100_000_000;
/// Interval between checks that the recording is still at its path.
const SEARCH_NS: i64 = 1_000_000_000;
/// Minimum length of a recording that is not full: a clock that is set back and forth must not create many.
const MIN_LENGTH_NS: i64 = 60_000_000_000;
/// Maximum difference between a recording's times and the wall clock. Findings are searched for in the last two
/// minutes by the clock.
const MAX_SHIFT_NS: i64 = 10_000_000_000;
/// An I/O is stored this long after the recorder has seen it: the writer logs it at once.
const STORED_AFTER_NS: i64 = 1_000_000_000;
/// Delay before retrying after a failure; it is shorter while nothing is stored.
const RETRY_NS: i64 = 60_000_000_000;
const RETRY_UNSTORED_NS: i64 = 2_000_000_000;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Continue the current recording.
    Record,
    /// Start a new one: it is time, and there is space for it.
    Rotate,
}

/// Decides when another recording starts, and frees space for it.
pub struct Rotation {
    space: Space,
    /// The host's directory in the root.
    directory: PathBuf,
    growing: PathBuf,
    /// Session time at which the current recording started.
    from_ns: i64,
    day: i64,
    next_look_ns: i64,
    retry_ns: i64,
    helper: Option<Helper>,
    has_room: bool,
    /// The writer has failed, or the recording is no longer at its path.
    unstored: bool,
    /// Device and inode of the current recording.
    growing_id: Option<(u64, u64)>,
    next_search_ns: i64,
    /// Whether the host's directory exists or can be created.
    has_place: bool,
    health: Arc<Health>,
}

/// Work in the background.
enum Helper {
    /// Computes the rollups that killed recorders did not write.
    Complete(JoinHandle<Result<()>>),
    /// Frees space for the next recording.
    MakeRoom(JoinHandle<Result<Freed>>),
}

impl Helper {
    fn complete(directory: &Path, growing: &Path, access: Access) -> Helper {
        let directory = directory.to_owned();
        let growing = growing.to_owned();
        Helper::Complete(std::thread::spawn(move || {
            complete_others(&directory, &growing, access)
        }))
    }

    fn make_room(space: &Space, growing: &Path) -> Helper {
        let space = space.clone();
        let growing = growing.to_owned();
        Helper::MakeRoom(std::thread::spawn(move || space.make_room(Some(&growing))))
    }

    fn is_finished(&self) -> bool {
        match self {
            Helper::Complete(thread) => thread.is_finished(),
            Helper::MakeRoom(thread) => thread.is_finished(),
        }
    }
}

impl Rotation {
    /// For the first recording of a session.
    pub fn new(space: Space, growing: PathBuf, directory: &Path, health: Arc<Health>) -> Rotation {
        let helper = Some(Helper::complete(directory, &growing, space.access));
        Rotation {
            space,
            directory: directory.to_owned(),
            growing_id: id_of(&growing),
            next_search_ns: 0,
            has_place: true,
            growing,
            from_ns: 0,
            day: today(),
            next_look_ns: 0,
            retry_ns: 0,
            helper,
            has_room: false,
            unstored: false,
            health,
        }
    }

    /// Checks the state of the recorder.
    pub fn look(&mut self, progress: &Progress) -> Turn {
        if progress.at_ns < self.next_look_ns {
            return Turn::Record;
        }
        self.next_look_ns = progress.at_ns + LOOK_NS;
        self.health.looked(progress);
        if progress.writer_failed && !self.unstored {
            self.unstored = true;
            self.trouble("nothing is stored: the writer failed".to_owned());
        }
        self.say_how_far(progress);
        if progress.at_ns >= self.next_search_ns {
            self.next_search_ns = progress.at_ns + SEARCH_NS;
            self.search();
        }
        if let Some(helper) = self.helper.take_if(|h| h.is_finished()) {
            self.finished(helper, progress.at_ns);
        }
        let full = progress.disk_bytes > self.space.part() / 4 * 3;
        let other_time =
            today() != self.day || progress.clock_shift_ns.saturating_abs() > MAX_SHIFT_NS;
        let other_time = other_time && progress.at_ns - self.from_ns >= MIN_LENGTH_NS;
        if !(full || other_time || self.unstored) || progress.at_ns < self.retry_ns {
            return Turn::Record;
        }
        if self.has_room {
            return Turn::Rotate;
        }
        if self.helper.is_none() {
            self.helper = Some(Helper::make_room(&self.space, &self.growing));
        }
        Turn::Record
    }

    /// Reports to the server up to when the current recording is complete. Nothing is written while a disk is idle,
    /// and answers must distinguish that from time that was not recorded.
    fn say_how_far(&self, progress: &Progress) {
        // Data that is not stored now may be stored later, or be counted as lost then.
        if self.unstored || progress.disk_full {
            return;
        }
        let Some(start_unix_ns) = Root::start_of(&self.growing) else {
            return;
        };
        let length_ns = progress.at_ns - self.from_ns - STORED_AFTER_NS;
        self.health.stored(GrowingRecording {
            start_unix_ns,
            stored_until_unix_ns: start_unix_ns + length_ns.max(0),
        });
    }

    /// Checks that the recording is still at its path: data in a directory that was removed or moved is in no
    /// recording of the root.
    fn search(&mut self) {
        if !self.unstored && id_of(&self.growing) != self.growing_id {
            self.unstored = true;
            self.trouble("nothing is stored: the recording was removed or moved".to_owned());
        }
    }

    /// Whether recordings can be stored: not if the host's directory is missing and cannot be created.
    pub fn has_place(&self) -> bool {
        self.has_place
    }

    fn finished(&mut self, helper: Helper, at_ns: i64) {
        let result = match helper {
            Helper::Complete(thread) => thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("computing rollups panicked"))),
            Helper::MakeRoom(thread) => {
                let freed = thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("making room panicked")));
                freed.map(|freed| {
                    self.has_room = true;
                    eprint!(
                        "{}",
                        serve_text::freed(freed.of_ios, freed.of_seconds, freed.whole)
                    );
                })
            }
        };
        match result {
            Err(e) => self.later(&format!("{e:#}"), at_ns),
            // Free space alone does not store anything yet.
            Ok(()) if self.unstored => {}
            Ok(()) => {
                self.health.trouble(None);
            }
        }
    }

    /// Schedules a retry after a failure.
    fn later(&mut self, why: &str, at_ns: i64) {
        self.retry_ns = at_ns
            + if self.unstored {
                RETRY_UNSTORED_NS
            } else {
                RETRY_NS
            };
        self.trouble(match self.unstored {
            true => format!("nothing is stored: {why}"),
            false => why.to_owned(),
        });
    }

    /// Reports a failure in `/healthz`, and once on standard error.
    fn trouble(&self, why: String) {
        if self.health.trouble(Some(why.clone())) {
            eprintln!("iolens: {}", escape::terminal(&why));
        }
    }

    /// Starts the next recording, unless the end of the last one is still being written. `make_directory` creates the
    /// host's directory if it is missing.
    pub fn rotate(
        &mut self,
        session: &mut Session,
        at_ns: i64,
        make_directory: impl FnOnce() -> Result<PathBuf>,
    ) {
        report_closed(&session.closed());
        if session.is_closing() {
            return;
        }
        let made = make_directory();
        self.has_place = made.is_ok();
        if let Err(e) = made {
            self.later(&format!("{e:#}"), at_ns);
            return;
        }
        if let Err(e) = session.rotate() {
            // Without the directory's name, which differs each time: the same failure is reported only once.
            self.later(
                &format!("the next recording cannot begin: {}", e.root_cause()),
                at_ns,
            );
            return;
        }
        self.growing = session.path().clone();
        self.growing_id = id_of(&self.growing);
        self.from_ns = session.recording_from_ns();
        self.day = today();
        self.has_room = false;
        if std::mem::take(&mut self.unstored) {
            eprintln!(
                "iolens: the recording goes on in {}",
                escape::terminal(&self.growing.display().to_string())
            );
            // The recording whose writer failed has no rollups.
            self.helper.get_or_insert_with(|| {
                Helper::complete(&self.directory, &self.growing, self.space.access)
            });
        }
        self.health.trouble(None);
    }

    /// Waits for the background work.
    pub fn wait(mut self) {
        if let Some(helper) = self.helper.take() {
            self.finished(helper, 0);
        }
    }
}

/// Device and inode of a path; `None` if it does not exist.
fn id_of(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Reports failures of earlier recordings.
pub fn report_closed(all: &[Closed]) {
    for closed in all {
        if let Err(e) = &closed.result {
            eprintln!(
                "iolens: {}",
                escape::terminal(&format!("{}: {e:#}", closed.path.display()))
            );
        }
    }
}

fn today() -> i64 {
    wall_clock_ns().div_euclid(DAY_NS)
}

fn complete(path: &Path, access: Access) -> Result<()> {
    complete_rollups(path, access)?;
    close_logs(path, access)?;
    Ok(())
}

/// Computes the rollups that killed recorders did not write, then converts their logs to Parquet, so that their I/Os
/// can be shipped and read by other tools.
fn complete_others(directory: &Path, own: &Path, access: Access) -> Result<()> {
    let Some(root) = Root::open(directory)? else {
        return Ok(());
    };
    for stored in root.recordings().iter().filter(|r| r.path != own) {
        let cut_off = Recording::open(&stored.path).is_ok_and(|r| r.meta().end_ns.is_none());
        if cut_off && let Err(e) = complete(&stored.path, access) {
            eprintln!(
                "iolens: {}",
                escape::terminal(&format!("{}: {e:#}", stored.path.display()))
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// Of a recording that began at `start_unix_ns`.
    fn rotation_in(root: &Path, start_unix_ns: i64, health: Arc<Health>) -> Rotation {
        let space = Space {
            root: root.to_owned(),
            keep_bytes: 64 << 20,
            access: Access::OWNER,
        };
        let directory = root.join(Root::host_directory("h"));
        let growing = directory.join(Root::recording_directory(start_unix_ns));
        std::fs::create_dir_all(&growing).expect("makes");
        Rotation::new(space, growing, &directory, health)
    }

    #[test]
    fn a_clock_that_was_set_begins_another_recording_and_makes_no_heap_of_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut rotation = rotation_in(dir.path(), wall_clock_ns(), Arc::default());
        let mut asks = |at_s: i64, clock_shift_ns| {
            let progress = Progress {
                at_ns: at_s * S,
                clock_shift_ns,
                ..Progress::default()
            };
            // What it is to do it does once there is room.
            rotation.next_look_ns = 0;
            rotation.has_room = true;
            rotation.day = today();
            rotation.look(&progress) == Turn::Rotate
        };
        assert!(!asks(3_600, 0));
        assert!(!asks(3_600, 9 * S), "a look still meets nearly all of it");
        assert!(asks(3_600, 121 * S));
        assert!(asks(3_600, -11 * S), "set back");
        assert!(!asks(59, 3_600 * S), "a minute at least");
    }

    #[test]
    fn the_server_is_told_how_far_the_recording_has_come_while_it_is_stored() {
        let dir = tempfile::tempdir().expect("a directory");
        let start_unix_ns = wall_clock_ns();
        let health = Arc::new(Health::default());
        let mut rotation = rotation_in(dir.path(), start_unix_ns, Arc::clone(&health));
        assert_eq!(health.growing(), None);
        // It began 100 s after the session did.
        rotation.from_ns = 100 * S;
        let mut stored_s = |at_s: i64, disk_full| {
            let progress = Progress {
                at_ns: at_s * S,
                disk_full,
                ..Progress::default()
            };
            rotation.look(&progress);
            let growing = health.growing().expect("known");
            assert_eq!(growing.start_unix_ns, start_unix_ns);
            (growing.stored_until_unix_ns - start_unix_ns) / S
        };
        assert_eq!(stored_s(100, false), 0, "not before its start");
        assert_eq!(stored_s(130, false), 29);
        assert_eq!(stored_s(140, true), 29, "a full disk stores nothing");
        assert_eq!(stored_s(150, false), 49);
    }
}
