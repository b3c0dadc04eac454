//! The always-on recorder: one recording after the other in a root, within one budget.
//!
//! A recording takes at most an eighth of the budget, and what is closed leaves two eighths free: for the one that grows and
//! for the one before it, whose end is still written. So the limit holds at every instant, whatever is removed when.

pub mod http;
mod live;
mod lock;
mod meter;
mod restrict;
mod supervisor;
mod watcher;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use iolens_core::private::Access;
use iolens_core::store::{Budget, Freed, Recording, Root};
use iolens_observe::topology::{Host, Topology, wall_clock_ns};
use iolens_recorder::{Progress, Session, SessionOptions, complete_rollups, view};

use crate::present::{escape, serve_text};
use crate::signals::Signals;
use http::{Door, Health, Recorder, Server};
use live::Live;
use lock::LockedRoot;
use meter::Meter;
use supervisor::Supervisor;
use watcher::{Outlets, Watcher};

/// What `serve` was asked for.
#[derive(Debug, Clone)]
pub struct Service {
    /// The recording root.
    pub root: PathBuf,
    /// Hard cap over all recordings.
    pub keep_bytes: u64,
    /// Who may read it.
    pub access: Access,
    /// How to record; directory and size are set here.
    pub session: SessionOptions,
    /// How to answer.
    pub http: http::Options,
    /// A shell's command that gets each finding on its input.
    pub on_finding: Option<String>,
}

/// Recordings take at most this part of the budget.
const PARTS: u64 = 8;
/// Room for descriptions that are written anew while something is removed.
const MARGIN: u64 = 1 << 20;
const DAY_NS: i64 = 86_400 * 1_000_000_000;
/// Sizes and clocks are looked at this often.
const LOOK_NS: i64 = 100_000_000;
/// A recording is at least this long, unless it is full: a clock that is set back and forth makes no heap of them.
const MIN_LENGTH_NS: i64 = 60_000_000_000;
/// Without a recorder nothing else asks for signals.
const SIGNAL_POLL: Duration = Duration::from_millis(200);
/// Remarks that may wait for the recorder.
const MAX_MARKS: usize = 16;
/// What failed is tried again after this.
const RETRY_NS: i64 = 60_000_000_000;

impl Service {
    /// Records until a signal asks to end.
    ///
    /// # Errors
    /// There is no place to record into, no source, or the writer failed.
    pub fn run(self, topology: Topology, signals: &Signals) -> Result<()> {
        let locked = LockedRoot::open(&self.root, self.access)?;
        let host = Host::read("/".as_ref()).name.unwrap_or_else(|| "localhost".to_owned());
        let directory = locked.host(&host)?;
        let health = Arc::new(Health::default());
        let door = Door::open(&self.http)?;
        self.make_room(None).context("no room can be made in the recording root")?;
        let options = SessionOptions {
            output: directory.clone(),
            always_on: true,
            keep_bytes: Some(self.part()),
            access: self.access,
            ..self.session.clone()
        };
        let mut missing = Vec::new();
        let mut session = Session::start_then(options, topology, || {
            missing = restrict::restrict(&self.root)?;
            Ok(())
        })?;
        // Its threads begin without what was given up.
        let (beside, recorder) = self.beside(&mut session, &directory)?;
        let server = Server::start(door, &self.root, Arc::clone(&health), Some(recorder))?;
        eprint!(
            "{}{}",
            serve_text::started(&session.source(), &[session.limits(), &missing].concat(), &self.root, self.keep_bytes),
            serve_text::listening(server.place.as_ref())
        );
        health.recording(&session.source().to_string());
        let mut watch = Watch::new(self.clone(), session.path().clone(), &directory, health);
        let mut supervisor = Supervisor::ready();
        loop {
            // If it stops by itself, the writer ended: the end says why.
            let (mut turn, mut remark) = (Turn::Record, None);
            session.run(|progress| {
                supervisor.alive(progress.at_ns);
                beside.watcher.found().ios.store(progress.ios, Ordering::Relaxed);
                turn = watch.look(progress);
                remark = beside.marks.try_recv().ok();
                signals.caught() > 0 || turn == Turn::Rotate || remark.is_some()
            })?;
            if let Some(text) = &remark {
                session.mark("remark", text);
            }
            match turn {
                Turn::Rotate if signals.caught() == 0 => watch.rotate(&mut session),
                Turn::Record if remark.is_some() && signals.caught() == 0 => {}
                _ => break,
            }
        }
        supervisor.stopping();
        drop(beside);
        let outcome = session.finish()?;
        drop(server);
        eprint!("{}", serve_text::ended(&outcome.progress, &outcome.path));
        watch.wait();
        Ok(())
    }

    /// Starts what looks at the recording while it grows, and gives the server its ends.
    fn beside(&self, session: &mut Session, directory: &Path) -> Result<(Beside, Recorder)> {
        let (viewer, view) = view();
        let (sender, marks) = sync_channel(MAX_MARKS);
        let live = Live::new(session.start_unix_ns());
        let rows = live.sender();
        let (meter, _ends_with_the_session) = Meter::start(view, live)?;
        session.show_to(viewer);
        let outlets = Outlets { command: self.on_finding.clone(), live: rows.clone() };
        let watcher = Watcher::start(directory.to_owned(), outlets)?;
        let found = Arc::clone(watcher.found());
        Ok((Beside { marks, watcher }, Recorder { meter, marks: sender, live: rows, found }))
    }

    /// Shows what is in the root until a signal asks to end; records nothing and needs no privileges.
    ///
    /// # Errors
    /// There is nothing to show, or no place to listen.
    pub fn show(self, signals: &Signals) -> Result<()> {
        if !self.root.is_dir() {
            bail!("{}: there is nothing to show; give a recording or a recording root", self.root.display());
        }
        let server = Server::start(Door::open(&self.http)?, &self.root, Arc::default(), None)?;
        eprint!("{}", serve_text::listening(server.place.as_ref()));
        while signals.caught() == 0 {
            std::thread::sleep(SIGNAL_POLL);
        }
        Ok(())
    }

    /// What one recording may take.
    fn part(&self) -> u64 {
        self.keep_bytes / PARTS
    }

    fn make_room(&self, growing: Option<&Path>) -> Result<Freed> {
        let budget = Budget { keep_bytes: self.keep_bytes, access: self.access };
        let limit = self.keep_bytes - 2 * self.part() - MARGIN;
        Ok(budget.make_room(&self.root, growing, limit, wall_clock_ns())?)
    }
}

/// What the recorder's loop has of those that look at the recording.
struct Beside {
    marks: Receiver<String>,
    watcher: Watcher,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The recording grows on.
    Record,
    /// It is time for another one, and there is room for it.
    Rotate,
}

/// Says when another recording begins, and makes room for it on a thread of its own.
struct Watch {
    service: Service,
    growing: PathBuf,
    /// Session's time of its beginning, and the day (UTC) on which that was.
    from_ns: i64,
    day: i64,
    next_look_ns: i64,
    helper: Option<Helper>,
    has_room: bool,
    health: Arc<Health>,
}

/// What is done beside recording.
enum Helper {
    /// Rollups that killed recorders did not come to write are computed.
    Complete(JoinHandle<Result<()>>),
    /// Room is made for the next recording.
    MakeRoom(JoinHandle<Result<Freed>>),
}

impl Helper {
    fn is_finished(&self) -> bool {
        match self {
            Helper::Complete(thread) => thread.is_finished(),
            Helper::MakeRoom(thread) => thread.is_finished(),
        }
    }
}

impl Watch {
    /// Of the first recording.
    fn new(service: Service, growing: PathBuf, directory: &Path, health: Arc<Health>) -> Watch {
        let (own, directory, access) = (growing.clone(), directory.to_owned(), service.access);
        let thread = std::thread::spawn(move || complete_others(&directory, &own, access));
        let helper = Some(Helper::Complete(thread));
        Watch { service, growing, from_ns: 0, day: today(), next_look_ns: 0, helper, has_room: false, health }
    }

    fn look(&mut self, progress: &Progress) -> Turn {
        if progress.at_ns < self.next_look_ns {
            return Turn::Record;
        }
        self.next_look_ns = progress.at_ns + LOOK_NS;
        self.health.looked(progress);
        if let Some(helper) = self.helper.take_if(|h| h.is_finished()) {
            self.finished(helper);
        }
        let full = progress.disk_bytes > self.service.part() / 4 * 3;
        let other_day = today() != self.day && progress.at_ns - self.from_ns >= MIN_LENGTH_NS;
        if !(full || other_day) {
            return Turn::Record;
        }
        if self.has_room {
            return Turn::Rotate;
        }
        if self.helper.is_none() {
            let (service, growing) = (self.service.clone(), self.growing.clone());
            self.helper = Some(Helper::MakeRoom(std::thread::spawn(move || service.make_room(Some(&growing)))));
        }
        Turn::Record
    }

    fn finished(&mut self, helper: Helper) {
        let result = match helper {
            Helper::Complete(thread) => thread.join().unwrap_or_else(|_| Err(anyhow!("computing rollups panicked"))),
            Helper::MakeRoom(thread) => {
                let freed = thread.join().unwrap_or_else(|_| Err(anyhow!("making room panicked")));
                freed.map(|freed| {
                    self.has_room = true;
                    eprint!("{}", serve_text::freed(freed.of_ios, freed.of_seconds, freed.whole));
                })
            }
        };
        self.health.trouble(result.as_ref().err().map(|e| format!("{e:#}")));
        if let Err(e) = result {
            eprintln!("iolens: {}", escape::terminal(&format!("{e:#}")));
            self.next_look_ns += RETRY_NS;
        }
    }

    /// Begins the next recording, unless the end of the last is still written.
    fn rotate(&mut self, session: &mut Session) {
        for closed in session.closed() {
            if let Err(e) = closed.result {
                let why = format!("{}: {e:#}", closed.path.display());
                eprintln!("iolens: {}", escape::terminal(&why));
            }
        }
        if session.is_closing() {
            return;
        }
        match session.rotate() {
            Ok(()) => {
                self.growing = session.path().clone();
                self.from_ns = session.recording_from_ns();
                (self.day, self.has_room) = (today(), false);
            }
            Err(e) => {
                eprintln!("iolens: {}; the recording goes on", escape::terminal(&format!("{e:#}")));
                self.health.trouble(Some(format!("{e:#}")));
                self.next_look_ns += RETRY_NS;
            }
        }
    }

    /// Waits for what is being removed or computed.
    fn wait(mut self) {
        if let Some(helper) = self.helper.take() {
            self.finished(helper);
        }
    }
}

fn today() -> i64 {
    wall_clock_ns().div_euclid(DAY_NS)
}

/// Computes the rollups that killed recorders did not come to write.
fn complete_others(directory: &Path, own: &Path, access: Access) -> Result<()> {
    let Some(root) = Root::open(directory)? else { return Ok(()) };
    for stored in root.recordings().iter().filter(|r| r.path != own) {
        let cut_off = Recording::open(&stored.path).is_ok_and(|r| r.meta().end_ns.is_none());
        if cut_off && let Err(e) = complete_rollups(&stored.path, access) {
            eprintln!("iolens: {}", escape::terminal(&format!("{}: {e:#}", stored.path.display())));
        }
    }
    Ok(())
}
