//! Recordings for tests to damage.

use std::path::{Path, PathBuf};

use crate::model::{
    Comm, CounterSample, DevId, DiskCounters, Io, LossReason, Lost, Mark, Observation, Op, Origin,
    RecorderCost, RecordingMeta, Source,
};
use crate::store::{IoColumns, Recording, RecordingWriter, WriterOptions};

pub fn meta() -> RecordingMeta {
    let mut meta = RecordingMeta::new(Source::Ebpf, 1_795_000_000_000_000_000);
    meta.host = Some("test".to_owned());
    meta
}

/// A plausible I/O with number `i`, which completes 10 us after the previous one.
pub fn io(i: i64) -> Io {
    Io {
        sector: Some(i * 7919 % 1_000_000 * 8),
        flags: Some(if i % 3 == 0 { 0 } else { Io::FLAG_SYNC }),
        error: Some(0),
        merges: Some((i % 5 == 0).into()),
        tgid: Some(1000 + (i % 4) as i32),
        comm: Some(Comm::new(if i % 4 == 0 { b"kworker/u8:1" } else { b"fio" })),
        cgroup: Some(77),
        ino: (i % 2 == 0).then_some(i / 100),
        generation: (i % 4 == 0).then_some(i as u32),
        fs_dev: (i % 2 == 0).then_some(DevId::new(254, 1).0),
        origin: Origin::ALL[(i % 4) as usize],
        ..Io::new(
            i * 10_000,
            DevId::new(8, (i % 2) as u32 * 16),
            Op((i % 2) as i32),
            4096 << (i % 3),
            Some(i % 977),
            50_000 + i * 31 % 9973,
        )
    }
}

pub fn ios(range: std::ops::Range<i64>) -> Vec<Io> {
    range.map(io).collect()
}

/// Options under which small recordings have many segments.
pub fn small_segments(rows: usize) -> WriterOptions {
    WriterOptions {
        segment_rows: rows,
        ..WriterOptions::default()
    }
}

/// A finished recording of `n` I/Os.
pub fn record(dir: &Path, n: i64, options: WriterOptions) {
    let mut w = RecordingWriter::create(dir, meta(), options).expect("creates");
    for chunk in ios(0..n).chunks(500) {
        w.push_ios(chunk).expect("pushes");
    }
    w.finish(n * 10_000, RecorderCost::default())
        .expect("finishes");
}

/// All I/Os that can be read, and the damage found.
pub fn read(r: &Recording) -> (Vec<Io>, Vec<Lost>) {
    let mut reader = r.ios(i64::MIN..i64::MAX, IoColumns::ALL);
    let mut all = Vec::new();
    for batch in &mut reader {
        all.extend(batch.expect("damage is no error"));
    }
    let mut damage = r.lost(i64::MIN..i64::MAX);
    damage.extend(reader.damage());
    (all, damage)
}

/// A recording with rows in every table: three segments of I/Os and, unless it is `finished`, more in the log.
pub fn record_all_tables(dir: &Path, finished: bool) {
    let mut w = RecordingWriter::create(dir, meta(), small_segments(40)).expect("creates");
    for (round, chunk) in ios(0..if finished { 120 } else { 150 })
        .chunks(20)
        .enumerate()
    {
        let at_ns = round as i64 * 200_000;
        w.push_ios(chunk).expect("pushes");
        let counters = DiskCounters {
            in_flight: round as u64,
            ..DiskCounters::default()
        };
        w.push(&Observation::Counters(CounterSample {
            at_ns,
            dev: DevId::new(8, 0),
            counters,
        }))
        .expect("pushes");
        w.push(&Observation::Mark(Mark {
            at_ns,
            kind: "phase".into(),
            text: format!("round {round}"),
        }))
        .expect("pushes");
        w.push(&Observation::Lost(ring_full(at_ns, 3)))
            .expect("pushes");
        w.tick(at_ns).expect("ticks");
    }
    if finished {
        w.finish(1_200_000, RecorderCost::default())
            .expect("finishes");
    }
}

pub fn ring_full(at_ns: i64, ios: i64) -> Lost {
    Lost {
        from_ns: at_ns,
        to_ns: at_ns + 5,
        dev: None,
        class: None,
        reason: LossReason::RingFull,
        ios: Some(ios),
        bytes: None,
        merges: None,
    }
}

/// All files of a recording, relative to it.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("reads") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Copies a directory tree, skipping entries that disappear in between.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("creates");
    let Ok(entries) = std::fs::read_dir(from) else {
        return;
    };
    for entry in entries.flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            let _ = std::fs::copy(entry.path(), target);
        }
    }
}

/// Checks that `rows` are as [`io`] creates them, in order and without duplicates. Returns their numbers.
pub fn numbers(rows: &[Io]) -> Vec<i64> {
    let numbers: Vec<i64> = rows.iter().map(|r| r.done_ns / 10_000).collect();
    assert!(
        numbers.is_sorted_by(|a, b| a < b),
        "out of order or twice: {numbers:?}"
    );
    for (row, n) in rows.iter().zip(&numbers) {
        assert_eq!(*row, io(*n), "a wrong row");
    }
    numbers
}

/// A file of ours with its checksums removed, as if another program had written it.
pub fn disowned(mut bytes: Vec<u8>) -> Vec<u8> {
    for word in ["iolens.footer_crc32", "iolens.chunk_crc32", "iolens 0"] {
        while let Some(at) = bytes.windows(word.len()).position(|w| w == word.as_bytes()) {
            bytes[at] = b'x';
        }
    }
    bytes
}
