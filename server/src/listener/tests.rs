//! Connection of a test, for tests that need a handle on one.

use futures_util::StreamExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{Connection, Connections, ListenerOptions, accept};

/// Returns both ends of a connection, the peer's last.
pub(crate) async fn connection() -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = ListenerOptions::default();
    let incoming = accept(
        listener,
        options,
        Connections::new(),
        CancellationToken::new(),
    );
    tokio::pin!(incoming);
    let (peer, connection) = tokio::join!(TcpStream::connect(address), incoming.next());
    (connection.unwrap().unwrap(), peer.unwrap())
}
