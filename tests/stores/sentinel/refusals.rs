//! Configurations that cannot work, and the messages that name the fault.

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, Sentinels, sentinels::MASTER_NAME, wait,
};

use crate::sentinel::scene::{LIMIT, has, session};

/// Waits until a coordinator says this is why it is not ready.
async fn says(coordinator: &CoordinatorProcess, expected: &str) {
    wait::until("the reason to be told", LIMIT, || async {
        match coordinator.readiness().await {
            Err(reason) if reason.contains(expected) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

fn start(url: String) -> CoordinatorProcess {
    Coordinator::process().store(url).start_unready()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_kept_apart_and_wrong_ones_are_named() {
    let redis = Sentinels::options()
        .redis_password("for-redis")
        .sentinel_password("for-sentinels")
        .start();
    let right = redis.url();
    let coordinator = Coordinator::process().store(right.clone()).start();
    session(&coordinator).await.acquire("name").await;

    for (wrong, expected) in [
        (
            right.replace("for-redis", "hunter2"),
            "refused the user or password; correct them in the store URL",
        ),
        (right.replace(":for-redis@", ""), "wants a password"),
        (
            right.replace("for-sentinels", "hunter2"),
            "refused the user or password; correct them as sentinel-user and sentinel-password in the store URL",
        ),
        (
            right.replace("?sentinel-password=for-sentinels", ""),
            "wants a password; add it, and the user if there is one, as sentinel-user and sentinel-password",
        ),
    ] {
        let refused = start(wrong);
        says(&refused, expected).await;
        let log = refused.log();
        for secret in ["hunter2", "for-redis", "for-sentinels"] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_nobody_knows_is_named() {
    let redis = Sentinels::start();
    let url = redis.url();
    let coordinator = start(url.replace(&format!("/{MASTER_NAME}"), "/nobody"));
    says(
        &coordinator,
        "knows no master named nobody; correct the name in the store URL",
    )
    .await;

    // A Redis server in the list is no sentinel, and the others are believed.
    let hosts = format!(
        "{},{}",
        redis.redis().server(1).address(),
        redis.sentinels()[1].address()
    );
    let coordinator = Coordinator::process()
        .store(redis.url_through(&hosts))
        .start();
    session(&coordinator).await.acquire("name").await;
    let log = coordinator.log();
    assert!(
        log.contains("is no sentinel; list the sentinels in the store URL"),
        "{log}"
    );

    // A sentinel in the place of a Redis server.
    let coordinator = start(redis.sentinels()[0].url());
    says(&coordinator, "is a sentinel, which keeps no locks").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_is_not_taken_for_a_server_that_has_all_locks() {
    let node = RedisServer::options()
        .arguments(["--cluster-enabled", "yes"])
        .start();
    let coordinator = start(node.url());
    says(
        &coordinator,
        "is a node of a cluster, which keeps only a part of the locks",
    )
    .await;
    says(&coordinator, "redis+cluster://host,host,host").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_does_not_exist_is_named_until_another_one_is_told() {
    // Too long for a name, so that nobody needs to be asked for it.
    let nowhere = "x".repeat(64);
    let redis = RedisServer::start();
    // It knows a master by itself and never fails over, so that the test decides its answers.
    let sentinel = RedisServer::options()
        .sentinel(format!(
            "sentinel resolve-hostnames yes\n\
             sentinel announce-hostnames yes\n\
             sentinel monitor m {nowhere} 6379 9\n"
        ))
        .start();
    let coordinator = start(format!("redis+sentinel://{}/m", sentinel.address()));
    let expected = format!("cannot connect to Redis at {nowhere}:6379");
    says(&coordinator, &expected).await;
    let port = redis.address().port().to_string();
    for words in [
        &["REMOVE", "m"][..],
        &["MONITOR", "m", "127.0.0.1", &port, "9"],
    ] {
        let mut command = redis::cmd("SENTINEL");
        command.arg(words).exec(&mut sentinel.connection()).unwrap();
    }
    wait::until("the coordinator to be ready", LIMIT, || {
        coordinator.readiness()
    })
    .await;
    let mut session = session(&coordinator).await;
    session.acquire("name").await;
    assert!(has(&redis, "name").await);
}
