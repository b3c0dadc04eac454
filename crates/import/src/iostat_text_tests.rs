#![allow(clippy::unwrap_used)]
use super::super::files::{import_files, parse_bytes};
use super::super::fixtures;
use super::super::log::{ImportOptions, Imported};
use super::super::recognise::{LogFormat, recognise};
use iolens_core::model::Class;
use proptest::prelude::*;
use std::path::Path;

const KIB: f64 = 1024.0;

fn import(text: &str) -> Imported {
    assert_eq!(recognise(text.as_bytes()), Some(LogFormat::IostatText));
    parse_bytes(
        LogFormat::IostatText,
        Path::new("i.txt"),
        text.as_bytes(),
        ImportOptions::default(),
    )
    .unwrap()
}

/// Every option set was captured in the same seconds from a disk that fio drove at a fixed rate.
#[test]
fn twelve_and_more_option_sets_of_one_run_agree() {
    // (file, reports without the one since boot, knows classes, knows bytes exactly)
    for (name, reports) in [
        ("iostat-x.txt", 3),
        ("iostat-xt.txt", 3),
        ("iostat-dxy.txt", 4),
        ("iostat-basic-c-d.txt", 2),
        ("iostat-k.txt", 2),
        ("iostat-m.txt", 2),
        ("iostat-xm.txt", 2),
        ("iostat-human.txt", 3),
        ("iostat-human-x.txt", 3),
        ("iostat-short.txt", 2),
        ("iostat-short-basic.txt", 3),
        ("iostat-z.txt", 3),
        ("iostat-p.txt", 3),
        ("iostat-iso.txt", 3),
        ("iostat-blk.txt", 3),
        ("iostat-cut.txt", 3),
    ] {
        let got = import_files(
            &[fixtures::path(name)],
            ImportOptions {
                strict: true,
                ..ImportOptions::default()
            },
        )
        .unwrap();
        let dev = got
            .meta
            .devices
            .iter()
            .find(|d| d.name.starts_with("loop"))
            .unwrap_or_else(|| panic!("{name}"))
            .id;
        let rows: Vec<_> = got.rates.iter().filter(|r| r.dev == dev).collect();
        assert_eq!(rows.len(), reports, "{name}");
        assert_eq!(
            got.meta.kernel.as_deref(),
            Some("6.18.44-fc-v657"),
            "{name}"
        );
        for r in rows {
            assert_eq!(r.interval_ns(), 1_000_000_000, "{name}");
            let tps = r
                .all
                .ios_per_s
                .or_else(|| Some(r.classes[0].ios_per_s? + r.classes[1].ios_per_s?))
                .unwrap();
            assert!((tps - 430.0).abs() <= 8.0, "{name}: {tps} I/O/s");
            let bytes = r
                .all
                .bytes_per_s
                .or_else(|| Some(r.classes[0].bytes_per_s? + r.classes[1].bytes_per_s?));
            let kib = bytes.unwrap() / KIB;
            assert!(
                (kib - 1720.0).abs() <= 40.0,
                "{name}: {kib} KiB/s (two decimals of MB or one of M are coarse)"
            );
            if let Some(us) = r.classes[Class::Read as usize].mean_us {
                assert!((100.0..2000.0).contains(&us), "{name}: {us} us");
            }
        }
    }
}

#[test]
fn processors_shares_are_kept_apart() {
    let got = import_files(
        &[fixtures::path("iostat-human.txt")],
        ImportOptions::default(),
    )
    .unwrap();
    assert_eq!(got.cpu.len(), 3);
    assert_eq!((got.cpu[1].nice, got.cpu[1].idle), (Some(29.1), Some(51.8)));
}

#[test]
fn the_columns_of_sysstat_9_and_10() {
    let got = import(
        "Linux 2.6.32 (db1) \t06/02/2016 \t_x86_64_\t(8 CPU)\n\n\
         Time: 04:20:00 PM\n\
         Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util\n\
         vdb               1.03     2.17   10.31    5.42    82.48    43.36     8.00     0.20   12.34   1.50   2.25\n\n\
         Time: 04:20:02 PM\n\
         Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util\n\
         vdb               0.00     0.00  179.00    0.00  1432.00     0.00     8.00     1.00    5.59   5.58  99.80\n\
         dm-0              0.00     0.00    0.00    0.00     0.00     0.00     0.00     0.00    0.00   0.00   0.00\n\n\
         Time: 04:20:04 PM\n\
         Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util\n\
         vdb               0.00     0.00  165.00    0.00  1320.00     0.00     8.00     0.99    6.02   6.02  99.40\n",
    );
    assert_eq!(got.rates.len(), 3, "the report since boot is left out");
    let r = got.rates.get(0).expect("there");
    assert_eq!(r.classes[0].bytes_per_s, Some(716.0 * KIB));
    assert_eq!(
        (r.all.mean_us, r.classes[0].mean_us),
        (Some(5590.0), None),
        "await mixes reads and writes"
    );
    assert_eq!(
        (r.in_flight, r.service_us, r.util_percent),
        (Some(1.0), Some(5580.0), Some(99.8))
    );
    assert_eq!(r.classes[0].ios(r.interval_ns()), Some(358));
    assert_eq!(
        r.classes[Class::Discard as usize].ios_per_s,
        None,
        "sysstat 9 knows no discards"
    );
    assert_eq!(
        got.meta.start_unix_ns,
        1_464_884_400 * 1_000_000_000,
        "16:20:00 on the banner's day"
    );
}

#[test]
fn published_rows_without_banner_are_rows() {
    let got = import(
        "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n\
         vdb               0.00     0.00  179.00    0.00   716.00     0.00     8.00     1.00    5.59    5.59    0.00   5.58  99.80\n",
    );
    let r = got.rates.get(0).expect("there");
    assert_eq!(
        (r.classes[0].mean_us, r.classes[1].mean_us),
        (Some(5590.0), None)
    );
    assert_eq!(r.classes[0].bytes_per_s, Some(716.0 * KIB));
}

#[test]
fn commas_damage_and_a_cut_end() {
    let text = "Linux 6.1.0 (h) \t21.11.2026 \t_x86_64_\t(2 CPU)\n\n\n\
        21.11.2026 09:20:01\nDevice             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd\n\
        sda              12,50       100,00         0,00         0,00        200          0          0\n\
        sdb              12,50       what           0,00         0,00        200          0          0\n\n\
        21.11.2026 09:20:03\nDevice             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd\n\
        sda              13,50       110,00         0,00         0,00        220          0          0\n\
        sdb              13,50       11";
    let got = import(text);
    assert_eq!(got.rates.len(), 2);
    assert_eq!(got.rates.get(0).expect("there").all.ios_per_s, Some(12.5));
    assert_eq!(
        got.rates.get(0).expect("there").interval_ns(),
        2_000_000_000
    );
    assert_eq!(
        got.damage.places.iter().map(|p| p.at).collect::<Vec<_>>(),
        [7, 12]
    );
    let strict = ImportOptions {
        strict: true,
        ..ImportOptions::default()
    };
    let e = parse_bytes(
        LogFormat::IostatText,
        Path::new("i.txt"),
        text.as_bytes(),
        strict,
    )
    .unwrap_err()
    .to_string();
    assert!(e.starts_with("i.txt: line 7: "), "{e}");
}

#[test]
fn hosts_in_one_file_are_kept_apart() {
    let one = |host: &str, v: u32| {
        format!(
            "Linux 6.1.0 ({host}) \t2026-11-21 \t_x86_64_\t(2 CPU)\n\n\n2026-11-21T09:20:01+0000\n\
             Device             tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn\nsda  {v}.00  1.00  0.00  1 0\n\n"
        )
    };
    let got = import(&(one("a", 1) + &one("b", 2)));
    let names: Vec<_> = got.meta.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["a/sda", "b/sda"]);
    assert_eq!(got.rates.len(), 2);
}

#[test]
fn a_name_too_long_for_its_line_and_groups() {
    let got = import(
        "Device:            tps   Blk_read/s   Blk_wrtn/s   Blk_read   Blk_wrtn\n\
         mpath-very-long-name-of-a-volume\n\
         \x20                 1.00         8.00         0.00          8          0\n\
         \x20disks           2.00        16.00         0.00         16          0\n",
    );
    let names: Vec<_> = got.meta.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["mpath-very-long-name-of-a-volume", "disks"]);
    assert_eq!(
        got.rates.get(0).expect("there").classes[0].bytes_per_s,
        Some(4096.0)
    );
}

#[test]
fn solaris_and_illumos() {
    let text = "                    extended device statistics              \n\
        device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b \n\
        sd40      0.3    0.7    4.1    9.9  0.0  0.0    1.7   0   0 \n\
        sd41      3.3    0.1   35.2    0.2  0.0  0.1    6.1   0   3 \n\
                    extended device statistics              \n\
        device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b \n\
        sd40      0.0    1.5    0.0   29.1  0.0  0.0    0.2   0   0 \n\
        sd41     12.3    0.0 1735.2    0.0  0.0  0.1    7.0   0   9 \n\
                    extended device statistics              \n\
        device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b \n\
        sd41     24.6    0.0 1735.2    0.0  0.5  0.1    7.0   0   9 \n\
            r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device\n\
            1.0    2.0    3.0    4.0  0.5  0.5    1.0    7.0   0   9 c0t0d0\n";
    assert_eq!(recognise(text.as_bytes()), Some(LogFormat::SolarisIostat));
    let options = ImportOptions {
        interval_ns: Some(15_000_000_000),
        ..ImportOptions::default()
    };
    let got = parse_bytes(
        LogFormat::SolarisIostat,
        Path::new("s"),
        text.as_bytes(),
        options,
    )
    .unwrap();
    assert_eq!(got.damage.count, 0, "{:?}", got.damage);
    let sd41: Vec<_> = got
        .rates
        .iter()
        .filter(|r| r.dev == got.meta.devices[1].id)
        .collect();
    assert_eq!(
        (sd41[0].to_ns, sd41[1].to_ns),
        (15_000_000_000, 30_000_000_000)
    );
    assert_eq!(
        (sd41[0].all.mean_us, sd41[0].util_percent),
        (Some(7000.0), Some(9.0))
    );
    assert_eq!(got.rates.len(), 4, "averages since boot are left out");
    let zone = got.rates.iter().next_back().unwrap();
    assert_eq!(
        (zone.all.mean_us, zone.in_flight),
        (Some(8000.0), Some(1.0)),
        "waiting and service add up"
    );
}

#[test]
fn an_article_with_tables_of_two_tools() {
    let text = "device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b\n\
                sd43      4.0   13.6  658.6 2004.9  0.0  0.1    2.9   0   5\n\n\
                But look at this:\n\n\
                time r/s Kr/s us/r w/s Kw/s us/w\n\
                153.1 10 1280 3875 0 0 0\n\
                153.2 20 2560 damaged 0 0 0\n\
                153.3 10 1280 5506 0 0 0\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("article.txt");
    std::fs::write(&file, text).unwrap();
    let got = import_files(&[file], ImportOptions::default()).unwrap();
    assert_eq!((got.kinds.len(), got.rates.len()), (2, 3));
    assert_eq!(
        got.meta.source.to_string(),
        "import:rate-table+solaris-iostat"
    );
    let mut lines: Vec<u64> = got.damage.places.iter().map(|p| p.at).collect();
    lines.sort_unstable();
    assert_eq!(lines, [4, 8], "lines keep their numbers: {:?}", got.damage);
}

/// A published table of eleven disks, every number of it.
#[test]
fn solaris_with_commas() {
    let text = "                    extended device statistics\n\
                device,r/s,w/s,kr/s,kw/s,wait,actv,svc_t,%w,%b\n\
                sd43,4.0,13.6,658.6,2004.9,0.0,0.1,2.9,0,5\n";
    let table = "device,r_s,w_s,kr_s,kw_s,wait,actv,svc_t_ms,pct_w,pct_b\nsd43,4.0,13.6,658.6,2004.9,0.0,0.1,2.9,0,5\n";
    for text in [text, table] {
        assert_eq!(recognise(text.as_bytes()), Some(LogFormat::SolarisIostat));
        let options = ImportOptions {
            interval_ns: Some(15_000_000_000),
            ..ImportOptions::default()
        };
        let got = parse_bytes(
            LogFormat::SolarisIostat,
            Path::new("s"),
            text.as_bytes(),
            options,
        )
        .unwrap();
        let row = got.rates.get(0).unwrap();
        assert_eq!(
            (got.damage.count, got.rates.len(), row.interval_ns()),
            (0, 1, 15_000_000_000)
        );
        assert_eq!(
            (row.classes[0].ios_per_s, row.classes[1].bytes_per_s),
            (Some(4.0), Some(2004.9 * 1024.0))
        );
        assert_eq!(
            (row.all.mean_us, row.util_percent),
            (Some(2900.0), Some(5.0))
        );
    }
}

#[test]
fn the_published_solaris_table() {
    let csv = include_str!("../../../fixtures/golden/seed3_iostat_15s_devices.csv");
    let rows: Vec<Vec<&str>> = csv
        .lines()
        .skip(1)
        .map(|l| l.split(',').collect())
        .collect();
    let mut text = "device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b\n".to_owned();
    for r in &rows {
        text += &format!(
            "{:<8} {}  \n",
            r[0],
            r[1..].iter().map(|c| format!("{c:>7}")).collect::<String>()
        );
    }
    let options = ImportOptions {
        interval_ns: Some(15_000_000_000),
        strict: true,
        ..ImportOptions::default()
    };
    let got = parse_bytes(
        LogFormat::SolarisIostat,
        Path::new("s"),
        text.as_bytes(),
        options,
    )
    .unwrap();
    assert_eq!(got.rates.len(), 11);
    for (row, cells) in got.rates.iter().zip(&rows) {
        let n = |i: usize| cells[i].parse::<f64>().unwrap();
        let [read, write, ..] = row.classes;
        assert_eq!(
            got.meta
                .devices
                .iter()
                .find(|d| d.id == row.dev)
                .unwrap()
                .name,
            cells[0]
        );
        assert_eq!((read.ios_per_s, write.ios_per_s), (Some(n(1)), Some(n(2))));
        assert_eq!(
            (read.bytes_per_s, write.bytes_per_s),
            (Some(n(3) * KIB), Some(n(4) * KIB))
        );
        assert_eq!(
            (row.in_flight, row.util_percent),
            (Some(n(5) + n(6)), Some(n(9)))
        );
        assert_eq!(
            (row.all.mean_us, read.mean_us, write.mean_us),
            (Some(n(7) * 1000.0), None, None)
        );
        assert_eq!((row.from_ns, row.to_ns), (0, 15_000_000_000));
    }
}

const SYSSTAT_11: &str = "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n";

/// A report of sysstat 10 or 11 of a disk and its partitions or layers.
fn report_11(reads: f64, writes: f64) -> String {
    let row = |name: &str| {
        format!(
            "{name} 0.00 0.00 {reads:.2} {writes:.2} {:.2} 0.00 8.00 1.00 5.59 5.59 0.00 5.58 99.80\n",
            reads * 4.0
        )
    };
    SYSSTAT_11.to_owned() + &row("sda") + &row("dm-0") + "\n"
}

#[test]
fn whole_counts_distinguish_a_first_interval_from_boot_averages() {
    let banner = "Linux 3.10.0 (h) \t06/02/2016 \t_x86_64_\t(4 CPU)\n\n";
    let rows = |first: String| {
        import(&(banner.to_owned() + &first + &report_11(165.0, 7.0)))
            .rates
            .len()
    };
    assert_eq!(
        rows(report_11(179.0, 3.0)),
        4,
        "iostat -y prints a first interval"
    );
    assert_eq!(
        rows(report_11(179.0 / 1.01, 3.0 / 1.01)),
        4,
        "also where it was late by a hundredth"
    );
    assert_eq!(rows(report_11(17.29, 3.37)), 2, "averages since boot");
    assert_eq!(rows(report_11(0.0, 0.0)), 2, "ambiguous totals");
}

#[test]
fn nothing_but_a_stamp_is_a_stamp_and_a_word_takes_no_row() {
    let head = "Linux 6.1.0 (h) \t2026-11-21 \t_x86_64_\t(2 CPU)\n\n\n";
    let report = |s: u32, rows: &str| {
        format!("2026-11-21T09:20:0{s}+0000\nDevice   r/s  w/s  rkB/s  wkB/s\n{rows}\n")
    };
    let whole = format!(
        "{head}{}{}",
        report(1, "loop0 1 2 3 4\nsda 5 6 7 8\n"),
        report(2, "loop0 1 2 3 4\n")
    );
    let got = import(&whole);
    assert_eq!((got.rates.len(), got.damage.count), (3, 0));
    for rubbish in [
        "loop0 1 2",
        "rubbish",
        "a-long-word-of-rubbish",
        "10:20:30",
        "some words of it",
        "sda 1 2 3 4 5",
    ] {
        let text = whole.replace("sda 5", &format!("{rubbish}\nsda 5"));
        let damaged = import(&text);
        assert_eq!(damaged.rates, got.rates, "{rubbish}");
        let lines: Vec<u64> = damaged.damage.places.iter().map(|p| p.at).collect();
        assert_eq!(lines, [7], "{rubbish}: {:?}", damaged.damage);
    }
}

#[test]
fn an_implausible_stamp_is_ignored() {
    let report = |stamp: &str| format!("{stamp}\nDevice   r/s  w/s  rkB/s  wkB/s\nsda 5 6 7 8\n\n");
    let log = |third: &str| {
        let stamps = [
            "11/21/26 09:20:01",
            "11/21/26 09:20:02",
            third,
            "11/21/26 09:20:04",
            "11/21/26 09:20:05",
        ];
        let reports: String = stamps.iter().map(|s| report(s)).collect();
        import(&format!(
            "Linux 6.1.0 (h) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n\n{reports}"
        ))
    };
    let sound = log("11/21/26 09:20:03");
    let wild = log("11/21/74 19:20:03");
    assert_eq!((wild.rates, wild.damage.places[0].at), (sound.rates, 12));
    assert_eq!(wild.meta.end_ns, Some(5_000_000_000));
}

#[test]
fn groups_are_sums_and_layers_are_named() {
    let got = import(
        "Device             tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn\n\
         sda             156.00      4935.50      2205.00       4935       2205\n\
         sda2            133.00      4000.00      2000.00       4000       2000\n\
         dm-0            133.00      4000.00      2000.00       4000       2000\n\
         \x20sda            289.00      8935.50      4205.00       8935       4205\n",
    );
    let group = got
        .meta
        .devices
        .iter()
        .find(|d| d.is_sum())
        .expect("the group");
    assert_eq!(
        (group.name.as_str(), got.meta.devices.len()),
        ("sda", 4),
        "a group may be called like a device"
    );
    let said = got
        .meta
        .limits
        .iter()
        .find(|l| l.starts_with("sums over devices"))
        .expect("said");
    assert!(
        said.contains("bottom layer: without sda2, dm-0, sda ("),
        "{said}"
    );
}

#[test]
fn network_file_systems_are_no_damage() {
    let nfs = "Filesystem:              rBlk_nor/s   wBlk_nor/s   rBlk_dir/s   ops/s    rops/s    wops/s\n\
               nas:/home                      0.00         0.00         0.00    1.00      2.00      3.00\n\n";
    let got = import(&format!(
        "{}{nfs}{}{nfs}",
        report_11(1.0, 2.0),
        report_11(1.0, 2.0)
    ));
    assert_eq!(
        (got.rates.len(), got.damage.count),
        (4, 0),
        "{:?}",
        got.damage
    );
    assert!(
        got.meta
            .limits
            .iter()
            .any(|l| l.starts_with("2 rows of network file systems")),
        "{:?}",
        got.meta.limits
    );
}

#[test]
fn freebsd_and_solaris_are_distinguished() {
    let report = |reads: u32| {
        format!(
            "                        extended device statistics  \n\
             device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b  \n\
             ada0    {reads}     2     29.0     54.5     7     9     0     8    3  12 \n"
        )
    };
    let text = report(1) + &report(12) + &report(14);
    assert_eq!(recognise(text.as_bytes()), Some(LogFormat::FreebsdIostat));
    let got = parse_bytes(
        LogFormat::FreebsdIostat,
        Path::new("f"),
        text.as_bytes(),
        ImportOptions::default(),
    )
    .unwrap();
    assert_eq!(
        (
            got.rates.len(),
            got.damage.count,
            got.meta.source.to_string().as_str()
        ),
        (2, 0, "import:freebsd-iostat")
    );
    let r = got.rates.get(0).unwrap();
    assert_eq!(
        (
            r.classes[0].ios_per_s,
            r.classes[0].mean_us,
            r.classes[1].mean_us
        ),
        (Some(12.0), Some(7e3), Some(9e3))
    );
    assert_eq!(
        (r.all.mean_us, r.in_flight),
        (Some(8e3), None),
        "qlen is one moment's, no mean"
    );
}

fn in_files(texts: &[&str]) -> Imported {
    let dir = tempfile::tempdir().unwrap();
    let files = (0..).zip(texts).map(|(i, text)| {
        let file = dir.path().join(format!("{i}.log"));
        std::fs::write(&file, text).unwrap();
        file
    });
    import_files(&files.collect::<Vec<_>>(), ImportOptions::default()).unwrap()
}

#[test]
fn logs_that_overlap_count_once_and_hosts_stay_apart() {
    let log = |host: &str, seconds: std::ops::Range<u32>| {
        let reports = seconds.map(|s| {
            format!(
                "2026-11-21T09:20:{s:02}+0000\nDevice   r/s  w/s  rkB/s  wkB/s\nsda {s} 6 7 8\n\n"
            )
        });
        format!(
            "Linux 6.1.0 ({host}) \t2026-11-21 \t_x86_64_\t(2 CPU)\n\n\n{}",
            reports.collect::<String>()
        )
    };
    let first = log("a", 10..13);
    let longer = log("a", 10..15);
    let got = in_files(&[&first, &first]);
    assert_eq!(got.rates, in_files(&[&first]).rates);
    assert!(
        got.meta.limits[0].contains("1.log was left out: it is the same log as"),
        "{:?}",
        got.meta.limits
    );
    let got = in_files(&[&first, &longer]);
    assert_eq!(got.rates, in_files(&[&longer]).rates);
    assert!(
        got.meta
            .limits
            .iter()
            .any(|l| l.starts_with("3 rows are in the logs more than once")),
        "{:?}",
        got.meta.limits
    );
    // One file after the other in one file.
    assert_eq!(
        import(&(first.clone() + &first)).rates,
        in_files(&[&first]).rates
    );
    let got = in_files(&[&first, &log("b", 10..13)]);
    assert_eq!(got.rates.len(), 6);
    assert_eq!(
        got.meta
            .devices
            .iter()
            .map(|d| d.name.as_str())
            .collect::<Vec<_>>(),
        ["a/sda", "b/sda"]
    );
}

#[test]
fn rotated_logs_without_stamps_follow_each_other() {
    let log = |reads: u32| {
        format!(
            "Device   r/s  w/s  rkB/s  wkB/s\nsda {reads} 6 7 8\n\nDevice   r/s  w/s  rkB/s  wkB/s\nsda 1 6 7 8\n"
        )
    };
    let got = in_files(&[&log(5), &log(9)]);
    let rows: Vec<_> = got
        .rates
        .iter()
        .map(|r| (r.to_ns / 1_000_000_000, r.classes[0].ios_per_s))
        .collect();
    assert_eq!(
        rows,
        [
            (1, Some(5.0)),
            (2, Some(1.0)),
            (3, Some(9.0)),
            (4, Some(1.0))
        ]
    );
    assert!(
        got.meta
            .limits
            .iter()
            .any(|l| l.contains("one after the other")),
        "{:?}",
        got.meta.limits
    );
}

proptest! {
    #[test]
    fn hostile_text_never_panics(s in "(Device|avg-cpu:|Linux| |\n|r/s|tps|%util|[0-9,.:/kM%-]|\\PC){0,120}") {
        let _ = parse_bytes(LogFormat::IostatText, Path::new("i"), s.as_bytes(), ImportOptions::default());
        let _ = parse_bytes(LogFormat::SolarisIostat, Path::new("i"), s.as_bytes(), ImportOptions::default());
        let _ = recognise(s.as_bytes());
    }

    #[test]
    fn hostile_bytes_never_panic_in_any_format(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in any::<usize>()) {
        let samples: [&[u8]; 4] = [
            b"TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n0.1 a b 1 sda R 1 2 0.1 0.2\n",
            b"time r/s Kr/s us/r w/s Kw/s us/w\n1 2 3 4 5 6 7\n",
            b" a 1 [0] 1.5: block:block_rq_issue: 8,0 R 4 () 1 + 8 [a]\n",
            b"1, 2, 0, 4096, 0\n",
        ];
        for kind in LogFormat::ALL {
            let _ = parse_bytes(kind, Path::new("x_lat.1.log"), &bytes, ImportOptions::default());
            for s in samples {
                let mut s = s.to_vec();
                for (i, b) in bytes.iter().take(4).enumerate() {
                    let n = s.len();
                    s[at.wrapping_add(i * 7) % n] = *b;
                }
                let _ = parse_bytes(kind, Path::new("x_lat.1.log"), &s, ImportOptions::default());
            }
        }
    }
}

const REPORTS: &str = "Linux 6.1.0 (h) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n\n\
    Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n\
    sda            300.00   1200.00     0.00   0.00    0.10     4.00  130.00    520.00     0.00   0.00    0.20     4.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.05  10.00\n\n\n";

/// Reports of `iostat -d -x -y`: one per second, 300 reads in each.
fn four_reports() -> String {
    let (banner, report) = REPORTS.split_at(REPORTS.find("Device").expect("there"));
    format!("{banner}{}", report.repeat(4))
}

fn reads(log: &str) -> (Vec<Option<f64>>, u64) {
    let got = parse_bytes(
        LogFormat::IostatText,
        Path::new("i"),
        log.as_bytes(),
        ImportOptions::default(),
    )
    .expect("imports");
    let reads = got.rates.iter().map(|r| r.classes[0].ios_per_s);
    (reads.collect(), got.damage.count)
}

#[test]
fn a_heading_that_is_cut_loses_no_interval_wherever_it_stands() {
    let whole = four_reports();
    let lines: Vec<&str> = whole.lines().collect();
    let heading = lines.iter().find(|l| l.starts_with("Device")).expect("one");
    assert_eq!(reads(&whole), (vec![Some(300.0); 4], 0));
    for length in [
        "Device            r/s",
        "Device            r/s     rkB/s   rrq",
    ] {
        for at in 3..lines.len() {
            let mut lines = lines.clone();
            lines.insert(at, &heading[..length.len()]);
            let (reads, damage) = reads(&(lines.join("\n") + "\n"));
            // Between a heading and its first row nothing of a cut one is known yet where it comes first of all.
            let expected = if at == 3 { 0 } else { 1 };
            assert_eq!(
                (reads, damage),
                (vec![Some(300.0); 4], expected),
                "line {}",
                at + 1
            );
        }
    }
}

#[test]
fn a_device_that_is_said_again_under_another_heading_is_in_the_next_report() {
    // Nothing of the second heading is left but two columns, which the first one has as well.
    let log = "Linux 6.1.0 (h) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n\n\
               Device            r/s     rkB/s  %util\nsda  300.00 1200.00 10.00\n\n\n\
               Device     rkB/s  r/s\nsda 1200.00 200.00\n\n";
    assert_eq!(reads(log), (vec![Some(300.0), Some(200.0)], 0));
}

fn report_of(cells: &str) -> String {
    format!("Device r/s r_await areq-sz aqu-sz %util\nsda {cells}\n\n")
}

#[test]
fn a_negative_value_is_damage_and_moves_no_interval() {
    let good = report_of("300.00 1.00 4.00 0.50 5.00");
    for (cells, rows) in [
        ("-10.00 1.00 4.00 0.50 5.00", 2),
        ("300.00 -500.00 4.00 0.50 5.00", 2),
        ("300.00 1.00 4.00 -0.50 5.00", 2),
        ("300.00 1.00 4.00 0.50 -14.00", 2),
        ("300.00 -0.00 -4.00 0.50 -0.00", 3),
    ] {
        let got = import(&format!(
            "Linux 6.1.0 (h) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n\n{good}{}{good}",
            report_of(cells)
        ));
        let ends: Vec<i64> = got.rates.iter().map(|r| r.to_ns / 1_000_000_000).collect();
        let damaged: Vec<u64> = got.damage.places.iter().map(|p| p.at).collect();
        if rows == 2 {
            assert_eq!((ends, damaged), (vec![1, 3], vec![8]), "{cells}");
        } else {
            assert_eq!((ends, damaged), (vec![1, 2, 3], vec![]), "{cells}");
        }
    }
}
