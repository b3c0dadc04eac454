//! Answers on their way to clients: written while they are made, and only so many bytes of all of them wait to be read.

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

/// Bytes of answers, of all connections together, that wait in memory until a client reads them.
pub const MAX_UNREAD_BYTES: usize = 32 << 20;
/// The same of `/metrics`, which must come whatever else is not read.
pub const MAX_UNREAD_METRICS_BYTES: usize = 8 << 20;
/// So many bytes are handed over at once.
const CHUNK_BYTES: usize = 64 << 10;
/// So long an answer waits until others are read. Meanwhile it holds one of the few places of those that read the store.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The header of answers that says how to see the names that are left out.
const NOTE_HEADER: HeaderName = HeaderName::from_static("iolens-note");

/// What may wait to be read.
#[derive(Debug, Clone)]
pub struct Unread {
    /// A permit is a byte.
    free: Arc<Semaphore>,
    limit_bytes: usize,
}

impl Unread {
    /// At most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Unread {
        Unread {
            free: Arc::new(Semaphore::new(limit_bytes)),
            limit_bytes,
        }
    }

    /// How many bytes wait.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.limit_bytes - self.free.available_permits()
    }

    /// Room for `bytes`, as soon as there is some. A larger answer than fits waits until it is the only one.
    ///
    /// # Errors
    /// Clients have not read enough of the other answers in time.
    async fn room(&self, bytes: usize, places: &Places) -> Result<OwnedSemaphorePermit, Problem> {
        let permits = u32::try_from(bytes.min(self.limit_bytes)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&self.free).try_acquire_many_owned(permits) {
            return Ok(room);
        }
        // Others read slowly, or not at all: the worst of them makes room.
        places.close_most_stalled();
        let room = Arc::clone(&self.free).acquire_many_owned(permits);
        match timeout(MAX_WAIT, room).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(Problem::busy("too many answers wait to be read")),
        }
    }

    /// `response`, whose body counts until the client has read it. One that is written while it is made counts by itself.
    ///
    /// # Errors
    /// There is no room for it.
    pub async fn counted(&self, response: Response, places: &Places) -> Result<Response, Problem> {
        let Some(bytes) = response.body().size_hint().exact().filter(|n| *n > 0) else {
            return Ok(response);
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let room = self.room(bytes, places).await?;
        Ok(holding(response, room))
    }
}

/// Bytes that are on their way, and what is held until they are written.
struct GuardedBytes<T> {
    bytes: Bytes,
    _guard: T,
}

impl<T> AsRef<[u8]> for GuardedBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// `bytes`, which hold `guard` until they are written.
fn guarded<T: Send + Sync + 'static>(bytes: Bytes, guard: T) -> Bytes {
    Bytes::from_owner(GuardedBytes {
        bytes,
        _guard: guard,
    })
}

/// `response`, which holds `guard` until its last byte is written, or its connection is closed.
pub fn holding<T: Send + Sync + 'static>(response: Response, guard: T) -> Response {
    let guard = Arc::new(guard);
    response.map(|body| Body::new(HoldingBody { body, guard }))
}

/// A body whose bytes hold something, too: the body itself goes when its last frame is taken, which is not yet written then.
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

/// Takes an answer while it is made. It is used on threads that may wait.
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

    /// One JSON document.
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

    /// What is not a whole chunk waits for the answer's end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON in whose strings nothing can mislead a terminal, as [`escape::json`] makes it.
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
    /// An answer that `work`, which reads the store, writes: on a thread that may wait, a few at a time, and until the request's
    /// time is over. Its first bytes go out while it is made.
    ///
    /// # Errors
    /// What `work` says before it has written a chunk, or there was no time for it. What it says later cuts the answer off.
    pub async fn stream(
        self: &Arc<App>,
        content_type: &'static str,
        work: impl FnOnce(&mut AnswerWriter, &Asker) -> Result<()> + Send + 'static,
    ) -> Result<Response, Problem> {
        let asker = self.asker();
        let turn = Arc::clone(&self.readers).acquire_owned().await;
        let turn = turn.map_err(|_| Problem::busy("the server ends"))?;
        // A table of CSV or Arrow has no place for notes of its own.
        let names_left_out = asker.caller.names_left_out();
        let note = names_left_out.and_then(|how| HeaderValue::from_str(how).ok());
        let response = written(content_type, &self.unread, &self.places, move |out| {
            // Held until the work ends, not until no client waits for it any more.
            let _turn = turn;
            work(out, &asker)
        });
        let mut response = response.await?;
        if let Some(note) = note {
            response.headers_mut().insert(NOTE_HEADER, note);
        }
        Ok(response)
    }

    /// Metrics that `work` writes. What others read, or do not read, does not keep them.
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

/// What `work` writes, from its first chunk on.
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
            // It is short: its length is known, and it counts like any other.
            return done.map(|()| out.chunk);
        }
        let done = done.and_then(|()| Ok(out.send()?));
        if let Err(e) = done {
            // The status has been sent: a connection that breaks says that the answer is not whole.
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
