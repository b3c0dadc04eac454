//! Rows over the recordings of a root, from the coarsest source that carries the step.

use std::path::Path;

use anyhow::{Result, bail};

use super::choose;
use super::view::{Tier, View};
use super::{RowArgs, WindowArgs, rows::DeviceFilter};
use iolens_core::analysis::timeline::Row;

/// What a series is of.
pub struct Series<'a> {
    /// A recording or a root.
    pub path: &'a Path,
    /// When.
    pub window: WindowArgs,
    /// Step and subject.
    pub rows: RowArgs,
    /// Names of the devices that count; none: all.
    pub devices: &'a [String],
}

/// Rows of an answer: what a page can draw and a client can hold.
const MAX_ROWS: usize = 200_000;
/// Steps in which people count, in nanoseconds.
const STEPS_MS: [i64; 22] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 120_000, 300_000, 600_000,
    1_200_000, 3_600_000, 14_400_000, 86_400_000,
];
/// As many rows as a chart is wide, unless a step is asked for.
const USUAL_ROWS: i64 = 900;

impl Series<'_> {
    /// Gives every row, in Unix time, with the name of its group to `show`; the step that was taken.
    ///
    /// # Errors
    /// No recording holds the time, or the rows are too many.
    pub fn each_row(mut self, mut show: impl FnMut(&Row, &str)) -> Result<i64> {
        let chosen = choose::all(self.path, &self.window)?;
        let mut length_ns = 0;
        for c in &chosen {
            let range = super::window::resolve(&c.recording, &c.window)?;
            length_ns += range.end - range.start;
        }
        let usual = || STEPS_MS.iter().map(|ms| ms * 1_000_000).find(|ns| length_ns / ns <= USUAL_ROWS);
        let step_ns = self.rows.step.or_else(usual).unwrap_or(STEPS_MS[STEPS_MS.len() - 1] * 1_000_000);
        if length_ns / step_ns.max(1) > MAX_ROWS as i64 {
            bail!("more than {MAX_ROWS} rows: choose a longer step or a shorter stretch");
        }
        self.rows.step = Some(step_ns);
        let mut shown = 0;
        for c in chosen {
            let filter = DeviceFilter::of(&c.recording.meta().devices, self.devices)?;
            let view = View::of_tier(c, &self.rows, Tier::Coarsest)?.of_devices(filter);
            let start_unix_ns = view.recording.meta().start_unix_ns;
            view.show(start_unix_ns, |row, name| {
                shown += 1;
                if shown > MAX_ROWS {
                    bail!("more than {MAX_ROWS} rows: choose a longer step or a shorter stretch");
                }
                show(row, name);
                Ok(())
            })?;
        }
        Ok(step_ns)
    }
}
