//! Errors of recordings. Each prints as one line: what failed, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::{RecordingMeta, SCHEMA_VERSION};

/// An error of the recording's reader or writer. Paths are shown as they were given: escape them for a terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is nothing at this path, or something that is no recording.
    #[error("{path}: not a recording: {why}; give the directory that holds meta.json")]
    NotARecording {
        /// The path that was opened.
        path: PathBuf,
        /// Reason: the missing file or key.
        why: String,
    },
    /// Written by a later version of the format.
    #[error(
        "{path}: recorded in format version {found}, and this program reads up to {reads}; use a newer iolens"
    )]
    Newer {
        /// Directory of the recording.
        path: PathBuf,
        /// Format version of the recording.
        found: u64,
        /// The newest that this code reads.
        reads: u32,
    },
    /// The output directory is there already.
    #[error("{path}: exists already; choose another name or remove it first")]
    Exists {
        /// The path that was to be created.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("{path}: no space left on this disk; free some, or record to another one")]
    NoSpace {
        /// What was being written.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("{path}: cannot {doing}: {why}; {}", permission(doing))]
    NoPermission {
        /// The file or directory.
        path: PathBuf,
        /// What was being done, e.g. `create`.
        doing: &'static str,
        /// What the system said.
        why: io::Error,
    },
    /// A recording cannot begin at this time.
    #[error("{path}: cannot begin at {}: {}; is the clock right?", date(*start_unix_ns), RecordingMeta::STARTS)]
    BadStart {
        /// The path that was to be created.
        path: PathBuf,
        /// When it was to begin.
        start_unix_ns: i64,
    },
    /// The size limit leaves no room for one segment.
    #[error("a size limit (--keep) of {keep} bytes is smaller than one segment; keep at least {least} bytes ({} MiB)", least >> 20)]
    KeepTooSmall {
        /// The requested limit in bytes.
        keep: u64,
        /// The smallest that works.
        least: u64,
    },
    /// A required column is not there.
    #[error(
        "{path}: column {column} is missing, and it is required; see docs/recording-format.md for the columns"
    )]
    MissingColumn {
        /// Path of the Parquet file.
        path: PathBuf,
        /// Name of the column.
        column: &'static str,
    },
    /// A column holds something else than the format says.
    #[error("{path}: column {column} {problem}; see docs/recording-format.md for the columns")]
    BadColumn {
        /// Path of the Parquet file.
        path: PathBuf,
        /// Name of the column.
        column: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Bytes are damaged and there is no way around them.
    #[error("{path}: damaged: {what}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong, and the way out if there is one.
        what: String,
    },
    /// The directory that the recording was to be created in is not there.
    #[error("{path}: cannot create: there is no directory {} to put it in; make that first", path.parent().unwrap_or(path).display())]
    NoParent {
        /// The path that was to be created.
        path: PathBuf,
    },
    /// Any other failure of the file system.
    #[error("{path}: cannot {doing}: {why}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done, e.g. `read`.
        doing: &'static str,
        /// What the system said.
        why: io::Error,
    },
}

impl StoreError {
    /// Maps a system error to the kind whose message says what to do.
    pub(crate) fn io(path: &Path, doing: &'static str, why: io::Error) -> StoreError {
        let path = path.to_owned();
        match why.kind() {
            _ if is_no_space(&why) => StoreError::NoSpace { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::NoPermission { path, doing, why }
            }
            io::ErrorKind::NotFound if doing == "create" && lacks_parent(&path) => {
                StoreError::NoParent { path }
            }
            _ => StoreError::Io { path, doing, why },
        }
    }

    pub(crate) fn newer(path: &Path, found: u64) -> StoreError {
        StoreError::Newer {
            path: path.to_owned(),
            found,
            reads: SCHEMA_VERSION,
        }
    }

    /// Whether the error means that there is no recording or a damaged one, rather than a later version or a failed
    /// read.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            StoreError::NotARecording { .. }
                | StoreError::Damaged { .. }
                | StoreError::MissingColumn { .. }
                | StoreError::BadColumn { .. }
        )
    }

    /// Whether the disk or the quota is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self, StoreError::NoSpace { .. })
    }
}

fn lacks_parent(path: &Path) -> bool {
    path.parent()
        .is_some_and(|p| !p.as_os_str().is_empty() && !p.exists())
}

fn date(unix_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(unix_ns.into())
        .map_or_else(|_| format!("{unix_ns} ns after 1970"), |at| at.to_string())
}

fn permission(doing: &str) -> &'static str {
    if doing == "read" {
        "read it as a user who may, or ask for the permission"
    } else {
        "choose a place where you may write, or ask for the permission"
    }
}

/// Full disk, exhausted quota, or a file-size limit. All mean that there is no space now, but maybe later.
pub(crate) fn is_no_space(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
