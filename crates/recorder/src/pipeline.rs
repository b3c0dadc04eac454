//! Runs the writer on its own thread. Slow storage costs memory up to a limit, then counted losses; the reader never
//! stalls.

use std::collections::{HashMap, VecDeque};
use std::mem::discriminant;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use iolens_core::model::{
    Class, DevId, Device, Io, LossReason, Lost, Mark, Observation, RecorderCost, Request, WaitSums,
};
use iolens_core::store::{RecordingSummary, RecordingWriter, WriterStatus};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::prefer_this_thread;

use crate::losses::LossTally;
use crate::name_lookup::NameLookup;
use crate::rollups::Rollups;
use crate::settings_watch::{FoundGroup, SettingsWatch};
use crate::waits::Waits;

/// Maximum number of I/Os that wait for the writer: about 40 MiB, or a second of the fastest disks.
const MAX_WAITING_IOS: usize = 256 * 1024;
/// Maximum number of waiting batches; far more than needed for [`MAX_WAITING_IOS`], so that I/Os are the effective
/// limit.
const MAX_WAITING_BATCHES: usize = 4096;
/// Maximum number of messages without I/Os that are held back while the queue is full.
const MAX_HELD_BACK: usize = 1024;
/// The reason under which the totals count I/Os that a writer does not store because it has ended. It ended with an
/// error, so no recording has a `lost` row for them.
const WRITER_ENDED: LossReason = LossReason::WriterBusy;
/// The writer's clock advances with every message. Without messages it advances at this interval, so that syncs are not
/// later than that. The interval is long because each tick wakes an idle machine.
const TICK: Duration = Duration::from_millis(500);

enum Message {
    Ios(Vec<Io>),
    Others(Vec<Observation>),
    Devices(Vec<Device>),
    OpenRequests(Vec<Request>),
    Waits(Vec<WaitSums>),
    Finish { end_ns: i64, cost: RecorderCost },
}

/// The reader's end of the queue to the writer thread.
pub struct Pipeline {
    sender: SyncSender<Message>,
    spare: Receiver<Vec<Io>>,
    waiting_ios: Arc<AtomicUsize>,
    status: Arc<Mutex<WriterStatus>>,
    writer: JoinHandle<Result<RecordingSummary>>,
    /// Messages that found the queue full. Later messages are sent after them.
    held_back: VecDeque<Message>,
    refused: Refused,
    losses: LossTally,
    /// The writer was found to have ended, and the I/Os that waited for it have been counted.
    has_ended: bool,
    max_waiting_ios: usize,
}

impl Pipeline {
    /// Starts the thread for `writer`. `start_ns` is the recording's start on the monotonic clock. With `rollups` it
    /// also writes sums per second and minute. I/Os that are not stored are counted in `losses`.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        writer: RecordingWriter,
        start_ns: i64,
        rollups: bool,
        losses: LossTally,
    ) -> Result<Pipeline> {
        let (sender, receiver) = sync_channel(MAX_WAITING_BATCHES);
        let (give_back, spare) = sync_channel(16);
        let waiting_ios = Arc::new(AtomicUsize::new(0));
        let status = Arc::new(Mutex::new(writer.status()));
        let settings = SettingsWatch::start(writer.devices().to_vec(), start_ns);
        let thread = WriterThread {
            writer,
            receiver,
            give_back,
            waiting_ios: Arc::clone(&waiting_ios),
            status: Arc::clone(&status),
            losses: losses.clone(),
            counted: Unwritten::default(),
            start_ns,
            // Before the priority of this thread or of the writer is raised, because lookups are not urgent.
            names: NameLookup::start(),
            settings,
            rollups: rollups.then(Rollups::default),
            waits: Waits::default(),
        };
        let writer = std::thread::Builder::new()
            .name("iolens-writer".to_owned())
            .spawn(move || thread.run())
            .context("the writer thread could not be started")?;
        Ok(Pipeline {
            sender,
            spare,
            waiting_ios,
            status,
            writer,
            held_back: VecDeque::new(),
            refused: Refused::default(),
            losses,
            has_ended: false,
            max_waiting_ios: MAX_WAITING_IOS,
        })
    }

    /// An empty batch. Reuses one that the writer has returned if possible, because reused memory causes no page
    /// faults.
    pub fn batch(&self) -> Vec<Io> {
        self.spare.try_recv().unwrap_or_default()
    }

    /// Queues a batch; counts it as lost if the queue is full.
    ///
    /// # Errors
    /// The writer thread has ended; [`Pipeline::finish`] returns its error.
    pub fn send_ios(&mut self, ios: Vec<Io>) -> Result<(), WriterEnded> {
        if ios.is_empty() {
            return Ok(());
        }
        let n = ios.len();
        if self.has_ended {
            self.losses.add(WRITER_ENDED, n as i64);
            return Err(WriterEnded);
        }
        if self.waiting_ios.load(Ordering::Relaxed) + n > self.max_waiting_ios {
            self.refuse(&ios);
            return Ok(());
        }
        self.waiting_ios.fetch_add(n, Ordering::Relaxed);
        self.send_refused()?;
        let message = Message::Ios(ios);
        let sent = match self.held_back.is_empty() {
            true => self.sender.try_send(message),
            false => Err(TrySendError::Full(message)),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => {
                self.waiting_ios.fetch_sub(n, Ordering::Relaxed);
                if let Message::Ios(ios) = message {
                    self.refuse(&ios);
                }
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => self.ended(),
        }
    }

    /// Queues any other observations. If the queue is full they are held back; if too many are held back, they are
    /// counted as lost.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send(&mut self, others: Vec<Observation>) -> Result<(), WriterEnded> {
        if others.is_empty() {
            return Ok(());
        }
        self.queue(Message::Others(others))
    }

    /// Sends the writer the current state of open requests.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send_open_requests(&mut self, open: Vec<Request>) -> Result<(), WriterEnded> {
        self.queue(Message::OpenRequests(open))
    }

    /// Sends rows of waits to the writer.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send_waits(&mut self, rows: Vec<WaitSums>) -> Result<(), WriterEnded> {
        self.queue(Message::Waits(rows))
    }

    /// Sends the writer the current devices.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send_devices(&mut self, devices: Vec<Device>) -> Result<(), WriterEnded> {
        self.queue(Message::Devices(devices))
    }

    /// Whether the writer was found to have ended. Nothing is stored any more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn queue(&mut self, message: Message) -> Result<(), WriterEnded> {
        self.send_held_back()?;
        self.hold_back(message);
        self.send_held_back()
    }

    /// Sends the messages held back, as far as the queue has room.
    fn send_held_back(&mut self) -> Result<(), WriterEnded> {
        while let Some(message) = self.held_back.pop_front() {
            match self.sender.try_send(message) {
                Ok(()) => {}
                Err(TrySendError::Full(message)) => {
                    self.held_back.push_front(message);
                    return Ok(());
                }
                Err(TrySendError::Disconnected(_)) => return self.ended(),
            }
        }
        Ok(())
    }

    fn hold_back(&mut self, message: Message) {
        let is_full = self.held_back.len() >= MAX_HELD_BACK;
        match message {
            Message::Others(others) if is_full => self.refuse_others(others),
            // Dropped, so that the table of waits does not cover a time whose I/Os are not stored.
            Message::Waits(_) if is_full => {}
            Message::Devices(_) | Message::OpenRequests(_) => {
                // These messages are states, of which only the newest matters.
                let kind = discriminant(&message);
                self.held_back.retain(|held| discriminant(held) != kind);
                self.held_back.push_back(message);
            }
            message => self.held_back.push_back(message),
        }
    }

    fn refuse_others(&mut self, others: Vec<Observation>) {
        for other in others {
            match other {
                // The totals counted this loss where it was found.
                Observation::Lost(lost) => self.refused.add(lost),
                Observation::Request(request) => {
                    let reason = LossReason::RequestUnwritten;
                    self.losses.add(reason, 1);
                    self.refused.add(Lost {
                        ios: Some(1),
                        ..Lost::somewhere(request.end_ns, request.end_ns, reason)
                    });
                }
                sample => self.refused.add_sample(sample.at_ns()),
            }
        }
    }

    /// Handles a writer that has ended: nothing that waits for it is stored.
    fn ended(&mut self) -> Result<(), WriterEnded> {
        self.held_back.clear();
        if !self.has_ended {
            self.has_ended = true;
            count_waiting(&self.waiting_ios, &self.losses);
        }
        Err(WriterEnded)
    }

    fn refuse(&mut self, ios: &[Io]) {
        self.losses.add(LossReason::WriterBusy, ios.len() as i64);
        self.refused.count(ios);
    }

    /// The writer's status so far.
    pub fn status(&self) -> WriterStatus {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything is written and the recording is closed. No other function here waits for the writer.
    ///
    /// # Errors
    /// The writer's error.
    pub fn finish(mut self, end_ns: i64, cost: RecorderCost) -> Result<RecordingSummary> {
        let mut last = std::mem::take(&mut self.held_back);
        last.push_back(Message::Others(self.refused.take()));
        last.push_back(Message::Finish { end_ns, cost });
        for message in last {
            if self.sender.send(message).is_err() {
                // Joining the thread returns the error of a writer that has ended.
                break;
            }
        }
        drop(self.sender);
        let ended = self.writer.join();
        let stored = match ended {
            Ok(stored) => stored,
            Err(_) => Err(anyhow!(
                "the writer thread panicked; the recording holds what came before"
            )),
        };
        if stored.is_err() && !self.has_ended {
            count_waiting(&self.waiting_ios, &self.losses);
        }
        stored
    }

    /// Sends the refused observations. While messages are held back, they are only summed up.
    fn send_refused(&mut self) -> Result<(), WriterEnded> {
        self.send_held_back()?;
        if !self.held_back.is_empty() {
            return Ok(());
        }
        let refused = self.refused.take();
        self.send(refused)
    }
}

/// Counts the I/Os that wait for a writer that has ended, because they are not stored.
fn count_waiting(waiting_ios: &AtomicUsize, losses: &LossTally) {
    let waiting = waiting_ios.load(Ordering::Relaxed);
    losses.add(WRITER_ENDED, waiting as i64);
}

/// Error: the writer thread has ended. [`Pipeline::finish`] returns its error.
#[derive(Debug, PartialEq, Eq)]
pub struct WriterEnded;

/// Observations that were refused, until they can be sent as losses.
#[derive(Default)]
struct Refused {
    lost: HashMap<(Option<DevId>, Option<Class>, LossReason), Lost>,
    /// Number of samples and marks, and the time of the last.
    samples: u64,
    samples_to_ns: i64,
}

impl Refused {
    fn count(&mut self, ios: &[Io]) {
        for io in ios {
            self.add(Lost {
                from_ns: io.done_ns,
                to_ns: io.done_ns,
                dev: Some(io.dev),
                class: Some(io.class()),
                reason: LossReason::WriterBusy,
                ios: Some(1),
                bytes: Some(io.bytes),
                merges: io.merges.map(i64::from),
            });
        }
    }

    fn add(&mut self, new: Lost) {
        let key = (new.dev, new.class, new.reason);
        match self.lost.get_mut(&key) {
            Some(lost) => lost.add(&new),
            None => {
                self.lost.insert(key, new);
            }
        }
    }

    fn add_sample(&mut self, at_ns: i64) {
        self.samples += 1;
        self.samples_to_ns = self.samples_to_ns.max(at_ns);
    }

    fn take(&mut self) -> Vec<Observation> {
        let mut lost: Vec<Lost> = self.lost.drain().map(|(_, l)| l).collect();
        lost.sort_by_key(|l| (l.to_ns, l.dev, l.class, l.reason));
        let mut refused: Vec<Observation> = lost.into_iter().map(Observation::Lost).collect();
        let samples = std::mem::take(&mut self.samples);
        if samples > 0 {
            refused.push(Observation::Mark(Mark {
                at_ns: self.samples_to_ns,
                kind: Mark::NOT_STORED.to_owned(),
                text: format!("{samples} samples and remarks before this: the writer was busy"),
            }));
        }
        refused
    }
}

/// What the disk had no space for, as far as it has been added to the tally.
#[derive(Default)]
struct Unwritten {
    ios: u64,
    requests: u64,
}

impl Unwritten {
    /// Adds the increase since the last call to `losses`.
    fn count(&mut self, ios: u64, requests: u64, losses: &LossTally) {
        let new_ios = ios.saturating_sub(self.ios);
        let new_requests = requests.saturating_sub(self.requests);
        losses.add(LossReason::DiskFull, new_ios as i64);
        losses.add(LossReason::RequestUnwritten, new_requests as i64);
        self.ios = ios;
        self.requests = requests;
    }
}

struct WriterThread {
    writer: RecordingWriter,
    receiver: Receiver<Message>,
    give_back: SyncSender<Vec<Io>>,
    waiting_ios: Arc<AtomicUsize>,
    status: Arc<Mutex<WriterStatus>>,
    losses: LossTally,
    counted: Unwritten,
    start_ns: i64,
    names: NameLookup,
    settings: SettingsWatch,
    rollups: Option<Rollups>,
    waits: Waits,
}

impl WriterThread {
    fn run(mut self) -> Result<RecordingSummary> {
        // Needs privileges; without them the writer runs at ordinary priority.
        let _preferred = prefer_this_thread();
        loop {
            // I/Os count as waiting until they are in the log. If the writer fails, these are the ones that are lost.
            let mut taken_ios = 0;
            match self.receiver.recv_timeout(TICK) {
                Ok(Message::Ios(mut ios)) => {
                    taken_ios = ios.len();
                    self.writer.push_ios(&ios)?;
                    self.names.note(&ios, monotonic_ns() - self.start_ns);
                    self.settings.note(&ios);
                    if let Some(rollups) = &mut self.rollups {
                        rollups.note(&ios);
                    }
                    ios.clear();
                    // If the return channel is full, the buffer is freed.
                    drop(self.give_back.try_send(ios));
                }
                Ok(Message::Others(others)) => self.note_and_push(&others)?,
                Ok(Message::Devices(devices)) => {
                    self.settings.devices_changed(&devices);
                    self.writer.set_devices(devices)?;
                }
                Ok(Message::OpenRequests(open)) => self.writer.set_open_requests(&open)?,
                Ok(Message::Waits(rows)) => self.waits.note(rows),
                Ok(Message::Finish { end_ns, cost }) => {
                    let found = self.names.finish(end_ns);
                    self.note_and_push(&found)?;
                    let found = self.settings.finish();
                    self.take_settings(found)?;
                    return self.finish(end_ns, cost);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let end_ns = monotonic_ns() - self.start_ns;
                    return self.finish(end_ns, RecorderCost::default());
                }
            }
            let now_ns = monotonic_ns() - self.start_ns;
            let found = self.names.found(now_ns);
            self.note_and_push(&found)?;
            let found = self.settings.tick(now_ns);
            self.take_settings(found)?;
            self.writer.tick(now_ns)?;
            if let Some(rollups) = &mut self.rollups {
                rollups.tick(now_ns, &mut self.writer)?;
            }
            self.waits.tick(now_ns, &mut self.writer)?;
            self.waiting_ios.fetch_sub(taken_ios, Ordering::Relaxed);
            let status = self.writer.status();
            self.counted.count(
                status.ios_unwritten,
                status.requests_unwritten,
                &self.losses,
            );
            *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
        }
    }

    fn finish(mut self, end_ns: i64, cost: RecorderCost) -> Result<RecordingSummary> {
        if let Some(rollups) = self.rollups.take() {
            rollups.finish(&mut self.writer)?;
        }
        self.waits.finish(&mut self.writer)?;
        let stored = self.writer.finish(end_ns, cost)?;
        self.counted.count(
            stored.ios_unwritten,
            stored.requests_unwritten,
            &self.losses,
        );
        Ok(stored)
    }

    fn take_settings(&mut self, found: FoundGroup) -> Result<()> {
        if let Some(settings) = found.settings {
            self.writer.set_settings(settings)?;
        }
        self.note_and_push(&found.cgroups)
    }

    fn note_and_push(&mut self, others: &[Observation]) -> Result<()> {
        if let Some(rollups) = &mut self.rollups {
            rollups.note_others(others);
        }
        others.iter().try_for_each(|o| Ok(self.writer.push(o)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{Op, RecordingMeta, Source};
    use iolens_core::store::{Recording, WriterOptions};

    fn io(done_ns: i64) -> Io {
        let mut io = Io::new(done_ns, DevId::new(8, 0), Op::READ, 4096, Some(10), 20);
        io.merges = Some(1);
        io
    }

    /// One with room for a message, whose writer is the test.
    fn with_own_writer() -> (Pipeline, Receiver<Message>) {
        let (sender, receiver) = sync_channel(1);
        let (_, spare) = sync_channel(1);
        let status = WriterStatus {
            disk_bytes: 0,
            ios_written: 0,
            ios_lost: 0,
            ios_unwritten: 0,
            requests_unwritten: 0,
            ios_removed: 0,
            full: false,
        };
        let pipeline = Pipeline {
            sender,
            spare,
            waiting_ios: Arc::default(),
            status: Arc::new(Mutex::new(status)),
            writer: std::thread::spawn(|| Err(anyhow!("nothing is written"))),
            held_back: VecDeque::new(),
            refused: Refused::default(),
            losses: LossTally::default(),
            has_ended: false,
            max_waiting_ios: MAX_WAITING_IOS,
        };
        (pipeline, receiver)
    }

    fn remark(at_ns: i64) -> Observation {
        Observation::Mark(Mark {
            at_ns,
            kind: Mark::REMARK.to_owned(),
            text: String::new(),
        })
    }

    fn described(message: &Message) -> String {
        match message {
            Message::Ios(ios) => format!("{} I/Os", ios.len()),
            Message::Others(others) => match &others[0] {
                Observation::Lost(lost) => format!("{:?} lost", lost.ios),
                other => format!("at {}", other.at_ns()),
            },
            Message::Devices(devices) => format!("{} devices", devices.len()),
            _ => "another".to_owned(),
        }
    }

    #[test]
    fn what_a_busy_writer_does_not_take_is_held_back_in_order() {
        let (mut pipeline, receiver) = with_own_writer();
        pipeline.send(vec![remark(1)]).unwrap();
        pipeline.send_devices(Vec::new()).unwrap();
        pipeline.send(vec![remark(2)]).unwrap();
        let devices = vec![Device::named("sda", DevId::new(8, 0))];
        pipeline.send_devices(devices).unwrap();
        pipeline.send_ios(vec![io(3), io(4)]).unwrap();
        pipeline.send_ios(vec![io(5)]).unwrap();
        assert_eq!(pipeline.losses.counts().get(LossReason::WriterBusy), 3);
        assert_eq!(pipeline.waiting_ios.load(Ordering::Relaxed), 0);
        pipeline.send(vec![remark(6)]).unwrap();
        let mut order = Vec::new();
        while let Ok(message) = receiver.try_recv() {
            order.push(described(&message));
            pipeline.send_refused().unwrap();
        }
        let expected = ["at 1", "at 2", "1 devices", "at 6", "Some(3) lost"];
        assert_eq!(order, expected);
        pipeline.send_ios(vec![io(7)]).unwrap();
        assert_eq!(described(&receiver.recv().unwrap()), "1 I/Os");
        drop(receiver);
        assert_eq!(pipeline.send(vec![remark(8)]), Err(WriterEnded));
        assert!(pipeline.has_ended());
    }

    #[test]
    fn what_is_held_back_is_bounded_and_the_rest_is_counted() {
        let (mut pipeline, receiver) = with_own_writer();
        for at_ns in 0..=MAX_HELD_BACK as i64 {
            pipeline.send(vec![remark(at_ns)]).unwrap();
        }
        assert_eq!(pipeline.held_back.len(), MAX_HELD_BACK);
        let ring_full = Lost {
            ios: Some(2),
            ..Lost::somewhere(5000, 6000, LossReason::RingFull)
        };
        let request = Request::new(7000, 8000);
        for at_ns in [9000, 9001] {
            let others = vec![
                remark(at_ns),
                Observation::Lost(ring_full),
                Observation::Request(Box::new(request.clone())),
            ];
            pipeline.send(others).unwrap();
        }
        assert_eq!(pipeline.held_back.len(), MAX_HELD_BACK);
        let counts = pipeline.losses.counts();
        assert_eq!(counts.get(LossReason::RequestUnwritten), 2);
        assert_eq!(counts.get(LossReason::RingFull), 0, "counted by the tracer");
        let mut last = None;
        while let Ok(message) = receiver.try_recv() {
            pipeline.send_refused().unwrap();
            last = Some(message);
        }
        let Some(Message::Others(refused)) = last else {
            panic!("what was refused comes last");
        };
        let unwritten = Lost {
            ios: Some(2),
            ..Lost::somewhere(8000, 8000, LossReason::RequestUnwritten)
        };
        let ring_full = Lost {
            ios: Some(4),
            ..ring_full
        };
        assert_eq!(refused[0], Observation::Lost(ring_full));
        assert_eq!(refused[1], Observation::Lost(unwritten));
        let Observation::Mark(mark) = &refused[2] else {
            panic!("{refused:?}");
        };
        assert_eq!((mark.at_ns, mark.kind.as_str()), (9001, Mark::NOT_STORED));
        assert!(mark.text.starts_with("2 samples"), "{}", mark.text);
        assert_eq!(refused.len(), 3);
    }

    #[test]
    fn losses_on_a_full_disk_are_counted_dated_and_stored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.iolens");
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        let losses = LossTally::default();
        let mut pipeline = Pipeline::start(writer, monotonic_ns(), false, losses.clone()).unwrap();
        pipeline.max_waiting_ios = 0;
        pipeline.send_ios(vec![io(1), io(5)]).unwrap();
        pipeline.send_ios(vec![io(9)]).unwrap();
        assert_eq!(losses.counts().get(LossReason::WriterBusy), 3);
        pipeline.max_waiting_ios = MAX_WAITING_IOS;
        pipeline.send_ios(vec![io(12)]).unwrap();
        pipeline.finish(20, RecorderCost::default()).unwrap();

        let recording = Recording::open(&path).unwrap();
        let lost: Vec<Lost> = recording.lost(0..21);
        assert_eq!(lost.len(), 1);
        assert_eq!(
            (lost[0].from_ns, lost[0].to_ns, lost[0].ios, lost[0].bytes),
            (1, 9, Some(3), Some(3 * 4096))
        );
        assert_eq!(
            (lost[0].merges, lost[0].reason),
            (Some(3), LossReason::WriterBusy)
        );
        let ios: usize = recording
            .ios(0..21, Default::default())
            .map(|b| b.unwrap().len())
            .sum();
        assert_eq!(ios, 1);
    }
}
