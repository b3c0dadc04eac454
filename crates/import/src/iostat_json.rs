//! Parses `iostat -o JSON`, including interrupted output and the invalid output of some versions.

use iolens_core::model::CpuShares;

use super::clock::{DateOrder, day_must_be_first, parse_banner_date, parse_stamp};
use super::damage::NEGATIVE;
use super::intervals::{Report, Run, place};
use super::iostat_columns::{Column, Row, column};
use super::json::{Json, parse_documents};
use super::log::Log;

/// Parses all documents of a file.
pub fn parse(log: &mut Log, bytes: &[u8]) {
    let documents = parse_documents(bytes);
    for p in &documents.problems {
        log.damaged(p.line, p.why);
    }
    let hosts: Vec<&Json<'_>> = documents
        .values
        .iter()
        .flat_map(|d| {
            d.get("sysstat")
                .unwrap_or(d)
                .get("hosts")
                .map(Json::items)
                .unwrap_or(std::slice::from_ref(d))
        })
        .collect();
    documents
        .messages
        .iter()
        .for_each(|line| log.other_line(*line));
    let mut skipped = first_reports_skipped(bytes).into_iter();
    let mut runs = Vec::new();
    for host in &hosts {
        let has_reports = host.get("statistics").is_some();
        let skipped = has_reports && skipped.next().unwrap_or(false);
        runs.push(run(log, host, !skipped));
    }
    log.limit(
        "source prints averages per interval: no single I/O, no percentiles, no exact busy time",
    );
    place(log, runs, false);
}

/// For each list of reports, whether an empty line precedes its first. `iostat -y` leaves it in place of the report
/// since boot, and JSON parsers cannot see it.
fn first_reports_skipped(bytes: &[u8]) -> Vec<bool> {
    const KEY: &[u8] = b"\"statistics\"";
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(KEY.len()).position(|w| w == KEY) {
        rest = &rest[at + KEY.len()..];
        let begin = rest
            .iter()
            .position(|b| !matches!(b, b' ' | b':' | b'[' | b'\t'))
            .unwrap_or(rest.len());
        let blank = rest[begin..].iter().take_while(|b| b.is_ascii_whitespace());
        out.push(blank.filter(|b| **b == b'\n').count() > 1);
    }
    out
}

fn run(log: &mut Log, host: &Json<'_>, since_boot_first: bool) -> Run {
    let name = host.text_of("nodename").unwrap_or_default();
    let known = (!name.is_empty()).then(|| name.to_owned());
    log.devices.set_host(known.clone());
    log.host = log.host.take().or(known);
    log.kernel = log
        .kernel
        .take()
        .or_else(|| host.text_of("release").map(str::to_owned));
    let reports = host.get("statistics").map(Json::items).unwrap_or_default();
    let stamps = reports.iter().filter_map(|r| r.text_of("timestamp"));
    let dates = stamps.chain(host.text_of("date"));
    let order = if dates.into_iter().any(day_must_be_first) {
        DateOrder::DayFirst
    } else {
        DateOrder::MonthFirst
    };
    let date_unix_ns = host
        .text_of("date")
        .and_then(|d| parse_banner_date(d, order));
    let mut out = Run {
        date_unix_ns: date_unix_ns.map(|d| [d; 2]),
        decimals: Some(2),
        ..Run::default()
    };
    for (i, r) in reports.iter().enumerate() {
        let stamp = r.text_of("timestamp").and_then(|t| parse_stamp(t, order));
        let since_boot = i == 0 && since_boot_first;
        let mut report = Report {
            stamp: stamp.map(|s| [s; 2]),
            since_boot,
            cpu: r.get("avg-cpu").map(cpu),
            ..Report::default()
        };
        for disk in r.get("disk").map(Json::items).unwrap_or_default() {
            report.rows.extend(row(log, disk));
        }
        report.close(log);
        out.reports.push(report);
    }
    out
}

fn cpu(c: &Json<'_>) -> CpuShares {
    CpuShares {
        user: c.number_of("user"),
        nice: c.number_of("nice"),
        system: c.number_of("system"),
        iowait: c.number_of("iowait"),
        steal: c.number_of("steal"),
        idle: c.number_of("idle"),
        ..CpuShares::default()
    }
}

fn row(log: &mut Log, disk: &Json<'_>) -> Option<Row> {
    let name = disk.text_of("disk_device")?;
    // iostat puts a blank before the name of a group.
    let dev = match name.strip_prefix(' ') {
        Some(group) => log.devices.group(group.as_bytes()),
        None => log.devices.by_name(name.as_bytes()),
    };
    // The import is rejected in the end; rows of devices without a number would only take memory.
    if log.devices.too_many() {
        return None;
    }
    let mut row = Row::new(dev);
    let mut has_cells = false;
    for (key, v) in disk.entries() {
        let column = column(key);
        if column == Column::Skip {
            continue;
        }
        if let Json::Negative { line, .. } = v {
            log.damaged(*line, NEGATIVE);
            return None;
        }
        if let Some(v) = v.number().filter(|v| *v >= 0.0) {
            row.put(column, (v, None));
            has_cells = true;
        }
    }
    has_cells.then_some(row)
}

#[cfg(test)]
mod tests {
    use super::super::files::parse_bytes;
    use super::super::fixtures;
    use super::super::log::ImportOptions;
    use super::super::recognise::LogFormat;
    use std::path::Path;

    #[test]
    fn extended_reports_of_a_real_run() {
        let got = parse_bytes(
            LogFormat::IostatJson,
            Path::new("x"),
            &fixtures::bytes("iostat-x.json"),
            ImportOptions::default(),
        )
        .expect("imports");
        assert_eq!(got.rates.len(), 2, "three reports, the first since boot");
        let r = got.rates.get(0).expect("there");
        assert_eq!(r.classes[0].ios_per_s, Some(300.0));
        assert_eq!(r.classes[1].bytes_per_s, Some(520.0 * 1024.0));
        assert_eq!(
            r.classes[2].mean_us, None,
            "no discards, so no mean of them"
        );
        assert_eq!(r.interval_ns(), 1_000_000_000);
        assert_eq!(got.cpu[0].nice, Some(4.57));
        assert_eq!(got.damage.count, 0);
    }

    #[test]
    fn an_interrupted_document_gives_its_whole_reports() {
        let got = parse_bytes(
            LogFormat::IostatJson,
            Path::new("x"),
            &fixtures::bytes("iostat-cut.json"),
            ImportOptions::default(),
        )
        .expect("imports");
        assert!(got.rates.len() >= 2);
        assert_eq!(got.damage.count, 1);
        let strict = ImportOptions {
            strict: true,
            ..ImportOptions::default()
        };
        let e = parse_bytes(
            LogFormat::IostatJson,
            Path::new("x.json"),
            &fixtures::bytes("iostat-cut.json"),
            strict,
        )
        .expect_err("is damaged");
        assert!(e.to_string().contains("x.json: line "), "{e}");
    }

    #[test]
    fn a_negative_value_costs_the_row_and_moves_no_interval() {
        let text = r#"{"sysstat": {"hosts": [{"nodename": "a", "statistics": [

            {"disk": [{"disk_device": "sda", "r/s": 1.00, "w/s": 2.00}]},
            {"disk": [{"disk_device": "sda", "r/s": 3.00, "w/s": -2.00}]},
            {"disk": [{"disk_device": "sda", "r/s": 5.00, "w/s": 2.00}]}]}]}}"#;
        let got = parse_bytes(
            LogFormat::IostatJson,
            Path::new("x.json"),
            text.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports");
        let rows = got.rates.iter();
        let rows: Vec<_> = rows.map(|r| (r.to_ns, r.classes[0].ios_per_s)).collect();
        let expected = [(1_000_000_000, Some(1.0)), (3_000_000_000, Some(5.0))];
        assert_eq!(rows, expected);
        assert_eq!((got.damage.count, got.damage.places[0].at), (1, 4));
    }

    #[test]
    fn a_name_longer_than_any_is_said_where_it_is() {
        let name = "x".repeat(1 << 20);
        let text = format!(
            r#"{{"sysstat": {{"hosts": [{{"nodename": "a", "statistics": [
                {{"disk": [{{"disk_device": "{name}"}}]}}]}}]}}}}"#
        );
        let got = parse_bytes(
            LogFormat::IostatJson,
            Path::new("x.json"),
            text.as_bytes(),
            ImportOptions::default(),
        );
        let message = got.expect_err("nothing is in it").to_string();
        let expected = "x.json: nothing in it could be used; line 2: a string longer than any tool prints: \
                        the rest of it was left out";
        assert_eq!(message, expected);
    }

    #[test]
    fn the_first_report_may_be_none_since_boot() {
        let bytes = fixtures::bytes("iostat-basic.json");
        // The empty line that -y leaves is lost if another program reformats the document; totals also show it.
        let laid_out = String::from_utf8(bytes.clone())
            .expect("UTF-8")
            .replace("\n\n", "\n");
        assert_ne!(laid_out.as_bytes(), bytes);
        let [got, same] = [&bytes[..], laid_out.as_bytes()].map(|b| {
            parse_bytes(
                LogFormat::IostatJson,
                Path::new("x"),
                b,
                ImportOptions::default(),
            )
            .expect("imports")
        });
        assert_eq!(got.rates, same.rates);
        assert_eq!(got.rates.len(), 3, "iostat -y printed three");
        assert_eq!(got.rates.get(2).expect("there").to_ns, 3_000_000_000);
    }
}
