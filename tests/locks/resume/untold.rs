//! Resumes of which the coordinator of the old stream is not told.

use leasehold_tests::{
    Coordinator, RawSession, RedisProxy, Site,
    raw::{PROMPT, exclusive, resume_hold, resume_wait},
    redis_proxy::WakeUps,
    site::TTL,
    wait,
};

const WAIT: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_was_not_told_finds_out_and_says_nothing() {
    let site = Site::redis(1).await;
    let proxy = RedisProxy::start(site.server().address()).await;
    let deaf = Coordinator::process()
        .store(site.server().url_through(proxy.address()))
        .arguments(["--store-timeout=750ms"])
        .start();
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
