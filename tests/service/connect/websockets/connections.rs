//! Connections under a WebSocket: TLS, proxies that swallow everything, clients that do not read, and coordinators that stop.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use leasehold_tests::{
    Authority, Coordinator, FaultProxy, http::SESSION, proxy::Cut, raw::PROMPT, wait,
};
use serde_json::json;
use tokio::{net::TcpSocket, time::timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::client::{Socket, address, ask, seconds};

const TTL: Duration = Duration::from_secs(3);
/// Time for the answer to a ping, much less than a lease lasts.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between pings, and within which a client must read.
const KEEPALIVE: Duration = Duration::from_millis(300);

fn coordinator() -> Coordinator {
    Coordinator::in_process_with([
        format!("--keepalive-interval={}ms", KEEPALIVE.as_millis()),
        format!("--keepalive-timeout={}ms", PATIENCE.as_millis()),
    ])
}

/// Opens a session over TLS, as a browser does.
async fn over_tls(address: SocketAddr, authority: &Authority) -> Socket {
    let stream = authority.connect_http1(address).await;
    let (mut socket, _) = ask(stream, SESSION, &[]).await.unwrap();
    socket.say_open(json!({"ttl": "30s"})).await;
    socket
}

#[tokio::test]
async fn a_session_over_tls_releases_when_it_is_killed() {
    let authority = Authority::new("servers");
    let flags = authority.server().issue().flags();
    let coordinator = Coordinator::in_process_with(flags);
    let address = address(&coordinator.endpoint());
    let mut holder = over_tls(address, &authority).await;
    let mut waiter = over_tls(address, &authority).await;
    holder.acquire("a").await;
    let id = waiter.queue("a").await;
    // Its socket closes without a word of TLS, as that of a process that is killed.
    drop(holder);
    waiter.granted(&id, "a", PROMPT).await;
}

#[tokio::test]
async fn a_silent_client_is_pinged_and_kept() {
    let coordinator = coordinator();
    let address = address(&coordinator.endpoint());
    let mut session = Socket::open(address, Duration::from_secs(30)).await;
    // The library answers pings as long as it is read.
    let silence = timeout(PATIENCE * 2, session.next(PROMPT)).await;
    assert!(silence.is_err(), "{silence:?}");
    session.acquire("a").await;
}

#[tokio::test]
async fn behind_a_proxy_that_swallows_everything_a_lock_ends_with_its_lease() {
    let coordinator = coordinator();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let mut holder = Socket::open(proxy.address(), TTL).await;
    let direct = address(&coordinator.endpoint());
    let mut waiter = Socket::open(direct, Duration::from_secs(30)).await;
    holder.acquire("a").await;
    let id = waiter.queue("a").await;
    let heard = Instant::now();
    holder.beat().await;
    proxy.black_hole();
    // The connection is given up early, which releases nothing: the client may be alive.
    let silent = wait::until("the end of the connection", PROMPT, || async {
        let metrics = coordinator.metrics().await;
        let silent = metrics.sum("leasehold_connections_silent_total");
        if silent == 1.0 { Ok(()) } else { Err(silent) }
    });
    // Who waits has to be read meanwhile, to answer pings.
    tokio::join!(waiter.granted(&id, "a", PROMPT), silent);
    assert!(heard.elapsed() >= TTL * 9 / 10, "{:?}", heard.elapsed());
}

#[tokio::test]
async fn a_connection_that_a_proxy_ends_is_the_clients_end() {
    for cut in [Cut::Fin, Cut::Rst] {
        let coordinator = Coordinator::in_process();
        let proxy = FaultProxy::before(&coordinator.endpoint()).await;
        let ttl = Duration::from_secs(30);
        let mut holder = Socket::open(proxy.address(), ttl).await;
        let mut waiter = Socket::open(address(&coordinator.endpoint()), ttl).await;
        holder.acquire("a").await;
        let id = waiter.queue("a").await;
        proxy.cut(cut).await;
        waiter.granted(&id, "a", PROMPT).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_and_keeps_its_lock_for_as_long_as_promised() {
    // Long before it counts as silent.
    let keepalive = format!("{}ms", KEEPALIVE.as_millis());
    let flags = ["--keepalive-timeout", &keepalive];
    let coordinator = Coordinator::in_process_with(flags);
    let address = address(&coordinator.endpoint());
    let narrow = TcpSocket::new_v4().unwrap();
    narrow.set_recv_buffer_size(4096).unwrap();
    let narrow = narrow.connect(address).await.unwrap();
    let (mut slow, _) = ask(narrow, SESSION, &[]).await.unwrap();
    let opened = Instant::now();
    slow.say_open(json!({"ttl": seconds(TTL)})).await;
    slow.acquire("a").await;
    let mut waiter = Socket::open(address, Duration::from_secs(30)).await;
    let id = waiter.queue("a").await;
    // It beats until it is cut off, and reads nothing.
    let beats = async {
        for sequence in 1_u64.. {
            let beat = json!({"heartbeat": {"sequence": sequence.to_string()}});
            if slow.try_text(beat.to_string()).await.is_err() {
                break;
            }
        }
    };
    timeout(PROMPT, beats).await.expect("it is cut off");
    waiter.granted(&id, "a", PROMPT).await;
    let kept = opened.elapsed();
    assert!(kept >= TTL * 9 / 10, "{kept:?}");
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_slow_readers_total"), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_drains_says_so_and_goes_away() {
    let start = || {
        let flags = ["--drain-timeout", "500ms"];
        Coordinator::process().arguments(flags).start()
    };
    let coordinator = tokio::task::block_in_place(start);
    let address = address(&coordinator.endpoint());
    let mut session = Socket::open(address, Duration::from_secs(30)).await;
    session.acquire("a").await;
    coordinator.terminate();
    let draining = session.next(PROMPT).await;
    assert!(draining.get("draining").is_some(), "{draining}");
    session
        .fails("unavailable", "DRAINING", CloseCode::Away)
        .await;
}
