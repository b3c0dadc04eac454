use std::path::Path;

use super::super::files::parse_bytes;
use super::super::fixtures;
use super::super::log::{ImportOptions, Imported};
use super::super::recognise::{LogFormat, recognise};

const SECOND: i64 = 1_000_000_000;

fn import(text: &str) -> Imported {
    assert_eq!(recognise(text.as_bytes()), Some(LogFormat::Sadf), "{text}");
    parse_bytes(
        LogFormat::Sadf,
        Path::new("sadf"),
        text.as_bytes(),
        ImportOptions::default(),
    )
    .expect("imports")
}

fn fixture(name: &str) -> String {
    String::from_utf8(fixtures::bytes(name)).expect("UTF-8")
}

#[test]
fn tables_and_lists_of_values_of_one_file_say_the_same() {
    let table = import(&fixture("sadf.csv"));
    let values = import(&fixture("sadf.txt"));
    assert_eq!(table.damage.count, 0);
    assert_eq!((table.rates.len(), table.cpu.len()), (3, 3));
    assert_eq!(values.rates, table.rates);
    assert_eq!(values.cpu, table.cpu);
    let row = table.rates.get(0).expect("there");
    assert_eq!((row.from_ns, row.to_ns), (0, SECOND));
    assert_eq!(row.all.ios_per_s, Some(430.0));
    assert_eq!(row.classes[1].bytes_per_s, Some(520.0 * 1024.0));
    assert_eq!(table.cpu[2].user, Some(57.21));
    assert_eq!(table.meta.start_unix_ns, 1_795_521_768 * SECOND);
}

#[test]
fn the_table_and_the_text_of_sar_say_the_same() {
    let table = import(&fixture("sadf.csv"));
    let sar = parse_bytes(
        LogFormat::SarText,
        Path::new("sar"),
        &fixtures::bytes("sar-d.txt"),
        ImportOptions::default(),
    )
    .expect("imports");
    assert_eq!(table.rates, sar.rates);
    assert_eq!(table.cpu, sar.cpu);
    assert_eq!(table.meta.start_unix_ns, sar.meta.start_unix_ns);
}

#[test]
fn devices_side_by_side_epoch_times_restarts_and_other_tables() {
    let got = import(
        "# hostname;interval;timestamp;DEV;tps;rkB/s;await;%util[...]\n\
         a;10;1795521300;sda;1.00;2.00;3.00;4.00;sdb;5.00;6.00;7.00;8.00\n\
         a;-1;1795521305;LINUX-RESTART\t(2 CPU)\n\
         a;10;1795521320;sda;1.00;2.00;3.00;4.00;sdb;5.00;6.00;7.00\n\
         # hostname;interval;timestamp;IFACE;rxpck/s;txpck/s\n\
         a;10;1795521310;eth0;1.00;2.00\n",
    );
    let rows: Vec<_> = got.rates.iter().map(|r| r.all.ios_per_s).collect();
    assert_eq!(rows, [Some(1.0), Some(5.0)]);
    assert_eq!((got.damage.count, got.damage.places[0].at), (1, 4));
    let limits = &got.meta.limits;
    assert!(
        limits.iter().any(|l| l.starts_with("1 rows of sar")),
        "{limits:?}"
    );
}

#[test]
fn values_of_networks_and_of_all_disks_together_are_no_rows() {
    let got = import(
        "a\t1\t2026-11-24 12:02:49 UTC\t-\ttps\t9.00\n\
         a\t1\t2026-11-24 12:02:49 UTC\teth0\trxkB/s\t9.00\n\
         a\t1\t2026-11-24 12:02:49 UTC\tsda\ttps\t4.00\n\
         a\t1\t2026-11-24 12:02:49 UTC\tsda\tawait\t2.50\n",
    );
    assert_eq!(got.rates.len(), 1);
    let row = got.rates.get(0).expect("there");
    assert_eq!(
        (row.all.ios_per_s, row.all.mean_us),
        (Some(4.0), Some(2500.0))
    );
}

#[test]
fn a_heading_that_is_cut_is_damage_and_loses_no_row() {
    let whole = fixture("sadf.csv");
    let lines: Vec<&str> = whole.lines().collect();
    let rows_at = lines
        .iter()
        .position(|l| l.contains("loop0"))
        .expect("rows");
    for end in [";%util", ";wkB/s", ";tps", ";DEV"] {
        let heading = lines[rows_at - 1];
        let cut = &heading[..heading.find(end).expect("there")];
        let mut lines = lines.clone();
        lines.insert(rows_at + 1, cut);
        let got = import(&(lines.join("\n") + "\n"));
        assert_eq!((got.rates.len(), got.damage.count), (3, 1), "{cut}");
    }
}

#[test]
fn a_negative_value_costs_its_line() {
    let got = import(
        "# hostname;interval;timestamp;DEV;tps;rkB/s;await;%util\n\
         a;10;1795521310;sda;1.00;-2.00;3.00;4.00\n\
         a;10;1795521320;sda;5.00;6.00;7.00;8.00\n",
    );
    assert_eq!(got.rates.len(), 1);
    assert_eq!((got.damage.count, got.damage.places[0].at), (1, 2));
    let got = import(
        "a\t1\t2026-11-24 12:02:49 UTC\tsda\ttps\t4.00\n\
         a\t1\t2026-11-24 12:02:49 UTC\tsda\tawait\t-2.50\n",
    );
    let row = got.rates.get(0).expect("there");
    assert_eq!((row.all.ios_per_s, row.all.mean_us), (Some(4.0), None));
    assert_eq!((got.damage.count, got.damage.places[0].at), (1, 2));
}
