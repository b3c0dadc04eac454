use std::path::Path;

use super::super::files::parse_bytes;
use super::super::fixtures;
use super::super::log::{ImportError, ImportOptions, Imported};
use super::super::recognise::{LogFormat, recognise};
use super::{bases, disk_of};

const SECOND: i64 = 1_000_000_000;

fn parsed(text: &str, options: ImportOptions) -> Result<Imported, ImportError> {
    assert_eq!(
        recognise(text.as_bytes()),
        Some(LogFormat::Diskstats),
        "{text}"
    );
    parse_bytes(
        LogFormat::Diskstats,
        Path::new("d"),
        text.as_bytes(),
        options,
    )
}

fn import(text: &str) -> Imported {
    parsed(text, ImportOptions::default()).expect("imports")
}

#[test]
fn a_real_series_gives_the_counters_differences() {
    let text = String::from_utf8(fixtures::bytes("diskstats.txt")).expect("UTF-8");
    let got = import(&text);
    assert_eq!(got.damage.count, 0);
    let names: Vec<&str> = got.meta.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["loop0", "loop7", "vda"]);
    let of_loop0 = got.rates.of(got.meta.devices[0].id);
    let reads = of_loop0.iter().map(|r| r.classes[0].ios(r.interval_ns()));
    assert_eq!(reads.collect::<Vec<_>>(), [Some(302), Some(302), Some(302)]);
    let writes = of_loop0.iter().map(|r| r.classes[1].ios(r.interval_ns()));
    assert_eq!(
        writes.collect::<Vec<_>>(),
        [Some(130), Some(131), Some(131)]
    );
    let last = of_loop0[2];
    assert_eq!(last.interval_ns(), 1_008_378_521);
    assert_eq!(
        last.classes[0].bytes(last.interval_ns()),
        Some((10_224 - 7808) * 512)
    );
    let mean_us = last.classes[0].mean_us.expect("reads");
    assert!((mean_us - 34_000.0 / 302.0).abs() < 1e-6, "{mean_us}");
    let busy_ms = last.util_percent.expect("known") / 100.0 * last.interval_ns() as f64 / 1e6;
    assert!((busy_ms - 116.0).abs() < 1e-6, "{busy_ms}");
    assert_eq!(
        last.classes[3].mean_us, None,
        "no flush, so no mean of them"
    );
    let of_loop7 = got.rates.of(got.meta.devices[1].id);
    assert!(of_loop7.is_empty(), "it never did anything");
    assert_eq!(got.meta.start_unix_ns, 1_795_521_768_220_997_577);
}

/// Two copies of the counters of two devices.
fn copies(stamps: [&str; 3], third: u64) -> String {
    let copy = |reads: u64, ticks: u64| {
        format!(
            "   8  0 sda {reads} 0 {} {ticks} 0 0 0 0 0 {ticks} {ticks}\n   8 16 sdb 1 0 8 1 0 0 0 0 0 1 1\n",
            reads * 8
        )
    };
    let near_wrap = u64::from(u32::MAX) - 99;
    let [a, b, c] = stamps;
    format!(
        "{a}{}{b}{}{c}{}",
        copy(100, near_wrap),
        copy(150, 400),
        copy(third, 500)
    )
}

#[test]
fn times_in_front_behind_and_in_many_forms_give_the_intervals() {
    for stamps in [
        ["1795521300\n", "1795521310\n", "1795521315\n"],
        [
            "zzz ***Tue Nov 24 11:55:00 UTC 2026\n",
            "zzz ***Tue Nov 24 11:55:10 UTC 2026\n",
            "zzz ***Tue Nov 24 11:55:15 UTC 2026\n",
        ],
        [
            "### 2026-11-24 11:55:00 ###\n",
            "### 2026-11-24 11:55:10 ###\n",
            "### 2026-11-24 11:55:15 ###\n",
        ],
        [
            "2026-11-24T12:55:00+01:00\n",
            "2026-11-24T12:55:10+01:00\n",
            "2026-11-24T12:55:15+01:00\n",
        ],
        [
            "2026-11-24T11:55:00,250000000+00:00\n",
            "2026-11-24T11:55:10,250000000+00:00\n",
            "2026-11-24T11:55:15,250000000+00:00\n",
        ],
        [
            "2026-11-24 11:55:00+00:00\n",
            "2026-11-24 11:55:10+00:00\n",
            "2026-11-24 11:55:15+00:00\n",
        ],
        [
            "2026-11-24 11:55:00.250000000\n",
            "2026-11-24 11:55:10.250000000\n",
            "2026-11-24 11:55:15.250000000\n",
        ],
        [
            "11:55:00.250000000\n",
            "11:55:10.250000000\n",
            "11:55:15.250000000\n",
        ],
        ["100.00 12.00\n", "110.00 12.00\n", "115.00 12.00\n"],
        ["23:59:55\n", "00:00:05\n", "00:00:10\n"],
    ] {
        let got = import(&copies(stamps, 200));
        let rows: Vec<_> = got.rates.of(got.meta.devices[0].id);
        let lengths: Vec<_> = rows.iter().map(|r| r.interval_ns() / SECOND).collect();
        assert_eq!(lengths, [10, 5], "{stamps:?}");
        assert_eq!(rows[0].classes[0].ios_per_s, Some(5.0));
        // 100 ms up to the wrap of 32 bits, and 400 after it.
        assert_eq!(rows[0].classes[0].mean_us, Some(500.0 * 1000.0 / 50.0));
        assert_eq!(
            rows[0].classes[2].ios_per_s, None,
            "this kernel counts no discards"
        );
    }
    let behind = copies(["", "1795521300\n", "1795521310\n"], 200) + "1795521315\n";
    let got = import(&behind);
    assert_eq!(got.meta.start_unix_ns, 1_795_521_300 * SECOND);
    let in_lines =
        "1795521300.5 8 0 sda 1 0 8 0 0 0 0 0 0 0 0\n1795521302.5 8 0 sda 5 0 8 0 0 0 0 0 0 0 0\n";
    let got = import(in_lines);
    assert_eq!(
        got.rates.get(0).and_then(|r| r.classes[0].ios_per_s),
        Some(2.0)
    );
}

#[test]
fn without_times_the_interval_is_given_or_assumed() {
    let text = copies(["", "", ""], 200);
    let got = import(&text);
    let row = got.rates.get(0).expect("there");
    assert_eq!(row.classes[0].ios_per_s, Some(50.0));
    let limits = &got.meta.limits;
    assert!(
        limits.iter().any(|l| l.contains("--interval")),
        "{limits:?}"
    );
    let options = ImportOptions {
        interval_ns: Some(10 * SECOND),
        ..ImportOptions::default()
    };
    let got = parsed(&text, options).expect("imports");
    let row = got.rates.get(0).expect("there");
    assert_eq!(row.classes[0].ios_per_s, Some(5.0));
}

#[test]
fn counters_that_go_back_are_left_out_and_one_copy_is_refused() {
    let got = import(&copies(["", "", ""], 20));
    assert_eq!(got.rates.of(got.meta.devices[0].id).len(), 1);
    let limits = &got.meta.limits;
    assert!(limits.iter().any(|l| l.contains("went back")), "{limits:?}");
    let one = parsed(
        "   8  0 sda 1 0 8 0 0 0 0 0 0 0 0\n",
        ImportOptions::default(),
    );
    assert!(matches!(one, Err(ImportError::Empty { .. })), "{one:?}");
}

/// Two copies of a kernel before 2.6.25, with a line at the end of the first one.
fn old_copies(line: &str) -> String {
    format!(
        "1795521300\n   3    0 hda 100 0 800 50 10 0 80 5 0 55 55\n   3    1 hda1 90 720 8 64\n{line}\
         1795521310\n   3    0 hda 200 0 1600 100 20 0 160 10 0 110 110\n   3    1 hda1 190 1520 18 144\n"
    )
}

#[test]
fn partitions_of_old_kernels_have_four_counters() {
    let got = import(&old_copies(""));
    assert_eq!(got.damage.count, 0, "{:?}", got.damage);
    let devices = &got.meta.devices;
    let partition = devices.iter().find(|d| d.name == "hda1").expect("there");
    let [row] = got.rates.of(partition.id)[..] else {
        panic!("one row: {:?}", got.rates)
    };
    let [reads, writes, ..] = row.classes;
    assert_eq!(reads.ios_per_s, Some(10.0));
    assert_eq!(reads.bytes_per_s, Some(80.0 * 512.0));
    assert_eq!(writes.ios_per_s, Some(1.0));
    assert_eq!(writes.bytes_per_s, Some(8.0 * 512.0));
    assert_eq!((reads.mean_us, reads.merges_per_s), (None, None));
    assert_eq!((row.util_percent, row.in_flight), (None, None));
    let limits = &got.meta.limits;
    assert!(limits.iter().any(|l| l.contains("2.6.25")), "{limits:?}");
    let disk = devices.iter().find(|d| d.name == "hda").expect("there");
    let [row] = got.rates.of(disk.id)[..] else {
        panic!("one row: {:?}", got.rates)
    };
    assert_eq!(row.classes[0].mean_us, Some(500.0));
}

#[test]
fn a_line_that_was_cut_is_no_partition_of_an_old_kernel() {
    for (cut, line) in [
        (old_copies("   3   64 hdb 1 2 3 4\n"), 4),
        (old_copies("   7    0 loop0 1 2 3 4\n"), 4),
        (
            copies(["1795521300\n", "1795521310\n", "1795521315\n"], 200).replacen(
                "1795521310\n",
                "   8  1 sda1 1 0 8 1 0 0 0 0 0 1 1\n   8  2 sda2 1 0 8 1\n1795521310\n",
                1,
            ),
            5,
        ),
    ] {
        let got = import(&cut);
        let damaged: Vec<u64> = got.damage.places.iter().map(|p| p.at).collect();
        assert_eq!(damaged, [line], "{cut}");
    }
}

#[test]
fn the_name_of_a_partition_has_that_of_its_disk() {
    for (name, disk) in [
        ("sda1", Some("sda")),
        ("sdp12", Some("sdp")),
        ("cciss/c0d0p1", Some("cciss/c0d0")),
        ("loop0", Some("loop")),
        ("hda", None),
    ] {
        assert_eq!(disk_of(name.as_bytes()), disk.map(str::as_bytes), "{name}");
    }
}

#[test]
fn a_damaged_time_begins_no_interval() {
    let mut text = String::new();
    for (second, reads) in [(0, 100), (10, 150), (5, 160), (20, 200)] {
        let at = 1_795_521_300 + second;
        text += &format!("{at}\n   8  0 sda {reads} 0 800 50 0 0 0 0 0 55 55\n");
    }
    let got = import(&text);
    let rows = got.rates.iter();
    let rows: Vec<_> = rows
        .map(|r| (r.from_ns / SECOND, r.to_ns / SECOND, r.classes[0].ios_per_s))
        .collect();
    assert_eq!(rows, [(0, 10, Some(5.0)), (10, 20, Some(5.0))]);
    assert_eq!((got.damage.count, got.damage.places[0].at), (1, 6));
}

#[test]
fn times_of_day_without_a_date_are_of_1970() {
    let got = import(&format!("22:13:20\n{}22:14:20\n{}", copy(1), copy(61)));
    assert_eq!(got.meta.start_unix_ns, 80_000 * SECOND);
    assert_eq!(reads(&got), [(0, 60, Some(1.0))]);
    let limits = &got.meta.limits;
    assert!(limits.iter().any(|l| l.contains("--start")), "{limits:?}");
}

/// Rows of one device: begin and end in seconds after the first one began, and reads per second.
fn reads(got: &Imported) -> Vec<(i64, i64, Option<f64>)> {
    let rows = got.rates.iter();
    rows.map(|r| (r.from_ns / SECOND, r.to_ns / SECOND, r.classes[0].ios_per_s))
        .collect()
}

/// A copy of one device's counters.
fn copy(reads: u64) -> String {
    format!("   8  0 sda {reads} 0 800 50 0 0 0 0 0 55 55\n")
}

#[test]
fn a_time_far_ahead_of_both_neighbours_is_damage() {
    let mut text = String::new();
    for (i, second) in [0, 60, 900_120, 180, 240, 300].into_iter().enumerate() {
        text += &format!("{}\n", 1_795_521_300 + second);
        text += &copy(100 + 60 * i as u64);
    }
    let got = import(&text);
    let expected = [
        (0, 60, Some(1.0)),
        (60, 180, Some(1.0)),
        (180, 240, Some(1.0)),
        (240, 300, Some(1.0)),
    ];
    assert_eq!(reads(&got), expected);
    assert_eq!((got.damage.count, got.damage.places[0].at), (1, 6));
}

#[test]
fn a_copy_without_a_time_beside_dated_ones_is_damage() {
    for unreadable in ["1795Z21360\n", "2026-11-2x 11:56:00\n", ""] {
        let text = format!(
            "1795521300\n{}{unreadable}{}1795521420\n{}1795521480\n{}",
            copy(100),
            copy(160),
            copy(220),
            copy(280)
        );
        let got = import(&text);
        assert_eq!(got.meta.start_unix_ns, 1_795_521_300 * SECOND);
        let expected = [(0, 120, Some(1.0)), (120, 180, Some(1.0))];
        assert_eq!(reads(&got), expected, "{unreadable}");
        assert_eq!(got.damage.count, 1, "{unreadable}");
        let limits = &got.meta.limits;
        assert!(
            limits.iter().all(|l| !l.contains("--interval")),
            "{limits:?}"
        );
        let strict = ImportOptions {
            strict: true,
            ..ImportOptions::default()
        };
        let refused = parsed(&text, strict);
        assert!(
            matches!(refused, Err(ImportError::Damaged { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_damaged_time_below_its_copy_leaves_the_others_where_they_are() {
    for (times, expected) in [
        (["1795521300", "?", "1795521420"], (0, 120, Some(1.0))),
        (["1795521300", "1795521360", "?"], (0, 60, Some(1.0))),
    ] {
        let mut text = String::new();
        for (i, time) in times.into_iter().enumerate() {
            text += &copy(100 + 60 * i as u64);
            text += &format!("{time}\n");
        }
        let got = import(&text);
        assert_eq!(reads(&got), [expected], "{times:?}");
        assert_eq!(got.damage.count, 1, "{times:?}");
    }
}

#[test]
fn lines_that_are_no_times_are_said_and_one_time_alone_dates_no_copy() {
    let unknown = format!("uno\n{}dos\n{}tres\n{}", copy(1), copy(2), copy(3));
    let got = import(&unknown);
    let limits = &got.meta.limits;
    assert!(
        limits.iter().any(|l| l.contains("could not be read as")),
        "{limits:?}"
    );
    let copies = format!("{}{}{}", copy(1), copy(2), copy(3));
    for text in [
        format!("1795521300\n{copies}"),
        format!("{copies}1795521300\n"),
    ] {
        let got = import(&text);
        assert_eq!(reads(&got), [(0, 1, Some(1.0)), (1, 2, Some(1.0))]);
        assert_eq!(got.damage.count, 0);
    }
}

#[test]
fn one_dated_copy_beside_a_damaged_time_gives_no_rates() {
    let text = format!("1795521300\n{}?\n{}", copy(1), copy(2));
    let refused = parsed(&text, ImportOptions::default()).expect_err("refused");
    let message = refused.to_string();
    assert!(
        message.contains("line 4: a copy without a time"),
        "{message}"
    );
}

#[test]
fn intervals_begin_at_the_last_good_time_or_where_the_clock_was_set_back() {
    for (times, expected) in [
        (&[0, 10, 5, 20][..], &[None, Some(0), None, Some(1)][..]),
        (&[100, 110, 50, 60], &[None, Some(0), None, Some(2)]),
        (
            &[100, 110, 105, 115, 125],
            &[None, Some(0), None, Some(2), Some(3)],
        ),
        (&[1000, 10, 20], &[None, None, Some(1)]),
        (&[10, 10, 20], &[None, None, Some(0)]),
        (&[30, 20, 10, 40], &[None, None, None, Some(0)]),
        (&[7], &[None]),
        (&[], &[]),
    ] {
        assert_eq!(bases(times), expected, "{times:?}");
    }
}
