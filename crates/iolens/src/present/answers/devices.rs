//! `devices`: names and numbers.

use iolens_core::model::{Device, DeviceKind, RecordingMeta};
use serde::Serialize;

use crate::present::SCHEMA_VERSION;
use crate::present::times::rfc3339;

/// The devices of one recording.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DevicesDocument {
    schema_version: u32,
    /// Start of the recording.
    from: String,
    to: String,
    devices: Vec<KnownDevice>,
    notes: Vec<String>,
}

impl DevicesDocument {
    /// Those of a recording that ends `end_ns` after its start.
    pub fn of(meta: &RecordingMeta, end_ns: i64) -> DevicesDocument {
        let start_unix_ns = meta.start_unix_ns;
        let devices = meta.devices.iter();
        DevicesDocument {
            schema_version: SCHEMA_VERSION,
            from: rfc3339(start_unix_ns),
            to: rfc3339(start_unix_ns.saturating_add(end_ns)),
            devices: devices.map(|d| known(d, start_unix_ns)).collect(),
            notes: Vec::new(),
        }
    }

    /// The same with remarks.
    pub fn with_notes(self, notes: Vec<String>) -> DevicesDocument {
        DevicesDocument { notes, ..self }
    }
}

/// A device; what is not known is `null`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KnownDevice {
    name: String,
    major: u32,
    minor: u32,
    /// Type of I/O that the device accepts: `request` or `bio`.
    kind: Option<&'static str>,
    stable_id: Option<String>,
    model: Option<String>,
    size_bytes: Option<u64>,
    rotational: Option<bool>,
    /// I/O scheduler: `none`, `mq-deadline`, `bfq`.
    scheduler: Option<String>,
    /// Maximum number of requests in the device's queue.
    nr_requests: Option<u32>,
    /// Names of the devices directly below.
    on: Vec<String>,
    /// Time when the device appeared, if that was while recording.
    added: Option<String>,
    /// Time when the device was removed, if that was while recording.
    removed: Option<String>,
}

fn known(d: &Device, start_unix_ns: i64) -> KnownDevice {
    KnownDevice {
        name: d.name.clone(),
        major: d.id.major(),
        minor: d.id.minor(),
        kind: match d.kind {
            DeviceKind::Request => Some("request"),
            DeviceKind::Bio => Some("bio"),
            DeviceKind::Unknown => None,
        },
        stable_id: d.stable_id.clone(),
        model: d.model.clone(),
        size_bytes: d.size_bytes,
        rotational: d.rotational,
        scheduler: d.scheduler.clone(),
        nr_requests: d.nr_requests,
        on: d.slaves.clone(),
        added: d
            .added_ns
            .map(|ns| rfc3339(start_unix_ns.saturating_add(ns))),
        removed: d
            .removed_ns
            .map(|ns| rfc3339(start_unix_ns.saturating_add(ns))),
    }
}
