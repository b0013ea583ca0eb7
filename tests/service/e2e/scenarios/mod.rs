//! Schemes of hand-written locks: the flaw of each, and the answer of Leasehold. The names of the tests begin with the scheme's
//! row in the documentation's table.

mod expiry;
mod foreign;
mod loss;
mod owners;

use std::time::Duration;

use leasehold_proto::v1::{AcquireResponse, lock_service_client::LockServiceClient};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer,
    raw::{PROMPT, acquire_request, release_request, wire},
    wait,
};
use redis::{AsyncCommands, aio::MultiplexedConnection};
use tonic::transport::Channel;

const TTL: Duration = Duration::from_secs(2);

async fn on_redis() -> (RedisServer, CoordinatorProcess, MultiplexedConnection) {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let connection = redis.async_connection().await;
    (redis, coordinator, connection)
}

/// Takes a lock by the unary call.
async fn take(
    client: &mut LockServiceClient<Channel>,
    name: &str,
    ttl: Duration,
) -> AcquireResponse {
    let mut request = acquire_request(name);
    request.ttl = wire(ttl);
    client.acquire(request).await.unwrap().into_inner()
}

async fn give_back(client: &mut LockServiceClient<Channel>, name: &str, owner_id: &[u8]) -> bool {
    let released = client.release(release_request(name, owner_id)).await;
    released.unwrap().into_inner().released
}

async fn value(redis: &mut MultiplexedConnection, key: &str) -> Option<Vec<u8>> {
    redis.get(key).await.unwrap()
}

async fn life(redis: &mut MultiplexedConnection, key: &str) -> i64 {
    redis.pttl(key).await.unwrap()
}

/// Takes a lock as hand-written lockers do; false if it is taken.
async fn set_nx_px(redis: &mut MultiplexedConnection, key: &str, value: &str, millis: u64) -> bool {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(value).arg("NX").arg("PX").arg(millis);
    let answer: Option<String> = set.query_async(redis).await.unwrap();
    answer.is_some()
}

/// Does the same once it is free.
async fn set_when_free(redis: &MultiplexedConnection, key: &str, value: &str, millis: u64) {
    wait::until("their lock to end", PROMPT, || async {
        let is_set = set_nx_px(&mut redis.clone(), key, value, millis).await;
        is_set.then_some(()).ok_or("still locked")
    })
    .await;
}
