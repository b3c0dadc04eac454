//! File-level requests are kept like everything else.

use super::support::{meta, small_segments};
use crate::model::{LossReason, Observation, RecorderCost, Request};
use crate::store::{Recording, RecordingWriter};

fn request(i: i64) -> Request {
    let path = Some(format!("/srv/file{}", i % 7).into());
    Request { ios_in: 1 + i % 3, bytes_in: 4096 * (1 + i % 3), path, ..Request::new(i * 1000, i * 1000 + 500) }
}

#[test]
fn requests_come_back_in_order_from_parquet_and_from_the_log() {
    for finish in [true, false] {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("r.iolens");
        let mut w = RecordingWriter::create(&dir, meta(), small_segments(64)).expect("creates");
        // Out of order, as those that are still open at the end come.
        for i in (0..200).rev() {
            w.push(&Observation::Request(Box::new(request(i)))).expect("pushes");
        }
        if finish {
            w.finish(300_000, RecorderCost::default()).expect("finishes");
            assert!(dir.join("requests/000001.parquet").exists());
        } else {
            w.tick(1).expect("ticks");
        }
        let r = Recording::open(&dir).expect("opens");
        assert_eq!(r.requests_stored(), 200);
        let all: Vec<Request> = r.requests(0..i64::MAX).flat_map(|b| b.expect("reads")).collect();
        assert_eq!(all, (0..200).map(request).collect::<Vec<_>>());
        let some: Vec<Request> = r.requests(10_500..20_500).flat_map(|b| b.expect("reads")).collect();
        assert_eq!(some, (10..20).map(request).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_missing_of_requests_is_no_missing_io() {
    assert!(LossReason::RequestRingFull.is_of_requests() && !LossReason::RequestRingFull.is_loss());
    assert!(LossReason::RingFull.is_loss() && !LossReason::RingFull.is_of_requests());
}
