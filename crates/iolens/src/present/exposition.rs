//! What Prometheus scrapes: its own text (0.0.4), OpenMetrics 1.0, and its protocol, in which histograms are native.

mod protobuf;

use std::fmt::Write as _;

use iolens_core::model::CallHistogram;
use prost::Message as _;

use super::escape;
use protobuf::MetricFamily;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `application/vnd.google.protobuf`: messages, each after its length.
    Protobuf,
}

impl Exposition {
    /// What an `Accept` header likes best; of equals the one that it names first.
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

    /// The type of what is written.
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

/// What a family of metrics is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends with `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations.
    Histogram,
}

/// Classic histograms: the shortest and the longest bound, as powers of two of nanoseconds (4 us to 34 s), two to an octave.
const BOUNDS: std::ops::RangeInclusive<u32> = 12..=35;

/// Writes families one after the other.
#[derive(Debug)]
pub struct ExpositionWriter {
    out: String,
    /// In place of the text.
    families: Vec<MetricFamily>,
    form: Exposition,
}

impl ExpositionWriter {
    /// For one answer.
    pub fn new(form: Exposition) -> ExpositionWriter {
        ExpositionWriter {
            out: String::new(),
            families: Vec::new(),
            form,
        }
    }

    /// A family; its samples follow.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        if self.form == Exposition::Protobuf {
            self.families.push(MetricFamily::new(name, kind, help));
            return;
        }
        let kind_name = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // In OpenMetrics the family of a counter has the name without the ending that its samples have.
        let name = match (self.form, kind) {
            (Exposition::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind_name}");
    }

    /// A value.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        if let Some(family) = self.families.last_mut() {
            family.sample(labels, value);
            return;
        }
        self.out.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.out, " {value}");
    }

    fn labels(&mut self, labels: &[(&str, &str)], le: Option<f64>) {
        let mut before = '{';
        for (name, value) in labels {
            let _ = write!(self.out, "{before}{name}=\"{}\"", escape::prometheus(value));
            before = ',';
        }
        if let Some(le) = le {
            let bound = if le.is_finite() {
                le.to_string()
            } else {
                "+Inf".to_owned()
            };
            let _ = write!(self.out, "{before}le=\"{bound}\"");
            before = ',';
        }
        if before == ',' {
            self.out.push('}');
        }
    }

    /// Durations, as text in classic buckets. They are those of [`CallHistogram`] merged, whose edges the bounds are: exact.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        of: &CallHistogram,
        sum_ns: i128,
    ) {
        if let Some(family) = self.families.last_mut() {
            family.histogram(labels, of, sum_ns);
            return;
        }
        let mut buckets = of.buckets().peekable();
        let mut n = 0;
        for bound in BOUNDS.flat_map(|shift| [1i64 << shift, 3i64 << (shift - 1)]) {
            while let Some((_, _, more)) = buckets.next_if(|(_, high, _)| *high <= bound) {
                n += more;
            }
            let _ = write!(self.out, "{name}_bucket");
            self.labels(labels, Some(bound as f64 / 1e9));
            let _ = writeln!(self.out, " {n}");
        }
        let all = of.n();
        let _ = write!(self.out, "{name}_bucket");
        self.labels(labels, Some(f64::INFINITY));
        let _ = writeln!(self.out, " {all}");
        self.sample(&format!("{name}_sum"), labels, sum_ns as f64 / 1e9);
        self.sample(&format!("{name}_count"), labels, all as f64);
    }

    /// All of it.
    pub fn finish(mut self) -> Vec<u8> {
        if self.form == Exposition::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        let mut out = self.out.into_bytes();
        for family in self.families.iter().filter(|f| !f.is_empty()) {
            out.extend(family.encode_length_delimited_to_vec());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Exposition, write: impl Fn(&mut ExpositionWriter)) -> String {
        let mut writer = ExpositionWriter::new(form);
        write(&mut writer);
        String::from_utf8(writer.finish()).expect("text")
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
        let write = |w: &mut ExpositionWriter| {
            w.family("a_total", Kind::Counter, "What.");
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
        for (ns, n) in [
            (100, 1),
            (4_095, 2),
            (4_096, 4),
            (6_143, 8),
            (6_144, 16),
            (1_000_000, 32),
            (i64::MAX, 64),
        ] {
            h.add(ns, n);
        }
        let text = written(Exposition::Prometheus, |w| {
            w.histogram("d", &[("op", "read")], &h, 5_000_000_000)
        });
        let at = |le: &str| {
            let line = text
                .lines()
                .find(|l| l.starts_with(&format!("d_bucket{{op=\"read\",le=\"{le}\"}}")));
            line.and_then(|l| l.rsplit(' ').next()?.parse().ok())
                .unwrap_or(-1)
        };
        assert_eq!(
            (at("0.000004096"), at("0.000006144"), at("0.000008192")),
            (3, 15, 31),
            "{text}"
        );
        assert_eq!((at("34.359738368"), at("+Inf")), (63, 127));
        assert!(
            text.contains("d_sum{op=\"read\"} 5\n") && text.contains("d_count{op=\"read\"} 127\n")
        );
        let counts: Vec<u64> = text
            .lines()
            .filter(|l| l.contains("_bucket"))
            .filter_map(|l| l.rsplit(' ').next()?.parse().ok())
            .collect();
        assert!(counts.is_sorted() && counts.len() == 49);
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
