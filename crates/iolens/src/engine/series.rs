//! Rows over the recordings of a root, from the coarsest source that carries the step.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};

use super::view::{Tier, View};
use super::{RowArgs, WindowArgs, rows::DeviceFilter};
use super::{choose, parallel};
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
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 120_000,
    300_000, 600_000, 1_200_000, 3_600_000, 14_400_000, 86_400_000,
];
/// As many rows as a chart is wide, unless a step is asked for.
const USUAL_ROWS: i64 = 900;

impl Series<'_> {
    /// Gives every row, in Unix time, with the beginning of the first recording before it and the name of its group after
    /// it, to `show`; the step that was taken.
    ///
    /// # Errors
    /// No recording holds the time, or the rows are too many.
    pub fn each_row(mut self, mut show: impl FnMut(i64, &Row, &str)) -> Result<i64> {
        let chosen = choose::all(self.path, &self.window)?;
        let mut length_ns = 0;
        for c in &chosen {
            let range = super::window::resolve(&c.recording, &c.window)?;
            length_ns += range.end - range.start;
        }
        let usual = || {
            STEPS_MS
                .iter()
                .map(|ms| ms * 1_000_000)
                .find(|ns| length_ns / ns <= USUAL_ROWS)
        };
        let step_ns = self
            .rows
            .step
            .or_else(usual)
            .unwrap_or(STEPS_MS[STEPS_MS.len() - 1] * 1_000_000);
        if length_ns / step_ns.max(1) > MAX_ROWS as i64 {
            bail!("more than {MAX_ROWS} rows: choose a longer step or a shorter stretch");
        }
        self.rows.step = Some(step_ns);
        let mut views = Vec::new();
        for c in chosen {
            let filter = DeviceFilter::of(&c.recording.meta().devices, self.devices)?;
            views.push(View::of_tier(c, &self.rows, Tier::Coarsest)?.of_devices(filter));
        }
        let start_unix_ns = views
            .first()
            .map_or(0, |view| view.recording.meta().start_unix_ns);
        let count = AtomicUsize::new(0);
        let counted = || match count.fetch_add(1, Ordering::Relaxed) {
            n if n < MAX_ROWS => Ok(()),
            _ => bail!("more than {MAX_ROWS} rows: choose a longer step or a shorter stretch"),
        };
        if let [view] = views.as_slice() {
            view.show(view.recording.meta().start_unix_ns, |row, name| {
                counted().map(|()| show(start_unix_ns, row, name))
            })?;
            return Ok(step_ns);
        }
        let gather = |parts: &mut Vec<(usize, Vec<(Row, String)>)>, i: usize, view: &View| {
            let mut rows = Vec::new();
            view.show(view.recording.meta().start_unix_ns, |row, name| {
                counted().map(|()| rows.push((row.clone(), name.to_owned())))
            })?;
            parts.push((i, rows));
            Ok(())
        };
        let mut parts = parallel::shared(&views, Vec::new, gather)?.concat();
        parts.sort_unstable_by_key(|(i, _)| *i);
        parts
            .iter()
            .flat_map(|(_, rows)| rows)
            .for_each(|(row, name)| show(start_unix_ns, row, name));
        Ok(step_ns)
    }
}
