//! Draws the table below the heat map: waits, or actors.

use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::model::{Class, SECOND_NS};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::grid::{Grid, GridColumn, GridItem, GridRow};
use super::{Scene, put, row, rows};
use crate::live::screen::analyst::{ActorRow, MadeTables, WaitCause, WaitRow, key_of};
use crate::live::screen::state::{Focus, ScreenView, ShownTable};
use crate::live::screen::words;
use crate::present::findings::plural;
use crate::present::layout::{cut, size};

/// A row names causes with at least this share of its lost time.
const MIN_CAUSE_SHARE: f64 = 0.05;
/// A row that lost less than this share of its I/O time names no cause.
const MIN_LOST_SHARE: f64 = 0.05;

/// The end of the tables is shown if it is so long before that of the time in view.
const MAX_LAG_NS: i64 = 2 * SECOND_NS;

/// Draws it over the time in view.
pub(super) fn table(
    scene: &Scene,
    view: &mut ScreenView,
    from_ns: i64,
    end_ns: i64,
    area: Rect,
    buffer: &mut Buffer,
) {
    let palette = scene.palette;
    let Some(tables) = &scene.findings.tables else {
        put(
            buffer,
            row(area, 0),
            area.x,
            " counting ...",
            palette.faint(),
        );
        return;
    };
    let (mut grid, keys) = match view.table {
        ShownTable::Waits => waits(scene, view, tables),
        ShownTable::Actors => actors(scene, tables),
    };
    grid.note = part_of_view(scene, view, tables, end_ns, end_ns - from_ns);
    if grid.rows.is_empty() {
        let what = match view.table {
            ShownTable::Waits => " who waits",
            ShownTable::Actors => " who does the I/O",
        };
        let title = format!("{what}  {}", grid.note);
        put(
            buffer,
            row(area, 0),
            area.x,
            title.trim_end(),
            palette.heading(),
        );
        let text = nothing(scene, tables, from_ns, end_ns);
        put(buffer, row(area, 1), area.x + 1, &text, palette.faint());
        return;
    }
    draw(scene, view, grid, keys, area, buffer);
}

/// Which time the tables are of, if it is not the time in view, which ends at `end_ns` and is `view_ns` long: under a high load they
/// are made less often, and not all I/Os are in memory.
fn part_of_view(
    scene: &Scene,
    view: &ScreenView,
    tables: &MadeTables,
    end_ns: i64,
    view_ns: i64,
) -> String {
    let Window { from_ns, to_ns } = tables.window;
    // A column of the picture is complete before the tables are.
    let is_old = end_ns - to_ns > MAX_LAG_NS.max(view.step_ns());
    let is_short = to_ns - from_ns < view_ns - view.step_ns();
    // What was before the start is not missing.
    let is_cut = is_short && from_ns > scene.history.range_ns().start;
    let from = words::clock(scene.history, from_ns, 0);
    let to = words::clock(scene.history, to_ns, 0);
    match (is_cut, is_old) {
        (true, true) => format!("{from} to {to}"),
        (true, false) => format!("since {from}"),
        (false, true) => format!("to {to}"),
        (false, false) => String::new(),
    }
}

fn nothing(scene: &Scene, tables: &MadeTables, from_ns: i64, end_ns: i64) -> String {
    let history = scene.history;
    if history.ios(from_ns, end_ns) > 0 && tables.window.to_ns <= history.kept_ns().start {
        // The tables were computed before there was any I/O.
        return "counting ...".to_owned();
    }
    let kept_ns = history.ios_from_ns(end_ns).unwrap_or(i64::MIN);
    if history.ios(from_ns, end_ns) > 0 && tables.window.to_ns <= kept_ns {
        return words::kept_from(history, kept_ns);
    }
    "no program in this time".to_owned()
}

/// Draws the rows that fit, scrolled so that the marked one is visible.
fn draw(
    scene: &Scene,
    view: &mut ScreenView,
    grid: Grid,
    keys: Vec<GroupKey>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let palette = scene.palette;
    let body = rows(area, 1, area.height.saturating_sub(1));
    let height = usize::from(body.height);
    view.row = view.row.min(keys.len().saturating_sub(1));
    let has_focus = view.focus == Focus::Table;
    let first = if has_focus && view.row >= height {
        view.row + 1 - height
    } else {
        0
    };
    let lines = grid.lines(first, height, usize::from(area.width));
    let title = lines.title.trim_end();
    put(buffer, row(area, 0), area.x, title, palette.heading());
    for (i, line) in lines.rows.iter().enumerate() {
        let style = if has_focus && first + i == view.row {
            palette.selected()
        } else {
            Style::new()
        };
        put(buffer, row(body, i as u16), area.x, line.trim_end(), style);
    }
    view.geometry.table = Rect {
        height: lines.rows.len() as u16,
        ..body
    };
    view.geometry.first_key = first;
    view.geometry.keys = keys;
}

fn waits(scene: &Scene, view: &ScreenView, tables: &MadeTables) -> (Grid, Vec<GroupKey>) {
    let history = scene.history;
    let has_device = view.device.is_none() && view.devices.len() > 1;
    let mut columns = vec![
        GridColumn::words("who waits", 0),
        GridColumn::words("class", 1),
    ];
    if has_device {
        columns.push(GridColumn::words("device", 3));
    }
    columns.push(GridColumn::numbers("I/O time", 0));
    columns.push(GridColumn::numbers("undisturbed", 2));
    let mut grid_rows = Vec::new();
    let mut keys = Vec::new();
    for wait in &tables.waits {
        let mut cells = vec![
            words::who(history, &wait.who, tables.by),
            plural(wait.class).to_lowercase(),
        ];
        if has_device {
            cells.push(cut(&words::device(history, wait.dev), 10));
        }
        cells.push(words::short_time(wait.time.total_ns() as f64));
        cells.push(words::short_time(wait.time.undisturbed_ns as f64));
        grid_rows.push(GridRow {
            cells,
            items: causes(scene, tables.by, wait),
        });
        keys.push(key_of(&wait.who, tables.by));
    }
    let grid = Grid {
        columns,
        name_column: 0,
        items_title: Some("lost to"),
        note: String::new(),
        rows: grid_rows,
    };
    (grid, keys)
}

/// The causes of the lost time.
fn causes(scene: &Scene, by: GroupBy, wait: &WaitRow) -> Vec<GridItem> {
    let excess_ns = wait.time.excess_ns();
    let mut items = Vec::new();
    if (excess_ns as f64) < MIN_LOST_SHARE * wait.time.total_ns() as f64 {
        items.push(GridItem::plain("-"));
        return items;
    }
    for (cause, ns) in &wait.causes {
        if (*ns as f64) < MIN_CAUSE_SHARE * excess_ns as f64 {
            break;
        }
        let text = match cause {
            WaitCause::Others(who) => words::who(scene.history, who, by),
            WaitCause::Own => "self".to_owned(),
            WaitCause::Held => "held above the driver".to_owned(),
            WaitCause::Device => "device".to_owned(),
            WaitCause::Unknown => "not known".to_owned(),
        };
        items.push(GridItem {
            text,
            figure: words::short_time(*ns as f64),
        });
    }
    items
}

fn actors(scene: &Scene, tables: &MadeTables) -> (Grid, Vec<GroupKey>) {
    let first = match tables.by {
        GroupBy::Cgroup => "control group",
        GroupBy::File => "file",
        GroupBy::Device => "device",
        _ => "process",
    };
    let columns = vec![
        GridColumn::words(first, 0),
        GridColumn::numbers("reads/s", 0),
        GridColumn::numbers("writes/s", 0),
        GridColumn::numbers("read/s", 3),
        GridColumn::numbers("write/s", 3),
        GridColumn::numbers("I/O time", 2),
        GridColumn::numbers("in device", 4),
        GridColumn::numbers("read p99", 0),
        GridColumn::numbers("write p99", 0),
    ];
    let seconds = tables.window.len_s().max(0.1);
    let mut grid_rows = Vec::new();
    let mut keys = Vec::new();
    for actor in &tables.actors {
        grid_rows.push(GridRow {
            cells: actor_cells(scene, actor, seconds),
            items: Vec::new(),
        });
        keys.push(actor.key);
    }
    let grid = Grid {
        columns,
        name_column: 0,
        items_title: None,
        note: String::new(),
        rows: grid_rows,
    };
    (grid, keys)
}

fn actor_cells(scene: &Scene, actor: &ActorRow, seconds: f64) -> Vec<String> {
    let read = Class::Read as usize;
    let write = Class::Write as usize;
    let mut cells = vec![
        words::group(scene.history, actor.key),
        words::short(actor.ios[read] as f64 / seconds),
        words::short(actor.ios[write] as f64 / seconds),
        size(actor.bytes[read] as f64 / seconds),
        size(actor.bytes[write] as f64 / seconds),
        words::short_time(actor.io_time_ns as f64),
        words::short_time(actor.device_ns as f64),
    ];
    for latencies in &actor.latencies {
        let p99 = latencies.quantile(0.99);
        cells.push(p99.map_or_else(|| "-".to_owned(), words::short_time));
    }
    cells
}
