//! Tracks active findings across looks, and stores them in the recordings.

use std::ops::Range;
use std::path::PathBuf;

use iolens_core::model::{KindName, SECOND_NS, StoredFinding};
use iolens_core::private::Access;
use iolens_core::store::{Recording, put_finding};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::present::times::rfc3339;
use crate::present::{escape, serve_text};

/// Findings of one kind and device that are at most this far apart are one finding.
pub const JOIN_NS: i64 = 10 * SECOND_NS;
/// The end of an active finding is stored this often.
const WRITE_AGAIN_NS: i64 = 60 * SECOND_NS;

/// The change of a finding between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is new.
    Begins,
    /// Its end moved.
    GoesOn,
    /// It has ended.
    Ends,
}

impl Phase {
    /// Its name in events.
    pub fn event_name(self) -> &'static str {
        match self {
            Phase::Begins | Phase::GoesOn => "start",
            Phase::Ends => "end",
        }
    }
}

/// A finding that has been reported.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveFinding {
    /// As stored in its recording: `open` until its end has been reported.
    pub finding: StoredFinding,
    /// The recording in which it begins.
    pub recording: PathBuf,
    /// Start of that recording, in Unix time.
    pub start_unix_ns: i64,
    /// The end that was stored last, in Unix time.
    pub written_to_unix_ns: i64,
}

/// The JSON object of a finding that begins or ends.
#[derive(Serialize)]
struct FindingEvent<'a> {
    event: &'static str,
    start: String,
    end: String,
    kind: &'a KindName,
    device: Option<&'a str>,
    severity: &'static str,
    summary: &'a str,
    evidence: &'a Map<String, Value>,
}

impl ActiveFinding {
    /// A finding that was found in, or read from, `recording`.
    pub fn new(finding: StoredFinding, recording: &Recording) -> ActiveFinding {
        let start_unix_ns = recording.meta().start_unix_ns;
        ActiveFinding {
            written_to_unix_ns: start_unix_ns + finding.to_ns,
            finding,
            recording: recording.path().to_owned(),
            start_unix_ns,
        }
    }

    /// Its start, in Unix time.
    pub fn begin_unix_ns(&self) -> i64 {
        self.start_unix_ns + self.finding.from_ns
    }

    /// When it was last seen, in Unix time.
    pub fn last_unix_ns(&self) -> i64 {
        self.start_unix_ns + self.finding.to_ns
    }

    /// Whether `new`, from a later look, is the same finding, possibly seen from another recording. A finding that
    /// lasted until time that no look covered (`skipped`) may have continued in it.
    fn continues_as(&self, new: &ActiveFinding, skipped: &Range<i64>) -> bool {
        let mut last_ns = self.last_unix_ns();
        if !skipped.is_empty() && last_ns + JOIN_NS >= skipped.start {
            last_ns = last_ns.max(skipped.end);
        }
        self.finding.kind == new.finding.kind
            && self.finding.device == new.finding.device
            && self.begin_unix_ns() <= new.last_unix_ns() + JOIN_NS
            && new.begin_unix_ns() <= last_ns + JOIN_NS
    }

    /// Updates it with the result of a later look. It keeps its start and its recording.
    fn update(&mut self, new: ActiveFinding) {
        let to_unix_ns = self.last_unix_ns().max(new.last_unix_ns());
        self.finding = StoredFinding {
            from_ns: self.finding.from_ns,
            to_ns: to_unix_ns - self.start_unix_ns,
            open: self.finding.open,
            ..new.finding
        };
    }

    /// Stores it in its recording, unless the size limit has removed that.
    pub fn store(&self, access: Access) {
        if self.recording.exists()
            && let Err(e) = put_finding(&self.recording, access, &self.finding)
        {
            eprintln!("iolens: {}", escape::terminal(&e.to_string()));
        }
    }

    /// The event as a JSON object: the phase, and the finding with its times.
    pub fn event(&self, phase: Phase) -> String {
        let event = FindingEvent {
            event: phase.event_name(),
            start: rfc3339(self.begin_unix_ns()),
            end: rfc3339(self.last_unix_ns()),
            kind: &self.finding.kind,
            device: self.finding.device.as_deref(),
            severity: self.finding.severity.name(),
            summary: &self.finding.summary,
            evidence: &self.finding.evidence,
        };
        // A struct with string keys cannot fail to serialise.
        let text = serde_json::to_string(&event).unwrap_or_default();
        escape::json(&text).into_owned()
    }

    /// The event as text.
    pub fn event_line(&self, phase: Phase) -> String {
        serve_text::event(&serve_text::Event {
            is_over: phase == Phase::Ends,
            kind: self.finding.kind.as_str(),
            device: self.finding.device.as_deref(),
            severity: self.finding.severity,
            summary: &self.finding.summary,
            from_unix_ns: self.begin_unix_ns(),
            to_unix_ns: self.last_unix_ns(),
        })
    }
}

/// The active findings, across looks.
#[derive(Debug)]
pub struct Memory {
    active: Vec<ActiveFinding>,
    /// Looks have covered the time up to here, in Unix time.
    looked_to_ns: i64,
}

impl Memory {
    /// Starts with findings that were active before the first look.
    pub fn new(active: Vec<ActiveFinding>) -> Memory {
        Memory {
            active,
            looked_to_ns: i64::MAX,
        }
    }

    /// Adds the findings of a look at a range of Unix time. Returns the findings that changed.
    pub fn look(
        &mut self,
        looked: &Range<i64>,
        found: Vec<ActiveFinding>,
    ) -> Vec<(Phase, ActiveFinding)> {
        let skipped = self.looked_to_ns..looked.start;
        self.looked_to_ns = looked.end;
        let mut events = Vec::new();
        for new in found {
            events.extend(self.note(new, &skipped));
        }
        // A finding that this look should have seen but did not has ended.
        events.extend(self.end(|a| a.last_unix_ns() + JOIN_NS < looked.start));
        events
    }

    /// The change of the finding that `new` continues or starts; `None` if the change is not worth an event yet.
    fn note(&mut self, new: ActiveFinding, skipped: &Range<i64>) -> Option<(Phase, ActiveFinding)> {
        let mut all = self.active.iter_mut();
        let Some(active) = all.find(|a| a.continues_as(&new, skipped)) else {
            self.active.push(new.clone());
            return Some((Phase::Begins, new));
        };
        // A finding that ended with an earlier recorder may continue: it is then reported again.
        let begins_again = !active.finding.open && new.last_unix_ns() > active.last_unix_ns();
        active.update(new);
        if begins_again {
            active.finding.open = true;
        }
        // Continuing is an event only if the stored end is long past, so that it gets stored again.
        let unwritten_ns = active.last_unix_ns() - active.written_to_unix_ns;
        if !begins_again && unwritten_ns < WRITE_AGAIN_NS {
            return None;
        }
        active.written_to_unix_ns = active.last_unix_ns();
        let phase = if begins_again {
            Phase::Begins
        } else {
            Phase::GoesOn
        };
        Some((phase, active.clone()))
    }

    /// Removes the findings that are over. Returns those whose end was not reported yet.
    pub fn end(&mut self, is_over: impl Fn(&ActiveFinding) -> bool) -> Vec<(Phase, ActiveFinding)> {
        let mut ended = Vec::new();
        for mut active in self.active.extract_if(.., |a| is_over(a)) {
            if active.finding.open {
                active.finding.open = false;
                ended.push((Phase::Ends, active));
            }
        }
        ended
    }
}
