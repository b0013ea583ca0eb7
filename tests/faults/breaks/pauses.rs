//! A coordinator that pauses for longer than the TTL of its sessions, and goes on.

use std::time::Duration;

use leasehold_proto::v1::{LostReason, session_response::Response};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, resume_hold},
    wait::until,
};
use redis::AsyncCommands;

const TTL: Duration = Duration::from_secs(6);
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
    // The others run out as well, each in its own time.
    let mut redis = site.plain().await;
    for (_, held, _) in sessions.iter().filter(|(.., wanted)| wanted.is_none()) {
        let key = format!("lock:{}", held.name);
        until("its end", PROMPT, async || {
            match redis.clone().exists(&key).await {
                Ok(false) => Ok(()),
                other => Err(other),
            }
        })
        .await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_goes_on_counts_what_its_clients_have_lost_and_not_what_they_have_resumed()
 {
    let site = Site::redis(2).await;
    let mut moved = RawSession::open(&site.endpoint(0), TTL).await;
    moved.keep_alive(TTL / 5);
    let mut resumes = Vec::new();
    for number in 0..8 {
        let held = moved.acquire(&format!("moved/{number}")).await.lock;
        resumes.push(resume_hold(&held));
    }
    let mut stuck = RawSession::open(&site.endpoint(0), TTL).await;
    stuck.keep_alive(TTL / 5);
    stuck.acquire("stuck").await;
    site.at(0).stop();
    let (mut next, resumed) = RawSession::resume(&site.endpoint(1), TTL, resumes).await;
    next.keep_alive(TTL / 5);
    assert_eq!(resumed.resumed.len(), 8);
    let redis = site.plain().await;
    until("its end", PROMPT, async || {
        match redis.clone().exists("lock:stuck").await {
            Ok(false) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    site.at(0).cont();
    let counted = async || {
        let metrics = site.at(0).metrics().await;
        let left = metrics.sum("leasehold_inflight_cleanups");
        (metrics.sum("leasehold_lost_total"), left)
    };
    until(
        "what was lost to be counted",
        PROMPT,
        async || match counted().await {
            (1.0, 0.0) => Ok(()),
            other => Err(other),
        },
    )
    .await;
    next.close().await;
}
