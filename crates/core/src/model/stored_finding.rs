//! A finding in the form that documents, events and recordings share.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

/// How much a finding matters, from `info` to `critical`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information only.
    #[default]
    Info,
    /// A program was probably affected.
    Warning,
    /// A program was certainly affected, or data is at risk.
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

    /// The severity of this name.
    pub fn from_name(name: &str) -> Option<Severity> {
        Severity::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// The name of a kind of findings. A recording may have kinds that this version does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(transparent)]
pub struct KindName(Cow<'static, str>);

impl KindName {
    /// As in JSON and on screens.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for KindName {
    fn from(name: &'static str) -> KindName {
        KindName(Cow::Borrowed(name))
    }
}

impl From<String> for KindName {
    fn from(name: String) -> KindName {
        KindName(Cow::Owned(name))
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A reported finding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredFinding {
    /// Where it begins, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end as observed so far, in nanoseconds since the recording's start.
    pub to_ns: i64,
    /// It had not ended when it was written.
    pub open: bool,
    /// Kind of the finding.
    pub kind: KindName,
    /// Severity of the finding.
    pub severity: Severity,
    /// The device, or the devices behind one link; `None` if it is about all.
    pub device: Option<String>,
    /// One line for people. Untrusted, not escaped.
    pub summary: String,
    /// The evidence, by kind; processes and devices by their names. Untrusted texts inside.
    pub evidence: Map<String, Value>,
}

impl StoredFinding {
    /// Whether both are the same finding, reported at different times.
    pub fn is_same(&self, other: &StoredFinding) -> bool {
        (self.from_ns, &self.kind, &self.device) == (other.from_ns, &other.kind, &other.device)
    }
}
