//! What an always-on recorder concluded while it recorded.

/// A finding as it was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFinding {
    /// Where it begins, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Where it ends, as far as it was seen.
    pub to_ns: i64,
    /// It had not ended when it was written.
    pub open: bool,
    /// As in reports, like the next ones.
    pub kind: String,
    /// `info`, `warning` or `critical`.
    pub severity: String,
    /// The device, or the devices behind one link; `None` if it is about all.
    pub device: Option<String>,
    /// One line for people. Untrusted, not escaped.
    pub summary: String,
    /// What it rests on, a JSON object.
    pub evidence: String,
}

impl StoredFinding {
    /// Whether both are the same one, at different times.
    pub fn is_same(&self, other: &StoredFinding) -> bool {
        (self.from_ns, &self.kind, &self.device) == (other.from_ns, &other.kind, &other.device)
    }
}
