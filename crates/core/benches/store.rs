//! Speed of the recording: rows in (log, Parquet, checksums and all) and rows out. `examples/store_cost.rs` gives CPU
//! time, bytes and memory per I/O on a real sample.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iolens_core::model::{Io, RecorderCost, RecordingMeta, Source};
use iolens_core::store::{IoColumns, Recording, RecordingWriter, WriterOptions};

mod sample;

const ROWS: usize = 256 << 10;

fn record(dir: &Path, ios: &[Io]) {
    let mut writer = RecordingWriter::create(
        dir,
        RecordingMeta::new(Source::Ebpf, 0),
        WriterOptions::default(),
    )
    .unwrap();
    for (i, chunk) in ios.chunks(256).enumerate() {
        writer.push_ios(chunk).unwrap();
        if i % 64 == 0 {
            writer.tick(chunk[0].done_ns).unwrap();
        }
    }
    writer.finish(i64::MAX, RecorderCost::default()).unwrap();
}

fn store(c: &mut Criterion) {
    let tmp = tempfile::tempdir().unwrap();
    let ios = sample::made_up(ROWS, 2, 33_000);
    let mut group = c.benchmark_group("store");
    group
        .throughput(Throughput::Elements(ROWS as u64))
        .sample_size(10)
        .measurement_time(Duration::from_secs(5));
    let mut n = 0;
    let mut fresh = || {
        n += 1;
        tmp.path().join(format!("{n}.iolens"))
    };
    group.bench_function("write", |b| {
        b.iter_batched(
            &mut fresh,
            |dir| record(&dir, &ios),
            BatchSize::PerIteration,
        )
    });
    let dir = tmp.path().join("read.iolens");
    record(&dir, &ios);
    for (name, columns) in [
        ("read for zoom", IoColumns::QUEUE),
        ("read everything", IoColumns::ALL),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let recording = Recording::open(&dir).unwrap();
                recording
                    .ios(0..i64::MAX, columns)
                    .map(|batch| batch.unwrap().len())
                    .sum::<usize>()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
