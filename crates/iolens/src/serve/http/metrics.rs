//! `/metrics`: the recorder's own counts, and optionally node_exporter's disk metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::stories::StoryKind;
use iolens_core::analysis::waits::TimeOwner;
use iolens_core::model::{Class, ClassCounters, DevId, LossReason, RecorderCost};
use iolens_observe::counters::{DiskRow, DiskstatsReader, Root};
use iolens_observe::topology::{own_cost, wall_clock_ns};
use iolens_recorder::LossCounts;

use super::App;
use super::answer::AnswerWriter;
use super::api::Params;
use super::endpoint::Endpoint;
use super::health::HealthDocument;
use super::places::RequestKind;
use super::problem::Problem;
use crate::present::exposition::{Exposition, ExpositionWriter, MetricKind};
use crate::serve::meter::{ClassTotals, DeviceTotals, Times, Totals};
use crate::serve::ship::ShipTotals;
use crate::serve::watcher::StorySeconds;

/// What `/metrics` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/metrics",
    method: "get",
    kind: RequestKind::Metrics,
    summary: "For Prometheus",
    parameters: &[],
    keys: &[],
    schema: None,
    handler: || get(metrics),
};

/// `GET /metrics`.
///
/// # Errors
/// The kernel's counters cannot be read.
pub async fn metrics(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Params::of(&uri, &ENDPOINT)?;
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|h| h.to_str().ok())
        .unwrap_or("");
    let form = Exposition::accepted(accepts);
    let work = {
        let app = Arc::clone(&app);
        move |out: &mut AnswerWriter| write(&app, form, out)
    };
    app.stream_metrics(form.content_type(), work).await
}

fn write(app: &App, form: Exposition, out: &mut AnswerWriter) -> Result<()> {
    // Everything that can fail is done before the first byte.
    let mut reader = match app.compat_node {
        true => {
            Some(DiskstatsReader::open(&Root::live()).context("/proc/diskstats cannot be read")?)
        }
        false => None,
    };
    let rows = match &mut reader {
        Some(reader) => reader.read()?,
        None => &[],
    };
    let mut writer = ExpositionWriter::new(form, out);
    own(app, &mut writer);
    if let Some(meter) = &app.meter {
        let totals = meter.totals();
        of_devices(&totals, &mut writer);
        waits(&totals, &mut writer);
        if let Some(found) = &app.found {
            stories(&totals, &found.story_seconds(), &mut writer);
        }
        lost(&app.health.losses(), totals.missed_ios, &mut writer);
    }
    if let Some(found) = &app.found {
        writer.family(
            "iolens_findings_total",
            MetricKind::Counter,
            "Findings that began.",
        );
        for ((kind, severity), n) in found.counts() {
            writer.sample(
                "iolens_findings_total",
                &[("kind", kind.as_str()), ("severity", severity.name())],
                n as f64,
            );
        }
    }
    if app.compat_node {
        node(rows, &mut writer);
    }
    Ok(writer.finish()?)
}

/// A metric family: name, type, help, and how to get a value from a source (`None`: not known there).
type Family<T> = (
    &'static str,
    MetricKind,
    &'static str,
    fn(&T) -> Option<f64>,
);

/// Writes families, each with the values of all sources.
fn write_families<'a, T: 'a, const LABELS: usize>(
    writer: &mut ExpositionWriter<'_>,
    families: &[Family<T>],
    sources: impl Iterator<Item = ([(&'static str, &'a str); LABELS], &'a T)> + Clone,
) {
    for (name, kind, help, value) in families {
        writer.family(name, *kind, help);
        for (labels, source) in sources.clone() {
            if let Some(value) = value(source) {
                writer.sample(name, &labels, value);
            }
        }
    }
}

/// Writes families of a single source without labels.
fn write_own<T>(writer: &mut ExpositionWriter<'_>, families: &[Family<T>], source: &T) {
    write_families(writer, families, std::iter::once(([], source)));
}

const HEALTH: [Family<HealthDocument>; 3] = [
    (
        "iolens_healthy",
        MetricKind::Gauge,
        "Whether I/Os are recorded and stored, as /healthz says.",
        |health| Some(f64::from(u8::from(health.healthy))),
    ),
    (
        "iolens_degraded",
        MetricKind::Gauge,
        "How many things are missing, late or damaged although it records; /healthz lists them.",
        |health| Some(health.degraded.len() as f64),
    ),
    (
        "iolens_damaged_files",
        MetricKind::Gauge,
        "Damages found in what is stored; /healthz lists them.",
        |health| Some(health.damaged.len() as f64),
    ),
];

const COST: [Family<RecorderCost>; 2] = [
    (
        "iolens_cpu_seconds_total",
        MetricKind::Counter,
        "CPU time of this process, without the probes.",
        |cost| cost.cpu_s,
    ),
    (
        "iolens_max_rss_bytes",
        MetricKind::Gauge,
        "Most memory that this process had.",
        |cost| Some(cost.max_rss_bytes? as f64),
    ),
];

const SHIPPING: [Family<ShipTotals>; 8] = [
    (
        "iolens_ship_files_total",
        MetricKind::Counter,
        "Files that were copied to the target of --ship.",
        |totals| Some(totals.sent.files as f64),
    ),
    (
        "iolens_ship_bytes_total",
        MetricKind::Counter,
        "Their bytes.",
        |totals| Some(totals.sent.bytes as f64),
    ),
    (
        "iolens_ship_failures_total",
        MetricKind::Counter,
        "Attempts to ship that failed; each is made again.",
        |totals| Some(totals.failures as f64),
    ),
    (
        "iolens_ship_dropped_files_total",
        MetricKind::Counter,
        "Files that were removed here, or unreadable, before they were shipped.",
        |totals| Some(totals.dropped.files as f64),
    ),
    (
        "iolens_ship_dropped_bytes_total",
        MetricKind::Counter,
        "Their bytes.",
        |totals| Some(totals.dropped.bytes as f64),
    ),
    (
        "iolens_ship_waiting_files",
        MetricKind::Gauge,
        "Closed files that are not shipped yet.",
        |totals| Some(totals.waiting.files as f64),
    ),
    (
        "iolens_ship_waiting_bytes",
        MetricKind::Gauge,
        "Their bytes.",
        |totals| Some(totals.waiting.bytes as f64),
    ),
    (
        "iolens_ship_lag_seconds",
        MetricKind::Gauge,
        "Age of the oldest of them; 0 where none waits.",
        |totals| Some(totals.lag_s(wall_clock_ns())),
    ),
];

fn own(app: &App, writer: &mut ExpositionWriter<'_>) {
    write_own(writer, &HEALTH, &app.health.document());
    if let Some(totals) = app.health.shipping() {
        write_own(writer, &SHIPPING, &totals);
    }
    write_own(writer, &COST, &own_cost());
}

/// A unique name for each device: if two share a name, the second gets its number appended.
fn names(totals: &Totals) -> BTreeMap<DevId, String> {
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for d in &totals.known {
        let own = if taken.insert(d.name.as_str()) {
            d.name.clone()
        } else {
            d.id.to_string()
        };
        names.entry(d.id).or_insert(own);
    }
    for dev in totals.devices.keys() {
        names.entry(*dev).or_insert_with(|| dev.to_string());
    }
    names
}

type LatencyPart = (&'static str, &'static str, fn(&ClassTotals) -> &Times);

const PARTS: [LatencyPart; 3] = [
    (
        "iolens_io_total_seconds",
        "From start to completion of an I/O.",
        |c| &c.total,
    ),
    (
        "iolens_io_queue_seconds",
        "From start to issue: in the kernel's queues.",
        |c| &c.queue,
    ),
    (
        "iolens_io_device_seconds",
        "From issue to completion: in the driver and the device.",
        |c| &c.device,
    ),
];

const OF_CLASSES: [Family<ClassTotals>; 1] = [(
    "iolens_io_bytes_total",
    MetricKind::Counter,
    "Bytes that I/Os moved.",
    |class| Some(class.bytes as f64),
)];

const OF_DEVICES: [Family<DeviceTotals>; 2] = [
    (
        "iolens_busy_seconds_total",
        MetricKind::Counter,
        "Time with any I/O in flight, exact; about 1 s late.",
        |device| Some(device.busy_ns as f64 / 1e9),
    ),
    (
        "iolens_in_flight_seconds_total",
        MetricKind::Counter,
        "Time in flight, summed over I/Os; about 1 s late.",
        |device| Some(device.in_flight_ns as f64 / 1e9),
    ),
];

fn of_devices(totals: &Totals, writer: &mut ExpositionWriter<'_>) {
    let names = &names(totals);
    let classes = totals.devices.iter().flat_map(|(dev, d)| {
        let of = Class::ALL.into_iter().zip(&d.classes);
        of.filter_map(move |(class, c)| {
            let labels = [("device", names[dev].as_str()), ("op", class.name())];
            Some((labels, c.as_deref()?))
        })
    });
    for (name, help, part) in PARTS {
        writer.family(name, MetricKind::Histogram, help);
        for (labels, c) in classes.clone() {
            let times = part(c);
            // Devices without a queue have no queue times.
            if times.histogram.n() > 0 {
                writer.histogram(name, &labels, &times.histogram, times.sum_ns);
            }
        }
    }
    write_families(writer, &OF_CLASSES, classes);
    writer.family(
        "iolens_io_errors_total",
        MetricKind::Counter,
        "I/Os that the device failed.",
    );
    for (dev, device) in names {
        // Devices without I/O are included: an error may be the first event of a device.
        let of = totals.devices.get(dev);
        for class in Class::ALL {
            let errors = of
                .and_then(|d| d.classes[class as usize].as_ref())
                .map_or(0, |c| c.errors);
            writer.sample(
                "iolens_io_errors_total",
                &[("device", device), ("op", class.name())],
                errors as f64,
            );
        }
    }
    let devices = totals.devices.iter();
    let devices = devices.map(|(dev, d)| ([("device", names[dev].as_str())], d));
    write_families(writer, &OF_DEVICES, devices);
    writer.family("iolens_device_info", MetricKind::Gauge, "Devices by name.");
    for d in totals.known.iter().filter(|d| d.removed_ns.is_none()) {
        let major = d.id.major().to_string();
        let minor = d.id.minor().to_string();
        let id = d.stable_id.as_deref().unwrap_or("");
        let model = d.model.as_deref().unwrap_or("");
        let labels = [
            ("device", names[&d.id].as_str()),
            ("major", &major),
            ("minor", &minor),
            ("stable_id", id),
            ("model", model),
        ];
        writer.sample("iolens_device_info", &labels, 1.0);
    }
}

/// I/O time by owner, without process names so that there are few series; for every device from the start.
fn waits(totals: &Totals, writer: &mut ExpositionWriter<'_>) {
    let family = "iolens_wait_seconds_total";
    let help =
        "I/O time by the owner of each part of it; the causes add up to all of it. About 3 s late.";
    writer.family(family, MetricKind::Counter, help);
    for (dev, device) in &names(totals) {
        for class in Class::ALL {
            for cause in TimeOwner::ALL {
                let labels = [
                    ("device", device.as_str()),
                    ("op", class.name()),
                    ("cause", cause.name()),
                ];
                let ns = totals.waits.ns(*dev, class, cause);
                writer.sample(family, &labels, ns as f64 / 1e9);
            }
        }
    }
}

/// Time lost to stories, by kind and device, since the start.
fn stories(totals: &Totals, seconds: &StorySeconds, writer: &mut ExpositionWriter<'_>) {
    let family = "iolens_story_seconds_total";
    let help = "I/O time that programs lost, by the mechanism of the story; at least. Up to a minute late.";
    writer.family(family, MetricKind::Counter, help);
    let mut all = StorySeconds::new();
    for device in names(totals).into_values() {
        for kind in StoryKind::ALL {
            all.insert((kind, device.clone()), 0.0);
        }
    }
    all.extend(seconds.clone());
    for ((kind, device), cost_s) in &all {
        let labels = [("kind", kind.name()), ("device", device.as_str())];
        writer.sample(family, &labels, *cost_s);
    }
}

/// Losses since the start. Every possible reason has a series from the start, because Prometheus sees no increase in
/// a counter that begins with its first value.
fn lost(losses: &LossCounts, missed_ios: u64, writer: &mut ExpositionWriter<'_>) {
    writer.family(
        "iolens_lost_ios_total",
        MetricKind::Counter,
        "I/Os that the recording misses.",
    );
    for reason in LossReason::ALL
        .into_iter()
        .filter(|r| r.is_loss() && !matches!(r, LossReason::Corrupt | LossReason::Import))
    {
        writer.sample(
            "iolens_lost_ios_total",
            &[("reason", reason.name())],
            losses.get(reason) as f64,
        );
    }
    writer.family(
        "iolens_metrics_missed_ios_total",
        MetricKind::Counter,
        "I/Os that are recorded, but not in these metrics.",
    );
    writer.sample("iolens_metrics_missed_ios_total", &[], missed_ios as f64);
}

/// Bytes per sector in `/proc/diskstats`, independent of the device's sector size.
const SECTOR_BYTES: f64 = 512.0;

fn discard(row: &DiskRow, get: fn(&ClassCounters) -> f64) -> Option<f64> {
    row.counters.discard.as_ref().map(get)
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// In the order and with the names of node_exporter 1.x (`collector/diskstats_linux.go`).
const NODE: [Family<DiskRow>; 17] = [
    (
        "node_disk_reads_completed_total",
        MetricKind::Counter,
        "The total number of reads completed successfully.",
        |r| Some(r.counters.read.ios as f64),
    ),
    (
        "node_disk_reads_merged_total",
        MetricKind::Counter,
        "The total number of reads merged.",
        |r| Some(r.counters.read.merges as f64),
    ),
    (
        "node_disk_read_bytes_total",
        MetricKind::Counter,
        "The total number of bytes read successfully.",
        |r| Some(r.counters.read.sectors as f64 * SECTOR_BYTES),
    ),
    (
        "node_disk_read_time_seconds_total",
        MetricKind::Counter,
        "The total number of seconds spent by all reads.",
        |r| Some(seconds(r.counters.read.ticks_ms)),
    ),
    (
        "node_disk_writes_completed_total",
        MetricKind::Counter,
        "The total number of writes completed successfully.",
        |r| Some(r.counters.write.ios as f64),
    ),
    (
        "node_disk_writes_merged_total",
        MetricKind::Counter,
        "The number of writes merged.",
        |r| Some(r.counters.write.merges as f64),
    ),
    (
        "node_disk_written_bytes_total",
        MetricKind::Counter,
        "The total number of bytes written successfully.",
        |r| Some(r.counters.write.sectors as f64 * SECTOR_BYTES),
    ),
    (
        "node_disk_write_time_seconds_total",
        MetricKind::Counter,
        "This is the total number of seconds spent by all writes.",
        |r| Some(seconds(r.counters.write.ticks_ms)),
    ),
    (
        "node_disk_io_now",
        MetricKind::Gauge,
        "The number of I/Os currently in progress.",
        |r| Some(r.counters.in_flight as f64),
    ),
    (
        "node_disk_io_time_seconds_total",
        MetricKind::Counter,
        "Total seconds spent doing I/Os.",
        |r| Some(seconds(r.counters.io_ticks_ms)),
    ),
    (
        "node_disk_io_time_weighted_seconds_total",
        MetricKind::Counter,
        "The weighted # of seconds spent doing I/Os.",
        |r| Some(seconds(r.counters.time_in_queue_ms)),
    ),
    (
        "node_disk_discards_completed_total",
        MetricKind::Counter,
        "The total number of discards completed successfully.",
        |r| discard(r, |c| c.ios as f64),
    ),
    (
        "node_disk_discards_merged_total",
        MetricKind::Counter,
        "The total number of discards merged.",
        |r| discard(r, |c| c.merges as f64),
    ),
    (
        "node_disk_discarded_sectors_total",
        MetricKind::Counter,
        "The total number of sectors discarded successfully.",
        |r| discard(r, |c| c.sectors as f64),
    ),
    (
        "node_disk_discard_time_seconds_total",
        MetricKind::Counter,
        "This is the total number of seconds spent by all discards.",
        |r| discard(r, |c| seconds(c.ticks_ms)),
    ),
    (
        "node_disk_flush_requests_total",
        MetricKind::Counter,
        "The total number of flush requests completed successfully",
        |r| r.counters.flush.map(|f| f.ios as f64),
    ),
    (
        "node_disk_flush_requests_time_seconds_total",
        MetricKind::Counter,
        "This is the total number of seconds spent by all flush requests.",
        |r| r.counters.flush.map(|f| seconds(f.ticks_ms)),
    ),
];

fn node(rows: &[DiskRow], writer: &mut ExpositionWriter<'_>) {
    let shown: Vec<(String, &DiskRow)> = rows
        .iter()
        .map(|r| (String::from_utf8_lossy(&r.name).into_owned(), r))
        .filter(|(name, _)| !is_ignored_by_node(name))
        .collect();
    let sources = shown
        .iter()
        .map(|(device, row)| ([("device", device.as_str())], *row));
    write_families(writer, &NODE, sources);
}

/// node_exporter's own default: `^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$`.
fn is_ignored_by_node(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return false;
    }
    matches!(stem, "ram" | "zram" | "loop" | "fd")
        || is_lettered_disk(stem)
        || is_nvme_partition(stem).unwrap_or(false)
}

/// `^(h|s|v|xv)d[a-z]$`.
fn is_lettered_disk(stem: &str) -> bool {
    let mut letters = ["hd", "sd", "vd", "xvd"]
        .iter()
        .filter_map(|prefix| stem.strip_prefix(prefix));
    letters.any(|letter| letter.len() == 1 && letter.bytes().all(|b| b.is_ascii_lowercase()))
}

/// `^nvme\d+n\d+p$`; `None`: another name.
fn is_nvme_partition(stem: &str) -> Option<bool> {
    let numbers = stem.strip_prefix("nvme")?.strip_suffix('p')?;
    let (controller, namespace) = numbers.split_once('n')?;
    Some(is_number(controller) && is_number(namespace))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::analysis::waits::WaitBinsBuilder;
    use iolens_core::model::{Device, Io, Op};

    #[test]
    fn what_node_exporter_leaves_out_is_left_out() {
        let ignored = [
            "loop0",
            "ram12",
            "zram0",
            "fd0",
            "sda1",
            "vdb12",
            "xvda1",
            "hda3",
            "nvme0n1p1",
            "nvme10n2p15",
        ];
        assert!(ignored.iter().all(|n| is_ignored_by_node(n)));
        let shown = [
            "sda",
            "vda",
            "nvme0n1",
            "dm-0",
            "md0",
            "sr0",
            "mmcblk0p1",
            "sdaa1",
            "loop",
            "nvmexn1p1",
            "sd1",
        ];
        assert!(shown.iter().all(|n| !is_ignored_by_node(n)));
    }

    #[test]
    fn devices_of_one_name_stay_apart() {
        let a = DevId::new(8, 0);
        let b = DevId::new(8, 16);
        let known = vec![Device::named("sda", a), Device::named("sda", b)];
        let totals = Totals {
            known,
            ..Totals::default()
        };
        assert_eq!(
            names(&totals).into_values().collect::<Vec<_>>(),
            ["sda", "8:16"]
        );
    }

    #[test]
    fn waits_and_stories_are_there_from_the_start_and_bounded() {
        let sda = DevId::new(8, 0);
        let mut totals = Totals {
            known: vec![Device::named("sda", sda)],
            ..Totals::default()
        };
        let text = |totals: &Totals, seconds: &StorySeconds| {
            let mut out = Vec::new();
            let mut writer = ExpositionWriter::new(Exposition::Prometheus, &mut out);
            waits(totals, &mut writer);
            stories(totals, seconds, &mut writer);
            writer.finish().expect("written");
            String::from_utf8(out).expect("text")
        };
        let before = text(&totals, &StorySeconds::new());
        assert_eq!(
            before.matches("} 0\n").count(),
            4 * 6 + StoryKind::ALL.len(),
            "{before}"
        );

        let mut builder = WaitBinsBuilder::running(1_000_000_000);
        for i in 1..100 {
            let ms = 1_000_000;
            let latency_ns = if i == 50 { 80 * ms } else { ms };
            let done_ns = i * 100 * ms + latency_ns;
            builder.push(&Io::new(done_ns, sda, Op::READ, 512, Some(0), latency_ns));
        }
        for bin in builder.finish() {
            totals.waits.add(&bin);
        }
        let seconds = StorySeconds::from([((StoryKind::SlowIo, "sda".to_owned()), 0.079)]);
        let after = text(&totals, &seconds);
        assert_eq!(after.lines().count(), before.lines().count());
        for sample in [
            "iolens_wait_seconds_total{device=\"sda\",op=\"read\",cause=\"undisturbed\"} 0.099\n",
            "iolens_wait_seconds_total{device=\"sda\",op=\"read\",cause=\"device\"} 0.079\n",
            "iolens_wait_seconds_total{device=\"sda\",op=\"write\",cause=\"others\"} 0\n",
            "iolens_story_seconds_total{kind=\"slow-io\",device=\"sda\"} 0.079\n",
        ] {
            assert!(after.contains(sample), "{sample} in {after}");
        }
    }

    #[test]
    fn a_hundred_disks_are_600_kib_of_text_for_each_class_of_io() {
        let mut totals = Totals::default();
        for i in 0..100u32 {
            let mut times = Times::default();
            // Seven digits of a count, and no digit of a sum that is not there.
            times.histogram.add(123_456, 1_234_567);
            times.sum_ns = 123_456 * 1_234_567;
            let class = ClassTotals {
                queue: times.clone(),
                device: times.clone(),
                total: times,
                ..ClassTotals::default()
            };
            let dev = DevId::new(259, i);
            let device = totals.devices.entry(dev).or_default();
            device.classes[Class::Read as usize] = Some(Box::new(class));
            totals.known.push(Device::named(format!("sd{i}"), dev));
        }
        let mut out = Vec::new();
        let mut writer = ExpositionWriter::new(Exposition::Prometheus, &mut out);
        of_devices(&totals, &mut writer);
        writer.finish().expect("written");
        assert!(out.len() < 660 << 10, "{} bytes", out.len());
    }

    #[test]
    fn the_kernels_counters_come_with_the_names_of_node_exporter() {
        let Ok(mut reader) = DiskstatsReader::open(&Root::live()) else {
            return;
        };
        let rows = reader.read().expect("readable").to_vec();
        let mut out = Vec::new();
        let mut writer = ExpositionWriter::new(Exposition::Prometheus, &mut out);
        node(&rows, &mut writer);
        writer.finish().expect("written");
        let text = String::from_utf8(out).expect("text");
        for row in rows
            .iter()
            .filter(|r| !is_ignored_by_node(&String::from_utf8_lossy(&r.name)))
        {
            let name = String::from_utf8_lossy(&row.name);
            let line = format!(
                "node_disk_read_bytes_total{{device=\"{name}\"}} {}\n",
                row.counters.read.sectors * 512
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 17);
    }
}
