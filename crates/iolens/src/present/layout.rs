//! Text for terminals: how wide and how coloured, tables and sentences that fit, numbers and sizes in words.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Where prose ends if the terminal is wider, or where there is none: longer lines are hard to read.
const MAX_PROSE: usize = 112;
/// Words in tables that are too wide are cut to a third of the width but not below this.
const MIN_LABEL: usize = 16;
/// Where the key columns of a table leave no room for another one, words are cut further, but not below this.
const MIN_KEY: usize = 6;
/// Columns between two cells.
const GAP: usize = 2;

/// What the text is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal; `usize::MAX` where nothing limits a line.
    pub width: usize,
    /// Whether colours are understood.
    pub colour: bool,
}

/// What a stretch of text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A title above a part.
    Heading,
    /// What should be acted on.
    Warning,
    /// What is worth knowing.
    Info,
}

impl Layout {
    /// A file or a pipe: lines of any length, no colours.
    pub const PLAIN: Layout = Layout {
        width: usize::MAX,
        colour: false,
    };

    /// Columns for sentences.
    pub fn prose(&self) -> usize {
        self.width.min(MAX_PROSE)
    }

    /// `text` as sentences of which each line begins with `indent` blanks. Words longer than the terminal, such as paths,
    /// are cut as in tables.
    pub fn paragraph(&self, text: &str, indent: usize) -> String {
        let mut out = String::new();
        let room = self.width.saturating_sub(indent).max(1);
        for line in wrapped(text, self.prose().saturating_sub(indent).max(1)) {
            let _ = writeln!(out, "{:indent$}{}", "", cut(&line, room));
        }
        out
    }

    /// As [`Layout::paragraph`], but words stay whole, so that a command can be copied.
    pub fn paragraph_of_commands(&self, text: &str, indent: usize) -> String {
        let mut out = String::new();
        for line in wrapped(text, self.prose().saturating_sub(indent).max(1)) {
            let _ = writeln!(out, "{:indent$}{line}", "");
        }
        out
    }

    /// `text` beside its `label`, which has `indent` columns; lines are broken at the width of the terminal only.
    pub fn fact(&self, label: &str, text: &str, indent: usize) -> String {
        let mut out = String::new();
        for line in wrapped(text, self.width.saturating_sub(indent).max(1)) {
            let label = if out.is_empty() { label } else { "" };
            let _ = writeln!(out, "{label:<indent$}{line}");
        }
        out
    }

    /// `text` in the colour of its role (ECMA-48 SGR), where colours are understood.
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

    /// One sentence per line of `text`, each broken at spaces where it is too long; what continues is indented by two
    /// more. Words longer than a line stay whole.
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

    /// A table of cells that are escaped already: each column as wide as its widest cell. Where the terminal is too
    /// narrow, the columns stand in blocks one under the other, each with the first `keys` columns, which identify a row.
    ///
    /// `left(i)` says which columns hold words. A row of one cell is a heading across all columns.
    pub fn table(
        &self,
        columns: &[String],
        rows: &[Vec<String>],
        keys: usize,
        left: impl Fn(usize) -> bool,
    ) -> String {
        let widths = self.widths(columns, rows, &left);
        // A block takes as many columns as fit beside the keys, and at least one, so that each pass comes further.
        let keys = keys.min(columns.len());
        let mut out = String::new();
        let mut next = keys;
        while next < columns.len() || out.is_empty() {
            let from = next;
            let least = columns.len().min(from + 1);
            let mut block = widths.clone();
            shorten(&mut block, (0..keys).chain(from..least), self.width, &left);
            let mut used = line_width(&block[..keys]);
            while next < columns.len() && (next == from || used + GAP + block[next] <= self.width) {
                used += GAP + block[next];
                next += 1;
            }
            let shown: Vec<usize> = (0..keys).chain(from..next).collect();
            for row in std::iter::once(columns).chain(rows.iter().map(Vec::as_slice)) {
                out.push_str(&self.table_row(row, &shown, &block, &left));
            }
        }
        out
    }

    /// The widths of columns: each as wide as its widest cell, words cut if the terminal is too narrow for all of them.
    fn widths(
        &self,
        columns: &[String],
        rows: &[Vec<String>],
        left: &impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut widths: Vec<usize> = columns.iter().map(|title| visible(title)).collect();
        for row in rows {
            // A heading across all columns widens none of them.
            if row.len() > 1 {
                for (width, cell) in widths.iter_mut().zip(row) {
                    *width = (*width).max(visible(cell));
                }
            }
        }
        // Words can be cut where there is no room for them, numbers cannot.
        if line_width(&widths) > self.width {
            let most = (self.width / 3).max(MIN_LABEL);
            for (i, width) in widths.iter_mut().enumerate() {
                if left(i) {
                    *width = (*width).min(most);
                }
            }
        }
        widths
    }

    /// Whether a table of all `columns` is no wider than the terminal.
    pub fn fits(&self, columns: &[String], rows: &[Vec<String>]) -> bool {
        let all: Vec<usize> = (0..columns.len()).collect();
        self.has_room_for(&all, columns, rows)
    }

    /// The table, in which columns are left out where the terminal is too narrow, those of `droppable` in its order, until
    /// the others fit. If they never fit, the table continues below, and there it needs all of its `keys`.
    pub fn table_that_fits(
        &self,
        columns: &[String],
        rows: &[Vec<String>],
        keys: usize,
        left: impl Fn(usize) -> bool,
        droppable: &[usize],
    ) -> String {
        let mut kept: Vec<usize> = (0..columns.len()).collect();
        for column in droppable {
            if self.has_room_for(&kept, columns, rows) {
                break;
            }
            kept.retain(|i| i != column);
        }
        let mut kept_columns = cells_of(columns, &kept);
        let mut kept_rows: Vec<Vec<String>> = rows.iter().map(|row| cells_of(row, &kept)).collect();
        let widths = self.widths(&kept_columns, &kept_rows, &|i| left(kept[i]));
        if line_width(&widths) > self.width {
            kept = (0..columns.len())
                .filter(|i| *i < keys || !droppable.contains(i))
                .collect();
            kept_columns = cells_of(columns, &kept);
            kept_rows = rows.iter().map(|row| cells_of(row, &kept)).collect();
        }
        let kept_keys = kept.iter().filter(|i| **i < keys).count();
        self.table(&kept_columns, &kept_rows, kept_keys, |i| left(kept[i]))
    }

    /// Whether these columns of a table are together no wider than the terminal.
    fn has_room_for(&self, kept: &[usize], columns: &[String], rows: &[Vec<String>]) -> bool {
        let widths = kept.iter().map(|i| column_width(*i, columns, rows));
        widths.sum::<usize>() <= self.width
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

/// Columns of the terminal that a row of a table takes.
fn line_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + GAP).sum()
}

/// Cuts those of these columns that hold words, the widest first, until together they fit into `room`.
fn shorten(
    widths: &mut [usize],
    columns: impl Iterator<Item = usize>,
    room: usize,
    left: &impl Fn(usize) -> bool,
) {
    let columns: Vec<usize> = columns.collect();
    let mut used: usize = columns.iter().map(|i| widths[*i] + GAP).sum();
    while used > room {
        let mut widest: Option<usize> = None;
        for i in &columns {
            let is_wider = widest.is_none_or(|known| widths[*i] > widths[known]);
            if is_wider && left(*i) && widths[*i] > MIN_KEY {
                widest = Some(*i);
            }
        }
        // Numbers and short words stay whole, even if the line is then too long.
        let Some(widest) = widest else { return };
        widths[widest] -= 1;
        used -= 1;
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

/// Columns of a terminal that `text` takes: colours take no room, wide characters two columns.
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

/// `text` in at most `width` columns: what is too much goes from the middle, because names differ at both ends.
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

/// `text` in at most `width` columns: what is too much goes from the end, as of sentences.
pub fn cut_end(text: &str, width: usize) -> String {
    if visible(text) <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = bytes_of_columns(text.char_indices(), kept);
    format!("{}…", text[..head].trim_end())
}

/// How many bytes of these characters fit into `width` columns.
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

/// Never less than what the character adds to the columns of a text.
fn columns_of_char(c: char) -> usize {
    match c {
        // It makes the character before it wide.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(1),
    }
}

/// Breaks at spaces so that lines have at most `width` columns, if words allow.
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

/// A number with `decimals` digits after the point, or `-` for what is not known; never `-0.0`.
pub fn number(v: Option<f64>, decimals: usize) -> String {
    v.filter(|v| v.is_finite())
        .map_or_else(|| "-".to_owned(), |v| fixed(v, decimals))
}

/// A percentage with `decimals` digits after the point, or `unknown`.
pub fn percent(v: Option<f64>, decimals: usize, unknown: &str) -> String {
    v.map_or_else(|| unknown.to_owned(), |v| format!("{v:.decimals$} %"))
}

/// A probability in words. The 999 shuffles or shifts of a test resolve none below a thousandth, and smaller ones lead to no
/// other decision.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {p:.3}")
    }
}

/// A number with `decimals` digits after the point; what rounds to zero has no sign.
pub fn fixed(v: f64, decimals: usize) -> String {
    let text = format!("{v:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|b| matches!(b, b'0' | b'.')) => digits.to_owned(),
        _ => text,
    }
}

/// `1 I/O`, `2 I/Os`, `2 stories`: `n` in groups of three digits, with the noun in its number.
pub fn count_of(n: u64, noun: &str) -> String {
    let count = indicatif::HumanCount(n);
    match (n, noun.strip_suffix('y')) {
        (1, _) => format!("{count} {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// `value`, which is in the first of `units`, in the smallest of them in which it has at most three digits before the
/// point when it is rounded, and that unit. Each unit is a thousand of the one before; what is too large stays in the last.
pub fn scaled<'u>(value: f64, units: &[&'u str]) -> (f64, &'u str) {
    let mut scaled = value;
    let mut steps = 0;
    while scaled.abs() >= 999.5 && steps + 1 < units.len() {
        scaled /= 1000.0;
        steps += 1;
    }
    (scaled, units.get(steps).copied().unwrap_or_default())
}

/// How many digits after the point make three significant ones of what [`scaled`] returns.
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
    fn a_paragraph_cuts_words_longer_than_the_terminal_and_commands_stay_whole() {
        let path = "/a/path/that/is/longer/than/any/line/of/the/terminal";
        let text = format!("written by dd, {path}. It is slow.");
        assert_eq!(
            NARROW.paragraph(&text, 4),
            "    written by dd,\n    /a/path/tha…ny/line/of/the/terminal.\n    It is slow.\n"
        );
        assert!(Layout::PLAIN.paragraph(&text, 4).contains(path));
        assert!(NARROW.paragraph_of_commands(&text, 4).contains(path));
        let long = "x".repeat(150);
        assert_eq!(Layout::PLAIN.paragraph(&long, 2), format!("  {long}\n"));
    }

    #[test]
    fn a_fact_continues_beside_its_label() {
        assert_eq!(
            NARROW.fact(
                "  time",
                "2026-11-18 11:06:40.000 UTC to 11:07:45.500, finished",
                12
            ),
            "  time      2026-11-18 11:06:40.000 UTC\n            to 11:07:45.500, finished\n"
        );
        let long = "a word ".repeat(30);
        assert_eq!(
            Layout::PLAIN
                .fact("  limit", long.trim_end(), 12)
                .lines()
                .count(),
            1
        );
    }

    #[test]
    fn a_table_that_is_too_wide_continues_below_with_its_first_column() {
        let columns = words(&["device", "reads per second", "writes per second", "busy"]);
        let rows = [
            words(&["sda", "1", "22", "3.0"]),
            words(&["a-name-that-is-rather-long", "1000", "2", "100.0"]),
        ];
        let text = NARROW.table(&columns, &rows, 1, |i| i == 0);
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
        assert_eq!(text.matches("device").count(), 3, "{text}");
        assert!(
            text.contains("a-nam…ather-long") && text.contains("1000") && text.contains("100.0"),
            "{text}"
        );
        let wide = Layout::PLAIN.table(&columns, &rows, 1, |i| i == 0);
        assert_eq!(wide.lines().count(), 3, "{wide}");
        assert!(
            wide.contains(
                "  sda                                        1                 22    3.0\n"
            ),
            "{wide}"
        );
    }

    #[test]
    fn each_block_of_a_table_repeats_all_its_keys() {
        let columns = words(&["Measure", "device", "before", "after", "95 % interval"]);
        let rows = [
            words(&[
                "read rate",
                "sda",
                "0.2/s",
                "70.5/s",
                "+16587 % to +51634 %",
            ]),
            words(&["read rate", "sdb", "10.0/s", "9.0/s", "-20 % to -10 %"]),
        ];
        let text = NARROW.table(&columns, &rows, 2, |i| i < 2);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "  Measure    device  before   after",
                "  read rate  sda      0.2/s  70.5/s",
                "  read rate  sdb     10.0/s   9.0/s",
                "  Measure   device         95 % interval",
                "  re… rate  sda     +16587 % to +51634 %",
                "  re… rate  sdb           -20 % to -10 %",
            ]
        );
    }

    #[test]
    fn a_table_that_continues_keeps_the_keys_that_it_may_drop() {
        let columns = words(&["Who", "class", "microseconds", "held", "milliseconds"]);
        let rows = [
            words(&["shop", "read", "1", "2", "3"]),
            words(&["shop", "write", "4", "5", "6"]),
        ];
        let fitting = NARROW.table_that_fits(&columns, &rows, 2, |i| i < 2, &[3, 1]);
        assert!(!fitting.contains("held") && !fitting.contains("write"));
        assert_eq!(fitting.lines().count(), 3, "{fitting}");
        let narrower = Layout {
            width: 32,
            colour: false,
        };
        let text = narrower.table_that_fits(&columns, &rows, 2, |i| i < 2, &[3, 1]);
        assert_eq!(text.lines().count(), 6, "{text}");
        assert_eq!(text.matches("  shop  write  ").count(), 2, "{text}");
        assert!(!text.contains("held"), "{text}");
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
