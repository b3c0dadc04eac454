//! Charts of experiments as inline SVG: curves over two axes, and box plots.

use std::fmt::Write as _;

use iolens_lab::statistics::poll::BoxStats;

use crate::present::escape;

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

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Even, from 0.
    #[default]
    Linear,
    /// By powers of ten; what is not above 0 is left out.
    Log,
    /// Even, labelled in KiB and MiB.
    Bytes,
    /// By powers of two, labelled in KiB and MiB.
    LogBytes,
}

/// Curves over a common pair of axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// What the x axis shows.
    pub x: String,
    /// What the y axis shows.
    pub y: String,
    /// Its division.
    pub x_scale: Scale,
    /// The y axis' division.
    pub y_scale: Scale,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A box of a box plot.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxMark {
    /// What stands under it.
    pub name: String,
    /// Index of its group, which gives the colour.
    pub group: usize,
    /// Its numbers.
    pub stats: BoxStats,
}

/// Boxes side by side.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BoxChart {
    /// What the y axis shows.
    pub y: String,
    /// Its division.
    pub y_scale: Scale,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// The boxes.
    pub boxes: Vec<BoxMark>,
    /// Horizontal lines with their names: limits, budgets.
    pub lines: Vec<(String, f64)>,
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// Curves.
    Curves(Chart),
    /// Boxes.
    Boxes(BoxChart),
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Colours are the style sheet's, so that they follow the theme.
const COLORS: usize = 8;
/// More outliers than these in one box make a blot, not a picture.
const MAX_OUTLIERS: usize = 80;

struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, scale: Scale) -> Axis {
        let seen = values.filter(|v| usable(*v, scale)).map(|v| position(v, scale));
        let (low, high) = seen.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return Axis { low: 0.0, high: 1.0, scale };
        }
        let (low, high) = match scale {
            Scale::Linear | Scale::Bytes => (low.min(0.0), high + 0.05 * (high - low.min(0.0))),
            Scale::Log | Scale::LogBytes => (low - 0.06 * (high - low).max(0.5), high + 0.06 * (high - low).max(0.5)),
        };
        Axis { low, high: if high > low { high } else { low + 1.0 }, scale }
    }

    /// 0 to 1 along the axis.
    fn share(&self, v: f64) -> f64 {
        (position(v, self.scale) - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> Vec<f64> {
        let span = self.high - self.low;
        let (base, inside) = match self.scale {
            Scale::Linear | Scale::Bytes => return even_ticks(self.low, self.high, self.scale == Scale::Bytes),
            Scale::Log => (10.0_f64, span),
            Scale::LogBytes => (2.0, span),
        };
        let step = ((inside / 8.0).ceil() as i32).max(1);
        let whole = (self.low.ceil() as i32..=self.high.floor() as i32).step_by(step as usize);
        let ticks: Vec<f64> = whole.map(|i| base.powi(i)).collect();
        if ticks.len() >= 3 || self.scale == Scale::LogBytes {
            return ticks;
        }
        let steps = (self.low.floor() as i32..=self.high.ceil() as i32)
            .flat_map(|i| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(i)));
        steps.filter(|v| (self.low..=self.high).contains(&v.log10())).collect()
    }

    fn label(&self, v: f64) -> String {
        match self.scale {
            Scale::Bytes | Scale::LogBytes => bytes(v),
            Scale::Linear | Scale::Log => short(v),
        }
    }
}

fn usable(v: f64, scale: Scale) -> bool {
    v.is_finite() && (v > 0.0 || matches!(scale, Scale::Linear | Scale::Bytes))
}

fn position(v: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Linear | Scale::Bytes => v,
        Scale::Log => v.log10(),
        Scale::LogBytes => v.log2(),
    }
}

/// Round numbers 1, 2 or 5 times a power of ten apart (of two, for bytes).
fn even_ticks(low: f64, high: f64, of_bytes: bool) -> Vec<f64> {
    let raw = (high - low) / 5.0;
    let step = if of_bytes {
        raw.log2().ceil().exp2()
    } else {
        let power = 10f64.powf(raw.log10().floor());
        [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw).unwrap_or(raw)
    };
    let first = (low / step).ceil() as i64;
    (first..=(high / step).floor() as i64).map(|i| i as f64 * step).collect()
}

/// 12000 as `12k`: axes have little room.
pub fn short(v: f64) -> String {
    for (limit, unit) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if v.abs() >= limit {
            return format!("{}{unit}", (v / limit * 100.0).round() / 100.0);
        }
    }
    format!("{}", (v * 10_000.0).round() / 10_000.0)
}

/// 65536 as `64K`, in powers of 1024.
pub fn bytes(v: f64) -> String {
    for (limit, unit) in [(1_073_741_824.0, "G"), (1_048_576.0, "M"), (1024.0, "K")] {
        if v >= limit {
            return format!("{}{unit}", (v / limit * 10.0).round() / 10.0);
        }
    }
    format!("{v:.0}")
}

/// The picture's SVG.
pub fn svg(figure: &Figure) -> String {
    match figure {
        Figure::Curves(c) => curves(c),
        Figure::Boxes(b) => boxes(b),
    }
}

/// An SVG under construction.
struct Canvas {
    out: String,
    top: f64,
}

impl Canvas {
    fn new(label: &str, legend: usize) -> Canvas {
        let out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" font-size=\"12\" fill=\"currentColor\">",
            escape::html(label)
        );
        Canvas { out, top: 14.0 + 18.0 * legend.div_ceil(3) as f64 }
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, what: &str) {
        let _ =
            write!(self.out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape::html(what));
    }

    fn legend(&mut self, at: usize, name: &str, class: &str) {
        let (x, y) = (LEFT + (at % 3) as f64 * 212.0, 6.0 + 18.0 * (at / 3) as f64);
        let _ =
            write!(self.out, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"14\" height=\"5\" stroke=\"none\"/>");
        let shown: String =
            if name.chars().count() > 30 { name.chars().take(29).chain(['…']).collect() } else { name.to_owned() };
        self.text(x + 20.0, y + 7.0, "start", &shown);
    }

    fn y_of(&self, axis: &Axis, v: f64) -> f64 {
        HEIGHT - BOTTOM - axis.share(v).clamp(0.0, 1.0) * (HEIGHT - BOTTOM - self.top)
    }

    fn y_axis(&mut self, axis: &Axis, name: &str) {
        for v in axis.ticks() {
            let y = self.y_of(axis, v);
            self.text(LEFT - 6.0, y + 4.0, "end", &axis.label(v));
            let _ = write!(self.out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/>", WIDTH - RIGHT);
        }
        let middle = (self.top + HEIGHT - BOTTOM) / 2.0;
        let _ = write!(
            self.out,
            "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape::html(name)
        );
    }

    fn done(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

fn curves(c: &Chart) -> String {
    let fits = |p: &&(f64, f64)| usable(p.0, c.x_scale) && usable(p.1, c.y_scale);
    let points = || c.curves.iter().flat_map(|k| &k.points).filter(fits);
    let x = Axis::of(points().map(|p| p.0), c.x_scale);
    let y = Axis::of(points().map(|p| p.1), c.y_scale);
    let mut s = Canvas::new(&format!("{} by {}", c.y, c.x), c.curves.len());
    let x_of = |v: f64| LEFT + x.share(v) * (WIDTH - LEFT - RIGHT);
    for v in x.ticks() {
        s.text(x_of(v), HEIGHT - BOTTOM + 16.0, "middle", &x.label(v));
        let _ = write!(s.out, "<path class=\"grid\" d=\"M{:.1} {:.1}V{:.1}\"/>", x_of(v), HEIGHT - BOTTOM, s.top);
    }
    s.text((LEFT + WIDTH) / 2.0, HEIGHT - 8.0, "middle", &c.x);
    s.y_axis(&y, &c.y);
    for (i, k) in c.curves.iter().enumerate() {
        let class = format!("c{}", i % COLORS);
        s.legend(i, &k.name, &class);
        let at: Vec<(f64, f64)> = k.points.iter().filter(fits).map(|p| (x_of(p.0), s.y_of(&y, p.1))).collect();
        let path: Vec<String> = at.iter().map(|p| format!("{:.1},{:.1}", p.0, p.1)).collect();
        let dash = if k.model { " stroke-dasharray=\"6 4\"" } else { "" };
        let _ = write!(s.out, "<polyline class=\"{class} line\"{dash} points=\"{}\"/>", path.join(" "));
        // Hundreds of marks hide the line that they are on.
        for p in at.iter().filter(|_| !k.model && at.len() <= 60) {
            let _ = write!(
                s.out,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" stroke=\"none\"/>",
                p.0, p.1
            );
        }
    }
    s.done()
}

fn boxes(b: &BoxChart) -> String {
    let all = b.boxes.iter().flat_map(|m| {
        let s = &m.stats;
        [s.whisker_low, s.whisker_high, s.max, s.mean].into_iter().chain(s.outliers.iter().copied())
    });
    let y = Axis::of(all.chain(b.lines.iter().map(|l| l.1)), b.y_scale);
    let legend = b.groups.len() + b.lines.len();
    let mut s = Canvas::new(&b.y, legend);
    s.y_axis(&y, &b.y);
    for (i, name) in b.groups.iter().enumerate() {
        s.legend(i, name, &format!("c{}", i % COLORS));
    }
    for (i, (name, v)) in b.lines.iter().enumerate() {
        let class = format!("c{}", (b.groups.len() + i) % COLORS);
        s.legend(b.groups.len() + i, name, &class);
        let at = s.y_of(&y, *v);
        let _ = write!(
            s.out,
            "<path class=\"{class} line\" stroke-dasharray=\"6 4\" d=\"M{LEFT} {at:.1}H{:.1}\"/>",
            WIDTH - RIGHT
        );
    }
    let step = (WIDTH - LEFT - RIGHT) / b.boxes.len().max(1) as f64;
    for (i, m) in b.boxes.iter().enumerate() {
        one_box(&mut s, &y, m, LEFT + (i as f64 + 0.5) * step, (step * 0.6).min(46.0));
    }
    s.done()
}

fn one_box(s: &mut Canvas, y: &Axis, m: &BoxMark, x: f64, width: f64) {
    let class = format!("c{}", m.group % COLORS);
    let at = |v: f64| s.y_of(y, v);
    let (q1, median, q3) = (at(m.stats.q1), at(m.stats.median), at(m.stats.q3));
    let (low, high, mean) = (at(m.stats.whisker_low), at(m.stats.whisker_high), at(m.stats.mean));
    let (left, right) = (x - width / 2.0, x + width / 2.0);
    let mut out = format!(
        "<g class=\"{class} line\"><path d=\"M{x:.1} {low:.1}V{q1:.1}M{x:.1} {q3:.1}V{high:.1}\"/>\
         <rect class=\"box\" x=\"{left:.1}\" y=\"{q3:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>\
         <path stroke-width=\"3\" d=\"M{left:.1} {median:.1}H{right:.1}\"/>\
         <path d=\"M{:.1} {mean:.1}h8m-4 -4v8\"/>",
        (q1 - q3).max(0.5),
        x - 4.0
    );
    let skip = m.stats.outliers.len().div_ceil(MAX_OUTLIERS).max(1);
    for v in m.stats.outliers.iter().step_by(skip) {
        let _ = write!(out, "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"1.6\"/>", at(*v));
    }
    out.push_str("</g>");
    s.out.push_str(&out);
    for (i, part) in m.name.split('\n').enumerate() {
        s.text(x, HEIGHT - BOTTOM + 14.0 + 13.0 * i as f64, "middle", part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_lab::statistics::poll::box_stats;

    fn chart(scale: Scale) -> Figure {
        let curve =
            Curve { name: "a<b".to_owned(), points: vec![(1.0, 10.0), (1000.0, 1.0), (0.0, 5.0)], model: false };
        Figure::Curves(Chart {
            x: "size".to_owned(),
            y: "rate".to_owned(),
            x_scale: scale,
            y_scale: scale,
            curves: vec![curve],
        })
    }

    #[test]
    fn points_that_a_logarithm_cannot_show_are_left_out() {
        let s = svg(&chart(Scale::Log));
        assert_eq!(s.matches("<circle").count(), 2);
        assert_eq!(svg(&chart(Scale::Linear)).matches("<circle").count(), 3);
        assert!(!s.contains("NaN") && !s.contains("inf\"") && s.contains("a&lt;b"), "{s}");
    }

    #[test]
    fn a_box_shows_its_outliers_and_limits() {
        let stats = box_stats(&[1.0, 2.0, 3.0, 4.0, 100.0]).expect("values");
        let b = BoxChart {
            y: "pp".to_owned(),
            groups: vec!["g".to_owned()],
            boxes: vec![BoxMark { name: "one\ntwo".to_owned(), group: 0, stats }],
            lines: vec![("budget".to_owned(), 1.4)],
            ..BoxChart::default()
        };
        let s = svg(&Figure::Boxes(b));
        assert!(s.contains(">one<") && s.contains(">two<") && s.contains("budget"), "{s}");
        assert_eq!(s.matches("r=\"1.6\"").count(), 1);
        assert!(svg(&Figure::Boxes(BoxChart::default())).ends_with("</svg>"), "nothing is no panic");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(even_ticks(0.0, 105.0, false), [0.0, 50.0, 100.0]);
        assert_eq!(even_ticks(0.0, 1.1e6, true), [0.0, 262_144.0, 524_288.0, 786_432.0, 1_048_576.0]);
        assert_eq!(
            (short(12_500.0), bytes(65_536.0), bytes(512.0)),
            ("12.5k".to_owned(), "64K".to_owned(), "512".to_owned())
        );
    }
}
