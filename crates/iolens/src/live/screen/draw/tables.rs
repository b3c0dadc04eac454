//! The table below the picture: who waits for whom, or who does the I/O.

use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::Class;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Scene, put, row, rows};
use crate::live::screen::analyst::{ActorRow, MadeTables, WaitCause, WaitRow, key_of};
use crate::live::screen::state::{Focus, ScreenView, ShownTable};
use crate::live::screen::words;
use crate::present::findings::plural;
use crate::present::layout::{cut, size};

/// Causes that a row names have at least this share of what was lost.
const MIN_CAUSE_SHARE: f64 = 0.05;
/// A row that lost less than this share of its I/O time waited for no other.
const MIN_LOST_SHARE: f64 = 0.05;

/// Titles and cells of a table, and what each row stands for.
struct Grid {
    titles: Vec<&'static str>,
    /// Which columns hold numbers.
    is_number: Vec<bool>,
    rows: Vec<Vec<String>>,
    keys: Vec<iolens_core::analysis::timeline::GroupKey>,
}

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
    let grid = match view.table {
        ShownTable::Waits => waits(scene, view, tables, area.width),
        ShownTable::Actors => actors(scene, tables, area.width),
    };
    let body = rows(area, 1, area.height.saturating_sub(1));
    if grid.rows.is_empty() {
        let what = match view.table {
            ShownTable::Waits => " who waits",
            ShownTable::Actors => " who does the I/O",
        };
        put(buffer, row(area, 0), area.x, what, palette.heading());
        let text = nothing(scene, tables, from_ns, end_ns);
        put(buffer, row(body, 0), area.x + 1, &text, palette.faint());
        return;
    }
    draw(scene, view, grid, area, body, buffer);
}

fn nothing(scene: &Scene, tables: &MadeTables, from_ns: i64, end_ns: i64) -> String {
    let history = scene.history;
    let kept_ns = history.ios_from_ns().unwrap_or(i64::MIN);
    if history.ios(from_ns, end_ns) > 0 && tables.window.to_ns <= kept_ns {
        return words::kept_from(history, kept_ns);
    }
    "no program in this time".to_owned()
}

/// The cells, each column as wide as its widest one; the last one has what is left.
fn draw(
    scene: &Scene,
    view: &mut ScreenView,
    grid: Grid,
    area: Rect,
    body: Rect,
    buffer: &mut Buffer,
) {
    let palette = scene.palette;
    let height = usize::from(body.height);
    view.row = view.row.min(grid.rows.len() - 1);
    let has_focus = view.focus == Focus::Table;
    // The marked row stays in sight.
    let first = if has_focus && view.row >= height {
        view.row + 1 - height
    } else {
        0
    };
    let shown = &grid.rows[first..grid.rows.len().min(first + height)];
    let columns = grid.titles.len();
    let mut widths = Vec::new();
    for column in 0..columns {
        let cells = shown.iter().map(|r| r[column].chars().count());
        let widest = cells.chain([grid.titles[column].chars().count()]).max();
        widths.push(widest.unwrap_or(0));
    }
    widths[0] = widths[0].min(usize::from(area.width) * 3 / 8).max(10);
    let line_of = |cells: &[&str], marker: &str| {
        let mut text = marker.to_owned();
        for (i, cell) in cells.iter().enumerate() {
            let width = widths[i];
            let cell = cut(cell, if i + 1 == columns { usize::MAX } else { width });
            if grid.is_number[i] {
                text.push_str(&format!("{cell:>width$}  "));
            } else {
                text.push_str(&format!("{cell:<width$}  "));
            }
        }
        text
    };
    let title = line_of(&grid.titles, " ");
    put(
        buffer,
        row(area, 0),
        area.x,
        title.trim_end(),
        palette.heading(),
    );
    for (i, cells) in shown.iter().enumerate() {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let is_marked = has_focus && first + i == view.row;
        let line = line_of(&cells, " ");
        let style = if is_marked {
            palette.selected()
        } else {
            Style::new()
        };
        put(buffer, row(body, i as u16), area.x, line.trim_end(), style);
    }
    let hidden = grid.rows.len() - shown.len();
    if hidden > 0 {
        let text = format!(" {hidden} more ");
        let x = area.right().saturating_sub(text.len() as u16);
        put(buffer, row(area, 0), x, &text, palette.faint());
    }
    view.geometry.table = Rect {
        height: shown.len() as u16,
        ..body
    };
    view.geometry.first_key = first;
    view.geometry.keys = grid.keys;
}

fn waits(scene: &Scene, view: &ScreenView, tables: &MadeTables, width: u16) -> Grid {
    let history = scene.history;
    let has_device = width >= 90 && view.device.is_none() && view.devices.len() > 1;
    let mut grid = Grid {
        titles: vec!["who waits", "class"],
        is_number: vec![false, false],
        rows: Vec::new(),
        keys: Vec::new(),
    };
    if has_device {
        grid.titles.push("device");
        grid.is_number.push(false);
    }
    grid.titles.extend(["I/O time", "undisturbed", "lost to"]);
    grid.is_number.extend([true, true, false]);
    for wait in &tables.waits {
        let mut cells = vec![
            words::who(history, &wait.who, tables.by),
            plural(wait.class).to_lowercase(),
        ];
        if has_device {
            cells.push(cut(&words::device(history, wait.dev), 10));
        }
        cells.push(words::short_time(wait.io_time_ns as f64));
        cells.push(words::short_time(wait.undisturbed_ns as f64));
        cells.push(causes(scene, tables.by, wait));
        grid.rows.push(cells);
        grid.keys.push(key_of(&wait.who, tables.by));
    }
    grid
}

/// What the time was lost to that is not undisturbed.
fn causes(scene: &Scene, by: GroupBy, wait: &WaitRow) -> String {
    let excess_ns = wait.excess_ns();
    if (excess_ns as f64) < MIN_LOST_SHARE * wait.io_time_ns as f64 {
        return "-".to_owned();
    }
    let mut named = Vec::new();
    for (cause, ns) in &wait.causes {
        if (*ns as f64) < MIN_CAUSE_SHARE * excess_ns as f64 {
            break;
        }
        let name = match cause {
            WaitCause::Others(who) => words::who(scene.history, who, by),
            WaitCause::Own => "self".to_owned(),
            WaitCause::Held => "held above the driver".to_owned(),
            WaitCause::Device => "device".to_owned(),
            WaitCause::Unknown => "not known".to_owned(),
        };
        named.push(format!("{name} {}", words::short_time(*ns as f64)));
    }
    named.join(", ")
}

fn actors(scene: &Scene, tables: &MadeTables, width: u16) -> Grid {
    let has_sizes = width >= 76;
    let has_device_time = width >= 90;
    let first = match tables.by {
        GroupBy::Cgroup => "control group",
        GroupBy::File => "file",
        GroupBy::Device => "device",
        _ => "process",
    };
    let mut titles = vec![first, "reads/s", "writes/s"];
    if has_sizes {
        titles.extend(["read/s", "write/s"]);
    }
    titles.push("I/O time");
    if has_device_time {
        titles.push("in device");
    }
    titles.extend(["read p99", "write p99"]);
    let mut grid = Grid {
        is_number: (0..titles.len()).map(|i| i > 0).collect(),
        titles,
        rows: Vec::new(),
        keys: Vec::new(),
    };
    let seconds = tables.window.len_s().max(0.1);
    for actor in &tables.actors {
        grid.rows.push(actor_cells(
            scene,
            actor,
            seconds,
            has_sizes,
            has_device_time,
        ));
        grid.keys.push(actor.key);
    }
    grid
}

fn actor_cells(
    scene: &Scene,
    actor: &ActorRow,
    seconds: f64,
    has_sizes: bool,
    has_device_time: bool,
) -> Vec<String> {
    let read = Class::Read as usize;
    let write = Class::Write as usize;
    let per_s = |value: u64| value as f64 / seconds;
    let mut cells = vec![
        words::group(scene.history, actor.key),
        words::short(per_s(actor.ios[read])),
        words::short(per_s(actor.ios[write])),
    ];
    if has_sizes {
        cells.push(size(per_s(actor.bytes[read])));
        cells.push(size(per_s(actor.bytes[write])));
    }
    cells.push(words::short_time(actor.io_time_ns as f64));
    if has_device_time {
        cells.push(words::short_time(actor.device_ns as f64));
    }
    for latencies in &actor.latencies {
        let p99 = latencies.quantile(0.99);
        cells.push(p99.map_or_else(|| "-".to_owned(), words::short_time));
    }
    cells
}
