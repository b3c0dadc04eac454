//! Stories of a stretch of time, of each recording by itself.

use std::collections::HashSet;

use iolens_core::analysis::stories::Story;
use iolens_core::analysis::waits::Program;
use iolens_core::analysis::{Consumer, Report, Window};
use iolens_core::model::{Class, DevId, Io};

use super::error::Result;
use super::filter::IoFilter;
use super::note::Note;
use super::part::Part;
use super::query::{Grain, Query};
use super::report::{self, Limits};
use super::worst_stretch;

/// So many I/Os are analysed for an answer: some 0.4 s on two CPUs.
const MAX_ANALYSED_IOS: f64 = 300_000.0;

/// The stories of a part, in its report.
pub struct PartStories {
    /// The part, with its names.
    pub part: Part,
    /// Only its stories are those that were asked for.
    pub report: Report,
}

/// The stories in the window of `query`, by time: those in which one who is meant is the victim or a culprit. `class` is that
/// of the victim's I/Os. Of a file are those in which the victim's or a culprit's I/Os, of the class that the story has, were its.
///
/// # Errors
/// No recording holds the time, its single I/Os are gone, or it cannot be read.
pub fn stories(query: &Query<'_>, class: Option<Class>) -> Result<Vec<PartStories>> {
    let mut parts = query.parts(Grain::Analysis)?.parts;
    if parts.iter().any(Part::lacks_ios) {
        query.caller.note(Note::NoWaits);
    }
    if parts.iter().map(Part::expected_ios).sum::<f64>() > MAX_ANALYSED_IOS {
        parts = worst_stretch::of_parts(parts, MAX_ANALYSED_IOS)?;
        for part in &parts {
            query.caller.note(Note::StoriesOf(part.unix_ns()));
        }
    }
    let mut all = Vec::new();
    for part in parts {
        let mut users = FileUsers::of(&part);
        let others: &mut [&mut dyn Consumer] = match &mut users {
            Some(users) => &mut [users],
            None => &mut [],
        };
        let mut report = report::of_part_and(&part, &Limits::default(), query.caller, others)?;
        report
            .stories
            .retain(|story| is_meant(story, &part, class, users.as_ref()));
        all.push(PartStories { part, report });
    }
    Ok(all)
}

fn is_meant(story: &Story, part: &Part, class: Option<Class>, users: Option<&FileUsers>) -> bool {
    let filter = &part.filter;
    let is_of_class = class.is_none_or(|class| story.victims().any(|(_, hurt)| hurt == class));
    if !filter.devices.has(story.dev) || !is_of_class {
        return false;
    }
    // One of those in it is enough, be it a victim or a culprit.
    let mut programs: Vec<(&Program, Class)> = story.victims().collect();
    for (culprit, io) in story.culprits.iter().zip(&story.culprit_ios) {
        programs.push((culprit, io.class));
    }
    programs.into_iter().any(|(program, class)| match users {
        Some(users) => users.have(story.dev, class, program),
        None => filter.ios.has_program(program),
    })
}

/// Who did the I/Os that a filter by file chooses.
struct FileUsers {
    window: Window,
    filter: IoFilter,
    seen: HashSet<(DevId, Class, Program)>,
}

impl FileUsers {
    /// `None` if the part's filter chooses no file.
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
