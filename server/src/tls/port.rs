//! Admin port with TLS: a listening socket that yields connections when their handshakes are complete.

use std::{io, net::SocketAddr, time::Duration};

use axum::serve::Listener;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{Tls, told};

/// Most handshakes at the same time. Further connections wait in the backlog: this port is for a few probes and scrapers.
const HANDSHAKES: usize = 64;

/// The admin port with TLS.
pub(crate) struct TlsPort {
    listener: TcpListener,
    tls: Tls,
    handshake_timeout: Duration,
    /// Handshakes in tasks of their own, so that none waits for another.
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsPort {
    pub(crate) fn new(listener: TcpListener, tls: Tls, handshake_timeout: Duration) -> Self {
        Self {
            listener,
            tls,
            handshake_timeout,
            handshakes: JoinSet::new(),
        }
    }
}

impl Listener for TlsPort {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                // Logs failures to accept, and pauses after them.
                (socket, peer) = Listener::accept(&mut self.listener), if self.handshakes.len() < HANDSHAKES => {
                    let acceptor = TlsAcceptor::from(self.tls.admin());
                    let limit = self.handshake_timeout;
                    self.handshakes.spawn(async move {
                        match timeout(limit, acceptor.accept(socket)).await {
                            Ok(Ok(stream)) => return Some((stream, peer)),
                            Ok(Err(error)) => {
                                let reason = told(&error).unwrap_or_else(|| error.to_string().into());
                                tracing::debug!(%peer, %reason, "a TLS handshake failed on the admin port");
                            }
                            Err(_) => tracing::debug!(%peer, "a TLS handshake on the admin port took too long"),
                        }
                        None
                    });
                }
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(served)) = done {
                        return served;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
