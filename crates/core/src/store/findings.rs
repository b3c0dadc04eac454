//! Findings as a table: `findings/000001.parquet`, written anew with each that begins or ends.

use std::path::Path;
use std::time::SystemTime;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use serde_json::Value;

use super::error::StoreError;
use super::rates::{Cells, damaged, encode, path_of, with_file};
use super::stages::{column, missing, required};
use crate::model::{KindName, Severity, StoredFinding};
use crate::private::{Access, PrivateDir};

/// The directory of this table in a recording.
pub(crate) const FINDINGS: &str = "findings";
/// Findings of one recording: those that began later are left out. Some 2 MiB.
const MAX_FINDINGS: usize = 8192;
const SCHEMA: &str = "message findings {
    REQUIRED INT64 from_ns; REQUIRED INT64 to_ns; REQUIRED INT32 open; REQUIRED BYTE_ARRAY kind (UTF8);
    REQUIRED BYTE_ARRAY severity (UTF8); OPTIONAL BYTE_ARRAY device (UTF8); REQUIRED BYTE_ARRAY summary (UTF8);
    REQUIRED BYTE_ARRAY evidence (UTF8); }";

/// Adds a finding to a recording, or replaces what was written of it. Damage of the table costs what was in it.
///
/// # Errors
/// The recording is another user's or gone, or the file system refuses.
pub fn put_finding(
    recording: &Path,
    access: Access,
    finding: &StoredFinding,
) -> Result<(), StoreError> {
    let mut rows = match read_findings(recording) {
        Err(StoreError::Damaged { .. }) => Vec::new(),
        other => other?,
    };
    match rows.iter_mut().find(|r| r.is_same(finding)) {
        Some(same) => same.clone_from(finding),
        None => rows.push(finding.clone()),
    }
    rows.sort_by_key(|r| r.from_ns);
    rows.truncate(MAX_FINDINGS);
    let path = path_of(recording, FINDINGS);
    let bytes = encode(SCHEMA, std::iter::once(columns(&rows))).map_err(|e| damaged(&path, &e))?;
    let dir = PrivateDir::open_own(recording, access)
        .map_err(|e| StoreError::io(recording, "write to", e))?;
    let made = dir
        .make_dir(FINDINGS)
        .and_then(|()| dir.sync(Path::new(".")));
    let written = made
        .and_then(|()| dir.write_atomically(path.strip_prefix(recording).unwrap_or(&path), &bytes));
    written.map_err(|e| StoreError::io(&path, "write", e))
}

/// What the table takes of the disk at most while it is written anew: the old file, the new one and their directory.
pub(crate) fn bytes_on_disk(recording: &Path) -> u64 {
    let file = std::fs::metadata(path_of(recording, FINDINGS));
    file.map_or(0, |f| {
        2 * super::disk::allocated(f.len()) + 2 * super::disk::BLOCK
    })
}

/// The findings of a recording by their beginning; none if it has no such table.
///
/// # Errors
/// The file is damaged, or columns are missing.
pub fn read_findings(recording: &Path) -> Result<Vec<StoredFinding>, StoreError> {
    let path = path_of(recording, FINDINGS);
    let mut rows = Vec::new();
    with_file(&path, |file| {
        let reader = SerializedFileReader::new(file).map_err(|e| damaged(&path, &e))?;
        for i in 0..reader.num_row_groups() {
            let group = reader.get_row_group(i).and_then(|group| rows_of(&*group));
            rows.extend(group.map_err(|e| damaged(&path, &e))?);
        }
        Ok(())
    })?;
    Ok(rows)
}

/// When the table was written last; `None` if there is none. Ends are written after the recording itself is finished, too.
pub fn findings_written(recording: &Path) -> Option<SystemTime> {
    std::fs::metadata(path_of(recording, FINDINGS))
        .and_then(|m| m.modified())
        .ok()
}

fn columns(rows: &[StoredFinding]) -> Vec<Cells> {
    let text = |f: fn(&StoredFinding) -> &str| {
        Cells::Text(rows.iter().map(|r| ByteArray::from(f(r))).collect())
    };
    let evidence = rows
        .iter()
        .map(|r| ByteArray::from(Value::from(r.evidence.clone()).to_string().into_bytes()))
        .collect();
    vec![
        Cells::Long(rows.iter().map(|r| r.from_ns).collect()),
        Cells::Long(rows.iter().map(|r| r.to_ns).collect()),
        Cells::Int(rows.iter().map(|r| r.open.into()).collect()),
        text(|r| r.kind.as_str()),
        text(|r| r.severity.name()),
        Cells::OptionalText(
            rows.iter()
                .map(|r| r.device.as_deref().map(ByteArray::from))
                .collect(),
        ),
        text(|r| &r.summary),
        Cells::Text(evidence),
    ]
}

fn rows_of(group: &dyn RowGroupReader) -> Result<Vec<StoredFinding>, ParquetError> {
    let long = |name| required(name, column::<Int64Type>(group, name)?);
    let text = |value: &ByteArray| String::from_utf8_lossy(value.data()).into_owned();
    let texts = |name| required(name, column::<ByteArrayType>(group, name)?);
    let (from, to, open) = (
        long("from_ns")?,
        long("to_ns")?,
        required("open", column::<Int32Type>(group, "open")?)?,
    );
    let (kind, severity) = (texts("kind")?, texts("severity")?);
    let (summary, evidence) = (texts("summary")?, texts("evidence")?);
    let device = column::<ByteArrayType>(group, "device")?;
    let row = |i: usize| {
        Some(StoredFinding {
            from_ns: from[i],
            to_ns: *to.get(i)?,
            open: *open.get(i)? != 0,
            kind: KindName::from(text(kind.get(i)?)),
            // A version that knows more severities than this one may have written it.
            severity: Severity::from_name(&text(severity.get(i)?)).unwrap_or_default(),
            device: device.get(i)?.as_ref().map(text),
            summary: text(summary.get(i)?),
            evidence: serde_json::from_slice(evidence.get(i)?.data()).unwrap_or_default(),
        })
    };
    (0..from.len())
        .map(|i| row(i).ok_or_else(|| missing("of findings")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(from_ns: i64, kind: &'static str, open: bool) -> StoredFinding {
        StoredFinding {
            from_ns,
            to_ns: from_ns + 10,
            open,
            kind: kind.into(),
            severity: Severity::Warning,
            device: (from_ns % 2 == 0).then(|| "sda".to_owned()),
            summary: "p99 51 ms\u{202e}".to_owned(),
            evidence: [("p99_us".to_owned(), 51_000.0.into())]
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn each_is_there_once_with_what_was_written_last() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (path, put) = (dir.path(), |f: &StoredFinding| {
            put_finding(dir.path(), Access::OWNER, f).expect("writes")
        });
        assert!(read_findings(path).expect("none").is_empty() && bytes_on_disk(path) == 0);
        put(&finding(200, "stall", true));
        put(&finding(100, "stall", true));
        let ended = StoredFinding {
            to_ns: 900,
            ..finding(200, "stall", false)
        };
        put(&ended);
        put(&finding(200, "slow-io", false));
        let rows = read_findings(path).expect("reads");
        assert_eq!(
            rows,
            [
                finding(100, "stall", true),
                ended,
                finding(200, "slow-io", false)
            ]
        );
        assert!(bytes_on_disk(path) >= 4 * 4096);
        std::fs::write(path_of(path, FINDINGS), b"PAR1").expect("writes");
        assert!(matches!(
            read_findings(path),
            Err(StoreError::Damaged { .. })
        ));
        put(&finding(1, "stall", false));
        assert_eq!(
            read_findings(path).expect("written anew"),
            [finding(1, "stall", false)]
        );
    }
}
