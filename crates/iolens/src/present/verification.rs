//! `iolens verify`: what reading every byte of recordings found, as text and as JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::SCHEMA_VERSION;
use super::escape;
use super::indent::indented;
use super::layout::{count_of, size};
use crate::engine::inventory::Verification;

/// `iolens verify --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VerificationDocument<'a> {
    /// Version of this layout.
    schema_version: u32,
    /// In the order in which they were named.
    recordings: Vec<VerifiedRecording<'a>>,
}

/// One recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VerifiedRecording<'a> {
    /// As the user named it, or below the root that the user named.
    path: String,
    /// Whether the recording has no end yet: it is growing, or its recorder was killed.
    open: bool,
    /// Files that were read.
    file_count: u64,
    /// Their size.
    disk_bytes: u64,
    /// Files without checksums, written by an earlier version or another program. They were decoded but could not be verified.
    files_without_checksums: u64,
    /// What is not as it was written, a line each with the file; empty: the recording is whole.
    damage: &'a [String],
}

/// One document about all of them.
///
/// # Errors
/// It cannot be serialised.
pub fn json(verified: &[(PathBuf, Verification)]) -> serde_json::Result<String> {
    let recordings = verified.iter().map(|(path, found)| VerifiedRecording {
        path: path.display().to_string(),
        open: found.is_open,
        file_count: found.files,
        disk_bytes: found.bytes,
        files_without_checksums: found.files_without_checksums,
        damage: &found.damage,
    });
    let document = VerificationDocument {
        schema_version: SCHEMA_VERSION,
        recordings: recordings.collect(),
    };
    indented(&document).map(|text| escape::json(&text).into_owned())
}

/// A line for each damage, or one that says that there is none.
pub fn text(path: &Path, found: &Verification) -> String {
    let mut out = String::new();
    for damage in &found.damage {
        let _ = writeln!(out, "{}", escape::terminal(damage));
    }
    if !found.damage.is_empty() {
        return out;
    }
    let path = path.display().to_string();
    let _ = write!(
        out,
        "{}: whole: {}, {}",
        escape::terminal(&path),
        count_of(found.files, "file"),
        size(found.bytes as f64)
    );
    if found.files_without_checksums > 0 {
        let _ = write!(
            out,
            "; {} without checksums could be decoded",
            count_of(found.files_without_checksums, "file")
        );
    }
    if found.is_open {
        out.push_str("; its end is not written: it grows, or its recorder was killed");
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Verification {
        Verification {
            files: 6,
            bytes: 72_500,
            files_without_checksums: 0,
            is_open: false,
            damage: Vec::new(),
        }
    }

    #[test]
    fn a_whole_recording_has_one_line() {
        let path = Path::new("a\u{202e}.iolens");
        assert_eq!(
            text(path, &found()),
            "a\\u{202e}.iolens: whole: 6 files, 72.5 kB\n"
        );
        let open = Verification {
            is_open: true,
            files_without_checksums: 1,
            ..found()
        };
        assert_eq!(
            text(Path::new("b"), &open),
            "b: whole: 6 files, 72.5 kB; 1 file without checksums could be decoded; its end is not written: it grows, or its \
             recorder was killed\n"
        );
    }

    #[test]
    fn damage_has_a_line_each_and_is_escaped() {
        let damaged = Verification {
            damage: vec!["io/1: damaged".to_owned(), "\x1b[31m".to_owned()],
            ..found()
        };
        assert_eq!(text(Path::new("b"), &damaged), "io/1: damaged\n\\x1b[31m\n");
        let document = json(&[(PathBuf::from("b"), damaged)]).expect("JSON");
        let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
        let first = &document["recordings"][0];
        assert_eq!(
            (&first["file_count"], &first["damage"][0]),
            (&6.into(), &"io/1: damaged".into())
        );
    }
}
