//! Measures of every store that has servers, over all of them.

use leasehold_tests::{
    Cluster, Coordinator, CoordinatorProcess, Masters, RawSession, Sentinels, coordinator::Metrics,
    raw::exclusive,
};

use crate::observability::work::TTL;

/// Takes locks of many names at a coordinator and gives them back; gives its metrics then.
async fn used(coordinator: &CoordinatorProcess) -> Metrics {
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    for number in 0..8 {
        let lock = session.take_one(exclusive(&format!("lock {number}"))).await;
        assert!(session.release(&lock).await);
    }
    session.close().await;
    coordinator.metrics().await
}

fn calls(metrics: &Metrics, script: &str) -> f64 {
    let label = format!("script=\"{script}\"");
    metrics.of("leasehold_store_script_seconds_count", &[&label])
}

#[tokio::test]
async fn behind_sentinels() {
    let site = Sentinels::start();
    let coordinator = Coordinator::process().store(site.url()).start();
    let metrics = used(&coordinator).await;
    assert!(calls(&metrics, "acquire") >= 8.0);
    assert!(calls(&metrics, "release") >= 8.0);
}

#[tokio::test]
async fn on_a_cluster() {
    let cluster = Cluster::start();
    let coordinator = Coordinator::process().store(cluster.url()).start();
    let metrics = used(&coordinator).await;
    assert!(calls(&metrics, "acquire") >= 8.0);
    assert!(calls(&metrics, "release") >= 8.0);
}

#[tokio::test]
async fn on_several_masters_each_one_counts() {
    let masters = Masters::start(3).bootstrapped();
    let coordinator = Coordinator::process()
        .store(format!("redis+quorum://{}", masters.hosts()))
        .start();
    let metrics = used(&coordinator).await;
    // A majority at least was asked for each.
    assert!(calls(&metrics, "propose") >= 16.0);
    assert!(calls(&metrics, "write_back") >= 16.0);
    assert!(calls(&metrics, "agree") >= 3.0);
    assert_eq!(calls(&metrics, "acquire"), 0.0);
    assert!(metrics.sum("leasehold_store_batch_size_count") >= 16.0);
}
