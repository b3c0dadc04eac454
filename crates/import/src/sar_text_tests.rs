use std::path::Path;

use super::super::files::parse_bytes;
use super::super::fixtures;
use super::super::log::{ImportError, ImportOptions, Imported};
use super::super::recognise::{LogFormat, recognise};

const SECOND: i64 = 1_000_000_000;

fn import(text: &str) -> Imported {
    assert_eq!(
        recognise(text.as_bytes()),
        Some(LogFormat::SarText),
        "{text}"
    );
    parse_bytes(
        LogFormat::SarText,
        Path::new("sar.txt"),
        text.as_bytes(),
        ImportOptions::default(),
    )
    .expect("imports")
}

/// Beginning and end of each row, in seconds since the recording's start.
fn intervals(got: &Imported) -> Vec<(i64, i64)> {
    let rows = got.rates.iter();
    rows.map(|r| (r.from_ns / SECOND, r.to_ns / SECOND))
        .collect()
}

fn fixture(name: &str) -> Imported {
    import(&String::from_utf8(fixtures::bytes(name)).expect("UTF-8"))
}

#[test]
fn tables_of_a_real_run_hold_disks_and_processors() {
    let got = fixture("sar-d.txt");
    assert_eq!(
        (got.rates.len(), got.cpu.len(), got.damage.count),
        (3, 3, 0)
    );
    assert_eq!(intervals(&got), [(0, 1), (1, 2), (2, 3)]);
    let row = got.rates.get(2).expect("there");
    assert_eq!(row.all.ios_per_s, Some(430.0));
    assert_eq!(row.classes[0].bytes_per_s, Some(1200.0 * 1024.0));
    assert_eq!(row.classes[1].bytes_per_s, Some(520.0 * 1024.0));
    assert_eq!(row.all.mean_us, Some(110.0));
    assert_eq!((row.in_flight, row.util_percent), (Some(0.05), Some(11.2)));
    assert_eq!(
        row.classes[0].ios_per_s, None,
        "sar does not say reads apart"
    );
    assert_eq!(got.cpu[0].iowait, Some(0.0));
    assert_eq!(got.meta.start_unix_ns, 1_795_521_768 * SECOND);
    assert_eq!(got.meta.host.as_deref(), Some("host"));
    let pretty = fixture("sar-pretty.txt");
    assert_eq!(pretty.rates, got.rates, "the name may come last");
}

#[test]
fn older_versions_in_twelve_hour_time_cross_midnight_and_a_restart() {
    let got = import(
        "Linux 2.6.32-754.el6 (db1) \t02/03/14 \t_x86_64_\t(4 CPU)\n\n\
         11:40:01 PM       DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util\n\
         11:50:01 PM    dev8-0      3.00      8.00     80.00     20.00      0.02      5.86      1.00      0.41\n\
         11:50:01 PM   dev8-16      1.00      0.00      8.00      8.00      0.00      1.00      1.00      0.10\n\
         12:00:01 AM    dev8-0      6.00     16.00      0.00     20.00      0.02      5.86      1.00      0.41\n\
         Average:       dev8-0      4.00     12.00     80.00     20.00      0.02      5.86      1.00      0.41\n\n\
         12:03:00 AM       LINUX RESTART\n\n\
         12:10:01 AM       DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util\n\
         12:20:01 AM    dev8-0      9.00     16.00      0.00     20.00      0.02      5.86      1.00      0.41\n",
    );
    assert_eq!(got.damage.count, 0, "{:?}", got.damage);
    let expected = [(0, 600), (0, 600), (600, 1200), (1800, 2400)];
    assert_eq!(intervals(&got), expected);
    let row = got.rates.get(0).expect("there");
    assert_eq!(row.classes[1].bytes_per_s, Some(80.0 * 512.0));
    assert_eq!(row.service_us, Some(1000.0));
    // 2014-02-03 23:40:01.
    assert_eq!(got.meta.start_unix_ns, 1_391_470_801 * SECOND);
}

#[test]
fn tables_about_other_things_are_left_out_and_counted() {
    let got = import(
        "Linux 6.1.0 (h) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n\
         10:00:00        CPU      %usr     %nice      %sys   %iowait    %steal      %irq     %soft    %guest    %gnice     %idle\n\
         10:00:01        all     50.00      1.00     10.00      5.00      2.00      1.00      2.00      4.00      0.50     24.50\n\
         10:00:01          0     50.00      1.00     10.00      5.00      2.00      1.00      2.00      4.00      0.50     24.50\n\n\
         10:00:00       proc/s   cswch/s\n\
         10:00:01         1.00    200.00\n\n\
         10:00:00          tps      rtps      wtps      dtps   bread/s   bwrtn/s   bdscd/s\n\
         10:00:01         9.00      9.00      0.00      0.00     72.00      0.00      0.00\n\n\
         10:00:00          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n\
         10:00:01          sda      9.00     36.00      0.00      0.00      4.00      0.01      0.50      0.40\n",
    );
    assert_eq!((got.rates.len(), got.damage.count), (1, 0));
    let [cpu] = got.cpu[..] else {
        panic!("one row of all processors: {:?}", got.cpu)
    };
    assert_eq!((cpu.user, cpu.nice), (Some(54.0), Some(1.5)));
    assert_eq!((cpu.system, cpu.steal), (Some(13.0), Some(2.0)));
    let left_out = "2 rows of sar's tables about other things";
    let limits = &got.meta.limits;
    assert!(limits.iter().any(|l| l.contains(left_out)), "{limits:?}");
}

#[test]
fn a_damaged_row_costs_that_row_and_is_named() {
    let whole = String::from_utf8(fixtures::bytes("sar-d.txt")).expect("UTF-8");
    let damaged = whole.replacen(
        "12:02:50        loop0    430.00",
        "12:02:50        loop0    4?0.00",
        1,
    );
    assert_ne!(damaged, whole);
    let got = import(&damaged);
    assert_eq!((got.rates.len(), got.damage.count), (2, 1));
    assert_eq!(got.damage.places[0].at, 11);
    let cut = whole.trim_end();
    let cut = &cut[..cut.rfind("Average").expect("there") - 2];
    let got = import(cut);
    assert_eq!((got.rates.len(), got.damage.count), (2, 1), "11.2 of 11.20");
}

#[test]
fn processors_alone_are_refused_with_what_is_missing() {
    let text = "Linux 6.1.0 (h) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n\
                10:00:00        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                10:00:01        all     50.00      1.00     10.00      5.00      2.00     32.00\n";
    let got = parse_bytes(
        LogFormat::SarText,
        Path::new("x"),
        text.as_bytes(),
        ImportOptions::default(),
    );
    let Err(ImportError::Empty { why, .. }) = got else {
        panic!("{got:?}")
    };
    assert!(why.contains("sar -d"), "{why}");
}

#[test]
fn a_heading_that_is_cut_is_damage_and_loses_no_interval() {
    for name in ["sar-d.txt", "sar-pretty.txt"] {
        let whole = String::from_utf8(fixtures::bytes(name)).expect("UTF-8");
        let lines: Vec<&str> = whole.lines().collect();
        let rows_at = lines
            .iter()
            .position(|l| l.contains("loop0"))
            .expect("rows");
        let heading = lines[rows_at - 1];
        for end in ["%util", "await", "wkB/s"] {
            let cut = &heading[..heading.find(end).expect("there")];
            for at in rows_at..rows_at + 3 {
                let mut lines = lines.clone();
                lines.insert(at, cut);
                let got = import(&(lines.join("\n") + "\n"));
                assert_eq!((got.rates.len(), got.damage.count), (3, 1), "{name}: {cut}");
                assert_eq!(got.damage.places[0].at, at as u64 + 1);
            }
        }
    }
}

#[test]
fn a_negative_value_costs_its_row_and_the_next_one_keeps_its_interval() {
    let whole = String::from_utf8(fixtures::bytes("sar-d.txt")).expect("UTF-8");
    let damaged = whole.replacen("0.04      3.60", "0.04     -3.60", 1);
    assert_ne!(damaged, whole);
    let got = import(&damaged);
    assert_eq!(intervals(&got), [(0, 1), (2, 3)]);
    assert_eq!((got.damage.count, got.damage.places[0].at), (1, 11));
}
