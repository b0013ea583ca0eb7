//! Renewals that reach Redis late, after their callers gave them up and renewed again.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    AcquireOutcome, GetLockRequest, RenewResponse, admin_service_client::AdminServiceClient,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, FaultProxy, RedisServer,
    proxy::{Cut, Direction, Flow},
    raw::{PROMPT, acquire_request, renew_request, wire},
    wait,
};
use redis::aio::MultiplexedConnection;
use tonic::{Code, Status, transport::Channel};

/// The setting's default.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_secs(1);
const GRANTED: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

/// Takes the lock, and returns the owner id.
async fn take(client: &mut LockServiceClient<Channel>) -> Vec<u8> {
    let mut request = acquire_request("late");
    request.ttl = wire(GRANTED);
    let granted = client.acquire(request).await.unwrap().into_inner();
    assert_eq!(granted.outcome(), AcquireOutcome::Granted);
    granted.owner_id
}

async fn renew(
    client: &mut LockServiceClient<Channel>,
    owner_id: &[u8],
    ttl: Duration,
) -> Result<RenewResponse, Status> {
    let mut request = renew_request("late", owner_id);
    request.ttl = wire(ttl);
    Ok(client.renew(request).await?.into_inner())
}

async fn info(redis: &mut MultiplexedConnection, section: &str, field: &str) -> u64 {
    let mut info = redis::cmd("INFO");
    info.arg(section);
    let info: String = info.query_async(redis).await.unwrap();
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(field));
    let value = value.and_then(|rest| rest.split(',').next());
    value.map_or(0, |value| value.parse().unwrap())
}

/// Returns for how long the lock's key is kept (ms).
async fn life(redis: &mut MultiplexedConnection) -> i64 {
    let mut life = redis::cmd("PTTL");
    life.arg("lock:late");
    life.query_async(redis).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renew_that_was_given_up_does_not_shorten_what_a_later_one_gave() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let coordinator = Coordinator::process()
        .store(server.url_through(proxy.address()))
        .arguments(["--store-connections", "1"])
        .start();
    let mut redis = server.async_connection().await;
    let mut client = LockServiceClient::new(coordinator.channel().await);
    let owner_id = take(&mut client).await;
    let connected = info(&mut redis, "clients", "connected_clients:").await;

    // On its way, on a connection that has fallen silent; and the one after it on another.
    proxy.black_hole_present();
    let status = renew(&mut client, &owner_id, SHORT).await;
    assert_eq!(status.unwrap_err().code(), Code::Unavailable);
    // What is sent until then is kept behind it, and would make good again what it did.
    let admin = AdminServiceClient::new(coordinator.channel().await);
    wait::until("a new connection to Redis", PROMPT, || {
        let mut admin = admin.clone();
        let name = "late".to_owned();
        async move { admin.get_lock(GetLockRequest { name }).await }
    })
    .await;
    let renewed = renew(&mut client, &owner_id, LONG).await.unwrap();
    assert!(renewed.renewed);

    let calls = "cmdstat_evalsha:calls=";
    let before = info(&mut redis, "commandstats", calls).await;
    proxy.forward();
    wait::until("the old connections to end", PROMPT, || {
        let mut redis = redis.clone();
        async move {
            let now = info(&mut redis, "clients", "connected_clients:").await;
            if now <= connected { Ok(()) } else { Err(now) }
        }
    })
    .await;
    let late = info(&mut redis, "commandstats", calls).await - before;
    assert!(late > 0, "nothing came late");
    let life = life(&mut redis).await;
    let least = i64::try_from((LONG - PROMPT).as_millis()).unwrap();
    assert!(life > least, "{late} late commands left {life} ms");
}

/// Its command may be on its way, although its connection has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renew_does_not_fail_before_its_command_can_do_nothing_any_more() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let coordinator = Coordinator::process()
        .store(server.url_through(proxy.address()))
        .start();
    let redis = server.async_connection().await;
    let mut client = LockServiceClient::new(coordinator.channel().await);
    let owner_id = take(&mut client).await;

    proxy.set_flow(Direction::ToClient, Flow::Hold);
    let began = Instant::now();
    let renewed = tokio::spawn(async move { renew(&mut client, &owner_id, LONG).await });
    wait::until("the renewal at Redis", PROMPT, || {
        let mut redis = redis.clone();
        async move {
            let life = life(&mut redis).await;
            let granted = i64::try_from(GRANTED.as_millis()).unwrap();
            if life > granted { Ok(()) } else { Err(life) }
        }
    })
    .await;
    proxy.cut(Cut::Rst).await;
    let status = renewed.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(began.elapsed() >= STORE_TIMEOUT, "{:?}", began.elapsed());
}
