//! A document of sections with tables and charts, as text for terminals and as one self-contained HTML file.

use std::fmt::Write as _;

use iolens_core::model::DataTable;

use super::chart::{Figure, svg};
use crate::present::escape;
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
    /// Heading.
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
    /// Heading.
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
    let heading = |title: &str| layout.paint(Role::Heading, &escape::terminal(title)) + "\n";
    let sentence = |text: &str| layout.sentences(&format!("  {}", escape::terminal(text)));
    let mut out = heading(&d.title);
    for (what, value) in &d.facts {
        out.push_str(&sentence(&format!("{what}: {value}")));
    }
    for s in &d.sections {
        if s.paragraphs.is_empty() && s.tables.iter().all(|t| t.folded) {
            continue; // what only the page shows
        }
        out.push('\n');
        out.push_str(&heading(&s.title));
        s.paragraphs.iter().for_each(|p| out.push_str(&sentence(p)));
        for t in s.tables.iter().filter(|t| !t.folded) {
            t.caption.iter().for_each(|c| out.push_str(&sentence(c)));
            let escaped = |r: &Vec<String>| r.iter().map(|c| escape::terminal(c).into_owned()).collect::<Vec<_>>();
            let rows: Vec<Vec<String>> = t.rows.iter().map(escaped).collect();
            out.push_str(&layout.table(&escaped(&t.columns), &rows, |i| holds_words(t, i)));
        }
    }
    out
}

/// Whether a column is aligned left: the first, and those without any number.
fn holds_words(t: &Table, column: usize) -> bool {
    let number = |c: &str| c.starts_with(|ch: char| ch.is_ascii_digit() || ch == '-' || ch == '+');
    column == 0 || t.rows.iter().filter_map(|r| r.get(column)).all(|c| !c.is_empty() && !number(c))
}

/// Comma-separated values, quoted and made safe for spreadsheets where needed.
pub fn csv(t: &DataTable) -> String {
    let heading: Vec<_> = t.columns.iter().map(|c| escape::csv(&c.name)).collect();
    let mut out = heading.join(",") + "\n";
    for i in 0..t.rows() {
        let row = t.row(i);
        let cells: Vec<_> = row.iter().map(|c| if is_number(c) { c.into() } else { escape::csv(c) }).collect();
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

/// A negative number begins like a formula and is none.
fn is_number(c: &str) -> bool {
    c.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The report's colours and shapes.
const STYLE: &str = include_str!("style.css");

/// One self-contained file; `raw` can be taken out of it.
pub fn html(d: &Document, raw: &[Raw]) -> String {
    let e = |s: &str| escape::html(s).into_owned();
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{STYLE}</style>\n<header><p class=\"brand\">iolens lab</p><h1>{0}</h1><dl class=\"facts\">",
        e(&d.title)
    );
    for (what, value) in &d.facts {
        let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", e(what), e(value));
    }
    out.push_str("</dl><nav>");
    for (i, s) in d.sections.iter().enumerate() {
        let _ = write!(out, "<a href=\"#s{i}\">{}</a>", e(&s.title));
    }
    out.push_str(if d.method.is_empty() { "" } else { "<a href=\"#method\">Method</a>" });
    out.push_str(if raw.is_empty() {
        "</nav></header>\n<main>"
    } else {
        "<a href=\"#raw\">Raw numbers</a></nav></header>\n<main>"
    });
    for (i, s) in d.sections.iter().enumerate() {
        html_section(&mut out, i, s);
    }
    if !d.method.is_empty() {
        out.push_str("<section id=\"method\"><h2>Method</h2><ul>");
        for m in &d.method {
            let _ = write!(out, "<li>{}</li>", e(m));
        }
        out.push_str("</ul></section>\n");
    }
    html_raw(&mut out, raw);
    out.push_str("</main></html>\n");
    out
}

fn html_section(out: &mut String, at: usize, s: &Section) {
    let _ = writeln!(out, "<section id=\"s{at}\"><h2>{}</h2>", escape::html(&s.title));
    for p in &s.paragraphs {
        let _ = writeln!(out, "<p>{}</p>", escape::html(p));
    }
    if !s.figures.is_empty() {
        out.push_str("<div class=\"figures\">");
        for f in &s.figures {
            let _ = writeln!(out, "<figure>{}</figure>", svg(f));
        }
        out.push_str("</div>");
    }
    for t in &s.tables {
        html_table(out, t);
    }
    if !s.links.is_empty() {
        out.push_str("<ul class=\"links\">");
        for (text, address) in &s.links {
            let _ = write!(out, "<li><a href=\"{}\">{}</a></li>", escape::html(address), escape::html(text));
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
}

fn html_raw(out: &mut String, raw: &[Raw]) {
    if raw.is_empty() {
        return;
    }
    out.push_str("<section id=\"raw\"><h2>Raw numbers</h2><ul class=\"links\">");
    for r in raw {
        let name = escape::html(&r.name);
        let _ = write!(
            out,
            "<li><a download=\"{name}\" href=\"data:{};base64,{}\">{name}</a> <span>{} bytes</span></li>",
            r.media,
            base64(&r.content),
            r.content.len()
        );
    }
    out.push_str("</ul></section>\n");
}

/// RFC 4648, with padding.
fn base64(content: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(content.len().div_ceil(3) * 4);
    for chunk in content.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * i)) as usize & 63]);
            out.push(if i <= chunk.len() { letter } else { '=' });
        }
    }
    out
}

fn html_table(out: &mut String, t: &Table) {
    let caption = t.caption.as_deref().map(|c| escape::html(c).into_owned());
    match (&caption, t.folded) {
        (c, true) => {
            let _ = write!(out, "<details><summary>{}</summary>", c.as_deref().unwrap_or("Numbers"));
        }
        (Some(c), false) => {
            let _ = write!(out, "<h3>{c}</h3>");
        }
        (None, false) => {}
    }
    out.push_str("<div class=\"table\"><table><tr>");
    let words: Vec<&str> = (0..t.columns.len()).map(|i| if holds_words(t, i) { " class=\"l\"" } else { "" }).collect();
    for (c, class) in t.columns.iter().zip(&words) {
        let _ = write!(out, "<th{class}>{}</th>", escape::html(c));
    }
    out.push_str("</tr>\n");
    for r in &t.rows {
        out.push_str("<tr>");
        for (c, class) in r.iter().zip(&words) {
            let _ = write!(out, "<td{class}>{}</td>", escape::html(c));
        }
        out.push_str("</tr>\n");
    }
    out.push_str(if t.folded { "</table></div></details>\n" } else { "</table></div>\n" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let table = Table {
            columns: vec!["name".to_owned(), "value".to_owned()],
            rows: vec![vec!["a<b>\u{1b}[31m".to_owned(), "1.5".to_owned()], vec!["x".to_owned(), "12".to_owned()]],
            ..Table::default()
        };
        let section = Section {
            title: "S".to_owned(),
            paragraphs: vec!["p".to_owned()],
            tables: vec![table.clone(), Table { folded: true, caption: Some("closer".to_owned()), ..table }],
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
        assert!(!t.contains('\u{1b}') && t.contains("  name") && !t.contains("closer"), "{t}");
        assert!(!t.contains("Elsewhere"), "no heading over what only the page shows: {t}");
        let raw = Raw { name: "a.csv".to_owned(), media: "text/csv", content: b"1,2\n<script>".to_vec() };
        let h = html(&document(), &[raw]);
        assert!(!h.contains("a<b>") && !h.contains("<script>") && h.contains("T &lt;x&gt;"), "{h}");
        assert!(h.contains("Elsewhere") && h.contains("cells/0/report.html"));
        assert!(h.contains("base64,MSwyCjxzY3JpcHQ+\"") && h.contains("<details><summary>closer"));
        let data =
            DataTable::new(2).words("n", ["x,\"y\"".to_owned(), "=1+1".to_owned()]).numbers("v", [-1.5, f64::NAN]);
        let c = csv(&data);
        let lines: Vec<&str> = c.lines().collect();
        assert_eq!((lines[0], lines[1]), ("n,v", "\"x,\"\"y\"\"\",-1.5"));
        assert!(!lines[2].starts_with('=') && lines[2].ends_with(','), "{c}");
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        pairs.iter().for_each(|(plain, coded)| assert_eq!(base64(plain.as_bytes()), *coded));
    }
}
