//! The thread that empties the kernel's rings for the screen, so that a slow terminal costs no I/O; or asks a running `serve`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::timeline::{CounterRates, Differences};
use iolens_core::model::{Device, Io, Lost, Observation, PressureSample};
use iolens_observe::counters::monotonic_ns;
use iolens_recorder::{Feed, KnownDevices, NameLookup, PressureWatch, SelfCheck, Taken};

use super::history::History;
use super::served::{self, ServeClient};

/// How often the rings are emptied.
const POLL_NS: i64 = 50_000_000;
/// The time between two comparisons with the kernel's counters.
const SAMPLE_NS: i64 = 1_000_000_000;
/// I/Os that wait for the next picture, some 160 bytes each: half a second's at 200,000 a second. More are counted and left out.
const MAX_WAITING: usize = 100_000;

/// What the screen has not taken yet.
#[derive(Debug, Default)]
struct Waiting {
    ios: Vec<Io>,
    missed_ios: u64,
    lost: Vec<Lost>,
    names: Vec<Observation>,
    pressure: Vec<PressureSample>,
    /// What the kernel counted, where that is the source.
    rates: Vec<CounterRates>,
    complete_to_ns: i64,
    /// Devices, where they have changed.
    devices: Option<Vec<Device>>,
    /// I/Os that another recorder lost in the last minute.
    lost_of_last_minute: Option<u64>,
    /// What does not work at the moment.
    trouble: Option<String>,
    failure: Option<anyhow::Error>,
}

/// What the thread hands to the screen.
#[derive(Debug, Default)]
pub struct SharedQueue(Mutex<Waiting>);

impl SharedQueue {
    /// I/Os in the order of completion, and names.
    pub fn add(&self, mut ios: Vec<Io>, names: Vec<Observation>) {
        let mut waiting = self.lock();
        waiting.add_ios(&mut ios);
        waiting.names.extend(names);
    }

    /// So many I/Os, or more, are not shown.
    pub fn miss(&self, ios: u64) {
        self.lock().missed_ios += ios;
    }

    /// All that completed before this was added.
    pub fn complete(&self, to_ns: i64) {
        self.lock().complete_to_ns = to_ns;
    }

    /// The devices are these.
    pub fn devices(&self, devices: Vec<Device>) {
        self.lock().devices = Some(devices);
    }

    /// The recorder that is asked lost so many in the last minute.
    pub fn lost_of_last_minute(&self, ios: i64) {
        self.lock().lost_of_last_minute = u64::try_from(ios).ok();
    }

    /// What does not work, or that all does.
    pub fn trouble(&self, trouble: Option<String>) {
        self.lock().trouble = trouble;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add_ios(&mut self, ios: &mut Vec<Io>) {
        if self.ios.len() + ios.len() <= MAX_WAITING {
            self.ios.append(ios);
        } else {
            self.missed_ios += ios.len() as u64;
        }
    }
}

/// The thread.
pub struct SourceThread {
    shared: Arc<SharedQueue>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Whether it ends at once when it is to.
    ends_soon: bool,
}

impl SourceThread {
    /// Starts one that empties the rings of `feed`.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn start(feed: Feed, known: KnownDevices) -> Result<SourceThread> {
        SourceThread::spawn(true, move |shared, ends| empty(feed, known, shared, ends))
    }

    /// Starts one that asks a running `serve` for what happens from `start_unix_ns` on.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn ask(
        client: ServeClient,
        devices: Vec<Device>,
        start_unix_ns: i64,
    ) -> Result<SourceThread> {
        SourceThread::spawn(false, move |shared, ends| {
            served::follow(&client, &devices, start_unix_ns, shared, ends);
            Ok(())
        })
    }

    fn spawn(
        ends_soon: bool,
        work: impl FnOnce(&SharedQueue, &AtomicBool) -> Result<()> + Send + 'static,
    ) -> Result<SourceThread> {
        let shared: Arc<SharedQueue> = Arc::default();
        let ends = Arc::new(AtomicBool::new(false));
        let its_shared = Arc::clone(&shared);
        let its_ends = Arc::clone(&ends);
        let thread = std::thread::Builder::new()
            .name("iolens-source".to_owned())
            .spawn(move || {
                if let Err(e) = work(&its_shared, &its_ends) {
                    its_shared.lock().failure = Some(e);
                }
            })
            .context("a thread could not be started")?;
        Ok(SourceThread {
            shared,
            ends,
            thread: Some(thread),
            ends_soon,
        })
    }

    /// Moves what has come into `history`; says what does not work at the moment.
    ///
    /// # Errors
    /// The source failed.
    pub fn take(&self, history: &mut History) -> Result<Option<String>> {
        // Asked before what it has left behind is taken: its failure is there then.
        let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        let taken = {
            let mut waiting = self.shared.lock();
            // What holds until something else is said.
            let next = Waiting {
                complete_to_ns: waiting.complete_to_ns,
                trouble: waiting.trouble.clone(),
                ..Waiting::default()
            };
            std::mem::replace(&mut *waiting, next)
        };
        if let Some(failure) = taken.failure {
            bail!(failure);
        }
        // It ends by itself only by a failure, which has been returned, or a panic.
        if has_ended {
            bail!("the thread that takes the I/Os has ended: see above");
        }
        history.push(taken.ios);
        for rates in &taken.rates {
            history.count_rates(rates);
        }
        history.missed_ios += taken.missed_ios;
        history.lose(&taken.lost);
        history.learn_pressure(taken.pressure);
        for name in taken.names {
            if let Observation::Name(name) = name {
                history.names.insert(name.at_ns, name.of, name.text);
            }
        }
        if let Some(devices) = taken.devices {
            history.devices = devices;
        }
        if let Some(lost) = taken.lost_of_last_minute {
            history.lost_ios = lost;
        }
        if taken.complete_to_ns > 0 {
            history.advance(taken.complete_to_ns);
        }
        Ok(taken.trouble)
    }
}

impl Drop for SourceThread {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take().filter(|_| self.ends_soon) {
            // Its panic has been reported where it happened.
            thread.join().ok();
        }
    }
}

/// Takes what the source has, again and again.
fn empty(
    mut feed: Feed,
    mut known: KnownDevices,
    shared: &SharedQueue,
    ends: &AtomicBool,
) -> Result<()> {
    let start_ns = feed.start_ns();
    let mut check = SelfCheck::default();
    let mut lookup = NameLookup::start();
    let mut pressure = PressureWatch::start(monotonic_ns() - start_ns);
    let mut had_io = false;
    let mut next_sample_ns = 0;
    let mut differences = Differences::new(known.all());
    while !ends.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns() - start_ns;
        if now_ns >= next_sample_ns {
            next_sample_ns = now_ns + SAMPLE_NS;
            check.sample(&mut feed, known.all());
            if known.look(&mut feed, now_ns)?.is_some() {
                differences.devices_changed(known.all());
                shared.devices(known.all().to_vec());
            }
        }
        let mut taken = Taken::default();
        check.drain(&mut feed, &mut taken)?;
        lookup.note(&taken.ios, now_ns);
        let names = lookup.found(now_ns);
        had_io |= !taken.ios.is_empty();
        let mut sample = None;
        if pressure.is_due(now_ns) {
            sample = pressure.look(now_ns, had_io, || monotonic_ns() - start_ns);
            had_io = false;
        }
        let mut rates = Vec::new();
        for counters in &taken.counters {
            rates.extend(differences.push(counters));
        }
        // Of counters a sample says all up to its time.
        let sampled_to_ns = taken.counters.last().map(|c| c.at_ns);
        let mut waiting = shared.lock();
        waiting.add_ios(&mut taken.ios);
        if waiting.rates.len() + rates.len() <= MAX_WAITING {
            waiting.rates.append(&mut rates);
        }
        waiting.lost.append(&mut taken.lost);
        waiting.names.extend(names);
        waiting.pressure.extend(sample);
        if let Some(complete_to_ns) = taken.complete_to_ns.or(sampled_to_ns) {
            waiting.complete_to_ns = complete_to_ns;
        }
        drop(waiting);
        if let Some(wake) = feed.wait(start_ns + now_ns + POLL_NS) {
            pressure.woke(wake);
        }
    }
    Ok(())
}
