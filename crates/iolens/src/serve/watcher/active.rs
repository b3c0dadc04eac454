//! The findings that go on, across looks, and as the recordings have them.

use std::ops::Range;
use std::path::PathBuf;

use iolens_core::model::{KindName, SECOND_NS, StoredFinding};
use iolens_core::private::Access;
use iolens_core::store::{Recording, put_finding};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::present::times::rfc3339;
use crate::present::{escape, serve_text};

/// Two of one kind and device that are no further apart are one.
pub const JOIN_NS: i64 = 10 * SECOND_NS;
/// The end of a finding that goes on is written this often.
const WRITE_AGAIN_NS: i64 = 60 * SECOND_NS;

/// What became of a finding between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It was not there before.
    Begins,
    /// Its end moved on.
    GoesOn,
    /// It is over.
    Ends,
}

impl Phase {
    /// What events call it.
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
    /// As its recording has it: `open` until its end has been reported.
    pub finding: StoredFinding,
    /// The recording in which it begins.
    pub recording: PathBuf,
    /// That one's start.
    pub start_unix_ns: i64,
    /// The end that was written last, in Unix time.
    pub written_to_unix_ns: i64,
}

/// One JSON object about a finding that begins or ends.
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
    /// Found or read in `recording`.
    pub fn new(finding: StoredFinding, recording: &Recording) -> ActiveFinding {
        let start_unix_ns = recording.meta().start_unix_ns;
        ActiveFinding {
            written_to_unix_ns: start_unix_ns + finding.to_ns,
            finding,
            recording: recording.path().to_owned(),
            start_unix_ns,
        }
    }

    /// Where it begins, in Unix time.
    pub fn begin_unix_ns(&self) -> i64 {
        self.start_unix_ns + self.finding.from_ns
    }

    /// Where it was seen last, in Unix time.
    pub fn last_unix_ns(&self) -> i64 {
        self.start_unix_ns + self.finding.to_ns
    }

    /// Whether `new`, of a later look, is this one, perhaps seen from another recording. What went on up to time that no look was at
    /// may have gone on meanwhile.
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

    /// Takes over what a later look says of it. It keeps its beginning and its recording.
    fn update(&mut self, new: ActiveFinding) {
        let to_unix_ns = self.last_unix_ns().max(new.last_unix_ns());
        self.finding = StoredFinding {
            from_ns: self.finding.from_ns,
            to_ns: to_unix_ns - self.start_unix_ns,
            open: self.finding.open,
            ..new.finding
        };
    }

    /// Writes it into its recording, which the budget may have removed.
    pub fn store(&self, access: Access) {
        if self.recording.exists()
            && let Err(e) = put_finding(&self.recording, access, &self.finding)
        {
            eprintln!("iolens: {}", escape::terminal(&e.to_string()));
        }
    }

    /// One JSON object: what began or ended, and the finding with its times.
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

    /// The same for people.
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

/// What is going on, across looks.
#[derive(Debug)]
pub struct Memory {
    active: Vec<ActiveFinding>,
    /// Up to here, in Unix time, looks have been.
    looked_to_ns: i64,
}

impl Memory {
    /// Of what goes on before the first look.
    pub fn new(active: Vec<ActiveFinding>) -> Memory {
        Memory {
            active,
            looked_to_ns: i64::MAX,
        }
    }

    /// Takes what a look at a range of Unix time has found; yields what became of which finding.
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
        // What this look should have seen and did not is over.
        events.extend(self.end(|a| a.last_unix_ns() + JOIN_NS < looked.start));
        events
    }

    /// What became of the finding that `new` is of; `None` if that is not worth an event yet.
    fn note(&mut self, new: ActiveFinding, skipped: &Range<i64>) -> Option<(Phase, ActiveFinding)> {
        let mut all = self.active.iter_mut();
        let Some(active) = all.find(|a| a.continues_as(&new, skipped)) else {
            self.active.push(new.clone());
            return Some((Phase::Begins, new));
        };
        // One that ended with a recorder before this one may go on: then it is reported again.
        let begins_again = !active.finding.open && new.last_unix_ns() > active.last_unix_ns();
        active.update(new);
        if begins_again {
            active.finding.open = true;
        }
        // That it goes on is an event only where its recording has an end that is long past.
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

    /// Those that are over, each with its end if that was not reported.
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
