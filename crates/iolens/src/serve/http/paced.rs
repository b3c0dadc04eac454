//! A connection with a minimum read rate for its client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::places::Traffic;

/// A client must read the next [`MIN_BYTES`] within this time; else its connection is closed.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that reads less than this in [`WRITE_TIMEOUT`] counts as stalled.
const MIN_BYTES: usize = 64 << 10;

/// A stream that fails if the client does not read.
pub struct Paced<S> {
    stream: S,
    traffic: Arc<Traffic>,
    timeout: Duration,
    /// Runs while bytes are waiting to be written.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes written since the deadline started.
    written: usize,
}

impl<S> Paced<S> {
    /// Wraps the stream of a connection.
    pub fn new(stream: S, traffic: Arc<Traffic>, timeout: Duration) -> Paced<S> {
        Paced {
            stream,
            traffic,
            timeout,
            deadline: None,
            written: 0,
        }
    }

    fn reads(&mut self) {
        if self.deadline.take().is_some() {
            self.traffic.reads(true);
        }
    }

    /// Updates the deadline from the result of a write.
    fn judge(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) => {
                self.written += bytes;
                if self.written >= MIN_BYTES {
                    self.reads();
                }
                wrote
            }
            Poll::Ready(Err(_)) => wrote,
            Poll::Pending => {
                if self.deadline.is_none() {
                    self.traffic.reads(false);
                    self.written = 0;
                }
                let timeout = self.timeout;
                let deadline = self
                    .deadline
                    .get_or_insert_with(|| Box::pin(sleep(timeout)));
                match deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes when its own buffers are empty: the kernel has taken everything.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            self.reads();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::places::Client;
    use super::super::tests::block_on;
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    #[test]
    fn a_client_that_does_not_read_is_stalled_and_then_gone() {
        block_on(async {
            let traffic = Traffic::new(Client::Unknown);
            let (mut client, server) = duplex(1024);
            let short = Duration::from_millis(50);
            let mut stream = Paced::new(server, Arc::clone(&traffic), short);
            let error = stream.write_all(&[0; 4096]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(traffic.stalled_for() > Duration::ZERO);
            // One that reads is waited for.
            let _ = client.read_exact(&mut [0; 1024]).await;
            let server = duplex(1024);
            let (mut client, server) = server;
            let traffic = Traffic::new(Client::Unknown);
            let long = Duration::from_secs(3600);
            let mut stream = Paced::new(server, Arc::clone(&traffic), long);
            let reader = tokio::spawn(async move {
                let mut all = Vec::new();
                client.read_to_end(&mut all).await.map(|_| all.len())
            });
            stream.write_all(&[0; 1 << 20]).await.unwrap();
            stream.flush().await.unwrap();
            assert_eq!(traffic.stalled_for(), Duration::ZERO);
            drop(stream);
            assert_eq!(reader.await.unwrap().unwrap(), 1 << 20);
        });
    }
}
