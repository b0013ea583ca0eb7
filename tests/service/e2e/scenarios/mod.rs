//! Schemes of hand-written locks: the flaw of each, and the answer of Leasehold. The names of the tests begin with the scheme's
//! row in the documentation's table.

mod expiry;
mod foreign;
mod loss;
mod owners;

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireRequest, AcquireResponse, ReleaseRequest, lock_service_client::LockServiceClient,
};
use leasehold_tests::{Coordinator, CoordinatorProcess, RedisServer, raw::wire};
use redis::aio::MultiplexedConnection;
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
    let request = AcquireRequest {
        name: name.to_owned(),
        ttl: wire(ttl),
        ..AcquireRequest::default()
    };
    client.acquire(request).await.unwrap().into_inner()
}

async fn give_back(client: &mut LockServiceClient<Channel>, name: &str, owner_id: &[u8]) -> bool {
    let request = ReleaseRequest {
        name: name.to_owned(),
        owner_id: owner_id.to_vec(),
    };
    client.release(request).await.unwrap().into_inner().released
}

async fn value(redis: &mut MultiplexedConnection, key: &str) -> Option<Vec<u8>> {
    redis::cmd("GET").arg(key).query_async(redis).await.unwrap()
}

async fn life(redis: &mut MultiplexedConnection, key: &str) -> i64 {
    redis::cmd("PTTL")
        .arg(key)
        .query_async(redis)
        .await
        .unwrap()
}
