//! Metadata of a recording.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{DevId, Device, Settings};

/// Version of the recording format that this code writes. Readers refuse newer ones.
pub const SCHEMA_VERSION: u32 = 1;

/// Where the observations of a recording came from. Every output states it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    /// Every I/O, from kernel tracepoints.
    Ebpf,
    /// Counters only: rates and mean latencies between samples, no single I/O.
    Counters,
    /// Another tool's log, by its kind (`iostat`, `blktrace`, ...).
    Import(String),
}

impl Source {
    /// Number of I/Os in a recording that stores `stored` single ones. `None` if the source may have no single I/Os:
    /// for counters and averages, 0 would look like an idle disk.
    pub fn known_ios(&self, stored: u64) -> Option<u64> {
        match self {
            Source::Ebpf => Some(stored),
            Source::Counters | Source::Import(_) => (stored > 0).then_some(stored),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Ebpf => f.write_str("ebpf"),
            Source::Counters => f.write_str("counters"),
            Source::Import(kind) => write!(f, "import:{kind}"),
        }
    }
}

impl From<Source> for String {
    fn from(s: Source) -> String {
        s.to_string()
    }
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(s: String) -> Result<Source, String> {
        match s.as_str() {
            "ebpf" => Ok(Source::Ebpf),
            "counters" => Ok(Source::Counters),
            other => match other.strip_prefix("import:") {
                Some(kind) => Ok(Source::Import(kind.to_owned())),
                None => Err(format!(
                    "unknown source {other:?}; expected ebpf, counters or import:KIND"
                )),
            },
        }
    }
}

/// Resources used by the recorder, as measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct RecorderCost {
    /// CPU seconds of the recorder, in user space and in the kernel on its behalf, from the recording's start to its
    /// end. Load that the same process generates is not included.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// CPU seconds before the start: loading and attaching the probes.
    #[serde(default)]
    pub startup_cpu_s: Option<f64>,
    /// CPU seconds spent inside the BPF probes, if they were measured. Taken from the kernel's run-time statistics,
    /// whose own cost is included.
    #[serde(default)]
    pub probe_cpu_s: Option<f64>,
    /// Peak resident memory in bytes.
    #[serde(default)]
    pub max_rss_bytes: Option<u64>,
}

impl RecorderCost {
    /// The sum of both; a value unknown in either is unknown in the sum.
    pub fn plus(&self, other: &RecorderCost) -> RecorderCost {
        RecorderCost {
            cpu_s: sum_if_known(self.cpu_s, other.cpu_s),
            startup_cpu_s: sum_if_known(self.startup_cpu_s, other.startup_cpu_s),
            probe_cpu_s: sum_if_known(self.probe_cpu_s, other.probe_cpu_s),
            max_rss_bytes: self.max_rss_bytes.max(other.max_rss_bytes),
        }
    }
}

/// The sum of two amounts, if both are known.
fn sum_if_known(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? + b?)
}

/// The content of `meta.json`: the metadata of a recording.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RecordingMeta {
    /// Format version, see [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Where the observations came from.
    pub source: Source,
    /// Wall clock of the recording's start, in nanoseconds since the Unix epoch.
    pub start_unix_ns: i64,
    /// `CLOCK_MONOTONIC` of the recording's start, in nanoseconds; what event times were measured against.
    #[serde(default)]
    pub start_monotonic_ns: Option<i64>,
    /// End of the recording in nanoseconds since its start; `None` while it runs or after a crash.
    #[serde(default)]
    pub end_ns: Option<i64>,
    /// Host name (`uname -n`).
    #[serde(default)]
    pub host: Option<String>,
    /// Kernel release (`uname -r`).
    #[serde(default)]
    pub kernel: Option<String>,
    /// `CONFIG_HZ`, if it could be found.
    #[serde(default)]
    pub kernel_hz: Option<u32>,
    /// The devices, those that came and went too.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Process id of the recorder. Its I/O is in the recording too.
    #[serde(default)]
    pub recorder_tgid: Option<i32>,
    /// The options of the recorder, for people.
    #[serde(default)]
    pub options: Vec<String>,
    /// Limits of this source with their reasons, one sentence each.
    #[serde(default)]
    pub limits: Vec<String>,
    /// How the machine was set up; `None` where the source did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// The recorder's own cost; filled at the end.
    #[serde(default)]
    pub cost: RecorderCost,
    /// The segments of each table, by its name; filled at the end. `None` in older recordings, and where a full disk left
    /// rows in the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<BTreeMap<String, TableManifest>>,
    /// Program and version that wrote it.
    #[serde(default)]
    pub writer: Option<String>,
}

/// The segments of one table in a finished recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TableManifest {
    /// Number of segments.
    pub segments: u32,
    /// Number of the first: those before it were removed by the size limit.
    pub first: u32,
    /// Number of the last.
    pub last: u32,
    /// Rows of all of them.
    pub rows: u64,
}

/// The device of a number in a list, which may be long if it is in the order of numbers, as imports make it.
pub fn find_device(devices: &[Device], id: DevId) -> Option<&Device> {
    /// Up to this many devices a linear search is fast, whatever their order.
    const FEW: usize = 64;
    let at = if devices.len() > FEW {
        devices.partition_point(|d| d.id < id)
    } else {
        0
    };
    let in_order = devices.get(at).filter(|d| d.id == id);
    in_order.or_else(|| devices.iter().find(|d| d.id == id))
}

impl RecordingMeta {
    /// Valid starts of recordings in nanoseconds since the Unix epoch: from 1933 to 2116. The difference of two starts
    /// can be added to any time in a recording without overflow.
    pub const STARTS_UNIX_NS: RangeInclusive<i64> = -(1 << 60)..=1 << 62;
    /// The same for people.
    pub const STARTS: &str = "recordings begin between 1934 and 2115";

    /// The device of a number.
    pub fn device(&self, id: DevId) -> Option<&Device> {
        find_device(&self.devices, id)
    }

    /// The mandatory metadata of a recording.
    pub fn new(source: Source, start_unix_ns: i64) -> RecordingMeta {
        RecordingMeta {
            schema_version: SCHEMA_VERSION,
            source,
            start_unix_ns,
            start_monotonic_ns: None,
            end_ns: None,
            host: None,
            kernel: None,
            kernel_hz: None,
            devices: Vec::new(),
            recorder_tgid: None,
            options: Vec::new(),
            limits: Vec::new(),
            settings: None,
            cost: RecorderCost::default(),
            tables: None,
            writer: Some(concat!("iolens ", env!("CARGO_PKG_VERSION")).to_owned()),
        }
    }
}
