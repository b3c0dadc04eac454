//! `report --json`: one document whose keys scripts rely on.

use std::collections::{BTreeMap, BTreeSet};

use iolens_core::analysis::counters::imported::AllClasses;
use iolens_core::analysis::device::detail::{DeviceDetail, MAX_BURSTS};
use iolens_core::analysis::files::FilesReport;
use iolens_core::analysis::findings::{Evidence, evidence::LostEventsEvidence};
use iolens_core::analysis::{
    ClassSummary, Concurrency, DeviceSummary, Finding, FindingKind, Report, Severity,
};
use iolens_core::model::{Class, DevId, RecordingMeta, Source};
use serde::Serialize;
use serde_json::{Map, Value};

use super::SCHEMA_VERSION;
use super::actors::{self, ActorEntry, OtherEntry};
use super::escape;
use super::findings as words;
use super::indent::indented;
use super::report_detail::{self, Detail, SetBlock};
use super::stories::{self, ClearedEntry, NotProvenEntry, StoryEntry};
use super::times::Times;
use super::waits::{OtherWaits, WaitEntry, WaitsBlock};
use crate::engine::inventory::unrecorded_ns;
use crate::engine::part::Part;
use iolens_core::model::Names;

/// What only the caller knows about the recording.
#[derive(Debug, Clone, Default)]
pub struct RecordingFacts {
    /// Where it lies, as the user named it.
    pub path: String,
    /// All its files together.
    pub disk_bytes: Option<u64>,
    /// All I/Os in it, inside the window or not.
    pub total_ios: Option<u64>,
    /// For so long no recorder ran, between the recordings of which it was made.
    pub unrecorded_ns: i64,
    /// Devices above others that are recorded too, each with the names of those: sums leave them out, or an I/O would count
    /// on each layer.
    pub layers: BTreeMap<DevId, Vec<String>>,
    /// Devices of which the user asked for all details in JSON; none: the ones with most I/Os get them.
    pub detailed: BTreeSet<DevId>,
    /// Stories that the user does not want to see, by id.
    pub muted: BTreeSet<String>,
    /// The program of which the user asks whether the disk made it wait.
    pub victim: Option<String>,
    /// Options that choose the part in view, as they can be typed, each after a blank; empty: the part is all of it.
    pub window_options: String,
}

impl RecordingFacts {
    /// Of the recording that `part` is of.
    pub fn of(part: &Part) -> RecordingFacts {
        RecordingFacts {
            path: part.recording.path().display().to_string(),
            disk_bytes: Some(part.recording.disk_bytes()),
            total_ios: Some(part.recording.ios_stored()),
            unrecorded_ns: unrecorded_ns(&part.recording),
            layers: part.filter.layers.left_out().clone(),
            ..RecordingFacts::default()
        }
    }
}

/// Up to so many devices all have their details in JSON unless some are asked for; of more, so many do.
const MAX_ALL: usize = 8;
const MAX_OF_MORE: usize = 4;

/// Bursts listed of all devices where they were not asked for together, in each direction.
const MAX_BURSTS_LISTED: usize = MAX_BURSTS;

/// The devices whose details are given, and how many bursts of each stream.
fn detailed(report: &Report, asked: &BTreeSet<DevId>) -> (BTreeSet<DevId>, usize) {
    if !asked.is_empty() {
        return (asked.clone(), MAX_BURSTS);
    }
    let mut devices: Vec<&DeviceSummary> = report.devices.devices.iter().collect();
    devices.sort_by_key(|d| std::cmp::Reverse(d.ios()));
    let most = if devices.len() > MAX_ALL {
        MAX_OF_MORE
    } else {
        MAX_ALL
    };
    let busiest: BTreeSet<DevId> = devices.iter().take(most).map(|d| d.dev).collect();
    let bursts = MAX_BURSTS_LISTED / busiest.len().max(1);
    (busiest, bursts)
}

/// I/Os and bytes of the devices that sums leave out, as far as the report's own sums still hold them: those of imported
/// tables never do.
pub(super) fn counted_above(
    report: &Report,
    meta: &RecordingMeta,
    facts: &RecordingFacts,
) -> (u64, u64) {
    let devices = report.devices.devices.iter();
    let above = devices.filter(|d| is_above(d.dev, meta, facts));
    above.fold((0, 0), |(ios, bytes), d| (ios + d.ios(), bytes + d.bytes()))
}

/// Whether sums leave `dev` out.
pub(super) fn is_above(dev: DevId, meta: &RecordingMeta, facts: &RecordingFacts) -> bool {
    let tables = matches!(meta.source, Source::Import(_)) && facts.total_ios == Some(0);
    !tables && facts.layers.contains_key(&dev)
}

/// The name of `dev`, or its number if the recording does not name it.
pub fn device_name(meta: &RecordingMeta, dev: DevId) -> String {
    meta.device(dev)
        .map_or_else(|| dev.to_string(), |d| d.name.clone())
}

/// `iolens report --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ReportDocument<'a> {
    schema_version: u32,
    recording: Recording<'a>,
    devices: Vec<DeviceBlock<'a>>,
    /// Devices together; none where no single I/O was recorded.
    sets: Vec<SetBlock<'a>>,
    /// I/O by process and device, those with most I/O time first: at most 200 entries, on every layer of a stack. Empty without
    /// individual I/Os.
    actors: Vec<ActorEntry>,
    /// Sums of what the entries of `actors` do not include.
    actors_others: OtherEntry,
    /// Who waited for whom: by device and victim, those that lost most first, at most 200 entries. Empty without single I/Os.
    waits: Vec<WaitEntry>,
    /// Sums of what the entries of `waits` do not include.
    waits_others: OtherWaits,
    /// Who made whom wait, how, how much, and what to try: the most harm first.
    stories: Vec<StoryEntry>,
    /// The requested program, or the one with most I/Os, if the disk did not make it wait; otherwise `null`.
    not_the_disk: Option<ClearedEntry>,
    /// Programs that may have lost most of their I/O time to another program, if the recording neither proves nor excludes it.
    not_proven: Vec<NotProvenEntry>,
    /// Harmful findings without a culprit, the most severe first.
    findings: Vec<FindingBlock>,
    /// Findings that harmed no known program.
    facts: Vec<FindingBlock>,
    /// What `iolens files --json` says under the same key; `null` if requests were not recorded.
    files: Option<&'a FilesReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Recording<'a> {
    /// Path as named by the user.
    path: &'a str,
    host: Option<&'a str>,
    kernel: Option<&'a str>,
    start_unix_s: f64,
    /// Length of the part under study.
    duration_s: f64,
    from_s: f64,
    to_s: f64,
    /// `ebpf`, `counters` or `import:KIND`.
    source: String,
    /// Completed I/Os; `null` if the number is not known.
    ios: Option<u64>,
    /// Layer on which sums over devices count an I/O, and the devices that they leave out.
    layers: Layers<'a>,
    /// Lost I/Os; `null` if the number is not known.
    lost_ios: Option<u64>,
    /// Lost I/Os, one entry per reason.
    losses: Vec<Loss<'a>>,
    censored_ios: u64,
    /// I/Os in flight for longer than busy time can be traced back; 0 in nearly all recordings.
    busy_time_cut_ios: u64,
    /// Time in flight of the I/Os in `busy_time_cut_ios` that is missing from busy times and numbers in flight, in seconds.
    busy_time_cut_s: f64,
    recorder: Recorder,
    limits: &'a [String],
}

/// Layer on which sums over devices count an I/O.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Layers<'a> {
    counted_on: &'static str,
    /// I/Os of the devices that count; `null` if the number is not known.
    ios: Option<u64>,
    bytes: Option<u64>,
    left_out: Vec<LeftOut<'a>>,
}

/// A recorded device above other recorded devices.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LeftOut<'a> {
    device: String,
    /// Names of the recorded devices below.
    on: &'a [String],
    ios: u64,
}

/// I/Os that are missing for one reason.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Loss<'a> {
    reason: Option<&'a str>,
    /// Number of lost I/Os; `null` if it is not known.
    ios: Option<u64>,
    /// Number of intervals with losses.
    intervals: Option<u64>,
    start_s: f64,
    end_s: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Recorder {
    /// CPU time of user space and probes while recording, in percent of one CPU.
    cpu_percent: Option<f64>,
    /// CPU time of the recorder's user space while recording. Start-up is excluded.
    cpu_s: Option<f64>,
    /// CPU time of the recorder's BPF probes; `null` if it was not measured.
    probe_cpu_s: Option<f64>,
    /// CPU time of the recorder's start-up.
    startup_cpu_s: Option<f64>,
    max_rss_bytes: Option<u64>,
    disk_bytes: Option<u64>,
    bytes_per_io: Option<f64>,
}

/// One device over the whole window.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DeviceStats<'a> {
    name: String,
    major: u32,
    minor: u32,
    read: &'a ClassSummary,
    write: &'a ClassSummary,
    discard: &'a ClassSummary,
    flush: &'a ClassSummary,
    /// Values that an imported table has for all classes together only.
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<&'a AllClasses>,
    busy_percent: Option<f64>,
    busy_read_percent: Option<f64>,
    busy_write_percent: Option<f64>,
    busy_both_percent: Option<f64>,
    busy_device_percent: Option<f64>,
    util_io_ticks_percent: Option<f64>,
    concurrency: &'a Concurrency,
    lost_ios: Option<u64>,
}

/// One device with its detailed results.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceBlock<'a> {
    #[serde(flatten)]
    stats: DeviceStats<'a>,
    /// Amount of data in `detail`: `full` or `summary`; `null` if the recording has no individual I/Os.
    detail_level: Option<&'static str>,
    /// Detailed results for the device; `null` if the recording has no individual I/Os.
    detail: Option<Detail<'a>>,
}

/// A finding with its evidence.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FindingBlock {
    kind: FindingKind,
    /// Name of the device; `null` if all are meant.
    device: Option<String>,
    /// Where it begins, as RFC 3339; `null` where the recording has no date.
    start: Option<String>,
    /// Where it ends, as RFC 3339.
    end: Option<String>,
    start_s: f64,
    end_s: f64,
    severity: Severity,
    summary: String,
    /// Supporting measurements, by kind. Keys end with their unit (`_us`, `_s`, `_bytes`, `_percent`, `_per_s`).
    #[cfg_attr(test, schemars(with = "Evidence"))]
    evidence: Map<String, Value>,
}

/// What the recorder cost, in percent of one CPU over the recording's length without the time in which no recorder ran.
pub(super) fn cpu_percent(meta: &RecordingMeta, unrecorded_ns: i64) -> Option<f64> {
    let recorded_ns = meta.end_ns?.saturating_sub(unrecorded_ns);
    if recorded_ns <= 0 {
        return None;
    }
    let seconds = recorded_ns as f64 / 1e9;
    Some(100.0 * (meta.cost.cpu_s? + meta.cost.probe_cpu_s.unwrap_or(0.0)) / seconds)
}

/// Bytes on disk for each recorded I/O; `None` without I/Os.
pub(super) fn bytes_per_io(facts: &RecordingFacts) -> Option<f64> {
    let ios = facts.total_ios.filter(|n| *n > 0)?;
    Some(facts.disk_bytes? as f64 / ios as f64)
}

/// The document, indented, with a line end. `files` are the recording's file-level requests by class.
pub fn render(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
    files: Option<&FilesReport>,
) -> String {
    let detailed = detailed(report, &facts.detailed);
    let waits = WaitsBlock::of(&report.waits, meta, names);
    let document = ReportDocument {
        schema_version: SCHEMA_VERSION,
        recording: recording(report, meta, facts),
        devices: (report.devices.devices.iter())
            .map(|d| with_detail(device(d, report, meta), report.detail(d.dev), &detailed))
            .collect(),
        sets: report_detail::sets(report, meta),
        actors: actors::entries(report, meta, names),
        actors_others: actors::others(report),
        waits: waits.waits,
        waits_others: waits.others,
        stories: stories::entries(report, meta, names, facts),
        not_the_disk: stories::cleared(report, names, facts),
        not_proven: stories::not_proven(report, meta, names, facts)
            .into_iter()
            .collect(),
        findings: findings(report, meta),
        facts: self::facts(report, meta),
        files,
    };
    match indented(&document) {
        Ok(text) => escape::json(&text).into_owned(),
        // Plain structs with string keys cannot fail to serialise; an error would still be said, as JSON.
        Err(e) => format!("{}\n", serde_json::json!({ "error": e.to_string() })),
    }
}

/// What was recorded, how, and what is missing.
pub(super) fn recording<'a>(
    report: &'a Report,
    meta: &'a RecordingMeta,
    facts: &'a RecordingFacts,
) -> Recording<'a> {
    let window = report.devices.window;
    Recording {
        path: &facts.path,
        host: meta.host.as_deref(),
        kernel: meta.kernel.as_deref(),
        start_unix_s: meta.start_unix_ns as f64 / 1e9,
        duration_s: window.len_s(),
        from_s: window.from_ns as f64 / 1e9,
        to_s: window.to_ns as f64 / 1e9,
        source: meta.source.to_string(),
        ios: report.devices.known_ios(),
        layers: layers(report, meta, facts),
        lost_ios: report.devices.lost_ios,
        losses: losses(report).map(|(f, e)| loss(f, e)).collect(),
        censored_ios: report.devices.censored_ios,
        busy_time_cut_ios: report.devices.clipped.ios,
        busy_time_cut_s: report.devices.clipped.ns as f64 / 1e9,
        recorder: Recorder {
            cpu_percent: cpu_percent(meta, facts.unrecorded_ns),
            cpu_s: meta.cost.cpu_s,
            probe_cpu_s: meta.cost.probe_cpu_s,
            startup_cpu_s: meta.cost.startup_cpu_s,
            max_rss_bytes: meta.cost.max_rss_bytes,
            disk_bytes: facts.disk_bytes,
            bytes_per_io: bytes_per_io(facts),
        },
        limits: &meta.limits,
    }
}

fn layers<'a>(report: &Report, meta: &RecordingMeta, facts: &'a RecordingFacts) -> Layers<'a> {
    let (ios, bytes) = counted_above(report, meta, facts);
    let mut left_out = Vec::new();
    for (dev, on) in &facts.layers {
        let summary = report.devices.devices.iter().find(|d| d.dev == *dev);
        left_out.push(LeftOut {
            device: device_name(meta, *dev),
            on,
            ios: summary.map_or(0, DeviceSummary::ios),
        });
    }
    Layers {
        counted_on: "bottom",
        ios: report.devices.known_ios().map(|n| n.saturating_sub(ios)),
        bytes: report
            .devices
            .known_bytes()
            .map(|n| n.saturating_sub(bytes)),
        left_out,
    }
}

/// `d` without what the other analyses say of it.
pub(super) fn device<'a>(
    d: &'a DeviceSummary,
    report: &'a Report,
    meta: &RecordingMeta,
) -> DeviceStats<'a> {
    DeviceStats {
        name: device_name(meta, d.dev),
        major: d.dev.major(),
        minor: d.dev.minor(),
        read: d.class(Class::Read),
        write: d.class(Class::Write),
        discard: d.class(Class::Discard),
        flush: d.class(Class::Flush),
        all: report.all_classes.get(&d.dev),
        busy_percent: d.busy_percent,
        busy_read_percent: d.busy_read_percent,
        busy_write_percent: d.busy_write_percent,
        busy_both_percent: d.busy_both_percent,
        busy_device_percent: d.busy_device_percent,
        util_io_ticks_percent: report.util_io_ticks_percent.get(&d.dev).copied(),
        concurrency: &d.concurrency,
        lost_ios: d.lost_ios,
    }
}

fn with_detail<'a>(
    stats: DeviceStats<'a>,
    own: Option<&'a DeviceDetail>,
    (detailed, bursts): &(BTreeSet<DevId>, usize),
) -> DeviceBlock<'a> {
    let (detail_level, detail) = match own {
        None => (None, None),
        Some(own) if detailed.contains(&own.dev) => (
            Some("full"),
            Some(Detail::Full(Box::new(report_detail::full(own, *bursts)))),
        ),
        Some(own) => (
            Some("summary"),
            Some(Detail::Summary(report_detail::summary(own))),
        ),
    };
    DeviceBlock {
        stats,
        detail_level,
        detail,
    }
}

/// The findings, in the report's order.
pub(super) fn findings(report: &Report, meta: &RecordingMeta) -> Vec<FindingBlock> {
    let harmful = report.findings.iter().filter(|f| !f.is_fact());
    harmful.map(|f| finding(f, meta)).collect()
}

/// The findings, then the facts.
pub(super) fn findings_and_facts(report: &Report, meta: &RecordingMeta) -> Vec<FindingBlock> {
    let mut all = findings(report, meta);
    all.extend(facts(report, meta));
    all
}

/// The facts, in the report's order.
pub(super) fn facts(report: &Report, meta: &RecordingMeta) -> Vec<FindingBlock> {
    let facts = report.findings.iter().filter(|f| f.is_fact());
    facts.map(|f| finding(f, meta)).collect()
}

/// The findings of I/Os that are missing, with their evidence.
pub(super) fn losses(report: &Report) -> impl Iterator<Item = (&Finding, &LostEventsEvidence)> {
    report.findings.iter().filter_map(|f| match &f.evidence {
        Evidence::LostEvents(e) => Some((f, e)),
        _ => None,
    })
}

/// What a finding of losses says, for those who look at the quality of the data first.
fn loss<'a>(f: &Finding, e: &LostEventsEvidence) -> Loss<'a> {
    Loss {
        reason: Some(e.reason.name()),
        ios: e.ios,
        intervals: Some(e.intervals),
        start_s: f.from_ns as f64 / 1e9,
        end_s: f.to_ns as f64 / 1e9,
    }
}

/// The device of a finding, or the devices of a link by the name that they have as a set; `None` if it is about all.
pub(super) fn finding_place(f: &Finding, meta: &RecordingMeta) -> Option<String> {
    if f.link().is_empty() {
        f.dev.map(|dev| device_name(meta, dev))
    } else {
        Some(link_name(f.link(), meta))
    }
}

/// The name of devices behind one link, as `--limit` takes it.
pub(super) fn link_name(devices: &[DevId], meta: &RecordingMeta) -> String {
    device_names(devices, meta).join("+")
}

/// The names of devices in their order.
pub(super) fn device_names(devices: &[DevId], meta: &RecordingMeta) -> Vec<String> {
    let names = devices.iter().map(|dev| device_name(meta, *dev));
    names.collect()
}

fn finding(f: &Finding, meta: &RecordingMeta) -> FindingBlock {
    let times = Times::utc(meta);
    let reported = words::reported(f, meta);
    FindingBlock {
        kind: f.kind(),
        device: reported.device,
        start: times.rfc3339(f.from_ns),
        end: times.rfc3339(f.to_ns),
        start_s: f.from_ns as f64 / 1e9,
        end_s: f.to_ns as f64 / 1e9,
        severity: reported.severity,
        summary: reported.summary,
        evidence: reported.evidence,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use iolens_core::analysis::{ReportBuilder, Window};
    use iolens_core::model::{Comm, Device, Io, LossReason, Lost, Op};

    /// A device with a hostile name and writer, an unnamed one, a slow write, a failed read, a loss.
    pub fn sample() -> (Report, RecordingMeta, RecordingFacts) {
        let a = DevId::new(8, 0);
        let b = DevId::new(259, 3);
        let mut meta = RecordingMeta::new(Source::Ebpf, 1_700_000_000_500_000_000);
        meta.host = Some("box".to_owned());
        meta.kernel = Some("6.18.44".to_owned());
        meta.end_ns = Some(10_000_000_000);
        meta.devices = vec![Device::named("sd\x1b[31ma", a)];
        meta.cost.cpu_s = Some(0.05);
        meta.cost.max_rss_bytes = Some(50 << 20);
        let mut builder = ReportBuilder::new(Window::OPEN);
        for i in 0..100 {
            builder.push(&Io::new(
                (i + 1) * 50_000_000,
                a,
                Op::READ,
                4096,
                Some(1_000_000),
                4_000_000,
            ));
        }
        let slow = Io::new(8_000_000_000, a, Op::WRITE, 1 << 20, Some(0), 2_000_000_000);
        builder.push(&Io {
            comm: Some(Comm::new(b"e\x1b]0;vil")),
            tgid: Some(4),
            ..slow
        });
        builder.push(&Io {
            error: Some(5),
            ..Io::new(9_000_000_000, b, Op::READ, 512, None, 1_000_000)
        });
        let from_ns = 1;
        let to_ns = 2;
        let ios = Some(7);
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
        let doc: Value =
            serde_json::from_str(&render(&report, &meta, &Names::default(), &facts, None))
                .expect("valid JSON");
        let rec = &doc["recording"];
        assert_eq!(
            (
                &rec["ios"],
                &rec["lost_ios"],
                &rec["source"],
                &rec["duration_s"]
            ),
            (&102.into(), &7.into(), &"ebpf".into(), &10.0.into())
        );
        assert_eq!(
            (
                &rec["recorder"]["cpu_percent"],
                &rec["recorder"]["bytes_per_io"]
            ),
            (&0.5.into(), &10.0.into())
        );
        assert_eq!(
            (&rec["losses"][0]["reason"], &rec["losses"][0]["ios"]),
            (&"ring-full".into(), &7.into())
        );
        let a = &doc["devices"][0];
        assert_eq!(
            (&a["name"], &a["major"], &a["minor"]),
            (&"sd\x1b[31ma".into(), &8.into(), &0.into())
        );
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
                assert!(
                    a[class].as_object().expect("a class").contains_key(key),
                    "{class}.{key}"
                );
            }
        }
        assert_eq!(
            (&read["ios"], &read["mean_us"], &read["sequential_percent"]),
            (&100.into(), &5000.0.into(), &Value::Null)
        );
        assert_eq!(
            (&a["discard"]["ios"], &a["discard"]["mean_us"]),
            (&0.into(), &Value::Null)
        );
        assert_eq!(
            (&a["busy_percent"], &a["util_io_ticks_percent"]),
            (&25.0.into(), &Value::Null)
        );
        assert_eq!(
            (&a["concurrency"]["p50"], &a["concurrency"]["max"]),
            (&0.into(), &1.into())
        );
        assert_eq!(
            (
                &doc["devices"][1]["name"],
                &doc["devices"][1]["read"]["queue_mean_us"]
            ),
            (&"259:3".into(), &Value::Null)
        );
        let kinds: Vec<_> = doc["findings"]
            .as_array()
            .expect("an array")
            .iter()
            .map(|f| f["kind"].as_str().expect("text"))
            .collect();
        assert_eq!(kinds, ["io-error", "slow-io", "lost-events"]);
        assert_eq!(doc["findings"][0]["device"], "259:3");
        let detail = &a["detail"];
        assert_eq!(detail["slots"]["all"][0]["slot_count"], 5000);
        // A read each 50 ms, one at a time, is pacing.
        assert_eq!(
            detail["streams"][0]["periodicity"]["verdict"], "not-periodic",
            "{}",
            detail["streams"][0]
        );
        assert_eq!(detail["attribution"]["bin_s"], 1.0);
        assert!(
            detail["capacity"]["state"].is_string() && detail["stages"]["d2c"]["n"] == 101,
            "{detail}"
        );
        for key in [
            "max_ios_per_s_low",
            "knee_in_flight_high",
            "mix_load_percent",
            "ios_left_per_s",
            "fits",
        ] {
            assert!(
                detail["capacity"]
                    .as_object()
                    .expect("an object")
                    .contains_key(key),
                "{key}"
            );
        }
        assert_eq!(doc["files"], Value::Null, "no requests were recorded");
    }

    #[test]
    fn the_cost_of_a_merged_recording_is_of_the_time_recorded() {
        let (_, meta, _) = sample();
        assert_eq!(cpu_percent(&meta, 0), Some(0.5));
        assert_eq!(cpu_percent(&meta, 7_500_000_000), Some(2.0));
        assert_eq!(cpu_percent(&meta, 10_000_000_000), None);
    }

    #[test]
    fn sums_say_on_which_layer_an_io_counts() {
        let (report, meta, mut facts) = sample();
        facts.layers = BTreeMap::from([(DevId::new(8, 0), vec!["259:3".to_owned()])]);
        let doc: Value =
            serde_json::from_str(&render(&report, &meta, &Names::default(), &facts, None))
                .expect("valid JSON");
        let layers = &doc["recording"]["layers"];
        assert_eq!(
            (&doc["recording"]["ios"], &layers["ios"], &layers["bytes"]),
            (&102.into(), &1.into(), &512.into())
        );
        let left_out =
            serde_json::json!([{ "device": "sd\x1b[31ma", "on": ["259:3"], "ios": 101 }]);
        assert_eq!(
            (&layers["counted_on"], &layers["left_out"]),
            (&"bottom".into(), &left_out)
        );
        let text = super::super::report_text::render(
            &report,
            &meta,
            &Names::default(),
            &facts,
            &Times::relative(),
            super::super::layout::Layout::PLAIN,
        );
        assert!(
            text.contains("\n1 I/O, 512 B, none lost\n") && text.contains("not in them: sd"),
            "{text}"
        );
        assert!(text.contains("(101 I/Os)\n"), "{text}");
        // Counters know counts only, and the layers' I/Os twice, too; tables were added up without their layers.
        facts.total_ios = Some(0);
        assert_eq!(counted_above(&report, &meta, &facts).0, 101);
        let imported = RecordingMeta {
            source: Source::Import("iostat".to_owned()),
            ..meta
        };
        assert_eq!(counted_above(&report, &imported, &facts).0, 0);
    }

    #[test]
    fn devices_together_are_a_set() {
        let (report, meta, facts) = sample();
        let doc: Value =
            serde_json::from_str(&render(&report, &meta, &Names::default(), &facts, None))
                .expect("valid JSON");
        let set = &doc["sets"][0];
        assert_eq!(
            (&set["name"], &set["device_names"]),
            (&"all".into(), &serde_json::json!(["sd\x1b[31ma", "259:3"]))
        );
        assert_eq!(
            (&set["busy_percent"], &set["max_busy_percent"]),
            (&25.01.into(), &25.0.into())
        );
        assert_eq!(
            (
                &set["concurrency"]["max"],
                &set["slots"]["all"][0]["slot_count"]
            ),
            (&1.into(), &5000.into())
        );
        let empty = ReportBuilder::new(Window::OPEN).finish(0);
        let doc: Value =
            serde_json::from_str(&render(&empty, &meta, &Names::default(), &facts, None))
                .expect("valid JSON");
        assert_eq!(doc["sets"], serde_json::json!([]));
    }

    /// So many devices that read and write at random times in so many seconds, twenty I/Os each.
    fn many(devices: u32, seconds: i64) -> (Report, RecordingMeta) {
        let mut builder = ReportBuilder::new(Window::new(0, seconds * 1_000_000_000));
        let n = i64::from(devices) * 20;
        let mut random = 1_u64;
        let mut below = |limit: i64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as i64 % limit
        };
        for i in 0..n {
            let op = if below(3) == 0 { Op::WRITE } else { Op::READ };
            let dev = DevId::new(8, below(i64::from(devices)) as u32);
            let at_ns = seconds * 1_000_000_000 / (n + 1) * (i + 1) + below(977);
            builder.push(&Io::new(
                at_ns,
                dev,
                op,
                4096,
                Some(1000),
                90_000 + below(701),
            ));
        }
        (builder.finish(0), RecordingMeta::new(Source::Ebpf, 0))
    }

    #[test]
    fn hundreds_of_devices_and_days_fit_two_megabytes_and_details_come_when_asked_for() {
        for (devices, seconds) in [(500, 60), (500, 86_400), (3, 400 * 86_400)] {
            let (report, meta) = many(devices, seconds);
            let facts = RecordingFacts::default();
            let text = render(&report, &meta, &Names::default(), &facts, None);
            assert!(
                text.len() <= 2_000_000,
                "{devices} devices, {seconds} s: {} bytes",
                text.len()
            );
            let asked = RecordingFacts {
                detailed: BTreeSet::from([DevId::new(8, 2)]),
                ..facts
            };
            let doc: Value =
                serde_json::from_str(&render(&report, &meta, &Names::default(), &asked, None))
                    .expect("valid JSON");
            let levels: Vec<&str> = (doc["devices"].as_array().expect("an array").iter())
                .map(|d| d["detail_level"].as_str().expect("single I/Os"))
                .collect();
            assert_eq!((levels.len(), levels[2]), (devices as usize, "full"));
            assert_eq!(
                levels.iter().filter(|l| **l == "summary").count(),
                devices as usize - 1
            );
            let [full, summary] = [2, 1].map(|i| &doc["devices"][i]["detail"]);
            assert!(
                full["slots"]["all"]
                    .as_array()
                    .is_some_and(|g| (1..=73).contains(&g.len())),
                "{seconds} s"
            );
            assert!(
                full["streams"][0]["bursts"].is_array()
                    && summary["streams"][0]["bursts"].is_null()
            );
            let verdict = report
                .detail(DevId::new(8, 1))
                .map(|d| d.streams[1].periodicity.verdict);
            assert_eq!(
                summary["streams"][1]["periodicity"]["verdict"],
                serde_json::json!(verdict)
            );
        }
        let (report, meta) = many(3, 60);
        let doc: Value = serde_json::from_str(&render(
            &report,
            &meta,
            &Names::default(),
            &RecordingFacts::default(),
            None,
        ))
        .expect("JSON");
        assert!((0..3).all(|i| doc["devices"][i]["detail_level"] == "full"));
    }
}
