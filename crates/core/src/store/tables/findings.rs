//! Findings as a table: `findings/000001.parquet`, rewritten whenever a finding begins or ends.

use std::path::Path;
use std::time::SystemTime;

use crate::model::{KindName, Severity, StoredFinding};
use crate::private::{Access, PrivateDir};
use crate::store::cell::Text;
use crate::store::whole_file::{damaged, each_group, encode, path_of, read_group, rows_of};
use crate::store::{StoreError, disk};

table! {
    whole "findings" of StoredFinding, by from_ns;

    /// start of the finding; the table's time
    from_ns: i64 = |r| r.from_ns;

    /// end of the finding as observed so far
    to_ns: i64 = |r| r.to_ns;

    /// 1 if the finding had not ended at the last write. A recorder that ends writes 0, with the last observation in
    /// `to_ns`; if it was killed, the next recorder that starts in the root does
    open: i32 = |r| i32::from(r.open);

    /// kind as in `report --json` ([findings](findings.md))
    kind: Text = |r| r.kind.as_str();

    /// severity as in `report --json`
    severity: Text = |r| r.severity.name();

    /// name of the device, or names of the devices of a link; null if the finding concerns all
    device: Option<Text> = |r| r.device.as_deref();

    /// one line for people
    summary: Text = |r| r.summary.as_str();

    /// evidence: the JSON object of `report --json`
    evidence: Text = |r| &r.evidence;
}

/// Maximum number of findings of one recording; later ones are dropped. About 2 MiB.
const MAX_FINDINGS: usize = 8192;

/// Adds a finding to a recording, or replaces an earlier version of it. If the table is damaged, its content is lost.
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
    let path = path_of(recording, &TABLE);
    let bytes = encode(&TABLE, std::iter::once(collect(&rows))).map_err(|e| damaged(&path, &e))?;
    let dir = PrivateDir::open_own(recording, access)
        .map_err(|e| StoreError::io(recording, "write to", e))?;
    let made = dir
        .make_dir(TABLE.name)
        .and_then(|()| dir.sync(Path::new(".")));
    let written = made
        .and_then(|()| dir.write_atomically(path.strip_prefix(recording).unwrap_or(&path), &bytes));
    written.map_err(|e| StoreError::io(&path, "write", e))
}

/// Maximum disk space of the table while it is rewritten: old file, new file and their directory.
pub(crate) fn bytes_on_disk(recording: &Path) -> u64 {
    let file = std::fs::metadata(path_of(recording, &TABLE));
    file.map_or(0, |f| 2 * disk::allocated(f.len()) + 2 * disk::BLOCK)
}

/// The findings of a recording by their beginning; none if it has no such table.
///
/// # Errors
/// The file is damaged, or columns are missing.
pub fn read_findings(recording: &Path) -> Result<Vec<StoredFinding>, StoreError> {
    let mut rows = Vec::new();
    each_group(&path_of(recording, &TABLE), |group| {
        let columns = read_group(group, &TABLE)?;
        let c = Columns(&columns);
        rows.extend((0..rows_of(group)).map(|i| StoredFinding {
            from_ns: c.from_ns(i),
            to_ns: c.to_ns(i),
            open: c.open(i) != 0,
            kind: KindName::from(text(c.kind(i))),
            // A later version with more severities may have written it.
            severity: Severity::from_name(&text(c.severity(i))).unwrap_or_default(),
            device: c.device(i).map(text),
            summary: text(c.summary(i)),
            evidence: serde_json::from_slice(c.evidence(i)).unwrap_or_default(),
        }));
        Ok(())
    })?;
    Ok(rows)
}

fn text(letters: &[u8]) -> String {
    String::from_utf8_lossy(letters).into_owned()
}

/// Time of the last write of the table; `None` if there is no table. Findings can end, and are written, after the
/// recording was finished.
pub fn findings_written(recording: &Path) -> Option<SystemTime> {
    std::fs::metadata(path_of(recording, &TABLE))
        .and_then(|m| m.modified())
        .ok()
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
        let path = dir.path();
        let put = |f: &StoredFinding| put_finding(path, Access::OWNER, f).expect("writes");
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
        std::fs::write(path_of(path, &TABLE), b"PAR1").expect("writes");
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
