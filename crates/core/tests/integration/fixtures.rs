//! One recording of every released format version, finished and crashed: they must remain readable for
//! ever.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use iolens_core::model::{
    Comm, CounterSample, DevId, Device, DiskCounters, Io, LossReason, Lost, Mark, Observation, Op,
    Origin, RecorderCost, RecordingMeta, Source,
};
use iolens_core::store::{Recording, RecordingWriter, WriterOptions};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings")
}

fn io(i: i64) -> Io {
    let write = i % 4 == 0;
    Io {
        sector: Some(2048 + i * 8),
        flags: Some(if write { 0 } else { Io::FLAG_SYNC }),
        error: Some(if i == 77 { 5 } else { 0 }),
        merges: Some((i % 8) as i32),
        tgid: Some(100 + (i % 3) as i32),
        comm: Some(Comm::new(if write {
            b"kworker/u8:1"
        } else {
            b"post\xffgres"
        })),
        cgroup: Some(4242),
        ino: write.then_some(131_072),
        fs_dev: write.then_some(DevId::new(254, 1).0),
        origin: if write {
            Origin::Writeback
        } else {
            Origin::Direct
        },
        ..Io::new(
            i * 1_000_000,
            DevId::new(254, 0),
            Op(write.into()),
            4096,
            Some(i * 10),
            80_000 + i * i % 50_000,
        )
    }
}

/// Everything that the recordings hold, in order.
fn observations() -> Vec<Observation> {
    let sample = |i: i64| CounterSample {
        at_ns: i * 10_000_000,
        dev: DevId::new(254, 0),
        counters: DiskCounters {
            in_flight: i as u64,
            io_ticks_ms: 10 * i as u64,
            ..DiskCounters::default()
        },
    };
    let lost = Lost {
        from_ns: 50_500_000,
        to_ns: 52_500_000,
        dev: Some(DevId::new(254, 0)),
        class: None,
        reason: LossReason::RingFull,
        ios: Some(3),
        bytes: None,
        merges: None,
    };
    let mut all: Vec<Observation> = (1..=200).map(|i| Observation::Io(io(i))).collect();
    all.extend((0..=20).map(|i| Observation::Counters(sample(i))));
    all.push(Observation::Lost(lost));
    all.push(Observation::Mark(Mark {
        at_ns: 0,
        kind: "start".into(),
        text: "a fixture".into(),
    }));
    let rank = |o: &Observation| match o {
        Observation::Lost(_) => 0,
        Observation::Mark(_) => 1,
        Observation::Name(_) => 2,
        Observation::Counters(_) => 3,
        Observation::Pressure(_) => 4,
        Observation::Cgroup(_) => 5,
        Observation::Request(_) => 6,
        Observation::Io(_) => 7,
    };
    all.sort_by_key(|o| (o.at_ns(), rank(o)));
    all
}

fn meta() -> RecordingMeta {
    let mut meta = RecordingMeta::new(Source::Ebpf, 1_795_000_000_000_000_000);
    meta.host = Some("fixture".to_owned());
    meta.devices = vec![Device::named("vda", DevId::new(254, 0))];
    meta
}

fn write(dir: &Path, finish: bool) {
    let options = WriterOptions {
        segment_rows: 80,
        ..WriterOptions::default()
    };
    let mut writer = RecordingWriter::create(dir, meta(), options).unwrap();
    for o in observations() {
        writer.push(&o).unwrap();
        writer.tick(o.at_ns()).unwrap();
    }
    if finish {
        writer
            .finish(
                200_000_000,
                RecorderCost {
                    cpu_s: Some(0.25),
                    ..RecorderCost::default()
                },
            )
            .unwrap();
    }
}

#[test]
fn recordings_of_every_version_are_read() {
    let mut seen = 0;
    for version in fs::read_dir(fixtures())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_dir())
    {
        for (name, end) in [
            ("finished.iolens", Some(200_000_000)),
            ("crashed.iolens", None),
        ] {
            let r = Recording::open(&version.join(name)).unwrap();
            assert!(r.warnings().is_empty(), "{:?}", r.warnings());
            assert_eq!((r.meta().end_ns, r.end_ns()), (end, 200_000_000));
            assert_eq!(
                (r.meta().host.as_deref(), r.meta().devices.len()),
                (Some("fixture"), 1)
            );
            let got: Vec<Observation> = r.observations(0..i64::MAX).map(|o| o.unwrap()).collect();
            assert_eq!(got, observations(), "{}", version.join(name).display());
            seen += 1;
        }
    }
    assert!(seen >= 2, "no fixtures at {}", fixtures().display());
}

/// Creates the fixtures of the present version: only for a version that has none yet.
#[test]
#[ignore = "writes fixtures/recordings"]
fn make_fixtures() {
    let dir = fixtures().join(format!("v{}", iolens_core::model::SCHEMA_VERSION));
    fs::create_dir_all(&dir).unwrap();
    write(&dir.join("finished.iolens"), true);
    write(&dir.join("crashed.iolens"), false);
    // What the crash would have left, less 64 KiB of zeros.
    fs::remove_file(dir.join("crashed.iolens/wal/reserve")).unwrap();
}
