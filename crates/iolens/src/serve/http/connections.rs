//! Connections: as many as there is room for, and those that say nothing make room first.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::AbortHandle;
use tower::ServiceExt as _;

use super::guard::Peer;
use super::listen::Bound;

/// Far below the usual limit of 1024 files: the recording opens some, too.
const MAX_CONNECTIONS: usize = 256;
/// Who has not asked by then does not want to.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Of the request line and all headers.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// When no connection can be accepted, it is tried again after this.
const RETRY: Duration = Duration::from_millis(100);

/// A connection and how many requests of it are being answered.
struct Connection {
    task: AbortHandle,
    busy: Arc<AtomicUsize>,
}

/// Accepts until the runtime ends.
pub async fn accept(bound: Bound, router: Router) -> std::io::Result<()> {
    match bound {
        Bound::Tcp(listener) => {
            let listener = TcpListener::from_std(listener)?;
            let mut open = Open::default();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => open.serve(stream, Peer { uid: None }, router.clone()),
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
            }
        }
        Bound::Unix(listener) => {
            let listener = UnixListener::from_std(listener)?;
            let mut open = Open::default();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let uid = stream.peer_cred().ok().map(|c| c.uid());
                        open.serve(stream, Peer { uid }, router.clone());
                    }
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
            }
        }
    }
}

#[derive(Default)]
struct Open(VecDeque<Connection>);

impl Open {
    fn serve(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        router: Router,
    ) {
        self.make_room();
        let busy = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(answer(stream, peer, router, Arc::clone(&busy))).abort_handle();
        self.0.push_back(Connection { task, busy });
    }

    /// The oldest that asks nothing goes; if all ask, the oldest.
    fn make_room(&mut self) {
        self.0.retain(|c| !c.task.is_finished());
        if self.0.len() >= MAX_CONNECTIONS {
            let idle = self
                .0
                .iter()
                .position(|c| c.busy.load(Ordering::Relaxed) == 0)
                .unwrap_or(0);
            if let Some(connection) = self.0.remove(idle) {
                connection.task.abort();
            }
        }
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    busy: Arc<AtomicUsize>,
) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (router, busy) = (router.clone(), Arc::clone(&busy));
        async move {
            busy.fetch_add(1, Ordering::Relaxed);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            let response: Result<_, Infallible> = router.oneshot(request).await;
            busy.fetch_sub(1, Ordering::Relaxed);
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // What a client does wrong, or that it goes, is its own affair.
    drop(connection.await);
}
