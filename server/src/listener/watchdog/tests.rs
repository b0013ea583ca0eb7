use futures_util::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{Connection, accept},
    *,
};

/// A time that is over soon, and one that is not within the test.
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

/// Returns a peer and its connection, under a watchdog with these limits, and the registry.
async fn pair(
    handshake_timeout: Duration,
    max_silence: Option<Duration>,
) -> (TcpStream, Connection, Connections) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = ListenerOptions {
        handshake_timeout,
        max_silence,
        ..ListenerOptions::default()
    };
    let connections = Connections::new();
    let stop = CancellationToken::new();
    let incoming = accept(listener, options, connections.clone(), stop);
    tokio::pin!(incoming);
    let (peer, connection) = tokio::join!(TcpStream::connect(address), incoming.next());
    (peer.unwrap(), connection.unwrap().unwrap(), connections)
}

/// Returns how a silent connection ends, and how many were closed for want of a handshake and as silent.
async fn ended(
    handshake_timeout: Duration,
    max_silence: Option<Duration>,
) -> (Option<Ending>, u64, u64) {
    let (_peer, connection, connections) = pair(handshake_timeout, max_silence).await;
    let ended = tokio::time::timeout(SECOND_LOOK * 8, connection.handle().ended()).await;
    let totals = connections.totals();
    let of = prometheus_client::metrics::counter::Counter::get;
    (
        ended.ok(),
        of(&totals.handshake_timeouts),
        of(&totals.silent),
    )
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_for_want_of_a_handshake_and_else_not() {
    assert_eq!(ended(SHORT, None).await, (Some(Ending::Local), 1, 0));
    assert_eq!(ended(LONG, None).await, (None, 0, 0));
}

#[tokio::test]
async fn a_connection_is_closed_as_silent() {
    assert_eq!(ended(LONG, Some(SHORT)).await, (Some(Ending::Local), 0, 1));
}

#[tokio::test]
async fn a_connection_may_be_silent_for_as_long_as_its_sessions_may() {
    let (_peer, connection, connections) = pair(LONG, Some(SHORT)).await;
    let handle = connection.handle().clone();
    let long = handle.allow_silence(LONG);
    drop(handle.allow_silence(SHORT));
    let kept = tokio::time::timeout(SECOND_LOOK * 4, handle.ended()).await;
    assert!(kept.is_err(), "{kept:?}");
    drop(long);
    assert_eq!(handle.ended().await, Ending::Local);
    assert_eq!(connections.totals().silent.get(), 1);
}

/// Returns whether an HTTP/1 connection on which only part of a request comes is closed; `calls` are in flight meanwhile.
async fn closed(calls: usize) -> bool {
    let (mut peer, mut connection, connections) = pair(LONG, Some(SHORT)).await;
    let handle = connection.handle().clone();
    // The first byte shows the protocol.
    peer.write_all(b"G").await.unwrap();
    connection.read_u8().await.unwrap();
    assert!(handle.is_http1());
    (0..calls).for_each(|_| handle.note_call());
    // A peer that sends without pause is not silent.
    let speaks = async {
        loop {
            if peer.write_all(b"x").await.is_err() || connection.read_u8().await.is_err() {
                break;
            }
            sleep(SHORT / 10).await;
        }
    };
    let closed = async {
        tokio::select! {
            biased;
            ending = handle.ended() => ending == Ending::Local,
            () = speaks => false,
        }
    };
    let closed = tokio::time::timeout(SECOND_LOOK * 4, closed).await;
    assert_eq!(connections.totals().silent.get(), 0);
    closed.unwrap_or(false)
}

#[tokio::test]
async fn an_http_1_connection_is_closed_without_a_call_and_not_during_one() {
    assert!(closed(0).await);
    assert!(!closed(1).await);
}
