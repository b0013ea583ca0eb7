//! First contact with a cluster, and the messages if it fails.

use leasehold_store::Status;
use leasehold_tests::{Cluster, RedisServer, cluster::MASTERS, ports::free_port, wait};
use tokio::time::timeout;

use crate::{
    cluster::site::LIMIT,
    store::{options, up},
};

/// Returns the reason for which the store says that it could not connect.
async fn complaint(url: String) -> String {
    let (store, _wake_ups) = leasehold_store::open(options(url, "here")).unwrap();
    let mut status = store.status();
    let tried = status.wait_for(|status| match status {
        Status::Down { reason, .. } => !reason.contains("still connecting"),
        Status::Up { .. } => true,
    });
    let told = timeout(LIMIT, tried).await.unwrap().unwrap().clone();
    match told {
        Status::Down { reason, .. } => reason.to_string(),
        Status::Up { .. } => panic!("it is up"),
    }
}

#[tokio::test]
async fn a_server_that_is_in_no_cluster_is_refused_with_the_scheme_that_it_wants() {
    let redis = RedisServer::start();
    let address = redis.address();
    let told = complaint(format!("redis+cluster://{address}")).await;
    assert!(
        told.contains(&address.to_string()) && told.contains("redis://"),
        "{told}"
    );
}

#[tokio::test]
async fn a_node_that_serves_nothing_and_one_that_is_not_there_are_named() {
    let redis = RedisServer::options()
        .arguments(["--cluster-enabled", "yes"])
        .start();
    let told = complaint(format!("redis+cluster://{}", redis.address())).await;
    assert!(told.contains("serves hash slots"), "{told}");
    let port = free_port();
    let told = complaint(format!("redis+cluster://127.0.0.1:{port}")).await;
    assert!(told.contains(&port.to_string()), "{told}");
}

#[tokio::test]
async fn a_replica_leads_to_the_masters_with_the_password_for_all() {
    let cluster = Cluster::start_with(RedisServer::options().password("hunter2"));
    let (gone, replica) = (free_port(), cluster.node(MASTERS).address());
    let url = format!("redis+cluster://:hunter2@127.0.0.1:{gone},{replica}");
    let (store, _wake_ups) = leasehold_store::open(options(url, "here")).unwrap();
    up(&store, LIMIT).await;
    // It is up with its first master.
    let page = wait::until("each master to be reached", LIMIT, || async {
        store.list("", "", 10).await
    })
    .await
    .unwrap();
    assert!(page.names.is_empty());
    // A page token of a node that is gone leads to the nodes behind it.
    let page = store.list("", "0.0.0.1:1:7", 10).await.unwrap().unwrap();
    assert!(page.names.is_empty());
    let told = complaint(format!("redis+cluster://:wrong@{replica}")).await;
    assert!(
        told.contains("password") && !told.contains("hunter2"),
        "{told}"
    );
}
