//! The heat map of every I/O: time from left to right, latency from bottom to top, the number of I/Os as colour.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget;

use super::analyst::{Matcher, Selection};
use super::history::{ColumnLatencies, History, part_ns};
use super::palette::Palette;
use super::state::LatencyScale;

/// The scale starts and ends at multiples of half a decade: 1, 3, 10, 30, ...
const STEPS_PER_DECADE: f64 = 2.0;
/// Minimum ratio of the ends of the scale.
const MIN_SPAN: f64 = 100.0;
/// If the fullest cell has fewer I/Os than this, only part of the colour ramp is used.
const MIN_FULL: u32 = 32;

/// Cache of computed columns.
#[derive(Debug, Default)]
pub struct HeatCache {
    of: Option<(Selection, i64)>,
    columns: BTreeMap<i64, ColumnLatencies>,
}

impl HeatCache {
    /// The columns from `from_ns` on. Columns of complete time are computed only once.
    pub fn columns(
        &mut self,
        history: &History,
        selection: &Selection,
        from_ns: i64,
        step_ns: i64,
        width: usize,
    ) -> Vec<ColumnLatencies> {
        let key = (selection.clone(), step_ns);
        if self.of.as_ref() != Some(&key) {
            self.of = Some(key);
            self.columns.clear();
        }
        let end_ns = from_ns + step_ns * width as i64;
        self.columns.retain(|at, _| (from_ns..end_ns).contains(at));
        let mut all = Vec::with_capacity(width);
        for column in 0..width as i64 {
            let at_ns = from_ns + column * step_ns;
            if let Some(counts) = self.columns.get(&at_ns) {
                all.push(counts.clone());
                continue;
            }
            let counts = count(history, selection, at_ns, at_ns + step_ns);
            if at_ns + step_ns <= history.complete_to_ns {
                self.columns.insert(at_ns, counts.clone());
            }
            all.push(counts);
        }
        all
    }
}

fn count(history: &History, selection: &Selection, from_ns: i64, to_ns: i64) -> ColumnLatencies {
    if !selection.needs_ios() {
        return history.latencies(&selection.pick, from_ns, to_ns);
    }
    if history.is_stretch() {
        let selected = history.selected.as_ref();
        return match selected.filter(|s| s.selection == *selection) {
            Some(selected) => selected.latencies(from_ns, to_ns),
            // The selection is still being counted.
            None => ColumnLatencies::default(),
        };
    }
    let mut counts = ColumnLatencies::default();
    let mut matcher = Matcher::new(selection, &history.devices, history.names.all());
    for chunk in history.chunks(from_ns, to_ns) {
        let begin = chunk.partition_point(|io| io.done_ns < from_ns);
        let end = chunk.partition_point(|io| io.done_ns < to_ns);
        for io in &chunk[begin..end] {
            if let Some(ns) = part_ns(selection.pick.part, io)
                && matcher.has(io)
            {
                counts.add(ColumnLatencies::bucket(ns), 1);
            }
        }
    }
    counts
}

/// A scale of `rows` rows for all latencies of `columns`, rounded outwards so that it rarely changes.
pub fn scale(columns: &[ColumnLatencies], rows: usize) -> LatencyScale {
    let mut low_ns = f64::MAX;
    let mut high_ns: f64 = 0.0;
    for (bucket, _) in columns.iter().flat_map(ColumnLatencies::entries) {
        let ns = ColumnLatencies::middle_ns(*bucket);
        low_ns = low_ns.min(ns);
        high_ns = high_ns.max(ns);
    }
    if high_ns == 0.0 {
        low_ns = 2e4;
        high_ns = 5e6;
    }
    let low_ns = 10f64.powf(step(low_ns).floor() / STEPS_PER_DECADE);
    let high_ns = 10f64.powf((step(high_ns) + 0.02).ceil() / STEPS_PER_DECADE);
    LatencyScale {
        low_ns,
        high_ns: high_ns.max(low_ns * MIN_SPAN),
        rows: rows.max(1),
    }
}

/// The position of a latency in units of the scale's steps; whole numbers are possible ends of the scale.
fn step(ns: f64) -> f64 {
    ns.max(100.0).log10() * STEPS_PER_DECADE
}

/// Draws the cells, without labels and axes.
pub struct HeatMap<'a> {
    /// Latencies, column by column.
    pub columns: &'a [ColumnLatencies],
    /// Rows.
    pub scale: LatencyScale,
    /// Colours.
    pub palette: Palette,
    /// The marked cell: its column and row.
    pub cursor: Option<(usize, usize)>,
}

impl Widget for HeatMap<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let cells: Vec<Vec<u32>> = self.columns.iter().map(|c| self.rows_of(c)).collect();
        let most = cells.iter().flatten().copied().max().unwrap_or(0);
        // Rounded up to a power of two, so that the colours rarely change when a column leaves the map.
        let full = most.max(MIN_FULL).checked_next_power_of_two();
        let full = f64::from(full.unwrap_or(u32::MAX));
        for (column, rows) in cells.iter().enumerate().take(usize::from(area.width)) {
            let x = area.x + column as u16;
            let marked = self.cursor.filter(|c| c.0 == column).map(|c| c.1);
            for line in 0..area.height {
                let y = area.bottom() - 1 - line;
                let Some(cell) = buffer.cell_mut((x, y)) else {
                    continue;
                };
                let line = usize::from(line);
                if self.palette.has_halves() {
                    let lower = self.colour(rows, 2 * line, full, marked);
                    let upper = self.colour(rows, 2 * line + 1, full, marked);
                    draw_halves(cell, upper, lower);
                    continue;
                }
                let n = rows.get(line).copied().unwrap_or(0);
                if n > 0 {
                    let share = share(n, full);
                    cell.set_symbol(self.palette.shade(share));
                    cell.set_style(Style::new().fg(self.palette.heat(share)));
                }
                if marked == Some(line) {
                    cell.set_style(self.palette.selected());
                }
            }
        }
    }
}

impl HeatMap<'_> {
    fn rows_of(&self, counts: &ColumnLatencies) -> Vec<u32> {
        let mut rows = vec![0u32; self.scale.rows];
        for (bucket, n) in counts.entries() {
            let row = self.scale.row(ColumnLatencies::middle_ns(*bucket));
            rows[row] = rows[row].saturating_add(*n);
        }
        rows
    }

    /// The colour of half a character. `marked` is the marked row of this column. `None`: the background.
    fn colour(&self, rows: &[u32], row: usize, full: f64, marked: Option<usize>) -> Option<Color> {
        if marked == Some(row) {
            return Some(if self.palette.is_light {
                Color::Black
            } else {
                Color::White
            });
        }
        let n = rows.get(row).copied().filter(|n| *n > 0)?;
        Some(self.palette.heat(share(n, full)))
    }
}

/// The position of `n` I/Os on the colour ramp that ends at `full`; logarithmic, so that small counts are visible
/// beside large ones.
fn share(n: u32, full: f64) -> f64 {
    f64::from(n).ln() / full.ln()
}

fn draw_halves(cell: &mut ratatui::buffer::Cell, upper: Option<Color>, lower: Option<Color>) {
    match (upper, lower) {
        (None, None) => {}
        (Some(upper), None) => {
            cell.set_symbol("▀").set_fg(upper);
        }
        (None, Some(lower)) => {
            cell.set_symbol("▄").set_fg(lower);
        }
        (Some(upper), Some(lower)) if upper == lower => {
            cell.set_symbol("█").set_fg(upper);
        }
        (Some(upper), Some(lower)) => {
            cell.set_symbol("▀").set_fg(upper).set_bg(lower);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Pick;
    use super::super::palette::Depth;
    use super::*;
    use iolens_core::analysis::heat::TimePart;
    use iolens_core::model::{DevId, Io, Op};

    fn palette(depth: Depth) -> Palette {
        Palette {
            depth,
            is_light: false,
            has_blocks: true,
        }
    }

    #[test]
    fn one_slow_io_beside_five_thousand_lights_a_cell_in_every_colour_depth() {
        let mut column = ColumnLatencies::default();
        column.add(ColumnLatencies::bucket(80_000), 5000);
        column.add(ColumnLatencies::bucket(250_000_000), 1);
        let columns = [column];
        for depth in [Depth::True, Depth::Ansi256, Depth::Ansi16, Depth::Mono] {
            let palette = palette(depth);
            let area = Rect::new(0, 0, 1, 12);
            let rows = if palette.has_halves() { 24 } else { 12 };
            let mut buffer = Buffer::empty(area);
            let map = HeatMap {
                columns: &columns,
                scale: scale(&columns, rows),
                palette,
                cursor: None,
            };
            map.render(area, &mut buffer);
            let drawn = buffer.content().iter().filter(|c| c.symbol() != " ");
            assert_eq!(drawn.count(), 2, "{depth:?}");
        }
    }

    #[test]
    fn the_scale_holds_all_latencies_and_moves_in_steps() {
        let of = |ns: &[i64]| {
            let mut counts = ColumnLatencies::default();
            ns.iter().for_each(|ns| {
                counts.add(ColumnLatencies::bucket(*ns), 1);
            });
            scale(&[counts], 20)
        };
        let wide = of(&[84_000, 250_000_000]);
        assert!(wide.low_ns <= 84_000.0 && wide.high_ns >= 250e6);
        assert_eq!(wide, of(&[70_000, 280_000_000]));
        assert!(of(&[500_000]).high_ns >= 30e6);
    }

    #[test]
    fn complete_columns_are_counted_once_and_the_last_one_again() {
        let mut history = History::new(0, 100);
        let io = |done_ns| Io::new(done_ns, DevId::new(8, 0), Op::READ, 512, None, 1000);
        let selection = Selection {
            pick: Pick {
                part: TimePart::Total,
                dev: None,
                class: None,
                above: Vec::new(),
            },
            groups: Vec::new(),
            text: String::new(),
        };
        let mut cache = HeatCache::default();
        history.push(vec![io(150_000_000)]);
        history.advance(160_000_000);
        let mut ns = |history: &History| {
            let columns = cache.columns(history, &selection, 0, 100_000_000, 3);
            columns.iter().map(ColumnLatencies::n).collect::<Vec<_>>()
        };
        assert_eq!(ns(&history), [0, 1, 0]);
        history.push(vec![io(170_000_000), io(210_000_000)]);
        history.advance(300_000_000);
        assert_eq!(ns(&history), [0, 2, 1]);
    }
}
