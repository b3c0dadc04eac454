//! A document of sections with tables and charts, as text for terminals and as the data of one self-contained HTML file.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use iolens_core::model::DataTable;
use serde::Serialize;

use super::chart::Figure;
use crate::present::escape;
use crate::present::html::{self, NoPage};
use crate::present::layout::{Layout, Role};

/// A table; numbers are printed already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows, if the section's title does not say it.
    pub caption: Option<String>,
    /// Folded in HTML and left out of text: for those who want to look closer.
    pub folded: bool,
    /// Headings.
    pub columns: Vec<String>,
    /// Cells; the first column is aligned left, the others right unless they hold words.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of data as it is, for looking closer.
    pub fn of(caption: &str, data: &DataTable) -> Table {
        Table {
            caption: Some(caption.to_owned()),
            folded: true,
            columns: data.columns.iter().map(|c| c.name.clone()).collect(),
            rows: (0..data.rows()).map(|i| data.row(i)).collect(),
        }
    }
}

/// A part of a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Heading of the page or section.
    pub title: String,
    /// Sentences before the tables.
    pub paragraphs: Vec<String>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Charts; only HTML shows them.
    pub figures: Vec<Figure>,
    /// (text, relative address) of documents beside this one; only HTML shows them.
    pub links: Vec<(String, String)>,
}

/// The whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Heading of the page or section.
    pub title: String,
    /// Machine, source, extent: (what, value).
    pub facts: Vec<(String, String)>,
    /// How it was measured, in sentences.
    pub method: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A file that can be taken out of the HTML document.
#[derive(Debug, Clone)]
pub struct Raw {
    /// Its name.
    pub name: String,
    /// Its media type.
    pub media: &'static str,
    /// What it holds.
    pub content: Vec<u8>,
}

/// For terminals; untrusted text is escaped.
pub fn text(d: &Document, layout: Layout) -> String {
    let mut out = heading(&d.title, layout);
    for (what, value) in &d.facts {
        out.push_str(&sentence(&format!("{what}: {value}"), layout));
    }
    for s in &d.sections {
        if s.paragraphs.is_empty() && s.tables.iter().all(|t| t.folded) {
            continue; // what only the page shows
        }
        out.push('\n');
        out.push_str(&heading(&s.title, layout));
        for paragraph in &s.paragraphs {
            out.push_str(&sentence(paragraph, layout));
        }
        for t in s.tables.iter().filter(|t| !t.folded) {
            if let Some(caption) = &t.caption {
                out.push_str(&sentence(caption, layout));
            }
            let columns = escaped(&t.columns);
            let rows: Vec<Vec<String>> = t.rows.iter().map(|row| escaped(row)).collect();
            out.push_str(&layout.table(&columns, &rows, 1, |i| holds_words(t, i)));
        }
    }
    out
}

fn heading(title: &str, layout: Layout) -> String {
    layout.paint(Role::Heading, &escape::terminal(title)) + "\n"
}

fn sentence(text: &str, layout: Layout) -> String {
    layout.sentences(&format!("  {}", escape::terminal(text)))
}

fn escaped(cells: &[String]) -> Vec<String> {
    let cells = cells.iter();
    cells
        .map(|cell| escape::terminal(cell).into_owned())
        .collect()
}

/// Whether a column is aligned left: the first, and those without any number.
fn holds_words(t: &Table, column: usize) -> bool {
    column == 0
        || t.rows
            .iter()
            .filter_map(|r| r.get(column))
            .all(|cell| !cell.is_empty() && !begins_as_number(cell))
}

fn begins_as_number(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
}

/// Comma-separated values, quoted and made safe for spreadsheets where needed.
pub fn csv(t: &DataTable) -> String {
    let heading: Vec<_> = t.columns.iter().map(|c| escape::csv(&c.name)).collect();
    let mut out = heading.join(",") + "\n";
    for i in 0..t.rows() {
        let row = t.row(i);
        let cells: Vec<_> = row
            .iter()
            .map(|c| {
                if is_number(c) {
                    c.into()
                } else {
                    escape::csv(c)
                }
            })
            .collect();
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

/// A negative number begins like a formula and is none.
fn is_number(c: &str) -> bool {
    c.parse::<f64>().is_ok_and(f64::is_finite)
}

/// What a page of an experiment is made of: the JSON document embedded in it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::present) struct LabPage<'a> {
    /// Version of the document's layout.
    format: u32,
    /// Program and version that wrote it.
    writer: &'static str,
    /// Heading of the page or section.
    title: &'a str,
    /// Machine, source and extent of the measurement: pairs of label and value.
    setup: &'a [(String, String)],
    /// How it was measured, in sentences.
    method: &'a [String],
    /// Sections of the page, in reading order.
    sections: Vec<SectionBlock<'a>>,
    /// Files attached to the page, for download.
    attachments: Vec<FileBlock<'a>>,
}

/// A section with its tables and charts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SectionBlock<'a> {
    /// Heading of the page or section.
    title: &'a str,
    /// Text before the charts and tables.
    paragraphs: &'a [String],
    /// Below the charts.
    tables: Vec<TableBlock<'a>>,
    /// Charts of the section.
    figures: &'a [Figure],
    /// (text, relative address) of documents beside this one.
    links: &'a [(String, String)],
}

/// A table; numbers are printed already.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TableBlock<'a> {
    /// `null` where the section's title says it.
    caption: Option<&'a str>,
    /// Whether the table is folded initially because it holds details.
    folded: bool,
    /// Headings.
    columns: &'a [String],
    /// Whether each column holds text, which is aligned left.
    words: Vec<bool>,
    /// Cells, a row after the other.
    cells: &'a [Vec<String>],
}

/// A file that the page holds.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileBlock<'a> {
    /// File name for saving.
    name: &'a str,
    /// Media type of the file.
    media: &'a str,
    /// Size of the file.
    bytes: usize,
    /// Content of the file in base64 (RFC 4648, with padding).
    base64: String,
}

/// One self-contained file; `raw` can be taken out of it.
///
/// # Errors
/// [`NoPage`] if this program was built without the page.
pub fn html(d: &Document, raw: &[Raw]) -> Result<Vec<u8>, NoPage> {
    html::lab_page(&d.title, &page(d, raw))
}

fn page<'a>(d: &'a Document, raw: &'a [Raw]) -> LabPage<'a> {
    let mut attachments = Vec::new();
    for file in raw {
        attachments.push(FileBlock {
            name: &file.name,
            media: file.media,
            bytes: file.content.len(),
            base64: BASE64_STANDARD.encode(&file.content),
        });
    }
    LabPage {
        format: 1,
        writer: html::WRITER,
        title: &d.title,
        setup: &d.facts,
        method: &d.method,
        sections: d.sections.iter().map(section_block).collect(),
        attachments,
    }
}

fn section_block(s: &Section) -> SectionBlock<'_> {
    let tables = s.tables.iter().map(|t| TableBlock {
        caption: t.caption.as_deref(),
        folded: t.folded,
        columns: &t.columns,
        words: (0..t.columns.len()).map(|i| holds_words(t, i)).collect(),
        cells: &t.rows,
    });
    SectionBlock {
        title: &s.title,
        paragraphs: &s.paragraphs,
        tables: tables.collect(),
        figures: &s.figures,
        links: &s.links,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let table = Table {
            columns: vec!["name".to_owned(), "value".to_owned()],
            rows: vec![
                vec!["a<b>\u{1b}[31m".to_owned(), "1.5".to_owned()],
                vec!["x".to_owned(), "12".to_owned()],
            ],
            ..Table::default()
        };
        let section = Section {
            title: "S".to_owned(),
            paragraphs: vec!["p".to_owned()],
            tables: vec![
                table.clone(),
                Table {
                    folded: true,
                    caption: Some("closer".to_owned()),
                    ..table
                },
            ],
            ..Section::default()
        };
        let links = Section {
            title: "Elsewhere".to_owned(),
            links: vec![("cell".to_owned(), "cells/0/report.html".to_owned())],
            ..Section::default()
        };
        Document {
            title: "T <x>".to_owned(),
            facts: vec![("host".to_owned(), "h".to_owned())],
            method: vec!["m".to_owned()],
            sections: vec![section, links],
        }
    }

    #[test]
    fn untrusted_names_stay_text_on_every_surface() {
        let t = text(&document(), Layout::PLAIN);
        assert!(
            !t.contains('\u{1b}') && t.contains("  name") && !t.contains("closer"),
            "{t}"
        );
        assert!(
            !t.contains("Elsewhere"),
            "no heading over what only the page shows: {t}"
        );
        let raw = Raw {
            name: "a.csv".to_owned(),
            media: "text/csv",
            content: b"1,2\n<script>".to_vec(),
        };
        let document = document();
        let files = [raw];
        let h = serde_json::to_value(page(&document, &files)).expect("JSON");
        assert_eq!(
            (&h["title"], &h["sections"][1]["links"][0][1]),
            (&"T <x>".into(), &"cells/0/report.html".into())
        );
        assert_eq!(
            h["sections"][0]["tables"][0]["words"],
            serde_json::json!([true, false])
        );
        assert_eq!(
            (
                &h["attachments"][0]["base64"],
                &h["attachments"][0]["bytes"]
            ),
            (&"MSwyCjxzY3JpcHQ+".into(), &12.into())
        );
        if let Ok(file) = html(&document, &files) {
            let text = String::from_utf8(file).expect("UTF-8");
            assert!(
                text.contains("<title>T &lt;x&gt; – iolens</title>") && !text.contains("a<b>"),
                "{text}"
            );
        } else {
            eprintln!("SKIP: built without the page (make web)");
        }
        let data = DataTable::new(2)
            .words("n", ["x,\"y\"".to_owned(), "=1+1".to_owned()])
            .numbers("v", [-1.5, f64::NAN]);
        let c = csv(&data);
        let lines: Vec<&str> = c.lines().collect();
        assert_eq!((lines[0], lines[1]), ("n,v", "\"x,\"\"y\"\"\",-1.5"));
        assert!(!lines[2].starts_with('=') && lines[2].ends_with(','), "{c}");
    }
}
