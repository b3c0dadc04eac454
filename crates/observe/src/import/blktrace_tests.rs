#![allow(clippy::unwrap_used)]
use super::super::fixtures;
use super::super::log::{ImportOptions, Imported, import_files, parse_bytes};
use super::super::recognise::Kind;
use super::*;
use iolens_core::model::{Class, Observation};
use proptest::prelude::*;

fn ios(i: &Imported) -> Vec<Io> {
    i.observations.iter().filter_map(|o| if let Observation::Io(io) = o { Some(*io) } else { None }).collect()
}

/// A trace taken on a loop device that did nothing else while fio ran, with the kernel's counters before and after.
#[test]
fn a_real_trace_agrees_with_the_kernels_counters() {
    let files = [fixtures::path("loop.blktrace.0"), fixtures::path("loop.blktrace.1")];
    let got = import_files(&files, ImportOptions { strict: true, ..ImportOptions::default() }).unwrap();
    let ios = ios(&got);
    let stat = std::fs::read_to_string(fixtures::path("loop.blktrace.stat")).unwrap();
    let rows: Vec<Vec<i64>> = stat.lines().map(|l| l.split(' ').map(|w| w.parse().unwrap()).collect()).collect();
    for (class, first) in [(Class::Read, 0), (Class::Write, 4)] {
        let of: Vec<_> = ios.iter().filter(|io| io.class() == class).collect();
        assert_eq!(of.len() as i64, rows[1][first] - rows[0][first], "{class:?} ios");
        let bytes: i64 = of.iter().map(|io| io.bytes).sum();
        assert_eq!(bytes, 512 * (rows[1][first + 2] - rows[0][first + 2]), "{class:?} bytes");
        let ms: i64 = of.iter().map(|io| io.total_ns()).sum::<i64>() / 1_000_000;
        // The kernel adds whole milliseconds of each I/O's nanoseconds, so it can only be a little apart.
        let ticks = rows[1][first + 3] - rows[0][first + 3];
        assert!((ms - ticks).abs() <= 2 + ticks / 10, "{class:?}: {ms} ms here, {ticks} ms there");
    }
    assert!(ios.iter().all(|io| io.queue_ns.is_some() && io.error == Some(0)));
    assert_eq!(got.damage.count, 0);
}

fn record(swap: bool, time: u64, sector: u64, bytes: u32, action: u32, pdu: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let u32b = |v: u32| if swap { v.to_be_bytes() } else { v.to_le_bytes() };
    let u64b = |v: u64| if swap { v.to_be_bytes() } else { v.to_le_bytes() };
    let u16b = |v: u16| if swap { v.to_be_bytes() } else { v.to_le_bytes() };
    out.extend(u32b(MAGIC | VERSION));
    out.extend(u32b(0));
    out.extend(u64b(time));
    out.extend(u64b(sector));
    out.extend(u32b(bytes));
    out.extend(u32b(action));
    out.extend(u32b(42));
    out.extend(u32b(8 << 20));
    out.extend(u32b(0));
    out.extend(u16b(0));
    out.extend(u16b(pdu.len() as u16));
    out.extend(pdu);
    out
}

fn small_trace(swap: bool) -> Vec<u8> {
    let mut t = record(swap, 0, 0, 0, NOTIFY, b"postgres\0\0\0\0\0\0\0\0");
    t.extend(record(swap, 100, 64, 4096, WRITE | SYNC | 1, b""));
    t.extend(record(swap, 150, 64, 4096, WRITE | SYNC | 4, b""));
    t.extend(record(swap, 200, 64, 4096, WRITE | SYNC | 7, b""));
    t.extend(record(swap, 900, 64, 4096, WRITE | SYNC | 8, b""));
    t
}

#[test]
fn both_byte_orders_say_the_same() {
    for swap in [false, true] {
        let bytes = small_trace(swap);
        assert!(has_magic(&bytes));
        let got = parse_bytes(Kind::Blktrace, Path::new("t.blktrace.0"), &bytes, ImportOptions::default()).unwrap();
        let io = ios(&got)[0];
        assert_eq!((io.queue_ns, io.device_ns, io.dev, io.sector), (Some(50), 700, DevId::new(8, 0), Some(64)));
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
    let got = parse_bytes(Kind::Blktrace, Path::new("t"), &bytes, ImportOptions::default()).unwrap();
    assert_eq!(ios(&got).len(), 2);
    assert_eq!(got.damage.places[0].at, at as u64);
    assert_eq!(got.damage.count, 2);
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..200) {
        let _ = parse_bytes(Kind::Blktrace, Path::new("t"), &bytes, ImportOptions::default());
        let mut nearly = small_trace(false);
        for (i, b) in bytes.iter().take(6).enumerate() {
            let n = nearly.len();
            nearly[(at + i * 37) % n] = *b;
        }
        let _ = parse_bytes(Kind::Blktrace, Path::new("t"), &nearly, ImportOptions::default());
    }
}
