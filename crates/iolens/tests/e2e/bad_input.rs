//! Bad input gets one clear line, exit code 2, and leaves nothing behind.

use std::fs;
use std::path::Path;

use super::machine::{LoopDevice, assert_refused, ebpf, file_with, iolens, run, scene};

fn words(dir: &Path, line: &str) -> Vec<String> {
    line.split(' ').map(|w| w.replace("DIR", dir.to_str().unwrap())).collect()
}

fn refused(dir: &Path, line: &str, expected: &[&str]) {
    let words = words(dir, line);
    let out = iolens(&words.iter().map(String::as_str).collect::<Vec<_>>()).current_dir(dir).output().unwrap();
    assert_refused(&out, expected);
}

#[test]
fn record_refuses_what_it_cannot_do_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("there")).unwrap();
    refused(dir.path(), "record -o DIR/new -d nosuchdisk --for 1s", &["nosuchdisk", "no such disk"]);
    refused(dir.path(), "record -o DIR/there --for 1s", &["there", "exists"]);
    refused(dir.path(), "record -o DIR/new --keep 1K --for 1s", &["--keep"]);
    refused(dir.path(), "record -o DIR/no/such/parent/new --for 1s", &["no/such/parent"]);
    refused(dir.path(), "record -o /proc/new --for 1s", &["/proc/new"]);
    refused(dir.path(), "record -o DIR/new -d  --for 1s", &["no such disk"]);
    assert!(!dir.path().join("new").exists());
}

#[test]
fn a_command_that_cannot_start_gives_the_shells_exit_code_and_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new");
    let out = run(&["record", "-q", "-o", new.to_str().unwrap(), "--", "/no/such/command"]);
    assert_eq!(out.status.code(), Some(127), "{}", scene(&out));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/no/such/command"), "{}", scene(&out));
    assert!(!new.exists());
}

#[test]
fn reading_commands_refuse_what_is_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    file_with(dir.path(), "file", b"not a recording");
    for command in ["report", "zoom"] {
        refused(dir.path(), &format!("{command} DIR/absent"), &["absent"]);
        refused(dir.path(), &format!("{command} DIR/empty"), &["empty", "not a recording"]);
        refused(dir.path(), &format!("{command} DIR/file"), &["file", "not a recording"]);
    }
    let future = dir.path().join("future");
    fs::create_dir(&future).unwrap();
    file_with(&future, "meta.json", br#"{"schema_version": 99, "source": "ebpf", "start_unix_ns": 0}"#);
    refused(dir.path(), "report DIR/future", &["version 99"]);
}

#[test]
fn times_outside_the_recording_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        iolens(&["record", "-q", "-o", "r", "--source", "counters", "--for", "200ms"])
            .current_dir(dir.path())
            .status()
            .unwrap()
            .success()
    );
    refused(dir.path(), "zoom r --from 100", &["--from", "100.000 s"]);
    refused(dir.path(), "report r --from -5", &["--from"]);
    refused(dir.path(), "report r --from 0.1 --to 0.05", &["--to"]);
    refused(dir.path(), "report r --to 1999-01-01T00:00:00Z", &["--to"]);
    refused(dir.path(), "zoom r --step 1us", &["1 ms"]);
}

#[test]
fn a_hostile_process_name_reaches_no_terminal() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(8)) else { return };
    let dir = tempfile::tempdir().unwrap();
    let hostile = dir.path().join("\u{1b}[31m<b>,\"=1");
    fs::copy("/bin/dd", &hostile).unwrap();
    let out = iolens(&["record", "-q", "-o", "r", "-d", device.name(), "--"])
        .arg(&hostile)
        .arg(format!("if={}", device.path.display()))
        .args(["of=/dev/null", "bs=4k", "count=64", "iflag=direct", "status=none"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    for line in [
        "report r",
        "report r --json",
        "zoom r --by process",
        "zoom r --by process --format csv",
        "zoom r --by process --format json",
    ] {
        let out = iolens(&line.split(' ').collect::<Vec<_>>()).current_dir(dir.path()).output().unwrap();
        assert!(out.status.success(), "{line}: {}", scene(&out));
        assert!(!out.stdout.contains(&0x1b), "{line}: {}", scene(&out));
        if line.ends_with("json") {
            serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap();
        }
    }
    let out = iolens(&["zoom", "r", "--by", "process"]).current_dir(dir.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&out.stdout).contains("\\x1b[31m<b>"), "{}", scene(&out));
}

#[test]
fn usage_errors_exit_with_two() {
    for line in
        ["zoom", "nosuchcommand", "zoom x --step 0", "zoom x --step 10", "record --for yesterday", "record --keep much"]
    {
        let out = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(out.status.code(), Some(2), "{line}: {}", scene(&out));
        assert!(out.stdout.is_empty(), "{line}: {}", scene(&out));
    }
}
