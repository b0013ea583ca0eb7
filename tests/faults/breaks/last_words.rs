//! Clients whose last message before they die is a release.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use leasehold_proto::v1::{SessionAcquire, session_request::Request};
use leasehold_tests::{
    Coordinator, FaultProxy, Latencies, RawSession, RedisServer,
    raw::{Granted, PROMPT, wire},
    wait,
};
use redis::aio::MultiplexedConnection;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

const TTL: Duration = Duration::from_secs(30);
const ROUNDS: usize = 20;

/// The connection of a client that dies with its last words on the way: the message that holds `words` is kept back
/// until it is let go, with the end of the connection right behind it.
struct Dying {
    address: SocketAddr,
    words: mpsc::Sender<Vec<u8>>,
    kept: oneshot::Receiver<()>,
    let_go: oneshot::Sender<()>,
}

impl Dying {
    async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (words, last) = mpsc::channel(1);
        let (said, kept) = oneshot::channel();
        let (let_go, gone) = oneshot::channel();
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(upstream).await.unwrap();
            server.set_nodelay(true).unwrap();
            relay(client, server, last, said, gone).await;
        });
        Self {
            address,
            words,
            kept,
            let_go,
        }
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn relay(
    client: TcpStream,
    server: TcpStream,
    mut last: mpsc::Receiver<Vec<u8>>,
    said: oneshot::Sender<()>,
    gone: oneshot::Receiver<()>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut buffer = vec![0; 16 * 1024];
    let mut words = None;
    let mut kept = Vec::new();
    loop {
        let count = from_client.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the client ended before its last words");
        words = words.or_else(|| last.try_recv().ok());
        let Some(words) = &words else {
            to_server.write_all(&buffer[..count]).await.unwrap();
            continue;
        };
        kept.extend_from_slice(&buffer[..count]);
        if kept.windows(words.len()).any(|part| part == words) {
            break;
        }
    }
    said.send(()).ok();
    if gone.await.is_ok() {
        to_server.write_all(&kept).await.unwrap();
        to_server.shutdown().await.unwrap();
    }
}

/// Takes a free lock with a long lock-delay.
async fn take(session: &mut RawSession, name: &str) -> Granted {
    let acquire = SessionAcquire {
        name: name.to_owned(),
        wait: wire(Duration::ZERO),
        lock_delay: wire(TTL),
        ..SessionAcquire::default()
    };
    let id = session.send(Request::Acquire(acquire)).await;
    session.granted(id, PROMPT).await
}

async fn value(redis: &mut MultiplexedConnection, key: &str) -> Option<Vec<u8>> {
    redis::cmd("GET").arg(key).query_async(redis).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_right_before_the_end_of_the_connection_is_a_clean_one() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let address = coordinator.endpoint();
    let address = address.trim_start_matches("http://").parse().unwrap();
    let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
    let mut latencies =
        Latencies::new("from a release with the end of its connection to the grant");
    for round in 0..ROUNDS {
        let name = format!("last/{round}");
        let dying = Dying::start(address).await;
        let mut holder = RawSession::open(&dying.endpoint(), TTL).await;
        let held = take(&mut holder, &name).await;
        let id = waiter.ask(&name, None).await;
        assert_eq!(waiter.queued(id).await, 1);
        dying.words.send(held.lock.owner_id.clone()).await.unwrap();
        holder.ask_release(&held.lock).await;
        dying.kept.await.unwrap();
        // In every other round the coordinator finds both when it looks up, the release and the end.
        let stopped = round.is_multiple_of(2);
        if stopped {
            coordinator.stop();
        }
        dying.let_go.send(()).unwrap();
        if stopped {
            // Both are in its socket when they have been acknowledged; loopback takes microseconds.
            tokio::time::sleep(Duration::from_millis(20)).await;
            coordinator.cont();
        }
        let gone = Instant::now();
        let granted = waiter.granted(id, TTL / 2).await;
        latencies.record(gone.elapsed());
        assert!(granted.lock.fencing_token > held.lock.fencing_token);
        assert!(waiter.release(&granted.lock).await);
    }
    latencies.print();
    assert!(latencies.max() <= Duration::from_secs(1), "{latencies}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_is_finished_though_its_releaser_is_gone_when_redis_answers() {
    let server = RedisServer::start();
    let mut redis = server.async_connection().await;
    let proxy = FaultProxy::start(server.address()).await;
    let coordinator = Coordinator::process()
        .store(server.url_through(proxy.address()))
        .start();
    let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
    let mut latencies = Latencies::new("from the end of a releaser to the grant, Redis 50 ms away");
    for round in 0..ROUNDS {
        let (name, key) = (format!("reply/{round}"), format!("lock:reply/{round}"));
        let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
        let held = take(&mut holder, &name).await;
        let id = waiter.ask(&name, None).await;
        assert_eq!(waiter.queued(id).await, 1);
        proxy.set_delay(Duration::from_millis(50));
        holder.ask_release(&held.lock).await;
        // Redis has handed it on, and its answer is on the way.
        wait::until("the hand-off in Redis", PROMPT, || {
            let (mut redis, key) = (redis.clone(), key.clone());
            let before = held.lock.owner_id.clone();
            async move {
                match value(&mut redis, &key).await {
                    Some(now) if now != before => Ok(()),
                    other => Err(other.is_some()),
                }
            }
        })
        .await;
        let gone = Instant::now();
        drop(holder);
        let granted = waiter.granted(id, TTL / 2).await;
        latencies.record(gone.elapsed());
        assert_eq!(
            value(&mut redis, &key).await.as_ref(),
            Some(&granted.lock.owner_id)
        );
        proxy.set_delay(Duration::ZERO);
        assert!(waiter.release(&granted.lock).await);
    }
    latencies.print();
    assert!(latencies.max() <= Duration::from_millis(300), "{latencies}");
}
