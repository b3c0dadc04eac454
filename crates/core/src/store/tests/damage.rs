//! A damaged byte anywhere is noticed, costs one block, and never becomes a wrong row.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::support::{disowned, files, numbers, read, record, record_all_tables, small_segments};
use crate::model::{Io, LossReason, Lost, Observation};
use crate::store::schema::MAX_TIME_NS;
use crate::store::{IoColumns, Recording, StoreError, WriterOptions};

/// What can be read from a damaged recording: numbers of its I/Os, rows of the other tables, and whether there were
/// warnings.
fn inspect(dir: &Path) -> (Vec<i64>, [usize; 3], bool) {
    let r = Recording::open(dir).expect("damage is no error");
    let (rows, damage) = read(&r);
    let numbers = numbers(&rows);
    let mut counters = r.counters(i64::MIN..i64::MAX);
    let samples: usize = (&mut counters).map(|b| b.expect("reads").len()).sum();
    let all = i64::MIN..i64::MAX;
    let marks = r.marks(all.clone()).len();
    let recorded = r
        .lost(all)
        .iter()
        .filter(|l| l.reason == LossReason::RingFull)
        .count();
    let corrupt = damage.iter().any(|l| l.reason == LossReason::Corrupt);
    let said = corrupt || !r.warnings().is_empty() || !counters.warnings().is_empty();
    (numbers, [samples, recorded, marks], said)
}

fn check(dir: &Path, whole: &(Vec<i64>, [usize; 3], bool), block: usize, what: &str) {
    let (numbers, others, said) = inspect(dir);
    assert!(said, "{what}: not noticed");
    let missing = whole.0.len() - numbers.len();
    assert!(missing <= block, "{what}: {missing} I/Os are missing");
    let tables = others
        .iter()
        .zip(&whole.1)
        .filter(|(now, before)| now < before)
        .count();
    assert!(
        tables + usize::from(missing > 0) <= 1,
        "{what}: damage in one file cost rows of several tables"
    );
}

fn damage_every_file(
    finished: bool,
    mut damage: impl FnMut(&Path, &[u8], &mut dyn FnMut(&[u8], String)),
) {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record_all_tables(&dir, finished);
    let whole = inspect(&dir);
    assert!(!whole.2, "an undamaged recording has nothing to say");
    for path in files(&dir).into_iter().filter(|p| !p.ends_with("reserve")) {
        let bytes = fs::read(&path).expect("reads");
        damage(&path, &bytes, &mut |bad, what| {
            fs::write(&path, bad).expect("writes");
            check(&dir, &whole, 40, &format!("{}: {what}", path.display()));
        });
        fs::write(&path, &bytes).expect("writes");
    }
}

/// Flips one bit of every seventh byte. (All bytes would take minutes; the step is not a divisor of any structure's
/// size.)
fn flips(_: &Path, bytes: &[u8], check: &mut dyn FnMut(&[u8], String)) {
    let mut bad = bytes.to_vec();
    for at in (0..bytes.len()).step_by(7) {
        let bit = 1 << (at / 7 % 8);
        bad[at] ^= bit;
        check(&bad, format!("bit {bit} of byte {at} of {}", bytes.len()));
        bad[at] ^= bit;
    }
}

fn cuts(path: &Path, bytes: &[u8], check: &mut dyn FnMut(&[u8], String)) {
    let log = path.extension().is_some_and(|e| e == "wal");
    // A log that ends between two frames looks intact, because nothing shows that there was more.
    let step = if log { 7 } else { 11 };
    for length in (0..bytes.len())
        .step_by(step)
        .filter(|l| !log || super::super::wal::scan(&bytes[..*l]).is_ok_and(|c| c.torn.is_some()))
    {
        check(
            &bytes[..length],
            format!("cut to {length} of {} bytes", bytes.len()),
        );
    }
}

#[test]
fn a_flipped_bit_in_a_finished_recording_is_noticed_and_costs_one_block() {
    damage_every_file(true, flips);
}

#[test]
fn a_flipped_bit_in_an_unfinished_recording_is_noticed_and_costs_one_block() {
    damage_every_file(false, flips);
}

#[test]
fn a_truncated_segment_is_detected_and_costs_one_block() {
    damage_every_file(true, cuts);
}

#[test]
fn a_damaged_block_is_a_loss_with_its_interval_and_number() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 120, small_segments(40));
    let path = dir.join("io/000002.parquet");
    let mut bytes = fs::read(&path).expect("reads");
    bytes[100] ^= 1;
    fs::write(&path, &bytes).expect("writes");
    let (rows, damage) = read(&Recording::open(&dir).expect("opens"));
    assert_eq!(rows.len(), 80);
    let [lost] = damage.as_slice() else {
        panic!("{damage:?}")
    };
    assert_eq!(
        (lost.from_ns, lost.to_ns, lost.ios),
        (400_000, 790_000, Some(40))
    );
    assert_eq!(lost.reason, LossReason::Corrupt);
    // Without the footer, the neighbours still show where the hole is, and the manifest how many rows are missing.
    let length = bytes.len();
    bytes[length - 20] ^= 1;
    fs::write(&path, &bytes).expect("writes");
    let r = Recording::open(&dir).expect("opens");
    let (rows, damage) = read(&r);
    assert_eq!(rows.len(), 80);
    let [lost] = damage.as_slice() else {
        panic!("{damage:?}")
    };
    assert_eq!(
        (lost.from_ns, lost.to_ns, lost.ios),
        (390_000, 800_000, Some(40))
    );
    assert!(
        r.warnings()[0].contains("io/000002.parquet"),
        "{:?}",
        r.warnings()
    );
}

#[test]
fn the_stream_of_observations_holds_the_damage() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 120, small_segments(40));
    let path = dir.join("io/000001.parquet");
    let mut bytes = fs::read(&path).expect("reads");
    bytes[60] ^= 4;
    fs::write(&path, &bytes).expect("writes");
    let r = Recording::open(&dir).expect("opens");
    let stream: Vec<_> = r
        .observations(0..i64::MAX)
        .collect::<Result<_, _>>()
        .expect("reads");
    assert!(stream.is_sorted_by_key(|o| o.at_ns()));
    assert!(
        matches!(&stream[0], crate::model::Observation::Lost(l) if l.ios == Some(40)),
        "{:?}",
        stream[0]
    );
    assert_eq!(stream.len(), 81);
}

#[test]
fn foreign_files_need_no_checksums() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 300, WriterOptions::default());
    let path = dir.join("io/000001.parquet");
    fs::write(&path, disowned(fs::read(&path).expect("reads"))).expect("writes");
    assert_eq!(inspect(&dir), ((0..300).collect(), [0; 3], false));
}

#[test]
fn segments_that_are_missing_or_too_many_are_noticed_and_counted() {
    let tmp = tempfile::tempdir().expect("a directory");
    let inspected = |change: &dyn Fn(&Path)| {
        let dir = tmp.path().join("r.iolens");
        let _ = fs::remove_dir_all(&dir);
        record(&dir, 120, small_segments(40));
        change(&dir);
        let r = Recording::open(&dir).expect("opens");
        let (rows, damage) = read(&r);
        let lost: i64 = damage.iter().filter_map(|l| l.ios).sum();
        (numbers(&rows).len() as i64, lost, r.warnings().len())
    };
    assert_eq!(inspected(&|_| {}), (120, 0, 0));
    for segment in ["000001", "000002", "000003"] {
        let remove = |dir: &Path| {
            fs::remove_file(dir.join(format!("io/{segment}.parquet"))).expect("removes")
        };
        assert_eq!(inspected(&remove), (80, 40, 1), "{segment}");
    }
    assert_eq!(
        inspected(&|dir| fs::remove_dir_all(dir.join("io")).expect("removes")),
        (0, 120, 3)
    );
    let copy = |to: &'static str| {
        move |dir: &Path| {
            fs::copy(dir.join("io/000001.parquet"), dir.join("io").join(to)).expect("copies");
        }
    };
    assert_eq!(
        inspected(&copy("000004.parquet")),
        (120, 0, 1),
        "one that the description does not list"
    );
    assert_eq!(inspected(&copy("copy.parquet")), (120, 0, 1));
    assert_eq!(
        inspected(&copy("000002.parquet")),
        (80, 40, 1),
        "in the place of another one of as many rows"
    );
    // Without the manifest, a gap between numbers is still detected.
    let unlisted = |segments: &'static [&str]| {
        move |dir: &Path| {
            let (mut meta, _) = crate::store::meta_file::read(dir).expect("reads");
            meta.tables = None;
            let open = crate::private::PrivateDir::open(dir, Default::default()).expect("opens");
            crate::store::meta_file::write(&open, &meta).expect("writes");
            for name in segments {
                fs::remove_file(dir.join("io").join(name)).expect("removes");
            }
        }
    };
    assert_eq!(inspected(&unlisted(&["000002.parquet"])), (80, 0, 1));
    assert_eq!(
        inspected(&unlisted(&["000001.parquet"])),
        (80, 0, 1),
        "nothing but the size limit removes the oldest"
    );
    let two = unlisted(&["000001.parquet", "000002.parquet"]);
    assert_eq!(inspected(&two), (40, 0, 1));
}

#[test]
fn segments_that_the_size_limit_removed_are_not_missing() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 120, small_segments(40));
    let (mut meta, _) = crate::store::meta_file::read(&dir).expect("reads");
    meta.tables = None;
    meta.end_ns = None;
    let open = crate::private::PrivateDir::open(&dir, Default::default()).expect("opens");
    crate::store::meta_file::write(&open, &meta).expect("writes");
    fs::remove_file(dir.join("io/000001.parquet")).expect("removes");
    let removed = Lost::somewhere(0, 1000, LossReason::Retention);
    let limited = tmp.path().join("limited.iolens");
    let mut writer = crate::store::RecordingWriter::create(
        &limited,
        super::support::meta(),
        WriterOptions::default(),
    )
    .expect("creates");
    writer.push(&Observation::Lost(removed)).expect("pushes");
    writer.finish(2000, Default::default()).expect("finishes");
    fs::create_dir_all(dir.join("lost")).expect("makes");
    fs::copy(
        limited.join("lost/000001.parquet"),
        dir.join("lost/000001.parquet"),
    )
    .expect("copies");
    let r = Recording::open(&dir).expect("opens");
    assert!(r.warnings().is_empty(), "{:?}", r.warnings());
}

/// A recording in which `change` makes row 17 another one: as a file, or as a log.
fn record_changed(dir: &Path, change: fn(&mut Io), finished: bool) {
    let _ = fs::remove_dir_all(dir);
    let mut rows = super::support::ios(0..300);
    change(&mut rows[17]);
    let options = WriterOptions::default();
    let mut w = crate::store::RecordingWriter::create(dir, super::support::meta(), options)
        .expect("creates");
    w.push_ios(&rows).expect("pushes");
    if finished {
        w.finish(3_000_000, Default::default()).expect("finishes");
    } else {
        w.tick(3_000_000).expect("ticks");
    }
}

/// The error with which reading the I/Os of a recording fails.
fn refusal(dir: &Path) -> String {
    let read = Recording::open(dir).and_then(|r| {
        r.ios(i64::MIN..i64::MAX, IoColumns::ALL)
            .collect::<Result<Vec<_>, _>>()
    });
    read.expect_err("refused").to_string()
}

#[test]
fn times_whose_sums_would_overflow_are_refused_in_every_file() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    type Change = fn(&mut Io);
    let changes: [(Change, &str); 6] = [
        (
            |io| io.device_ns = 5_000_000_000_000_000_000,
            "column device_ns holds 5000000000000000000 in row 17",
        ),
        (
            |io| io.device_ns = -5_000_000_000_000_000_000,
            "column device_ns holds -5000000000000000000 in row 17",
        ),
        (
            |io| io.queue_ns = Some(1 << 61),
            "column queue_ns holds 2305843009213693952 in row 17",
        ),
        (
            |io| io.queue_ns = Some(i64::MIN),
            "column queue_ns holds -9223372036854775808 in row 17",
        ),
        (
            |io| io.done_ns = i64::MAX - 1,
            "column done_ns holds 9223372036854775806 in row",
        ),
        (
            |io| io.done_ns = i64::MIN,
            "column done_ns holds -9223372036854775808 in row",
        ),
    ];
    for (change, column) in changes {
        for (finished, file) in [(true, "io/000001.parquet"), (false, "wal/io-000001.wal")] {
            record_changed(&dir, change, finished);
            let e = refusal(&dir);
            assert!(e.contains(column) && e.contains(file), "{e}");
        }
    }
    let lengthen = |io: &mut Io| {
        io.done_ns = 0;
        io.device_ns = MAX_TIME_NS;
        io.queue_ns = Some(MAX_TIME_NS);
    };
    for finished in [true, false] {
        record_changed(&dir, lengthen, finished);
        let (rows, damage) = read(&Recording::open(&dir).expect("opens"));
        assert!(damage.is_empty(), "{damage:?}");
        let longest = rows.iter().map(Io::total_ns).max();
        assert_eq!(longest, Some(2 * MAX_TIME_NS));
        let first = rows.iter().map(Io::start_ns).min();
        assert_eq!(first, Some(-2 * MAX_TIME_NS));
    }
}

#[test]
fn impossible_values_of_others_are_errors_that_name_column_and_row() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let refused = |change: fn(&mut Io)| {
        record_changed(&dir, change, true);
        let path = dir.join("io/000001.parquet");
        fs::write(&path, disowned(fs::read(&path).expect("reads"))).expect("writes");
        refusal(&dir)
    };
    for (change, column) in [
        (
            (|io| io.bytes = -4096) as fn(&mut Io),
            "column bytes holds -4096 in row 17",
        ),
        (
            |io| io.device_ns = -1,
            "column device_ns holds -1 in row 17",
        ),
        (
            |io| io.queue_ns = Some(-5),
            "column queue_ns holds -5 in row 17",
        ),
        (
            |io| io.queue_ns = Some(i64::MAX),
            "column queue_ns holds 9223372036854775807 in row 17",
        ),
        (
            |io| io.done_ns = -9,
            "column done_ns holds -9 in row group 0",
        ),
    ] {
        let e = refused(change);
        assert!(e.contains(column) && e.contains("io/000001.parquet"), "{e}");
    }
}

#[test]
fn times_in_other_units_are_refused() {
    use parquet::data_type::{Int32Type, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 10, WriterOptions::default());
    for (logical, unit) in [
        ("TIMESTAMP(MICROS,true)", Some("microseconds")),
        ("TIMESTAMP(MILLIS,false)", Some("milliseconds")),
        ("TIMESTAMP(NANOS,true)", None),
    ] {
        let schema = format!(
            "message m {{ required int64 done_ns ({logical}); required int32 dev; required int32 op; \
             required int64 bytes; required int64 device_ns; }}"
        );
        let schema = std::sync::Arc::new(
            parquet::schema::parser::parse_message_type(&schema).expect("a schema"),
        );
        let mut file =
            SerializedFileWriter::new(Vec::new(), schema, Default::default()).expect("a writer");
        let mut group = file.next_row_group().expect("a group");
        let mut i = 0;
        while let Some(mut column) = group.next_column().expect("a column") {
            match i {
                1 | 2 => column
                    .typed::<Int32Type>()
                    .write_batch(&[1], None, None)
                    .expect("writes"),
                _ => column
                    .typed::<Int64Type>()
                    .write_batch(&[1000], None, None)
                    .expect("writes"),
            };
            column.close().expect("closes");
            i += 1;
        }
        group.close().expect("closes");
        fs::write(
            dir.join("io/000001.parquet"),
            file.into_inner().expect("bytes"),
        )
        .expect("writes");
        let opened = Recording::open(&dir).map(drop).map_err(|e| e.to_string());
        match unit {
            Some(unit) => assert!(
                opened
                    .expect_err("refused")
                    .contains(&format!("done_ns is a time in {unit}"))
            ),
            None => assert_eq!(opened, Ok(())),
        }
    }
}

/// A table of I/Os that others wrote, with these times of completion.
fn io_file(times: &[i64]) -> Vec<u8> {
    use parquet::data_type::{Int32Type, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let schema = "message m { required int64 done_ns; required int32 dev; required int32 op; \
                  required int64 bytes; required int64 device_ns; }";
    let schema =
        std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema).expect("a schema"));
    let mut file =
        SerializedFileWriter::new(Vec::new(), schema, Default::default()).expect("a writer");
    let mut group = file.next_row_group().expect("a group");
    for i in 0..5 {
        let mut column = group.next_column().expect("a column").expect("one more");
        match i {
            0 => column
                .typed::<Int64Type>()
                .write_batch(times, None, None)
                .expect("writes"),
            1 | 2 => column
                .typed::<Int32Type>()
                .write_batch(&vec![1; times.len()], None, None)
                .expect("writes"),
            _ => column
                .typed::<Int64Type>()
                .write_batch(&vec![4096; times.len()], None, None)
                .expect("writes"),
        };
        column.close().expect("closes");
    }
    group.close().expect("closes");
    file.into_inner().expect("bytes")
}

/// A recording that lists no tables, with these files of I/Os.
fn of_others(dir: &Path, files: &[(&str, Vec<u8>)]) {
    record(dir, 10, WriterOptions::default());
    let (mut meta, _) = crate::store::meta_file::read(dir).expect("reads");
    meta.tables = None;
    let open = crate::private::PrivateDir::open(dir, Default::default()).expect("opens");
    crate::store::meta_file::write(&open, &meta).expect("writes");
    fs::remove_file(dir.join("io/000001.parquet")).expect("removes");
    for (name, bytes) in files {
        fs::write(dir.join("io").join(name), bytes).expect("writes");
    }
}

#[test]
fn oversized_tables_are_left_out_with_a_warning() {
    let tmp = tempfile::tempdir().expect("a directory");
    let seen = |name: &str, files: &[(&str, Vec<u8>)]| {
        let dir = tmp.path().join(name);
        of_others(&dir, files);
        let r = Recording::open(&dir).expect("opens");
        let mut ios = r.ios(i64::MIN..i64::MAX, IoColumns::ALL);
        let rows: usize = ios
            .by_ref()
            .map(|batch| batch.expect("readable").len())
            .sum();
        (rows, [r.warnings(), ios.warnings()].concat().join("; "))
    };
    let sorted: Vec<i64> = (0..10_000).map(|i| i * 1000).collect();
    let backwards: Vec<i64> = (0..10_001).map(|i| (20_000 - i) * 1000).collect();
    let (rows, why) = seen("unsorted", &[("a.parquet", io_file(&backwards))]);
    assert!(
        rows == 0 && why.contains("10001 rows that are not in the order of time"),
        "{why}"
    );
    assert_eq!(
        seen(
            "sorted",
            &[
                ("a.parquet", io_file(&sorted)),
                ("b.parquet", io_file(&sorted))
            ]
        )
        .0,
        20_000
    );
    let three = ["a.parquet", "b.parquet", "c.parquet"].map(|name| (name, io_file(&sorted)));
    let (rows, why) = seen("overlapping", &three);
    assert!(
        rows == 20_000 && why.contains("its times overlap with those of others"),
        "{why}"
    );
    let equal = ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
        .map(|name| (name, io_file(&[5000; 10_000])));
    assert_eq!(
        seen("equal", &equal),
        (40_000, String::new()),
        "one after the other"
    );
    let (rows, why) = seen(
        "far",
        &[
            ("000001.parquet", io_file(&sorted)),
            ("4294967295.parquet", io_file(&sorted)),
        ],
    );
    assert!(
        rows == 20_000
            && why.contains("000002.parquet and 4294967292 segments after it: are missing"),
        "{why}"
    );
}

#[test]
fn many_losses_are_merged_and_many_marks_refused() {
    use crate::model::{Mark, Observation};
    let tmp = tempfile::tempdir().expect("a directory");
    let opened = |name: &str, of: fn(i64) -> Observation| {
        let dir = tmp.path().join(name);
        let mut w = crate::store::RecordingWriter::create(
            &dir,
            super::support::meta(),
            WriterOptions::default(),
        )
        .expect("creates");
        (0..20_001).for_each(|at_ns| w.push(&of(at_ns * 1_000_000)).expect("pushes"));
        w.finish(20_001_000_000, Default::default())
            .expect("finishes");
        Recording::open(&dir)
    };
    let r = opened("losses", |at_ns| {
        Observation::Lost(super::support::ring_full(at_ns, 3))
    })
    .expect("opens");
    let lost = r.lost(i64::MIN..i64::MAX);
    assert!(lost.len() <= 10_000, "{}", lost.len());
    assert_eq!(lost.iter().filter_map(|l| l.ios).sum::<i64>(), 60_003);
    let whole = (
        lost.iter().map(|l| l.from_ns).min(),
        lost.iter().map(|l| l.to_ns).max(),
    );
    assert_eq!(
        whole,
        (Some(0), Some(20_000_000_005)),
        "from the first to the end of the last"
    );
    let mark = |at_ns| {
        Observation::Mark(Mark {
            at_ns,
            kind: "phase".to_owned(),
            text: String::new(),
        })
    };
    let e = opened("marks", mark).expect_err("too many").to_string();
    assert!(e.contains("marks: damaged: more than 10000 rows"), "{e}");
}

#[test]
fn pipes_and_devices_in_the_place_of_files_are_refused() {
    let tmp = tempfile::tempdir().expect("a directory");
    for (finished, name) in [
        (true, "meta.json"),
        (true, "io/000001.parquet"),
        (true, "marks/000001.parquet"),
        (false, "wal"),
    ] {
        for device in [true, false] {
            let dir = tmp
                .path()
                .join(format!("{finished}-{}-{device}", name.replace('/', "-")));
            super::support::record_all_tables(&dir, finished);
            let mut path = dir.join(name);
            if path.is_dir() {
                path = super::support::files(&path).remove(0);
            }
            fs::remove_file(&path).expect("removes");
            if device {
                std::os::unix::fs::symlink("/dev/zero", &path).expect("links");
            } else {
                let made = std::process::Command::new("mkfifo")
                    .arg(&path)
                    .status()
                    .expect("coreutils");
                assert!(made.success());
            }
            let e = Recording::open(&dir)
                .expect_err("no regular file")
                .to_string();
            assert!(
                e.contains(&path.display().to_string()) && e.contains("no regular file"),
                "{e}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Without checksums, damage cannot always be detected, but it must never cause more than an error.
    #[test]
    fn damaged_files_of_others_are_read_without_a_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), near_end: bool
    ) {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r.iolens");
        record(&dir, 300, WriterOptions::default());
        let path = dir.join("io/000001.parquet");
        let mut bytes = disowned(fs::read(&path).expect("reads"));
        // Half of the flips are in the footer, whose numbers readers trust.
        let from = if near_end { bytes.len() - 1500 } else { 0 };
        for (at, value) in damage {
            let at = from + at.index(bytes.len() - from);
            bytes[at] = value;
        }
        fs::write(&path, &bytes).expect("writes");
        if let Ok(r) = Recording::open(&dir) {
            for batch in r.ios(i64::MIN..i64::MAX, IoColumns::ALL) {
                if batch.is_err() {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_newer_recording_is_refused_by_its_number() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 10, WriterOptions::default());
    let newer = r#"{"schema_version": 7, "source": {"what": "is this"}}"#;
    fs::write(dir.join("meta.json"), newer).expect("writes");
    fs::write(dir.join("meta.json.bak"), newer).expect("writes");
    let e = Recording::open(&dir).expect_err("newer");
    assert!(
        matches!(
            e,
            StoreError::Newer {
                found: 7,
                reads: 1,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn a_newer_version_is_not_reported_as_damage() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 10, WriterOptions::default());
    let path = dir.join("meta.json");
    let ours = fs::read_to_string(&path).expect("reads");
    let numbered = |n: &str| {
        ours.replace(
            "\"schema_version\": 1,",
            &format!("\"schema_version\": {n},"),
        )
    };
    fs::write(&path, numbered("99")).expect("writes");
    let e = Recording::open(&dir).expect_err("newer");
    assert!(
        matches!(
            e,
            StoreError::Newer {
                found: 99,
                reads: 1,
                ..
            }
        ),
        "{e}"
    );
    fs::write(&path, numbered("9")).expect("writes");
    assert_eq!(
        Recording::open(&dir)
            .expect("one flipped bit is damage")
            .warnings()
            .len(),
        1
    );
}

#[test]
fn both_descriptions_damaged_is_one_clear_error() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 10, WriterOptions::default());
    for name in ["meta.json", "meta.json.bak"] {
        fs::write(dir.join(name), "{").expect("writes");
    }
    let e = Recording::open(&dir).expect_err("damaged").to_string();
    assert!(e.contains("meta.json") && !e.contains('\n'), "{e}");
}
