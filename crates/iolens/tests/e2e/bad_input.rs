//! Bad input gets one clear line, exit code 2, and leaves nothing behind.

use std::fs;
use std::path::Path;

use iolens_core::model::{DevId, Device, Io, Op, RecorderCost, RecordingMeta, Source};
use iolens_core::store::{RecordingWriter, WriterOptions};

use super::machine::{LoopDevice, assert_refused, ebpf, file_with, iolens, run, scene};

fn words(dir: &Path, line: &str) -> Vec<String> {
    line.split(' ')
        .map(|w| w.replace("DIR", dir.to_str().unwrap()))
        .collect()
}

fn refused(dir: &Path, line: &str, expected: &[&str]) {
    let words = words(dir, line);
    let out = iolens(&words.iter().map(String::as_str).collect::<Vec<_>>())
        .current_dir(dir)
        .output()
        .unwrap();
    assert_refused(&out, expected);
}

#[test]
fn record_refuses_what_it_cannot_do_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("there")).unwrap();
    refused(
        dir.path(),
        "record -o DIR/new -d nosuchdisk --for 1s",
        &["nosuchdisk", "no such device"],
    );
    refused(
        dir.path(),
        "record -o DIR/there --for 1s",
        &["there", "exists"],
    );
    refused(
        dir.path(),
        "record -o DIR/new --keep 1K --for 1s",
        &["--keep"],
    );
    refused(
        dir.path(),
        "record -o DIR/no/such/parent/new --for 1s",
        &["no/such/parent"],
    );
    refused(
        dir.path(),
        "record -o DIR/new --source counters --counters-step 999us --for 1s",
        &["--counters-step", "999 us", "1ms"],
    );
    refused(
        dir.path(),
        "record -o DIR/new --source ebpf --counters-step 1s --for 1s",
        &["--counters-step", "--source ebpf"],
    );
    refused(
        dir.path(),
        "record --counters-raw DIR/new --counters-step 1s --for 1s",
        &["--counters-step", "--counters-raw"],
    );
    refused(dir.path(), "record -o /proc/new --for 1s", &["/proc/new"]);
    refused(
        dir.path(),
        "record -o DIR/new -d  --for 1s",
        &["no such device"],
    );
    assert!(!dir.path().join("new").exists());
}

#[test]
fn no_recording_is_made_inside_another() {
    let dir = tempfile::tempdir().unwrap();
    let outer = dir.path().join("outer");
    let meta = RecordingMeta::new(Source::Ebpf, 0);
    let writer = RecordingWriter::create(&outer, meta, WriterOptions::default()).unwrap();
    writer.finish(1_000_000, RecorderCost::default()).unwrap();
    for command in [
        "record --source counters --for 1s -o",
        "record --for 1s --counters-raw",
        "demo -o",
        "cut DIR/outer --from 0 -o",
        "merge DIR/outer -o",
        "repair DIR/outer -o",
    ] {
        for place in ["DIR/outer/new", "DIR/outer/io/new"] {
            refused(
                dir.path(),
                &format!("{command} {place}"),
                &["inside the recording", "outer"],
            );
        }
    }
    assert!(!outer.join("new").exists() && !outer.join("io/new").exists());
}

#[test]
fn filters_that_nothing_can_match_and_rings_too_small_are_refused() {
    let Some(()) = ebpf() else { return };
    let dir = tempfile::tempdir().unwrap();
    let refused = |options: &str, expected: &[&str]| {
        refused(
            dir.path(),
            &format!("record -o DIR/new {options} --for 100ms"),
            expected,
        );
        assert!(!dir.path().join("new").exists(), "{options}");
    };
    refused(
        "--comm postgresql-server-main",
        &["postgresql-server-main", "15"],
    );
    refused("--comm sixteen-bytes-xx", &["sixteen-bytes-xx", "15"]);
    refused("--comm ", &["--comm", "empty"]);
    refused("--pid 2147483647", &["2147483647", "there is none"]);
    refused("--pid 0", &["process 0"]);
    refused("--ring 1", &["--ring 1", "1G"]);
    refused("--ring 16K", &["--ring 16384"]);
    refused("--ring 2G", &["--ring", "1G"]);
    refused("--source counters --files", &["--source counters"]);
    let thread = std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let link = fs::read_link("/proc/thread-self").unwrap();
            sender
                .send(link.file_name().unwrap().to_str().unwrap().to_owned())
                .unwrap();
            ended.recv().ok();
        });
        let thread = receiver.recv().unwrap();
        refused(&format!("--pid {thread}"), &["thread of process"]);
        drop(end);
        thread
    });
    refused(&format!("--pid {thread}"), &["there is none"]);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    match mounts
        .lines()
        .find(|l| l.split(' ').nth(2) == Some("cgroup"))
        .and_then(|l| l.split(' ').nth(1))
    {
        Some(v1) => refused(&format!("--cgroup {v1}"), &[v1, "version 1"]),
        None => eprintln!("SKIP: no cgroup v1 hierarchy"),
    }
    refused("--cgroup /sys/fs/cgroup/no-such-group", &["no-such-group"]);
}

#[test]
fn a_command_that_cannot_start_gives_the_shells_exit_code_and_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new");
    let out = run(&[
        "record",
        "-q",
        "-o",
        new.to_str().unwrap(),
        "--",
        "/no/such/command",
    ]);
    assert_eq!(out.status.code(), Some(127), "{}", scene(&out));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("/no/such/command"),
        "{}",
        scene(&out)
    );
    assert!(!new.exists());
}

#[test]
fn reading_commands_refuse_what_is_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    file_with(dir.path(), "file", b"not a recording");
    for command in ["report", "zoom"] {
        refused(dir.path(), &format!("{command} DIR/absent"), &["absent"]);
        refused(
            dir.path(),
            &format!("{command} DIR/empty"),
            &["empty", "not a recording"],
        );
        refused(
            dir.path(),
            &format!("{command} DIR/file"),
            &["file", "not a recording"],
        );
    }
    for command in [
        "info PLACE",
        "verify PLACE",
        "cut PLACE --from 0 --to 1 -o DIR/out",
        "merge PLACE -o DIR/out",
        "repair PLACE -o DIR/out",
    ] {
        for name in ["absent", "empty", "file"] {
            let place = format!("DIR/{name}");
            // The line begins with the problem, not with its consequence.
            let begin = format!(
                "iolens: {}: not a recording",
                dir.path().join(name).display()
            );
            refused(dir.path(), &command.replace("PLACE", &place), &[&begin]);
        }
    }
    assert!(!dir.path().join("out").exists());
    let future = dir.path().join("future");
    fs::create_dir(&future).unwrap();
    file_with(
        &future,
        "meta.json",
        br#"{"schema_version": 99, "source": "ebpf", "start_unix_ns": 0}"#,
    );
    refused(dir.path(), "report DIR/future", &["version 99"]);
}

/// A recording of some reads in a form that any tool may write; tests damage its files afterwards.
fn recorded(dir: &Path, device: &LoopDevice) -> std::path::PathBuf {
    let path = dir.join("whole");
    let input = format!("if={}", device.path.display());
    let out = iolens(&[
        "record",
        "-q",
        "-o",
        "whole",
        "-d",
        device.name(),
        "--",
        "dd",
        &input,
    ])
    .args([
        "of=/dev/null",
        "bs=4k",
        "count=2000",
        "iflag=direct",
        "status=none",
    ])
    .current_dir(dir)
    .output()
    .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    path
}

fn copy_of(whole: &Path, name: &str) -> std::path::PathBuf {
    let copy = whole.with_file_name(name);
    assert!(
        std::process::Command::new("cp")
            .arg("-r")
            .args([whole, &copy])
            .status()
            .unwrap()
            .success()
    );
    copy
}

#[test]
fn damaged_recordings_are_refused_in_one_line_where_nothing_is_left() {
    const FIRST_SEGMENT: &str = "io/000001.parquet";
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let whole = recorded(dir.path(), &device);
    let cut = copy_of(&whole, "cut").join(FIRST_SEGMENT);
    let length = fs::metadata(&cut).unwrap().len();
    fs::File::options()
        .write(true)
        .open(&cut)
        .unwrap()
        .set_len(length / 2)
        .unwrap();
    fs::write(copy_of(&whole, "nothing").join(FIRST_SEGMENT), b"").unwrap();
    let foreign = copy_of(&whole, "foreign").join(FIRST_SEGMENT);
    fs::write(foreign, vec![b'x'; 5000]).unwrap();
    let flipped = copy_of(&whole, "flipped").join(FIRST_SEGMENT);
    let mut bytes = fs::read(&flipped).unwrap();
    // Everything except magic numbers and the footer, without which a reader stops.
    let data = bytes.len() / 3;
    bytes[200..data].iter_mut().for_each(|b| *b ^= 0xff);
    fs::write(&flipped, bytes).unwrap();
    for command in ["report", "report --json", "zoom", "zoom --format csv"] {
        for name in ["cut", "nothing", "foreign", "flipped"] {
            refused(
                dir.path(),
                &format!("{command} DIR/{name}"),
                &["damaged", "000001.parquet", "no I/O of it"],
            );
        }
    }

    let headless = copy_of(&whole, "headless");
    for name in ["meta.json", "meta.json.bak"] {
        fs::write(headless.join(name), br#"{"schema_version": "#).unwrap();
    }
    refused(dir.path(), "report DIR/headless", &["meta.json", "damaged"]);
    let out = run(&["report", whole.to_str().unwrap()]);
    assert!(
        out.status.success() && out.stderr.is_empty(),
        "{}",
        scene(&out)
    );
}

/// Six seconds of 100k reads per second, which fill more than one file; the first of them is damaged.
fn damaged_in_part(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("part");
    let mut meta = RecordingMeta::new(Source::Ebpf, 0);
    meta.devices = vec![Device::named("sda", DevId::new(8, 0))];
    let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
    let ios: Vec<Io> = (1..600_000)
        .map(|i| {
            Io::new(
                i * 10_000 + i * 7919 % 5000,
                DevId::new(8, 0),
                Op::READ,
                4096,
                Some(i % 777),
                5000,
            )
        })
        .collect();
    ios.chunks(1000)
        .for_each(|chunk| writer.push_ios(chunk).unwrap());
    writer
        .finish(6_000_000_000, RecorderCost::default())
        .unwrap();
    let first = path.join("io/000001.parquet");
    assert!(
        path.join("io/000002.parquet").exists(),
        "more than one file"
    );
    let mut bytes = fs::read(&first).unwrap();
    // Damage in the first column, the times, which every command reads: a column that it does not read
    // cannot affect it.
    bytes[300..316].iter_mut().for_each(|b| *b ^= 0xff);
    fs::write(&first, bytes).unwrap();
    path
}

#[test]
fn a_partial_read_is_never_reported_as_complete() {
    let dir = tempfile::tempdir().unwrap();
    let part = damaged_in_part(dir.path());
    let part = part.to_str().unwrap();
    let good = |args: &[&str]| {
        let out = run(args);
        assert!(out.status.success(), "{}", scene(&out));
        assert!(
            String::from_utf8_lossy(&out.stderr).contains("damaged"),
            "said in a line: {}",
            scene(&out)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    let text = good(&["report", part, "--full"]);
    let said: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("(corrupt) within 0.000 s to"))
        .collect();
    assert!(said.len() == 1, "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("a block of the recording is damaged"),
        "{text}"
    );

    let json: serde_json::Value = serde_json::from_str(&good(&["report", part, "--json"])).unwrap();
    let kept = json["recording"]["ios"].as_u64().unwrap();
    let lost = json["recording"]["lost_ios"].as_u64().unwrap();
    assert!(
        kept > 0 && lost > 0 && kept + lost == 599_999,
        "{kept} kept, {lost} lost"
    );
    let loss = &json["recording"]["losses"][0];
    assert_eq!(
        (&loss["reason"], loss["ios"].as_u64()),
        (&"corrupt".into(), Some(lost)),
        "{loss}"
    );
    let end_s = loss["end_s"].as_f64().unwrap();
    assert!((end_s - lost as f64 * 1e-5).abs() < 0.02, "{loss}");
    assert_eq!(
        json["devices"][0]["detail"]["util"],
        serde_json::Value::Null,
        "nothing is compared where I/Os are missing"
    );

    let rows = good(&["zoom", part, "--step", "500ms"]);
    let marked = rows.lines().filter(|l| l.ends_with('*')).count();
    assert_eq!(marked, (end_s / 0.5).ceil() as usize, "{rows}");

    let page = dir.path().join("part.html");
    let out = run(&["report", part, "-o", page.to_str().unwrap()]);
    if String::from_utf8_lossy(&out.stderr).contains("without the HTML page") {
        return eprintln!("SKIP: built without the HTML page");
    }
    assert!(out.status.success(), "{}", scene(&out));
    let page = fs::read_to_string(page).unwrap();
    let lossy = page
        .split("\"lost_intervals\":[")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .unwrap();
    assert!(
        lossy.contains("\"reason\":\"corrupt\"") && lossy.matches("start_s").count() == 1,
        "{lossy}"
    );
}

#[test]
fn more_than_ten_million_rows_are_refused_before_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("long");
    fs::create_dir(&long).unwrap();
    let meta =
        br#"{"schema_version": 1, "source": "ebpf", "start_unix_ns": 0, "end_ns": 10001000000000, "devices": []}"#;
    file_with(&long, "meta.json", meta);
    refused(
        dir.path(),
        "zoom DIR/long --step 1ms",
        &["10000000 rows", "--step"],
    );
    refused(
        dir.path(),
        "zoom DIR/long --step 1ms --format csv",
        &["10000000 rows", "--step"],
    );
    let out = run(&["zoom", long.to_str().unwrap(), "--step", "1h"]);
    assert!(out.status.success(), "{}", scene(&out));
}

#[test]
fn a_report_replaces_only_reports() {
    let dir = tempfile::tempdir().unwrap();
    let rec = dir.path().join("rec");
    let device = DevId::new(8, 0);
    let mut meta = RecordingMeta::new(Source::Ebpf, 0);
    meta.devices = vec![Device::named("sda", device)];
    let mut writer = RecordingWriter::create(&rec, meta, WriterOptions::default()).unwrap();
    let io = Io::new(1_000_000, device, Op::READ, 4096, Some(5), 5000);
    writer.push_ios(&[io]).unwrap();
    writer
        .finish(6_000_000_000, RecorderCost::default())
        .unwrap();
    refused(
        dir.path(),
        "diff DIR/rec DIR/rec --before 3..1",
        &[
            "end of --before (1.000 s)",
            "beginning of --before (3.000 s)",
        ],
    );
    let meta = fs::read(rec.join("meta.json")).unwrap();
    file_with(
        dir.path(),
        "notes.html",
        b"<!doctype html>\n<title>notes</title>",
    );
    for name in ["rec/meta.json", "notes.html"] {
        refused(
            dir.path(),
            &format!("report DIR/rec -o DIR/{name}"),
            &[name, "no HTML report of iolens"],
        );
    }
    assert_eq!(fs::read(rec.join("meta.json")).unwrap(), meta);
    let link = dir.path().join("link.html");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    refused(
        dir.path(),
        "report DIR/rec -o DIR/link.html",
        &["link.html", "no regular file"],
    );
    assert!(link.is_symlink(), "the link stays");
    let older = "<!doctype html>\n<title>Disk I/O of db1 – iolens</title>";
    let older = file_with(dir.path(), "older.html", older.as_bytes());
    let out = run(&[
        "report",
        rec.to_str().unwrap(),
        "-o",
        older.to_str().unwrap(),
    ]);
    let said = scene(&out);
    assert!(
        out.status.success() || said.contains("without the HTML page"),
        "{said}"
    );
}

#[test]
fn an_empty_recording_gives_an_empty_report() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = dir.path().join("quiet");
    fs::create_dir(&quiet).unwrap();
    let meta = br#"{"schema_version": 1, "source": "ebpf", "start_unix_ns": 0, "end_ns": 3000000000, "devices": []}"#;
    file_with(&quiet, "meta.json", meta);
    let html = dir.path().join("quiet.html");
    let out = run(&["report", quiet.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success() && text.contains("0 I/Os") && text.contains("no I/O\n"),
        "{}",
        scene(&out)
    );
    let out = run(&[
        "report",
        quiet.to_str().unwrap(),
        "--json",
        "-o",
        html.to_str().unwrap(),
    ]);
    if String::from_utf8_lossy(&out.stderr).contains("built without the HTML page") {
        return eprintln!("SKIP: {}", scene(&out));
    }
    assert!(out.status.success(), "{}", scene(&out));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&json["recording"]["ios"], &json["recording"]["duration_s"]),
        (&0.into(), &3.0.into())
    );
    assert_eq!(
        (
            json["devices"].as_array().map(Vec::len),
            json["findings"].as_array().map(Vec::len)
        ),
        (Some(0), Some(0))
    );
    assert!(fs::read_to_string(html).unwrap().contains("\"scopes\":[]"));
}

#[test]
fn times_outside_the_recording_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        iolens(&[
            "record", "-q", "-o", "r", "--source", "counters", "--for", "200ms"
        ])
        .current_dir(dir.path())
        .status()
        .unwrap()
        .success()
    );
    refused(dir.path(), "zoom r --from 100", &["--from", "100.000 s"]);
    refused(dir.path(), "report r --from -5", &["--from"]);
    refused(dir.path(), "report r --from 0.1 --to 0.05", &["--to"]);
    refused(dir.path(), "report r --to 1999-01-01T00:00:00Z", &["--to"]);
    refused(dir.path(), "zoom r --step 1us", &["1ms"]);
}

#[test]
fn a_hostile_process_name_reaches_no_terminal() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(8)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let hostile = dir.path().join("\u{1b}[31m<b>,\"=1");
    fs::copy("/bin/dd", &hostile).unwrap();
    let out = iolens(&["record", "-q", "-o", "r", "-d", device.name(), "--"])
        .arg(&hostile)
        .arg(format!("if={}", device.path.display()))
        .args([
            "of=/dev/null",
            "bs=4k",
            "count=64",
            "iflag=direct",
            "status=none",
        ])
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
        let out = iolens(&line.split(' ').collect::<Vec<_>>())
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{line}: {}", scene(&out));
        assert!(!out.stdout.contains(&0x1b), "{line}: {}", scene(&out));
        if line.ends_with("json") {
            serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap();
        }
    }
    let out = iolens(&["zoom", "r", "--by", "process"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&out.stdout).contains("\\x1b[31m<b>"),
        "{}",
        scene(&out)
    );
}

#[test]
fn usage_errors_exit_with_two() {
    for line in [
        "zoom",
        "nosuchcommand",
        "zoom x --step 0",
        "zoom x --step 10",
        "record --for yesterday",
        "record --keep much",
    ] {
        let out = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(out.status.code(), Some(2), "{line}: {}", scene(&out));
        assert!(out.stdout.is_empty(), "{line}: {}", scene(&out));
    }
}
