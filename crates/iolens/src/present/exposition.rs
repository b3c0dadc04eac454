//! The exposition formats of Prometheus: its text format (0.0.4), OpenMetrics 1.0, and protobuf with native
//! histograms.

mod protobuf;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::LazyLock;

use iolens_core::model::CallHistogram;
use prost::Message as _;

use super::escape;
use protobuf::MetricFamily;

/// The exposition format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `application/vnd.google.protobuf`: length-delimited messages.
    Protobuf,
}

impl Exposition {
    /// The preferred format of an `Accept` header; of equal preferences the first.
    pub fn accepted(accept: &str) -> Exposition {
        let known = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let form = match parts.next()? {
                "application/vnd.google.protobuf" => Exposition::Protobuf,
                "application/openmetrics-text" => Exposition::OpenMetrics,
                "text/plain" | "text/*" | "*/*" => Exposition::Prometheus,
                _ => return None,
            };
            let weight = parts
                .find_map(|p| p.strip_prefix("q="))
                .map_or(1.0, |q| q.parse().unwrap_or(0.0));
            Some((form, weight))
        });
        let best = known.fold(None, |best: Option<(Exposition, f64)>, next| match best {
            Some((_, weight)) if next.1 <= weight => best,
            _ => Some(next),
        });
        best.map_or(Exposition::Prometheus, |(form, _)| form)
    }

    /// The content type of the format.
    pub fn content_type(self) -> &'static str {
        match self {
            Exposition::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Exposition::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// The type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A counter; its name ends with `_total`.
    Counter,
    /// A gauge.
    Gauge,
    /// A histogram of durations.
    Histogram,
}

/// The decades covered by the bounds of classic histograms, as powers of ten of nanoseconds, and the bounds per
/// decade.
const DECADES: std::ops::RangeInclusive<u32> = 4..=9;
const OF_DECADE: [f64; 4] = [1.0, 1.8, 3.2, 5.6];

/// Bounds of classic histograms in nanoseconds, and in seconds as text: four per decade from 18 us to 5.6 s. Each is
/// the edge of a [`CallHistogram`] bucket nearest to a round number, so that counts are exact.
static BOUNDS: LazyLock<Vec<(i64, String)>> = LazyLock::new(|| {
    let mut bounds = Vec::new();
    for decade in DECADES {
        for of_decade in OF_DECADE {
            let round_ns = (of_decade * 10f64.powi(decade as i32)) as i64;
            let (low, high) = CallHistogram::bounds(CallHistogram::index(round_ns));
            let nearest = if round_ns - low < high - round_ns {
                low
            } else {
                high
            };
            bounds.push((nearest, (nearest as f64 / 1e9).to_string()));
        }
    }
    // 10 us: everything below the first bound is fast.
    bounds.remove(0);
    bounds
});

/// Writes metric families, each as soon as it is complete.
pub struct ExpositionWriter<'a> {
    out: &'a mut dyn Write,
    /// Text that has not been written to `out` yet.
    text: String,
    /// The current family, for protobuf.
    family: Option<MetricFamily>,
    form: Exposition,
    /// The first error; nothing is written after it.
    written: io::Result<()>,
}

impl<'a> ExpositionWriter<'a> {
    /// For one answer.
    pub fn new(form: Exposition, out: &'a mut dyn Write) -> ExpositionWriter<'a> {
        ExpositionWriter {
            out,
            text: String::new(),
            family: None,
            form,
            written: Ok(()),
        }
    }

    /// Starts a family; its samples follow.
    pub fn family(&mut self, name: &str, kind: MetricKind, help: &str) {
        self.write_family();
        if self.form == Exposition::Protobuf {
            self.family = Some(MetricFamily::new(name, kind, help));
            return;
        }
        let kind_name = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        // In OpenMetrics, the family of a counter has the name of its samples without `_total`.
        let name = match (self.form, kind) {
            (Exposition::OpenMetrics, MetricKind::Counter) => {
                name.strip_suffix("_total").unwrap_or(name)
            }
            _ => name,
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind_name}");
    }

    /// Writes a sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        if let Some(family) = &mut self.family {
            family.sample(labels, value);
            return;
        }
        let labels = label_text(labels);
        self.text.push_str(name);
        if !labels.is_empty() {
            let _ = write!(self.text, "{{{labels}}}");
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Writes a histogram, in text with classic buckets. Their bounds are edges of [`CallHistogram`] buckets, so
    /// counts are exact.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        of: &CallHistogram,
        sum_ns: i128,
    ) {
        if let Some(family) = &mut self.family {
            family.histogram(labels, of, sum_ns);
            return;
        }
        // The labels are the same in all lines of the histogram.
        let labels = label_text(labels);
        let comma = if labels.is_empty() { "" } else { "," };
        let start = format!("{name}_bucket{{{labels}{comma}le=\"");
        let mut buckets = of.buckets().peekable();
        let mut n = 0;
        for (bound_ns, bound) in BOUNDS.iter() {
            while let Some((_, _, more)) = buckets.next_if(|(_, high, _)| high <= bound_ns) {
                n += more;
            }
            let _ = writeln!(self.text, "{start}{bound}\"}} {n}");
        }
        let all = of.n();
        let sum = sum_ns as f64 / 1e9;
        let _ = writeln!(self.text, "{start}+Inf\"}} {all}");
        let _ = writeln!(self.text, "{name}_sum{{{labels}}} {sum}");
        let _ = writeln!(self.text, "{name}_count{{{labels}}} {all}");
        self.write_text();
    }

    fn write_family(&mut self) {
        self.write_text();
        if let Some(family) = self.family.take().filter(|f| !f.is_empty()) {
            self.write(&family.encode_length_delimited_to_vec());
        }
    }

    fn write_text(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        self.write(text.as_bytes());
        text.clear();
        self.text = text;
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.written.is_ok() {
            self.written = self.out.write_all(bytes);
        }
    }

    /// Completes the output.
    ///
    /// # Errors
    /// Writing has failed.
    pub fn finish(mut self) -> io::Result<()> {
        if self.form == Exposition::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.write_family();
        self.written
    }
}

/// `device="sda",op="read"`.
fn label_text(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"{}\"", escape::prometheus(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Exposition, write: impl Fn(&mut ExpositionWriter<'_>)) -> String {
        let mut out = Vec::new();
        let mut writer = ExpositionWriter::new(form, &mut out);
        write(&mut writer);
        writer.finish().expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn who_asks_gets_what_it_likes_best() {
        let of = Exposition::accepted;
        assert_eq!(
            [of(""), of("*/*"), of("text/html, */*;q=0.1")],
            [Exposition::Prometheus; 3]
        );
        let old = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(of(old), Exposition::OpenMetrics);
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5";
        assert_eq!(of(native), Exposition::Protobuf);
        assert_eq!(
            of("application/vnd.google.protobuf;q=0.3,text/plain;q=0.4"),
            Exposition::Prometheus
        );
    }

    #[test]
    fn counters_are_named_as_each_format_wants_them() {
        let write = |w: &mut ExpositionWriter<'_>| {
            w.family("a_total", MetricKind::Counter, "What.");
            w.sample("a_total", &[("device", "sda"), ("op", "read")], 1.5);
        };
        let expected = "# HELP a_total What.\n# TYPE a_total counter\na_total{device=\"sda\",op=\"read\"} 1.5\n";
        assert_eq!(written(Exposition::Prometheus, write), expected);
        let open = written(Exposition::OpenMetrics, write);
        assert!(
            open.contains("# TYPE a counter\na_total{") && open.ends_with("# EOF\n"),
            "{open}"
        );
    }

    #[test]
    fn buckets_are_exact_and_add_up() {
        let mut h = CallHistogram::default();
        let bounds: Vec<i64> = BOUNDS.iter().map(|(ns, _)| *ns).collect();
        // One below each bound and two at it, which belong to the next.
        for ns in &bounds {
            h.add(ns - 1, 1);
            h.add(*ns, 2);
        }
        let text = written(Exposition::Prometheus, |w| {
            w.histogram("d", &[("op", "read")], &h, 5_000_000_000)
        });
        let counts: Vec<u64> = text
            .lines()
            .filter(|l| l.contains("_bucket"))
            .filter_map(|l| l.rsplit(' ').next()?.parse().ok())
            .collect();
        let all = 3 * bounds.len() as u64;
        let expected: Vec<u64> = (0..bounds.len() as u64).map(|i| 3 * i + 1).collect();
        assert_eq!(counts[..bounds.len()], expected, "{text}");
        assert_eq!(counts[bounds.len()..], [all]);
        assert!(text.contains("d_sum{op=\"read\"} 5\n"), "{text}");
        assert!(text.contains(&format!("d_count{{op=\"read\"}} {all}\n")));
    }

    #[test]
    fn there_are_four_buckets_to_a_decade_next_to_round_numbers() {
        assert_eq!(BOUNDS.len(), 23);
        let is_near = |ns: i64, round_ns: f64| (ns as f64 / round_ns - 1.0).abs() < 0.032;
        assert!(is_near(BOUNDS[0].0, 18e3) && is_near(BOUNDS[22].0, 5.6e9));
        for round_ns in [1e5, 1e6, 1e7, 1e8, 1e9] {
            assert!(BOUNDS.iter().any(|(ns, _)| is_near(*ns, round_ns)));
        }
    }

    #[test]
    fn no_name_breaks_out_of_its_label() {
        let text = written(Exposition::Prometheus, |w| {
            w.sample("a", &[("device", "x\"} 1\n# \\\u{202e}\x1b")], 0.0)
        });
        assert_eq!(text.lines().count(), 1);
        assert_eq!(
            text,
            "a{device=\"x\\\"} 1\\n# \\\\\\\\u{202e}\\\\u{1b}\"} 0\n"
        );
    }
}
