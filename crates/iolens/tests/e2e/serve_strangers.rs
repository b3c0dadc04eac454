//! Clients of the server can neither disturb the recorder nor see or open what they may not.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use super::http::{exchange, get};
use super::machine::{LoopDevice, assert_refused, ebpf, iolens, run, scene, wait_until};
use super::serve::{Serve, ios, lost, recordings, text, while_reading};

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
    // On a fast disk the requests take long enough for a second recording to start.
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
    let root = dir.path().join("root");
    let socket = dir.path().join("socket");
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
    let command = format!("iolens serve --link --rec {}", text(&root));
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
    let refused = run(&words);
    assert_refused(&refused, &["--listen"]);

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
    let root = dir.path().join("root");
    let token = dir.path().join("token");
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
