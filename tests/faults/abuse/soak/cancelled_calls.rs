//! Clients that behave badly without any effect on others.

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::stream;
use leasehold_proto::v1::AcquireRequest;
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    alone::alone,
    raw::{PROMPT, connect, wire},
    raw_bytes::RawBytes,
    report, wait,
};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinSet,
};
use tonic::{client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};

const CALLS: u32 = 10_000;
const AT_A_TIME: u32 = 50;
const PATIENCE: Duration = Duration::from_micros(300);

/// Begins an acquire and drops it [`PATIENCE`] after it went out, more exactly than the runtime's timer, whose steps are
/// milliseconds; true if it was dropped.
async fn cancelled(client: &mut Grpc<Channel>, request: &AcquireRequest) -> bool {
    client.ready().await.unwrap();
    let (sent, was_sent) = oneshot::channel();
    let message = request.encode_to_vec();
    // The connection asks for the message once it has sent the headers.
    let body = stream::once(async move {
        sent.send(Instant::now()).ok();
        message
    });
    let method = PathAndQuery::from_static("/leasehold.v1.LockService/Acquire");
    let call = client.streaming(tonic::Request::new(body), method, RawBytes);
    let patience = async {
        let deadline = was_sent.await.unwrap() + PATIENCE;
        while Instant::now() < deadline {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = call => false,
        () = patience => true,
    }
}

/// Calls that wait for a lock that the session holds, and calls for locks that are free.
fn call(number: u32) -> AcquireRequest {
    let name = if number.is_multiple_of(2) {
        "abuse/held".to_owned()
    } else {
        format!("abuse/{}", number % 101)
    };
    AcquireRequest {
        name,
        ttl: wire(Duration::from_secs(1)),
        wait: wire(Duration::from_secs(10)),
        ..AcquireRequest::default()
    }
}

async fn abuse(channel: Channel, next: Arc<AtomicU32>) -> u32 {
    let mut client = Grpc::new(channel);
    let mut dropped = 0;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= CALLS {
            return dropped;
        }
        dropped += u32::from(cancelled(&mut client, &call(number)).await);
    }
}

// One thread for all of it: it never rests, and the coordinator needs a processor too.
#[tokio::test]
async fn ten_thousand_cancelled_calls_leave_the_session_on_their_connection_alive() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let channel = connect(&coordinator.endpoint()).await;
    let mut session = RawSession::open_on(channel.clone(), Duration::from_secs(10)).await;
    session.keep_alive(Duration::from_secs(1));
    let held = session.acquire("abuse/held").await;

    let began = Instant::now();
    let next = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_A_TIME {
        tasks.spawn(abuse(channel.clone(), Arc::clone(&next)));
    }
    let dropped: u32 = tasks.join_all().await.iter().sum();
    let grants = coordinator.metrics().await.sum("leasehold_grants_total");
    report(format!(
        "{dropped} of {CALLS} calls cancelled in {:?}, {grants} after they had been granted",
        began.elapsed()
    ));
    assert!(
        dropped > CALLS / 2,
        "most calls are too fast to be cancelled: {dropped}"
    );

    session.heartbeat().await;
    assert!(
        session.unread_unasked().is_empty(),
        "{:?}",
        session.unread_unasked()
    );
    assert!(session.release(&held.lock).await);
    session.close().await;
    wait::until("what was cancelled to be cleaned up", PROMPT, || async {
        let metrics = coordinator.metrics().await;
        let left = ["leasehold_holds", "leasehold_waiters", "leasehold_sessions"]
            .map(|name| metrics.sum(name));
        if left.iter().sum::<f64>() == 0.0 {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
}

/// Returns the time for which the server leaves open a connection that begins like this.
async fn closed_after(address: String, beginning: &'static [u8]) -> Duration {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    stream.write_all(beginning).await.unwrap();
    let mut answer = Vec::new();
    match tokio::time::timeout(PROMPT, stream.read_to_end(&mut answer)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        Err(_) => panic!("left open after {beginning:?}"),
    }
    began.elapsed()
}

#[tokio::test]
async fn connections_that_do_not_finish_their_handshake_are_closed_at_the_deadline() {
    let _alone = alone().await;
    let deadline = Duration::from_secs(1);
    let coordinator = Coordinator::process()
        .arguments(["--handshake-timeout", "1s"])
        .start();
    let mut session = RawSession::open(&coordinator.endpoint(), Duration::from_secs(10)).await;
    let held = session.acquire("handshake").await;
    let address = coordinator
        .endpoint()
        .trim_start_matches("http://")
        .to_owned();

    let mut connections = JoinSet::new();
    for beginning in [
        &b""[..],
        b"PRI * HT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04",
    ] {
        for _ in 0..20 {
            connections.spawn(closed_after(address.clone(), beginning));
        }
    }
    while let Some(open) = connections.join_next().await {
        let open = open.unwrap();
        assert!(
            open >= deadline - Duration::from_millis(50),
            "closed after {open:?}"
        );
        assert!(
            open <= deadline + Duration::from_secs(1),
            "closed after {open:?}"
        );
    }
    // What did finish stays.
    session.heartbeat().await;
    assert!(session.release(&held.lock).await);
}
