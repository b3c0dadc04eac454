//! A document of sections with tables and charts, as text for terminals and as one self-contained HTML file.

use std::fmt::Write as _;

use super::escape;

/// A table; numbers are printed already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Headings.
    pub columns: Vec<String>,
    /// Cells; the first column is aligned left, the others right.
    pub rows: Vec<Vec<String>>,
}

/// A curve with a mark at every point.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Name.
    pub name: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
    /// Drawn dashed and without marks: a model, not a measurement.
    pub model: bool,
}

/// Curves over a common pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What the x axis shows.
    pub x: String,
    /// What the y axis shows.
    pub y: String,
    /// Logarithmic axes; points at or below 0 are left out then.
    pub logarithmic: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A part of a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Sentences before the table.
    pub paragraphs: Vec<String>,
    /// A table.
    pub table: Option<Table>,
    /// Charts; only HTML shows them.
    pub charts: Vec<Chart>,
}

/// The whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Heading.
    pub title: String,
    /// Machine, method, source.
    pub facts: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// For terminals; untrusted text is escaped.
pub fn text(d: &Document) -> String {
    let mut out = format!("{}\n", escape::terminal(&d.title));
    for f in &d.facts {
        let _ = writeln!(out, "  {}", escape::terminal(f));
    }
    for s in &d.sections {
        let _ = writeln!(out, "\n{}", escape::terminal(&s.title));
        for p in &s.paragraphs {
            let _ = writeln!(out, "  {}", escape::terminal(p));
        }
        if let Some(t) = &s.table {
            text_table(&mut out, t);
        }
    }
    out
}

fn text_table(out: &mut String, t: &Table) {
    let cell = |c: &str| escape::terminal(c).into_owned();
    let all: Vec<Vec<String>> =
        std::iter::once(&t.columns).chain(&t.rows).map(|r| r.iter().map(|c| cell(c)).collect()).collect();
    let width = |i: usize| all.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..t.columns.len()).map(width).collect();
    for row in &all {
        let mut line = String::new();
        for (i, (c, w)) in row.iter().zip(&widths).enumerate() {
            let _ = if i == 0 { write!(line, "  {c:<w$}") } else { write!(line, "  {c:>w$}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Comma-separated values of a table, quoted and made safe for spreadsheets where needed.
pub fn csv(t: &Table) -> String {
    let mut out = String::new();
    for row in std::iter::once(&t.columns).chain(&t.rows) {
        let cells: Vec<_> = row.iter().map(|c| escape::csv(c)).collect();
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}\
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9em}\
td,th{padding:.2rem .6rem;border-bottom:1px solid #d8dee4;text-align:right;vertical-align:top}td:first-child,th:first-child{text-align:left}\
svg{width:100%;max-width:46rem;height:auto}figure{margin:1rem 0}.facts{color:#57606a}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}.facts{color:#9198a1}}";

/// One self-contained file; `raw` are (file name, content) that can be downloaded from it.
pub fn html(d: &Document, raw: &[(String, String)]) -> String {
    let e = |s: &str| escape::html(s).into_owned();
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{STYLE}</style><h1>{0}</h1>\n<ul class=\"facts\">",
        e(&d.title)
    );
    for f in &d.facts {
        let _ = write!(out, "<li>{}</li>", e(f));
    }
    out.push_str("</ul>\n");
    for s in &d.sections {
        let _ = writeln!(out, "<h2>{}</h2>", e(&s.title));
        for p in &s.paragraphs {
            let _ = writeln!(out, "<p>{}</p>", e(p));
        }
        for c in &s.charts {
            let _ = writeln!(out, "<figure>{}</figure>", svg(c));
        }
        if let Some(t) = &s.table {
            html_table(&mut out, t);
        }
    }
    if !raw.is_empty() {
        out.push_str("<h2>Raw numbers</h2><ul>");
        for (name, content) in raw {
            let _ = write!(
                out,
                "<li><a download=\"{0}\" href=\"data:text/plain;charset=utf-8,{1}\">{0}</a></li>",
                e(name),
                percent(content)
            );
        }
        out.push_str("</ul>");
    }
    out.push_str("</html>\n");
    out
}

fn percent(content: &str) -> String {
    let mut out = String::with_capacity(content.len() * 2);
    for b in content.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b',' => out.push(char::from(b)),
            _ => {
                let _ = write!(out, "%{b:02X}");
            }
        }
    }
    out
}

fn html_table(out: &mut String, t: &Table) {
    out.push_str("<table><tr>");
    for c in &t.columns {
        let _ = write!(out, "<th>{}</th>", escape::html(c));
    }
    out.push_str("</tr>\n");
    for r in &t.rows {
        out.push_str("<tr>");
        for c in r {
            let _ = write!(out, "<td>{}</td>", escape::html(c));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 74.0;
const BOTTOM: f64 = 44.0;
const COLORS: [&str; 8] = ["#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#0e7490", "#9a6700", "#bf3989"];

struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, logarithmic: bool) -> Axis {
        let seen = values.map(|v| if logarithmic { v.log10() } else { v });
        let (low, high) = seen.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return Axis { low: 0.0, high: 1.0, logarithmic };
        }
        let (low, high) = if logarithmic { (low.floor(), high.ceil()) } else { (low.min(0.0), high * 1.05) };
        Axis { low, high: if high > low { high } else { low + 1.0 }, logarithmic }
    }

    /// 0 to 1 along the axis.
    fn share(&self, v: f64) -> f64 {
        ((if self.logarithmic { v.log10() } else { v }) - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let step = (((self.high - self.low) / 8.0).ceil() as i32).max(1);
            return (self.low as i32..=self.high as i32).step_by(step as usize).map(|i| 10f64.powi(i)).collect();
        }
        (0..=5).map(|i| self.low + (self.high - self.low) * f64::from(i) / 5.0).collect()
    }
}

/// 12000 as `12k`: axes have little room.
fn short(v: f64) -> String {
    for (limit, unit) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if v.abs() >= limit {
            return format!("{}{unit}", (v / limit * 100.0).round() / 100.0);
        }
    }
    format!("{}", (v * 1000.0).round() / 1000.0)
}

fn svg(c: &Chart) -> String {
    let usable = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite() && (!c.logarithmic || (p.0 > 0.0 && p.1 > 0.0));
    let points = || c.curves.iter().flat_map(|k| &k.points).filter(usable);
    let (x, y) = (Axis::of(points().map(|p| p.0), c.logarithmic), Axis::of(points().map(|p| p.1), c.logarithmic));
    let top = 14.0 + 18.0 * c.curves.len() as f64;
    let at = |p: &(f64, f64)| {
        (LEFT + x.share(p.0) * (WIDTH - LEFT - 12.0), HEIGHT - BOTTOM - y.share(p.1) * (HEIGHT - BOTTOM - top))
    };
    let mut s = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by {}\" font-size=\"12\" fill=\"currentColor\">",
        escape::html(&c.y),
        escape::html(&c.x)
    );
    let mut label = |px: f64, py: f64, anchor: &str, what: &str| {
        let _ = write!(s, "<text x=\"{px:.1}\" y=\"{py:.1}\" text-anchor=\"{anchor}\">{}</text>", escape::html(what));
    };
    let corner = |v: f64, horizontal: bool| {
        if horizontal {
            LEFT + x.share(v) * (WIDTH - LEFT - 12.0)
        } else {
            HEIGHT - BOTTOM - y.share(v) * (HEIGHT - BOTTOM - top)
        }
    };
    let mut lines = String::new();
    for v in x.ticks() {
        label(corner(v, true), HEIGHT - BOTTOM + 16.0, "middle", &short(v));
        let px = corner(v, true);
        let _ = write!(lines, "<path d=\"M{px:.1} {:.1}V{top:.1}\"/>", HEIGHT - BOTTOM);
    }
    for v in y.ticks() {
        label(LEFT - 6.0, corner(v, false) + 4.0, "end", &short(v));
        let _ = write!(lines, "<path d=\"M{LEFT} {:.1}H{:.1}\"/>", corner(v, false), WIDTH - 12.0);
    }
    label((LEFT + WIDTH) / 2.0, HEIGHT - 8.0, "middle", &c.x);
    for (i, k) in c.curves.iter().enumerate() {
        label(LEFT + 20.0, 14.0 + 18.0 * i as f64, "start", &format!("{} ({})", k.name, c.y));
    }
    let _ = write!(s, "<g stroke=\"currentColor\" stroke-opacity=\".15\">{lines}</g>");
    for (i, k) in c.curves.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        let path: Vec<String> =
            k.points.iter().filter(usable).map(|p| format!("{:.1},{:.1}", at(p).0, at(p).1)).collect();
        let dash = if k.model { " stroke-dasharray=\"6 4\"" } else { "" };
        let _ = write!(
            s,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dash} points=\"{}\"/>",
            path.join(" ")
        );
        let _ = write!(
            s,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{color}\"/>",
            8.0 + 18.0 * i as f64
        );
        for p in k.points.iter().filter(usable).filter(|_| !k.model) {
            let _ = write!(s, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{color}\"/>", at(p).0, at(p).1);
        }
    }
    s.push_str("</svg>");
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let table = Table {
            columns: vec!["name".to_owned(), "value".to_owned()],
            rows: vec![
                vec!["a<b>\u{1b}[31m".to_owned(), "1.5".to_owned()],
                vec!["x,\"y\"".to_owned(), "12".to_owned()],
            ],
        };
        let curve = Curve { name: "c".to_owned(), points: vec![(1.0, 10.0), (1000.0, 1.0), (0.0, 5.0)], model: false };
        let chart = Chart { x: "size".to_owned(), y: "rate".to_owned(), logarithmic: true, curves: vec![curve] };
        let section = Section {
            title: "S".to_owned(),
            paragraphs: vec!["p".to_owned()],
            table: Some(table),
            charts: vec![chart],
        };
        Document { title: "T <x>".to_owned(), facts: vec!["f".to_owned()], sections: vec![section] }
    }

    #[test]
    fn untrusted_names_stay_text_on_every_surface() {
        let t = text(&document());
        assert!(!t.contains('\u{1b}') && t.contains("  name"), "{t}");
        let h = html(&document(), &[("a.csv".to_owned(), "1,2\n<script>".to_owned())]);
        assert!(!h.contains("a<b>") && !h.contains("<script>") && h.contains("T &lt;x&gt;"), "{h}");
        assert!(h.contains("1,2%0A%3Cscript%3E"));
        assert_eq!(
            csv(document().sections[0].table.as_ref().expect("table")).lines().last(),
            Some("\"x,\"\"y\"\"\",12")
        );
    }

    #[test]
    fn points_that_a_logarithm_cannot_show_are_left_out() {
        let h = html(&document(), &[]);
        assert_eq!(h.matches("<circle").count(), 2);
        assert!(!h.contains("NaN") && !h.contains("inf\""));
    }
}
