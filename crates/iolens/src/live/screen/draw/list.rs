//! Draws the I/Os of a heat map cell, slowest first, each with its main cause of waiting.

use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::analysis::waits::IoWait;
use iolens_core::model::Io;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::grid::{Grid, GridColumn, GridItem, GridRow};
use super::{Scene, put, row, rows};
use crate::live::screen::state::{OpenCell, ScreenView};
use crate::live::screen::words;
use crate::present::layout::{count_of, cut_end, size};

/// Draws the list.
pub(super) fn cell(scene: &Scene, view: &mut ScreenView, area: Rect, buffer: &mut Buffer) {
    let palette = scene.palette;
    let Some(open) = &view.cell else {
        return;
    };
    let heading = row(area, 0);
    let titles = heading_of(scene, open);
    let found = scene.findings.cell.as_ref();
    let found = found.filter(|c| c.window.from_ns == open.from_ns);
    let Some(found) = found else {
        put(buffer, heading, area.x, &titles, palette.heading());
        return;
    };
    let mut text = format!("{titles}: {}", count_of(found.n, "I/O"));
    if found.n > found.ios.len() as u64 {
        text.push_str(&format!(", the slowest {}", found.ios.len()));
    }
    let text = cut_end(&text, usize::from(area.width));
    let x = put(buffer, heading, area.x, &text, palette.heading());
    let hint = "   Backspace: back";
    if usize::from(area.right() - x) >= hint.len() {
        put(buffer, heading, x, hint, palette.faint());
    }
    let body = rows(area, 1, area.height.saturating_sub(1));
    if found.ios.is_empty() {
        let kept = scene.history.ios_from_ns(open.to_ns);
        let text = match kept.filter(|ns| *ns > open.from_ns) {
            Some(ns) => words::kept_from(scene.history, ns),
            None => "none".to_owned(),
        };
        put(buffer, row(body, 0), area.x + 1, &text, palette.faint());
        return;
    }
    let body = rows(body, 1, body.height.saturating_sub(1));
    let height = usize::from(body.height);
    view.scroll = view.scroll.min(found.ios.len().saturating_sub(height));
    let mut grid_rows = Vec::new();
    for (io, wait) in found.ios.iter().skip(view.scroll).take(height) {
        grid_rows.push(io_row(scene, io, wait.as_ref()));
    }
    let grid = Grid {
        columns: vec![
            GridColumn::words("completed", 0),
            GridColumn::words("process", 0),
            GridColumn::words("class", 3),
            GridColumn::numbers("size", 4),
            GridColumn::numbers("in queue", 1),
            GridColumn::numbers("in device", 2),
        ],
        name_column: 1,
        items_title: Some("waited for"),
        note: String::new(),
        rows: grid_rows,
    };
    let lines = grid.lines(0, height, usize::from(area.width));
    put(
        buffer,
        row(area, 1),
        area.x,
        &lines.title,
        palette.heading(),
    );
    for (line, text) in lines.rows.iter().enumerate() {
        let text = text.trim_end();
        put(buffer, row(body, line as u16), area.x, text, Style::new());
    }
    view.geometry.hidden_lines = found.ios.len().saturating_sub(view.scroll + height);
}

fn heading_of(scene: &Scene, open: &OpenCell) -> String {
    format!(
        " {} to {} at {}",
        words::short_time(open.low_ns),
        words::short_time(open.high_ns),
        words::clock(scene.history, open.from_ns, 1),
    )
}

/// The row of an I/O: time, process, operation, latency, wait and place.
fn io_row(scene: &Scene, io: &Io, wait: Option<&IoWait>) -> GridRow {
    let history = scene.history;
    let queue = match io.queue_ns {
        Some(ns) => words::short_time(ns as f64),
        None => "-".to_owned(),
    };
    let cells = vec![
        words::clock(history, io.done_ns, 3),
        words::group(history, GroupBy::Process.key(io)),
        io.class().name().to_owned(),
        size(io.bytes as f64),
        queue,
        words::short_time(io.device_ns as f64),
    ];
    // Entries are ordered by importance, because the last ones are dropped if a line is too short.
    let mut items = Vec::new();
    items.push(match wait {
        Some(wait) => waited_for(scene, wait),
        None => GridItem::plain("not known"),
    });
    if let Some(error) = io.error.filter(|e| *e != 0) {
        items.push(GridItem {
            text: "error".to_owned(),
            figure: error.to_string(),
        });
    }
    let device = words::device(history, io.dev);
    items.push(match io.sector {
        Some(sector) => GridItem {
            text: format!("{device} sector"),
            figure: sector.to_string(),
        },
        None => GridItem::plain(device),
    });
    let file = GroupBy::File.key(io);
    if matches!(file, GroupKey::File(Some(_))) {
        items.push(GridItem::plain(words::group(history, file)));
    }
    GridRow { cells, items }
}

/// The main cause of its wait.
fn waited_for(scene: &Scene, wait: &IoWait) -> GridItem {
    let parts = [
        ("self", wait.time.own_ns),
        ("held", wait.time.held_ns),
        ("device", wait.time.device_ns),
        ("not known", wait.time.unknown_ns),
        ("others", wait.time.others_ns),
    ];
    let most = parts.iter().max_by_key(|p| p.1).copied();
    let Some((name, ns)) = most.filter(|p| p.1 > wait.time.undisturbed_ns / 4) else {
        return GridItem::plain("nothing");
    };
    let program = wait.behind.and_then(|g| g.program);
    let (text, ns) = match program.filter(|_| name == "others") {
        Some(program) => (words::process(scene.history, &program), wait.behind_ns),
        None => (name.to_owned(), ns),
    };
    GridItem {
        text,
        figure: words::short_time(ns as f64),
    }
}
