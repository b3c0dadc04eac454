//! The HTTP server: reads the store, never the probes, on threads of its own that give way to the recorder.
//!
//! Every request passes [`guard::admit`]; what reads the store runs in [`App::read`], a few at a time and for a limited time.

mod answer;
mod api;
mod connections;
mod endpoint;
mod guard;
mod health;
mod listen;
mod login;
mod metrics;
mod paced;
mod page;
mod places;
mod problem;
mod routes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use iolens_core::private::read_trusted;
use iolens_observe::topology::{Host, lower_this_thread, make_this_thread_ordinary};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::live::LiveEvents;
use super::meter::Meter;
use super::restrict::restrict_to_reading;
use super::snapshots::Snapshots;
use super::watcher::Found;
use crate::engine::fleet::Remembered;
pub use crate::present::SCHEMA_VERSION;
use answer::{MAX_UNREAD_BYTES, MAX_UNREAD_METRICS_BYTES, Unread};
use guard::Rules;
pub use health::Health;
pub use listen::Listen;
use listen::{Bound, SocketFile};
pub use login::{link, new_token};
use page::FleetCheck;
use places::{Places, RequestKind};
use problem::Problem;

/// How long a request may take.
/// Tests wait for what a busy machine takes; those of the limit itself set their own.
const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 600 } else { 10 });
/// How long a copy may take: what is kept is read and written.
const COPY_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Requests that read the store at once; the others wait for them. Each has threads of its own for decoding.
const MAX_READERS: usize = 2;
/// Threads that wait for connections and write answers.
const THREADS: usize = 2;
/// The owner, and the group that the directory's administrator gives it.
const SOCKET_MODE: u32 = 0o660;
/// A token that is shorter can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// How the server was asked to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where.
    pub listen: Listen,
    /// A socket beside it, if it can be had.
    pub socket: Option<PathBuf>,
    /// Whose group may use the socket.
    pub group: Option<u32>,
    /// Names of files and processes are shown to all who reach it.
    pub public_names: bool,
    /// Other machines may read without a token.
    pub public: bool,
    /// Holds the secret of those who may change something.
    pub token_file: Option<PathBuf>,
    /// Names, beside the usual ones, by which it may be called.
    pub allow_hosts: Vec<String>,
    /// `/metrics` has what node_exporter says of disks, too.
    pub compat_node: bool,
}

impl Options {
    /// What follows for requests.
    ///
    /// # Errors
    /// Others could read what only this machine should.
    fn rules(&self, token: Vec<u8>) -> Result<Rules> {
        let local = self.listen.is_local();
        if !local && self.token_file.is_none() && !self.public {
            bail!(
                "--listen {}: other machines could read what runs here and the names of its files; give --token-file FILE, or --public to allow it",
                self.listen
            );
        }
        let mut names = vec!["localhost".to_owned()];
        if !local {
            names.extend(Host::read("/".as_ref()).name);
        }
        names.extend(self.allow_hosts.iter().cloned());
        Ok(Rules {
            hosts: matches!(self.listen, Listen::Tcp(_)).then_some(names),
            loopback: local,
            token: Some(token),
            token_to_read: !local && !self.public,
            how_to_see_names: None,
            cookie: String::new(),
        })
    }

    /// The secret of `--token-file`, if there is one.
    ///
    /// # Errors
    /// It is no secret.
    pub fn token(&self) -> Result<Option<Vec<u8>>> {
        self.token_file.as_deref().map(read_token).transpose()
    }
}

/// Whether it can be a secret that a header holds.
pub fn is_token(text: &[u8]) -> bool {
    text.len() >= MIN_TOKEN_BYTES && text.iter().all(u8::is_ascii_graphic)
}

/// The secret in the file of `--token-file`.
///
/// # Errors
/// It is no secret, or cannot be read.
pub fn read_token(path: &Path) -> Result<Vec<u8>> {
    let content = read_trusted(path, true)
        .map_err(|e| anyhow!("--token-file {}: cannot be read: {e}", path.display()))?;
    let token = content.trim_ascii().to_vec();
    if !is_token(&token) {
        bail!(
            "--token-file {}: at least {MIN_TOKEN_BYTES} printable characters, such as openssl rand -hex 32 prints",
            path.display()
        );
    }
    Ok(token)
}

/// What handlers know.
#[derive(Debug)]
pub struct App {
    root: PathBuf,
    health: Arc<Health>,
    /// `None`: it does not record.
    meter: Option<Arc<Meter>>,
    compat_node: bool,
    /// Remarks on their way to the recorder.
    marks: Option<SyncSender<String>>,
    /// Rows of what happens now.
    live: Option<Arc<LiveEvents>>,
    /// Findings so far.
    found: Option<Arc<Found>>,
    /// Sums of recordings that were read for pages of the fleet.
    fleet: Arc<Remembered>,
    /// Whether the root has several hosts.
    fleet_check: Arc<FleetCheck>,
    /// Keeps stretches, one at a time.
    snapshots: Option<Arc<Snapshots>>,
    snapshot_turn: Arc<Semaphore>,
    rules: Rules,
    /// Requests that are answered.
    places: Arc<Places>,
    /// Answers that are not read yet.
    unread: Unread,
    unread_metrics: Unread,
    readers: Arc<Semaphore>,
    time_limit: Duration,
}

impl App {
    fn new(root: PathBuf, health: Arc<Health>, rules: Rules) -> App {
        App {
            root,
            health,
            meter: None,
            compat_node: false,
            marks: None,
            live: None,
            found: None,
            fleet: Arc::default(),
            fleet_check: Arc::default(),
            snapshots: None,
            snapshot_turn: Arc::new(Semaphore::new(1)),
            rules,
            places: Arc::default(),
            unread: Unread::new(MAX_UNREAD_BYTES),
            unread_metrics: Unread::new(MAX_UNREAD_METRICS_BYTES),
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            time_limit: TIME_LIMIT,
        }
    }

    /// How long a request of a kind may take. A copy ends by itself, and says how.
    fn time_limit_of(&self, kind: RequestKind) -> Duration {
        match kind {
            RequestKind::Copy => COPY_TIME_LIMIT + self.time_limit,
            _ => self.time_limit,
        }
    }
}

/// Does `work`, which reads the store or takes long, on a thread that may wait, and that gives way to all others.
fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        lower_this_thread();
        work()
    })
}

fn router(app: Arc<App>) -> Router {
    routes::router()
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "nothing is here; / lists what is"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "not with this method")
        })
        .layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            guard::admit,
        ))
        .with_state(app)
}

/// A server that answers until it is dropped.
pub struct Server {
    runtime: Option<Runtime>,
    /// Where it listens.
    pub places: Vec<Listen>,
    /// Go with it, whatever its connections still do.
    _files: Vec<SocketFile>,
}

/// What a server has of the recorder in its process.
#[derive(Debug)]
pub struct Recorder {
    /// What it sees, summed up.
    pub meter: Arc<Meter>,
    /// Takes remarks.
    pub marks: SyncSender<String>,
    /// Gives rows of what happens now.
    pub live: Arc<LiveEvents>,
    /// Findings so far.
    pub found: Arc<Found>,
    /// Keeps stretches.
    pub snapshots: Arc<Snapshots>,
}

/// A place to listen and what is demanded there, before anybody is answered.
#[derive(Debug)]
pub struct BoundListener {
    rules: Rules,
    bounds: Vec<Bound>,
    files: Vec<SocketFile>,
    compat_node: bool,
}

impl BoundListener {
    /// Binds, while that is still allowed. `how_to_see_names` says it in one line.
    ///
    /// # Errors
    /// The address cannot be had, or is not safe.
    pub fn open(
        options: &Options,
        token: Vec<u8>,
        how_to_see_names: String,
    ) -> Result<BoundListener> {
        let mut rules = options.rules(token)?;
        let (bound, file) = Bound::new(&options.listen, SOCKET_MODE, options.group)?;
        // With port 0 the kernel has chosen one.
        let place = bound.place().unwrap_or_else(|| options.listen.clone());
        // Cookies of a host are sent to all its ports; each server has its own.
        if let Listen::Tcp(at) = place {
            rules.cookie = format!("iolens-{}", at.port());
        }
        if !options.public_names {
            rules.how_to_see_names = Some(how_to_see_names.into());
        }
        let mut bounds = vec![bound];
        let mut files: Vec<SocketFile> = file.into_iter().collect();
        let beside = options.socket.clone().map(Listen::Unix);
        match beside.map(|at| Bound::new(&at, SOCKET_MODE, options.group)) {
            Some(Ok((bound, file))) => {
                bounds.push(bound);
                files.extend(file);
            }
            // It is there for convenience; who asked for one gets the error.
            Some(Err(e)) => eprintln!("iolens: no socket beside the address: {e:#}"),
            None => {}
        }
        Ok(BoundListener {
            rules,
            bounds,
            files,
            compat_node: options.compat_node,
        })
    }

    /// Where it listens first: the place that was asked for.
    pub fn place(&self) -> Option<Listen> {
        self.bounds.first()?.place()
    }

    /// The link that logs a browser in, where one can come from.
    pub fn link(&self) -> Option<String> {
        let token = self.rules.token.as_ref()?;
        match self.place()? {
            Listen::Tcp(at) => Some(login::link(at, token)),
            Listen::Unix(_) => None,
        }
    }
}

impl Server {
    /// Begins to answer.
    ///
    /// # Errors
    /// There can be no threads.
    pub fn start(
        listener: BoundListener,
        root: &Path,
        health: Arc<Health>,
        recorder: Option<Recorder>,
    ) -> Result<Server> {
        let BoundListener {
            rules,
            bounds,
            files,
            compat_node,
        } = listener;
        let places = bounds.iter().filter_map(Bound::place).collect();
        let mut app = App {
            compat_node,
            ..App::new(root.to_owned(), health, rules)
        };
        if let Some(Recorder {
            meter,
            marks,
            live,
            found,
            snapshots,
        }) = recorder
        {
            app.snapshots = Some(snapshots);
            app.meter = Some(meter);
            app.marks = Some(marks);
            app.live = Some(live);
            app.found = Some(found);
        }
        let app = Arc::new(app);
        let reads_all = app.meter.is_none();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            // Those that read, a copy that is made, a list of the hosts, and metrics that are written beside them.
            .max_blocking_threads(MAX_READERS * 2 + 4)
            .thread_name("iolens-http")
            .on_thread_start(move || begin_thread(reads_all))
            .enable_all()
            .build()
            .context("the server's threads could not be started")?;
        for bound in bounds {
            let router = router(Arc::clone(&app));
            runtime.spawn(async move {
                if let Err(e) = connections::accept(bound, router).await {
                    eprintln!("iolens: the HTTP server ended: {e}");
                }
            });
        }
        Ok(Server {
            runtime: Some(runtime),
            places,
            _files: files,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The recording's end does not wait for a client's question.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What each thread of the runtime does first; see [`restrict_to_reading`].
fn begin_thread(reads_all: bool) {
    // Those that read the store are lowered by `run_blocking`. What needs no store is answered soon on a busy machine, too.
    make_this_thread_ordinary();
    // The thread that started it has given up most already, so the kernel has what this needs.
    if let Err(e) = restrict_to_reading(reads_all) {
        eprintln!("iolens: a thread of the HTTP server keeps its privileges: {e:#}");
    }
}

#[cfg(test)]
mod tests;
