//! fio's logs of bandwidth, latency and IOPS: `time (ms), value, direction, block size[, offset[, priority]]`.
//!
//! What the values are stands in the file's name only (`JOB_bw.1.log`, `JOB_clat.1.log`).

use iolens_core::model::{Class, IntervalRates, Io, Op};

use super::log::Log;
use super::text::{Lines, integer};

/// Whether a line looks like a row of such a log.
pub(super) fn looks_like_row(line: &[u8]) -> bool {
    let n = line
        .split(|b| *b == b',')
        .filter(|c| c.trim_ascii().iter().all(u8::is_ascii_digit) && !c.trim_ascii().is_empty())
        .count();
    (4..=8).contains(&n) && n >= line.split(|b| *b == b',').count() - 1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// KiB/s.
    Bandwidth,
    Iops,
    /// Nanoseconds (fio 3) of one I/O, or of an average.
    Latency,
    /// Nanoseconds of submission: no time of a device.
    Submission,
}

struct Row {
    at_ms: u64,
    value: u64,
    class: Class,
    op: Op,
    bytes: u64,
}

/// Reads one log.
pub(super) fn parse(log: &mut Log, bytes: &[u8]) {
    let name = log.file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let Some((job, values)) = values_of(&name) else {
        log.unusable = Some(
            "the file's name does not say what its values are: fio names its logs JOB_bw.N.log, JOB_lat.N.log, JOB_iops.N.log",
        );
        return;
    };
    if values == Values::Submission {
        log.unusable = Some("submission latencies say nothing of a device: give fio's clat or lat log");
        return;
    }
    let dev = log.devices.aggregate(&format!("fio:{job}"));
    let mut last_ms = [0u64; 4];
    let mut single = false;
    for line in Lines::new(bytes) {
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        let Some(r) = row(line.bytes).filter(|_| line.complete) else {
            log.damaged(line.number, "four numbers are wanted: time, value, direction, block size");
            continue;
        };
        let at_ns = (r.at_ms as i64).saturating_mul(1_000_000);
        // fio prints block size 0 when a row is an average over log_avg_msec, else the row is one I/O.
        if r.bytes > 0 && values == Values::Latency {
            let mut io = Io::new(at_ns, dev, r.op, r.bytes as i64, None, i64::try_from(r.value).unwrap_or(i64::MAX));
            io.merges = None;
            if log.ios.is_empty() {
                // Lines are about as long as the first: growing step by step would move everything again and again.
                log.ios.reserve(bytes.len() / (line.bytes.len() + 1) + 1);
            }
            log.ios.push(io);
            continue;
        }
        if r.bytes > 0 {
            single = true;
            continue;
        }
        let from_ns = (last_ms[r.class as usize] as i64).saturating_mul(1_000_000).min(at_ns);
        last_ms[r.class as usize] = r.at_ms;
        log.rates.push(&average(dev, from_ns, at_ns, values, &r));
    }
    if single {
        log.unusable =
            Some("single I/Os of a bandwidth or IOPS log say nothing that fio's clat or lat log does not: give that");
        log.limit("rows of single I/Os in a bandwidth or IOPS log repeat what the latency log says and were left out");
    }
    log.limit(
        "source is the application's view: latency includes the page cache and all layers; there is no device in it",
    );
    log.limit("times have milliseconds only");
}

fn average(dev: iolens_core::model::DevId, from_ns: i64, to_ns: i64, values: Values, r: &Row) -> IntervalRates {
    let mut out = IntervalRates::new(from_ns, to_ns, dev);
    let class = &mut out.classes[r.class as usize];
    let v = r.value as f64;
    match values {
        Values::Bandwidth => class.bytes_per_s = Some(v * 1024.0),
        Values::Iops => class.ios_per_s = Some(v),
        Values::Latency | Values::Submission => class.mean_us = Some(v / 1000.0),
    }
    out
}

fn values_of(name: &str) -> Option<(&str, Values)> {
    for (tag, values) in [
        ("_bw.", Values::Bandwidth),
        ("_iops.", Values::Iops),
        ("_clat.", Values::Latency),
        ("_slat.", Values::Submission),
        ("_lat.", Values::Latency),
    ] {
        if let Some(at) = name.rfind(tag) {
            return Some((&name[..at], values));
        }
    }
    None
}

fn row(line: &[u8]) -> Option<Row> {
    let mut cells = line.split(|b| *b == b',').map(|c| integer(c.trim_ascii()));
    let (at_ms, value) = (cells.next()??, cells.next()??);
    let (class, op) = match cells.next()?? {
        0 => (Class::Read, Op::READ),
        1 => (Class::Write, Op::WRITE),
        2 => (Class::Discard, Op::DISCARD),
        _ => return None,
    };
    let bytes = cells.next()??;
    (at_ms < 1 << 43 && bytes < 1 << 53).then_some(Row { at_ms, value, class, op, bytes })
}

#[cfg(test)]
mod tests {
    use super::super::log::{ImportOptions, parse_bytes};
    use super::super::recognise::{Kind, recognise};
    use iolens_core::model::Observation;
    use std::path::Path;

    #[test]
    fn averaged_bandwidth_and_single_latencies() {
        let bw = b"500, 1208, 0, 0, 0\n500, 528, 1, 0, 0\n1000, 1202, 0, 0, 0\n1000, x\n";
        assert_eq!(recognise(bw), Some(Kind::FioLog));
        let got = parse_bytes(Kind::FioLog, Path::new("mix_bw.1.log"), bw, ImportOptions::default()).expect("imports");
        assert_eq!(got.rates.len(), 3);
        let second_read = got.rates.iter().find(|r| r.to_ns == 1_000_000_000).expect("there");
        assert_eq!((second_read.from_ns, second_read.classes[0].bytes_per_s), (500_000_000, Some(1202.0 * 1024.0)));
        assert_eq!((got.damage.count, got.damage.places[0].at), (1, 4));
        let lat = b"3, 181000, 0, 4096, 0, 0\n5, 99000, 1, 8192, 4096, 0\n";
        let got =
            parse_bytes(Kind::FioLog, Path::new("mix_lat.1.log"), lat, ImportOptions::default()).expect("imports");
        let Observation::Io(io) = got.observations[1] else { panic!("an I/O") };
        assert_eq!((io.done_ns, io.device_ns, io.bytes, io.queue_ns), (5_000_000, 99_000, 8192, None));
    }

    #[test]
    fn a_name_that_says_nothing_is_refused_with_the_reason() {
        let e = parse_bytes(Kind::FioLog, Path::new("x.csv"), b"1, 2, 0, 4096\n", ImportOptions::default())
            .expect_err("refused");
        assert!(e.to_string().contains("JOB_bw.N.log"), "{e}");
    }
}
