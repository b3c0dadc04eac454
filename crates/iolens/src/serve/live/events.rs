//! The event stream for live clients, with a history for clients that connect later or reconnect.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use iolens_observe::topology::wall_clock_ns;
use tokio::sync::broadcast::{Receiver, Sender};

/// How many events a client may lag behind: half a minute of ten devices.
const MAX_WAITING: usize = 4096;
/// Length of the history in nanoseconds. It does not contain idle slots.
const RECENT_NS: i64 = 600_000_000_000;
/// Maximum size of the history; with very many busy devices it is shorter.
const MAX_RECENT_BYTES: usize = 16 << 20;
/// Maximum number of findings and stories kept after the slots of their time: some MiB.
const MAX_FINDINGS: usize = 4096;

/// An event.
#[derive(Debug, Clone)]
pub struct Happened {
    /// The id after which a client can continue. Idle slots have none: no client needs them twice.
    pub id: Option<EventId>,
    /// `slot`, `finding`, `story` or `missed`.
    pub event: &'static str,
    /// The JSON text.
    pub data: Arc<str>,
    /// The JSON text without names of files and processes; `None` if it contains no names anyway.
    pub without_names: Option<Arc<str>>,
}

/// Identifies an event for a client that reconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Start of its recorder, in Unix time; unique to the recorder.
    recorder_unix_ns: i64,
    /// Sequence number within this recorder, starting at 1.
    n: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.recorder_unix_ns, self.n)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(s: &str) -> Result<EventId, ()> {
        let (recorder, n) = s.split_once('-').ok_or(())?;
        Ok(EventId {
            recorder_unix_ns: recorder.parse().map_err(drop)?,
            n: n.parse().map_err(drop)?,
        })
    }
}

/// What a client that connects has already received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Nothing; only new events are wanted.
    Now,
    /// Events up to this Unix time in nanoseconds.
    Time(i64),
    /// Events up to this one; `None` if the client's id is invalid.
    Event(Option<EventId>),
}

/// Sends events to the connected clients, and keeps a history for clients that connect later.
#[derive(Debug)]
pub struct LiveEvents {
    /// Start of its recorder, in Unix time in nanoseconds.
    start_unix_ns: i64,
    rows: Sender<Happened>,
    recent: Mutex<Recent>,
}

/// The history: recent events with their Unix time, in order.
#[derive(Debug, Default)]
struct Recent {
    rows: VecDeque<(i64, Happened)>,
    bytes: usize,
    /// Findings and stories that have left `rows`.
    findings: VecDeque<(i64, Happened)>,
    /// Sequence number of the last event.
    last: u64,
    /// Sequence number of the newest event that was dropped from both lists.
    forgotten: u64,
}

impl Recent {
    fn remember(&mut self, at_unix_ns: i64, happened: &Happened) {
        self.bytes += happened.data.len();
        self.rows.push_back((at_unix_ns, happened.clone()));
        while self.bytes > MAX_RECENT_BYTES
            || self
                .rows
                .front()
                .is_some_and(|(at_ns, _)| *at_ns < at_unix_ns - RECENT_NS)
        {
            let Some((at_ns, old)) = self.rows.pop_front() else {
                break;
            };
            self.bytes -= old.data.len();
            if matches!(old.event, "finding" | "story") {
                self.findings.push_back((at_ns, old));
            } else {
                self.forget(&old);
            }
        }
        while self.findings.len() > MAX_FINDINGS {
            let Some((_, old)) = self.findings.pop_front() else {
                break;
            };
            self.forget(&old);
        }
    }

    fn forget(&mut self, old: &Happened) {
        self.forgotten = self.forgotten.max(old.id.map_or(0, |id| id.n));
    }

    /// The events after `n`. If some of them were dropped, they are preceded by an event with the number of missing
    /// ones.
    fn after(&self, n: u64) -> VecDeque<Happened> {
        let all = self.findings.iter().chain(&self.rows).map(|(_, h)| h);
        let later = all.filter(|h| h.id.is_some_and(|id| id.n > n));
        let mut later: VecDeque<Happened> = later.cloned().collect();
        if self.forgotten > n {
            let known = later
                .iter()
                .filter(|h| h.id.is_some_and(|id| id.n <= self.forgotten))
                .count();
            later.push_front(missed(Some(
                (self.forgotten - n).saturating_sub(known as u64),
            )));
        }
        later
    }
}

/// An event that says how many events are missing; `None`: the number is not known.
fn missed(events: Option<u64>) -> Happened {
    let data = events.map_or("null".to_owned(), |n| n.to_string());
    Happened {
        id: None,
        event: "missed",
        data: data.into(),
        without_names: None,
    }
}

impl LiveEvents {
    /// A stream without clients.
    pub fn new() -> Arc<LiveEvents> {
        let start_unix_ns = wall_clock_ns();
        let rows = Sender::new(MAX_WAITING);
        Arc::new(LiveEvents {
            start_unix_ns,
            rows,
            recent: Mutex::default(),
        })
    }

    /// Publishes an event that happened at `at_unix_ns`. With `is_idle` it is not kept in the history.
    pub fn publish(&self, at_unix_ns: i64, event: &'static str, data: &str, is_idle: bool) {
        let happened = Happened {
            id: None,
            event,
            data: data.into(),
            without_names: None,
        };
        self.send(at_unix_ns, happened, is_idle);
    }

    /// Publishes the start or end of a finding or story. `without_names` is the text for clients that may not see
    /// names.
    pub fn publish_named(
        &self,
        at_unix_ns: i64,
        event: &'static str,
        data: &str,
        without_names: &str,
    ) {
        let happened = Happened {
            id: None,
            event,
            data: data.into(),
            without_names: Some(without_names.into()),
        };
        self.send(at_unix_ns, happened, false);
    }

    fn send(&self, at_unix_ns: i64, mut happened: Happened, is_idle: bool) {
        // The lock is held while sending, so that a client that connects now gets the event exactly once.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_idle {
            recent.last += 1;
            happened.id = Some(EventId {
                recorder_unix_ns: self.start_unix_ns,
                n: recent.last,
            });
            recent.remember(at_unix_ns, &happened);
        }
        // There may be no client.
        drop(self.rows.send(happened));
    }

    /// The events after `since` that are still in the history, and a receiver for new ones. If the client named its
    /// last event and some later events were dropped, an event `missed` comes first.
    pub fn watch(&self, since: Since) -> (VecDeque<Happened>, Receiver<Happened>) {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match since {
            Since::Now => VecDeque::new(),
            Since::Time(unix_ns) => {
                let since = recent
                    .findings
                    .iter()
                    .chain(&recent.rows)
                    .filter(|(at_ns, _)| *at_ns > unix_ns);
                since.map(|(_, happened)| happened.clone()).collect()
            }
            Since::Event(Some(id))
                if id.recorder_unix_ns == self.start_unix_ns && id.n <= recent.last =>
            {
                recent.after(id.n)
            }
            // The id is from another recorder, which may have sent more than the client received. All events here are
            // newer.
            Since::Event(_) => {
                let mut all = recent.after(0);
                all.retain(|h| h.event != "missed");
                all.push_front(missed(None));
                all
            }
        };
        (before, self.rows.subscribe())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const S: i64 = 1_000_000_000;

    fn said(events: &LiveEvents, since: Since) -> Vec<String> {
        events
            .watch(since)
            .0
            .iter()
            .map(|h| format!("{} {}", h.event, h.data))
            .collect()
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let events = LiveEvents::new();
        let text = "x".repeat(1 << 20);
        for i in 0..40 {
            events.publish(i, "slot", &text, false);
        }
        let (recent, _rows) = events.watch(Since::Time(i64::MIN));
        assert_eq!(recent.len(), MAX_RECENT_BYTES >> 20);
        for i in 0..MAX_FINDINGS as i64 + 9 {
            events.publish(i * 700 * S, "finding", "{}", false);
        }
        assert_eq!(
            events.watch(Since::Time(i64::MIN)).0.len(),
            MAX_FINDINGS + 1
        );
    }

    #[test]
    fn who_comes_again_hears_what_came_after_the_last_event_and_what_is_missing() {
        let events = LiveEvents::new();
        let (_, mut rows) = events.watch(Since::Now);
        events.publish(S, "slot", "1", false);
        events.publish(2 * S, "finding", "2", false);
        events.publish(3 * S, "slot", "idle", true);
        events.publish(4 * S, "slot", "3", false);
        let ids: Vec<Option<EventId>> = std::iter::from_fn(|| rows.try_recv().ok())
            .map(|h| h.id)
            .collect();
        assert!(
            ids[2].is_none()
                && ids
                    .iter()
                    .flatten()
                    .all(|id| id.to_string().parse() == Ok(*id)),
            "{ids:?}"
        );
        let first = Since::Event(ids[0]);
        let third = Since::Event(ids[3]);
        assert_eq!(said(&events, first), ["finding 2", "slot 3"]);
        assert!(said(&events, third).is_empty() && said(&events, Since::Now).is_empty());
        // Ten minutes later rows are forgotten, findings are not.
        events.publish(700 * S, "slot", "4", false);
        assert_eq!(said(&events, first), ["missed 1", "finding 2", "slot 4"]);
        assert_eq!(said(&events, third), ["slot 4"]);
        for (name, what) in [
            ("x", "no name"),
            ("1-2", "another recorder's"),
            ("1-x", "no name"),
        ] {
            let id = Since::Event(name.parse().ok());
            assert_eq!(
                said(&events, id),
                ["missed null", "finding 2", "slot 4"],
                "{what}"
            );
        }
        let ahead = EventId {
            n: 99,
            ..ids[0].unwrap()
        };
        assert_eq!(said(&events, Since::Event(Some(ahead)))[0], "missed null");
    }
}
