//! What was written is read back.

use proptest::prelude::*;

use super::support::{io, ios, meta, read, record, small_segments};
use crate::model::{
    CallHistogram, ClassCounters, Comm, CounterSample, DataIo, DevId, DiskCounters, FlushCounters,
    How, Inode, Io, LossReason, Lost, Mark, Name, Named, Observation, Op, Origin, RecorderCost,
    Request, RequestFlags, SyncKind,
};
use crate::store::column::{Column, Ints, Texts};
use crate::store::frame::FrameColumns;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row as _;
use crate::store::schema::{ColumnDef, Kind, MAX_TIME_NS, Table};
use crate::store::{IoColumns, Recording, RecordingWriter, StoreError, WriterOptions};

fn any_i64() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX),
        -5i64..1_000_000
    ]
}

/// A time that readers accept as valid.
fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![
        -MAX_TIME_NS..=MAX_TIME_NS,
        Just(-MAX_TIME_NS),
        Just(MAX_TIME_NS),
        -5i64..1_000_000
    ]
}

fn any_comm() -> impl Strategy<Value = Comm> {
    prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'x')], 0..18)
        .prop_map(|b| Comm::new(&b))
}

prop_compose! {
    fn any_io()(
        (done_ns, bytes, device_ns) in (any_time(), any_i64(), any_time()),
        (dev, op) in (any::<i32>(), any::<i32>()),
        (queue_ns, sector, cgroup, ino) in (prop::option::of(any_time()), prop::option::of(any_i64()), prop::option::of(any_i64()), prop::option::of(any_i64())),
        (flags, error, merges, tgid, fs_dev) in (any::<Option<i32>>(), any::<Option<i32>>(), any::<Option<i32>>(), any::<Option<i32>>(), any::<Option<i32>>()),
        comm in prop::option::of(any_comm()),
        origin in 0usize..Origin::ALL.len(),
        generation in any::<Option<u32>>(),
    ) -> Io {
        Io { sector, flags, error, merges, tgid, comm, cgroup, ino, generation, fs_dev, origin: Origin::ALL[origin], ..Io::new(done_ns, DevId(dev), Op(op), bytes, queue_ns, device_ns) }
    }
}

/// New columns need no test of their own, because this one gets them from the declaration.
#[test]
fn every_column_of_an_io_is_written_and_read() {
    let table = Table::Io;
    for (known, def) in table.columns().iter().enumerate() {
        let column = |(i, def): (usize, &ColumnDef)| {
            let is_there = def.required || i == known;
            let cell =
                Ints::of([is_there.then_some(i64::from(def.kind != Kind::Text))].into_iter());
            match def.kind {
                Kind::Text => Column::Texts(Texts {
                    dictionary: vec![b"fio".to_vec()],
                    index: cell,
                }),
                _ => Column::Ints(cell),
            }
        };
        let columns: Vec<Column> = table.columns().iter().enumerate().map(column).collect();
        let row = Io::assemble(&columns, 0);
        let mut encoder = FrameEncoder::default();
        encoder.push(&[row]);
        let mut payload = Vec::new();
        encoder.finish(table.time_column(), &mut payload);
        let frame = FrameColumns::parse(&payload, 1).expect("parses");
        let back = frame.decode(table, |_| true).expect("decodes");
        assert_eq!(back[known].int(0), columns[known].int(0), "{}", def.name);
        assert_eq!(back[known].text(0), columns[known].text(0), "{}", def.name);
        assert_eq!(Io::assemble(&back, 0), row, "{}", def.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_io_comes_back_in_order_from_parquet_and_from_the_log(
        rows in prop::collection::vec(any_io(), 1..150), segment_rows in 1usize..100, finish: bool
    ) {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r.iolens");
        let mut w = RecordingWriter::create(&dir, meta(), small_segments(segment_rows)).expect("creates");
        for chunk in rows.chunks(7) {
            w.push_ios(chunk).expect("pushes");
        }
        if finish {
            w.finish(0, RecorderCost::default()).expect("finishes");
        } else {
            w.tick(1).expect("ticks");
        }
        let (back, damage) = read(&Recording::open(&dir).expect("opens"));
        let mut expected = rows;
        prop_assert!(back.is_sorted_by_key(|io| io.done_ns));
        let key = |io: &Io| format!("{io:?}");
        let mut back = back;
        back.sort_by_key(key);
        expected.sort_by_key(key);
        prop_assert_eq!(back, expected);
        prop_assert!(damage.is_empty());
    }

    #[test]
    fn a_range_returns_the_rows_inside_it(from in -100i64..400, length in 0i64..500, segment_rows in 1usize..200) {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r.iolens");
        record(&dir, 300, small_segments(segment_rows));
        let range = from * 10_000..(from + length) * 10_000;
        let mut back = Vec::new();
        for batch in Recording::open(&dir).expect("opens").ios(range.clone(), IoColumns::ALL) {
            back.extend(batch.expect("reads"));
        }
        prop_assert_eq!(back, ios(0..300).into_iter().filter(|io| range.contains(&io.done_ns)).collect::<Vec<_>>());
    }
}

fn request(end_ns: i64) -> Request {
    let io = |after_ns, how| DataIo {
        after_ns,
        duration_ns: 7,
        bytes: 4096,
        how,
    };
    Request {
        flags: RequestFlags::MMAP | RequestFlags::FORKED,
        sync: Some(SyncKind::Fdatasync),
        open_ns: Some(3),
        close_ns: Some(4),
        last_after_ns: Some(5),
        active_ns: 6,
        ios_in: 8,
        ios_out: 9,
        bytes_in: 10,
        bytes_out: 11,
        empty_reads: 12,
        failed: 13,
        device_ios: 14,
        slept_ios: 15,
        first: vec![
            io(1, How::DEVICE),
            io(9, How::WRITE),
            io(20, How::default()),
        ],
        slowest: Some(io(9, How::SLEPT)),
        read_histogram: CallHistogram::of_counts([0, 7, u32::from(end_ns % 2 == 0)]),
        write_histogram: (end_ns % 3 == 0)
            .then(|| CallHistogram::parse(b"4096:1 8192:4000000000"))
            .flatten(),
        size: Some(1 << 40),
        tgid: Some(16),
        comm: Some(Comm::new(b"x\xff")),
        cgroup: Some(17),
        fd: Some(18),
        ino: Some(19),
        fs_dev: Some(20),
        path: Some("/a b/\\x41 \u{1b}[31m".into()),
        ..Request::new(2, end_ns)
    }
}

fn sample(at_ns: i64, reads: u64) -> CounterSample {
    let read = ClassCounters {
        ios: reads,
        ..ClassCounters::default()
    };
    let counters = DiskCounters {
        read,
        in_flight: u64::MAX,
        discard: reads.is_multiple_of(2).then_some(read),
        flush: reads.is_multiple_of(3).then_some(FlushCounters {
            ios: reads,
            ticks_ms: 5,
        }),
        ..DiskCounters::default()
    };
    CounterSample {
        at_ns,
        dev: DevId::new(8, 0),
        counters,
    }
}

#[test]
fn every_kind_of_observation_comes_back_in_one_ordered_stream() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let lost = Lost {
        from_ns: 15,
        to_ns: 25_000,
        dev: Some(DevId::new(8, 0)),
        class: Some(crate::model::Class::Write),
        reason: LossReason::RingFull,
        ios: Some(3),
        bytes: None,
        merges: None,
    };
    let mut all: Vec<Observation> = ios(0..20).into_iter().map(Observation::Io).collect();
    all.extend((0..9).map(|i| Observation::Counters(sample(i * 21_000 + 7, i as u64))));
    all.push(Observation::Lost(lost));
    all.push(Observation::Mark(Mark {
        at_ns: 33_333,
        kind: "phase".into(),
        text: "naïve \\x41 \u{1b}[31m".into(),
    }));
    all.push(Observation::Request(Box::new(request(44_444))));
    let file = Named::File(Inode {
        fs_dev: -1,
        ino: i64::MAX,
        generation: Some(u32::MAX),
    });
    all.push(Observation::Name(Name {
        at_ns: 22_222,
        of: file,
        text: "/a b/\\x41\n \u{1b}[31m".into(),
    }));
    all.push(Observation::Name(Name {
        at_ns: 66_666,
        of: Named::Cgroup(-7),
        text: "/".into(),
    }));
    all.push(Observation::Name(Name {
        at_ns: 77_777,
        of: Named::Pod(-7),
        text: "default/web-0/nginx".into(),
    }));
    all.push(Observation::Request(Box::new(Request::new(1, 55_555))));
    all.sort_by_key(Observation::at_ns);
    let mut w = RecordingWriter::create(&dir, meta(), small_segments(6)).expect("creates");
    all.iter().for_each(|o| w.push(o).expect("pushes"));
    assert_eq!(w.status().ios_lost, 3);
    w.finish(300_000, RecorderCost::default())
        .expect("finishes");
    let r = Recording::open(&dir).expect("opens");
    let back: Vec<Observation> = r
        .observations(0..i64::MAX)
        .collect::<Result<_, _>>()
        .expect("reads");
    assert_eq!(back, all);
    assert_eq!(r.end_ns(), 300_000);
    assert!(r.warnings().is_empty(), "{:?}", r.warnings());
}

#[test]
fn a_finished_recording_holds_no_log_and_its_description() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 1000, WriterOptions::default());
    assert!(!dir.join("wal").exists());
    let r = Recording::open(&dir).expect("opens");
    assert_eq!(
        (r.meta().host.as_deref(), r.meta().end_ns, r.ios_stored()),
        (Some("test"), Some(10_000_000), 1000)
    );
}

#[test]
fn columns_not_requested_are_unknown() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 10, WriterOptions::default());
    let r = Recording::open(&dir).expect("opens");
    let batch = r
        .ios(0..i64::MAX, IoColumns::QUEUE | IoColumns::COMM)
        .next()
        .expect("a batch")
        .expect("reads");
    let got = batch[3];
    let full = io(3);
    assert_eq!(
        (got.queue_ns, got.comm, got.dev, got.bytes),
        (full.queue_ns, full.comm, full.dev, full.bytes)
    );
    assert_eq!((got.sector, got.tgid, got.ino), (None, None, None));
}

#[test]
fn an_existing_directory_and_a_tiny_limit_are_refused_and_leave_nothing() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let tiny = WriterOptions {
        keep_bytes: Some(1 << 20),
        ..WriterOptions::default()
    };
    let e = RecordingWriter::create(&dir, meta(), tiny).expect_err("too small");
    assert!(matches!(e, StoreError::KeepTooSmall { .. }), "{e}");
    assert!(!dir.exists());
    std::fs::create_dir(&dir).expect("a directory");
    let e = RecordingWriter::create(&dir, meta(), WriterOptions::default()).expect_err("exists");
    assert!(matches!(e, StoreError::Exists { .. }), "{e}");
    assert_eq!(std::fs::read_dir(&dir).expect("reads").count(), 0);
    let nowhere = tmp.path().join("no/such/r.iolens");
    RecordingWriter::create(&nowhere, meta(), WriterOptions::default()).expect_err("no parent");
}

#[test]
fn a_path_that_is_no_recording_says_so() {
    let tmp = tempfile::tempdir().expect("a directory");
    for (path, why) in [
        ("nothing", "nothing at this path"),
        ("file", "is a file"),
        ("dir", "no meta.json"),
    ] {
        let path = tmp.path().join(path);
        match why {
            "is a file" => std::fs::write(&path, "x").expect("writes"),
            "no meta.json" => std::fs::create_dir(&path).expect("creates"),
            _ => {}
        }
        let e = Recording::open(&path)
            .expect_err("no recording")
            .to_string();
        assert!(e.contains(why) && !e.contains('\n'), "{e}");
    }
}
