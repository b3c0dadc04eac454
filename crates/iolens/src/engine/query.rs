//! A query about stored data, and the parts of recordings that answer it. All engines start from it.
//!
//! [`Query::parts`] selects the recordings, resolves the window in each, and determines the source that answers, the
//! I/Os that count, and their names. Engines then add up the parts.

use std::ops::Range;
use std::path::Path;

use iolens_core::analysis::stream::steps::{self, LONGEST_STEP_NS};
use iolens_core::analysis::timeline::{GroupBy, MIN_STEP_NS};
use iolens_core::model::SECOND_NS;

use super::caller::Caller;
use super::choose;
use super::error::{QueryError, Result};
use super::filter::{DeviceFilter, FilterPlan, IoFilter};
use super::layers::Layers;
use super::part::{Part, Tier};
use super::sources;
use super::{Instant, TimeWindow, names};

/// Default length of a query's window: 15 minutes.
pub const DEFAULT_NS: i64 = 900_000_000_000;

/// Up to this many single I/Os may be counted in columns shorter than a second; above it, columns are whole seconds.
const MAX_COUNTED_IOS: f64 = 4_000_000.0;

/// A query: what to read, when, and for which caller.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// A recording or a recording root.
    pub place: &'a Path,
    /// The time. Of a root without a time, the newest recording is selected.
    pub window: TimeWindow,
    /// Names of the selected devices; empty: all.
    pub devices: &'a [String],
    /// The selected I/Os; `None`: all.
    pub ios: Option<&'a FilterPlan>,
    /// Who asks.
    pub caller: &'a Caller,
}

/// The form of the answer. It determines which sources can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Single I/Os.
    Ios,
    /// A recording as it is. The engine itself checks what is left of it.
    Recording,
    /// All analyses.
    Analysis,
    /// Rows of a time series.
    Rows {
        /// The length of each row.
        step: Step,
        /// The subject of a row.
        by: GroupBy,
        /// Which source to prefer if several can answer.
        tier: Tier,
    },
    /// Columns of a latency heat map.
    Columns {
        /// Number of columns.
        width: usize,
        /// Whether queue times are shown.
        of_queue_times: bool,
    },
    /// Sums per actor.
    Actors(GroupBy),
}

/// The length of rows, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The given length, else that of the source.
    OfSource(Option<i64>),
    /// One row over all that is left of a part.
    Whole,
    /// The given length, else the shortest round one with at most `usual` rows. More than `most` rows are an error.
    Fitting {
        /// In nanoseconds.
        given: Option<i64>,
        /// Preferred maximum number of rows.
        usual: i64,
        /// Maximum number of rows of an answer.
        most: usize,
    },
}

/// All parts that answer, in order of time.
pub struct Parts {
    /// Each of one recording.
    pub parts: Vec<Part>,
    /// From the start of the first part to the end of the last, in Unix time in nanoseconds.
    pub unix_ns: Range<i64>,
    /// Length of rows or columns in nanoseconds, if it is the same in all parts.
    pub step_ns: Option<i64>,
}

impl<'a> Query<'a> {
    /// A query for all I/Os at `place` in `window`.
    pub fn new(place: &'a Path, window: TimeWindow, caller: &'a Caller) -> Query<'a> {
        Query {
            place,
            window,
            devices: &[],
            ios: None,
            caller,
        }
    }

    /// Without a time, selects the last `length_ns` before now, or before the end of the newest recording if that is
    /// longer ago.
    ///
    /// # Errors
    /// No recording can be read.
    pub fn or_latest(mut self, length_ns: i64) -> Result<Query<'a>> {
        self.window = choose::or_latest(self.place, &self.window, length_ns, self.caller)?;
        Ok(self)
    }

    /// Restricts the query to these devices; empty: all.
    pub fn of_devices(self, devices: &'a [String]) -> Query<'a> {
        Query { devices, ..self }
    }

    /// Restricts the query to these I/Os.
    ///
    /// # Errors
    /// It selects by a name that is hidden from the caller. Even a count of I/Os would reveal that the name exists.
    pub fn of_ios(self, plan: &'a FilterPlan) -> Result<Query<'a>> {
        if plan.is_by_name()
            && let Some(how) = self.caller.names_left_out()
        {
            return Err(QueryError::NamesLeftOut(how.to_owned()));
        }
        Ok(Query {
            ios: Some(plan),
            ..self
        })
    }

    /// The parts of all recordings that overlap the window.
    ///
    /// # Errors
    /// No recording does, or one of them cannot answer in this grain.
    pub fn parts(&self, grain: Grain) -> Result<Parts> {
        let chosen = choose::all(self.place, &self.window, self.caller)?;
        let mut opened = Vec::new();
        for one in chosen {
            opened.push(Part::open(one)?);
        }
        let unix_ns = unix_ns(&opened);
        let length_ns = opened.iter().map(|p| p.range.end - p.range.start).sum();
        let mut step_ns = common_step(grain, length_ns, &unix_ns, self.wall_length_ns())?;
        if let (Grain::Columns { of_queue_times, .. }, Some(asked_ns)) = (grain, step_ns)
            && (SECOND_NS / 5..SECOND_NS).contains(&asked_ns)
            && !of_queue_times
            && self.ios.is_none_or(FilterPlan::is_all)
            && opened.iter().map(Part::expected_ios).sum::<f64>() > MAX_COUNTED_IOS
        {
            // Sums of one second exist.
            step_ns = Some(SECOND_NS);
        }
        let mut parts = Vec::new();
        for part in opened {
            parts.push(self.complete(part, grain, step_ns)?);
        }
        Ok(Parts {
            parts,
            unix_ns,
            step_ns,
        })
    }

    /// The whole window as one recording.
    ///
    /// # Errors
    /// Those of [`Query::parts`], and if several recordings cover the time that cannot be joined.
    pub fn one(&self, grain: Grain) -> Result<Part> {
        let chosen = choose::one(self.place, &self.window, self.caller)?;
        let part = Part::open(chosen)?;
        let length_ns = part.range.end - part.range.start;
        let step_ns = common_step(grain, length_ns, &part.unix_ns(), self.wall_length_ns())?;
        self.complete(part, grain, step_ns)
    }

    /// The length of the requested window, if both bounds are wall-clock times.
    fn wall_length_ns(&self) -> Option<i64> {
        match (self.window.from, self.window.to) {
            (Some(Instant::Wall(from)), Some(Instant::Wall(to))) => {
                super::unix_ns(to).checked_sub(super::unix_ns(from))
            }
            _ => None,
        }
    }

    /// Determines the source and the filter of an opened part.
    fn complete(&self, mut part: Part, grain: Grain, step_ns: Option<i64>) -> Result<Part> {
        let recording = &part.recording;
        let wanted = self.ios.filter(|plan| !plan.is_all());
        part.filter.devices = DeviceFilter::of(&recording.meta().devices, self.devices)?;
        match grain {
            Grain::Recording => return Ok(part),
            Grain::Analysis => {
                let mut part = part.for_analysis(self.caller)?;
                if let Some(plan) = wanted {
                    sources::refuse_selection(&part)?;
                    part.filter.ios = IoFilter::new(plan, &part.names);
                }
                return Ok(part);
            }
            Grain::Ios => sources::refuse_sums(recording)?,
            Grain::Rows { step, by, tier } => {
                if step == Step::Whole {
                    part.leave_out_removed(self.caller);
                }
                let whole_ns = (part.range.end - part.range.start).max(MIN_STEP_NS);
                let step_ns = if step == Step::Whole {
                    Some(whole_ns)
                } else {
                    step_ns
                };
                // Sums do not say who caused the I/O, so a selection needs single I/Os.
                let tier = if wanted.is_some() { Tier::Finest } else { tier };
                sources::of_rows(&mut part, by, tier, step_ns)?;
            }
            Grain::Columns { of_queue_times, .. } => {
                part.step_ns = step_ns.unwrap_or(MIN_STEP_NS);
                let tier = if wanted.is_some() {
                    Tier::Finest
                } else {
                    Tier::Coarsest
                };
                sources::of_columns(&mut part, of_queue_times, tier)?;
            }
            Grain::Actors(by) => sources::of_actors(&mut part, by)?,
        }
        let by = match grain {
            Grain::Rows { by, .. } | Grain::Actors(by) => by,
            _ => GroupBy::All,
        };
        // Devices that the user names count even if they are stacked on others. Single I/Os are not summed, so none
        // is left out.
        if part.filter.devices.is_all() && grain != Grain::Ios {
            part.filter.layers = Layers::of(&part.recording, by, self.caller)?;
        }
        if wanted.is_some() {
            sources::refuse_selection(&part)?;
        }
        let shows_names = grain == Grain::Ios || matches!(by, GroupBy::Cgroup | GroupBy::File);
        if shows_names || wanted.is_some_and(FilterPlan::wants_names) {
            part.names = names::read(&part.recording, part.range.end, self.caller)?;
        }
        if let Some(plan) = wanted {
            part.filter.ios = IoFilter::new(plan, &part.names);
        }
        Ok(part)
    }
}

/// From the first start to the last end, in Unix time in nanoseconds.
fn unix_ns<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Range<i64> {
    let mut all: Option<Range<i64>> = None;
    for part in parts {
        let own = part.unix_ns();
        all = Some(match all {
            Some(all) => all.start.min(own.start)..all.end.max(own.end),
            None => own,
        });
    }
    all.unwrap_or(0..0)
}

/// The length of rows or columns that all parts share; `None`: each part has its own, or none. `asked_ns` is the
/// length of the requested window.
fn common_step(
    grain: Grain,
    length_ns: i64,
    unix_ns: &Range<i64>,
    asked_ns: Option<i64>,
) -> Result<Option<i64>> {
    match grain {
        Grain::Rows { step, .. } => match step {
            Step::OfSource(given) => Ok(given),
            Step::Whole => Ok(None),
            Step::Fitting { given, usual, most } => {
                let step_ns = given.unwrap_or_else(|| readable_step(length_ns, usual));
                if length_ns / step_ns.max(1) > most as i64 {
                    return Err(QueryError::TooManyRows(most));
                }
                Ok(Some(step_ns))
            }
        },
        Grain::Columns { width, .. } => {
            let width = width.max(1) as i64;
            // If the requested window divides into whole seconds, for which there are sums, keep them even if less
            // was recorded.
            if let Some(asked_ns) = asked_ns
                && asked_ns > 0
                && asked_ns % (width * SECOND_NS) == 0
            {
                return Ok(Some(asked_ns / width));
            }
            let length_ns = unix_ns.end - unix_ns.start;
            Ok(Some((length_ns / width).max(1)))
        }
        Grain::Ios | Grain::Recording | Grain::Analysis | Grain::Actors(_) => Ok(None),
    }
}

/// The shortest step with at most `usual` whole rows in `length_ns`, else the longest available. A slightly longer
/// window gets one more, shorter row instead of rows of twice the length.
fn readable_step(length_ns: i64, usual: i64) -> i64 {
    // With one nanosecond more there is exactly one row more than there are whole rows.
    let step_ns = steps::readable_step(length_ns.saturating_add(1), 0, usual.saturating_add(1));
    step_ns.unwrap_or(LONGEST_STEP_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3600 * SECOND_NS;

    fn columns(width: usize, recorded_ns: i64, asked_ns: Option<i64>) -> Option<i64> {
        let grain = Grain::Columns {
            width,
            of_queue_times: false,
        };
        let unix_ns = HOUR_NS..HOUR_NS + recorded_ns;
        common_step(grain, recorded_ns, &unix_ns, asked_ns).expect("possible")
    }

    fn rows(given: Option<i64>, most: usize, length_ns: i64) -> Result<Option<i64>> {
        let step = Step::Fitting {
            given,
            usual: 600,
            most,
        };
        let grain = Grain::Rows {
            step,
            by: GroupBy::All,
            tier: Tier::Finest,
        };
        common_step(grain, length_ns, &(0..length_ns), None)
    }

    fn chosen(given: Option<i64>, length_ns: i64) -> Option<i64> {
        rows(given, 10_000, length_ns).expect("possible")
    }

    #[test]
    fn columns_of_whole_seconds_are_those_of_what_is_asked_for() {
        let s = SECOND_NS;
        assert_eq!(columns(60, 120 * s, Some(120 * s)), Some(2 * s));
        assert_eq!(columns(60, 100 * s, Some(600 * s)), Some(10 * s));
        // Else they are those of what is recorded.
        assert_eq!(columns(60, 60 * s, Some(90 * s)), Some(s));
        assert_eq!(columns(60, 30 * s, Some(600 * s + 1)), Some(s / 2));
        assert_eq!(columns(60, 30 * s, None), Some(s / 2));
        assert_eq!(columns(60, 30 * s, Some(0)), Some(s / 2));
    }

    #[test]
    fn there_is_at_least_one_column_and_it_is_not_empty() {
        assert_eq!(columns(0, SECOND_NS, None), Some(SECOND_NS));
        assert_eq!(
            columns(0, SECOND_NS, Some(2 * SECOND_NS)),
            Some(2 * SECOND_NS)
        );
        assert_eq!(columns(60, 59, None), Some(1));
        assert_eq!(columns(60, 0, None), Some(1));
    }

    #[test]
    fn rows_are_of_a_readable_step_unless_it_is_given() {
        assert_eq!(chosen(None, 600 * SECOND_NS), Some(SECOND_NS));
        assert_eq!(chosen(None, 601 * SECOND_NS - 1), Some(SECOND_NS));
        assert_eq!(chosen(None, 601 * SECOND_NS), Some(2 * SECOND_NS));
        assert_eq!(chosen(Some(7), 70), Some(7));
        assert_eq!(chosen(None, 10_000 * 24 * HOUR_NS), Some(24 * HOUR_NS));
    }

    #[test]
    fn more_rows_than_an_answer_may_have_are_refused() {
        assert!(rows(Some(10), 10, 100).is_ok());
        let refused = rows(Some(10), 10, 110);
        assert!(matches!(refused, Err(QueryError::TooManyRows(10))));
        let refused = rows(None, 500, 600 * SECOND_NS);
        assert!(matches!(refused, Err(QueryError::TooManyRows(500))));
    }
}
