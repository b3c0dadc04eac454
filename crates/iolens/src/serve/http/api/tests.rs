//! The API over a root on disk: two recordings of one host with a gap between them.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use iolens_core::model::{
    Comm, DevId, Device, Io, Op, Origin, RecorderCost, RecordingMeta, Severity, Source,
    StoredFinding,
};
use iolens_core::private::Access;
use iolens_core::rollup::{RollupBuilder, minutes};
use iolens_core::store::{RecordingWriter, WriterOptions, put_finding};
use serde_json::Value;

use super::super::Snapshots;
use super::super::endpoint::Shape;
use super::super::guard::Rules;
use super::super::tests::{ask, block_on};
use super::*;
use crate::engine::caller::GrowingRecording;
use crate::serve::snapshots::Keeper;

const S: i64 = 1_000_000_000;
/// 2026-11-18T08:53:20Z.
pub const EPOCH: i64 = 1_795_000_000 * S;
/// I/Os a second of each recording.
pub const IOS_PER_S: i64 = 20;

/// What serves the root `dir` to those who may see all.
fn app_over(dir: &Path) -> Arc<App> {
    Arc::new(App::new(dir.to_owned(), Arc::default(), Rules::default()))
}

/// `seconds` of alternating reads and writes of a process with a hostile name, with rollups.
fn record(root: &Path, from_s: i64, seconds: i64) {
    record_of(root, "h", from_s, seconds);
}

/// The same of any host.
pub fn record_of(root: &Path, host: &str, from_s: i64, seconds: i64) {
    let device = Device {
        size_bytes: Some(1 << 30),
        ..Device::named("sd\u{202e}a", DevId::new(8, 0))
    };
    let mut writer = new_recording(root, host, from_s, device);
    let mut builder = RollupBuilder::default();
    for i in 0..seconds * IOS_PER_S {
        let op = if i % 2 == 0 { Op::READ } else { Op::WRITE };
        let io = Io::new(
            i * S / IOS_PER_S + 7_000_000,
            DevId::new(8, 0),
            op,
            4096,
            Some(100_000),
            900_000,
        );
        let io = Io {
            sector: Some(i * 8),
            tgid: Some(42),
            comm: Some(Comm::new(b"<b>e\x1b]0;vil")),
            ..io
        };
        writer.push_ios(&[io]).unwrap();
        builder.push_ios(&[io]);
    }
    let sums = builder.finish();
    assert!(
        writer.write_rollups(1, &sums).unwrap()
            && writer.write_rollups(60, &minutes(&sums)).unwrap()
    );
    writer.finish(seconds * S, RecorderCost::default()).unwrap();
}

/// A recording of one device in `root`, which begins `from_s` after [`EPOCH`].
fn new_recording(root: &Path, host: &str, from_s: i64, device: Device) -> RecordingWriter {
    let dir = root.join(Root::host_directory(host));
    std::fs::create_dir_all(&dir).unwrap();
    let start = EPOCH + from_s * S;
    let mut meta = RecordingMeta::new(Source::Ebpf, start);
    meta.devices = vec![device];
    let path = dir.join(Root::recording_directory(start));
    RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap()
}

/// 0 to 180 s and 300 to 420 s after [`EPOCH`].
pub fn lake() -> (tempfile::TempDir, Arc<App>) {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), 0, 180);
    record(dir.path(), 300, 120);
    let app = app_over(dir.path());
    (dir, app)
}

pub fn get(app: &Arc<App>, uri: &str) -> (u16, Value) {
    let (response, body) = block_on(ask(app, "GET", uri, &[("host", "localhost")]));
    (response.status().as_u16(), body)
}

/// Seconds since [`EPOCH`] as a time of a query.
pub fn at(s: i64) -> String {
    (EPOCH / S + s).to_string()
}

#[test]
fn recordings_and_devices_are_listed() {
    let (_dir, app) = lake();
    let (status, list) = get(&app, "/api/v1/recordings");
    assert_eq!(
        (status, list["schema_version"].as_u64()),
        (200, Some(2)),
        "{list}"
    );
    let first = &list["recordings"][0];
    assert_eq!(
        (&first["host"], &first["from"]),
        (&"h".into(), &"2026-11-18T11:06:40Z".into())
    );
    assert_eq!(
        (first["ios"].as_i64(), &first["resolutions"]),
        (
            Some(180 * IOS_PER_S),
            &serde_json::json!(["io", "1s", "60s"])
        )
    );
    assert_eq!(
        (first["lost_ios"].as_i64(), first["open"].as_bool()),
        (Some(0), Some(false))
    );
    assert_eq!(list["recordings"].as_array().unwrap().len(), 2);
    let (_, devices) = get(&app, &format!("/api/v1/devices?at={}", at(310)));
    assert_eq!(
        (&devices["devices"][0]["major"], &devices["from"]),
        (&8.into(), &"2026-11-18T11:11:40Z".into())
    );
    assert_eq!(
        devices["devices"][0]["model"],
        Value::Null,
        "not known is not empty"
    );
}

#[test]
fn where_recordings_are_is_said_to_those_who_see_names() {
    let (dir, app) = lake();
    let (_, list) = get(&app, "/api/v1/recordings");
    assert_eq!(list["root"].as_str().map(Path::new), Some(dir.path()));
    let rules = Rules {
        how_to_see_names: Some("names are left out".into()),
        ..Rules::default()
    };
    let app = Arc::new(App::new(dir.path().to_owned(), Arc::default(), rules));
    let (status, list) = get(&app, "/api/v1/recordings");
    assert_eq!((status, &list["root"]), (200, &Value::Null), "{list}");
}

#[test]
fn hosts_are_ranked_and_their_times_are_checked() {
    let (dir, app) = lake();
    record_of(dir.path(), "<b>x", 0, 120);
    let (status, fleet) = get(
        &app,
        &format!("/api/v1/hosts?from={}&to={}", at(0), at(180)),
    );
    assert_eq!(
        (
            status,
            fleet["schema_version"].as_u64(),
            fleet["hosts_left_out"].as_u64()
        ),
        (200, Some(2), Some(0))
    );
    let hosts: Vec<&str> = fleet["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|h| h["host"].as_str())
        .collect();
    assert_eq!(hosts, ["<b>x", "h"], "equally slow: by name");
    let of = |host: &str| {
        fleet["devices"]
            .as_array()
            .unwrap()
            .iter()
            .find(|d| d["host"] == host)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (of("h")["ios"].as_i64(), of("<b>x")["ios"].as_i64()),
        (Some(180 * IOS_PER_S), Some(120 * IOS_PER_S))
    );
    assert_eq!(of("h")["lost_s"], Value::Null, "two disks are no peers");
    assert_eq!(of("h")["read_us"], serde_json::json!(1000.0));
    assert_eq!(
        (&fleet["findings"], &fleet["kinds"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
    let usual = get(&app, "/api/v1/hosts").1;
    assert_eq!(
        usual["to_unix_s"].as_f64(),
        Some((EPOCH / S + 420) as f64),
        "up to the newest recording's end"
    );
    let (status, problem) = get(
        &app,
        &format!("/api/v1/hosts?from={}&to={}", at(-900), at(-600)),
    );
    assert!(
        status == 422 && problem["detail"].as_str().unwrap().contains("rollups"),
        "{problem}"
    );
    assert_eq!(get(&app, "/api/v1/hosts?at=now").0, 400);
}

#[test]
fn findings_of_hosts_are_ranked_over_all_of_them() {
    let (dir, app) = lake();
    record_of(dir.path(), "<b>x", 0, 120);
    let put = |host: &str, at_s: i64, kind: &'static str, severity: Severity| {
        let finding = StoredFinding {
            from_ns: at_s * S,
            to_ns: (at_s + 5) * S,
            open: at_s == 50,
            kind: kind.into(),
            severity,
            device: Some("sda".to_owned()),
            summary: "<b>e".to_owned(),
            evidence: serde_json::Map::new(),
        };
        let path = dir
            .path()
            .join(Root::host_directory(host))
            .join(Root::recording_directory(EPOCH));
        put_finding(&path, Access::OWNER, &finding).unwrap();
    };
    (0..25).for_each(|i| put("h", i, "microburst", Severity::Info));
    put("h", 50, "stall", Severity::Critical);
    put("<b>x", 40, "stall", Severity::Warning);
    let (status, fleet) = get(
        &app,
        &format!("/api/v1/hosts?from={}&to={}", at(0), at(180)),
    );
    assert_eq!(
        (status, fleet["findings_left_out"].as_u64()),
        (200, Some(6)),
        "20 of the 26 of one host"
    );
    let start_unix_s = (EPOCH / S + 50) as f64;
    let worst = serde_json::json!({
        "host": "h", "device": "sda", "kind": "stall", "severity": "critical", "summary": "<b>e",
        "start_unix_s": start_unix_s, "end_unix_s": start_unix_s + 5.0, "open": true,
    });
    assert_eq!(
        (&fleet["findings"][0], &fleet["findings"][1]["host"]),
        (&worst, &"<b>x".into())
    );
    let kinds = serde_json::json!([
        { "kind": "stall", "severity": "critical", "host_count": 2, "finding_count": 2 },
        { "kind": "microburst", "severity": "info", "host_count": 1, "finding_count": 25 },
    ]);
    assert_eq!(fleet["kinds"], kinds);
    assert_eq!(
        (
            &fleet["hosts"][1]["host"],
            &fleet["hosts"][1]["finding_count"]
        ),
        (&"h".into(), &26.into())
    );
    for name in ["meta.json", "meta.json.bak"] {
        std::fs::write(
            dir.path()
                .join(format!("host=h/start_ns={}", EPOCH + 300 * S))
                .join(name),
            "{",
        )
        .unwrap();
    }
    let (_, fleet) = get(
        &app,
        &format!("/api/v1/hosts?from={}&to={}", at(0), at(180)),
    );
    assert_eq!(
        fleet["hosts_unread"],
        serde_json::json!([]),
        "part of it can be read"
    );
    assert!(
        fleet["notes"][0]
            .as_str()
            .unwrap()
            .contains("meta.json: damaged"),
        "{}",
        fleet["notes"]
    );
}

#[test]
fn hosts_do_not_lead_out_of_the_root() {
    let (_dir, app) = lake();
    let long = "x".repeat(255);
    for host in ["..", "../..", "/etc", "%2e%2e", "h/../..", "nobody", &long] {
        let encoded = host.replace('%', "%25").replace('/', "%2F");
        let (status, said) = get(&app, &format!("/api/v1/recordings?host={encoded}"));
        assert_eq!(status, 422, "{host}: {said}");
    }
    assert_eq!(get(&app, "/api/v1/recordings?host=h").0, 200);
    assert_eq!(get(&app, "/api/v1/recordings?hots=h").0, 400);
    assert_eq!(get(&app, "/api/v1/devices?at=2001-10-10T00:00:00Z").0, 422);
}

#[test]
fn work_that_takes_too_long_ends_and_is_said() {
    let (dir, _) = lake();
    let slow = App {
        time_limit: std::time::Duration::ZERO,
        ..App::new(dir.path().to_owned(), Arc::default(), Rules::default())
    };
    let (status, problem) = get(&Arc::new(slow), "/api/v1/recordings");
    assert_eq!(
        (status, problem["title"].as_str()),
        (503, Some("Service Unavailable")),
        "{problem}"
    );
}

#[test]
fn series_of_sums_and_of_single_ios_say_the_same_and_go_on_over_a_gap() {
    let (_dir, app) = lake();
    let query = |more: &str| {
        get(
            &app,
            &format!("/api/v1/series?from={}&to={}&{more}", at(0), at(420)),
        )
    };
    let (status, minutes) = query("step=1m");
    assert_eq!(
        (status, minutes["step_s"].as_f64()),
        (200, Some(60.0)),
        "{minutes}"
    );
    let columns = &minutes["columns"];
    let epoch_s = (EPOCH / S) as f64;
    let ends: Vec<f64> = [60, 120, 180, 360, 420]
        .iter()
        .map(|s| epoch_s + *s as f64)
        .collect();
    assert_eq!(
        columns["time_unix_s"],
        serde_json::json!(ends),
        "nothing between the recordings"
    );
    assert_eq!(columns["r_per_s"], serde_json::json!(vec![10.0; 5]));
    assert_eq!(columns["w_us"], serde_json::json!(vec![1000.0; 5]));
    let (_, fine) = query("step=500ms&extended=true");
    assert_eq!(fine["columns"]["r_per_s"].as_array().unwrap().len(), 600);
    assert_eq!(
        fine["columns"]["r_max_us"][0],
        serde_json::json!(1000.0),
        "single I/Os know the longest"
    );
    let (_, sums) = query("step=2s&extended=true&by=device");
    let longest_us = sums["columns"]["r_max_us"][0].as_f64().unwrap();
    assert!(
        (longest_us - 1000.0).abs() <= 30.0,
        "sums know it within 3 %: {longest_us}"
    );
    assert_eq!(sums["columns"]["r_p50_us"], sums["columns"]["r_p99_us"]);
    let fields = fine["columns"].as_object().unwrap();
    for column in ["r_p90_us", "d_per_s", "f_per_s", "busy_write_percent"] {
        assert!(fields.contains_key(column), "{column} is in {fields:?}");
    }
    assert_eq!(sums["columns"]["device"][0], "sd\u{202e}a");
    let (_, processes) = query("step=1m&by=process");
    assert_eq!(processes["columns"]["process"][0], "<b>e\u{1b}]0;vil[42]");
    let usual = query("").1["step_s"].as_f64();
    assert_eq!(usual, Some(0.5), "at most 900 rows of 300 s");
}

#[test]
fn series_are_refused_with_what_would_do() {
    let (_dir, app) = lake();
    let refused = |more: &str| {
        let (status, said) = get(
            &app,
            &format!("/api/v1/series?from={}&to={}&{more}", at(0), at(420)),
        );
        (status, said["detail"].as_str().unwrap().to_owned())
    };
    assert!(matches!(refused("step=1ms"), (422, said) if said.contains("longer step")));
    assert!(matches!(refused("device=nosuch"), (422, said) if said.contains("no such device")));
    assert!(matches!(refused("by=moon"), (400, said) if said.contains("all, device, process")));
    assert!(matches!(refused("step=5"), (400, said) if said.contains("step: expected a duration")));
    let (status, gap) = get(
        &app,
        &format!("/api/v1/series?from={}&to={}", at(200), at(250)),
    );
    assert!(
        status == 422
            && gap["detail"]
                .as_str()
                .unwrap()
                .contains("nearest one is from=2026"),
        "{gap}"
    );
    let (_, csv) = get(
        &app,
        &format!(
            "/api/v1/series?from={}&to={}&step=1m&format=csv&device=8:0",
            at(0),
            at(120)
        ),
    );
    assert!(
        csv.as_str()
            .unwrap()
            .starts_with("time,time_unix_s,time_s,r_per_s,")
            && csv.as_str().unwrap().lines().count() == 3,
        "{csv}"
    );
}

#[test]
fn every_io_is_in_the_heat_map_once_whatever_it_is_made_of() {
    let (_dir, app) = lake();
    let heat = |more: &str| {
        get(
            &app,
            &format!("/api/v1/heatmap?from={}&to={}&{more}", at(0), at(420)),
        )
        .1
    };
    for (more, ios) in [
        ("", 6000),
        ("class=read", 3000),
        ("part=device&width=10", 6000),
        ("class=flush", 0),
        ("part=queue", 6000),
    ] {
        let map = heat(more);
        assert_eq!(map["ios"].as_i64(), Some(ios), "{more}: {map}");
        let counts = map["counts"].as_array().unwrap();
        let rows = map["latency_us"].as_array().unwrap();
        assert!(
            counts
                .iter()
                .all(|c| c.as_array().unwrap().len() + 1 == rows.len())
        );
        let sum: i64 = counts
            .iter()
            .flat_map(|c| c.as_array().unwrap())
            .map(|n| n.as_i64().unwrap())
            .sum();
        assert_eq!(sum, ios);
    }
    // 1 ms in total: its row holds it.
    let map = heat("width=1&height=20");
    let row = map["counts"][0]
        .as_array()
        .unwrap()
        .iter()
        .position(|n| n.as_i64() == Some(6000))
        .unwrap();
    let edge = |i: usize| map["latency_us"][i].as_f64().unwrap();
    assert!(
        edge(row) <= 1000.0 * 1.04 && edge(row + 1) >= 1000.0 / 1.04,
        "{map}"
    );
    assert_eq!(get(&app, "/api/v1/heatmap?width=99999").0, 400);
}

#[test]
fn single_ios_come_with_names_and_too_many_with_the_stretch_that_fits() {
    let (_dir, app) = lake();
    let (status, ios) = get(&app, &format!("/api/v1/ios?from={}&to={}", at(10), at(11)));
    assert_eq!(
        (status, ios["ios"].as_i64()),
        (200, Some(IOS_PER_S)),
        "{ios}"
    );
    let columns = &ios["columns"];
    assert_eq!(
        (&columns["process"][0], &columns["pid"][0]),
        (&"<b>e\u{1b}]0;vil".into(), &42.into())
    );
    assert_eq!(
        (columns["total_us"][0].as_f64(), &columns["file"][0]),
        (Some(1000.0), &Value::Null)
    );
    let (status, refused) = get(
        &app,
        &format!("/api/v1/ios?from={}&to={}&limit=5", at(10), at(11)),
    );
    let said = refused["detail"].as_str().unwrap();
    let nearest = said.split_once(" is ").unwrap().1;
    assert_eq!(status, 422);
    let (status, fits) = get(&app, &format!("/api/v1/ios?{nearest}&limit=5"));
    assert_eq!((status, fits["ios"].as_i64()), (200, Some(5)), "{fits}");
}

#[test]
fn ios_are_chosen_by_process_file_and_class() {
    let (_dir, app) = lake();
    let time = format!("from={}&to={}", at(10), at(40));
    let ios = |choice: &str| {
        let (status, all) = get(&app, &format!("/api/v1/ios?{time}&limit=100000{choice}"));
        assert_eq!(status, 200, "{all}");
        all["ios"].as_i64().unwrap()
    };
    let all = ios("");
    let of_42 = ios("&process=42");
    assert!(of_42 > 0 && ios("&process=4711") == 0);
    assert_eq!(ios("&class=read") + ios("&class=write"), all);
    let (status, map) = get(&app, &format!("/api/v1/heatmap?{time}&process=42&width=3"));
    assert_eq!((status, map["ios"].as_i64()), (200, Some(of_42)), "{map}");
    let (status, rows) = get(
        &app,
        &format!("/api/v1/series?{time}&process=4711&step=10s"),
    );
    assert_eq!(status, 200, "{rows}");
    let rates = rows["columns"]["r_per_s"].as_array().unwrap();
    assert!(rates.iter().all(|r| r.as_f64() == Some(0.0)), "{rows}");
    assert_eq!(get(&app, &format!("/api/v1/ios?{time}&class=swap")).0, 400);
}

#[test]
fn reports_are_those_of_the_command_and_findings_know_their_time() {
    let (_dir, app) = lake();
    let (status, report) = get(
        &app,
        &format!("/api/v1/report?from={}&to={}", at(0), at(180)),
    );
    assert_eq!(
        (status, report["recording"]["ios"].as_i64()),
        (200, Some(180 * IOS_PER_S)),
        "{report}"
    );
    let (status, spans) = get(
        &app,
        &format!("/api/v1/report?from={}&to={}", at(0), at(420)),
    );
    assert_eq!(
        (status, spans["recording"]["ios"].as_i64()),
        (200, Some(300 * IOS_PER_S)),
        "two recordings as one: {spans}"
    );
    let gap = spans.to_string().contains("not-recorded");
    assert!(gap, "what is between them is no idle time: {spans}");
    let (status, found) = get(
        &app,
        &format!("/api/v1/findings?from={}&to={}", at(0), at(420)),
    );
    assert_eq!(
        (status, found["schema_version"].as_i64()),
        (200, Some(2)),
        "{found}"
    );
    assert!(
        found["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|f| f["start"].is_string() && f["kind"].is_string())
    );
}

#[test]
fn hostile_names_leave_as_escapes_of_json() {
    let (_dir, app) = lake();
    let response = block_on(async {
        use http_body_util::BodyExt as _;
        use tower::ServiceExt as _;
        let uri = format!(
            "/api/v1/series?from={}&to={}&step=1m&by=device",
            at(0),
            at(60)
        );
        let request = axum::http::Request::get(uri)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let response = super::super::router(Arc::clone(&app))
            .oneshot(request)
            .await
            .unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    });
    let text = std::str::from_utf8(&response).unwrap();
    assert!(
        text.contains("sd\\u202ea") && !text.contains('\u{202e}') && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn the_description_says_what_handlers_take_and_give() {
    let (_dir, app) = lake();
    let (status, document) = get(&app, "/api/v1/openapi.json");
    assert_eq!((status, document["openapi"].as_str()), (200, Some("3.1.0")));
    let (_, index) = get(&app, "/");
    let index = index.as_str().unwrap();
    for e in ENDPOINTS {
        assert!(
            document["paths"][e.path][e.method].is_object(),
            "{}",
            e.path
        );
        assert!(index.contains(&format!("\n{} ", e.path)), "{}", e.path);
    }
    let documents = ENDPOINTS
        .iter()
        .filter(|e| e.method == "get" && !e.keys.is_empty());
    for e in documents {
        let at = match e.names().contains(&"at") {
            true => format!("?at={}", at(60)),
            false => String::new(),
        };
        let (status, answer) = get(&app, &format!("{}{at}", e.path));
        assert_eq!(status, 200, "{}: {answer}", e.path);
        let keys: std::collections::BTreeSet<&str> = answer
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, e.keys.iter().copied().collect(), "{}", e.path);
        let described = document["paths"][e.path]["get"]["parameters"].as_array();
        assert_eq!(described.unwrap().len(), e.parameters.len());
        if e.parameters.is_empty() {
            continue;
        }
        let (status, said) = get(&app, &format!("{}?nosuch=1", e.path));
        let detail = said["detail"].as_str().unwrap();
        assert!(
            status == 400 && detail.contains(&e.names().join(", ")),
            "{said}"
        );
    }
}

/// Values of a parameter at its limits; none of one that has no limits.
fn declared_values(shape: Shape) -> Vec<String> {
    match shape {
        Shape::OneOf(names) => names.iter().map(|name| (*name).to_owned()).collect(),
        Shape::Number(least, most) => vec![least.to_string(), most.to_string()],
        Shape::Text | Shape::Repeated => Vec::new(),
    }
}

/// Values just beyond them, and how they are refused.
fn refused_values(shape: Shape) -> (Vec<String>, String) {
    match shape {
        Shape::OneOf(names) => (vec!["nosuch".to_owned()], names.join(", ")),
        Shape::Number(least, most) => (
            vec![(least - 1).to_string(), (most + 1).to_string()],
            format!("a number from {least} to {most}"),
        ),
        Shape::Text | Shape::Repeated => (Vec::new(), String::new()),
    }
}

#[test]
fn what_is_declared_is_accepted_and_nothing_else() {
    let (_dir, app) = lake();
    for e in ENDPOINTS.iter().filter(|e| e.method == "get") {
        for p in e.parameters {
            let address = format!("{}?from={}&to={}&{}", e.path, at(0), at(20), p.name);
            for value in declared_values(p.shape) {
                let (status, answer) = get(&app, &format!("{address}={value}"));
                assert_ne!(status, 400, "{address}={value}: {answer}");
            }
            // The page at `/` reads its address itself.
            if e.path == "/" {
                continue;
            }
            let (values, expected) = refused_values(p.shape);
            for value in values {
                let (status, answer) = get(&app, &format!("{address}={value}"));
                let detail = format!("{}: expected {expected}", p.name);
                assert_eq!(status, 400, "{address}={value}");
                assert_eq!(answer["detail"].as_str(), Some(&*detail));
            }
        }
    }
}

#[test]
fn without_a_time_a_question_is_about_the_last_minutes_that_were_recorded() {
    let (dir, app) = lake();
    for path in ["series", "heatmap", "ios", "actors", "findings"] {
        let (status, answer) = get(&app, &format!("/api/v1/{path}"));
        assert_eq!(status, 200, "{path}: {answer}");
    }
    assert_eq!(
        get(&app, "/api/v1/ios").1["ios"].as_i64(),
        Some(300 * IOS_PER_S),
        "all of the last 15 minutes before the end"
    );
    // The same of one recording by its own path, which begins less than 15 minutes before its end.
    let path = dir.path().join(Root::host_directory("h"));
    let path = path.join(Root::recording_directory(EPOCH));
    let one = Arc::new(App::new(path, Arc::default(), Rules::default()));
    assert_eq!(
        get(&one, "/api/v1/ios").1["ios"].as_i64(),
        Some(180 * IOS_PER_S)
    );
    let (status, said) = get(&one, &format!("/api/v1/series?from={}", at(1_000)));
    let detail = said["detail"].as_str().unwrap();
    assert!(
        status == 422
            && detail.starts_with("from 20")
            && detail.contains("Z: nothing was recorded then; there is 20")
            && !detail.contains("--"),
        "{said}"
    );
}

#[test]
fn without_the_token_names_of_processes_and_files_are_left_out_of_every_answer() {
    let (dir, _) = lake();
    let token = b"0123456789abcdef".to_vec();
    let rules = Rules {
        token: Some(token),
        how_to_see_names: Some("run this --with --rec 7".into()),
        ..Rules::default()
    };
    let root = dir.path().to_owned();
    let app = Arc::new(App::new(root, Arc::default(), rules));
    let host_dir = dir.path().join(Root::host_directory("h"));
    let recording = host_dir.join(Root::recording_directory(EPOCH));
    let finding = StoredFinding {
        from_ns: 10 * S,
        to_ns: 20 * S,
        open: false,
        kind: "stall".into(),
        severity: Severity::Warning,
        device: Some("sda".to_owned()),
        summary: "evil waits".to_owned(),
        evidence: [("process".to_owned(), "evil".into())]
            .into_iter()
            .collect(),
    };
    put_finding(&recording, Access::OWNER, &finding).unwrap();
    let get = |target: &str, more: &[(&str, &str)]| {
        let own = [("host", "localhost"), ("accept", "text/html")];
        let headers = [&own[..], more].concat();
        let (response, body) = block_on(ask(&app, "GET", target, &headers));
        (response.status().as_u16(), body.to_string())
    };
    let window = format!("from={}&to={}", at(0), at(180));
    let paths = [
        format!("/api/v1/ios?{window}&limit=10000"),
        format!("/api/v1/actors?{window}&by=process"),
        format!("/api/v1/series?{window}&by=process&step=60s"),
        format!("/api/v1/report?{window}"),
        format!("/api/v1/findings?{window}"),
        format!("/api/v1/hosts?{window}"),
        format!("/report?{window}"),
    ];
    let has_names = |text: &str| text.contains("0;vil") || text.contains("evil waits");
    let mut with_names = 0;
    for path in &paths {
        let (status, hidden) = get(path, &[]);
        // The page is there only where it was built.
        assert!(
            status == 200 || path.starts_with("/report?"),
            "{path}: {hidden}"
        );
        assert!(!has_names(&hidden), "{path}: {hidden}");
        let (_, shown) = get(path, &[("authorization", "Bearer 0123456789abcdef")]);
        with_names += usize::from(has_names(&shown));
        assert!(!shown.contains("run this"), "{path}");
    }
    assert!(
        with_names >= 4,
        "with the token they are there: {with_names}"
    );
    let (_, notes) = get(&paths[1], &[]);
    assert!(
        notes.contains("run this --with --rec 7") && notes.contains("42"),
        "{notes}"
    );
}

/// Six programs of one control group on one device, of which each waits for the others.
fn record_crowd(root: &Path) {
    let dev = DevId::new(8, 0);
    let mut writer = new_recording(root, "h", 0, Device::named("sda", dev));
    for i in 0..6000 {
        let who = i % 6;
        let begin_ns = i / 6 * 10_000_000;
        // All six come at once every 10 ms, and are served one after the other.
        let latency_ns = (who + 1) * 1_000_000;
        let io = Io::new(
            begin_ns + latency_ns,
            dev,
            Op::READ,
            4096,
            Some(0),
            latency_ns,
        );
        let io = Io {
            comm: Some(Comm::new(format!("secret{who}").as_bytes())),
            tgid: Some(100 + who as i32),
            cgroup: Some(5),
            origin: Origin::Direct,
            ..io
        };
        writer.push_ios(&[io]).unwrap();
    }
    writer.finish(10 * S, RecorderCost::default()).unwrap();
}

#[test]
fn without_the_token_waits_have_the_same_figures_and_no_names() {
    let dir = tempfile::tempdir().unwrap();
    record_crowd(dir.path());
    let rules = Rules {
        token: Some(b"0123456789abcdef".to_vec()),
        how_to_see_names: Some("log in".into()),
        ..Rules::default()
    };
    let app = Arc::new(App::new(dir.path().to_owned(), Arc::default(), rules));
    let get = |target: &str, more: &[(&str, &str)]| {
        let headers = [&[("host", "localhost")], more].concat();
        let (response, body) = block_on(ask(&app, "GET", target, &headers));
        assert_eq!(response.status().as_u16(), 200, "{target}: {body}");
        body
    };
    let window = format!("from={}&to={}", at(0), at(10));
    let figures = |document: &Value, list: &str| {
        let figure = |entry: &Value| {
            let keys = ["ios", "own_s", "undisturbed_s", "held_s", "device_s"];
            let mut own: Vec<String> = keys.map(|key| entry[key].to_string()).into();
            own.push(entry["victim"]["pid"].to_string());
            own.push(entry["harm"]["seconds"].to_string());
            own.push(entry["kind"].to_string());
            own
        };
        let entries = document[list].as_array().unwrap();
        let mut all: Vec<_> = entries.iter().map(figure).collect();
        all.sort();
        all
    };
    for (path, list) in [
        ("waits", "waits"),
        ("report", "waits"),
        ("report", "stories"),
        ("stories", "stories"),
    ] {
        let target = format!("/api/v1/{path}?{window}");
        let hidden = get(&target, &[]);
        let shown = get(&target, &[("authorization", "Bearer 0123456789abcdef")]);
        assert!(!hidden.to_string().contains("secret"), "{path}: {hidden}");
        assert!(shown.to_string().contains("secret"), "{path}: {shown}");
        assert!(!figures(&shown, list).is_empty(), "{path}");
        assert_eq!(figures(&hidden, list), figures(&shown, list), "{path}");
    }
    let ios = format!("/api/v1/ios?{window}&limit=10000");
    let hidden = get(&ios, &[]);
    let shown = get(&ios, &[("authorization", "Bearer 0123456789abcdef")]);
    assert!(!hidden.to_string().contains("secret"), "{hidden}");
    for key in ["wait_own_us", "wait_others_us", "wait_behind_pid"] {
        assert_eq!(hidden["columns"][key], shown["columns"][key], "{key}");
    }
}

#[test]
fn stretches_are_kept_for_those_with_the_token_and_reports_open_them() {
    let (dir, plain) = lake();
    let rules = Rules {
        token: Some(b"0123456789abcdef".to_vec()),
        ..Rules::default()
    };
    let host_dir = dir.path().join(Root::host_directory("h"));
    let access = iolens_core::private::Access::OWNER;
    let keeper = Keeper::new(dir.path(), &host_dir, 1 << 20, access);
    let snapshots = Snapshots::start(keeper).unwrap();
    let snapshots = Some(Arc::new(snapshots));
    let app = Arc::new(App {
        snapshots: snapshots.clone(),
        ..App::new(dir.path().to_owned(), Arc::default(), rules.clone())
    });
    let post = |app: &Arc<App>, from_s: i64, to_s: i64, token: &str| {
        let headers = [("host", "localhost"), ("authorization", token)];
        let target = format!("/api/v1/snapshot?from={}&to={}", at(from_s), at(to_s));
        let (response, body) = block_on(ask(app, "POST", &target, &headers));
        (response.status().as_u16(), body)
    };
    let right = "Bearer 0123456789abcdef";
    assert_eq!(post(&app, 100, 160, "Bearer no").0, 401);
    assert_eq!(
        post(&plain, 100, 160, right).0,
        403,
        "there is no token at all"
    );
    let (status, kept) = post(&app, 100, 320, right);
    assert_eq!(
        (status, kept["ios"].as_i64()),
        (200, Some(100 * IOS_PER_S)),
        "{kept}"
    );
    let name = format!("snapshots/host=h/start_ns={}", EPOCH + 100 * S);
    assert!(
        kept["name"] == name.as_str() && kept["disk_bytes"].as_i64() > Some(4096),
        "{kept}"
    );
    let keys: std::collections::BTreeSet<&str> = kept
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let described = ENDPOINTS
        .iter()
        .find(|e| e.path == "/api/v1/snapshot")
        .unwrap()
        .keys;
    assert_eq!(keys, described.iter().copied().collect());
    let copy = iolens_core::store::Recording::open(&dir.path().join(name)).unwrap();
    let report =
        crate::engine::report::plain(&copy, &(0..copy.end_ns()), &Caller::without_notes()).unwrap();
    assert_eq!(
        (copy.ios_stored() as i64, report.devices.devices.len()),
        (100 * IOS_PER_S, 1)
    );
    assert_eq!(post(&app, 100, 320, right).0, 422, "it is there already");
    let (status, said) = post(&app, 200, 290, right);
    assert!(
        status == 422
            && said["detail"]
                .as_str()
                .unwrap()
                .contains("no recording holds"),
        "{said}"
    );
    assert_eq!(post(&app, 160, 100, right).0, 400);
    assert_eq!(
        get(&app, "/api/v1/recordings").1["recordings"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "those of the root"
    );
    assert_eq!(get(&app, "/api/v1/snapshot?from=1&to=2").0, 405);
    // Questions have no time at all; a copy has some of its own.
    let hurried = Arc::new(App {
        snapshots,
        time_limit: std::time::Duration::ZERO,
        ..App::new(dir.path().to_owned(), Arc::default(), rules)
    });
    let (status, kept) = post(&hurried, 110, 320, right);
    assert_eq!(status, 200, "{kept}");
    assert_eq!(get(&hurried, "/api/v1/recordings").0, 503);
}

/// The body of an answer that is no JSON, and its type.
fn get_raw(app: &Arc<App>, uri: &str) -> (String, axum::body::Bytes) {
    block_on(async {
        use http_body_util::BodyExt as _;
        use tower::ServiceExt as _;
        let request = axum::http::Request::get(uri)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let response = super::super::router(Arc::clone(app))
            .oneshot(request)
            .await
            .unwrap();
        assert_eq!(response.status().as_u16(), 200, "{uri}");
        let of = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        (of, response.into_body().collect().await.unwrap().to_bytes())
    })
}

#[test]
fn long_tables_come_as_csv_and_arrow_with_the_same_rows() {
    let (_dir, app) = lake();
    for name in ["series", "ios", "actors", "findings"] {
        let uri = |format| {
            format!(
                "/api/v1/{name}?from={}&to={}&format={format}",
                at(0),
                at(10)
            )
        };
        let (of, csv) = get_raw(&app, &uri("csv"));
        assert!(of.starts_with("text/csv"), "{name}: {of}");
        let rows = std::str::from_utf8(&csv).unwrap().lines().count() - 1;
        let (of, stream) = get_raw(&app, &uri("arrow"));
        assert_eq!(of, "application/vnd.apache.arrow.stream");
        let batches = arrow_ipc::reader::StreamReader::try_new(&stream[..], None).unwrap();
        let columns = batches.schema().fields().len();
        let read: usize = batches.map(|b| b.unwrap().num_rows()).sum();
        assert_eq!(read, rows, "{name}");
        assert!(
            columns > 5 && (rows > 0 || name == "findings"),
            "{name}: {rows} rows of {columns} columns"
        );
        assert_eq!(get(&app, &uri("xml")).0, 400);
    }
}

#[test]
fn actors_add_up_and_marks_reach_the_recorder() {
    let (dir, app) = lake();
    let (status, found) = get(
        &app,
        &format!("/api/v1/actors?from={}&to={}", at(0), at(420)),
    );
    assert_eq!(
        (status, found["actors"][0]["name"].as_str()),
        (200, Some("<b>e\u{1b}]0;vil[42]")),
        "{found}"
    );
    assert_eq!(
        (
            found["actors"][0]["read"]["ios"].as_i64(),
            found["others"]["read"]["ios"].as_i64()
        ),
        (Some(3000), Some(0))
    );
    assert_eq!(found["actors"][0]["io_time_s"].as_f64(), Some(6.0));
    let (sender, marks) = std::sync::mpsc::sync_channel(1);
    let rules = Rules {
        token: Some(b"0123456789abcdef".to_vec()),
        ..Rules::default()
    };
    let app = Arc::new(App {
        marks: Some(sender),
        ..App::new(dir.path().to_owned(), Arc::default(), rules)
    });
    let post = |target: &str, token: &str| {
        let headers = [("host", "localhost"), ("authorization", token)];
        block_on(ask(&app, "POST", target, &headers))
            .0
            .status()
            .as_u16()
    };
    let right = "Bearer 0123456789abcdef";
    assert_eq!(post("/api/v1/mark?text=deploy", "Bearer no"), 401);
    assert!(marks.try_recv().is_err());
    assert_eq!(post("/api/v1/mark?text=deploy%20one", right), 200);
    assert_eq!(
        post("/api/v1/mark?text=two", right),
        503,
        "no recorder takes them"
    );
    assert_eq!(marks.try_recv().unwrap(), "deploy one");
    assert_eq!(post("/api/v1/mark?text=a%0Ab", right), 400);
    assert_eq!(post("/api/v1/mark", right), 400);
    assert_eq!(get(&app, "/api/v1/mark?text=x").0, 405);
}

/// 60 s in which a shop reads every 25 ms, and at every fourth read waits for a backup of another control group.
fn record_shop(root: &Path, from_s: i64) {
    record_shop_waiting(root, from_s, 60);
}

/// The same of 60 s, in the first `waits_s` of which it waits.
fn record_shop_waiting(root: &Path, from_s: i64, waits_s: i64) {
    const MS: i64 = 1_000_000;
    let dev = DevId::new(8, 0);
    let mut writer = new_recording(root, "h", from_s, Device::named("sda", dev));
    for i in 1..2400 {
        let at_ns = i * 25 * MS;
        let waits = i % 4 == 0 && at_ns < waits_s * S;
        let latency_ns = if waits { 20 * MS } else { MS / 10 };
        if waits {
            let done_ns = at_ns + latency_ns - MS / 10;
            let write = Io::new(done_ns, dev, Op::WRITE, 1 << 20, Some(0), 19 * MS);
            let write = Io {
                comm: Some(Comm::new(b"backup")),
                tgid: Some(12),
                cgroup: Some(6),
                origin: Origin::Writeback,
                ..write
            };
            writer.push_ios(&[write]).unwrap();
        }
        let read = Io::new(at_ns + latency_ns, dev, Op::READ, 4096, Some(0), latency_ns);
        let read = Io {
            comm: Some(Comm::new(b"shop")),
            tgid: Some(77),
            cgroup: Some(5),
            fs_dev: Some(dev.0),
            ino: Some(9),
            origin: Origin::Direct,
            ..read
        };
        writer.push_ios(&[read]).unwrap();
    }
    writer.finish(60 * S, RecorderCost::default()).unwrap();
}

#[test]
fn waits_of_two_recordings_add_up_by_process_control_group_and_file() {
    let dir = tempfile::tempdir().unwrap();
    record_shop(dir.path(), 0);
    record_shop(dir.path(), 100);
    let app = app_over(dir.path());
    let ask_for = |to_s: i64, rest: &str| {
        let times = format!("from={}&to={}", at(0), at(to_s));
        get(&app, &format!("/api/v1/waits?{times}{rest}"))
    };
    let (status, one) = ask_for(60, "");
    assert_eq!(status, 200, "{one}");
    let (_, both) = ask_for(160, "");
    assert_eq!(
        (&both["by"], &both["notes"]),
        (&"process".into(), &Value::Array(vec![]))
    );
    assert_eq!(both["start_unix_s"].as_f64(), Some(EPOCH as f64 / 1e9));
    let shop = &both["waits"][0];
    assert_eq!(shop["victim"]["process"], "shop");
    assert_eq!(shop["behind"][0]["process"], "backup");
    let behind_s = |document: &Value| {
        document["waits"][0]["behind"][0]["seconds"]
            .as_f64()
            .unwrap()
    };
    assert!(behind_s(&one) > 10.0, "{one}");
    assert!(
        (behind_s(&both) - 2.0 * behind_s(&one)).abs() < 1e-6,
        "{both}"
    );
    assert_eq!(shop["ios"], 2 * 2399);

    let (_, by_cgroup) = ask_for(160, "&by=cgroup");
    let victim = &by_cgroup["waits"][0]["victim"];
    assert_eq!(
        (&victim["cgroup"], &victim["process"]),
        (&"5".into(), &Value::Null)
    );
    let (_, by_file) = ask_for(160, "&by=file");
    assert_eq!(by_file["waits"][0]["victim"]["file"], "inode 9 on sda");
    let (status, problem) = ask_for(160, "&by=device");
    assert_eq!(status, 400, "{problem}");
    let (status, _) = ask_for(160, "&device=sdb");
    assert_eq!(status, 422);
}

#[test]
fn waits_of_intervals_add_up_to_those_of_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    record_shop(dir.path(), 0);
    record_shop(dir.path(), 100);
    let app = app_over(dir.path());
    let times = format!("from={}&to={}", at(0), at(160));
    let ask_for = |step: &str| get(&app, &format!("/api/v1/waits?{times}&step={step}"));
    let (status, found) = ask_for("10s");
    assert_eq!(status, 200, "{found}");
    let io_time_s = |block: &Value| -> f64 {
        let entries = block["waits"].as_array().unwrap();
        let sum: f64 = entries
            .iter()
            .map(|e| e["io_time_s"].as_f64().unwrap())
            .sum();
        sum + block["waits_others"]["io_time_s"].as_f64().unwrap()
    };
    let intervals = found["intervals"].as_array().unwrap();
    assert_eq!(intervals.len(), 12, "{found}");
    let starts: Vec<f64> = intervals
        .iter()
        .map(|i| i["start_unix_s"].as_f64().unwrap() - (EPOCH / S) as f64)
        .collect();
    assert_eq!((starts[0], starts[5], starts[6]), (0.0, 50.0, 100.0));
    let sum: f64 = intervals.iter().map(io_time_s).sum();
    assert!((sum - io_time_s(&found)).abs() < 1e-6, "{sum} {found}");
    let worst = &intervals[3]["waits"][0];
    assert_eq!(worst["victim"]["process"], "shop");
    assert_eq!(worst["behind"][0]["process"], "backup");
    for (step, expected) in [("1us", 400), ("soon", 400), ("10ms", 422)] {
        let (status, problem) = ask_for(step);
        assert_eq!(status, expected, "{step}: {problem}");
    }
}

#[test]
fn waits_stories_and_actors_of_some_ios_are_of_these_alone() {
    let dir = tempfile::tempdir().unwrap();
    record_shop(dir.path(), 0);
    let app = app_over(dir.path());
    let times = format!("from={}&to={}", at(0), at(60));
    let ask_for = |what: &str, rest: &str| get(&app, &format!("/api/v1/{what}?{times}{rest}")).1;
    let all = ask_for("waits", "");
    let shop = ask_for("waits", "&process=shop");
    assert_eq!(all["waits"].as_array().unwrap().len(), 2, "{all}");
    // It waits for the backup, whose own waits are not shown.
    assert_eq!(shop["waits"], Value::Array(vec![all["waits"][0].clone()]));
    for choice in ["&class=read", "&process=77", "&file=8:0%20inode%209"] {
        assert_eq!(ask_for("waits", choice)["waits"], shop["waits"], "{choice}");
    }
    let writes = ask_for("waits", "&class=write&step=60s");
    assert_eq!(writes["waits"][0]["victim"]["process"], "backup");
    assert_eq!(writes["intervals"][0]["waits"], writes["waits"]);

    let stories = |rest: &str| {
        ask_for("stories", rest)["stories"]
            .as_array()
            .unwrap()
            .len()
    };
    let n = stories("");
    assert!(n > 0);
    for (choice, expected) in [
        ("&process=shop", n),
        ("&process=backup", n),
        ("&class=read", n),
        ("&class=write", 0),
        ("&process=other", 0),
        // The file of shop's reads; backup's writes are of none.
        ("&file=8:0%20inode%209", n),
        ("&file=8:0%20inode%209&process=shop", n),
        ("&file=8:0%20inode%209&process=backup", 0),
        ("&file=8:0%20inode%2010", 0),
    ] {
        assert_eq!(stories(choice), expected, "{choice}");
    }
    let actors = ask_for("actors", "&by=process&process=shop");
    assert_eq!(actors["actors"].as_array().unwrap().len(), 1, "{actors}");
    assert_eq!(actors["actors"][0]["name"], "shop[77]");
}

#[test]
fn waits_of_what_the_size_limit_removed_are_those_of_the_table() {
    use iolens_core::analysis::Window;
    use iolens_core::analysis::waits::{Grouping, WaitBinsBuilder, wait_rows};
    use iolens_core::model::{LossReason, Lost, Observation};

    let dir = tempfile::tempdir().unwrap();
    record_shop(dir.path(), 0);
    let app = app_over(dir.path());
    let target = format!("/api/v1/waits?from={}&to={}", at(0), at(60));
    let (_, of_ios) = get(&app, &target);
    let path = dir
        .path()
        .join(Root::host_directory("h"))
        .join(Root::recording_directory(EPOCH));
    let recording = iolens_core::store::Recording::open(&path).unwrap();
    let mut builder = WaitBinsBuilder::new(Window::OPEN, Grouping::Process, 0, S);
    for ios in recording.ios(0..i64::MAX, iolens_core::store::IoColumns::ALL) {
        ios.unwrap().iter().for_each(|io| builder.push(io));
    }
    let mut rows = Vec::new();
    for slot in builder
        .finish()
        .chunk_by(|a, b| a.from_ns / (10 * S) == b.from_ns / (10 * S))
    {
        rows.extend(wait_rows(slot, 10, slot[0].from_ns / (10 * S) * (10 * S)));
    }

    // The same recording without its I/Os.
    let removed = tempfile::tempdir().unwrap();
    let host = removed.path().join(Root::host_directory("h"));
    std::fs::create_dir_all(&host).unwrap();
    let path = host.join(Root::recording_directory(EPOCH));
    let meta = recording.meta().clone();
    let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
    assert!(writer.write_waits(10, &rows).unwrap());
    writer
        .push(&Observation::Lost(Lost {
            to_ns: 60 * S,
            ..Lost::somewhere(0, 60 * S, LossReason::Retention)
        }))
        .unwrap();
    writer.finish(60 * S, RecorderCost::default()).unwrap();
    let app = Arc::new(App::new(
        removed.path().to_owned(),
        Arc::default(),
        Rules::default(),
    ));
    let (status, of_table) = get(&app, &target);
    assert_eq!(status, 200, "{of_table}");
    let number = |document: &Value, key: &str| document["waits"][0][key].as_f64().unwrap();
    for key in [
        "ios",
        "delayed_ios",
        "io_time_s",
        "undisturbed_s",
        "device_s",
        "worst_us",
    ] {
        let difference = number(&of_table, key) - number(&of_ios, key);
        assert!(difference.abs() < 1e-6, "{key}: {of_table} {of_ios}");
    }
    assert_eq!(of_table["waits"][0]["victim"], of_ios["waits"][0]["victim"]);
    let behind = |document: &Value| document["waits"][0]["behind"][0].clone();
    assert_eq!(behind(&of_table)["process"], behind(&of_ios)["process"]);
    assert_eq!(behind(&of_table)["ios"], behind(&of_ios)["ios"]);
    assert_eq!(of_table["waits"][0]["service"], Value::Null);
    assert!(
        of_table["notes"][0]
            .as_str()
            .unwrap()
            .contains("sums of 10 s")
    );
}

#[test]
fn each_io_says_what_it_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    record_shop(dir.path(), 0);
    let app = app_over(dir.path());
    // The window is short; what came before it shows what a read takes undisturbed.
    let times = format!("from={}&to={}", at(30), at(31));
    let (status, found) = get(&app, &format!("/api/v1/ios?{times}&process=shop"));
    assert_eq!(status, 200, "{found}");
    let columns = &found["columns"];
    let number = |key: &str, i: usize| columns[key][i].as_f64().unwrap();
    let n = found["ios"].as_u64().unwrap() as usize;
    let mut behind_us = 0.0;
    for i in 0..n {
        let mut sum_us = 0.0;
        for part in [
            "undisturbed_us",
            "wait_others_us",
            "wait_own_us",
            "wait_held_us",
            "wait_device_us",
            "wait_unknown_us",
        ] {
            sum_us += number(part, i);
        }
        assert!((sum_us - number("total_us", i)).abs() < 1e-3, "{found}");
        let [start_ns, done_ns] =
            ["start_ns", "done_ns"].map(|key| columns[key][i].as_i64().unwrap());
        assert_eq!(
            (done_ns - start_ns) as f64,
            (number("total_us", i) * 1e3).round()
        );
        let done_unix_ns = found["since_unix_s"].as_i64().unwrap() * S + done_ns;
        // Reads complete 0.1 or 20 ms after a multiple of 25 ms.
        let late_ns = (done_unix_ns - EPOCH) % 25_000_000;
        assert!([100_000, 20_000_000].contains(&late_ns), "{late_ns}");
        assert!((number("done_unix_s", i) - done_unix_ns as f64 / 1e9).abs() < 1e-6);
        if number("wait_behind_us", i) > 0.0 {
            behind_us += number("wait_behind_us", i);
            assert_eq!(columns["wait_behind_process"][i], "backup");
            assert_eq!(columns["wait_behind_pid"][i], 12);
            assert_eq!(columns["wait_behind_origin"][i], "writeback");
        }
    }
    assert!(behind_us > 100_000.0, "{found}");

    // A table has no second from which its times count.
    let (_, table) = get_raw(
        &app,
        &format!("/api/v1/ios?{times}&process=shop&format=csv"),
    );
    let table = String::from_utf8(table.to_vec()).unwrap();
    let mut lines = table.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("done_unix_s,start_unix_ns,done_unix_ns,device,")
    );
    let done_unix_ns = found["since_unix_s"].as_i64().unwrap() * S
        + found["columns"]["done_ns"][0].as_i64().unwrap();
    let cell = lines.next().unwrap().split(',').nth(2).unwrap();
    assert_eq!(cell, done_unix_ns.to_string());
}

#[test]
fn a_heat_map_says_how_much_of_each_column_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    record_shop(dir.path(), 0);
    record_shop(dir.path(), 100);
    let app = app_over(dir.path());
    // Recorded are 30 to 60 s and 100 to 160 s.
    let times = format!("from={}&to={}", at(30), at(160));
    let (status, found) = get(&app, &format!("/api/v1/heatmap?{times}&width=13"));
    assert_eq!(status, 200, "{found}");
    let recorded: Vec<f64> = found["recorded_s"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s.as_f64().unwrap())
        .collect();
    let full = [10.0; 3];
    assert_eq!(recorded, [&full[..], &[0.0; 4], &[10.0; 6]].concat());
    let (_, found) = get(&app, &format!("/api/v1/heatmap?{times}&width=4"));
    let recorded: Vec<f64> = found["recorded_s"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s.as_f64().unwrap())
        .collect();
    assert_eq!(recorded, [30.0, 0.0, 27.5, 32.5]);
    // Whole seconds stay what they are where less is recorded.
    for (width, columns) in [(90, 65), (30, 22)] {
        let times = format!("from={}&to={}", at(30), at(210));
        let (_, found) = get(&app, &format!("/api/v1/heatmap?{times}&width={width}"));
        let counts = found["counts"].as_array().unwrap().len();
        let column_s = found["column_s"].as_f64().unwrap();
        assert_eq!((column_s, counts), (180.0 / f64::from(width), columns));
    }
}

#[test]
fn stories_say_when_in_unix_time_and_are_those_of_the_report() {
    let dir = tempfile::tempdir().unwrap();
    record_shop(dir.path(), 0);
    record_shop(dir.path(), 100);
    let app = app_over(dir.path());
    let times = |from_s: i64, to_s: i64| format!("from={}&to={}", at(from_s), at(to_s));
    let (status, found) = get(&app, &format!("/api/v1/stories?{}", times(0, 160)));
    assert_eq!(status, 200, "{found}");
    let stories = found["stories"].as_array().unwrap();
    assert_eq!(stories.len(), 2, "{found}");
    assert_eq!(stories[0]["id"], stories[1]["id"]);
    let (_, report) = get(&app, &format!("/api/v1/report?{}", times(100, 160)));
    let of_report = &report["stories"][0];
    let is_second = |s: &&Value| s["start_unix_s"].as_f64() > Some((EPOCH / S + 99) as f64);
    let second = stories.iter().find(is_second).unwrap();
    for (key, value) in of_report.as_object().unwrap() {
        assert_eq!(&second[key], value, "{key}");
    }
    let unix_s = second["recording_start_unix_s"].as_f64().unwrap();
    let start_s = second["start_s"].as_f64().unwrap();
    assert!((unix_s + start_s - second["start_unix_s"].as_f64().unwrap()).abs() < 1e-5);
}

#[test]
fn a_short_time_has_the_stories_that_meet_it() {
    let dir = tempfile::tempdir().unwrap();
    record_shop_waiting(dir.path(), 0, 12);
    let app = app_over(dir.path());
    let stories = |from: &str, to: &str| {
        let target = format!("/api/v1/stories?from={from}&to={to}");
        let (status, found) = get(&app, &target);
        assert_eq!(status, 200, "{found}");
        found
    };
    let all = stories(&at(0), &at(60));
    assert_eq!(all["notes"], Value::Array(vec![]));
    assert_eq!(all["stories"].as_array().unwrap().len(), 1, "{all}");
    // One of the waits, as the link of a worst moment shows it.
    let one = stories("2026-11-18T11:06:48.100Z", "2026-11-18T11:06:48.149Z");
    let story = &one["stories"][0];
    assert_eq!(story["id"], all["stories"][0]["id"], "{one}");
    assert_eq!(story["victim"]["process"], "shop");
    assert_eq!(
        one["notes"][0],
        "stories are those of the 20.0 s around this time that meet it"
    );
    // Its times are those of all that was analysed: some 10 s before and 4 s after.
    let begins_s = story["start_unix_s"].as_f64().unwrap() - (EPOCH / S) as f64;
    let ends_s = story["end_unix_s"].as_f64().unwrap() - (EPOCH / S) as f64;
    assert!(begins_s < 1.0 && ends_s > 11.0, "{story}");
    // Near by, but after the last wait.
    let later = stories(&at(15), &at(16));
    assert_eq!(later["stories"], Value::Array(vec![]), "{later}");
    assert_eq!(later["notes"].as_array().unwrap().len(), 1);
    let around = stories(&at(6), &at(26));
    assert_eq!(around["stories"].as_array().unwrap().len(), 1, "{around}");
    assert_eq!(around["notes"], Value::Array(vec![]));
}

#[test]
fn where_a_load_never_pauses_it_is_not_said_that_no_program_waited() {
    const MS: i64 = 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    let dev = DevId::new(8, 0);
    let mut writer = new_recording(dir.path(), "h", 0, Device::named("sda", dev));
    let read = |comm: &[u8], tgid, done_ns, bytes, latency_ns| Io {
        comm: Some(Comm::new(comm)),
        tgid: Some(tgid),
        origin: Origin::Direct,
        ..Io::new(done_ns, dev, Op::READ, bytes, Some(0), latency_ns)
    };
    // A scan keeps two reads in flight, and each read of the shop waits for one of them.
    let mut done_ns = 0;
    for i in 0..3000 {
        done_ns += 5 * MS;
        let scan = read(b"scan", 50, done_ns, 1 << 20, 10 * MS);
        writer.push_ios(&[scan]).unwrap();
        if i % 5 == 0 {
            done_ns += MS;
            let shop = read(b"shop", 60, done_ns, 4096, 6 * MS);
            writer.push_ios(&[shop]).unwrap();
        }
    }
    writer.finish(60 * S, RecorderCost::default()).unwrap();
    let app = app_over(dir.path());
    let ask = |rest: &str| {
        let times = format!("from={}&to={}", at(0), at(60));
        let (status, found) = get(&app, &format!("/api/v1/stories?{times}{rest}"));
        assert_eq!(status, 200, "{found}");
        assert_eq!(found["stories"], Value::Array(vec![]), "{found}");
        found["not_proven"].clone()
    };
    let all = ask("");
    assert_eq!(all[0]["process"], "shop", "{all}");
    assert_eq!(all[0]["beside"]["process"], "scan", "{all}");
    for of_shop in ["&process=shop", "&class=read", "&device=sda"] {
        assert_eq!(ask(of_shop), all, "{of_shop}");
    }
    for of_others in ["&process=scan", "&class=write"] {
        assert_eq!(ask(of_others), Value::Array(vec![]), "{of_others}");
    }
}

#[test]
fn time_without_io_is_recorded_as_far_as_the_recorder_has_come() {
    let dir = tempfile::tempdir().unwrap();
    let dev = DevId::new(8, 0);
    let mut writer = new_recording(dir.path(), "h", 0, Device::named("sda", dev));
    let io = Io::new(5 * S, dev, Op::READ, 4096, Some(100), 1000);
    writer.push_ios(&[io]).unwrap();
    writer.tick(6 * S).unwrap();
    let app = app_over(dir.path());
    let series = |from_s: i64, to_s: i64| {
        let times = format!("from={}&to={}", at(from_s), at(to_s));
        get(&app, &format!("/api/v1/series?{times}&step=1s"))
    };
    // Whether the recorder that wrote this still runs is not known.
    let (status, problem) = series(20, 30);
    assert_eq!(status, 422, "{problem}");
    app.health.stored(GrowingRecording {
        start_unix_ns: EPOCH,
        stored_until_unix_ns: EPOCH + 40 * S,
    });
    let (status, idle) = series(20, 30);
    assert_eq!(status, 200, "{idle}");
    let rates = idle["columns"]["r_per_s"].as_array().unwrap();
    assert_eq!(rates.len(), 10, "{idle}");
    assert!(
        rates.iter().all(|rate| rate.as_f64() == Some(0.0)),
        "{idle}"
    );
    // A part of the time is known, and nothing after it.
    let (_, partly) = series(30, 60);
    let ends = partly["columns"]["time_unix_s"].as_array().unwrap();
    let last_s = ends.last().and_then(Value::as_f64);
    assert_eq!(last_s, Some((EPOCH / S + 40) as f64), "{partly}");
    assert_eq!(series(41, 60).0, 422);
    for path in ["waits", "actors", "stories", "heatmap", "ios"] {
        let target = format!("/api/v1/{path}?from={}&to={}", at(20), at(30));
        let (status, answer) = get(&app, &target);
        assert_eq!(status, 200, "{path}: {answer}");
    }
    // Another recording that was cut off ends where it did.
    let cut_off = new_recording(dir.path(), "h", 100, Device::named("sda", dev));
    drop(cut_off);
    assert_eq!(series(101, 120).0, 422);
}
