//! A damaged byte anywhere is noticed, costs one block, and never becomes a wrong row.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::support::{files, numbers, read, record, record_all_tables, small_segments};
use crate::model::LossReason;
use crate::store::{IoColumns, Recording, StoreError, WriterOptions};

/// What is left of a recording: numbers of its I/Os, rows of the other tables, and whether anything was said.
fn inspect(dir: &Path) -> (Vec<i64>, [usize; 3], bool) {
    let r = Recording::open(dir).expect("damage is no error");
    let (rows, damage) = read(&r);
    let numbers = numbers(&rows);
    let mut counters = r.counters(i64::MIN..i64::MAX);
    let samples: usize = (&mut counters).map(|b| b.expect("reads").len()).sum();
    let all = i64::MIN..i64::MAX;
    let marks = r.marks(all.clone()).len();
    let recorded = r.lost(all).iter().filter(|l| l.reason == LossReason::RingFull).count();
    let corrupt = damage.iter().any(|l| l.reason == LossReason::Corrupt);
    let said = corrupt || !r.warnings().is_empty() || !counters.warnings().is_empty();
    (numbers, [samples, recorded, marks], said)
}

fn check(dir: &Path, whole: &(Vec<i64>, [usize; 3], bool), block: usize, what: &str) {
    let (numbers, others, said) = inspect(dir);
    assert!(said, "{what}: not noticed");
    let missing = whole.0.len() - numbers.len();
    assert!(missing <= block, "{what}: {missing} I/Os are missing");
    let tables = others.iter().zip(&whole.1).filter(|(now, before)| now < before).count();
    assert!(tables + usize::from(missing > 0) <= 1, "{what}: damage in one file cost rows of several tables");
}

fn damage_every_file(finished: bool, mut damage: impl FnMut(&Path, &[u8], &mut dyn FnMut(&[u8], String))) {
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

/// One bit of every seventh byte (all of them take minutes; the step divides no structure).
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
    // A log that ends between two frames is whole: nothing says that there was more.
    let step = if log { 7 } else { 11 };
    for length in (0..bytes.len())
        .step_by(step)
        .filter(|l| !log || super::super::wal::scan(&bytes[..*l]).is_ok_and(|c| c.torn.is_some()))
    {
        check(&bytes[..length], format!("cut to {length} of {} bytes", bytes.len()));
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
fn a_cut_file_of_a_finished_recording_is_noticed_and_costs_one_block() {
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
    let [lost] = damage.as_slice() else { panic!("{damage:?}") };
    assert_eq!((lost.from_ns, lost.to_ns, lost.ios), (400_000, 790_000, Some(40)));
    assert_eq!(lost.reason, LossReason::Corrupt);
    // With the footer gone, the neighbours still say where the hole is, but nobody says how many are missing.
    let length = bytes.len();
    bytes[length - 20] ^= 1;
    fs::write(&path, &bytes).expect("writes");
    let r = Recording::open(&dir).expect("opens");
    let (rows, damage) = read(&r);
    assert_eq!(rows.len(), 80);
    let [lost] = damage.as_slice() else { panic!("{damage:?}") };
    assert_eq!((lost.from_ns, lost.to_ns, lost.ios), (390_000, 800_000, None));
    assert!(r.warnings()[0].contains("io/000002.parquet"), "{:?}", r.warnings());
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
    let stream: Vec<_> = r.observations(0..i64::MAX).collect::<Result<_, _>>().expect("reads");
    assert!(stream.is_sorted_by_key(|o| o.at_ns()));
    assert!(matches!(&stream[0], crate::model::Observation::Lost(l) if l.ios == Some(40)), "{:?}", stream[0]);
    assert_eq!(stream.len(), 81);
}

/// A file of ours without its checksums, as another program would have written it.
fn disowned(mut bytes: Vec<u8>) -> Vec<u8> {
    for word in ["iolens.footer_crc32", "iolens.chunk_crc32", "iolens 0"] {
        while let Some(at) = bytes.windows(word.len()).position(|w| w == word.as_bytes()) {
            bytes[at] = b'x';
        }
    }
    bytes
}

#[test]
fn a_file_of_others_needs_no_checksums() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 300, WriterOptions::default());
    let path = dir.join("io/000001.parquet");
    fs::write(&path, disowned(fs::read(&path).expect("reads"))).expect("writes");
    assert_eq!(inspect(&dir), ((0..300).collect(), [0; 3], false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Without checksums damage cannot always be noticed; but it must never be more than an error.
    #[test]
    fn damaged_files_of_others_are_read_without_a_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), near_end: bool
    ) {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r.iolens");
        record(&dir, 300, WriterOptions::default());
        let path = dir.join("io/000001.parquet");
        let mut bytes = disowned(fs::read(&path).expect("reads"));
        // Half of the time in the footer, where the numbers are that a reader trusts.
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
    assert!(matches!(e, StoreError::Newer { found: 7, reads: 1, .. }), "{e}");
}

#[test]
fn a_newer_number_is_not_called_damage_though_its_checksum_is_not_ours() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 10, WriterOptions::default());
    let path = dir.join("meta.json");
    let ours = fs::read_to_string(&path).expect("reads");
    let numbered = |n: &str| ours.replace("\"schema_version\": 1,", &format!("\"schema_version\": {n},"));
    fs::write(&path, numbered("99")).expect("writes");
    let e = Recording::open(&dir).expect_err("newer");
    assert!(matches!(e, StoreError::Newer { found: 99, reads: 1, .. }), "{e}");
    fs::write(&path, numbered("9")).expect("writes");
    assert_eq!(Recording::open(&dir).expect("one flipped bit is damage").warnings().len(), 1);
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
