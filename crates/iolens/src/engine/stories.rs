//! Stories of a time window, for each recording separately.

use std::collections::HashSet;
use std::ops::Range;

use iolens_core::analysis::stories::{NotProven, Story, not_proven};
use iolens_core::analysis::waits::Program;
use iolens_core::analysis::{Consumer, Report, Window};
use iolens_core::model::{Class, DevId, Io, SECOND_NS};

use super::error::Result;
use super::filter::IoFilter;
use super::note::Note;
use super::part::{Part, Source};
use super::query::{Grain, Query};
use super::report::{self, Limits};
use super::{Instant, TimeWindow, names, unix_ns, window, worst_stretch};

/// Maximum number of I/Os analysed for an answer. This takes about 0.4 s on two CPUs.
const MAX_ANALYSED_IOS: f64 = 300_000.0;

/// A shorter window is extended to this length, in nanoseconds: a part of an episode has too few I/Os for a story.
const MIN_ANALYSED_NS: i64 = 20 * SECOND_NS;

/// The stories of a part, as part of its report.
pub struct PartStories {
    /// The part, with its names.
    pub part: Part,
    /// The report. Its stories are only those that the query selects.
    pub report: Report,
    /// A selected program for which it is not known whether it waited, if the part has no story at all.
    pub not_proven: Option<NotProven>,
}

/// The stories in the window of `query`, in order of time, in which a selected program is the victim or a culprit.
/// `class` selects by the class of the victim's I/Os. A selection by file selects the stories whose victim or culprit
/// did I/O of the story's class on that file. For a window shorter than 20 s, the 20 s around it are analysed, and
/// the stories that overlap the window are returned.
///
/// # Errors
/// No recording holds the time, its single I/Os are gone, or it cannot be read.
pub fn stories(query: &Query<'_>, class: Option<Class>) -> Result<Vec<PartStories>> {
    let found = query.parts(Grain::Analysis)?;
    let mut parts = found.parts;
    if parts.iter().any(Part::lacks_ios) {
        query.caller.note(Note::NoWaits);
    }
    let mut must_meet = None;
    if parts.iter().map(Part::expected_ios).sum::<f64>() > MAX_ANALYSED_IOS {
        parts = worst_stretch::of_parts(parts, MAX_ANALYSED_IOS)?;
        for part in &parts {
            query.caller.note(Note::StoriesOf(part.unix_ns()));
        }
    } else if is_short(&query.window, &found.unix_ns)
        && let Some(analysed_ns) = widen(&mut parts, query)?
    {
        query.caller.note(Note::StoriesAround(analysed_ns));
        must_meet = Some(found.unix_ns);
    }
    let mut all = Vec::new();
    for part in parts {
        let mut users = FileUsers::of(&part);
        let others: &mut [&mut dyn Consumer] = match &mut users {
            Some(users) => &mut [users],
            None => &mut [],
        };
        let mut report = report::of_part_and(&part, &Limits::default(), query.caller, others)?;
        let not_proven = unknown_victim(&report, &part, class);
        report
            .stories
            .retain(|story| is_meant(story, &part, class, users.as_ref()));
        if let Some(asked_unix_ns) = &must_meet {
            let start_unix_ns = part.recording.meta().start_unix_ns;
            let from_ns = asked_unix_ns.start.saturating_sub(start_unix_ns);
            let to_ns = asked_unix_ns.end.saturating_sub(start_unix_ns);
            report
                .stories
                .retain(|story| meets(story, &(from_ns..to_ns)));
        }
        all.push(PartStories {
            part,
            report,
            not_proven,
        });
    }
    Ok(all)
}

/// Whether the window is shorter than 20 s. `recorded_unix_ns` is its recorded part; it does not count if the window
/// starts before the recording or ends after it.
fn is_short(asked: &TimeWindow, recorded_unix_ns: &Range<i64>) -> bool {
    let length_ns = match (asked.from, asked.to) {
        (None, _) => return false,
        (Some(Instant::Wall(from)), Some(Instant::Wall(to))) => {
            unix_ns(to).saturating_sub(unix_ns(from))
        }
        (Some(Instant::SinceStart(from_ns)), Some(Instant::SinceStart(to_ns))) => {
            to_ns.saturating_sub(from_ns)
        }
        _ => recorded_unix_ns.end - recorded_unix_ns.start,
    };
    length_ns < MIN_ANALYSED_NS
}

/// Extends `parts` to the 20 s around them, as far as they are recorded and an answer may have that many I/Os.
/// Returns their total length in nanoseconds; `None` if nothing was extended.
///
/// # Errors
/// A recording cannot be read.
fn widen(parts: &mut [Part], query: &Query<'_>) -> Result<Option<i64>> {
    let max_ios = MAX_ANALYSED_IOS / parts.len().max(1) as f64;
    let last = parts.len().saturating_sub(1);
    let mut is_wider = false;
    let mut analysed_ns = 0;
    for (i, part) in parts.iter_mut().enumerate() {
        let asked = part.range.clone();
        // Between two parts either nothing is recorded, or it belongs to the other part.
        let mut held = asked.clone();
        if i == 0 {
            let kept_ns = window::kept_from(&part.recording, &(0..asked.end));
            held.start = kept_ns.min(asked.start);
        }
        if i == last {
            held.end = part.recording.end_ns().max(asked.end);
        }
        // Tables contain no I/Os, so they have no stories.
        if part.source == Source::Ios {
            let affordable_ns = max_ios / window::ios_per_ns(&part.recording);
            part.range = around(&asked, &held, MIN_ANALYSED_NS.min(affordable_ns as i64));
        }
        is_wider |= part.range != asked;
        analysed_ns += part.range.end - part.range.start;
        if part.range.end > asked.end {
            part.names = names::read(&part.recording, part.range.end, query.caller)?;
            if let Some(plan) = query.ios.filter(|plan| !plan.is_all()) {
                part.filter.ios = IoFilter::new(plan, &part.names);
            }
        }
    }
    Ok(is_wider.then_some(analysed_ns))
}

/// Extends `asked` inside `held`, which contains it, to `length_ns` if `held` is long enough.
fn around(asked: &Range<i64>, held: &Range<i64>, length_ns: i64) -> Range<i64> {
    let asked_ns = asked.end - asked.start;
    let length_ns = length_ns.max(asked_ns);
    // Near the end of `held` the range is extended more to the front, near its start more to the back.
    let from_ns = (asked.start - (length_ns - asked_ns) / 2)
        .min(held.end - length_ns)
        .max(held.start);
    from_ns..held.end.min(from_ns + length_ns)
}

/// Whether the victim waited in `asked`.
fn meets(story: &Story, asked: &Range<i64>) -> bool {
    let episodes = &story.episodes;
    let worst = &story.harm.worst;
    let mut spans = vec![(worst.done_ns - worst.latency_ns, worst.done_ns)];
    for episode in &episodes.worst {
        spans.push((episode.from_ns, episode.to_ns));
    }
    // If not all episodes are stored, any moment between the first and the last may be in one.
    if episodes.worst.is_empty() || episodes.times > episodes.worst.len() as u64 {
        spans.push((episodes.from_ns, episodes.to_ns));
    }
    spans
        .into_iter()
        .any(|(from_ns, to_ns)| from_ns < asked.end && asked.start <= to_ns)
}

/// The program for which it is not known whether it waited, if it is selected.
fn unknown_victim(report: &Report, part: &Part, class: Option<Class>) -> Option<NotProven> {
    let filter = &part.filter;
    // Which program used which file is known only for programs in stories.
    if filter.ios.is_of_files() {
        return None;
    }
    let found = not_proven(&report.waits, &report.stories, None)?;
    let is_of_class = class.is_none_or(|class| class == found.class);
    let is_asked_for = filter.devices.has(found.dev) && filter.ios.has_program(&found.program);
    (is_of_class && is_asked_for).then_some(found)
}

fn is_meant(story: &Story, part: &Part, class: Option<Class>, users: Option<&FileUsers>) -> bool {
    let filter = &part.filter;
    let is_of_class = class.is_none_or(|class| story.victims().any(|(_, hurt)| hurt == class));
    if !filter.devices.has(story.dev) || !is_of_class {
        return false;
    }
    // One selected victim or culprit is enough.
    let mut programs: Vec<(&Program, Class)> = story.victims().collect();
    for (culprit, io) in story.culprits.iter().zip(&story.culprit_ios) {
        programs.push((culprit, io.class));
    }
    programs.into_iter().any(|(program, class)| match users {
        Some(users) => users.have(story.dev, class, program),
        None => filter.ios.has_program(program),
    })
}

/// The programs that did the I/Os selected by file.
struct FileUsers {
    window: Window,
    filter: IoFilter,
    seen: HashSet<(DevId, Class, Program)>,
}

impl FileUsers {
    /// `None` if the part's filter does not select by file.
    fn of(part: &Part) -> Option<FileUsers> {
        part.filter.ios.is_of_files().then(|| FileUsers {
            window: part.window(),
            filter: part.filter.ios.clone(),
            seen: HashSet::new(),
        })
    }

    fn have(&self, dev: DevId, class: Class, program: &Program) -> bool {
        let mut seen = self.seen.iter();
        seen.any(|(d, c, one)| (*d, *c) == (dev, class) && program.includes(one))
    }
}

impl Consumer for FileUsers {
    fn consume(&mut self, ios: &[Io], _later_start_ns: i64) {
        for io in ios {
            if self.window.contains(io.done_ns) && self.filter.has(io) {
                self.seen.insert((io.dev, io.class(), Program::of(io)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND_NS;

    #[test]
    fn a_short_time_is_analysed_with_what_is_around_it() {
        let held = 0..100 * S;
        assert_eq!(around(&(50 * S..52 * S), &held, 20 * S), 41 * S..61 * S);
        assert_eq!(around(&(0..2 * S), &held, 20 * S), 0..20 * S);
        assert_eq!(
            around(&(99 * S..100 * S), &held, 20 * S),
            80 * S..100 * S,
            "at the end more before it"
        );
        assert_eq!(
            around(&(3 * S..4 * S), &(2 * S..9 * S), 20 * S),
            2 * S..9 * S,
            "no more than is held"
        );
        assert_eq!(
            around(&(50 * S..52 * S), &held, S),
            50 * S..52 * S,
            "no less than is asked for"
        );
    }

    fn window(from_s: i64, to_s: Option<i64>) -> TimeWindow {
        TimeWindow {
            at: None,
            from: Some(Instant::of_unix_ns(from_s * S)),
            to: to_s.map(|s| Instant::of_unix_ns(s * S)),
        }
    }

    #[test]
    fn what_is_recorded_of_a_long_time_is_not_a_short_one() {
        let recorded = 100 * S..105 * S;
        assert!(is_short(&window(100, Some(119)), &recorded));
        assert!(!is_short(&window(85, Some(105)), &recorded));
        assert!(is_short(&window(100, None), &recorded));
        assert!(!is_short(&TimeWindow::default(), &recorded));
        let since_start = TimeWindow {
            at: None,
            from: Some(Instant::SinceStart(0)),
            to: Some(Instant::SinceStart(20 * S)),
        };
        assert!(!is_short(&since_start, &recorded));
    }
}
