//! File-level requests are stored like all other observations.

use super::support::{meta, small_segments};
use crate::model::{
    CallHistogram, LossReason, Mark, Observation, RecorderCost, Request, RequestFlags,
};
use crate::store::schema::{Kind, Table};
use crate::store::{Recording, RecordingWriter};

fn request(i: i64) -> Request {
    let path = Some(format!("/srv/file{}", i % 7).into());
    Request {
        ios_in: 1 + i % 3,
        bytes_in: 4096 * (1 + i % 3),
        path,
        ..Request::new(i * 1000, i * 1000 + 500)
    }
}

#[test]
fn requests_come_back_in_order_from_parquet_and_from_the_log() {
    for finish in [true, false] {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r.iolens");
        let mut w = RecordingWriter::create(&dir, meta(), small_segments(64)).expect("creates");
        // Out of order, like requests that are still open at the end.
        for i in (0..200).rev() {
            w.push(&Observation::Request(Box::new(request(i))))
                .expect("pushes");
        }
        if finish {
            w.finish(300_000, RecorderCost::default())
                .expect("finishes");
            assert!(dir.join("requests/000001.parquet").exists());
        } else {
            w.tick(1).expect("ticks");
        }
        let r = Recording::open(&dir).expect("opens");
        assert_eq!(r.requests_stored(), 200);
        let all: Vec<Request> = r
            .requests(0..i64::MAX)
            .flat_map(|b| b.expect("reads"))
            .collect();
        assert_eq!(all, (0..200).map(request).collect::<Vec<_>>());
        let some: Vec<Request> = r
            .requests(10_500..20_500)
            .flat_map(|b| b.expect("reads"))
            .collect();
        assert_eq!(some, (10..20).map(request).collect::<Vec<_>>());
    }
}

/// A request that is still open, as of `at_ns`.
fn open(start_ns: i64, at_ns: i64, ios_in: i64) -> Request {
    let flags = RequestFlags::STILL_OPEN;
    Request {
        ios_in,
        flags,
        tgid: Some(1),
        fd: Some(3),
        ..Request::new(start_ns, at_ns)
    }
}

#[test]
fn requests_open_at_a_kill_keep_their_last_saved_state() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let mut w = RecordingWriter::create(&dir, meta(), small_segments(64)).expect("creates");
    w.set_open_requests(&[open(10, 1_000, 1), open(20, 1_000, 1)])
        .expect("keeps");
    w.set_open_requests(&[open(10, 2_000, 5), open(20, 2_000, 6), open(30, 2_000, 7)])
        .expect("keeps");
    // One of them ends, and three are open at last: one was opened after the look.
    let ended = Request {
        flags: RequestFlags::default(),
        ..open(20, 2_500, 8)
    };
    w.push(&Observation::Request(Box::new(ended.clone())))
        .expect("pushes");
    w.push(&Observation::Mark(Mark {
        at_ns: 2_600,
        kind: Mark::OPEN_REQUESTS.to_owned(),
        text: "3".to_owned(),
    }))
    .expect("pushes");
    w.tick(3_000).expect("ticks");

    let killed = Recording::open(&dir).expect("opens");
    let all: Vec<Request> = killed
        .requests(0..i64::MAX)
        .flat_map(|b| b.expect("reads"))
        .collect();
    assert_eq!(all, [open(10, 2_000, 5), open(30, 2_000, 7), ended.clone()]);
    let lost: Vec<_> = killed
        .lost(0..i64::MAX)
        .iter()
        .map(|l| (l.reason, l.ios))
        .collect();
    assert_eq!(lost, [(LossReason::RequestUnwritten, Some(1))]);

    // Damage loses the file's content, which is counted as a loss. Finishing removes the file.
    let file = dir.join("wal/requests-open.wal");
    let mut bytes = std::fs::read(&file).expect("the look");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&file, bytes).expect("damages");
    let damaged = Recording::open(&dir).expect("opens");
    assert_eq!(
        (damaged.requests_stored(), damaged.lost(0..i64::MAX)[0].ios),
        (1, Some(3))
    );
    w.finish(4_000, RecorderCost::default()).expect("finishes");
    let finished = Recording::open(&dir).expect("opens");
    assert_eq!(
        (finished.requests_stored(), finished.lost(0..i64::MAX).len()),
        (1, 0)
    );
    assert!(!dir.join("wal").exists());
}

#[test]
fn lost_requests_are_not_lost_ios() {
    assert!(LossReason::RequestRingFull.is_of_requests() && !LossReason::RequestRingFull.is_loss());
    assert!(LossReason::RingFull.is_loss() && !LossReason::RingFull.is_of_requests());
}

#[test]
fn a_recording_without_histograms_has_none() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let texts = ["48:3 1024:997", "48:3;1024:997"];
    for with_histograms in [false, true] {
        let required = Table::Requests.columns().iter().filter(|c| c.required);
        let kinds: Vec<Kind> = required
            .clone()
            .map(|c| c.kind)
            .chain(with_histograms.then_some(Kind::Text))
            .collect();
        let mut fields = required
            .map(|c| {
                format!(
                    "required {} {};",
                    if c.kind == Kind::I32 {
                        "int32"
                    } else {
                        "int64"
                    },
                    c.name
                )
            })
            .collect::<String>();
        if with_histograms {
            fields.push_str("required binary read_histogram (UTF8);");
        }
        let schema =
            parquet::schema::parser::parse_message_type(&format!("message m {{ {fields} }}"))
                .expect("a schema");
        let mut file = SerializedFileWriter::new(Vec::new(), schema.into(), Default::default())
            .expect("a writer");
        let mut group = file.next_row_group().expect("a group");
        for kind in kinds {
            let mut column = group.next_column().expect("a column").expect("one more");
            match kind {
                Kind::I32 => column
                    .typed::<Int32Type>()
                    .write_batch(&[0; 2], None, None)
                    .expect("writes"),
                Kind::I64 => column
                    .typed::<Int64Type>()
                    .write_batch(&[1000; 2], None, None)
                    .expect("writes"),
                Kind::Text => column
                    .typed::<ByteArrayType>()
                    .write_batch(&texts.map(ByteArray::from), None, None)
                    .expect("writes"),
                Kind::F64 | Kind::List => panic!("no logged table has such a column"),
            };
            column.close().expect("closes");
        }
        group.close().expect("closes");
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r.iolens");
        let w = RecordingWriter::create(&dir, meta(), small_segments(64)).expect("creates");
        w.finish(300_000, RecorderCost::default())
            .expect("finishes");
        // Another program's table is in no manifest.
        let (mut description, _) = crate::store::meta_file::read(&dir).expect("reads");
        description.tables = None;
        let open = crate::private::PrivateDir::open(&dir, Default::default()).expect("opens");
        crate::store::meta_file::write(&open, &description).expect("writes");
        std::fs::create_dir_all(dir.join("requests")).expect("makes");
        std::fs::write(
            dir.join("requests/000001.parquet"),
            file.into_inner().expect("bytes"),
        )
        .expect("writes");
        let r = Recording::open(&dir).expect("opens");
        let all: Vec<Request> = r
            .requests(0..i64::MAX)
            .flat_map(|b| b.expect("reads"))
            .collect();
        let read: Vec<_> = all
            .iter()
            .map(|r| r.read_histogram.as_ref().map(CallHistogram::n))
            .collect();
        assert_eq!(
            read,
            if with_histograms {
                [Some(1000), None]
            } else {
                [None; 2]
            }
        );
        assert!(
            all.iter()
                .all(|r| r.ios_in == 1000 && r.write_histogram.is_none()),
            "{all:?}"
        );
    }
}
