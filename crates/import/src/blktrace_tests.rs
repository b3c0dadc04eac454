#![allow(clippy::unwrap_used)]
use super::super::files::{import_files, parse_bytes};
use super::super::fixtures;
use super::super::log::{ImportOptions, Imported};
use super::super::recognise::LogFormat;
use super::*;
use iolens_core::model::{Class, LossReason, Observation};
use proptest::prelude::*;

/// A trace taken on a loop device that did nothing else while fio ran, with the kernel's counters before and after.
#[test]
fn a_real_trace_agrees_with_the_kernels_counters() {
    let files = [
        fixtures::path("loop.blktrace.0"),
        fixtures::path("loop.blktrace.1"),
    ];
    let got = import_files(
        &files,
        ImportOptions {
            strict: true,
            ..ImportOptions::default()
        },
    )
    .unwrap();
    let ios = got.ios();
    let stat = std::fs::read_to_string(fixtures::path("loop.blktrace.stat")).unwrap();
    let rows: Vec<Vec<i64>> = stat
        .lines()
        .map(|l| l.split(' ').map(|w| w.parse().unwrap()).collect())
        .collect();
    for (class, first) in [(Class::Read, 0), (Class::Write, 4)] {
        let of: Vec<_> = ios.iter().filter(|io| io.class() == class).collect();
        assert_eq!(
            of.len() as i64,
            rows[1][first] - rows[0][first],
            "{class:?} ios"
        );
        let bytes: i64 = of.iter().map(|io| io.bytes).sum();
        assert_eq!(
            bytes,
            512 * (rows[1][first + 2] - rows[0][first + 2]),
            "{class:?} bytes"
        );
        let ms: i64 = of.iter().map(|io| io.total_ns()).sum::<i64>() / 1_000_000;
        // The kernel adds whole milliseconds of each I/O's nanoseconds, so it can only be a little apart.
        let ticks = rows[1][first + 3] - rows[0][first + 3];
        assert!(
            (ms - ticks).abs() <= 2 + ticks / 10,
            "{class:?}: {ms} ms here, {ticks} ms there"
        );
    }
    assert!(
        ios.iter()
            .all(|io| io.queue_ns.is_some() && io.error == Some(0))
    );
    assert_eq!(got.damage.count, 0);
}

fn record(swap: bool, time: u64, sector: u64, bytes: u32, action: u32, pdu: &[u8]) -> Vec<u8> {
    record_of(7, swap, time, sector, bytes, action, pdu)
}

fn record_of(
    version: u32,
    swap: bool,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pdu: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    let u32b = |v: u32| {
        if swap {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    let u64b = |v: u64| {
        if swap {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    let u16b = |v: u16| {
        if swap {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    out.extend(u32b(MAGIC | version));
    out.extend(u32b(0));
    out.extend(u64b(time));
    out.extend(u64b(sector));
    out.extend(u32b(bytes));
    if version == 7 {
        out.extend(u32b(action));
        out.extend(u32b(42));
    } else {
        out.extend(u32b(42));
        // A bit of the upper half, as for operations on zones.
        out.extend(u64b(u64::from(action) | 1 << 33));
    }
    out.extend(u32b(8 << 20));
    out.extend(u32b(0));
    out.extend(u16b(0));
    out.extend(u16b(pdu.len() as u16));
    out.extend(vec![0; HEADERS[usize::from(version == 8)] - out.len()]);
    out.extend(pdu);
    out
}

fn small_trace(swap: bool) -> Vec<u8> {
    small_trace_of(7, swap, 0)
}

/// `cgroup`: what records with the number of a control group have in their action, and 8 bytes of data for it.
fn small_trace_of(version: u32, swap: bool, cgroup: u32) -> Vec<u8> {
    let pdu = |rest: &[u8]| {
        if cgroup != 0 {
            [b"12345678", rest].concat()
        } else {
            rest.to_vec()
        }
    };
    let record = |time, bytes, action: u32, data: &[u8]| {
        record_of(version, swap, time, 64, bytes, action | cgroup, &pdu(data))
    };
    let mut t = record(0, 0, NOTIFY, b"postgres\0\0\0\0\0\0\0\0");
    for (time, action) in [(100, 1), (150, 4), (200, 7), (900, 8)] {
        t.extend(record(time, 4096, WRITE | SYNC | action, b""));
    }
    t
}

#[test]
fn both_byte_orders_and_versions_give_equal_records() {
    let kinds = [
        (7, false, 0),
        (7, true, 0),
        (8, false, 0),
        (8, true, 0),
        (7, false, WITH_CGROUP),
        (8, true, WITH_CGROUP),
    ];
    for (version, swap, cgroup) in kinds {
        let bytes = small_trace_of(version, swap, cgroup);
        assert!(has_magic(&bytes));
        let got = parse_bytes(
            LogFormat::Blktrace,
            Path::new("t.blktrace.0"),
            &bytes,
            ImportOptions::default(),
        )
        .unwrap();
        let io = got.ios()[0];
        assert_eq!(
            (io.queue_ns, io.device_ns, io.dev, io.sector),
            (Some(50), 700, DevId::new(8, 0), Some(64))
        );
        assert_eq!(io.comm, Some(Comm::new(b"postgres")));
        assert_eq!(io.flags, Some(Io::FLAG_SYNC));
    }
}

#[test]
fn damage_in_the_middle_costs_its_record_only() {
    let mut bytes = small_trace(false);
    let at = bytes.len();
    bytes.extend_from_slice(b"what is this doing here");
    bytes.extend(record(false, 1000, 8, 512, READ | 7, b""));
    bytes.extend(record(false, 1100, 8, 512, READ | 8, b""));
    bytes.extend_from_slice(&record(false, 1200, 8, 512, READ | 7, b"")[..20]);
    let got = parse_bytes(
        LogFormat::Blktrace,
        Path::new("t"),
        &bytes,
        ImportOptions::default(),
    )
    .unwrap();
    assert_eq!(got.ios().len(), 2);
    assert_eq!(got.damage.places[0].at, at as u64);
    assert_eq!(got.damage.count, 2);
}

#[test]
fn a_set_with_missing_files_is_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let copy = |n: u32| {
        let to = dir.path().join(format!("loop.blktrace.{n}"));
        std::fs::copy(fixtures::path(&format!("loop.blktrace.{n}")), &to).unwrap();
        to
    };
    let first = copy(0);
    let second = copy(1);
    let lost = |i: &Imported| {
        let of = |o: &Observation| match o {
            Observation::Lost(l) if l.reason == LossReason::Import => l.ios,
            _ => None,
        };
        i.observations.iter().find_map(of).unwrap_or(0)
    };
    let options = ImportOptions::default();
    let whole = import_files(&[first.clone(), second.clone()], options).unwrap();
    assert_eq!(lost(&whole), 0, "{:?}", whole.meta.limits);
    assert!(
        !whole
            .meta
            .limits
            .iter()
            .any(|l| l.contains("were not given")),
        "{:?}",
        whole.meta.limits
    );
    let twice = import_files(&[first.clone(), second.clone(), first.clone()], options).unwrap();
    assert_eq!(twice.ios(), whole.ios(), "a file given twice counts once");
    assert!(
        twice.meta.limits[0].contains("the same log"),
        "{:?}",
        twice.meta.limits
    );
    for (given, missing) in [(first, 1), (second, 0)] {
        match import_files(&[given], options) {
            Ok(part) => {
                assert!(lost(&part) > 0, "{:?}", part.meta.limits);
                let said = format!("that of processor {missing}");
                assert!(
                    part.meta.limits.iter().any(|l| l.contains(&said)),
                    "{:?}",
                    part.meta.limits
                );
            }
            Err(e) => assert!(e.to_string().contains("all processors"), "{e}"),
        }
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..200) {
        let _ = parse_bytes(LogFormat::Blktrace, Path::new("t"), &bytes, ImportOptions::default());
        let mut nearly = small_trace(false);
        for (i, b) in bytes.iter().take(6).enumerate() {
            let n = nearly.len();
            nearly[(at + i * 37) % n] = *b;
        }
        let _ = parse_bytes(LogFormat::Blktrace, Path::new("t"), &nearly, ImportOptions::default());
    }
}
