//! Text for terminals: width and colour, tables and sentences that fit, numbers and sizes with units.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Maximum width of prose, also without a terminal: longer lines are hard to read.
const MAX_PROSE: usize = 112;
/// The first column of a table, which every block repeats, is cut to a third of the width, but not below this.
const MIN_LABEL: usize = 16;
/// Columns between two cells.
const GAP: usize = 2;

/// The properties of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal; `usize::MAX` for unlimited.
    pub width: usize,
    /// Whether the output supports colours.
    pub colour: bool,
}

/// The role of a piece of text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The title of a part.
    Heading,
    /// Something that needs action.
    Warning,
    /// Additional information.
    Info,
}

impl Layout {
    /// A file or a pipe: lines of any length, no colours.
    pub const PLAIN: Layout = Layout {
        width: usize::MAX,
        colour: false,
    };

    /// Width of prose in columns.
    pub fn prose(&self) -> usize {
        self.width.min(MAX_PROSE)
    }

    /// `text` as sentences, with each line indented by `indent` spaces.
    pub fn paragraph(&self, text: &str, indent: usize) -> String {
        let mut out = String::new();
        for line in wrapped(text, self.prose().saturating_sub(indent).max(1)) {
            let _ = writeln!(out, "{:indent$}{line}", "");
        }
        out
    }

    /// `text` in the colour of its role (ECMA-48 SGR), if colours are supported.
    pub fn paint(&self, role: Role, text: &str) -> String {
        let code = match role {
            Role::Heading => "1",
            Role::Warning => "1;33",
            Role::Info => "36",
        };
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// One sentence of `text` per line. Long lines are broken at spaces, and continuation lines are indented by two
    /// more spaces. Words longer than a line are not broken.
    pub fn sentences(&self, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let body = line.trim_start();
            let indent = line.len() - body.len();
            if indent + visible(body) <= self.prose() {
                out.push_str(line);
                out.push('\n');
                continue;
            }
            for (i, part) in wrapped(body, self.prose().saturating_sub(indent + 2).max(1))
                .iter()
                .enumerate()
            {
                let _ = writeln!(
                    out,
                    "{:n$}{part}",
                    "",
                    n = if i == 0 { indent } else { indent + 2 }
                );
            }
        }
        out
    }

    /// A table of escaped cells, with each column as wide as its widest cell. If the terminal is too narrow, the
    /// columns are divided into blocks below each other, each with the first column.
    ///
    /// `left(i)` returns whether column `i` contains text. A row of one cell is a heading across all columns.
    pub fn table(
        &self,
        columns: &[String],
        rows: &[Vec<String>],
        left: impl Fn(usize) -> bool,
    ) -> String {
        let mut widths: Vec<usize> = columns.iter().map(|title| visible(title)).collect();
        for row in rows {
            // A heading across all columns does not widen any of them.
            if row.len() > 1 {
                for (width, cell) in widths.iter_mut().zip(row) {
                    *width = (*width).max(visible(cell));
                }
            }
        }
        // Text may be cut if there is no room, numbers may not.
        let total: usize = widths.iter().map(|width| width + GAP).sum();
        if total > self.width {
            let most = (self.width / 3).max(MIN_LABEL);
            for (i, width) in widths.iter_mut().enumerate() {
                if left(i) {
                    *width = (*width).min(most);
                }
            }
        }
        // A block gets as many columns as fit beside the first one, but at least one, so that the loop terminates.
        let mut out = String::new();
        let mut next = 1;
        while next < columns.len() || out.is_empty() {
            let mut used = GAP + widths.first().copied().unwrap_or(0);
            let from = next;
            while next < columns.len() && (next == from || used + GAP + widths[next] <= self.width)
            {
                used += GAP + widths[next];
                next += 1;
            }
            let shown: Vec<usize> = std::iter::once(0).chain(from..next).collect();
            for row in std::iter::once(columns).chain(rows.iter().map(Vec::as_slice)) {
                out.push_str(&self.table_row(row, &shown, &widths, &left));
            }
        }
        out
    }

    /// Whether a table of all `columns` fits the terminal.
    pub fn fits(&self, columns: &[String], rows: &[Vec<String>]) -> bool {
        let total: usize = (0..columns.len())
            .map(|i| column_width(i, columns, rows))
            .sum();
        total <= self.width
    }

    /// The table, leaving out `droppable` columns in this order until the others fit the terminal.
    pub fn table_that_fits(
        &self,
        columns: &[String],
        rows: &[Vec<String>],
        left: impl Fn(usize) -> bool,
        droppable: &[usize],
    ) -> String {
        let mut kept: Vec<usize> = (0..columns.len()).collect();
        for column in droppable {
            let total: usize = kept.iter().map(|i| column_width(*i, columns, rows)).sum();
            if total <= self.width {
                break;
            }
            kept.retain(|i| i != column);
        }
        let kept_columns = cells_of(columns, &kept);
        let kept_rows: Vec<Vec<String>> = rows.iter().map(|row| cells_of(row, &kept)).collect();
        self.table(&kept_columns, &kept_rows, |i| left(kept[i]))
    }

    fn table_row(
        &self,
        row: &[String],
        shown: &[usize],
        widths: &[usize],
        left: &impl Fn(usize) -> bool,
    ) -> String {
        let mut line = String::new();
        if let [heading] = row {
            line = format!(
                "{:GAP$}{}",
                "",
                cut(heading, self.width.saturating_sub(GAP))
            );
        } else {
            for i in shown {
                let Some(cell) = row.get(*i) else { continue };
                let cell = cut(cell, widths[*i]);
                let space = " ".repeat(widths[*i].saturating_sub(visible(&cell)));
                let (before, after) = if left(*i) {
                    ("", &*space)
                } else {
                    (&*space, "")
                };
                let _ = write!(line, "{:GAP$}{before}{cell}{after}", "");
            }
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    }
}

/// The cells of `row` in these columns.
fn cells_of(row: &[String], columns: &[usize]) -> Vec<String> {
    let cells = columns.iter().filter_map(|i| row.get(*i));
    cells.cloned().collect()
}

/// The width of a column's widest cell, with the gap before it.
fn column_width(column: usize, columns: &[String], rows: &[Vec<String>]) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    let widths = cells.chain(columns.get(column)).map(|cell| visible(cell));
    GAP + widths.max().unwrap_or(0)
}

/// Width of `text` in columns: colour sequences have none, wide characters have two.
pub fn visible(text: &str) -> usize {
    let mut n = 0;
    let mut rest = text;
    while let Some(escape) = rest.find('\x1b') {
        n += rest[..escape].width();
        let end = rest[escape..].find('m').map(|m| escape + m + 1);
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    n + rest.width()
}

/// Cuts `text` to `width` columns in the middle, because names differ at both ends.
pub fn cut(text: &str, width: usize) -> String {
    if visible(text) <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = bytes_of_columns(text.char_indices(), kept / 3);
    let backwards = text.char_indices().rev();
    let tail = bytes_of_columns(backwards, kept - columns_of(&text[..head]));
    format!("{}…{}", &text[..head], &text[text.len() - tail..])
}

/// Cuts `text` to `width` columns at the end, as for sentences.
pub fn cut_end(text: &str, width: usize) -> String {
    if visible(text) <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = bytes_of_columns(text.char_indices(), kept);
    format!("{}…", text[..head].trim_end())
}

/// Number of bytes of these characters that fit into `width` columns.
fn bytes_of_columns(characters: impl Iterator<Item = (usize, char)>, width: usize) -> usize {
    let mut columns = 0;
    let mut bytes = 0;
    for (_, c) in characters {
        columns += columns_of_char(c);
        if columns > width {
            break;
        }
        bytes += c.len_utf8();
    }
    bytes
}

fn columns_of(text: &str) -> usize {
    text.chars().map(columns_of_char).sum()
}

/// Upper bound of the columns that a character adds to a text.
fn columns_of_char(c: char) -> usize {
    match c {
        // This variation selector makes the preceding character wide.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(1),
    }
}

/// Breaks at spaces into lines of at most `width` columns, if the words are short enough.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if visible(line) + 1 + visible(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A number with `decimals` digits, or `-` if it is not known; never `-0.0`.
pub fn number(v: Option<f64>, decimals: usize) -> String {
    v.filter(|v| v.is_finite())
        .map_or_else(|| "-".to_owned(), |v| fixed(v, decimals))
}

/// A percentage with `decimals` digits after the point, or `unknown`.
pub fn percent(v: Option<f64>, decimals: usize, unknown: &str) -> String {
    v.map_or_else(|| unknown.to_owned(), |v| format!("{v:.decimals$} %"))
}

/// A probability as text. Tests use 999 shuffles or shifts, so they cannot resolve less than a thousandth; smaller
/// values would not change any decision.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {p:.3}")
    }
}

/// A number with `decimals` digits. A value that is rounded to zero has no sign.
pub fn fixed(v: f64, decimals: usize) -> String {
    let text = format!("{v:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|b| matches!(b, b'0' | b'.')) => digits.to_owned(),
        _ => text,
    }
}

/// `1 I/O`, `2 I/Os`, `2 stories`: `n` with thousands separators, and the noun in singular or plural.
pub fn count_of(n: u64, noun: &str) -> String {
    let count = indicatif::HumanCount(n);
    match (n, noun.strip_suffix('y')) {
        (1, _) => format!("{count} {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Converts `value` from the first of `units` to the smallest unit in which, after rounding, it has at most three
/// digits before the point. Each unit is 1000 times the previous one. Larger values stay in the last unit.
pub fn scaled<'u>(value: f64, units: &[&'u str]) -> (f64, &'u str) {
    let mut scaled = value;
    let mut steps = 0;
    while scaled.abs() >= 999.5 && steps + 1 < units.len() {
        scaled /= 1000.0;
        steps += 1;
    }
    (scaled, units.get(steps).copied().unwrap_or_default())
}

/// Number of decimals for three significant digits of a result of [`scaled`].
fn decimals_of_three(value: f64) -> usize {
    match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    }
}

/// Bytes in decimal units, to three significant digits.
pub fn size(bytes: f64) -> String {
    let (value, unit) = scaled(bytes, &["B", "kB", "MB", "GB", "TB", "PB"]);
    let decimals = if unit == "B" {
        0
    } else {
        decimals_of_three(value)
    };
    format!("{} {unit}", fixed(value, decimals))
}

/// A time in nanoseconds, to three significant digits in microseconds, milliseconds or seconds.
pub fn duration(ns: f64) -> String {
    let (value, unit) = scaled(ns / 1e3, &["us", "ms", "s"]);
    format!("{} {unit}", fixed(value, decimals_of_three(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Layout = Layout {
        width: 40,
        colour: false,
    };

    fn words(row: &[&str]) -> Vec<String> {
        row.iter().map(|c| (*c).to_owned()).collect()
    }

    #[test]
    fn a_probability_is_never_nothing() {
        assert_eq!(
            [1e-12, 0.000_999, 0.001, 0.0104].map(p_value),
            ["p < 0.001", "p < 0.001", "p = 0.001", "p = 0.010"]
        );
    }

    #[test]
    fn sentences_are_broken_at_spaces_and_continue_indented() {
        let text = NARROW
            .sentences("  busy 4.43 % (reads 4.16 %, writes 1.16 %; the rest unknown)\nshort\n");
        assert_eq!(
            text,
            "  busy 4.43 % (reads 4.16 %, writes\n    1.16 %; the rest unknown)\nshort\n"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 40));
        let path = "/a/path/that/is/longer/than/any/line/of/the/terminal";
        assert!(
            NARROW.sentences(path).contains(path),
            "a name is never broken"
        );
    }

    #[test]
    fn a_table_that_is_too_wide_continues_below_with_its_first_column() {
        let columns = words(&["device", "reads per second", "writes per second", "busy"]);
        let rows = [
            words(&["sda", "1", "22", "3.0"]),
            words(&["a-name-that-is-rather-long", "1000", "2", "100.0"]),
        ];
        let text = NARROW.table(&columns, &rows, |i| i == 0);
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
        assert_eq!(text.matches("device").count(), 3, "{text}");
        assert!(
            text.contains("a-nam…ather-long") && text.contains("1000") && text.contains("100.0"),
            "{text}"
        );
        let wide = Layout::PLAIN.table(&columns, &rows, |i| i == 0);
        assert_eq!(wide.lines().count(), 3, "{wide}");
        assert!(
            wide.contains(
                "  sda                                        1                 22    3.0\n"
            ),
            "{wide}"
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(visible("磁盘 a"), 6);
        assert_eq!(visible("\x1b[1m磁\x1b[0m"), 2);
        for width in 1..12 {
            for text in [
                "磁盘读取进程",
                "a磁b盘c读",
                "❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}xyz",
                "e\u{301}e\u{301}e\u{301}e\u{301}12345678",
            ] {
                assert!(visible(&cut(text, width)) <= width, "{text} {width}");
                assert!(visible(&cut_end(text, width)) <= width, "{text} {width}");
            }
        }
        assert_eq!(cut("磁盘读取进程", 8), "磁…进程");
        assert_eq!(cut_end("one two three", 9), "one two…");
    }

    #[test]
    fn numbers_have_one_form() {
        assert_eq!(
            [fixed(-0.0004, 3), fixed(-0.0, 1), fixed(-0.06, 1)],
            ["0.000", "0.0", "-0.1"]
        );
        assert_eq!(
            [
                number(None, 1),
                number(Some(f64::NAN), 1),
                number(Some(1.25), 1)
            ],
            ["-", "-", "1.2"]
        );
        assert_eq!(
            [
                count_of(1, "I/O"),
                count_of(0, "I/O"),
                count_of(12345, "I/O")
            ],
            ["1 I/O", "0 I/Os", "12,345 I/Os"]
        );
    }

    #[test]
    fn sizes_are_decimal_with_three_digits() {
        let bytes = [0.0, 999.0, 1536.0, 999_600.0, 134_217_728.0, 1e12, -0.0];
        assert_eq!(
            bytes.map(size),
            [
                "0 B", "999 B", "1.54 kB", "1.00 MB", "134 MB", "1.00 TB", "0 B"
            ]
        );
    }

    #[test]
    fn times_are_rounded_before_their_unit_and_their_digits_are_chosen() {
        let in_us = [0.0, 0.1, 9.994, 9.996, 99.94, 99.96, 999.4, 999.6];
        assert_eq!(
            in_us.map(|us| duration(us * 1e3)),
            [
                "0.00 us", "0.10 us", "9.99 us", "10.0 us", "99.9 us", "100 us", "999 us",
                "1.00 ms"
            ]
        );
        let in_ms = [1.5, 9.994, 9.996, 400.0, 999.4, 999.6, 1500.0, 1_234_567.0];
        assert_eq!(
            in_ms.map(|ms| duration(ms * 1e6)),
            [
                "1.50 ms", "9.99 ms", "10.0 ms", "400 ms", "999 ms", "1.00 s", "1.50 s", "1235 s"
            ]
        );
    }

    #[test]
    fn what_is_too_large_stays_in_the_last_unit() {
        assert_eq!(scaled(999.4, &["", "k"]), (999.4, ""));
        assert_eq!(scaled(2e6, &["", "k"]), (2000.0, "k"));
        assert_eq!(scaled(2e6, &[]), (2e6, ""));
    }

    #[test]
    fn colours_are_only_for_terminals_and_take_no_room() {
        let colour = Layout {
            width: 12,
            colour: true,
        };
        let painted = colour.paint(Role::Warning, "warning");
        assert_eq!(
            (painted.as_str(), visible(&painted)),
            ("\x1b[1;33mwarning\x1b[0m", 7)
        );
        assert_eq!(Layout::PLAIN.paint(Role::Info, "info"), "info");
        assert_eq!(
            colour.sentences(&format!("{painted} abc")),
            format!("{painted} abc\n")
        );
    }
}
