//! The size limit holds at every instant, and what it removes is reported.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::support::{meta, read};
use crate::model::{
    Comm, CounterSample, DevId, DiskCounters, Io, LossReason, Observation, Op, RecorderCost,
};
use crate::store::{IoColumns, Recording, RecordingWriter, StoreError, WriterOptions};

/// Disk space as `du` counts it: blocks of all files and directories.
fn du(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return 0;
    };
    let below = if meta.is_dir() {
        fs::read_dir(path)
            .expect("reads")
            .map(|e| du(&e.expect("an entry").path()))
            .sum()
    } else {
        0
    };
    meta.blocks() * 512 + below
}

/// Pseudo-random bits (the finaliser of splitmix64).
fn scramble(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// I/Os that do not compress, so that the limit is reached soon.
fn noise(range: std::ops::Range<i64>) -> Vec<Io> {
    let mix = |i: i64, salt: i64| scramble((i * 64 + salt) as u64) as i64;
    let io = |i: i64| Io {
        sector: Some(mix(i, 11)),
        ino: Some(mix(i, 23)),
        cgroup: Some(mix(i, 37)),
        merges: Some(2),
        comm: Some(Comm::new(format!("{:x}", mix(i, 41)).as_bytes())),
        ..Io::new(
            i * 1000,
            DevId::new(8, 0),
            Op::WRITE,
            mix(i, 53),
            Some(mix(i, 61) >> 3),
            mix(i, 71) >> 3,
        )
    };
    range.map(io).collect()
}

fn limited(keep: u64, step: i64, total: i64) {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let options = WriterOptions {
        keep_bytes: Some(keep),
        ..WriterOptions::default()
    };
    let mut w = RecordingWriter::create(&dir, meta(), options).expect("creates");
    let mut pushed = 0;
    while pushed < total {
        w.push_ios(&noise(pushed..pushed + step)).expect("pushes");
        pushed += step;
        let counters = DiskCounters {
            io_ticks_ms: pushed as u64,
            ..DiskCounters::default()
        };
        let sample = CounterSample {
            at_ns: pushed * 1000,
            dev: DevId::new(8, 0),
            counters,
        };
        w.push(&Observation::Counters(sample)).expect("pushes");
        w.tick(pushed * 1000).expect("ticks");
        let used = du(&dir);
        assert!(used <= keep, "{used} of {keep} bytes after {pushed} I/Os");
        assert!(
            used <= w.status().disk_bytes,
            "{used}, and the writer thinks {}",
            w.status().disk_bytes
        );
    }
    let summary = w
        .finish(pushed * 1000, RecorderCost::default())
        .expect("finishes");
    assert!(du(&dir) <= keep);
    let recording = Recording::open(&dir).expect("opens");
    let (rows, lost) = read(&recording);
    let removed: Vec<_> = lost
        .iter()
        .filter(|l| l.reason == LossReason::Retention)
        .collect();
    assert!(
        !rows.is_empty() && !removed.is_empty(),
        "{} kept in {} bytes",
        rows.len(),
        du(&dir)
    );
    let first = pushed - rows.len() as i64;
    assert_eq!(rows, noise(first..pushed), "what is kept is the end, whole");
    assert_eq!(
        removed.iter().map(|l| l.ios.expect("counted")).sum::<i64>(),
        first,
        "what was removed is reported"
    );
    assert_eq!(
        removed
            .iter()
            .map(|l| l.merges.expect("counted"))
            .sum::<i64>(),
        2 * first
    );
    assert_eq!(
        removed.iter().map(|l| l.to_ns).max(),
        Some((first - 1) * 1000),
        "and up to when"
    );
    let together = recording.removed();
    assert_eq!(
        together.len(),
        1,
        "segments that follow each other: {together:?}"
    );
    assert_eq!(
        (together[0].from_ns, together[0].to_ns, together[0].ios),
        (0, (first - 1) * 1000, Some(first))
    );
    assert_eq!(
        (summary.ios, summary.ios_removed),
        (rows.len() as u64, first as u64)
    );
    assert_eq!(summary.ios_lost, 0, "retention is no loss");
    assert!(
        du(&dir) > keep / 3,
        "the limit is made use of: {}",
        du(&dir)
    );
}

#[test]
fn the_smallest_limit_holds_at_every_step() {
    limited(WriterOptions::MIN_KEEP, 400, 150_000);
}

#[test]
fn a_limit_with_bigger_batches_holds_too() {
    limited(10 << 20, 7_001, 350_000);
}

#[test]
fn counters_alone_stay_within_the_limit() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let keep = WriterOptions::MIN_KEEP;
    let options = WriterOptions {
        keep_bytes: Some(keep),
        ..WriterOptions::default()
    };
    let mut w = RecordingWriter::create(&dir, meta(), options).expect("creates");
    for i in 0..120_000_i64 {
        let random = |salt: u64| scramble(i as u64 * 64 + salt);
        let mut counters = DiskCounters {
            in_flight: random(1),
            io_ticks_ms: random(2),
            ..Default::default()
        };
        counters.read.ios = random(3);
        counters.read.sectors = random(4);
        counters.write.ios = random(5);
        let sample = CounterSample {
            at_ns: i * 10_000_000,
            dev: DevId::new(8, 0),
            counters,
        };
        w.push(&Observation::Counters(sample)).expect("pushes");
        if i % 20 == 0 {
            w.tick(i * 10_000_000).expect("ticks");
            assert!(du(&dir) <= keep, "{} after {i} samples", du(&dir));
        }
    }
    w.finish(1_200_000_000_000, RecorderCost::default())
        .expect("finishes");
    let r = Recording::open(&dir).expect("opens");
    let kept: Vec<i64> = r
        .counters(0..i64::MAX)
        .flat_map(|b| b.expect("reads"))
        .map(|s| s.at_ns / 10_000_000)
        .collect();
    assert!(
        kept.iter().copied().eq(kept[0]..120_000),
        "what is kept is the end, whole"
    );
    assert!(kept[0] > 0, "something was removed");
}

#[test]
fn a_description_larger_than_the_limit_is_refused() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let mut meta = meta();
    meta.options.push("x".repeat(2 << 20));
    let options = WriterOptions {
        keep_bytes: Some(WriterOptions::MIN_KEEP),
        ..WriterOptions::default()
    };
    let e = RecordingWriter::create(&dir, meta, options).expect_err("no room for data");
    assert!(matches!(e, StoreError::KeepTooSmall { .. }), "{e}");
    assert!(!dir.exists());
}

#[test]
fn removals_that_do_not_suffice_are_reported_as_well() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let options = WriterOptions {
        keep_bytes: Some(WriterOptions::MIN_KEEP),
        devices_table: true,
        ..super::support::small_segments(40)
    };
    let mut w = RecordingWriter::create(&dir, meta(), options).expect("creates");
    w.push_ios(&super::support::ios(0..120)).expect("pushes");
    w.tick(1).expect("ticks");
    // The findings use up all of the recording's space.
    let findings = dir.join("findings");
    fs::create_dir(&findings).expect("makes");
    let findings = findings.join("000001.parquet");
    fs::write(&findings, vec![0; WriterOptions::MIN_KEEP as usize]).expect("writes");
    w.push_ios(&super::support::ios(120..130)).expect("pushes");
    w.tick(2_000_000_000).expect("ticks");
    assert!(w.status().full && w.status().ios_removed == 120);
    fs::remove_file(&findings).expect("removes");
    for second in [4, 6] {
        w.tick(second * 1_000_000_000).expect("ticks");
    }
    let summary = w
        .finish(7_000_000_000, RecorderCost::default())
        .expect("finishes");
    assert_eq!((summary.ios, summary.ios_unwritten), (0, 10));
    let r = Recording::open(&dir).expect("opens");
    let lost = r.lost(i64::MIN..i64::MAX);
    let of = |reason: LossReason| {
        let of_reason = lost.iter().filter(|l| l.reason == reason);
        of_reason.filter_map(|l| l.ios).sum::<i64>()
    };
    assert_eq!(
        (of(LossReason::Retention), of(LossReason::DiskFull)),
        (120, 10)
    );
}

#[test]
fn a_segment_that_is_removed_while_it_is_read_is_reported() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    super::support::record(&dir, 120, super::support::small_segments(40));
    let r = Recording::open(&dir).expect("opens");
    fs::remove_file(dir.join("io/000001.parquet")).expect("removes");
    let mut reader = r.ios(0..i64::MAX, IoColumns::ALL);
    let rows: usize = (&mut reader).map(|b| b.expect("goes on").len()).sum();
    assert_eq!(rows, 80);
    assert_eq!(
        (reader.damage()[0].reason, reader.damage()[0].ios),
        (LossReason::Retention, Some(40))
    );
}
