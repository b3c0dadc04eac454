//! A minimal HTTP client, which gives the test control over every sent and received byte.

use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::machine::wait_until;

/// Status and body of one request.
pub fn exchange(stream: &mut (impl std::io::Read + std::io::Write), head: &str) -> (u16, String) {
    let mut answer = Vec::new();
    // A server that rejects a request closes the connection while it is being written; its answer before that counts.
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

/// The chunks of a long answer, each preceded by its length.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body.push_str(&rest[..length]);
        chunks = rest[length..].strip_prefix("\r\n").unwrap();
    }
    body
}

/// The answer to a GET through a socket: its status, and its body as JSON or text.
pub fn get(socket: &Path, target: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (status, body) = exchange(&mut stream, &head);
    (
        status,
        serde_json::from_str(&body).unwrap_or(Value::String(body)),
    )
}

/// The document that answers a GET through a socket. On a very busy machine an answer may exceed the client's time
/// limit; then the request is repeated.
pub fn answer(socket: &Path, target: &str) -> Value {
    let mut document = Value::Null;
    wait_until(target, || {
        let (status, body) = get(socket, target);
        assert!([200, 503].contains(&status), "{target}: {status}: {body}");
        document = body;
        status == 200
    });
    document
}

/// The value of one sample of `/metrics`.
pub fn metric(socket: &Path, sample: &str) -> Option<f64> {
    let (status, text) = get(socket, "/metrics");
    assert_eq!(status, 200, "{text}");
    let text = text.as_str().unwrap().to_owned();
    text.lines()
        .find_map(|l| l.strip_prefix(sample)?.trim().parse().ok())
}
