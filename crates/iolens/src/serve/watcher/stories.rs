//! Reports stories while they happen: once when a story is first seen, and once when it is over.

use std::collections::BTreeMap;

use iolens_core::analysis::stories::StoryKind;
use serde::Serialize;

use super::active::{JOIN_NS, Phase};
use crate::present::stories::{StoryEntry, StoryNews};
use crate::present::times::rfc3339;
use crate::present::{escape, serve_text};

/// Maximum number of new stories that a look reports, those with most harm: a screen has no room for more, and the
/// API has all.
const MAX_NEW: usize = 5;

/// An active story.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveStory {
    /// The reported content.
    pub news: StoryNews,
    /// When the victim was first affected, in Unix time.
    pub from_unix_ns: i64,
    /// When it was last affected, as far as it was seen.
    pub to_unix_ns: i64,
}

/// The JSON object of a story that begins or ends. Fields that contain names are `null` for clients that may not see
/// them.
#[derive(Serialize)]
struct StoryEvent<'a> {
    event: &'static str,
    start: String,
    end: String,
    id: Option<&'a str>,
    story: &'static str,
    device: &'a str,
    victim: Option<&'a str>,
    culprits: Option<&'a [String]>,
    harm_s: f64,
    summary: Option<&'a str>,
    advice: Option<&'a [String]>,
}

impl ActiveStory {
    /// A story in a recording that starts at `start_unix_ns`.
    pub fn of(entry: &StoryEntry, start_unix_ns: i64) -> ActiveStory {
        let (start_s, end_s) = entry.span_s();
        let start_ns = (start_s * 1e9).round() as i64;
        let end_ns = (end_s * 1e9).round() as i64;
        ActiveStory {
            news: entry.news(),
            from_unix_ns: start_unix_ns.saturating_add(start_ns),
            to_unix_ns: start_unix_ns.saturating_add(end_ns),
        }
    }

    /// The event as a JSON object.
    pub fn event(&self, phase: Phase) -> String {
        let news = &self.news;
        self.json(StoryEvent {
            id: Some(&news.id),
            victim: Some(&news.victim),
            culprits: Some(&news.culprits),
            summary: Some(&news.summary),
            advice: Some(&news.advice),
            ..self.nameless(phase)
        })
    }

    /// The event without names. The id is left out too, because names could be guessed from it.
    pub fn event_without_names(&self, phase: Phase) -> String {
        self.json(self.nameless(phase))
    }

    fn nameless(&self, phase: Phase) -> StoryEvent<'_> {
        StoryEvent {
            event: phase.event_name(),
            start: rfc3339(self.from_unix_ns),
            end: rfc3339(self.to_unix_ns),
            id: None,
            story: self.news.kind.name(),
            device: &self.news.device,
            victim: None,
            culprits: None,
            harm_s: self.news.harm_s,
            summary: None,
            advice: None,
        }
    }

    fn json(&self, event: StoryEvent<'_>) -> String {
        // A struct with string keys cannot fail to serialise.
        let text = serde_json::to_string(&event).unwrap_or_default();
        escape::json(&text).into_owned()
    }

    /// The event as text.
    pub fn line(&self, phase: Phase) -> String {
        serve_text::story(&serve_text::StoryLine {
            is_over: phase == Phase::Ends,
            news: &self.news,
            from_unix_ns: self.from_unix_ns,
            to_unix_ns: self.to_unix_ns,
        })
    }

    /// Environment variables for a command.
    pub fn variables(&self, phase: Phase) -> Vec<(&'static str, String)> {
        let news = &self.news;
        vec![
            ("IOLENS_EVENT", phase.event_name().to_owned()),
            ("IOLENS_STORY_ID", news.id.clone()),
            ("IOLENS_STORY_KIND", news.kind.name().to_owned()),
            ("IOLENS_DEVICE", news.device.clone()),
            ("IOLENS_VICTIM", news.victim.clone()),
            ("IOLENS_CULPRITS", news.culprits.join(", ")),
            ("IOLENS_HARM_SECONDS", format!("{:.3}", news.harm_s)),
            ("IOLENS_SUMMARY", news.summary.clone()),
        ]
    }
}

/// The active stories, across looks.
#[derive(Debug, Default)]
pub struct StoryMemory(Vec<ActiveStory>);

impl StoryMemory {
    /// Adds the stories of a look that starts at `from_unix_ns`, ordered by harm. Returns those that begin, and those
    /// that are over: the time covered by the look no longer contains anything of them.
    pub fn look(
        &mut self,
        from_unix_ns: i64,
        found: Vec<ActiveStory>,
    ) -> Vec<(Phase, ActiveStory)> {
        let mut events = Vec::new();
        for new in found {
            if let Some(active) = self.0.iter_mut().find(|a| a.news.id == new.news.id) {
                active.to_unix_ns = active.to_unix_ns.max(new.to_unix_ns);
                // If a story lasts longer than a look, its worst look counts, because looks overlap.
                if new.news.harm_s > active.news.harm_s {
                    active.news = new.news;
                }
            } else if events.len() < MAX_NEW {
                events.push((Phase::Begins, new.clone()));
                self.0.push(new);
            }
        }
        let over = self
            .0
            .extract_if(.., |a| a.to_unix_ns + JOIN_NS < from_unix_ns);
        for story in over {
            events.push((Phase::Ends, story));
        }
        events
    }

    /// Ends all active stories, because the service ends.
    pub fn end(&mut self) -> Vec<(Phase, ActiveStory)> {
        let all = std::mem::take(&mut self.0);
        all.into_iter().map(|story| (Phase::Ends, story)).collect()
    }
}

/// Lost time in seconds, by kind and device name.
pub type StorySeconds = BTreeMap<(StoryKind, String), f64>;

/// Sums the time lost to stories, across looks that overlap.
#[derive(Debug, Default)]
pub struct StoryCosts(BTreeMap<String, i64>);

impl StoryCosts {
    /// The time lost that earlier looks have not counted, for a look that starts at `from_unix_ns`. A story does not
    /// say when within its time it cost how much, so for a story seen before, the share of its time after what was
    /// counted is used.
    pub fn look(&mut self, from_unix_ns: i64, found: &[ActiveStory]) -> StorySeconds {
        let mut seconds = StorySeconds::new();
        for story in found {
            let news = &story.news;
            let counted_to = self.0.entry(news.id.clone()).or_insert(i64::MIN);
            if story.to_unix_ns <= *counted_to {
                continue;
            }
            let new_from = story.from_unix_ns.max(*counted_to);
            let new_ns = story.to_unix_ns - new_from;
            let all_ns = story.to_unix_ns - story.from_unix_ns;
            let share = new_ns as f64 / all_ns.max(1) as f64;
            let is_new = *counted_to < story.from_unix_ns;
            let cost_s = if is_new {
                news.harm_s
            } else {
                news.harm_s * share
            };
            *counted_to = story.to_unix_ns;
            *seconds.entry((news.kind, news.device.clone())).or_default() += cost_s;
        }
        // A story that ended before this look is not in any later one.
        self.0.retain(|_, counted_to| *counted_to >= from_unix_ns);
        seconds
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::analysis::stories::StoryKind;
    use serde_json::Value;

    const S: i64 = 1_000_000_000;

    fn story(id: &str, from_s: i64, to_s: i64, harm_s: f64) -> ActiveStory {
        ActiveStory {
            news: StoryNews {
                id: id.to_owned(),
                kind: StoryKind::WritebackFlush,
                device: "sda".to_owned(),
                victim: "shop\x1b[31m (77)".to_owned(),
                culprits: vec!["backup (12)".to_owned()],
                harm_s,
                summary: "backup (12) writes back. Reads of shop\x1b[31m (77) wait.".to_owned(),
                advice: vec!["vm.dirty_background_bytes=16M".to_owned()],
            },
            from_unix_ns: from_s * S,
            to_unix_ns: to_s * S,
        }
    }

    fn shown(events: &[(Phase, ActiveStory)]) -> Vec<(Phase, String, i64)> {
        let row = |(phase, s): &(Phase, ActiveStory)| (*phase, s.news.id.clone(), s.to_unix_ns / S);
        events.iter().map(row).collect()
    }

    #[test]
    fn a_story_is_reported_once_while_it_goes_on_and_once_when_it_is_over() {
        let mut memory = StoryMemory::default();
        let a = || "a".to_owned();
        let first = memory.look(0, vec![story("a", 5, 20, 1.0)]);
        assert_eq!(shown(&first), [(Phase::Begins, a(), 20)]);
        assert!(
            memory
                .look(10 * S, vec![story("a", 10, 60, 2.0)])
                .is_empty()
        );
        // In view there is only the end of it, which harms less.
        assert!(
            memory
                .look(50 * S, vec![story("a", 50, 70, 0.5)])
                .is_empty()
        );
        assert!(memory.look(79 * S, Vec::new()).is_empty());
        let over = memory.look(81 * S, Vec::new());
        assert_eq!(shown(&over), [(Phase::Ends, a(), 70)]);
        assert_eq!(over[0].1.news.harm_s, 2.0);
        // The same tomorrow is reported anew, and a service that ends says so.
        assert_eq!(
            memory.look(900 * S, vec![story("a", 905, 920, 1.0)]).len(),
            1
        );
        assert_eq!(shown(&memory.end()), [(Phase::Ends, a(), 920)]);
        assert!(memory.end().is_empty());
    }

    #[test]
    fn a_look_reports_those_with_most_harm() {
        let mut memory = StoryMemory::default();
        let mut many = Vec::new();
        for n in 0..9 {
            many.push(story(&n.to_string(), 1, 2, 9.0 - f64::from(n)));
        }
        let events = memory.look(0, many.clone());
        assert_eq!(events.len(), MAX_NEW);
        assert_eq!(events[0].1.news.id, "0");
        // What was left out is reported by the next look, if it is still in view.
        assert_eq!(memory.look(0, many).len(), 9 - MAX_NEW);
    }

    #[test]
    fn what_a_story_costs_counts_once_although_looks_overlap() {
        let mut costs = StoryCosts::default();
        let key = (StoryKind::WritebackFlush, "sda".to_owned());
        let mut look = |from_s: i64, stories: &[ActiveStory]| {
            let seconds = costs.look(from_s * S, stories);
            seconds.get(&key).copied().unwrap_or(0.0)
        };
        // A second is lost in ten, all the time; each look sees the last minute.
        assert_eq!(look(0, &[story("a", 0, 60, 6.0)]), 6.0);
        assert_eq!(look(10, &[story("a", 10, 70, 6.0)]), 1.0);
        assert_eq!(look(20, &[story("a", 20, 70, 5.0)]), 0.0);
        // Two at once; one of them is a single moment.
        let both = [story("a", 30, 90, 6.0), story("b", 80, 80, 0.5)];
        assert_eq!(look(30, &both), 2.5);
        assert_eq!(look(40, &both), 0.0);
        // The same again after a while is new.
        assert_eq!(look(500, &[]), 0.0);
        assert_eq!(look(900, &[story("a", 905, 920, 1.0)]), 1.0);
    }

    #[test]
    fn an_event_has_all_that_is_said_and_without_names_nothing_made_of_them() {
        let event = story("0123456789ab", 5, 20, 1.25).event(Phase::Begins);
        assert!(!event.contains('\x1b'), "{event}");
        let event: Value = serde_json::from_str(&event).unwrap();
        assert_eq!(event["event"], "start");
        assert_eq!(event["start"], "1970-01-01T00:00:05Z");
        assert_eq!(event["id"], "0123456789ab");
        assert_eq!(event["story"], "writeback-flush");
        assert_eq!(event["culprits"][0], "backup (12)");
        assert_eq!(event["harm_s"], 1.25);
        let hidden = story("0123456789ab", 5, 20, 1.25).event_without_names(Phase::Ends);
        for name in ["shop", "backup", "0123456789ab"] {
            assert!(!hidden.contains(name), "{hidden}");
        }
        let hidden: Value = serde_json::from_str(&hidden).unwrap();
        assert_eq!(hidden["event"], "end");
        assert_eq!(hidden["device"], "sda");
        assert_eq!(hidden["summary"], Value::Null);
    }
}
