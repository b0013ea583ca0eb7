//! TCP socket that notices how it ends.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    task::coop::poll_proceed,
};

use super::{ConnectionHandle, Ending};

/// Operations of a task in one turn, in tokio's units: each operation of its sockets, channels and timers is one.
const BUDGET: usize = 128;
/// Most bytes that a connection reads in a turn.
const BYTES: usize = 2048;
/// Most calls that begin in a turn, besides those that are read already.
const CALLS: usize = 16;

/// Factor by which a call counts more on a connection that cancels too many: others get this many turns for each of its own.
const PASSES: usize = 64;

/// Socket of one connection. Dropping it closes the socket.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Arc<TcpStream>,
    handle: ConnectionHandle,
    /// Operations that it has done and that are not counted yet.
    owed: usize,
    /// Set when the coordinator has closed its sending side: later failures say nothing about the peer.
    closed: bool,
}

impl Wire {
    pub(super) fn new(socket: Arc<TcpStream>, handle: ConnectionHandle) -> Self {
        Self {
            socket,
            handle,
            owed: 0,
            closed: false,
        }
    }

    /// Reads up to `room` bytes. A read that does not fill that shows that the socket is empty, and waiting for its next event
    /// saves another read.
    fn try_read(&self, buf: &mut ReadBuf<'_>, room: usize) -> io::Result<usize> {
        let mut read = None;
        let outcome = self.socket.try_io(Interest::READABLE, || {
            let n = if room < buf.remaining() {
                let n = self.socket.try_read(buf.initialize_unfilled_to(room))?;
                buf.advance(n);
                n
            } else {
                self.socket.try_read_buf(buf)?
            };
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

    /// Counts what was read, and the calls that it began, as part of the task's turn. HTTP/2 reads again after each call that it
    /// accepts, so otherwise the turn of a client that sends without pause would never end.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let begun = self.handle.calls_begun() * BUDGET / CALLS;
        self.owed += if begun > 0 && self.handle.cancels_too_many() {
            begun * PASSES
        } else {
            begun
        };
        while self.owed > 0 {
            ready!(poll_proceed(cx)).made_progress();
            self.owed -= 1;
        }
        Poll::Ready(())
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
            // Tries to write first, because waiting for the socket counts as part of the task's turn, which may be used up: a client
            // that sends without pause still gets its answers.
            match write(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.socket.poll_write_ready(cx))?;
                }
                Err(error) => {
                    self.note_failure(&error);
                    return Poll::Ready(Err(error));
                }
                Ok(n) => {
                    self.handle.note_written();
                    return Poll::Ready(Ok(n));
                }
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
            ready!(this.poll_turn(cx));
            ready!(this.socket.poll_read_ready(cx))?;
            match this.try_read(buf, BYTES.min(buf.remaining())) {
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
                    this.owed += n * BUDGET / BYTES;
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
            // Fails only if the connection is gone already.
            let _ = rustix::net::shutdown(&*this.socket, rustix::net::Shutdown::Write);
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the error of reads and writes on a killed connection.
pub(super) fn killed() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the coordinator closed the connection",
    )
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{io::AsyncWriteExt, net::TcpListener};

    use super::*;

    /// Returns the number of turns in which a connection with this number of begun calls reads its input.
    async fn turns(calls: usize, cancels: usize) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (socket, address) = listener.accept().await.unwrap();
        let socket = Arc::new(socket);
        let handle = ConnectionHandle::new(1, address, &socket);
        peer.write_all(b"a heartbeat").await.unwrap();
        socket.readable().await.unwrap();
        for _ in 0..cancels {
            handle.note_cancelled_at_once();
        }
        for _ in 0..calls {
            handle.note_call();
        }
        let mut wire = Wire::new(socket, handle);
        let reading = tokio::spawn(async move {
            let (mut bytes, mut turns) = ([0; 64], 0);
            let mut buf = ReadBuf::new(&mut bytes);
            poll_fn(|cx| {
                turns += 1;
                Pin::new(&mut wire).poll_read(cx, &mut buf)
            })
            .await
            .unwrap();
            turns
        });
        reading.await.unwrap()
    }

    #[tokio::test]
    async fn a_client_that_cancels_too_much_waits_longer() {
        assert_eq!(turns(1, 0).await, 1);
        assert_eq!(turns(CALLS, 0).await, 2);
        let passed = turns(2, 40).await;
        assert!((8..=9).contains(&passed), "{passed} turns for two calls");
        let passed = turns(1000, 40).await;
        assert!(
            (4000..=4001).contains(&passed),
            "{passed} turns for a thousand"
        );
    }
}
