//! A coordinator that pauses for longer than the TTL of its sessions, and goes on.

use std::time::Duration;

use leasehold_proto::v1::{LostReason, session_response::Response};
use leasehold_tests::{RawSession, Site, raw::PROMPT};
use redis::AsyncCommands;

const TTL: Duration = Duration::from_secs(2);
const SESSIONS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_goes_on_after_its_leases_ended_leaves_their_successors_alone() {
    let site = Site::redis(2).await;
    let mut next = site.session(1).await;
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let mut session = RawSession::open(&site.endpoint(0), TTL).await;
        session.keep_alive(TTL / 5);
        let held = session.acquire(&format!("paused/{number}")).await.lock;
        // Every other one is wanted elsewhere.
        let wanted = match number % 2 {
            0 => Some(next.ask(&held.name, None).await),
            _ => None,
        };
        if let Some(id) = wanted {
            next.queued(id).await;
        }
        sessions.push((session, held, wanted));
    }
    site.at(0).stop();
    let mut successors = Vec::new();
    for id in sessions.iter().filter_map(|(.., wanted)| *wanted) {
        successors.push(next.granted(id, PROMPT).await.lock);
    }
    site.at(0).cont();
    for (session, held, wanted) in &mut sessions {
        // It may not have looked yet; when it has, it says so. What ran out in Redis is never taken again by itself.
        let Response::Lost(lost) = session.unasked(PROMPT).await else {
            panic!("something else than a loss");
        };
        assert_eq!(lost.locks.len(), 1, "{lost:?}");
        assert_eq!(lost.locks[0].owner_id, held.owner_id);
        let expected = match wanted {
            Some(_) => [LostReason::Expired, LostReason::Taken],
            None => [LostReason::Expired, LostReason::Deleted],
        };
        assert!(expected.contains(&lost.locks[0].reason()), "{lost:?}");
        assert!(!session.release(held).await);
        // The session goes on.
        session.heartbeat().await;
        if wanted.is_none() {
            let again = session.acquire(&held.name).await.lock;
            assert!(again.fencing_token > held.fencing_token);
        }
    }
    for (session, ..) in sessions {
        session.close().await;
    }
    let mut redis = site.plain().await;
    for lock in &successors {
        let owner: Vec<u8> = redis.get(format!("lock:{}", lock.name)).await.unwrap();
        assert_eq!(owner, lock.owner_id);
    }
    next.heartbeat().await;
    assert!(next.unread_unasked().is_empty());
    for lock in &successors {
        assert!(next.release(lock).await);
    }
    next.close().await;
    site.nothing_is_left().await;
}
