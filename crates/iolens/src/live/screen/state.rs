//! The view state: which part of the history is shown, and how keys and the mouse change it.

use iolens_core::analysis::heat::TimePart;
use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::model::{Class, DevId, MS_NS, ceil_to, floor_to};
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};

use super::analyst::{Selection, Ticket};
use super::history::{COLUMN_NS, PARTS, Pick};
use super::output::MovedPart;

/// Widths of a heat map column for live I/O, in milliseconds, starting with [`COLUMN_NS`].
const LIVE_STEPS_MS: &[i64] = &[100, 200, 500, 1000, 2000, 5000, 10_000, 30_000];
/// The same for a recording.
const RECORDED_STEPS_MS: &[i64] = &[
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000,
    3_600_000,
];
const _: () = assert!(LIVE_STEPS_MS[0] * MS_NS == COLUMN_NS);
/// Maximum length of a filter, in characters.
const MAX_FILTER: usize = 64;

/// The table that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownTable {
    /// Waits.
    Waits,
    /// Actors.
    Actors,
}

/// Where the arrow keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    /// The heat map.
    Heat,
    /// The table below.
    Table,
}

/// A cell of the heat map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkedCell {
    /// Start of its column.
    pub at_ns: i64,
    /// Its row, counted from the shortest latency.
    pub row: usize,
}

/// A cell whose I/Os are listed.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCell {
    /// Start of its column.
    pub from_ns: i64,
    /// End of the column.
    pub to_ns: i64,
    /// Its lower latency bound in nanoseconds, for display.
    pub low_ns: f64,
    /// Its upper latency bound in nanoseconds, exclusive.
    pub high_ns: f64,
    /// Its latency buckets.
    pub buckets: std::ops::Range<u16>,
    /// The ticket of the request for its I/Os.
    pub ticket: Ticket,
}

/// The rows of the heat map: each covers latencies longer by the same factor than the row before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyScale {
    /// Lower bound of the first row, in nanoseconds.
    pub low_ns: f64,
    /// Upper bound of the last row, in nanoseconds.
    pub high_ns: f64,
    /// Number of rows.
    pub rows: usize,
}

impl LatencyScale {
    /// The row of a latency.
    pub fn row(&self, ns: f64) -> usize {
        let share = (ns / self.low_ns).ln() / (self.high_ns / self.low_ns).ln();
        let row = (share * self.rows as f64).floor();
        row.clamp(0.0, (self.rows.max(1) - 1) as f64) as usize
    }

    /// Lower bound of a row; for the index after the last row, the upper bound of the scale.
    pub fn edge_ns(&self, row: usize) -> f64 {
        let share = row as f64 / self.rows.max(1) as f64;
        self.low_ns * (self.high_ns / self.low_ns).powf(share)
    }
}

/// Positions in the last frame.
#[derive(Debug, Clone, Default)]
pub struct Geometry {
    /// Area of the heat map's cells.
    pub heat: Rect,
    /// Number of heat map rows per line of the terminal.
    pub rows_per_line: usize,
    /// Start of its first column.
    pub from_ns: i64,
    /// Width of a column in nanoseconds.
    pub step_ns: i64,
    /// Its latency scale.
    pub scale: Option<LatencyScale>,
    /// Area of the table's rows, below the title.
    pub table: Rect,
    /// The key of each table row.
    pub keys: Vec<GroupKey>,
    /// Index of the first row shown.
    pub first_key: usize,
    /// Number of hidden lines of the list of a cell.
    pub hidden_lines: usize,
}

impl Geometry {
    /// By how many columns the heat map has moved to the left since `before`; `None` if it is different in any other
    /// way.
    pub fn moved_since(&self, before: &Geometry) -> Option<MovedPart> {
        let is_same = self.heat == before.heat
            && self.scale.is_some()
            && self.scale == before.scale
            && self.step_ns == before.step_ns;
        let columns = (self.from_ns - before.from_ns) / self.step_ns.max(1);
        let columns = u16::try_from(columns).ok()?;
        (is_same && columns > 0).then_some(MovedPart {
            area: self.heat,
            columns,
        })
    }
}

/// What the loop must do after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Draw again.
    Draw,
    /// Nothing has changed.
    Nothing,
    /// End.
    Quit,
    /// Give the terminal back to the shell for a while.
    Suspend,
    /// Save the stretch in view.
    Save,
}

/// The view state.
#[derive(Debug, Clone)]
pub struct ScreenView {
    /// The selected device; `None`: all together.
    pub device: Option<DevId>,
    /// The selected class; `None`: all.
    pub class: Option<Class>,
    /// The part of the latency that is shown.
    pub part: TimePart,
    steps_ms: &'static [i64],
    step: usize,
    /// End of the time in view; `None`: now.
    pub end_ns: Option<i64>,
    /// For a recording: whether it plays. `None`: live I/O is shown.
    pub plays: Option<bool>,
    /// The marked cell.
    pub cursor: Option<MarkedCell>,
    /// The cell whose I/Os are listed.
    pub cell: Option<OpenCell>,
    /// The first line of the list shown.
    pub scroll: usize,
    /// The grouping of the tables.
    pub by: GroupBy,
    /// The table shown.
    pub table: ShownTable,
    /// Where the arrow keys go.
    pub focus: Focus,
    /// The marked row of the table.
    pub row: usize,
    /// The opened groups: only their I/Os are shown. Each entry restricts the one before.
    pub opened: Vec<GroupKey>,
    /// Text that the names shown must contain.
    pub filter: String,
    /// The filter being typed.
    pub typing: Option<String>,
    /// Whether the keys are explained.
    pub help: bool,
    /// Incremented when the input of the tables changes.
    pub ticket: Ticket,
    /// Devices that can be selected.
    pub devices: Vec<DevId>,
    /// Stacked devices.
    pub above: Vec<DevId>,
    /// Positions in the last frame.
    pub geometry: Geometry,
    /// The available time, as of the last frame.
    pub range_ns: std::ops::Range<i64>,
}

impl Default for ScreenView {
    fn default() -> ScreenView {
        ScreenView {
            device: None,
            class: None,
            part: TimePart::Total,
            steps_ms: LIVE_STEPS_MS,
            step: 0,
            end_ns: None,
            plays: None,
            cursor: None,
            cell: None,
            scroll: 0,
            by: GroupBy::Process,
            table: ShownTable::Waits,
            focus: Focus::Heat,
            row: 0,
            opened: Vec::new(),
            filter: String::new(),
            typing: None,
            help: false,
            ticket: 0,
            devices: Vec::new(),
            above: Vec::new(),
            geometry: Geometry::default(),
            range_ns: 0..0,
        }
    }
}

impl ScreenView {
    /// The view of a recording, paused at its end.
    pub fn of_recording(range_ns: std::ops::Range<i64>) -> ScreenView {
        let mut view = ScreenView {
            steps_ms: RECORDED_STEPS_MS,
            plays: Some(false),
            ..ScreenView::default()
        };
        let as_live = RECORDED_STEPS_MS
            .iter()
            .position(|ms| *ms == LIVE_STEPS_MS[0]);
        view.step = as_live.unwrap_or(0);
        view.set_range(range_ns);
        view.end_ns = Some(view.range_ns.end);
        view
    }

    /// Width of a heat map column in nanoseconds.
    pub fn step_ns(&self) -> i64 {
        self.steps_ms[self.step] * MS_NS
    }

    /// Sets the available time.
    pub fn set_range(&mut self, range_ns: std::ops::Range<i64>) {
        self.range_ns = range_ns;
        if self.plays.is_some() {
            // The last column of a recording is shown even if it is incomplete.
            let step_ns = self.step_ns();
            self.range_ns.end = ceil_to(self.range_ns.end, step_ns);
        }
    }

    /// The time in view for `width` columns, aligned to columns.
    pub fn window_ns(&self, complete_to_ns: i64, width: i64) -> std::ops::Range<i64> {
        let end_ns = self.shown_end_ns(complete_to_ns);
        end_ns - width * self.step_ns()..end_ns
    }

    /// Centres the view on an instant.
    pub fn centre(&mut self, at_ns: i64, width: i64) {
        self.place(at_ns + width * self.step_ns() / 2, width);
    }

    /// Advances the view by the elapsed time, if it plays.
    pub fn play(&mut self, elapsed_ns: i64) {
        let Some(end_ns) = self.end_ns.filter(|_| self.plays == Some(true)) else {
            return;
        };
        let played_ns = end_ns + elapsed_ns;
        self.end_ns = Some(played_ns.min(self.range_ns.end));
    }

    /// Which I/Os count.
    pub fn selection(&self) -> Selection {
        Selection {
            pick: Pick {
                part: self.part,
                dev: self.device,
                class: self.class,
                above: self.above.clone(),
            },
            groups: self.opened.clone(),
            text: self.filter.to_lowercase(),
        }
    }

    /// End of the time in view, which consists of complete columns.
    pub fn shown_end_ns(&self, complete_to_ns: i64) -> i64 {
        let end_ns = self.end_ns.unwrap_or(complete_to_ns);
        floor_to(end_ns, self.step_ns())
    }

    /// The input of the tables has changed.
    fn changed(&mut self) -> Action {
        self.ticket += 1;
        self.row = 0;
        Action::Draw
    }

    /// Handles an event of the terminal.
    pub fn event(&mut self, event: &Event) -> Action {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Resize(..) => Action::Draw,
            Event::Paste(text) => {
                if let Some(typing) = &mut self.typing {
                    typing.extend(text.chars().filter(|c| !c.is_control()).take(MAX_FILTER));
                }
                Action::Draw
            }
            _ => Action::Nothing,
        }
    }

    fn key(&mut self, key: &KeyEvent) -> Action {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => return Action::Quit,
            KeyCode::Char('z') if has_control => return Action::Suspend,
            KeyCode::Char(_) if has_control => return Action::Nothing,
            _ => {}
        }
        if self.typing.is_some() {
            return self.type_filter(key.code);
        }
        if self.help {
            self.help = false;
            return Action::Draw;
        }
        match key.code {
            KeyCode::Char('q') => Action::Quit,
            KeyCode::Char('?') | KeyCode::Char('h') | KeyCode::F(1) => {
                self.help = true;
                Action::Draw
            }
            KeyCode::Char('d') => self.next_device(),
            KeyCode::Char('p') => self.group_by(GroupBy::Process),
            KeyCode::Char('c') => self.group_by(GroupBy::Cgroup),
            KeyCode::Char('f') => self.group_by(GroupBy::File),
            KeyCode::Char('g') => self.next_group(),
            KeyCode::Char('w') => self.other_table(),
            KeyCode::Char('r') => self.next_class(),
            KeyCode::Char('t') => self.next_part(),
            KeyCode::Char('+' | '=') => self.zoom(-1),
            KeyCode::Char('-') => self.zoom(1),
            KeyCode::Char('s') => Action::Save,
            KeyCode::Char(' ') => self.hold_or_resume(),
            KeyCode::Char('/') => {
                self.typing = Some(self.filter.clone());
                Action::Draw
            }
            KeyCode::Tab | KeyCode::BackTab => self.other_focus(),
            KeyCode::Enter => self.enter(),
            KeyCode::Backspace => self.back(),
            KeyCode::Esc => self.escape(),
            KeyCode::Left => self.move_cursor(-1, 0),
            KeyCode::Right => self.move_cursor(1, 0),
            KeyCode::Up => self.up_or_down(1),
            KeyCode::Down => self.up_or_down(-1),
            KeyCode::PageUp => self.scroll_time(-1),
            KeyCode::PageDown => self.scroll_time(1),
            KeyCode::Home => self.go_to(self.range_ns.start + self.width_ns()),
            KeyCode::End => self.resume(),
            _ => Action::Nothing,
        }
    }

    /// Switches between waits and actors. There are no waits by device.
    fn other_table(&mut self) -> Action {
        self.table = match self.table {
            ShownTable::Waits => ShownTable::Actors,
            ShownTable::Actors => ShownTable::Waits,
        };
        if self.table == ShownTable::Waits && self.by == GroupBy::Device {
            self.by = GroupBy::Process;
        }
        self.changed()
    }

    /// Cycles through reads, writes and all classes.
    fn next_class(&mut self) -> Action {
        self.class = match self.class {
            None => Some(Class::Read),
            Some(Class::Read) => Some(Class::Write),
            Some(_) => None,
        };
        self.changed()
    }

    /// Cycles through the parts of the latency.
    fn next_part(&mut self) -> Action {
        let at = PARTS.iter().position(|p| *p == self.part).unwrap_or(0);
        self.part = PARTS[(at + 1) % PARTS.len()];
        self.changed()
    }

    fn other_focus(&mut self) -> Action {
        self.focus = match self.focus {
            Focus::Heat => Focus::Table,
            Focus::Table => Focus::Heat,
        };
        Action::Draw
    }

    fn type_filter(&mut self, code: KeyCode) -> Action {
        let mut typed = self.typing.take().unwrap_or_default();
        match code {
            KeyCode::Enter => {
                self.filter = typed;
                return self.changed();
            }
            KeyCode::Esc => return Action::Draw,
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char(c) if !c.is_control() && typed.chars().count() < MAX_FILTER => {
                typed.push(c);
            }
            _ => {}
        }
        self.typing = Some(typed);
        Action::Draw
    }

    /// Cycles through all devices together and each device.
    fn next_device(&mut self) -> Action {
        let at = self
            .device
            .and_then(|dev| self.devices.iter().position(|d| *d == dev));
        self.device = match at {
            None => self.devices.first().copied(),
            Some(at) => self.devices.get(at + 1).copied(),
        };
        self.changed()
    }

    fn group_by(&mut self, by: GroupBy) -> Action {
        self.by = by;
        self.changed()
    }

    fn next_group(&mut self) -> Action {
        self.by = match (self.by, self.table) {
            (GroupBy::Process, _) => GroupBy::Cgroup,
            (GroupBy::Cgroup, _) => GroupBy::File,
            (GroupBy::File, ShownTable::Actors) => GroupBy::Device,
            _ => GroupBy::Process,
        };
        self.changed()
    }

    fn zoom(&mut self, by: i64) -> Action {
        let step = self.step as i64 + by;
        let before_ns = self.step_ns();
        let width = i64::from(self.geometry.heat.width);
        self.step = step.clamp(0, self.steps_ms.len() as i64 - 1) as usize;
        let step_ns = self.step_ns();
        if let Some(end_ns) = self.end_ns {
            // The marked cell keeps its position on the screen; without a mark, the centre does.
            let marked = self.cursor.map(|cursor| cursor.at_ns);
            let at_ns = marked.unwrap_or(end_ns - width * before_ns / 2);
            let columns = (end_ns - at_ns) / before_ns;
            self.place(at_ns + columns * step_ns, width);
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.at_ns = floor_to(cursor.at_ns, step_ns);
        }
        self.changed()
    }

    fn hold_or_resume(&mut self) -> Action {
        if let Some(plays) = &mut self.plays {
            *plays = !*plays;
            return self.changed();
        }
        match self.end_ns {
            None => {
                self.hold();
                self.changed()
            }
            Some(_) => self.resume(),
        }
    }

    /// Freezes the time in view.
    fn hold(&mut self) {
        self.plays = self.plays.map(|_| false);
        if self.end_ns.is_none() {
            self.end_ns = Some(self.shown_end_ns(self.range_ns.end));
        }
    }

    /// Returns to the newest time.
    fn resume(&mut self) -> Action {
        self.end_ns = self.plays.map(|_| self.range_ns.end);
        self.cursor = None;
        self.cell = None;
        self.changed()
    }

    fn width_ns(&self) -> i64 {
        i64::from(self.geometry.heat.width) * self.step_ns()
    }

    fn scroll_time(&mut self, halves: i64) -> Action {
        if self.cell.is_some() {
            let lines = -halves * 10;
            return self.scroll_list(-lines);
        }
        self.hold();
        let end_ns = self.end_ns.unwrap_or(self.range_ns.end);
        self.go_to(end_ns + halves * self.width_ns() / 2)
    }

    /// Moves the end of the time in view, clipped to the available time.
    fn go_to(&mut self, end_ns: i64) -> Action {
        self.place(end_ns, i64::from(self.geometry.heat.width));
        self.changed()
    }

    fn place(&mut self, end_ns: i64, width: i64) {
        let step_ns = self.step_ns();
        self.set_range(self.range_ns.clone());
        let first_ns = self.range_ns.start + (width * step_ns).min(step_ns * 8);
        let last_ns = self.range_ns.end.max(first_ns);
        let end_ns = end_ns.clamp(first_ns.min(last_ns), last_ns);
        self.end_ns = Some(floor_to(end_ns, step_ns));
    }

    fn scroll_list(&mut self, lines: i64) -> Action {
        let most = self.scroll + self.geometry.hidden_lines;
        let scroll = self.scroll as i64 + lines;
        self.scroll = scroll.clamp(0, most as i64) as usize;
        Action::Draw
    }

    fn up_or_down(&mut self, up: i64) -> Action {
        if self.cell.is_some() {
            return self.scroll_list(-up);
        }
        if self.focus == Focus::Heat {
            return self.move_cursor(0, up);
        }
        let last = self.geometry.keys.len().saturating_sub(1) as i64;
        self.row = (self.row as i64 - up).clamp(0, last) as usize;
        Action::Draw
    }

    fn move_cursor(&mut self, columns: i64, rows: i64) -> Action {
        if self.cell.is_some() {
            self.cell = None;
        }
        let Some(scale) = self.geometry.scale else {
            return Action::Nothing;
        };
        // A mark on moving columns cannot be followed, so the view is frozen.
        let was_live = self.end_ns.is_none();
        self.hold();
        let step_ns = self.step_ns();
        let end_ns = self.end_ns.unwrap_or(self.range_ns.end);
        let mut cursor = match self.cursor {
            Some(cursor) => cursor,
            None => {
                self.cursor = Some(MarkedCell {
                    at_ns: end_ns - step_ns,
                    row: scale.rows / 2,
                });
                return if was_live {
                    self.changed()
                } else {
                    Action::Draw
                };
            }
        };
        let row = cursor.row as i64 + rows;
        cursor.row = row.clamp(0, scale.rows as i64 - 1) as usize;
        let first_ns = floor_to(self.range_ns.start, step_ns);
        let last_ns = floor_to((self.range_ns.end - 1).max(first_ns), step_ns);
        cursor.at_ns = (cursor.at_ns + columns * step_ns).clamp(first_ns, last_ns);
        self.cursor = Some(cursor);
        // The view scrolls with the mark.
        let begin_ns = end_ns - self.width_ns();
        if cursor.at_ns < begin_ns {
            self.end_ns = Some(end_ns - (begin_ns - cursor.at_ns));
            self.ticket += 1;
        } else if cursor.at_ns >= end_ns {
            self.end_ns = Some(cursor.at_ns + step_ns);
            self.ticket += 1;
        } else if was_live {
            self.ticket += 1;
        }
        Action::Draw
    }

    fn enter(&mut self) -> Action {
        if self.focus == Focus::Table {
            if let Some(key) = self.geometry.keys.get(self.row).copied()
                && !self.opened.contains(&key)
            {
                self.opened.push(key);
                return self.changed();
            }
            return Action::Nothing;
        }
        let Some((cursor, scale)) = self.cursor.zip(self.geometry.scale) else {
            return self.move_cursor(0, 0);
        };
        let low_ns = scale.edge_ns(cursor.row);
        let high_ns = scale.edge_ns(cursor.row + 1);
        self.ticket += 1;
        self.scroll = 0;
        self.cell = Some(OpenCell {
            from_ns: cursor.at_ns,
            to_ns: cursor.at_ns + self.step_ns(),
            low_ns,
            high_ns,
            buckets: buckets_of_row(&scale, cursor.row),
            ticket: self.ticket,
        });
        Action::Draw
    }

    fn back(&mut self) -> Action {
        if self.cell.take().is_some() {
            return Action::Draw;
        }
        if self.opened.pop().is_some() {
            return self.changed();
        }
        if !self.filter.is_empty() {
            self.filter.clear();
            return self.changed();
        }
        Action::Nothing
    }

    fn escape(&mut self) -> Action {
        if self.cell.is_some() || self.cursor.is_none() {
            return self.back();
        }
        self.cursor = None;
        Action::Draw
    }

    fn mouse(&mut self, mouse: &MouseEvent) -> Action {
        let at = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => self.click(at),
            MouseEventKind::ScrollUp => self.scroll_wheel(-1),
            MouseEventKind::ScrollDown => self.scroll_wheel(1),
            _ => Action::Nothing,
        }
    }

    fn scroll_wheel(&mut self, down: i64) -> Action {
        if self.cell.is_some() {
            return self.scroll_list(3 * down);
        }
        self.hold();
        let end_ns = self.end_ns.unwrap_or(self.range_ns.end);
        self.go_to(end_ns + down * 5 * self.step_ns())
    }

    fn click(&mut self, at: Position) -> Action {
        if self.help {
            self.help = false;
            return Action::Draw;
        }
        let geometry = &self.geometry;
        if let Some(scale) = geometry.scale.filter(|_| geometry.heat.contains(at)) {
            let from_bottom = usize::from(geometry.heat.bottom() - 1 - at.y);
            let rows = geometry.rows_per_line.max(1);
            // If a line shows two rows, the upper one is marked, unless only the lower one exists.
            let row = (from_bottom * rows + rows - 1).min(scale.rows - 1);
            let column = i64::from(at.x - geometry.heat.x);
            let at_ns = geometry.from_ns + column * self.step_ns();
            self.hold();
            self.focus = Focus::Heat;
            self.cursor = Some(MarkedCell { at_ns, row });
            return self.enter();
        }
        if geometry.table.contains(at) {
            let row = geometry.first_key + usize::from(at.y - geometry.table.y);
            if row < geometry.keys.len() {
                self.focus = Focus::Table;
                // A click on the marked row opens it.
                if self.row == row {
                    return self.enter();
                }
                self.row = row;
            }
        }
        Action::Draw
    }
}

/// The buckets whose middle is in a row of the heat map: those that are drawn there.
fn buckets_of_row(scale: &LatencyScale, row: usize) -> std::ops::Range<u16> {
    use super::history::ColumnLatencies;
    let first = ColumnLatencies::bucket(scale.edge_ns(row) as i64).saturating_sub(1);
    let mut found: Option<std::ops::Range<u16>> = None;
    // The first and last rows include latencies beyond the scale.
    let first = if row == 0 { 0 } else { first };
    for bucket in first..ColumnLatencies::bucket(i64::MAX) + 1 {
        if scale.row(ColumnLatencies::middle_ns(bucket)) != row {
            if found.is_some() {
                break;
            }
            continue;
        }
        found = Some(found.map_or(bucket, |f| f.start)..bucket + 1);
    }
    found.unwrap_or(0..0)
}

#[cfg(test)]
mod tests {
    use super::super::history::ColumnLatencies;
    use super::*;
    use iolens_core::model::Comm;

    fn press(view: &mut ScreenView, code: KeyCode) -> Action {
        view.event(&Event::Key(KeyEvent::from(code)))
    }

    fn with_picture() -> ScreenView {
        let mut view = ScreenView {
            range_ns: 0..60_000_000_000,
            devices: vec![DevId::new(8, 0), DevId::new(8, 16)],
            ..ScreenView::default()
        };
        view.geometry = Geometry {
            heat: Rect::new(8, 4, 100, 10),
            rows_per_line: 2,
            from_ns: 50_000_000_000,
            scale: Some(LatencyScale {
                low_ns: 1e4,
                high_ns: 1e9,
                rows: 20,
            }),
            table: Rect::new(0, 16, 60, 5),
            keys: vec![GroupKey::Process(Some(1), Some(Comm::new(b"a")))],
            ..Geometry::default()
        };
        view
    }

    #[test]
    fn each_bucket_belongs_to_exactly_one_row() {
        let scale = LatencyScale {
            low_ns: 1e4,
            high_ns: 1e9,
            rows: 37,
        };
        let mut next = 0;
        for row in 0..scale.rows {
            let buckets = buckets_of_row(&scale, row);
            assert_eq!(buckets.start, next, "row {row}");
            next = buckets.end;
        }
        assert_eq!(next, ColumnLatencies::bucket(i64::MAX) + 1);
    }

    #[test]
    fn moving_the_mark_holds_the_time_and_end_lets_it_go() {
        let mut view = with_picture();
        assert_eq!(press(&mut view, KeyCode::Left), Action::Draw);
        assert_eq!(view.end_ns, Some(60_000_000_000));
        for _ in 0..150 {
            press(&mut view, KeyCode::Left);
        }
        let cursor = view.cursor.expect("a mark");
        assert_eq!(cursor.at_ns, 44_900_000_000);
        assert_eq!(view.end_ns, Some(54_900_000_000));
        press(&mut view, KeyCode::End);
        assert_eq!((view.end_ns, view.cursor), (None, None));
    }

    #[test]
    fn a_picture_has_moved_only_where_nothing_else_has_changed() {
        let before = with_picture().geometry;
        let later = |change: fn(&mut Geometry)| {
            let mut later = Geometry {
                from_ns: before.from_ns + 300_000_000,
                step_ns: 100_000_000,
                ..before.clone()
            };
            change(&mut later);
            let before = Geometry {
                step_ns: 100_000_000,
                ..before.clone()
            };
            later.moved_since(&before).map(|moved| moved.columns)
        };
        assert_eq!(later(|_| ()), Some(3));
        assert_eq!(later(|g| g.from_ns -= 300_000_000), None);
        assert_eq!(later(|g| g.from_ns -= 500_000_000), None);
        assert_eq!(later(|g| g.step_ns *= 2), None);
        assert_eq!(later(|g| g.heat.height += 1), None);
        assert_eq!(later(|g| g.scale = None), None);
    }

    #[test]
    fn a_click_opens_the_cell_under_it() {
        let mut view = with_picture();
        let click = MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: 18,
            row: 13,
            modifiers: KeyModifiers::NONE,
        };
        view.event(&Event::Mouse(click));
        let cell = view.cell.clone().expect("a cell");
        assert_eq!(cell.from_ns, 51_000_000_000);
        assert!(cell.low_ns > 1e4 && cell.low_ns < 2e4, "{cell:?}");
        press(&mut view, KeyCode::Backspace);
        assert_eq!(view.cell, None);
    }

    #[test]
    fn enter_opens_a_row_and_backspace_leaves_it() {
        let mut view = with_picture();
        press(&mut view, KeyCode::Tab);
        press(&mut view, KeyCode::Enter);
        assert_eq!(view.opened, view.geometry.keys);
        press(&mut view, KeyCode::Backspace);
        assert!(view.opened.is_empty());
    }

    #[test]
    fn a_filter_takes_effect_with_enter_and_not_with_escape() {
        let mut view = with_picture();
        for code in [KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Enter] {
            assert_eq!(press(&mut view, code), Action::Draw);
        }
        assert_eq!(view.selection().text, "q");
        for code in [KeyCode::Char('/'), KeyCode::Char('x'), KeyCode::Esc] {
            press(&mut view, code);
        }
        assert_eq!(view.filter, "q");
    }

    #[test]
    fn d_shows_each_device_and_then_all() {
        let mut view = with_picture();
        let mut shown = Vec::new();
        for _ in 0..3 {
            press(&mut view, KeyCode::Char('d'));
            shown.push(view.device);
        }
        let each = view.devices.iter().map(|d| Some(*d));
        assert_eq!(shown, each.chain([None]).collect::<Vec<_>>());
    }

    #[test]
    fn control_c_ends_whatever_is_open() {
        let mut view = with_picture();
        view.typing = Some(String::new());
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.event(&Event::Key(key)), Action::Quit);
    }
}
