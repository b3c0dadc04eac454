//! Decoding beside analysing: one thread turns row groups into I/Os while another one counts them.
//!
//! The channel is bounded, so that memory does not depend on which side is faster; order is that of the recording.

use std::ops::Range;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use anyhow::Result;
use iolens_core::model::{Io, Lost};
use iolens_core::store::{IoColumns, IoReader, Recording, StoreError};

/// Batches decoded ahead: enough to even out those that take long, few enough to cost some megabytes.
const AHEAD: usize = 4;

/// What was met on the way.
pub struct Met {
    /// Damaged blocks, as losses.
    pub damage: Vec<Lost>,
    /// The same in words.
    pub warnings: Vec<String>,
}

/// Hands every I/O that completed in `range` to `eat`, in order, decoding on a second thread.
///
/// # Errors
/// The recording cannot be read. I/Os before the trouble have been eaten.
pub fn each_io(recording: &Recording, range: Range<i64>, columns: IoColumns, mut eat: impl FnMut(&Io)) -> Result<Met> {
    let mut reader = recording.ios(range, columns);
    thread::scope(|scope| {
        let (send, batches) = sync_channel(AHEAD);
        let decoder = thread::Builder::new().name("decode".to_owned()).spawn_scoped(scope, move || {
            decode(&mut reader, &send);
            reader
        })?;
        for batch in batches {
            batch?.iter().for_each(&mut eat);
        }
        let reader = decoder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Met { damage: reader.damage().to_vec(), warnings: reader.warnings().to_vec() })
    })
}

/// Sends what comes until the end, an error, or a receiver that has gone.
fn decode(reader: &mut IoReader, send: &SyncSender<Result<Vec<Io>, StoreError>>) {
    for batch in reader {
        let last = batch.is_err();
        if send.send(batch).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{DevId, Op, RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions};

    const IOS: i64 = 200_000;

    fn recorded(dir: &std::path::Path) -> Recording {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer = RecordingWriter::create(dir, meta, WriterOptions::default()).expect("a recording");
        let ios: Vec<Io> =
            (0..IOS).map(|i| Io::new(i * 1000, DevId::new(8, 0), Op::READ, 512 + i, Some(1), 10)).collect();
        ios.chunks(1000).for_each(|chunk| writer.push_ios(chunk).expect("written"));
        writer.finish(IOS * 1000, RecorderCost::default()).expect("finished");
        Recording::open(dir).expect("readable")
    }

    #[test]
    fn every_io_comes_once_and_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let recording = recorded(&dir.path().join("r.iolens"));
        let mut expected = 512;
        let met = each_io(&recording, 0..i64::MAX, IoColumns::ALL, |io| {
            assert_eq!(io.bytes, expected);
            expected += 1;
        })
        .expect("readable");
        assert_eq!((expected, met.damage.len(), met.warnings.len()), (512 + IOS, 0, 0));
    }

    #[test]
    fn damage_met_on_the_way_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.iolens");
        let recording = recorded(&path);
        let file = std::fs::read_dir(path.join("io")).expect("segments").next().expect("one").expect("readable").path();
        let mut bytes = std::fs::read(&file).expect("a segment");
        let third = bytes.len() / 3;
        bytes[third..third + 100].fill(0xa5);
        std::fs::write(&file, bytes).expect("damaged");
        let mut ios = 0;
        let met = each_io(&recording, 0..i64::MAX, IoColumns::ALL, |_| ios += 1).expect("the rest is readable");
        assert!(ios < IOS && !met.damage.is_empty() && !met.warnings.is_empty(), "{ios}: {:?}", met.warnings);
    }

    #[test]
    fn files_that_vanish_end_it_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.iolens");
        let recording = recorded(&path);
        std::fs::remove_dir_all(path.join("io")).expect("removed");
        let ended = each_io(&recording, 0..i64::MAX, IoColumns::ALL, |_| {});
        assert!(ended.is_err() || ended.is_ok_and(|met| !met.damage.is_empty()));
    }
}
