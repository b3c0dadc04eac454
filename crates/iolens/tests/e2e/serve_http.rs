//! The server beside a recorder: what it says of a device that is read, and who cannot disturb it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use iolens_core::store::{Recording, read_findings};
use serde_json::Value;

use super::machine::{LoopDevice, assert_refused, ebpf, iolens, run, scene, wait_until};
use super::serve::{Serve, ios, lost, recordings, text, while_reading};

/// Status and body of one request.
fn exchange(stream: &mut (impl std::io::Read + std::io::Write), head: &str) -> (u16, String) {
    let mut answer = Vec::new();
    // A server that has heard enough closes while it is written to; what it said before that counts.
    let _closed = stream.write_all(head.as_bytes());
    let _reset = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    let (headers, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let is_chunked = headers
        .to_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if is_chunked {
        joined(body)
    } else {
        body.to_owned()
    };
    (status, body)
}

/// The chunks of a long answer, each after its length.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body.push_str(&rest[..length]);
        chunks = rest[length..].strip_prefix("\r\n").unwrap();
    }
    body
}

pub fn get(socket: &Path, target: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (status, body) = exchange(&mut stream, &head);
    (
        status,
        serde_json::from_str(&body).unwrap_or(Value::String(body)),
    )
}

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

/// The value of one sample of `/metrics`.
pub fn metric(socket: &Path, sample: &str) -> Option<f64> {
    let (status, text) = get(socket, "/metrics");
    assert_eq!(status, 200, "{text}");
    let text = text.as_str().unwrap().to_owned();
    text.lines()
        .find_map(|l| l.strip_prefix(sample)?.trim().parse().ok())
}

/// I/O time of reads by the metrics of waits.
fn waited_s(socket: &Path, device: &LoopDevice) -> f64 {
    let mut sum = 0.0;
    for cause in ["undisturbed", "own", "others", "held", "device", "unknown"] {
        let labels = format!("device=\"{}\",op=\"read\",cause=\"{cause}\"", device.name());
        sum += metric(socket, &format!("iolens_wait_seconds_total{{{labels}}}")).unwrap();
    }
    sum
}

#[test]
fn what_is_recorded_can_be_asked_for_while_it_grows_and_afterwards() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (root, socket) = (dir.path().join("root"), dir.path().join("root.sock"));
    let serve = Serve::start(&root, &device, 1);
    let n = while_reading(&device, || {
        std::thread::sleep(Duration::from_millis(1500));
        let (status, health) = get(&socket, "/healthz");
        assert_eq!(
            (status, health["recording"].as_bool(), &health["source"]),
            (200, Some(true), &"ebpf".into())
        );
        let (status, rows) = get(
            &socket,
            "/api/v1/series?from=-1m&step=100ms&by=device&extended=true",
        );
        assert_eq!(status, 200, "{rows}");
        let reads: f64 = rows["columns"]["r_per_s"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_f64)
            .sum();
        assert!(
            reads > 0.0 && rows["columns"]["device"][0] == device.name(),
            "{rows}"
        );
        let live = watch(&socket, "", 20);
        assert!(
            live.iter()
                .any(|r| r["device"] == device.name() && r["r_per_s"].as_f64() > Some(0.0)),
            "{live:?}"
        );
        let replayed = watch(&socket, "?since=-1m", 5);
        assert!(
            replayed[0]["time_s"].as_f64() < live[0]["time_s"].as_f64(),
            "{replayed:?} before {live:?}"
        );
    });
    // What the metrics know is half a second late where a disk falls idle.
    std::thread::sleep(Duration::from_millis(1200));
    let of_reads = |socket: &Path| {
        let (status, map) = get(socket, "/api/v1/heatmap?from=-2m&class=read&width=50");
        assert_eq!(status, 200, "{map}");
        map["ios"].as_i64().unwrap()
    };
    let while_growing = of_reads(&socket);
    let (status, report) = get(&socket, "/api/v1/report?from=-2m");
    assert_eq!(status, 200, "{report}");
    let counted = metric(
        &socket,
        &format!(
            "iolens_io_total_seconds_count{{device=\"{}\",op=\"read\"}}",
            device.name()
        ),
    );
    let missed = metric(&socket, "iolens_metrics_missed_ios_total");
    std::thread::sleep(Duration::from_millis(2500));
    let busy = metric(
        &socket,
        &format!("iolens_busy_seconds_total{{device=\"{}\"}}", device.name()),
    )
    .unwrap();
    let sample = "iolens_io_total_seconds_sum";
    let labels = format!("device=\"{}\",op=\"read\"", device.name());
    let io_time_s = metric(&socket, &format!("{sample}{{{labels}}}")).unwrap();
    wait_until(&format!("all of {io_time_s} s are owned"), || {
        (waited_s(&socket, &device) - io_time_s).abs() <= 1e-6
    });
    assert!(
        (0.1..10.0).contains(&busy),
        "{busy} s busy of some two seconds of reading"
    );
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
    let (copied, all) = (ios(&copy), ios(path));
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
        of_reads(&socket),
        stored,
        "the same of what is closed, from its sums"
    );
    assert_eq!(get(&socket, "/healthz").1["recording"], false);
    shown.terminate();
}

#[test]
fn thousands_of_slow_and_huge_requests_do_not_disturb_the_recording() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let (serve, address) = Serve::start_on_tcp(&root, &device);
    let host = format!("Host: {address}\r\nConnection: close\r\n\r\n");
    let ask = |head: &str| exchange(&mut TcpStream::connect(&address).unwrap(), head);
    let n = while_reading(&device, || {
        let mut slow = Vec::new();
        for _ in 0..10_000 {
            let Ok(mut stream) = TcpStream::connect(&address) else {
                continue;
            };
            let _gone = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc");
            slow.push(stream);
            if slow.len() > 500 {
                slow.remove(0);
            }
        }
        let (status, said) = ask(&format!("GET /healthz HTTP/1.1\r\n{host}"));
        assert_eq!(
            status,
            200,
            "beside {} that say nothing more: {said}",
            slow.len()
        );
        drop(slow);
        let long = "x".repeat(100 << 20);
        let (status, _) = ask(&format!("GET /healthz?{long} HTTP/1.1\r\n{host}"));
        assert!(status == 0 || (400..500).contains(&status), "{status}");
        let (status, _) =
            ask("GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
        assert_eq!(status, 421, "DNS rebinding");
        for target in [
            "/../../../etc/passwd",
            "/api/v1/../../etc/passwd",
            "//etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
        ] {
            let (status, said) = ask(&format!("GET {target} HTTP/1.1\r\n{host}"));
            assert!(
                status == 404 && !said.contains("root:"),
                "{target}: {status} {said}"
            );
        }
        let (status, _) = ask(&format!("GET /healthz HTTP/1.1\r\n{host}"));
        assert_eq!(status, 200);
    });
    serve.terminate();
    // On a fast disk the requests take long enough for a second recording to begin.
    let mut stored = 0;
    let mut lost_ios = 0;
    for path in recordings(&root) {
        stored += ios(&path).len() as i64;
        lost_ios += lost(&path);
    }
    assert!(
        (stored + lost_ios - n as i64).abs() <= 2,
        "{stored} and {lost_ios} lost of {n}"
    );
}

#[test]
fn over_loopback_only_those_with_the_token_see_names_of_processes() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (root, socket) = (dir.path().join("root"), dir.path().join("socket"));
    let (serve, address) = Serve::start_on_tcp(&root, &device);
    let token = std::fs::read_to_string(root.join("token")).unwrap();
    let with_token = format!("Authorization: Bearer {}\r\n", token.trim());
    let ask = |target: &str, more: &str| {
        let head =
            format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n{more}Connection: close\r\n\r\n");
        exchange(&mut TcpStream::connect(&address).unwrap(), &head)
    };
    // Threads without a name, as the one that reads, have that of who starts them.
    let own = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    let own = own.trim();
    let by_process = "/api/v1/actors?by=process&from=-1m";
    while_reading(&device, || {
        wait_until("own names are shown", || {
            ask(by_process, &with_token).1.contains(own)
        });
    });
    for target in [
        by_process,
        "/api/v1/ios?from=-10s&limit=100000",
        "/api/v1/series?by=process&from=-1m",
        "/api/v1/report?from=-1m",
        "/api/v1/findings?from=-1m",
    ] {
        let (status, said) = ask(target, "");
        assert!(status == 200 && !said.contains(own), "{target}: {said}");
        let (status, said) = ask(target, "Authorization: Bearer wrong\r\n");
        assert!(status == 200 && !said.contains(own), "{target}: {said}");
    }
    let (_, said) = ask(by_process, "");
    let command = format!(
        "iolens serve --link --rec {} --listen {address}",
        text(&root)
    );
    assert!(said.contains(&command), "{said}");
    let mut stream = TcpStream::connect(&address).unwrap();
    let as_csv = format!(
        "GET {by_process}&format=csv HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(as_csv.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let note = answer
        .lines()
        .find(|line| line.starts_with("iolens-note: "));
    assert!(note.is_some_and(|note| note.contains(&command)), "{answer}");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let link = String::from_utf8(run(&words).stdout).unwrap();
    let target = link.trim().strip_prefix(&format!("http://{address}"));
    let (status, _) = ask(target.unwrap(), "");
    assert_eq!(status, 303, "{link}");
    serve.terminate();

    let place = format!("unix:{}", text(&socket));
    let shown = iolens(&["serve", "--no-record", "--listen", &place, "--rec"])
        .arg(&root)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let shown = Serve::of(shown);
    wait_until("the socket answers", || {
        UnixStream::connect(&socket).is_ok()
    });
    let said = get(&socket, by_process).1.to_string();
    assert!(said.contains(own) && !said.contains("--link"), "{said}");
    shown.terminate();
}

#[test]
fn what_would_open_the_machine_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (root, token) = (dir.path().join("root"), dir.path().join("token"));
    let refused = |arguments: &[&str], words: &[&str]| {
        assert_refused(
            &run(&[
                &["serve", "--no-record", "--rec", text(dir.path())],
                arguments,
            ]
            .concat()),
            words,
        );
    };
    refused(&["--listen", "0.0.0.0:0"], &["--token-file", "--public"]);
    refused(&["--listen", "[::]:0"], &["--token-file", "--public"]);
    std::fs::write(&token, "short").unwrap();
    refused(
        &["--listen", "0.0.0.0:0", "--token-file", text(&token)],
        &["token"],
    );
    refused(&["--listen", "somewhere"], &["ADDR:PORT"]);
    refused(
        &["--listen", &format!("unix:{}", text(&token))],
        &["is no socket"],
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    refused(
        &["--listen", &taken.local_addr().unwrap().to_string()],
        &["give another address"],
    );
    let nothing = run(&[
        "serve",
        "--no-record",
        "--rec",
        text(&root),
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_refused(&nothing, &["nothing to show"]);
    assert!(scene(&nothing).contains("root"));
}

#[test]
fn findings_are_said_while_they_happen() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (root, socket, said) = (
        dir.path().join("root"),
        dir.path().join("root.sock"),
        dir.path().join("root/said"),
    );
    let command = format!("cat >> {}", text(&said));
    let freeze = ["--freeze-on", "small-sequential,periodicity,saturation"];
    let serve = Serve::start_with(
        &root,
        &device,
        &[&["--on-finding", &command], &freeze[..]].concat(),
    );
    while_reading(&device, || {
        // One reader of small blocks in sequence is a finding of its own; a machine that is busy otherwise may have more.
        let begin = Instant::now();
        while !said.exists() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let (status, found) = get(&socket, "/api/v1/findings?from=-3m");
    assert_eq!(status, 200, "{found}");
    if !said.exists() && found["findings"].as_array().is_some_and(Vec::is_empty) {
        eprintln!("SKIP: nothing stood out in a minute of reading");
        return;
    }
    let lines = std::fs::read_to_string(&said).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(
        first["event"] == "start" && first["kind"].is_string() && first["start"].is_string(),
        "{first}"
    );
    let (kind, severity) = (
        first["kind"].as_str().unwrap(),
        first["severity"].as_str().unwrap(),
    );
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
