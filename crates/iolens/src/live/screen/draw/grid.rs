//! Lays out a table in a given width: if there is not enough room, the least important columns are dropped. Numbers
//! are never cut.

use crate::present::layout::{cut, visible};

/// Columns between two cells.
const GAP: usize = 2;
/// Minimum width of names when they are cut.
const MIN_NAME: usize = 12;
/// Minimum width of the list in the last column.
const MIN_ITEMS: usize = 16;

/// A column of text or numbers.
pub(super) struct GridColumn {
    title: &'static str,
    is_number: bool,
    /// 0: always shown. Of the other columns, the one with the largest rank is dropped first.
    drop_rank: u8,
}

impl GridColumn {
    /// A column of words.
    pub fn words(title: &'static str, drop_rank: u8) -> GridColumn {
        GridColumn {
            title,
            is_number: false,
            drop_rank,
        }
    }

    /// A column of numbers.
    pub fn numbers(title: &'static str, drop_rank: u8) -> GridColumn {
        GridColumn {
            title,
            is_number: true,
            drop_rank,
        }
    }
}

/// An entry of the list in the last column: a text that may be cut, and a number that is not.
#[derive(Clone)]
pub(super) struct GridItem {
    /// The text.
    pub text: String,
    /// The number with its unit; may be empty.
    pub figure: String,
}

impl GridItem {
    /// An entry without a number.
    pub fn plain(text: impl Into<String>) -> GridItem {
        GridItem {
            text: text.into(),
            figure: String::new(),
        }
    }
}

/// A row.
pub(super) struct GridRow {
    /// One cell per column.
    pub cells: Vec<String>,
    /// The entries of the last column, the most important first.
    pub items: Vec<GridItem>,
}

/// A table.
pub(super) struct Grid {
    /// All columns but the last.
    pub columns: Vec<GridColumn>,
    /// Index of the column of names, which may be cut.
    pub name_column: usize,
    /// Title of the last column; `None`: there is no such column.
    pub items_title: Option<&'static str>,
    /// Which time the rows are of, in the line of the titles; may be empty.
    pub note: String,
    /// All rows.
    pub rows: Vec<GridRow>,
}

/// The laid-out lines of some rows.
pub(super) struct GridLines {
    /// The line of titles.
    pub title: String,
    /// The lines of the rows.
    pub rows: Vec<String>,
}

impl Grid {
    /// Lays out at most `height` rows starting with `first`, in `width` columns.
    pub fn lines(&self, first: usize, height: usize, width: usize) -> GridLines {
        let end = self.rows.len().min(first + height);
        let shown = &self.rows[first.min(end)..end];
        let mut widths = self.widths(shown);
        let name = &mut widths[self.name_column];
        *name = (*name).max(visible(&self.note));
        let most = (width * 3 / 8).max(MIN_NAME);
        widths[self.name_column] = widths[self.name_column].min(most);
        let kept = self.fit(&mut widths, width);
        let used = used(&widths, &kept);
        let room = width.saturating_sub(used);

        let hidden = self.rows.len() - shown.len();
        let title = self.title(hidden, &widths, &kept, width);
        let mut rows = Vec::new();
        for row in shown {
            let mut line = self.line(&row.cells, &widths, &kept);
            line.push_str(&list(&row.items, room));
            rows.push(line);
        }
        GridLines { title, rows }
    }

    /// The titles. The note and the number of hidden rows stand at their right end, or in the title of the names. Where that has
    /// room for one of them, it is the note.
    fn title(&self, hidden: usize, widths: &[usize], kept: &[usize], width: usize) -> String {
        let items_title = self.items_title.unwrap_or("");
        let taken = used(widths, kept) + visible(items_title) + 1;
        let room = width.saturating_sub(taken);
        let mut titles: Vec<String> = self.columns.iter().map(|c| c.title.to_owned()).collect();
        let of_names = &mut titles[self.name_column];
        let mut at_end = String::new();
        let is_note_at_end = visible(&self.note) <= room;
        if is_note_at_end {
            at_end.push_str(&self.note);
        } else {
            of_names.clone_from(&self.note);
        }
        if hidden > 0 {
            let gap = if at_end.is_empty() { 0 } else { GAP };
            let more = format!("{}{hidden} more", " ".repeat(gap));
            if visible(&at_end) + visible(&more) <= room {
                at_end.push_str(&more);
            } else if is_note_at_end {
                of_names.push_str(&format!(" +{hidden}"));
            }
        }
        let mut title = self.line(&titles, widths, kept);
        title.push_str(items_title);
        if !at_end.is_empty() {
            let right = width.saturating_sub(visible(&at_end));
            let space = right.saturating_sub(visible(&title));
            title.push_str(&" ".repeat(space));
            title.push_str(&at_end);
        }
        title
    }

    /// Each column as wide as what it holds.
    fn widths(&self, shown: &[GridRow]) -> Vec<usize> {
        let mut widths = Vec::new();
        for (i, column) in self.columns.iter().enumerate() {
            let cells = shown.iter().map(|r| visible(&r.cells[i]));
            widths.push(cells.max().unwrap_or(0).max(visible(column.title)));
        }
        widths
    }

    /// Narrows the names and drops columns until the rest fits. Returns the indices of the columns kept.
    fn fit(&self, widths: &mut [usize], width: usize) -> Vec<usize> {
        let items = self.items_title.map_or(0, |_| MIN_ITEMS);
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let over = (used(widths, &kept) + items).saturating_sub(width);
            let name = &mut widths[self.name_column];
            let spare = name.saturating_sub(MIN_NAME.max(visible(&self.note)));
            if over <= spare {
                *name -= over;
                return kept;
            }
            let ranks = kept.iter().map(|i| self.columns[*i].drop_rank);
            let largest = ranks.max().unwrap_or(0);
            if largest == 0 {
                *name = name.saturating_sub(over).max(1);
                return kept;
            }
            kept.retain(|i| self.columns[*i].drop_rank != largest);
        }
    }

    /// One line, up to the start of the last column.
    fn line(&self, cells: &[String], widths: &[usize], kept: &[usize]) -> String {
        let mut text = " ".to_owned();
        for i in kept {
            let cell = cut(&cells[*i], widths[*i]);
            let space = " ".repeat(widths[*i] - visible(&cell));
            if self.columns[*i].is_number {
                text.push_str(&space);
                text.push_str(&cell);
            } else {
                text.push_str(&cell);
                text.push_str(&space);
            }
            text.push_str(&" ".repeat(GAP));
        }
        text
    }
}

/// Width of everything before the last column.
fn used(widths: &[usize], kept: &[usize]) -> usize {
    1 + kept.iter().map(|i| widths[*i] + GAP).sum::<usize>()
}

/// As many whole entries as fit. The text of the first entry may be cut, and that of the last one without a number.
fn list(items: &[GridItem], room: usize) -> String {
    let mut line = String::new();
    for (i, item) in items.iter().enumerate() {
        let separator = if line.is_empty() { "" } else { ", " };
        let gap = if item.figure.is_empty() { "" } else { " " };
        let is_last = i + 1 == items.len();
        // If more entries follow, leave room for an ellipsis.
        let reserved = if is_last { 0 } else { 3 };
        let taken = visible(&line) + visible(separator) + visible(gap) + visible(&item.figure);
        let left = room.saturating_sub(taken + reserved);
        let may_cut = line.is_empty() || (is_last && item.figure.is_empty());
        if visible(&item.text) > left && (!may_cut || left < 4) {
            if !line.is_empty() {
                line.push_str(", …");
            }
            return line;
        }
        let text = cut(&item.text, left);
        line.push_str(&format!("{separator}{text}{gap}{}", item.figure));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str, figure: &str) -> GridItem {
        GridItem {
            text: text.to_owned(),
            figure: figure.to_owned(),
        }
    }

    #[test]
    fn items_are_shown_whole_or_not_at_all() {
        let items = [
            item("dd[20051]", "173 ms"),
            item("self", "22 ms"),
            item("device", "1.2 ms"),
        ];
        let shown = |room| list(&items, room);
        assert_eq!(shown(60), "dd[20051] 173 ms, self 22 ms, device 1.2 ms");
        assert_eq!(shown(35), "dd[20051] 173 ms, self 22 ms, …");
        assert_eq!(shown(20), "dd[20051] 173 ms, …");
        assert_eq!(shown(17), "dd…051] 173 ms, …");
        assert_eq!(shown(9), "");
        for room in 0..60 {
            assert!(visible(&shown(room)) <= room, "{room}");
        }
    }

    #[test]
    fn columns_that_matter_least_are_left_out_and_hidden_rows_are_counted() {
        let mut rows = Vec::new();
        for n in 0..9 {
            rows.push(GridRow {
                cells: vec![
                    format!("a-process-of-a-long-name[{n}]"),
                    "1.5 s".into(),
                    "12 ms".into(),
                ],
                items: vec![item("backup[812]", "1.4 s")],
            });
        }
        let grid = Grid {
            columns: vec![
                GridColumn::words("who waits", 0),
                GridColumn::numbers("I/O time", 0),
                GridColumn::numbers("undisturbed", 1),
            ],
            name_column: 0,
            items_title: Some("lost to"),
            note: String::new(),
            rows,
        };
        let wide = grid.lines(0, 3, 90);
        assert!(wide.title.contains("undisturbed") && wide.title.ends_with(" 6 more"));
        let narrow = grid.lines(0, 3, 44);
        assert!(!narrow.title.contains("undisturbed"), "{}", narrow.title);
        assert!(narrow.title.ends_with(" 6 more"), "{}", narrow.title);
        for line in narrow.rows {
            assert!(line.contains("1.5 s") && line.ends_with("1.4 s"), "{line}");
            assert!(visible(&line) <= 44, "{line}");
        }
        // Without a last column, and so without room at the end, the names' title has the number.
        let mut full = grid;
        full.items_title = None;
        full.rows.iter_mut().for_each(|row| row.items.clear());
        let title = full.lines(0, 3, 44).title;
        assert!(title.starts_with(" who waits +6"), "{title}");
        // The note stands before the number of hidden rows, and in place of the names' title where there is no room.
        full.note = "to 17:34:11".to_owned();
        let title = full.lines(0, 3, 90).title;
        assert!(title.starts_with(" who waits "), "{title}");
        assert!(title.ends_with(" to 17:34:11  6 more"), "{title}");
        let title = full.lines(0, 3, 30).title;
        assert!(title.starts_with(" to 17:34:11"), "{title}");
    }
}
