//! The writer on its own thread. Slow storage costs memory up to a limit, then counted loss; never a stalled reader.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use iolens_core::model::{
    Class, DevId, Device, Io, LossReason, Lost, Observation, RecorderCost, Request, WaitSums,
};
use iolens_core::store::{RecordingSummary, RecordingWriter, WriterStatus};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::prefer_this_thread;

use crate::losses::LossTally;
use crate::name_lookup::NameLookup;
use crate::rollups::Rollups;
use crate::settings_watch::{FoundGroup, SettingsWatch};
use crate::waits::Waits;

/// I/Os that may wait for the writer: about 40 MiB, a second of the fastest disks.
const MAX_WAITING_IOS: usize = 256 * 1024;
/// Batches that may wait. Far more than [`MAX_WAITING_IOS`] needs, so that the count of I/Os is the limit that bites.
const MAX_WAITING_BATCHES: usize = 4096;
/// Every message is in the log when the next one is waited for; without any, the writer's clock is fed this often, so
/// that its syncs are not later than that. Rarely, since each time costs an idle machine a wake-up.
const TICK: Duration = Duration::from_millis(500);

enum Message {
    Ios(Vec<Io>),
    Others(Vec<Observation>),
    Devices(Vec<Device>),
    OpenRequests(Vec<Request>),
    Waits(Vec<WaitSums>),
    Finish { end_ns: i64, cost: RecorderCost },
}

/// The reader's end of the writer thread.
pub struct Pipeline {
    sender: SyncSender<Message>,
    spare: Receiver<Vec<Io>>,
    waiting_ios: Arc<AtomicUsize>,
    status: Arc<Mutex<WriterStatus>>,
    writer: JoinHandle<Result<RecordingSummary>>,
    refused: Refused,
    losses: LossTally,
    /// The writer was found to have ended, and what waited for it is counted.
    has_ended: bool,
    max_waiting_ios: usize,
}

impl Pipeline {
    /// Gives `writer` a thread of its own. `start_ns` is the recording's start on the monotonic clock. With `rollups` it
    /// writes sums per second and minute, too. I/Os that come to nothing are counted in `losses`.
    ///
    /// # Errors
    /// No thread could be started.
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
            // Before this thread or the writer is preferred: lookups are no hurry.
            names: NameLookup::start(),
            settings,
            rollups: rollups.then(Rollups::default),
            waits: Waits::default(),
        };
        let writer = std::thread::Builder::new()
            .name("iolens-writer".to_owned())
            .spawn(move || thread.run())
            .context("the writer thread could not be started")?;
        let refused = Refused::default();
        Ok(Pipeline {
            sender,
            spare,
            waiting_ios,
            status,
            writer,
            refused,
            losses,
            has_ended: false,
            max_waiting_ios: MAX_WAITING_IOS,
        })
    }

    /// An empty batch, one that the writer is done with if there is one: reused memory needs no page faults.
    pub fn batch(&self) -> Vec<Io> {
        self.spare.try_recv().unwrap_or_default()
    }

    /// Queues a batch; counts it as lost if the queue is full.
    ///
    /// # Errors
    /// The writer thread has ended, which [`Pipeline::finish`] explains.
    pub fn send_ios(&mut self, ios: Vec<Io>) -> Result<(), WriterEnded> {
        if ios.is_empty() {
            return Ok(());
        }
        let n = ios.len();
        if self.has_ended {
            self.losses.add(LossReason::WriterBusy, n as i64);
            return Err(WriterEnded);
        }
        if self.waiting_ios.load(Ordering::Relaxed) + n > self.max_waiting_ios {
            self.refuse(&ios);
            return Ok(());
        }
        self.waiting_ios.fetch_add(n, Ordering::Relaxed);
        self.send_refused()?;
        match self.sender.try_send(Message::Ios(ios)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => {
                self.waiting_ios.fetch_sub(n, Ordering::Relaxed);
                if let Message::Ios(ios) = message {
                    self.refuse(&ios);
                }
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => self.delivered(false),
        }
    }

    /// Queues anything else; blocks if the queue is full, since these are few.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send(&mut self, others: Vec<Observation>) -> Result<(), WriterEnded> {
        if others.is_empty() {
            return Ok(());
        }
        let sent = self.sender.send(Message::Others(others)).is_ok();
        self.delivered(sent)
    }

    /// Sends the writer the current state of open requests.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send_open_requests(&mut self, open: Vec<Request>) -> Result<(), WriterEnded> {
        let sent = self.sender.send(Message::OpenRequests(open)).is_ok();
        self.delivered(sent)
    }

    /// Sends the writer rows of who waited for whom.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send_waits(&mut self, rows: Vec<WaitSums>) -> Result<(), WriterEnded> {
        let sent = self.sender.send(Message::Waits(rows)).is_ok();
        self.delivered(sent)
    }

    /// Sends the writer the current devices.
    ///
    /// # Errors
    /// The writer thread has ended.
    pub fn send_devices(&mut self, devices: Vec<Device>) -> Result<(), WriterEnded> {
        let sent = self.sender.send(Message::Devices(devices)).is_ok();
        self.delivered(sent)
    }

    /// Whether the writer was found to have ended: nothing is stored any more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// A message was delivered, or the writer has ended: then nothing stores what waits for it, either.
    fn delivered(&mut self, delivered: bool) -> Result<(), WriterEnded> {
        if delivered {
            return Ok(());
        }
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

    /// What the writer has written so far.
    pub fn status(&self) -> WriterStatus {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything is written and the recording is closed.
    ///
    /// # Errors
    /// What went wrong in the writer.
    pub fn finish(mut self, end_ns: i64, cost: RecorderCost) -> Result<RecordingSummary> {
        // A writer that has ended reports its own error when joined.
        let _ended = self.send_refused().is_err()
            || self.sender.send(Message::Finish { end_ns, cost }).is_err();
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

    fn send_refused(&mut self) -> Result<(), WriterEnded> {
        let lost = self.refused.take();
        self.send(lost.into_iter().map(Observation::Lost).collect())
    }
}

/// Counts what waits for a writer that has ended: it is not stored.
fn count_waiting(waiting_ios: &AtomicUsize, losses: &LossTally) {
    let waiting = waiting_ios.load(Ordering::Relaxed);
    losses.add(LossReason::WriterBusy, waiting as i64);
}

/// The writer thread is gone; its error comes out of [`Pipeline::finish`].
#[derive(Debug, PartialEq, Eq)]
pub struct WriterEnded;

/// I/Os that found no room, per device and class, until they can be sent.
#[derive(Default)]
struct Refused {
    by_class: HashMap<(DevId, Class), Lost>,
}

impl Refused {
    fn count(&mut self, ios: &[Io]) {
        for io in ios {
            let lost = self.by_class.entry((io.dev, io.class())).or_insert(Lost {
                from_ns: io.done_ns,
                to_ns: io.done_ns,
                dev: Some(io.dev),
                class: Some(io.class()),
                reason: LossReason::WriterBusy,
                ios: Some(0),
                bytes: Some(0),
                merges: Some(0),
            });
            lost.from_ns = lost.from_ns.min(io.done_ns);
            lost.to_ns = lost.to_ns.max(io.done_ns);
            lost.ios = lost.ios.map(|n| n + 1);
            lost.bytes = lost.bytes.map(|n| n + io.bytes);
            lost.merges = lost.merges.zip(io.merges).map(|(n, m)| n + i64::from(m));
        }
    }

    fn take(&mut self) -> Vec<Lost> {
        let mut lost: Vec<Lost> = self.by_class.drain().map(|(_, l)| l).collect();
        lost.sort_by_key(|l| (l.to_ns, l.dev, l.class));
        lost
    }
}

/// What found no room on the disk, as far as it is in the tally.
#[derive(Default)]
struct Unwritten {
    ios: u64,
    requests: u64,
}

impl Unwritten {
    /// Adds what has come since to `losses`.
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
        // Not allowed without privileges; then it writes at ordinary priority.
        let _preferred = prefer_this_thread();
        loop {
            // I/Os count as waiting until the log has them: if the writer fails, these are what is lost.
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
                    // If the return channel is full the buffer is freed.
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
