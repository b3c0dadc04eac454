//! Findings: the most important results of a report, as numbers. Sentences are made from them where they are shown.

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
    /// The device; `None` if it concerns all devices, or those of [`Finding::link`].
    pub dev: Option<DevId>,
    /// Its start, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// Its severity.
    pub severity: Severity,
    /// Kind of the finding, and its evidence.
    pub evidence: Evidence,
}

impl Finding {
    /// Kind of the finding.
    pub fn kind(&self) -> FindingKind {
        self.evidence.kind()
    }

    /// Whether it only states what was seen and harmed no program that is known, so that it is not news by itself. A
    /// burst that exceeds a limit given by the user is not such a fact.
    pub fn is_fact(&self) -> bool {
        match &self.evidence {
            Evidence::Microburst(e) => {
                !(e.exceeds_limit && e.limit_source == Some(LimitSource::User))
            }
            _ => self.kind().is_fact(),
        }
    }

    /// The devices behind one link if it is about their sum; otherwise empty.
    pub fn link(&self) -> &[DevId] {
        match &self.evidence {
            Evidence::Microburst(e) => &e.link_devices,
            _ => &[],
        }
    }
}

/// Sort key of a finding, most harmful first: by severity, then effects on programs before their explanations, and
/// last kinds that this version does not know.
pub fn harm(severity: Severity, kind: &KindName) -> (Reverse<Severity>, u8) {
    let rank = FindingKind::from_name(kind.as_str()).map_or(u8::MAX, FindingKind::rank);
    (Reverse(severity), rank)
}

/// Sorts findings, most harmful first, equal ones by time.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|f| (Reverse(f.severity), f.kind().rank(), f.from_ns));
}
