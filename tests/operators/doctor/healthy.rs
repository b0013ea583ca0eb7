//! Healthy deployments of each topology, with two coordinators, a holder and a waiter: nothing is found.

use std::time::Duration;

use leasehold_tests::{Cluster, Coordinator, Masters, RawSession, RedisServer, Replicas};

use super::site::{durable, endpoints, guarded, two, until};

const TTL: Duration = Duration::from_secs(10);
const KEEP: Duration = Duration::from_secs(1);

async fn is_healthy(store: &str, arguments: &[&str]) {
    let coordinators = two(store, arguments);
    let [a, b] = coordinators.each_ref().map(|one| one.endpoint());
    let mut holder = RawSession::open(&a, TTL).await;
    holder.keep_alive(KEEP);
    holder.acquire("doctor").await;
    let mut waiter = RawSession::open(&b, TTL).await;
    waiter.keep_alive(KEEP);
    waiter.ask("doctor", None).await;
    // Replicas are in step within a second, and all masters have their votes soon.
    let told = until(&endpoints(&coordinators), Some(store), &[]);
    assert_eq!(told.code, 0);
    assert_eq!(told.document["coordinators"].as_array().unwrap().len(), 2);
}

#[test]
fn memory() {
    let coordinator = Coordinator::in_process();
    for store in [None, Some("memory:")] {
        let told = until(&coordinator.endpoint(), store, &[]);
        assert_eq!(told.code, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server() {
    let redis = durable().password("secret").start();
    is_healthy(&redis.url(), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_with_replicas_that_acknowledge() {
    let redis = Replicas::start_with(durable(), 1, None);
    is_healthy(&redis.server(0).url(), &["--min-replicas", "1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels() {
    let redis = guarded()
        .redis_password("one")
        .sentinel_password("two")
        .start();
    is_healthy(&redis.url(), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster() {
    let options = RedisServer::options()
        .password("secret")
        .arguments(["--cluster-require-full-coverage", "no"])
        .arguments(["--appendonly", "yes"]);
    let redis = Cluster::start_with(options);
    is_healthy(&redis.url(), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum() {
    let redis = Masters::start_with(&durable(), 3).bootstrapped();
    let store = format!("redis+quorum://{}?durable=true", redis.hosts());
    is_healthy(&store, &[]).await;
}
