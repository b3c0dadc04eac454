//! Draws a frame: pure functions from the data and the view state to characters.

mod grid;
mod list;
mod stories;
mod tables;
mod top;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::analyst::{CellIos, FoundStories, MadeTables};
use super::heat::{self, HeatCache, HeatMap};
use super::history::{ColumnLatencies, History};
use super::palette::Palette;
use super::state::{LatencyScale, ScreenView};
use super::words;
use crate::present::escape::terminal;
use crate::present::layout::{cut, cut_end, visible, wrapped};
use crate::present::stories::{self as story_words, NotProvenEntry};
use iolens_core::analysis::heat::TimePart;
use iolens_core::model::RecordingMeta;
pub use stories::StoryLog;

/// Minimum width of the terminal; below it the screen shows a message instead.
const MIN_WIDTH: u16 = 60;
const MIN_HEIGHT: u16 = 16;
/// Columns for the labels of latencies.
const LABEL: u16 = 7;
/// Minimum width for stories beside the table.
const MIN_BESIDE: u16 = 110;
/// Minimum width of the table in that layout: its columns and one cause.
const MIN_TABLE: u16 = 66;

/// Results of the analyst.
#[derive(Debug, Default)]
pub struct Findings {
    /// Both tables, for some stretch of time.
    pub tables: Option<MadeTables>,
    /// The I/Os of the open cell.
    pub cell: Option<CellIos>,
    /// Recent stories.
    pub stories: StoryLog,
    /// If there is no story: what could not be proven, as text. Not escaped.
    pub not_proven: Option<String>,
    /// Whether the machine was short of CPU time. Stories that this explains are left out.
    pub is_short_of_cpu: bool,
}

impl Findings {
    /// Adds the stories found last, as text. Earlier stories are kept for some minutes.
    pub fn take_stories(&mut self, found: &FoundStories, meta: &RecordingMeta, history: &History) {
        let names = history.names.all();
        let times = history.times(0);
        let lines = story_words::lines(&found.stories, meta, names, &times);
        self.stories.take(lines);
        self.not_proven = None;
        if let Some(unknown) = &found.not_proven {
            let entry = NotProvenEntry::of(unknown, meta, names);
            self.not_proven = Some(entry.summary);
        }
        self.is_short_of_cpu = found.is_short_of_cpu;
    }

    /// Whether no program is known to have waited, and none may have.
    fn is_without_victim(&self) -> bool {
        self.stories.is_empty() && self.not_proven.is_none()
    }
}

/// Information about the source.
#[derive(Debug, Clone, Default)]
pub struct SourceFacts {
    /// Host name.
    pub host: String,
    /// CPU use of this program, in percent of one CPU.
    pub self_percent: Option<f64>,
    /// What the source cannot show and what to do about it, as text.
    pub limits: Vec<String>,
    /// Name of the recording; `None`: live I/O is shown.
    pub recording: Option<String>,
    /// Whether the source is the kernel's counters, without single I/Os.
    pub is_of_counters: bool,
    /// Whether the recording contains neither single I/Os nor counters to show instead.
    pub is_without_ios: bool,
    /// The recorder, if it is another program.
    pub serve: Option<String>,
    /// Whether part of the recording is being read.
    pub is_reading: bool,
    /// The last error of reading or analysing.
    pub failure: Option<ScreenFailure>,
    /// A message shown instead of the keys.
    pub notice: Option<ScreenNotice>,
}

impl SourceFacts {
    /// Whether there are no single I/Os.
    pub fn lacks_ios(&self) -> bool {
        self.is_of_counters || self.is_without_ios
    }
}

/// Shown so that such a recording does not look like an idle disk.
const NO_IOS: &str = "this recording holds no single I/Os";

/// A message, escaped for the terminal.
#[derive(Debug, Clone)]
pub struct ScreenNotice {
    /// What.
    pub text: String,
    /// Whether the message is about a finished action; the next key then removes it.
    pub is_of_past: bool,
}

/// An error of reading or analysing. The rest of the screen continues.
#[derive(Debug, Clone)]
pub struct ScreenFailure {
    /// The name of the job.
    pub of: &'static str,
    /// The reason as text.
    pub text: String,
}

/// Number of heat map columns on a terminal of this width.
pub fn picture_width(terminal: u16) -> i64 {
    i64::from(terminal.saturating_sub(LABEL + 1).max(1))
}

/// The input of a frame.
pub struct Scene<'a> {
    /// The I/O data.
    pub history: &'a History,
    /// Results of the analyst.
    pub findings: &'a Findings,
    /// Information about the source.
    pub facts: &'a SourceFacts,
    /// Colours.
    pub palette: Palette,
}

/// Draws a frame, and stores the positions of its parts in `view`.
pub fn frame(
    scene: &Scene,
    view: &mut ScreenView,
    cache: &mut HeatCache,
    area: Rect,
    buffer: &mut Buffer,
) {
    view.set_range(scene.history.range_ns());
    view.geometry = super::state::Geometry::default();
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        too_small(area, buffer);
        return;
    }
    let end_ns = view.shown_end_ns(scene.history.complete_to_ns);
    let heat_width = area.width - LABEL - 1;
    let from_ns = end_ns - view.step_ns() * i64::from(heat_width);
    view.devices = scene.history.active_devices(i64::MIN / 2, i64::MAX / 2);
    top::header(scene, view, from_ns..end_ns, row(area, 0), buffer);
    let (shown, hidden) = top::shown_devices(scene, view, from_ns, end_ns, area.height);
    let device_lines = (shown.len() as u16).max(1);
    let devices_area = rows(area, 1, device_lines);
    top::devices(scene, &shown, hidden, end_ns, devices_area, buffer);
    let body = rows(area, 1 + device_lines, area.height - 2 - device_lines);
    top::footer(scene, view, row(area, area.height - 1), buffer);
    if view.help {
        help(scene.palette, body, buffer);
        return;
    }
    // The heat map, with its title and axis, gets three fifths.
    let lower_height = (body.height * 2 / 5).max(5);
    let upper = rows(body, 0, body.height - lower_height);
    picture(scene, view, cache, from_ns, upper, buffer);
    let lower = rows(body, upper.height, lower_height);
    if scene.facts.lacks_ios() {
        view.cell = None;
        missing(scene, lower, buffer);
        return;
    }
    if view.cell.is_some() {
        list::cell(scene, view, lower, buffer);
        return;
    }
    let (left, right) = halves(scene, lower);
    tables::table(scene, view, from_ns, end_ns, left, buffer);
    stories::stories(scene, right, buffer);
}

/// The areas of the table and of the stories: side by side, or one above the other.
fn halves(scene: &Scene, lower: Rect) -> (Rect, Rect) {
    if lower.width >= MIN_BESIDE {
        let left = (lower.width * 11 / 20).max(MIN_TABLE);
        let mut right = lower;
        right.x += left + 1;
        right.width -= left + 1;
        return (
            Rect {
                width: left,
                ..lower
            },
            right,
        );
    }
    let stories_height = match lower.height {
        _ if scene.findings.is_without_victim() => 0,
        0..=7 => 1,
        height => height * 2 / 5,
    };
    (
        rows(lower, 0, lower.height - stories_height),
        rows(lower, lower.height - stories_height, stories_height),
    )
}

fn row(area: Rect, at: u16) -> Rect {
    rows(area, at, 1)
}

/// `n` rows of an area from row `at` on, clipped to the area.
fn rows(area: Rect, at: u16, n: u16) -> Rect {
    Rect {
        y: area.y + at.min(area.height),
        height: n.min(area.height.saturating_sub(at)),
        ..area
    }
}

/// Writes escaped text. Returns the column after it.
fn put(buffer: &mut Buffer, area: Rect, x: u16, text: &str, style: Style) -> u16 {
    if area.height == 0 || x >= area.right() {
        return x;
    }
    let room = usize::from(area.right() - x);
    buffer.set_stringn(x, area.y, text, room, style).0
}

/// The position of the next text in a line.
struct LineCursor<'a> {
    buffer: &'a mut Buffer,
    line: Rect,
    x: u16,
}

impl LineCursor<'_> {
    fn new(buffer: &mut Buffer, line: Rect) -> LineCursor<'_> {
        let x = line.x;
        LineCursor { buffer, line, x }
    }

    /// Writes escaped text.
    fn put(&mut self, text: &str, style: Style) {
        self.x = put(self.buffer, self.line, self.x, text, style);
    }

    /// Number of columns left.
    fn room(&self) -> usize {
        usize::from(self.line.right() - self.x)
    }
}

/// Draws what counters and recordings without single I/Os cannot show, in place of the tables.
fn missing(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let palette = scene.palette;
    put(buffer, area, area.x, " what is missing", palette.heading());
    let is_recorded = scene.facts.recording.is_some();
    let mut said = Vec::new();
    if is_recorded {
        said.push(NO_IOS);
    }
    said.extend(scene.facts.limits.iter().map(String::as_str));
    said.push(if is_recorded {
        "iolens report and iolens zoom show what it holds."
    } else {
        "iolens doctor says what eBPF needs."
    });
    let mut line = 1;
    for one in said {
        let width = usize::from(area.width.saturating_sub(2));
        for text in wrapped(&terminal(one), width) {
            put(buffer, row(area, line), area.x + 1, &text, Style::new());
            line += 1;
        }
    }
}

fn too_small(area: Rect, buffer: &mut Buffer) {
    let lines = [
        format!("too small: {}x{}", area.width, area.height),
        format!("needs {MIN_WIDTH}x{MIN_HEIGHT}"),
        "q ends".to_owned(),
    ];
    for (i, line) in lines.iter().enumerate() {
        put(buffer, row(area, i as u16), area.x, line, Style::new());
    }
}

/// Draws the heat map of all latencies with its title and axes.
fn picture(
    scene: &Scene,
    view: &mut ScreenView,
    cache: &mut HeatCache,
    from_ns: i64,
    area: Rect,
    buffer: &mut Buffer,
) {
    let palette = scene.palette;
    let history = scene.history;
    let step_ns = view.step_ns();
    let width = usize::from(area.width - LABEL - 1);
    let to_ns = from_ns + step_ns * width as i64;
    title(scene, view, from_ns, to_ns, row(area, 0), buffer);
    // If I/Os are lost, a line below the heat map marks the columns concerned.
    let loss_lines = u16::from(history.is_lossy(from_ns, to_ns));
    let cells = Rect {
        x: area.x + LABEL + 1,
        y: area.y + 1,
        width: width as u16,
        height: area.height.saturating_sub(2 + loss_lines),
    };
    if cells.height == 0 {
        return;
    }
    let columns = cache.columns(history, &view.selection(), from_ns, step_ns, width);
    let rows_per_line = if palette.has_halves() { 2 } else { 1 };
    let scale = heat::scale(&columns, usize::from(cells.height) * rows_per_line);
    if let Some(cursor) = &mut view.cursor {
        cursor.row = cursor.row.min(scale.rows - 1);
    }
    let marked = view.cursor.and_then(|cursor| {
        let column = usize::try_from((cursor.at_ns - from_ns) / step_ns).ok()?;
        (column < width).then_some((column, cursor.row))
    });
    let map = HeatMap {
        columns: &columns,
        scale,
        palette,
        cursor: marked,
    };
    map.render(cells, buffer);
    if columns.iter().all(|c| c.entries().is_empty()) {
        let text = nothing_drawn(scene, view, from_ns, to_ns);
        let middle = row(cells, cells.height / 2);
        put(buffer, middle, cells.x + 2, &text, palette.faint());
    }
    latency_axis(scale, rows_per_line, palette, area, cells, buffer);
    if loss_lines > 0 {
        losses(scene, from_ns, step_ns, row(area, area.height - 2), buffer);
    }
    time_axis(scene, from_ns, step_ns, row(area, area.height - 1), buffer);
    if let Some((column, marked_row)) = marked {
        let text = under_mark(&columns[column], scale, marked_row);
        let from_bottom = (marked_row / rows_per_line) as u16;
        let line = row(cells, cells.height.saturating_sub(1 + from_bottom));
        let length = visible(&text) as u16;
        // To the right of the mark, or to its left if there is no room.
        let right = cells.x + column as u16 + 2;
        let x = if right + length <= cells.right() {
            right
        } else {
            (cells.x + column as u16)
                .saturating_sub(length + 1)
                .max(cells.x)
        };
        put(buffer, line, x, &text, palette.selected());
    }
    view.geometry.heat = cells;
    view.geometry.rows_per_line = rows_per_line;
    view.geometry.from_ns = from_ns;
    view.geometry.step_ns = step_ns;
    view.geometry.scale = Some(scale);
}

/// The number of I/Os in the marked cell.
fn under_mark(counts: &ColumnLatencies, scale: LatencyScale, marked: usize) -> String {
    let mut ios = 0;
    for (bucket, n) in counts.entries() {
        if scale.row(ColumnLatencies::middle_ns(*bucket)) == marked {
            ios += u64::from(*n);
        }
    }
    let low = words::short_time(scale.edge_ns(marked));
    let high = words::short_time(scale.edge_ns(marked + 1));
    let noun = if ios == 1 { "I/O" } else { "I/Os" };
    format!(" {ios} {noun}, {low} to {high} ")
}

fn nothing_drawn(scene: &Scene, view: &ScreenView, from_ns: i64, to_ns: i64) -> String {
    let history = scene.history;
    let there = history.range_ns();
    let kept = history.kept_ns();
    let is_missing = kept.start > from_ns.max(there.start) || kept.end < to_ns.min(there.end);
    if history.is_stretch() && is_missing {
        return match &scene.facts.failure {
            Some(failure) => terminal(&failure.text).into_owned(),
            None => "reading".to_owned(),
        };
    }
    if scene.facts.is_without_ios {
        return NO_IOS.to_owned();
    }
    if history.ios(from_ns, to_ns) == 0 {
        return "no I/O completed in this time".to_owned();
    }
    if view.selection().needs_ios()
        && let Some(kept_ns) = history.ios_from_ns(to_ns).filter(|ns| *ns > from_ns)
    {
        return words::kept_from(history, kept_ns);
    }
    "none of the I/Os in this time is selected".to_owned()
}

fn title(
    scene: &Scene,
    view: &ScreenView,
    from_ns: i64,
    to_ns: i64,
    area: Rect,
    buffer: &mut Buffer,
) {
    let palette = scene.palette;
    let history = scene.history;
    let class = view.class.map_or("all", |c| c.name());
    let what = match view.part {
        TimePart::Total if scene.facts.is_of_counters => "mean latency of each column",
        TimePart::Total => "latency",
        TimePart::Queue => "time in queue",
        TimePart::Device => "time in device",
    };
    let device = match view.device {
        Some(dev) => words::device(history, dev),
        None => all_devices(scene, view, from_ns, to_ns),
    };
    let mut text = if view.class.is_some() {
        format!(" {class} {what}, {device}")
    } else {
        format!(" {what}, {device}")
    };
    for key in &view.opened {
        text.push_str(" › ");
        text.push_str(&words::group(history, *key));
    }
    if !view.filter.is_empty() {
        text.push_str(&format!(" /{}", terminal(&view.filter)));
    }
    let step = format!(" {} a column ", words::short_time(view.step_ns() as f64));
    let line_to = area.right().saturating_sub(visible(&step) as u16);
    let room = usize::from(line_to.saturating_sub(area.x + 1));
    let text = cut(&text, room);
    let mut x = put(buffer, area, area.x, &text, palette.heading());
    let pattern = pattern(scene, view);
    if let Some(pattern) = pattern.filter(|p| visible(&text) + visible(p) <= room) {
        x = put(buffer, area, x, &pattern, palette.faint());
    }
    let line = palette.text("─", "-");
    x = put(buffer, area, x, " ", palette.faint());
    while x < line_to {
        x = put(buffer, area, x, line, palette.faint());
    }
    put(buffer, area, line_to, &step, palette.faint());
}

/// The title for all devices, naming active devices that are left out because their I/Os would count twice.
fn all_devices(scene: &Scene, view: &ScreenView, from_ns: i64, to_ns: i64) -> String {
    const NAMED: usize = 3;
    let active = scene.history.active_devices(from_ns, to_ns);
    let mut left_out = Vec::new();
    for dev in active.iter().filter(|d| view.above.contains(d)) {
        left_out.push(words::device(scene.history, *dev));
    }
    if left_out.is_empty() {
        return "all devices".to_owned();
    }
    let more = match left_out.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    left_out.truncate(NAMED);
    format!("all devices but {}{more}", left_out.join(", "))
}

/// The access pattern of the opened group's I/Os.
fn pattern(scene: &Scene, view: &ScreenView) -> Option<String> {
    let tables = scene.findings.tables.as_ref()?;
    let pattern = &tables.pattern;
    if !view.selection().needs_ios() || pattern.ios == 0 {
        return None;
    }
    let size = pattern.sizes.low_quantile(0.5)?;
    let size = crate::present::layout::size(size);
    let mut text = format!(
        " · {} I/Os, median {size}",
        words::short(pattern.ios as f64)
    );
    if pattern.placed_bytes > 0 {
        let share = 100.0 * pattern.sequential_bytes as f64 / pattern.placed_bytes as f64;
        text.push_str(&format!(", {share:.0} % sequential"));
    }
    Some(text)
}

/// Draws labels at powers of ten.
fn latency_axis(
    scale: LatencyScale,
    rows_per_line: usize,
    palette: Palette,
    area: Rect,
    cells: Rect,
    buffer: &mut Buffer,
) {
    for line in 0..cells.height {
        let y = cells.bottom() - 1 - line;
        let first = usize::from(line) * rows_per_line;
        let low_ns = scale.edge_ns(first);
        let high_ns = scale.edge_ns(first + rows_per_line);
        // The power of ten within this line, if there is one.
        let power = 10f64.powf((low_ns.log10() - 1e-6).ceil());
        let at = Rect {
            y,
            height: 1,
            ..area
        };
        if power < high_ns * 0.999_999 {
            let label = format!("{:>1$}", words::short_time(power), usize::from(LABEL));
            put(buffer, at, area.x, &label, palette.faint());
        }
        let edge = palette.text("│", "|");
        put(buffer, at, area.x + LABEL, edge, palette.faint());
    }
}

/// Draws marks below columns in which I/Os are lost.
fn losses(scene: &Scene, from_ns: i64, step_ns: i64, area: Rect, buffer: &mut Buffer) {
    let palette = scene.palette;
    let edge = palette.text("│", "|");
    put(buffer, area, area.x + LABEL, edge, palette.faint());
    let first = area.x + LABEL + 1;
    for x in first..area.right() {
        let at_ns = from_ns + i64::from(x - first) * step_ns;
        if scene.history.is_lossy(at_ns, at_ns + step_ns) {
            put(buffer, area, x, "!", palette.warning());
        }
    }
}

/// Draws the times of day.
fn time_axis(scene: &Scene, from_ns: i64, step_ns: i64, area: Rect, buffer: &mut Buffer) {
    const SPACING: u16 = 20;
    let palette = scene.palette;
    let corner = palette.text("└", "+");
    put(buffer, area, area.x + LABEL, corner, palette.faint());
    let decimals = usize::from(step_ns < 500_000_000);
    let tick = palette.text("╵", "'");
    let first = area.x + LABEL + 1;
    let mut x = first;
    while x < area.right() {
        let at_ns = from_ns + i64::from(x - first) * step_ns;
        let time = words::clock(scene.history, at_ns, decimals);
        let text = format!("{tick}{time}");
        let fits = visible(&text) <= usize::from(area.right() - x);
        if fits && at_ns >= scene.history.range_ns().start {
            put(buffer, area, x, &text, palette.faint());
        }
        x += SPACING;
    }
}

/// All keys, each with a long and a short description.
const KEYS: [(&str, &str, &str); 20] = [
    (
        "d",
        "next device, after the last all together",
        "next device",
    ),
    (
        "p c f",
        "rows by process, control group, file",
        "process group file",
    ),
    (
        "g",
        "rows by the next of these (of actors: by device too)",
        "next of these",
    ),
    (
        "w",
        "who waits for whom, or who does the I/O",
        "other table",
    ),
    ("r", "reads, writes, all", "reads, writes, all"),
    (
        "t",
        "total time, time in queue, time in device",
        "total queue device",
    ),
    ("+ -", "shorter, longer columns", "time of a column"),
    ("space", "hold the time, go on", "hold, go on"),
    (
        "arrows",
        "mark a cell; the time is held, and follows",
        "mark a cell",
    ),
    (
        "Enter",
        "on a cell: its I/Os, and what each waited for",
        "I/Os of the cell",
    ),
    (
        "Tab",
        "to the table; Enter there: this one alone",
        "table; Enter opens",
    ),
    ("Backspace", "back", "back"),
    ("PgUp PgDn", "half a screen back, forward", "half a screen"),
    (
        "Home End",
        "the oldest that is kept, the newest",
        "oldest, newest",
    ),
    (
        "s",
        "save the stretch in view as a recording",
        "save the view",
    ),
    (
        "/",
        "what has this in its name; empty: all",
        "filter by name",
    ),
    (
        "mouse",
        "click a cell or a row, wheel: time",
        "cell, row; time",
    ),
    (
        "rates",
        "of the last second; p50, p99: of the last ten",
        "1 s, p50 p99 10 s",
    ),
    ("!", "under a column: I/Os are missing", "I/Os are missing"),
    ("q", "end", "end"),
];
/// Width of the column of key names.
const KEY_WIDTH: u16 = 11;

fn help(palette: Palette, area: Rect, buffer: &mut Buffer) {
    // Two columns of keys if one would be too long.
    let is_long = usize::from(area.height) < KEYS.len();
    let per_column = if is_long {
        KEYS.len().div_ceil(2)
    } else {
        KEYS.len()
    };
    let column_width = if is_long { area.width / 2 } else { area.width };
    let room = usize::from(column_width - KEY_WIDTH - 1);
    let all_fit = KEYS.iter().all(|k| visible(k.1) <= room);
    for (i, (key, meaning, in_short)) in KEYS.iter().enumerate() {
        let at = row(area, (i % per_column) as u16);
        let x = area.x + (i / per_column) as u16 * column_width;
        put(buffer, at, x + 1, key, palette.heading());
        let text = cut_end(if all_fit { meaning } else { in_short }, room);
        put(buffer, at, x + KEY_WIDTH, &text, Style::new());
    }
}

#[cfg(test)]
mod tests;
