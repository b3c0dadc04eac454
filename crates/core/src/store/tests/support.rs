//! Recordings to break.

use std::path::Path;

use crate::model::{Comm, DevId, Io, Lost, Op, Origin, RecorderCost, RecordingMeta, Source};
use crate::store::{IoColumns, Recording, RecordingWriter, WriterOptions};

pub fn meta() -> RecordingMeta {
    let mut meta = RecordingMeta::new(Source::Ebpf, 1_795_000_000_000_000_000);
    meta.host = Some("test".to_owned());
    meta
}

/// A plausible I/O, the `i`th of its recording, 10 us after the one before.
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
    WriterOptions { segment_rows: rows, ..WriterOptions::default() }
}

/// A finished recording of `n` I/Os.
pub fn record(dir: &Path, n: i64, options: WriterOptions) {
    let mut w = RecordingWriter::create(dir, meta(), options).expect("creates");
    for chunk in ios(0..n).chunks(500) {
        w.push_ios(chunk).expect("pushes");
    }
    w.finish(n * 10_000, RecorderCost::default()).expect("finishes");
}

/// All I/Os that can be read, and the damage met.
pub fn read(r: &Recording) -> (Vec<Io>, Vec<Lost>) {
    let mut reader = r.ios(i64::MIN..i64::MAX, IoColumns::ALL);
    let mut all = Vec::new();
    for batch in &mut reader {
        all.extend(batch.expect("damage is no error"));
    }
    let mut damage = r.lost(i64::MIN..i64::MAX).expect("reads losses");
    damage.extend(reader.damage());
    (all, damage)
}
