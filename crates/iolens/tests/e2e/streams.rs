//! Streams that cannot be written and terminating signals: no panic, and the data is written first.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use iolens_core::store::Recording;
use rustix::process::{Pid, Signal, kill_process};

use super::machine::{LoopDevice, ebpf, iolens, run, scene, wait_until};
use super::throttle::home;

fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader is gone.
fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn quiet(out: &Output) {
    assert!(out.stderr.is_empty(), "{}", scene(out));
}

/// A short recording of counters, which exist on every machine.
fn recorded(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    let out = run(&[
        "record",
        "-q",
        "--source",
        "counters",
        "--for",
        "50ms",
        "-o",
        path.to_str().unwrap(),
    ]);
    assert!(out.status.success(), "{}", scene(&out));
    path
}

#[test]
fn a_closed_pipe_is_silent_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let recording = recorded(dir.path(), "there");
    let log = dir.path().join("biosnoop.log");
    fs::write(
        &log,
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 dd 7 sda R 8 4096 0.25\n",
    )
    .unwrap();
    let recording = recording.to_str().unwrap();
    let log = log.to_str().unwrap();
    let new = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let recorded = new("recorded");
    let imported = new("imported");
    let record = [
        "record", "--source", "counters", "-o", &recorded, "--", "sh", "-c", "exit 7",
    ];
    for (line, code) in [
        (&record[..], 7),
        (&["import", log, "-o", &imported], 0),
        (&["report", recording], 0),
        (&["zoom", recording, "--step", "1ms"], 0),
        (&["doctor"], 0),
        (&["help"], 0),
        (&["record", "--help"], 0),
        (
            &[
                "live", "--source", "counters", "--step", "10ms", "--for", "10s",
            ],
            0,
        ),
    ] {
        let out = iolens(line).stdout(closed()).output().unwrap();
        assert_eq!(out.status.code(), Some(code), "{line:?}: {}", scene(&out));
        assert!(
            !String::from_utf8_lossy(&out.stderr).contains("panicked"),
            "{line:?}: {}",
            scene(&out)
        );
        let out = iolens(line).stdout(full()).output().unwrap();
        assert!(
            !String::from_utf8_lossy(&out.stderr).contains("panicked"),
            "{line:?}: {}",
            scene(&out)
        );
    }
    for made in [recorded, imported] {
        assert!(
            Recording::open(Path::new(&made))
                .unwrap()
                .warnings()
                .is_empty(),
            "{made}"
        );
    }
}

#[test]
fn what_cannot_be_printed_is_an_error_and_a_recording_stays() {
    let dir = tempfile::tempdir().unwrap();
    let recording = recorded(dir.path(), "there");
    let new = dir.path().join("new");
    let record = [
        "record",
        "--source",
        "counters",
        "--for",
        "50ms",
        "-o",
        new.to_str().unwrap(),
    ];
    for line in [
        &["report", recording.to_str().unwrap()][..],
        &["zoom", recording.to_str().unwrap()],
        &["doctor"],
        &record,
    ] {
        let out = iolens(line).stdout(full()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{line:?}: {}", scene(&out));
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(
            said.lines().filter(|l| l.contains("stdout")).count(),
            1,
            "{line:?}: {said}"
        );
    }
    assert!(Recording::open(&new).unwrap().warnings().is_empty());
    fs::remove_dir_all(&new).unwrap();
    let quiet = [&record[..], &["-q"]].concat();
    let out = iolens(&quiet).stdout(full()).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", scene(&out));
}

#[test]
fn messages_that_cannot_be_written_stop_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (i, stderr) in [full(), closed()].into_iter().enumerate() {
        let new = dir.path().join(format!("r{i}"));
        let out = iolens(&[
            "record",
            "--source",
            "counters",
            "-o",
            new.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "exit 3",
        ])
        .stderr(stderr)
        .output()
        .unwrap();
        assert_eq!(out.status.code(), Some(3), "{}", scene(&out));
        assert!(
            String::from_utf8_lossy(&out.stdout).contains("iolens report"),
            "{}",
            scene(&out)
        );
        assert!(Recording::open(&new).unwrap().warnings().is_empty());
    }
    let Some(home) = home() else { return };
    let out = iolens(&[
        "throttle", "--source", "counters", "--path", home, "--", "sh", "-c", "exit 7",
    ])
    .stderr(full())
    .output()
    .unwrap();
    assert_eq!(out.status.code(), Some(7));
}

/// A recording without an end, started by a shell that runs `before` first.
fn iostat_until_killed(before: &str, path: &Path) -> Child {
    let script = format!("{before} exec \"$0\" record --source counters -o \"$1\"");
    // The tests themselves may run under nohup.
    let mut sh = Command::new("env");
    sh.args([
        "--default-signal",
        "sh",
        "-c",
        &script,
        env!("CARGO_BIN_EXE_iolens"),
        path.to_str().unwrap(),
    ]);
    let child = sh
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    wait_until("it records", || path.join("meta.json").exists());
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn every_signal_that_asks_for_the_end_finishes_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let asking = [
        Signal::HUP,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::QUIT,
        Signal::XCPU,
        Signal::VTALARM,
    ];
    for signal in asking {
        let path = dir.path().join(format!("{}", signal.as_raw()));
        let child = iostat_until_killed("", &path);
        send(&child, signal);
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{signal:?}: {}", scene(&out));
        assert!(
            String::from_utf8_lossy(&out.stdout).contains("iolens report"),
            "{signal:?}: {}",
            scene(&out)
        );
        assert!(Recording::open(&path).unwrap().warnings().is_empty());
    }
}

#[test]
fn a_hangup_that_was_ignored_from_the_start_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let child = iostat_until_killed("trap '' HUP;", &path);
    let ignored = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mask = ignored
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:\t"))
        .unwrap();
    assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 1, 1, "{ignored}");
    send(&child, Signal::HUP);
    // If it were not ignored, it would have arrived first.
    send(&child, Signal::TERM);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", scene(&out));
}

#[test]
fn a_limit_of_file_sizes_is_like_a_full_disk() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(64)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    // Blocks of 512 bytes: 80 KiB, some thousand I/Os.
    let script = "ulimit -f 160; exec \"$0\" record -q -o \"$1\" -d \"$2\" -- \
                  dd if=\"$2\" of=/dev/null bs=4k count=16384 iflag=direct status=none";
    let out = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_iolens")])
        .args([&path, &device.path])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    let lost: i64 = recording
        .lost(i64::MIN..i64::MAX)
        .iter()
        .filter_map(|l| l.ios)
        .sum();
    let stored = recording.ios_stored() as i64;
    assert!(
        lost > 0 && stored > 0 && lost + stored >= 16384,
        "{stored} stored, {lost} lost"
    );
}

#[test]
fn live_prints_a_document_per_line() {
    for asked in [&["--json"][..], &["--format", "json"]] {
        let line = [
            &[
                "live", "--source", "counters", "--step", "20ms", "--for", "300ms",
            ],
            asked,
        ]
        .concat();
        let out = run(&line);
        assert!(out.status.success(), "{}", scene(&out));
        let text = String::from_utf8(out.stdout.clone()).unwrap();
        assert!(!text.is_empty(), "{}", scene(&out));
        for row in text.lines() {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            assert!(row["time_s"].is_number(), "{row}");
            assert!(
                row["time"].is_string() && row["time_unix_s"].is_number(),
                "{row}"
            );
        }
    }
}

/// A sample of one disk: what a replay needs, with or without what distinguishes disks from partitions.
fn sample(dir: &Path, name: &str, uptime_s: u32, with_sys: bool) {
    let proc = dir.join(name).join("proc");
    fs::create_dir_all(&proc).unwrap();
    fs::write(
        proc.join("diskstats"),
        format!("8 0 sda {uptime_s} 2 3 4 5 6 7 8 0 10 11\n"),
    )
    .unwrap();
    fs::write(proc.join("uptime"), format!("{uptime_s}.00 5.00\n")).unwrap();
    if with_sys {
        fs::create_dir_all(dir.join(name).join("sys/block/sda")).unwrap();
    }
}

#[test]
fn a_replay_shows_rows_or_says_in_one_line_why_not() {
    let tmp = tempfile::tempdir().unwrap();
    let cases = [
        ("two", &[10, 20][..], true, None),
        ("close", &[10, 10], true, Some("no time passes")),
        ("one", &[10], true, Some("one sample")),
        ("disks", &[10, 20], false, Some("show no disk")),
    ];
    for (name, uptimes, with_sys, why) in cases {
        let dir = tmp.path().join(name);
        for (i, uptime_s) in uptimes.iter().enumerate() {
            sample(&dir, &(i + 1).to_string(), *uptime_s, with_sys);
        }
        let out = run(&["live", "--plain", "--replay", dir.to_str().unwrap()]);
        let rows = String::from_utf8_lossy(&out.stdout).lines().count();
        let said = String::from_utf8_lossy(&out.stderr);
        let why_not: Vec<&str> = said.lines().filter(|l| l.contains("no rows")).collect();
        assert!(out.status.success(), "{}", scene(&out));
        match why {
            None => assert!(
                rows == 2 && why_not.is_empty(),
                "the title and a row: {}",
                scene(&out)
            ),
            Some(why) => assert!(
                why_not.len() == 1 && why_not[0].contains(why),
                "{why}: {}",
                scene(&out)
            ),
        }
    }
}

#[test]
fn a_typo_does_not_suggest_a_hidden_command() {
    let out = run(&["enterr"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        !String::from_utf8_lossy(&out.stderr).contains("'enter'"),
        "{}",
        scene(&out)
    );
    let out = run(&["help"]);
    assert_eq!(out.status.code(), Some(0));
    quiet(&out);
}

#[test]
fn live_shows_what_it_has_of_its_only_interval() {
    let Some(()) = ebpf() else { return };
    let Some(device) = LoopDevice::new(8) else {
        return;
    };
    for (format, lines) in [("table", 4), ("csv", 2)] {
        let out = run(&[
            "live",
            "--plain",
            "--no-serve",
            "--device",
            device.name(),
            "--step",
            "60s",
            "--for",
            "500ms",
            "--format",
            format,
        ]);
        assert!(out.status.success(), "{}", scene(&out));
        let rows = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(rows.lines().count(), lines, "{}", scene(&out));
        let said = rows + &String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("partial last interval"), "{}", scene(&out));
    }
}
