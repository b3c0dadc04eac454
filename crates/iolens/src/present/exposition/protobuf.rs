//! The messages of Prometheus' own protocol: `io.prometheus.client`, `metrics.proto` of client_model 0.6, as far as they are
//! used here. Durations are native histograms.

use iolens_core::model::CallHistogram;
use prost::Message;

use super::MetricKind;
use crate::present::escape;

#[derive(Clone, PartialEq, Message)]
pub struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<NativeHistogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `Gauge` and `Counter`.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

/// `Histogram` without classic buckets. Bucket `i` ends at `2^(i / 2^schema)` seconds.
#[derive(Clone, PartialEq, Message)]
struct NativeHistogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    /// Each count less the one before it.
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

/// Buckets in a row, so many after the end of the span before (the first: its number).
#[derive(Clone, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// Eight buckets to an octave, half as fine as what is counted: a quantile is off by at most 12 %.
const SCHEMA: i32 = 3;
/// The least that Prometheus' own client has.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

impl MetricFamily {
    pub fn new(name: &str, kind: MetricKind, help: &str) -> MetricFamily {
        let kind = match kind {
            MetricKind::Counter => 0,
            MetricKind::Gauge => 1,
            MetricKind::Histogram => 4,
        };
        MetricFamily {
            name: name.to_owned(),
            help: help.to_owned(),
            kind,
            metric: Vec::new(),
        }
    }

    /// A family without samples says nothing; old readers refuse it.
    pub fn is_empty(&self) -> bool {
        self.metric.is_empty()
    }

    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let number = Some(Number { value });
        let metric = Metric {
            label: pairs(labels),
            ..Metric::default()
        };
        self.metric.push(match self.kind {
            0 => Metric {
                counter: number,
                ..metric
            },
            _ => Metric {
                gauge: number,
                ..metric
            },
        });
    }

    pub fn histogram(&mut self, labels: &[(&str, &str)], of: &CallHistogram, sum_ns: i128) {
        let histogram = Some(native(of, sum_ns));
        self.metric.push(Metric {
            label: pairs(labels),
            histogram,
            ..Metric::default()
        });
    }
}

fn pairs(labels: &[(&str, &str)]) -> Vec<LabelPair> {
    let mut pairs = Vec::with_capacity(labels.len());
    for (name, value) in labels {
        pairs.push(LabelPair {
            name: (*name).to_owned(),
            value: escape::label(value),
        });
    }
    pairs
}

fn native(of: &CallHistogram, sum_ns: i128) -> NativeHistogram {
    // Several of the counted buckets may lie in one of the written ones, which are wider.
    let mut merged: Vec<(i32, i64)> = Vec::new();
    for (low, high, n) in of.buckets() {
        let bucket = bucket_of(low, high);
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        match merged.last_mut() {
            Some((last, sum)) if *last == bucket => *sum += n,
            _ => merged.push((bucket, n)),
        }
    }
    // A bucket right after the one before makes its span longer; after a gap a new span begins.
    let mut positive_span: Vec<BucketSpan> = Vec::new();
    let mut positive_delta = Vec::with_capacity(merged.len());
    let mut end = 0;
    let mut before = 0;
    for (bucket, n) in merged {
        match positive_span.last_mut() {
            Some(span) if bucket == end => span.length += 1,
            _ => positive_span.push(BucketSpan {
                offset: bucket - end,
                length: 1,
            }),
        }
        positive_delta.push(n - before);
        end = bucket + 1;
        before = n;
    }
    NativeHistogram {
        sample_count: of.n(),
        sample_sum: sum_ns as f64 / 1e9,
        schema: SCHEMA,
        zero_threshold: ZERO_THRESHOLD,
        positive_span,
        positive_delta,
    }
}

/// The bucket that holds the middle of `low..high` nanoseconds; the last one has no end.
fn bucket_of(low: i64, high: i64) -> i32 {
    let middle = if high == i64::MAX {
        low as f64
    } else {
        (low as f64 + high as f64) / 2.0
    };
    ((middle / 1e9).log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upper bounds in seconds and counts, as a reader of the protocol finds them.
    fn read(h: &NativeHistogram) -> Vec<(f64, i64)> {
        let mut at = 0;
        let mut n = 0;
        let mut deltas = h.positive_delta.iter();
        let mut out = Vec::new();
        for span in &h.positive_span {
            at += span.offset;
            for _ in 0..span.length {
                n += deltas.next().expect("a count for each bucket");
                out.push((2f64.powf(f64::from(at) / 8.0), n));
                at += 1;
            }
        }
        assert!(deltas.next().is_none());
        out
    }

    #[test]
    fn durations_come_back_within_a_bucket_and_each_is_counted() {
        let mut h = CallHistogram::default();
        let all = [
            (3, 1),
            (1_000, 2),
            (1_050, 3),
            (80_000, 5),
            (84_000, 7),
            (1_000_000_000, 11),
            (90_000_000_000, 13),
        ];
        all.iter().for_each(|(ns, n)| h.add(*ns, *n));
        let native = native(&h, 7_000_000_000);
        assert_eq!((native.sample_count, native.sample_sum), (42, 7.0));
        let found = read(&native);
        assert_eq!(found.iter().map(|(_, n)| n).sum::<i64>(), 42);
        assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{found:?}");
        // From 1 us on a bucket of the histogram is at most 1/16 wide, and one of the protocol's 1/11.
        for (ns, n) in &all[1..] {
            let s = *ns as f64 / 1e9;
            let near = found
                .iter()
                .filter(|(end, _)| (s * 0.93..s * 1.17).contains(end))
                .map(|(_, n)| n)
                .sum::<i64>();
            assert!(near >= *n as i64, "{n} of {s} s in {found:?}");
        }
    }

    #[test]
    fn a_message_is_what_the_protocol_says() {
        let mut family = MetricFamily::new("a_total", MetricKind::Counter, "What.");
        family.sample(&[("device", "sda")], 1.5);
        // Field and type, length, content; 1.5 is 3ff8 0000 0000 0000.
        let expected =
            b"\x0a\x07a_total\x12\x05What.\x22\x1a\x0a\x0d\x0a\x06device\x12\x03sda\x1a\x09\x09\0\0\0\0\0\0\xf8\x3f";
        assert_eq!(family.encode_to_vec(), expected);
    }
}
