//! Copies stretches of time on request of a client, on a thread that may write: the threads that serve requests may
//! not.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use iolens_core::private::Access;
use iolens_core::store::{Root, stored_bytes};
use iolens_observe::topology::lower_this_thread;

use super::stretch::{CopyTarget, FinishedCopy, RangeCopy};
use crate::engine::deadline::Deadline;

/// Disk space that is left free for others, in bytes.
const SPARE_BYTES: u64 = 64 << 20;

/// Sends requests to the copying thread.
#[derive(Debug)]
pub struct Snapshots(SyncSender<SnapshotRequest>);

/// A stretch in Unix time, and the channel for the result.
#[derive(Debug)]
struct SnapshotRequest {
    from_unix_ns: i64,
    to_unix_ns: i64,
    deadline: Instant,
    outcome: SyncSender<Result<(String, FinishedCopy)>>,
}

impl Snapshots {
    /// Starts the thread of `keeper`. It ends when the last sender is dropped.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(keeper: Keeper) -> Result<Snapshots> {
        let (requests, received) = sync_channel::<SnapshotRequest>(1);
        let builder = std::thread::Builder::new().name("iolens-snapshot".to_owned());
        let thread = builder.spawn(move || {
            lower_this_thread();
            for request in received {
                let deadline = Deadline::at(request.deadline);
                let kept = keeper.keep(request.from_unix_ns, request.to_unix_ns, deadline);
                // The client may have disconnected.
                drop(request.outcome.send(kept));
            }
        });
        thread.context("the thread that copies stretches could not be started")?;
        Ok(Snapshots(requests))
    }

    /// Copies `from_unix_ns..to_unix_ns`, and waits for the result until `deadline`.
    ///
    /// # Errors
    /// Those of [`Keeper::keep`].
    pub fn keep(
        &self,
        from_unix_ns: i64,
        to_unix_ns: i64,
        deadline: Instant,
    ) -> Result<(String, FinishedCopy)> {
        let (outcome, taken) = sync_channel(1);
        let request = SnapshotRequest {
            from_unix_ns,
            to_unix_ns,
            deadline,
            outcome,
        };
        let sent = self.0.send(request).is_ok();
        let kept = taken.recv().ok().filter(|_| sent);
        kept.unwrap_or_else(|| Err(anyhow!("the thread that copies has ended")))
    }
}

/// Makes copies of one host's recordings.
#[derive(Debug)]
pub struct Keeper {
    root: PathBuf,
    target: CopyTarget,
    keep_bytes: u64,
}

/// The disk does not have enough space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRoom {
    /// Upper bound of the size of the copy.
    pub bytes: u64,
}

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = self.bytes >> 20;
        write!(
            f,
            "the disk has {mib} MiB to spare beside the budget of the recordings, which this stretch does not fit in"
        )
    }
}

impl std::error::Error for NoRoom {}

impl Keeper {
    /// For the recordings in `host_dir` of `root`, which may use up to `keep_bytes` in total.
    pub fn new(root: &Path, host_dir: &Path, keep_bytes: u64, access: Access) -> Keeper {
        let into = root
            .join(Root::SNAPSHOTS)
            .join(host_dir.file_name().unwrap_or_default());
        let target = CopyTarget {
            host_dir: host_dir.to_owned(),
            into,
            access,
        };
        target.clean();
        Keeper {
            root: root.to_owned(),
            target,
            keep_bytes,
        }
    }

    /// Copies `from_unix_ns..to_unix_ns`. Returns the name of the copy relative to the root, and its size.
    ///
    /// # Errors
    /// The stretch contains no I/O, the disk is too small ([`NoRoom`]), a copy with this start exists already, or the
    /// deadline has passed.
    pub fn keep(
        &self,
        from_unix_ns: i64,
        to_unix_ns: i64,
        deadline: Deadline,
    ) -> Result<(String, FinishedCopy)> {
        let bytes = self.spare_bytes()?;
        let mut stretch = RangeCopy::begin(&self.target, from_unix_ns, to_unix_ns, None, true)?;
        stretch.deadline = deadline;
        let copied = stretch.up_to(to_unix_ns, true, |taken| taken < bytes);
        let why = match copied {
            Ok(true) if stretch.ios() > 0 => {
                let kept = stretch.finish(to_unix_ns)?;
                let name = kept
                    .path
                    .strip_prefix(&self.root)
                    .unwrap_or(&kept.path)
                    .display()
                    .to_string();
                return Ok((name, kept));
            }
            Ok(true) => anyhow!(
                "there is no I/O in this stretch, or the size limit removed it: nothing to keep"
            ),
            Ok(false) => anyhow::Error::new(NoRoom { bytes }),
            Err(e) => e,
        };
        stretch.discard()?;
        Err(why)
    }

    /// Free disk space beyond what the recordings may still use.
    fn spare_bytes(&self) -> Result<u64> {
        let disk =
            rustix::fs::statvfs(&self.root).context("the free space of the disk cannot be read")?;
        let mut used = 0;
        for stored in Root::open(&self.root)?.iter().flat_map(Root::recordings) {
            // A recording that is being removed uses no space.
            used += stored_bytes(&stored.path).unwrap_or(0);
        }
        let reserved = self
            .keep_bytes
            .saturating_sub(used)
            .saturating_add(SPARE_BYTES);
        Ok((disk.f_bavail * disk.f_frsize).saturating_sub(reserved))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::stretch::tests::{S, lake, record};
    use super::*;
    use iolens_core::store::Budget;

    #[test]
    fn a_snapshot_is_named_and_no_budget_removes_it() {
        let (dir, target) = lake();
        record(&target.host_dir, 100, 50, 10);
        let snapshots = Keeper::new(dir.path(), &target.host_dir, 1 << 20, target.access);
        let (name, kept) = snapshots
            .keep(110 * S, 130 * S, Deadline::default())
            .unwrap();
        assert_eq!(
            (name.as_str(), kept.ios),
            (&*format!("snapshots/host=h/start_ns={}", 110 * S), 200)
        );
        let budget = Budget {
            keep_bytes: 1 << 20,
            access: target.access,
        };
        budget.make_room(dir.path(), None, 0, 200 * S).unwrap();
        assert!(dir.path().join(&name).join("meta.json").exists());
        assert!(
            Root::open(dir.path())
                .unwrap()
                .unwrap()
                .recordings()
                .is_empty(),
            "it is no recording of the root"
        );
    }

    #[test]
    fn what_holds_nothing_or_does_not_fit_is_refused_and_leaves_nothing() {
        let (dir, target) = lake();
        record(&target.host_dir, 100, 50, 10);
        let snapshots = |keep| Keeper::new(dir.path(), &target.host_dir, keep, target.access);
        let refused = |keep, from_s: i64, to_s: i64| {
            snapshots(keep)
                .keep(from_s * S, to_s * S, Deadline::default())
                .unwrap_err()
        };
        assert!(
            refused(1 << 20, 10, 20)
                .to_string()
                .contains("no recording holds")
        );
        let between = |from_ns, to_ns| {
            snapshots(1 << 20)
                .keep(from_ns, to_ns, Deadline::default())
                .unwrap_err()
                .to_string()
        };
        assert!(between(120 * S + 1, 120 * S + 9).contains("no I/O in this stretch"));
        assert!(refused(u64::MAX, 110, 130).is::<NoRoom>());
        let left = std::fs::read_dir(dir.path().join("snapshots/host=h"))
            .unwrap()
            .flatten();
        assert_eq!(left.count(), 0);
    }
}
