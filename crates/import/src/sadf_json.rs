//! Parses `sadf -j`: JSON of `sar`'s files.

use iolens_core::model::{CpuShares, SECOND_NS};

use super::clock::{DateOrder, Stamp, parse_stamp};
use super::damage::NEGATIVE;
use super::iostat_columns::{Column, Row, column};
use super::json::{Json, parse_documents};
use super::log::Log;
use super::sadf::{finish, put_share};

/// Parses all documents of a file.
pub(super) fn parse(log: &mut Log, bytes: &[u8]) {
    let documents = parse_documents(bytes);
    for p in &documents.problems {
        log.damaged(p.line, p.why);
    }
    for line in &documents.messages {
        log.other_line(*line);
    }
    for document in &documents.values {
        let sysstat = document.get("sysstat").unwrap_or(document);
        let hosts = sysstat.get("hosts").map(Json::items).unwrap_or_default();
        for host in hosts {
            read_host(log, host);
        }
    }
    finish(log, 0);
}

fn read_host(log: &mut Log, host: &Json<'_>) {
    let name = host.text_of("nodename").filter(|n| !n.is_empty());
    let name = name.map(str::to_owned);
    log.devices.set_host(name.clone());
    log.host = log.host.take().or(name);
    let kernel = host.text_of("release").map(str::to_owned);
    log.kernel = log.kernel.take().or(kernel);
    let reports = host.get("statistics").map(Json::items).unwrap_or_default();
    let mut undated: u64 = 0;
    for report in reports {
        // An interrupted document ends with a report without a time.
        let Some((from_ns, to_ns)) = interval(report) else {
            undated += 1;
            continue;
        };
        for load in report.get("cpu-load").map(Json::items).unwrap_or_default() {
            if load.text_of("cpu") == Some("all") {
                log.cpu.push(CpuShares {
                    from_ns,
                    to_ns,
                    ..shares(load)
                });
            }
        }
        for disk in report.get("disk").map(Json::items).unwrap_or_default() {
            let Some(mut row) = disk_row(log, disk) else {
                continue;
            };
            row.complete();
            row.rates.from_ns = from_ns;
            row.rates.to_ns = to_ns;
            log.rates.push(&row.rates);
        }
    }
    if undated > 0 {
        log.limit(&format!(
            "{undated} reports without a time or an interval were left out"
        ));
    }
}

/// `"timestamp": {"date": "2026-11-24", "time": "11:55:08", "utc": 1, "interval": 1}`.
fn interval(report: &Json<'_>) -> Option<(i64, i64)> {
    let stamp = report.get("timestamp")?;
    let date = stamp.text_of("date")?;
    let time = stamp.text_of("time")?;
    let Stamp::Unix(to_ns) = parse_stamp(&format!("{date} {time}"), DateOrder::MonthFirst)? else {
        return None;
    };
    let seconds = stamp.number_of("interval")?;
    let length_ns = (seconds.clamp(0.0, 1e9) * SECOND_NS as f64) as i64;
    (length_ns > 0).then(|| (to_ns.saturating_sub(length_ns), to_ns))
}

fn shares(load: &Json<'_>) -> CpuShares {
    let mut cpu = CpuShares::default();
    for (name, value) in load.entries() {
        if let Some(percent) = value.number() {
            put_share(&mut cpu, name, percent);
        }
    }
    cpu
}

fn disk_row(log: &mut Log, disk: &Json<'_>) -> Option<Row> {
    let name = disk.text_of("disk-device")?;
    let mut row = Row::new(log.devices.by_name(name.as_bytes()));
    for (key, value) in disk.entries() {
        // Newer versions repeat some values under older names; each quantity is used once.
        let superseded = match &**key {
            "rd_sec" | "wr_sec" | "dc_sec" => disk.get("rkB").is_some(),
            "avgqu-sz" => disk.get("aqu-sz").is_some(),
            _ => false,
        };
        let heading = match &**key {
            "util-percent" => "%util",
            "rkB" => "rkB/s",
            "wkB" => "wkB/s",
            "dkB" => "dkB/s",
            "rd_sec" => "rd_sec/s",
            "wr_sec" => "wr_sec/s",
            other => other,
        };
        let meaning = column(heading);
        if superseded || meaning == Column::Skip {
            continue;
        }
        if let Json::Negative { line, .. } = value {
            log.damaged(*line, NEGATIVE);
            return None;
        }
        if let Some(value) = value.number().filter(|v| *v >= 0.0) {
            row.put(meaning, (value, None));
        }
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::files::parse_bytes;
    use super::super::fixtures;
    use super::super::log::ImportOptions;
    use super::super::recognise::{LogFormat, recognise};

    #[test]
    fn reports_are_the_same_as_in_the_table_of_the_same_file() {
        let import = |kind, name: &str| {
            let bytes = fixtures::bytes(name);
            assert_eq!(recognise(&bytes), Some(kind), "{name}");
            parse_bytes(kind, Path::new(name), &bytes, ImportOptions::default()).expect("imports")
        };
        let json = import(LogFormat::SadfJson, "sadf.json");
        let table = import(LogFormat::Sadf, "sadf.csv");
        let values = import(LogFormat::Sadf, "sadf.txt");
        assert_eq!(json.damage.count, 0);
        assert_eq!(json.rates, table.rates);
        assert_eq!(json.cpu, table.cpu);
        assert_eq!(values.rates, table.rates);
        assert_eq!(values.cpu, table.cpu);
        assert_eq!(json.meta.start_unix_ns, table.meta.start_unix_ns);
    }

    #[test]
    fn a_negative_value_costs_the_row_and_is_named() {
        let whole = String::from_utf8(fixtures::bytes("sadf.json")).expect("UTF-8");
        let damaged = whole.replacen(
            "0.04, \"util-percent\": 3.60",
            "-0.04, \"util-percent\": 3.60",
            1,
        );
        assert_ne!(damaged, whole);
        let got = parse_bytes(
            LogFormat::SadfJson,
            Path::new("x"),
            damaged.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports");
        assert_eq!((got.rates.len(), got.damage.count), (2, 1));
        assert_eq!(got.damage.places[0].at, 28);
    }

    #[test]
    fn an_interrupted_document_keeps_its_whole_reports() {
        let whole = fixtures::bytes("sadf.json");
        let text = String::from_utf8(whole).expect("UTF-8");
        let cut = text.rfind("\"cpu-load\"").expect("is there");
        let got = parse_bytes(
            LogFormat::SadfJson,
            Path::new("x"),
            &text.as_bytes()[..cut],
            ImportOptions::default(),
        )
        .expect("imports");
        assert_eq!(got.damage.count, 1);
        assert_eq!(got.cpu.len(), 2, "of three reports the last has no rows");
    }
}
