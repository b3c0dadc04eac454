//! Latencies by time: how many I/Os completed in each column of a picture, by how long they took.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, bail};
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{CallHistogram, Class, Io};
use iolens_core::rollup::ROLLUP_STEPS_S;
use iolens_core::store::{IoColumns, Recording, RollupHistograms, read_rollups_with};

use super::layers::Layers;
use super::rows::DeviceFilter;
use super::{WindowArgs, choose, decode, parallel, rollups, source, window};

/// Which time of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From start to completion.
    Total,
    /// From start to issue.
    Queue,
    /// From issue to completion.
    Device,
}

impl Part {
    fn of(self, io: &Io) -> Option<i64> {
        match self {
            Part::Total => Some(io.total_ns()),
            Part::Queue => io.queue_ns,
            Part::Device => Some(io.device_ns),
        }
    }
}

/// What is to be drawn.
pub struct HeatPlan<'a> {
    /// A recording or a root.
    pub path: &'a Path,
    /// When.
    pub window: WindowArgs,
    /// Of these I/Os; `None`: of all.
    pub class: Option<Class>,
    /// Which time.
    pub part: Part,
    /// Names of the devices that count; none: all.
    pub devices: &'a [String],
    /// Columns.
    pub width: usize,
}

/// A picture before its rows are chosen.
#[derive(Debug)]
pub struct Heat {
    /// Unix time of the first column's beginning, and of the last one's end, in nanoseconds.
    pub unix_ns: Range<i64>,
    /// Length of a column in nanoseconds.
    pub column_ns: i64,
    /// Latencies in nanoseconds, column by column.
    pub columns: Vec<CallHistogram>,
    /// I/Os whose time is not known (of a source without queue times).
    pub unknown: u64,
}

impl HeatPlan<'_> {
    /// Counts.
    ///
    /// # Errors
    /// No recording holds the time, or a class, part or device is not known there.
    pub fn count(&self) -> Result<Heat> {
        let chosen = choose::all(self.path, &self.window)?;
        let mut parts = Vec::new();
        for c in chosen {
            let range = window::resolve(&c.recording, &c.window)?;
            parts.push((c.recording, range));
        }
        let unix = |(r, range): &(Recording, Range<i64>)| {
            let start = r.meta().start_unix_ns;
            start.saturating_add(range.start)..start.saturating_add(range.end)
        };
        let from_ns = parts.iter().map(|p| unix(p).start).min().unwrap_or(0);
        let to_ns = parts.iter().map(|p| unix(p).end).max().unwrap_or(0);
        let column_ns = ((to_ns - from_ns) / self.width.max(1) as i64).max(1);
        let empty = || Heat {
            unix_ns: from_ns..to_ns,
            column_ns,
            columns: vec![CallHistogram::default(); self.width],
            unknown: 0,
        };
        let add = |heat: &mut Heat, _, (recording, range): &(Recording, Range<i64>)| {
            self.add(recording, range.clone(), heat)
        };
        let heats = parallel::shared(&parts, empty, add)?;
        Ok(heats.into_iter().reduce(Heat::joined).unwrap_or_else(empty))
    }

    fn add(&self, recording: &Recording, mut range: Range<i64>, heat: &mut Heat) -> Result<()> {
        let devices = DeviceFilter::of(&recording.meta().devices, self.devices)?;
        let layers = if devices.is_all() {
            Layers::of(recording, GroupBy::All)?
        } else {
            Layers::default()
        };
        let counts = |dev| layers.counts(dev) && devices.has(dev);
        let shift_ns = recording.meta().start_unix_ns - heat.unix_ns.start;
        let last = heat.columns.len() - 1;
        let column_of =
            |at_ns: i64, column_ns: i64| ((at_ns + shift_ns).max(0) / column_ns) as usize;
        // Rollups are exact in time to their step: a column must be wider for that not to show.
        let second_ns = 1_000_000_000;
        let removed = rollups::left(recording)?;
        let mut carried = None;
        if self.part != Part::Queue {
            let [second_s, minute_s, hour_s] = ROLLUP_STEPS_S.map(i64::from);
            let step_ns = second_ns
                * match heat.column_ns / second_ns {
                    column_s if column_s >= 2 * hour_s => hour_s,
                    column_s if column_s >= minute_s => minute_s,
                    _ => second_s,
                };
            if heat.column_ns >= 2 * second_ns {
                carried = rollups::carrying(recording, step_ns, GroupBy::Device, &mut range)?;
            }
            carried = carried.or(removed.map(|step_s| (step_s, range.end)));
        } else if removed.is_some() {
            bail!(
                "part: the size limit removed the single I/Os of this time; the sums that are left know total and device time"
            );
        }
        if let Some((step_s, until_ns)) = carried {
            let total = self.part == Part::Total;
            let wanted = RollupHistograms {
                total,
                device: !total,
            };
            let warnings = read_rollups_with(
                recording.path(),
                step_s,
                range.start..until_ns,
                wanted,
                counts,
                |r| {
                    let Some(class) = r.class.filter(|_| r.dev.is_some()) else {
                        return;
                    };
                    if self.class.is_none_or(|c| c == class) {
                        let half_ns = i64::from(step_s) * second_ns / 2;
                        let of = if total { &r.total } else { &r.device };
                        heat.columns[column_of(r.at_ns + half_ns, heat.column_ns).min(last)]
                            .merge(of);
                    }
                },
            )?;
            source::warn(&warnings);
            range.start = until_ns.min(range.end);
        }
        if range.is_empty() {
            return Ok(());
        }
        let range = window::with_last_instant(recording, &range);
        let met = decode::each_io(recording, range, IoColumns::QUEUE, |io| {
            if !counts(io.dev) || self.class.is_some_and(|c| c != io.class()) {
                return;
            }
            match self.part.of(io) {
                Some(ns) => {
                    heat.columns[column_of(io.done_ns, heat.column_ns).min(last)].add(ns, 1)
                }
                None => heat.unknown += 1,
            }
        })?;
        source::warn(&met.warnings);
        Ok(())
    }
}

impl Heat {
    /// With what another thread counted in the same columns.
    fn joined(mut self, other: Heat) -> Heat {
        self.columns
            .iter_mut()
            .zip(&other.columns)
            .for_each(|(own, of)| own.merge(of));
        Heat {
            unknown: self.unknown + other.unknown,
            ..self
        }
    }

    /// The picture in `height` rows, each the same factor longer than the one before: their bounds in nanoseconds, one more
    /// than rows, and the counts column by column.
    pub fn cells(&self, height: usize) -> (Vec<f64>, Vec<Vec<u64>>) {
        let middle = |low: i64, high: i64| {
            if high == i64::MAX {
                low as f64
            } else {
                (low + high) as f64 / 2.0
            }
        };
        let seen = || self.columns.iter().flat_map(CallHistogram::buckets);
        let low = seen().map(|(low, ..)| low).min().unwrap_or(1_000).max(100) as f64;
        let high = seen()
            .map(|(low, high, _)| middle(low, high))
            .fold(low * 2.0, f64::max)
            * 1.04;
        let height = height.max(1);
        let factor = (high / low).powf(1.0 / height as f64);
        let bounds: Vec<f64> = (0..=height)
            .map(|i| low * factor.powi(i32::try_from(i).unwrap_or(0)))
            .collect();
        let row = |ns: f64| {
            ((ns / low).ln() / factor.ln())
                .floor()
                .clamp(0.0, (height - 1) as f64) as usize
        };
        let column = |h: &CallHistogram| {
            let mut counts = vec![0; height];
            h.buckets()
                .for_each(|(low, high, n)| counts[row(middle(low, high))] += n);
            counts
        };
        (bounds, self.columns.iter().map(column).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_io_is_in_one_cell_and_rows_are_in_order() {
        let mut columns = vec![CallHistogram::default(); 3];
        for (i, h) in columns.iter_mut().enumerate() {
            for ns in [50, 10_000, 10_000, 900_000, 3_000_000_000] {
                h.add(ns, i as u64);
            }
        }
        let heat = Heat {
            unix_ns: 0..30,
            column_ns: 10,
            columns,
            unknown: 0,
        };
        let (bounds, cells) = heat.cells(20);
        assert_eq!((bounds.len(), cells.len()), (21, 3));
        assert!(
            bounds.is_sorted() && bounds[0] <= 100.0 && bounds[20] > 3.0e9,
            "{bounds:?}"
        );
        let sums: Vec<u64> = cells.iter().map(|c| c.iter().sum()).collect();
        assert_eq!(sums, [0, 5, 10]);
        let at = cells[1]
            .iter()
            .position(|n| *n == 2)
            .expect("both in one row");
        assert!(
            bounds[at] <= 10_100.0 && bounds[at + 1] >= 9_900.0,
            "{at} of {bounds:?}"
        );
    }
}
