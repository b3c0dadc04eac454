//! One record per device and report, for machines: NDJSON and CSV. The reference has neither.
//!
//! Every record says when it was taken and over which interval; what is not known is `null` (an empty field in CSV), as
//! is a mean over no I/O. Units are in the names: KiB are 1024 bytes.

use super::super::escape;
use super::exact;
use super::json::string;
use iolens_core::analysis::counters::rates::iostat::CpuPercent;
use iolens_core::analysis::counters::rates::{DeviceRates, State};
use iolens_core::analysis::device::exact::DeviceExact;

/// A field of a record: its name, and its value if known.
pub type Field<R, V> = (&'static str, fn(&R) -> V);

/// The statistics of a device record, in order: name and value.
pub const FIELDS: [Field<DeviceRates, Option<f64>>; 30] = [
    ("reads_per_s", |r| r.read.per_s),
    ("read_kib_per_s", |r| r.read.kib_per_s),
    ("read_merges_per_s", |r| r.read.merges_per_s),
    ("read_merged_percent", |r| r.read.merged_percent),
    ("read_await_ms", |r| r.read.await_ms),
    ("read_request_kib", |r| r.read.request_kib),
    ("read_ios", |r| r.read.n.map(|n| n as f64)),
    ("writes_per_s", |r| r.write.per_s),
    ("write_kib_per_s", |r| r.write.kib_per_s),
    ("write_merges_per_s", |r| r.write.merges_per_s),
    ("write_merged_percent", |r| r.write.merged_percent),
    ("write_await_ms", |r| r.write.await_ms),
    ("write_request_kib", |r| r.write.request_kib),
    ("write_ios", |r| r.write.n.map(|n| n as f64)),
    ("discards_per_s", |r| r.discard.per_s),
    ("discard_kib_per_s", |r| r.discard.kib_per_s),
    ("discard_merges_per_s", |r| r.discard.merges_per_s),
    ("discard_merged_percent", |r| r.discard.merged_percent),
    ("discard_await_ms", |r| r.discard.await_ms),
    ("discard_request_kib", |r| r.discard.request_kib),
    ("discard_ios", |r| r.discard.n.map(|n| n as f64)),
    ("flushes_per_s", |r| r.flush.per_s),
    ("flush_await_ms", |r| r.flush.await_ms),
    ("flush_ios", |r| r.flush.n.map(|n| n as f64)),
    ("await_ms", |r| r.await_ms),
    ("request_kib", |r| r.request_kib),
    ("queue_size", |r| r.queue_size),
    ("util_percent", |r| r.util_percent),
    ("service_ms", |r| r.service_ms),
    ("interval_s", |r| Some(r.span_s)),
];

/// The shares of a processor record.
pub const CPU_FIELDS: [Field<CpuPercent, f64>; 6] = [
    ("user_percent", |c| c.user),
    ("nice_percent", |c| c.nice),
    ("system_percent", |c| c.system),
    ("iowait_percent", |c| c.iowait),
    ("steal_percent", |c| c.steal),
    ("idle_percent", |c| c.idle),
];

fn state(s: State) -> &'static str {
    match s {
        State::Known => "known",
        State::Restarted => "restarted",
        State::Appeared => "appeared",
        State::NotAccounted => "not-accounted",
    }
}

/// The fields of single I/Os that are asked for, and their values if anything is known.
pub type More<'a> = (&'a [exact::ExactField], Option<&'a DeviceExact>);

/// A device as a line of NDJSON. `time` is ISO 8601.
pub fn ndjson_device(
    out: &mut Vec<u8>,
    time: &str,
    name: &[u8],
    rates: &DeviceRates,
    more: More<'_>,
) {
    out.extend_from_slice(
        format!("{{\"time\": \"{time}\", \"source\": \"counters\", \"device\": ").as_bytes(),
    );
    string(out, name);
    out.extend_from_slice(format!(", \"state\": \"{}\"", state(rates.state)).as_bytes());
    for (key, value) in FIELDS {
        out.extend_from_slice(format!(", \"{key}\": ").as_bytes());
        match value(rates).filter(|v| v.is_finite()) {
            Some(v) => out.extend_from_slice(v.to_string().as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
    }
    if let (false, known) = (more.0.is_empty(), more.1) {
        let source = if known.is_some() { "\"ebpf\"" } else { "null" };
        out.extend_from_slice(format!(", \"exact_source\": {source}").as_bytes());
    }
    for (key, value) in more.0 {
        let text = more
            .1
            .and_then(value)
            .map_or_else(|| "null".to_owned(), exact::text);
        out.extend_from_slice(format!(", \"{key}\": {text}").as_bytes());
    }
    out.extend_from_slice(b"}\n");
}

/// The processors as a line of NDJSON.
pub fn ndjson_cpu(out: &mut Vec<u8>, time: &str, cpu: &CpuPercent) {
    out.extend_from_slice(
        format!("{{\"time\": \"{time}\", \"source\": \"counters\", \"cpu\": \"all\"").as_bytes(),
    );
    for (key, value) in CPU_FIELDS {
        out.extend_from_slice(format!(", \"{key}\": {}", value(cpu)).as_bytes());
    }
    out.extend_from_slice(b"}\n");
}

/// The heading of a CSV of devices.
pub fn csv_device_heading(out: &mut Vec<u8>, more: &[exact::ExactField]) {
    out.extend_from_slice(b"time,device,state");
    for key in FIELDS.iter().map(|f| f.0).chain(more.iter().map(|f| f.0)) {
        out.push(b',');
        out.extend_from_slice(key.as_bytes());
    }
    out.push(b'\n');
}

/// A device as a line of CSV.
pub fn csv_device(out: &mut Vec<u8>, time: &str, name: &[u8], rates: &DeviceRates, more: More<'_>) {
    out.extend_from_slice(time.as_bytes());
    out.push(b',');
    csv_field(out, name);
    out.push(b',');
    out.extend_from_slice(state(rates.state).as_bytes());
    for (_, value) in FIELDS {
        out.push(b',');
        if let Some(v) = value(rates).filter(|v| v.is_finite()) {
            out.extend_from_slice(v.to_string().as_bytes());
        }
    }
    for (_, value) in more.0 {
        out.push(b',');
        out.extend_from_slice(
            more.1
                .and_then(value)
                .map(exact::text)
                .unwrap_or_default()
                .as_bytes(),
        );
    }
    out.push(b'\n');
}

/// The heading of a CSV of processor shares.
pub fn csv_cpu_heading(out: &mut Vec<u8>) {
    out.extend_from_slice(b"time");
    for (key, _) in CPU_FIELDS {
        out.push(b',');
        out.extend_from_slice(key.as_bytes());
    }
    out.push(b'\n');
}

/// The processors as a line of CSV.
pub fn csv_cpu(out: &mut Vec<u8>, time: &str, cpu: &CpuPercent) {
    out.extend_from_slice(time.as_bytes());
    for (_, value) in CPU_FIELDS {
        out.extend_from_slice(format!(",{}", value(cpu)).as_bytes());
    }
    out.push(b'\n');
}

/// A field of CSV, see [`escape::csv`].
fn csv_field(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(escape::csv(&String::from_utf8_lossy(text)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::analysis::counters::rates::Delta;

    #[test]
    fn unknown_is_null_and_names_are_escaped() {
        let rates = Delta::unknown(State::Restarted, 1_500_000_000).rates();
        let mut out = Vec::new();
        ndjson_device(&mut out, "T", b"a\"b\n\xff", &rates, (&[], None));
        let v: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(
            (v["device"].as_str(), v["state"].as_str()),
            (Some("a\"b\n\u{fffd}"), Some("restarted"))
        );
        assert_eq!(
            (v["reads_per_s"].is_null(), v["interval_s"].as_f64()),
            (true, Some(1.5))
        );
        out.clear();
        csv_device(&mut out, "T", b"=a,\"b", &rates, (&[], None));
        let text = String::from_utf8(out).expect("text");
        assert!(
            text.starts_with("T,\"'=a,\"\"b\",restarted,,,") && text.ends_with(",1.5\n"),
            "{text}"
        );
    }

    #[test]
    fn every_line_of_csv_has_the_heading_s_fields() {
        let mut head = Vec::new();
        let mut line = Vec::new();
        csv_device_heading(&mut head, &exact::fields(true, true));
        csv_device(
            &mut line,
            "T",
            b"sda",
            &Delta::unknown(State::Known, 0).rates(),
            (&exact::fields(true, true), None),
        );
        let commas = |b: &[u8]| b.iter().filter(|c| **c == b',').count();
        assert_eq!(commas(&head), commas(&line));
        let mut head = Vec::new();
        let mut line = Vec::new();
        csv_cpu_heading(&mut head);
        csv_cpu(&mut line, "T", &CpuPercent::default());
        assert_eq!(commas(&head), commas(&line));
    }
}
