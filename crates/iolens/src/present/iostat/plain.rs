//! The reports as tables.

use super::super::escape;
use super::color::RESET;
use super::columns::{Alarm, BASIC, BASIC_SHORT, CellValue, Column, EXTENDED, EXTENDED_SHORT};
use super::number::{push_float, push_integer};
use super::{Banner, IostatReport, Row, Style, exact};
use iolens_core::analysis::counters::rates::iostat::CpuPercent;
use std::ops::Range;

/// Width of the name column.
const NAME_WIDTH: usize = 13;

/// The first line.
pub fn banner(out: &mut Vec<u8>, b: &Banner) {
    for (text, after) in [
        (&b.sysname, " "),
        (&b.release, " ("),
        (&b.nodename, ") \t"),
        (&b.date, " \t_"),
        (&b.machine, "_\t("),
    ] {
        out.extend_from_slice(&escape::bytes(text));
        out.extend_from_slice(after.as_bytes());
    }
    out.extend_from_slice(format!("{} CPU)\n", b.processors).as_bytes());
}

/// A style's tables: what does not change from report to report.
#[derive(Clone)]
pub struct Layout {
    tables: Vec<PlainTable>,
}

#[derive(Clone)]
struct PlainTable {
    heading: Vec<u8>,
    columns: Vec<Column>,
}

impl Layout {
    /// The tables of a style.
    pub fn new(style: &Style) -> Layout {
        let mut tables = match (style.extended, style.short) {
            (false, false) => vec![BASIC.to_vec()],
            (false, true) => vec![BASIC_SHORT.to_vec()],
            (true, true) => vec![EXTENDED_SHORT.to_vec()],
            (true, false) if style.pretty && !style.compact => {
                EXTENDED.iter().map(|t| t.to_vec()).collect()
            }
            (true, false) => vec![EXTENDED.concat()],
        };
        let more = exact::columns(style);
        match &mut tables[..] {
            [only] => only.extend(more),
            _ if more.is_empty() => {}
            _ => tables.push(more),
        }
        let mut plain_tables = Vec::new();
        for columns in tables {
            plain_tables.push(PlainTable {
                heading: heading(style, &columns),
                columns,
            });
        }
        Layout {
            tables: plain_tables,
        }
    }
}

impl Layout {
    /// Whether a row is one line, not one in each of several tables.
    pub fn has_one_table(&self) -> bool {
        self.tables.len() == 1
    }
}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(
                self.tables
                    .iter()
                    .map(|t| String::from_utf8_lossy(&t.heading)),
            )
            .finish()
    }
}

/// Where a report's parts lie in the text that it was appended to.
#[derive(Debug, Default)]
pub struct Places {
    /// The time stamp with its line's end; empty if there is none.
    pub stamp: Range<usize>,
    /// The processors' part.
    pub cpu: Range<usize>,
    /// Each row, table after table.
    pub rows: Vec<Range<usize>>,
}

/// One report, up to and with the empty line after its last table. `layout` is the style's.
pub fn report(
    out: &mut Vec<u8>,
    style: &Style,
    layout: &Layout,
    report: &IostatReport<'_>,
) -> Places {
    let mut places = Places::default();
    if let Some(stamp) = &report.stamp {
        places.stamp = placed(out, |out| self::stamp(out, stamp));
    }
    if let Some(cpu) = &report.cpu {
        places.cpu = placed(out, |out| processors(out, style, cpu));
    }
    if let Some(rows) = &report.rows {
        places.rows.reserve_exact(rows.len() * layout.tables.len());
        let tables = if report.cut {
            &layout.tables[..1]
        } else {
            &layout.tables[..]
        };
        for (i, table) in tables.iter().enumerate() {
            if i > 0 {
                out.push(b'\n');
            }
            out.extend_from_slice(&table.heading);
            for row in rows {
                places.rows.push(placed(out, |out| {
                    self::row(out, style, &table.columns, row)
                }));
            }
        }
    }
    if !report.cut {
        out.push(b'\n');
    }
    places
}

fn placed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
    let from = out.len();
    write(out);
    from..out.len()
}

/// The line above a report that says when it was taken.
pub fn stamp(out: &mut Vec<u8>, stamp: &[u8]) {
    out.extend_from_slice(stamp);
    out.push(b'\n');
}

/// A row of the only table.
pub fn only_row(out: &mut Vec<u8>, style: &Style, layout: &Layout, row: &Row<'_>) {
    if let [table] = &layout.tables[..] {
        self::row(out, style, &table.columns, row);
    }
}

fn heading(style: &Style, columns: &[Column]) -> Vec<u8> {
    let mut out = Vec::new();
    if !style.pretty {
        out.extend_from_slice(b"Device       ");
    }
    for c in columns {
        out.extend_from_slice(
            format!("{:>1$}", c.heading(style.unit, style.extended), c.width + 1).as_bytes(),
        );
    }
    out.extend_from_slice(if style.pretty { b" Device\n" } else { b"\n" });
    out
}

fn row(out: &mut Vec<u8>, style: &Style, columns: &[Column], row: &Row<'_>) {
    if style.extended && row.members == 0 {
        return;
    }
    if !style.pretty {
        name(out, style, b"", &row.name, NAME_WIDTH);
    }
    for c in columns {
        match c.cell {
            CellValue::Number(f) => float(out, style, c.width, f(row), None),
            CellValue::SectorRate(f) if style.human => {
                float(out, style, c.width, f(row), Some(Scale::Sectors))
            }
            CellValue::SectorRate(f) => float(
                out,
                style,
                c.width,
                f(row) / style.unit.sectors() as f64,
                None,
            ),
            CellValue::Kib(f) => float(
                out,
                style,
                c.width,
                f(row),
                style.human.then_some(Scale::Kib),
            ),
            CellValue::SectorTotal(f) => total(out, style, c.width, f(row)),
            CellValue::Percent(alarm, f) => percent(out, style, c.width, alarm, f(row)),
            CellValue::Known(decimals, f) => known(out, style, c.width, decimals, f(row)),
        }
    }
    if style.pretty {
        name(out, style, b" ", &row.name, 0);
    }
    out.push(b'\n');
}

/// The processors' part.
pub fn processors(out: &mut Vec<u8>, style: &Style, cpu: &CpuPercent) {
    out.extend_from_slice(b"avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n       ");
    for v in [cpu.user, cpu.nice, cpu.system, cpu.iowait, cpu.steal] {
        percent(out, style, 7, Alarm::High, v);
    }
    percent(out, style, 7, Alarm::Low, cpu.idle);
    out.extend_from_slice(b"\n\n");
}

fn name(out: &mut Vec<u8>, style: &Style, before: &[u8], name: &[u8], width: usize) {
    if let Some(c) = &style.colors {
        out.extend_from_slice(&c.item);
    }
    out.extend_from_slice(before);
    let name = escape::bytes(name);
    out.extend_from_slice(&name);
    out.resize(out.len() + width.saturating_sub(name.len()), b' ');
    end_color(out, style);
}

fn end_color(out: &mut Vec<u8>, style: &Style) {
    if style.colors.is_some() {
        out.extend_from_slice(RESET);
    }
}

/// A value that may not be known. Integers stay integers.
fn known(out: &mut Vec<u8>, style: &Style, width: usize, decimals: u8, v: Option<f64>) {
    let Some(v) = v else {
        out.resize(out.len() + width, b' ');
        out.push(b'-');
        return;
    };
    let decimals = if decimals == 0 {
        0
    } else {
        style.decimals.unwrap_or(decimals)
    };
    if let Some(c) = &style.colors {
        out.extend_from_slice(if v == 0.0 { &c.zero } else { &c.nonzero });
    }
    push_float(out, v, width, usize::from(decimals), &style.decimal_point);
    end_color(out, style);
}

/// What a scaled size counts before scaling.
#[derive(Clone, Copy)]
enum Scale {
    Sectors,
    Kib,
}

/// Whether a value shows as zero with so many decimals. The limit of two decimals holds for none too, where a half
/// rounds to even.
fn shows_zero(v: f64, decimals: u8) -> bool {
    match decimals {
        0 => v <= 0.5,
        1 => v < 0.05,
        _ => v < 0.005,
    }
}

fn float(out: &mut Vec<u8>, style: &Style, width: usize, v: f64, scale: Option<Scale>) {
    let decimals = style.decimals.unwrap_or(2);
    if let Some(c) = &style.colors {
        out.extend_from_slice(if shows_zero(v, decimals) {
            &c.zero
        } else {
            &c.nonzero
        });
    }
    match scale {
        Some(scale) => scaled(out, style, width, v, scale),
        None => {
            push_float(out, v, width, usize::from(decimals), &style.decimal_point);
            end_color(out, style);
        }
    }
}

fn total(out: &mut Vec<u8>, style: &Style, width: usize, sectors: u64) {
    let v = if style.human {
        sectors
    } else {
        sectors / style.unit.sectors()
    };
    if let Some(c) = &style.colors {
        out.extend_from_slice(if v == 0 { &c.zero } else { &c.nonzero });
    }
    if style.human {
        scaled(out, style, width, v as f64, Scale::Sectors);
    } else {
        push_integer(out, v, width);
        end_color(out, style);
    }
}

/// A size below 1024 of the largest fitting unit, and the unit's letter (after the colour).
fn scaled(out: &mut Vec<u8>, style: &Style, width: usize, v: f64, scale: Scale) {
    const LETTERS: [u8; 6] = *b"kMGTP?";
    let mut v = match scale {
        Scale::Sectors => v / 2.0,
        Scale::Kib => v,
    };
    let mut unit = 0;
    while v >= 1024.0 {
        v /= 1024.0;
        unit += 1;
    }
    let decimals = if style.decimals == Some(0) { 0 } else { 1 };
    push_float(out, v, width - 1, decimals, &style.decimal_point);
    end_color(out, style);
    out.push(LETTERS[unit.min(LETTERS.len() - 1)]);
}

fn percent(out: &mut Vec<u8>, style: &Style, width: usize, alarm: Alarm, v: f64) {
    let decimals = match style.decimals.unwrap_or(2) {
        2 if style.human => 1,
        d => d,
    };
    let width = if style.human { width - 1 } else { width };
    if let Some(c) = &style.colors {
        let limit = if decimals == 1 { 0.05 } else { 0.005 };
        let color = match alarm {
            Alarm::High if v >= 90.0 => &c.extreme,
            Alarm::High if v >= 75.0 => &c.warning,
            Alarm::Low if v <= 10.0 => &c.extreme,
            Alarm::Low if v <= 25.0 => &c.warning,
            Alarm::LowNonZero if v <= 10.0 && v >= limit => &c.extreme,
            Alarm::LowNonZero if v <= 25.0 && v >= limit => &c.warning,
            _ if shows_zero(v, decimals) => &c.zero,
            _ => &c.nonzero,
        };
        out.extend_from_slice(color);
    }
    push_float(out, v, width, usize::from(decimals), &style.decimal_point);
    end_color(out, style);
    if style.human {
        out.push(b'%');
    }
}
