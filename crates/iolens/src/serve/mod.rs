//! The always-on recorder: one recording after the other in a root, within one budget.
//!
//! A recording takes at most an eighth of the budget, and what is closed leaves two eighths free: for the one that grows and
//! for the one before it, whose end is still written. So the limit holds at every instant, whatever is removed when.

pub mod http;
mod live;
mod lock;
mod meter;
mod restrict;
mod rotation;
mod supervisor;
mod watcher;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use iolens_core::private::Access;
use iolens_core::store::{Budget, Freed};
use iolens_observe::topology::{Host, Topology, return_freed_memory, wall_clock_ns};
use iolens_recorder::{Session, SessionOptions, view};

use crate::present::serve_text;
use crate::signals::Signals;
use http::{Door, Health, Recorder, Server};
use live::Live;
use lock::LockedRoot;
use meter::Meter;
use rotation::{Rotation, Turn};
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
/// Without a recorder nothing else asks for signals.
const SIGNAL_POLL: Duration = Duration::from_millis(200);
/// Remarks that may wait for the recorder.
const MAX_MARKS: usize = 16;

impl Service {
    /// Records until a signal asks to end.
    ///
    /// # Errors
    /// There is no place to record into, no source, or the writer failed.
    pub fn run(self, topology: Topology, signals: &Signals) -> Result<()> {
        return_freed_memory();
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
        let mut rotation = Rotation::new(self.clone(), session.path().clone(), &directory, Arc::clone(&health));
        let mut supervisor = Supervisor::ready();
        loop {
            let (mut turn, mut remark, mut at_ns) = (Turn::Record, None, 0);
            session.run(|progress| {
                at_ns = progress.at_ns;
                supervisor.alive(at_ns, || health.root_is_there(locked.is_there()));
                beside.watcher.found().ios.store(progress.ios, Ordering::Relaxed);
                turn = rotation.look(progress);
                remark = beside.marks.try_recv().ok();
                signals.caught() > 0 || turn == Turn::Rotate || remark.is_some()
            })?;
            if let Some(text) = &remark {
                session.mark("remark", text);
            }
            if signals.caught() > 0 {
                break;
            }
            if turn == Turn::Rotate {
                rotation.rotate(&mut session, at_ns);
            }
        }
        supervisor.stopping();
        drop(beside);
        let outcome = session.finish()?;
        drop(server);
        eprint!("{}", serve_text::ended(&outcome.progress, &outcome.path));
        rotation.wait();
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
        return_freed_memory();
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
