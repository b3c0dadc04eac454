//! `iolens info` and `iolens ls`: what recordings are, as text and as JSON.

use std::fmt::Write as _;

use iolens_core::model::{Device, DeviceKind, LossReason, RecordingMeta, Source};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::SCHEMA_VERSION;
use super::escape;
use super::indent::indented;
use super::layout::{Layout, Role, count_of, size};
use super::report_json::cpu_percent;
use super::times::{Clock, Times};
use crate::engine::inventory::{LossSum, RecordingInfo};

/// Columns for the names of facts.
const LABEL: usize = 10;

/// `iolens info --json` and `iolens ls --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InventoryDocument<'a> {
    /// Version of this layout.
    schema_version: u32,
    /// In the order in which they were named, or by place.
    recordings: Vec<StoredRecording<'a>>,
}

/// One recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StoredRecording<'a> {
    /// As the user named it, or below the directory that the user named.
    path: String,
    /// Name of the machine.
    host: Option<&'a str>,
    /// Kernel release.
    kernel: Option<&'a str>,
    /// `ebpf`, `counters` or `import:KIND`.
    source: String,
    /// Program and version that wrote it.
    writer: Option<&'a str>,
    /// Version of the recording format.
    format_version: u32,
    /// Wall clock of the start, RFC 3339 in UTC; `null` where the recording has no date.
    from: Option<String>,
    /// End of the recording by wall clock.
    to: Option<String>,
    /// The start in seconds since 1970; `null` where the recording has no date.
    start_unix_s: Option<f64>,
    /// From start to end.
    duration_s: f64,
    /// Whether the recording has no end yet: it is growing, or its recorder was killed.
    open: bool,
    /// Individual I/Os in the recording; `null` if it has only counters or averages.
    ios: Option<u64>,
    /// Lost I/Os, excluding those removed by the size limit; `null` if the number is not known.
    lost_ios: Option<u64>,
    /// I/Os removed by the size limit; `null` if the number is not known.
    removed_ios: Option<u64>,
    /// Lost I/Os, one entry per reason.
    losses: Vec<Loss>,
    /// Size of all its files.
    disk_bytes: u64,
    /// Files of its tables.
    file_count: u64,
    /// `null` without single I/Os.
    bytes_per_io: Option<f64>,
    /// What recording cost.
    recorder: RecorderUse,
    /// Its tables, those of single observations first.
    tables: Vec<StoredTable>,
    /// Devices present while recording, including those without I/O.
    devices: Vec<StoredDevice<'a>>,
    /// Options of the recorder, as text.
    options: &'a [String],
    /// What the source could not record and why, as text.
    limits: &'a [String],
    /// Damage found when opening the recording, one line each. Reading it may find more.
    damage: &'a [String],
}

/// Data that is missing for one reason.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Loss {
    /// Reason, as in the table `lost`.
    reason: &'static str,
    /// Number of intervals with losses.
    intervals: u64,
    /// Lost I/Os, or file-level requests if the reason concerns them; `null` if the number is not known for some interval.
    ios: Option<u64>,
    /// Start of the first interval, in seconds since the recording's start.
    start_s: f64,
    /// End of the last interval.
    end_s: f64,
}

/// Resources used by the recorder.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RecorderUse {
    /// CPU time of user space and probes while recording, in percent of one CPU.
    cpu_percent: Option<f64>,
    /// Peak resident memory.
    max_rss_bytes: Option<u64>,
}

/// A table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StoredTable {
    /// Its directory in the recording.
    name: &'static str,
    /// `null` where a file does not say.
    row_count: Option<u64>,
    /// Parquet files and logs.
    file_count: u64,
    /// Size of these files.
    disk_bytes: u64,
}

/// A device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StoredDevice<'a> {
    /// The kernel's name.
    name: &'a str,
    /// Major number.
    major: u32,
    /// Minor number.
    minor: u32,
    /// `request`, `bio` or `unknown`.
    kind: &'static str,
    /// Model name.
    model: Option<&'a str>,
    /// Identifier that survives reboots.
    stable_id: Option<&'a str>,
    /// Capacity.
    size_bytes: Option<u64>,
    /// Whether the disk is rotational.
    rotational: Option<bool>,
}

/// One document about all of them.
///
/// # Errors
/// It cannot be serialised.
pub fn json(infos: &[RecordingInfo]) -> serde_json::Result<String> {
    let document = InventoryDocument {
        schema_version: SCHEMA_VERSION,
        recordings: infos.iter().map(stored).collect(),
    };
    indented(&document).map(|text| escape::json(&text).into_owned())
}

fn stored(info: &RecordingInfo) -> StoredRecording<'_> {
    let meta = &info.meta;
    let times = Times::utc(meta);
    let start_unix_ns = times.unix_ns(0);
    let losses = info.losses.iter().map(|(reason, sum)| loss(*reason, sum));
    let tables = info.tables.iter().map(|table| StoredTable {
        name: table.name,
        row_count: table.rows,
        file_count: table.files,
        disk_bytes: table.bytes,
    });
    StoredRecording {
        path: info.path.display().to_string(),
        host: meta.host.as_deref(),
        kernel: meta.kernel.as_deref(),
        source: meta.source.to_string(),
        writer: meta.writer.as_deref(),
        format_version: meta.schema_version,
        from: times.rfc3339(0),
        to: times.rfc3339(info.end_ns),
        start_unix_s: start_unix_ns.map(seconds),
        duration_s: seconds(info.end_ns),
        open: info.is_open(),
        ios: info.ios,
        lost_ios: info.lost_ios(),
        removed_ios: info.removed_ios(),
        losses: losses.collect(),
        disk_bytes: info.disk_bytes,
        file_count: info.table_files(),
        bytes_per_io: bytes_per_io(info),
        recorder: RecorderUse {
            cpu_percent: cpu_percent(meta, info.unrecorded_ns),
            max_rss_bytes: meta.cost.max_rss_bytes,
        },
        tables: tables.collect(),
        devices: meta.devices.iter().map(device).collect(),
        options: &meta.options,
        limits: &meta.limits,
        damage: &info.damage,
    }
}

fn loss(reason: LossReason, sum: &LossSum) -> Loss {
    Loss {
        reason: reason.name(),
        intervals: sum.intervals,
        ios: sum.ios,
        start_s: seconds(sum.from_ns),
        end_s: seconds(sum.to_ns),
    }
}

fn device(device: &Device) -> StoredDevice<'_> {
    StoredDevice {
        name: &device.name,
        major: device.id.major(),
        minor: device.id.minor(),
        kind: match device.kind {
            DeviceKind::Request => "request",
            DeviceKind::Bio => "bio",
            DeviceKind::Unknown => "unknown",
        },
        model: device.model.as_deref(),
        stable_id: device.stable_id.as_deref(),
        size_bytes: device.size_bytes,
        rotational: device.rotational,
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn bytes_per_io(info: &RecordingInfo) -> Option<f64> {
    let ios = info.ios.filter(|ios| *ios > 0)?;
    Some(info.disk_bytes as f64 / ios as f64)
}

/// A recording for people.
pub fn text(info: &RecordingInfo, times: &Times, layout: Layout) -> String {
    let meta = &info.meta;
    let path = escape::terminal(&info.path.display().to_string()).into_owned();
    let mut out = layout.paint(Role::Heading, &path);
    out.push('\n');
    let state = if info.is_open() {
        "its end is not written: it grows, or its recorder was killed"
    } else {
        "finished"
    };
    fact(
        &mut out,
        "time",
        &format!(
            "{} to {} ({:.3} s), {state}",
            times.full(0),
            times.instant(info.end_ns),
            seconds(info.end_ns)
        ),
        layout,
    );
    fact(&mut out, "host", &host_of(meta), layout);
    fact(&mut out, "source", &source_of(meta), layout);
    fact(&mut out, "I/Os", &ios_of(info), layout);
    for (reason, sum) in &info.losses {
        fact(&mut out, "missing", &missing(*reason, sum, times), layout);
    }
    let files = count_of(info.table_files(), "file");
    fact(
        &mut out,
        "size",
        &format!("{} in {files}", size(info.disk_bytes as f64)),
        layout,
    );
    // The rest has a line only where the recording knows of it.
    if let Some(percent) = cpu_percent(meta, info.unrecorded_ns) {
        let memory = meta.cost.max_rss_bytes.map_or(String::new(), |bytes| {
            format!(", {} of memory", size(bytes as f64))
        });
        fact(
            &mut out,
            "recorder",
            &format!("{percent:.2} % of one CPU{memory}"),
            layout,
        );
    }
    if !meta.options.is_empty() {
        fact(&mut out, "options", &meta.options.join(" "), layout);
    }
    for limit in &meta.limits {
        fact(&mut out, "limit", limit, layout);
    }
    for damage in &info.damage {
        fact(&mut out, "damage", damage, layout);
    }
    out.push_str(&tables(info, layout));
    out.push_str(&devices(&meta.devices, layout));
    out
}

/// A line: what it is about, and what is known of it.
fn fact(out: &mut String, label: &str, text: &str, layout: Layout) {
    let label = format!("  {label}");
    out.push_str(&layout.fact(&label, &escape::terminal(text), 2 + LABEL));
}

fn host_of(meta: &RecordingMeta) -> String {
    let host = meta.host.as_deref().unwrap_or("unknown");
    match &meta.kernel {
        Some(kernel) => format!("{host}, kernel {kernel}"),
        None => host.to_owned(),
    }
}

fn source_of(meta: &RecordingMeta) -> String {
    let writer = meta.writer.as_ref();
    let writer = writer.map_or(String::new(), |w| format!(", written by {w}"));
    format!("{}{writer}, format {}", meta.source, meta.schema_version)
}

fn ios_of(info: &RecordingInfo) -> String {
    let Some(ios) = info.ios else {
        return match info.meta.source {
            Source::Counters => "none, only the kernel's counters".to_owned(),
            Source::Ebpf | Source::Import(_) => "none, only averages".to_owned(),
        };
    };
    let mut text = count_of(ios, "I/O");
    if let Some(bytes) = bytes_per_io(info) {
        let _ = write!(text, " ({bytes:.1} bytes each)");
    }
    match info.lost_ios() {
        Some(lost) => drop(write!(text, ", {} lost", indicatif::HumanCount(lost))),
        None => text.push_str(", an unknown number lost"),
    }
    text
}

fn missing(reason: LossReason, sum: &LossSum, times: &Times) -> String {
    let noun = if reason.is_of_requests() {
        "request"
    } else {
        "I/O"
    };
    let count = sum.ios.map_or_else(
        || format!("an unknown number of {noun}s"),
        |n| count_of(n, noun),
    );
    let span = times.span(sum.from_ns, sum.to_ns);
    format!(
        "{}: {count} in {}, {span}",
        reason.name(),
        count_of(sum.intervals, "interval")
    )
}

fn tables(info: &RecordingInfo, layout: Layout) -> String {
    let heading = ["  table", "rows", "files", "size"].map(str::to_owned);
    let mut rows = Vec::new();
    for table in &info.tables {
        let count = table.rows.map_or_else(
            || "unknown".to_owned(),
            |n| indicatif::HumanCount(n).to_string(),
        );
        rows.push(vec![
            format!("  {}", table.name),
            count,
            table.files.to_string(),
            size(table.bytes as f64),
        ]);
    }
    layout.table(&heading, &rows, 1, |i| i == 0)
}

fn devices(devices: &[Device], layout: Layout) -> String {
    if devices.is_empty() {
        return String::new();
    }
    let heading = ["  device", "number", "size", "model"].map(str::to_owned);
    let mut rows = Vec::new();
    for device in devices {
        let bytes = device.size_bytes.map(|bytes| size(bytes as f64));
        let model = device.model.as_deref().unwrap_or("-").trim();
        rows.push(vec![
            format!("  {}", escape::terminal(&device.name)),
            device.id.to_string(),
            bytes.unwrap_or_else(|| "-".to_owned()),
            escape::terminal(model).into_owned(),
        ]);
    }
    layout.table(&heading, &rows, 1, |i| i == 0 || i == 3)
}

/// All of them, a line each.
pub fn list(infos: &[RecordingInfo], zone: &TimeZone, layout: Layout) -> String {
    if infos.is_empty() {
        return String::new();
    }
    let heading = [
        "recording",
        "host",
        "start",
        "length",
        "I/Os",
        "lost",
        "size",
        "state",
    ];
    let heading = heading.map(str::to_owned);
    let mut rows = Vec::new();
    for info in infos {
        let times = Times::new(Clock::Wall(zone.clone()), info.meta.start_unix_ns, 0);
        let start = times.zoned(0).map_or_else(
            || "-".to_owned(),
            |z| z.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        );
        let ios = info
            .ios
            .map_or_else(|| "-".to_owned(), |n| indicatif::HumanCount(n).to_string());
        let lost = info.lost_ios().map_or_else(
            || "unknown".to_owned(),
            |n| indicatif::HumanCount(n).to_string(),
        );
        rows.push(vec![
            escape::terminal(&info.path.display().to_string()).into_owned(),
            escape::terminal(info.meta.host.as_deref().unwrap_or("-")).into_owned(),
            start,
            length(info.end_ns),
            ios,
            lost,
            size(info.disk_bytes as f64),
            state(info).to_owned(),
        ]);
    }
    layout.table(&heading, &rows, 1, |i| matches!(i, 0 | 1 | 2 | 7))
}

fn state(info: &RecordingInfo) -> &'static str {
    match (info.damage.is_empty(), info.is_open()) {
        (false, _) => "damaged",
        (true, true) => "open",
        (true, false) => "finished",
    }
}

/// `12.3 s`, `4 min 05 s`, `26 h 03 min`.
fn length(ns: i64) -> String {
    let whole_s = ns.max(0) / 1_000_000_000;
    match whole_s {
        0..60 => format!("{:.1} s", seconds(ns)),
        60..3600 => format!("{} min {:02} s", whole_s / 60, whole_s % 60),
        _ => format!("{} h {:02} min", whole_s / 3600, whole_s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::DevId;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    fn info() -> RecordingInfo {
        let mut meta = RecordingMeta::new(Source::Ebpf, 1_795_000_000_000_000_000);
        meta.host = Some("db\x1b[31m".to_owned());
        meta.kernel = Some("6.12".to_owned());
        meta.end_ns = Some(65_500_000_000);
        meta.writer = Some("iolens 0.1.0".to_owned());
        meta.devices = vec![Device {
            size_bytes: Some(1 << 30),
            ..Device::named("sda", DevId::new(8, 0))
        }];
        let sum = LossSum {
            intervals: 2,
            ios: Some(7),
            from_ns: 1_000_000_000,
            to_ns: 2_000_000_000,
        };
        RecordingInfo {
            path: PathBuf::from("a\u{202e}.iolens"),
            meta,
            end_ns: 65_500_000_000,
            ios: Some(1000),
            disk_bytes: 9000,
            losses: BTreeMap::from([(LossReason::RingFull, sum)]),
            unrecorded_ns: 0,
            tables: Vec::new(),
            damage: vec!["io/000001.parquet: damaged".to_owned()],
        }
    }

    #[test]
    fn facts_stand_one_per_line_and_names_are_escaped() {
        let info = info();
        let text = text(&info, &Times::utc(&info.meta), Layout::PLAIN);
        assert!(text.starts_with("a\\u{202e}.iolens\n"), "{text}");
        for line in [
            "  time      2026-11-18 11:06:40.000 UTC to 11:07:45.500 (65.500 s), finished\n",
            "  host      db\\x1b[31m, kernel 6.12\n",
            "  I/Os      1,000 I/Os (9.0 bytes each), 7 lost\n",
            "  missing   ring-full: 7 I/Os in 2 intervals, 11:06:41.000 to 11:06:42.000\n",
            "  damage    io/000001.parquet: damaged\n",
            "  sda        8:0  1.07 GB  -\n",
        ] {
            assert!(text.contains(line), "{line:?} is missing in\n{text}");
        }
    }

    #[test]
    fn facts_fit_the_terminal() {
        let mut info = info();
        info.meta.limits = vec!["a limit of the kernel in words ".repeat(4)];
        let layout = Layout {
            width: 60,
            colour: false,
        };
        let text = text(&info, &Times::utc(&info.meta), layout);
        assert!(text.lines().all(|l| l.chars().count() <= 60), "{text}");
        let time = "  time      2026-11-18 11:06:40.000 UTC to 11:07:45.500\n            (65.500 s), finished\n";
        assert!(text.contains(time), "{text}");
    }

    #[test]
    fn counters_and_tables_are_said_to_have_no_single_ios() {
        let mut info = info();
        info.ios = Some(0);
        info.losses.clear();
        assert_eq!(ios_of(&info), "0 I/Os, 0 lost");
        info.ios = None;
        info.meta.source = Source::Counters;
        assert_eq!(ios_of(&info), "none, only the kernel's counters");
        let alone = std::slice::from_ref(&info);
        let text = list(alone, &TimeZone::UTC, Layout::PLAIN);
        assert!(text.contains("  -  "), "{text}");
        let document: serde_json::Value =
            serde_json::from_str(&json(alone).expect("JSON")).expect("JSON");
        let first = &document["recordings"][0];
        assert!(first["ios"].is_null() && first["bytes_per_io"].is_null());
        info.meta.source = Source::Import("iostat".to_owned());
        assert_eq!(ios_of(&info), "none, only averages");
    }

    #[test]
    fn an_unknown_number_is_null_in_json_and_said_in_text() {
        let mut info = info();
        let lost = info.losses.get_mut(&LossReason::RingFull);
        lost.expect("is there").ios = None;
        let document: serde_json::Value =
            serde_json::from_str(&json(&[info.clone()]).expect("JSON")).expect("JSON");
        let first = &document["recordings"][0];
        assert!(first["lost_ios"].is_null() && first["removed_ios"] == 0);
        assert_eq!(first["from"], "2026-11-18T11:06:40Z");
        assert_eq!(first["devices"][0]["major"], 8);
        let text = text(&info, &Times::utc(&info.meta), Layout::PLAIN);
        assert!(text.contains("an unknown number lost"), "{text}");
    }

    #[test]
    fn a_list_has_a_line_each_with_its_state() {
        let mut open = info();
        open.damage.clear();
        open.meta.end_ns = None;
        let text = list(&[info(), open], &TimeZone::UTC, Layout::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].contains("2026-11-18 11:06:40") && lines[1].contains("1 min 05 s"));
        assert!(lines[1].ends_with("damaged") && lines[2].ends_with("open"));
        assert_eq!(length(93_784_000_000_000), "26 h 03 min");
    }
}
