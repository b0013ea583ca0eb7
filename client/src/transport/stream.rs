//! The bytes of a connection, encrypted or not. Knows by the first ones whether the two sides speak the same.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::error::{Mismatch, closed_unanswered};

/// The first byte of an alert of TLS, which a server sends that was expecting TLS.
const TLS_ALERT: u8 = 0x15;
/// The first byte of what an HTTP/2 server sends: its settings are never so long that their length needs this byte.
const SETTINGS: u8 = 0;

/// A connection's stream of bytes.
pub(super) enum Stream {
    Plain { tcp: TcpStream, is_checked: bool },
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn plain(tcp: TcpStream) -> Self {
        Self::Plain {
            tcp,
            is_checked: false,
        }
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
        match self.get_mut() {
            Self::Encrypted(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Plain {
                tcp,
                is_checked: true,
            } => Pin::new(tcp).poll_read(cx, buf),
            Self::Plain { tcp, is_checked } => {
                let before = buf.filled().len();
                let has_room = buf.remaining() > 0;
                ready!(Pin::new(tcp).poll_read(cx, buf)).map_err(unanswered)?;
                let first = buf.filled().get(before).copied();
                *is_checked = first.is_some();
                Poll::Ready(match first {
                    Some(TLS_ALERT) => Err(Mismatch::Tls.error()),
                    None if has_room => Err(closed_unanswered()),
                    None | Some(SETTINGS) => Ok(()),
                    Some(_) => Err(Mismatch::NoHttp2.error()),
                })
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain { tcp, is_checked } => {
                let written = Pin::new(tcp).poll_write(cx, buf);
                if *is_checked {
                    written
                } else {
                    written.map_err(unanswered)
                }
            }
            Self::Encrypted(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain { tcp, is_checked } => {
                let written = Pin::new(tcp).poll_write_vectored(cx, bufs);
                if *is_checked {
                    written
                } else {
                    written.map_err(unanswered)
                }
            }
            Self::Encrypted(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain { tcp, .. } => tcp.is_write_vectored(),
            Self::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { tcp, .. } => Pin::new(tcp).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { tcp, .. } => Pin::new(tcp).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
