//! The listener's sockets, without HTTP/2 on top: the ways in which connections end, and those that the listener ends.

use std::{
    net::SocketAddr,
    pin::Pin,
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt};
use leasehold_server::listener::{Connection, Connections, Ending, ListenerOptions, accept};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// An HTTP/2 client's first bytes: the preface and an empty SETTINGS frame.
const HANDSHAKE: &[u8; 33] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Anything that takes this long is taken not to happen.
const LONG: Duration = Duration::from_secs(20);

type Incoming = Pin<Box<dyn Stream<Item = std::io::Result<Connection>> + Send>>;

struct Listening {
    address: SocketAddr,
    connections: Connections,
    shutdown: CancellationToken,
    incoming: Incoming,
}

fn patient() -> ListenerOptions {
    ListenerOptions {
        max_connections: 100,
        max_connections_per_address: 0,
        handshake_timeout: LONG,
        max_silence: None,
        tls: None,
    }
}

async fn listen(options: ListenerOptions) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Connections::new();
    let shutdown = CancellationToken::new();
    let incoming = Box::pin(accept(
        listener,
        options,
        connections.clone(),
        shutdown.clone(),
    ));
    Listening {
        address,
        connections,
        shutdown,
        incoming,
    }
}

impl Listening {
    async fn next(&mut self) -> Connection {
        soon(self.incoming.next()).await.unwrap().unwrap()
    }

    /// Returns a peer, and our end of its connection.
    async fn pair(&mut self) -> (TcpStream, Connection) {
        let peer = TcpStream::connect(self.address).await.unwrap();
        (peer, self.next().await)
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    match timeout(LONG, what).await {
        Ok(value) => value,
        Err(_) => panic!("did not happen in {LONG:?}"),
    }
}

/// Serves a connection as HTTP/2 does as long as it is not held up: it reads all that comes.
fn read_all(mut connection: Connection) -> JoinHandle<std::io::Result<u64>> {
    tokio::spawn(async move { copy(&mut connection, &mut sink()).await })
}

/// Writes until nothing more goes out, because the peer does not read.
async fn fill(connection: &mut Connection) {
    let chunk = vec![0; 64 * 1024];
    while timeout(Duration::from_millis(100), connection.write_all(&chunk))
        .await
        .is_ok()
    {}
}

#[tokio::test]
async fn a_peer_that_closes_is_seen_after_what_it_sent() {
    let mut listening = listen(patient()).await;
    let (mut peer, mut connection) = listening.pair().await;
    let handle = connection.handle().clone();
    assert_eq!(handle.peer_addr(), peer.local_addr().unwrap());
    peer.write_all(b"last words").await.unwrap();
    drop(peer);
    assert_eq!(handle.ending(), None);
    let mut read = Vec::new();
    soon(connection.read_to_end(&mut read)).await.unwrap();
    assert_eq!(read, b"last words");
    assert_eq!(soon(handle.ended()).await, Ending::PeerClosed);
    drop(connection);
    // The first cause sticks.
    assert_eq!(handle.ending(), Some(Ending::PeerClosed));
}

#[tokio::test]
async fn a_half_close_is_seen_although_nobody_reads() {
    let mut listening = listen(patient()).await;
    let (mut peer, mut connection) = listening.pair().await;
    let handle = connection.handle().clone();
    peer.write_all(b"something that stays unread")
        .await
        .unwrap();
    let served = tokio::spawn(async move {
        // As HTTP/2 does with a control frame to send: it reads nothing until that is written.
        loop {
            connection.write_all(&[0; 64 * 1024]).await?;
        }
        #[expect(unreachable_code, reason = "tells the type")]
        Ok::<(), std::io::Error>(())
    });
    peer.shutdown().await.unwrap();
    assert_eq!(soon(handle.ended()).await, Ending::PeerClosed);
    // And the connection does not outlive its end, although the peer still does not read.
    soon(listening.connections.drained()).await;
    assert!(soon(served).await.unwrap().is_err());
}

#[tokio::test]
async fn a_reset_is_seen_by_a_writer_whose_peer_did_not_read() {
    let mut listening = listen(patient()).await;
    let (peer, mut connection) = listening.pair().await;
    let handle = connection.handle().clone();
    fill(&mut connection).await;
    let served = tokio::spawn(async move { connection.write_all(&[0; 1024]).await });
    // What a process leaves unread when it is killed makes the kernel reset its connections.
    drop(peer);
    assert_eq!(soon(handle.ended()).await, Ending::PeerReset);
    assert!(soon(served).await.unwrap().is_err());
}

#[tokio::test]
async fn a_kill_wakes_a_writer_whose_peer_does_not_read() {
    let mut listening = listen(patient()).await;
    let (mut peer, mut connection) = listening.pair().await;
    let handle = connection.handle().clone();
    fill(&mut connection).await;
    let served = tokio::spawn(async move { connection.write_all(&[0; 1024]).await });
    tokio::task::yield_now().await;
    handle.kill();
    assert_eq!(handle.ending(), Some(Ending::Local));
    assert!(!handle.peer_ended_stream(None));
    assert!(soon(served).await.unwrap().is_err());
    soon(listening.connections.drained()).await;
    // Nothing is left in the kernel for a peer that does not read: it learns by a reset.
    let error = soon(peer.read_to_end(&mut Vec::new())).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(handle.ending(), Some(Ending::Local));
}

#[tokio::test]
async fn a_kill_wakes_a_reader_and_fails_whatever_comes_later() {
    let mut listening = listen(patient()).await;
    let (_peer, mut connection) = listening.pair().await;
    let handle = connection.handle().clone();
    let served = tokio::spawn(async move {
        let first = connection.read_u8().await;
        let then = (connection.read_u8().await, connection.write_all(b"x").await);
        (first, then.0, then.1)
    });
    tokio::task::yield_now().await;
    handle.kill();
    let (first, second, third) = soon(served).await.unwrap();
    for kind in [
        first.unwrap_err().kind(),
        second.unwrap_err().kind(),
        third.unwrap_err().kind(),
    ] {
        assert_eq!(kind, std::io::ErrorKind::ConnectionAborted);
    }
    assert_eq!(handle.ending(), Some(Ending::Local));
}

#[tokio::test]
async fn a_dropped_connection_is_finished() {
    let mut listening = listen(patient()).await;
    let (mut peer, connection) = listening.pair().await;
    let handle = connection.handle().clone();
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.ended().await }
    });
    tokio::task::yield_now().await;
    drop(connection);
    assert_eq!(soon(waiting).await.unwrap(), Ending::Finished);
    // The handle does not keep the socket open.
    assert_eq!(soon(peer.read(&mut [0])).await.unwrap(), 0);
    handle.kill();
    assert_eq!(handle.ending(), Some(Ending::Finished));
    // A stream that its client had ended before was ended by the client.
    assert!(handle.peer_ended_stream(None));
    assert!(!handle.peer_ended_stream(Some(&tonic::Status::internal("undecodable"))));
}

#[tokio::test]
async fn silence_is_ended_by_us_and_a_word_now_and_then_is_not_silence() {
    let limit = Duration::from_millis(500);
    let mut listening = listen(ListenerOptions {
        max_silence: Some(limit),
        ..patient()
    })
    .await;
    let (_silent, connection) = listening.pair().await;
    let silent = connection.handle().clone();
    let silence = read_all(connection);
    let (mut talking, connection) = listening.pair().await;
    let talker = connection.handle().clone();
    let talk = read_all(connection);
    let since = Instant::now();
    let talked = tokio::spawn(async move {
        // Without it, the connection would be one of HTTP/1, where words outside a call don't count.
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        talking.write_all(preface).await.unwrap();
        while since.elapsed() < 3 * limit {
            talking.write_all(b"x").await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        talking
    });
    assert_eq!(soon(silent.ended()).await, Ending::Local);
    assert!(since.elapsed() >= limit.saturating_sub(Duration::from_millis(50)));
    assert!(soon(silence).await.unwrap().is_err());
    assert_eq!(listening.connections.totals().silent.get(), 1);
    let talking = soon(talked).await.unwrap();
    assert_eq!(talker.ending(), None);
    drop(talking);
    assert_eq!(soon(talker.ended()).await, Ending::PeerClosed);
    soon(talk).await.unwrap().unwrap();
}

#[tokio::test]
async fn silence_behind_a_full_socket_is_ended_too() {
    let mut listening = listen(ListenerOptions {
        max_silence: Some(Duration::from_millis(500)),
        ..patient()
    })
    .await;
    let (_peer, mut connection) = listening.pair().await;
    let handle = connection.handle().clone();
    let served = tokio::spawn(async move {
        // As HTTP/2 does when it gives a connection up: it flushes its goodbye first.
        connection.write_all(&vec![0; 64 << 20]).await
    });
    assert_eq!(soon(handle.ended()).await, Ending::Local);
    assert!(soon(served).await.unwrap().is_err());
    soon(listening.connections.drained()).await;
}

#[tokio::test]
async fn a_handshake_that_does_not_arrive_ends_the_connection() {
    let deadline = Duration::from_millis(300);
    let mut listening = listen(ListenerOptions {
        handshake_timeout: deadline,
        ..patient()
    })
    .await;
    let opened = Instant::now();
    let mut peers = Vec::new();
    let mut handles = Vec::new();
    for sent in [0, 1, 24, 32, 33] {
        let (mut peer, connection) = listening.pair().await;
        handles.push(connection.handle().clone());
        read_all(connection);
        // A byte at a time: a trickle does not push the deadline out.
        for byte in &HANDSHAKE[..sent] {
            peer.write_u8(*byte).await.unwrap();
        }
        peers.push(peer);
    }
    for (handle, peer) in handles[..4].iter().zip(&mut peers) {
        assert_eq!(soon(handle.ended()).await, Ending::Local);
        let read = soon(peer.read(&mut [0])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    assert!(opened.elapsed() >= deadline);
    let totals = listening.connections.totals();
    assert_eq!(totals.handshake_timeouts.get(), 4);
    assert_eq!(handles[4].ending(), None);
    soon(async {
        while listening.connections.len() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn all_are_killed_and_drained_and_the_stream_ends_at_shutdown() {
    let mut listening = listen(patient()).await;
    soon(listening.connections.drained()).await;
    let mut peers = Vec::new();
    for _ in 0..10 {
        let (peer, connection) = listening.pair().await;
        peers.push(peer);
        read_all(connection);
    }
    assert_eq!(listening.connections.len(), 10);
    listening.shutdown.cancel();
    assert!(soon(listening.incoming.next()).await.is_none());
    let drained = listening.connections.drained();
    tokio::pin!(drained);
    assert!(
        timeout(Duration::from_millis(50), &mut drained)
            .await
            .is_err()
    );
    listening.connections.kill_all();
    soon(drained).await;
    assert!(listening.connections.is_empty());
    drop(listening.incoming);
    assert!(TcpStream::connect(listening.address).await.is_err());
}
