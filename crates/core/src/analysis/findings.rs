//! What a person should hear first: findings in plain words, with the numbers behind them.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::DevId;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A burst that coarse sampling hides (A13).
    Microburst,
    /// One class of I/O suffers while another bursts (A14).
    Starvation,
    /// Bursts that come back (A15).
    Periodicity,
    /// A device at its capacity (A18).
    Saturation,
    /// The kernel's %util and the truth differ (A2).
    UtilDisagreement,
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
    /// The order in which equals are told.
    fn rank(self) -> u8 {
        match self {
            FindingKind::IoError => 0,
            FindingKind::SlowIo => 1,
            FindingKind::Starvation => 2,
            FindingKind::Saturation => 3,
            FindingKind::Microburst => 4,
            FindingKind::Periodicity => 5,
            FindingKind::PageCache => 6,
            FindingKind::UtilDisagreement => 7,
            FindingKind::AveragedAverages => 8,
            FindingKind::LostEvents => 9,
        }
    }

    /// Its name in JSON and on screens.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Microburst => "microburst",
            FindingKind::Starvation => "starvation",
            FindingKind::Periodicity => "periodicity",
            FindingKind::Saturation => "saturation",
            FindingKind::UtilDisagreement => "util-disagreement",
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
    /// Its name in JSON and on screens.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// One finding. Its text may contain names of processes and files: escape it where it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// Where; `None` if it concerns all devices, or those of `link`.
    pub dev: Option<DevId>,
    /// The devices behind one link whose sum it is about; empty otherwise.
    pub link: Vec<DevId>,
    /// When it began, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// When it ended.
    pub to_ns: i64,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence or two for a person.
    pub summary: String,
    /// The numbers behind it; every key carries its unit.
    pub evidence: Map<String, Value>,
}

/// Evidence from pairs; `None` becomes null.
pub(super) fn evidence<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

/// Most severe first, then what people feel before what explains it, then by time.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.kind.rank(), f.from_ns));
}
