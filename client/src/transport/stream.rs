//! The bytes of a connection, encrypted or not. Knows by the first ones whether the two sides speak the same.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{probe::serves_http_1_only, verdict::Verdict};
use crate::error::{Mismatch, closed_unanswered, is_closed_unanswered};

/// The first byte of an alert of TLS, which a server sends that was expecting TLS.
const TLS_ALERT: u8 = 0x15;
/// The first byte of what an HTTP/2 server sends: its settings are never so long that their length needs this byte.
const SETTINGS: u8 = 0;

/// A connection's stream of bytes.
pub(super) struct Stream {
    bytes: Box<dyn Bytes>,
    is_plain: bool,
    /// Address to look at again if it closes the connection without an answer.
    peer: Option<SocketAddr>,
    /// That look: whether the peer serves HTTP/1 only.
    look: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
    /// Place for an error until the first byte has been read; none afterwards.
    verdict: Option<Verdict>,
}

pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

impl Stream {
    /// Makes a stream over TCP, or over TLS.
    pub(super) fn new(
        bytes: impl Bytes + 'static,
        is_plain: bool,
        peer: Option<SocketAddr>,
        verdict: Verdict,
    ) -> Self {
        Self {
            bytes: Box::new(bytes),
            is_plain,
            peer,
            look: None,
            verdict: Some(verdict),
        }
    }

    /// Checks the first byte of a connection that is not encrypted. There is none where the connection was closed. (With TLS,
    /// both sides have agreed on HTTP/2 before.)
    fn check(&self, first: Option<u8>) -> io::Result<()> {
        match first {
            _ if !self.is_plain => Ok(()),
            None => Err(closed_unanswered()),
            Some(SETTINGS) => Ok(()),
            Some(TLS_ALERT) => Err(Mismatch::Tls.error()),
            Some(_) => Err(Mismatch::NoHttp2.error()),
        }
    }

    /// Returns the result of a read or a write. Until the first byte has been read, an error is the verdict on the connection.
    fn judged<T>(&mut self, cx: &mut Context<'_>, result: io::Result<T>) -> Poll<io::Result<T>> {
        let mut error = match result {
            Err(error) if self.verdict.is_some() => error,
            result => return Poll::Ready(result),
        };
        if self.is_plain {
            error = unanswered(error);
        }
        if is_closed_unanswered(&error)
            && let Some(peer) = self.peer
        {
            let look = || -> Pin<Box<dyn Future<Output = bool> + Send>> {
                Box::pin(serves_http_1_only(peer))
            };
            if ready!(self.look.get_or_insert_with(look).as_mut().poll(cx)) {
                error = Mismatch::NoHttp2.error();
            }
        }
        if let Some(verdict) = self.verdict.take() {
            verdict.note(&error);
        }
        Poll::Ready(Err(error))
    }
}

/// Returns the error of a connection on which nothing has been answered. A server that closes without reading all that was
/// sent has the kernel reset the connection, which then ends for the same reason as if it had been closed.
fn unanswered(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => closed_unanswered(),
        _ => error,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (before, has_room) = (buf.filled().len(), buf.remaining() > 0);
        let read = ready!(Pin::new(&mut this.bytes).poll_read(cx, buf));
        if this.verdict.is_none() || !has_room {
            return Poll::Ready(read);
        }
        let first = buf.filled().get(before).copied();
        let read = read.and_then(|()| this.check(first));
        let read = ready!(this.judged(cx, read));
        if first.is_some() {
            this.verdict = None;
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.bytes).poll_write(cx, buf));
        this.judged(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.bytes).poll_write_vectored(cx, bufs));
        this.judged(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = ready!(Pin::new(&mut this.bytes).poll_flush(cx));
        this.judged(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().bytes).poll_shutdown(cx)
    }
}
