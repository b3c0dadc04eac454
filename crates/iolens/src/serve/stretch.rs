//! Copies a stretch of time into a recording of its own, outside of the root's budget.
//!
//! I/Os are written anew. Hard links to closed segments would be cheaper, but a segment can contain hours of a quiet
//! disk: its ends would have to be cut anyway, and no limit smaller than a segment could be kept.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use iolens_core::model::RecorderCost;
use iolens_core::private::{Access, PrivateDir};
use iolens_core::store::{Recording, Root, WriterOptions, remove_recording, stored_bytes};
use iolens_recorder::complete_rollups;

use crate::copies::{LateLoss, RecordingCopy, add_findings};
use crate::engine::deadline::Deadline;

/// Suffix of copies that are not complete; readers ignore such names.
const UNFINISHED: &str = ".tmp";

/// Where copies are stored.
#[derive(Debug, Clone)]
pub struct CopyTarget {
    /// The directory of the host's recordings in the recording root.
    pub host_dir: PathBuf,
    /// The host's directory in the root of copies, created with the first copy.
    pub into: PathBuf,
    /// Who may read them.
    pub access: Access,
}

/// A copy in progress.
#[derive(Debug)]
pub struct RangeCopy {
    target: CopyTarget,
    copy: RecordingCopy,
    from_unix_ns: i64,
    copied_to_unix_ns: i64,
    /// Whether its size is limited. Sums would exceed the limit, and can be computed from the I/Os.
    is_limited: bool,
    /// Deadline of the copying.
    pub deadline: Deadline,
}

/// A finished copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedCopy {
    /// Its directory.
    pub path: PathBuf,
    /// Its size on disk in bytes.
    pub bytes: u64,
    /// I/Os in it.
    pub ios: u64,
}

impl CopyTarget {
    /// Creates missing directories.
    fn open(&self) -> Result<()> {
        let Some(root) = self.into.parent() else {
            bail!("{}: no place for copies", self.into.display())
        };
        for dir in [root, &self.into] {
            let (parent, name) = PrivateDir::holding(dir, self.access)?;
            parent
                .make_dir(&name)
                .with_context(|| format!("{} cannot be made", dir.display()))?;
        }
        Ok(())
    }

    /// Removes what a killed process left unfinished.
    pub fn clean(&self) {
        for entry in std::fs::read_dir(&self.into)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.to_string_lossy().ends_with(UNFINISHED) && path.is_dir() {
                // What cannot be removed stays: readers ignore it.
                drop(remove_recording(&path, self.access));
            }
        }
    }

    /// The existing copies with their sizes in bytes, oldest first.
    pub fn kept(&self) -> Result<Vec<(PathBuf, u64)>> {
        let Some(root) = Root::open(&self.into)? else {
            return Ok(Vec::new());
        };
        root.recordings()
            .iter()
            .map(|r| Ok((r.path.clone(), stored_bytes(&r.path)?)))
            .collect()
    }

    /// The recordings that overlap a time range, in order of time.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn holding(&self, from_unix_ns: i64, to_unix_ns: i64) -> Result<Vec<Recording>> {
        let mut found = Vec::new();
        let Some(root) = Root::open(&self.host_dir)? else {
            return Ok(found);
        };
        for stored in root.recordings() {
            // A recording that cannot be read, or is being removed, has nothing to copy.
            let Ok((start_ns, end_ns)) = stored.span_unix_ns() else {
                continue;
            };
            if start_ns < to_unix_ns && end_ns >= from_unix_ns {
                found.extend(Recording::open(&stored.path).ok());
            }
        }
        Ok(found)
    }
}

impl RangeCopy {
    /// Starts a copy at `from_unix_ns`, or at the first recording after it. With `whole_only` it is hidden until it
    /// is finished.
    ///
    /// # Errors
    /// No recording overlaps the time, a copy with this start exists already, or a file operation fails.
    pub fn begin(
        target: &CopyTarget,
        from_unix_ns: i64,
        to_unix_ns: i64,
        keep_bytes: Option<u64>,
        whole_only: bool,
    ) -> Result<RangeCopy> {
        let held = target.holding(from_unix_ns, to_unix_ns)?;
        let Some(first) = held.first() else {
            bail!("no recording holds anything of this time")
        };
        target.open()?;
        let from_unix_ns = from_unix_ns.max(first.meta().start_unix_ns);
        let name = Root::recording_directory(from_unix_ns);
        if target.into.join(&name).exists() {
            bail!("there is a copy from this moment on already: {name}");
        }
        let path = target
            .into
            .join(if whole_only { name + UNFINISHED } else { name });
        let access = target.access;
        let options = WriterOptions {
            keep_bytes,
            access,
            devices_table: true,
            ..WriterOptions::default()
        };
        Ok(RangeCopy {
            target: target.clone(),
            copy: RecordingCopy::create(&path, first.meta(), from_unix_ns, options)?,
            from_unix_ns,
            copied_to_unix_ns: from_unix_ns,
            is_limited: keep_bytes.is_some(),
            deadline: Deadline::default(),
        })
    }

    /// Unix time in nanoseconds up to which it has been copied.
    pub fn copied_to_unix_ns(&self) -> i64 {
        self.copied_to_unix_ns
    }

    /// Number of I/Os copied.
    pub fn ios(&self) -> u64 {
        self.copy.ios()
    }

    /// Adds a mark at the time up to which it has been copied.
    ///
    /// # Errors
    /// A file operation fails.
    pub fn mark(&mut self, text: &str) -> Result<()> {
        let at_ns = self.copied_to_unix_ns - self.from_unix_ns;
        self.copy.remark(at_ns, text)
    }

    /// Continues copying up to `to_unix_ns`, as long as `goes_on` accepts the size on disk. Returns whether it did.
    /// With `is_last`, losses that extend beyond `to_unix_ns` are cut there.
    ///
    /// # Errors
    /// Reading or writing fails, or the deadline has passed.
    pub fn up_to(
        &mut self,
        to_unix_ns: i64,
        is_last: bool,
        goes_on: impl Fn(u64) -> bool,
    ) -> Result<bool> {
        let deadline = self.deadline;
        let mut goes_on = |taken| {
            deadline.check()?;
            Ok(goes_on(taken))
        };
        let late = if is_last {
            LateLoss::Cut
        } else {
            LateLoss::LeftOut
        };
        for recording in self.target.holding(self.copied_to_unix_ns, to_unix_ns)? {
            let start_unix_ns = recording.meta().start_unix_ns;
            let from_ns = (self.copied_to_unix_ns - start_unix_ns).max(0);
            if self.copied_to_unix_ns == self.from_unix_ns {
                self.copy.add_names_before(&recording, from_ns)?;
            }
            let range = from_ns..to_unix_ns - start_unix_ns;
            if !self.copy.add(&recording, &range, late, &mut goes_on)? {
                return Ok(false);
            }
        }
        self.copied_to_unix_ns = to_unix_ns.max(self.copied_to_unix_ns);
        let at_ns = self.copied_to_unix_ns - self.from_unix_ns;
        self.copy.tick(at_ns, &mut goes_on)
    }

    /// Finishes the copy at the time up to which it was copied, or at `to_unix_ns` if that is earlier.
    ///
    /// # Errors
    /// A file operation fails.
    pub fn finish(self, to_unix_ns: i64) -> Result<FinishedCopy> {
        let RangeCopy {
            target,
            copy,
            from_unix_ns,
            copied_to_unix_ns,
            is_limited,
            ..
        } = self;
        let to_unix_ns = to_unix_ns.min(copied_to_unix_ns);
        let path = copy.path().to_owned();
        let ios = copy.ios();
        copy.finish(to_unix_ns - from_unix_ns, RecorderCost::default())?;
        if !is_limited {
            complete_rollups(&path, target.access)?;
        }
        let unix_ns = from_unix_ns..to_unix_ns;
        for recording in target.holding(from_unix_ns, to_unix_ns)? {
            add_findings(&path, target.access, &unix_ns, &recording)?;
        }
        let whole = path.with_file_name(Root::recording_directory(from_unix_ns));
        if whole != path {
            std::fs::rename(&path, &whole)
                .with_context(|| format!("{} cannot be renamed", path.display()))?;
        }
        Ok(FinishedCopy {
            bytes: stored_bytes(&whole)?,
            path: whole,
            ios,
        })
    }

    /// Removes the copy.
    ///
    /// # Errors
    /// A file operation fails.
    pub fn discard(self) -> Result<()> {
        let path = self.copy.path().to_owned();
        drop(self.copy);
        Ok(remove_recording(&path, self.target.access)?)
    }
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{
        DevId, Device, Inode, Io, LossReason, Lost, Name, Named, Observation, Op, RecordingMeta,
        Severity, Source, StoredFinding,
    };
    use iolens_core::store::{
        IoColumns, RecordingWriter, put_finding, read_actors, read_findings, read_rollups,
    };
    use serde_json::Map;
    use std::path::Path;

    pub const S: i64 = 1_000_000_000;

    /// A root without recordings, and a place for copies.
    pub fn lake() -> (tempfile::TempDir, CopyTarget) {
        let dir = tempfile::tempdir().unwrap();
        let host_dir = dir.path().join(Root::host_directory("h"));
        std::fs::create_dir(&host_dir).unwrap();
        let into = dir.path().join("copies").join(Root::host_directory("h"));
        (
            dir,
            CopyTarget {
                host_dir,
                into,
                access: Access::OWNER,
            },
        )
    }

    /// A recording of `seconds` from `from_s` on with so many I/Os a second, which do not compress well.
    pub fn record(host_dir: &Path, from_s: i64, seconds: i64, per_s: i64) {
        let mut meta = RecordingMeta::new(Source::Ebpf, from_s * S);
        meta.devices = vec![Device {
            size_bytes: Some(1 << 30),
            ..Device::named("sda", DevId::new(8, 0))
        }];
        let path = host_dir.join(Root::recording_directory(from_s * S));
        let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        let inode = Inode {
            fs_dev: 8,
            ino: 5,
            generation: None,
        };
        let name = Name {
            at_ns: 1,
            of: Named::File(inode),
            text: format!("/of {from_s}"),
        };
        writer.push(&Observation::Name(name)).unwrap();
        for i in 0..seconds * per_s {
            let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let sector = ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24) as i64;
            let io = Io::new(
                i * S / per_s,
                DevId::new(8, 0),
                Op::READ,
                4096,
                Some(sector % 90_000),
                sector % 9_000_000,
            );
            let fs_dev = Some(8);
            let ino = Some(5);
            let tgid = Some((i % 3) as i32);
            writer
                .push_ios(&[Io {
                    sector: Some(sector),
                    fs_dev,
                    ino,
                    tgid,
                    ..io
                }])
                .unwrap();
            if i % 1024 == 0 {
                writer.tick(io.done_ns).unwrap();
            }
        }
        let lost = Lost {
            ios: Some(3),
            ..Lost::somewhere(0, 2 * S, LossReason::RingFull)
        };
        writer.push(&Observation::Lost(lost)).unwrap();
        writer.finish(seconds * S, RecorderCost::default()).unwrap();
    }

    /// Unix times of all I/Os in a host's recordings.
    pub fn times(host_dir: &Path) -> Vec<i64> {
        let root = Root::open(host_dir).unwrap().unwrap();
        let mut times = Vec::new();
        for stored in root.recordings() {
            let recording = Recording::open(&stored.path).unwrap();
            for batch in recording.ios(0..i64::MAX, IoColumns::REQUIRED) {
                times.extend(
                    batch
                        .unwrap()
                        .iter()
                        .map(|io| recording.meta().start_unix_ns + io.done_ns),
                );
            }
        }
        times
    }

    #[test]
    fn a_copy_over_two_recordings_has_all_of_both_in_its_own_time() {
        let (_dir, target) = lake();
        record(&target.host_dir, 100, 50, 10);
        record(&target.host_dir, 150, 50, 10);
        let finding = StoredFinding {
            from_ns: 35 * S,
            to_ns: 60 * S,
            open: false,
            kind: "stall".into(),
            severity: Severity::Critical,
            device: None,
            summary: String::new(),
            evidence: Map::new(),
        };
        let first = target.host_dir.join(Root::recording_directory(100 * S));
        put_finding(&first, target.access, &finding).unwrap();
        let mut stretch = RangeCopy::begin(&target, 140 * S, 160 * S, None, true).unwrap();
        assert!(stretch.up_to(155 * S, false, |_| true).unwrap());
        assert!(target.kept().unwrap().is_empty(), "not whole yet");
        assert!(stretch.up_to(160 * S, true, |_| true).unwrap());
        let kept = stretch.finish(160 * S).unwrap();
        assert_eq!(
            (kept.ios, kept.bytes),
            (200, stored_bytes(&kept.path).unwrap())
        );
        let expected: Vec<i64> = times(&target.host_dir)
            .into_iter()
            .filter(|ns| (140 * S..160 * S).contains(ns))
            .collect();
        assert_eq!(times(&target.into), expected);
        let copy = Recording::open(&kept.path).unwrap();
        assert_eq!(
            (copy.meta().start_unix_ns, copy.meta().end_ns),
            (140 * S, Some(20 * S))
        );
        let lost: Vec<(i64, i64)> = copy
            .lost(0..i64::MAX)
            .iter()
            .map(|l| (l.from_ns, l.to_ns))
            .collect();
        assert_eq!(lost, [(10 * S, 12 * S)], "the first one's was before");
        let names: Vec<String> = copy
            .names(i64::MIN..i64::MAX)
            .flat_map(|batch| batch.unwrap())
            .map(|n| n.text)
            .collect();
        assert_eq!(
            names,
            ["/of 100", "/of 150"],
            "looked up before it began, and in it"
        );
        let found = read_findings(&kept.path).unwrap();
        assert_eq!(
            (found.len(), found[0].from_ns, found[0].to_ns),
            (1, 0, 20 * S)
        );
        let mut seconds = 0;
        let mut actors = 0;
        read_rollups(&kept.path, 1, 0..i64::MAX, |_| seconds += 1).unwrap();
        read_actors(&kept.path, 10, 0..i64::MAX, |_| actors += 1).unwrap();
        assert!(
            seconds > 20 && actors > 4,
            "sums are there as in other recordings: {seconds} {actors}"
        );
    }

    #[test]
    fn what_is_not_whole_can_go() {
        let (_dir, target) = lake();
        record(&target.host_dir, 100, 50, 10);
        assert!(
            RangeCopy::begin(&target, 500 * S, 600 * S, None, true).is_err(),
            "nothing then"
        );
        let mut stretch = RangeCopy::begin(&target, 90 * S, 120 * S, None, true).unwrap();
        assert_eq!(
            stretch.copied_to_unix_ns(),
            100 * S,
            "where there is something"
        );
        assert!(!stretch.up_to(120 * S, true, |_| false).unwrap());
        stretch.discard().unwrap();
        assert!(std::fs::read_dir(&target.into).unwrap().next().is_none());
        drop(RangeCopy::begin(&target, 90 * S, 120 * S, None, true).unwrap());
        target.clean();
        assert!(
            std::fs::read_dir(&target.into).unwrap().next().is_none(),
            "left by a kill"
        );
        let mut stretch = RangeCopy::begin(&target, 90 * S, 120 * S, None, true).unwrap();
        assert!(stretch.up_to(120 * S, true, |_| true).unwrap());
        stretch.finish(120 * S).unwrap();
        let again = RangeCopy::begin(&target, 90 * S, 120 * S, None, true)
            .unwrap_err()
            .to_string();
        assert!(again.contains("already"), "{again}");
    }
}
