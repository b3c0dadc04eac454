//! A recording around the fuzzer's bytes, in memory where there is such a place.

use std::fs;
use std::path::{Path, PathBuf};

use iolens_core::store::{IoColumns, Recording};

/// The tables, in the order of their numbers in write-ahead logs (from 1).
pub const TABLES: [&str; 8] = [
    "io", "counters", "lost", "marks", "requests", "names", "pressure", "cgroups",
];

const META: &str = r#"{"schema_version": 1, "source": "ebpf", "start_unix_ns": 0}"#;

/// Panics inside of the Parquet library are caught by the reader and become damage; all others are findings.
pub fn forgive_the_library() {
    let finding = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info
            .location()
            .is_some_and(|l| l.file().contains("/parquet-"))
        {
            finding(info);
        }
    }));
}

/// A directory of this process with a fitting `meta.json`.
pub fn recording() -> PathBuf {
    let root = if Path::new("/dev/shm").is_dir() {
        PathBuf::from("/dev/shm")
    } else {
        std::env::temp_dir()
    };
    let dir = root.join(format!("iolens-fuzz-{}", std::process::id()));
    if !dir.exists() {
        for table in TABLES.into_iter().chain(["wal"]) {
            fs::create_dir_all(dir.join(table)).expect("a place for the recording");
        }
    }
    fs::write(dir.join("meta.json"), META).expect("a description");
    dir
}

/// Reads everything there is; what comes of it does not matter.
pub fn read_all(dir: &Path) {
    let Ok(r) = Recording::open(dir) else { return };
    let rows = r.ios_stored();
    for item in r.observations(i64::MIN..i64::MAX) {
        if item.is_err() {
            break;
        }
    }
    let read: usize = r
        .ios(r.end_ns() / 2..i64::MAX, IoColumns::QUEUE)
        .flatten()
        .map(|batch| batch.len())
        .sum();
    assert!(read as u64 <= rows, "more rows than there are");
}
