//! What goes on, across looks, and as the recordings have it.

use std::path::PathBuf;

use iolens_core::model::StoredFinding;
use iolens_core::private::Access;
use iolens_core::store::{Recording, put_finding};
use serde_json::{Value, json};

use crate::present::escape;

const SECOND_NS: i64 = 1_000_000_000;
/// Two of one kind and device that are no further apart are one.
pub const JOIN_NS: i64 = 10 * SECOND_NS;
/// The end of a finding that goes on is written this often.
const WRITE_AGAIN_NS: i64 = 60 * SECOND_NS;

/// A finding that has been said; times are Unix time.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// As in reports, like the device.
    pub kind: String,
    /// `None` if it is about all.
    pub device: Option<String>,
    /// Where it begins.
    pub from_ns: i64,
    /// Where it was seen last.
    pub to_ns: i64,
    /// The finding as in reports.
    pub said: Value,
    /// The recording in which it begins.
    pub recording: PathBuf,
    /// That one's start.
    pub start_unix_ns: i64,
    /// The end that was written last.
    pub written_to_ns: i64,
    /// Its end has not been said.
    pub open: bool,
}

impl Known {
    /// As the recording has it.
    fn stored(&self) -> StoredFinding {
        let text = |key: &str| self.said[key].as_str().unwrap_or_default().to_owned();
        StoredFinding {
            from_ns: self.from_ns - self.start_unix_ns,
            to_ns: self.to_ns - self.start_unix_ns,
            open: self.open,
            kind: self.kind.clone(),
            severity: text("severity"),
            device: self.device.clone(),
            summary: text("summary"),
            evidence: self.said["evidence"].to_string(),
        }
    }

    /// What a recording has.
    pub fn of_stored(f: StoredFinding, recording: &Recording) -> Known {
        let start_unix_ns = recording.meta().start_unix_ns;
        let evidence: Value = serde_json::from_str(&f.evidence).unwrap_or_default();
        let said = json!({
            "kind": f.kind, "device": f.device, "severity": f.severity, "summary": f.summary, "evidence": evidence,
        });
        let (from_ns, to_ns) = (start_unix_ns + f.from_ns, start_unix_ns + f.to_ns);
        let recording = recording.path().to_owned();
        let (kind, device, open, written_to_ns) = (f.kind, f.device, f.open, to_ns);
        Known {
            kind,
            device,
            from_ns,
            to_ns,
            said,
            recording,
            start_unix_ns,
            written_to_ns,
            open,
        }
    }

    /// Writes it into its recording, which the budget may have removed.
    pub fn keep(&self, access: Access) {
        if self.recording.exists()
            && let Err(e) = put_finding(&self.recording, access, &self.stored())
        {
            eprintln!("iolens: {}", escape::terminal(&e.to_string()));
        }
    }
}

/// What is going on, across looks.
#[derive(Debug, Default)]
pub struct Memory(pub Vec<Known>);

impl Memory {
    /// Takes what a look at `from_ns` and later has found; the events that follow: `start`, `goes-on` or `end` in each.
    pub fn look(&mut self, from_ns: i64, found: Vec<Known>) -> Vec<(&'static str, Known)> {
        let mut events = Vec::new();
        for new in found {
            let same = |k: &&mut Known| {
                (&k.kind, &k.device) == (&new.kind, &new.device)
                    && k.from_ns <= new.to_ns + JOIN_NS
                    && new.from_ns <= k.to_ns + JOIN_NS
            };
            match self.0.iter_mut().find(same) {
                Some(known) => {
                    // It ended with a recorder before this one, and goes on.
                    let again = !known.open && new.to_ns > known.to_ns;
                    known.open |= again;
                    known.to_ns = known.to_ns.max(new.to_ns);
                    known.said = new.said;
                    if again || known.to_ns - known.written_to_ns >= WRITE_AGAIN_NS {
                        known.written_to_ns = known.to_ns;
                        events.push((if again { "start" } else { "goes-on" }, known.clone()));
                    }
                }
                None => {
                    events.push(("start", new.clone()));
                    self.0.push(new);
                }
            }
        }
        events.extend(self.end(|k| k.to_ns + JOIN_NS < from_ns));
        events
    }

    /// Those that are over, each with its end if that was not said.
    pub fn end(&mut self, over: impl Fn(&Known) -> bool) -> Vec<(&'static str, Known)> {
        let over = self.0.extract_if(.., |k| over(k)).filter(|k| k.open);
        over.map(|k| ("end", Known { open: false, ..k })).collect()
    }
}
