//! The rows of a part of a recording: from single I/Os, counters, tables or sums.

use std::ops::Range;

use iolens_core::analysis::Window;
use iolens_core::analysis::math::intervals::within_ns;
use iolens_core::analysis::timeline::{GroupBy, GroupKey, MIN_STEP_NS, Row, TimelinePlan};
use iolens_core::model;

use super::caller::Caller;
use super::error::{Distinction, QueryError, Result};
use super::note::Note;
use super::part::Part;
use super::part::Source;
use super::rows::{columns, device_keys, each_row_of, group_name};
use super::window::gaps;
use super::{rollups, tables, waits};

/// The planned rows of one part.
pub struct PlannedRows {
    /// The part, with its source.
    pub part: Part,
    /// The plan of the rows.
    pub timeline: TimelinePlan,
    /// Whether rows include who owned the I/O time.
    pub waits: bool,
}

impl PlannedRows {
    /// Plans the rows of `part`, grouped `by`. The caller gets notes about limitations of the source.
    ///
    /// # Errors
    /// There are more rows than the maximum of an answer, or the source cannot group this way.
    pub fn new(part: Part, by: GroupBy, extended: bool, caller: &Caller) -> Result<PlannedRows> {
        let meta = part.recording.meta();
        let mut always = device_keys(&meta.devices, by);
        let devices = &part.filter.devices;
        always.retain(|key| !matches!(key, GroupKey::Device(dev) if !devices.has(*dev)));
        let timeline = TimelinePlan {
            by,
            always,
            extended,
            own_intervals: part.own_intervals,
            ..TimelinePlan::new(part.window(), part.step_ns)
        };
        timeline.check()?;
        refuse_mostly_empty(&part)?;
        if !matches!(by, GroupBy::All | GroupBy::Device) {
            refuse_grouping(&part)?;
        }
        note_source(&part, caller);
        let waits = false;
        Ok(PlannedRows {
            part,
            timeline,
            waits,
        })
    }

    /// With `waits`, rows of single I/Os include who owned the I/O time.
    #[must_use]
    pub fn with_waits(self, waits: bool, caller: &Caller) -> PlannedRows {
        let has_ios = match &self.part.source {
            Source::Counters | Source::Tables(_) => false,
            Source::Rollups(sums) => !sums.ios_are_removed,
            _ => true,
        };
        if waits && !has_ios {
            caller.note(Note::NoWaits);
        }
        PlannedRows { waits, ..self }
    }

    /// Whether there are no rows, because the recording does not contain a selected name.
    pub fn is_empty(&self) -> bool {
        self.part.filter.ios.is_empty()
    }

    /// The range of the rows, in nanoseconds since the recording's start.
    pub fn range(&self) -> Range<i64> {
        self.part.range.clone()
    }

    /// How much of its time is left and was recorded, in nanoseconds.
    pub fn recorded_ns(&self) -> i64 {
        let from_ns = self.part.kept_from_ns();
        let to_ns = self.part.range.end;
        let gaps = gaps(&self.part.recording, &self.part.range);
        to_ns - from_ns - within_ns(&gaps, from_ns, to_ns)
    }

    /// Start of its recording, in Unix time in nanoseconds.
    pub fn start_unix_ns(&self) -> i64 {
        self.part.recording.meta().start_unix_ns
    }

    /// Passes one row per subject to `show`, over the whole time and with the basic columns; with `waits`, including
    /// who owned the I/O time.
    ///
    /// # Errors
    /// As [`PlannedRows::show`].
    pub fn each_subject(
        &self,
        waits: bool,
        caller: &Caller,
        show: impl FnMut(&Row, &str) -> Result<()>,
    ) -> Result<()> {
        let range = &self.part.range;
        let timeline = TimelinePlan {
            step_ns: (range.end - range.start).max(MIN_STEP_NS),
            extended: false,
            own_intervals: false,
            ..self.timeline.clone()
        };
        self.show_as(self.range(), &timeline, waits, 0, caller, show)
    }

    /// Splits the time into pieces whose rows are together those of the whole; threads can compute them in parallel.
    pub fn pieces(&self) -> Vec<Range<i64>> {
        if self.waits {
            // Undisturbed latencies are learned from all earlier I/Os, so the time cannot be split.
            return vec![self.range()];
        }
        let columns = columns(self.timeline.by);
        self.part.pieces(self.timeline.step_ns, columns)
    }

    /// Passes each row with its name to `show`. Times are those of the recording plus `shift_ns`.
    ///
    /// # Errors
    /// The recording cannot be read, or `show` failed.
    pub fn show(
        &self,
        shift_ns: i64,
        caller: &Caller,
        show: impl FnMut(&Row, &str) -> Result<()>,
    ) -> Result<()> {
        self.show_piece(self.range(), shift_ns, caller, show)
    }

    /// As [`PlannedRows::show`], for one of its [`PlannedRows::pieces`].
    ///
    /// # Errors
    /// As [`PlannedRows::show`].
    pub fn show_piece(
        &self,
        piece: Range<i64>,
        shift_ns: i64,
        caller: &Caller,
        show: impl FnMut(&Row, &str) -> Result<()>,
    ) -> Result<()> {
        if let Some(note) = self.part.filter.layers.note() {
            caller.note(note);
        }
        self.show_as(piece, &self.timeline, self.waits, shift_ns, caller, show)
    }

    fn show_as(
        &self,
        mut rest: Range<i64>,
        timeline: &TimelinePlan,
        waits: bool,
        shift_ns: i64,
        caller: &Caller,
        mut show: impl FnMut(&Row, &str) -> Result<()>,
    ) -> Result<()> {
        let part = &self.part;
        let gaps = gaps(&part.recording, &rest);
        if let Source::Rollups(sums) = part.source {
            let end_ns = rest.end.min(sums.until_ns);
            let plan = over(timeline, &(rest.start..end_ns));
            for row in rollups::rows(
                &part.recording,
                sums.step_s,
                &plan,
                &part.filter,
                end_ns,
                caller,
            )? {
                self.show_row(row, &gaps, shift_ns, &mut show)?;
            }
            // The time after the end of the sums is read from single I/Os.
            rest.start = end_ns;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let plan = over(timeline, &rest);
        if let Source::Tables(rates) = &part.source {
            for row in tables::rows(&part.recording, rates, &plan, &part.filter, rest.end)? {
                self.show_row(row, &gaps, shift_ns, &mut show)?;
            }
            return Ok(());
        }
        let waits = match part.source {
            Source::Counters => None,
            _ if waits => Some(waits::of_rows(part, &plan, caller)?),
            _ => None,
        };
        let filter = &part.filter;
        each_row_of(&part.recording, rest, plan, filter, caller, |mut row| {
            let waits = waits.as_ref().filter(|_| row.known);
            row.waits = waits.map(|waits| waits.at(row.from_ns, row.key));
            self.show_row(row, &gaps, shift_ns, &mut show)
        })
    }

    /// Passes `row`, with rates over the time outside of `gaps`, shifted by `shift_ns`, and its name to `show`.
    fn show_row(
        &self,
        row: Row,
        gaps: &[(i64, i64)],
        shift_ns: i64,
        show: &mut impl FnMut(&Row, &str) -> Result<()>,
    ) -> Result<()> {
        let devices = &self.part.recording.meta().devices;
        let name = group_name(devices, &self.part.names, row.key);
        let unrecorded_ns = within_ns(gaps, row.from_ns, row.to_ns);
        let mut row = row.without_unrecorded(unrecorded_ns);
        row.from_ns += shift_ns;
        row.to_ns += shift_ns;
        show(&row, &name)
    }
}

/// The same plan for another time.
fn over(timeline: &TimelinePlan, range: &Range<i64>) -> TimelinePlan {
    TimelinePlan {
        window: Window::from(range),
        ..timeline.clone()
    }
}

/// Where only sums are left, or samples of counters, the rows are known to be there, and so are a table's own.
fn refuse_mostly_empty(part: &Part) -> Result<()> {
    if part.own_intervals {
        return Ok(());
    }
    let filled = match &part.source {
        Source::Counters => return Ok(()),
        Source::Rollups(sums) if sums.ios_are_removed => return Ok(()),
        Source::Tables(rates) => rates.len() as u64,
        _ => part.recording.ios_stored(),
    };
    let source = &part.recording.meta().source;
    tables::refuse_mostly_empty(source, &part.range, part.step_ns, filled)
}

fn refuse_grouping(part: &Part) -> Result<()> {
    match part.source.devices_only() {
        Some(because) => Err(QueryError::OnlyDevices {
            wanted: Distinction::Grouping,
            because,
        }),
        None => Ok(()),
    }
}

/// Adds notes about the source of the rows and its limitations.
fn note_source(part: &Part, caller: &Caller) {
    let meta = part.recording.meta();
    if meta.source != model::Source::Ebpf {
        caller.note(Note::Source(meta.source.clone()));
        for limit in &meta.limits {
            caller.note(Note::Limit(limit.clone()));
        }
    }
    match &part.source {
        Source::Rollups(sums) if sums.ios_are_removed => {
            caller.note(Note::RowsOfSums(sums.step_s));
        }
        Source::Tables(rates) => {
            let own_step_ns = tables::own_step_ns(rates);
            if let Some(own_ns) = own_step_ns.filter(|own_ns| part.step_ns < *own_ns) {
                caller.note(Note::FinerThanTables(own_ns));
            }
        }
        _ => {}
    }
}
