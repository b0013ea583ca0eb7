//! Rows 7 and 10: locks that end while the work runs.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{LostReason, lock_service_client::LockServiceClient};
use leasehold_tests::{FencedResource, RawSession, raw::PROMPT};
use redis::AsyncCommands;

use super::{TTL, life, on_redis, take, value};

#[tokio::test]
async fn row_07_a_lock_that_ends_while_the_work_runs_is_renewed_and_otherwise_fenced() {
    let (_server, coordinator, mut redis) = on_redis().await;
    let resource = FencedResource::new("row 7/resource");

    // Without renewal two work at once; the token keeps the late one out.
    let mut client = LockServiceClient::new(coordinator.channel().await);
    let slow = take(&mut client, "row 7/unary", Duration::from_secs(1)).await;
    assert!(
        resource
            .write(&mut redis, slow.fencing_token, "slow, in time")
            .await
            .unwrap()
    );
    let mut other = RawSession::open(&coordinator.endpoint(), TTL).await;
    let id = other.ask("row 7/unary", None).await;
    let next = other.granted(id, PROMPT).await;
    assert!(
        resource
            .write(&mut redis, next.lock.fencing_token, "next")
            .await
            .unwrap()
    );
    assert!(
        !resource
            .write(&mut redis, slow.fencing_token, "slow, too late")
            .await
            .unwrap()
    );
    assert_eq!(
        resource.values(&mut redis).await.unwrap(),
        ["slow, in time", "next"]
    );

    // A session's locks are renewed for as long as it lives: here for twice its TTL.
    let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
    holder.keep_alive(Duration::from_millis(400));
    let held = holder.acquire("row 7/session").await;
    other.keep_alive(Duration::from_millis(400));
    let waiting = other.ask("row 7/session", None).await;
    other.queued(waiting).await;
    let until = Instant::now() + 2 * TTL;
    let owner = value(&mut redis, "lock:row 7/session").await;
    assert!(owner.is_some());
    while Instant::now() < until {
        assert_eq!(value(&mut redis, "lock:row 7/session").await, owner);
        assert!(life(&mut redis, "lock:row 7/session").await > 0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(holder.release(&held.lock).await);
    let next = other.granted(waiting, PROMPT).await;
    assert!(next.lock.fencing_token > held.lock.fencing_token);
}

#[tokio::test]
async fn row_10_a_blind_del_is_found_at_the_next_renewal_and_never_undone() {
    let (_server, coordinator, mut redis) = on_redis().await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.keep_alive(Duration::from_millis(400));
    let deleted = session.acquire("row 10/deleted").await;
    let taken = session.acquire("row 10/taken").await;
    let kept = session.acquire("row 10/kept").await;

    let _: () = redis.del("lock:row 10/deleted").await.unwrap();
    let taken_key = "lock:row 10/taken";
    let _: () = redis
        .pset_ex(taken_key, "somebody else", 60_000)
        .await
        .unwrap();
    let mut reasons = Vec::new();
    while reasons.len() < 2 {
        for lost in session.lost(PROMPT).await {
            reasons.push((lost.name.clone(), lost.owner_id.clone(), lost.reason()));
        }
    }
    reasons.sort();
    assert_eq!(
        reasons,
        [
            (
                "row 10/deleted".to_owned(),
                deleted.lock.owner_id.clone(),
                LostReason::Deleted
            ),
            (
                "row 10/taken".to_owned(),
                taken.lock.owner_id.clone(),
                LostReason::Taken
            ),
        ]
    );
    let until = Instant::now() + TTL;
    while Instant::now() < until {
        assert_eq!(value(&mut redis, "lock:row 10/deleted").await, None);
        let foreign = value(&mut redis, "lock:row 10/taken").await;
        assert_eq!(foreign.as_deref(), Some(&b"somebody else"[..]));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!session.release(&deleted.lock).await);
    assert!(!session.release(&taken.lock).await);
    let foreign = value(&mut redis, "lock:row 10/taken").await;
    assert_eq!(foreign.as_deref(), Some(&b"somebody else"[..]));
    assert!(session.release(&kept.lock).await);
    let again = session.acquire("row 10/deleted").await;
    assert!(again.lock.fencing_token > deleted.lock.fencing_token);
}
