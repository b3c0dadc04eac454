//! Stories of a stretch of time, of each recording by itself.

use iolens_core::analysis::Report;
use iolens_core::analysis::stories::Story;
use iolens_core::model::Class;

use super::error::Result;
use super::note::Note;
use super::part::Part;
use super::query::{Grain, Query};
use super::report::{self, Limits};
use super::window;

/// So many I/Os are analysed for an answer, the newest ones: some seconds of a CPU.
const MAX_ANALYSED_IOS: f64 = 5_000_000.0;

/// The stories of a part, in its report.
pub struct PartStories {
    /// The part, with its names.
    pub part: Part,
    /// Only its stories are those that were asked for.
    pub report: Report,
}

/// The stories in the window of `query`, by time: those in which one who is meant is the victim or a culprit. `class` is that
/// of the victim's I/Os.
///
/// # Errors
/// No recording holds the time, its single I/Os are gone, or it cannot be read.
pub fn stories(query: &Query<'_>, class: Option<Class>) -> Result<Vec<PartStories>> {
    let mut left = MAX_ANALYSED_IOS;
    let mut all = Vec::new();
    for mut part in query.parts(Grain::Analysis)?.parts.into_iter().rev() {
        let length_ns = (part.range.end - part.range.start) as f64;
        let ios = length_ns * window::ios_per_ns(&part.recording);
        let is_cut = ios > left;
        if is_cut {
            let kept_ns = (length_ns * left / ios) as i64;
            part.range.start = part.range.end - kept_ns;
            query.caller.note(Note::StoriesSince(part.unix_ns().start));
        }
        left -= ios;
        let mut report = report::of_part(&part, &Limits::default(), query.caller)?;
        report.stories.retain(|story| is_meant(story, &part, class));
        all.push(PartStories { part, report });
        if is_cut {
            break;
        }
    }
    all.reverse();
    Ok(all)
}

fn is_meant(story: &Story, part: &Part, class: Option<Class>) -> bool {
    let filter = &part.filter;
    let has_program = |program| filter.ios.has_program(program);
    filter.devices.has(story.dev)
        && class.is_none_or(|class| story.class == class)
        && (has_program(&story.victim) || story.culprits.iter().any(has_program))
}
