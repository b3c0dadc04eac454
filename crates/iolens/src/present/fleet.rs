//! Hosts and devices of a fleet, ranked by the harm that they do: one document, for the API and for the page.

use std::cmp::Ordering;

use iolens_core::model::{KindName, Severity};
use serde::Serialize;

use super::html::{FLEET_PAGE, NoPage, fill, script_policy, script_safe};

/// All hosts of a recording root over a time range.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FleetDocument {
    /// Version of the layout of this document.
    pub schema_version: u32,
    /// Start of the time range.
    pub from_unix_s: f64,
    /// End of the time range.
    pub to_unix_s: f64,
    /// Hosts. Those with slow disks come first, then those with the most lost I/O time.
    pub hosts: Vec<HostRow>,
    /// Disks: slow ones first, then those that lost most I/O time. Layers above them (dm, md) and loop devices are excluded.
    pub devices: Vec<DeviceRow>,
    /// Findings reported while recording, the most harmful first: at most 20 per host and 1000 in total.
    pub findings: Vec<FindingRow>,
    /// Number of findings that are not listed.
    pub findings_left_out: u64,
    /// Findings by kind with the number of hosts affected, most harmful first.
    pub kinds: Vec<KindRow>,
    /// Hosts without a row because their recordings could not be read, and why.
    pub hosts_unread: Vec<UnreadHost>,
    /// Number of hosts not read for lack of time. The next request continues with them.
    pub hosts_left_out: u64,
    /// Remarks for people.
    pub notes: Vec<String>,
}

/// A host.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostRow {
    /// Name of the host.
    pub host: String,
    /// Number of recordings that cover some of the time range.
    pub recording_count: u32,
    /// Start of the recorded time.
    pub from_unix_s: f64,
    /// End of the time range.
    pub to_unix_s: f64,
    /// Number of disks.
    pub disks: u64,
    /// Number of the host's disks that are slow.
    pub slow_disks: u64,
    /// Number of findings reported while recording.
    pub finding_count: u64,
    /// I/Os completed.
    pub ios: i64,
    /// Bytes moved.
    pub bytes: i64,
    /// I/O time of its disks beyond that of the median disk of the same model at the same load; `null` if there is none to
    /// compare with.
    pub lost_s: Option<f64>,
    /// Share of time with at least one I/O in flight, of the busiest disk.
    pub busy_percent: Option<f64>,
    /// 99th percentile of the latency from start to completion, with an error of at most 3 %.
    pub p99_us: Option<f64>,
    /// I/Os that failed.
    pub errors: Option<i64>,
    /// I/Os known to be missing in the recordings.
    pub lost_ios: Option<i64>,
    /// Start of the minute with the most time in flight on its worst disk.
    pub worst_unix_s: Option<f64>,
}

/// A disk.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceRow {
    /// Name of the host.
    pub host: String,
    /// Kernel name of the disk.
    pub device: String,
    /// Identifier that remains when the name changes.
    pub stable_id: Option<String>,
    /// Model name.
    pub model: Option<String>,
    /// I/Os completed.
    pub ios: i64,
    /// Bytes moved.
    pub bytes: i64,
    /// I/O time beyond that of the median disk of its model for as many I/Os of each class at the same load (bytes in the minute,
    /// size of an I/O); `null`: fewer than three to compare.
    pub lost_s: Option<f64>,
    /// Whether its device time exceeds 1.4 times that of the median disk of its model, and the variation among healthy disks of
    /// the model.
    pub slow: bool,
    /// Ratio of its device time to that of the median disk of its model, for the same number of I/Os per class at the same
    /// load.
    pub slow_factor: Option<f64>,
    /// Mean read latency from start to completion.
    pub read_us: Option<f64>,
    /// Mean write latency from start to completion.
    pub write_us: Option<f64>,
    /// 99th percentile of the latency from start to completion, with an error of at most 3 %.
    pub p99_us: Option<f64>,
    /// Share of time with at least one I/O in flight.
    pub busy_percent: Option<f64>,
    /// I/Os that failed.
    pub errors: Option<i64>,
    /// I/Os known to be missing in the recordings.
    pub lost_ios: Option<i64>,
    /// Start of the minute with the most time in flight.
    pub worst_unix_s: Option<f64>,
}

/// A finding of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindingRow {
    /// Name of the host.
    pub host: String,
    /// The device, or the devices behind one link; `null` if it is about all.
    pub device: Option<String>,
    /// Kind of the finding.
    pub kind: KindName,
    /// Severity of the finding.
    pub severity: Severity,
    /// One line for people.
    pub summary: String,
    /// Start of the finding.
    pub start_unix_s: f64,
    /// End of the finding as observed so far.
    pub end_unix_s: f64,
    /// Whether it had not ended when it was written.
    pub open: bool,
}

/// Findings of a kind on all hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KindRow {
    /// Kind of the finding.
    pub kind: KindName,
    /// Highest severity of the findings.
    pub severity: Severity,
    /// Number of hosts with findings of this kind.
    pub host_count: u64,
    /// Number of findings, including those that are not listed.
    pub finding_count: u64,
}

/// A host that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnreadHost {
    /// Name of the host.
    pub host: String,
    /// What is wrong with each of the host's recordings of the time range, or with its newest.
    pub reasons: Vec<String>,
}

impl FleetDocument {
    /// Slow disks and their hosts first, then the most time lost; where none was lost, the slowest.
    pub fn ranked(mut self) -> FleetDocument {
        self.hosts.sort_by(|a, b| {
            let by_time = most_first([a.lost_s, a.p99_us], [b.lost_s, b.p99_us]);
            let by_slow = (b.slow_disks > 0).cmp(&(a.slow_disks > 0));
            by_slow.then(by_time).then(a.host.cmp(&b.host))
        });
        self.devices.sort_by(|a, b| {
            let by_time = most_first([a.lost_s, a.p99_us], [b.lost_s, b.p99_us]);
            let by_slow = b.slow.cmp(&a.slow);
            by_slow.then(by_time).then(a.host.cmp(&b.host))
        });
        self
    }
}

/// The order by time lost, then by the 99th percentile, the most first; what is not known comes last, as zero does.
fn most_first(a: [Option<f64>; 2], b: [Option<f64>; 2]) -> Ordering {
    let [a_lost_s, a_p99_us] = a.map(Option::unwrap_or_default);
    let [b_lost_s, b_p99_us] = b.map(Option::unwrap_or_default);
    let by_lost = b_lost_s.total_cmp(&a_lost_s);
    by_lost.then(b_p99_us.total_cmp(&a_p99_us))
}

/// What the page allows itself; `None` if this program was built without it.
pub fn policy() -> Option<&'static str> {
    script_policy(FLEET_PAGE?)
}

/// The document in a page.
#[derive(Serialize)]
struct FleetPage<'a> {
    /// Version of the document's layout.
    format: u32,
    #[serde(flatten)]
    document: &'a FleetDocument,
}

/// The page.
///
/// # Errors
/// [`NoPage`] if this program was built without it.
pub fn page(document: &FleetDocument) -> Result<Vec<u8>, NoPage> {
    FLEET_PAGE
        .map(|page| {
            fill(
                page,
                "Fleet – iolens",
                &script_safe(&FleetPage {
                    format: 1,
                    document,
                }),
            )
        })
        .ok_or(NoPage)
}
