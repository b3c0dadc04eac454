//! Writes what a damaged recording still holds to a new, undamaged recording.

use std::path::{Path, PathBuf};

use anyhow::Result;
use iolens_core::model::{LossReason, RecorderCost};
use iolens_core::private::Access;
use iolens_core::store::{Recording, SumTable, WriterOptions, copy_whole_tables};
use iolens_recorder::complete_rollups;

use super::output::Interrupt;
use super::{LateLoss, RecordingCopy, close_findings};

/// The result of a repair.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Number of I/Os saved; `None` for recordings of counters or imported averages.
    pub ios: Option<u64>,
    /// Number of I/Os in damaged blocks; `None`: not known for at least one block.
    pub damaged_ios: Option<u64>,
    /// Length in nanoseconds.
    pub length_ns: i64,
    /// What was not saved as it was recorded, one line each with the file.
    pub damage: Vec<String>,
}

impl Repaired {
    /// The damage, if no I/O was saved: a ruined recording must not look like an idle disk.
    pub fn ruined_by(&self) -> Option<&str> {
        if self.ios > Some(0) || self.damaged_ios == Some(0) {
            return None;
        }
        let of_ios = self.damage.iter().find(|line| line.contains("/io/"));
        of_ios.map(String::as_str)
    }
}

/// An opened damaged recording, and what cannot be read of it, one line each.
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
    /// It is not a recording, a newer version wrote it, or a file cannot be read.
    pub fn open(path: &Path) -> Result<DamagedRecording> {
        let (recording, damage) = Recording::open_damaged(path)?;
        Ok(DamagedRecording {
            path: path.to_owned(),
            recording,
            damage,
        })
    }
}

/// Writes what can be read to a recording at `to`. Each block that cannot be read becomes a loss.
///
/// # Errors
/// Reading or writing fails, or the user has requested to stop.
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
    // The cost is not known if the recorder was killed.
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
