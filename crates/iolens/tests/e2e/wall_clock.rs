//! Times of day, as input and in output, for a recording and for a root.

use std::path::{Path, PathBuf};

use iolens_core::model::{
    Comm, DevId, Device, Inode, Io, Name, Named, Observation, Op, RecorderCost, RecordingMeta,
    Source,
};
use iolens_core::store::{RecordingWriter, Root, WriterOptions};
use serde_json::Value;

use super::machine::{iolens, run, scene};

pub const S: i64 = 1_000_000_000;
/// 2026-11-18T23:59:00Z.
const MINUTE_BEFORE_MIDNIGHT: i64 = 1_795_046_340 * S;
pub const SDA: DevId = DevId(8 << 20);
const SDB: DevId = DevId(8 << 20 | 16);
const IDLE: DevId = DevId(8 << 20 | 32);

fn write_of(done_ns: i64, process: &[u8], pid: i32, dev: DevId) -> Io {
    Io {
        tgid: Some(pid),
        comm: Some(Comm::new(process)),
        fs_dev: Some(8),
        ino: Some(i64::from(pid)),
        ..Io::new(done_ns, dev, Op::WRITE, 4096, Some(1000), 99_000)
    }
}

fn disk(name: &str, dev: DevId) -> Device {
    Device {
        size_bytes: Some(1 << 30),
        ..Device::named(name, dev)
    }
}

/// A recording of this length in seconds: in each second, ten writes of `busy` (7) to sda, and one read of `calm`
/// (8) from sdb.
pub fn record(path: &Path, start_unix_ns: i64, seconds: i64) {
    let mut meta = RecordingMeta::new(Source::Ebpf, start_unix_ns);
    meta.devices = vec![disk("sda", SDA), disk("sdb", SDB), disk("sdc", IDLE)];
    let mut writer = RecordingWriter::create(path, meta, WriterOptions::default()).unwrap();
    for (ino, text) in [(7, "/data/wal/1"), (8, "/data/table")] {
        let of = Named::File(Inode {
            fs_dev: 8,
            ino,
            generation: None,
        });
        let text = text.to_owned();
        let name = Name { at_ns: 0, of, text };
        writer.push(&Observation::Name(name)).unwrap();
    }
    for second in 0..seconds {
        let begin_ns = second * S;
        for i in 0..10 {
            let io = write_of(begin_ns + 10_000_000 * (i + 1), b"busy", 7, SDA);
            writer.push_ios(&[io]).unwrap();
        }
        let read = Io {
            op: Op::READ,
            ..write_of(begin_ns + 500_000_000, b"calm", 8, SDB)
        };
        writer.push_ios(&[read]).unwrap();
    }
    writer.finish(seconds * S, RecorderCost::default()).unwrap();
}

/// A root with two recordings that follow each other over midnight, two minutes each.
fn root_over_midnight(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    let host = root.join(Root::host_directory("h"));
    std::fs::create_dir_all(&host).unwrap();
    for start in [MINUTE_BEFORE_MIDNIGHT, MINUTE_BEFORE_MIDNIGHT + 120 * S] {
        record(&host.join(Root::recording_directory(start)), start, 120);
    }
    root
}

pub fn stdout(words: &[&str]) -> String {
    let out = run(words);
    assert!(out.status.success(), "{}", scene(&out));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn zoom_says_the_time_of_day_and_the_date_where_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    record(&path, MINUTE_BEFORE_MIDNIGHT, 120);
    let path = path.to_str().unwrap();
    let table = stdout(&["zoom", path, "--utc", "--step", "30s"]);
    let first_words: Vec<&str> = table
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert_eq!(
        first_words,
        [
            "time",
            "2026-11-18",
            "23:59:30",
            "2026-11-19",
            "00:00:00",
            "00:00:30",
            "00:01:00"
        ],
        "{table}"
    );
    let relative = stdout(&["zoom", path, "--relative", "--step", "30s"]);
    assert!(
        relative.lines().nth(1).unwrap().starts_with("      30 "),
        "{relative}"
    );
    let local = iolens(&["zoom", path, "--step", "30s", "--format", "csv"])
        .env("TZ", "Asia/Kolkata")
        .output()
        .unwrap();
    let local = String::from_utf8(local.stdout).unwrap();
    let row = local.lines().nth(1).unwrap();
    assert!(
        row.starts_with("2026-11-19T05:29:30+05:30,1795046370,30,"),
        "{local}"
    );
    let json: Value =
        serde_json::from_str(&stdout(&["zoom", path, "--utc", "--format", "json"])).unwrap();
    assert_eq!(json[59]["time"], "2026-11-19T00:00:00Z", "{json}");
}

#[test]
fn times_of_day_choose_the_newest_that_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let root = root_over_midnight(dir.path());
    let root = root.to_str().unwrap();
    assert_eq!(
        rows_and_first_time(root, &["--at", "23:59:40"]),
        (60, "2026-11-18T23:59:11Z".to_owned()),
        "from 30 s before it, on the day before the newest"
    );
    assert_eq!(
        rows_and_first_time(root, &["--from", "23:59:50", "--to", "00:00:20"]),
        (30, "2026-11-18T23:59:51Z".to_owned())
    );
    let out = run(&["zoom", root, "--utc", "--at", "12:00"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(
        said.contains("12:00:00") && said.contains("2026-11-18T23:59:00Z to 2026-11-19T00:03:00Z"),
        "{said}"
    );
}

#[test]
fn a_report_over_midnight_and_two_recordings_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = root_over_midnight(dir.path());
    let root = root.to_str().unwrap();
    let window = ["--utc", "--from", "23:59:30", "--to", "00:02:00"];
    let report = [&["report", root], &window[..]].concat();
    let json = stdout(&[&report[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["recording"]["ios"], 150 * 11, "{}", json["recording"]);
    assert_eq!(json["recording"]["lost_ios"], 0, "they follow each other");
    let text = stdout(&report);
    assert!(
        text.contains("150.000 s from 2026-11-18 23:59:30.000 UTC"),
        "{text}"
    );
}

/// How many rows the CSV of `zoom` has, and the time of the first.
fn rows_and_first_time(root: &str, options: &[&str]) -> (usize, String) {
    let csv = stdout(&[&["zoom", root, "--utc", "--format", "csv"], options].concat());
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    let first_time = rows[0].split(',').next().unwrap();
    (rows.len(), first_time.to_owned())
}
