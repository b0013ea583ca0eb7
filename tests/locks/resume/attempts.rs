//! Attempts that are not answered, and messages that get lost: a client that tries again elsewhere finds its holds and places.

use std::time::Duration;

use leasehold_proto::v1::SessionOpen;
use leasehold_tests::{
    Coordinator, CoordinatorProcess, FaultProxy, RawSession, RedisProxy, Site,
    proxy::{Direction, Flow},
    raw::{PROMPT, connect, exclusive, resume_hold, resume_wait, wire},
    redis_proxy::{Call, Loss, WakeUps},
    site::TTL,
    wait,
};

const STORE_TIMEOUT: Duration = Duration::from_millis(750);
const WAIT: u64 = 1_000_000;

/// Returns a coordinator that reaches the site's Redis through something.
fn through(site: &Site, address: std::net::SocketAddr) -> CoordinatorProcess {
    through_within(site, address, STORE_TIMEOUT)
}

fn through_within(
    site: &Site,
    address: std::net::SocketAddr,
    store_timeout: Duration,
) -> CoordinatorProcess {
    Coordinator::process()
        .store(site.server().url_through(address))
        .arguments([
            "--store-timeout",
            &format!("{}ms", store_timeout.as_millis()),
        ])
        .start()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_whose_reply_redis_lost_is_carried_out_once() {
    for loss in [Loss::ReplyCut, Loss::RequestCut, Loss::ReplyHeld] {
        let site = Site::redis(1).await;
        let proxy = RedisProxy::start(site.server().address()).await;
        // A connection that falls silent is noticed a second after that: it is tried again for twice as long.
        let coordinator = through_within(&site, proxy.address(), Duration::from_secs(2));
        let mut old = site.session(0).await;
        let held = old.take_one(exclusive("held")).await;
        let mut holder = site.session(0).await;
        let waited = holder.take_one(exclusive("waited")).await;
        let id = old.ask_for(exclusive("waited")).await;
        let ticket = old.ticket(id).await.ticket;
        let resume = vec![resume_hold(&held), resume_wait("waited", &ticket, WAIT)];
        // Whatever else is in the same call.
        proxy.lose(Call::With(resume[0].next_owner_id.clone()), loss);
        let (mut new, resumed) = RawSession::resume(&coordinator.endpoint(), TTL, resume).await;
        new.keep_alive(TTL / 5);
        assert!(proxy.counts().lost > 0);
        assert_eq!(resumed.refused, [], "{loss:?}");
        assert_eq!(resumed.places()["waited"], 1);
        assert_eq!(resumed.holds()["held"].fencing_token, held.fencing_token);
        assert!(holder.release(&waited).await);
        let granted = new.granted(WAIT, PROMPT).await;
        assert!(new.release(&granted.lock).await);
        assert!(new.release(&resumed.holds()["held"]).await);
        for session in [old, holder, new] {
            session.close().await;
        }
        drop(coordinator);
        site.nothing_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_before_it_is_answered_leaves_nothing() {
    let site = Site::redis(1).await;
    let proxy = FaultProxy::start(site.server().address()).await;
    let slow = through(&site, proxy.address());
    let mut old = site.session(0).await;
    let held = old.take_one(exclusive("held")).await;
    let mut waiter = site.session(0).await;
    let id = waiter.wait_for(exclusive("held")).await;
    proxy.set_flow(Direction::ToClient, Flow::Hold);
    let mut gone = RawSession::stream(connect(&slow.endpoint()).await)
        .await
        .unwrap();
    let open = SessionOpen {
        ttl: wire(TTL),
        resume: vec![resume_hold(&held)],
        ..SessionOpen::default()
    };
    gone.ask_open(open).await;
    // It has been carried out: the old stream holds nothing any more.
    site.gauge(0, "leasehold_holds", 0.0).await;
    drop(gone);
    proxy.forward();
    let granted = waiter.granted(id, PROMPT).await;
    assert!(waiter.release(&granted.lock).await);
    waiter.close().await;
    old.close().await;
    drop(slow);
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_was_not_told_finds_out_and_says_nothing() {
    let site = Site::redis(1).await;
    let proxy = RedisProxy::start(site.server().address()).await;
    let deaf = through(&site, proxy.address());
    proxy.set_wake_ups(WakeUps::Drop);
    let mut holder = site.session(0).await;
    let waited = holder.take_one(exclusive("waited")).await;
    let mut old = RawSession::open(&deaf.endpoint(), TTL).await;
    let held = old.take_one(exclusive("held")).await;
    let id = old.ask_for(exclusive("waited")).await;
    let ticket = old.ticket(id).await.ticket;
    let resume = vec![resume_hold(&held), resume_wait("waited", &ticket, WAIT)];
    let (mut new, resumed) = RawSession::resume(&site.endpoint(0), TTL, resume).await;
    new.keep_alive(TTL / 5);
    let at = |name: &'static str| {
        let deaf = &deaf;
        async move { deaf.metrics().await.find(name).unwrap_or(0.0) }
    };
    assert_eq!(at("leasehold_holds").await, 1.0);
    // The next refresh finds that its waiter has moved.
    wait::until("the waiter to be forgotten", PROMPT, || async {
        let waiters = at("leasehold_waiters").await;
        if waiters == 0.0 { Ok(()) } else { Err(waiters) }
    })
    .await;
    // The next renewal finds that its hold has moved, and the heartbeat is good all the same.
    tokio::time::sleep(TTL / 4).await;
    old.heartbeat().await;
    assert_eq!(at("leasehold_holds").await, 0.0);
    assert_eq!(at("leasehold_lost_total").await, 0.0);
    // It was told so before the heartbeat was acknowledged, which is good for the rest.
    assert_eq!(
        old.resumed_elsewhere(),
        std::slice::from_ref(&held.owner_id)
    );
    assert!(old.unread_but_resumed().is_empty());
    assert!(holder.release(&waited).await);
    let granted = new.granted(WAIT, PROMPT).await;
    assert_eq!(granted.lock.name, "waited");
    assert!(new.release(&resumed.holds()["held"]).await);
    for session in [old, holder, new] {
        session.close().await;
    }
    drop(deaf);
    site.nothing_is_left().await;
}
