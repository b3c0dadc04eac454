//! The I/Os of a cell of the picture, the slowest first, each with what it waited for.

use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::analysis::waits::IoWait;
use iolens_core::model::Io;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Scene, put, row, rows};
use crate::live::screen::state::{OpenCell, ScreenView};
use crate::live::screen::words;
use crate::present::layout::{count_of, cut, size};

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
    let x = put(buffer, heading, area.x, &text, palette.heading());
    put(buffer, heading, x, "   Backspace: back", palette.faint());
    let body = rows(area, 1, area.height.saturating_sub(1));
    let height = usize::from(body.height);
    if found.ios.is_empty() {
        let kept = scene.history.ios_from_ns();
        let text = match kept.filter(|ns| *ns > open.from_ns) {
            Some(ns) => words::kept_from(scene.history, ns),
            None => "none".to_owned(),
        };
        put(buffer, row(body, 0), area.x + 1, &text, palette.faint());
        return;
    }
    view.scroll = view.scroll.min(found.ios.len().saturating_sub(height));
    for (line, (io, wait)) in found.ios.iter().skip(view.scroll).take(height).enumerate() {
        let text = io_line(scene, io, wait.as_ref(), usize::from(area.width));
        put(buffer, row(body, line as u16), area.x, &text, Style::new());
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

/// When, who, what, where, how long, and for whom it waited.
fn io_line(scene: &Scene, io: &Io, wait: Option<&IoWait>, width: usize) -> String {
    let history = scene.history;
    let process = words::group(history, GroupBy::Process.key(io));
    let name_width = (width / 6).clamp(12, 24);
    let queue = match io.queue_ns {
        Some(ns) => words::short_time(ns as f64),
        None => "-".to_owned(),
    };
    let mut text = format!(
        " {} {:<name_width$} {:<7} {:>8}  queue {queue:>7}  device {:>7}",
        words::clock(history, io.done_ns, 3),
        cut(&process, name_width),
        io.class().name(),
        size(io.bytes as f64),
        words::short_time(io.device_ns as f64),
    );
    if let Some(wait) = wait {
        text.push_str(&waited_for(scene, wait));
    }
    if let Some(error) = io.error.filter(|e| *e != 0) {
        text.push_str(&format!("  error {error}"));
    }
    let device = words::device(history, io.dev);
    text.push_str(&format!("  {device}"));
    if let Some(sector) = io.sector {
        text.push_str(&format!(" sector {sector}"));
    }
    let file = GroupBy::File.key(io);
    if matches!(file, GroupKey::File(Some(_))) {
        text.push_str(&format!("  {}", words::group(history, file)));
    }
    text
}

fn waited_for(scene: &Scene, wait: &IoWait) -> String {
    let parts = [
        ("self", wait.own_ns),
        ("held", wait.held_ns),
        ("device", wait.device_ns),
        ("not known", wait.unknown_ns),
        ("others", wait.others_ns),
    ];
    let most = parts.iter().max_by_key(|p| p.1).copied();
    let Some((name, ns)) = most.filter(|p| p.1 > wait.undisturbed_ns / 4) else {
        return "  undisturbed".to_owned();
    };
    let program = wait.behind.and_then(|g| g.program);
    let (name, ns) = match program.filter(|_| name == "others") {
        Some(program) => (words::process(scene.history, &program), wait.behind_ns),
        None => (name.to_owned(), ns),
    };
    format!("  behind {name} {}", words::short_time(ns as f64))
}
