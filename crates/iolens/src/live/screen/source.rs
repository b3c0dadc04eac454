//! The thread that empties the kernel's rings for the screen, so that a slow terminal costs no I/O.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, bail};
use iolens_core::model::{Device, Io, Lost, Observation, PressureSample};
use iolens_observe::counters::monotonic_ns;
use iolens_recorder::{Feed, NameLookup, PressureWatch, SelfCheck, Taken};

use super::history::History;

/// How often the rings are emptied.
const POLL_NS: i64 = 50_000_000;
/// The time between two comparisons with the kernel's counters.
const SAMPLE_NS: i64 = 1_000_000_000;
/// I/Os that wait for a screen that does not come; more are counted and left out.
const MAX_WAITING: usize = 1_000_000;

/// What the screen has not taken yet.
#[derive(Default)]
struct Waiting {
    ios: Vec<Io>,
    missed_ios: u64,
    lost: Vec<Lost>,
    names: Vec<Observation>,
    pressure: Vec<PressureSample>,
    complete_to_ns: i64,
    failure: Option<anyhow::Error>,
}

/// The thread.
pub struct SourceThread {
    waiting: Arc<Mutex<Waiting>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SourceThread {
    /// Starts it.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn start(feed: Feed, devices: Vec<Device>) -> Result<SourceThread> {
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let ends = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&waiting);
        let end = Arc::clone(&ends);
        let work = move || {
            if let Err(e) = empty(feed, &devices, &shared, &end) {
                lock(&shared).failure = Some(e);
            }
        };
        let thread = std::thread::Builder::new()
            .name("iolens-source".to_owned())
            .spawn(work)
            .context("a thread could not be started")?;
        Ok(SourceThread {
            waiting,
            ends,
            thread: Some(thread),
        })
    }

    /// Moves what has come into `history`.
    ///
    /// # Errors
    /// The source failed.
    pub fn take(&self, history: &mut History) -> Result<()> {
        // Asked before what it has left behind is taken: its failure is there then.
        let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        let taken = {
            let mut waiting = lock(&self.waiting);
            let complete_to_ns = waiting.complete_to_ns;
            std::mem::replace(
                &mut *waiting,
                Waiting {
                    complete_to_ns,
                    ..Waiting::default()
                },
            )
        };
        if let Some(failure) = taken.failure {
            bail!(failure);
        }
        // It ends by itself only by a failure, which has been returned, or a panic.
        if has_ended {
            bail!("the thread that takes the I/Os has ended: see above");
        }
        history.push(taken.ios);
        history.missed_ios += taken.missed_ios;
        history.lose(&taken.lost);
        history.learn_pressure(taken.pressure);
        for name in taken.names {
            if let Observation::Name(name) = name {
                history.names.insert(name.of, name.text);
            }
        }
        if taken.complete_to_ns > 0 {
            history.advance(taken.complete_to_ns);
        }
        Ok(())
    }
}

impl Drop for SourceThread {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported where it happened.
            thread.join().ok();
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what the source has, again and again.
fn empty(
    mut feed: Feed,
    devices: &[Device],
    shared: &Mutex<Waiting>,
    ends: &AtomicBool,
) -> Result<()> {
    let start_ns = feed.start_ns();
    let mut check = SelfCheck::default();
    let mut lookup = NameLookup::start();
    let mut pressure = PressureWatch::start(monotonic_ns() - start_ns);
    let mut had_io = false;
    let mut next_sample_ns = 0;
    while !ends.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns() - start_ns;
        if now_ns >= next_sample_ns {
            next_sample_ns = now_ns + SAMPLE_NS;
            check.sample(&mut feed, devices);
        }
        let mut taken = Taken::default();
        check.take(&mut feed, &mut taken)?;
        lookup.note(&taken.ios, now_ns);
        let names = lookup.found(now_ns);
        had_io |= !taken.ios.is_empty();
        let mut sample = None;
        if pressure.is_due(now_ns) {
            sample = pressure.look(now_ns, had_io, || monotonic_ns() - start_ns);
            had_io = false;
        }
        let mut waiting = lock(shared);
        let has_room = waiting.ios.len() + taken.ios.len() <= MAX_WAITING;
        if has_room {
            waiting.ios.append(&mut taken.ios);
        } else {
            waiting.missed_ios += taken.ios.len() as u64;
        }
        waiting.lost.append(&mut taken.lost);
        waiting.names.extend(names);
        waiting.pressure.extend(sample);
        if let Some(complete_to_ns) = taken.complete_to_ns {
            waiting.complete_to_ns = complete_to_ns;
        }
        drop(waiting);
        if let Some(wake) = feed.wait(start_ns + now_ns + POLL_NS) {
            pressure.woke(wake);
        }
    }
    Ok(())
}
