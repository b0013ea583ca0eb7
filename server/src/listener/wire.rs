//! A TCP socket that notices how it ends.

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

use super::{ConnectionHandle, Ending};

/// The socket of one connection, as it is on the wire. Dropping it closes the socket.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Arc<TcpStream>,
    handle: ConnectionHandle,
    /// We have closed our sending side: what fails after that says nothing about the peer.
    closed: bool,
}

impl Wire {
    pub(super) fn new(socket: Arc<TcpStream>, handle: ConnectionHandle) -> Self {
        Self {
            socket,
            handle,
            closed: false,
        }
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

impl AsyncRead for Wire {
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
                Ok(_) => {
                    this.handle.note_read();
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Wire {
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

/// What reads and writes say of a connection that was killed.
pub(super) fn killed() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the coordinator closed the connection",
    )
}
