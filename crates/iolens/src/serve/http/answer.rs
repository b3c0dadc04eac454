//! Responses with backpressure: they are streamed while being computed, and the bytes that clients have not read are
//! limited.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Result;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::stream::unfold;
use hyper::body::{Body as _, Frame, SizeHint};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::App;
use super::api::Asker;
use super::places::Places;
use super::problem::Problem;
use crate::present::escape;
use crate::present::query_text::{self, Spelling};

/// Maximum size of unread responses in memory, over all connections.
pub const MAX_UNREAD_BYTES: usize = 32 << 20;
/// The same for `/metrics`, which must be answered even if other clients do not read.
pub const MAX_UNREAD_METRICS_BYTES: usize = 8 << 20;
/// Size of the chunks in which a response is passed on.
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum time that a response waits for others to be read. While it waits, it occupies one of the few reader
/// places.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Header that says how to see the names that a response leaves out.
const NOTE_HEADER: HeaderName = HeaderName::from_static("iolens-note");

/// Limits the bytes that are waiting to be read by clients.
#[derive(Debug, Clone)]
pub struct Unread {
    /// One permit per byte.
    free: Arc<Semaphore>,
    limit_bytes: usize,
}

impl Unread {
    /// Allows at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Unread {
        Unread {
            free: Arc::new(Semaphore::new(limit_bytes)),
            limit_bytes,
        }
    }

    /// Number of bytes waiting.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.limit_bytes - self.free.available_permits()
    }

    /// Waits for `bytes` to be free. A response larger than the limit waits until it is the only one.
    ///
    /// # Errors
    /// Clients have not read enough of other responses within the maximum time.
    async fn room(&self, bytes: usize, places: &Places) -> Result<OwnedSemaphorePermit, Problem> {
        let permits = u32::try_from(bytes.min(self.limit_bytes)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&self.free).try_acquire_many_owned(permits) {
            return Ok(room);
        }
        // Clients are slow or do not read at all: disconnect the one that has been stalled longest.
        places.close_most_stalled();
        let room = Arc::clone(&self.free).acquire_many_owned(permits);
        match timeout(MAX_WAIT, room).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(Problem::busy("too many answers wait to be read")),
        }
    }

    /// Counts the body of `response` until the client has read it. A streamed response counts its chunks itself.
    ///
    /// # Errors
    /// The limit is reached.
    pub async fn counted(&self, response: Response, places: &Places) -> Result<Response, Problem> {
        let Some(bytes) = response.body().size_hint().exact().filter(|n| *n > 0) else {
            return Ok(response);
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let room = self.room(bytes, places).await?;
        Ok(holding(response, room))
    }
}

/// Bytes being written, with a guard that is held until they are.
struct GuardedBytes<T> {
    bytes: Bytes,
    _guard: T,
}

impl<T> AsRef<[u8]> for GuardedBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Wraps `bytes` so that `guard` is held until they are written.
fn guarded<T: Send + Sync + 'static>(bytes: Bytes, guard: T) -> Bytes {
    Bytes::from_owner(GuardedBytes {
        bytes,
        _guard: guard,
    })
}

/// Wraps `response` so that `guard` is held until its last byte is written or the connection is closed.
pub fn holding<T: Send + Sync + 'static>(response: Response, guard: T) -> Response {
    let guard = Arc::new(guard);
    response.map(|body| Body::new(HoldingBody { body, guard }))
}

/// A body whose bytes hold the guard too: the body itself is dropped when its last frame is taken, before that frame
/// is written.
struct HoldingBody<T> {
    body: Body,
    guard: Arc<T>,
}

impl<T: Send + Sync + 'static> hyper::body::Body for HoldingBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_ok(|frame| frame.map_data(|bytes| guarded(bytes, Arc::clone(&self.guard))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Writes a response while it is being computed. Used on threads that may block.
#[derive(Debug)]
pub struct AnswerWriter {
    unread: Unread,
    places: Arc<Places>,
    chunk: Vec<u8>,
    chunks: UnboundedSender<io::Result<Bytes>>,
    runtime: Handle,
    is_sent: bool,
}

impl AnswerWriter {
    fn send(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(&mut self.chunk));
        let room = self.unread.room(bytes.len(), &self.places);
        let room = self.runtime.block_on(room);
        let room = room.map_err(|problem| io::Error::other(problem.detail().to_owned()))?;
        self.is_sent = true;
        let sent = self.chunks.send(Ok(guarded(bytes, room)));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone"))
    }

    /// Writes one JSON document.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn json(&mut self, document: &impl Serialize) -> Result<()> {
        document.serialize(&mut Serializer::with_formatter(self, HarmlessJson))?;
        Ok(())
    }
}

impl Write for AnswerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    /// The last, incomplete chunk is sent at the end of the response.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes JSON whose strings contain nothing that can mislead a terminal, as [`escape::json`] does.
struct HarmlessJson;

impl Formatter for HarmlessJson {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        out.write_all(escape::json(text).as_bytes())
    }
}

impl App {
    /// Streams a response that `work` writes while it reads the store. `work` runs on a blocking thread, with a limit
    /// on the number of such threads and on the time of the request.
    ///
    /// # Errors
    /// An error of `work` before its first chunk, or a timeout. A later error truncates the response.
    pub async fn stream(
        self: &Arc<App>,
        content_type: &'static str,
        work: impl FnOnce(&mut AnswerWriter, &Asker) -> Result<()> + Send + 'static,
    ) -> Result<Response, Problem> {
        let asker = self.asker();
        let turn = Arc::clone(&self.readers).acquire_owned().await;
        let turn = turn.map_err(|_| Problem::busy("the server ends"))?;
        // CSV and Arrow tables cannot carry notes, so a header does.
        let names_left_out = asker.caller.names_left_out();
        let note = names_left_out.and_then(|how| HeaderValue::from_str(how).ok());
        let response = written(content_type, &self.unread, &self.places, move |out| {
            // Held until the work ends, even if the client has disconnected.
            let _turn = turn;
            work(out, &asker)
        });
        let mut response = response.await?;
        if let Some(note) = note {
            response.headers_mut().insert(NOTE_HEADER, note);
        }
        Ok(response)
    }

    /// Streams metrics that `work` writes. Other responses do not delay it, whether their clients read or not.
    ///
    /// # Errors
    /// As [`App::stream`].
    pub async fn stream_metrics(
        self: &Arc<App>,
        content_type: &'static str,
        work: impl FnOnce(&mut AnswerWriter) -> Result<()> + Send + 'static,
    ) -> Result<Response, Problem> {
        written(content_type, &self.unread_metrics, &self.places, work).await
    }
}

/// The response of `work`, once its first chunk is complete.
async fn written(
    content_type: &'static str,
    unread: &Unread,
    places: &Arc<Places>,
    work: impl FnOnce(&mut AnswerWriter) -> Result<()> + Send + 'static,
) -> Result<Response, Problem> {
    let (chunks, mut made) = unbounded_channel();
    let mut out = AnswerWriter {
        unread: unread.clone(),
        places: Arc::clone(places),
        chunk: Vec::new(),
        chunks,
        runtime: Handle::current(),
        is_sent: false,
    };
    let done = super::run_blocking(move || {
        let done = work(&mut out);
        if !out.is_sent {
            // The response is a single chunk: its length is known, and it counts like any other response.
            return done.map(|()| out.chunk);
        }
        let done = done.and_then(|()| Ok(out.send()?));
        if let Err(e) = done {
            // The status was already sent. Closing the connection shows that the response is incomplete.
            let why = query_text::failure(&e, Spelling::Parameters);
            drop(out.chunks.send(Err(io::Error::other(why))));
        }
        Ok(Vec::new())
    });
    if let Some(first) = made.recv().await {
        return Ok(with_type(content_type, chunked(first, made)));
    }
    match done.await {
        Ok(Ok(all)) => Ok(with_type(content_type, all.into())),
        Ok(Err(e)) => Err(Problem::of(&e)),
        Err(_) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the answer could not be made",
        )),
    }
}

fn chunked(first: io::Result<Bytes>, made: UnboundedReceiver<io::Result<Bytes>>) -> Body {
    let chunks = unfold((Some(first), made), |(first, mut made)| async move {
        let next = match first {
            Some(first) => first,
            None => made.recv().await?,
        };
        Some((next, (None, made)))
    });
    Body::from_stream(chunks)
}

fn with_type(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
