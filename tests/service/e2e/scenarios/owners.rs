//! Rows 3, 4 and 6: the owner of the lock that a release deletes.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, lock_service_client::LockServiceClient};
use leasehold_tests::{RawSession, raw, wait};
use rand::{Rng, SeedableRng, rngs::StdRng};
use redis::AsyncCommands;

use super::{give_back, on_redis, set_nx_px, set_when_free, take, value};

#[tokio::test]
async fn row_03_and_04_a_late_release_deletes_somebody_elses_lock_without_an_owner() {
    let (_server, coordinator, mut redis) = on_redis().await;

    // The schemes: the first holder comes too late, and what it deletes is the second one's.
    let theirs = "SET NX PX with a constant";
    assert!(set_nx_px(&mut redis, theirs, "locked", 30).await);
    set_when_free(&redis, theirs, "locked", 60_000).await;
    let deleted: bool = redis.del(theirs).await.unwrap();
    assert!(deleted, "the second holder's lock");

    // Ours: each acquisition has its own owner id, and only that releases it.
    let mut client = LockServiceClient::new(coordinator.channel().await);
    let name = "rows 3 and 4";
    let first = take(&mut client, name, Duration::from_secs(1)).await;
    assert_eq!(first.outcome(), AcquireOutcome::Granted);
    let second = wait::until("our lock to end", raw::PROMPT, || {
        let mut client = client.clone();
        async move {
            let response = take(&mut client, name, Duration::from_secs(60)).await;
            match response.outcome() {
                AcquireOutcome::Granted => Ok(response),
                other => Err(other),
            }
        }
    })
    .await;
    assert_ne!(first.owner_id, second.owner_id);
    assert!(second.fencing_token > first.fencing_token);
    let kept = value(&mut redis, "lock:rows 3 and 4").await;
    assert!(!give_back(&mut client, name, &first.owner_id).await);
    assert_eq!(value(&mut redis, "lock:rows 3 and 4").await, kept);
    assert!(give_back(&mut client, name, &second.owner_id).await);
    assert!(
        !give_back(&mut client, name, &second.owner_id).await,
        "released twice"
    );
    assert_eq!(value(&mut redis, "lock:rows 3 and 4").await, None);
    let third = take(&mut client, name, Duration::from_secs(60)).await;
    assert_ne!(third.owner_id, second.owner_id);
    assert_ne!(third.owner_id, first.owner_id);
}

#[tokio::test]
async fn row_06_get_compare_del_in_two_steps_can_delete_somebody_elses_lock_and_ours_is_one_step() {
    let (_server, coordinator, mut redis) = on_redis().await;

    // The scheme: the lock ends, and is taken by another, between the two steps.
    let theirs = "GET, compare, DEL";
    assert!(set_nx_px(&mut redis, theirs, "first", 60_000).await);
    let mine = value(&mut redis, theirs).await;
    assert_eq!(mine.as_deref(), Some(&b"first"[..]));
    let (): () = redis.pexpire(theirs, 1).await.unwrap();
    set_when_free(&redis, theirs, "second", 60_000).await;
    let deleted: bool = redis.del(theirs).await.unwrap();
    assert!(deleted, "the second holder's lock");

    // Ours: fifty holders release just as their time runs out, while another waits for each lock.
    let ttl = Duration::from_secs(1);
    let mut client = LockServiceClient::new(coordinator.channel().await);
    let mut next = RawSession::open(&coordinator.endpoint(), Duration::from_secs(30)).await;
    next.keep_alive(Duration::from_secs(5));
    let mut random = StdRng::seed_from_u64(6);
    let mut late = Vec::new();
    let mut asked = Vec::new();
    for number in 0..50 {
        let name = format!("row 6/{number}");
        let granted = Instant::now();
        let held = take(&mut client, &name, ttl).await;
        assert_eq!(held.outcome(), AcquireOutcome::Granted);
        let id = next.ask(&name, None).await;
        next.queued(id).await;
        asked.push((name.clone(), id, held.fencing_token));
        let mut client = client.clone();
        let jitter = Duration::from_micros(random.random_range(0..40_000));
        late.push(tokio::spawn(async move {
            let due = granted + ttl + jitter - Duration::from_millis(20);
            tokio::time::sleep_until(due.into()).await;
            give_back(&mut client, &name, &held.owner_id).await
        }));
    }
    for task in late {
        // In time or too late, as it may be.
        task.await.unwrap();
    }
    for (name, id, token) in asked {
        let granted = next.granted(id, raw::PROMPT).await;
        assert!(granted.lock.fencing_token > token, "{name}");
        assert!(
            next.release(&granted.lock).await,
            "{name} was deleted under its second holder"
        );
    }
}
