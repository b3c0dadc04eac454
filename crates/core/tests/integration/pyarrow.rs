//! Foreign Parquet: recordings that pyarrow wrote from the documentation are read, and ours are read by pyarrow, pandas
//! and DuckDB. Needs a Python with these three: the one that `IOLENS_PYTHON` names, or `target/venv/bin/python`.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iolens_core::model::{
    Comm, DevId, Io, LossReason, Op, Origin, RecorderCost, RecordingMeta, Source,
};
use iolens_core::store::{IoColumns, Recording, RecordingWriter, StoreError, WriterOptions};

fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/python");
    let python = std::env::var_os("IOLENS_PYTHON").map_or(root, PathBuf::from);
    let check = Command::new(&python)
        .args(["-c", "import pyarrow, pandas, duckdb"])
        .output();
    if check.is_ok_and(|o| o.status.success()) {
        return Some(python);
    }
    eprintln!(
        "SKIP: {} has no pyarrow, pandas and duckdb (set IOLENS_PYTHON)",
        python.display()
    );
    None
}

fn script(python: &Path, what: &str, dir: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/pyarrow_write.py");
    let out = Command::new(python)
        .arg(script)
        .arg(what)
        .arg(dir)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    out
}

fn sdb() -> DevId {
    DevId::new(8, 16)
}

/// The row that `required()` of the script makes.
fn least(i: i64) -> Io {
    Io::new(
        i * 1000,
        sdb(),
        Op((i % 2) as i32),
        4096 * (1 + i % 3),
        None,
        50_000 + i % 777,
    )
}

/// The row that `everything()` of the script makes.
fn everything(i: i64) -> Io {
    Io {
        queue_ns: (i % 3 != 0).then_some(i % 1000),
        sector: Some(i * 8),
        tgid: (i % 7 != 0).then_some((i % 90) as i32),
        comm: (i % 5 != 0)
            .then(|| Comm::new(if i % 2 == 0 { "fio" } else { "naïve A" }.as_bytes())),
        ino: Some(i / 10),
        origin: Origin::from_code((i % 4) as i32),
        ..least(i)
    }
}

fn rows(path: &Path) -> Vec<Io> {
    let r = Recording::open(path).unwrap();
    assert!(r.warnings().is_empty(), "{:?}", r.warnings());
    let mut reader = r.ios(0..i64::MAX, IoColumns::ALL);
    let rows = (&mut reader).flat_map(|b| b.unwrap()).collect();
    assert!(reader.damage().is_empty(), "{:?}", reader.warnings());
    rows
}

#[test]
fn recordings_that_pyarrow_wrote_from_the_documentation_are_read() {
    let Some(python) = python() else { return };
    let tmp = tempfile::tempdir().unwrap();
    script(&python, "write", tmp.path());
    let expected: Vec<Io> = (0..10_000).map(least).collect();
    for name in ["least", "zstd", "plain", "v2", "delta", "split", "pages"] {
        assert_eq!(
            rows(&tmp.path().join(format!("{name}.iolens"))),
            expected,
            "{name}"
        );
    }
    let path = tmp.path().join("everything.iolens");
    assert_eq!(rows(&path), (0..10_000).map(everything).collect::<Vec<_>>());
    let r = Recording::open(&path).unwrap();
    let some: Vec<Io> = r
        .ios(3_000_000..7_000_000, IoColumns::ALL)
        .flat_map(|b| b.unwrap())
        .collect();
    assert_eq!(
        some,
        (3000..7000).map(everything).collect::<Vec<_>>(),
        "a range across files and row groups"
    );
    assert_eq!(
        (r.meta().devices[0].name.as_str(), r.end_ns()),
        ("sdb", 9_999_000)
    );
    let binary = rows(&tmp.path().join("binary.iolens"));
    assert_eq!(binary[1].comm, Some(Comm::new(b"a\xffb")));
}

#[test]
fn foreign_parquet_errors_are_one_line() {
    let Some(python) = python() else { return };
    let tmp = tempfile::tempdir().unwrap();
    script(&python, "write", tmp.path());
    let open = |name: &str| Recording::open(&tmp.path().join(name));
    let one_line = |e: StoreError, words: &[&str]| {
        let text = e.to_string();
        assert!(
            !text.contains('\n') && words.iter().all(|w| text.contains(w)),
            "{text}"
        );
    };
    one_line(
        open("without_bytes.iolens").unwrap_err(),
        &["io/000001.parquet", "bytes", "missing"],
    );
    one_line(
        open("text_dev.iolens").unwrap_err(),
        &["io/000001.parquet", "dev", "BYTE_ARRAY"],
    );
    let r = open("null_op.iolens").unwrap();
    let e = r
        .ios(0..i64::MAX, IoColumns::ALL)
        .find_map(Result::err)
        .unwrap();
    one_line(e, &["io/000001.parquet", "op", "null"]);
    one_line(
        open("gzip.iolens").unwrap_err(),
        &["io/000001.parquet", "GZIP", "SNAPPY"],
    );
    let r = open("damaged.iolens").unwrap();
    let mut reader = r.ios(0..i64::MAX, IoColumns::ALL);
    let left: Vec<Io> = (&mut reader).flat_map(|b| b.unwrap()).collect();
    assert_eq!(
        left,
        (0..2500).chain(5000..10_000).map(least).collect::<Vec<_>>()
    );
    let [lost] = reader.damage() else {
        panic!("{:?}", reader.damage())
    };
    assert_eq!(
        (lost.reason, lost.ios, lost.from_ns),
        (LossReason::Corrupt, Some(2500), 2_500_000)
    );
}

#[test]
fn our_recordings_are_read_by_pyarrow_pandas_and_duckdb() {
    let Some(python) = python() else { return };
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("ours.iolens");
    let options = WriterOptions {
        segment_rows: 3000,
        ..WriterOptions::default()
    };
    let mut writer =
        RecordingWriter::create(&path, RecordingMeta::new(Source::Ebpf, 0), options).unwrap();
    let ios: Vec<Io> = (0..10_000).map(everything).collect();
    writer.push_ios(&ios).unwrap();
    writer.finish(10_000_000, RecorderCost::default()).unwrap();
    let out = script(&python, "read", &path);
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(found["rows"], 10_000);
    assert_eq!(found["bytes"], ios.iter().map(|io| io.bytes).sum::<i64>());
    assert_eq!(found["inos"], 10_000);
    assert_eq!(found["comms"], 2);
    assert_eq!(found["sectors"], (0..10_000).map(|i| i * 8).sum::<i64>());
}
