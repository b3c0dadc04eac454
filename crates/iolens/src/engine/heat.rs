//! The latency heat map over the recordings of a root.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::heat::{Heat, TimePart};
use iolens_core::analysis::stream::steps::steps_in;
use iolens_core::model::{Class, DevId, Rollup};
use iolens_core::store::{IoColumns, RollupHistograms, read_rollups_with};

use super::caller::Caller;
use super::error::Result;
use super::part::Part;
use super::part::Source;
use super::query::{Grain, Query};
use super::{decode, parallel, window};

/// The specification of a heat map.
pub struct HeatPlan<'a> {
    /// Which place, devices and time.
    pub query: Query<'a>,
    /// Only I/Os of this class; `None`: all.
    pub class: Option<Class>,
    /// Which part of an I/O's time is shown.
    pub part: TimePart,
    /// Maximum number of columns.
    pub width: usize,
}

impl HeatPlan<'_> {
    /// Counts the I/Os. Returns the heat map and the recorded nanoseconds of each column.
    ///
    /// # Errors
    /// No recording covers the time, or the class, the part of the time or the device does not exist there.
    pub fn count(&self) -> Result<(Heat, Vec<i64>)> {
        let found = self.query.parts(Grain::Columns {
            width: self.width,
            of_queue_times: self.part == TimePart::Queue,
        })?;
        let column_ns = found.step_ns.unwrap_or(1);
        let length_ns = found.unix_ns.end - found.unix_ns.start;
        let reached = steps_in(length_ns, column_ns);
        let width = self.width.min(reached.max(1) as usize);
        let empty = Heat::new(found.unix_ns.clone(), column_ns, width);
        let mut pieces: Vec<(&Part, Range<i64>)> = Vec::new();
        for part in &found.parts {
            for range in part.pieces(1, IoColumns::QUEUE) {
                pieces.push((part, range));
            }
        }
        // Each thread counts into its own map. All maps have the same columns, so they can be added.
        let heats = parallel::shared(
            &pieces,
            self.query.caller,
            || empty.clone(),
            |heat, _, (part, range)| self.add(part, range.clone(), heat),
        )?;
        let heat = heats.into_iter().reduce(Heat::joined).unwrap_or(empty);
        let recorded_ns = recorded_ns(found.parts.iter().map(Part::unix_ns), &heat);
        Ok((heat, recorded_ns))
    }

    /// Adds one piece of a part.
    pub(super) fn add(&self, part: &Part, piece: Range<i64>, heat: &mut Heat) -> Result<()> {
        let caller = self.query.caller;
        let mut rest = piece;
        if let Source::Rollups(sums) = part.source {
            self.add_sums(part, sums.step_s, sums.until_ns, heat, caller)?;
            rest.start = sums.until_ns.min(rest.end);
        }
        if rest.is_empty() {
            return Ok(());
        }
        let recording = &part.recording;
        let start_unix_ns = recording.meta().start_unix_ns;
        let rest = window::with_last_instant(recording, &rest);
        let columns = IoColumns::QUEUE | part.filter.ios.columns();
        let met = decode::each_io(recording, rest, columns, caller, |io| {
            let is_of_class = self.class.is_none_or(|class| io.class() == class);
            if is_of_class && part.filter.has(io) {
                heat.push(io, self.part, start_unix_ns);
            }
        })?;
        caller.damage(recording.path(), &met.warnings);
        Ok(())
    }

    fn add_sums(
        &self,
        part: &Part,
        step_s: i32,
        until_ns: i64,
        heat: &mut Heat,
        caller: &Caller,
    ) -> Result<()> {
        let is_total = self.part == TimePart::Total;
        let histograms = RollupHistograms {
            total: is_total,
            device: !is_total,
        };
        // A sum covers its whole step; it is counted in the column that contains the middle of the step.
        let middle_ns = i64::from(step_s) * 500_000_000;
        let start_unix_ns = part.recording.meta().start_unix_ns + middle_ns;
        let warnings = read_rollups_with(
            part.recording.path(),
            step_s,
            part.range.start..until_ns,
            histograms,
            |dev| part.filter.counts(dev),
            |sum: Rollup| {
                let Some(class) = sum.class.filter(|_| sum.dev.is_some()) else {
                    return;
                };
                if self.class.is_none_or(|wanted| wanted == class) {
                    let latencies = if is_total { &sum.total } else { &sum.device };
                    heat.merge(start_unix_ns + sum.at_ns, latencies);
                }
            },
        )?;
        caller.damage(part.recording.path(), &warnings);
        Ok(())
    }
}

/// How many nanoseconds of each column of `heat` are in `stretches`, which may overlap.
fn recorded_ns(stretches: impl Iterator<Item = Range<i64>>, heat: &Heat) -> Vec<i64> {
    let mut sorted: Vec<Range<i64>> = stretches.collect();
    sorted.sort_by_key(|s| s.start);
    let mut recorded = vec![0; heat.columns.len()];
    let mut until_ns = heat.unix_ns.start;
    for Range { start, end } in sorted {
        let mut at_ns = start.max(until_ns);
        until_ns = until_ns.max(end);
        while at_ns < end {
            let column = (at_ns - heat.unix_ns.start) / heat.column_ns;
            let Some(ns) = recorded.get_mut(column as usize) else {
                break;
            };
            let column_end_ns = heat.unix_ns.start + (column + 1) * heat.column_ns;
            *ns += end.min(column_end_ns) - at_ns;
            at_ns = column_end_ns;
        }
    }
    recorded
}

/// The latency heat maps of each device and class of a part in `range`. The first column starts with `range`.
///
/// # Errors
/// The recording cannot be read.
pub fn of_devices(
    part: &Part,
    range: Range<i64>,
    column_ns: i64,
    caller: &Caller,
) -> Result<BTreeMap<(DevId, Class), Heat>> {
    let recording = &part.recording;
    let start_unix_ns = recording.meta().start_unix_ns;
    let width = (range.end - range.start).div_euclid(column_ns) as usize + 1;
    let begin_ns = start_unix_ns + range.start;
    let unix_ns = begin_ns..begin_ns + column_ns * width as i64;
    let mut heats = BTreeMap::new();
    let range = window::with_last_instant(recording, &range);
    let met = decode::each_io(recording, range, IoColumns::QUEUE, caller, |io| {
        let key = (io.dev, io.class());
        let heat: &mut Heat = heats
            .entry(key)
            .or_insert_with(|| Heat::new(unix_ns.clone(), column_ns, width));
        heat.push(io, TimePart::Total, start_unix_ns);
    })?;
    caller.damage(recording.path(), &met.warnings);
    Ok(heats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_recorded_as_far_as_parts_reach_into_it() {
        let heat = Heat::new(100..140, 10, 4);
        let recorded = |stretches: &[Range<i64>]| recorded_ns(stretches.iter().cloned(), &heat);
        assert_eq!(recorded(std::slice::from_ref(&(100..140))), [10; 4]);
        // A gap from 112 to 125, and two parts that overlap.
        let parts = [125..132, 100..112, 130..138];
        assert_eq!(recorded(&parts), [10, 2, 5, 8]);
        assert_eq!(recorded(&[90..105, 139..200]), [5, 0, 0, 1]);
        assert_eq!(recorded(&[]), [0; 4]);
    }
}
