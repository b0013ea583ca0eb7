//! A coordinator is stopped, its sessions move to another one, and it goes on.

use std::time::Duration;

use leasehold_proto::v1::{LostReason, session_response::Response};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    raw::{PROMPT, resume_hold, resume_wait},
};
use redis::AsyncCommands;

const TTL: Duration = Duration::from_secs(10);
/// The request id of what is waited for, on the stream that resumes it.
const WAIT: u64 = 1_000_000;
const LIMIT: Duration = Duration::from_secs(20);

async fn session(coordinator: &CoordinatorProcess, ttl: Duration) -> RawSession {
    let mut session = RawSession::open(&coordinator.endpoint(), ttl).await;
    session.keep_alive(ttl / 20);
    session
}

/// Asserts that a stream that was left has been told nothing but that other streams have what it had.
async fn says_nothing_false(old: &mut RawSession) {
    // Everything that was to be said is said before the answer to this.
    old.heartbeat().await;
    old.heartbeat().await;
    for message in old.unread_unasked() {
        let Some(Response::Lost(lost)) = &message.response else {
            panic!("{message:?}");
        };
        let reasons = lost.locks.iter().map(|lock| lock.reason());
        for reason in reasons {
            assert_eq!(reason, LostReason::Resumed, "{lost:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_goes_on_after_its_sessions_moved_hurts_nobody() {
    let redis = RedisServer::start();
    let [stopped, other] = [(); 2].map(|()| Coordinator::process().store(redis.url()).start());
    let mut holder = session(&other, TTL).await;
    let in_the_way = holder.acquire("line").await.lock;
    let mut old = session(&stopped, TTL).await;
    let held = old.acquire("held").await.lock;
    let waiting = old.ask("line", None).await;
    let ticket = old.ticket(waiting).await.ticket;
    // Both are wanted by others, too.
    let mut rival = session(&other, TTL).await;
    let wants_held = rival.ask("held", None).await;
    rival.queued(wants_held).await;
    let wants_line = rival.ask("line", None).await;
    rival.queued(wants_line).await;

    stopped.stop();
    let resume = vec![resume_hold(&held), resume_wait("line", &ticket, WAIT)];
    let (mut new, resumed) = RawSession::resume(&other.endpoint(), TTL, resume).await;
    new.keep_alive(TTL / 20);
    assert_eq!(resumed.refused, []);
    let moved = resumed.holds().remove("held").unwrap();
    assert_eq!(moved.fencing_token, held.fencing_token);
    assert_eq!(resumed.places()["line"], 1);
    stopped.cont();

    // The old stream's heartbeats were sent all the time: they are renewals of what is no longer its own.
    says_nothing_false(&mut old).await;
    let mut connection = redis.async_connection().await;
    let owner: Vec<u8> = connection.get("lock:held").await.unwrap();
    assert_eq!(owner, moved.owner_id);
    // It releases nothing either.
    assert!(!old.release(&held).await);
    old.close().await;
    let owner: Vec<u8> = connection.get("lock:held").await.unwrap();
    assert_eq!(owner, moved.owner_id);
    new.heartbeat().await;
    assert!(new.unread_unasked().is_empty());

    // Who is next is next.
    assert!(holder.release(&in_the_way).await);
    let granted = new.granted(WAIT, LIMIT).await.lock;
    assert!(granted.fencing_token > in_the_way.fencing_token);
    assert!(new.release(&granted).await);
    let next = rival.granted(wants_line, LIMIT).await.lock;
    assert!(next.fencing_token > granted.fencing_token);
    assert!(new.release(&moved).await);
    let next = rival.granted(wants_held, LIMIT).await.lock;
    assert!(next.fencing_token > moved.fencing_token);
    // The one that was stopped serves.
    let mut session = session(&stopped, TTL).await;
    let lock = session.acquire("after").await.lock;
    assert!(session.release(&lock).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_goes_on_after_its_leases_ended_leaves_their_successors_alone() {
    const SHORT: Duration = Duration::from_secs(2);
    let redis = RedisServer::start();
    let [stopped, other] = [(); 2].map(|()| Coordinator::process().store(redis.url()).start());
    let mut old = session(&stopped, SHORT).await;
    let held = old.acquire("held").await.lock;
    let mut next = session(&other, TTL).await;
    let id = next.ask("held", None).await;
    next.queued(id).await;
    stopped.stop();
    let granted = next.granted(id, LIMIT).await.lock;
    assert!(granted.fencing_token > held.fencing_token);
    stopped.cont();
    // It may not have looked yet; when it has, it says so.
    match old.unasked(PROMPT).await {
        Response::Lost(lost) => {
            assert_eq!(lost.locks.len(), 1, "{lost:?}");
            assert_eq!(lost.locks[0].owner_id, held.owner_id);
            let expected = [LostReason::Expired, LostReason::Taken];
            assert!(expected.contains(&lost.locks[0].reason()), "{lost:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!old.release(&held).await);
    old.close().await;
    let mut connection = redis.async_connection().await;
    let owner: Vec<u8> = connection.get("lock:held").await.unwrap();
    assert_eq!(owner, granted.owner_id);
    next.heartbeat().await;
    assert!(next.unread_unasked().is_empty());
    assert!(next.release(&granted).await);
}
