//! `meta.json` and its copy: each has a checksum, and the copy is read where the first is damaged.

use std::io;
use std::path::Path;

use super::disk;
use super::error::StoreError;
use super::schema::MAX_TIME_NS;
use crate::model::{RecordingMeta, SCHEMA_VERSION};
use crate::private::PrivateDir;

pub(crate) const META: &str = "meta.json";
pub(crate) const META_COPY: &str = "meta.json.bak";
/// Longer descriptions are not read: tens of thousands of devices take a tenth of it.
const MAX_BYTES: u64 = 256 << 20;
/// The last key of our file; its value is the CRC-32 of every byte before the key.
const CRC_KEY: &str = "  \"crc32\": \"";

/// Whether `dir` has a description, and is a recording therefore.
pub fn is_in(dir: &Path) -> bool {
    [META, META_COPY].iter().any(|name| dir.join(name).exists())
}

/// The text of `meta.json`.
pub(crate) fn encode(meta: &RecordingMeta) -> Vec<u8> {
    // Serialising plain structs to memory cannot fail. If it ever did, every reader would refuse the empty object.
    let json = serde_json::to_string_pretty(meta).unwrap_or_else(|_| "{}".to_owned());
    let mut text = json.trim_end_matches(['\n', '}']).to_owned();
    text.push_str(",\n");
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("{CRC_KEY}{crc:08x}\"\n}}\n"));
    text.into_bytes()
}

/// Writes both copies, one after the other, so that at any instant one of them is intact.
pub(crate) fn write(dir: &PrivateDir, meta: &RecordingMeta) -> Result<u64, StoreError> {
    let text = encode(meta);
    for name in [META, META_COPY] {
        dir.write_atomically(name, &text)
            .map_err(|e| StoreError::io(&dir.path().join(name), "write", e))?;
    }
    Ok(text.len() as u64)
}

/// Reads whichever copy is intact. Returns a warning if the other one is not.
pub(crate) fn read(dir: &Path) -> Result<(RecordingMeta, Option<String>), StoreError> {
    match (read_one(&dir.join(META)), read_one(&dir.join(META_COPY))) {
        (Ok(meta), Err(e @ StoreError::Damaged { .. })) => {
            Ok((meta, Some(format!("{e}; {META} is whole"))))
        }
        (Ok(meta), _) => Ok((meta, None)),
        (Err(e @ StoreError::Damaged { .. }), Ok(meta)) => {
            Ok((meta, Some(format!("{e}; its copy {META_COPY} is used"))))
        }
        (Err(StoreError::NotARecording { .. }), Ok(meta)) => {
            let path = dir.join(META);
            let warning = format!(
                "{}: is missing; its copy {META_COPY} is used",
                path.display()
            );
            Ok((meta, Some(warning)))
        }
        (Err(StoreError::Damaged { path, what }), Err(StoreError::Damaged { .. })) => {
            let what = format!(
                "{what}; its copy {META_COPY} is damaged too; iolens repair saves what the other files hold"
            );
            Err(StoreError::Damaged { path, what })
        }
        // The copy is not damaged: it is of a later version, or reading it failed.
        (Err(e), Err(of_copy)) if e.is_damage() && !of_copy.is_damage() => Err(of_copy),
        (Err(e), _) => Err(e),
    }
}

fn read_one(path: &Path) -> Result<RecordingMeta, StoreError> {
    let text = disk::read_regular(path, MAX_BYTES).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreError::NotARecording {
            path: path.parent().unwrap_or(path).to_owned(),
            why: missing(path),
        },
        _ => StoreError::io(path, "read", e),
    })?;
    parse(path, &text)
}

fn missing(path: &Path) -> String {
    match path.parent() {
        Some(dir) if !dir.exists() => "there is nothing at this path".to_owned(),
        Some(dir) if !dir.is_dir() => "it is a file".to_owned(),
        Some(dir) if dir.join("io").is_dir() => {
            format!("it has no {META}, only tables, which iolens repair saves")
        }
        _ => format!("it has no {META}"),
    }
}

/// Parses the text. The version is checked first, so that a later format is not reported as damage.
pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<RecordingMeta, StoreError> {
    let crc = stored_crc(text);
    if crc == Some(false) {
        // Check the version before the checksum, because a later format may compute that in another way. A version that
        // differs by one flipped bit is treated as damage.
        if let Some(v) = serde_json::from_slice(text)
            .ok()
            .and_then(|json| newer_version(&json))
            && !is_one_bit_off(v)
        {
            return Err(StoreError::newer(path.parent().unwrap_or(path), v));
        }
        return Err(damaged(
            path,
            "its checksum does not fit (if you edited it, remove the line \"crc32\" and change \"writer\")",
        ));
    }
    let json: serde_json::Value =
        serde_json::from_slice(text).map_err(|e| damaged(path, &format!("no JSON: {e}")))?;
    if let Some(v) = newer_version(&json) {
        return Err(StoreError::newer(path.parent().unwrap_or(path), v));
    }
    if version_of(&json).is_none_or(|v| v == 0) {
        return Err(damaged(
            path,
            "schema_version is missing; it must be a number from 1",
        ));
    }
    let meta: RecordingMeta =
        serde_json::from_value(json).map_err(|e| damaged(path, &e.to_string()))?;
    // Damage to the key of the checksum itself would go unnoticed otherwise.
    if crc.is_none()
        && meta
            .writer
            .as_ref()
            .is_some_and(|w| w.starts_with("iolens"))
    {
        return Err(damaged(
            path,
            "its checksum is gone (if you edited it, change \"writer\" too)",
        ));
    }
    refuse_absurd_times(path, &meta)?;
    Ok(meta)
}

/// Refuses times that no recording can have: additions to them would overflow.
fn refuse_absurd_times(path: &Path, meta: &RecordingMeta) -> Result<(), StoreError> {
    if !RecordingMeta::STARTS_UNIX_NS.contains(&meta.start_unix_ns) {
        let start_ns = meta.start_unix_ns;
        let what = format!("start_unix_ns is {start_ns}; {}", RecordingMeta::STARTS);
        return Err(damaged(path, &what));
    }
    if let Some(end_ns) = meta.end_ns
        && !(-MAX_TIME_NS..=MAX_TIME_NS).contains(&end_ns)
    {
        let what = format!("end_ns is {end_ns}; recordings are shorter than 73 years");
        return Err(damaged(path, &what));
    }
    Ok(())
}

fn damaged(path: &Path, what: &str) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        what: what.to_owned(),
    }
}

fn version_of(json: &serde_json::Value) -> Option<u64> {
    json.get("schema_version")
        .and_then(serde_json::Value::as_u64)
}

/// The version, if it is one that this program cannot read.
fn newer_version(json: &serde_json::Value) -> Option<u64> {
    version_of(json).filter(|v| *v > u64::from(SCHEMA_VERSION))
}

/// Whether one flipped bit could have turned this program's version into `version`.
fn is_one_bit_off(version: u64) -> bool {
    version < 10
        && ((u64::from(b'0') + version) ^ (u64::from(b'0') + u64::from(SCHEMA_VERSION)))
            .count_ones()
            == 1
}

/// Whether the checksum at the end fits; `None` if there is none.
fn stored_crc(text: &[u8]) -> Option<bool> {
    let key = CRC_KEY.as_bytes();
    let at = text.windows(key.len()).rposition(|w| w == key)?;
    let digits = text[at + key.len()..].get(..8)?;
    let tail = &text[at + key.len() + 8..];
    Some(tail == b"\"\n}\n" && format!("{:08x}", crc32fast::hash(&text[..at])).as_bytes() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Source;
    use crate::store::{RecordingWriter, WriterOptions};

    fn parsed(start_unix_ns: &str, end_ns: &str) -> Result<RecordingMeta, StoreError> {
        let text = format!(
            r#"{{"schema_version": 1, "source": "ebpf", "start_unix_ns": {start_unix_ns}, "end_ns": {end_ns}}}"#
        );
        parse(Path::new("r/meta.json"), text.as_bytes())
    }

    #[test]
    fn times_that_no_recording_has_are_one_clear_error() {
        for start in [
            "9223372036854775807",
            "-9223372036854775808",
            "18446744073709551615",
            "4611686018427387905",
        ] {
            let said = parsed(start, "null").expect_err("absurd").to_string();
            assert!(
                said.starts_with("r/meta.json: damaged: ") && said.contains(start),
                "{said}"
            );
            assert!(!said.contains('\n'), "{said}");
        }
        let said = parsed("0", "9223372036854775807").expect_err("absurd");
        assert!(said.to_string().contains("end_ns"), "{said}");
        for start in ["-1", "0", "1795000000000000000", "4611686018427387904"] {
            assert!(parsed(start, "1000").is_ok(), "{start}");
        }
    }

    #[test]
    fn no_recording_is_made_that_could_not_be_read() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let path = tmp.path().join("r");
        for start_unix_ns in [i64::MIN, i64::MAX] {
            let meta = RecordingMeta::new(Source::Ebpf, start_unix_ns);
            let made = RecordingWriter::create(&path, meta, WriterOptions::default());
            let said = made.expect_err("absurd").to_string();
            assert!(said.contains("is the clock right?"), "{said}");
            assert!(!path.exists());
        }
    }
}
