//! Findings: the most important results of a report, as numbers. Sentences are made of them where they are shown.

pub mod conclusions;
pub mod evidence;
pub mod io_errors;
mod kinds;

use std::cmp::Reverse;

use crate::analysis::bursts::LimitSource;
pub use crate::analysis::findings::evidence::Cause;
pub use crate::analysis::findings::kinds::{Evidence, FindingKind};
pub use crate::model::Severity;
use crate::model::{DevId, KindName};

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
    /// Kind of the finding, and its evidence.
    pub evidence: Evidence,
}

impl Finding {
    /// Kind of the finding.
    pub fn kind(&self) -> FindingKind {
        self.evidence.kind()
    }

    /// Whether it only says what was seen: it harmed no program that is known, so that it is no news by itself. A limit that
    /// the user gave makes a burst one that matters.
    pub fn is_fact(&self) -> bool {
        match &self.evidence {
            Evidence::Microburst(e) => {
                !(e.exceeds_limit && e.limit_source == Some(LimitSource::User))
            }
            _ => self.kind().is_fact(),
        }
    }

    /// The devices behind one link whose sum it is about; empty otherwise.
    pub fn link(&self) -> &[DevId] {
        match &self.evidence {
            Evidence::Microburst(e) => &e.link_devices,
            _ => &[],
        }
    }
}

/// How much such a finding matters beside others, the most harmful least: the severe first, then what people feel before what
/// explains it, and last kinds that this version does not know.
pub fn harm(severity: Severity, kind: &KindName) -> (Reverse<Severity>, u8) {
    let rank = FindingKind::from_name(kind.as_str()).map_or(u8::MAX, FindingKind::rank);
    (Reverse(severity), rank)
}

/// The most harmful first, equals by time.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|f| (Reverse(f.severity), f.kind().rank(), f.from_ns));
}
