//! Lost wake-up of a forced release.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    ForceReleaseRequest, LostReason, admin_service_client::AdminServiceClient,
    session_response::Response,
};
use leasehold_tests::{RawSession, redis_proxy::WakeUps, report};

use crate::{PROMPT, SLACK, site::Site};

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
    let forced = Instant::now();
    let mut admin = AdminServiceClient::new(forcing.channel.clone());
    let request = ForceReleaseRequest {
        name: NAME.to_owned(),
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
    let told = forced.elapsed();
    report(format!(
        "a holder whose message was dropped heard of a forced release after {told:?}"
    ));
    assert!(told <= SHORT / 3 + SLACK, "{told:?}");
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
