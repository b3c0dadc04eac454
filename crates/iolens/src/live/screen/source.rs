//! The thread that reads the kernel's rings for the screen, or polls a running `serve`, so that a slow terminal loses
//! no I/Os.

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

/// Interval between reads of the rings.
const POLL_NS: i64 = 50_000_000;
/// Interval between comparisons with the kernel's counters.
const SAMPLE_NS: i64 = 1_000_000_000;
/// Maximum number of I/Os waiting for the next frame, about 160 bytes each: half a second at 200,000/s. More are only
/// counted.
const MAX_WAITING: usize = 100_000;

/// The minute over which another recorder counts its losses, with its samples of a second and a delay.
const LOSS_MINUTE_NS: i64 = 63_000_000_000;

/// Data that the screen has not taken yet.
#[derive(Debug, Default)]
struct Waiting {
    ios: Vec<Io>,
    missed_ios: u64,
    lost: Vec<Lost>,
    names: Vec<Observation>,
    pressure: Vec<PressureSample>,
    /// Differences of counters, if they are the source.
    rates: Vec<CounterRates>,
    complete_to_ns: i64,
    /// The devices, if they have changed.
    devices: Option<Vec<Device>>,
    /// I/Os lost by the other recorder in the last minute, and its end.
    lost_of_last_minute: Option<(u64, i64)>,
    /// The current problem.
    trouble: Option<String>,
    failure: Option<anyhow::Error>,
}

/// The queue between the thread and the screen.
#[derive(Debug, Default)]
pub struct SharedQueue(Mutex<Waiting>);

impl SharedQueue {
    /// Adds I/Os in order of completion, and names.
    pub fn add(&self, mut ios: Vec<Io>, names: Vec<Observation>) {
        let mut waiting = self.lock();
        waiting.add_ios(&mut ios);
        waiting.names.extend(names);
    }

    /// At least this many I/Os are not shown.
    pub fn miss(&self, ios: u64) {
        self.lock().missed_ios += ios;
    }

    /// All I/Os that completed before `to_ns` have been added.
    pub fn complete(&self, to_ns: i64) {
        self.lock().complete_to_ns = to_ns;
    }

    /// Sets the devices.
    pub fn devices(&self, devices: Vec<Device>) {
        self.lock().devices = Some(devices);
    }

    /// Sets the number of I/Os that the other recorder lost in the minute before `now_ns`.
    pub fn lost_of_last_minute(&self, ios: i64, now_ns: i64) {
        self.lock().lost_of_last_minute = u64::try_from(ios).ok().map(|ios| (ios, now_ns));
    }

    /// Sets or clears the current problem.
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

/// The source thread.
pub struct SourceThread {
    shared: Arc<SharedQueue>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Whether it stops immediately when it is asked to.
    ends_soon: bool,
}

impl SourceThread {
    /// Starts a thread that reads the rings of `feed`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(feed: Feed, known: KnownDevices) -> Result<SourceThread> {
        SourceThread::spawn(true, move |shared, ends| empty(feed, known, shared, ends))
    }

    /// Starts a thread that polls a running `serve` for I/Os from `start_unix_ns` on.
    ///
    /// # Errors
    /// The thread cannot be started.
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

    /// Moves the available data into `history`. Returns the current problem, if any.
    ///
    /// # Errors
    /// The source failed.
    pub fn take(&self, history: &mut History) -> Result<Option<String>> {
        // Checked before taking the data, so that the error of an ended thread is included.
        let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        let taken = {
            let mut waiting = self.shared.lock();
            // Values that stay valid until they are replaced.
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
        // The thread ends by itself only with an error, which was returned above, or with a panic.
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
        if let Some((lost, now_ns)) = taken.lost_of_last_minute {
            history.lost_ios = lost;
            if lost > 0 {
                history.suspect(now_ns.saturating_sub(LOSS_MINUTE_NS), now_ns);
            }
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
            // Its panic was reported when it happened.
            thread.join().ok();
        }
    }
}

/// Reads from the source in a loop.
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
        // A sample of counters is complete up to its time.
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
