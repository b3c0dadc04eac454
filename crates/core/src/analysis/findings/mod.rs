//! What a person should know first: findings, as the numbers behind them. Sentences are made of them by whoever shows them.

pub mod conclusions;
pub mod evidence;
pub mod io_errors;

use std::cmp::Reverse;

use serde::Serialize;

pub use crate::analysis::findings::evidence::{Cause, Evidence};
use crate::model::DevId;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A burst that coarse sampling hides (A13).
    Microburst,
    /// One class of I/O suffers while another bursts (A14).
    Starvation,
    /// One process's I/O slows another's (A14).
    Interference,
    /// Requests are in flight and none completes.
    Stall,
    /// From some moment on a device takes longer, or less long, for the same load.
    LatencyStep,
    /// A device takes longer and longer, or less and less long, for the same load.
    LatencyTrend,
    /// Some requests take far longer than others that are alike, but less than a second.
    LatencyMode,
    /// One member of an array takes longer than each of the others.
    SlowMember,
    /// A device moves bytes as fast as it can, and more demand only waits.
    BandwidthSaturation,
    /// A device takes no more requests at once, and others wait in the kernel.
    QueueFull,
    /// Bursts that come back (A15).
    Periodicity,
    /// A device at its capacity (A18).
    Saturation,
    /// The kernel's %util and the truth differ (A2).
    UtilDisagreement,
    /// A writer that waits for its syncs most of the time.
    FsyncBound,
    /// A sequential stream cut into small requests.
    SmallSequential,
    /// Single I/Os that took very long.
    SlowIo,
    /// I/Os that the device failed.
    IoError,
    /// The page cache answers for the device (A16).
    PageCache,
    /// Imported means were checked against finer rows (A25).
    AveragedAverages,
    /// I/Os are missing from the recording.
    LostEvents,
}

impl FindingKind {
    /// All of them.
    pub const ALL: [FindingKind; 20] = [
        FindingKind::Microburst,
        FindingKind::Starvation,
        FindingKind::Interference,
        FindingKind::Stall,
        FindingKind::LatencyStep,
        FindingKind::LatencyTrend,
        FindingKind::LatencyMode,
        FindingKind::SlowMember,
        FindingKind::BandwidthSaturation,
        FindingKind::QueueFull,
        FindingKind::Periodicity,
        FindingKind::Saturation,
        FindingKind::UtilDisagreement,
        FindingKind::FsyncBound,
        FindingKind::SmallSequential,
        FindingKind::SlowIo,
        FindingKind::IoError,
        FindingKind::PageCache,
        FindingKind::AveragedAverages,
        FindingKind::LostEvents,
    ];

    /// The order in which equals are listed.
    fn rank(self) -> u8 {
        match self {
            FindingKind::IoError => 0,
            FindingKind::Stall => 1,
            FindingKind::SlowIo => 2,
            FindingKind::Starvation | FindingKind::Interference => 3,
            FindingKind::LatencyStep => 4,
            FindingKind::LatencyTrend | FindingKind::SlowMember => 5,
            FindingKind::LatencyMode => 6,
            FindingKind::Saturation | FindingKind::FsyncBound => 7,
            FindingKind::BandwidthSaturation => 8,
            FindingKind::QueueFull => 9,
            FindingKind::Microburst => 10,
            FindingKind::Periodicity => 11,
            FindingKind::PageCache | FindingKind::SmallSequential => 12,
            FindingKind::UtilDisagreement => 13,
            FindingKind::AveragedAverages => 14,
            FindingKind::LostEvents => 15,
        }
    }

    /// Its name in JSON and on screens.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Microburst => "microburst",
            FindingKind::Starvation => "starvation",
            FindingKind::Interference => "interference",
            FindingKind::Stall => "stall",
            FindingKind::LatencyStep => "latency-step",
            FindingKind::LatencyTrend => "latency-trend",
            FindingKind::LatencyMode => "latency-mode",
            FindingKind::SlowMember => "slow-member",
            FindingKind::BandwidthSaturation => "bandwidth-saturation",
            FindingKind::QueueFull => "queue-full",
            FindingKind::Periodicity => "periodicity",
            FindingKind::Saturation => "saturation",
            FindingKind::UtilDisagreement => "util-disagreement",
            FindingKind::FsyncBound => "fsync-bound",
            FindingKind::SmallSequential => "small-sequential",
            FindingKind::SlowIo => "slow-io",
            FindingKind::IoError => "io-error",
            FindingKind::PageCache => "page-cache",
            FindingKind::AveragedAverages => "averaged-averages",
            FindingKind::LostEvents => "lost-events",
        }
    }
}

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Somebody probably felt it.
    Warning,
    /// Somebody certainly felt it, or data is at risk.
    Critical,
}

impl Severity {
    /// All of them.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// Its name in JSON and on screens.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Where; `None` if it concerns all devices, or those of [`Finding::link`].
    pub dev: Option<DevId>,
    /// When it began, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// When it ended.
    pub to_ns: i64,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, and the numbers behind it.
    pub evidence: Evidence,
}

impl Finding {
    /// What was found.
    pub fn kind(&self) -> FindingKind {
        self.evidence.kind()
    }

    /// The devices behind one link whose sum it is about; empty otherwise.
    pub fn link(&self) -> &[DevId] {
        match &self.evidence {
            Evidence::Microburst(e) => &e.link_devices,
            _ => &[],
        }
    }
}

/// How much a finding of these names matters beside others, the most harmful least: the severe first, then what people feel
/// before what explains it, and last names that this version does not know.
pub fn harm(severity: &str, kind: &str) -> (Reverse<Option<Severity>>, u8) {
    let severity = Severity::ALL.into_iter().find(|s| s.name() == severity);
    let kind = FindingKind::ALL.into_iter().find(|k| k.name() == kind);
    (Reverse(severity), kind.map_or(u8::MAX, FindingKind::rank))
}

/// The most harmful first, equals by time.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_cached_key(|f| (harm(f.severity.name(), f.kind().name()), f.from_ns));
}
