//! `report --json`: one document whose keys scripts rely on.

use std::collections::BTreeSet;

use iolens_core::analysis::files::FilesReport;
use iolens_core::analysis::{ClassSummary, Concurrency, DeviceSummary, Finding, FindingKind, Report};
use iolens_core::model::{Class, DevId, RecordingMeta};
use serde::Serialize;
use serde_json::{Map, Value};

use super::report_detail;

/// Version of the document's layout.
pub const SCHEMA_VERSION: u32 = 1;

/// What only the caller knows about the recording.
#[derive(Debug, Clone, Default)]
pub struct RecordingFacts {
    /// Where it lies, as the user named it.
    pub path: String,
    /// All its files together.
    pub disk_bytes: Option<u64>,
    /// All I/Os in it, inside the window or not.
    pub total_ios: Option<u64>,
    /// Devices above others that are recorded too: sums leave them out, or an I/O would count on each layer.
    pub layers: BTreeSet<DevId>,
}

/// The name of `dev`, or its number if the recording does not name it.
pub fn device_name(meta: &RecordingMeta, dev: DevId) -> String {
    meta.devices.iter().find(|d| d.id == dev).map_or_else(|| dev.to_string(), |d| d.name.clone())
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    recording: Recording<'a>,
    devices: Vec<DeviceBlock<'a>>,
    /// Devices together; none where no single I/O was recorded.
    sets: Vec<Value>,
    findings: Vec<FindingBlock<'a>>,
    /// What `iolens files --json` says under the same key; `null` if requests were not recorded.
    files: Option<&'a FilesReport>,
}

#[derive(Serialize)]
struct Recording<'a> {
    path: &'a str,
    host: Option<&'a str>,
    kernel: Option<&'a str>,
    start_unix_s: f64,
    duration_s: f64,
    from_s: f64,
    to_s: f64,
    source: String,
    /// `null` if nothing says how many.
    ios: Option<u64>,
    lost_ios: Option<u64>,
    /// Where and why, an entry for each reason.
    losses: Vec<Value>,
    censored_ios: u64,
    recorder: Recorder,
    limits: &'a [String],
}

#[derive(Serialize)]
struct Recorder {
    cpu_percent: Option<f64>,
    max_rss_bytes: Option<u64>,
    disk_bytes: Option<u64>,
    bytes_per_io: Option<f64>,
}

#[derive(Serialize)]
struct DeviceBlock<'a> {
    name: String,
    major: u32,
    minor: u32,
    read: &'a ClassSummary,
    write: &'a ClassSummary,
    discard: &'a ClassSummary,
    flush: &'a ClassSummary,
    busy_percent: Option<f64>,
    busy_read_percent: Option<f64>,
    busy_write_percent: Option<f64>,
    busy_both_percent: Option<f64>,
    busy_device_percent: Option<f64>,
    util_io_ticks_percent: Option<f64>,
    concurrency: &'a Concurrency,
    lost_ios: Option<u64>,
    /// What the other analyses say of it; `null` without single I/Os.
    detail: Option<Value>,
}

#[derive(Serialize)]
struct FindingBlock<'a> {
    kind: &'static str,
    device: Option<String>,
    start_s: f64,
    end_s: f64,
    severity: &'static str,
    summary: &'a str,
    evidence: Map<String, Value>,
}

/// What the recorder cost, in percent of one core over the recording's length.
pub(super) fn cpu_percent(meta: &RecordingMeta) -> Option<f64> {
    let seconds = meta.end_ns.filter(|ns| *ns > 0)? as f64 / 1e9;
    Some(100.0 * (meta.cost.cpu_s? + meta.cost.probe_cpu_s.unwrap_or(0.0)) / seconds)
}

/// Bytes on disk for each recorded I/O; `None` without I/Os.
pub(super) fn bytes_per_io(facts: &RecordingFacts) -> Option<f64> {
    let ios = facts.total_ios.filter(|n| *n > 0)?;
    Some(facts.disk_bytes? as f64 / ios as f64)
}

/// The document, indented, with a line end. `files` are the recording's file-level requests by class.
pub fn render(report: &Report, meta: &RecordingMeta, facts: &RecordingFacts, files: Option<&FilesReport>) -> String {
    let window = report.devices.window;
    let document = Document {
        schema_version: SCHEMA_VERSION,
        recording: Recording {
            path: &facts.path,
            host: meta.host.as_deref(),
            kernel: meta.kernel.as_deref(),
            start_unix_s: meta.start_unix_ns as f64 / 1e9,
            duration_s: window.len_s(),
            from_s: window.from_ns as f64 / 1e9,
            to_s: window.to_ns as f64 / 1e9,
            source: meta.source.to_string(),
            ios: report.devices.known_ios(),
            lost_ios: report.devices.lost_ios,
            losses: report.findings.iter().filter(|f| f.kind == FindingKind::LostEvents).map(loss).collect(),
            censored_ios: report.devices.censored_ios,
            recorder: Recorder {
                cpu_percent: cpu_percent(meta),
                max_rss_bytes: meta.cost.max_rss_bytes,
                disk_bytes: facts.disk_bytes,
                bytes_per_io: bytes_per_io(facts),
            },
            limits: &meta.limits,
        },
        devices: report.devices.devices.iter().map(|d| device(d, report, meta)).collect(),
        sets: report_detail::sets(report, meta),
        findings: report.findings.iter().map(|f| finding(f, meta)).collect(),
        files,
    };
    match serde_json::to_string_pretty(&document) {
        Ok(text) => text + "\n",
        // Plain structs with string keys cannot fail to serialise; an error would still be said, as JSON.
        Err(e) => format!("{}\n", serde_json::json!({ "error": e.to_string() })),
    }
}

fn device<'a>(d: &'a DeviceSummary, report: &Report, meta: &RecordingMeta) -> DeviceBlock<'a> {
    DeviceBlock {
        name: device_name(meta, d.dev),
        major: d.dev.major(),
        minor: d.dev.minor(),
        read: d.class(Class::Read),
        write: d.class(Class::Write),
        discard: d.class(Class::Discard),
        flush: d.class(Class::Flush),
        busy_percent: d.busy_percent,
        busy_read_percent: d.busy_read_percent,
        busy_write_percent: d.busy_write_percent,
        busy_both_percent: d.busy_both_percent,
        busy_device_percent: d.busy_device_percent,
        util_io_ticks_percent: report.util_io_ticks_percent.get(&d.dev).copied(),
        concurrency: &d.concurrency,
        lost_ios: d.lost_ios,
        detail: report.details.iter().find(|detail| detail.dev == d.dev).map(report_detail::detail),
    }
}

/// What a finding of losses says, for those who look at the quality of the data first.
fn loss(f: &Finding) -> Value {
    let evidence = |key: &str| f.evidence.get(key).cloned().unwrap_or_default();
    serde_json::json!({
        "reason": evidence("reason"), "ios": evidence("ios"), "intervals": evidence("intervals"),
        "start_s": f.from_ns as f64 / 1e9, "end_s": f.to_ns as f64 / 1e9,
    })
}

/// The device of a finding, or the devices of a link by the name that they have as a set; `None` if it is about all.
pub(super) fn finding_place(f: &Finding, meta: &RecordingMeta) -> Option<String> {
    if f.link.is_empty() { f.dev.map(|dev| device_name(meta, dev)) } else { Some(link_name(&f.link, meta)) }
}

/// The name of devices behind one link, as `--limit` takes it.
pub(super) fn link_name(devices: &[DevId], meta: &RecordingMeta) -> String {
    devices.iter().map(|dev| device_name(meta, *dev)).collect::<Vec<_>>().join("+")
}

fn finding<'a>(f: &'a Finding, meta: &RecordingMeta) -> FindingBlock<'a> {
    let mut evidence = f.evidence.clone();
    if !f.link.is_empty() {
        let names: Vec<String> = f.link.iter().map(|dev| device_name(meta, *dev)).collect();
        evidence.insert("link_devices".to_owned(), names.into());
    }
    FindingBlock {
        kind: f.kind.name(),
        device: finding_place(f, meta),
        start_s: f.from_ns as f64 / 1e9,
        end_s: f.to_ns as f64 / 1e9,
        severity: f.severity.name(),
        summary: &f.summary,
        evidence,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use iolens_core::analysis::{ReportBuilder, Window};
    use iolens_core::model::{Comm, Device, Io, LossReason, Lost, Op, Source};

    /// A device with a hostile name and writer, an unnamed one, a slow write, a failed read, a loss.
    pub fn sample() -> (Report, RecordingMeta, RecordingFacts) {
        let (a, b) = (DevId::new(8, 0), DevId::new(259, 3));
        let mut meta = RecordingMeta::new(Source::Ebpf, 1_700_000_000_500_000_000);
        meta.host = Some("box".to_owned());
        meta.kernel = Some("6.18.44".to_owned());
        meta.end_ns = Some(10_000_000_000);
        meta.devices = vec![Device::named("sd\x1b[31ma", a)];
        meta.cost.cpu_s = Some(0.05);
        meta.cost.max_rss_bytes = Some(50 << 20);
        let mut builder = ReportBuilder::new(Window::OPEN);
        for i in 0..100 {
            builder.push(&Io::new((i + 1) * 50_000_000, a, Op::READ, 4096, Some(1_000_000), 4_000_000));
        }
        let slow = Io::new(8_000_000_000, a, Op::WRITE, 1 << 20, Some(0), 2_000_000_000);
        builder.push(&Io { comm: Some(Comm::new(b"e\x1b]0;vil")), tgid: Some(4), ..slow });
        builder.push(&Io { error: Some(5), ..Io::new(9_000_000_000, b, Op::READ, 512, None, 1_000_000) });
        let (from_ns, to_ns, ios) = (1, 2, Some(7));
        builder.lost(&Lost {
            from_ns,
            to_ns,
            dev: Some(a),
            class: None,
            reason: LossReason::RingFull,
            ios,
            bytes: None,
            merges: None,
        });
        let facts = RecordingFacts {
            path: "x.iolens".to_owned(),
            disk_bytes: Some(1020),
            total_ios: Some(102),
            ..RecordingFacts::default()
        };
        (builder.finish(10_000_000_000), meta, facts)
    }

    #[test]
    fn the_document_has_the_promised_keys_and_null_for_the_unknown() {
        let (report, meta, facts) = sample();
        let doc: Value = serde_json::from_str(&render(&report, &meta, &facts, None)).expect("valid JSON");
        let rec = &doc["recording"];
        assert_eq!(
            (&rec["ios"], &rec["lost_ios"], &rec["source"], &rec["duration_s"]),
            (&102.into(), &7.into(), &"ebpf".into(), &10.0.into())
        );
        assert_eq!((&rec["recorder"]["cpu_percent"], &rec["recorder"]["bytes_per_io"]), (&0.5.into(), &10.0.into()));
        assert_eq!((&rec["losses"][0]["reason"], &rec["losses"][0]["ios"]), (&"ring-full".into(), &7.into()));
        let a = &doc["devices"][0];
        assert_eq!((&a["name"], &a["major"], &a["minor"]), (&"sd\x1b[31ma".into(), &8.into(), &0.into()));
        let read = &a["read"];
        for key in [
            "ios",
            "bytes",
            "mean_us",
            "p50_us",
            "p90_us",
            "p99_us",
            "p999_us",
            "max_us",
            "queue_mean_us",
            "device_mean_us",
            "sequential_percent",
        ] {
            for class in ["read", "write", "discard", "flush"] {
                assert!(a[class].as_object().expect("a class").contains_key(key), "{class}.{key}");
            }
        }
        assert_eq!(
            (&read["ios"], &read["mean_us"], &read["sequential_percent"]),
            (&100.into(), &5000.0.into(), &Value::Null)
        );
        assert_eq!((&a["discard"]["ios"], &a["discard"]["mean_us"]), (&0.into(), &Value::Null));
        assert_eq!((&a["busy_percent"], &a["util_io_ticks_percent"]), (&25.0.into(), &Value::Null));
        assert_eq!((&a["concurrency"]["p50"], &a["concurrency"]["max"]), (&0.into(), &1.into()));
        assert_eq!(
            (&doc["devices"][1]["name"], &doc["devices"][1]["read"]["queue_mean_us"]),
            (&"259:3".into(), &Value::Null)
        );
        let kinds: Vec<_> =
            doc["findings"].as_array().expect("an array").iter().map(|f| f["kind"].as_str().expect("text")).collect();
        assert_eq!(kinds, ["io-error", "slow-io", "lost-events"]);
        assert_eq!(doc["findings"][0]["device"], "259:3");
        let detail = &a["detail"];
        assert_eq!(detail["slots"]["all"][0]["slots"], 5000);
        assert_eq!(detail["streams"][0]["periodicity"]["verdict"], "periodic", "{}", detail["streams"][0]);
        assert_eq!(detail["attribution"]["bin_s"], 1.0);
        assert!(detail["capacity"]["state"].is_string() && detail["stages"]["d2c"]["n"] == 101, "{detail}");
        for key in ["max_ios_per_s_low", "knee_in_flight_high", "mix_load_percent", "ios_left_per_s", "models"] {
            assert!(detail["capacity"].as_object().expect("an object").contains_key(key), "{key}");
        }
        assert_eq!(doc["files"], Value::Null, "no requests were recorded");
    }

    #[test]
    fn devices_together_are_a_set() {
        let (report, meta, facts) = sample();
        let doc: Value = serde_json::from_str(&render(&report, &meta, &facts, None)).expect("valid JSON");
        let set = &doc["sets"][0];
        assert_eq!((&set["name"], &set["devices"]), (&"all".into(), &serde_json::json!(["sd\x1b[31ma", "259:3"])));
        assert_eq!((&set["busy_percent"], &set["max_busy_percent"]), (&25.01.into(), &25.0.into()));
        assert_eq!((&set["concurrency"]["max"], &set["slots"]["all"][0]["slots"]), (&1.into(), &5000.into()));
        let empty = ReportBuilder::new(Window::OPEN).finish(0);
        let doc: Value = serde_json::from_str(&render(&empty, &meta, &facts, None)).expect("valid JSON");
        assert_eq!(doc["sets"], serde_json::json!([]));
    }
}
