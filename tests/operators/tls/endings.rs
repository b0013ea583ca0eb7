//! Ends of TLS connections, reported as without TLS: whether the peer ended it, or fell silent.

use leasehold_server::listener::Ending;
use leasehold_tests::Authority;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::tls::listening::{
    HANDSHAKE_TIMEOUT, HTTP2, Listening, Served, plain_client, serve, soon,
};

/// Returns a client whose first bytes were read, and our end of its connection.
async fn open() -> (Listening, TlsStream<TcpStream>, Served) {
    let authority = Authority::new("servers");
    let mut listening = Listening::with(&authority.server().issue().flags()).await;
    let (mut peer, mut served) = listening.pair(plain_client(&authority)).await;
    peer.write_all(HTTP2).await.unwrap();
    peer.flush().await.unwrap();
    // The client's handshake may be over before the coordinator's: what comes then still belongs to that.
    soon(&mut served.begun).await.unwrap();
    (listening, peer, served)
}

#[tokio::test]
async fn an_end_without_a_goodbye_is_that_of_a_process_that_was_killed() {
    let (_listening, peer, served) = open().await;
    // The kernel closes the sockets of a killed process: nothing of TLS is said any more.
    let (socket, _) = peer.into_inner();
    drop(socket);
    assert_eq!(soon(served.handle.ended()).await, Ending::PeerClosed);
    assert!(served.handle.peer_ended_stream(None));
    // HTTP/2 is told of a plain end, after everything that was sent before.
    assert_eq!(soon(served.reading).await.unwrap().unwrap(), 33);
}

#[tokio::test]
async fn a_goodbye_is_an_end_before_the_socket_closes() {
    let (_listening, mut peer, served) = open().await;
    let (_, session) = peer.get_mut();
    session.send_close_notify();
    peer.flush().await.unwrap();
    assert_eq!(soon(served.handle.ended()).await, Ending::PeerClosed);
    assert_eq!(soon(served.reading).await.unwrap().unwrap(), 33);
    // The socket is still open at its end.
    drop(peer);
}

#[tokio::test]
async fn a_half_close_is_seen_although_nobody_reads() {
    let authority = Authority::new("servers");
    let mut listening = Listening::with(&authority.server().issue().flags()).await;
    let address = listening.address;
    let config = plain_client(&authority);
    let dialling = tokio::spawn(crate::tls::listening::hello(address, config));
    let mut connection = listening.next().await;
    let handle = connection.handle().clone();
    let served = tokio::spawn(async move {
        // As HTTP/2 does with a control frame to send: it reads nothing until that is written.
        loop {
            connection.write_all(&[0; 64 * 1024]).await?;
        }
        #[expect(unreachable_code, reason = "tells the type")]
        Ok::<(), std::io::Error>(())
    });
    let mut peer = soon(dialling).await.unwrap().unwrap();
    peer.shutdown().await.unwrap();
    assert_eq!(soon(handle.ended()).await, Ending::PeerClosed);
    // And the connection does not outlive its end, although the peer still does not read.
    soon(listening.connections.drained()).await;
    assert!(soon(served).await.unwrap().is_err());
}

#[tokio::test]
async fn broken_tls_on_an_open_connection_is_not_the_peers_end() {
    let (listening, peer, served) = open().await;
    let (mut socket, _) = peer.into_inner();
    // A record of application data that nobody has encrypted with the right key.
    let mut forged = vec![0x17, 3, 3, 0, 64];
    forged.extend([7; 64]);
    socket.write_all(&forged).await.unwrap();
    assert_eq!(soon(served.handle.ended()).await, Ending::Local);
    assert!(!served.handle.peer_ended_stream(None));
    assert!(soon(served.reading).await.unwrap().is_err());
    soon(listening.connections.drained()).await;
    // It is not a handshake that failed.
    let totals = listening.connections.totals();
    assert_eq!(totals.tls_failures.get(), 0);
}

#[tokio::test]
async fn a_kill_wakes_whoever_waits_for_a_handshake_or_for_a_word() {
    let (_listening, mut peer, served) = open().await;
    served.handle.kill();
    assert!(soon(served.reading).await.unwrap().is_err());
    assert_eq!(served.handle.ending(), Some(Ending::Local));
    let read = soon(peer.read(&mut [0])).await;
    assert!(read.is_err(), "{read:?}");

    let authority = Authority::new("servers");
    let mut listening = Listening::with(&authority.server().issue().flags()).await;
    let mut silent = TcpStream::connect(listening.address).await.unwrap();
    let served = serve(listening.next().await);
    assert_eq!(listening.connections.len(), 1, "handshakes count");
    tokio::task::yield_now().await;
    served.handle.kill();
    assert!(soon(served.reading).await.unwrap().is_err());
    let read = soon(silent.read(&mut [0])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    soon(listening.connections.drained()).await;
    assert_eq!(listening.connections.totals().tls_failures.get(), 0);
}

#[tokio::test]
async fn a_handshake_that_stalls_is_ended_in_time_and_holds_up_nobody() {
    let authority = Authority::new("servers");
    let mut flags = authority.server().issue().flags().to_vec();
    flags.push(format!(
        "--handshake-timeout={}ms",
        HANDSHAKE_TIMEOUT.as_millis()
    ));
    let mut listening = Listening::with(&flags).await;
    let mut stalled = Vec::new();
    // Nothing; a part of a hello; and a handshake of TLS after which HTTP/2 says nothing, or not enough.
    for said in [&b""[..], &[0x16, 3, 1, 2, 0, 1]] {
        let mut peer = TcpStream::connect(listening.address).await.unwrap();
        peer.write_all(said).await.unwrap();
        let served = serve(listening.next().await);
        stalled.push((served, Box::new(peer) as Box<dyn Send>));
    }
    for said in [&b""[..], &HTTP2[..32]] {
        let (mut peer, served) = listening.pair(plain_client(&authority)).await;
        peer.write_all(said).await.unwrap();
        peer.flush().await.unwrap();
        stalled.push((served, Box::new(peer)));
    }
    let (mut peer, good) = listening.pair(plain_client(&authority)).await;
    peer.write_all(HTTP2).await.unwrap();
    peer.flush().await.unwrap();
    for (served, _peer) in &mut stalled {
        assert_eq!(soon(served.handle.ended()).await, Ending::Local);
        assert!(soon(&mut served.reading).await.unwrap().is_err());
    }
    let totals = listening.connections.totals();
    assert_eq!(totals.handshake_timeouts.get(), 4);
    assert_eq!(totals.tls_failures.get(), 0);
    assert_eq!(good.handle.ending(), None);
}
