//! Removes tiers of a recording in a root, so that readers do not report the missing files as damage.

use std::io::ErrorKind;
use std::path::Path;

use super::budget::{SINGLE, files, is_fine, own};
use super::error::StoreError;
use super::frame_encoder::FrameEncoder;
use super::meta_file;
use super::parquet_write::FileEncoder;
use super::reader::Recording;
use super::schema::Table;
use super::segment;
use super::wal::{self, FRAME_HEADER};
use crate::model::{LossReason, Lost, TableManifest};
use crate::private::{Access, PrivateDir};

/// Removes the single observations of a recording. It first stores a loss for them. If it is interrupted after that,
/// readers take the missing files neither for damage nor for an idle disk.
pub(super) fn drop_single(path: &Path, access: Access) -> Result<(), StoreError> {
    let dir = own(path, access)?;
    let recording = Recording::open(path)?;
    let end_ns = recording.end_ns();
    let losses = recording.lost(i64::MIN..i64::MAX);
    let is_said = losses
        .iter()
        .any(|l| l.reason == LossReason::Retention && l.to_ns >= end_ns);
    if !is_said {
        say_removed(&dir, &recording, end_ns)?;
    }
    for (table, name, _) in files(path)? {
        let of_wal =
            table == "wal" && wal::parse_name(&name).is_some_and(|(t, _)| SINGLE.contains(&t));
        if !name.is_empty() && (of_wal || SINGLE.iter().any(|t| t.name() == table)) {
            remove(&dir, &format!("{table}/{name}"))?;
        }
    }
    for table in SINGLE {
        remove_dir(&dir, table.name())?;
    }
    Ok(())
}

/// Stores the loss of what is about to be removed, and removes the tables from the manifest.
fn say_removed(dir: &PrivateDir, recording: &Recording, end_ns: i64) -> Result<(), StoreError> {
    let ios = i64::try_from(recording.ios_stored()).unwrap_or(i64::MAX);
    let lost = Lost {
        ios: Some(ios),
        ..Lost::somewhere(0, end_ns, LossReason::Retention)
    };
    let number = files(dir.path())?
        .iter()
        .filter_map(|(table, name, _)| match table.as_str() {
            "lost" => segment::parse_name(name),
            "wal" => wal::parse_name(name)
                .filter(|(t, _)| *t == Table::Lost)
                .map(|(_, n)| n),
            _ => None,
        })
        .max()
        .map_or(1, |last| last + 1);
    let mut frame = Vec::new();
    let mut file = Vec::new();
    wal::encode_frame(&[lost], &mut FrameEncoder::default(), &mut frame);
    let name = format!("{}/{}", Table::Lost.name(), segment::file_name(number));
    let frames = std::iter::once((&frame[FRAME_HEADER..], 1));
    let encoded = FileEncoder::default().encode(Table::Lost, frames, &mut file);
    encoded.map_err(|e| StoreError::Damaged {
        path: dir.path().join(&name),
        what: e.to_string(),
    })?;
    let written = dir
        .make_dir(Table::Lost.name())
        .and_then(|()| dir.write_atomically(&name, &file));
    written.map_err(|e| StoreError::io(&dir.path().join(&name), "write", e))?;
    let mut meta = recording.meta().clone();
    if let Some(tables) = &mut meta.tables {
        tables.retain(|name, _| SINGLE.iter().all(|t| t.name() != name));
        let none = TableManifest {
            segments: 0,
            first: number,
            last: number,
            rows: 0,
        };
        let of = tables.entry(Table::Lost.name().to_owned()).or_insert(none);
        of.segments += 1;
        of.last = number;
        of.rows += 1;
    }
    meta_file::write(dir, &meta).map(drop)
}

/// Removes the fine sums, which are kept shorter than those of a minute (see [`is_fine`]).
pub(super) fn drop_seconds(path: &Path, access: Access) -> Result<(), StoreError> {
    let dir = own(path, access)?;
    let found = files(path)?;
    let mut names = found.iter().filter(|(table, name, _)| is_fine(table, name));
    names.try_for_each(|(table, name, _)| remove(&dir, &format!("{table}/{name}")))
}

/// Removes a whole recording. The description goes last: until then it is still a recording and can be removed again.
pub(super) fn drop_whole(path: &Path, access: Access) -> Result<(), StoreError> {
    let dir = own(path, access)?;
    let found = files(path)?;
    for (table, name, _) in found
        .iter()
        .filter(|(table, name, _)| !table.is_empty() && !name.is_empty())
    {
        remove(&dir, &format!("{table}/{name}"))?;
    }
    for (table, ..) in found
        .iter()
        .filter(|(table, name, _)| !table.is_empty() && name.is_empty())
    {
        remove_dir(&dir, table)?;
    }
    for (_, name, _) in found.iter().filter(|(table, ..)| table.is_empty()) {
        remove(&dir, name)?;
    }
    let (parent, name) =
        PrivateDir::holding(path, access).map_err(|e| StoreError::io(path, "remove", e))?;
    parent
        .remove_dir(name)
        .map_err(|e| StoreError::io(path, "remove", e))
}

fn remove(dir: &PrivateDir, name: &str) -> Result<(), StoreError> {
    match dir.remove_file(name) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(StoreError::io(&dir.path().join(name), "remove", e))
        }
        _ => Ok(()),
    }
}

fn remove_dir(dir: &PrivateDir, name: &str) -> Result<(), StoreError> {
    match dir.remove_dir(name) {
        Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(StoreError::io(&dir.path().join(name), "remove", e))
        }
        _ => Ok(()),
    }
}
