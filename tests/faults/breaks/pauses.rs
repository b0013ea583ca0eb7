//! A coordinator or its Redis pauses, and goes on.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{LostReason, session_response::Response};
use leasehold_tests::{Coordinator, RawSession, RedisServer, raw::PROMPT, report};

/// Longest time to make up for a delay.
const AT_ONCE: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_a_coordinator_that_paused_for_more_than_their_ttl_live_on() {
    const TTL: Duration = Duration::from_secs(2);
    const SESSIONS: usize = 40;
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
        session.keep_alive(TTL / 5);
        let granted = session.acquire(&format!("paused/{number}")).await;
        sessions.push((session, granted.lock));
    }
    let began = Instant::now();
    coordinator.stop();
    tokio::time::sleep_until((began + TTL + TTL / 2).into()).await;
    coordinator.cont();
    for (session, lock) in &mut sessions {
        // The lease ran out in Redis, and is never taken again by itself.
        match session.unasked(PROMPT).await {
            Response::Lost(lost) => {
                assert_eq!(lost.locks.len(), 1, "{lost:?}");
                assert_eq!(lost.locks[0].name, lock.name);
                let reason = lost.locks[0].reason();
                let expected = [LostReason::Expired, LostReason::Deleted];
                assert!(expected.contains(&reason), "{reason:?}");
            }
            other => panic!("{other:?}"),
        }
        session.heartbeat().await;
        let again = session.acquire(&lock.name).await;
        assert!(again.lock.fencing_token > lock.fencing_token);
    }
    for (session, _) in sessions {
        session.close().await;
    }
}

#[tokio::test]
async fn when_redis_is_back_the_clients_deadline_moves_at_once() {
    const TTL: Duration = Duration::from_secs(10);
    const AWAY: Duration = Duration::from_millis(4_200);
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let opened = Instant::now();
    let interval = TTL / 3;
    // One now, one after a third, two thirds and a whole TTL.
    session.keep_alive(interval);
    let granted = session.acquire("away").await;

    tokio::time::sleep_until((opened + Duration::from_secs(3)).into()).await;
    redis.stop();
    tokio::time::sleep_until((opened + Duration::from_secs(3) + AWAY).into()).await;
    redis.cont();
    let back = Instant::now();
    // The last heartbeat was sent two thirds of a TTL after the first. Less a margin for clocks and lateness.
    let wanted = opened + 2 * interval + TTL - TTL / 20;
    assert!(session.good_until() < Some(wanted));
    let next = opened + 3 * interval;
    while session.good_until() < Some(wanted) {
        let left = (back + AT_ONCE).saturating_duration_since(Instant::now());
        let message = session.next(left).await.expect("the stream is up");
        let message = message.expect("the stream is up");
        let heartbeat = matches!(message.response, Some(Response::Heartbeat(_)));
        assert!(heartbeat, "{message:?}");
    }
    let took = back.elapsed();
    assert!(Instant::now() < next, "another heartbeat came in between");
    report(format!("the deadline moved {took:?} after Redis was back"));
    assert!(session.release(&granted.lock).await);
}
