//! Aligns the boundaries of averaged rows in all logs of one fio job.
//!
//! fio writes a row of latencies when the first I/O after the end of an interval completes: the log of latencies may say
//! 1503 ms, or after a slow I/O 1740 ms, where the log of IOPS says 1500 ms. Rows with the same boundaries become one row
//! later, a mean beside its number of I/Os.

use std::collections::HashMap;

use iolens_core::model::{DevId, IntervalRates, RateRows};

use super::intervals::upper_median;
use super::log::Log;
use super::recognise::LogFormat;

/// A row that ends before a known boundary by at most this part (a tenth) of the usual length of a row ends there.
const NEAR_PART: i64 = 10;
/// So does one that ends before it by at most this part (a half), if no boundary before it is free.
const FAR_PART: i64 = 2;
/// What [`precedence`] is for a log of latencies.
const OF_LATENCIES: u8 = 2;
/// Classes of I/O that a row may be of.
const CLASSES: usize = 4;

/// Moves ends of rows to those of the same boundary in the other logs of the job, whatever the order of the files.
pub(super) fn unite(logs: &mut [(LogFormat, Log)]) {
    let mut fio_logs: Vec<&mut Log> = Vec::new();
    for (kind, log) in logs.iter_mut() {
        if *kind == LogFormat::FioLog {
            fio_logs.push(log);
        }
    }
    fio_logs.sort_by_key(|log| precedence(log));
    let mut known: HashMap<DevId, Vec<i64>> = HashMap::new();
    let first_of_latencies = fio_logs.partition_point(|log| precedence(log) < OF_LATENCIES);
    let latencies = fio_logs.split_off(first_of_latencies);
    let rates = fio_logs;
    for log in rates {
        unite_log(log, &mut known);
    }
    let of_rates = known.clone();
    for log in latencies {
        unite_log(log, &mut known);
        divide_rows(log, &of_rates);
    }
}

/// Divides the rows of latencies in which rows of rates end. fio writes no row for an interval without a completion: the next
/// one has the I/Os of both intervals, and its mean is the best that is known of each.
fn divide_rows(log: &mut Log, of_rates: &HashMap<DevId, Vec<i64>>) {
    let Some(first) = log.rates.get(0) else {
        return;
    };
    let of_job = of_rates.get(&first.dev);
    let boundaries = of_job.map(Vec::as_slice).unwrap_or_default();
    // Each boundary is inside of one row of each class. More parts are of a damaged log, in which rows overlap.
    let max_parts = log.rates.len() + CLASSES * boundaries.len();
    let mut parts = RateRows::default();
    for row in log.rates.iter() {
        let first = boundaries.partition_point(|b| *b <= row.from_ns);
        let end = boundaries.partition_point(|b| *b < row.to_ns);
        let inside = boundaries.get(first..end).unwrap_or_default();
        let mut rest = row;
        if parts.len() + inside.len() < max_parts {
            for boundary_ns in inside {
                let mut part = rest;
                part.to_ns = *boundary_ns;
                parts.push(&part);
                rest.from_ns = *boundary_ns;
            }
        }
        parts.push(&rest);
    }
    log.rates = parts;
}

/// Logs of rates come first: fio writes their rows on time.
fn precedence(log: &Log) -> u8 {
    let Some(first) = log.rates.get(0) else {
        return u8::MAX;
    };
    let class = first.classes[class_of(&first)];
    if class.ios_per_s.is_some() {
        0
    } else if class.bytes_per_s.is_some() {
        1
    } else {
        OF_LATENCIES
    }
}

/// Each fio log is of one job, and each row has one quantity of one class.
fn unite_log(log: &mut Log, known: &mut HashMap<DevId, Vec<i64>>) {
    let Some(first) = log.rates.get(0) else {
        return;
    };
    let known = known.entry(first.dev).or_default();
    let mut classes = Vec::with_capacity(log.rates.len());
    let mut ends: [Vec<i64>; CLASSES] = Default::default();
    for row in log.rates.iter() {
        let class = class_of(&row);
        classes.push(class);
        ends[class].push(row.to_ns);
        // After a damaged row, the next one begins where no row ends.
        if row.from_ns > 0 {
            ends[class].push(row.from_ns);
        }
    }
    let mut moved: [HashMap<i64, i64>; CLASSES] = Default::default();
    for (class, ends) in ends.into_iter().enumerate() {
        moved[class] = moved_ends(ends, known);
    }
    if moved.iter().all(HashMap::is_empty) {
        return;
    }
    let mut classes = classes.into_iter();
    log.rates
        .replace(0..log.rates.len(), |from_ns, to_ns, dev| {
            let moved = &moved[classes.next().unwrap_or(0)];
            // A row begins where the previous row of its class ends.
            let from_ns = moved.get(&from_ns).copied().unwrap_or(from_ns);
            let to_ns = moved.get(&to_ns).copied().unwrap_or(to_ns);
            (from_ns, to_ns, dev)
        });
}

fn class_of(row: &IntervalRates) -> usize {
    let known = row.classes.iter().position(|class| !class.is_empty());
    known.unwrap_or(0)
}

/// The ends that move, and their new values. An end that is not near a known boundary becomes a new one. `known` is
/// sorted.
fn moved_ends(mut ends: Vec<i64>, known: &mut Vec<i64>) -> HashMap<i64, i64> {
    ends.sort_unstable();
    ends.dedup();
    let mut moved = HashMap::new();
    if known.is_empty() {
        *known = ends;
        return moved;
    }
    let length_ns = usual_length_ns(&ends);
    let mut new_boundaries = Vec::new();
    let mut earliest_ns = i64::MIN;
    for (i, end_ns) in ends.iter().copied().enumerate() {
        // Ends stay sorted: two rows never end at the same boundary, even if they are close together in a log.
        let before_next_ns = ends.get(i + 1).map_or(i64::MAX, |next| next - 1);
        // The end of a row is late by the latency of an I/O. A whole length later is the end of the next row.
        let latest_delay_ns = length_ns.saturating_sub(1).max(0);
        let from_ns = end_ns.saturating_sub(latest_delay_ns).max(earliest_ns);
        let near_ns = end_ns.saturating_add(length_ns / NEAR_PART);
        let far_ns = end_ns.saturating_add(length_ns / FAR_PART);
        let near = nearest(known, end_ns, from_ns, near_ns.min(before_next_ns));
        let found = near.or_else(|| nearest(known, end_ns, from_ns, far_ns.min(before_next_ns)));
        let boundary_ns = match found {
            Some(boundary_ns) => boundary_ns,
            None => {
                new_boundaries.push(end_ns);
                end_ns
            }
        };
        if boundary_ns != end_ns {
            moved.insert(end_ns, boundary_ns);
        }
        earliest_ns = boundary_ns.saturating_add(1);
    }
    known.extend(new_boundaries);
    known.sort_unstable();
    moved
}

/// The median distance of consecutive ends, the first of which is the length of its own row.
fn usual_length_ns(ends: &[i64]) -> i64 {
    let mut lengths = Vec::with_capacity(ends.len());
    let mut before_ns = 0;
    for end_ns in ends {
        lengths.push(end_ns.saturating_sub(before_ns));
        before_ns = *end_ns;
    }
    upper_median(&mut lengths).unwrap_or(0)
}

/// The known boundary in `from_ns..=to_ns` nearest to `end_ns`.
fn nearest(known: &[i64], end_ns: i64, from_ns: i64, to_ns: i64) -> Option<i64> {
    let at = known.partition_point(|boundary| *boundary < end_ns);
    let above = known.get(at);
    let below = at.checked_sub(1).and_then(|i| known.get(i));
    let neighbours = [below, above].into_iter().flatten().copied();
    let near = neighbours.filter(|boundary| (from_ns..=to_ns).contains(boundary));
    near.min_by_key(|boundary| boundary.abs_diff(end_ns))
}

#[cfg(test)]
mod tests {
    use super::super::files::import_files;
    use super::super::log::{ImportOptions, Imported};
    use super::*;

    /// The logs of a job named `a`, imported together in this order.
    fn imported(logs: &[(&str, &str)]) -> Imported {
        let dir = tempfile::tempdir().expect("a directory");
        let mut files = Vec::new();
        for (name, text) in logs {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("written");
            files.push(path);
        }
        import_files(&files, ImportOptions::default()).expect("imports")
    }

    fn has_note(got: &Imported) -> bool {
        let limits = &got.meta.limits;
        limits.iter().any(|l| l.contains("number of I/Os"))
    }

    /// End in milliseconds, writes per second and their mean latency in microseconds.
    fn writes(got: &Imported) -> Vec<(i64, Option<f64>, Option<f64>)> {
        let mut rows = Vec::new();
        for row in got.rates.iter() {
            let writes = row.classes[1];
            rows.push((row.to_ns / 1_000_000, writes.ios_per_s, writes.mean_us));
        }
        rows
    }

    const IOPS: &str =
        "500, 302, 1, 0, 0\n1000, 300, 1, 0, 0\n1500, 298, 1, 0, 0\n2000, 302, 1, 0, 0\n";
    const LATENCY: &str = "500, 600000, 1, 0, 0\n1000, 600000, 1, 0, 0\n1503, 1800000, 1, 0, 0\n2000, 600000, 1, 0, 0\n";

    #[test]
    fn a_row_that_is_3_ms_late_is_of_the_same_interval() {
        let got = imported(&[("a_iops.1.log", IOPS), ("a_lat.1.log", LATENCY)]);
        let expected = [
            (500, Some(302.0), Some(600.0)),
            (1000, Some(300.0), Some(600.0)),
            (1500, Some(298.0), Some(1800.0)),
            (2000, Some(302.0), Some(600.0)),
        ];
        assert_eq!(writes(&got), expected);
        let mut ios = 0.0;
        let mut time_us = 0.0;
        for (_, rate, mean_us) in expected {
            let rate = rate.expect("known");
            ios += rate;
            time_us += rate * mean_us.expect("known");
        }
        let mean_us = time_us / ios;
        assert!((mean_us - 897.5).abs() < 0.01, "{mean_us}");
        assert!(!has_note(&got), "{:?}", got.meta.limits);
    }

    /// The mean latency of all writes in microseconds, weighted by their number.
    fn mean_us(got: &Imported) -> f64 {
        let mut ios = 0.0;
        let mut time_us = 0.0;
        for (_, rate, mean_us) in writes(got) {
            let rate = rate.expect("a number of I/Os");
            ios += rate;
            time_us += rate * mean_us.expect("a mean");
        }
        time_us / ios
    }

    #[test]
    fn a_row_of_slow_ios_is_late_and_keeps_its_weight() {
        let iops =
            "500, 600, 1, 0, 0\n1000, 600, 1, 0, 0\n1500, 1800, 1, 0, 0\n2000, 600, 1, 0, 0\n";
        for late_ms in [1570, 1740, 1900] {
            let latency = format!(
                "500, 1000000, 1, 0, 0\n1000, 1000000, 1, 0, 0\n{late_ms}, 4000000, 1, 0, 0\n2000, 1000000, 1, 0, 0\n"
            );
            let got = imported(&[("a_iops.1.log", iops), ("a_lat.1.log", latency.as_str())]);
            let mean_us = mean_us(&got);
            assert!((mean_us - 2500.0).abs() < 0.01, "{late_ms}: {mean_us}");
            assert!(!has_note(&got), "{:?}", got.meta.limits);
        }
    }

    #[test]
    fn a_row_of_two_intervals_has_the_ios_of_both() {
        let iops = "500, 100, 1, 0, 0\n1000, 300, 1, 0, 0\n1500, 0, 1, 0, 0\n2000, 100, 1, 0, 0\n";
        // Nothing completes between 1000 and 1500 ms.
        let latency = "501, 1000000, 1, 0, 0\n1510, 3000000, 1, 0, 0\n2001, 1000000, 1, 0, 0\n";
        let got = imported(&[("a_iops.1.log", iops), ("a_lat.1.log", latency)]);
        let expected = [
            (500, Some(100.0), Some(1000.0)),
            (1000, Some(300.0), Some(3000.0)),
            (1500, Some(0.0), Some(3000.0)),
            (2000, Some(100.0), Some(1000.0)),
        ];
        assert_eq!(writes(&got), expected);
        assert!(!has_note(&got), "{:?}", got.meta.limits);
    }

    #[test]
    fn the_order_of_the_files_changes_nothing() {
        let latency = "570, 900000, 1, 0, 0\n1004, 900000, 1, 0, 0\n1568, 4000000, 1, 0, 0\n";
        let iops = "504, 200, 1, 0, 0\n1005, 200, 1, 0, 0\n1505, 190, 1, 0, 0\n";
        let logs = [("a_clat.1.log", latency), ("a_iops.1.log", iops)];
        let by_name = writes(&imported(&logs));
        let expected = [
            (504, Some(200.0), Some(900.0)),
            (1005, Some(200.0), Some(900.0)),
            (1505, Some(190.0), Some(4000.0)),
        ];
        assert_eq!(by_name, expected);
        assert_eq!(writes(&imported(&[logs[1], logs[0]])), by_name);
    }

    #[test]
    fn rows_of_a_real_log_end_with_the_rows_of_rates() {
        let mut known = vec![504, 1005, 1505, 2005, 2505];
        let moved = moved_ends(vec![570, 1004, 1568, 2004, 2500], &mut known);
        let expected = [
            (570, 504),
            (1004, 1005),
            (1568, 1505),
            (2004, 2005),
            (2500, 2505),
        ];
        assert_eq!(moved, HashMap::from(expected));
        assert_eq!(known, [504, 1005, 1505, 2005, 2505]);
    }

    #[test]
    fn a_row_after_a_damaged_one_is_of_its_interval() {
        let iops = "504, 200, 1, 0, 0\n1005, 200, 1, 0, 0\n1505, 190, 1, 0, 0\n";
        let latency = "570, 900000, 1, 0, 0\n1004, -9, 1, 0, 0\n1568, 4000000, 1, 0, 0\n";
        let got = imported(&[("a_iops.1.log", iops), ("a_lat.1.log", latency)]);
        let expected = [
            (504, Some(200.0), Some(900.0)),
            (1005, Some(200.0), None),
            (1505, Some(190.0), Some(4000.0)),
        ];
        assert_eq!(writes(&got), expected);
    }

    #[test]
    fn rows_of_rates_may_be_the_late_ones() {
        let mut known = vec![504, 1005, 1620, 2003];
        let moved = moved_ends(vec![504, 1004, 1502, 2003], &mut known);
        assert_eq!(moved, HashMap::from([(1004, 1005), (1502, 1620)]));
    }

    #[test]
    fn classes_of_one_log_may_be_late_apart() {
        let log = "500, 9, 0, 0, 0\n500, 7, 1, 0, 0\n1000, 9, 0, 0, 0\n1004, 7, 1, 0, 0\n";
        let got = imported(&[("a_iops.1.log", log)]);
        let expected = [(500, Some(7.0), None), (1000, Some(7.0), None)];
        assert_eq!(writes(&got), expected);
    }

    #[test]
    fn latencies_without_a_number_of_ios_are_noted() {
        assert!(has_note(&imported(&[("a_lat.1.log", LATENCY)])));
        let short = "500, 302, 1, 0, 0\n";
        let got = imported(&[("a_iops.1.log", short), ("a_lat.1.log", LATENCY)]);
        let limits = &got.meta.limits;
        assert!(
            limits.iter().any(|l| l.starts_with("3 rows have")),
            "{limits:?}"
        );
        let most = "500, 302, 1, 0, 0\n1000, 302, 1, 0, 0\n1500, 302, 1, 0, 0\n";
        let got = imported(&[("a_iops.1.log", most), ("a_lat.1.log", LATENCY)]);
        let limits = &got.meta.limits;
        assert!(
            limits.iter().any(|l| l.starts_with("1 row has")),
            "{limits:?}"
        );
    }

    #[test]
    fn ends_stay_in_order_and_far_ones_where_they_are() {
        let mut known = vec![500, 1000, 2000];
        let moved = moved_ends(vec![503, 1000, 1500, 1998, 2004], &mut known);
        // 2004 is near 2000 as well, which is the end of the row before it.
        assert_eq!(moved, HashMap::from([(503, 500), (1998, 2000)]));
        assert_eq!(known, [500, 1000, 1500, 2000, 2004]);
    }
}
