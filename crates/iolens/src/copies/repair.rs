//! What a damaged recording still holds, as a whole one.

use std::path::{Path, PathBuf};

use anyhow::Result;
use iolens_core::model::{LossReason, RecorderCost};
use iolens_core::private::Access;
use iolens_core::store::{Recording, SumTable, WriterOptions, copy_whole_tables};
use iolens_recorder::complete_rollups;

use super::output::Interrupt;
use super::{LateLoss, RecordingCopy, close_findings};

/// What was saved and what was not.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// I/Os saved; `None` where only the kernel's counters or averages are.
    pub ios: Option<u64>,
    /// I/Os in damaged blocks; `None`: of one block not even how many.
    pub damaged_ios: Option<u64>,
    /// From start to end.
    pub length_ns: i64,
    /// What is not in it as it was recorded, a line each with the file.
    pub damage: Vec<String>,
}

impl Repaired {
    /// What damaged the I/Os, if none of them is saved: what is ruined must not look like a quiet disk.
    pub fn ruined_by(&self) -> Option<&str> {
        if self.ios > Some(0) || self.damaged_ios == Some(0) {
            return None;
        }
        let of_ios = self.damage.iter().find(|line| line.contains("/io/"));
        of_ios.map(String::as_str)
    }
}

/// A damaged recording: what can be read of it, and what cannot, a line each.
#[derive(Debug)]
pub struct DamagedRecording {
    path: PathBuf,
    recording: Recording,
    damage: Vec<String>,
}

impl DamagedRecording {
    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// It is no recording, or of a newer version; a file cannot be read.
    pub fn open(path: &Path) -> Result<DamagedRecording> {
        let (recording, damage) = Recording::open_damaged(path)?;
        Ok(DamagedRecording {
            path: path.to_owned(),
            recording,
            damage,
        })
    }
}

/// Writes what can be read of a recording as one at `to`. Each block that cannot be read is a loss there.
///
/// # Errors
/// Something cannot be read or written; the user asked to end.
pub fn repair(
    damaged: DamagedRecording,
    to: &Path,
    access: Access,
    interrupt: &Interrupt,
) -> Result<Repaired> {
    let from = damaged.path.as_path();
    let mut recording = damaged.recording;
    let mut damage = damaged.damage;
    damage.extend(recording.spare_damaged_columns()?);
    let meta = recording.meta().clone();
    let options = WriterOptions {
        access,
        devices_table: from.join("devices").is_dir(),
        ..WriterOptions::default()
    };
    let mut copy = RecordingCopy::create(to, &meta, meta.start_unix_ns, options)?;
    let all = i64::MIN..i64::MAX;
    copy.add(&recording, &all, LateLoss::Cut, |_| {
        interrupt.check().map(|()| true)
    })?;
    damage.extend_from_slice(copy.damage());
    let ios = meta.source.known_ios(copy.ios());
    let length_ns = recording.end_ns();
    // Of a recorder that was killed it is not known.
    let cost = match meta.end_ns {
        Some(_) => meta.cost,
        None => RecorderCost::default(),
    };
    copy.finish(length_ns, cost)?;
    interrupt.check()?;
    damage.extend(copy_whole_tables(from, to, access)?);
    close_findings(to, access, length_ns)?;
    if !SumTable::Rollups.steps(from)?.is_empty() {
        complete_rollups(to, access)?;
    }
    let mut damaged_ios = Some(0u64);
    for lost in Recording::open(to)?.lost(i64::MIN..i64::MAX) {
        if lost.reason == LossReason::Corrupt {
            let ios = lost.ios.map(|ios| ios.max(0).unsigned_abs());
            damaged_ios = damaged_ios
                .zip(ios)
                .map(|(sum, ios)| sum.saturating_add(ios));
        }
    }
    Ok(Repaired {
        ios,
        damaged_ios,
        length_ns,
        damage,
    })
}
