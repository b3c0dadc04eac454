//! Draws the first lines and the last: source, devices, keys.

use std::ops::Range;

use iolens_core::model::{Class, DevId, floor_to};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{LineCursor, NO_IOS, Scene, ScreenFailure, put, row};
use crate::live::screen::SERVE;
use crate::live::screen::history::{COLUMN_NS, Pick};
use crate::live::screen::state::ScreenView;
use crate::live::screen::words;
use crate::present::escape::terminal;
use crate::present::layout::{cut, cut_end, size, visible};
use iolens_core::analysis::heat::TimePart;

/// Rates and percentiles are computed over this time before the end of the time in view.
const RATE_NS: i64 = 1_000_000_000;
const PERCENTILE_NS: i64 = 10_000_000_000;
/// A bar of a sparkline.
const BAR_NS: i64 = 500_000_000;
const MAX_NAME: usize = 16;
const MAX_HOST: usize = 24;
const MAX_SOURCE: usize = 32;
/// With less room than this for the reason of a failure, only what failed is shown.
const MIN_REASON: usize = 12;

/// A field of the first line.
struct HeaderField {
    text: String,
    style: Style,
    /// If there is no room, the field with the largest rank is dropped first.
    drop_rank: u8,
}

impl HeaderField {
    fn new(text: String, drop_rank: u8) -> HeaderField {
        HeaderField {
            text,
            style: Style::new(),
            drop_rank,
        }
    }

    fn styled(self, style: Style) -> HeaderField {
        HeaderField { style, ..self }
    }
}

/// Draws host, source and time.
pub(super) fn header(
    scene: &Scene,
    view: &ScreenView,
    shown_ns: Range<i64>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let history = scene.history;
    let palette = scene.palette;
    let facts = scene.facts;
    let end_ns = shown_ns.end;
    let is_held = view.end_ns.is_some() && view.plays != Some(true);
    let is_stopped = facts.failure.as_ref().is_some_and(|f| f.of == SERVE);
    let state = match view.plays {
        _ if is_held => palette.text("held ‖", "held"),
        None if is_stopped => "stopped",
        None => palette.text("live ▸", "live >"),
        Some(_) => palette.text("plays ▸", "plays >"),
    };
    let reading = if facts.is_reading { "reading  " } else { "" };
    // The time of live I/O needs no date.
    let time = match view.plays {
        None => words::now(history, end_ns),
        Some(_) => words::moment(history, end_ns),
    };
    let right = format!("{reading}{time}  {state} ");
    let right_x = area.right().saturating_sub(visible(&right) as u16);
    let name = " iolens";
    let dot = palette.text(" · ", " - ");
    // The name, the fields, and a space before the time.
    let room = usize::from(right_x - area.x).saturating_sub(name.len() + 1);
    let fields = header_fields(scene, view, &shown_ns);
    let fields = match &facts.failure {
        Some(failure) => {
            let warning = palette.warning();
            fields_and_failure(fields, failure, warning, visible(dot), room)
        }
        None => fields_that_fit(fields, visible(dot), room),
    };
    let mut cursor = LineCursor::new(buffer, area);
    cursor.put(name, palette.heading());
    for field in &fields {
        cursor.put(dot, palette.faint());
        cursor.put(&field.text, field.style);
    }
    let style = if is_held || is_stopped {
        palette.warning()
    } else {
        palette.heading()
    };
    put(buffer, area, right_x, &right, style);
}

fn header_fields(scene: &Scene, view: &ScreenView, shown_ns: &Range<i64>) -> Vec<HeaderField> {
    let history = scene.history;
    let end_ns = shown_ns.end;
    let warning = scene.palette.warning();
    let mut fields = Vec::new();
    if !scene.facts.host.is_empty() {
        let host = terminal(&scene.facts.host).into_owned();
        fields.push(HeaderField::new(cut(&host, MAX_HOST), 3));
    }
    let facts = scene.facts;
    let source = match facts.recording.as_ref().or(facts.serve.as_ref()) {
        Some(name) => HeaderField::new(cut(&terminal(name), MAX_SOURCE), 3),
        None if facts.is_of_counters => HeaderField::new("counters".to_owned(), 3),
        None => HeaderField::new("every I/O".to_owned(), 5),
    };
    fields.push(source);
    let rate_ns = RATE_NS.max(history.column_ns());
    let ios = shown_ios(scene, view, end_ns - rate_ns, end_ns);
    let per_s = ios as f64 * 1e9 / rate_ns as f64;
    let rate = if facts.is_without_ios {
        "no single I/Os".to_owned()
    } else {
        format!("{} IOPS", words::short(per_s))
    };
    fields.push(HeaderField::new(rate, 0));
    // If there is not enough room for everything, losses stay with the rate.
    let lost_ios = history.shown_lost_ios(shown_ns.start, end_ns);
    let lost = format!("{} lost", words::short(lost_ios as f64));
    fields.push(if lost_ios > 0 {
        HeaderField::new(lost, 1).styled(warning)
    } else {
        HeaderField::new(lost, 2)
    });
    if history.missed_ios > 0 {
        let text = format!("{} not shown", words::short(history.missed_ios as f64));
        fields.push(HeaderField::new(text, 1).styled(warning));
    }
    if let Some(percent) = facts.self_percent.filter(|_| facts.recording.is_none()) {
        fields.push(HeaderField::new(format!("self {percent:.1} %"), 4));
    }
    fields
}

/// I/Os of the chosen device; if none is chosen, of all that count where all are summed.
fn shown_ios(scene: &Scene, view: &ScreenView, from_ns: i64, to_ns: i64) -> u64 {
    let mut ios = 0;
    for dev in &view.devices {
        let is_shown = match view.device {
            Some(chosen) => chosen == *dev,
            None => !view.above.contains(dev),
        };
        if !is_shown {
            continue;
        }
        for class in Class::ALL {
            ios += scene.history.flow(*dev, class, from_ns, to_ns).ios;
        }
    }
    ios
}

/// Columns that fields take, each with a separator before it.
fn fields_width(fields: &[HeaderField], separator: usize) -> usize {
    let widths = fields.iter().map(|f| separator + visible(&f.text));
    widths.sum()
}

/// The fields that leave room for what failed, and the failure after them. The reason is cut to the room that is left.
fn fields_and_failure(
    fields: Vec<HeaderField>,
    failure: &ScreenFailure,
    style: Style,
    separator: usize,
    room: usize,
) -> Vec<HeaderField> {
    let what = format!("{} failed", failure.of);
    let whole = format!("{what}: {}", failure.text);
    let whole = terminal(&whole);
    let needed = separator + visible(&what);
    let mut fields = fields_that_fit(fields, separator, room.saturating_sub(needed));
    let used = fields_width(&fields, separator) + separator;
    let left = room.saturating_sub(used);
    let has_room = visible(&whole) <= left || left >= visible(&what) + MIN_REASON;
    let text: &str = if has_room { &whole } else { &what };
    fields.push(HeaderField::new(cut_end(text, left), 0).styled(style));
    fields
}

fn fields_that_fit(
    mut fields: Vec<HeaderField>,
    separator: usize,
    room: usize,
) -> Vec<HeaderField> {
    loop {
        if fields_width(&fields, separator) <= room {
            return fields;
        }
        let Some(largest) = fields.iter().map(|f| f.drop_rank).max() else {
            return fields;
        };
        // Of equal ranks, the last field is dropped first.
        let last = fields.iter().rposition(|f| f.drop_rank == largest);
        if let Some(at) = last {
            fields.remove(at);
        }
    }
}

/// The devices that get a line: the selected one, or those with the most I/O.
///
/// Also returns the number of other devices with I/O.
pub(super) fn shown_devices(
    scene: &Scene,
    view: &ScreenView,
    from_ns: i64,
    end_ns: i64,
    height: u16,
) -> (Vec<DevId>, usize) {
    if let Some(dev) = view.device {
        return (vec![dev], 0);
    }
    let mut devices = scene.history.active_devices(from_ns, end_ns);
    let lines = usize::from(height / 8).clamp(1, 6);
    let hidden = devices.len().saturating_sub(lines);
    devices.truncate(lines);
    (devices, hidden)
}

/// The variants of a device's line, from most to least detail.
#[derive(Clone, Copy)]
struct DeviceLineParts {
    bars: usize,
    has_size: bool,
    has_median: bool,
    has_flight: bool,
}

const PARTS: [DeviceLineParts; 7] = [
    parts(16, true, true, true),
    parts(8, true, true, true),
    parts(8, true, false, true),
    parts(6, true, false, false),
    parts(6, false, false, false),
    parts(3, false, false, false),
    parts(0, false, false, false),
];

const fn parts(bars: usize, has_size: bool, has_median: bool, has_flight: bool) -> DeviceLineParts {
    DeviceLineParts {
        bars,
        has_size,
        has_median,
        has_flight,
    }
}

impl DeviceLineParts {
    /// Width of the gap before a class.
    fn gap(&self) -> usize {
        if self.bars > 0 { 2 } else { 1 }
    }

    /// Width of a line.
    fn width(&self, name: usize) -> usize {
        let bars = if self.bars > 0 { self.bars + 1 } else { 0 };
        let size = if self.has_size { 11 } else { 0 };
        let median = if self.has_median { 11 } else { 0 };
        let flight = if self.has_flight { 16 } else { 0 };
        let class = self.gap() + 1 + bars + 7 + size + median + 11;
        1 + name + 2 * class + 12 + flight
    }
}

/// Draws a line for each of these devices; `hidden` other devices have none.
pub(super) fn devices(
    scene: &Scene,
    shown: &[DevId],
    hidden: usize,
    end_ns: i64,
    area: Rect,
    buffer: &mut Buffer,
) {
    let palette = scene.palette;
    if shown.is_empty() && scene.facts.recording.is_some() {
        let text = if scene.facts.is_without_ios {
            NO_IOS
        } else {
            "no I/O in this time"
        };
        put(buffer, area, area.x + 1, text, palette.faint());
        return;
    }
    if shown.is_empty() {
        let text = match scene.facts.limits.first() {
            Some(limit) => format!(" no I/O yet · {}", terminal(limit)),
            None => " no I/O yet".to_owned(),
        };
        put(buffer, area, area.x, &text, palette.faint());
        return;
    }
    let room = usize::from(area.width);
    // Maximum width of a name in the shortest variant.
    let most = room.saturating_sub(PARTS[PARTS.len() - 1].width(0));
    let mut names = Vec::new();
    for dev in shown {
        names.push(cut(&words::device(scene.history, *dev), MAX_NAME.min(most)));
    }
    let name_width = names.iter().map(|n| visible(n)).max().unwrap_or(0);
    let fitting = PARTS.iter().find(|p| p.width(name_width) <= room);
    let parts = fitting.copied().unwrap_or(PARTS[PARTS.len() - 1]);
    for (i, (dev, name)) in shown.iter().zip(&names).enumerate() {
        let mut cursor = LineCursor::new(buffer, row(area, i as u16));
        let space = " ".repeat(name_width - visible(name));
        let text = format!(" {name}{space}");
        cursor.put(&text, palette.heading());
        for class in [Class::Read, Class::Write] {
            flow(scene, *dev, class, end_ns, parts, &mut cursor);
        }
        occupied(scene, *dev, end_ns, parts, &mut cursor);
        let more = format!("  {hidden} more ");
        let is_last = i + 1 == shown.len();
        if is_last && hidden > 0 && cursor.room() >= more.len() {
            cursor.put(&more, palette.faint());
        }
    }
}

/// Rates and latencies of one class.
fn flow(
    scene: &Scene,
    dev: DevId,
    class: Class,
    end_ns: i64,
    parts: DeviceLineParts,
    cursor: &mut LineCursor<'_>,
) {
    let palette = scene.palette;
    let history = scene.history;
    let style = palette.class(class == Class::Write);
    let letter = if class == Class::Write { 'w' } else { 'r' };
    let letter = format!("{letter:>width$}", width = parts.gap() + 1);
    cursor.put(&letter, style);
    if parts.bars > 0 {
        cursor.put(" ", style);
        sparkline(scene, dev, class, end_ns, parts.bars, cursor);
    }
    let rate_ns = RATE_NS.max(history.column_ns());
    let sum = history.flow(dev, class, end_ns - rate_ns, end_ns);
    let ios_per_s = sum.ios as f64 * 1e9 / rate_ns as f64;
    let rate = format!("{}/s", words::short(ios_per_s));
    cursor.put(&format!("{rate:>7}"), Style::new());
    if parts.has_size {
        let bytes_per_s = sum.bytes as f64 * 1e9 / rate_ns as f64;
        let rate = format!("{}/s", size(bytes_per_s));
        cursor.put(&format!("{rate:>11}"), Style::new());
    }
    let percentile_ns = PERCENTILE_NS.max(history.column_ns());
    // Counters contain only the sum of the latencies, so only their mean is shown.
    if scene.facts.is_of_counters {
        let sum = history.flow(dev, class, end_ns - percentile_ns, end_ns);
        let text = match sum.ios {
            0 => "-".to_owned(),
            ios => words::short_time(sum.total_ns as f64 / ios as f64),
        };
        cursor.put(" avg", palette.faint());
        cursor.put(&format!("{text:>7}"), Style::new());
        return;
    }
    let pick = Pick {
        part: TimePart::Total,
        dev: Some(dev),
        class: Some(class),
        above: Vec::new(),
    };
    let latencies = history.latencies(&pick, end_ns - percentile_ns, end_ns);
    let quantiles: &[(&str, f64)] = if parts.has_median {
        &[("p50", 0.5), ("p99", 0.99)]
    } else {
        &[("p99", 0.99)]
    };
    for (title, q) in quantiles {
        let text = match latencies.quantile(*q) {
            Some(ns) => words::short_time(ns),
            None => "-".to_owned(),
        };
        cursor.put(&format!(" {title}"), palette.faint());
        cursor.put(&format!("{text:>7}"), Style::new());
    }
}

fn sparkline(
    scene: &Scene,
    dev: DevId,
    class: Class,
    end_ns: i64,
    bars: usize,
    cursor: &mut LineCursor<'_>,
) {
    let palette = scene.palette;
    // Bars of whole half seconds do not change while they move.
    let bar_ns = BAR_NS.max(scene.history.column_ns());
    let end_ns = floor_to(end_ns, bar_ns);
    let mut values = Vec::new();
    for bar in (0..bars as i64).rev() {
        let to_ns = end_ns - bar * bar_ns;
        let sum = scene.history.flow(dev, class, to_ns - bar_ns, to_ns);
        values.push(sum.ios);
    }
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let style = palette.class(class == Class::Write);
    for value in values {
        let bar = match value {
            0 => " ",
            value => palette.bar(value as f64 / most as f64),
        };
        cursor.put(bar, style);
    }
}

/// Draws busy time and the number of I/Os in flight.
fn occupied(
    scene: &Scene,
    dev: DevId,
    end_ns: i64,
    parts: DeviceLineParts,
    cursor: &mut LineCursor<'_>,
) {
    let palette = scene.palette;
    let rate_ns = RATE_NS.max(scene.history.column_ns());
    let (busy_ns, area_ns) = scene.history.occupied_ns(dev, end_ns - rate_ns, end_ns);
    // Busy time cannot exceed 100 %.
    let percent = (100.0 * busy_ns as f64 / rate_ns as f64).min(100.0);
    let style = if percent >= 95.0 {
        palette.warning()
    } else {
        Style::new()
    };
    cursor.put("  busy", palette.faint());
    cursor.put(&format!("{percent:>4.0} %"), style);
    if parts.has_flight {
        let in_flight = area_ns as f64 / rate_ns as f64;
        cursor.put("  in flight", palette.faint());
        let text = format!(" {}", words::short(in_flight));
        cursor.put(&text, Style::new());
    }
}

/// Draws the keys, or the text being typed.
pub(super) fn footer(scene: &Scene, view: &ScreenView, area: Rect, buffer: &mut Buffer) {
    let palette = scene.palette;
    let mut cursor = LineCursor::new(buffer, area);
    if let Some(typed) = &view.typing {
        cursor.put(" / ", palette.heading());
        // The end of the typed text stays visible.
        let room = cursor.room().saturating_sub(1);
        let typed = cut(&terminal(typed), room);
        cursor.put(&typed, Style::new());
        cursor.put(" ", palette.selected());
        let hint = "  Enter: show what has this in its name, Esc: do not";
        if cursor.room() >= hint.len() {
            cursor.put(hint, palette.faint());
        }
        return;
    }
    if let Some(notice) = &scene.facts.notice {
        cursor.put(" ", Style::new());
        cursor.put(&notice.text, palette.heading());
        return;
    }
    const KEYS: [(&str, &str); 12] = [
        ("?", "help"),
        ("q", "quit"),
        ("space", "hold"),
        ("w", "table"),
        ("p c f", "by"),
        ("d", "device"),
        ("r", "class"),
        ("t", "time part"),
        ("+-", "step"),
        ("/", "filter"),
        ("Tab", "focus"),
        ("Enter", "open"),
    ];
    cursor.x += 1;
    for (key, meaning) in KEYS {
        let length = key.chars().count() + meaning.len() + 3;
        if cursor.x + length as u16 > area.right() {
            break;
        }
        cursor.put(key, palette.heading());
        cursor.put(&format!(" {meaning}  "), palette.faint());
    }
}

/// Intervals of rates consist of whole columns of the history.
const _: () = assert!(RATE_NS % COLUMN_NS == 0 && BAR_NS % COLUMN_NS == 0);
