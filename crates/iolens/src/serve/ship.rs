//! `--ship`: copies closed files of the recordings to a directory or a bucket, on a thread of its own.
//!
//! The recorder is not involved: files to send are found in the root, and files removed before they were sent are
//! counted. [`backlog`] determines what to send next, [`target`] stores it.

mod backlog;
mod target;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use iolens_core::private::{Access, PrivateDir};
use iolens_observe::topology::{lower_this_thread, wall_clock_ns};
use serde::{Deserialize, Serialize};

use super::restrict::restrict_to_shipping;
use crate::present::{escape, serve_text};
use backlog::{Backlog, FileSum, UnsentFile};
use target::Destination;
pub use target::ShipTarget;

/// Directory in the recording root that lists the recordings that are complete at the target.
const STATE_DIRECTORY: &str = "shipped";
const STATE: &str = "done.json";
/// Interval between scans of the root.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// Maximum time of sending between two scans. Files that are removed meanwhile are known from the last scan.
const PASS_TIME: Duration = Duration::from_secs(10);
/// Delay before the first retry. It doubles with each failure, up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);
/// Maximum size of a file, which is in memory while it is sent. A recorder's files have at most a tenth of this.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// How long dropped files degrade health.
const DROPPED_SHOWN_FOR: Duration = Duration::from_secs(3600);

/// The state of shipping.
#[derive(Debug, Default)]
pub struct ShipStatus(Mutex<ShipTotals>);

/// Sums since the start, and the files waiting.
#[derive(Debug, Clone, Default)]
pub struct ShipTotals {
    /// Files stored at the target.
    pub sent: FileSum,
    /// Failed attempts.
    pub failures: u64,
    /// Files that were removed by the size limit, or unreadable, before they were sent.
    pub dropped: FileSum,
    /// Files waiting to be sent.
    pub waiting: FileSum,
    /// Modification time of the oldest waiting file, in Unix time.
    pub waiting_since_unix_ns: Option<i64>,
    failing_since: Option<Instant>,
    dropped_at: Option<Instant>,
}

impl ShipTotals {
    /// How far the target is behind, in seconds.
    pub fn lag_s(&self, now_unix_ns: i64) -> f64 {
        let since = self.waiting_since_unix_ns.unwrap_or(now_unix_ns);
        (now_unix_ns - since).max(0) as f64 / 1e9
    }

    /// What is missing or late at the target, one line each. Error messages of the target are left out, because not
    /// every client may see them.
    pub fn degraded(&self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(since) = self.failing_since {
            let seconds = now.saturating_duration_since(since).as_secs();
            lines.push(serve_text::ship_degraded(seconds, self.waiting.files));
        }
        if let Some(at) = self.dropped_at
            && now.saturating_duration_since(at) < DROPPED_SHOWN_FOR
        {
            lines.push(serve_text::ship_dropped(self.dropped.files));
        }
        lines
    }

    fn dropped(&mut self, sum: FileSum) {
        if sum.files > 0 {
            self.dropped.files += sum.files;
            self.dropped.bytes += sum.bytes;
            self.dropped_at = Some(Instant::now());
        }
    }
}

impl ShipStatus {
    /// The current totals.
    pub fn totals(&self) -> ShipTotals {
        self.state().clone()
    }

    fn state(&self) -> MutexGuard<'_, ShipTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State kept across restarts.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ShippedState {
    target: String,
    done: BTreeMap<String, i64>,
}

/// A root and its target, before anything is sent.
#[derive(Debug)]
pub struct Shipping {
    name: String,
    root: PathBuf,
    destination: Destination,
    state: PrivateDir,
    backlog: Backlog,
    status: Arc<ShipStatus>,
}

/// The thread that ships.
#[derive(Debug)]
pub struct Shipper {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Shipping {
    /// Opens the root and the target. From now on, files that the size limit removes before they were sent are
    /// counted.
    ///
    /// # Errors
    /// The target is invalid, or the root cannot be written.
    pub fn open(target: &ShipTarget, root: &Path, access: Access) -> Result<Shipping> {
        let destination = Destination::open(target, root, access)?;
        PrivateDir::open_own(root, access)?.make_dir(STATE_DIRECTORY)?;
        let state = PrivateDir::open_own(&root.join(STATE_DIRECTORY), access)?;
        let name = target.to_string();
        let known: ShippedState = std::fs::read(state.path().join(STATE))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        // State of another target is ignored; the new target is asked what it has.
        let done = if known.target == name {
            known.done
        } else {
            BTreeMap::new()
        };
        let mut shipping = Shipping {
            name,
            root: root.to_owned(),
            destination,
            state,
            backlog: Backlog::new(root, done),
            status: Arc::default(),
        };
        shipping.look()?;
        Ok(shipping)
    }

    /// The state of shipping.
    pub fn status(&self) -> Arc<ShipStatus> {
        Arc::clone(&self.status)
    }

    /// Starts the thread. It may write to its directories only.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(mut self) -> Result<Shipper> {
        let (stop, stopped) = sync_channel(1);
        let builder = std::thread::Builder::new().name("iolens-ship".to_owned());
        let thread = builder.spawn(move || {
            lower_this_thread();
            let state = self.state.path().to_owned();
            let directories = [Some(&*state), self.destination.directory()];
            let directories: Vec<&Path> = directories.into_iter().flatten().collect();
            if let Err(e) = restrict_to_shipping(&directories) {
                eprintln!("iolens: the thread that ships keeps its privileges: {e:#}");
            }
            self.run(&stopped);
        });
        let thread = thread.context("the thread that ships could not be started")?;
        Ok(Shipper { stop, thread })
    }

    fn run(&mut self, stopped: &Receiver<()>) {
        let mut retry: Option<Duration> = None;
        let mut is_last = false;
        loop {
            let until = (!is_last).then(|| Instant::now() + PASS_TIME);
            let wait = match self.pass(stopped, until) {
                Ok(Passed::Stopped) => {
                    is_last = true;
                    continue;
                }
                Ok(passed) => {
                    if retry.take().is_some() {
                        self.status.state().failing_since = None;
                        eprint!("{}", serve_text::ship_works(&self.name));
                    }
                    match passed {
                        Passed::All => LOOK_PERIOD,
                        _ => Duration::ZERO,
                    }
                }
                Err(e) => {
                    let wait = retry.map_or(FIRST_RETRY, |last| (2 * last).min(LAST_RETRY));
                    if retry.replace(wait).is_none() {
                        let why = format!("{e:#}");
                        eprint!("{}", serve_text::ship_fails(&self.name, &why));
                    }
                    let mut state = self.status.state();
                    state.failures += 1;
                    state.failing_since.get_or_insert_with(Instant::now);
                    wait
                }
            };
            if is_last {
                return;
            }
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                // Files that fail are left to the next start.
                _ if retry.is_some() => return,
                _ => is_last = true,
            }
        }
    }

    fn look(&mut self) -> Result<()> {
        let dropped = self.backlog.look(wall_clock_ns())?;
        self.note_waiting();
        self.status.state().dropped(dropped);
        Ok(())
    }

    fn note_waiting(&self) {
        let (waiting, since) = self.backlog.waiting();
        let mut state = self.status.state();
        state.waiting = waiting;
        state.waiting_since_unix_ns = since;
    }

    /// Sends files until a deadline or until the service ends.
    fn pass(&mut self, stopped: &Receiver<()>, until: Option<Instant>) -> Result<Passed> {
        self.look()?;
        let passed = loop {
            if let Some(until) = until {
                // If the sender is gone, the service has ended.
                if stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                    break Passed::Stopped;
                }
                if Instant::now() >= until {
                    break Passed::Part;
                }
            }
            if let Some(recording) = self.backlog.next_unknown().map(str::to_owned) {
                let there = self.destination.files(&recording)?;
                self.backlog.known(&recording, &there);
                continue;
            }
            let Some(file) = self.backlog.next_unsent() else {
                break Passed::All;
            };
            self.send(&file)?;
        };
        self.note_waiting();
        if self.backlog.settle() {
            self.remember()?;
        }
        Ok(passed)
    }

    fn send(&mut self, file: &UnsentFile) -> Result<()> {
        let name = format!("{}/{}", file.recording, file.name);
        let read = match file.stamp.bytes {
            n if n > MAX_FILE_BYTES => Err(ErrorKind::FileTooLarge.into()),
            _ => std::fs::read(self.root.join(&name)),
        };
        let bytes = match read {
            // The file is gone. The scan counts it.
            Err(e) if e.kind() == ErrorKind::NotFound => return self.look(),
            Err(e) => {
                // This file fails, but others may work.
                eprintln!("iolens: {}: not shipped: {e}", escape::terminal(&name));
                self.backlog.sent(file);
                let mut unreadable = FileSum::default();
                unreadable.add(file.stamp.bytes);
                self.status.state().dropped(unreadable);
                return Ok(());
            }
            Ok(bytes) => bytes,
        };
        let sent = bytes.len() as u64;
        self.destination
            .put(&name, bytes)
            .with_context(|| name.clone())?;
        self.backlog.sent(file);
        let mut state = self.status.state();
        state.sent.add(sent);
        state.waiting.files = state.waiting.files.saturating_sub(1);
        state.waiting.bytes = state.waiting.bytes.saturating_sub(sent);
        Ok(())
    }

    /// Saves the list of recordings that are complete at the target.
    fn remember(&self) -> Result<()> {
        let state = ShippedState {
            target: self.name.clone(),
            done: self.backlog.done().clone(),
        };
        let text = serde_json::to_vec(&state)?;
        let written = self.state.write_atomically(STATE, &text);
        written.with_context(|| format!("{}/{STATE}", self.state.path().display()))
    }
}

/// Why a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// Everything was sent.
    All,
    /// The deadline passed.
    Part,
    /// The service is ending.
    Stopped,
}

impl Shipper {
    /// Sends the files that are closed now, until `deadline`. The next start continues with the rest.
    pub fn end(self, deadline: Instant) {
        // The thread may have panicked, which was reported.
        let _ = self.stop.try_send(());
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests;
