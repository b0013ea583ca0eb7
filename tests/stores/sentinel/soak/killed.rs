//! Kill of the master under held locks and load.

use std::time::{Duration, Instant};

use leasehold_tests::{Coordinator, Latencies, Sentinels, alone::alone, audit, report};

use super::load::Load;
use crate::sentinel::scene::{BEHIND, failed_over, session};

const SESSIONS: usize = 10;
const HELD: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_is_back_as_soon_as_the_sentinels_have_failed_over() {
    let _alone = alone().await;
    let mut redis = Sentinels::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut holders = Vec::new();
    for number in 0..SESSIONS {
        let mut session = session(&coordinator).await;
        let mut held = Vec::new();
        for lock in 0..HELD / SESSIONS {
            held.push(session.acquire(&format!("held/{number}/{lock}")).await.lock);
        }
        holders.push((session, held));
    }
    redis.redis().wait_in_step(0, 2);
    let load = Load::start(&coordinator).await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    redis.kill_master();
    let killed = Instant::now();
    let new = failed_over(&redis, 0).await;
    let theirs = killed.elapsed();
    tokio::time::sleep(BEHIND).await;
    let seen = load.stop().await;

    let granted = seen.granted.iter().filter(|(began, _)| *began > killed);
    let first = granted.map(|(_, ended)| *ended).min();
    let ours = first.expect("service is back") - killed;
    let tokens = seen.check_tokens();
    let mut failing = Latencies::new("acquires that failed meanwhile");
    for &took in &seen.failed {
        failing.record(took);
    }
    failing.print();
    report(format!(
        "the sentinels failed over in {theirs:?}, service was back after {ours:?}; {tokens} grants, tokens rose"
    ));
    assert!(
        ours <= theirs + BEHIND,
        "{ours:?}, the sentinels {theirs:?}"
    );

    // All that the replicas had is held on, and renewed there.
    for (session, _) in &mut holders {
        session.heartbeat().await;
    }
    let mut connection = redis.redis().server(new).async_connection().await;
    let keys = audit::keys(&mut connection, "lock:held/*").await.unwrap();
    assert_eq!(keys.len(), HELD);
    assert!(keys.values().all(|life| *life > 0), "{keys:?}");
    for (mut session, held) in holders {
        for lock in &held {
            assert!(session.release(lock).await, "{}", lock.name);
        }
        let unasked = session.unread_unasked();
        assert!(unasked.is_empty(), "something was lost: {unasked:?}");
    }
}
