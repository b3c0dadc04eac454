//! `import` end to end: duplicates, messages and limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::import::{import, imported, json, zoomed};
use super::machine::{assert_refused, file_with, iolens, run, scene};

const BANNER: &str = "Linux 6.1.0 (h) \t2026-11-21 \t_x86_64_\t(2 CPU)\n\n\n";
const HEADING: &str = "Device   r/s  w/s  rkB/s  wkB/s  await\n";

/// A log of one second's reports with the same rows in each.
fn log_of(rows: &str, seconds: u32) -> String {
    let report = |s: u32| format!("2026-11-21T09:20:{s:02}+0000\n{HEADING}{rows}\n");
    BANNER.to_owned() + &(0..seconds).map(report).collect::<String>()
}

#[test]
fn an_io_through_layers_partitions_and_groups_counts_once_and_the_summary_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let rows = "sda 10 20 40 80 2.5\nsda1 10 20 40 80 2.5\nsdb 5 5 20 20 2.5\ndm-0 15 25 60 100 3.5\nvg-root 15 25 60 100 3.5\n \
                disks 15 25 60 100 2.5\n";
    let log = file_with(dir.path(), "log", log_of(rows, 10).as_bytes());
    let out = import(dir.path(), "rec", &[log], &["--strict"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        said.contains("bottom layer: without sda1, dm-0, vg-root, disks ("),
        "{}",
        scene(&out)
    );
    let rec = dir.path().join("rec");
    let report = json(&["report", rec.to_str().unwrap(), "--json"]);
    assert_eq!(report["recording"]["ios"], 400, "sda and sdb");
    let text = run(&["report", rec.to_str().unwrap()]);
    assert!(
        String::from_utf8_lossy(&text.stdout).contains("400 I/Os"),
        "{}",
        scene(&text)
    );
    let sum = zoomed(&rec, &["--step", "1s"]);
    assert_eq!(
        (sum.len(), &sum[3][1], &sum[3][4]),
        (10, &"15".to_owned(), &"25".to_owned())
    );
    assert_eq!(
        zoomed(&rec, &["--step", "1s", "--by", "device"]).len(),
        60,
        "each layer by itself"
    );
}

#[test]
fn values_of_all_classes_together_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let log = file_with(
        dir.path(),
        "log",
        log_of("sda 30 10 40 80 2.5\n", 4).as_bytes(),
    );
    let rec = imported(dir.path(), "rec", &[log], &["--strict"]);
    let report = json(&["report", rec.to_str().unwrap(), "--json"]);
    assert_eq!(
        report["devices"][0]["all"]["mean_us"], 2500.0,
        "await: {report:#}"
    );
    // In the whole text classes are indented below their device; on the first screen they stand beside it.
    for (arguments, start) in [(&["--full"][..], "all "), (&[], "sda")] {
        let out = run(&[&["report", rec.to_str().unwrap()], arguments].concat());
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let is_row = |line: &&str| line.trim_start().starts_with(start) && line.contains("all ");
        let row = text.lines().find(is_row);
        assert!(
            row.is_some_and(|line| line.contains("2500.0")),
            "{}",
            scene(&out)
        );
    }
    let out = run(&["zoom", "--format", "csv", rec.to_str().unwrap()]);
    let shown = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut lines = shown.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .ends_with(",w_us,all_per_s,all_kib_per_s,all_us,lossy"),
        "{}",
        scene(&out)
    );
    assert!(
        lines.next().unwrap().ends_with(",,,2500,0"),
        "{}",
        scene(&out)
    );
    let svctm = "Device:  rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await svctm %util\n\
                 sda 0.00 0.00 3.00 1.00 4.00 4.00 8.00 1.00 5.59 5.58 99.80\n";
    let rec = imported(
        dir.path(),
        "old",
        &[file_with(dir.path(), "old.log", svctm.as_bytes())],
        &["--strict"],
    );
    let all = &json(&["report", rec.to_str().unwrap(), "--json"])["devices"][0]["all"];
    assert_eq!(
        (&all["mean_us"], &all["service_us"]),
        (&5590.0.into(), &5580.0.into())
    );
}

#[test]
fn implausible_dates_do_not_stretch_zoom() {
    let dir = tempfile::tempdir().unwrap();
    let report =
        |year: u32| format!("{year}-11-21T09:20:00+0000\n{HEADING}sda 30 10 40 80 2.5\n\n");
    let log: String = (0..100).map(|i| report(1990 + i % 7 * 10)).collect();
    let rec = imported(
        dir.path(),
        "rec",
        &[file_with(
            dir.path(),
            "log",
            (BANNER.to_owned() + &log).as_bytes(),
        )],
        &[],
    );
    assert_refused(
        &run(&["zoom", "--step", "100s", rec.to_str().unwrap()]),
        &["longer step"],
    );
}

/// CPU time of reports on a recording with this many devices, in seconds.
fn report_seconds(dir: &Path, devices: u32) -> f64 {
    let row = |i: u32| {
        format!(
            "{}.{:03} fio 7 disk{i} R {} 4096 1.5\n",
            i / 1000,
            i % 1000,
            i * 8
        )
    };
    let rows: String = (1..=devices).map(row).collect();
    let log = format!("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n{rows}");
    let log = file_with(dir, &format!("log{devices}"), log.as_bytes());
    let name = format!("rec{devices}");
    import(dir, &name, &[log], &[]);
    let program = format!(
        "{} report {name} >/dev/null && times",
        env!("CARGO_BIN_EXE_iolens")
    );
    let out = Command::new("bash")
        .args(["-c", &program])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    // The second line is that of the children: 0m1.234s 0m0.010s
    let text = String::from_utf8(out.stdout).unwrap();
    let user = text
        .lines()
        .nth(1)
        .and_then(|l| l.split(' ').next())
        .unwrap()
        .trim_end_matches('s');
    let (minutes, seconds) = user.split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.replace(',', ".").parse::<f64>().unwrap()
}

#[test]
fn the_cost_of_a_report_grows_with_the_devices_and_not_with_their_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let few = report_seconds(dir.path(), 1000);
    let many = report_seconds(dir.path(), 8000);
    // Eight times the devices: 8 times the time if each counts once, 64 times if each pair does.
    assert!(
        many < 24.0 * few,
        "{few} s for 1000 devices, {many} s for 8000"
    );
}

#[test]
fn implausible_dates_of_single_ios_do_not_stretch_zoom() {
    let dir = tempfile::tempdir().unwrap();
    let row = |i: u32| format!("{}.0 fio 7 sda R {} 4096 1.5\n", i * 20_000, i * 8);
    let rows: String = (1..300).map(row).collect();
    let log = file_with(
        dir.path(),
        "log",
        format!("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n{rows}").as_bytes(),
    );
    import(dir.path(), "rec", &[log], &[]);
    let rec = dir.path().join("rec");
    let rec = rec.to_str().unwrap();
    assert_refused(
        &run(&["zoom", rec]),
        &["intervals of 1 s", "at most 299 have data", "--step"],
    );
    let hours = run(&["zoom", rec, "--step", "1h", "--format", "csv"]);
    assert!(hours.status.success(), "{}", scene(&hours));
    assert_eq!(
        String::from_utf8_lossy(&hours.stdout).lines().count(),
        1 + 5_980_000 / 3600 + 1
    );
}

#[test]
fn oversized_and_overcompressed_input_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |file: &Path, word: &str| {
        assert_refused(&import(dir.path(), "new", &[file.to_owned()], &[]), &[word]);
        assert!(!dir.path().join("new").exists());
    };
    refused(Path::new("/dev/zero"), "not the log");
    let line = [vec![b' '; 50_000], vec![b'\n']].concat();
    let text = [BANNER.as_bytes(), HEADING.as_bytes(), &line.repeat(2000)].concat();
    let text = file_with(dir.path(), "bomb", &text);
    let packed = Command::new("gzip")
        .args(["-9", "-c"])
        .arg(&text)
        .output()
        .unwrap();
    let bomb = file_with(dir.path(), "bomb.gz", &packed.stdout);
    refused(&bomb, "100 times");
}

#[test]
fn an_interrupted_import_leaves_a_whole_recording_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..200_000)
        .map(|i| format!("{}, 90000, {}, 4096, 0\n", i / 4, i % 2))
        .collect();
    let log = file_with(dir.path(), "x_lat.1.log", rows.as_bytes());
    let mut import = iolens(&["import", "-o"]);
    import
        .arg(dir.path().join("rec"))
        .arg(&log)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = import.spawn().unwrap();
    while child.try_wait().unwrap().is_none() && unfinished_imports(dir.path()).is_empty() {
        sleep(Duration::from_millis(1));
    }
    // It may have finished already: then there is no process to interrupt.
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    child.wait().unwrap();
    assert_eq!(unfinished_imports(dir.path()), Vec::<PathBuf>::new());
    let rec = dir.path().join("rec");
    if rec.exists() {
        assert_eq!(
            json(&["report", rec.to_str().unwrap(), "--json"])["recording"]["ios"],
            200_000
        );
    }
}

/// Files that unfinished imports have written into `dir`.
fn unfinished_imports(dir: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".importing-") {
            paths.push(path);
        }
    }
    paths
}
