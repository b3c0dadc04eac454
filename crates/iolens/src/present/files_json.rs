//! File-level requests as one JSON document.

use std::path::Path;

use iolens_core::analysis::files::FilesReport;
use iolens_core::model::RecordingMeta;
use serde_json::json;

use super::escape;

/// The document, ended by a newline. Keys carry their unit; what could not be known is null.
pub fn render(report: &FilesReport, meta: &RecordingMeta, path: &Path) -> String {
    let document = json!({
        "schema_version": super::SCHEMA_VERSION,
        "recording": {
            "path": path.display().to_string(),
            "host": meta.host,
            "kernel": meta.kernel,
            "source": meta.source.to_string(),
            "limits": meta.limits,
        },
        "files": report,
    });
    escape::json(&format!("{document:#}\n")).into_owned()
}
