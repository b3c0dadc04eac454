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
    /// Host named by the recording's directory; `null` if the recording is not in a root.
    pub host: Option<String>,
    /// Start of the recording by wall clock.
    pub from: String,
    /// End of the recording by wall clock.
    pub to: String,
    /// Whether the recording has no end yet: it is growing, or its recorder was killed.
    pub open: bool,
    /// `ebpf`, `counters` or `import:KIND`.
    pub source: String,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Individual I/Os in the recording; `null` if it has only counters or averages.
    pub ios: Option<u64>,
    /// Lost I/Os, excluding those removed by the size limit; `null` if the number is not known.
    pub lost_ios: Option<i64>,
    /// I/Os removed by the size limit.
    pub removed_ios: i64,
    /// Size of its files.
    pub disk_bytes: u64,
    /// Available resolutions, finest first: `io`, `1s`, `60s`, `3600s`, `counters`.
    pub resolutions: Vec<String>,
}
