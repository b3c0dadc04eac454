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
    /// Beginning of the stretch.
    pub from_unix_s: f64,
    /// Its end.
    pub to_unix_s: f64,
    /// Hosts. Those with slow disks come first, then those with the most lost I/O time.
    pub hosts: Vec<HostRow>,
    /// Disks: slow ones first, then those that lost most I/O time; the layers above them (dm, md) and loop devices are left out.
    pub devices: Vec<DeviceRow>,
    /// What was reported while it was recorded, the most harmful first: at most 20 of a host and 1000 in all.
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
    /// Its name.
    pub host: String,
    /// Number of recordings that cover some of the time range.
    pub recording_count: u32,
    /// Beginning of what is recorded of it.
    pub from_unix_s: f64,
    /// Its end.
    pub to_unix_s: f64,
    /// How many disks it has.
    pub disks: u64,
    /// Number of the host's disks that are slow.
    pub slow_disks: u64,
    /// What was reported of it while it was recorded: how many findings.
    pub finding_count: u64,
    /// I/Os completed.
    pub ios: i64,
    /// Bytes moved.
    pub bytes: i64,
    /// I/O time of its disks beyond that of the median disk of the same model at the same load; `null`: there is none to compare
    /// with.
    pub lost_s: Option<f64>,
    /// Of its busiest disk: time with any I/O in flight.
    pub busy_percent: Option<f64>,
    /// The 99th percentile of the time from start to completion, at most 3 % off.
    pub p99_us: Option<f64>,
    /// I/Os that failed.
    pub errors: Option<i64>,
    /// I/Os known to be missing in the recordings.
    pub lost_ios: Option<i64>,
    /// Start of the minute in which most time was spent in flight on its worst disk.
    pub worst_unix_s: Option<f64>,
}

/// A disk.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceRow {
    /// Whose it is.
    pub host: String,
    /// Its name there.
    pub device: String,
    /// What stays when the name changes.
    pub stable_id: Option<String>,
    /// Its model.
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
    /// The 99th percentile of the time from start to completion, at most 3 % off.
    pub p99_us: Option<f64>,
    /// Time with any I/O in flight.
    pub busy_percent: Option<f64>,
    /// I/Os that failed.
    pub errors: Option<i64>,
    /// I/Os known to be missing in the recordings.
    pub lost_ios: Option<i64>,
    /// Start of the minute in which most time was spent in flight.
    pub worst_unix_s: Option<f64>,
}

/// A finding of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindingRow {
    /// Where.
    pub host: String,
    /// The device, or the devices behind one link; `null` if it is about all.
    pub device: Option<String>,
    /// What was found.
    pub kind: KindName,
    /// How much it matters.
    pub severity: Severity,
    /// One line for people.
    pub summary: String,
    /// When it began.
    pub start_unix_s: f64,
    /// When it ended, as far as it was seen.
    pub end_unix_s: f64,
    /// It had not ended when that was written.
    pub open: bool,
}

/// Findings of a kind on all hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KindRow {
    /// What was found.
    pub kind: KindName,
    /// The highest of its findings.
    pub severity: Severity,
    /// Number of hosts with findings of this kind.
    pub host_count: u64,
    /// How many findings, also those that are not listed.
    pub finding_count: u64,
}

/// A host that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnreadHost {
    /// Its name.
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
    /// Version of this document.
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
