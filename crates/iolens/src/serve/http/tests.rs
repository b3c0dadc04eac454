//! The rules of the server, each with an attempt to break it.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use super::places::{Client, RequestKind, Traffic};
use super::*;

pub fn app(rules: Rules) -> Arc<App> {
    Arc::new(App::new(
        PathBuf::from("/nonexistent"),
        Arc::default(),
        rules,
    ))
}

fn loopback() -> Rules {
    Rules {
        hosts: Some(vec!["localhost".to_owned()]),
        loopback: true,
        ..Rules::default()
    }
}

fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::empty()).unwrap()
}

pub async fn ask(
    app: &Arc<App>,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
) -> (Response, Value) {
    let response = router(Arc::clone(app))
        .oneshot(request(method, uri, headers))
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let value =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
    (Response::from_parts(parts, Body::empty()), value)
}

pub fn block_on<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

fn status(rules: &Rules, method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
    block_on(ask(&app(rules.clone()), method, uri, headers))
        .0
        .status()
        .as_u16()
}

#[test]
fn foreign_names_are_refused_wherever_they_stand() {
    let of = |headers: &[(&str, &str)], uri: &str| status(&loopback(), "GET", uri, headers);
    assert_eq!(of(&[("host", "localhost:9950")], "/healthz"), 200);
    assert_eq!(of(&[("host", "127.0.0.1:9950")], "/healthz"), 200);
    assert_eq!(
        of(&[("host", "evil.example:9950")], "/healthz"),
        421,
        "DNS rebinding"
    );
    assert_eq!(
        of(
            &[("host", "localhost"), ("host", "evil.example")],
            "/healthz"
        ),
        400
    );
    assert_eq!(
        of(&[("host", "localhost")], "http://evil.example/healthz"),
        421,
        "an absolute target"
    );
    assert_eq!(of(&[], "/healthz"), 400);
    assert_eq!(
        of(&[("host", "evil.example")], "/no/such/path"),
        421,
        "before anything else is said"
    );
}

#[test]
fn a_browser_logs_in_by_a_link_and_then_reads_what_needs_the_token() {
    let rules = Rules {
        token: Some(b"0123456789abcdef".to_vec()),
        token_to_read: true,
        cookie: "iolens-9950".to_owned(),
        ..loopback()
    };
    let host = ("host", "localhost");
    let get = |uri: &str, more: &[(&str, &str)]| {
        status(&rules, "GET", uri, &[&[host][..], more].concat())
    };
    assert_eq!(get("/?token=0123456789abcdef", &[]), 303);
    assert_eq!(get("/?token=0123456789abcdeX", &[]), 401);
    assert_eq!(get("/", &[]), 401);
    let evil = [("host", "evil.example")];
    let rebound = status(&rules, "GET", "/?token=0123456789abcdef", &evil);
    assert_eq!(rebound, 421);
    let cookie = "iolens-9950=30313233343536373839616263646566";
    assert_eq!(get("/", &[("cookie", cookie)]), 200);
    let changed = status(&rules, "POST", "/api/v1/mark", &[host, ("cookie", cookie)]);
    assert_eq!(changed, 401, "a cookie changes nothing");
}

#[test]
fn changes_need_the_token_and_no_foreign_page() {
    let token = Rules {
        token: Some(b"0123456789abcdef".to_vec()),
        ..loopback()
    };
    let post = |rules: &Rules, more: &[(&str, &str)]| {
        status(
            rules,
            "POST",
            "/healthz",
            &[&[("host", "localhost")], more].concat(),
        )
    };
    let right = ("authorization", "Bearer 0123456789abcdef");
    assert_eq!(post(&loopback(), &[]), 403, "there is no token at all");
    assert_eq!(post(&token, &[]), 401);
    assert_eq!(
        post(&token, &[("authorization", "Bearer 0123456789abcdee")]),
        401
    );
    assert_eq!(post(&token, &[("authorization", "Bearer ")]), 401);
    assert_eq!(
        post(&token, &[right]),
        405,
        "let in; that path takes no POST"
    );
    assert_eq!(
        post(&token, &[right, ("origin", "http://evil.example")]),
        403
    );
    assert_eq!(post(&token, &[right, ("origin", "null")]), 403);
    assert_eq!(
        post(&token, &[right, ("sec-fetch-site", "cross-site")]),
        403
    );
    assert_eq!(post(&token, &[right, ("origin", "http://localhost")]), 405);
    assert_eq!(status(&token, "DELETE", "/", &[("host", "localhost")]), 405);
    assert_eq!(
        status(&token, "TRACE", "/", &[("host", "localhost"), right]),
        405
    );
}

#[test]
fn beyond_loopback_reading_needs_the_token_too() {
    let rules = Rules {
        token_to_read: true,
        loopback: false,
        token: Some(b"0123456789abcdef".to_vec()),
        ..loopback()
    };
    let of = |uri: &str, more: &[(&str, &str)]| {
        status(
            &rules,
            "GET",
            uri,
            &[&[("host", "10.1.2.3")], more].concat(),
        )
    };
    assert_eq!(of("/", &[]), 401);
    assert_eq!(
        of("/", &[("authorization", "Bearer 0123456789abcdef")]),
        200
    );
    assert_eq!(of("/healthz", &[]), 200, "probes carry no token");
    let options = |listen: &str, public, token_file| Options {
        listen: listen.parse().unwrap(),
        public,
        token_file,
        allow_hosts: vec!["io.example".to_owned()],
        compat_node: false,
        socket: None,
        group: None,
        public_names: false,
    };
    let rules = |options: &Options| options.rules(Vec::new());
    let refused = rules(&options("0.0.0.0:9950", false, None))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("--token-file") && refused.contains("--public") && !refused.contains('\n'),
        "{refused}"
    );
    assert!(rules(&options("[::]:9950", false, None)).is_err());
    let public = rules(&options("0.0.0.0:9950", true, None)).unwrap();
    assert!(!public.token_to_read && public.hosts.unwrap().contains(&"io.example".to_owned()));
    assert!(
        rules(&options("127.0.0.1:9950", false, None))
            .unwrap()
            .loopback
    );
}

#[test]
fn tokens_are_long_and_secret() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    let refusal = |text: &str, mode| {
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        read_token(file.path()).map_err(|e| e.to_string())
    };
    assert_eq!(
        refusal("0123456789abcdef\n", 0o640),
        Ok(b"0123456789abcdef".to_vec())
    );
    assert!(
        refusal("0123456789abcdef", 0o644)
            .unwrap_err()
            .contains("everybody")
    );
    assert!(refusal("short", 0o600).unwrap_err().contains("at least 16"));
    assert!(
        refusal("0123456789 abcdef", 0o600)
            .unwrap_err()
            .contains("printable")
    );
}

#[test]
fn answers_say_what_browsers_must_not_do_and_problems_are_documents() {
    block_on(async {
        let app = app(loopback());
        for uri in ["/", "/healthz", "/nothing"] {
            let (response, _) = ask(&app, "GET", uri, &[("host", "localhost")]).await;
            let has =
                |name: &str, part: &str| response.headers()[name].to_str().unwrap().contains(part);
            assert!(
                has("content-security-policy", "default-src 'self'")
                    && has("x-content-type-options", "nosniff")
            );
            assert!(
                has("x-frame-options", "DENY")
                    && has("cross-origin-resource-policy", "same-origin")
            );
            assert!(
                !response
                    .headers()
                    .contains_key("access-control-allow-origin")
            );
        }
        let (response, problem) =
            ask(&app, "GET", "/../../etc/passwd", &[("host", "localhost")]).await;
        assert_eq!(
            (response.status().as_u16(), &problem["status"]),
            (404, &404.into())
        );
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        assert!(problem["detail"].is_string() && problem["title"] == "Not Found");
    });
}

#[test]
fn clients_that_read_much_keep_out_neither_health_nor_metrics() {
    block_on(async {
        let app = app(loopback());
        let mut held = Vec::new();
        for i in 0..64 {
            let client = Client::Address([10, 0, 0, i % 2].into());
            let place = app.places.enter(RequestKind::Heavy, &Traffic::new(client));
            held.push(place.unwrap());
        }
        let host = [("host", "localhost")];
        let (response, problem) = ask(&app, "GET", "/api/v1/recordings", &host).await;
        assert_eq!(
            (response.status().as_u16(), problem["status"].as_u64()),
            (503, Some(503))
        );
        assert!(response.headers().contains_key("retry-after"));
        for uri in ["/healthz", "/metrics", "/"] {
            let (response, _) = ask(&app, "GET", uri, &host).await;
            assert_eq!(response.status().as_u16(), 200, "{uri}");
        }
        let (response, _) = ask(&app, "GET", "/api/v1/live", &host).await;
        assert_eq!(response.status().as_u16(), 422, "it records nothing");
        drop(held);
        let (response, _) = ask(&app, "GET", "/api/v1/recordings", &host).await;
        assert_ne!(response.status().as_u16(), 503);
    });
}

#[test]
fn an_answer_holds_its_place_and_counts_until_it_is_read() {
    let (_dir, app) = api::tests::lake();
    let uri = format!("/api/v1/ios?from={}", api::tests::at(0));
    let get = |uri: &str| {
        let request = request("GET", uri, &[("host", "localhost")]);
        router(Arc::clone(&app)).oneshot(request)
    };
    block_on(async {
        let table = get(&uri).await.unwrap();
        let list = get("/api/v1/recordings").await.unwrap();
        assert_eq!(app.places.count(RequestKind::Heavy), 2);
        assert!(app.unread.bytes() > 1000);
        for response in [table, list] {
            let mut body = response.into_body();
            let mut frames = Vec::new();
            while let Some(frame) = body.frame().await {
                frames.push(frame.unwrap());
            }
            drop(body);
            // The last frame is taken, but not written.
            assert!(app.places.count(RequestKind::Heavy) > 0 && app.unread.bytes() > 0);
            drop(frames);
        }
        assert_eq!(
            (app.places.count(RequestKind::Heavy), app.unread.bytes()),
            (0, 0)
        );
    });
}

#[test]
fn answers_beyond_the_limit_wait_for_others_and_are_refused() {
    let (dir, _) = api::tests::lake();
    let app = Arc::new(App {
        unread: answer::Unread::new(256),
        ..App::new(dir.path().to_owned(), Arc::default(), loopback())
    });
    let get = |uri: &str| {
        let request = request("GET", uri, &[("host", "localhost")]);
        router(Arc::clone(&app)).oneshot(request)
    };
    block_on(async {
        // Larger than the limit: it is the only one.
        let first = get("/api/v1/recordings").await.unwrap();
        assert_eq!((first.status().as_u16(), app.unread.bytes()), (200, 256));
        let second = get("/api/v1/recordings").await.unwrap();
        assert_eq!(second.status().as_u16(), 503);
        for uri in ["/healthz", "/metrics"] {
            assert_eq!(get(uri).await.unwrap().status().as_u16(), 200, "{uri}");
        }
        drop(first);
        let third = get("/api/v1/recordings").await.unwrap();
        assert_eq!(third.status().as_u16(), 200);
    });
}

/// `app` on a port of loopback, until the runtime is dropped.
fn served(app: &Arc<App>) -> (tokio::runtime::Runtime, std::net::SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (bound, _) = Bound::new(&"127.0.0.1:0".parse().unwrap(), SOCKET_MODE, None).unwrap();
    let Some(Listen::Tcp(address)) = bound.place() else {
        panic!("no address")
    };
    runtime.spawn(connections::accept(bound, router(Arc::clone(app))));
    (runtime, address)
}

/// A connection on which `target` was asked for.
fn asked(address: std::net::SocketAddr, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let minute = Duration::from_secs(60);
    stream.set_read_timeout(Some(minute)).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// All that comes on it until the server closes it.
fn read(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(e) if e.kind() != std::io::ErrorKind::ConnectionReset => panic!("{e}"),
        _ => String::from_utf8_lossy(&all).into_owned(),
    }
}

#[test]
fn clients_that_do_not_read_are_closed_and_others_are_answered() {
    let (dir, _) = api::tests::lake();
    let app = Arc::new(App {
        unread: answer::Unread::new(256 << 10),
        ..App::new(dir.path().to_owned(), Arc::default(), Rules::default())
    });
    let (_runtime, address) = served(&app);
    let table = format!("/api/v1/ios?from={}&limit=100000", api::tests::at(0));
    let mut silent: Vec<TcpStream> = Vec::new();
    let mut held = 0;
    for _ in 0..6 {
        let mut stream = asked(address, &table);
        stream.read_exact(&mut [0; 12]).unwrap();
        // On a busy machine the first ones are closed before the last one is answered.
        held = held.max(app.places.count(RequestKind::Heavy));
        silent.push(stream);
    }
    assert!(held > 0);
    for target in ["/healthz", "/metrics"] {
        assert!(read(asked(address, target)).starts_with("HTTP/1.1 200"));
    }
    // One that reads gets all of it, as soon as those that do not have made room.
    while !read(asked(address, &table)).ends_with("\r\n0\r\n\r\n") {}
    silent.into_iter().map(read).for_each(drop);
    // A client sees the end of its connection before the server has let go of what it did not send.
    while app.unread.bytes() > 0 || app.places.count(RequestKind::Heavy) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn who_says_nothing_makes_room_and_who_watches_stays() {
    let events = crate::serve::live::LiveEvents::new();
    let app = Arc::new(App {
        live: Some(Arc::clone(&events)),
        ..App::new("/nonexistent".into(), Arc::default(), Rules::default())
    });
    let (_runtime, address) = served(&app);
    let mut watcher = BufReader::new(asked(address, "/api/v1/live")).lines();
    let mut next = move || watcher.next().unwrap().unwrap();
    while !next().is_empty() {}
    iolens_observe::counters::process::raise_file_limit();
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    // All of them have been accepted when one that comes after them is answered.
    assert!(read(asked(address, "/healthz")).starts_with("HTTP/1.1 200"));
    assert_eq!(app.places.count(RequestKind::Live), 1);
    events.publish(1, "finding", "{\"a\":1}", false);
    while next() != "data: {\"a\":1}" {}
    drop(silent);
}

#[test]
fn ill_health_is_no_200() {
    block_on(async {
        let app = app(loopback());
        app.health.trouble(Some("no room".to_owned()));
        let (response, document) = ask(&app, "GET", "/healthz", &[("host", "localhost")]).await;
        assert_eq!(response.status().as_u16(), 503);
        assert_eq!(document["reasons"], serde_json::json!(["no room"]));
    });
}

#[test]
fn a_recorder_that_misses_some_ios_is_degraded_and_answers_200() {
    block_on(async {
        let app = app(loopback());
        app.health.recording("ebpf");
        app.health.looked(&iolens_recorder::Progress {
            ios: 998_000,
            losses: iolens_recorder::LossCounts::default()
                .with(iolens_core::model::LossReason::RingFull, 2_000),
            ..Default::default()
        });
        let (response, document) = ask(&app, "GET", "/healthz", &[("host", "localhost")]).await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(
            (&document["healthy"], &document["reasons"]),
            (&true.into(), &serde_json::json!([]))
        );
        assert!(
            document["degraded"][0]
                .as_str()
                .unwrap()
                .contains("2000 of 1000000")
        );
        let (_, text) = ask(&app, "GET", "/metrics", &[("host", "localhost")]).await;
        let text = text.as_str().unwrap();
        assert!(text.contains("iolens_healthy 1\n") && text.contains("iolens_degraded 1\n"));
    });
}

#[test]
fn metrics_come_in_both_texts_and_those_of_node_exporter_on_request() {
    block_on(async {
        let plain = app(loopback());
        let compat = App {
            compat_node: true,
            ..App::new("/x".into(), Arc::default(), loopback())
        };
        let (response, text) = ask(&plain, "GET", "/metrics", &[("host", "localhost")]).await;
        assert!(
            response.headers()["content-type"]
                .to_str()
                .unwrap()
                .starts_with("text/plain; version=0.0.4")
        );
        let text = text.as_str().unwrap();
        assert!(
            text.contains("iolens_healthy 1\n")
                && !text.contains("node_disk_")
                && !text.contains("iolens_busy"),
            "{text}"
        );
        let open = [
            ("host", "localhost"),
            (
                "accept",
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            ),
        ];
        let (response, text) = ask(&Arc::new(compat), "GET", "/metrics", &open).await;
        assert!(
            response.headers()["content-type"]
                .to_str()
                .unwrap()
                .starts_with("application/openmetrics-text")
        );
        let text = text.as_str().unwrap();
        assert!(
            text.ends_with("# EOF\n")
                && text.contains("# TYPE node_disk_io_time_seconds counter\n"),
            "{text}"
        );
    });
}
