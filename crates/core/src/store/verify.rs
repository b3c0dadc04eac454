//! Verifies a recording: reads every byte of its files and compares it with a checksum where there is one.

use std::fs;
use std::io;
use std::path::Path;

use super::block::Block;
use super::disk;
use super::error::StoreError;
use super::inventory::{WHOLE, names_in, parquet_files};
use super::merge::TableReader;
use super::meta_file::{META, META_COPY};
use super::open_requests;
use super::parquet_read::{
    ParquetFile, ReadFailure, checked_range, guarded, read_chunk, read_footer,
};
use super::reader::Recording;
use super::row::Row;
use super::schema::{Table, TableDef};
use super::wal;
use super::whole_file::{each_group, read_group};
use crate::model::{
    CgroupSample, CounterSample, Io, Lost, Mark, Name, PressureSample, RecordingMeta, Request,
};

/// The first bytes of a Parquet file.
const MAGIC_BYTES: u64 = 4;
/// The length of the footer, and the magic bytes again.
const TRAILER_BYTES: u64 = 8;

/// Result of verifying a recording.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Verification {
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files among them without checksums, from earlier versions or other programs. Of these it is only known that they
    /// decode.
    pub files_without_checksums: u64,
    /// The recording has no end: it is still growing, or its recorder was killed.
    pub is_open: bool,
    /// Damage found; one message per damage, with the file name.
    pub damage: Vec<String>,
}

/// Reads every byte of a recording. Damage is part of the result, not an error.
///
/// # Errors
/// It is no recording, of a newer version, or a file cannot be read.
pub fn verify(recording: &Path) -> Result<Verification, StoreError> {
    let mut found = Verification::default();
    match Recording::open(recording) {
        Ok(opened) => {
            found.is_open = opened.meta().end_ns.is_none();
            found.damage.extend_from_slice(opened.warnings());
            found.note_open_requests(recording, opened.meta())?;
        }
        // Both descriptions are damaged. The tables can still be checked.
        Err(e @ StoreError::Damaged { .. }) => found.damage.push(e.to_string()),
        Err(e) => return Err(e),
    }
    for name in [META, META_COPY] {
        found.count(&recording.join(name));
    }
    for name in names_in(&recording.join("wal"))? {
        // Opening the recording has verified the frames of these.
        if wal::parse_name(&name).is_some() {
            found.count(&recording.join("wal").join(name));
        }
    }
    for table in Table::ALL {
        for path in parquet_files(recording, table.name())? {
            found.check_logged(&path, table)?;
        }
    }
    for table in WHOLE {
        for path in parquet_files(recording, table.name)? {
            found.check_whole(&path, table)?;
        }
    }
    Ok(found)
}

impl Verification {
    /// Counts a file as read.
    fn count(&mut self, path: &Path) {
        if let Ok(meta) = fs::metadata(path) {
            self.files += 1;
            self.bytes += meta.len();
        }
    }

    /// Notes a damaged log of open requests, which opening a recording ignores.
    fn note_open_requests(
        &mut self,
        recording: &Path,
        meta: &RecordingMeta,
    ) -> Result<(), StoreError> {
        let path = recording.join(open_requests::NAME);
        let bytes = match disk::read_regular(&path, wal::MAX_FILE_BYTES) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| StoreError::io(&path, "read", e))?,
        };
        self.count(&path);
        let is_whole = wal::scan(&bytes)
            .is_ok_and(|log| log.header.is_some() && log.damage.is_empty() && log.torn.is_none());
        if !is_whole && meta.end_ns.is_none() {
            self.damage.push(format!(
                "{}: damaged; what is known of requests that had not ended is missing",
                path.display()
            ));
        }
        Ok(())
    }

    fn check_logged(&mut self, path: &Path, table: Table) -> Result<(), StoreError> {
        self.count(path);
        let place = path.display();
        match guarded(|| check(path)) {
            Ok(Checked::Checksums) => {}
            Ok(Checked::Damaged(damage)) => {
                let lines = damage
                    .iter()
                    .map(|what| format!("{place}: damaged: {what}"));
                self.damage.extend(lines);
            }
            Ok(Checked::NoChecksums) => {
                self.files_without_checksums += 1;
                self.damage.extend(decode_logged(path, table)?);
            }
            Err(ReadFailure::Damage(what)) => {
                // Opening the recording has reported a damaged footer, unless the description was damaged too.
                let place = place.to_string();
                if !self.damage.iter().any(|line| line.starts_with(&place)) {
                    self.damage.push(format!("{place}: damaged: {what}"));
                }
            }
            Err(ReadFailure::Gone) => {}
            Err(ReadFailure::Fatal(e)) => return Err(e),
        }
        Ok(())
    }

    fn check_whole(&mut self, path: &Path, table: &'static TableDef) -> Result<(), StoreError> {
        self.count(path);
        let of_file = damage_of_whole(path, table)?;
        self.files_without_checksums += u64::from(!of_file.has_checksums);
        let place = path.display();
        let lines = of_file.damage.iter();
        self.damage
            .extend(lines.map(|what| format!("{place}: damaged: {what}")));
        Ok(())
    }
}

/// The damage of one file.
pub(super) struct FileDamage {
    pub has_checksums: bool,
    pub damage: Vec<String>,
}

/// Reads every byte of a file of a whole table.
pub(super) fn damage_of_whole(
    path: &Path,
    table: &'static TableDef,
) -> Result<FileDamage, StoreError> {
    let mut has_checksums = true;
    let damage = match guarded(|| check(path)) {
        Ok(Checked::Checksums) | Err(ReadFailure::Gone) => Vec::new(),
        Ok(Checked::Damaged(damage)) => damage,
        Ok(Checked::NoChecksums) => {
            has_checksums = false;
            match each_group(path, |group| read_group(group, table).map(drop)) {
                Ok(()) => Vec::new(),
                Err(StoreError::Damaged { what, .. }) => vec![what],
                Err(e) => return Err(e),
            }
        }
        Err(ReadFailure::Damage(what)) => vec![what],
        Err(ReadFailure::Fatal(e)) => return Err(e),
    };
    Ok(FileDamage {
        has_checksums,
        damage,
    })
}

/// Result of verifying the checksums of a file.
enum Checked {
    /// All checksums match.
    Checksums,
    /// The file has no checksums.
    NoChecksums,
    /// Messages about the parts that do not match.
    Damaged(Vec<String>),
}

/// Compares every byte of a Parquet file with the checksums in its footer.
fn check(path: &Path) -> Result<Checked, ReadFailure> {
    let file = disk::open_regular(path).map_err(|e| ReadFailure::io(path, e))?;
    let length = file.metadata().map_err(|e| ReadFailure::io(path, e))?.len();
    let footer = read_footer(path, &file)?;
    let crcs = match &footer.crcs {
        Some(crcs) if footer.has_own_crc => crcs,
        None if !footer.has_own_crc => return Ok(Checked::NoChecksums),
        _ => return Err(ReadFailure::Damage("the checksums are gone".to_owned())),
    };
    let mut damage = Vec::new();
    let mut places = Vec::new();
    let groups = footer.meta.row_groups().iter();
    for (chunk, crc) in groups.flat_map(|group| group.columns()).zip(crcs) {
        places.extend(checked_range(chunk));
        match read_chunk(path, &file, chunk, Some(*crc)) {
            Ok(_) => {}
            Err(ReadFailure::Damage(what)) => damage.push(what),
            Err(e) => return Err(e),
        }
    }
    // No checksum covers bytes between two chunks. iolens writes no such bytes.
    let footer_start = length - TRAILER_BYTES - footer.bytes;
    places.sort_unstable();
    let mut covered_to = MAGIC_BYTES;
    for (start, bytes) in places.into_iter().chain([(footer_start, 0)]) {
        if start != covered_to {
            damage.push(format!(
                "no checksum covers the bytes from {} to {}",
                start.min(covered_to),
                start.max(covered_to)
            ));
        }
        covered_to = start.saturating_add(bytes);
    }
    Ok(if damage.is_empty() {
        Checked::Checksums
    } else {
        Checked::Damaged(damage)
    })
}

/// Decodes all rows of a file of a logged table, and returns messages about what cannot be decoded.
fn decode_logged(path: &Path, table: Table) -> Result<Vec<String>, StoreError> {
    let opened = ParquetFile::open(path, table).and_then(Block::of_file);
    let blocks = match opened {
        Ok(blocks) => blocks,
        Err(ReadFailure::Fatal(e)) => return Err(e),
        // Opening the recording has reported it.
        Err(ReadFailure::Damage(_) | ReadFailure::Gone) => return Ok(Vec::new()),
    };
    match table {
        Table::Io => decode::<Io>(&blocks),
        Table::Counters => decode::<CounterSample>(&blocks),
        Table::Lost => decode::<Lost>(&blocks),
        Table::Marks => decode::<Mark>(&blocks),
        Table::Requests => decode::<Request>(&blocks),
        Table::Names => decode::<Name>(&blocks),
        Table::Pressure => decode::<PressureSample>(&blocks),
        Table::Cgroups => decode::<CgroupSample>(&blocks),
    }
}

fn decode<R: Row>(blocks: &[Block]) -> Result<Vec<String>, StoreError> {
    let mut reader = TableReader::<R>::new(blocks, i64::MIN..i64::MAX, u64::MAX);
    for batch in &mut reader {
        batch?;
    }
    Ok(reader.warnings().to_vec())
}
