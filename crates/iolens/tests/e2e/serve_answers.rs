//! Answers of the server about a device that is read, during the recording and afterwards.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use iolens_core::store::{Recording, read_findings};
use serde_json::Value;

use super::http::{answer, exchange, get, metric};
use super::machine::{LoopDevice, ebpf, iolens, now_unix_s, run, scene, wait_until};
use super::serve::{Serve, ios, lost, recordings, text, while_reading};

/// The first `n` slots of a query.
fn watch(socket: &Path, query: &str, n: usize) -> Vec<Value> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let head = format!("GET /api/v1/live{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let lines = BufReader::new(stream)
        .lines()
        .map(|l| l.expect("a slot within 20 s"));
    lines
        .filter_map(|l| serde_json::from_str(l.strip_prefix("data: ")?).ok())
        .take(n)
        .collect()
}

/// Waits for a slot of the live view that ends after now: all completions before now have been processed by then.
fn until_live_is_past_now(socket: &Path) {
    let now_s = now_unix_s();
    wait_until("the live view is past now", || {
        watch(socket, "", 1)[0]["time_s"].as_f64() > Some(now_s)
    });
}

/// Steps of 100 ms in the last minute in which there were reads.
fn steps_with_reads(socket: &Path, device: &LoopDevice) -> usize {
    let target = "/api/v1/series?from=-1m&step=100ms&by=device&extended=true";
    let rows = answer(socket, target);
    let columns = &rows["columns"];
    let devices = columns["device"].as_array().unwrap();
    assert!(devices.iter().all(|d| d == device.name()), "{rows}");
    let rates = columns["r_per_s"].as_array().unwrap();
    let is_read = |rate: &&Value| rate.as_f64() > Some(0.0);
    rates.iter().filter(is_read).count()
}

/// A sample of `/metrics` about the reads of a device.
fn sample_of_reads(name: &str, device: &LoopDevice) -> String {
    format!("{name}{{device=\"{}\",op=\"read\"}}", device.name())
}

/// I/O time of reads by the metrics of waits; `None` before there are any.
fn waited_s(socket: &Path, device: &LoopDevice) -> Option<f64> {
    let mut sum = 0.0;
    for cause in ["undisturbed", "own", "others", "held", "device", "unknown"] {
        let labels = format!("device=\"{}\",op=\"read\",cause=\"{cause}\"", device.name());
        sum += metric(socket, &format!("iolens_wait_seconds_total{{{labels}}}"))?;
    }
    Some(sum)
}

#[test]
fn what_is_recorded_can_be_asked_for_while_it_grows_and_afterwards() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let socket = dir.path().join("root.sock");
    let serve = Serve::start(&root, &device, 1);
    let n = while_reading(&device, || {
        let (status, health) = get(&socket, "/healthz");
        assert_eq!(
            (status, health["recording"].as_bool(), &health["source"]),
            (200, Some(true), &"ebpf".into())
        );
        // A recording without any time range yet cannot be queried.
        wait_until("I/Os are recorded", || {
            !ios(&recordings(&root)[0]).is_empty()
        });
        wait_until("reads are in the series", || {
            steps_with_reads(&socket, &device) > 0
        });
        let live = watch(&socket, "", 20);
        assert!(
            live.iter()
                .any(|r| r["device"] == device.name() && r["r_per_s"].as_f64() > Some(0.0)),
            "{live:?}"
        );
        // These took two seconds, so replayed slots begin before live ones.
        let now = watch(&socket, "", 1);
        let replayed = watch(&socket, "?since=-1m", 5);
        assert!(
            replayed[0]["time_s"].as_f64() < now[0]["time_s"].as_f64(),
            "{replayed:?} before {now:?}"
        );
    });
    let sample = sample_of_reads("iolens_io_total_seconds_count", &device);
    until_live_is_past_now(&socket);
    wait_until("the metrics and what is stored have the same reads", || {
        metric(&socket, &sample) == Some(reads_of_heat_map(&socket) as f64)
    });
    let while_growing = reads_of_heat_map(&socket);
    let counted = metric(&socket, &sample);
    let report = answer(&socket, "/api/v1/report?from=-2m");
    let missed = metric(&socket, "iolens_metrics_missed_ios_total");
    let io_time_s = metric(
        &socket,
        &sample_of_reads("iolens_io_total_seconds_sum", &device),
    )
    .unwrap();
    wait_until(&format!("all of {io_time_s} s are owned"), || {
        waited_s(&socket, &device).is_some_and(|s| (s - io_time_s).abs() <= 1e-6)
    });
    // Its reads are one at a time, so it is busy while there is one.
    let busy = format!("iolens_busy_seconds_total{{device=\"{}\"}}", device.name());
    wait_until(&format!("{busy} is {io_time_s}"), || {
        metric(&socket, &busy).is_some_and(|s| (s / io_time_s - 1.0).abs() < 0.1)
    });
    let post = |target: &str| {
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        exchange(&mut UnixStream::connect(&socket).unwrap(), &head)
    };
    let (status, kept) = post("/api/v1/snapshot?from=-10m&to=now");
    assert_eq!(status, 200, "{kept}");
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let (status, said) = post("/api/v1/mark?text=between");
    assert_eq!(status, 200, "the same user asks through the socket: {said}");
    serve.terminate();
    let path = &recordings(&root)[0];
    let marks = Recording::open(path).unwrap().marks(i64::MIN..i64::MAX);
    assert!(
        marks
            .iter()
            .any(|m| m.kind == "remark" && m.text == "between"),
        "{marks:?}"
    );
    let stored = ios(path)
        .iter()
        .filter(|io| io.class().name() == "read")
        .count() as i64;
    assert!(
        (stored + lost(path) - n as i64).abs() <= 2,
        "{stored} of {n}"
    );
    assert_eq!((counted, missed), (Some(stored as f64), Some(0.0)));
    assert_eq!(
        (while_growing, report["recording"]["ios"].as_i64()),
        (stored, Some(ios(path).len() as i64))
    );
    let copy = root.join(kept["name"].as_str().unwrap());
    let copied = ios(&copy);
    let all = ios(path);
    assert!(
        copied.len() as u64 + 2 >= n && all.starts_with(&copied),
        "{} of {n}",
        copied.len()
    );
    let out = run(&["report", text(&root.join("snapshots"))]);
    assert!(
        out.status.success() && !out.stdout.is_empty(),
        "{}",
        scene(&out)
    );
    let place = format!("unix:{}", text(&socket));
    let arguments = [
        "serve",
        "--no-record",
        "--rec",
        text(&root),
        "--listen",
        &place,
    ];
    let child = iolens(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let shown = Serve::of(child);
    wait_until("the socket answers", || {
        UnixStream::connect(&socket).is_ok()
    });
    assert_eq!(
        reads_of_heat_map(&socket),
        stored,
        "the same of what is closed, from its sums"
    );
    assert_eq!(get(&socket, "/healthz").1["recording"], false);
    shown.terminate();
}

/// The first complete line of a file, which a command may be writing.
fn first_line(path: &Path) -> Option<String> {
    let content = std::fs::read_to_string(path).ok()?;
    content.split_once('\n').map(|(line, _)| line.to_owned())
}

#[test]
fn findings_are_said_while_they_happen() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let socket = dir.path().join("root.sock");
    let said = dir.path().join("root/said");
    let command = format!("cat >> {}", text(&said));
    let freeze = ["--freeze-on", "small-sequential,periodicity,saturation"];
    let serve = Serve::start_with(
        &root,
        &device,
        &[&["--on-finding", &command], &freeze[..]].concat(),
    );
    while_reading(&device, || {
        // A sequential reader of small blocks is a finding of its own; a busy machine may have more.
        let begin = Instant::now();
        while first_line(&said).is_none() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    if first_line(&said).is_none() {
        // A busy machine may be too slow for it, and reports that.
        let (status, found) = get(&socket, "/api/v1/findings?from=-3m");
        assert!([200, 503].contains(&status), "{status}: {found}");
        if status == 503 || found["findings"].as_array().is_some_and(Vec::is_empty) {
            eprintln!("SKIP: nothing stood out in a minute of reading, status {status}");
            return;
        }
    }
    wait_until("a finding is said", || first_line(&said).is_some());
    let first: Value = serde_json::from_str(&first_line(&said).unwrap()).unwrap();
    assert!(
        first["event"] == "start" && first["kind"].is_string() && first["start"].is_string(),
        "{first}"
    );
    let kind = first["kind"].as_str().unwrap();
    let severity = first["severity"].as_str().unwrap();
    let sample = format!("iolens_findings_total{{kind=\"{kind}\",severity=\"{severity}\"}}");
    assert!(metric(&socket, &sample) >= Some(1.0), "{sample}");
    serve.terminate();
    let stored = read_findings(&recordings(&root)[0]).unwrap();
    let kept = stored.iter().find(|f| f.kind.as_str() == kind).unwrap();
    assert!(
        !kept.evidence.is_empty() && kept.to_ns >= kept.from_ns,
        "{kept:?}"
    );
    assert!(
        stored.iter().all(|f| !f.open),
        "a recorder that ends leaves none open: {stored:?}"
    );
    let lines = std::fs::read_to_string(&said).unwrap();
    let events = |what: &str| {
        lines
            .lines()
            .filter(|l| l.contains(&format!("\"event\":\"{what}\"")))
            .count()
    };
    assert_eq!(events("start"), events("end"), "{lines}");
    if freeze[1].contains(kind) {
        let [copy] = &recordings(&root.join("frozen"))[..] else {
            panic!("one copy")
        };
        assert!(ios(copy).len() > 100, "{} I/Os around it", ios(copy).len());
    }
}

/// Reads of the last two minutes, as counted by the heat map.
fn reads_of_heat_map(socket: &Path) -> i64 {
    let map = answer(socket, "/api/v1/heatmap?from=-2m&class=read&width=50");
    map["ios"].as_i64().unwrap()
}
