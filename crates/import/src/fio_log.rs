//! Parses fio's logs of bandwidth, latency and IOPS: `time (ms), value, direction, block size[, offset[, priority]]`.
//!
//! Only the file's name shows what the values are (`JOB_bw.1.log`, `JOB_clat.1.log`).

use iolens_core::model::{Class, DevId, IntervalRates, Io, Op};

use super::intervals::upper_median;
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
enum FioValues {
    /// Bandwidth in KiB/s.
    Bandwidth,
    Iops,
    /// Latency of one I/O, or an average.
    Latency,
    /// Submission latency in nanoseconds, which is not a time of the device.
    Submission,
}

struct FioRow {
    at_ms: u64,
    value: u64,
    class: Class,
    op: Op,
    bytes: u64,
    columns: u8,
    damage: DamageBefore,
}

/// The damaged lines between a row and the row of its class before it.
#[derive(Debug, Clone, Copy, Default)]
struct DamageBefore {
    /// Time of the last damaged row of the class, if it can be read.
    at_ms: Option<u64>,
    /// There is a line of which neither time nor class is known.
    has_unknown: bool,
}

/// Parses one fio log.
pub(super) fn parse(log: &mut Log, lines: &mut Lines<'_>) {
    let name = log
        .file
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let Some((job, values)) = values_of(&name) else {
        log.unusable = Some(
            "rows of numbers without a heading: the logs of fio are called JOB_bw.N.log, JOB_lat.N.log, JOB_iops.N.log, \
             which says what their values are; traces of other tools in CSV are not read",
        );
        return;
    };
    if values == FioValues::Submission {
        log.unusable =
            Some("submission latencies say nothing of a device: give fio's clat or lat log");
        return;
    }
    let dev = log.devices.aggregate(&format!("fio:{job}"));
    let rows = read(log, lines);
    let averages =
        rows.iter().any(|r| r.bytes == 0) || (values != FioValues::Latency && are_regular(&rows));
    let ns = if values == FioValues::Latency {
        unit_ns(log, &rows, averages)
    } else {
        1
    };
    let usual_ms = if averages { usual_length_ms(&rows) } else { 0 };
    let mut last_ms = [0u64; 4];
    for r in &rows {
        let at_ns = (r.at_ms as i64).saturating_mul(1_000_000);
        if averages {
            let from_ms = begin_ms(r, last_ms[r.class as usize], usual_ms);
            let from_ns = (from_ms as i64).saturating_mul(1_000_000).min(at_ns);
            last_ms[r.class as usize] = r.at_ms;
            log.rates.push(&average(dev, from_ns, at_ns, values, r, ns));
        } else if values == FioValues::Latency {
            let latency_ns = i64::try_from(r.value)
                .unwrap_or(i64::MAX)
                .saturating_mul(ns);
            log.io(Io {
                merges: None,
                ..Io::new(at_ns, dev, r.op, r.bytes as i64, None, latency_ns)
            });
        }
    }
    if !averages && values != FioValues::Latency && !rows.is_empty() {
        log.unusable = Some(
            "single I/Os of a bandwidth or IOPS log say nothing that fio's clat or lat log does not: give that",
        );
        log.limit("rows of single I/Os in a bandwidth or IOPS log repeat what the latency log says and were left out");
    }
    log.limit(
        "source is the application's view: latency includes the page cache and all layers; there is no device in it",
    );
    log.limit("times have milliseconds only");
}

fn read(log: &mut Log, lines: &mut Lines<'_>) -> Vec<FioRow> {
    let mut rows = Vec::new();
    let mut damage = [DamageBefore::default(); 4];
    while let Some(line) = log.next_line(lines) {
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        if let Some(mut r) = row(line.bytes).filter(|_| line.complete) {
            r.damage = std::mem::take(&mut damage[r.class as usize]);
            rows.push(r);
            continue;
        }
        match time_and_class(line.bytes) {
            Some((at_ms, class)) => damage[class as usize].at_ms = Some(at_ms),
            None => damage.iter_mut().for_each(|d| d.has_unknown = true),
        }
        log.damaged(
            line.number,
            "expected four numbers: time, value, direction, block size",
        );
    }
    rows
}

/// What can be read of a damaged row: its time and its class.
fn time_and_class(line: &[u8]) -> Option<(u64, Class)> {
    let mut cells = line.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    let at_ms = integer(cells.next()?)?;
    let (class, _) = direction(integer(cells.nth(1)?)?)?;
    (at_ms < END_MS).then_some((at_ms, class))
}

/// Where the interval of an averaged row begins: at the end of the row before it, which may be a damaged one.
fn begin_ms(r: &FioRow, last_ms: u64, usual_ms: u64) -> u64 {
    let damaged = r.damage.at_ms;
    if let Some(at_ms) = damaged.filter(|at| (last_ms..r.at_ms).contains(at)) {
        return at_ms;
    }
    // A line of unknown content was a row of this class if there is time for one.
    let length_ms = r.at_ms.saturating_sub(last_ms);
    let lacks_row = length_ms > usual_ms.saturating_add(usual_ms / 2);
    if r.damage.has_unknown && lacks_row {
        return r.at_ms.saturating_sub(usual_ms);
    }
    last_ms
}

/// The median length of the intervals between rows of one class.
fn usual_length_ms(rows: &[FioRow]) -> u64 {
    let mut last_ms = [0u64; 4];
    let mut lengths = Vec::with_capacity(rows.len());
    for r in rows {
        let before_ms = std::mem::replace(&mut last_ms[r.class as usize], r.at_ms);
        lengths.push(r.at_ms.saturating_sub(before_ms));
    }
    upper_median(&mut lengths).unwrap_or(0)
}

/// fio 2 writes a job's only block size into the rows of averaged logs too, where later versions write 0: rows at regular
/// intervals are averages whatever their block size.
fn are_regular(rows: &[FioRow]) -> bool {
    [Class::Read, Class::Write, Class::Discard]
        .into_iter()
        .all(|class| is_class_regular(rows, class))
}

/// Whether most gaps between the rows of this class are near their median; true if there are no gaps.
fn is_class_regular(rows: &[FioRow], class: Class) -> bool {
    const MIN_MS: u64 = 50;
    let mut gaps: Vec<u64> = Vec::new();
    let mut before_ms = None;
    for row in rows.iter().filter(|r| r.class == class) {
        gaps.extend(before_ms.map(|before| row.at_ms.saturating_sub(before)));
        before_ms = Some(row.at_ms);
    }
    let Some(median) = upper_median(&mut gaps) else {
        return true;
    };
    let near = gaps
        .iter()
        .filter(|g| g.abs_diff(median) * 5 <= median)
        .count();
    median >= MIN_MS && near * 10 >= gaps.len() * 8
}

/// The unit of latency in nanoseconds: fio 3 writes nanoseconds, fio 2 microseconds. Versions from 3.13 on have a fifth
/// column. For older ones the values decide: an I/O neither takes longer than the log, nor almost none of its time.
fn unit_ns(log: &mut Log, rows: &[FioRow], averages: bool) -> i64 {
    const MICROSECOND: i64 = 1000;
    if rows.is_empty() || rows.iter().any(|r| r.columns > 4) {
        return 1;
    }
    let microseconds = if averages {
        let mut values: Vec<u64> = rows.iter().map(|r| r.value).filter(|v| *v > 0).collect();
        values.sort_unstable();
        // If these were nanoseconds, they would be shorter than any device takes.
        values
            .get(values.len() / 2)
            .is_some_and(|median| *median < 20_000)
    } else {
        let span_ms = rows.iter().map(|r| r.at_ms).max().unwrap_or(0).max(1);
        let sum: f64 = rows.iter().map(|r| r.value as f64).sum();
        // The mean number in flight if the values are nanoseconds. A job that waits for its I/Os has at least one.
        sum / 1e6 / (span_ms as f64) < 0.02
    };
    log.limit(match microseconds {
        true => {
            "four columns as fio 2 writes them: latencies were taken for microseconds, which fit the times of the log"
        }
        false => {
            "four columns as fio 2 writes them: latencies were taken for nanoseconds, which fit the times of the log"
        }
    });
    if microseconds { MICROSECOND } else { 1 }
}

fn average(
    dev: DevId,
    from_ns: i64,
    to_ns: i64,
    values: FioValues,
    r: &FioRow,
    unit_ns: i64,
) -> IntervalRates {
    let mut out = IntervalRates::new(from_ns, to_ns, dev);
    let class = &mut out.classes[r.class as usize];
    let v = r.value as f64;
    match values {
        FioValues::Bandwidth => class.bytes_per_s = Some(v * 1024.0),
        FioValues::Iops => class.ios_per_s = Some(v),
        FioValues::Latency | FioValues::Submission => {
            class.mean_us = Some(v * unit_ns as f64 / 1000.0)
        }
    }
    out
}

/// The job and the kind of values. Logs of several jobs with one name have numbers; that of the first is omitted.
fn values_of(name: &str) -> Option<(String, FioValues)> {
    for (tag, values) in [
        ("_bw.", FioValues::Bandwidth),
        ("_iops.", FioValues::Iops),
        ("_clat.", FioValues::Latency),
        ("_slat.", FioValues::Submission),
        ("_lat.", FioValues::Latency),
    ] {
        if let Some(at) = name.rfind(tag) {
            let number = name[at + tag.len()..]
                .split('.')
                .next()
                .and_then(|n| n.parse::<u32>().ok());
            let number = number
                .filter(|n| *n != 1)
                .map_or_else(String::new, |n| format!(".{n}"));
            return Some((format!("{}{number}", &name[..at]), values));
        }
    }
    None
}

/// Times in milliseconds are below this: more do not fit into nanoseconds.
const END_MS: u64 = 1 << 43;

fn direction(number: u64) -> Option<(Class, Op)> {
    match number {
        0 => Some((Class::Read, Op::READ)),
        1 => Some((Class::Write, Op::WRITE)),
        2 => Some((Class::Discard, Op::DISCARD)),
        _ => None,
    }
}

fn row(line: &[u8]) -> Option<FioRow> {
    let columns = line.split(|b| *b == b',').count();
    let mut cells = line.split(|b| *b == b',').map(|c| integer(c.trim_ascii()));
    let at_ms = cells.next()??;
    let value = cells.next()??;
    let (class, op) = direction(cells.next()??)?;
    let bytes = cells.next()??;
    (at_ms < END_MS && bytes < 1 << 53).then_some(FioRow {
        at_ms,
        value,
        class,
        op,
        bytes,
        columns: columns.min(255) as u8,
        damage: DamageBefore::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::files::{import_files, parse_bytes};
    use super::super::log::ImportOptions;
    use super::super::recognise::{LogFormat, recognise};
    use iolens_core::model::Observation;
    use std::path::Path;

    #[test]
    fn averaged_bandwidth_and_single_latencies() {
        let bw = b"500, 1208, 0, 0, 0\n500, 528, 1, 0, 0\n1000, 1202, 0, 0, 0\n1000, x\n";
        assert_eq!(recognise(bw), Some(LogFormat::FioLog));
        let got = parse_bytes(
            LogFormat::FioLog,
            Path::new("mix_bw.1.log"),
            bw,
            ImportOptions::default(),
        )
        .expect("imports");
        assert_eq!(
            got.rates.len(),
            2,
            "reads and writes of one interval are one row"
        );
        let second_read = got
            .rates
            .iter()
            .find(|r| r.to_ns == 1_000_000_000)
            .expect("there");
        assert_eq!(
            (second_read.from_ns, second_read.classes[0].bytes_per_s),
            (500_000_000, Some(1202.0 * 1024.0))
        );
        assert_eq!((got.damage.count, got.damage.places[0].at), (1, 4));
        let lat = b"3, 181000, 0, 4096, 0, 0\n5, 99000, 1, 8192, 4096, 0\n";
        let got = parse_bytes(
            LogFormat::FioLog,
            Path::new("mix_lat.1.log"),
            lat,
            ImportOptions::default(),
        )
        .expect("imports");
        let Observation::Io(io) = got.observations[1] else {
            panic!("an I/O")
        };
        assert_eq!(
            (io.done_ns, io.device_ns, io.bytes, io.queue_ns),
            (5_000_000, 99_000, 8192, None)
        );
    }

    #[test]
    fn the_interval_of_a_damaged_row_is_its_own() {
        let rest = "1500, 900, 1, 0, 0\n2000, 900, 1, 0, 0\n2500, 900, 1, 0, 0\n";
        for damaged in ["1000, -300, 1, 0, 0", "1000, x, 1", "10 no row of it"] {
            let log = format!("500, 100, 1, 0, 0\n{damaged}\n{rest}");
            let got = import("a_iops.1.log", &log);
            let mut intervals_ms = Vec::new();
            for row in got.rates.iter() {
                intervals_ms.push((row.from_ns / 1_000_000, row.to_ns / 1_000_000));
            }
            let expected = [(0, 500), (1000, 1500), (1500, 2000), (2000, 2500)];
            assert_eq!(intervals_ms, expected, "{damaged}");
            assert_eq!(got.damage.count, 1, "{damaged}");
        }
    }

    #[test]
    fn a_line_that_is_in_place_of_no_row_moves_nothing() {
        let rows = ["500, 100, 1, 0, 0", "1000, 100, 1, 0, 0"];
        let whole = import("a_iops.1.log", &format!("{}\n{}\n", rows[0], rows[1]));
        let damaged = format!("{}\n500, 1208, zero, 0\n{}\n", rows[0], rows[1]);
        assert_eq!(import("a_iops.1.log", &damaged).rates, whole.rates);
    }

    #[test]
    fn an_ambiguous_log_name_is_refused_with_the_reason() {
        let e = parse_bytes(
            LogFormat::FioLog,
            Path::new("x.csv"),
            b"1, 2, 0, 4096\n",
            ImportOptions::default(),
        )
        .expect_err("refused");
        assert!(e.to_string().contains("JOB_bw.N.log"), "{e}");
    }

    fn import(name: &str, text: &str) -> super::super::log::Imported {
        parse_bytes(
            LogFormat::FioLog,
            Path::new(name),
            text.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports")
    }

    fn latencies(got: &super::super::log::Imported) -> Vec<i64> {
        got.ios().iter().map(|io| io.device_ns).collect()
    }

    #[test]
    fn latencies_of_fio_2_are_microseconds() {
        // One at a time: 9 ms each, in four columns.
        let log = |value: u64| {
            (1..100)
                .map(|i| format!("{}, {value}, 0, 4096\n", i * 9))
                .collect::<String>()
        };
        assert_eq!(
            latencies(&import("x_clat.1.log", &log(8_900)))[0],
            8_900_000
        );
        assert_eq!(
            latencies(&import("x_clat.1.log", &log(8_900_000)))[0],
            8_900_000,
            "fio 3.0 had four columns too"
        );
        assert_eq!(
            latencies(&import("x_clat.1.log", "9, 8900, 0, 4096, 0\n"))[0],
            8900,
            "five columns: nanoseconds"
        );
        let averaged = import("x_lat.1.log", "500, 9000, 0, 0\n1000, 7000, 0, 0\n");
        assert_eq!(
            averaged.rates.get(0).expect("a row").classes[0].mean_us,
            Some(9000.0)
        );
    }

    #[test]
    fn averages_of_fio_2_have_the_block_size_of_their_job() {
        let log = |gap: u64| {
            (1..20)
                .map(|i| format!("{}, 1200, 1, 4096\n", i * gap))
                .collect::<String>()
        };
        let got = import("x_bw.1.log", &log(500));
        assert_eq!(
            (
                got.rates.len(),
                got.rates.get(3).expect("a row").interval_ns()
            ),
            (19, 500_000_000)
        );
        let single = parse_bytes(
            LogFormat::FioLog,
            Path::new("x_bw.1.log"),
            log(1).as_bytes(),
            ImportOptions::default(),
        );
        assert!(
            single
                .expect_err("single I/Os")
                .to_string()
                .contains("clat")
        );
    }

    #[test]
    fn logs_of_one_job_become_one_row_and_jobs_are_kept_apart() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, value: u32| {
            let path = dir.path().join(name);
            std::fs::write(
                &path,
                format!("500, {value}, 0, 0, 0\n1000, {value}, 0, 0, 0\n"),
            )
            .expect("written");
            path
        };
        let files = [
            file("j_bw.1.log", 4000),
            file("j_iops.1.log", 1000),
            file("j_lat.1.log", 70_000),
            file("j_iops.2.log", 500),
        ];
        let got = import_files(&files, ImportOptions::default()).expect("imports");
        let names: Vec<&str> = got.meta.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(
            (names.as_slice(), got.rates.len()),
            (&["fio:j", "fio:j.2"][..], 4)
        );
        let first = got.rates.of(got.meta.devices[0].id)[0].classes[0];
        assert_eq!(
            (first.ios_per_s, first.bytes_per_s, first.mean_us),
            (Some(1000.0), Some(4_096_000.0), Some(70.0))
        );
        // The same log with the same name in another directory is the same log.
        let other = dir.path().join("copy");
        std::fs::create_dir(&other).expect("made");
        let copy = other.join("j_iops.1.log");
        std::fs::copy(&files[1], &copy).expect("copied");
        let twice =
            import_files(&[files[1].clone(), copy], ImportOptions::default()).expect("imports");
        assert_eq!(
            (
                twice.rates.len(),
                twice.meta.limits[0].contains("the same log")
            ),
            (2, true),
            "{:?}",
            twice.meta.limits
        );
    }
}
