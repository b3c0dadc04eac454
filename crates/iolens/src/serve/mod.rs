//! The always-on recorder: successive recordings in a root, within one disk budget.
//!
//! [`rotation`] decides when a new recording starts, [`space`] frees disk space for it, [`watcher`] finds problems in
//! it, and [`http`] answers queries about all recordings.

mod freeze;
pub mod http;
mod live;
mod lock;
mod log;
mod lost_time;
mod meter;
mod restrict;
mod rotation;
mod ship;
mod snapshots;
mod space;
mod stretch;
mod supervisor;
mod watcher;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use iolens_core::model::{Mark, WaitSums};
use iolens_core::private::Access;
use iolens_observe::topology::{Host, Topology, return_freed_memory};
use iolens_recorder::{Session, SessionOptions, view};

use crate::engine::deadline;
use crate::present::serve_text;
use crate::signals::Signals;
pub use freeze::FreezeOptions;
use freeze::Freezer;
use http::{BoundListener, Health, Recorder, Server, new_token};
use live::Live;
use lock::LockedRoot;
pub use lock::{read_address, read_token};
use log::EventLog;
pub use log::LogFormat;
use lost_time::LostTime;
use meter::Meter;
use rotation::{Rotation, Turn, report_closed};
pub use ship::ShipTarget;
use ship::{Shipper, Shipping};
use snapshots::{Keeper, Snapshots};
use space::Space;
use supervisor::Supervisor;
use watcher::{Commands, Outlets, Watcher};

/// The configuration of `serve`.
#[derive(Debug, Clone)]
pub struct Service {
    /// The recording root.
    pub root: PathBuf,
    /// Hard limit of the size of all recordings in bytes.
    pub keep_bytes: u64,
    /// Who may read the recordings.
    pub access: Access,
    /// Recorder options; directory and size are set here.
    pub session: SessionOptions,
    /// Options of the HTTP server.
    pub http: http::Options,
    /// Shell command that gets each finding on standard input.
    pub on_finding: Option<String>,
    /// Shell command that gets each story on standard input.
    pub on_story: Option<String>,
    /// Ids of stories that are not reported.
    pub muted: BTreeSet<String>,
    /// Format of findings on standard error.
    pub log: LogFormat,
    /// Which findings are preserved with the minutes around them.
    pub freeze: FreezeOptions,
    /// Where closed files are copied to.
    pub ship: Option<ShipTarget>,
}

/// Poll interval for signals when nothing is recorded.
const SIGNAL_POLL: Duration = Duration::from_millis(200);
/// After this time, commands that run at the end are killed, and soon after everything but finishing the recording is
/// abandoned. After a kill, the next start continues just as well.
const STOP_TIME: Duration = Duration::from_millis(1500);
const STOP_GRACE: Duration = Duration::from_millis(500);
/// Capacity of the queue of marks for the recorder.
const MAX_MARKS: usize = 16;

impl Service {
    /// The command that prints the login link of this service.
    fn link_command(&self) -> String {
        serve_text::link_command(&self.root, self.http.token_file.as_deref())
    }

    /// Records until a signal asks to end.
    ///
    /// # Errors
    /// The root or the source is not available, or the writer failed.
    pub fn run(self, topology: Topology, signals: &Signals) -> Result<()> {
        let mut running = self.open(topology)?;
        running.record(signals)?;
        running.stop()
    }

    /// Opens what needs privileges, gives up all other privileges, and starts.
    fn open(&self, topology: Topology) -> Result<Running> {
        return_freed_memory();
        let locked = LockedRoot::open(&self.root, self.access)?;
        let host = Host::read("/".as_ref())
            .name
            .unwrap_or_else(|| "localhost".to_owned());
        let directory = locked.host(&host)?;
        let health = Arc::new(Health::default());
        let token = match self.http.token()? {
            Some(token) => token,
            None => locked.token()?,
        };
        let how_to_see_names = serve_text::how_to_see_names(&self.link_command());
        let listener = BoundListener::open(&self.http, token, how_to_see_names)?;
        if let Some(place) = listener.place() {
            locked.note_address(&place);
        }
        let link = listener.link();
        let shipper = self.ship(&health)?;
        self.space()
            .make_room(None)
            .context("no room can be made in the recording root")?;
        let (mut session, missing) = self.start_session(&directory, topology)?;
        // Its threads start without the privileges that were given up.
        let (companions, recorder) = self.start_companions(&mut session, &directory, &health)?;
        let server = Server::start(listener, &self.root, Arc::clone(&health), Some(recorder))?;
        self.announce(&session, &missing, &server, link.as_deref());
        health.recording(&session.source().to_string());
        let rotation = Rotation::new(
            self.space(),
            session.path().clone(),
            &directory,
            Arc::clone(&health),
        );
        Ok(Running {
            supervisor: Supervisor::ready(),
            rotation,
            server,
            companions,
            session,
            shipper,
            health,
            host,
            locked,
        })
    }

    /// Starts recording into `directory`, and drops privileges as soon as the probes are attached. Also returns which
    /// restrictions could not be applied.
    fn start_session(
        &self,
        directory: &Path,
        topology: Topology,
    ) -> Result<(Session, Vec<String>)> {
        let options = SessionOptions {
            output: directory.to_owned(),
            always_on: true,
            keep_bytes: Some(self.space().part()),
            access: self.access,
            ..self.session.clone()
        };
        let mut missing = Vec::new();
        let session = Session::start_then(options, topology, || {
            missing = restrict::restrict(&self.root, self.access)?;
            Ok(())
        })?;
        Ok((session, missing))
    }

    /// Prints what is recorded, what is `missing`, the address, and how to log in, on standard error.
    fn announce(&self, session: &Session, missing: &[String], server: &Server, link: Option<&str>) {
        eprint!(
            "{}{}",
            serve_text::started(
                &session.source(),
                &[session.limits(), missing].concat(),
                &self.root,
                self.keep_bytes
            ),
            serve_text::listening(&server.places)
        );
        if let Some(target) = &self.ship {
            eprint!("{}", serve_text::ships_to(&target.to_string()));
        }
        if let Some(link) = link.filter(|_| !self.http.public_names) {
            // A log file may be readable by other users, so the link is printed on terminals only.
            let link = std::io::stderr().is_terminal().then_some(link);
            eprint!("{}", serve_text::log_in(link, &self.link_command()));
        }
    }

    /// Starts shipping if it is enabled. This happens before space is freed, because files removed then may not have
    /// been shipped, and before this thread gives up write access that the shipping thread needs.
    fn ship(&self, health: &Health) -> Result<Option<Shipper>> {
        let Some(target) = &self.ship else {
            return Ok(None);
        };
        let shipping = Shipping::open(target, &self.root, self.access)?;
        health.ships(shipping.status());
        shipping.start().map(Some)
    }

    /// Starts the threads that process the recording while it grows, and gives the server its connections to them.
    fn start_companions(
        &self,
        session: &mut Session,
        directory: &Path,
        health: &Arc<Health>,
    ) -> Result<(Companions, Recorder)> {
        let (viewer, view) = view();
        let (sender, marks) = sync_channel(MAX_MARKS);
        let live = Live::new(session.start_unix_ns());
        let rows = live.events();
        let (wait_rows, waits) = channel();
        let lost_time = Arc::new(LostTime::new(session.start_unix_ns()));
        let (meter, meter_thread) = Meter::start(view, live, wait_rows, Arc::clone(&lost_time))?;
        session.show_to(viewer);
        let freezer = Freezer::start(self.freeze.clone(), &self.root, directory, self.access)?;
        let freeze = freezer.as_ref().map(Freezer::feed);
        let outlets = Outlets {
            log: EventLog::new(self.log),
            commands: commands("--on-finding", &self.on_finding)?,
            story_commands: commands("--on-story", &self.on_story)?,
            muted: self.muted.clone(),
            live: rows.clone(),
            access: self.access,
            freeze,
            health: Arc::clone(health),
        };
        let watcher = Watcher::start(directory.to_owned(), lost_time, outlets)?;
        let found = Arc::clone(watcher.found());
        let keeper = Keeper::new(&self.root, directory, self.keep_bytes, self.access);
        let snapshots = Arc::new(Snapshots::start(keeper)?);
        let recorder = Recorder {
            meter,
            marks: sender,
            live: rows,
            found,
            snapshots,
        };
        Ok((
            Companions {
                marks,
                waits,
                meter_thread,
                watcher,
                freezer,
            },
            recorder,
        ))
    }

    /// Shows the recordings of the root until a signal asks to end. Records nothing and needs no privileges.
    ///
    /// # Errors
    /// There is nothing to show, or the address is not available.
    pub fn show(self, signals: &Signals) -> Result<()> {
        if !self.root.is_dir() {
            bail!(
                "{}: there is nothing to show; give a recording or a recording root",
                self.root.display()
            );
        }
        return_freed_memory();
        let token = match self.http.token()? {
            Some(token) => token,
            None => new_token()?,
        };
        let how_to_see_names = serve_text::HOW_TO_SEE_SHOWN.to_owned();
        let listener = BoundListener::open(&self.http, token, how_to_see_names)?;
        let link = listener.link();
        let server = Server::start(listener, &self.root, Arc::default(), None)?;
        eprint!("{}", serve_text::listening(&server.places));
        if let Some(link) = link.filter(|_| !self.http.public_names) {
            eprint!("{}", serve_text::log_in(Some(&link), ""));
        }
        while signals.caught() == 0 {
            std::thread::sleep(SIGNAL_POLL);
        }
        Ok(())
    }

    /// The disk budget.
    fn space(&self) -> Space {
        Space {
            root: self.root.clone(),
            keep_bytes: self.keep_bytes,
            access: self.access,
        }
    }
}

/// Starts the thread that runs the command of `flag`, if there is one.
fn commands(flag: &'static str, command: &Option<String>) -> Result<Option<Commands>> {
    match command {
        Some(command) => Ok(Some(Commands::start(flag, command.clone())?)),
        None => Ok(None),
    }
}

/// Runs `work` on a thread that is abandoned after `deadline`. Returns whether it finished in time.
fn ends_by(deadline: Instant, work: impl FnOnce() + Send + 'static) -> Result<bool> {
    let (done, ended) = sync_channel(1);
    std::thread::Builder::new()
        .name("iolens-end".to_owned())
        .spawn(move || {
            work();
            // The receiver may have given up.
            let _ = done.send(());
        })
        .context("the thread that ends the others could not be started")?;
    let left = deadline.saturating_duration_since(Instant::now());
    // Without an answer the thread panicked, which was reported, or the deadline has passed.
    Ok(ended.recv_timeout(left) != Err(RecvTimeoutError::Timeout))
}

/// The recorder loop's connections to the threads that process the recording.
struct Companions {
    marks: Receiver<String>,
    /// Rows of waits to store in the recording.
    waits: Receiver<Vec<WaitSums>>,
    /// Ends when the session does.
    meter_thread: JoinHandle<()>,
    watcher: Watcher,
    freezer: Option<Freezer>,
}

/// A running service. If it fails, its parts are dropped in this order; the root is unlocked last.
struct Running {
    supervisor: Supervisor,
    rotation: Rotation,
    server: Server,
    companions: Companions,
    session: Session,
    shipper: Option<Shipper>,
    health: Arc<Health>,
    /// Host name of the recordings.
    host: String,
    locked: LockedRoot,
}

impl Running {
    /// Records, one recording after another, until a signal asks to end.
    fn record(&mut self, signals: &Signals) -> Result<()> {
        let Running {
            supervisor,
            rotation,
            companions,
            session,
            health,
            host,
            locked,
            ..
        } = self;
        let mut waits = Vec::new();
        loop {
            let mut turn = Turn::Record;
            let mut remark = None;
            let mut at_ns = 0;
            session.run(|progress| {
                at_ns = progress.at_ns;
                let has_place = rotation.has_place();
                supervisor.alive(at_ns, || {
                    health.root_is_there(locked.is_there()) && has_place
                });
                companions
                    .watcher
                    .found()
                    .ios
                    .store(progress.ios, Ordering::Relaxed);
                turn = rotation.look(progress);
                remark = companions.marks.try_recv().ok();
                waits.extend(companions.waits.try_iter().flatten());
                signals.caught() > 0
                    || turn == Turn::Rotate
                    || remark.is_some()
                    || !waits.is_empty()
            })?;
            session.store_waits(std::mem::take(&mut waits));
            if let Some(text) = &remark {
                session.mark(Mark::REMARK, text);
            }
            if signals.caught() > 0 {
                return Ok(());
            }
            if turn == Turn::Rotate {
                rotation.rotate(session, at_ns, || locked.host(host));
            }
        }
    }

    /// Finishes the recording, and gives everything else a short time to end.
    fn stop(self) -> Result<()> {
        self.supervisor.stopping();
        let Running {
            rotation,
            server,
            companions,
            mut session,
            shipper,
            ..
        } = self;
        let Companions {
            watcher,
            freezer,
            waits: last_waits,
            meter_thread,
            ..
        } = companions;
        let stop = Instant::now() + STOP_TIME;
        deadline::end_all();
        let watcher = watcher.end(stop);
        session.stop_showing();
        // The meter's last rows must be stored before the recording ends. A thread that panicked has none.
        drop(meter_thread.join());
        session.store_waits(last_waits.try_iter().flatten().collect());
        let outcome = session.finish()?;
        drop(server);
        report_closed(&outcome.closed);
        eprint!("{}", serve_text::ended(&outcome.progress, &outcome.path));
        let all_ended = ends_by(stop + STOP_GRACE, move || {
            // The ends of findings also end the copies that are growing.
            watcher.wait();
            if let Some(freezer) = freezer {
                freezer.finish();
            }
            rotation.wait();
        })?;
        if !all_ended {
            eprintln!(
                "iolens: ended before copies and sums were whole; the next start goes on with them"
            );
        }
        if let Some(shipper) = shipper {
            shipper.end(stop + STOP_GRACE);
        }
        Ok(())
    }
}
