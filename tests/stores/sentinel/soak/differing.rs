//! Sentinels that differ, that were set up anew, and that name a host which does not exist. Each of these knows a master by
//! itself and never fails over, so that a test decides its answers.

use std::time::{Duration, Instant};

use leasehold_tests::{Coordinator, RedisServer, alone::alone, wait};

use crate::sentinel::scene::{LIMIT, attempt, has, is_left, session, take};

/// Returns a sentinel that tells this address, from this epoch.
fn sentinel(host: &str, port: u16, epoch: u32) -> RedisServer {
    RedisServer::options()
        .sentinel(format!(
            "sentinel resolve-hostnames yes\n\
             sentinel announce-hostnames yes\n\
             sentinel monitor m {host} {port} 9\n\
             sentinel config-epoch m {epoch}\n"
        ))
        .start()
}

fn of(master: &RedisServer, epoch: u32) -> RedisServer {
    sentinel("127.0.0.1", master.address().port(), epoch)
}

/// Has a sentinel forget what it knows, and tell another address, from epoch 0.
fn set_up_anew(sentinel: &RedisServer, master: &RedisServer) {
    let mut connection = sentinel.connection();
    let mut run = |words: &[&str]| {
        let mut command = redis::cmd("SENTINEL");
        command.arg(words).exec(&mut connection).unwrap();
    };
    let port = master.address().port().to_string();
    run(&["REMOVE", "m"]);
    run(&["MONITOR", "m", "127.0.0.1", &port, "9"]);
}

fn url(sentinels: &[&RedisServer]) -> String {
    let hosts = sentinels
        .iter()
        .map(|sentinel| sentinel.address().to_string());
    format!("redis+sentinel://{}/m", hosts.collect::<Vec<_>>().join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_is_believed_and_a_fail_over_is_not_taken_back_by_those_that_missed_it() {
    let _alone = alone().await;
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let late = of(&old, 4);
    let mut leader = of(&new, 5);
    let coordinator = Coordinator::process().store(url(&[&late, &leader])).start();
    let mut session = session(&coordinator).await;
    session.acquire("first").await;
    assert!(has(&new, "first").await);

    leader.kill();
    let until = Instant::now() + Duration::from_secs(2);
    let mut number = 0;
    while Instant::now() < until {
        number += 1;
        let name = format!("alone/{number}");
        attempt(&mut session, &name).await.unwrap();
        assert!(has(&new, &name).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    leader.restart();
    for sentinel in [&late, &leader] {
        set_up_anew(sentinel, &old);
    }
    is_left(&new).await;
    take(&mut session, "anew").await;
    assert!(has(&old, "anew").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_does_not_exist_is_named_until_another_one_is_told() {
    let _alone = alone().await;
    // Too long for a name, so that nobody needs to be asked for it.
    let nowhere = "x".repeat(64);
    let redis = RedisServer::start();
    let sentinel = sentinel(&nowhere, 6379, 1);
    let coordinator = Coordinator::process()
        .store(url(&[&sentinel]))
        .start_unready();
    let expected = format!("cannot connect to Redis at {nowhere}:6379");
    wait::until("the host to be named", LIMIT, || async {
        match coordinator.readiness().await {
            Err(reason) if reason.contains(&expected) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    set_up_anew(&sentinel, &redis);
    wait::until("the coordinator to be ready", LIMIT, || {
        coordinator.readiness()
    })
    .await;
    let mut session = session(&coordinator).await;
    session.acquire("name").await;
    assert!(has(&redis, "name").await);
}
