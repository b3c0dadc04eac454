//! Accepts connections up to a limit. At the limit, idle connections are closed first.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tower::ServiceExt as _;

use super::answer::holding;
use super::guard::Peer;
use super::listen::Bound;
use super::paced::{Paced, WRITE_TIMEOUT};
use super::places::{Busy, Client, Traffic};

/// Far below the usual limit of 1024 open files, because the recorder needs some of them.
const MAX_CONNECTIONS: usize = 256;
/// A connection that has not sent a complete header within this time is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the request line and all headers.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Delay before accepting again after an error.
const RETRY: Duration = Duration::from_millis(100);

/// Size of the kernel's buffer for unread response bytes; the kernel doubles it for its own overhead. Without this
/// setting it grows to 4 MiB, which counts as memory of the service.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Accepts connections until the runtime ends.
pub async fn accept(bound: Bound, router: Router) -> std::io::Result<()> {
    match bound {
        Bound::Tcp(listener) => {
            let listener = TcpListener::from_std(listener)?;
            let mut open = Open::default();
            loop {
                match listener.accept().await {
                    Ok((stream, from)) => {
                        let client = Client::Address(from.ip().to_canonical());
                        open.serve(stream, Peer::default(), client, router.clone());
                    }
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
                        let client = uid.map_or(Client::Unknown, Client::User);
                        let peer = Peer {
                            is_socket: true,
                            uid,
                        };
                        open.serve(stream, peer, client, router.clone());
                    }
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
            }
        }
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Open(VecDeque<Arc<Traffic>>);

impl Open {
    fn serve(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
        peer: Peer,
        client: Client,
        router: Router,
    ) {
        self.make_room();
        // If the kernel does not allow it, its own limits apply.
        let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
        let traffic = Traffic::new(client);
        let stream = Paced::new(stream, Arc::clone(&traffic), WRITE_TIMEOUT);
        let task = tokio::spawn(answer(stream, peer, router, Arc::clone(&traffic)));
        traffic.served_by(task.abort_handle());
        self.0.push_back(traffic);
    }

    /// Closes the oldest connection without a request. If all have requests, closes the one that does not read, else
    /// the oldest. An unbounded response, such as an event stream, is a request too.
    fn make_room(&mut self) {
        self.0.retain(|traffic| !traffic.is_closed());
        if self.0.len() < MAX_CONNECTIONS {
            return;
        }
        let idle = self.0.iter().position(|traffic| traffic.is_idle());
        let gone = idle.or_else(|| {
            // Of equal candidates the last one wins, and this must be the oldest, so the newest come first.
            let newest_first = (0..self.0.len()).rev();
            newest_first.max_by_key(|i| self.0[*i].stalled_for())
        });
        if let Some(traffic) = gone.and_then(|i| self.0.remove(i)) {
            traffic.close();
        }
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    traffic: Arc<Traffic>,
) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let router = router.clone();
        let traffic = Arc::clone(&traffic);
        async move {
            let busy = Busy::new(&traffic);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(traffic);
            let response: Result<_, Infallible> = router.oneshot(request).await;
            response.map(|response| holding(response, busy))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // Errors of a client's connection are not reported.
    drop(connection.await);
}
