//! Lost wake-ups of forced releases.

use std::time::Duration;

use leasehold_proto::v1::{
    ForceReleaseRequest, GetLockRequest, LostReason, admin_service_client::AdminServiceClient,
    force_release_request::Only, session_response::Response,
};
use leasehold_tests::{RawSession, redis_proxy::WakeUps};

use crate::lost_messages::{PROMPT, site::Site};

/// Renewed at every heartbeat, which come three times in it.
const SHORT: Duration = Duration::from_secs(3);
const NAME: &str = "forced";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_whose_message_is_dropped_is_found_by_the_next_renewal() {
    let site = Site::start(2).await;
    let idle = site.idle_keys(NAME).await;
    let [holding, forcing] = &site.places[..] else {
        panic!("two coordinators");
    };
    let mut holder = RawSession::open_on(holding.channel.clone(), SHORT).await;
    let held = holder.acquire(NAME).await;
    let mut waiter = RawSession::open_on(forcing.channel.clone(), 10 * SHORT).await;
    let id = waiter.ask(NAME, None).await;
    assert_eq!(waiter.queued(id).await, 1);
    holder.keep_alive(SHORT / 3);

    holding.proxy.set_wake_ups(WakeUps::Drop);
    let mut admin = AdminServiceClient::new(forcing.channel.clone());
    let request = ForceReleaseRequest {
        name: NAME.to_owned(),
        only: None,
    };
    assert!(
        admin
            .force_release(request)
            .await
            .unwrap()
            .into_inner()
            .released
    );
    let granted = waiter.granted(id, PROMPT).await;
    assert!(granted.lock.fencing_token > held.lock.fencing_token);
    let Response::Lost(lost) = holder.unasked(PROMPT).await else {
        panic!("the holder was told something else");
    };
    assert_eq!(holding.proxy.counts().not_woken, 1);
    let [lock] = &lost.locks[..] else {
        panic!("{lost:?}")
    };
    assert_eq!(lock.owner_id, held.lock.owner_id);
    assert_eq!(lock.reason(), LostReason::Taken);

    assert!(waiter.release(&granted.lock).await);
    assert!(!holder.release(&held.lock).await);
    let last = granted.lock.fencing_token;
    site.nothing_is_left(NAME, &idle, last).await;
    holder.close().await;
    waiter.close().await;
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_wait_whose_message_is_dropped_is_found_by_the_next_refresh() {
    let site = Site::start(2).await;
    let idle = site.idle_keys(NAME).await;
    let [waiting, forcing] = &site.places[..] else {
        panic!("two coordinators");
    };
    let mut holder = RawSession::open_on(forcing.channel.clone(), 10 * SHORT).await;
    let held = holder.acquire(NAME).await;
    // The one that is ended is not the oldest of its coordinator.
    let mut oldest = RawSession::open_on(waiting.channel.clone(), 10 * SHORT).await;
    let first = oldest.ask(NAME, None).await;
    assert_eq!(oldest.queued(first).await, 1);
    let mut waiter = RawSession::open_on(waiting.channel.clone(), 10 * SHORT).await;
    let second = waiter.ask(NAME, None).await;
    assert_eq!(waiter.queued(second).await, 2);

    waiting.proxy.set_wake_ups(WakeUps::Drop);
    let mut admin = AdminServiceClient::new(forcing.channel.clone());
    let name = NAME.to_owned();
    let lock = admin.get_lock(GetLockRequest { name }).await.unwrap();
    let waiters = lock.into_inner().lock.unwrap().waiters;
    let request = ForceReleaseRequest {
        name: NAME.to_owned(),
        only: Some(Only::WaiterNumber(waiters[1].number)),
    };
    let answer = admin.force_release(request).await.unwrap();
    assert!(answer.into_inner().released);
    match waiter.outcome(second, PROMPT).await {
        Response::Error(failure) => assert_eq!(failure.reason, "FORCE_RELEASED"),
        other => panic!("the wait ended with {other:?}"),
    }
    assert_eq!(waiting.proxy.counts().not_woken, 1);

    waiting.proxy.set_wake_ups(WakeUps::Pass);
    assert!(holder.release(&held.lock).await);
    let granted = oldest.granted(first, PROMPT).await;
    assert!(oldest.release(&granted.lock).await);
    let last = granted.lock.fencing_token;
    site.nothing_is_left(NAME, &idle, last).await;
    for session in [holder, oldest, waiter] {
        session.close().await;
    }
    site.end().await;
}
