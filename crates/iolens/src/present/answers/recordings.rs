//! `recordings`: what is there, and how fine.

use serde::Serialize;

use crate::present::SCHEMA_VERSION;

/// All stored recordings.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordingsDocument {
    schema_version: u32,
    /// Directory of the recordings on the server; `null` for clients that may not see file names.
    root: Option<String>,
    recordings: Vec<StoredRecording>,
    notes: Vec<String>,
}

impl RecordingsDocument {
    /// `recordings` of `root` in their order.
    pub fn new(root: Option<String>, recordings: Vec<StoredRecording>) -> RecordingsDocument {
        RecordingsDocument {
            schema_version: SCHEMA_VERSION,
            root,
            recordings,
            notes: Vec::new(),
        }
    }

    /// The same with remarks.
    pub fn with_notes(self, notes: Vec<String>) -> RecordingsDocument {
        RecordingsDocument { notes, ..self }
    }
}

/// One recording.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StoredRecording {
    /// The host that its directory names; `null` of a recording that is in no root.
    pub host: Option<String>,
    /// Wall clock of the beginning.
    pub from: String,
    /// Wall clock of the end.
    pub to: String,
    /// Its end is not written: it grows, or its recorder was killed.
    pub open: bool,
    /// `ebpf`, `counters` or `import:KIND`.
    pub source: String,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Single I/Os that are there; `null` where only the kernel's counters or averages are.
    pub ios: Option<u64>,
    /// I/Os known to be missing, those that the size limit removed left out; `null`: not even how many.
    pub lost_ios: Option<i64>,
    /// Single I/Os that the size limit removed.
    pub removed_ios: i64,
    /// Size of its files.
    pub disk_bytes: u64,
    /// Available resolutions, finest first: `io`, `1s`, `60s`, `3600s`, `counters`.
    pub resolutions: Vec<String>,
}
