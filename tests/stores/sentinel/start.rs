//! Sentinels that cannot be reached, at the start and later.

use std::time::Duration;

use leasehold_tests::{Coordinator, Sentinels, wait};

use crate::sentinel::scene::{LIMIT, attempt, session, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_waits_for_its_sentinels() {
    let mut redis = Sentinels::start();
    for index in 0..3 {
        redis.kill_sentinel(index);
    }
    let coordinator = Coordinator::process().store(redis.url()).start_unready();
    let reason = wait::until("the reason to be told", LIMIT, || async {
        let Err(reason) = coordinator.readiness().await else {
            panic!("it is ready without a store");
        };
        let told = "no sentinel tells where the Redis master locks is (3 asked): cannot connect to the sentinel at";
        if reason.contains(told) { Ok(reason) } else { Err(reason) }
    })
    .await;
    let address = redis.sentinels()[0].address().to_string();
    assert!(reason.contains(&address), "{reason}");

    // One is enough.
    redis.restart_sentinel(2);
    wait::until("the coordinator to be ready", LIMIT, || {
        coordinator.readiness()
    })
    .await;
    session(&coordinator).await.acquire("name").await;
    // Each of them was complained of once.
    let log = coordinator.log();
    for sentinel in redis.sentinels() {
        let complaint = format!("the sentinel at {} is down", sentinel.address());
        assert_eq!(log.matches(&complaint).count(), 1, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_sentinels_the_known_master_is_kept() {
    let mut redis = Sentinels::start();
    // One dead and one that hangs from the beginning.
    redis.kill_sentinel(0);
    redis.pause_sentinel(1);
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = session(&coordinator).await;
    session.acquire("with one sentinel").await;
    redis.kill_sentinel(2);
    wait::until(
        "the coordinator to miss the last sentinel",
        LIMIT,
        || async {
            let log = coordinator.log();
            let told = log
                .matches("no sentinel tells of the Redis master locks any more")
                .count();
            if told > 0 { Ok(()) } else { Err(log) }
        },
    )
    .await;
    for number in 0..100 {
        attempt(&mut session, &format!("without/{number}"))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Even over a restart of the master.
    redis.redis_mut().server_mut(0).restart();
    take(&mut session, "after a restart").await;
    let told = coordinator.log();
    let told = told.matches("no sentinel tells of the Redis master locks any more");
    assert_eq!(told.count(), 1);
}
