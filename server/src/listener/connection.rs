//! A served connection: a TCP socket that notices how it ends.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};
use tonic::transport::server::Connected;

use super::{ConnectionHandle, Connections, Ending};

/// Bytes that prove an HTTP/2 client: its preface (24) and the header of its first SETTINGS frame (9).
const HANDSHAKE_BYTES: usize = 24 + 9;

/// One accepted connection. Dropping it closes the socket.
#[derive(Debug)]
pub struct Connection {
    socket: Arc<TcpStream>,
    handle: ConnectionHandle,
    connections: Connections,
    /// Bytes of the handshake still to come.
    handshake_left: usize,
    /// We have closed our sending side: what fails after that says nothing about the peer.
    closed: bool,
}

impl Connection {
    pub(super) fn new(
        socket: Arc<TcpStream>,
        handle: ConnectionHandle,
        connections: Connections,
    ) -> Self {
        Self {
            socket,
            handle,
            connections,
            handshake_left: HANDSHAKE_BYTES,
            closed: false,
        }
    }

    /// The handle that the requests of this connection carry.
    #[must_use]
    pub fn handle(&self) -> &ConnectionHandle {
        &self.handle
    }

    /// Reads what is there. After a read that did not fill the buffer the socket is known to be empty, and waiting for
    /// its next event saves the read that would only have said so.
    fn try_read(&self, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
        let room = buf.remaining();
        let mut read = None;
        let outcome = self.socket.try_io(Interest::READABLE, || {
            let n = self.socket.try_read_buf(buf)?;
            read = Some(n);
            if n > 0 && n < room {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (read, outcome) {
            (Some(n), _) => Ok(n),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.handle.is_killed() {
                return Poll::Ready(Err(killed()));
            }
            ready!(self.socket.poll_write_ready(cx))?;
            match write(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.note_failure(&error);
                    return Poll::Ready(Err(error));
                }
                Ok(n) => return Poll::Ready(Ok(n)),
            }
        }
    }

    fn note_failure(&self, error: &io::Error) {
        if !self.closed {
            self.handle.record(Ending::of(error));
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if this.handle.is_killed() {
                return Poll::Ready(Err(killed()));
            }
            ready!(this.socket.poll_read_ready(cx))?;
            match this.try_read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    this.note_failure(&error);
                    return Poll::Ready(Err(error));
                }
                Ok(0) => {
                    this.handle.record(Ending::PeerClosed);
                    return Poll::Ready(Ok(()));
                }
                Ok(n) => {
                    this.handle.note_read();
                    if this.handshake_left > 0 {
                        this.handshake_left = this.handshake_left.saturating_sub(n);
                        if this.handshake_left == 0 {
                            this.handle.note_handshake();
                        }
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |socket| socket.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |socket| socket.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.closed {
            this.closed = true;
            // Fails only where the connection is gone already, which is what was wanted.
            let _ = rustix::net::shutdown(&*this.socket, rustix::net::Shutdown::Write);
        }
        Poll::Ready(Ok(()))
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionHandle;

    fn connect_info(&self) -> ConnectionHandle {
        self.handle.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.handle.release();
        self.connections.remove(self.handle.id());
    }
}

fn killed() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the coordinator closed the connection",
    )
}
