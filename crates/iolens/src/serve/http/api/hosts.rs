//! `hosts`, and the page of a fleet: hosts and disks of the root, ranked by the I/O time that they lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use iolens_core::analysis::findings::harm;
use iolens_core::model::{Class, KindName, known_sum};

use super::super::endpoint::{Endpoint, Parameter, Shape};
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::json;
use super::params::Params;
use crate::engine::caller::Caller;
use crate::engine::findings::{HostFinding, sort};
use crate::engine::fleet::{self, ClassSums, DeviceSums, Fleet, HostSums, Peers, Remembered};
use crate::engine::note::Note;
use crate::engine::query::Query;
use crate::engine::{TimeWindow, privacy};
use crate::present::fleet::{DeviceRow, FindingRow, FleetDocument, HostRow, KindRow, UnreadHost};

/// What `/api/v1/hosts` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/hosts",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "Hosts and disks, those that lost most I/O time first, and what was reported of them; of the last day before the newest recording's end, if no time is given",
    parameters: &[FROM, TO],
    keys: &[
        "schema_version",
        "from_unix_s",
        "to_unix_s",
        "hosts",
        "devices",
        "findings",
        "findings_left_out",
        "kinds",
        "hosts_unread",
        "hosts_left_out",
        "notes",
    ],
    schema: Some("FleetDocument"),
    handler: || get(hosts),
};

/// `from`.
const FROM: Parameter = Parameter {
    name: "from",
    shape: Shape::Text,
    description: "RFC 3339, seconds since the epoch, -5m or now; without it a day before the end",
};
/// `to`.
const TO: Parameter = Parameter {
    name: "to",
    shape: Shape::Text,
    description: "RFC 3339, seconds since the epoch, -5m or now; without it the newest recording's end",
};

/// Default length of the window, before the end of the newest recording.
const DEFAULT_NS: i64 = 86_400_000_000_000;
/// Maximum time spent reading recordings for one response. A later request continues.
const READING: Duration = Duration::from_secs(if cfg!(test) { 600 } else { 5 });
/// Maximum number of disks listed. The sums of the hosts include all disks.
const MAX_DEVICES: usize = 1000;
/// Maximum number of findings listed. The most severe ones of each host are kept.
const MAX_FINDINGS: usize = 1000;

/// `GET /api/v1/hosts`.
///
/// # Errors
/// The root holds no rollups of that time.
pub async fn hosts(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    json(&of(&app, &Params::of(&uri, &ENDPOINT)?).await?)
}

/// The fleet in the window that `params` select.
///
/// # Errors
/// Those of [`hosts`].
pub async fn of(app: &Arc<App>, params: &Params) -> Result<FleetDocument, Problem> {
    // The default window ends with the fleet's newest recording, not with this host's clock.
    let asked = TimeWindow {
        at: None,
        from: params.time("from")?,
        to: params.time("to")?,
    };
    let root = app.root.clone();
    let remembered = Arc::clone(&app.fleet);
    let said = app
        .read(move |asker| document(&root, asked, &remembered, &asker.caller))
        .await?;
    Ok(FleetDocument {
        notes: said.notes,
        ..said.answer
    })
}

fn document(
    path: &Path,
    asked: TimeWindow,
    remembered: &Remembered,
    caller: &Caller,
) -> Result<FleetDocument> {
    let query = Query::new(path, asked, caller);
    let deadline = Instant::now() + READING;
    let fleet = fleet::read(&query, DEFAULT_NS, remembered, deadline)?;
    Ok(ranked(&fleet, caller))
}

/// A finding as the caller may see it. The cache is shared by all callers and contains names.
fn shown(finding: HostFinding, caller: &Caller) -> FindingRow {
    let summary = if caller.hides_names() {
        privacy::summary(&finding.kind, finding.device.as_deref())
    } else {
        finding.summary
    };
    FindingRow {
        host: finding.host,
        device: finding.device,
        kind: finding.kind,
        severity: finding.severity,
        summary,
        start_unix_s: seconds(finding.from_unix_ns),
        end_unix_s: seconds(finding.to_unix_ns),
        open: finding.open,
    }
}

fn ranked(fleet: &Fleet, caller: &Caller) -> FleetDocument {
    let peers = Peers::of(fleet);
    let (known, without): (Vec<_>, Vec<_>) = fleet.hosts.iter().partition(|h| h.recordings > 0);
    for damage in known.iter().flat_map(|h| &h.damage) {
        caller.note(Note::Unread(damage.clone()));
    }
    // I/O of a device on another recorded disk is counted there.
    let mut devices = Vec::new();
    for host in &known {
        for device in host.devices.values().filter(|d| d.is_disk()) {
            devices.push(device_row(host, device, &peers));
        }
    }
    let mut hosts_unread = Vec::new();
    for host in without.iter().filter(|h| !h.damage.is_empty()) {
        hosts_unread.push(UnreadHost {
            host: host.host.clone(),
            reasons: host.damage.clone(),
        });
    }
    // Findings of all hosts. They may be left over from a host without recordings.
    let mut findings: Vec<HostFinding> = Vec::new();
    for host in &fleet.hosts {
        findings.extend_from_slice(&host.reported.worst);
    }
    sort(&mut findings);
    findings.truncate(MAX_FINDINGS);
    let mut document = FleetDocument {
        schema_version: SCHEMA_VERSION,
        from_unix_s: seconds(fleet.unix_ns.start),
        to_unix_s: seconds(fleet.unix_ns.end),
        hosts: known.iter().map(|h| host_row(h, &peers)).collect(),
        devices,
        findings: findings.into_iter().map(|f| shown(f, caller)).collect(),
        kinds: kinds(fleet),
        hosts_unread,
        hosts_left_out: fleet.left_out as u64,
        ..FleetDocument::default()
    }
    .ranked();
    // Truncated after ranking, so that the worst devices stay.
    document.devices.truncate(MAX_DEVICES);
    let total: u64 = document.kinds.iter().map(|k| k.finding_count).sum();
    document.findings_left_out = total - document.findings.len() as u64;
    document
}

/// Number of hosts per kind of finding, the most severe kinds first.
fn kinds(fleet: &Fleet) -> Vec<KindRow> {
    let mut all: BTreeMap<&KindName, KindRow> = BTreeMap::new();
    for (kind, (findings, severity)) in fleet.hosts.iter().flat_map(|h| &h.reported.kinds) {
        let row = all.entry(kind).or_insert_with(|| KindRow {
            kind: kind.clone(),
            ..KindRow::default()
        });
        row.host_count += 1;
        row.finding_count += findings;
        row.severity = row.severity.max(*severity);
    }
    let mut rows: Vec<KindRow> = all.into_values().collect();
    rows.sort_by_cached_key(|r| (harm(r.severity, &r.kind), std::cmp::Reverse(r.host_count)));
    rows
}

fn seconds(unix_ns: i64) -> f64 {
    unix_ns as f64 / 1e9
}

fn host_row(host: &HostSums, peers: &Peers) -> HostRow {
    let disks: Vec<&DeviceSums> = host.devices.values().filter(|d| d.is_disk()).collect();
    let mut total = iolens_core::model::CallHistogram::default();
    let mut errors = Some(0);
    let mut lost_ios = Some(0);
    for disk in &disks {
        total.merge(&disk.total);
        errors = known_sum(errors, disk.errors);
        lost_ios = known_sum(lost_ios, disk.lost_ios);
    }
    // The lost time of a disk without peers is not known; it is left out of the sum.
    HostRow {
        host: host.host.clone(),
        recording_count: host.recordings,
        from_unix_s: seconds(host.from_unix_ns),
        to_unix_s: seconds(host.to_unix_ns),
        disks: disks.len() as u64,
        slow_disks: disks.iter().filter(|d| peers.is_slow(d)).count() as u64,
        finding_count: host.reported.total(),
        ios: disks.iter().map(|d| d.ios()).sum(),
        bytes: disks.iter().map(|d| d.bytes).sum(),
        lost_s: disks
            .iter()
            .filter_map(|d| peers.lost_ns(d))
            .reduce(|a, b| a + b)
            .map(|ns| ns / 1e9),
        busy_percent: disks
            .iter()
            .filter_map(|d| busy(host, d))
            .max_by(f64::total_cmp),
        p99_us: p99(&total),
        errors,
        lost_ios,
        worst_unix_s: disks
            .iter()
            .filter_map(|d| d.worst)
            .max_by_key(|(_, ns)| *ns)
            .map(|(at, _)| seconds(at)),
    }
}

fn device_row(host: &HostSums, device: &DeviceSums, peers: &Peers) -> DeviceRow {
    let known = device.device.as_ref();
    DeviceRow {
        host: host.host.clone(),
        device: known.map(|d| d.name.clone()).unwrap_or_default(),
        stable_id: known.and_then(|d| d.stable_id.clone()),
        model: known.and_then(|d| d.model.clone()),
        ios: device.ios(),
        bytes: device.bytes,
        lost_s: peers.lost_ns(device).map(|ns| ns / 1e9),
        slow: peers.is_slow(device),
        slow_factor: peers.slow_factor(device),
        read_us: mean_us(device, Class::Read),
        write_us: mean_us(device, Class::Write),
        p99_us: p99(&device.total),
        busy_percent: busy(host, device),
        errors: device.errors,
        lost_ios: device.lost_ios,
        worst_unix_s: device.worst.map(|(at, _)| seconds(at)),
    }
}

fn mean_us(device: &DeviceSums, class: Class) -> Option<f64> {
    let ClassSums { ios, total_ns } = device.classes[class as usize];
    (ios > 0).then(|| total_ns as f64 / ios as f64 / 1e3)
}

fn p99(total: &iolens_core::model::CallHistogram) -> Option<f64> {
    total.quantile(0.99).map(|ns| ns as f64 / 1e3)
}

/// Percentage of the host's recorded time in which the device was busy.
fn busy(host: &HostSums, device: &DeviceSums) -> Option<f64> {
    Some(100.0 * device.busy_ns? as f64 / host.covered_ns as f64).filter(|p| p.is_finite())
}
