//! Reads what a damaged recording still holds. Ordinary reading skips a whole block if any of its columns is damaged;
//! this does not.

use std::path::Path;

use super::block::{Block, Place};
use super::disk;
use super::error::StoreError;
use super::inventory::{WHOLE, parquet_files};
use super::meta_file::META;
use super::parquet_read::{ReadFailure, guarded};
use super::reader::Recording;
use super::root::Root;
use super::schema::Table;
use super::tables::devices;
use super::verify::damage_of_whole;
use crate::model::{RecordingMeta, Source};
use crate::private::{Access, PrivateDir};

/// Longer files of whole tables are not copied; no recorder writes such.
const MAX_FILE_BYTES: u64 = 4 << 30;

impl Recording {
    /// Opens a recording even if its descriptions are damaged or missing. Also returns messages about the damage.
    ///
    /// # Errors
    /// It has neither a description nor I/Os; it is of a newer version; a file cannot be read.
    pub fn open_damaged(path: &Path) -> Result<(Recording, Vec<String>), StoreError> {
        let mut damage = Vec::new();
        let recording = match Recording::open(path) {
            Ok(recording) => recording,
            // Both descriptions are damaged. Other damage loses only the affected rows.
            Err(e @ StoreError::Damaged { .. }) => {
                damage.push(e.to_string());
                Recording::open_without_description(path)?
            }
            // An interrupted copy of a recording may have no description yet.
            Err(e @ StoreError::NotARecording { .. }) => {
                match Recording::open_without_description(path) {
                    Ok(recording) if recording.ios_stored() > 0 => {
                        damage.push(format!(
                            "{}: is missing, and no copy of it can be read",
                            path.join(META).display()
                        ));
                        recording
                    }
                    _ => return Err(e),
                }
            }
            Err(e) => return Err(e),
        };
        damage.extend_from_slice(recording.warnings());
        Ok((recording, damage))
    }

    /// Opens a recording without a readable description. Host, devices and source are unknown. The start is taken from
    /// the name of the directory, if it has one.
    fn open_without_description(path: &Path) -> Result<Recording, StoreError> {
        let named_start = Root::start_of(path);
        let start_unix_ns = named_start
            .filter(|start| RecordingMeta::STARTS_UNIX_NS.contains(start))
            .unwrap_or(0);
        let source = Source::Import("repair".to_owned());
        let mut meta = RecordingMeta::new(source, start_unix_ns);
        meta.limits = vec![
            "the description could not be read: host, devices and source are not known".to_owned(),
        ];
        Recording::open_as(path, meta, None)
    }

    /// From now on, reads I/Os of blocks with damaged optional columns without those columns; null then means that the
    /// value is not known. Only for I/Os: in other tables null may mean something else (a request without `sync` is not
    /// an fsync). Returns one message per damaged column.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn spare_damaged_columns(&mut self) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for block in &mut self.blocks[Table::Io as usize - 1] {
            spare_columns(block, &mut found)?;
        }
        Ok(found)
    }
}

fn spare_columns(block: &mut Block, found: &mut Vec<String>) -> Result<(), StoreError> {
    let Place::Group(file, group) = &block.place else {
        return Ok(());
    };
    let file = file.clone();
    let group = *group;
    let handle = match disk::open_regular(&file.path) {
        Ok(handle) => handle,
        // Reading will report that the file is gone.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io(&file.path, "read", e)),
    };
    for (i, column) in Table::Io.columns().iter().enumerate() {
        if column.required {
            continue;
        }
        match guarded(|| file.column(&handle, group, i).map(drop)) {
            Err(ReadFailure::Damage(what)) => {
                block.left_out |= 1 << i;
                found.push(format!(
                    "{}: damaged: {what}; it is not known of {} I/Os",
                    block.describe(),
                    block.rows
                ));
            }
            Err(ReadFailure::Fatal(e)) => return Err(e),
            Ok(()) | Err(ReadFailure::Gone) => {}
        }
    }
    Ok(())
}

/// Copies the files of whole tables to the finished recording `to`, which must have the same start. Damaged parts are
/// left out and returned as messages. The table of devices is not copied, because a recording writes its own.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy_whole_tables(
    from: &Path,
    to: &Path,
    access: Access,
) -> Result<Vec<String>, StoreError> {
    let mut damage = Vec::new();
    for table in WHOLE {
        if table.name == devices::TABLE.name {
            continue;
        }
        for path in parquet_files(from, table.name)? {
            let of_file = damage_of_whole(&path, table)?;
            if !of_file.damage.is_empty() {
                let place = path.display();
                let lines = of_file.damage.iter();
                damage
                    .extend(lines.map(|what| format!("{place}: damaged: {what}; it is left out")));
                continue;
            }
            let bytes = disk::read_regular(&path, MAX_FILE_BYTES)
                .map_err(|e| StoreError::io(&path, "read", e))?;
            let name = Path::new(table.name).join(path.file_name().unwrap_or_default());
            let written = PrivateDir::open_own(to, access).and_then(|dir| {
                dir.make_dir(table.name)?;
                dir.write_atomically(&name, &bytes)
            });
            written.map_err(|e| StoreError::io(&to.join(&name), "write", e))?;
        }
    }
    Ok(damage)
}
