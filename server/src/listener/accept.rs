//! Accept loop: turns a listening socket into a stream of connections.

use std::{io, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use tokio::{
    net::{TcpListener, TcpStream},
    task::consume_budget,
};
use tokio_util::sync::CancellationToken;

use super::{Connection, Connections, options::ListenerOptions, registry::Full, watchdog};
use crate::tls::Tls;

/// Share of the accepting task's turn of 128 operations that each connection counts for, so that many new connections at once do
/// not delay those that exist.
const CONNECTION: u32 = 16;
/// Rest of the loop after the first failure to accept; doubled for each further one.
const FIRST_REST: Duration = Duration::from_millis(10);
/// The longest rest between two attempts to accept.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Unsent bytes that the kernel buffers for a client. Without a bound the kernel buffers megabytes for a client that does not
/// read, and meanwhile the coordinator goes on to ask the store for that client.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
const UNSENT: u32 = 64 * 1024;

/// Accepts connections until `shutdown` is cancelled, which ends the stream; dropping the stream closes the listening
/// socket.
///
/// A failure to accept (out of file descriptors, say) is logged and tried again after a rest of 10 ms to 1 s; it is
/// never an item of the stream and never its end. Each connection gets `TCP_NODELAY` and a small task of its own,
/// which ends with it.
pub fn accept(
    listener: TcpListener,
    options: ListenerOptions,
    connections: Connections,
    shutdown: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    connections.bound(options.max_connections, options.max_connections_per_address);
    let acceptor = Acceptor {
        listener,
        options: Arc::new(options),
        connections,
        shutdown,
        rest: FIRST_REST,
    };
    stream::unfold(acceptor, |mut acceptor| async move {
        let connection = acceptor.next().await?;
        Some((Ok(connection), acceptor))
    })
}

struct Acceptor {
    listener: TcpListener,
    options: Arc<ListenerOptions>,
    connections: Connections,
    shutdown: CancellationToken,
    rest: Duration,
}

impl Acceptor {
    async fn next(&mut self) -> Option<Connection> {
        loop {
            for _ in 0..CONNECTION {
                consume_budget().await;
            }
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    self.rest = FIRST_REST;
                    if let Err(full) = self.connections.has_room(peer.ip()) {
                        self.refuse(socket, full);
                        continue;
                    }
                    return Some(self.admit(socket, peer));
                }
                // The peer gave up before it was accepted: the listener is fine.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::Interrupted
                    ) =>
                {
                    tracing::debug!(%error, "a connection ended before it was accepted");
                }
                Err(error) => {
                    let rest = self.rest;
                    self.rest = (rest * 2).min(LONGEST_REST);
                    tracing::warn!(
                        %error,
                        "failed to accept a connection; trying again in {rest:?} \
                         (if files ran out, raise the limit of open files or lower max-connections)"
                    );
                    tokio::select! {
                        biased;
                        () = self.shutdown.cancelled() => return None,
                        () = tokio::time::sleep(rest) => {}
                    }
                }
            }
        }
    }

    fn admit(&self, socket: TcpStream, peer: std::net::SocketAddr) -> Connection {
        // Without it, a small message would wait for the acknowledgement of the previous one.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, %peer, "failed to set TCP_NODELAY");
        }
        #[cfg(all(target_os = "linux", not(leasehold_portable)))]
        if let Err(error) = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT) {
            tracing::debug!(%error, %peer, "failed to set TCP_NOTSENT_LOWAT");
        }
        let socket = Arc::new(socket);
        let handle = self.connections.admit(&socket, peer);
        tokio::spawn(watchdog::watch(
            Arc::clone(&socket),
            handle.clone(),
            self.connections.clone(),
            Arc::clone(&self.options),
        ));
        let tls = self.options.tls.as_ref().map(Tls::grpc);
        Connection::new(
            socket,
            handle,
            self.connections.clone(),
            tls,
            self.options.max_silence,
        )
    }

    fn refuse(&self, socket: TcpStream, full: Full) {
        // A close by reset leaves no TIME_WAIT behind: a flood of refusals must not cost ports or memory.
        if let Err(error) = socket.set_zero_linger() {
            tracing::debug!(%error, "failed to prepare the close of a refused connection");
        }
        drop(socket);
        let before = self.connections.totals().refused.inc();
        // Logs only the first of each thousand, so that a flood of connections is no flood of log lines.
        if before.is_multiple_of(1000) {
            tracing::warn!(
                limit = full.limit,
                refused = before + 1,
                "refused a connection: {} is reached",
                full.setting
            );
        }
    }
}

#[cfg(all(test, target_os = "linux", not(leasehold_portable)))]
mod tests {
    use std::pin::pin;

    use futures_util::StreamExt;
    use tokio::{io::AsyncWriteExt, net::TcpSocket, time::timeout};

    use super::*;

    #[tokio::test]
    async fn little_is_taken_for_a_client_that_does_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(4096).unwrap();
        let _client = client.connect(address).await.unwrap();
        let accepted = accept(
            listener,
            ListenerOptions::default(),
            Connections::new(),
            CancellationToken::new(),
        );
        let mut connection = pin!(accepted).next().await.unwrap().unwrap();
        let mut taken = 0;
        // If the kernel took nothing for a while, it takes no more.
        while let Ok(written) = timeout(
            Duration::from_millis(200),
            connection.write(&[0; 16 * 1024]),
        )
        .await
        {
            taken += written.unwrap();
            assert!(taken < 256 * 1024, "{taken} bytes are taken");
        }
        assert!(taken > 0);
    }
}
