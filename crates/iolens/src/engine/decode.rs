//! Pipelined decoding: one thread decodes row groups into I/Os while others analyse them.
//!
//! Channels are bounded, so memory use does not depend on which side is faster. I/Os keep the order of the recording.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use iolens_core::analysis::Consumer;
use iolens_core::analysis::stacks::join::StackJoin;
use iolens_core::model::{Io, Lost};
use iolens_core::store::{BatchReader, IoColumns, Recording, StoreError};

use super::caller::Caller;
use super::error::Result;
use super::window;

/// Number of batches decoded ahead: enough to even out slow ones, few enough to use only some megabytes.
const AHEAD: usize = 8;

/// Damage found while reading.
pub struct Met {
    /// Damaged blocks, as losses.
    pub damage: Vec<Lost>,
    /// The same as text.
    pub warnings: Vec<String>,
}

/// Columns that are needed to attribute I/Os of kernel workers to processes.
const JOIN_COLUMNS: [IoColumns; 7] = [
    IoColumns::QUEUE,
    IoColumns::SECTOR,
    IoColumns::FLAGS,
    IoColumns::TGID,
    IoColumns::COMM,
    IoColumns::FILE,
    IoColumns::ORIGIN,
];

/// Whether `columns` identify who caused an I/O.
fn ask_whose(columns: IoColumns) -> bool {
    let whose = [
        IoColumns::TGID,
        IoColumns::COMM,
        IoColumns::CGROUP,
        IoColumns::FILE,
    ];
    whose.into_iter().any(|c| columns.contains(c))
}

/// The join that attributes I/Os of kernel workers to processes; `None` if `columns` do not ask for processes or no
/// device is stacked on another.
fn stack_join(recording: &Recording, columns: IoColumns) -> Option<StackJoin> {
    if !ask_whose(columns) {
        return None;
    }
    let lost = recording.lost(i64::MIN..i64::MAX);
    StackJoin::new(&recording.meta().devices, &lost)
}

/// Whether `columns` of an I/O depend on earlier I/Os: the offset of a stacked device on the one below is learned
/// from them.
pub fn depends_on_earlier(recording: &Recording, columns: IoColumns) -> bool {
    // Whether there is a join depends on the devices alone.
    let join = StackJoin::new(&recording.meta().devices, std::iter::empty());
    ask_whose(columns) && join.is_some()
}

/// The I/Os of a recording in order of completion. I/Os that kernel workers submitted below dm, md and loop devices
/// carry the processes that requested them.
pub struct Ios {
    reader: BatchReader<Io>,
    join: Option<StackJoin>,
    later_start_ns: i64,
    /// Completions at or after this time are not requested.
    until_ns: i64,
    /// I/Os started at or after this time are not requested either.
    started_until_ns: i64,
    end_ns: i64,
}

impl Ios {
    /// The I/Os that completed in `range`. Kernel workers' I/Os are attributed to processes if `columns` identifies
    /// them.
    pub fn new(recording: &Recording, range: Range<i64>, columns: IoColumns) -> Ios {
        Ios::read(recording, range, columns, Recording::ios)
    }

    /// As [`Ios::new`], with all names of processes as in [`Recording::identified_ios`].
    pub fn identified(recording: &Recording, range: Range<i64>, columns: IoColumns) -> Ios {
        Ios::read(recording, range, columns, Recording::identified_ios)
    }

    fn read(
        recording: &Recording,
        mut range: Range<i64>,
        mut columns: IoColumns,
        read: fn(&Recording, Range<i64>, IoColumns) -> BatchReader<Io>,
    ) -> Ios {
        let join = stack_join(recording, columns);
        let until_ns = range.end;
        if join.is_some() {
            // An I/O of the lower device completes before the I/O above that it belongs to, so more is read.
            range = window::with_in_flight(&range);
            columns = JOIN_COLUMNS.into_iter().fold(columns, |all, c| all | c);
        }
        let reader = read(recording, range, columns);
        let end_ns = recording.end_ns();
        Ios {
            reader,
            join,
            later_start_ns: i64::MIN,
            until_ns,
            started_until_ns: i64::MAX,
            end_ns,
        }
    }

    /// Stops once every remaining I/O started at `ns` or later: all I/Os that were in flight before `ns` have been
    /// read then.
    pub fn started_before(self, ns: i64) -> Ios {
        Ios {
            started_until_ns: ns,
            ..self
        }
    }

    /// The underlying reader, which knows the damage met so far.
    pub fn reader(&self) -> &BatchReader<Io> {
        &self.reader
    }

    /// As [`BatchReader::later_start_ns`].
    pub fn later_start_ns(&self) -> i64 {
        self.later_start_ns
    }
}

impl Iterator for Ios {
    type Item = Result<Vec<Io>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.started_until_ns != i64::MAX && self.later_start_ns >= self.started_until_ns {
            return None;
        }
        let batch = match self.reader.next() {
            Some(Err(e)) => return Some(Err(e)),
            Some(Ok(ios)) => Some(ios),
            None => None,
        };
        let ended = batch.is_none();
        let later_start_ns = self.reader.later_start_ns();
        let (mut ios, later_start_ns) = match &mut self.join {
            Some(join) => join.push(
                batch.unwrap_or_default(),
                if ended { i64::MAX } else { later_start_ns },
            ),
            None => (batch?, later_start_ns),
        };
        let asked = ios.partition_point(|io| io.done_ns < self.until_ns);
        if (ended || asked < ios.len()) && asked == 0 {
            return None;
        }
        ios.truncate(asked);
        window::hold_inside(&mut ios, self.end_ns);
        // `hold_inside` may move an I/O one nanosecond earlier, so this bound moves too. After the last batch it
        // stays `i64::MAX`.
        self.later_start_ns = later_start_ns.saturating_sub(i64::from(later_start_ns != i64::MAX));
        Some(Ok(ios))
    }
}

/// Hands each row that `rows` reads of a table of `recording` to `consume`, in order. Reports damage once.
///
/// # Errors
/// The table cannot be read, or the deadline has passed. The rows before have been consumed.
pub fn each_row<R>(
    recording: &Recording,
    mut rows: BatchReader<R>,
    caller: &Caller,
    mut consume: impl FnMut(R),
) -> Result<()>
where
    BatchReader<R>: Iterator<Item = Result<Vec<R>, StoreError>>,
{
    for batch in &mut rows {
        caller.check()?;
        for row in batch? {
            consume(row);
        }
    }
    caller.damage(recording.path(), rows.warnings());
    Ok(())
}

/// Hands each I/O that completed in `range` to `consume`, in order. A second thread decodes.
///
/// # Errors
/// The recording cannot be read. The I/Os before the error have been consumed.
pub fn each_io(
    recording: &Recording,
    range: Range<i64>,
    columns: IoColumns,
    caller: &Caller,
    mut consume: impl FnMut(&Io),
) -> Result<Met> {
    let ios = Ios::new(recording, range, columns);
    each_batch(ios, caller, &mut [], |batch| {
        batch.ios.iter().for_each(&mut consume)
    })
}

/// Hands all of `ios` to each of `consumers`, in order. Decoding and every consumer have a thread each.
///
/// # Errors
/// As [`each_io`].
pub fn feed_all(ios: Ios, caller: &Caller, consumers: &mut [&mut dyn Consumer]) -> Result<Met> {
    match consumers {
        [others @ .., own] => each_batch(ios, caller, others, |batch| batch.feed(*own)),
        [] => each_batch(ios, caller, &mut [], |_| {}),
    }
}

/// A wrapper that hides the names of processes from a consumer.
pub struct Nameless<'a> {
    consumer: &'a mut dyn Consumer,
    ios: Vec<Io>,
}

impl<'a> Nameless<'a> {
    /// Wraps `consumer`.
    pub fn new(consumer: &'a mut dyn Consumer) -> Nameless<'a> {
        Nameless {
            consumer,
            ios: Vec::new(),
        }
    }
}

impl Consumer for Nameless<'_> {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        self.ios.clear();
        self.ios.extend_from_slice(ios);
        for io in &mut self.ios {
            *io = io.without_name();
        }
        self.consumer.consume(&self.ios, later_start_ns);
    }
}

/// A wrapper that drops I/Os that completed before a window. Only some analyses need them.
pub struct Since<'a> {
    from_ns: i64,
    consumer: &'a mut dyn Consumer,
}

impl<'a> Since<'a> {
    /// Wraps `consumer`; it gets I/Os from `from_ns` on.
    pub fn new(from_ns: i64, consumer: &'a mut dyn Consumer) -> Since<'a> {
        Since { from_ns, consumer }
    }
}

impl Consumer for Since<'_> {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        let before = ios.partition_point(|io| io.done_ns < self.from_ns);
        self.consumer.consume(&ios[before..], later_start_ns);
    }
}

/// A batch of I/Os in order of completion.
struct Batch {
    ios: Vec<Io>,
    /// No later I/O started before this time; see [`BatchReader::later_start_ns`].
    later_start_ns: i64,
}

impl Batch {
    fn feed(&self, consumer: &mut dyn Consumer) {
        consumer.consume(&self.ios, self.later_start_ns);
    }
}

/// Hands each batch to `consume` on this thread and to `consumers` on others, until the deadline of `caller`.
fn each_batch(
    mut ios: Ios,
    caller: &Caller,
    consumers: &mut [&mut dyn Consumer],
    mut consume: impl FnMut(&Batch),
) -> Result<Met> {
    thread::scope(|scope| {
        let mut others = Vec::new();
        for consumer in consumers {
            let (send, batches) = sync_channel::<Arc<Batch>>(AHEAD);
            others.push(send);
            thread::Builder::new()
                .name("analyse".to_owned())
                .spawn_scoped(scope, move || {
                    for batch in batches {
                        batch.feed(*consumer);
                    }
                })?;
        }
        let (send, batches) = sync_channel(AHEAD);
        let decoder = thread::Builder::new()
            .name("decode".to_owned())
            .spawn_scoped(scope, move || {
                decode(&mut ios, &send, &others);
                ios
            })?;
        // This thread consumes each batch as well. If it returns early, the channels close and the other threads end.
        for batch in batches {
            caller.check()?;
            consume(&*batch?);
        }
        let ios = decoder
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let reader = ios.reader();
        Ok(Met {
            damage: reader.damage().to_vec(),
            warnings: reader.warnings().to_vec(),
        })
    })
}

/// Sends each batch until the end, an error, or a closed channel.
fn decode(
    ios: &mut Ios,
    send: &SyncSender<Result<Arc<Batch>, StoreError>>,
    others: &[SyncSender<Arc<Batch>>],
) {
    while let Some(batch) = ios.next() {
        let batch = batch.map(|own| {
            Arc::new(Batch {
                ios: own,
                later_start_ns: ios.later_start_ns(),
            })
        });
        if let Ok(batch) = &batch
            && others
                .iter()
                .any(|other| other.send(batch.clone()).is_err())
        {
            return;
        }
        let last = batch.is_err();
        if send.send(batch).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{
        Comm, DevId, Device, Op, Origin, RecorderCost, RecordingMeta, Source,
    };
    use iolens_core::store::{RecordingWriter, WriterOptions};
    use std::time::{Duration, Instant};

    use crate::engine::note::Note;

    const IOS: i64 = 200_000;

    fn recorded(dir: &std::path::Path) -> Recording {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(dir, meta, WriterOptions::default()).expect("a recording");
        let ios: Vec<Io> = (0..IOS)
            .map(|i| Io::new(i * 1000, DevId::new(8, 0), Op::READ, 512 + i, Some(1), 10))
            .collect();
        ios.chunks(1000)
            .for_each(|chunk| writer.push_ios(chunk).expect("written"));
        writer
            .finish(IOS * 1000, RecorderCost::default())
            .expect("finished");
        Recording::open(dir).expect("readable")
    }

    #[test]
    fn every_io_comes_once_and_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let recording = recorded(&dir.path().join("r.iolens"));
        let mut expected = 512;
        let met = each_io(
            &recording,
            0..i64::MAX,
            IoColumns::ALL,
            &Caller::without_notes(),
            |io| {
                assert_eq!(io.bytes, expected);
                expected += 1;
            },
        )
        .expect("readable");
        assert_eq!(
            (expected, met.damage.len(), met.warnings.len()),
            (512 + IOS, 0, 0)
        );
    }

    /// Remembers what it was given.
    #[derive(Default)]
    struct Eaten {
        done_ns: Vec<i64>,
        promised_ns: Vec<i64>,
    }

    impl Consumer for Eaten {
        fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
            let promised_ns = self.promised_ns.last().copied().unwrap_or(i64::MIN);
            assert!(
                ios.iter().all(|io| io.start_ns() >= promised_ns),
                "an I/O began earlier than promised"
            );
            self.done_ns.extend(ios.iter().map(|io| io.done_ns));
            self.promised_ns.push(later_start_ns);
        }
    }

    #[test]
    fn who_asked_for_an_io_is_found_beyond_the_end_of_the_range() {
        let dir = tempfile::tempdir().expect("a directory");
        let sda = DevId::new(8, 0);
        let crypt = DevId::new(253, 0);
        let mut meta = RecordingMeta::new(Source::Ebpf, 0);
        let above = Device {
            slaves: vec!["sda".to_owned()],
            ..Device::named("dm-0", crypt)
        };
        meta.devices = vec![Device::named("sda", sda), above];
        let mut writer =
            RecordingWriter::create(&dir.path().join("r"), meta, WriterOptions::default())
                .expect("a recording");
        let io = |dev, done_ns, device_ns, sector, comm: &[u8], tgid| Io {
            sector: Some(sector),
            comm: Some(Comm::new(comm)),
            tgid: Some(tgid),
            ..Io::new(done_ns, dev, Op::WRITE, 4096, Some(0), device_ns)
        };
        for i in 0..50 {
            let at = i * 1000;
            let sector = i * i * 8;
            let below = io(sda, at + 500, 300, sector + 4096, b"dmcrypt_write/2", 99);
            writer
                .push_ios(&[below, io(crypt, at + 900, 900, sector, b"db", 7)])
                .expect("written");
        }
        writer
            .finish(50_000, RecorderCost::default())
            .expect("finished");
        let recording = Recording::open(&dir.path().join("r")).expect("readable");
        let named = |range: Range<i64>, columns| {
            let ios =
                Ios::new(&recording, range, columns).flat_map(|batch| batch.expect("readable"));
            ios.filter(|io| io.dev == sda)
                .map(|io| (io.tgid, io.origin))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            named(0..i64::MAX, IoColumns::TGID),
            vec![(Some(7), Origin::Above); 50]
        );
        assert_eq!(
            named(20_000..30_600, IoColumns::TGID),
            vec![(Some(7), Origin::Above); 11],
            "done at 30,900 above"
        );
        assert_eq!(
            named(0..i64::MAX, IoColumns::REQUIRED),
            vec![(None, Origin::Unknown); 50],
            "no process is asked for"
        );
    }

    #[test]
    fn every_part_gets_every_io_and_keeps_the_promise_of_starts() {
        let dir = tempfile::tempdir().expect("a directory");
        let recording = recorded(&dir.path().join("r.iolens"));
        let mut parts: [Eaten; 3] = Default::default();
        let mut some = parts.each_mut().map(|part| part as &mut dyn Consumer);
        let ios = Ios::new(&recording, 0..i64::MAX, IoColumns::ALL);
        feed_all(ios, &Caller::without_notes(), &mut some).expect("readable");
        for part in &parts {
            assert!(part.done_ns.iter().copied().eq((0..IOS).map(|i| i * 1000)));
            assert_eq!(part.promised_ns.last(), Some(&i64::MAX), "none is to come");
            // I/Os are 1000 ns apart and take 11: what is known of the next one is nearly its own start.
            let after = part.promised_ns[0] - part.done_ns[0];
            assert!(
                part.promised_ns.len() > 2 && after > 0 && after % 1000 == 1000 - 11 - 1,
                "{after}"
            );
        }
    }

    /// Damages the first file of I/Os.
    fn damage(recording: &std::path::Path) {
        let file = std::fs::read_dir(recording.join("io"))
            .expect("segments")
            .next()
            .expect("one")
            .expect("readable")
            .path();
        let mut bytes = std::fs::read(&file).expect("a segment");
        let third = bytes.len() / 3;
        bytes[third..third + 100].fill(0xa5);
        std::fs::write(&file, bytes).expect("damaged");
    }

    #[test]
    fn rows_of_a_table_end_at_the_deadline_and_damage_is_noted_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.iolens");
        let recording = recorded(&path);
        let past = Instant::now().checked_sub(Duration::from_millis(1));
        let late = Caller::without_notes().until(past.expect("a time"));
        let mut rows = 0;
        let ended = each_row(
            &recording,
            recording.ios(0..i64::MAX, IoColumns::ALL),
            &late,
            |_| {
                rows += 1;
            },
        );
        assert!(ended.is_err() && rows == 0, "{rows}");
        damage(&path);
        let (caller, notes) = Caller::keeping_notes();
        each_row(
            &recording,
            recording.ios(0..i64::MAX, IoColumns::ALL),
            &caller,
            |_| {
                rows += 1;
            },
        )
        .expect("damage is no error");
        let notes = notes.lock().expect("no panic");
        assert!(
            rows < IOS
                && matches!(notes.as_slice(), [Note::Damaged { recording, .. }] if *recording == path),
            "{rows}: {notes:?}"
        );
    }

    #[test]
    fn damage_met_on_the_way_is_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.iolens");
        let recording = recorded(&path);
        damage(&path);
        let mut ios = 0;
        let met = each_io(
            &recording,
            0..i64::MAX,
            IoColumns::ALL,
            &Caller::without_notes(),
            |_| ios += 1,
        )
        .expect("the rest is readable");
        assert!(
            ios < IOS && !met.damage.is_empty() && !met.warnings.is_empty(),
            "{ios}: {:?}",
            met.warnings
        );
    }

    #[test]
    fn files_that_vanish_end_it_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.iolens");
        let recording = recorded(&path);
        std::fs::remove_dir_all(path.join("io")).expect("removed");
        let ended = each_io(
            &recording,
            0..i64::MAX,
            IoColumns::ALL,
            &Caller::without_notes(),
            |_| {},
        );
        assert!(ended.is_err() || ended.is_ok_and(|met| !met.damage.is_empty()));
    }
}
