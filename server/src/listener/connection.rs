//! Served connection: a socket, with or without TLS around it.

use std::{
    fmt,
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{
    TlsAcceptor,
    server::{FallibleAccept, TlsStream},
};
use tonic::transport::server::Connected;

use super::{
    ConnectionHandle, Connections, Ending,
    handle::Transport,
    wire::{Wire, killed},
};
use crate::tls;

/// First bytes of an HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes that prove an HTTP/2 client: its preface and the header of its first SETTINGS frame (9).
const HANDSHAKE_BYTES: usize = PREFACE.len() + 9;
/// Most bytes that are read and discarded after a failed TLS handshake: enough for the first frames of HTTP/2.
const UNREAD: usize = 64 * 1024;

/// One accepted connection. Dropping it closes the socket, unless a WebSocket takes it over.
///
/// With TLS, reads and writes drive the handshake: only the task that serves the connection waits for it.
pub struct Connection {
    layer: Layer,
    handle: ConnectionHandle,
    connections: Connections,
    /// Bytes of the HTTP/2 handshake still to come; 0 with HTTP/1.
    handshake_left: usize,
    max_silence: Option<Duration>,
}

/// Layer around the socket.
enum Layer {
    Plain(Wire),
    Handshaking(Box<FallibleAccept<Wire>>),
    Tls(Box<TlsStream<Wire>>),
    Refused(Box<Refused>),
    /// The handshake has failed.
    Failed,
}

/// Connection whose handshake failed. The coordinator reads and discards what the peer sends until the peer closes too, because
/// a close with unread data resets the connection, and the peer would never read the alert with the reason. The watchdog ends
/// this if the peer does not.
struct Refused {
    wire: Wire,
    error: io::Error,
    /// Bytes that may still be discarded.
    patience: usize,
}

impl Connection {
    pub(super) fn new(
        socket: Arc<TcpStream>,
        handle: ConnectionHandle,
        connections: Connections,
        tls: Option<Arc<ServerConfig>>,
        max_silence: Option<Duration>,
    ) -> Self {
        let wire = Wire::new(socket, handle.clone());
        let layer = match tls {
            None => Layer::Plain(wire),
            Some(config) => {
                let accept = TlsAcceptor::from(config).accept(wire).into_fallible();
                Layer::Handshaking(Box::new(accept))
            }
        };
        Self {
            layer,
            handle,
            connections,
            handshake_left: HANDSHAKE_BYTES,
            max_silence,
        }
    }

    /// Finds the connection's protocol in its first bytes.
    fn note_opening(&mut self, read: &[u8]) {
        let at = HANDSHAKE_BYTES - self.handshake_left;
        let expected = PREFACE.get(at..).unwrap_or_default();
        let is_http2 = read
            .iter()
            .zip(expected)
            .all(|(read, expected)| read == expected);
        if !is_http2 {
            self.handshake_left = 0;
            self.handle.note_http1(self.max_silence);
            return;
        }
        self.handshake_left = self.handshake_left.saturating_sub(read.len());
        if self.handshake_left == 0 {
            self.handle.note_handshake();
        }
    }

    /// Returns the handle that the requests of this connection carry.
    #[must_use]
    pub fn handle(&self) -> &ConnectionHandle {
        &self.handle
    }

    /// Drives the TLS handshake, if it is not complete.
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.layer {
                Layer::Plain(_) | Layer::Tls(_) => return Poll::Ready(Ok(())),
                Layer::Failed => return Poll::Ready(Err(killed())),
                Layer::Handshaking(accept) => {
                    let outcome = ready!(Pin::new(accept).poll(cx));
                    self.layer = match outcome {
                        Ok(stream) => self.agreed(stream),
                        Err((error, wire)) => self.refused(error, wire),
                    };
                }
                Layer::Refused(refused) => {
                    ready!(refused.poll_closed(cx));
                    if let Layer::Refused(refused) = mem::replace(&mut self.layer, Layer::Failed) {
                        return Poll::Ready(Err(refused.error));
                    }
                }
            }
        }
    }

    fn agreed(&self, stream: TlsStream<Wire>) -> Layer {
        if let Some(chain) = stream.get_ref().1.peer_certificates() {
            let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
            self.handle.note_certificates(chain);
        }
        Layer::Tls(Box::new(stream))
    }

    fn refused(&self, error: io::Error, wire: Wire) -> Layer {
        let mut patience = 0;
        // Otherwise the connection simply ended, without an error of TLS.
        if let Some(reason) = tls::told(&error) {
            self.connections
                .count_tls_failure(self.handle.peer_addr(), &reason);
            patience = UNREAD;
        }
        // Does nothing if the socket has recorded another ending before.
        self.handle.record(Ending::Local);
        Layer::Refused(Box::new(Refused {
            wire,
            error,
            patience,
        }))
    }

    /// Records a TLS error on an open connection, which is not known to be the peer's doing.
    fn note_failure(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::InvalidData {
            tracing::debug!(peer = %self.handle.peer_addr(), %error, "TLS failed on an open connection");
            self.handle.record(Ending::Local);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Refused {
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The socket's own shutdown is never pending.
        let _ = Pin::new(&mut self.wire).poll_shutdown(cx);
        let mut scratch = [0; 4096];
        while self.patience > 0 {
            let mut buf = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.wire).poll_read(cx, &mut buf));
            if read.is_err() || buf.filled().is_empty() {
                break;
            }
            self.patience = self.patience.saturating_sub(buf.filled().len());
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_handshake(cx))?;
        let before = buf.filled().len();
        match &mut this.layer {
            Layer::Plain(wire) => ready!(Pin::new(wire).poll_read(cx, buf))?,
            Layer::Tls(stream) => match ready!(Pin::new(stream).poll_read(cx, buf)) {
                // An end without TLS's close_notify is that of a killed process. HTTP/2 notices cut-off messages.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => {
                    this.note_failure(&error);
                    return Poll::Ready(Err(error));
                }
                Ok(()) if buf.filled().len() == before && buf.remaining() > 0 => {
                    // The peer's close_notify, which may come before the end of its socket.
                    this.handle.record(Ending::PeerClosed);
                }
                Ok(()) => {}
            },
            Layer::Handshaking(_) | Layer::Refused(_) | Layer::Failed => {
                return Poll::Ready(Err(killed()));
            }
        }
        if this.handshake_left > 0 {
            this.note_opening(&buf.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_handshake(cx))?;
        match &mut this.layer {
            Layer::Plain(wire) => Pin::new(wire).poll_write_vectored(cx, bufs),
            Layer::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Layer::Handshaking(_) | Layer::Refused(_) | Layer::Failed => Poll::Ready(Err(killed())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_handshake(cx))?;
        match &mut this.layer {
            Layer::Tls(stream) => Pin::new(stream).poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().layer {
            Layer::Plain(wire) => Pin::new(wire).poll_shutdown(cx),
            Layer::Tls(stream) => {
                // If close_notify does not go out at once, the peer does not read: do not wait for it.
                if Pin::new(&mut *stream).poll_shutdown(cx).is_pending() {
                    return Pin::new(stream.get_mut().0).poll_shutdown(cx);
                }
                Poll::Ready(Ok(()))
            }
            Layer::Handshaking(_) | Layer::Refused(_) | Layer::Failed => Poll::Ready(Ok(())),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        self.handle.clone()
    }
}

impl Transport for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(successor) = self.handle.successor() {
            self.handle.note_pinged();
            // If nobody waits for it any more, it is dropped once more.
            let _ = successor.send(Box::new(Self {
                layer: mem::replace(&mut self.layer, Layer::Failed),
                handle: self.handle.clone(),
                connections: self.connections.clone(),
                handshake_left: 0,
                max_silence: self.max_silence,
            }));
            return;
        }
        self.handle.release();
        self.connections.remove(self.handle.id());
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::listener::tests::connection;

    /// Returns whether a connection that begins with these bytes speaks HTTP/1, and whether its handshake is complete.
    async fn begun(parts: &[&[u8]]) -> (bool, bool) {
        let (mut connection, mut peer) = connection().await;
        for part in parts {
            peer.write_all(part).await.unwrap();
            let mut read = vec![0; part.len()];
            connection.read_exact(&mut read).await.unwrap();
        }
        let handle = connection.handle();
        (handle.is_http1(), handle.has_handshaken())
    }

    #[tokio::test]
    async fn the_first_bytes_show_the_protocol() {
        let settings = &[0; 9];
        for (parts, expected) in [
            (&[&b"P"[..]][..], (false, false)),
            (&[PREFACE], (false, false)),
            (&[PREFACE, settings], (false, true)),
            (
                &[&PREFACE[..3], &PREFACE[3..], &settings[..8]],
                (false, false),
            ),
            (&[&PREFACE[..3], &PREFACE[3..], settings], (false, true)),
            (
                &[b"GET / HTTP/1.1\r\nhost: a.very.long.name"],
                (true, false),
            ),
            // A method that begins like the preface.
            (&[b"P", b"OST / HTTP/1.1\r\n"], (true, false)),
            (&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r"], (true, false)),
        ] {
            assert_eq!(begun(parts).await, expected, "{parts:?}");
        }
    }

    #[tokio::test]
    async fn a_call_or_an_answer_completes_the_handshake_of_http_1() {
        let (connection, _peer) = connection().await;
        let handle = connection.handle();
        handle.note_call();
        assert!(!handle.has_handshaken(), "HTTP/2 has its own");
        handle.note_http1(None);
        handle.note_call();
        assert!(handle.has_handshaken());

        let (mut connection, _peer) = self::connection().await;
        connection.handle().note_http1(None);
        connection.write_all(b"HTTP/1.1 404").await.unwrap();
        assert!(connection.handle().has_handshaken());
    }

    #[tokio::test]
    async fn a_connection_that_is_taken_over_ends_as_any_other() {
        let (connection, mut peer) = connection().await;
        let handle = connection.handle().clone();
        handle.note_http1(None);
        let taken = handle.take_over();
        drop(connection);
        assert_eq!(handle.ending(), None);
        assert!(!handle.is_http1(), "silence means something from now on");
        let mut taken = taken.await.unwrap();
        peer.write_all(b"ping").await.unwrap();
        let mut read = [0; 4];
        taken.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ping");
        drop(taken);
        assert_eq!(handle.ending(), Some(Ending::Finished));
        assert_eq!(peer.read(&mut read).await.unwrap(), 0);

        // Nobody waits for it any more.
        let (connection, _peer) = self::connection().await;
        let handle = connection.handle().clone();
        drop(handle.take_over());
        drop(connection);
        assert_eq!(handle.ending(), Some(Ending::Finished));
    }
}
