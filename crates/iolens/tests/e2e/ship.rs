//! `serve --ship`: a directory and a bucket receive all closed files, whatever fails or is killed in
//! between.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::http::get;
use super::machine::{LoopDevice, assert_refused, ebpf, iolens, run, wait_until};
use super::serve::{Serve, ios, lost, recordings, serve_arguments, text, while_reading};

/// The descriptions and closed files below `directory`, by their names from `base` on.
fn closed(base: &Path, directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = text(path.strip_prefix(base).unwrap()).to_owned();
            if path.is_dir() {
                todo.push(path);
            } else if name.contains(".parquet") || name.contains("meta.json") {
                found.insert(name, std::fs::read(path).unwrap_or_default());
            }
        }
    }
    found
}

fn holds_logs(recording: &Path) -> bool {
    let mut names = std::fs::read_dir(recording.join("wal"))
        .into_iter()
        .flatten()
        .flatten();
    names.any(|entry| entry.path().extension().is_some_and(|e| e == "wal"))
}

fn metric(socket: &Path, name: &str) -> f64 {
    let (status, answer) = get(socket, "/metrics");
    let Value::String(lines) = answer else {
        panic!("{status}: {answer}")
    };
    let line = lines
        .lines()
        .find_map(|l| l.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is missing:\n{lines}"))
        .parse()
        .unwrap()
}

fn socket_of(root: &Path) -> PathBuf {
    PathBuf::from(format!("{}.sock", text(root)))
}

#[test]
fn a_directory_has_what_is_closed_after_kills_and_restarts() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let lake = dir.path().join("lake");
    std::fs::create_dir(&lake).unwrap();
    let ship = ["--ship", text(&lake)];
    let serve = Serve::start_with(&root, &device, &ship);
    let has_ios = || {
        closed(&lake, &lake)
            .keys()
            .any(|name| name.contains("/io/"))
    };
    while_reading(&device, || {
        wait_until("a segment of I/Os is shipped", has_ios)
    });
    // Killed: dropped without a signal.
    drop(serve);
    let serve = Serve::of(spawn(&root, &device, &ship, &[]));
    wait_until("the second recording", || recordings(&root).len() == 2);
    while_reading(&device, || {
        wait_until("I/Os are recorded", || {
            !ios(&recordings(&root)[1]).is_empty()
        });
    });
    serve.terminate();
    // Files for which there was no time at the end are sent now.
    let serve = Serve::of(spawn(&root, &device, &ship, &[]));
    wait_until("the third recording", || recordings(&root).len() == 3);
    let ended = &recordings(&root)[..2];
    let of = |base: &Path| -> BTreeMap<String, Vec<u8>> {
        let below = |r: &PathBuf| base.join(r.strip_prefix(&root).unwrap());
        ended.iter().flat_map(|r| closed(base, &below(r))).collect()
    };
    let has_logs = || ended.iter().any(|r| holds_logs(r));
    wait_until("the lake has both recordings, byte for byte", || {
        !has_logs() && of(&root) == of(&lake)
    });
    let socket = socket_of(&root);
    wait_until("nothing waits", || {
        metric(&socket, "iolens_ship_waiting_files") == 0.0
    });
    let health = get(&socket, "/healthz").1;
    assert_eq!(health["degraded"], serde_json::json!([]), "{health}");
    serve.terminate();
    // The lake also has the log's content of the killed recording.
    for (copy, original) in recordings(&lake).iter().zip(ended) {
        assert_eq!(ios(copy).len(), ios(original).len());
        assert!(!ios(copy).is_empty());
    }
    assert!(
        !closed(&lake, &lake)
            .keys()
            .any(|name| name.ends_with(".tmp"))
    );
}

fn spawn(
    root: &Path,
    device: &LoopDevice,
    more: &[&str],
    env: &[(&str, &str)],
) -> std::process::Child {
    let listen = format!("unix:{}", text(&socket_of(root)));
    let of = serve_arguments(root, device);
    iolens(&[&of, &["--listen", &listen][..], more].concat())
        .envs(env.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The part of S3 that is needed.
#[derive(Default)]
struct Bucket {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    fails: AtomicBool,
    hangs: AtomicBool,
    unsigned: AtomicUsize,
}

impl Bucket {
    /// Answers on a free port of loopback until the test ends.
    fn start() -> (Arc<Bucket>, String) {
        let bucket = Arc::new(Bucket::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::clone(&bucket);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bucket = Arc::clone(&shared);
                std::thread::spawn(move || while bucket.answer(&stream).is_some() {});
            }
        });
        (bucket, at)
    }

    /// One request; `None` when the client has gone.
    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            (reader.read_line(&mut line).ok()? > 0).then_some(())?;
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            head.iter().find_map(|l| {
                let (key, value) = l.split_once(": ")?;
                key.eq_ignore_ascii_case(name).then(|| value.to_owned())
            })
        };
        let mut body = vec![0; header("content-length").map_or(0, |n| n.parse().unwrap())];
        reader.read_exact(&mut body).ok()?;
        while self.hangs.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let signed = header("authorization").unwrap_or_default();
        if !signed.starts_with("AWS4-HMAC-SHA256 Credential=someone/") {
            self.unsigned.fetch_add(1, Ordering::Relaxed);
        }
        let (status, content) = if self.fails.load(Ordering::Relaxed) {
            ("503 Slow Down", String::new())
        } else {
            ("200 OK", self.done(&head[0], body))
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        );
        let mut stream = stream;
        stream.write_all(answer.as_bytes()).ok()
    }

    fn done(&self, request: &str, body: Vec<u8>) -> String {
        let mut objects = self.objects.lock().unwrap();
        let mut words = request.split(' ');
        let method = words.next().unwrap();
        let target = words.next().unwrap();
        let target = target.replace("%3D", "=").replace("%2F", "/");
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        if method == "PUT" {
            objects.insert(path.strip_prefix("/bucket/").unwrap().to_owned(), body);
            return String::new();
        }
        let prefix = query
            .split('&')
            .find_map(|p| p.strip_prefix("prefix="))
            .unwrap();
        let entries = objects.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, bytes)| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"1\"</ETag><Size>{}</Size></Contents>",
                bytes.len()
            )
        });
        format!(
            "<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>",
            entries.collect::<String>()
        )
    }
}

#[test]
fn a_bucket_that_fails_and_hangs_costs_no_io_and_gets_all_in_the_end() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let (bucket, at) = Bucket::start();
    bucket.fails.store(true, Ordering::Relaxed);
    let environment = [
        ("AWS_ENDPOINT_URL", &*at),
        ("AWS_ACCESS_KEY_ID", "someone"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "eu-central-1"),
    ];
    let serve = Serve::of(spawn(
        &root,
        &device,
        &["--ship", "s3://bucket/lake"],
        &environment,
    ));
    let socket = socket_of(&root);
    wait_until("it records", || {
        recordings(&root).len() == 1 && socket.exists()
    });
    wait_until("the target fails", || {
        metric(&socket, "iolens_ship_failures_total") >= 2.0
    });
    let health = get(&socket, "/healthz").1;
    assert!(
        health["degraded"][0]
            .as_str()
            .unwrap()
            .contains("shipping has failed"),
        "{health}"
    );
    assert_eq!(health["healthy"], true, "{health}");
    bucket.hangs.store(true, Ordering::Relaxed);
    bucket.fails.store(false, Ordering::Relaxed);
    let recording = recordings(&root)[0].clone();
    let reads = while_reading(&device, || {
        wait_until("I/Os are recorded", || !ios(&recording).is_empty());
    });
    bucket.hangs.store(false, Ordering::Relaxed);
    let key = |name: &str| {
        format!(
            "lake/{}/{name}",
            text(recording.strip_prefix(&root).unwrap())
        )
    };
    let has = |name: &str| bucket.objects.lock().unwrap().contains_key(&key(name));
    wait_until("the bucket has the description", || has("meta.json"));
    wait_until("and the service is well", || {
        get(&socket, "/healthz").1["degraded"] == serde_json::json!([])
    });
    // It ends although the target does not answer, and the next one sends the rest.
    bucket.hangs.store(true, Ordering::Relaxed);
    serve.terminate();
    assert_eq!(
        ios(&recording).len() as i64 + lost(&recording),
        reads as i64,
        "none was dropped"
    );
    bucket.hangs.store(false, Ordering::Relaxed);
    let serve = Serve::of(spawn(
        &root,
        &device,
        &["--ship", "s3://bucket/lake/"],
        &environment,
    ));
    wait_until("the bucket has all of it, byte for byte", || {
        let objects = bucket.objects.lock().unwrap();
        let here = closed(&recording, &recording);
        here.iter()
            .all(|(name, bytes)| objects.get(&key(name)) == Some(bytes))
    });
    serve.terminate();
    assert_eq!(
        bucket.unsigned.load(Ordering::Relaxed),
        0,
        "requests carry the usual signature"
    );
    let objects = bucket.objects.lock().unwrap();
    assert!(
        objects
            .keys()
            .all(|k| k.ends_with(".parquet") || k.contains("/meta.json"))
    );
}

#[test]
fn a_target_that_is_not_there_or_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let missing = dir.path().join("lake");
    let listen = format!("unix:{}", text(&socket_of(&root)));
    let said = |target: &str| {
        run(&[
            "serve",
            "--rec",
            text(&root),
            "--listen",
            &listen,
            "--ship",
            target,
        ])
    };
    assert_refused(
        &said(text(&missing)),
        &["--ship", "a directory that exists"],
    );
    assert_refused(
        &said(text(&root)),
        &["--ship", "apart from the recording root"],
    );
    let other = said("gs://bucket");
    let printed = String::from_utf8_lossy(&other.stderr);
    assert!(
        other.status.code() == Some(2) && printed.contains("s3://BUCKET/PREFIX"),
        "{printed}"
    );
}
