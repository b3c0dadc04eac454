//! Speed of the recording: rows in (log, Parquet, checksums and all) and rows out. `examples/store_cost.rs` gives CPU
//! time, bytes and memory per I/O on a real sample.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iolens_core::model::{Comm, DevId, Io, Op, Origin, RecorderCost, RecordingMeta, Source};
use iolens_core::store::{IoColumns, Recording, RecordingWriter, WriterOptions};

const ROWS: usize = 256 << 10;

/// Random reads and sequential writes of a few processes on two devices.
fn ios() -> Vec<Io> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let (mut done, mut log) = (0, 1 << 20);
    let mut next = || {
        done += 3_000 + random(60_000) as i64;
        log += 8;
        let write = random(3) == 0;
        Io {
            sector: Some(if write { log } else { random(1 << 28) as i64 * 8 }),
            flags: Some(if write { 0 } else { Io::FLAG_SYNC }),
            error: Some(0),
            merges: Some(0),
            tgid: Some(1000 + random(6) as i32),
            comm: Some(Comm::new(if write { b"kworker/u8:1" } else { b"postgres" })),
            cgroup: Some(1000 + random(3) as i64),
            ino: Some(random(40) as i64),
            fs_dev: Some(DevId::new(254, 1).0),
            origin: if write { Origin::Writeback } else { Origin::Direct },
            ..Io::new(
                done,
                DevId::new(8, 16 * random(2) as u32),
                Op(write.into()),
                4096,
                Some(900 + random(700) as i64),
                20_000 + (random(1_000) * random(1_000) / 4) as i64,
            )
        }
    };
    (0..ROWS).map(|_| next()).collect()
}

fn record(dir: &Path, ios: &[Io]) {
    let mut writer =
        RecordingWriter::create(dir, RecordingMeta::new(Source::Ebpf, 0), WriterOptions::default()).unwrap();
    for (i, chunk) in ios.chunks(256).enumerate() {
        writer.push_ios(chunk).unwrap();
        if i % 64 == 0 {
            writer.tick(chunk[0].done_ns).unwrap();
        }
    }
    writer.finish(i64::MAX, RecorderCost::default()).unwrap();
}

fn store(c: &mut Criterion) {
    let (tmp, ios) = (tempfile::tempdir().unwrap(), ios());
    let mut group = c.benchmark_group("store");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10).measurement_time(Duration::from_secs(5));
    let mut n = 0;
    let mut fresh = || {
        n += 1;
        tmp.path().join(format!("{n}.iolens"))
    };
    group.bench_function("write", |b| b.iter_batched(&mut fresh, |dir| record(&dir, &ios), BatchSize::PerIteration));
    let dir = tmp.path().join("read.iolens");
    record(&dir, &ios);
    for (name, columns) in [("read for zoom", IoColumns::QUEUE), ("read everything", IoColumns::ALL)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let recording = Recording::open(&dir).unwrap();
                recording.ios(0..i64::MAX, columns).map(|batch| batch.unwrap().len()).sum::<usize>()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
