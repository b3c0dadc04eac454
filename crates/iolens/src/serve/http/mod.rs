//! The HTTP server. It reads the store, never the probes, on threads of lower priority than the recorder.
//!
//! Every request passes [`guard::admit`]. Requests that read the store run in [`App::read`], a few at a time and with
//! a timeout.

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

/// Timeout of a request. In tests it is long, because machines are busy; tests of the timeout itself set their own.
const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 600 } else { 10 });
/// Timeout of a copy, which reads and writes all that is kept.
const COPY_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Number of concurrent requests that read the store; others wait. Each has threads of its own for decoding.
const MAX_READERS: usize = 2;
/// Threads that wait for connections and write responses.
const THREADS: usize = 2;
/// For the owner, and for the group that the administrator gives the directory.
const SOCKET_MODE: u32 = 0o660;
/// A shorter token can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// Options of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address.
    pub listen: Listen,
    /// A Unix socket in addition to the address, if it can be created.
    pub socket: Option<PathBuf>,
    /// Group id that may use the socket.
    pub group: Option<u32>,
    /// Whether names of files and processes are shown to every client.
    pub public_names: bool,
    /// Whether other machines may read without a token.
    pub public: bool,
    /// File with the secret for requests that change something.
    pub token_file: Option<PathBuf>,
    /// Additional host names under which the server may be addressed.
    pub allow_hosts: Vec<String>,
    /// Whether `/metrics` includes node_exporter's disk metrics.
    pub compat_node: bool,
}

impl Options {
    /// The access rules that follow from the options.
    ///
    /// # Errors
    /// The options would let other machines read what only this machine may.
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

    /// The secret of `--token-file`, if given.
    ///
    /// # Errors
    /// The content is not usable as a secret.
    pub fn token(&self) -> Result<Option<Vec<u8>>> {
        self.token_file.as_deref().map(read_token).transpose()
    }
}

/// Whether the text can be a secret that a header carries.
pub fn is_token(text: &[u8]) -> bool {
    text.len() >= MIN_TOKEN_BYTES && text.iter().all(u8::is_ascii_graphic)
}

/// Reads the secret from the file of `--token-file`.
///
/// # Errors
/// The content is not usable as a secret, or the file cannot be read.
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

/// State shared by the handlers.
#[derive(Debug)]
pub struct App {
    root: PathBuf,
    health: Arc<Health>,
    /// `None`: this server does not record.
    meter: Option<Arc<Meter>>,
    compat_node: bool,
    /// Sends marks to the recorder.
    marks: Option<SyncSender<String>>,
    /// Current activity.
    live: Option<Arc<LiveEvents>>,
    /// Counts of findings.
    found: Option<Arc<Found>>,
    /// Cached sums of recordings, for the pages of the fleet.
    fleet: Arc<Remembered>,
    /// Caches whether the root has several hosts.
    fleet_check: Arc<FleetCheck>,
    /// Copies stretches, one at a time.
    snapshots: Option<Arc<Snapshots>>,
    snapshot_turn: Arc<Semaphore>,
    rules: Rules,
    /// Requests in progress.
    places: Arc<Places>,
    /// Responses that clients have not read.
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

    /// Timeout of a request of this kind. A copy has its own timeout and reports it.
    fn time_limit_of(&self, kind: RequestKind) -> Duration {
        match kind {
            RequestKind::Copy => COPY_TIME_LIMIT + self.time_limit,
            _ => self.time_limit,
        }
    }
}

/// Runs `work`, which reads the store or takes long, on a blocking thread with lowered priority.
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

/// A server that runs until it is dropped.
pub struct Server {
    runtime: Option<Runtime>,
    /// Its addresses.
    pub places: Vec<Listen>,
    /// Removed with the server, even if connections are still open.
    _files: Vec<SocketFile>,
}

/// The server's connections to the recorder in the same process.
#[derive(Debug)]
pub struct Recorder {
    /// Sums of all recorded I/O.
    pub meter: Arc<Meter>,
    /// Sends marks.
    pub marks: SyncSender<String>,
    /// Current activity.
    pub live: Arc<LiveEvents>,
    /// Counts of findings.
    pub found: Arc<Found>,
    /// Copies stretches.
    pub snapshots: Arc<Snapshots>,
}

/// A bound address with its access rules, before any request is served.
#[derive(Debug)]
pub struct BoundListener {
    rules: Rules,
    bounds: Vec<Bound>,
    files: Vec<SocketFile>,
    compat_node: bool,
}

impl BoundListener {
    /// Binds, while the privileges for it are still there. `how_to_see_names` is a one-line text.
    ///
    /// # Errors
    /// The address is not available, or serving on it would not be safe.
    pub fn open(
        options: &Options,
        token: Vec<u8>,
        how_to_see_names: String,
    ) -> Result<BoundListener> {
        let mut rules = options.rules(token)?;
        let (bound, file) = Bound::new(&options.listen, SOCKET_MODE, options.group)?;
        // With port 0 the kernel chose the port.
        let place = bound.place().unwrap_or_else(|| options.listen.clone());
        // Browsers send a host's cookies to all its ports, so each server uses its own name.
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
            // The extra socket is a convenience, so a failure is only reported. A socket given by `--listen` must bind.
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

    /// The address that was asked for.
    pub fn place(&self) -> Option<Listen> {
        self.bounds.first()?.place()
    }

    /// The login link, if browsers can reach the address.
    pub fn link(&self) -> Option<String> {
        let token = self.rules.token.as_ref()?;
        match self.place()? {
            Listen::Tcp(at) => Some(login::link(at, token)),
            Listen::Unix(_) => None,
        }
    }
}

impl Server {
    /// Starts serving.
    ///
    /// # Errors
    /// Threads cannot be started.
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
            // Blocking threads: readers, a copy in progress, a list of the hosts, and metrics written at the same
            // time.
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
        // The end of the recording does not wait for requests.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs first on each thread of the runtime; see [`restrict_to_reading`].
fn begin_thread(reads_all: bool) {
    // Reader threads are lowered by `run_blocking`. Responses that need no store must be fast on a busy machine, too.
    make_this_thread_ordinary();
    // The starting thread has already restricted itself, so the kernel supports what is needed here.
    if let Err(e) = restrict_to_reading(reads_all) {
        eprintln!("iolens: a thread of the HTTP server keeps its privileges: {e:#}");
    }
}

#[cfg(test)]
mod tests;
